//! Zones with erase blocks of their own on some of the dies. The location of a block follows from its address alone, so
//! that there is no mapping table and no garbage collection. Zones on the same dies delay each other; zones on
//! different dies do not.
//!
//! The dies are divided into groups of equal size, and zones are assigned to the groups in turn. A zone is filled line
//! by line: one word line of a die of each channel of its group, then of the next dies. Each set of erase blocks is
//! erased when its first line is written again.
//!
//! ```text
//!     4 channels of 2 dies, zones of 2 dies:   zone 0, 4, ... on dies 0 and 1   zone 1, 5, ... on dies 2 and 3
//!                                              zone 2, 6, ... on dies 4 and 5   zone 3, 7, ... on dies 6 and 7
//! ```
//!
//! A flush does not fill lines up. It copies the content of unfilled lines to spare word lines of their dies, and a
//! line is programmed once more when it is full. Unfilled lines are also copied if the write buffer is full of them;
//! their copies are then read back before the line is programmed (assumed; drives do not say).

use super::die::DieWorkKind;
use super::layout::{FlashRow, FlashUnitLayout};
use super::{Flash, ProgrammingLine};
use crate::config;
use crate::media::translation::FlashUnitLocation;
use crate::number::{index, narrow};
use crate::table::SmallSortedMap;
use crate::time::Time;

/// Layout of a zone on its group of dies: number of dies, and the order in which mapping units fill lines, rows and
/// pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDieStripe {
    /// Number of dies that hold a zone.
    dies: u32,
    /// Number of dies that a line of a zone lies on: one of each channel of the group.
    width: u32,
    /// Number of groups into which the drive's dies are divided.
    groups: u32,
    row_units: u32,
    pages_per_line: u32,
    /// Number of lines in a set of erase blocks, one block on each die of the zone, which are erased together.
    set_lines: u32,
}

impl ZoneDieStripe {
    /// Computes the layout of zones from a configuration that has been checked; `None` if there are no zones, or zones
    /// have no dies of their own.
    pub fn of(
        media: &config::Media,
        translation: &config::Translation,
        zones: &config::Zoning,
    ) -> Option<ZoneDieStripe> {
        let layout = FlashUnitLayout::of(media, translation);
        let FlashUnitLayout { channels, dies_per_channel, row_units, pages_per_line, .. } = layout;
        let dies = zones.dies;
        (zones.is_there() && dies > 0).then(|| {
            let width = dies.min(channels);
            let word_lines = media.block_pages / pages_per_line.max(1);
            ZoneDieStripe {
                dies,
                width,
                groups: channels * dies_per_channel / dies,
                row_units,
                pages_per_line,
                set_lines: word_lines * (dies / width),
            }
        })
    }

    /// Returns the number of mapping units in a line: one word line on one die of each channel of the zone's group.
    pub fn line_units(&self) -> u32 {
        self.width * self.row_units * self.pages_per_line
    }

    /// Returns the number of mapping units in a set of erase blocks, one block on each die of the zone, which are
    /// erased together.
    pub fn units_per_block_set(&self) -> u32 {
        self.set_lines * self.line_units()
    }

    /// Returns the number of the die that holds word line `column` of a line of a zone.
    fn die(&self, zone: u32, line: u32, column: u32) -> u32 {
        zone % self.groups * self.dies + line % (self.dies / self.width) * self.width + column
    }

    /// Returns the row that holds a mapping unit at a location whose block is the zone's number.
    fn row(&self, place: FlashUnitLocation) -> FlashRow {
        let number = place.position / self.row_units;
        let (round, column) = (number / self.width, number % self.width);
        let (line, page) = (round / self.pages_per_line, round % self.pages_per_line);
        FlashRow { die: self.die(place.block, line, column), page, number }
    }
}

/// Line of a zone that is being filled: the number of its bytes that have been written, are buffered, and are copied to
/// spare word lines.
#[derive(Clone, Copy, Debug, Default)]
struct FillingZoneLine {
    /// Number of bytes that have been written to the unfilled line of a zone.
    bytes: u64,
    /// Number of bytes of an unfilled line that take up space in the write buffer.
    buffered: u64,
    /// Number of bytes of an unfilled line that have been copied to spare word lines.
    copied: u64,
    /// Number of bytes of an unfilled line that have left the write buffer for spare word lines, from which they are
    /// read back.
    outside: u64,
}

/// Progress of one zone: numbers of lines written and used, and of erase block sets erased.
#[derive(Clone, Copy, Debug, Default)]
struct ZoneLineProgress {
    /// Number of lines of the zone up to the last one that has been written since the latest reset.
    reached: u32,
    /// Number of lines of the zone up to the last one whose cells hold data, from before or after the latest reset.
    used: u32,
    /// Number of sets of erase blocks of the zone that have been erased, or found erased, since the latest reset.
    erased_sets: u32,
}

/// State of all zones of a drive whose zones have erase blocks of their own: lines written, lines being filled, and
/// counts.
#[derive(Clone, Debug)]
pub(super) struct ZonedFlashState {
    stripe: ZoneDieStripe,
    unit_bytes: u32,
    /// Number of mapping units between the starts of two successive zones.
    zone_units: u32,
    /// Number of mapping units that can be written in each zone.
    capacity_units: u32,
    zones: Vec<ZoneLineProgress>,
    /// Lines (word lines programmed together) that are being filled, by the number of the zone and of the line in the
    /// zone.
    filling: SmallSortedMap<(u32, u32), FillingZoneLine>,
    /// Number of mapping units that have been programmed, unused units of copied lines included.
    programmed_units: u64,
    /// Number of times that a set of erase blocks has been erased.
    erases: u64,
}

impl ZonedFlashState {
    /// Creates the zones of a configuration that has been checked; `None` if zones have no dies of their own. All zones
    /// are full, unless the drive is not preconditioned.
    pub(super) fn of(
        media: &config::Media,
        translation: &config::Translation,
        zones: &config::Zoning,
    ) -> Option<Box<ZonedFlashState>> {
        let stripe = ZoneDieStripe::of(media, translation, zones)?;
        let unit_bytes = translation.unit_bytes;
        let units = |mib: u64| narrow::<u32, u64>((mib << 20) / u64::from(unit_bytes));
        let capacity_units = units(zones.writable_mib());
        let lines = match translation.precondition {
            config::Precondition::None => ZoneLineProgress::default(),
            _ => {
                let reached = capacity_units.div_ceil(stripe.line_units());
                ZoneLineProgress { reached, used: reached, erased_sets: reached.div_ceil(stripe.set_lines) }
            }
        };
        Some(Box::new(ZonedFlashState {
            stripe,
            unit_bytes,
            zone_units: units(zones.size_mib),
            capacity_units,
            zones: vec![lines; index(narrow::<u32, u64>(media.capacity_mib / zones.size_mib))],
            filling: SmallSortedMap::default(),
            programmed_units: 0,
            erases: 0,
        }))
    }

    /// Returns the location of a mapping unit: its zone as the block, and its number in the zone.
    /// [`FlashUnitLocation::NONE`] if the unit's line has not been written since the zone's last reset.
    pub(super) fn location(&self, unit: u32) -> FlashUnitLocation {
        let place = self.place(unit);
        let is_written = place.position / self.stripe.line_units() < self.zones[index(place.block)].reached;
        if is_written { place } else { FlashUnitLocation::NONE }
    }

    fn place(&self, unit: u32) -> FlashUnitLocation {
        FlashUnitLocation { block: unit / self.zone_units, position: unit % self.zone_units }
    }

    /// Returns the row that holds the mapping unit at a location: die, page, and number in the zone.
    pub(super) fn row(&self, place: FlashUnitLocation) -> FlashRow {
        self.stripe.row(place)
    }

    /// Returns the number, in its zone, of the line (word lines programmed together) that holds the mapping unit at a
    /// location.
    pub(super) fn line(&self, place: FlashUnitLocation) -> u32 {
        place.position / self.stripe.line_units()
    }

    /// True if the mapping unit at a location belongs to a line that is being filled.
    pub(super) fn is_filling(&self, place: FlashUnitLocation) -> bool {
        self.filling.get(&(place.block, self.line(place))).is_some()
    }

    /// Returns the number of writable bytes in a line of a zone: fewer in the last line if the zone's capacity ends
    /// within it.
    fn writable_line_bytes(&self, line: u32) -> u64 {
        let first = line * self.stripe.line_units();
        let units = self.stripe.line_units().min(self.capacity_units.saturating_sub(first));
        u64::from(units) * u64::from(self.unit_bytes)
    }

    /// Resets the zones that lie wholly within a range of mapping units: their data is lost, and erase blocks are
    /// erased when written next. Returns the number of bytes that this frees in the write buffer.
    fn reset(&mut self, units: std::ops::Range<u32>) -> u64 {
        let mut freed = 0;
        for zone in units.start.div_ceil(self.zone_units)..units.end / self.zone_units {
            let lines = &mut self.zones[index(zone)];
            *lines = ZoneLineProgress { reached: 0, used: lines.used.max(lines.reached), erased_sets: 0 };
            while let Some(key) = self.filling.smallest_key_from(&(zone, 0)).filter(|(other, _)| *other == zone) {
                freed += self.filling.remove(&key).map_or(0, |line| line.buffered);
            }
        }
        freed
    }

    /// Drops the lines that are being filled, as a loss of power does. Data of such lines that survives is in spare
    /// word lines.
    pub(super) fn cut_power(&mut self) {
        self.filling = SmallSortedMap::default();
    }

    /// Returns the number of erases, and write amplification in percent if any bytes have been written. Each is a pair
    /// of name and value. `written_bytes` is the number of bytes that hosts have written.
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
    /// Adds `bytes` of a mapping unit, which are in the write buffer at `at`, to the line of its zone. Programs the
    /// line if it is then full, and frees its buffer space at the end of the programs.
    pub(super) fn add_to_zone(&mut self, now: Time, at: Time, unit: u32, bytes: u32) {
        let Some(zoned) = &mut self.zoned else { return };
        let place = zoned.place(unit);
        let key = (place.block, zoned.line(place));
        let whole = zoned.writable_line_bytes(key.1);
        if zoned.filling.get(&key).is_none() {
            // A line begun before a power loss continues at the position that it had reached.
            let is_new = key.1 >= zoned.zones[index(key.0)].reached;
            let before = u64::from(place.position % zoned.stripe.line_units()) * u64::from(zoned.unit_bytes);
            let bytes = if is_new { 0 } else { before };
            zoned
                .filling
                .insert(key, FillingZoneLine { bytes, copied: bytes, outside: bytes, ..FillingZoneLine::default() });
            self.begin_zone_line(now, key);
        }
        let Some(zoned) = &mut self.zoned else { return };
        let line = zoned.filling.get_mut(&key).expect("the line has just been begun");
        line.bytes += u64::from(bytes);
        line.buffered += u64::from(bytes);
        if line.bytes >= whole {
            let line = zoned.filling.remove(&key).expect("the line is being filled");
            let FillingZoneLine { buffered, outside, .. } = line;
            if outside > 0 {
                self.read_spare_word_lines(now, key);
            }
            let until = self.program_zone_line(now, at, key, whole);
            self.buffer.release(until, buffered);
            self.programming.push_back(ProgrammingLine { block: key.0, line: key.1, until });
        }
    }

    /// Prepares `bytes` of one mapping unit, from `offset` of the drive on, for the write buffer of a drive whose zones
    /// have dies of their own. The buffer's memory moves whole units: a write of a part stores the whole unit, and a
    /// unit that holds data already is read first, from spare word lines if it has left the buffer. Returns the time,
    /// not before `at`, at which the unit is in the buffer, and the number of bytes that the memory then moves.
    pub(super) fn merge_in_zone(&mut self, now: Time, at: Time, offset: u64, bytes: u32) -> (Time, u32) {
        let unit_bytes = self.layout.unit_bytes;
        let Some(zoned) = self.zoned.as_mut().filter(|_| bytes < unit_bytes) else { return (at, bytes) };
        if offset.is_multiple_of(unit_bytes.into()) {
            return (at, unit_bytes);
        }
        let place = zoned.place(narrow::<u32, u64>(offset / u64::from(unit_bytes)));
        let (key, row) = ((place.block, zoned.line(place)), zoned.row(place));
        let before = u64::from(place.position % zoned.stripe.line_units()) * u64::from(unit_bytes);
        let left = zoned.filling.get_mut(&key).filter(|line| line.outside > before);
        let is_outside = left.map(|line| line.outside = before).is_some();
        let there_at = if is_outside { self.read_in_one_go(now, at, &[(row, 1)]) } else { at };
        (there_at, 2 * unit_bytes)
    }

    /// Counts a line of a zone as written. If the line is the first one written in its set of erase blocks and these
    /// hold old data, erases them.
    fn begin_zone_line(&mut self, now: Time, (zone, line): (u32, u32)) {
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
            let length = self.draw_operation_time(self.costs.erase);
            self.dies[index(die)].enqueue(now, DieWorkKind::Erase, now, length);
            self.activity.banks_busy += length;
        }
    }

    /// Programs `bytes` of a zone's line, which are in the buffer at `at`: one word line on each die that the bytes
    /// reach. Returns the time at which the last program ends.
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

    /// Reads the spare word lines of a line's dies in the background, to get back bytes that have left the buffer.
    fn read_spare_word_lines(&mut self, now: Time, (zone, line): (u32, u32)) {
        let Some(stripe) = self.zoned.as_ref().map(|zoned| zoned.stripe) else { return };
        for column in 0..stripe.width {
            let length = self.draw_array_read_time(0) * u64::from(stripe.pages_per_line);
            self.dies[index(stripe.die(zone, line, column))].enqueue(now, DieWorkKind::Read, now, length);
            self.activity.banks_busy += length;
        }
    }

    /// Copies the content of unfilled lines to spare word lines of their dies, as far as it has not been copied yet. If
    /// `frees` is true, the content also leaves the buffer.
    pub(super) fn copy_unfilled_lines(&mut self, now: Time, at: Time, frees: bool) {
        let mut from = (0, 0);
        while let Some(key) = self.zoned.as_ref().and_then(|zoned| zoned.filling.smallest_key_from(&from)) {
            from = (key.0, key.1 + 1);
            let Some(line) = self.zoned.as_mut().and_then(|zoned| zoned.filling.get_mut(&key)) else { continue };
            let FillingZoneLine { bytes, buffered, copied, .. } = *line;
            line.copied = bytes;
            if frees {
                (line.buffered, line.outside) = (0, bytes);
            }
            let until = if copied < bytes { self.program_zone_line(now, at, key, bytes - copied) } else { at };
            if frees && buffered > 0 {
                self.buffer.release(until, buffered);
            }
        }
    }

    /// Resets the zones that lie wholly within the `bytes` from `offset`; other zones keep their data.
    pub(super) fn reset_whole_zones(&mut self, offset: u64, bytes: u64) {
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let end = (offset + bytes).min(self.capacity_bytes);
        let units = narrow::<u32, u64>(offset.div_ceil(unit_bytes))..narrow::<u32, u64>(end / unit_bytes);
        let freed = self.zoned.as_mut().map_or(0, |zoned| zoned.reset(units));
        if freed > 0 {
            self.buffer.release(Time::ZERO, freed);
        }
    }

    /// Reserves `bytes` in the write buffer. Returns the time, not before `from`, at which there is space. If the
    /// buffer is full of unfilled lines, they are copied to spare word lines to make space.
    pub(super) fn reserve_for_zone_write(&mut self, now: Time, from: Time, bytes: u32) -> Time {
        if self.buffer.lacks_space_forever(bytes.into()) {
            self.copy_unfilled_lines(now, from, true);
        }
        self.buffer.reserve(from, bytes.into())
    }
}
