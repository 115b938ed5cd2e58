//! Injected faults of banks, which make them slow or stuck.
//!
//! A faulty bank has a queue of its own in front of it: an access to a slow bank waits until the accesses before it are
//! over, and spends the additional part of its longer time there before the bank itself serves it.

use super::geometry::Interleave;
use crate::config::{Fault, FaultAction};
use crate::faults::Rule;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Queues in front of the banks that have a fault.
#[derive(Clone, Debug)]
pub(super) struct BankFaults {
    interleave: Interleave,
    /// Time of an access in a bank without a fault.
    read: Span,
    program: Span,
    banks: Vec<FaultyBank>,
}

/// Bank with a fault.
#[derive(Clone, Debug)]
struct FaultyBank {
    rule: Rule,
    /// Time at which all earlier accesses are over.
    free_at: Time,
}

impl BankFaults {
    /// Creates an empty set of faults for a memory whose accesses take these times.
    pub(super) fn new(interleave: Interleave, read: Span, program: Span) -> BankFaults {
        BankFaults { interleave, read, program, banks: Vec::new() }
    }

    /// Adds fault rules for banks.
    pub(super) fn extend(&mut self, rules: Vec<Rule>) {
        self.banks.extend(rules.into_iter().map(|rule| FaultyBank { rule, free_at: Time::ZERO }));
    }

    /// Removes the rule of a fault that has ended.
    pub(super) fn remove(&mut self, fault: &Fault) {
        if let Some(place) = self.banks.iter().position(|bank| bank.rule.is(fault)) {
            self.banks.remove(place);
        }
    }

    /// Returns when an access that comes at `now` has passed all faults of its banks.
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

    /// Empties the queues, as after a loss of power.
    pub(super) fn cut_power(&mut self) {
        self.banks.iter_mut().for_each(|bank| bank.free_at = Time::ZERO);
    }

    /// Returns how often each fault has been injected.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.banks.iter().map(|bank| bank.rule.count())
    }
}

impl FaultyBank {
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
                // The bank itself is busy with the access from then on.
                self.free_at = until + well;
                until
            }
        }
    }
}
