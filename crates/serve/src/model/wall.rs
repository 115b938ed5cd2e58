//! The core's engine on the wall clock.
//!
//! A [`WallClockEngine`] stamps each input with its clock, injects it into the engine, and runs the engine up to the clock. It
//! runs ahead only by the *lead* that its caller allows; the caller then has results early, and delivers them at their
//! instants. No result is delivered earlier than the model says. The time by which it is late is the *lag*, which is
//! printed with every served latency: a loop that cannot keep up with its model shows there, and nowhere else.
//!
//! A machine that is slower than the model would fall further behind with every attempt to catch up. So after a limited
//! number of events, the model's time is held back to where the engine is. This counts as lag if a request is in
//! flight, and costs nothing if the device was only polling for work.

use std::time::Duration;

use phaselink_core::config::Fault;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::ledger::Latency;
use phaselink_core::number::length;
use phaselink_core::protocol::real_hosts::HostCommand;
use phaselink_core::random::mix;
use phaselink_core::time::{Span, Time};

use crate::device::Device;

pub use crate::clock::{Clock, Wait, span};

/// Simulation engine that follows a clock, with the lag of its results.
#[derive(Debug)]
pub struct WallClockEngine {
    engine: Engine,
    clock: Clock,
    lag: Latency,
    last_lag: Span,
    in_flight: u64,
    /// Time by which the model's time is behind the clock for good. `held_in_flight` is the part of it that was added
    /// while the requests now in flight were.
    held: Span,
    held_in_flight: Span,
    /// Lead: the time by which the engine may be ahead of the clock while requests are in flight.
    lead: Span,
    fault_sync: Option<EngineFaultRules>,
}

/// Fault rules of a served device that the engine has. They follow the device's rules, which change while it is served.
#[derive(Debug)]
struct EngineFaultRules {
    device: Device,
    seed: u64,
    changes: u64,
    /// Fault rules that the engine has: the number of each, and the rule as the engine keeps it.
    applied: Vec<(u64, Fault)>,
}

impl EngineFaultRules {
    /// Updates the fault rules of the engine if the rules of the device have changed since the last call.
    #[inline]
    fn follow_device_faults(&mut self, engine: &mut Engine) {
        let changes = self.device.faults.changes();
        if changes != self.changes {
            self.changes = changes;
            self.update_rules(engine);
        }
    }

    /// Adds new fault rules to the engine, and removes rules that have been cleared.
    #[cold]
    fn update_rules(&mut self, engine: &mut Engine) {
        let rules = self.device.faults.rules_applied_by_model();
        self.applied.retain(|(number, fault)| {
            let is_kept = rules.iter().any(|(kept, _)| kept == number);
            if !is_kept {
                engine.remove_fault(fault);
            }
            is_kept
        });
        for (number, fault) in rules {
            if self.applied.iter().all(|(applied, _)| *applied != number) {
                let kept = engine.add_fault(&self.device.drive, &fault, mix(self.seed ^ number));
                self.applied.push((number, kept));
            }
        }
    }
}

/// Maximum number of events that the engine handles in one call while requests are in flight: some ten milliseconds of
/// work.
const EVENTS_MAX: u64 = 1 << 17;

/// Maximum number of events that an idle engine handles in one call: some ten microseconds of work, so that the next
/// request does not wait for a device that has only been polling for work.
const IDLE_EVENTS_MAX: u64 = 1 << 8;

/// Additional lead while a single request is in flight: the longest time that the engine usually computes for it, so
/// that this does not become lag. (Measured: 0.8 to 1.5 us for a read of 512 bytes of DC Express, 2.5 us for a page.)
pub const LONE_LEAD: Span = Span::from_us(3);

/// Longest sleep of a loop that runs an engine. The device's own events of that time are handled together afterwards.
pub const IDLE_MAX: Duration = Duration::from_millis(1);

impl WallClockEngine {
    /// Lets `engine`, which has not run yet, follow `clock` from time zero.
    pub fn new(engine: Engine, clock: Clock) -> WallClockEngine {
        WallClockEngine {
            engine,
            clock,
            lag: Latency::default(),
            last_lag: Span::ZERO,
            in_flight: 0,
            held: Span::ZERO,
            held_in_flight: Span::ZERO,
            lead: Span::ZERO,
            fault_sync: None,
        }
    }

    /// Lets the engine apply the fault rules of `device` that concern the model, also those that are added later.
    /// `seed` determines their random triggers.
    pub fn with_faults(self, device: &Device, seed: u64) -> WallClockEngine {
        let fault_sync = EngineFaultRules { device: device.clone(), seed, changes: 0, applied: Vec::new() };
        WallClockEngine { fault_sync: Some(fault_sync), ..self }
    }

    /// Updates the fault rules of the engine if the rules of the device have changed.
    #[inline]
    fn apply_fault_changes(&mut self) {
        if let Some(fault_sync) = &mut self.fault_sync {
            fault_sync.follow_device_faults(&mut self.engine);
        }
    }

    /// Adds one thread to the modelled host for each queue pair of `drive`, which the engine simulates. Returns the
    /// numbers of the threads.
    pub fn add_host_threads(&mut self, drive: &Drive) -> Vec<u16> {
        let limits = drive.limits();
        (0..limits.queue_pairs).map(|_| self.engine.add_client(limits.queue_capacity())).collect()
    }

    /// Injects an input into the engine at the present instant. Returns the model's time of its arrival.
    pub fn arrive(&mut self, input: Input) -> Time {
        self.inject_at_clock(self.clock.now(), input)
    }

    /// Injects an input that arrived when the clock showed `asked`, and returns the model's time of its arrival. An
    /// idle engine first handles earlier events, up to a limit. An engine that is already ahead takes the input at its
    /// own time.
    pub fn inject_at_clock(&mut self, asked: Time, input: Input) -> Time {
        let now = self.catch_up_idle_engine(asked);
        if matches!(input, Input::Request { .. } | Input::DelayedRequest { .. }) {
            self.add_in_flight(1);
        }
        self.engine.inject(now, input);
        now
    }

    /// Injects commands of a real host's queue, which one doorbell write announced when the clock showed `rung`.
    /// Returns the model's time of the doorbell write.
    pub fn ring<'a>(
        &mut self,
        rung: Time,
        queue: u16,
        commands: impl ExactSizeIterator<Item = HostCommand<'a>>,
    ) -> Time {
        let now = self.catch_up_idle_engine(rung);
        self.add_in_flight(length(commands.len()));
        commands.for_each(|command| self.engine.place(now, command));
        self.engine.inject(now, Input::Ring { queue });
        now
    }

    /// Restarts a modelled queue for a queue that a real host has created. Returns false while commands of the queue's
    /// previous use are in flight: see [`Engine::begin_queue`].
    pub fn begin_queue(&mut self, queue: u16, entries: u32, has_interrupts: bool) -> bool {
        self.engine.begin_queue(queue, entries, has_interrupts)
    }

    /// Returns the number of further commands that a modelled queue of real hosts has room for.
    pub fn room(&mut self, queue: u16) -> usize {
        self.engine.room(queue)
    }

    /// Lets an idle engine catch up with the instant `asked` of the clock. Returns the model's time of an arrival at
    /// that instant, which is no earlier than the engine's own.
    fn catch_up_idle_engine(&mut self, asked: Time) -> Time {
        self.apply_fault_changes();
        self.handle_idle_events(self.model_time_at(asked));
        self.model_time_at(asked).max(self.engine.now())
    }

    /// Adds `count` to the number of requests in flight.
    fn add_in_flight(&mut self, count: u64) {
        if self.in_flight == 0 {
            self.held_in_flight = Span::ZERO;
        }
        self.in_flight += count;
    }

    /// Handles every event up to the present instant, or as many as one call may.
    pub fn advance(&mut self) {
        self.apply_fault_changes();
        self.advance_to(self.now());
    }

    /// Handles every event up to the model's time `now`, if no request is in flight. `now` may be earlier than the
    /// clock, as requests that arrived since then may still be injected.
    pub fn handle_idle_events(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.apply_fault_changes();
            self.advance_to(now);
        }
    }

    fn advance_to(&mut self, now: Time) {
        let events = if self.in_flight == 0 { IDLE_EVENTS_MAX } else { EVENTS_MAX };
        if !self.engine.run_events_until(now, events) {
            self.hold_model_time_back(now);
        }
    }

    /// Holds the model's time, which was to reach `now`, back to where the engine is: there are more events than one
    /// call may handle.
    fn hold_model_time_back(&mut self, now: Time) {
        let behind = now.since(self.engine.now());
        self.held += behind;
        self.held_in_flight += behind;
    }

    /// Returns the model's time: the clock's time, less the time by which the model has been held back.
    pub fn now(&self) -> Time {
        self.model_time_at(self.clock.now())
    }

    /// Returns the model's time when the clock shows `now`.
    #[inline]
    pub fn model_time_at(&self, now: Time) -> Time {
        Time::ZERO + now.since(Time::ZERO + self.held)
    }

    /// Returns the next request that the engine has completed, and records its lag. The caller must deliver the result
    /// at once.
    pub fn take_completed(&mut self) -> Option<Completed> {
        let done = self.engine.take_completed()?;
        self.in_flight -= 1;
        // If the clock was held back while the request was in flight, count the whole hold as lag, which is an upper
        // bound.
        self.last_lag = self.now().since(done.at) + self.held_in_flight;
        self.lag.record(self.last_lag);
        Some(done)
    }

    /// Sets the lead, the time by which the engine may run ahead of the clock. While requests are in flight, the lead
    /// can only grow.
    pub fn set_lead(&mut self, lead: Span) {
        self.lead = if self.in_flight == 0 { lead } else { self.lead.max(lead) };
    }

    /// Runs the engine while requests are in flight, up to `now` (a recent [`WallClockEngine::now`]) plus the lead, and for a lone
    /// request [`LONE_LEAD`] further. Stops at the next completed request and returns it; the caller must then call
    /// [`WallClockEngine::hand_over`] or [`WallClockEngine::pass_on`].
    ///
    /// Once no request is in flight, the engine waits for the clock, so that the next request does not find it ahead.
    pub fn run_with_lead(&mut self, now: Time) -> Option<Completed> {
        if self.in_flight == 0 {
            return None;
        }
        let lead = if self.in_flight == 1 { self.lead + LONE_LEAD } else { self.lead };
        let (is_through, done) = self.engine.run_events_until_completed(now + lead, EVENTS_MAX);
        if !is_through && done.is_none() {
            self.hold_model_time_back(now);
        }
        done
    }

    /// Records the lag of a result: the time from `due`, when the model completed the request, to `now`, when the
    /// result is delivered.
    pub fn hand_over(&mut self, due: Time, now: Time) {
        self.in_flight -= 1;
        self.last_lag = now.since(due);
        self.lag.record(self.last_lag);
    }

    /// Counts a request as completed without its lag, which the thread that delivers the result records.
    pub fn pass_on(&mut self) {
        self.in_flight -= 1;
    }

    /// Returns the time until the engine's next event, less the lead and at most [`IDLE_MAX`]. While no request is in
    /// flight, returns [`IDLE_MAX`]: the device's own polling needs no earlier wake-up.
    pub fn time_until_next_event(&self) -> Duration {
        if self.in_flight == 0 {
            return IDLE_MAX;
        }
        let next = self.engine.next_at().unwrap_or(Time::NEVER);
        let ahead = next.as_ps().saturating_sub((self.now() + self.lead).as_ps());
        Duration::from_nanos(ahead / 1000).min(IDLE_MAX)
    }

    /// Returns true if no request is in flight in the engine.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Returns the longest sleep of a loop that waits as `wait` says. An adaptive loop does not sleep while a request
    /// is in flight, and without limit otherwise.
    pub fn rest_for(&self, wait: Wait) -> Duration {
        match (wait, self.in_flight) {
            (Wait::Adaptive, 0) => Duration::MAX,
            (Wait::Adaptive, _) => Duration::ZERO,
            _ => self.time_until_next_event(),
        }
    }

    /// Returns the distribution of the lag: the times by which results were delivered later than the model completed
    /// them.
    pub fn lag(&self) -> &Latency {
        &self.lag
    }

    /// Returns the lag of the result that was delivered last.
    pub fn last_lag(&self) -> Span {
        self.last_lag
    }

    /// Returns the clock that the engine follows.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the clock that the engine follows, so that tests and replays can set it.
    pub fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Returns the simulation engine, for its measurements and recordings.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
