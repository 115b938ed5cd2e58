//! A bank: its accesses in order, and the write buffer in which pieces of a program unit come together.
//!
//! A bank is held from the start of an access until its row buffer is free again: after the transfer of a read, after
//! the programming of a write. Its accesses never overlap and are served in the order of the calls, so one `free_at`
//! describes it, and the unit in its write buffer.
//!
//! The array programs a whole unit at once, whatever part of it is new. So the controller fills the buffer with all
//! pieces of a unit that it has before it gives the command to program: those that come while the bank still waits for
//! its turn, or for an earlier piece to cross the bus, join it. Where nobody waits for the cells, since the data counts
//! as written already ([`Patience::Program`]), a unit that is not whole waits for the rest of it: until it is whole,
//! until another unit needs the buffer, or for as long as one program takes. That bound needs no knowledge of what will
//! come: who waits for as long as what he might save never spends more than twice the least (the ski-rental rule;
//! Karlin et al., "Competitive snoopy caching", Algorithmica 3, 1988).

use super::timing::{Access, Bus, Served, Timing, When};
use crate::time::{Span, Time};

/// Whether a unit that is not whole waits for the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Somebody waits for the cells: as soon as the bank is free.
    None,
    /// Up to the time of one program.
    Program,
}

/// A write into a bank.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub bytes: u32,
    /// The unit that it is a part of; none if it is more than one, or is to be programmed on its own.
    pub unit: Option<u64>,
    /// Time to program what it touches.
    pub program: Span,
    pub patience: Patience,
}

/// A read from a bank.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub bytes: u32,
    /// Those of them that are wanted first.
    pub needed: u32,
    /// The row that it may find open; none if it opens and closes one for itself.
    pub along: Option<u64>,
}

/// A bank, which serves one access after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bank {
    free_at: Time,
    programmed_at: Time,
    /// What is in the write buffer, if that still takes more.
    filling: Option<Filling>,
    /// The row of the last read, which stays open for more of it.
    row: Option<u64>,
}

/// A unit whose programming has not begun.
#[derive(Clone, Copy, Debug)]
struct Filling {
    unit: u64,
    bytes: u32,
    /// When its programming begins, if nothing happens before.
    program_at: Time,
    program: Span,
    patience: Patience,
}

impl Bank {
    /// When this bank can start an access that may start at `earliest`.
    pub fn free_from(&self, earliest: Time) -> Time {
        self.free_at.max(earliest)
    }

    /// A write that started when the bank was free is in the cells at `until`.
    pub fn program_until(&mut self, until: Time) {
        self.free_at = until;
        self.programmed_at = until;
    }

    /// An access that started when the bank was free ends at `until`.
    pub fn hold_until(&mut self, until: Time) {
        self.free_at = until;
    }

    /// Begin the program whose time has come by `now`: what it adds to the time for which the bank is held.
    #[inline(always)]
    pub fn advance(&mut self, now: Time) -> Span {
        match self.filling {
            Some(filling) if filling.program_at <= now => self.program(filling.program_at),
            _ => Span::ZERO,
        }
    }

    /// The same, and at `now` that of a unit which another needs the buffer of.
    pub fn make_room(&mut self, now: Time, unit: Option<u64>) -> Span {
        let begun = self.advance(now);
        match self.filling {
            Some(filling) if unit != Some(filling.unit) => begun + self.program(now),
            _ => begun,
        }
    }

    /// Program what is in the write buffer, from `at` on: what that adds to the time for which the bank is held.
    pub fn program(&mut self, at: Time) -> Span {
        match self.filling.take() {
            Some(filling) if filling.patience == Patience::Program => {
                self.row = None;
                self.free_at = self.free_at.max(at) + filling.program;
                self.programmed_at = self.free_at;
                filling.program
            }
            _ => Span::ZERO,
        }
    }

    /// When all that the array has begun to program is in the cells.
    pub fn programmed_at(&self) -> Time {
        self.programmed_at
    }

    /// Reads: command, array, transfer. The row buffer is free again after the transfer. A read `along` a row goes on with
    /// it, without command and array, if it is open.
    ///
    /// A row buffer keeps its row until the bank does something else. A bank that closed its row when nothing waits for more
    /// of it, or some time later, would open rows the more often the faster it is.
    #[inline(always)]
    pub fn read(&mut self, bus: &mut Bus, timing: &Timing, when: When, read: Read) -> Served {
        let transfer = timing.bus.transfer(read.bytes);
        let is_open = read.along.is_some() && read.along == self.row;
        let before = if is_open { Span::ZERO } else { timing.read_access() };
        let access = self.access(bus, when, before, transfer, Span::ZERO);
        self.row = read.along;
        // What waits for its turn to be programmed has had it before this read.
        if self.filling.is_some_and(|filling| filling.patience == Patience::None) {
            self.filling = None;
        }
        let needed = timing.bus.transfer(read.needed);
        let (first_at, service) = (access.bus_from + needed, timing.read_access() + needed);
        Served { access, first_at, service, programmed_at: access.bank_until, bus_time: transfer }
    }

    /// Writes into the buffer, and programs it: command, transfer, array. The bank has one buffer, so that its next
    /// access waits for the end of the programming, unless it joins the unit or comes before that begins.
    pub fn write(&mut self, bus: &mut Bus, timing: &Timing, when: When, fill: Fill) -> Served {
        let transfer = timing.bus.transfer(fill.bytes);
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
        Served { access, first_at: access.bus_until, service, programmed_at, bus_time: transfer }
    }

    fn fill(&mut self, bus: &mut Bus, timing: &Timing, when: When, transfer: Span, fill: Fill) -> Access {
        let access = self.access(bus, when, timing.command, transfer, Span::ZERO);
        self.begin(timing, access, fill, fill.bytes, access.bus_until + fill.program)
    }

    /// A piece of the unit in the buffer, whose command goes out beside the transfers before it.
    fn join(
        &mut self,
        bus: &mut Bus,
        timing: &Timing,
        when: When,
        transfer: Span,
        fill: Fill,
        filling: Filling,
    ) -> Access {
        let held_until = self.free_at;
        let filled_at = match filling.patience {
            Patience::None => filling.program_at,
            Patience::Program => self.free_at,
        };
        let bus_from = bus.promise(when.now, filled_at.max(when.now + timing.command), transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until;
        let access = Access { bank_from: held_until.max(when.now), bus_from, bus_until, bank_until: bus_until };
        // What somebody has been promised does not wait.
        let patience = if filling.patience == Patience::None { Patience::None } else { fill.patience };
        let fill = Fill { program: filling.program, patience, ..fill };
        self.begin(timing, access, fill, filling.bytes.saturating_add(fill.bytes), filling.program_at)
    }

    /// The buffer holds so many bytes of a unit since `access`: program it, or wait for the rest until `patient_until`
    /// at most.
    fn begin(&mut self, timing: &Timing, access: Access, fill: Fill, bytes: u32, patient_until: Time) -> Access {
        let is_waiting = fill.patience == Patience::Program && bytes < timing.program_bytes;
        let patience = if is_waiting { Patience::Program } else { Patience::None };
        let program_at = if is_waiting { patient_until.max(access.bus_until) } else { access.bus_until };
        let filling = |unit| Filling { unit, bytes, program_at, program: fill.program, patience };
        self.filling = fill.unit.filter(|_| !fill.program.is_zero()).map(filling);
        if is_waiting && self.filling.is_some() {
            return Access { bank_until: access.bus_until, ..access };
        }
        self.free_at = access.bus_until + fill.program;
        self.programmed_at = self.free_at;
        Access { bank_until: self.free_at, ..access }
    }

    #[inline(always)]
    fn access(&mut self, bus: &mut Bus, when: When, before: Span, transfer: Span, after: Span) -> Access {
        let bank_from = self.free_from(when.earliest);
        let bus_from = bus.promise(when.now, bank_from + before, transfer);
        let bus_until = bus_from + transfer;
        self.free_at = bus_until + after;
        Access { bank_from, bus_from, bus_until, bank_until: self.free_at }
    }
}
