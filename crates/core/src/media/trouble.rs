//! Banks that injected faults make slow or let stand still.
//!
//! Such a bank has a queue of its own in front of it: an access to a slow one waits until those before it are over, and
//! takes the rest of its longer time there before the bank itself serves it.

use super::geometry::Interleave;
use crate::config::{Fault, FaultAction};
use crate::faults::Rule;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// What is in front of the banks that have a fault.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    interleave: Interleave,
    /// What an access takes in a bank that is well.
    read: Span,
    program: Span,
    banks: Vec<Bank>,
}

/// A bank with a fault.
#[derive(Clone, Debug)]
struct Bank {
    rule: Rule,
    /// When the accesses before are over.
    free_at: Time,
}

impl Trouble {
    /// No bank has a fault, of a memory whose accesses take so long.
    pub(super) fn new(interleave: Interleave, read: Span, program: Span) -> Trouble {
        Trouble { interleave, read, program, banks: Vec::new() }
    }

    /// Banks have these faults as well.
    pub(super) fn extend(&mut self, rules: Vec<Rule>) {
        self.banks.extend(rules.into_iter().map(|rule| Bank { rule, free_at: Time::ZERO }));
    }

    /// A fault is over.
    pub(super) fn remove(&mut self, fault: &Fault) {
        if let Some(place) = self.banks.iter().position(|bank| bank.rule.is(fault)) {
            self.banks.remove(place);
        }
    }

    /// When an access that comes at `now` gets past the faults.
    pub(super) fn admit(&mut self, now: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        let well = if direction == DataDirection::Read { self.read } else { self.program };
        let mut until = now;
        for piece in self.interleave.pieces(offset, bytes) {
            for bank in self.banks.iter_mut().filter(|bank| bank.rule.fault.bank == piece.bank) {
                until = until.max(bank.admit(now, well));
            }
        }
        until
    }

    /// No access waits any more.
    pub(super) fn cut_power(&mut self) {
        self.banks.iter_mut().for_each(|bank| bank.free_at = Time::ZERO);
    }

    /// How often each fault has happened.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.banks.iter().map(|bank| bank.rule.count())
    }
}

impl Bank {
    fn admit(&mut self, now: Time, well: Span) -> Time {
        if !self.rule.is_time(now) {
            return now;
        }
        self.rule.happens();
        let Fault { action, factor, until, .. } = self.rule.fault;
        match action {
            FaultAction::StuckBank => Time::ZERO + until,
            _ => {
                let begin = self.free_at.max(now);
                let until = begin + well.scale(factor - 1.0);
                // The bank itself is busy with it from then on.
                self.free_at = until + well;
                until
            }
        }
    }
}
