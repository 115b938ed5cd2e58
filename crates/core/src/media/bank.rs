//! One bank: serves accesses in order, and gathers the pieces of a program unit in its write buffer.
//!
//! A bank is held from the start of an access until its row buffer is free again: after the transfer of a read, after
//! the programming of a write. Accesses never overlap and are served in the order of the calls. The state of a bank is
//! therefore one time, `free_at`, and the unit in its write buffer.
//!
//! The array programs a whole unit at once, even if only some of its bytes are new. The controller therefore fills the
//! write buffer with all pieces of a unit that it has before it gives the command to program: a piece joins the unit if
//! it comes while the bank waits for its turn, or while an earlier piece crosses the bus.
//!
//! If no one waits for the cells, because the write is acknowledged already ([`BankProgramPolicy::GatherUnit`]), an
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

use super::timing::{BankAccessStart, BankBusHold, ChannelBus, PieceTiming, Timing};
use crate::time::{Span, Time};

/// Policy that decides when the array programs a unit in the write buffer that lacks some of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankProgramPolicy {
    /// Programs an incomplete program unit as soon as the bank is free, because the client waits for the cells.
    AtOnce,
    /// Programs a program unit when it is complete or another unit needs the write buffer, at the latest after one
    /// program time.
    GatherUnit,
}

/// Write of one piece of a request into its bank: size, program unit, program time and policy.
#[derive(Clone, Copy, Debug)]
pub struct BankWritePiece {
    /// Number of bytes in the piece to write.
    pub bytes: u32,
    /// Number of the program unit, in its bank, that the piece belongs to. `None` if the piece spans several units, or
    /// is programmed on its own.
    pub unit: Option<u64>,
    /// Time to program all program units that the piece touches.
    pub program: Span,
    /// Policy that decides when the program unit of this piece is programmed if it is incomplete.
    pub policy: BankProgramPolicy,
}

/// Read of one piece of a request from its bank: size, bytes needed first, and row that may be open.
#[derive(Clone, Copy, Debug)]
pub struct BankReadPiece {
    /// Number of bytes in the piece to read.
    pub bytes: u32,
    /// Number of bytes of the piece that the controller needs before it can start to send.
    pub needed: u32,
    /// Number of the row that this read leaves open, and may find open; `None` if the read opens and closes a row for
    /// itself.
    pub open_row: Option<u64>,
}

/// One bank, which serves its accesses one after the other: time of the next start, write buffer and open row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bank {
    /// Time at which the bank can start its next access.
    free_at: Time,
    /// Time at which all program units whose programming has begun are in the cells of the bank.
    programmed_at: Time,
    /// Program unit in the bank's write buffer, as long as other pieces can join it; `None` if there is none.
    filling: Option<FillingProgramUnit>,
    /// Number of the row that the last read has left open for later reads of the row; `None` if no row is open.
    row: Option<u64>,
}

/// Program unit in the write buffer that further pieces can join, because its programming has not begun.
#[derive(Clone, Copy, Debug)]
struct FillingProgramUnit {
    unit: u64,
    bytes: u32,
    /// Time at which programming of the unit in the write buffer begins, unless a piece completes it or another access
    /// needs the buffer before.
    program_at: Time,
    program: Span,
    policy: BankProgramPolicy,
}

impl Bank {
    /// Returns the time at which the bank can start an access that may start at `earliest`, after its accesses so far.
    pub fn start_time(&self, earliest: Time) -> Time {
        self.free_at.max(earliest)
    }

    /// Returns the time at which the bank has finished all accesses so far, except for units that wait to be
    /// programmed.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Holds the bank until `until`, when a write that started in a free bank is in the cells.
    pub fn hold_for_program(&mut self, until: Time) {
        self.free_at = until;
        self.programmed_at = until;
    }

    /// Holds the bank until `until`, when an access that started in a free bank ends.
    pub fn hold_until(&mut self, until: Time) {
        self.free_at = until;
    }

    /// Starts to program the unit in the write buffer if its wait for other pieces has ended by `now`. Returns the time
    /// for which the bank is held in addition: one program time or zero.
    #[inline(always)]
    pub fn program_if_due(&mut self, now: Time) -> Span {
        match self.filling {
            Some(filling) if filling.program_at <= now => self.program(filling.program_at),
            _ => Span::ZERO,
        }
    }

    /// Prepares the write buffer for program unit `unit`. Starts to program the unit in the buffer if its wait has
    /// ended by `now`, or if it is another unit. Returns the time for which the bank is held in addition.
    pub fn make_room(&mut self, now: Time, unit: Option<u64>) -> Span {
        let begun = self.program_if_due(now);
        match self.filling {
            Some(filling) if unit != Some(filling.unit) => begun + self.program(now),
            _ => begun,
        }
    }

    /// Programs the unit that waits in the write buffer, from `at` on or after the current access. Returns the time for
    /// which the bank is held in addition: zero if no unit waits.
    pub fn program(&mut self, at: Time) -> Span {
        match self.filling.take() {
            Some(filling) if filling.policy == BankProgramPolicy::GatherUnit => {
                self.row = None;
                self.free_at = self.free_at.max(at) + filling.program;
                self.programmed_at = self.free_at;
                filling.program
            }
            _ => Span::ZERO,
        }
    }

    /// Returns the time at which all units whose programming has begun are in the cells. A unit that still waits in the
    /// write buffer does not count.
    pub fn programmed_at(&self) -> Time {
        self.programmed_at
    }

    /// Reads a piece of a request from the bank: command, array read, transfer over `bus`. Returns the times at which
    /// it uses them. The row buffer is free again after the transfer. A read whose row is open needs neither command
    /// nor array read.
    ///
    /// A row stays open until the bank serves another access. If a bank closed its row when no read waits for it, or
    /// after some time, a faster bank would open rows more often.
    #[inline(always)]
    pub fn read(
        &mut self,
        bus: &mut ChannelBus,
        timing: &Timing,
        when: BankAccessStart,
        read: BankReadPiece,
    ) -> PieceTiming {
        let transfer = timing.bus.transfer_time(read.bytes);
        let is_open = read.open_row.is_some() && read.open_row == self.row;
        let before = if is_open { Span::ZERO } else { timing.read_access_time() };
        let access = self.access(bus, when, before, transfer, Span::ZERO);
        self.row = read.open_row;
        // With immediate programming, the write before this read has already been programmed.
        if self.filling.is_some_and(|filling| filling.policy == BankProgramPolicy::AtOnce) {
            self.filling = None;
        }
        let needed = timing.bus.transfer_time(read.needed);
        let (first_at, service) = (access.bus_from + needed, timing.read_access_time() + needed);
        PieceTiming { access, first_at, service, programmed_at: access.bank_until, bus_time: transfer }
    }

    /// Writes a piece of a request into the bank's write buffer and programs it: command, transfer over `bus`, array.
    /// Returns the times at which it uses them. The bank has one buffer, so that the next access waits for the end of
    /// the programming, unless it is a piece of the same unit or comes before the programming begins.
    pub fn write(
        &mut self,
        bus: &mut ChannelBus,
        timing: &Timing,
        when: BankAccessStart,
        fill: BankWritePiece,
    ) -> PieceTiming {
        self.row = None;
        let access = match self.filling {
            Some(filling) if fill.unit == Some(filling.unit) => {
                self.join_buffered_unit(bus, timing, when, fill, filling)
            }
            _ => self.fill(bus, timing, when, fill),
        };
        let programmed_at = match self.filling {
            Some(filling) => filling.program_at + filling.program,
            None => access.bank_until,
        };
        let transfer = access.bus_until.since(access.bus_from);
        let service = timing.command + transfer;
        PieceTiming { access, first_at: access.bus_until, service, programmed_at, bus_time: transfer }
    }

    fn fill(
        &mut self,
        bus: &mut ChannelBus,
        timing: &Timing,
        when: BankAccessStart,
        fill: BankWritePiece,
    ) -> BankBusHold {
        let transfer = timing.bus.transfer_time(fill.bytes);
        let access = self.access(bus, when, timing.command, transfer, Span::ZERO);
        self.begin_or_defer_program(timing, access, fill, fill.bytes, access.bus_until + fill.program)
    }

    /// Adds a piece of a write to its program unit in the bank's write buffer, and returns the periods for which the
    /// piece holds bank and bus. The command of the piece overlaps with earlier transfers. A program time that has been
    /// promised to earlier pieces stands.
    fn join_buffered_unit(
        &mut self,
        bus: &mut ChannelBus,
        timing: &Timing,
        when: BankAccessStart,
        fill: BankWritePiece,
        filling: FillingProgramUnit,
    ) -> BankBusHold {
        let transfer = timing.bus.transfer_time(fill.bytes);
        let held_until = self.free_at;
        let filled_at = match filling.policy {
            BankProgramPolicy::AtOnce => filling.program_at,
            BankProgramPolicy::GatherUnit => self.free_at,
        };
        let bus_from = bus.reserve(when.now, filled_at.max(when.now + timing.command), transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until;
        let access = BankBusHold { bank_from: held_until.max(when.now), bus_from, bus_until, bank_until: bus_until };
        // A completion time that was reported to the device must not change, so keep the policy of immediate
        // programming.
        let policy = if filling.policy == BankProgramPolicy::AtOnce { BankProgramPolicy::AtOnce } else { fill.policy };
        let fill = BankWritePiece { program: filling.program, policy, ..fill };
        self.begin_or_defer_program(timing, access, fill, filling.bytes.saturating_add(fill.bytes), filling.program_at)
    }

    /// Programs the unit in the buffer after the transfer of `access`, or lets it wait for other pieces until
    /// `patient_until` at most. `bytes` is the number of bytes of the unit that the buffer then holds. Returns `access`
    /// with the end of its hold of the bank.
    fn begin_or_defer_program(
        &mut self,
        timing: &Timing,
        access: BankBusHold,
        fill: BankWritePiece,
        bytes: u32,
        patient_until: Time,
    ) -> BankBusHold {
        let is_waiting = fill.policy == BankProgramPolicy::GatherUnit && bytes < timing.program_bytes;
        let policy = if is_waiting { BankProgramPolicy::GatherUnit } else { BankProgramPolicy::AtOnce };
        let program_at = if is_waiting { patient_until.max(access.bus_until) } else { access.bus_until };
        let filling = |unit| FillingProgramUnit { unit, bytes, program_at, program: fill.program, policy };
        self.filling = fill.unit.filter(|_| !fill.program.is_zero()).map(filling);
        if is_waiting && self.filling.is_some() {
            return BankBusHold { bank_until: access.bus_until, ..access };
        }
        self.free_at = access.bus_until + fill.program;
        self.programmed_at = self.free_at;
        BankBusHold { bank_until: self.free_at, ..access }
    }

    #[inline(always)]
    fn access(
        &mut self,
        bus: &mut ChannelBus,
        when: BankAccessStart,
        before: Span,
        transfer: Span,
        after: Span,
    ) -> BankBusHold {
        let bank_from = self.start_time(when.earliest);
        let bus_from = bus.reserve(when.now, bank_from + before, transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until + after;
        BankBusHold { bank_from, bus_from, bus_until, bank_until: self.free_at }
    }
}
