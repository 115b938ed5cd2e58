//! Read-ahead of a flash drive: data that sequential reads will need is fetched before it is requested.

use std::collections::VecDeque;

use crate::time::Time;

/// Largest number of sequential read streams that are tracked at a time (assumed; drives do not say).
const STREAMS_MAX: usize = 16;

/// Read-ahead of a drive: number of bytes to fetch ahead, and the sequential streams, the last one seen in front.
#[derive(Clone, Debug)]
pub struct ReadAheadStreams {
    /// Number of bytes to fetch ahead of each sequential read stream; 0 if read-ahead is off.
    bytes: u64,
    streams: VecDeque<SequentialReadStream>,
}

/// Sequential read stream: reads whose addresses follow each other, and the data fetched ahead for them.
#[derive(Clone, Debug, Default)]
pub struct SequentialReadStream {
    /// Address at which the next read of the sequential stream begins: a read at this address continues the stream.
    next: u64,
    /// Data fetched ahead, in address order: the address up to which each fetch reaches, and the time at which it is in
    /// the controller.
    fetched: VecDeque<(u64, Time)>,
    /// Address up to which data has been fetched for the stream; the next fetch begins there.
    fetched_until: u64,
}

impl ReadAheadStreams {
    /// Creates read-ahead that fetches up to `bytes` bytes ahead of each sequential stream; 0 turns read-ahead off.
    pub fn new(bytes: u64) -> ReadAheadStreams {
        ReadAheadStreams { bytes, streams: VecDeque::new() }
    }

    /// Drops all sequential streams and all data that has been fetched ahead.
    pub fn forget(&mut self) {
        self.streams.clear();
    }

    /// Removes and returns the sequential stream that a read of `bytes` from `offset` continues. A read that continues
    /// no stream starts one, and gets `None`. Always `None` if read-ahead is off.
    pub fn take_matching_stream(&mut self, offset: u64, bytes: u64) -> Option<SequentialReadStream> {
        if self.bytes == 0 {
            return None;
        }
        let place = self.streams.iter().position(|stream| stream.next == offset);
        let stream = place.and_then(|place| self.streams.remove(place));
        if stream.is_none() {
            let until = offset + bytes;
            // Reuse the memory of the stream that is evicted.
            let forgotten = if self.streams.len() == STREAMS_MAX { self.streams.pop_back() } else { None };
            let mut fetched = forgotten.map_or_else(VecDeque::new, |stream| stream.fetched);
            fetched.clear();
            self.track(SequentialReadStream { next: until, fetched, fetched_until: until });
        }
        stream
    }

    /// Puts a sequential read stream in front of the tracked streams. Drops the stream seen least recently if there are
    /// too many.
    pub fn track(&mut self, stream: SequentialReadStream) {
        self.streams.push_front(stream);
        self.streams.truncate(STREAMS_MAX);
    }

    /// Returns the address up to which data is fetched ahead for a stream whose reads have reached `until`.
    pub fn read_ahead_limit(&self, until: u64) -> u64 {
        until + self.bytes
    }
}

impl SequentialReadStream {
    /// Removes the data of a read of `bytes` from `offset` from the data fetched ahead. Returns the address up to which
    /// the read's data was fetched (`offset` if none was), and the time at which it is in the controller.
    pub fn take_fetched_data(&mut self, offset: u64, bytes: u64) -> (u64, Time) {
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

    /// Returns the address up to which data has been fetched for this stream; the next fetch begins there.
    pub fn fetched_until(&self) -> u64 {
        self.fetched_until
    }

    /// Adds fetched data to this stream: everything before address `end` is in the controller at `ready`.
    pub fn add_fetched_data(&mut self, end: u64, ready: Time) {
        self.fetched.push_back((end, ready));
        self.fetched_until = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_sequential_read_starts_read_ahead() {
        let mut ahead = ReadAheadStreams::new(100);
        assert!(ahead.take_matching_stream(1000, 10).is_none());
        assert!(ahead.take_matching_stream(5000, 10).is_none());
        let mut stream = ahead.take_matching_stream(1010, 10).expect("it goes on");
        assert_eq!(stream.take_fetched_data(1010, 10), (1010, Time::ZERO));
        stream.add_fetched_data(1050, Time::from_ps(7));
        ahead.track(stream);
        let mut stream = ahead.take_matching_stream(1020, 10).expect("it goes on");
        assert_eq!(stream.take_fetched_data(1020, 10), (1030, Time::from_ps(7)));
        assert_eq!(stream.take_fetched_data(1030, 40), (1050, Time::from_ps(7)));
        assert_eq!(stream.fetched_until(), 1070);
        assert!(ahead.take_matching_stream(1021, 10).is_none());
    }
}
