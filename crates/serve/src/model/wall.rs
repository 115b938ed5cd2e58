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

use crate::device::Device;

pub use crate::clock::{Clock, Wait, span};

/// Engine that follows a clock.
#[derive(Debug)]
pub struct Wall {
    engine: Engine,
    clock: Clock,
    lag: Latency,
    last_lag: Span,
    in_flight: u64,
    /// Time by which the model's time is behind the clock for good, and the part of it since a request was last not in flight.
    held: Span,
    held_in_flight: Span,
    /// Time by which the engine may be ahead of the clock while requests are in flight.
    lead: Span,
    follower: Option<Follower>,
}

/// Fault rules that the engine has been told of.
#[derive(Debug)]
struct Follower {
    device: Device,
    seed: u64,
    changes: u64,
    /// Rules by their numbers, as the engine keeps them.
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

    /// Tells the engine of new rules, and of rules that are gone.
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

/// Most events that the engine handles in one call while requests are in flight: some ten milliseconds of work.
const EVENTS_MAX: u64 = 1 << 17;

/// Most events that an idle engine handles in one call: some ten microseconds of work, so that the next request does not wait
/// for a device that has only been looking for work.
const IDLE_EVENTS_MAX: u64 = 1 << 8;

/// Additional lead for a lone request: what the engine takes for it in a bad hour (measured: 0.8 to 1.5 us for a read of 512
/// bytes of DC Express, 2.5 us for a page), so that this does not become lag.
pub const LONE_LEAD: Span = Span::from_us(3);

/// Longest sleep of a loop whose engine is idle: the device's own events are caught up with then, in one go.
pub const IDLE_MAX: Duration = Duration::from_millis(1);

impl Wall {
    /// Makes an engine at time zero of `clock`.
    pub fn new(engine: Engine, clock: Clock) -> Wall {
        Wall {
            engine,
            clock,
            lag: Latency::default(),
            last_lag: Span::ZERO,
            in_flight: 0,
            held: Span::ZERO,
            held_in_flight: Span::ZERO,
            lead: Span::ZERO,
            follower: None,
        }
    }

    /// Lets the engine follow the fault rules of `device` that are a model's.
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

    /// Adds a thread to the modelled host of `drive`, whose engine this is, for each of its queue pairs.
    pub fn add_threads(&mut self, drive: &Drive) -> Vec<u16> {
        let limits = drive.limits();
        (0..limits.queue_pairs).map(|_| self.engine.add_client(limits.queue_slots())).collect()
    }

    /// Injects an input that arrives now, and returns the model's time of that.
    pub fn arrive(&mut self, input: Input) -> Time {
        self.arrive_at(self.clock.now(), input)
    }

    /// Injects an input that arrived when the clock showed `asked`, and returns the model's time of that. An idle device
    /// catches up with that first, or passes over what it cannot do in one go; an engine that is ahead takes the input at its
    /// own time.
    pub fn arrive_at(&mut self, asked: Time, input: Input) -> Time {
        let now = self.catch_up(asked);
        if matches!(input, Input::Request { .. } | Input::DelayedRequest { .. }) {
            self.expect(1);
        }
        self.engine.inject(now, input);
        now
    }

    /// Injects commands of a real host's queue, all announced by one doorbell when the clock showed `rung`; returns the model's
    /// time of that.
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

    /// Notes that a real host has created a queue: see [`Engine::begin_queue`].
    pub fn begin_queue(&mut self, queue: u16, entries: u32, has_interrupts: bool) -> bool {
        self.engine.begin_queue(queue, entries, has_interrupts)
    }

    /// Returns how many more commands a queue of real hosts has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.engine.room(queue)
    }

    /// Returns the model's time for what arrived when the clock showed `asked`.
    fn catch_up(&mut self, asked: Time) -> Time {
        self.follow();
        self.idle_until(self.model_time(asked));
        self.model_time(asked).max(self.engine.now())
    }

    /// Counts so many more requests in flight.
    fn expect(&mut self, count: u64) {
        if self.in_flight == 0 {
            self.held_in_flight = Span::ZERO;
        }
        self.in_flight += count;
    }

    /// Handles every event that is due by now, or as many as can be handled in one go.
    pub fn advance(&mut self) {
        self.follow();
        self.advance_to(self.now());
    }

    /// Handles every event that is due by `now` while no request is in flight. `now` may be earlier than the clock: as early as
    /// a request may still turn out to have arrived.
    pub fn idle_until(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.follow();
            self.advance_to(now);
        }
    }

    fn advance_to(&mut self, now: Time) {
        let events = if self.in_flight == 0 { IDLE_EVENTS_MAX } else { EVENTS_MAX };
        if !self.engine.run_some_until(now, events) {
            self.hold(now);
        }
    }

    /// Holds the model's time back to where the engine is, since there are more events than can be handled in one go.
    fn hold(&mut self, now: Time) {
        let behind = now.since(self.engine.now());
        self.held += behind;
        self.held_in_flight += behind;
    }

    /// Returns the model's time: the clock's, less what it has been held back.
    pub fn now(&self) -> Time {
        self.model_time(self.clock.now())
    }

    /// Returns the model's time when the clock shows `now`.
    #[inline]
    pub fn model_time(&self, now: Time) -> Time {
        Time::ZERO + now.since(Time::ZERO + self.held)
    }

    /// Returns the next completed request. Its lag ends here: the caller hands the result over at once.
    pub fn take_completed(&mut self) -> Option<Completed> {
        let done = self.engine.take_completed()?;
        self.in_flight -= 1;
        // What came while the clock was held back is charged with all of that: rather too much than too little.
        self.last_lag = self.now().since(done.at) + self.held_in_flight;
        self.lag.record(self.last_lag);
        Some(done)
    }

    /// Sets the lead by which the results of the next requests are to be known.
    pub fn lead_by(&mut self, lead: Span) {
        self.lead = if self.in_flight == 0 { lead } else { self.lead.max(lead) };
    }

    /// Handles every event that is due by `now`, which [`Wall::now`] has been lately, or by the lead from then while requests
    /// are in flight (and by [`LONE_LEAD`] more for a lone one), up to the next completed request. The caller owes a call of
    /// [`Wall::hand_over`] or [`Wall::pass_on`] for it.
    ///
    /// Once all requests under way are done, the engine waits for the clock: whoever asks next should not find it ahead.
    pub fn run_ahead(&mut self, now: Time) -> Option<Completed> {
        if self.in_flight == 0 {
            return None;
        }
        let lead = if self.in_flight == 1 { self.lead + LONE_LEAD } else { self.lead };
        let (is_through, done) = self.engine.run_some_until_completed(now + lead, EVENTS_MAX);
        if !is_through && done.is_none() {
            self.hold(now);
        }
        done
    }

    /// Notes that a result that was due when the clock showed `due` is handed over at `now`: its lag ends.
    pub fn hand_over(&mut self, due: Time, now: Time) {
        self.in_flight -= 1;
        self.last_lag = now.since(due);
        self.lag.record(self.last_lag);
    }

    /// Notes that a result goes to a thread that hands it over when it is due and knows its lag.
    pub fn pass_on(&mut self) {
        self.in_flight -= 1;
    }

    /// Returns how long nothing happens unless something arrives. While no request is in flight, the device's own looking for
    /// work is no reason to wake up early.
    pub fn idle_for(&self) -> Duration {
        if self.in_flight == 0 {
            return IDLE_MAX;
        }
        let next = self.engine.next_at().unwrap_or(Time::NEVER);
        let ahead = next.as_ps().saturating_sub((self.now() + self.lead).as_ps());
        Duration::from_nanos(ahead / 1000).min(IDLE_MAX)
    }

    /// Returns true if no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Returns how long a loop that waits as `wait` says may sleep: an adaptive one not while there is work.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match (wait, self.in_flight) {
            (Wait::Adaptive, 0) => Duration::MAX,
            (Wait::Adaptive, _) => Duration::ZERO,
            _ => self.idle_for(),
        }
    }

    /// Returns by how much results were handed over later than modelled.
    pub fn lag(&self) -> &Latency {
        &self.lag
    }

    /// Returns the lag of the result that was handed over last.
    pub fn last_lag(&self) -> Span {
        self.last_lag
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the clock, to set it where that is possible.
    pub fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Returns the engine, for what it has measured and recorded.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
