//! Ring of records from one thread to another, on which both threads write no common cache line.
//!
//! A record fills a cache line, whose last word is the record's number. It is stored last, so a record with the
//! expected number is complete. The reader publishes the number of records that it has taken on a line of its own,
//! which the writer reads only when the ring seems full. Records without room wait at the writer, so that neither
//! thread ever waits for the other.

use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of 64-bit words in a record of a pipe.
pub const WORDS: usize = 7;
/// Record that a pipe transports. Only the two threads know its meaning.
pub type PipeRecord = [u64; WORDS];

/// Maximum number of records in the ring of a pipe, which then fills four pages.
const LINES: u64 = 256;
/// Number of records after which the reader of a pipe publishes how many it has taken.
const TOLD_EVERY: u64 = LINES / 4;

/// Cache line of a pipe, with atomic words: a record and its mark, or the number of records that the reader has taken.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS + 1]);

/// Single-producer, single-consumer ring of records, shared by its writer and its reader.
#[derive(Debug)]
pub struct Pipe {
    /// Cache lines with records, which only the writer writes.
    lines: Box<[Line]>,
    /// Cache line with the number of records that the reader has taken, which only the reader writes.
    taken: Line,
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe { lines: (0..LINES).map(|_| Line::default()).collect(), taken: Line::default() }
    }
}

/// Writing end of a pipe, with the records that have found no room in the ring.
#[derive(Debug)]
#[repr(align(64))]
pub struct PipeWriter<'a> {
    pipe: &'a Pipe,
    written: u64,
    /// Number of records that the reading thread had taken from the pipe when the writer last looked.
    taken: u64,
    waiting: VecDeque<PipeRecord>,
}

/// Reading end of a pipe between two threads, with the number of records that it has taken.
#[derive(Debug)]
#[repr(align(64))]
pub struct PipeReader<'a> {
    pipe: &'a Pipe,
    taken: u64,
}

impl PipeWriter<'_> {
    /// Returns the writing end of a pipe to which nothing has been written.
    pub fn new(pipe: &Pipe) -> PipeWriter<'_> {
        PipeWriter { pipe, written: 0, taken: 0, waiting: VecDeque::new() }
    }

    /// Sends a record through the pipe to the reading thread. If the ring is full, the record waits at the writer until
    /// [`PipeWriter::go_on`].
    #[inline]
    pub fn put(&mut self, record: PipeRecord) {
        match self.waiting.is_empty() && self.has_room() {
            true => self.store(record),
            false => self.waiting.push_back(record),
        }
    }

    #[inline]
    fn store(&mut self, record: PipeRecord) {
        let line = &self.pipe.lines[(self.written % LINES) as usize].0;
        self.written += 1;
        line.iter().zip(record).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        line[WORDS].store(self.written, Ordering::Release);
    }

    /// Sends records that wait at the writer of the pipe, as far as the ring has room. Returns true if any was sent.
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

impl PipeReader<'_> {
    /// Returns the reading end of a pipe from which nothing has been read.
    pub fn new(pipe: &Pipe) -> PipeReader<'_> {
        PipeReader { pipe, taken: 0 }
    }

    /// Removes and returns the oldest record in the pipe; none if the writing thread has sent no more.
    #[inline]
    pub fn take(&mut self) -> Option<PipeRecord> {
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
    fn pipe_records_and_positions_occupy_separate_cache_lines() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
        let pipe = Pipe::default();
        let line = |address: usize| address / 64;
        let taken = line(&raw const pipe.taken as usize);
        let lines = pipe.lines.as_ptr_range();
        assert!(!(line(lines.start as usize)..line(lines.end as usize)).contains(&taken));
        assert_eq!((align_of::<PipeWriter<'_>>(), align_of::<PipeReader<'_>>()), (64, 64));
    }

    #[test]
    fn records_that_find_the_ring_full_wait_and_arrive_in_order() {
        let pipe = Pipe::default();
        let (mut writer, mut reader) = (PipeWriter::new(&pipe), PipeReader::new(&pipe));
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
    fn concurrent_pipe_ends_lose_no_record_and_see_no_partial_record() {
        const RECORDS: u64 = 20_000;
        let pipe = Pipe::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = PipeWriter::new(&pipe);
                (0..RECORDS).for_each(|number| writer.put([number; WORDS]));
                while !writer.waiting.is_empty() {
                    writer.go_on();
                    thread::yield_now();
                }
            });
            let mut reader = PipeReader::new(&pipe);
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
