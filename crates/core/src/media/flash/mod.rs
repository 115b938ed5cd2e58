//! The inside of a flash drive: a write buffer, dies behind channels, and the translation layer's decisions as time.
//!
//! A write is done when it is in the buffer. What is there of one line of the open block is programmed as soon as the line
//! is whole: units that are written again before that take no more room and no cells. The room of a line comes back when
//! its programs have ended, so that a buffer that is full passes on no more than the cells take. Moves for cleaning go on in
//! even steps beside the user's lines.
//!
//! Everything is answered at once, as [`crate::media`] has it: work that nobody waits for is put in line when it is decided,
//! and reads go before it ([`die`]). Data of programs crosses a channel page by page, with a page's time between, so that a
//! read finds a gap.

pub mod buffer;
pub mod die;
pub mod layout;
pub mod read_ahead;
mod reads;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::timing::{Bus, BusRate};
use super::translation::stationary::Choice;
use super::translation::{Move, Place, Shape, Stream, Translation};
use super::{Activity, WriteTiming};
use crate::config::{self, Acknowledge, Cleaning, PlaneReads, Precondition};
use crate::data::persistence::Notes;
use crate::time::{Span, Time};
use buffer::Buffer;
use die::Die;
use layout::Layout;
use read_ahead::ReadAhead;

/// A flash drive behind its controller.
#[derive(Clone, Debug)]
pub struct Flash {
    layout: Layout,
    costs: Costs,
    translation: Translation,
    buffer: Buffer,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    ahead: ReadAhead,
    capacity_bytes: u64,
    /// Whether a write is done only when it is in the cells, and whether a flush has to wait for that.
    waits_for_cells: bool,
    flushes: bool,
    line: Line,
    /// Lines that are being programmed, from which reads are served as long as they are in the buffer.
    programming: VecDeque<Programming>,
    /// When all that has left the buffer is in the cells.
    programmed_at: Time,
    moves: Vec<Move>,
    erased: Vec<u32>,
    /// What outlives power, where that is followed.
    notes: Option<Notes>,
    pub activity: Activity,
}

/// What operations take.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub command: Span,
    /// Array read of each page of a word line.
    pub reads: [Span; 3],
    pub program: Span,
    pub erase: Span,
    pub suspend: Option<Span>,
    pub bus: BusRate,
    pub ecc_decode: Span,
    pub independent_planes: bool,
}

/// The line of the user's open block that is filled next.
#[derive(Clone, Debug, Default)]
struct Line {
    block: u32,
    first: u32,
    units: u32,
    /// Units of which only a part has been written so far, with that part and the place of the rest.
    parts: Vec<PartOfUnit>,
}

#[derive(Clone, Copy, Debug)]
struct PartOfUnit {
    unit: u32,
    bytes: u32,
    rest: Place,
}

#[derive(Clone, Copy, Debug)]
struct Programming {
    block: u32,
    line: u32,
    until: Time,
}

impl Flash {
    /// The drive of a description that has been checked, in the state that it names.
    pub fn new(media: &config::Media, buffer: &config::Buffer, translation: &config::Translation, seed: u64) -> Flash {
        let layout = Layout::of(media, translation);
        let shape = shape(media, translation);
        let dies = layout.channels * layout.dies_per_channel;
        Flash {
            layout,
            costs: Costs::of(media),
            translation: match translation.precondition {
                Precondition::None => Translation::new(shape, seed),
                Precondition::Sequential => Translation::written_in_order(shape, seed),
                Precondition::Random => Translation::overwritten_at_random(shape, seed),
            },
            buffer: Buffer::new(buffer),
            dies: vec![Die::default(); dies as usize],
            buses: vec![Bus::default(); layout.channels as usize],
            ahead: ReadAhead::new(u64::from(buffer.read_ahead_kib) << 10),
            capacity_bytes: media.capacity_mib << 20,
            waits_for_cells: media.acknowledge == Acknowledge::Late,
            flushes: !buffer.power_loss_protection,
            line: Line::default(),
            programming: VecDeque::new(),
            programmed_at: Time::ZERO,
            moves: Vec::new(),
            erased: Vec::new(),
            notes: None,
            activity: Activity::default(),
        }
    }

    /// Writes `bytes` from `offset`, handed over `now` by a controller that is through with the command at `at`.
    pub fn write(&mut self, now: Time, at: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.activity.writes += 1;
        self.activity.written_bytes += u64::from(bytes);
        let (mut from, mut last_at, mut first) = (at, at, offset);
        for (unit, part) in units(&self.layout, offset, bytes) {
            if !self.is_in_line(unit) {
                from = self.buffer.take(from, self.layout.unit_bytes.into());
            }
            last_at = self.buffer.store(from, part.into());
            if let Some(notes) = &mut self.notes {
                // When it reaches the cells is known once its line leaves the buffer.
                notes.hand(now, first, part, Time::NEVER, Time::NEVER);
            }
            first += u64::from(part);
            self.put(now, last_at, unit, part);
        }
        let stored_at = last_at + self.buffer.command();
        let started = (last_at - self.buffer.transfer(bytes.into())).max(at);
        let programmed_at = match self.waits_for_cells {
            true => self.program_all(now, stored_at),
            false => self.programmed_at.max(stored_at),
        };
        let acknowledged_at = if self.waits_for_cells { programmed_at } else { stored_at };
        WriteTiming { admitted: at, started, buffered_at: stored_at, programmed_at, acknowledged_at }
    }

    /// Note from now on what outlives power.
    pub fn follow_power(&mut self, is_protected: bool) {
        self.notes = Some(Notes::new(is_protected));
    }

    pub(super) fn notes(&mut self) -> Option<&mut Notes> {
        self.notes.as_mut()
    }

    /// Power fails: nothing is under way, and the buffer is empty. What was in it has its room in the open block all the
    /// same: either it was programmed with what power was left, or the translation layer, which finds units by what is
    /// written beside them, writes anew what it then finds of these (assumed; drives do not say).
    pub fn cut_power(&mut self) {
        if self.line.units > 0 {
            self.translation.skip(Stream::User, self.layout.line_units() - self.line.units);
        }
        self.line = Line::default();
        self.programming.clear();
        self.programmed_at = Time::ZERO;
        self.buffer.empty();
        self.ahead.forget();
        self.dies.fill(Die::default());
        self.buses.fill(Bus::default());
    }

    /// When all that has been written outlives power.
    pub fn flush(&mut self, now: Time) -> Time {
        if self.flushes { self.program_all(now, now) } else { now }
    }

    /// The user no longer needs these bytes; of units that are not whole, nothing is given back.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        let unit_bytes = u64::from(self.layout.unit_bytes);
        if offset == 0 && bytes >= self.capacity_bytes {
            return self.translation.discard_all();
        }
        let last = (offset + bytes).min(self.capacity_bytes) / unit_bytes;
        for unit in offset.div_ceil(unit_bytes)..last {
            self.translation.discard(unit as u32);
        }
    }

    /// The translation layer.
    pub fn translation(&self) -> &Translation {
        &self.translation
    }

    #[cfg(test)]
    pub(crate) fn translation_mut(&mut self) -> &mut Translation {
        &mut self.translation
    }

    /// What has been counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = self.translation.counts();
        let Shape { blocks, block_units, units, .. } = *self.translation.shape();
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let to_cells = (counts.written + counts.moved + counts.skipped) * unit_bytes;
        let percent = |part: u64, of: u64| (u128::from(part) * 100 / u128::from(of.max(1))) as u64;
        let mut counters = vec![
            ("moved_bytes", counts.moved * unit_bytes),
            ("spare_percent", percent(u64::from(blocks) * u64::from(block_units) - units, units)),
            ("erases", counts.erases),
            ("erases_of_a_block_max", self.translation.erases().0.into()),
            ("blocks", blocks.into()),
        ];
        if self.activity.written_bytes > 0 {
            counters.insert(0, ("write_amplification_percent", percent(to_cells, self.activity.written_bytes)));
        }
        counters
    }

    /// Whether a unit is in the line that is being filled.
    fn is_in_line(&self, unit: u32) -> bool {
        let place = self.translation.place(unit);
        self.line.units > 0 && place.block == self.line.block && place.position >= self.line.first
    }

    /// A part of a unit is in the buffer at `at`.
    fn put(&mut self, now: Time, at: Time, unit: u32, bytes: u32) {
        if self.is_in_line(unit) {
            if let Some(part) = self.line.parts.iter_mut().find(|part| part.unit == unit) {
                part.bytes += bytes;
            }
            return;
        }
        if self.line.units == 0 {
            self.clean(now);
        }
        let rest = self.translation.place(unit);
        let place = self.translation.write(unit);
        if self.line.units == 0 {
            (self.line.block, self.line.first) = (place.block, place.position);
        }
        self.line.units += 1;
        if bytes < self.layout.unit_bytes && rest != Place::NONE {
            self.line.parts.push(PartOfUnit { unit, bytes, rest });
        }
        if self.line.units == self.layout.line_units() {
            self.program_line(now, at);
        }
    }

    /// Program what has been written, whole lines or not.
    fn program_all(&mut self, now: Time, at: Time) -> Time {
        if self.line.units > 0 {
            self.translation.skip(Stream::User, self.layout.line_units() - self.line.units);
            self.program_line(now, at);
        }
        self.programmed_at.max(at)
    }

    /// Program the line of the user, whose last unit is in the buffer at `at`.
    fn program_line(&mut self, now: Time, at: Time) {
        let Line { block, first, units, parts } = std::mem::take(&mut self.line);
        let mut whole_at = at;
        let unit_bytes = self.layout.unit_bytes;
        for part in parts.iter().filter(|part| part.bytes < unit_bytes) {
            whole_at = whole_at.max(self.read_beside(now, at, part.rest, 1));
        }
        let line = first / self.layout.line_units();
        for channel in 0..self.layout.channels {
            let in_channel = self.layout.channel_units(units, channel);
            if in_channel > 0 {
                let until = self.program(now, whole_at, self.layout.die(block, line, channel));
                self.buffer.release(until, u64::from(in_channel) * u64::from(self.layout.unit_bytes));
                self.programmed_at = self.programmed_at.max(until);
            }
        }
        while self.programming.front().is_some_and(|oldest| oldest.until <= now) {
            self.programming.pop_front();
        }
        self.programming.push_back(Programming { block, line, until: self.programmed_at });
        if let Some(notes) = &mut self.notes {
            notes.program(0, u64::MAX, whole_at, self.programmed_at);
        }
    }

    /// Program a word line of all planes of a die with data that is there at `at`: when that is over.
    fn program(&mut self, now: Time, at: Time, die: u32) -> Time {
        let pages = self.layout.pages_per_line * self.layout.planes;
        let page = self.page_transfer();
        let channel = (die % self.layout.channels) as usize;
        let mut ready = self.dies[die as usize].takes_data_at(now).max(at);
        let mut crossed = ready;
        for _ in 0..pages {
            crossed = self.buses[channel].promise(now, ready, page) + page;
            ready = crossed + page;
        }
        self.activity.buses_busy += page * u64::from(pages);
        self.activity.banks_busy += self.costs.program;
        self.dies[die as usize].work(now, crossed, self.costs.program)
    }

    /// Make room for another line.
    fn clean(&mut self, now: Time) {
        let (mut moves, mut erased) = (std::mem::take(&mut self.moves), std::mem::take(&mut self.erased));
        self.translation.make_room(self.layout.line_units(), &mut moves, &mut erased);
        for moved in moves.drain(..) {
            self.relocate(now, moved);
        }
        for _ in erased.drain(..) {
            for die in &mut self.dies {
                die.work(now, now, self.costs.erase);
                self.activity.banks_busy += self.costs.erase;
            }
        }
        (self.moves, self.erased) = (moves, erased);
    }

    /// Read units, and program the lines that they fill.
    fn relocate(&mut self, now: Time, moved: Move) {
        let rows_before = |position: u32| position / self.layout.row_units;
        let rows = rows_before(moved.from.position + moved.positions.max(1) - 1) - rows_before(moved.from.position) + 1;
        let reads = rows.min(moved.units);
        let mut there_at = now;
        for read in 0..reads {
            let place =
                Place { position: moved.from.position + read * (rows / reads) * self.layout.row_units, ..moved.from };
            there_at = there_at.max(self.read_beside(now, now, place, moved.units.div_ceil(reads)));
        }
        let line_units = self.layout.line_units();
        for line in moved.to.position / line_units..(moved.to.position + moved.units) / line_units {
            for channel in 0..self.layout.channels {
                self.program(now, there_at, self.layout.die(moved.to.block, line, channel));
            }
        }
    }

    /// Read units of a row that nobody waits for: when they are in the buffer.
    fn read_beside(&mut self, now: Time, at: Time, place: Place, units: u32) -> Time {
        let row = self.layout.row(place);
        let length = self.costs.command + self.costs.reads[row.page as usize];
        let read_at = self.dies[row.die as usize].work(now, at, length);
        let transfer = self.costs.bus.transfer(units * self.layout.unit_bytes);
        self.activity.banks_busy += length;
        self.activity.buses_busy += transfer;
        self.buses[(row.die % self.layout.channels) as usize].promise(now, read_at, transfer) + transfer
    }

    /// Time of a page of one plane on a channel's bus.
    fn page_transfer(&self) -> Span {
        self.costs.bus.transfer(self.page_bytes())
    }

    fn page_bytes(&self) -> u32 {
        self.layout.row_units * self.layout.unit_bytes / self.layout.planes
    }
}

impl Costs {
    /// Of a description.
    pub fn of(media: &config::Media) -> Costs {
        let or_read = |read: Span| if read.is_zero() { media.read } else { read };
        Costs {
            command: media.command,
            reads: [media.read, or_read(media.read_centre), or_read(media.read_upper)],
            program: media.program,
            erase: media.erase,
            suspend: (!media.suspend.is_zero()).then_some(media.suspend),
            bus: BusRate::from_bytes_per_ns(media.bus_bytes_per_ns),
            ecc_decode: media.ecc_decode,
            independent_planes: media.plane_reads == PlaneReads::Independent,
        }
    }
}

/// The translation layer of a description.
pub fn shape(media: &config::Media, translation: &config::Translation) -> Shape {
    let layout = Layout::of(media, translation);
    let block_units = layout.block_units.max(1);
    let units = (media.capacity_mib << 20) / u64::from(translation.unit_bytes);
    let all = (units as f64 * (1.0 + translation.over_provisioning) / f64::from(block_units)).ceil();
    Shape {
        units,
        block_units,
        blocks: all as u32,
        line_units: layout.line_units(),
        choice: match translation.cleaning {
            Cleaning::Greedy => Choice::Emptiest,
            Cleaning::Fifo => Choice::Oldest,
            Cleaning::DChoices => Choice::EmptiestOf(translation.choices),
        },
        wear_gap: translation.wear_gap_erases,
    }
}

/// The units that bytes lie in, with how many lie in each.
fn units(layout: &Layout, offset: u64, bytes: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
    let unit_bytes = u64::from(layout.unit_bytes);
    let end = offset + u64::from(bytes);
    (offset / unit_bytes..end.div_ceil(unit_bytes)).map(move |unit| {
        let (from, until) = ((unit * unit_bytes).max(offset), ((unit + 1) * unit_bytes).min(end));
        (unit as u32, (until - from) as u32)
    })
}
