//! Host reads of a flash drive: from the buffer if the data is there or was fetched ahead, else row by row from the
//! cells.

use super::layout::FlashRow;
use super::lone::HostRowRead;
use super::{Flash, units};
use crate::media::ReadTiming;
use crate::media::translation::FlashUnitLocation;
use crate::number::{index, narrow};
use crate::time::Time;

/// Units of a request that one array read of a row brings, and the number of their requested bytes.
#[derive(Clone, Copy, Debug)]
struct RowReadUnits {
    row: FlashRow,
    first: FlashUnitLocation,
    last: FlashUnitLocation,
    bytes: u32,
}

/// Bytes of a read, with the number of those that the caller needs before it can begin to send.
#[derive(Clone, Copy, Debug)]
struct RequestedExtent {
    offset: u64,
    bytes: u32,
    first_bytes: u32,
}

/// Source that a mapping unit is read from: the controller's memory, the cells, or none.
enum UnitDataSource {
    /// Buffer of the controller, which holds the unit's data.
    Controller,
    /// Nowhere: the mapping unit was never written, or deallocated since, and the controller returns zeros.
    Nowhere,
    Cells(FlashUnitLocation),
}

impl Flash {
    /// Reads `bytes` from `offset` and returns the times of the read. The call comes at `now`; the drive's processors
    /// and limits pass the read on at `at`. The first `first_bytes` are the bytes that the caller needs before it can
    /// begin to send.
    pub fn read(&mut self, now: Time, at: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        self.collect_in_idle_time(now);
        self.activity.reads += 1;
        self.activity.read_bytes += u64::from(bytes);
        let known_at = self.look_up(now, at, offset, bytes, false);
        let mut timing = ReadTiming::unhindered(at, known_at);
        let at = known_at;
        self.lone.begin();
        let Some(mut stream) = self.read_ahead.take_matching_stream(offset, bytes.into()) else {
            self.read_mapping_units(
                now,
                at,
                RequestedExtent { offset, bytes, first_bytes: first_bytes.max(1) },
                &mut timing,
            );
            return self.times_with_waits(at, timing);
        };
        let (here, ready) = stream.take_fetched_data(offset, bytes.into());
        let fetched = narrow::<u32, u64>(here - offset);
        if fetched > 0 {
            timing.last_at = ready.max(at) + self.buffer.transfer_time(fetched.into());
            timing.first_at = ready.max(at) + self.buffer.transfer_time(first_bytes.min(fetched).into());
        }
        let first_bytes = first_bytes.saturating_sub(fetched);
        self.read_mapping_units(
            now,
            at,
            RequestedExtent { offset: here, bytes: bytes - fetched, first_bytes },
            &mut timing,
        );
        let timing = self.times_with_waits(at, timing);
        self.read_ahead_rows(now, at, offset + u64::from(bytes), &mut stream);
        self.read_ahead.track(stream);
        timing
    }

    /// Returns the times of a read that has begun at `at`, with the waits of its first and of its last bytes for dies
    /// and channels: the time that they take beyond that of the same read on an idle drive. Bytes from the
    /// controller's memory do not wait.
    fn times_with_waits(&mut self, at: Time, timing: ReadTiming) -> ReadTiming {
        let alone = self.lone.times(&self.costs, at);
        let started = |there: Time, place: usize| match self.lone.arrived[place] == there {
            true => at + there.since(alone[place]),
            false => timing.started,
        };
        ReadTiming { started: started(timing.first_at, 0), last_started: started(timing.last_at, 1), ..timing }
    }

    /// Fetches row by row the data that follows a sequential read stream whose reads have reached address `until`, up
    /// to the read-ahead limit.
    fn read_ahead_rows(
        &mut self,
        now: Time,
        at: Time,
        until: u64,
        stream: &mut super::read_ahead::SequentialReadStream,
    ) {
        let goal = self.read_ahead.read_ahead_limit(until).min(self.capacity_bytes);
        let row_bytes = u64::from(self.layout.row_units * self.layout.unit_bytes);
        while stream.fetched_until() < goal {
            let from = stream.fetched_until();
            let end = ((from / row_bytes + 1) * row_bytes).min(self.capacity_bytes);
            let bytes = narrow::<u32, u64>(end - from);
            let at = self.look_up(now, at, from, bytes, false);
            let mut timing = ReadTiming::unhindered(at, at);
            self.read_mapping_units(now, at, RequestedExtent { offset: from, bytes, first_bytes: 1 }, &mut timing);
            stream.add_fetched_data(end, timing.last_at);
        }
    }

    /// Reads mapping units from the buffer or the cells, one array read for each row, and moves the times in `timing`
    /// accordingly.
    fn read_mapping_units(&mut self, now: Time, at: Time, read: RequestedExtent, timing: &mut ReadTiming) {
        let (mut first_left, mut group): (u32, Option<RowReadUnits>) = (read.first_bytes, None);
        for (unit, part) in units(&self.layout, read.offset, read.bytes) {
            let place = match self.unit_source(now, unit) {
                source @ (UnitDataSource::Controller | UnitDataSource::Nowhere) => {
                    if matches!(source, UnitDataSource::Nowhere) {
                        self.activity.unwritten_read_bytes += u64::from(part);
                    }
                    let there = at + self.buffer.transfer_time(part.into());
                    timing.last_at = timing.last_at.max(there);
                    if first_left > 0 {
                        timing.first_at = timing.first_at.max(there);
                    }
                    first_left = first_left.saturating_sub(part);
                    continue;
                }
                UnitDataSource::Cells(place) => place,
            };
            let row = match &self.zoned {
                Some(zoned) => zoned.row(place),
                None => self.layout.row(place),
            };
            match group.as_mut().filter(|group| group.is_continued_by(row, place)) {
                Some(group) => (group.last, group.bytes) = (place, group.bytes + part),
                None => {
                    let before = group.replace(RowReadUnits { row, first: place, last: place, bytes: part });
                    self.read_row_group(now, at, before, &mut first_left, timing);
                }
            }
        }
        self.read_row_group(now, at, group, &mut first_left, timing);
    }

    /// Performs one array read of a row, and transfers its requested bytes page by page over the channel. Moves the
    /// times in `timing`, and reduces `first_left` by the needed first bytes that have come. Does nothing if there is
    /// no group.
    fn read_row_group(
        &mut self,
        now: Time,
        at: Time,
        group: Option<RowReadUnits>,
        first_left: &mut u32,
        timing: &mut ReadTiming,
    ) {
        let Some(RowReadUnits { row, first, last, bytes }) = group else { return };
        let planes = match self.costs.independent_planes {
            true => self.layout.planes(first.position, last.position),
            false => super::die::PlaneRange { first: 0, last: index(self.layout.planes) - 1 },
        };
        let row = HostRowRead {
            die: row.die,
            channel: index(row.die % self.layout.channels),
            planes,
            length: self.draw_array_read_time(row.page),
            bytes,
            page_bytes: self.page_bytes(),
            needed: (*first_left).min(bytes),
        };
        let free_at = self.dies[index(row.die)].read(now, at, planes, row.length, self.costs.suspension);
        let read_at = self.send_channel_command(now, row.channel, free_at) + row.length;
        let sent = self.costs.transfer_row_pages(&mut self.buses[row.channel], now, read_at, &row);
        *first_left -= row.needed;
        self.dies[index(row.die)].hold_until(planes, sent.crossed);
        self.activity.buses_busy += sent.held;
        self.activity.banks_busy += sent.crossed.since(read_at) + row.length;
        let last_at = sent.crossed + self.costs.ecc_decode;
        timing.first_at = timing.first_at.max(sent.first_at);
        timing.last_at = timing.last_at.max(last_at);
        self.lone.add(row, [sent.first_at, last_at]);
    }

    /// Returns the source of a mapping unit's data at `now`: the controller's memory or a location in the cells.
    fn unit_source(&self, now: Time, unit: u32) -> UnitDataSource {
        let place = match &self.zoned {
            Some(zoned) => zoned.location(unit),
            None => self.translation.location(unit),
        };
        match self.is_in_cells(now, place) {
            true => UnitDataSource::Cells(place),
            false if place == FlashUnitLocation::NONE => UnitDataSource::Nowhere,
            false => UnitDataSource::Controller,
        }
    }

    /// True if the mapping unit at `place` has to be read from the cells. False if it is still in the controller's
    /// memory, or has never been written.
    pub(super) fn is_in_cells(&self, now: Time, place: FlashUnitLocation) -> bool {
        if place == FlashUnitLocation::NONE {
            return false;
        }
        let (is_filling, line) = match &self.zoned {
            Some(zoned) => (zoned.is_filling(place), zoned.line(place)),
            None => {
                let is_filling = self.lines.iter().chain([&self.map_line]).any(|line| line.holds(place));
                (is_filling, place.position / self.layout.units_per_line(place.block))
            }
        };
        if is_filling {
            return false;
        }
        let holds_unit =
            |programming: &&super::ProgrammingLine| programming.block == place.block && programming.line == line;
        self.programming.iter().rev().find(holds_unit).is_none_or(|programming| programming.until <= now)
    }
}

impl RowReadUnits {
    fn is_continued_by(&self, row: FlashRow, place: FlashUnitLocation) -> bool {
        self.row == row && self.last.block == place.block && self.last.position + 1 == place.position
    }
}
