//! Flash drive behind its controller: a write buffer, dies on channels, and the times of the translation layer's
//! decisions.
//!
//! A write is acknowledged when it is in the buffer. Buffered mapping units of one line of the open block are
//! programmed as soon as the line is full: units that are written again before that take no more space and no cells.
//! The space of a line becomes free when its programs have ended, so that a full buffer accepts no more than the cells
//! take. Garbage collection proceeds in even steps beside the user's lines.
//!
//! Every call returns its times at once, as in [`crate::media`]: background operations are queued when they are
//! decided, and host reads go before them ([`die`]). The data of a program crosses a channel page by page, with the
//! time of one page between, so that a read finds a gap.
//!
//! ```text
//!     write -> write buffer -> line full -> channel, page by page -> program of one die per channel
//!                  |                                                    ^
//!                  +-- acknowledged                garbage collection --+ reads of valid units, programs, erases
//!     read  -> in the buffer or fetched ahead? -> else die (array read) -> channel -> ECC decoder
//! ```

pub mod admission;
pub mod buffer;
pub mod die;
mod idle;
mod late;
pub mod layout;
mod lone;
mod map;
mod placed;
pub mod read_ahead;
mod reads;
mod uses;
pub mod zoned;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::spread::ArrayTimeSpread;
use super::timing::{BusTransferRate, ChannelBus};
use super::translation::policy::{Policy, TranslationPolicySettings};
use super::translation::{
    FlashUnitLocation, FlashWriteStream, HostStreams, MapTableShape, MovedUnitRun, SlcCacheShape, TranslationLayer,
    TranslationShape,
};
use super::{MemoryActivity, WriteTiming};
use crate::config::{self, CollectionReadPriority, CommandBusSharing, Precondition, ReadablePages};
use crate::data::persistence::DurabilityNotes;
use crate::number::{index, narrow, real};
use crate::time::{Span, Time};
use admission::WriteAdmission;
use buffer::FlashWriteBuffer;
use die::{DieWorkKind, FlashDie, OperationSuspension};
use idle::IdleCollection;
use late::{Progress, WriteProgressSamples};
use layout::{FlashRow, FlashUnitLayout};
use lone::LoneFlashRead;
use placed::HostPlacedWrites;
use read_ahead::ReadAheadStreams;
use zoned::ZonedFlashState;

/// Flash drive behind its controller: write buffer, translation layer or zones, dies, channels and read-ahead.
#[derive(Clone, Debug)]
pub struct Flash {
    layout: FlashUnitLayout,
    costs: FlashCosts,
    spread: Option<ArrayTimeSpread>,
    translation: TranslationLayer,
    buffer: FlashWriteBuffer,
    /// Servers and zones that write commands pass once their data is in the buffer.
    admission: WriteAdmission,
    dies: Vec<FlashDie>,
    /// Data bus of each channel, by channel number.
    buses: Vec<ChannelBus>,
    /// Command bus of each channel; empty if commands travel on wires of each die, or on the data bus.
    command_buses: Vec<ChannelBus>,
    /// Simulated time for which commands hold the command buses, summed over all channels.
    command_buses_busy: Span,
    read_ahead: ReadAheadStreams,
    /// Rows of the current host read, and the idle drive that tells how long they wait.
    lone: LoneFlashRead,
    /// Size of the namespace in bytes.
    capacity_bytes: u64,
    /// True if a write is acknowledged only when it is in the cells.
    waits_for_cells: bool,
    /// True if a flush must program the write buffer, because the buffer does not survive a loss of power.
    flushes: bool,
    /// Line that is being filled in the open block of each user stream: the mapping units to be programmed together.
    /// The last one belongs to the SLC cache, if there is one.
    lines: Vec<OpenLine>,
    /// Line of mapping table pages that is being filled in the open block for such pages.
    map_line: OpenLine,
    /// Lines (word lines of one die per channel) that are being programmed. Until the end of the programs, reads find
    /// their mapping units in the buffer.
    programming: VecDeque<ProgrammingLine>,
    /// Time at which all data that has left the write buffer is in the cells.
    programmed_at: Time,
    /// Progress of the run's writes, from which the write amplification of its second half is computed.
    history: WriteProgressSamples,
    moves: Vec<MovedUnitRun>,
    /// Order in which garbage collection reads and writes beside the host.
    collection: CollectionPhase,
    erased: Vec<u32>,
    idle: Option<IdleCollection>,
    /// Streams that hosts choose (data placement); `None` if hosts cannot choose.
    placed: Option<Box<HostPlacedWrites>>,
    /// Zones with dies of their own, which replace the translation layer.
    zoned: Option<Box<ZonedFlashState>>,
    /// Record of the writes that survive a loss of power, for runs that track this.
    notes: Option<DurabilityNotes>,
    /// Totals of accesses, bytes and busy times of dies and channels since the start of the run.
    pub activity: MemoryActivity,
}

/// Costs of flash operations: array times of a die, command time, channel rate and ECC decoding.
#[derive(Clone, Copy, Debug)]
pub struct FlashCosts {
    /// Time of the bus commands of one array operation.
    pub command: Span,
    /// Array read times: of the up to three pages of a word line, in order, and of a page of an SLC block.
    pub reads: [Span; 4],
    /// Time to program one word line, all its pages together.
    pub program: Span,
    /// Time to program one word line of an SLC block.
    pub slc_program: Span,
    /// Time to erase one block of all planes of a die.
    pub erase: Span,
    /// Suspension of a program or erase for a read; `None` if dies cannot suspend.
    pub suspension: Option<OperationSuspension>,
    /// Wires that carry commands: those of each die, a command bus of the channel, or its data bus.
    pub command_bus: CommandBusSharing,
    /// Transfer rate of one channel's data bus.
    pub bus: BusTransferRate,
    /// Time of the ECC decoder after each flash read that a host waits for.
    pub ecc_decode: Span,
    /// Number of pages that cross a channel in one go.
    pub transfer_pages: u32,
    /// True if the planes of a die can read different pages at the same time.
    pub independent_planes: bool,
}

/// Line of an open block that user writes are filling: its block, its first position, and the number of mapping units
/// in it.
#[derive(Clone, Debug, Default)]
struct OpenLine {
    block: u32,
    first: u32,
    units: u32,
    /// Mapping units of the open line that have been written only in part. The rest of each is read from its old
    /// location before the line is programmed.
    parts: Vec<PartialUnit>,
}

#[derive(Clone, Copy, Debug)]
struct PartialUnit {
    unit: u32,
    bytes: u32,
    rest: FlashUnitLocation,
}

/// Order in which garbage collection reads and writes beside the host.
#[derive(Clone, Debug)]
struct CollectionPhase {
    /// True if background reads, such as those of garbage collection, go before queued operations of a die that have
    /// not begun.
    reads_first: bool,
    /// Rows that are being collected, with the number of units that are read from each.
    collected: Vec<(FlashRow, u32)>,
    /// Largest number of rows of a word line that garbage collection reads in one go.
    rows: usize,
    /// Number of lines for which garbage collection makes room at once.
    lines: u32,
    /// Number of lines until garbage collection makes room again.
    lines_left: u32,
}

impl CollectionPhase {
    fn of(translation: &config::Translation) -> CollectionPhase {
        CollectionPhase {
            reads_first: translation.collection_reads == CollectionReadPriority::First,
            collected: Vec::new(),
            rows: index(translation.collection_rows),
            lines: translation.collection_lines,
            lines_left: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct ProgrammingLine {
    block: u32,
    line: u32,
    until: Time,
}

/// Number of bytes in an entry of the mapping table: 1 GB of table for each TB of flash in units of 4 KiB, as in real
/// drives.
pub const MAP_ENTRY_BYTES: u32 = 4;
/// Largest number of blocks in the SLC cache.
const SLC_BLOCKS_MAX: u64 = 1 << 24;
/// Number of times that the write buffer's capacity must be written before a buffer that never fills counts as in
/// steady state. At most 1 / `UNFILLED_PART` of it may be in use then. If writes outrun programs by more than 1 / 32 of
/// their rate, more is in use, and the run continues until the buffer is full.
const TURNOVERS_UNFILLED: u64 = 4;
/// Capacity of the write buffer divided by the largest use at which the buffer counts as one that does not fill.
const UNFILLED_PART: u64 = 8;

impl Flash {
    /// Creates a flash drive from a configuration that has been checked, preconditioned as the configuration says:
    /// empty, written in order, or overwritten at random.
    pub fn new(media: &config::Media, buffer: &config::Buffer, translation: &config::Translation, seed: u64) -> Flash {
        Flash::with_translation_shape(shape(media, translation), media, buffer, translation, seed)
    }

    /// Creates a flash drive from a configuration that has been checked, with a translation layer of the given shape.
    fn with_translation_shape(
        shape: TranslationShape,
        media: &config::Media,
        buffer: &config::Buffer,
        translation: &config::Translation,
        seed: u64,
    ) -> Flash {
        let layout = FlashUnitLayout { first_slc: shape.blocks, ..FlashUnitLayout::of(media, translation) };
        let user_streams = shape.placement.map_or(Policy::streams(translation.policy).0, |streams| streams.user());
        let dies = layout.channels * layout.dies_per_channel;
        Flash {
            layout,
            costs: FlashCosts::of(media),
            spread: ArrayTimeSpread::of(media, seed),
            translation: match translation.precondition {
                Precondition::None => TranslationLayer::new(shape, seed),
                Precondition::Sequential | Precondition::Auto => TranslationLayer::written_in_order(shape, seed),
                Precondition::Random => TranslationLayer::overwritten_at_random(shape, seed),
            },
            buffer: FlashWriteBuffer::new(buffer),
            admission: WriteAdmission::new(buffer),
            dies: vec![FlashDie::default(); index(dies)],
            // A clone of a vector has no spare capacity, so create each bus separately.
            buses: (0..layout.channels).map(|_| ChannelBus::with_room()).collect(),
            command_buses: match media.command_bus {
                CommandBusSharing::Separate => (0..layout.channels).map(|_| ChannelBus::with_room()).collect(),
                CommandBusSharing::Unlimited | CommandBusSharing::Shared => Vec::new(),
            },
            command_buses_busy: Span::ZERO,
            lone: LoneFlashRead::new(layout.channels, dies),
            read_ahead: ReadAheadStreams::new(u64::from(buffer.read_ahead_kib) << 10),
            capacity_bytes: media.capacity_mib << 20,
            waits_for_cells: !media.acknowledges_early(),
            flushes: !buffer.power_loss_protection,
            lines: vec![OpenLine::default(); usize::from(user_streams) + usize::from(shape.slc.is_some())],
            map_line: OpenLine::default(),
            programming: VecDeque::new(),
            programmed_at: Time::ZERO,
            history: WriteProgressSamples::new(translation.used_mib(media) << 20),
            moves: Vec::new(),
            collection: CollectionPhase::of(translation),
            erased: Vec::new(),
            idle: IdleCollection::new(translation.idle, translation.idle_blocks),
            placed: shape.placement.map(|streams| Box::new(HostPlacedWrites::new(streams))),
            zoned: None,
            notes: None,
            activity: MemoryActivity::default(),
        }
    }

    /// Replaces the translation layer by the zones of the configuration, if they have dies of their own.
    pub(in crate::media) fn add_zones(
        &mut self,
        media: &config::Media,
        translation: &config::Translation,
        zones: &config::Zoning,
    ) {
        self.zoned = ZonedFlashState::of(media, translation, zones);
        self.admission.add_zones(zones);
    }

    /// Makes the next write a Zone Append.
    pub(in crate::media) fn mark_append(&mut self) {
        self.admission.mark_append();
    }

    /// Writes `bytes` from `offset` and returns the times of the write. The call comes at `now`; the drive's processors
    /// and limits pass the write on at `at`.
    pub fn write(&mut self, now: Time, at: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.collect_in_idle_time(now);
        self.activity.writes += 1;
        self.activity.written_bytes += u64::from(bytes);
        self.look_up(now, at, offset, bytes, true);
        if let Some(placed) = &mut self.placed {
            placed.count(bytes);
        }
        let at = self.buffer.accepts_writes_from(at);
        let (mut from, mut last_at, mut first) = (at, at, offset);
        let mut command = self.admission.take_command(offset);
        let mut moved_bytes = 0;
        for (unit, part) in units(&self.layout, offset, bytes) {
            let mut stored_bytes = part;
            if self.zoned.is_some() {
                from = self.reserve_for_zone_write(now, from, part);
                (from, stored_bytes) = self.merge_in_zone(now, from, first, part);
            } else if !self.is_in_line(unit) {
                from = self.buffer.reserve(from, self.layout.unit_bytes.into());
            }
            command.partial_units += u32::from(part < self.layout.unit_bytes);
            moved_bytes += u64::from(stored_bytes);
            last_at = self.buffer.store(from, stored_bytes.into());
            if let Some(notes) = &mut self.notes {
                // The time at which the data reaches the cells is known only when its line leaves the buffer.
                notes.hand(now, first, part, Time::NEVER, Time::NEVER);
            }
            first += u64::from(part);
            match self.zoned.is_some() {
                true => self.add_to_zone(now, last_at, unit, part),
                false => self.add_to_line(now, last_at, unit, part),
            }
        }
        let passage = self.admission.pass(last_at, &command);
        let stored_at = passage.ended;
        let started = (last_at - self.buffer.transfer_time(moved_bytes)).max(at) + passage.waited;
        let programmed_at = match self.waits_for_cells {
            true => self.program_whole_buffer(now, stored_at),
            false => self.programmed_at.max(stored_at),
        };
        let acknowledged_at = if self.waits_for_cells { programmed_at } else { stored_at };
        WriteTiming { dispatched: at, admitted: at, started, buffered_at: stored_at, programmed_at, acknowledged_at }
    }

    /// True if the drive has reached its steady state: the SLC cache is used up, and the write buffer has been full. A
    /// buffer that stays nearly empty after its capacity has been written several times also counts, because it drains
    /// as fast as it fills.
    pub fn is_steady(&self) -> bool {
        let capacity = self.buffer.capacity_bytes();
        let drains = self.buffer.used_bytes() <= capacity / UNFILLED_PART;
        let is_full = self.buffer.has_been_full();
        self.translation.is_slc_used_up()
            && (is_full || drains && self.activity.written_bytes >= capacity * TURNOVERS_UNFILLED)
    }

    /// Starts to record the writes that survive a loss of power. If `is_protected` is true, writes in the write buffer
    /// survive too.
    pub fn follow_power(&mut self, is_protected: bool) {
        self.notes = Some(DurabilityNotes::new(is_protected));
    }

    pub(super) fn notes(&mut self) -> Option<&mut DurabilityNotes> {
        self.notes.as_mut()
    }

    /// Cuts the power: drops all accesses in flight, and empties the write buffer. Buffered mapping units keep their
    /// positions in the open block. Either they were programmed with the remaining power, or the translation layer,
    /// which finds units by the metadata beside them, writes the units that it finds again (assumed; drives do not
    /// say).
    pub fn cut_power(&mut self) {
        for (stream, line) in (0..).zip(&mut self.lines) {
            if line.units > 0 {
                let left = self.layout.units_per_line(line.block) - line.units;
                self.translation.skip(self.translation.user_write_stream(stream), left);
            }
            *line = OpenLine::default();
        }
        if self.map_line.units > 0 {
            self.translation.skip(FlashWriteStream::Map, self.layout.line_units() - self.map_line.units);
        }
        self.map_line = OpenLine::default();
        self.zoned.iter_mut().for_each(|zoned| zoned.cut_power());
        self.programming.clear();
        self.programmed_at = Time::ZERO;
        self.buffer.empty();
        self.admission.cut_power();
        self.read_ahead.forget();
        self.dies.fill(FlashDie::default());
        self.buses.iter_mut().for_each(ChannelBus::clear);
        self.command_buses.iter_mut().for_each(ChannelBus::clear);
    }

    /// Flushes the write buffer. Returns the time at which everything written so far survives a loss of power: `now` if
    /// the buffer is protected.
    pub fn flush(&mut self, now: Time) -> Time {
        if self.flushes { self.program_whole_buffer(now, now) } else { now }
    }

    /// Deallocates the `bytes` from `offset` (trim). Mapping units or zones that lie only partly within them stay.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        if self.zoned.is_some() {
            return self.reset_whole_zones(offset, bytes);
        }
        let unit_bytes = u64::from(self.layout.unit_bytes);
        if offset == 0 && bytes >= self.capacity_bytes {
            return self.translation.deallocate_all();
        }
        let last = (offset + bytes).min(self.capacity_bytes) / unit_bytes;
        for unit in offset.div_ceil(unit_bytes)..last {
            self.translation.discard(narrow::<u32, u64>(unit));
        }
    }

    /// Returns the translation layer of the drive, with its mapping, blocks and counts.
    pub fn translation(&self) -> &TranslationLayer {
        &self.translation
    }

    #[cfg(test)]
    pub(crate) fn translation_mut(&mut self) -> &mut TranslationLayer {
        &mut self.translation
    }

    /// Returns the name and the value of each counter of the zones or of the translation layer, such as erases and
    /// write amplification, and of reads where nothing was written, if there were any.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = match &self.zoned {
            Some(zoned) => zoned.counters(self.activity.written_bytes),
            None => self.mapping_counters(),
        };
        if self.activity.unwritten_read_bytes > 0 {
            // Read-ahead may fetch more bytes than hosts read. Round up, so that any unwritten read shows.
            let read = self.activity.read_bytes.max(self.activity.unwritten_read_bytes);
            let percent = (u128::from(self.activity.unwritten_read_bytes) * 100).div_ceil(read.into());
            counters.push(("unwritten_read_bytes", self.activity.unwritten_read_bytes));
            counters.push(("unwritten_read_percent", narrow::<u64, u128>(percent)));
        }
        counters
    }

    /// Returns the name and the value of each counter of the translation layer.
    fn mapping_counters(&self) -> Vec<(&'static str, u64)> {
        let counts = self.translation.counts();
        let TranslationShape { blocks, block_units, units, .. } = *self.translation.shape();
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let progress = self.progress();
        let to_cells = progress[0].programmed;
        let late = self.history.second_half_amplification_percent(&progress);
        let percent = |part: u64, of: u64| (u128::from(part) * 100 / u128::from(of.max(1))) as u64;
        let mut counters = vec![
            ("moved_bytes", counts.moved * unit_bytes),
            ("spare_percent", percent(u64::from(blocks) * u64::from(block_units) - units, units)),
            ("erases", counts.erases),
            ("erases_of_a_block_max", self.translation.erases().0.into()),
            ("blocks", blocks.into()),
        ];
        if self.translation.has_map_cache() {
            counters.extend([("map_reads", counts.map_reads), ("map_writes", counts.map_writes)]);
        }
        if let Some(placed) = &self.placed {
            counters.extend(placed.counters(&progress[1..], late.get(1..).unwrap_or_default()));
        }
        if self.translation.shape().slc.is_some() {
            counters.push(("slc_written_bytes", counts.slc_written * unit_bytes));
        }
        if self.activity.written_bytes > 0 {
            counters.insert(0, ("write_amplification_percent", percent(to_cells, self.activity.written_bytes)));
        }
        if let Some(Some(percent)) = late.first() {
            counters.insert(1, ("late_write_amplification_percent", *percent));
        }
        counters
    }

    /// Returns the bytes written and programmed so far, of the drive and then of each placement handle.
    fn progress(&self) -> Vec<Progress> {
        let (counts, unit_bytes) = (self.translation.counts(), u64::from(self.layout.unit_bytes));
        let programmed = counts.written + counts.moved + counts.skipped + counts.map_writes;
        let drive = Progress { written: self.activity.written_bytes, programmed: programmed * unit_bytes };
        let of_handles = self.placed.iter().flat_map(|placed| placed.progress(&self.translation, unit_bytes));
        std::iter::once(drive).chain(of_handles).collect()
    }

    /// True if a mapping unit is in the write buffer, in a line that is being filled. With data placement only the line
    /// of the current stream counts.
    fn is_in_line(&self, unit: u32) -> bool {
        let place = self.translation.location(unit);
        match &self.placed {
            // Writing to another stream removes a unit from its old line, so search only the line of this write's
            // stream.
            Some(placed) => self.lines[usize::from(self.translation.stream_of_open_unit(placed.stream()))].holds(place),
            None => self.lines.iter().any(|line| line.holds(place)),
        }
    }

    /// Adds `bytes` of a mapping unit, which are in the write buffer at `at`, to the open line of its stream. Programs
    /// the line if it is then full, and collects garbage if the line is new.
    fn add_to_line(&mut self, now: Time, at: Time, unit: u32, bytes: u32) {
        if self.is_in_line(unit) {
            let mut parts = self.lines.iter_mut().flat_map(|line| &mut line.parts);
            if let Some(part) = parts.find(|part| part.unit == unit) {
                part.bytes += bytes;
            }
            return;
        }
        let handle = match &self.placed {
            Some(placed) => placed.stream(),
            None => self.translation.stream_of(unit),
        };
        let stream = self.translation.stream_of_open_unit(handle);
        if self.lines[usize::from(stream)].units == 0 {
            self.collect_garbage(now, stream);
        }
        // Garbage collection may have opened or freed blocks, which determines the open block that takes the write.
        let stream = self.translation.stream_of_open_unit(handle);
        let rest = self.translation.location(unit);
        let place = self.translation.write_unit_of_handle(unit, handle, stream);
        let line = &mut self.lines[usize::from(stream)];
        if line.units == 0 {
            (line.block, line.first) = (place.block, place.position);
        }
        line.units += 1;
        if bytes < self.layout.unit_bytes && rest != FlashUnitLocation::NONE {
            line.parts.push(PartialUnit { unit, bytes, rest });
        }
        if line.units == self.layout.units_per_line(line.block) {
            self.program_stream_line(now, at, stream);
        }
    }

    /// Programs everything in the write buffer, incomplete lines included. Returns the time at which all of it is in
    /// the cells.
    fn program_whole_buffer(&mut self, now: Time, at: Time) -> Time {
        if self.zoned.is_some() {
            self.copy_unfilled_lines(now, at, false);
        }
        for stream in 0..narrow::<u8, usize>(self.lines.len()) {
            let units = self.lines[usize::from(stream)].units;
            if units > 0 {
                let left = self.layout.units_per_line(self.lines[usize::from(stream)].block) - units;
                self.translation.skip(self.translation.user_write_stream(stream), left);
                self.program_stream_line(now, at, stream);
            }
        }
        self.programmed_at.max(at)
    }

    /// Programs the open line of a user stream, whose last mapping unit is in the buffer at `at`. Before that, reads
    /// the rest of its partly written units. Frees the line's buffer space at the end of the programs.
    fn program_stream_line(&mut self, now: Time, at: Time, stream: u8) {
        let OpenLine { block, first, units, parts } = std::mem::take(&mut self.lines[usize::from(stream)]);
        if self.history.is_due(self.activity.written_bytes) {
            self.history.add(self.activity.written_bytes, self.progress());
        }
        let mut whole_at = at;
        let unit_bytes = self.layout.unit_bytes;
        for part in parts.iter().filter(|part| part.bytes < unit_bytes) {
            let row = self.layout.row(part.rest);
            whole_at = whole_at.max(self.read_in_one_go(now, at, &[(row, 1)]));
        }
        let line = first / self.layout.units_per_line(block);
        for channel in 0..self.layout.channels {
            let in_channel = self.layout.units_on_channel(units, channel);
            if in_channel > 0 {
                let until = self.program(now, whole_at, block, self.layout.die(block, line, channel));
                self.buffer.release(until, u64::from(in_channel) * u64::from(self.layout.unit_bytes));
                self.programmed_at = self.programmed_at.max(until);
            }
        }
        self.keep_in_buffer_until(now, block, line, self.programmed_at);
        if let Some(notes) = &mut self.notes {
            notes.program(0, u64::MAX, whole_at, self.programmed_at);
        }
    }

    /// Marks a line as being programmed: reads find its mapping units in the buffer until `until`. Drops lines whose
    /// programs have ended by `now`.
    fn keep_in_buffer_until(&mut self, now: Time, block: u32, line: u32, until: Time) {
        while self.programming.front().is_some_and(|oldest| oldest.until <= now) {
            self.programming.pop_front();
        }
        self.programming.push_back(ProgrammingLine { block, line, until });
    }

    /// Programs one word line of a block, on all planes of a die, with data that is in the buffer at `at`. Returns the
    /// time at which the program ends.
    fn program(&mut self, now: Time, at: Time, block: u32, die: u32) -> Time {
        let (pages_per_line, program) = match self.layout.is_slc_block(block) {
            true => (1, self.costs.slc_program),
            false => (self.layout.pages_per_line, self.costs.program),
        };
        let pages = pages_per_line * self.layout.planes;
        let page = self.page_transfer_time();
        let channel = index(die % self.layout.channels);
        let mut ready = self.dies[index(die)].registers_free_at(now).max(at);
        let mut crossed = ready;
        for sent in 1..=pages {
            let commanded = self.send_program_command(now, channel, ready);
            crossed = self.buses[channel].reserve(now, commanded, page) + page;
            ready = if sent.is_multiple_of(self.costs.transfer_pages) { crossed + page } else { crossed };
        }
        let length = self.draw_operation_time(program);
        self.activity.buses_busy += page * u64::from(pages);
        self.activity.banks_busy += length;
        self.dies[index(die)].enqueue(now, DieWorkKind::Program, crossed, length)
    }

    /// Sends the command of an access to a channel, not before `ready`. Returns the time at which the command begins:
    /// `ready`, unless other commands or data hold the wires.
    #[inline]
    fn send_channel_command(&mut self, now: Time, channel: usize, ready: Time) -> Time {
        let command = self.costs.command;
        match self.costs.command_bus {
            CommandBusSharing::Unlimited => ready,
            CommandBusSharing::Separate => {
                self.command_buses_busy += command;
                self.command_buses[channel].reserve(now, ready, command)
            }
            CommandBusSharing::Shared => {
                self.activity.buses_busy += command;
                self.buses[channel].reserve(now, ready, command)
            }
        }
    }

    /// Sends the command to program one page to a channel, not before `ready`. Returns the time at which the page's
    /// data may follow: `ready` if commands need no bus, because the program time then includes them.
    fn send_program_command(&mut self, now: Time, channel: usize, ready: Time) -> Time {
        match self.costs.command_bus {
            CommandBusSharing::Unlimited => ready,
            _ => self.send_channel_command(now, channel, ready) + self.costs.command,
        }
    }

    /// Returns the time of a program or an erase with mean time `mean`, with its random spread if the drive has any.
    fn draw_operation_time(&mut self, mean: Span) -> Span {
        self.spread.as_mut().map_or(mean, |spread| spread.program(mean))
    }

    /// Draws the time of an array read of page number `page` of a word line, commands and retries included.
    fn draw_array_read_time(&mut self, page: u32) -> Span {
        let mean = self.costs.reads[index(page)];
        self.costs.command + self.spread.as_mut().map_or(mean, |spread| spread.read(mean))
    }

    /// Makes room for another line of `stream` by garbage collection, and queues the reads, programs and erases for it.
    fn collect_garbage(&mut self, now: Time, stream: u8) {
        let line_units = self.layout.line_units();
        self.translation.reserve_block_for_stream(stream);
        if self.collection.lines_left > 0 && self.translation.has_room_for(line_units) {
            self.collection.lines_left -= 1;
            return;
        }
        self.collection.lines_left = self.collection.lines - 1;
        let units = line_units.saturating_mul(self.collection.lines);
        let (mut moves, mut erased) = (std::mem::take(&mut self.moves), std::mem::take(&mut self.erased));
        self.translation.make_room(units, &mut moves, &mut erased);
        (self.moves, self.erased) = (moves, erased);
        self.execute_collection(now);
    }

    /// Queues the reads, programs and erases that the translation layer has decided on for garbage collection.
    fn execute_collection(&mut self, now: Time) {
        let (mut moves, mut erased) = (std::mem::take(&mut self.moves), std::mem::take(&mut self.erased));
        for moved in moves.drain(..) {
            self.relocate_valid_units(now, moved);
        }
        for _ in erased.drain(..) {
            for erase in 0..self.dies.len() * index(self.layout.block_erases) {
                let length = self.draw_operation_time(self.costs.erase);
                let die = erase % self.dies.len();
                self.dies[die].enqueue(now, DieWorkKind::Erase, now, length);
                self.activity.banks_busy += length;
            }
        }
        (self.moves, self.erased) = (moves, erased);
    }

    /// Reads the mapping units that garbage collection moves, and programs the lines that they fill in the new block.
    fn relocate_valid_units(&mut self, now: Time, moved: MovedUnitRun) {
        let there_at = self.read_units_to_move(now, moved);
        let line_units = self.layout.line_units();
        for line in moved.to.position / line_units..(moved.to.position + moved.units) / line_units {
            for channel in 0..self.layout.channels {
                self.program(now, there_at, moved.to.block, self.layout.die(moved.to.block, line, channel));
            }
        }
    }

    /// Reads the mapping units of a move, as many rows of a word line in one go as the drive does. Returns the time at
    /// which all are in the buffer.
    fn read_units_to_move(&mut self, now: Time, moved: MovedUnitRun) -> Time {
        let mut there_at = now;
        let mut rows = std::mem::take(&mut self.collection.collected);
        rows.extend(self.rows_of_move(moved).map(|(place, units)| (self.layout.row(place), units)));
        // Rows of one word line lie as far apart as the drive has channels.
        let lines = self.layout.channels * self.layout.pages_per_line;
        let word_line = |(row, _): &(FlashRow, u32)| (row.number / lines, row.die);
        rows.sort_by_key(|row| (word_line(row), row.0.number));
        for rows in rows.chunk_by(|one, next| word_line(one) == word_line(next)) {
            for rows in rows.chunks(self.collection.rows) {
                there_at = there_at.max(self.read_in_one_go(now, now, rows));
            }
        }
        rows.clear();
        self.collection.collected = rows;
        there_at
    }

    /// Returns the location of each row that holds units of a move, with the number of units to be read from it.
    fn rows_of_move(&self, moved: MovedUnitRun) -> impl Iterator<Item = (FlashUnitLocation, u32)> + use<> {
        let row_units = self.layout.row_units;
        let rows_before = |position: u32| position / row_units;
        let rows = rows_before(moved.from.position + moved.positions.max(1) - 1) - rows_before(moved.from.position) + 1;
        let reads = rows.min(moved.units);
        let units = moved.units.div_ceil(reads);
        (0..reads).map(move |read| {
            let position = moved.from.position + read * (rows / reads) * row_units;
            (FlashUnitLocation { position, ..moved.from }, units)
        })
    }

    /// Reads rows of one word line in one go in the background, not before `at`: behind all queued operations of their
    /// die, or before those that have not begun if background reads go first. A pair of each row and the number of units
    /// to be read from it. Each row leaves the registers over the channel before the next is read; the last one leaves
    /// while the die does something else. Returns the time at which all are in the buffer.
    fn read_in_one_go(&mut self, now: Time, at: Time, rows: &[(FlashRow, u32)]) -> Time {
        let Some((FlashRow { die, .. }, _)) = rows.first() else { return now };
        let channel = index(die % self.layout.channels);
        let begun_at = match self.collection.reads_first {
            true => self.dies[index(*die)].first_begins_at(now, at),
            false => self.dies[index(*die)].begins_at(at),
        };
        let (mut crossed, mut read_at) = (begun_at, begun_at);
        for (row, units) in rows {
            let length = self.draw_array_read_time(row.page);
            let transfer = self.costs.bus.transfer_time(units * self.layout.unit_bytes);
            read_at = self.send_channel_command(now, channel, crossed) + length;
            crossed = self.buses[channel].reserve(now, read_at, transfer) + transfer;
            self.activity.buses_busy += transfer;
        }
        let length = read_at.since(begun_at);
        self.activity.banks_busy += length;
        match self.collection.reads_first {
            true => self.dies[index(*die)].enqueue_reads_first(now, at, length),
            false => self.dies[index(*die)].enqueue(now, DieWorkKind::Read, at, length),
        };
        crossed
    }

    /// Returns the time to transfer one page of one plane over a channel.
    fn page_transfer_time(&self) -> Span {
        self.costs.bus.transfer_time(self.page_bytes())
    }

    fn page_bytes(&self) -> u32 {
        self.layout.row_units * self.layout.unit_bytes / self.layout.planes
    }
}

impl OpenLine {
    /// True if the mapping unit at location `place` belongs to this line, which is being filled.
    #[inline]
    fn holds(&self, place: FlashUnitLocation) -> bool {
        self.units > 0 && place.block == self.block && place.position >= self.first
    }
}

impl FlashCosts {
    /// Sends the command of an access over a channel's wires, not before `ready`. Returns the time at which the command
    /// begins.
    fn command_start_time(&self, now: Time, ready: Time, bus: &mut ChannelBus, command_bus: &mut ChannelBus) -> Time {
        match self.command_bus {
            CommandBusSharing::Unlimited => ready,
            CommandBusSharing::Separate => command_bus.reserve(now, ready, self.command),
            CommandBusSharing::Shared => bus.reserve(now, ready, self.command),
        }
    }

    /// Computes the costs of flash operations from a media configuration.
    pub fn of(media: &config::Media) -> FlashCosts {
        let or_read = |read: Span| if read.is_zero() { media.read } else { read };
        FlashCosts {
            command: media.command,
            reads: [media.read, or_read(media.read_centre), or_read(media.read_upper), or_read(media.slc_read)],
            program: media.program,
            slc_program: media.slc_program,
            erase: media.erase,
            suspension: OperationSuspension::of(media),
            command_bus: media.command_bus,
            bus: BusTransferRate::from_bytes_per_ns(media.bus_bytes_per_ns),
            ecc_decode: media.ecc_decode,
            transfer_pages: media.transfer_pages,
            independent_planes: media.plane_reads == ReadablePages::Independent,
        }
    }
}

/// Computes the shape of a translation layer from the configuration: number and size of blocks, SLC cache, map cache
/// and collection policy.
pub fn shape(media: &config::Media, translation: &config::Translation) -> TranslationShape {
    let layout = FlashUnitLayout::of(media, translation);
    let block_units = layout.block_units.max(1);
    let units = (media.capacity_mib << 20) / u64::from(translation.unit_bytes);
    let all = (real(units) * (1.0 + translation.spare_share(media)) / f64::from(block_units)).ceil();
    let slc_units = block_units / layout.pages_per_line.max(1);
    let slc_bytes = u64::from(slc_units) * u64::from(translation.unit_bytes);
    TranslationShape {
        slc: (translation.slc_cache_mib > 0).then(|| SlcCacheShape {
            blocks: narrow::<u32, u64>((translation.slc_cache_mib << 20).div_ceil(slc_bytes).min(SLC_BLOCKS_MAX)),
            block_units: slc_units,
        }),
        units,
        used_units: (translation.used_mib(media) << 20) / u64::from(translation.unit_bytes),
        block_units,
        blocks: all as u32,
        line_units: layout.line_units(),
        policy: translation.policy,
        settings: TranslationPolicySettings { choices: translation.choices },
        map: (translation.map_cache_kib > 0).then(|| MapTableShape {
            page_units: translation.unit_bytes / MAP_ENTRY_BYTES,
            cached_pages: narrow::<u32, u64>(
                ((translation.map_cache_kib << 10) / u64::from(translation.unit_bytes)).min(u32::MAX.into()),
            ),
        }),
        wear_gap: translation.wear_gap_erases,
        placement: None,
    }
}

/// Computes the shape of a translation layer with the streams that hosts may choose, if the configuration has data
/// placement.
pub fn shape_with_placement(
    media: &config::Media,
    translation: &config::Translation,
    placement: &config::DataPlacement,
) -> TranslationShape {
    let config::DataPlacement { handles, groups, isolation } = *placement;
    let streams = placement.is_there().then_some(HostStreams { handles, groups, isolation });
    TranslationShape { placement: streams, ..shape(media, translation) }
}

/// Returns a pair for each mapping unit that the `bytes` from `offset` touch: its number, and the number of the bytes
/// in it.
fn units(layout: &FlashUnitLayout, offset: u64, bytes: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
    let unit_bytes = u64::from(layout.unit_bytes);
    let end = offset + u64::from(bytes);
    (offset / unit_bytes..end.div_ceil(unit_bytes)).map(move |unit| {
        let (from, until) = ((unit * unit_bytes).max(offset), ((unit + 1) * unit_bytes).min(end));
        (narrow::<u32, u64>(unit), narrow::<u32, u64>(until - from))
    })
}
