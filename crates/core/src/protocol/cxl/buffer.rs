//! Buffer of a CXL device between its controller and its memory. It holds lines of units that have been read, and units
//! that stores have not filled yet.
//!
//! The memory is read and written in units that may be longer than a line, so that it can correct a unit as a whole. A
//! line sent to the host leaves the buffer, since the host caches it. Stores fill their unit in the buffer. The unit is
//! written to the memory once all of its lines are there, or, the oldest first, once its slot is needed; its missing
//! lines are then read before. Optane modules behave in this way (Yang et al., "An Empirical Guide to the Behavior and
//! Use of Scalable Persistent Memory", FAST 2020, section 2.1; Xiang et al., "Characterizing the Performance of Intel
//! Optane Persistent Memory", EuroSys 2022); that this device does so too is assumed.

use std::collections::VecDeque;

use super::LINE_BYTES;
use super::fetched::LineInstants;
use crate::media::Media;
use crate::number::index;
use crate::table::SmallSortedMap;
use crate::time::Time;

/// Bit mask of lines of a unit: bit i stands for line i.
type Lines = u64;

/// Buffered unit that has been read from the memory: the lines that the host has not requested yet, and their time of
/// arrival.
#[derive(Clone, Copy, Debug)]
struct BufferedReadUnit {
    lines: Lines,
    ready_at: Time,
}

/// Buffered unit that stores have not filled yet: the lines that have been stored, until the unit is written to the
/// memory.
#[derive(Clone, Copy, Debug)]
struct BufferedWriteUnit {
    lines: Lines,
    admitted_at: Time,
    /// Number of the unit in the order in which units were admitted.
    serial: u64,
}

/// Counters of a CXL device's buffer: units that are read and written, and loads that it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of units that loads had to read from the memory, because their line was not in the buffer.
    pub unit_reads: u64,
    /// Number of units that the buffer has written to the memory.
    pub unit_writes: u64,
    /// Number of units whose missing lines had to be read before the unit could be written.
    pub unit_merges: u64,
    /// Number of loads that found their line in the device's buffer, or in flight to it.
    pub buffer_hits: u64,
}

impl Counts {
    /// Returns the counters of the buffer as pairs of name and count.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("unit_reads", self.unit_reads),
            ("unit_writes", self.unit_writes),
            ("unit_merges", self.unit_merges),
            ("buffer_hits", self.buffer_hits),
        ]
    }
}

/// Buffer of units that have been read, and of units that stores have not filled yet.
#[derive(Clone, Debug)]
pub struct Buffer {
    unit_bytes: u32,
    capacity: usize,
    reads: SmallSortedMap<u64, BufferedReadUnit>,
    /// Units that have been read, oldest first, for replacement. Some of them may have no lines left.
    read_order: VecDeque<u64>,
    writes: SmallSortedMap<u64, BufferedWriteUnit>,
    write_order: SmallSortedMap<u64, u64>,
    next_serial: u64,
    /// Number of free slots for units to be written.
    places_free: usize,
    /// Number of slots that become free, by the time at which they do.
    leaving: SmallSortedMap<Time, usize>,
    /// Counters of a CXL device's buffer since the start of the run.
    pub counts: Counts,
}

impl Buffer {
    /// Returns an empty buffer of the size that the drive's section `cxl` gives.
    pub fn new(config: &crate::protocol::cxl::config::Cxl) -> Buffer {
        Buffer {
            unit_bytes: config.unit_bytes,
            capacity: index(config.buffer_units),
            reads: SmallSortedMap::default(),
            read_order: VecDeque::new(),
            writes: SmallSortedMap::default(),
            write_order: SmallSortedMap::default(),
            next_serial: 0,
            places_free: index(config.buffer_units),
            leaving: SmallSortedMap::default(),
            counts: Counts::default(),
        }
    }

    /// Loads the cache line at byte `offset`, requested at `now`, from the device's buffer or memory. Returns the
    /// instants at which it reaches each stage. Calls come in the order of `now`.
    pub fn read(&mut self, now: Time, offset: u64, media: &mut Media) -> LineInstants {
        let (unit, line) = self.place(offset);
        let written = self.writes.get(&unit).map_or(0, |written| written.lines);
        if written & line > 0 {
            self.counts.buffer_hits += 1;
            return LineInstants::within(now, now);
        }
        if let Some(ready_at) = self.take(unit, line) {
            self.counts.buffer_hits += 1;
            return LineInstants::within(now, ready_at.max(now));
        }
        self.counts.unit_reads += 1;
        let timing = media.read_part_of_row(now, unit * u64::from(self.unit_bytes), self.unit_bytes);
        self.keep_read_unit(unit, self.whole() & !line & !written, timing.last_at);
        LineInstants::from_memory(timing)
    }

    /// Stores the cache line at byte `offset`, which arrives at `now`. Returns the time at which the line is in the
    /// device's buffer.
    pub fn write(&mut self, now: Time, offset: u64, media: &mut Media) -> Time {
        let (unit, line) = self.place(offset);
        self.take(unit, line);
        if self.writes.get(&unit).is_none() {
            let admitted_at = self.reserve_write_slot(now, media);
            self.writes.insert(unit, BufferedWriteUnit { lines: 0, admitted_at, serial: self.next_serial });
            self.write_order.insert(self.next_serial, unit);
            self.next_serial += 1;
        }
        let whole = self.whole();
        let written = self.writes.get_mut(&unit).expect("it has just been looked up");
        written.lines |= line;
        let admitted_at = written.admitted_at.max(now);
        media.hold(admitted_at, offset, LINE_BYTES);
        if written.lines == whole {
            self.send(admitted_at, unit, media);
        }
        admitted_at
    }

    /// Writes all buffered lines among the `bytes` bytes from `offset` to the memory. Returns the time at which they
    /// are in the cells.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32, media: &mut Media) -> Time {
        let unit_bytes = u64::from(self.unit_bytes);
        let end = offset + u64::from(bytes);
        let (mut from, end_unit) = (offset / unit_bytes, end.div_ceil(unit_bytes));
        while let Some(unit) = self.writes.smallest_key_from(&from).filter(|unit| *unit < end_unit) {
            self.send(now, unit, media);
            from = unit + 1;
        }
        media.flush(now, offset, bytes)
    }

    /// Returns the number of the unit that holds byte `offset`, and the bit of its line.
    fn place(&self, offset: u64) -> (u64, Lines) {
        let unit_bytes = u64::from(self.unit_bytes);
        (offset / unit_bytes, 1 << (offset % unit_bytes / u64::from(LINE_BYTES)))
    }

    /// Returns the bit mask in which all lines of a unit are set.
    fn whole(&self) -> Lines {
        Lines::MAX >> (Lines::BITS - self.unit_bytes / LINE_BYTES)
    }

    /// Removes a line from a unit that has been read. Returns the time at which the line has arrived from the memory;
    /// none if the line is not buffered.
    fn take(&mut self, unit: u64, line: Lines) -> Option<Time> {
        let read = self.reads.get_mut(&unit).filter(|read| read.lines & line > 0)?;
        let ready_at = read.ready_at;
        read.lines &= !line;
        if read.lines == 0 {
            self.reads.remove(&unit);
        }
        Some(ready_at)
    }

    /// Keeps the lines of a unit that has been read and that the host has not requested yet. If the buffer is full, the
    /// oldest unit is dropped.
    fn keep_read_unit(&mut self, unit: u64, lines: Lines, ready_at: Time) {
        if lines == 0 {
            self.reads.remove(&unit);
            return;
        }
        if self.reads.insert(unit, BufferedReadUnit { lines, ready_at }).is_none() {
            self.read_order.push_back(unit);
        }
        while self.reads.len() > self.capacity || self.read_order.len() > 2 * self.capacity {
            let oldest = self.read_order.pop_front().expect("what is kept stands in the order");
            self.reads.remove(&oldest);
        }
    }

    /// Takes a slot for one more unit to be written, and returns the time at which the slot is free. If no slot is
    /// free, the oldest unit is written to the memory.
    fn reserve_write_slot(&mut self, now: Time, media: &mut Media) -> Time {
        let mut at = now;
        loop {
            while let Some(&(_, leaving)) = self.leaving.first().filter(|(leaves_at, _)| *leaves_at <= at) {
                self.places_free += leaving;
                self.leaving.pop_first();
            }
            if self.places_free > 0 {
                self.places_free -= 1;
                return at;
            }
            if self.leaving.is_empty() {
                let &(_, unit) = self.write_order.first().expect("every place is taken by a unit");
                self.send(at, unit, media);
            }
            at = at.max(self.leaving.first().expect("a unit is leaving").0);
        }
    }

    /// Writes a buffered unit to the memory, after its missing lines have been read. The unit's slot is free once the
    /// memory's write buffer has accepted it.
    fn send(&mut self, now: Time, unit: u64, media: &mut Media) {
        let written = self.writes.remove(&unit).expect("a unit that is sent has been written");
        self.write_order.remove(&written.serial);
        let offset = unit * u64::from(self.unit_bytes);
        let mut from = now.max(written.admitted_at);
        if written.lines != self.whole() {
            self.counts.unit_merges += 1;
            from = media.read(from, offset, self.unit_bytes, self.unit_bytes).last_at;
        }
        self.counts.unit_writes += 1;
        let timing = media.write_without_waiting(from, offset, self.unit_bytes);
        let together = self.leaving.get(&timing.buffered_at).copied().unwrap_or(0);
        self.leaving.insert(timing.buffered_at, together + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{Geometry, Timing};
    use crate::time::Span;

    const PROGRAM: Span = Span::from_us(10);

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// Returns media of one bank that need 304 ns and two bytes per nanosecond for a read.
    fn media() -> Media {
        let timing = Timing { program: PROGRAM, program_bytes: 256, ..Timing::default() };
        Media::new(&Geometry { channels: 1, banks_per_channel: 1, stripe_bytes: 256, timing })
    }

    fn buffer(units: u32) -> Buffer {
        Buffer::new(&crate::protocol::cxl::config::Cxl {
            unit_bytes: 256,
            buffer_units: units,
            ..crate::protocol::cxl::config::Cxl::default()
        })
    }

    #[test]
    fn first_line_reads_its_unit_and_others_wait_for_it() {
        let (mut buffer, mut media) = (buffer(4), media());
        let whole = at(304 + 128);
        assert_eq!(buffer.read(at(0), 64, &mut media).ready_at, whole);
        assert_eq!(buffer.read(at(10), 0, &mut media).ready_at, whole);
        assert_eq!(buffer.read(at(500), 128, &mut media).ready_at, at(500));
        assert_eq!(
            buffer.read(at(600), 64, &mut media).ready_at,
            at(600 + 128),
            "it has gone to the host; its row is open"
        );
        assert_eq!(buffer.counts, Counts { unit_reads: 2, buffer_hits: 2, ..Counts::default() });
    }

    #[test]
    fn fully_stored_unit_is_written_without_a_read() {
        let (mut buffer, mut media) = (buffer(4), media());
        for line in 0..4 {
            assert_eq!(buffer.write(at(line), line * 64, &mut media), at(line));
        }
        assert_eq!(buffer.counts, Counts { unit_writes: 1, ..Counts::default() });
        assert_eq!(media.activity().reads, 0);
    }

    #[test]
    fn store_waits_for_the_oldest_unit_if_all_slots_are_taken() {
        let (mut buffer, mut media) = (buffer(2), media());
        assert_eq!(buffer.write(at(0), 0, &mut media), at(0));
        assert_eq!(buffer.write(at(1), 256, &mut media), at(1));
        assert_eq!(buffer.write(at(2), 300, &mut media), at(2), "its unit has a place");
        // The first unit is read and merged. Then its command and its data cross the bus.
        let merged = at(2 + 304 + 128 + 194 + 128);
        assert_eq!(buffer.write(at(2), 512, &mut media), merged);
        assert_eq!(buffer.counts, Counts { unit_writes: 1, unit_merges: 1, ..Counts::default() });
        assert!(buffer.write(at(3), 1024, &mut media) > at(10_000), "the bank programs the first");
    }

    #[test]
    fn load_finds_the_latest_store() {
        let (mut buffer, mut media) = (buffer(4), media());
        buffer.read(at(0), 0, &mut media);
        buffer.write(at(500), 64, &mut media);
        assert_eq!(buffer.read(at(510), 64, &mut media).ready_at, at(510));
        assert_eq!(buffer.read(at(520), 128, &mut media).ready_at, at(520), "other lines of the unit are still there");
    }

    #[test]
    fn unit_of_one_line_is_not_buffered() {
        let mut buffer = Buffer::new(&crate::protocol::cxl::config::Cxl {
            unit_bytes: 64,
            buffer_units: 1,
            ..crate::protocol::cxl::config::Cxl::default()
        });
        let mut media = media();
        for line in 0..9 {
            buffer.read(at(line * 1000), line * 64, &mut media);
        }
        assert!(buffer.reads.is_empty() && buffer.read_order.is_empty());
        assert_eq!(buffer.counts.unit_reads, 9);
    }
}
