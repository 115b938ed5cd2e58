//! Faults of a served drive: the rules that hold just now, and what becomes of a request that meets one.
//!
//! A rule is that of a drive file ([`Fault`]), in wall time: its instants count from when it was added. Those about requests
//! are decided here, once for each request, by whatever front-end has taken it, with the model or without. Those about
//! interrupts are decided where real ones are sent. Those about banks, packets and the link are the model's.
//!
//! As long as there is no rule, a request costs one load and one branch.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phaselink_core::config::{Fault, FaultAction, FaultSubject};
use phaselink_core::faults::Rule;
use phaselink_core::media::ecc::CORRECTED_BITS;
use phaselink_core::problem::Problem;
use phaselink_core::random::mix;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use serde_json::{Value, json};

use crate::device::tally::locked;

/// Rules that hold at a time: each request is compared with all of them.
pub const RULES_MAX: usize = 64;

/// The rules of a device.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Faults {
    /// Whether there are rules about requests, and about interrupts.
    of_requests: AtomicBool,
    of_interrupts: AtomicBool,
    /// Changes of the rules that are the model's, so far.
    changes: AtomicU64,
    reach: FaultScope,
    kept: Mutex<Kept>,
}

/// What a server has that rules can be about, beside requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultScope {
    /// Banks, packets and a link: those of a model.
    pub model: bool,
    /// Interrupts that are really sent.
    pub interrupts: bool,
}

#[derive(Debug, Default)]
struct Kept {
    rules: Vec<Active>,
    added: u64,
}

/// A rule that holds.
#[derive(Debug)]
struct Active {
    number: u64,
    rule: Rule,
    since: Instant,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The device never begins it, nor answers.
    Hangs,
    /// The device has it so long before it begins.
    Delayed(Duration),
    /// The device does it, and something goes wrong.
    Executed(FaultEffect),
}

/// What goes wrong with a request that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultEffect {
    /// It is reported as failed.
    pub fails: bool,
    /// It is not reported at all.
    pub drops_completion: bool,
    /// The second half of what it writes does not reach the store.
    pub tears_write: bool,
    /// It is reported twice.
    pub repeats_completion: bool,
}

/// What becomes of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptFault {
    Lost,
    /// It comes again after so long.
    Repeated(Duration),
}

impl Faults {
    /// No rules, of a server that has this.
    pub fn new(reach: FaultScope) -> Faults {
        Faults { reach, ..Faults::default() }
    }

    /// A rule holds from now on; its number.
    ///
    /// # Errors
    /// If it is about something that the server has not, or there are [`RULES_MAX`] already.
    pub fn add(&self, place: &str, fault: Fault) -> Result<u64, Problem> {
        self.check(place, &fault)?;
        let mut kept = locked(&self.kept);
        if kept.rules.len() >= RULES_MAX {
            let found = format!("{RULES_MAX} rules hold already");
            return Err(Problem::new(place, None, found, "clear some of them"));
        }
        kept.added += 1;
        let number = kept.added;
        kept.rules.push(Active { number, rule: Rule::new(fault, mix(number)), since: Instant::now() });
        self.show(&kept);
        Ok(number)
    }

    /// Whether a rule is about something that the server has.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self, place: &str, fault: &Fault) -> Result<(), Problem> {
        let FaultScope { model, interrupts } = self.reach;
        let (found, allowed) = match fault.subject() {
            _ if fault.action == FaultAction::PowerCut => (
                "a device that is served loses its power with its server",
                "another action, or phaselink crash for what is left then",
            ),
            FaultSubject::Bank | FaultSubject::Packet | FaultSubject::Instant if !model => {
                ("with timing off there are no banks, packets and lanes", "--timing on")
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

    /// The rule of this number holds no more, or none does; how many that were.
    pub fn clear(&self, number: Option<u64>) -> usize {
        let mut kept = locked(&self.kept);
        let before = kept.rules.len();
        kept.rules.retain(|active| number.is_some_and(|number| number != active.number));
        self.show(&kept);
        before - kept.rules.len()
    }

    /// Every rule with its number, and for those that are decided here how many it has met and how often it has happened.
    pub fn list(&self) -> Value {
        let list = |active: &Active| {
            let mut listed = json!({ "number": active.number, "fault": active.rule.fault.table() });
            if !self.is_of_model(&active.rule.fault) {
                let (met, happened) = active.rule.counts();
                (listed["met"], listed["happened"]) = (met.into(), happened.into());
            }
            listed
        };
        locked(&self.kept).rules.iter().map(list).collect()
    }

    /// Let those who look see what there is.
    fn show(&self, kept: &Kept) {
        let any = |subject| kept.rules.iter().any(|active| active.rule.fault.subject() == subject);
        self.of_requests.store(any(FaultSubject::Request), Ordering::Relaxed);
        self.of_interrupts.store(self.reach.interrupts && any(FaultSubject::Interrupt), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Whether a rule is left to the model.
    fn is_of_model(&self, fault: &Fault) -> bool {
        match fault.subject() {
            FaultSubject::Request => false,
            FaultSubject::Interrupt => !self.reach.interrupts,
            FaultSubject::Bank | FaultSubject::Packet | FaultSubject::Instant | FaultSubject::Event => true,
        }
    }

    /// How often the model's rules may have changed; see [`Faults::of_model`].
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The rules that the model is to follow, by their numbers.
    pub fn of_model(&self) -> Vec<(u64, Fault)> {
        let kept = locked(&self.kept);
        let own = kept.rules.iter().filter(|active| self.is_of_model(&active.rule.fault));
        own.map(|active| (active.number, active.rule.fault.clone())).collect()
    }

    /// A request of this thread, counted from 0, has been taken: what becomes of it, if it meets a rule that happens. What
    /// does not move data meets none.
    #[inline]
    pub fn match_request(&self, thread: u64, io: impl FnOnce() -> Option<Io>) -> Option<FaultOutcome> {
        if !self.of_requests.load(Ordering::Relaxed) {
            return None;
        }
        self.meet_any(&io()?, thread)
    }

    #[cold]
    fn meet_any(&self, io: &Io, thread: u64) -> Option<FaultOutcome> {
        let thread = u16::try_from(thread).unwrap_or(u16::MAX - 1);
        let fault = self.first(FaultSubject::Request, |rule, now| rule.meets_request(now, io, thread))?;
        fate(&fault, io.op)
    }

    /// An interrupt is about to be sent: what becomes of it, if it meets a rule that happens.
    #[inline]
    pub fn match_interrupt(&self) -> Option<InterruptFault> {
        if !self.of_interrupts.load(Ordering::Relaxed) {
            return None;
        }
        let fault = self.first(FaultSubject::Interrupt, Rule::meets)?;
        match fault.action {
            FaultAction::RepeatInterrupt => Some(InterruptFault::Repeated(duration(fault.delay))),
            _ => Some(InterruptFault::Lost),
        }
    }

    /// The first rule about `subject` that happens. Those behind it do not see what it has met.
    fn first(&self, subject: FaultSubject, mut happens: impl FnMut(&mut Rule, Time) -> bool) -> Option<Fault> {
        let mut kept = locked(&self.kept);
        let mut own = kept.rules.iter_mut().filter(|active| active.rule.fault.subject() == subject);
        let met = own.find_map(|active| happens(&mut active.rule, time_since(active.since)).then_some(&active.rule));
        met.map(|rule| rule.fault.clone())
    }
}

/// What comes of a fault; nothing if the code of the memory corrects it.
fn fate(fault: &Fault, op: Op) -> Option<FaultOutcome> {
    let mut effect = FaultEffect::default();
    match fault.action {
        FaultAction::Hang => return Some(FaultOutcome::Hangs),
        FaultAction::Delay => return Some(FaultOutcome::Delayed(duration(fault.delay))),
        FaultAction::FailChip => return None,
        FaultAction::FlipBits if usize::from(fault.bits) <= CORRECTED_BITS => return None,
        FaultAction::DropCompletion => effect.drops_completion = true,
        FaultAction::RepeatCompletion => effect.repeats_completion = true,
        FaultAction::TornWrite => (effect.fails, effect.tears_write) = (true, op == Op::Write),
        _ => effect.fails = true,
    }
    Some(FaultOutcome::Executed(effect))
}

/// The time of a rule that was added then. What is longer than 213 days counts as that.
fn time_since(added: Instant) -> Time {
    Time::from_ps(u64::try_from(added.elapsed().as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX))
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps().div_ceil(1000))
}

impl FaultEffect {
    /// Whether its host hears that it has been done.
    pub fn succeeds(self) -> bool {
        !self.fails && !self.drops_completion
    }

    /// How many of the bytes of a write reach the store, in whole blocks.
    pub fn kept_bytes(self, bytes: u32, block_bytes: u32) -> u32 {
        if self.tears_write { bytes / 2 / block_bytes * block_bytes } else { bytes }
    }
}

/// Requests that a device has before it begins them. They are few: no client has more under way than it may.
#[derive(Debug)]
pub struct DelayQueue<T>(Vec<(Instant, T)>);

impl<T> Default for DelayQueue<T> {
    fn default() -> DelayQueue<T> {
        DelayQueue(Vec::new())
    }
}

impl<T> DelayQueue<T> {
    /// Keep something for so long.
    pub fn keep(&mut self, time: Duration, thing: T) {
        self.0.push((Instant::now() + time, thing));
    }

    /// Keep what another has kept, for as long as that would have.
    pub fn extend(&mut self, other: DelayQueue<T>) {
        self.0.extend(other.0);
    }

    /// Something whose time is over, the first of what has come first.
    #[inline]
    pub fn take_due(&mut self) -> Option<T> {
        if self.0.is_empty() { None } else { self.take_any_due() }
    }

    #[cold]
    fn take_any_due(&mut self) -> Option<T> {
        let now = Instant::now();
        let due = self.0.iter().enumerate().filter(|(_, (until, _))| *until <= now);
        let (place, _) = due.min_by_key(|(_, (until, _))| *until)?;
        Some(self.0.remove(place).1)
    }

    /// How long nothing is due; none if nothing is kept.
    #[inline]
    pub fn due_in(&self) -> Option<Duration> {
        let first = self.0.iter().map(|(until, _)| *until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// The shorter of a time and what is left until something is due.
    #[inline]
    pub fn no_longer_than(&self, time: Duration) -> Duration {
        if self.0.is_empty() { time } else { self.due_in().map_or(time, |due| due.min(time)) }
    }

    /// What is kept.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, thing)| thing)
    }

    /// How much is kept.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
    fn the_first_rule_that_happens_decides_and_no_rule_none() {
        let faults = Faults::default();
        assert_eq!(faults.match_request(0, || Some(READ)), None);
        let reads = Fault { operation: FaultOperation::Read, every: 2, ..of(FaultAction::Hang) };
        assert_eq!(faults.add("test", reads), Ok(1));
        assert_eq!(faults.add("test", of(FaultAction::Error)), Ok(2));
        let fails = Some(FaultOutcome::Executed(FaultEffect { fails: true, ..FaultEffect::default() }));
        let met: Vec<_> = (0..4).map(|_| faults.match_request(0, || Some(READ))).collect();
        assert_eq!(met, [Some(FaultOutcome::Hangs), fails, Some(FaultOutcome::Hangs), fails]);
        assert_eq!(faults.match_request(0, || Some(WRITE)), fails);
        assert_eq!(faults.list()[0]["happened"], 2);
        assert_eq!((faults.list()[1]["met"].as_u64(), faults.clear(Some(2)), faults.clear(None)), (Some(3), 1, 1));
        assert_eq!(faults.match_request(0, || Some(WRITE)), None);
    }

    #[test]
    fn every_action_about_requests_has_a_fate_of_its_own() {
        let met = |fault: Fault, io: &Io| {
            let faults = Faults::default();
            faults.add("test", fault).unwrap();
            faults.match_request(0, || Some(*io))
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
    fn the_time_of_a_rule_counts_from_when_it_was_added() {
        let faults = Faults::default();
        thread::sleep(Duration::from_millis(2));
        let later = Fault { from: Span::from_ms(30), ..of(FaultAction::Error) };
        faults.add("test", later).unwrap();
        assert_eq!(faults.match_request(0, || Some(READ)), None);
        thread::sleep(Duration::from_millis(30));
        assert!(faults.match_request(0, || Some(READ)).is_some());
    }

    #[test]
    fn what_the_server_has_not_is_refused_and_so_are_too_many() {
        let untimed = Faults::default();
        let refused = |faults: &Faults, action| faults.add("control", of(action)).unwrap_err().to_string();
        for action in [FaultAction::SlowBank, FaultAction::CorruptPacket, FaultAction::Retrain] {
            let found = refused(&untimed, action);
            assert!(found.ends_with("no banks, packets and lanes; allowed: --timing on"), "{found}");
        }
        let late = Fault { delay: Span::from_us(1), ..of(FaultAction::RepeatCompletion) };
        assert!(untimed.add("control", late).unwrap_err().to_string().ends_with("allowed: delay_us = 0"));
        assert!(
            refused(&Faults::new(FaultScope { model: true, interrupts: true }), FaultAction::Reset)
                .contains("by its hosts")
        );
        for faults in [&untimed, &Faults::new(FaultScope { model: true, interrupts: true })] {
            assert!(refused(faults, FaultAction::PowerCut).contains("loses its power with its server"));
        }
        assert!(refused(&untimed, FaultAction::LoseInterrupt).contains("no interrupts are sent"));
        let modelled = Faults::new(FaultScope { model: true, interrupts: true });
        assert_eq!(modelled.add("control", of(FaultAction::SlowBank)), Ok(1));
        assert_eq!(modelled.add("control", of(FaultAction::LoseInterrupt)), Ok(2));
        let numbers: Vec<u64> = modelled.of_model().into_iter().map(|(number, _)| number).collect();
        assert_eq!((numbers, modelled.match_interrupt()), (vec![1], Some(InterruptFault::Lost)));
        assert!((2..RULES_MAX).all(|_| modelled.add("control", of(FaultAction::Error)).is_ok()));
        assert!(refused(&modelled, FaultAction::Error).contains("64 rules hold already"));
    }

    #[test]
    fn what_is_held_comes_back_when_its_time_is_over_the_earliest_first() {
        let mut held = DelayQueue::default();
        held.keep(Duration::from_millis(2), 'b');
        held.keep(Duration::ZERO, 'a');
        held.keep(Duration::from_secs(3600), 'c');
        assert_eq!(held.take_due(), Some('a'));
        thread::sleep(Duration::from_millis(3));
        assert_eq!((held.take_due(), held.take_due(), held.len()), (Some('b'), None, 1));
        assert!(held.no_longer_than(Duration::MAX) > Duration::from_secs(3000));
    }
}
