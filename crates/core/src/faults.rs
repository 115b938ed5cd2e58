//! Rules of injected faults: whether one happens to what it meets, and how often it has.

use crate::config::{Fault, FaultOperation, FaultSubject};
use crate::random::Random;
use crate::request::{Io, Op};
use crate::time::Time;

/// A fault of a description, and what it has met so far.
#[derive(Clone, Debug)]
pub struct Rule {
    pub fault: Fault,
    met: u64,
    happened: u64,
    random: Random,
}

impl Rule {
    /// The rules about `subject`, each with a stream of chance of its own.
    pub fn about(subject: FaultSubject, faults: &[Fault], seed: u64) -> Vec<Rule> {
        let numbered = faults.iter().enumerate().filter(|(_, fault)| fault.subject() == subject);
        numbered
            .map(|(number, fault)| Rule {
                fault: fault.clone(),
                met: 0,
                happened: 0,
                random: Random::stream(seed, &format!("fault {number}")),
            })
            .collect()
    }

    /// A rule by itself, whose chance is drawn from `seed` alone.
    pub fn new(fault: Fault, seed: u64) -> Rule {
        Rule { fault, met: 0, happened: 0, random: Random::stream(seed, "fault") }
    }

    /// Whether it is the same rule.
    pub fn is(&self, fault: &Fault) -> bool {
        self.fault == *fault
    }

    /// It meets something at `now`: whether it happens.
    pub fn meets(&mut self, now: Time) -> bool {
        if !self.is_time(now) {
            return false;
        }
        self.met += 1;
        let Fault { first, every, times, probability, .. } = self.fault;
        let is_turn = self.met >= first && (self.met - first).is_multiple_of(every);
        let is_left = times == 0 || self.happened < times;
        if !is_turn || !is_left || (probability < 1.0 && self.random.unit() >= probability) {
            return false;
        }
        self.happened += 1;
        true
    }

    /// The same for a request, if it is one that the rule is about.
    pub fn meets_request(&mut self, now: Time, io: &Io, thread: u16) -> bool {
        self.fault.is_about(io, thread) && self.meets(now)
    }

    /// Whether it is the time in which it happens.
    pub fn is_time(&self, now: Time) -> bool {
        let Fault { from, until, .. } = self.fault;
        now >= Time::ZERO + from && (until.is_zero() || now < Time::ZERO + until)
    }

    /// So many of those that it has met did not come about after all.
    pub fn forget(&mut self, count: u32) {
        self.met = self.met.saturating_sub(count.into());
    }

    /// The number of the next event after which it happens; none if it will not any more.
    pub fn next_event(&self) -> Option<u64> {
        let Fault { first, every, times, .. } = self.fault;
        let is_left = times == 0 || self.happened < times;
        is_left.then(|| first.saturating_add(every.saturating_mul(self.happened)))
    }

    /// Count that it has happened, where nothing else decides.
    pub fn happens(&mut self) {
        self.happened += 1;
    }

    /// How many it has met in its time, and how often it has happened.
    pub fn counts(&self) -> (u64, u64) {
        (self.met, self.happened)
    }

    /// How often it has happened, under the name of its action.
    pub fn count(&self) -> (&'static str, u64) {
        (self.fault.action.counter(), self.happened)
    }
}

impl Fault {
    /// The same rule where its time counts from `now`.
    pub fn from_now(&self, now: Time) -> Fault {
        let passed = now.since(Time::ZERO);
        let until = if self.until.is_zero() { self.until } else { passed + self.until };
        Fault { from: passed + self.from, until, ..self.clone() }
    }

    fn is_about(&self, io: &Io, thread: u16) -> bool {
        let is_operation = match self.action.operation().unwrap_or(self.operation) {
            FaultOperation::Any => true,
            FaultOperation::Read => io.op == Op::Read,
            FaultOperation::Write => io.op == Op::Write,
        };
        let end = if self.size_bytes == 0 { u64::MAX } else { self.offset_bytes.saturating_add(self.size_bytes) };
        let is_place = io.offset < end && io.offset + u64::from(io.bytes) > self.offset_bytes;
        is_operation && is_place && (self.thread == 0 || self.thread == thread + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FaultAction;
    use crate::time::Span;

    const IO: Io = Io { op: Op::Read, offset: 4096, bytes: 4096 };

    fn happens(fault: Fault, times: u64) -> Vec<u64> {
        let mut rule = Rule::about(FaultSubject::Request, &[fault], 1).remove(0);
        (1..=times).filter(|us| rule.meets_request(Time::ZERO + Span::from_us(*us), &IO, 2)).collect()
    }

    #[test]
    fn a_rule_happens_to_those_whose_turn_it_is() {
        let fault = Fault { first: 2, every: 3, times: 3, ..Fault::default() };
        assert_eq!(happens(fault, 20), [2, 5, 8]);
    }

    #[test]
    fn a_rule_happens_in_its_time_alone_and_counts_from_there() {
        let fault = Fault { from: Span::from_us(5), until: Span::from_us(9), every: 2, ..Fault::default() };
        assert_eq!(happens(fault, 20), [5, 7]);
    }

    #[test]
    fn chance_is_as_often_as_it_says() {
        let count = happens(Fault { probability: 0.25, ..Fault::default() }, 10_000).len();
        assert!((2300..2700).contains(&count), "{count}");
    }

    #[test]
    fn a_rule_is_about_its_operation_its_bytes_and_its_thread() {
        let meets = |fault: Fault| !happens(fault, 1).is_empty();
        assert!(meets(Fault { operation: FaultOperation::Read, thread: 3, ..Fault::default() }));
        assert!(!meets(Fault { operation: FaultOperation::Write, ..Fault::default() }));
        assert!(!meets(Fault { action: FaultAction::TornWrite, ..Fault::default() }), "a read is not torn");
        assert!(!meets(Fault { thread: 2, ..Fault::default() }));
        assert!(meets(Fault { offset_bytes: 8191, size_bytes: 1, ..Fault::default() }));
        assert!(!meets(Fault { offset_bytes: 8192, ..Fault::default() }));
        assert!(!meets(Fault { offset_bytes: 0, size_bytes: 4096, ..Fault::default() }));
    }
}
