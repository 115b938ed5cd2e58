//! A way from one thread to another, on which no cache line is written by both.
//!
//! A record is a line, whose last word says how many there have been; it is stored last, so that a record is whole when it is
//! the next one's. The reader says on a line of its own how many it has taken, and the writer looks there only when the way
//! seems full. What finds no room waits with the writer, so that neither thread ever waits for the other.

use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a record.
pub const WORDS: usize = 7;
/// What goes over at a time; what it means is the two threads' affair.
pub type Record = [u64; WORDS];

/// Records that are on the way at most: four pages of them.
const LINES: u64 = 256;
/// After how many records the reader says how many it has taken.
const TOLD_EVERY: u64 = LINES / 4;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS + 1]);

/// The way.
#[derive(Debug)]
pub struct Pipe {
    /// Written by the writer alone.
    lines: Box<[Line]>,
    /// Written by the reader alone.
    taken: Line,
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe { lines: (0..LINES).map(|_| Line::default()).collect(), taken: Line::default() }
    }
}

/// The end that writes, of which a pipe has one.
#[derive(Debug)]
#[repr(align(64))]
pub struct Writer<'a> {
    pipe: &'a Pipe,
    written: u64,
    /// As far as the reader is known to be.
    taken: u64,
    waiting: VecDeque<Record>,
}

/// The end that reads, of which a pipe has one.
#[derive(Debug)]
#[repr(align(64))]
pub struct Reader<'a> {
    pipe: &'a Pipe,
    taken: u64,
}

impl Writer<'_> {
    /// That of a pipe which nobody has written to.
    pub fn new(pipe: &Pipe) -> Writer<'_> {
        Writer { pipe, written: 0, taken: 0, waiting: VecDeque::new() }
    }

    /// Send a record; it waits here, until [`Writer::go_on`], if there is no room.
    #[inline]
    pub fn put(&mut self, record: Record) {
        match self.waiting.is_empty() && self.has_room() {
            true => self.store(record),
            false => self.waiting.push_back(record),
        }
    }

    #[inline]
    fn store(&mut self, record: Record) {
        let line = &self.pipe.lines[(self.written % LINES) as usize].0;
        self.written += 1;
        line.iter().zip(record).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        line[WORDS].store(self.written, Ordering::Release);
    }

    /// Send what has waited, as far as there is room now; whether any of it has gone.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        let mut any = false;
        while !self.waiting.is_empty() && self.has_room() {
            let next = self.waiting.pop_front();
            next.into_iter().for_each(|record| self.store(record));
            any = true;
        }
        any
    }

    #[inline]
    fn has_room(&mut self) -> bool {
        if self.written - self.taken < LINES {
            return true;
        }
        self.taken = self.pipe.taken.0[0].load(Ordering::Acquire);
        self.written - self.taken < LINES
    }
}

impl Reader<'_> {
    /// That of a pipe which nobody has read from.
    pub fn new(pipe: &Pipe) -> Reader<'_> {
        Reader { pipe, taken: 0 }
    }

    /// The next record, if it has come.
    #[inline]
    pub fn take(&mut self) -> Option<Record> {
        let line = &self.pipe.lines[(self.taken % LINES) as usize].0;
        if line[WORDS].load(Ordering::Acquire) != self.taken + 1 {
            return None;
        }
        let record = array::from_fn(|word| line[word].load(Ordering::Relaxed));
        self.taken += 1;
        if self.taken.is_multiple_of(TOLD_EVERY) {
            self.pipe.taken.0[0].store(self.taken, Ordering::Release);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, size_of};
    use std::thread;

    use super::*;

    #[test]
    fn a_record_and_each_end_have_lines_of_their_own() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
        let pipe = Pipe::default();
        let line = |address: usize| address / 64;
        let taken = line(&raw const pipe.taken as usize);
        let lines = pipe.lines.as_ptr_range();
        assert!(!(line(lines.start as usize)..line(lines.end as usize)).contains(&taken));
        assert_eq!((align_of::<Writer<'_>>(), align_of::<Reader<'_>>()), (64, 64));
    }

    #[test]
    fn what_finds_no_room_waits_and_everything_comes_in_order() {
        let pipe = Pipe::default();
        let (mut writer, mut reader) = (Writer::new(&pipe), Reader::new(&pipe));
        assert_eq!(reader.take(), None);
        (0..3 * LINES).for_each(|number| writer.put([number; WORDS]));
        let mut next = 0;
        while next < 3 * LINES {
            match reader.take() {
                Some(record) => {
                    assert_eq!(record, [next; WORDS]);
                    next += 1;
                }
                None => assert!(writer.go_on()),
            }
        }
        assert_eq!((reader.take(), writer.waiting.len()), (None, 0));
    }

    #[test]
    fn two_threads_lose_nothing_and_see_no_half_of_anything() {
        const RECORDS: u64 = 20_000;
        let pipe = Pipe::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = Writer::new(&pipe);
                (0..RECORDS).for_each(|number| writer.put([number; WORDS]));
                while !writer.waiting.is_empty() {
                    writer.go_on();
                    thread::yield_now();
                }
            });
            let mut reader = Reader::new(&pipe);
            for number in 0..RECORDS {
                let record = loop {
                    match reader.take() {
                        Some(record) => break record,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(record, [number; WORDS]);
            }
        });
    }
}
