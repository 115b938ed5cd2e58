//! The core's engine on the wall clock.
//!
//! A [`Wall`] stamps what arrives with its clock, injects it, and runs the engine up to the clock; it runs ahead only by
//! the *lead* that its caller allows, who then has the results early and hands them over when they are due.
//! What completes is handed back no earlier than the model says. How much later is the *lag*, which a served latency
//! is never printed without: a loop that cannot keep up with its model shows there, and nowhere else.
//!
//! A machine that is slower than the model would fall behind for ever, and further with every attempt to catch up. So
//! after a bounded piece of work the model's clock is held back to where the model is: as lag if a request is under way,
//! and at no cost to anybody if the device was only looking for work.

use std::time::Duration;

use phaselink_core::config::Fault;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::ledger::Latency;
use phaselink_core::protocol::real_hosts::HostCommand;
use phaselink_core::random::mix;
use phaselink_core::time::{Span, Time};
use phaselink_ring::shared::clock;

use crate::device::Device;

/// What time it is, counted from the start of the run.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's steady clock, since it showed so many nanoseconds.
    Steady { start_ns: u64 },
    /// A clock that its owner sets, for tests and replays.
    Set(Time),
}

impl Clock {
    /// The steady clock, at zero now.
    pub fn start() -> Clock {
        Clock::Steady { start_ns: clock::now_ns() }
    }

    /// The present instant.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Steady { start_ns } => Time::ZERO + Span::from_ns(clock::now_ns().saturating_sub(*start_ns)),
            Clock::Set(now) => *now,
        }
    }

    /// The instant at which the system's clock showed so many nanoseconds; none on another clock, or before the start.
    #[inline]
    pub fn at_ns(&self, ns: u64) -> Option<Time> {
        match self {
            Clock::Steady { start_ns } => Some(Time::ZERO + Span::from_ns(ns.checked_sub(*start_ns)?)),
            Clock::Set(_) => None,
        }
    }
}

/// A duration as a span; what is longer than 213 days counts as that.
pub fn span(duration: Duration) -> Span {
    Span::from_ps(u64::try_from(duration.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX))
}

/// How a loop passes the time in which nothing happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Looks again and again while there is work, and for a moment longer; then sleeps until there is some.
    #[default]
    Adaptive,
    /// Looks again and again: the least lag, for a core.
    Spin,
    /// Sleeps until the model's next event or the next arrival: little processor time, tens of microseconds of lag.
    Block,
}

/// An engine that follows a clock.
#[derive(Debug)]
pub struct Wall {
    engine: Engine,
    clock: Clock,
    lag: Latency,
    last_lag: Span,
    under_way: u64,
    /// How far the model's time is behind the clock for good, and how much of it since a request was last not under way.
    held: Span,
    held_under_way: Span,
    /// How far the engine may be ahead of the clock while requests are under way.
    lead: Span,
    follower: Option<Follower>,
}

/// The rules of faults that the engine has been told of.
#[derive(Debug)]
struct Follower {
    device: Device,
    seed: u64,
    changes: u64,
    /// By their numbers, as the engine keeps them.
    told: Vec<(u64, Fault)>,
}

impl Follower {
    #[inline]
    fn follow(&mut self, engine: &mut Engine) {
        let changes = self.device.faults.changes();
        if changes != self.changes {
            self.changes = changes;
            self.tell(engine);
        }
    }

    /// Tell the engine of rules that are new, and of those that are gone.
    #[cold]
    fn tell(&mut self, engine: &mut Engine) {
        let rules = self.device.faults.of_model();
        self.told.retain(|(number, fault)| {
            let is_kept = rules.iter().any(|(kept, _)| kept == number);
            if !is_kept {
                engine.remove_fault(fault);
            }
            is_kept
        });
        for (number, fault) in rules {
            if self.told.iter().all(|(told, _)| *told != number) {
                let kept = engine.add_fault(&self.device.drive, &fault, mix(self.seed ^ number));
                self.told.push((number, kept));
            }
        }
    }
}

/// Events after which a loop looks up from catching up: some ten milliseconds of work.
const EVENTS_MAX: u64 = 1 << 17;

/// The same while no request is under way: some ten microseconds, as whoever asks next should not wait for a device
/// that has only been looking for work.
const IDLE_EVENTS_MAX: u64 = 1 << 8;

/// A request that is alone under way is known so much earlier still: what the engine takes for it in a bad hour
/// (measured: 0.8 to 1.5 us for a read of 512 bytes of DC Express, 2.5 us for a page), so that it does not become lag.
pub const LONE_LEAD: Span = Span::from_us(3);

/// Longest sleep of a loop whose device has nothing to do but look for work: what it does by itself is caught up with
/// then, in one go.
pub const IDLE_MAX: Duration = Duration::from_millis(1);

impl Wall {
    /// The engine at time zero of `clock`.
    pub fn new(engine: Engine, clock: Clock) -> Wall {
        Wall {
            engine,
            clock,
            lag: Latency::default(),
            last_lag: Span::ZERO,
            under_way: 0,
            held: Span::ZERO,
            held_under_way: Span::ZERO,
            lead: Span::ZERO,
            follower: None,
        }
    }

    /// The same whose engine follows the rules of faults that are a model's.
    pub fn with_faults(self, device: &Device, seed: u64) -> Wall {
        let follower = Follower { device: device.clone(), seed, changes: 0, told: Vec::new() };
        Wall { follower: Some(follower), ..self }
    }

    #[inline]
    fn follow(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.follow(&mut self.engine);
        }
    }

    /// Let the modelled host of `drive`, which the engine is of, have one thread for each of its queue pairs.
    pub fn add_threads(&mut self, drive: &Drive) -> Vec<u16> {
        let limits = drive.limits();
        (0..limits.queue_pairs).map(|_| self.engine.add_client(limits.queue_slots())).collect()
    }

    /// Something arrives from outside, now; the model's time of that.
    pub fn arrive(&mut self, input: Input) -> Time {
        self.arrive_at(self.clock.now(), input)
    }

    /// The same for what has arrived when the clock showed `asked`. An idle device catches up with that first, or passes
    /// over what it cannot do in one go; where the engine is ahead, the model's time is the engine's.
    pub fn arrive_at(&mut self, asked: Time, input: Input) -> Time {
        let now = self.catch_up(asked);
        if matches!(input, Input::Request { .. }) {
            self.expect(1);
        }
        self.engine.inject(now, input);
        now
    }

    /// Commands of a real host are found in one of its queues, for all of which it has rung once, when the clock showed
    /// `rung`; the model's time of that.
    pub fn ring<'a>(
        &mut self,
        rung: Time,
        queue: u16,
        commands: impl ExactSizeIterator<Item = HostCommand<'a>>,
    ) -> Time {
        let now = self.catch_up(rung);
        self.expect(commands.len() as u64);
        commands.for_each(|command| self.engine.place(now, &command));
        self.engine.inject(now, Input::Ring { queue });
        now
    }

    /// A real host has created a queue: see [`Engine::begin_queue`].
    pub fn begin_queue(&mut self, queue: u16, entries: u32) -> bool {
        self.engine.begin_queue(queue, entries)
    }

    /// How many more commands a queue of real hosts has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.engine.room(queue)
    }

    /// The model's time for what has arrived when the clock showed `asked`.
    fn catch_up(&mut self, asked: Time) -> Time {
        self.follow();
        self.idle_until(self.model_time(asked));
        self.model_time(asked).max(self.engine.now())
    }

    /// So many more are under way.
    fn expect(&mut self, count: u64) {
        if self.under_way == 0 {
            self.held_under_way = Span::ZERO;
        }
        self.under_way += count;
    }

    /// Let everything happen that is due by now, or as much of it as can be done in one go.
    pub fn advance(&mut self) {
        self.follow();
        self.advance_to(self.now());
    }

    /// While no request is under way, let everything happen that is due by `now`, which may be earlier than it is: as
    /// early as something may still turn out to have arrived.
    pub fn idle_until(&mut self, now: Time) {
        if self.under_way == 0 {
            self.follow();
            self.advance_to(now);
        }
    }

    fn advance_to(&mut self, now: Time) {
        let events = if self.under_way == 0 { IDLE_EVENTS_MAX } else { EVENTS_MAX };
        if !self.engine.run_some_until(now, events) {
            self.hold(now);
        }
    }

    /// There is more to do than can be done at once: the model's time is held back to where the engine is.
    fn hold(&mut self, now: Time) {
        let behind = now.since(self.engine.now());
        self.held += behind;
        self.held_under_way += behind;
    }

    /// The model's time: the clock's, less what it has been held back.
    pub fn now(&self) -> Time {
        self.model_time(self.clock.now())
    }

    /// The model's time when the clock shows `now`.
    #[inline]
    pub fn model_time(&self, now: Time) -> Time {
        Time::ZERO + now.since(Time::ZERO + self.held)
    }

    /// The next injected request that is done. Its lag ends here: the caller hands the result over at once.
    pub fn take_completed(&mut self) -> Option<Completed> {
        let done = self.engine.take_completed()?;
        self.under_way -= 1;
        // What came while the clock was held back is charged with all of that: rather too much than too little.
        self.last_lag = self.now().since(done.at) + self.held_under_way;
        self.lag.record(self.last_lag);
        Some(done)
    }

    /// The requests that arrive next are to be known as completed this long before they are.
    pub fn lead_by(&mut self, lead: Span) {
        self.lead = if self.under_way == 0 { lead } else { self.lead.max(lead) };
    }

    /// Let everything happen that is due by `now`, which [`Wall::now`] has been lately, or by the lead from then while
    /// requests are under way (and by [`LONE_LEAD`] more while it is one), up to the next injected request that is done.
    /// The caller owes a call of [`Wall::hand_over`] or [`Wall::pass_on`] for it.
    ///
    /// Once all requests under way are done, the engine waits for the clock: whoever asks next should not find it ahead.
    pub fn run_ahead(&mut self, now: Time) -> Option<Completed> {
        if self.under_way == 0 {
            return None;
        }
        let lead = if self.under_way == 1 { self.lead + LONE_LEAD } else { self.lead };
        let (is_through, done) = self.engine.run_some_until_completed(now + lead, EVENTS_MAX);
        if !is_through && done.is_none() {
            self.hold(now);
        }
        done
    }

    /// A result that was due when the clock showed `due` is handed over at `now`: its lag ends.
    pub fn hand_over(&mut self, due: Time, now: Time) {
        self.under_way -= 1;
        self.last_lag = now.since(due);
        self.lag.record(self.last_lag);
    }

    /// A result goes to another thread, which hands it over when it is due and knows its lag.
    pub fn pass_on(&mut self) {
        self.under_way -= 1;
    }

    /// How long nothing happens unless something arrives. While no request is under way, the device's own looking for
    /// work is no reason to wake up early.
    pub fn idle_for(&self) -> Duration {
        if self.under_way == 0 {
            return IDLE_MAX;
        }
        let next = self.engine.next_at().unwrap_or(Time::NEVER);
        let ahead = next.as_ps().saturating_sub((self.now() + self.lead).as_ps());
        Duration::from_nanos(ahead / 1000).min(IDLE_MAX)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// How long a loop that waits like this may sleep: not while it has work, if it sleeps only without.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match (wait, self.under_way) {
            (Wait::Adaptive, 0) => Duration::MAX,
            (Wait::Adaptive, _) => Duration::ZERO,
            _ => self.idle_for(),
        }
    }

    /// How much later than modelled results were handed over.
    pub fn lag(&self) -> &Latency {
        &self.lag
    }

    /// That of the result handed over last.
    pub fn last_lag(&self) -> Span {
        self.last_lag
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The same, to set it where that is possible.
    pub fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// The engine, for what it has measured and recorded.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
