//! One bank: serves accesses in order, and gathers the pieces of a program unit in its write buffer.
//!
//! A bank is held from the start of an access until its row buffer is free again: after the transfer of a read, after
//! the programming of a write. Accesses never overlap and are served in the order of the calls, so the state of a bank
//! is one time, `free_at`, and the unit in its write buffer.
//!
//! The array programs a whole unit at once, whatever part of it is new. The controller therefore fills the write buffer
//! with all pieces of a unit that it has before it gives the command to program: a piece joins the unit if it comes
//! while the bank waits for its turn, or while an earlier piece crosses the bus.
//!
//! Where nobody waits for the cells, because the write is acknowledged already ([`ProgramPolicy::GatherUnit`]), an
//! incomplete unit waits for its other pieces: until it is complete, until another unit needs the buffer, or for one
//! program time. That limit needs no knowledge of the future: a wait that ends when it has cost as much as it might
//! save never costs more than twice the optimum (the ski-rental rule; Karlin et al., "Competitive snoopy caching",
//! Algorithmica 3, 1988).
//!
//! ```text
//!     AtOnce        bus  [piece 0][piece 1]                        array  [program unit]
//!     GatherUnit    bus  [piece 0]     [piece 1]  ... one program time ...  [program unit]
//!                                      ^ joins          ^ complete, or another unit: programmed now
//! ```

use super::timing::{AccessStart, BankAccess, Bus, PieceTiming, Timing};
use crate::time::{Span, Time};

/// Decides when a unit in the write buffer is programmed that has not got all its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramPolicy {
    /// As soon as the bank is free, because someone waits for the cells.
    AtOnce,
    /// When it is complete or another unit needs the buffer, at the latest after one program time.
    GatherUnit,
}

/// Write of one piece into a bank.
#[derive(Clone, Copy, Debug)]
pub struct BankWrite {
    /// Size of the piece in bytes.
    pub bytes: u32,
    /// Program unit that the piece is a part of; `None` if it spans several units, or is to be programmed on its own.
    pub unit: Option<u64>,
    /// Time to program all units that the piece touches.
    pub program: Span,
    /// Decides when an incomplete unit is programmed.
    pub policy: ProgramPolicy,
}

/// Read of one piece from a bank.
#[derive(Clone, Copy, Debug)]
pub struct BankRead {
    /// Size of the piece in bytes.
    pub bytes: u32,
    /// Number of bytes that the controller needs before it can start to send.
    pub needed: u32,
    /// Row that the read may find open; `None` if it opens and closes a row for itself.
    pub along: Option<u64>,
}

/// Bank that serves one access after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bank {
    /// Time at which the bank can start its next access.
    free_at: Time,
    /// Time at which everything that is being programmed is in the cells.
    programmed_at: Time,
    /// Unit in the write buffer, as long as other pieces can join it.
    filling: Option<FillingUnit>,
    /// Row of the last read, which stays open for reads that follow it.
    row: Option<u64>,
}

/// Unit in the write buffer whose programming has not begun.
#[derive(Clone, Copy, Debug)]
struct FillingUnit {
    unit: u64,
    bytes: u32,
    /// Time at which its programming begins, if nothing happens before.
    program_at: Time,
    program: Span,
    policy: ProgramPolicy,
}

impl Bank {
    /// Returns when the bank can start an access that may start at `earliest`.
    pub fn start_time(&self, earliest: Time) -> Time {
        self.free_at.max(earliest)
    }

    /// Returns when the bank has finished all accesses so far.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Holds the bank until a write, started when the bank was free, is in the cells at `until`.
    pub fn program_until(&mut self, until: Time) {
        self.free_at = until;
        self.programmed_at = until;
    }

    /// Holds the bank until `until`, when an access ends that started when the bank was free.
    pub fn hold_until(&mut self, until: Time) {
        self.free_at = until;
    }

    /// Starts the program that is due by `now`. Returns the time that it adds to the time for which the bank is held.
    #[inline(always)]
    pub fn advance(&mut self, now: Time) -> Span {
        match self.filling {
            Some(filling) if filling.program_at <= now => self.program(filling.program_at),
            _ => Span::ZERO,
        }
    }

    /// Starts the program that is due by `now`, and at `now` that of a unit other than `unit`, which needs the write
    /// buffer. Returns the time that both add to the time for which the bank is held.
    pub fn make_room(&mut self, now: Time, unit: Option<u64>) -> Span {
        let begun = self.advance(now);
        match self.filling {
            Some(filling) if unit != Some(filling.unit) => begun + self.program(now),
            _ => begun,
        }
    }

    /// Programs the unit in the write buffer from `at` on. Returns the time that this adds to the time for which the
    /// bank is held.
    pub fn program(&mut self, at: Time) -> Span {
        match self.filling.take() {
            Some(filling) if filling.policy == ProgramPolicy::GatherUnit => {
                self.row = None;
                self.free_at = self.free_at.max(at) + filling.program;
                self.programmed_at = self.free_at;
                filling.program
            }
            _ => Span::ZERO,
        }
    }

    /// Returns when everything that the array has begun to program is in the cells.
    pub fn programmed_at(&self) -> Time {
        self.programmed_at
    }

    /// Reads a piece: command, array, transfer. The row buffer is free again after the transfer. A read `along` a row
    /// that is open needs neither command nor array.
    ///
    /// A row stays open until the bank does something else. A bank that closed its row when no read waits for it, or
    /// some time later, would open rows more often the faster it is.
    #[inline(always)]
    pub fn read(&mut self, bus: &mut Bus, timing: &Timing, when: AccessStart, read: BankRead) -> PieceTiming {
        let transfer = timing.bus.transfer_time(read.bytes);
        let is_open = read.along.is_some() && read.along == self.row;
        let before = if is_open { Span::ZERO } else { timing.read_access_time() };
        let access = self.access(bus, when, before, transfer, Span::ZERO);
        self.row = read.along;
        // A unit that is programmed at once has been programmed before this read.
        if self.filling.is_some_and(|filling| filling.policy == ProgramPolicy::AtOnce) {
            self.filling = None;
        }
        let needed = timing.bus.transfer_time(read.needed);
        let (first_at, service) = (access.bus_from + needed, timing.read_access_time() + needed);
        PieceTiming { access, first_at, service, programmed_at: access.bank_until, bus_time: transfer }
    }

    /// Writes a piece into the write buffer and programs it: command, transfer, array. The bank has one buffer, so the
    /// next access waits for the end of the programming, unless it is a piece of the same unit or comes before the
    /// programming begins.
    pub fn write(&mut self, bus: &mut Bus, timing: &Timing, when: AccessStart, fill: BankWrite) -> PieceTiming {
        let transfer = timing.bus.transfer_time(fill.bytes);
        self.row = None;
        let access = match self.filling {
            Some(filling) if fill.unit == Some(filling.unit) => self.join(bus, timing, when, transfer, fill, filling),
            _ => self.fill(bus, timing, when, transfer, fill),
        };
        let programmed_at = match self.filling {
            Some(filling) => filling.program_at + filling.program,
            None => access.bank_until,
        };
        let service = timing.command + transfer;
        PieceTiming { access, first_at: access.bus_until, service, programmed_at, bus_time: transfer }
    }

    fn fill(
        &mut self,
        bus: &mut Bus,
        timing: &Timing,
        when: AccessStart,
        transfer: Span,
        fill: BankWrite,
    ) -> BankAccess {
        let access = self.access(bus, when, timing.command, transfer, Span::ZERO);
        self.begin(timing, access, fill, fill.bytes, access.bus_until + fill.program)
    }

    /// Adds a piece to the unit in the write buffer. Its command goes out beside the transfers before it.
    fn join(
        &mut self,
        bus: &mut Bus,
        timing: &Timing,
        when: AccessStart,
        transfer: Span,
        fill: BankWrite,
        filling: FillingUnit,
    ) -> BankAccess {
        let held_until = self.free_at;
        let filled_at = match filling.policy {
            ProgramPolicy::AtOnce => filling.program_at,
            ProgramPolicy::GatherUnit => self.free_at,
        };
        let bus_from = bus.promise(when.now, filled_at.max(when.now + timing.command), transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until;
        let access = BankAccess { bank_from: held_until.max(when.now), bus_from, bus_until, bank_until: bus_until };
        // A completion time that has been promised stands.
        let policy = if filling.policy == ProgramPolicy::AtOnce { ProgramPolicy::AtOnce } else { fill.policy };
        let fill = BankWrite { program: filling.program, policy, ..fill };
        self.begin(timing, access, fill, filling.bytes.saturating_add(fill.bytes), filling.program_at)
    }

    /// Programs the unit in the buffer, of which it has held `bytes` since `access`, or lets it wait for other pieces
    /// until `patient_until` at most.
    fn begin(
        &mut self,
        timing: &Timing,
        access: BankAccess,
        fill: BankWrite,
        bytes: u32,
        patient_until: Time,
    ) -> BankAccess {
        let is_waiting = fill.policy == ProgramPolicy::GatherUnit && bytes < timing.program_bytes;
        let policy = if is_waiting { ProgramPolicy::GatherUnit } else { ProgramPolicy::AtOnce };
        let program_at = if is_waiting { patient_until.max(access.bus_until) } else { access.bus_until };
        let filling = |unit| FillingUnit { unit, bytes, program_at, program: fill.program, policy };
        self.filling = fill.unit.filter(|_| !fill.program.is_zero()).map(filling);
        if is_waiting && self.filling.is_some() {
            return BankAccess { bank_until: access.bus_until, ..access };
        }
        self.free_at = access.bus_until + fill.program;
        self.programmed_at = self.free_at;
        BankAccess { bank_until: self.free_at, ..access }
    }

    #[inline(always)]
    fn access(&mut self, bus: &mut Bus, when: AccessStart, before: Span, transfer: Span, after: Span) -> BankAccess {
        let bank_from = self.start_time(when.earliest);
        let bus_from = bus.promise(when.now, bank_from + before, transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until + after;
        BankAccess { bank_from, bus_from, bus_until, bank_until: self.free_at }
    }
}
