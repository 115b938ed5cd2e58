//! Fault rules of a served drive that are in force, and their effects on requests, interrupts and queue entries.
//!
//! A rule has the fields of a rule in a drive file ([`Fault`]). Its times are wall time since it was added. Rules about
//! requests are matched here, once for each request that a front-end has fetched, with timing on or off. Rules about
//! interrupts are matched where real ones are sent. The model applies rules about banks, packets and the link.
//!
//! Without rules, a request costs one load and one branch.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phaselink_core::config::{Fault, FaultAction, FaultDigest, FaultSubject};
use phaselink_core::faults::Rule;
use phaselink_core::media::ecc::CORRECTED_BITS;
use phaselink_core::media::volume::VolumeLimits;
use phaselink_core::problem::Problem;
use phaselink_core::random::mix;
use phaselink_core::request::{DataDirection, Io, Op};
use phaselink_core::time::{Span, Time};
use serde_json::{Value, json};

use crate::device::paths::DrivePaths;
use crate::device::tally::locked;

/// Maximum number of fault rules in force at a time. Each request is compared with all of them.
pub const RULES_MAX: usize = 64;

/// Fault rules in force on a served device, and flags that tell if any is about requests, queues or interrupts.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Faults {
    /// True if a rule is about requests.
    of_requests: AtomicBool,
    /// True if a rule is about completion queue entries or doorbells.
    of_queues: AtomicBool,
    /// True if a rule is about interrupts that the server sends itself.
    of_interrupts: AtomicBool,
    /// Number of changes of the rules so far, by which the model sees that it must read them again.
    changes: AtomicU64,
    reach: FaultRuleScope,
    kept: Mutex<RuleTable>,
    /// Paths on which hosts reach the drive, with their states.
    pub paths: DrivePaths,
}

/// Parts of a server, other than requests, to which fault rules can apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRuleScope {
    /// True if there is a model, with banks, packets and a link.
    pub model: bool,
    /// True if hosts have NVMe queues in their memory, and get real interrupts.
    pub interrupts: bool,
    /// True if hosts reach the drive by network connections whose protocol has digests.
    pub connections: bool,
}

/// Fault rules in force, with the number of all rules added so far and the counters of removed rules.
#[derive(Debug, Default)]
struct RuleTable {
    rules: Vec<Active>,
    added: u64,
    /// Effects of rules that have been removed, by the names of their counters.
    cleared: BTreeMap<&'static str, u64>,
}

/// Fault rule in force, with its number and the instant since when.
#[derive(Debug)]
struct Active {
    number: u64,
    rule: Rule,
    since: Instant,
    /// Bandwidth limits of a rule that throttles requests; none for other rules.
    throttle: Option<Box<VolumeLimits>>,
}

impl Active {
    /// Returns true if the rule is about `subject`. Rules about queue entries and doorbells are about no subject.
    fn concerns_subject(&self, subject: FaultSubject) -> bool {
        self.rule.fault.subject() == subject && !self.rule.fault.action.is_completion_entry_or_doorbell_effect()
    }

    /// Returns the effect on a request that has triggered the rule at `now`, or none if the request is unharmed.
    fn effect_on(&mut self, now: Time, io: &Io) -> Option<FaultOutcome> {
        if self.rule.fault.action.is_network_connection_effect() {
            return Some(FaultOutcome::Connection(self.to_connection_fault(now)));
        }
        let until = match (self.rule.fault.action, &mut self.throttle) {
            (FaultAction::Stall, _) => self.rule.ends_at(),
            (_, Some(limits)) => {
                let direction = if io.op == Op::Read { DataDirection::Read } else { DataDirection::Write };
                limits.pass(now, direction, io.offset, io.bytes)
            }
            _ => return effect_on(&self.rule.fault, io.op),
        };
        Some(FaultOutcome::Delayed(duration_of_span(until.since(now))))
    }

    /// Returns the fault of the connection of a request that has triggered the rule at `now`.
    fn to_connection_fault(&self, now: Time) -> ConnectionFault {
        match self.rule.fault.action {
            FaultAction::ConnectionStall => ConnectionFault::Stalled(duration_of_span(self.rule.ends_at().since(now))),
            FaultAction::ConnectionReset => ConnectionFault::Reset,
            FaultAction::HalfOpen => ConnectionFault::HalfOpen,
            _ => ConnectionFault::WrongDigest(self.rule.fault.digest),
        }
    }
}

/// Effect of a fault rule on a fetched request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The device never executes the request, and never completes it.
    Hangs,
    /// The device executes the request after this delay.
    Delayed(Duration),
    /// The device executes the request, with changes to its execution or completion.
    Executed(FaultEffect),
    /// The connection on which the request has arrived is disturbed.
    Connection(ConnectionFault),
}

/// Effect of a fault rule on the network connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// The server neither receives nor sends on the connection for this time.
    Stalled(Duration),
    /// The server resets the connection, and does not execute the request.
    Reset,
    /// The server sends nothing on the connection any more, and discards what it receives, until the host closes it.
    HalfOpen,
    /// The digest of the request's data, or of the header of its response, is wrong.
    WrongDigest(FaultDigest),
}

/// Changes that a fault rule makes to a request that is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultEffect {
    /// True if the completion reports a failure.
    pub fails: bool,
    /// True if no completion is sent, although the request was executed.
    pub drops_completion: bool,
    /// True if only the first half of the written data, in whole blocks, reaches the store.
    pub tears_write: bool,
    /// True if the completion is sent twice.
    pub repeats_completion: bool,
    /// Factor on the request's modelled time, in thousandths; 0 for no change.
    pub slowed_thousandths: u32,
}

/// Effect of a fault rule on an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptFault {
    /// The interrupt is not sent.
    Lost,
    /// The interrupt is sent now, and sent again after this time.
    Repeated(Duration),
}

/// Fault of a completion queue entry that is written without a part, which follows later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionFault {
    /// Part of the entry that is written late.
    pub missing: DelayedCompletionPart,
    /// Time until the missing part is written.
    pub time: Duration,
}

/// Part of a completion queue entry that a fault delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedCompletionPart {
    /// First dword: the old entry's stays in memory beside the new phase tag.
    FirstWord,
    /// Phase tag: the old entry's stays in memory beside the rest of the new entry.
    Phase,
}

impl Faults {
    /// Returns an empty set of rules for a server with the parts in `reach`.
    pub fn new(reach: FaultRuleScope) -> Faults {
        Faults { reach, ..Faults::default() }
    }

    /// Adds a fault rule, whose times count from now, and returns its number. `place` names its source in errors.
    ///
    /// # Errors
    ///
    /// If the rule is about something that the server does not have, or [`RULES_MAX`] rules are in force.
    pub fn add(&self, place: &str, fault: Fault) -> Result<u64, Problem> {
        self.check(place, &fault)?;
        let mut kept = locked(&self.kept);
        if kept.rules.len() >= RULES_MAX {
            let found = format!("{RULES_MAX} rules hold already");
            return Err(Problem::new(place, None, found, "clear some of them"));
        }
        kept.added += 1;
        let number = kept.added;
        let throttle = (fault.action == FaultAction::Throttle).then(|| Box::new(VolumeLimits::throttle(&fault)));
        kept.rules.push(Active { number, rule: Rule::new(fault, mix(number)), since: Instant::now(), throttle });
        self.publish_rule_flags(&kept);
        Ok(number)
    }

    /// Checks that a fault rule can have an effect on this server: some need timing on, or a front-end with queues and
    /// interrupts. `place` names the rule's source in the error.
    ///
    /// # Errors
    ///
    /// If the rule cannot have an effect.
    pub fn check(&self, place: &str, fault: &Fault) -> Result<(), Problem> {
        let FaultRuleScope { model, interrupts, connections } = self.reach;
        let (found, allowed) = match fault.subject() {
            _ if fault.action == FaultAction::PowerCut => (
                "a device that is served loses its power with its server",
                "another action, or phaselink crash for what is left then",
            ),
            FaultSubject::Bank | FaultSubject::Packet | FaultSubject::Instant if !model => {
                ("with timing off there are no banks, packets and lanes", "--timing on")
            }
            _ if fault.action == FaultAction::SlowDown && !model => {
                ("with timing off a request takes no modelled time", "--timing on, or delay")
            }
            _ if fault.action.is_network_connection_effect() && !connections => {
                ("hosts have no network connections", "a front-end over a network with digests")
            }
            _ if fault.action.is_completion_entry_or_doorbell_effect() && !interrupts => {
                ("hosts have no queues of their own", "--vfio-user")
            }
            FaultSubject::Interrupt if !interrupts && !model => {
                ("no interrupts are sent", "--vfio-user, or --timing on")
            }
            _ if matches!(fault.action, FaultAction::Reset | FaultAction::Remove) => {
                ("a device that is served is reset by its hosts, and removed with its server", "another action")
            }
            _ if fault.action == FaultAction::RepeatCompletion && !fault.delay.is_zero() => {
                ("a completion comes again at once", "delay_us = 0")
            }
            _ => return Ok(()),
        };
        let found = format!("\"{}\": {found}", fault.action.name());
        Err(Problem::new(place, None, found, allowed))
    }

    /// Removes the fault rule with this number, or all rules. Returns how many were removed.
    pub fn clear(&self, number: Option<u64>) -> usize {
        let mut kept = locked(&self.kept);
        let before = kept.rules.len();
        let RuleTable { rules, cleared, .. } = &mut *kept;
        for active in rules.extract_if(.., |active| number.is_none_or(|number| number == active.number)) {
            if !self.is_applied_by_model(&active.rule.fault) {
                let (name, count) = active.rule.count();
                *cleared.entry(name).or_default() += count;
            }
        }
        self.publish_rule_flags(&kept);
        before - kept.rules.len()
    }

    /// Returns the number of applied effects since the start by the counter names of simulated runs. Removed rules
    /// count, and rules that the model applies do not.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let kept = locked(&self.kept);
        let mut counters = kept.cleared.clone();
        for active in kept.rules.iter().filter(|active| !self.is_applied_by_model(&active.rule.fault)) {
            let (name, count) = active.rule.count();
            *counters.entry(name).or_default() += count;
        }
        counters.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns a JSON list of all rules with their numbers. Rules that are matched here also have the number of events
    /// seen and the number of times triggered.
    pub fn list(&self) -> Value {
        let list = |active: &Active| {
            let mut listed = json!({ "number": active.number, "fault": active.rule.fault.table() });
            if !self.is_applied_by_model(&active.rule.fault) {
                let (met, happened) = active.rule.counts();
                (listed["met"], listed["happened"]) = (met.into(), happened.into());
            }
            listed
        };
        locked(&self.kept).rules.iter().map(list).collect()
    }

    /// Updates the flags that tell which kinds of rules are in force, and the number of changes.
    fn publish_rule_flags(&self, kept: &RuleTable) {
        let any = |subject| kept.rules.iter().any(|active| active.concerns_subject(subject));
        self.of_requests.store(any(FaultSubject::Request), Ordering::Relaxed);
        self.of_queues.store(
            kept.rules.iter().any(|active| active.rule.fault.action.is_completion_entry_or_doorbell_effect()),
            Ordering::Relaxed,
        );
        self.of_interrupts.store(self.reach.interrupts && any(FaultSubject::Interrupt), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns true if the model, and not the server's code, applies a rule.
    fn is_applied_by_model(&self, fault: &Fault) -> bool {
        match fault.subject() {
            FaultSubject::Request => false,
            FaultSubject::Interrupt => !self.reach.interrupts,
            FaultSubject::Bank | FaultSubject::Packet | FaultSubject::Instant | FaultSubject::Event => true,
        }
    }

    /// Returns the number of changes of the rules so far. After a change, [`Faults::rules_applied_by_model`] is to be read again.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the rules that the model applies, each with its number.
    pub fn rules_applied_by_model(&self) -> Vec<(u64, Fault)> {
        let kept = locked(&self.kept);
        let own = kept.rules.iter().filter(|active| self.is_applied_by_model(&active.rule.fault));
        own.map(|active| (active.number, active.rule.fault.clone())).collect()
    }

    /// Compares a request that thread number `thread`, counted from 0, has fetched with the rules. Returns the effect
    /// of the first rule that is triggered, of those whose faults `can_happen` to the request. Requests that transfer no
    /// data trigger none.
    #[inline]
    pub fn match_request_fault(
        &self,
        thread: u64,
        io: impl FnOnce() -> Option<Io>,
        can_happen: impl Fn(&Fault) -> bool,
    ) -> Option<FaultOutcome> {
        if !self.of_requests.load(Ordering::Relaxed) {
            return None;
        }
        self.find_triggered_request_rule(&data_transfer_for_fault_rules(io()?)?, thread, can_happen)
    }

    #[cold]
    fn find_triggered_request_rule(
        &self,
        io: &Io,
        thread: u64,
        can_happen: impl Fn(&Fault) -> bool,
    ) -> Option<FaultOutcome> {
        let thread = u16::try_from(thread).unwrap_or(u16::MAX - 1);
        let mut kept = locked(&self.kept);
        let own = kept.rules.iter_mut().filter(|active| active.concerns_subject(FaultSubject::Request));
        for active in own.filter(|active| can_happen(&active.rule.fault)) {
            let now = time_since_rule_added(active.since);
            if active.rule.count_request_match(now, io, thread) {
                return active.effect_on(now, io);
            }
        }
        None
    }

    /// Compares an interrupt that is about to be sent with the rules. Returns the effect of the first rule that is
    /// triggered.
    #[inline]
    pub fn match_interrupt_fault(&self) -> Option<InterruptFault> {
        if !self.of_interrupts.load(Ordering::Relaxed) {
            return None;
        }
        let fault = self.first_triggered_rule(
            |active| active.concerns_subject(FaultSubject::Interrupt),
            Rule::count_trigger_match,
        )?;
        match fault.action {
            FaultAction::RepeatInterrupt => Some(InterruptFault::Repeated(duration_of_span(fault.delay))),
            _ => Some(InterruptFault::Lost),
        }
    }

    /// Compares a completion queue entry that is about to be written with the rules. Returns the fault of the first
    /// rule that is triggered.
    #[inline]
    pub fn match_completion_fault(&self) -> Option<CompletionFault> {
        if !self.of_queues.load(Ordering::Relaxed) {
            return None;
        }
        let fault = self.first_triggered_rule_with_action(&[FaultAction::TornCompletion, FaultAction::StalePhase])?;
        let is_torn = fault.action == FaultAction::TornCompletion;
        let missing = if is_torn { DelayedCompletionPart::FirstWord } else { DelayedCompletionPart::Phase };
        Some(CompletionFault { missing, time: duration_of_span(fault.delay) })
    }

    /// Compares a new value of a submission queue's doorbell with the rules. Returns the time until the device sees the
    /// value if a rule is triggered.
    #[inline]
    pub fn match_doorbell_delay(&self) -> Option<Duration> {
        if !self.of_queues.load(Ordering::Relaxed) {
            return None;
        }
        self.first_triggered_rule_with_action(&[FaultAction::LateDoorbellRead])
            .map(|fault| duration_of_span(fault.delay))
    }

    /// Returns the first rule with one of these actions that the present event triggers.
    #[cold]
    fn first_triggered_rule_with_action(&self, actions: &[FaultAction]) -> Option<Fault> {
        self.first_triggered_rule(|active| actions.contains(&active.rule.fault.action), Rule::count_trigger_match)
    }

    /// Returns the first rule, among those for which `is_own` is true, that `happens` says is triggered. Later rules do
    /// not see the event.
    fn first_triggered_rule(
        &self,
        is_own: impl Fn(&Active) -> bool,
        mut happens: impl FnMut(&mut Rule, Time) -> bool,
    ) -> Option<Fault> {
        let mut kept = locked(&self.kept);
        let mut own = kept.rules.iter_mut().filter(|active| is_own(active));
        let met = own
            .find_map(|active| happens(&mut active.rule, time_since_rule_added(active.since)).then_some(&active.rule));
        met.map(|rule| rule.fault.clone())
    }
}

/// Returns the effect of a fault on a request, or none if error correction of the media hides it.
fn effect_on(fault: &Fault, op: Op) -> Option<FaultOutcome> {
    let mut effect = FaultEffect::default();
    match fault.action {
        FaultAction::Hang => return Some(FaultOutcome::Hangs),
        FaultAction::Delay => return Some(FaultOutcome::Delayed(duration_of_span(fault.delay))),
        FaultAction::FailChip => return None,
        FaultAction::FlipBits if usize::from(fault.bits) <= CORRECTED_BITS => return None,
        FaultAction::DropCompletion => effect.drops_completion = true,
        FaultAction::RepeatCompletion => effect.repeats_completion = true,
        FaultAction::SlowDown => effect.slowed_thousandths = (fault.factor * 1000.0).round() as u32,
        FaultAction::TornWrite => (effect.fails, effect.tears_write) = (true, op == Op::Write),
        _ => effect.fails = true,
    }
    Some(FaultOutcome::Executed(effect))
}

/// Returns the time since a rule was added, at most 213 days.
fn time_since_rule_added(added: Instant) -> Time {
    Time::from_ps(u64::try_from(added.elapsed().as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX))
}

fn duration_of_span(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps().div_ceil(1000))
}

impl FaultEffect {
    /// Returns true if a completion of the request reports success to the host.
    pub fn reports_success(self) -> bool {
        !self.fails && !self.drops_completion
    }

    /// Returns the number of `bytes` written bytes that reach the store: all, or the first half in whole blocks if the
    /// write is torn.
    pub fn kept_bytes(self, bytes: u32, block_bytes: u32) -> u32 {
        if self.tears_write { bytes / 2 / block_bytes * block_bytes } else { bytes }
    }
}

/// Items that become due at their own instants, in no order. They are few, since clients limit their requests in
/// flight.
#[derive(Debug)]
pub struct DelayQueue<T>(Vec<(Instant, T)>);

impl<T> Default for DelayQueue<T> {
    fn default() -> DelayQueue<T> {
        DelayQueue(Vec::new())
    }
}

impl<T> DelayQueue<T> {
    /// Adds an item that becomes due after `time`.
    pub fn push(&mut self, time: Duration, thing: T) {
        self.0.push((Instant::now() + time, thing));
    }

    /// Adds all items of another queue, with their instants.
    pub fn extend(&mut self, other: DelayQueue<T>) {
        self.0.extend(other.0);
    }

    /// Removes and returns the item that is due for longest, or returns none if none is due.
    #[inline]
    pub fn take_due(&mut self) -> Option<T> {
        if self.0.is_empty() { None } else { self.take_any_due_item() }
    }

    #[cold]
    fn take_any_due_item(&mut self) -> Option<T> {
        let now = Instant::now();
        let due = self.0.iter().enumerate().filter(|(_, (until, _))| *until <= now);
        let (place, _) = due.min_by_key(|(_, (until, _))| *until)?;
        Some(self.0.remove(place).1)
    }

    /// Returns the time until the first item is due, zero if one is, or none if the queue is empty.
    #[inline]
    pub fn time_until_first_due(&self) -> Option<Duration> {
        let first = self.0.iter().map(|(until, _)| *until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Returns `time`, or the time until an item is due if that is shorter.
    #[inline]
    pub fn limit(&self, time: Duration) -> Duration {
        if self.0.is_empty() { time } else { self.time_until_first_due().map_or(time, |due| due.min(time)) }
    }

    /// Returns all items of the queue, due or not.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, thing)| thing)
    }

    /// Returns the number of items in the queue, due or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the data transfer of a request, with which fault rules are compared. Writing zeros counts as a write;
/// flushes and discards have none.
fn data_transfer_for_fault_rules(io: Io) -> Option<Io> {
    match io.op {
        Op::Read | Op::Write => Some(io),
        Op::WriteZeroes => Some(Io { op: Op::Write, ..io }),
        Op::Flush | Op::Discard => None,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use phaselink_core::config::FaultOperation;

    use super::*;

    const READ: Io = Io { op: Op::Read, offset: 4096, bytes: 4096 };
    const WRITE: Io = Io { op: Op::Write, ..READ };

    fn of(action: FaultAction) -> Fault {
        Fault { action, ..Fault::default() }
    }

    #[test]
    fn first_triggered_rule_decides_and_no_rule_means_no_fault() {
        let faults = Faults::default();
        assert_eq!(faults.match_request_fault(0, || Some(READ), |_| true), None);
        let reads = Fault { operation: FaultOperation::Read, every: 2, ..of(FaultAction::Hang) };
        assert_eq!(faults.add("test", reads), Ok(1));
        assert_eq!(faults.add("test", of(FaultAction::Error)), Ok(2));
        let fails = Some(FaultOutcome::Executed(FaultEffect { fails: true, ..FaultEffect::default() }));
        let met: Vec<_> = (0..4).map(|_| faults.match_request_fault(0, || Some(READ), |_| true)).collect();
        assert_eq!(met, [Some(FaultOutcome::Hangs), fails, Some(FaultOutcome::Hangs), fails]);
        assert_eq!(faults.match_request_fault(0, || Some(WRITE), |_| true), fails);
        assert_eq!(faults.list()[0]["happened"], 2);
        assert_eq!(faults.counters(), [("fault_errors", 3), ("fault_hangs", 2)]);
        assert_eq!((faults.list()[1]["met"].as_u64(), faults.clear(Some(2)), faults.clear(None)), (Some(3), 1, 1));
        assert_eq!(faults.match_request_fault(0, || Some(WRITE), |_| true), None);
        assert_eq!(faults.counters(), [("fault_errors", 3), ("fault_hangs", 2)], "those of cleared rules stay");
    }

    #[test]
    fn every_request_fault_action_has_a_distinct_outcome() {
        let met = |fault: Fault, io: &Io| {
            let faults = Faults::default();
            faults.add("test", fault).unwrap();
            faults.match_request_fault(0, || Some(*io), |_| true)
        };
        let late = Fault { delay: Span::from_us(3), ..of(FaultAction::Delay) };
        assert_eq!(met(late, &READ), Some(FaultOutcome::Delayed(Duration::from_micros(3))));
        let untold = FaultEffect { drops_completion: true, ..FaultEffect::default() };
        assert_eq!(met(of(FaultAction::DropCompletion), &WRITE), Some(FaultOutcome::Executed(untold)));
        let again = FaultEffect { repeats_completion: true, ..FaultEffect::default() };
        assert_eq!(met(of(FaultAction::RepeatCompletion), &READ), Some(FaultOutcome::Executed(again)));
        let flipped = |bits| met(Fault { bits, ..of(FaultAction::FlipBits) }, &READ);
        let fails = Some(FaultOutcome::Executed(FaultEffect { fails: true, ..FaultEffect::default() }));
        assert_eq!((flipped(39), flipped(40), met(of(FaultAction::FailChip), &READ)), (None, fails, None));
        let torn = FaultEffect { fails: true, tears_write: true, ..FaultEffect::default() };
        assert_eq!(met(of(FaultAction::TornWrite), &WRITE), Some(FaultOutcome::Executed(torn)));
        assert_eq!(met(of(FaultAction::TornWrite), &READ), None);
        assert_eq!([512, 1024, 2560].map(|bytes| torn.kept_bytes(bytes, 512)), [0, 512, 1024]);
        assert_eq!(untold.kept_bytes(1024, 512), 1024);
    }

    #[test]
    fn queue_fault_rules_match_entries_and_doorbells_but_no_requests() {
        let faults = Faults::new(FaultRuleScope { model: false, interrupts: true, connections: false });
        let delay = Span::from_us(7);
        for action in [FaultAction::LateDoorbellRead, FaultAction::StalePhase] {
            faults.add("test", Fault { delay, every: 2, ..of(action) }).unwrap();
        }
        let stale = CompletionFault { missing: DelayedCompletionPart::Phase, time: Duration::from_micros(7) };
        let met: Vec<_> = (0..3).map(|_| faults.match_completion_fault()).collect();
        assert_eq!(met, [Some(stale), None, Some(stale)]);
        assert_eq!(
            (faults.match_doorbell_delay(), faults.match_doorbell_delay()),
            (Some(Duration::from_micros(7)), None)
        );
        assert_eq!(faults.match_request_fault(0, || Some(READ), |_| true), None);
        assert_eq!(faults.counters(), [("fault_late_doorbells", 1), ("fault_stale_phases", 2)]);
    }

    #[test]
    fn time_window_of_a_rule_starts_when_the_rule_is_added() {
        let faults = Faults::default();
        thread::sleep(Duration::from_millis(2));
        let later = Fault { from: Span::from_ms(30), ..of(FaultAction::Error) };
        faults.add("test", later).unwrap();
        assert_eq!(faults.match_request_fault(0, || Some(READ), |_| true), None);
        thread::sleep(Duration::from_millis(30));
        assert!(faults.match_request_fault(0, || Some(READ), |_| true).is_some());
    }

    #[test]
    fn rules_the_server_cannot_apply_and_too_many_rules_are_refused() {
        let untimed = Faults::default();
        let refused = |faults: &Faults, action| faults.add("control", of(action)).unwrap_err().to_string();
        for action in [FaultAction::SlowBank, FaultAction::CorruptPacket, FaultAction::Retrain] {
            let found = refused(&untimed, action);
            assert!(found.ends_with("no banks, packets and lanes; allowed: --timing on"), "{found}");
        }
        let late = Fault { delay: Span::from_us(1), ..of(FaultAction::RepeatCompletion) };
        assert!(untimed.add("control", late).unwrap_err().to_string().ends_with("allowed: delay_us = 0"));
        assert!(
            refused(
                &Faults::new(FaultRuleScope { model: true, interrupts: true, connections: false }),
                FaultAction::Reset
            )
            .contains("by its hosts")
        );
        for faults in [&untimed, &Faults::new(FaultRuleScope { model: true, interrupts: true, connections: false })] {
            assert!(refused(faults, FaultAction::PowerCut).contains("loses its power with its server"));
        }
        assert!(refused(&untimed, FaultAction::LoseInterrupt).contains("no interrupts are sent"));
        for action in [FaultAction::TornCompletion, FaultAction::StalePhase, FaultAction::LateDoorbellRead] {
            assert!(refused(&untimed, action).ends_with("hosts have no queues of their own; allowed: --vfio-user"));
        }
        let modelled = Faults::new(FaultRuleScope { model: true, interrupts: true, connections: false });
        assert_eq!(modelled.add("control", of(FaultAction::SlowBank)), Ok(1));
        assert_eq!(modelled.list()[0]["fault"], json!({ "action": "slow-bank", "bank": 0 }), "the bank is named");
        assert_eq!(modelled.add("control", of(FaultAction::LoseInterrupt)), Ok(2));
        let numbers: Vec<u64> = modelled.rules_applied_by_model().into_iter().map(|(number, _)| number).collect();
        assert_eq!((numbers, modelled.match_interrupt_fault()), (vec![1], Some(InterruptFault::Lost)));
        assert!((2..RULES_MAX).all(|_| modelled.add("control", of(FaultAction::Error)).is_ok()));
        assert!(refused(&modelled, FaultAction::Error).contains("64 rules hold already"));
    }

    #[test]
    fn delayed_items_come_back_when_due_earliest_first() {
        let mut held = DelayQueue::default();
        held.push(Duration::from_millis(2), 'b');
        held.push(Duration::ZERO, 'a');
        held.push(Duration::from_secs(3600), 'c');
        assert_eq!(held.take_due(), Some('a'));
        thread::sleep(Duration::from_millis(3));
        assert_eq!((held.take_due(), held.take_due(), held.len()), (Some('b'), None, 1));
        assert!(held.limit(Duration::MAX) > Duration::from_secs(3000));
    }
}
