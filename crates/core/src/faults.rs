//! Fault rules of a run: trigger of an injected fault, and counts of its matches and effects.

use crate::config::{Fault, FaultOperation, FaultSubject};
use crate::random::Random;
use crate::request::{Io, Op};
use crate::time::Time;

/// Fault rule of a run, with the number of its matches and effects so far.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Fault that the rule injects, as described by the user.
    pub fault: Fault,
    /// Number of events that have matched the rule so far, whether they triggered the fault or not.
    met: u64,
    /// Number of times that the rule has triggered its fault.
    happened: u64,
    /// Instants of the first and of the last trigger; `None` before the first.
    span: Option<(Time, Time)>,
    /// Stream of random numbers that decides by the rule's `probability`.
    random: Random,
}

impl Rule {
    /// Makes a rule of each fault that concerns `subject`, with its own stream of random numbers.
    pub fn about(subject: FaultSubject, faults: &[Fault], seed: u64) -> Vec<Rule> {
        let numbered = faults.iter().enumerate().filter(|(_, fault)| fault.subject() == subject);
        numbered
            .map(|(number, fault)| Rule {
                fault: fault.clone(),
                met: 0,
                happened: 0,
                span: None,
                random: Random::stream(seed, &format!("fault {number}")),
            })
            .collect()
    }

    /// Makes a single fault rule, whose random numbers depend on `seed` alone.
    pub fn new(fault: Fault, seed: u64) -> Rule {
        Rule { fault, met: 0, happened: 0, span: None, random: Random::stream(seed, "fault") }
    }

    /// True if `fault` describes this rule.
    pub fn is(&self, fault: &Fault) -> bool {
        self.fault == *fault
    }

    /// Counts an event that matches the rule at `now`. Returns true if the match triggers the fault.
    pub fn count_trigger_match(&mut self, now: Time) -> bool {
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
        self.count_effect_at(now);
        true
    }

    /// Counts a request of `thread` as a match, if the rule applies to it. Returns true if the match triggers the
    /// fault.
    pub fn count_request_match(&mut self, now: Time, io: &Io, thread: u16) -> bool {
        self.fault.matches_request(io, thread) && self.count_trigger_match(now)
    }

    /// True if the rule can match at `now`: it has begun and has not ended.
    pub fn is_time(&self, now: Time) -> bool {
        let Fault { from, until, lasts, .. } = self.fault;
        let is_in_time = now >= Time::ZERO + from && (until.is_zero() || now < Time::ZERO + until);
        is_in_time && (lasts.is_zero() || self.span.is_none_or(|(first, _)| now < first + lasts))
    }

    /// Returns when the rule stops matching: at its fixed end, or `lasts` after its first trigger; `Time::ZERO` if it
    /// has no end.
    pub fn ends_at(&self) -> Time {
        let Fault { until, lasts, .. } = self.fault;
        let from_first = self.span.filter(|_| !lasts.is_zero()).map(|(first, _)| first + lasts);
        let fixed = (!until.is_zero()).then(|| Time::ZERO + until);
        from_first.into_iter().chain(fixed).min().unwrap_or(Time::ZERO)
    }

    /// Counts one effect of the fault, at the instant `now`.
    pub fn count_effect_at(&mut self, now: Time) {
        self.happened += 1;
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }

    /// Returns the instants of the fault's first and last effect; `None` if it had none.
    pub fn span(&self) -> Option<(Time, Time)> {
        self.span
    }

    /// Takes back `count` matches of the rule whose events did not happen after all, such as packets that were not
    /// sent.
    pub fn forget(&mut self, count: u32) {
        self.met = self.met.saturating_sub(count.into());
    }

    /// Returns the number of the simulation event that triggers the fault next; `None` if none does any more.
    pub fn next_trigger_event(&self) -> Option<u64> {
        let Fault { first, every, times, .. } = self.fault;
        let is_left = times == 0 || self.happened < times;
        is_left.then(|| first.saturating_add(every.saturating_mul(self.happened)))
    }

    /// Counts one effect of the fault without its time, for triggers that are decided elsewhere.
    pub fn count_effect_elsewhere(&mut self) {
        self.happened += 1;
    }

    /// Returns two numbers: that of the rule's matches so far, and that of its effects.
    pub fn counts(&self) -> (u64, u64) {
        (self.met, self.happened)
    }

    /// Returns the name of the effect's counter, and the number of effects so far.
    pub fn count(&self) -> (&'static str, u64) {
        (self.fault.action.counter(), self.happened)
    }
}

impl Fault {
    /// Returns this fault with its times, which are relative to `now`, converted to times since the start of the run.
    pub fn relative_to_start(&self, now: Time) -> Fault {
        let passed = now.since(Time::ZERO);
        let until = if self.until.is_zero() { self.until } else { passed + self.until };
        Fault { from: passed + self.from, until, ..self.clone() }
    }

    /// True if the fault applies to this request of this thread, by its operation, its range and its thread.
    fn matches_request(&self, io: &Io, thread: u16) -> bool {
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

    fn trigger_numbers(fault: Fault, times: u64) -> Vec<u64> {
        let mut rule = Rule::about(FaultSubject::Request, &[fault], 1).remove(0);
        (1..=times).filter(|us| rule.count_request_match(Time::ZERO + Span::from_us(*us), &IO, 2)).collect()
    }

    #[test]
    fn rule_triggers_at_its_first_and_every_nth_match() {
        let fault = Fault { first: 2, every: 3, times: 3, ..Fault::default() };
        assert_eq!(trigger_numbers(fault, 20), [2, 5, 8]);
    }

    #[test]
    fn rule_matches_only_within_its_time_window() {
        let fault = Fault { from: Span::from_us(5), until: Span::from_us(9), every: 2, ..Fault::default() };
        assert_eq!(trigger_numbers(fault, 20), [5, 7]);
    }

    #[test]
    fn rule_triggers_with_its_given_probability() {
        let count = trigger_numbers(Fault { probability: 0.25, ..Fault::default() }, 10_000).len();
        assert!((2300..2700).contains(&count), "{count}");
    }

    #[test]
    fn rule_matches_only_its_operation_range_and_thread() {
        let meets = |fault: Fault| !trigger_numbers(fault, 1).is_empty();
        assert!(meets(Fault { operation: FaultOperation::Read, thread: 3, ..Fault::default() }));
        assert!(!meets(Fault { operation: FaultOperation::Write, ..Fault::default() }));
        assert!(!meets(Fault { action: FaultAction::TornWrite, ..Fault::default() }), "a read is not torn");
        assert!(!meets(Fault { thread: 2, ..Fault::default() }));
        assert!(meets(Fault { offset_bytes: 8191, size_bytes: 1, ..Fault::default() }));
        assert!(!meets(Fault { offset_bytes: 8192, ..Fault::default() }));
        assert!(!meets(Fault { offset_bytes: 0, size_bytes: 4096, ..Fault::default() }));
    }
}
