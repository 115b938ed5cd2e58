//! The memory behind the controller: channels of banks that share a bus, their array and program
//! times, and how addresses spread over them.
//!
//! A controller asks [`Media`] when the bytes of a read will be there, or when a write will be
//! done, and gets the answer at once: a bank serves in order and a bus keeps its promises, so
//! nothing that comes later changes it. The order is that of the calls; `now` is when the access is
//! handed over, which for a command that is still being parsed lies a little ahead. Media knows
//! nothing of links and protocols, moves no data and refuses no address.
//!
//! [`geometry`] maps addresses to banks, [`timing`] holds the costs of a technology and the clock of a bus, [`bank`] that
//! of a bank and the pieces of a program unit that come together in it; this module joins the pieces of a request into one answer. What only some
//! memories have is in [`Details`]: [`chip`] tells the chips of a bank apart, [`cells`] makes the
//! time of a write depend on its data, [`wear`] moves lines about, [`housekeeping`] pauses
//! everything. `energy` counts joules, [`lifetime`] says for how long a memory lasts.
//!
//! A drive may have processors of its own in front of it ([`firmware`]), and flash a write buffer and a translation layer
//! ([`flash`], [`translation`]), which take the place of the banks.

pub mod bank;
pub mod cells;
pub mod chip;
pub mod ecc;
mod energy;
pub mod firmware;
pub mod flash;
pub mod geometry;
pub mod housekeeping;
mod inside;
pub mod lifetime;
pub mod randomiser;
mod resolve;
pub mod start_gap;
pub mod timing;
pub mod translation;
mod trouble;
pub mod wear;

pub use geometry::Geometry;
pub use timing::{Acknowledge, BusRate, Timing};

use crate::random::Random;
use crate::time::{Span, Time};
use bank::{Bank, Fill, Patience, Read};
use cells::Cells;
use chip::Chips;
use geometry::{Interleave, Piece, Pieces};
use housekeeping::Pauses;
use inside::Inside;
use timing::{Bus, Served, When};
use wear::Wear;

/// Banks and buses of one device.
#[derive(Clone, Debug)]
pub struct Media {
    interleave: Interleave,
    timing: Timing,
    banks: Vec<Bank>,
    /// Those of the first channel, then those of the next.
    buses: Vec<Bus>,
    details: Details,
    /// What lies in front of the memory, if anything does.
    inside: Option<Box<Inside>>,
    /// No access that is handed over now starts earlier: the drive's processors are not through with it.
    admitted: Time,
    activity: Activity,
    last_call: Time,
}

/// What only some memories have. The default is none of it.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Chips that are told apart.
    pub chips: Option<Chips>,
    /// Housekeeping.
    pub pauses: Option<Pauses>,
    /// Wear levelling.
    pub wear: Option<Box<Wear>>,
    /// Random data, whose programming takes a time of its own in each write.
    pub random_data: Option<Box<RandomData>>,
    /// What follows the transfer of every read.
    pub ecc_decode: Span,
}

/// Where the program times of random data come from.
#[derive(Clone, Debug)]
pub struct RandomData {
    pub cells: Cells,
    pub random: Random,
}

/// When the bytes of a read are in the controller.
///
/// A request that spans stripes is read in pieces that run in parallel as far as their banks and
/// buses allow. Its *critical* piece is the one that brings the last of the first bytes; in a
/// request of one piece it is that piece. `now <= admitted <= started <= first_at <= last_at` always.
///
/// A single piece is never faster than on an idle memory. A request of several may be, slightly:
/// a busy bank can change the order in which its pieces meet on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTiming {
    /// The drive's own processors are through with it; `now` where there are none.
    pub admitted: Time,
    /// `first_at` less the time that the critical piece takes on an idle memory. What lies between
    /// `admitted` and this instant is waiting for bank and bus; what follows, until `first_at`, is
    /// command, array read and the transfer of its share of the first bytes.
    pub started: Time,
    /// The first bytes, in address order, are there: a stream to the host may start. If its link is
    /// no faster than the bus and the request is one piece, it will not run dry.
    pub first_at: Time,
    /// All bytes of all pieces are there: the stream's last packet cannot leave earlier.
    pub last_at: Time,
}

impl ReadTiming {
    /// The same with bytes that are of use only so much later.
    fn later(self, after: Span) -> ReadTiming {
        ReadTiming { first_at: self.first_at + after, last_at: self.last_at + after, ..self }
    }
}

/// When a write reaches its stations: `now <= admitted <= started <= buffered_at <= acknowledged_at`,
/// and `acknowledged_at <= programmed_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTiming {
    /// The drive's own processors are through with it; `now` where there are none.
    pub admitted: Time,
    /// `acknowledged_at` less the time that the piece which decides it takes on an idle memory.
    /// What lies between `now` and this instant is waiting for bank and bus.
    pub started: Time,
    /// All bytes are in the row buffers.
    pub buffered_at: Time,
    /// All cells are programmed. Where nobody waits for that, the latest that it may be so for all that is known yet.
    pub programmed_at: Time,
    /// The controller may report the write done: one of the two, as [`Acknowledge`] says.
    pub acknowledged_at: Time,
}

/// What the memory has done, for its utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Lines that wear levelling has moved.
    pub gap_moves: u64,
    /// Time for which banks are held, summed over all banks, accesses still to come included.
    pub banks_busy: Span,
    /// Time of transfers, summed over all buses, accesses still to come included.
    pub buses_busy: Span,
}

impl Media {
    /// An idle memory without details. Asserts that it has a bank and a program unit.
    pub fn new(geometry: &Geometry) -> Media {
        Media::with(geometry, Details::default())
    }

    /// The same with details.
    pub fn with(geometry: &Geometry, details: Details) -> Media {
        assert!(geometry.timing.program_bytes > 0, "a program unit needs a byte");
        let interleave = Interleave::new(geometry);
        let buses_per_channel = details.chips.map_or(1, |chips| chips.buses());
        Media {
            interleave,
            timing: geometry.timing,
            banks: vec![Bank::default(); interleave.banks() as usize],
            buses: vec![Bus::default(); usize::from(geometry.channels) * buses_per_channel],
            details,
            inside: None,
            admitted: Time::ZERO,
            activity: Activity::default(),
            last_call: Time::ZERO,
        }
    }

    /// Reads `bytes` from `offset`; `first_bytes` (at least one, at most all) are what the caller
    /// needs before it can begin to send. On an idle memory one piece takes command + read +
    /// bytes / rate, exactly, or what [`Chips::read_time`] says. A read of nothing is done at once.
    pub fn read(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        if self.inside.is_some() {
            return self.read_inside(now, offset, bytes, first_bytes);
        }
        self.read_corrected(now, offset, bytes, first_bytes)
    }

    #[inline(always)]
    fn read_corrected(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        let decode = if bytes > 0 { self.details.ecc_decode } else { Span::ZERO };
        self.read_pieces(now, offset, bytes, first_bytes, false, decode)
    }

    /// The same without check and correction.
    #[inline(always)]
    pub fn read_uncorrected(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        self.read_pieces(now, offset, bytes, first_bytes, false, Span::ZERO)
    }

    /// The same for one part after the other of what lies in a row: while its bank does nothing else, the row stays open.
    pub fn read_along(&mut self, now: Time, offset: u64, bytes: u32) -> ReadTiming {
        if self.inside.as_ref().is_some_and(|inside| inside.delays()) {
            return self.read_inside(now, offset, bytes, bytes);
        }
        self.read_pieces(now, offset, bytes, bytes, true, self.details.ecc_decode)
    }

    /// The same with what has to be done to all bytes `after` they have come.
    #[inline(always)]
    fn read_pieces(
        &mut self,
        now: Time,
        offset: u64,
        bytes: u32,
        first_bytes: u32,
        along: bool,
        after: Span,
    ) -> ReadTiming {
        self.last_call = now;
        self.activity.reads += 1;
        self.activity.read_bytes += u64::from(bytes);
        let pieces = self.interleave.pieces(offset, bytes);
        let from = now.max(self.admitted);
        let timing = ReadTiming { admitted: from, started: from, first_at: from, last_at: from };
        match pieces.only() {
            // Most reads lie within a stripe.
            Some(piece) => self.await_piece(now, piece, first_bytes.clamp(1, bytes), along, timing).later(after),
            None => self.read_several(now, pieces, first_bytes, along, timing).later(after),
        }
    }

    #[inline(never)]
    fn read_several(
        &mut self,
        now: Time,
        pieces: Pieces,
        first_bytes: u32,
        along: bool,
        mut timing: ReadTiming,
    ) -> ReadTiming {
        let mut first_bytes_left = first_bytes.max(1);
        for piece in pieces {
            let needed = first_bytes_left.min(piece.bytes);
            first_bytes_left -= needed;
            timing = self.await_piece(now, piece, needed, along, timing);
        }
        timing
    }

    #[inline(always)]
    fn await_piece(&mut self, now: Time, piece: Piece, needed: u32, along: bool, mut timing: ReadTiming) -> ReadTiming {
        let served = self.read_piece(now, piece, needed, along);
        timing.last_at = timing.last_at.max(served.access.bus_until);
        if needed > 0 {
            self.await_first(&mut timing, &served);
        }
        timing
    }

    /// Writes `bytes` from `offset`: command, transfer into the write buffer, then one program time a program unit. A
    /// bank takes no other access until its programming has ended. A write of nothing is done at once. If writes are
    /// acknowledged early, nobody waits for the cells, and units that are not whole wait for the rest of them.
    pub fn write(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        let patience = match self.timing.acknowledge {
            Acknowledge::Early => Patience::Program,
            Acknowledge::Late => Patience::None,
        };
        self.write_inside(now, offset, bytes, patience)
    }

    /// The same for a caller that waits for the cells, whenever writes are acknowledged.
    pub fn program(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.write_inside(now, offset, bytes, Patience::None)
    }

    /// The same for a caller that does not, or calls [`flush`](Self::flush) when it does.
    pub fn gather(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.write_inside(now, offset, bytes, Patience::Program)
    }

    /// Program what write buffers hold of the banks that `bytes` from `offset` lie in: when all writes to these are in
    /// the cells.
    pub fn flush(&mut self, now: Time, offset: u64, bytes: u32) -> Time {
        if let Some(flash) = self.flash_mut() {
            return flash.flush(now);
        }
        let mut done = now;
        for piece in self.interleave.pieces(offset, bytes) {
            let bank = &mut self.banks[piece.bank as usize];
            self.activity.banks_busy += bank.advance(now) + bank.program(now);
            done = done.max(bank.programmed_at());
        }
        self.note_flush(now, offset, bytes.into(), done);
        done
    }

    /// The same for all banks.
    fn flush_banks(&mut self, now: Time) -> Time {
        let mut done = now;
        for bank in &mut self.banks {
            self.activity.banks_busy += bank.advance(now) + bank.program(now);
            done = done.max(bank.programmed_at());
        }
        self.note_flush(now, 0, u64::MAX, done);
        done
    }

    fn write_pieces(&mut self, now: Time, offset: u64, bytes: u32, patience: Patience) -> WriteTiming {
        self.last_call = now;
        self.activity.writes += 1;
        self.activity.written_bytes += u64::from(bytes);
        let from = now.max(self.admitted);
        let mut timing = WriteTiming {
            admitted: from,
            started: from,
            buffered_at: from,
            programmed_at: from,
            acknowledged_at: from,
        };
        for piece in self.interleave.pieces(offset, bytes) {
            let unit = self.unit(piece);
            let (served, program) = self.write_piece(now, piece, unit, patience);
            timing.buffered_at = timing.buffered_at.max(served.access.bus_until);
            timing.programmed_at = timing.programmed_at.max(served.programmed_at);
            self.await_done(&mut timing, &served, program);
            if self.details.wear.is_some() {
                self.level(now, piece);
            }
        }
        timing
    }

    /// The program unit of which a piece is a part, unless it is more than one. Chips that are told apart have a buffer
    /// each, and are filled for each write.
    fn unit(&self, piece: Piece) -> Option<u64> {
        let unit_bytes = u64::from(self.timing.program_bytes);
        let unit = piece.bank_offset / unit_bytes;
        let last = piece.bank_offset + u64::from(piece.bytes - 1);
        (self.details.chips.is_none() && last / unit_bytes == unit).then_some(unit)
    }

    /// What the memory has done so far.
    pub fn activity(&self) -> Activity {
        self.flash().map_or(self.activity, |flash| flash.activity)
    }

    /// What has been counted that only some memories do, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        if let Some(flash) = self.flash() {
            return flash.counters();
        }
        match &self.details.wear {
            None => Vec::new(),
            Some(wear) => {
                vec![("gap_moves", self.activity.gap_moves), ("line_writes_max", wear.line_writes_max())]
            }
        }
    }

    /// The state of wear levelling, if there is any.
    pub fn wear(&self) -> Option<&Wear> {
        self.details.wear.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn wear_mut(&mut self) -> Option<&mut Wear> {
        self.details.wear.as_deref_mut()
    }

    #[inline(always)]
    fn read_piece(&mut self, now: Time, piece: Piece, needed: u32, along: bool) -> Served {
        self.activity.banks_busy += self.banks[piece.bank as usize].advance(now);
        let when = self.when(now, piece.bank);
        let channel = self.interleave.channel(piece.bank) as usize;
        let bank = &mut self.banks[piece.bank as usize];
        let served = match &self.details.chips {
            None => {
                let along = along.then(|| self.interleave.row(piece));
                let read = Read { bytes: piece.bytes, needed, along };
                bank.read(&mut self.buses[channel], &self.timing, when, read)
            }
            Some(chips) => {
                let buses = &mut self.buses[channel * chips.buses()..][..chips.buses()];
                chips.read(bank, buses, when, piece, needed)
            }
        };
        self.activity.add(&served);
        served
    }

    fn write_piece(&mut self, now: Time, piece: Piece, unit: Option<u64>, patience: Patience) -> (Served, Span) {
        let program = self.program_time(piece);
        self.activity.banks_busy += self.banks[piece.bank as usize].make_room(now, unit);
        let when = self.when(now, piece.bank);
        let channel = self.interleave.channel(piece.bank) as usize;
        let bank = &mut self.banks[piece.bank as usize];
        let served = match &self.details.chips {
            None => {
                let fill = Fill { bytes: piece.bytes, unit, program, patience };
                bank.write(&mut self.buses[channel], &self.timing, when, fill)
            }
            Some(chips) => {
                let buses = &mut self.buses[channel * chips.buses()..][..chips.buses()];
                chips.write(bank, buses, when, piece, program)
            }
        };
        self.activity.add(&served);
        (served, program)
    }

    /// Time to program a piece; the units of random data in it are alike.
    fn program_time(&mut self, piece: Piece) -> Span {
        let Details { random_data, chips, .. } = &mut self.details;
        if let Some(data) = random_data {
            self.timing.program = data.cells.draw(chips.map_or(1, |chips| chips.touched(piece)), &mut data.random);
        }
        self.timing.program(piece.bank_offset, piece.bytes)
    }

    /// From when on a bank may start what is handed over now.
    fn when(&self, now: Time, bank: u32) -> When {
        let from = now.max(self.admitted);
        let earliest = match &self.details.pauses {
            None => from,
            Some(pauses) => pauses.after(self.banks[bank as usize].free_from(from)),
        };
        When { now, earliest }
    }

    /// Counts a write's lines and moves those that are due: each is read and written again in the same bank, which
    /// makes later requests wait.
    fn level(&mut self, now: Time, piece: Piece) {
        let Some(wear) = &mut self.details.wear else { return };
        let moves = wear.on_write(piece);
        let line = Piece { bank: piece.bank, bank_offset: 0, bytes: wear.line_bytes() };
        for _ in 0..moves {
            self.read_piece(now, line, line.bytes, false);
            self.write_piece(now, line, None, Patience::None);
        }
        self.activity.gap_moves += u64::from(moves);
    }

    /// Moves `first_at` to the instant at which the needed bytes of this piece are there, if that is
    /// later: the piece is then the critical one so far.
    fn await_first(&self, timing: &mut ReadTiming, served: &Served) {
        if served.first_at > timing.first_at {
            timing.first_at = served.first_at;
            timing.started = (served.first_at - served.service).max(self.last_call.max(self.admitted));
        }
    }

    /// Moves `acknowledged_at` to the end of this piece, if that is later.
    fn await_done(&self, timing: &mut WriteTiming, served: &Served, program: Span) {
        let (done_at, service) = match self.timing.acknowledge {
            Acknowledge::Early => (served.access.bus_until, served.service),
            Acknowledge::Late => (served.programmed_at, served.service + program),
        };
        if done_at > timing.acknowledged_at {
            timing.acknowledged_at = done_at;
            timing.started = (done_at - service).max(self.last_call.max(self.admitted));
        }
    }
}

impl Activity {
    fn add(&mut self, served: &Served) {
        self.banks_busy += served.access.bank_until.since(served.access.bank_from);
        self.buses_busy += served.bus_time;
    }
}

#[cfg(test)]
mod details_tests;
#[cfg(test)]
mod tests;
