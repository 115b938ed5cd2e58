//! Zones with erase blocks of their own on some of the dies. Which die holds a block follows from its place alone, so that there is no
//! mapping table and no garbage collection: zones on the same dies delay each other, and others do not.
//!
//! The dies are divided into groups of equal size, to which zones belong in turn. A zone is filled line by line: one word line of a die of
//! each channel of its group, then of the next dies. Each group of erase blocks is erased when its first line is written again.
//!
//! ```text
//!     4 channels of 2 dies, zones of 2 dies:   zone 0, 4, ... on dies 0 and 1   zone 1, 5, ... on dies 2 and 3
//!                                              zone 2, 6, ... on dies 4 and 5   zone 3, 7, ... on dies 6 and 7
//! ```
//!
//! Flushes do not fill lines up: what is in unfilled ones is copied to spare word lines of their dies, and programmed once more when the
//! line is full. So it is where the write buffer is full of unfilled lines; the copies are read back then (assumed; drives do not say).

use super::layout::{FlashLayout, FlashRow};
use super::{Flash, ProgrammingLine};
use crate::config;
use crate::media::translation::UnitLocation;
use crate::number::{index, narrow};
use crate::table::SortedMap;
use crate::time::Time;

/// Dies of each zone, and the way in which its units fill them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStripe {
    /// Number of dies of a zone.
    dies: u32,
    /// Number of dies that a line lies on: one of each channel of the group.
    width: u32,
    /// Number of groups of dies.
    groups: u32,
    row_units: u32,
    pages_per_line: u32,
    /// Number of lines of the erase blocks that are erased together.
    set_lines: u32,
}

impl ZoneStripe {
    /// Computes the stripes of a description that has been checked; `None` if its zones have no dies of their own.
    pub fn of(media: &config::Media, translation: &config::Translation, zones: &config::Zoning) -> Option<ZoneStripe> {
        let layout = FlashLayout::of(media, translation);
        let FlashLayout { channels, dies_per_channel, row_units, pages_per_line, .. } = layout;
        let dies = zones.dies;
        (zones.is_there() && dies > 0).then(|| {
            let width = dies.min(channels);
            let word_lines = media.block_pages / pages_per_line.max(1);
            ZoneStripe {
                dies,
                width,
                groups: channels * dies_per_channel / dies,
                row_units,
                pages_per_line,
                set_lines: word_lines * (dies / width),
            }
        })
    }

    /// Returns the number of units of a line.
    pub fn line_units(&self) -> u32 {
        self.width * self.row_units * self.pages_per_line
    }

    /// Returns the number of units of the erase blocks that are erased together.
    pub fn set_units(&self) -> u32 {
        self.set_lines * self.line_units()
    }

    /// Returns the die of a line of a zone, by its place among those of the line.
    fn die(&self, zone: u32, line: u32, column: u32) -> u32 {
        zone % self.groups * self.dies + line % (self.dies / self.width) * self.width + column
    }

    /// Returns the row of a unit, whose block is its zone.
    fn row(&self, place: UnitLocation) -> FlashRow {
        let number = place.position / self.row_units;
        let (round, column) = (number / self.width, number % self.width);
        let (line, page) = (round / self.pages_per_line, round % self.pages_per_line);
        FlashRow { die: self.die(place.block, line, column), page, number }
    }
}

/// Line of a zone that is being filled.
#[derive(Clone, Copy, Debug, Default)]
struct FillingLine {
    /// Number of bytes that have been written.
    bytes: u64,
    /// Number of those that take room in the write buffer.
    buffered: u64,
    /// Number of those that have been copied to spare word lines.
    copied: u64,
    /// True if some bytes have left the buffer for spare word lines, from where they are read back.
    is_outside: bool,
}

/// Lines of a zone by their progress.
#[derive(Clone, Copy, Debug, Default)]
struct ZoneLines {
    /// Number of lines up to the last one that has been written since the latest reset.
    reached: u32,
    /// Number of lines up to the last one whose cells hold data, old or new.
    used: u32,
    /// Number of groups of erase blocks that have been erased since the latest reset.
    erased_sets: u32,
}

/// Zones with erase blocks of their own.
#[derive(Clone, Debug)]
pub(super) struct ZonedBlocks {
    stripe: ZoneStripe,
    unit_bytes: u32,
    /// Number of units from the first of a zone to the first of the next one, and of those that can be written.
    zone_units: u32,
    capacity_units: u32,
    zones: Vec<ZoneLines>,
    /// Lines that are being filled, by zone and number.
    filling: SortedMap<(u32, u32), FillingLine>,
    /// Number of units that have been programmed, the unused ones of copied lines included, and of erases.
    programmed_units: u64,
    erases: u64,
}

impl ZonedBlocks {
    /// Creates the zones of a description that has been checked, all of them full unless nothing has been written.
    pub(super) fn of(
        media: &config::Media,
        translation: &config::Translation,
        zones: &config::Zoning,
    ) -> Option<Box<ZonedBlocks>> {
        let stripe = ZoneStripe::of(media, translation, zones)?;
        let unit_bytes = translation.unit_bytes;
        let units = |mib: u64| narrow::<u32, u64>((mib << 20) / u64::from(unit_bytes));
        let capacity_units = units(zones.writable_mib());
        let lines = match translation.precondition {
            config::Precondition::None => ZoneLines::default(),
            _ => {
                let reached = capacity_units.div_ceil(stripe.line_units());
                ZoneLines { reached, used: reached, erased_sets: reached.div_ceil(stripe.set_lines) }
            }
        };
        Some(Box::new(ZonedBlocks {
            stripe,
            unit_bytes,
            zone_units: units(zones.size_mib),
            capacity_units,
            zones: vec![lines; index(narrow::<u32, u64>(media.capacity_mib / zones.size_mib))],
            filling: SortedMap::default(),
            programmed_units: 0,
            erases: 0,
        }))
    }

    /// Returns the place of a unit: its zone as block, and its number within that; [`UnitLocation::NONE`] if it has not been written.
    pub(super) fn location(&self, unit: u32) -> UnitLocation {
        let place = self.place(unit);
        let is_written = place.position / self.stripe.line_units() < self.zones[index(place.block)].reached;
        if is_written { place } else { UnitLocation::NONE }
    }

    fn place(&self, unit: u32) -> UnitLocation {
        UnitLocation { block: unit / self.zone_units, position: unit % self.zone_units }
    }

    /// Returns the row of a unit.
    pub(super) fn row(&self, place: UnitLocation) -> FlashRow {
        self.stripe.row(place)
    }

    /// Returns the line of a unit.
    pub(super) fn line(&self, place: UnitLocation) -> u32 {
        place.position / self.stripe.line_units()
    }

    /// True if the line of a unit is being filled.
    pub(super) fn is_filling(&self, place: UnitLocation) -> bool {
        self.filling.get(&(place.block, self.line(place))).is_some()
    }

    /// Returns the number of bytes that a line of a zone takes.
    fn line_bytes(&self, line: u32) -> u64 {
        let first = line * self.stripe.line_units();
        let units = self.stripe.line_units().min(self.capacity_units.saturating_sub(first));
        u64::from(units) * u64::from(self.unit_bytes)
    }

    /// Forgets what has been written to the zones that lie within these units. Returns the room in the write buffer that is free then.
    fn reset(&mut self, units: std::ops::Range<u32>) -> u64 {
        let mut freed = 0;
        for zone in units.start.div_ceil(self.zone_units)..units.end / self.zone_units {
            let lines = &mut self.zones[index(zone)];
            *lines = ZoneLines { reached: 0, used: lines.used.max(lines.reached), erased_sets: 0 };
            while let Some(key) = self.filling.key_from(&(zone, 0)).filter(|(other, _)| *other == zone) {
                freed += self.filling.remove(&key).map_or(0, |line| line.buffered);
            }
        }
        freed
    }

    /// Forgets which lines are being filled, as a loss of power does: what they hold and hosts are to find is in spare word lines.
    pub(super) fn cut_power(&mut self) {
        self.filling = SortedMap::default();
    }

    /// Returns the counters, by name, after so many bytes of the host.
    pub(super) fn counters(&self, written_bytes: u64) -> Vec<(&'static str, u64)> {
        let programmed = u128::from(self.programmed_units) * u128::from(self.unit_bytes);
        let amplification = programmed * 100 / u128::from(written_bytes.max(1));
        let mut counters = vec![("erases", self.erases)];
        if written_bytes > 0 {
            counters.insert(0, ("write_amplification_percent", amplification as u64));
        }
        counters
    }
}

impl Flash {
    /// Adds a part of a unit, which is in the buffer at `at`, to the line of its zone, and programs that if it is full.
    pub(super) fn add_to_zone(&mut self, now: Time, at: Time, unit: u32, bytes: u32) {
        let Some(zoned) = &mut self.zoned else { return };
        let place = zoned.place(unit);
        let key = (place.block, zoned.line(place));
        let whole = zoned.line_bytes(key.1);
        if zoned.filling.get(&key).is_none() {
            // A line that has been begun before a loss of power goes on where it was.
            let is_new = key.1 >= zoned.zones[index(key.0)].reached;
            let before = u64::from(place.position % zoned.stripe.line_units()) * u64::from(zoned.unit_bytes);
            let bytes = if is_new { 0 } else { before };
            zoned
                .filling
                .insert(key, FillingLine { bytes, copied: bytes, is_outside: !is_new, ..FillingLine::default() });
            self.begin_line(now, key);
        }
        let Some(zoned) = &mut self.zoned else { return };
        let line = zoned.filling.get_mut(&key).expect("the line has just been begun");
        line.bytes += u64::from(bytes);
        line.buffered += u64::from(bytes);
        if line.bytes >= whole {
            let line = zoned.filling.remove(&key).expect("the line is being filled");
            let FillingLine { buffered, is_outside, .. } = line;
            if is_outside {
                self.read_back(now, key);
            }
            let until = self.program_zone_line(now, at, key, whole);
            self.buffer.release(until, buffered);
            self.programming.push_back(ProgrammingLine { block: key.0, line: key.1, until });
        }
    }

    /// Notes that a line is being written, and erases the blocks that begin with it if they hold old data.
    fn begin_line(&mut self, now: Time, (zone, line): (u32, u32)) {
        while self.programming.front().is_some_and(|oldest| oldest.until <= now) {
            self.programming.pop_front();
        }
        let Some(zoned) = &mut self.zoned else { return };
        let (stripe, lines) = (zoned.stripe, &mut zoned.zones[index(zone)]);
        lines.reached = lines.reached.max(line + 1);
        let set = line / stripe.set_lines;
        if set < lines.erased_sets {
            return;
        }
        let is_used = set * stripe.set_lines < lines.used;
        lines.erased_sets = set + 1;
        if !is_used {
            return;
        }
        zoned.erases += 1;
        let first = stripe.die(zone, 0, 0);
        for die in first..first + stripe.dies {
            let length = self.program_or_erase(self.costs.erase);
            self.dies[index(die)].enqueue(now, now, length);
            self.activity.banks_busy += length;
        }
    }

    /// Programs word lines for so many bytes of a line, which are in the buffer at `at`. Returns when that ends.
    fn program_zone_line(&mut self, now: Time, at: Time, (zone, line): (u32, u32), bytes: u64) -> Time {
        let Some(zoned) = &mut self.zoned else { return at };
        let stripe = zoned.stripe;
        let rows = bytes.div_ceil(u64::from(stripe.row_units * zoned.unit_bytes));
        let columns = narrow::<u32, u64>(rows.min(stripe.width.into()));
        let filled = u64::from(stripe.row_units * stripe.pages_per_line) * u64::from(columns);
        zoned.programmed_units += filled;
        let mut until = at;
        for column in 0..columns {
            until = until.max(self.program(now, at, zone, stripe.die(zone, line, column)));
        }
        self.programmed_at = self.programmed_at.max(until);
        if let Some(notes) = &mut self.notes {
            notes.program(0, u64::MAX, at, self.programmed_at);
        }
        until
    }

    /// Reads what has been copied to spare word lines of a line's dies, in the background.
    fn read_back(&mut self, now: Time, (zone, line): (u32, u32)) {
        let Some(stripe) = self.zoned.as_ref().map(|zoned| zoned.stripe) else { return };
        for column in 0..stripe.width {
            let length = self.array_read(0) * u64::from(stripe.pages_per_line);
            self.dies[index(stripe.die(zone, line, column))].enqueue(now, now, length);
            self.activity.banks_busy += length;
        }
    }

    /// Copies what is in unfilled lines to spare word lines of their dies; it leaves the buffer if `frees` is true.
    pub(super) fn copy_unfilled_lines(&mut self, now: Time, at: Time, frees: bool) {
        let mut from = (0, 0);
        while let Some(key) = self.zoned.as_ref().and_then(|zoned| zoned.filling.key_from(&from)) {
            from = (key.0, key.1 + 1);
            let Some(line) = self.zoned.as_mut().and_then(|zoned| zoned.filling.get_mut(&key)) else { continue };
            let FillingLine { bytes, buffered, copied, .. } = *line;
            line.copied = bytes;
            if frees {
                (line.buffered, line.is_outside) = (0, true);
            }
            let until = if copied < bytes { self.program_zone_line(now, at, key, bytes - copied) } else { at };
            if frees && buffered > 0 {
                self.buffer.release(until, buffered);
            }
        }
    }

    /// Deallocates the zones that lie within bytes; others keep their data.
    pub(super) fn discard_zones(&mut self, offset: u64, bytes: u64) {
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let end = (offset + bytes).min(self.capacity_bytes);
        let units = narrow::<u32, u64>(offset.div_ceil(unit_bytes))..narrow::<u32, u64>(end / unit_bytes);
        let freed = self.zoned.as_mut().map_or(0, |zoned| zoned.reset(units));
        if freed > 0 {
            self.buffer.release(Time::ZERO, freed);
        }
    }

    /// Reserves room for a part of a unit from `from` on. Returns when there is room. Lines that are being filled make room if there is
    /// nothing else in the buffer.
    pub(super) fn reserve_zoned(&mut self, now: Time, from: Time, bytes: u32) -> Time {
        if self.buffer.is_stuck(bytes.into()) {
            self.copy_unfilled_lines(now, from, true);
        }
        self.buffer.reserve(from, bytes.into())
    }
}
