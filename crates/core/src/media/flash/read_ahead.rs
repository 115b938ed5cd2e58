//! Reads that follow each other's addresses are fetched before they are asked for.

use std::collections::VecDeque;

use crate::time::Time;

/// Streams of reads that are followed at a time; assumed, drives do not say.
const STREAMS_MAX: usize = 16;

/// Streams of reads, the one that was seen last in front.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    bytes: u64,
    streams: VecDeque<Stream>,
}

/// Reads one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    next: u64,
    /// What has been fetched: up to which address, and when it is there.
    fetched: VecDeque<(u64, Time)>,
    fetched_until: u64,
}

impl ReadAhead {
    /// Fetch so far ahead.
    pub fn new(bytes: u64) -> ReadAhead {
        ReadAhead { bytes, streams: VecDeque::new() }
    }

    /// Nothing has been fetched.
    pub fn forget(&mut self) {
        self.streams.clear();
    }

    /// The stream that a read goes on with; a read that goes on with none may be the first of one.
    pub fn stream(&mut self, offset: u64, bytes: u64) -> Option<Stream> {
        if self.bytes == 0 {
            return None;
        }
        let place = self.streams.iter().position(|stream| stream.next == offset);
        let stream = place.and_then(|place| self.streams.remove(place));
        if stream.is_none() {
            let until = offset + bytes;
            self.keep(Stream { next: until, fetched: VecDeque::new(), fetched_until: until });
        }
        stream
    }

    /// The stream may go on.
    pub fn keep(&mut self, stream: Stream) {
        self.streams.push_front(stream);
        self.streams.truncate(STREAMS_MAX);
    }

    /// How far a stream that has come to `until` fetches.
    pub fn goal(&self, until: u64) -> u64 {
        until + self.bytes
    }
}

impl Stream {
    /// Of a read that goes on with it: up to where it has been fetched, and when that is there.
    pub fn take(&mut self, offset: u64, bytes: u64) -> (u64, Time) {
        let until = offset + bytes;
        let (mut here, mut at) = (offset, Time::ZERO);
        while let Some(&(end, ready)) = self.fetched.front() {
            (here, at) = (end.min(until), at.max(ready));
            if end > until {
                break;
            }
            self.fetched.pop_front();
        }
        self.next = until;
        self.fetched_until = self.fetched_until.max(until);
        (here, at)
    }

    /// Where the next fetch begins.
    pub fn fetched_until(&self) -> u64 {
        self.fetched_until
    }

    /// What lies before `end` is there at some time.
    pub fn fetch(&mut self, end: u64, ready: Time) {
        self.fetched.push_back((end, ready));
        self.fetched_until = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_of_a_stream_is_known_as_such_and_later_ones_find_what_was_fetched() {
        let mut ahead = ReadAhead::new(100);
        assert!(ahead.stream(1000, 10).is_none());
        assert!(ahead.stream(5000, 10).is_none());
        let mut stream = ahead.stream(1010, 10).expect("it goes on");
        assert_eq!(stream.take(1010, 10), (1010, Time::ZERO));
        stream.fetch(1050, Time::from_ps(7));
        ahead.keep(stream);
        let mut stream = ahead.stream(1020, 10).expect("it goes on");
        assert_eq!(stream.take(1020, 10), (1030, Time::from_ps(7)));
        assert_eq!(stream.take(1030, 40), (1050, Time::from_ps(7)));
        assert_eq!(stream.fetched_until(), 1070);
        assert!(ahead.stream(1021, 10).is_none());
    }
}
