//! The memory behind the controller: channels of banks that share a bus, their array and program
//! times, and how addresses spread over them.
//!
//! A controller asks [`Media`] when the bytes of a read will be there, or when a write will be
//! done, and gets the answer at once: a bank serves in order and a bus keeps its promises, so
//! nothing that comes later changes it. The order is that of the calls; `now` is when the access is
//! handed over, which for a command that is still being parsed lies a little ahead. Media knows
//! nothing of links and protocols, moves no data and refuses no address.
//!
//! [`geometry`] maps addresses to banks, [`timing`] holds the costs of a technology and the clocks
//! of bank and bus; this module joins the pieces of a request into one answer.

pub mod ecc;
pub mod geometry;
mod resolve;
pub mod timing;

pub use geometry::Geometry;
pub use timing::{Acknowledge, BusRate, Timing};

use crate::time::{Span, Time};
use geometry::{Interleave, Piece};
use timing::{Access, Bank, Bus};

/// Banks and buses of one device.
#[derive(Clone, Debug)]
pub struct Media {
    interleave: Interleave,
    timing: Timing,
    banks: Vec<Bank>,
    buses: Vec<Bus>,
    activity: Activity,
    last_call: Time,
}

/// When the bytes of a read are in the controller.
///
/// A request that spans stripes is read in pieces that run in parallel as far as their banks and
/// buses allow. Its *critical* piece is the one that brings the last of the first bytes; in a
/// request of one piece it is that piece. `now <= started <= first_at <= last_at` always.
///
/// A single piece is never faster than on an idle memory. A request of several may be, slightly:
/// a busy bank can change the order in which its pieces meet on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTiming {
    /// `first_at` less the time that the critical piece takes on an idle memory. What lies between
    /// `now` and this instant is waiting for bank and bus; what follows, until `first_at`, is
    /// command, array read and the transfer of its share of the first bytes.
    pub started: Time,
    /// The first bytes, in address order, are there: a stream to the host may start. If its link is
    /// no faster than the bus and the request is one piece, it will not run dry.
    pub first_at: Time,
    /// All bytes of all pieces are there: the stream's last packet cannot leave earlier.
    pub last_at: Time,
}

/// When a write reaches its stations: `now <= started <= buffered_at <= acknowledged_at <= programmed_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTiming {
    /// `acknowledged_at` less the time that the piece which decides it takes on an idle memory.
    /// What lies between `now` and this instant is waiting for bank and bus.
    pub started: Time,
    /// All bytes are in the row buffers.
    pub buffered_at: Time,
    /// All cells are programmed.
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
    /// Time for which banks are held, summed over all banks, accesses still to come included.
    pub banks_busy: Span,
    /// Time of transfers, summed over all buses, accesses still to come included.
    pub buses_busy: Span,
}

impl Media {
    /// An idle memory. Asserts that it has a bank and a program unit.
    pub fn new(geometry: &Geometry) -> Media {
        assert!(geometry.timing.program_bytes > 0, "a program unit needs a byte");
        let interleave = Interleave::new(geometry);
        Media {
            interleave,
            timing: geometry.timing,
            banks: vec![Bank::default(); interleave.banks() as usize],
            buses: vec![Bus::default(); usize::from(geometry.channels)],
            activity: Activity::default(),
            last_call: Time::ZERO,
        }
    }

    /// Reads `bytes` from `offset`; `first_bytes` (at least one, at most all) are what the caller
    /// needs before it can begin to send. On an idle memory one piece takes command + read +
    /// bytes / rate, exactly. A read of nothing is done at once.
    pub fn read(&mut self, now: Time, offset: u64, bytes: u32, first_bytes: u32) -> ReadTiming {
        self.last_call = now;
        self.activity.reads += 1;
        self.activity.read_bytes += u64::from(bytes);
        let mut first_bytes_left = first_bytes.max(1);
        let mut timing = ReadTiming { started: now, first_at: now, last_at: now };
        for piece in self.interleave.pieces(offset, bytes) {
            let access = self.read_piece(now, piece);
            timing.last_at = timing.last_at.max(access.bus_until);
            let needed = first_bytes_left.min(piece.bytes);
            if needed > 0 {
                first_bytes_left -= needed;
                self.await_first(&mut timing, &access, needed);
            }
        }
        timing
    }

    /// Writes `bytes` from `offset`: command, transfer into the row buffer, then one program time a
    /// program unit. A bank takes no other access until its programming has ended. A write of
    /// nothing is done at once.
    pub fn write(&mut self, now: Time, offset: u64, bytes: u32) -> WriteTiming {
        self.last_call = now;
        self.activity.writes += 1;
        self.activity.written_bytes += u64::from(bytes);
        let mut timing = WriteTiming { started: now, buffered_at: now, programmed_at: now, acknowledged_at: now };
        for piece in self.interleave.pieces(offset, bytes) {
            let (access, program) = self.write_piece(now, piece);
            timing.buffered_at = timing.buffered_at.max(access.bus_until);
            timing.programmed_at = timing.programmed_at.max(access.bank_until);
            self.await_done(&mut timing, &access, piece.bytes, program);
        }
        timing
    }

    /// What the memory has done so far.
    pub fn activity(&self) -> Activity {
        self.activity
    }

    fn read_piece(&mut self, now: Time, piece: Piece) -> Access {
        let bus = &mut self.buses[self.interleave.channel(piece.bank) as usize];
        let bank = &mut self.banks[piece.bank as usize];
        let access = bank.read(bus, &self.timing, now, piece.bytes);
        self.activity.add(&access);
        access
    }

    fn write_piece(&mut self, now: Time, piece: Piece) -> (Access, Span) {
        let program = self.timing.program(piece.bank_offset, piece.bytes);
        let bus = &mut self.buses[self.interleave.channel(piece.bank) as usize];
        let bank = &mut self.banks[piece.bank as usize];
        let access = bank.write(bus, &self.timing, now, piece.bytes, program);
        self.activity.add(&access);
        (access, program)
    }

    /// Moves `first_at` to the instant at which `needed` bytes of this piece are there, if that is
    /// later: the piece is then the critical one so far.
    fn await_first(&self, timing: &mut ReadTiming, access: &Access, needed: u32) {
        let first_at = access.bus_from + self.timing.bus.transfer(needed);
        if first_at > timing.first_at {
            timing.first_at = first_at;
            let started = access.bus_from - self.timing.read_access();
            timing.started = started.max(self.last_call);
        }
    }

    /// Moves `acknowledged_at` to the end of this piece, if that is later.
    fn await_done(&self, timing: &mut WriteTiming, access: &Access, bytes: u32, program: Span) {
        let buffering = self.timing.command + self.timing.bus.transfer(bytes);
        let (done_at, service) = match self.timing.acknowledge {
            Acknowledge::Early => (access.bus_until, buffering),
            Acknowledge::Late => (access.bank_until, buffering + program),
        };
        if done_at > timing.acknowledged_at {
            timing.acknowledged_at = done_at;
            timing.started = (done_at - service).max(self.last_call);
        }
    }
}

impl Activity {
    fn add(&mut self, access: &Access) {
        self.banks_busy += access.bank_until.since(access.bank_from);
        self.buses_busy += access.bus_until.since(access.bus_from);
    }
}

#[cfg(test)]
mod tests;
