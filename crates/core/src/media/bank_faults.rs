//! Injected faults of banks, which make them slow or stuck.
//!
//! A faulty bank has a queue of its own in front of it. An access to a slow bank waits there until earlier accesses are
//! over, and then for the time by which the fault makes it slower. The bank itself then serves it at normal speed. An
//! access to a stuck bank waits until the fault ends.

use super::geometry::BankInterleave;
use crate::config::{Fault, FaultAction};
use crate::faults::Rule;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Injected bank faults of a memory: the queue in front of each bank that has a fault rule.
#[derive(Clone, Debug)]
pub(super) struct BankFaults {
    interleave: BankInterleave,
    /// Time of an array read in a bank without a fault, command included.
    read: Span,
    /// Time to program a unit in a bank without a fault, command included.
    program: Span,
    banks: Vec<FaultyBank>,
}

/// Bank with an injected fault, and the queue in front of it.
#[derive(Clone, Debug)]
struct FaultyBank {
    rule: Rule,
    /// Time at which all earlier accesses to the faulty bank are over.
    free_at: Time,
}

impl BankFaults {
    /// Creates an empty set of bank faults. `read` and `program` are the times of an access in a bank without a fault.
    pub(super) fn new(interleave: BankInterleave, read: Span, program: Span) -> BankFaults {
        BankFaults { interleave, read, program, banks: Vec::new() }
    }

    /// Adds a faulty bank with an empty queue for each of these fault rules.
    pub(super) fn extend(&mut self, rules: Vec<Rule>) {
        self.banks.extend(rules.into_iter().map(|rule| FaultyBank { rule, free_at: Time::ZERO }));
    }

    /// Removes the rule of a bank fault that has ended; does nothing if there is no such rule.
    pub(super) fn remove(&mut self, fault: &Fault) {
        if let Some(place) = self.banks.iter().position(|bank| bank.rule.is(fault)) {
            self.banks.remove(place);
        }
    }

    /// Returns the time at which an access that comes at `now` may go on to its banks. Every faulty bank that holds
    /// some of its `bytes` from `offset` delays it; the latest one decides.
    pub(super) fn admit(&mut self, now: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        let healthy_time = if direction == DataDirection::Read { self.read } else { self.program };
        let mut until = now;
        for piece in self.interleave.pieces(offset, bytes) {
            for bank in self.banks.iter_mut().filter(|bank| bank.rule.fault.bank == piece.bank) {
                until = until.max(bank.admit(now, healthy_time));
            }
        }
        until
    }

    /// Empties the queues of all faulty banks, as after a loss of power.
    pub(super) fn cut_power(&mut self) {
        self.banks.iter_mut().for_each(|bank| bank.free_at = Time::ZERO);
    }

    /// Returns a pair for each bank fault rule: the name of its counter and the number of injections so far.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.banks.iter().map(|bank| bank.rule.count())
    }
}

impl FaultyBank {
    fn admit(&mut self, now: Time, healthy_time: Span) -> Time {
        if !self.rule.is_time(now) {
            return now;
        }
        self.rule.count_effect_elsewhere();
        let Fault { action, factor, until, .. } = self.rule.fault;
        match action {
            FaultAction::StuckBank => Time::ZERO + until,
            _ => {
                let begin = self.free_at.max(now);
                let until = begin + healthy_time.scale(factor - 1.0);
                // The bank itself is busy only for the normal time, which begins at the end of the delay.
                self.free_at = until + healthy_time;
                until
            }
        }
    }
}
