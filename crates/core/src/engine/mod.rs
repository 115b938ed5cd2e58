//! The engine: one clock, one queue of events, and the one match that says who hears of what.
//!
//! ```text
//!     workload ── host ── protocol driver ══ link ══ protocol controller ── media
//! ```
//!
//! It can be driven in two ways. A simulation runs until its threads are done. A server stamps what really arrives,
//! injects it, runs up to its own clock, and asks when to look again:
//!
//! ```
//! # use phaselink_core::{drive::Drive, engine::{Engine, Input}, request::{Io, Op}, time::{Span, Time}};
//! let drive = Drive::shipped("dc-express").unwrap();
//! let mut engine = Engine::new(&drive, 1);
//! let thread = engine.add_client(1);
//! let io = Io { op: Op::Read, offset: 4096, bytes: 512 };
//! engine.inject(Time::ZERO + Span::from_us(5), Input::Request { thread, io, token: 7 });
//! let done = loop {
//!     let next = engine.next_at().unwrap();
//!     engine.run_until(next);
//!     if let Some(done) = engine.take_completed() {
//!         break done;
//!     }
//! };
//! assert_eq!(done.token, 7);
//! assert!(done.at > Time::ZERO + Span::from_us(6));
//! ```

pub(crate) mod faults;
mod outside;
pub mod power;
mod recorder;
pub mod requests;
mod several;
pub mod simulation;
mod switched;
pub mod timeline;

use std::collections::VecDeque;

use crate::config::Wait;
use crate::data::Data;
use crate::drive::Drive;
use crate::host::{Done, Host};
use crate::ledger::record::Burst;
use crate::ledger::trace::Trace;
use crate::link::root_complex::RootComplex;
use crate::link::{Arrival, Link};
use crate::media::Media;
use crate::media::wear::Wear;
use crate::protocol::dispatch::{AnyController, AnyDriver, connect};
use crate::protocol::halves::{Controller, Driver, Looking};
use crate::protocol::ports::{Ports, Settled};
use crate::protocol::splitting;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::{Direction, Kind, Packet, PacketId};
use crate::workload::generator::Generator;
use crate::workload::{Flushes, Job, Limits, side_by_side};
use faults::Faults;
pub use outside::{Completed, Input};
use recorder::Recorder;
use several::{Others, Relay};

/// Units of a drive of which all are looked at.
const UNITS_CHECKED_MAX: u64 = 1 << 16;

/// What events are handled for, beside the time that they are handled up to.
#[derive(Clone, Copy)]
enum Goal {
    Time,
    /// Every thread with a job is done.
    Threads,
    /// An injected request is done.
    Completion,
}

/// A host, a link and a device, and all that is going to happen to them.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Shared,
    host: Host,
    driver: AnyDriver,
    link: Link,
    root_complex: RootComplex,
    controller: AnyController,
    media: Media,
    recorder: Recorder,
    /// Injected faults, if there are any.
    faults: Option<Box<Faults>>,
    /// The drives beside this one and the switches of all, if there are any; and what this one has for the host, if it is
    /// such a one.
    others: Option<Box<Others>>,
    relay: Option<Box<Relay>>,
    /// Whether every posted write is in memory a fixed time after its arrival.
    settles_alike: bool,
    /// Whether the driver looks for completions by itself, without an interrupt.
    polling: bool,
    stack_names: Vec<String>,
    /// Injected requests that are done and have not been taken.
    client_completed: VecDeque<Completed>,
    /// Threads that the commands of real hosts are counted for, by queue.
    queue_threads: Vec<u16>,
    plan: Plan,
}

/// Jobs that are still to begin.
#[derive(Clone, Debug, Default)]
struct Plan {
    /// Those that run at the same time, in the order in which they do.
    groups: VecDeque<Vec<Job>>,
    /// Groups that have begun.
    begun: u32,
    capacity_bytes: u64,
    /// Whether the drive needs flushes.
    is_volatile: bool,
    seed: u64,
}

impl Engine {
    /// The drive in its host, idle, at time zero.
    pub fn new(drive: &Drive, seed: u64) -> Engine {
        let mut shared = Shared::default();
        let (driver, controller) = connect(drive, seed, &mut shared);
        let root_complex =
            RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, seed).with_peer(&drive.peer);
        // Behind a switch, packets that have arrived at the other end of the link are not in memory yet.
        let settle = root_complex.settle_time().filter(|_| !drive.switch.is_there());
        let mut faults = Faults::of(drive, seed);
        if let Some(faults) = &mut faults {
            faults.begin(&mut shared);
        }
        Engine {
            host: Host::new(drive, seed),
            driver,
            link: Link::new(&drive.link, drive.write_accept(), settle.unwrap_or_default(), seed)
                .with_dma(&drive.dma, &drive.link)
                .with_switch(&drive.switch)
                .with_faults(&drive.faults, seed),
            root_complex,
            settles_alike: settle.is_some(),
            controller,
            media: drive.memory(seed).with_faults(&drive.faults, seed),
            faults,
            others: Others::of(drive, seed),
            relay: None,
            recorder: Recorder::default(),
            polling: drive.host.wait != Wait::Sleep && !drive.stack.has_engines(),
            stack_names: drive.stage_names(),
            client_completed: VecDeque::new(),
            queue_threads: Vec::new(),
            plan: Plan::default(),
            shared,
        }
    }

    /// The same with real bytes: the device holds data, writes change it, and every read is checked against what it
    /// may return. The counters `verified_reads` and `data_errors` join the outcome's.
    pub fn with_data(drive: &Drive, seed: u64) -> Engine {
        let mut engine = Engine::new(drive, seed);
        engine.keep_data(drive, seed);
        engine.others.iter_mut().flat_map(|others| &mut others.drives).for_each(|other| other.keep_data(drive, seed));
        engine
    }

    fn keep_data(&mut self, drive: &Drive, seed: u64) {
        self.shared.memory.keep_buffers();
        self.shared.data = Some(Box::new(Data::new(seed, drive.protocol().packet_bytes(drive))));
        self.controller.keep_data(drive, seed, &mut self.shared);
        self.follow_power(drive, seed);
    }

    /// The first reads that returned what they may not, described.
    pub fn data_problems(&self) -> &[String] {
        let mut problems = self.all_drives().filter_map(|drive| drive.shared.data.as_ref()).map(|data| data.problems());
        problems.find(|problems| !problems.is_empty()).unwrap_or_default()
    }

    /// Number of the first request whose read was one of them.
    pub fn first_wrong_read(&self) -> Option<u64> {
        self.shared.data.as_ref().and_then(|data| data.first_wrong())
    }

    /// What is wrong with the account that wear levelling keeps of its lines, or a small flash drive of its units, if anything
    /// is.
    pub fn memory_problem(&self) -> Option<String> {
        self.all_drives().find_map(Engine::own_memory_problem)
    }

    fn own_memory_problem(&self) -> Option<String> {
        if let Some(found) = self.media.wear().and_then(Wear::inconsistency) {
            return Some(found);
        }
        let translation = self.media.flash()?.translation();
        (translation.shape().units <= UNITS_CHECKED_MAX).then(|| translation.inconsistency())?
    }

    /// Add jobs, of which those start at once that wait for no others.
    pub fn add_jobs(&mut self, jobs: &[Job], limits: &Limits, seed: u64) {
        let groups = side_by_side(jobs).map(<[Job]>::to_vec).collect();
        let Limits { capacity_bytes, is_volatile, .. } = *limits;
        self.plan = Plan { groups, begun: 0, capacity_bytes, is_volatile, seed };
        self.begin_group();
    }

    /// Begin the jobs that waited for those before them; false if there are none.
    #[cold]
    fn begin_group(&mut self) -> bool {
        let Some(jobs) = self.plan.groups.pop_front() else { return false };
        jobs.iter().for_each(|job| self.add_job(job));
        self.plan.begun += 1;
        true
    }

    /// Add the threads of a job, which start at once, or after its delay.
    fn add_job(&mut self, job: &Job) {
        let Plan { begun, capacity_bytes, is_volatile, seed, .. } = self.plan;
        let flushes = if is_volatile { job.flushes } else { Flushes::default() };
        let start = self.now().max(Time::ZERO + job.start_delay);
        let place = self.recorder.add_job(job, begun, start);
        for number in 0..job.threads {
            let generator = Generator::new(job, number, capacity_bytes, seed).starting_at(start);
            let generator = generator.over(self.drives(), number).flushing(flushes);
            let thread = self.host.add_thread(job.iodepth, Some(generator), Some(job));
            self.let_look(thread);
            self.recorder.add_thread(thread, place);
            self.shared.scheduler.at(start, Event::Thread(thread));
        }
    }

    /// The queue of a thread that looks for its completions by its engine raises no interrupts.
    fn let_look(&mut self, thread: u16) {
        if self.host.looks(thread) {
            let queue = self.driver.look_for(thread);
            self.controller.spare_interrupts(queue);
            self.let_look_at_others(thread);
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Time> {
        match self.others {
            None => self.shared.scheduler.next_at(),
            Some(_) => self.earliest(),
        }
    }

    /// Handle every event up to and at `until`.
    pub fn run_until(&mut self, until: Time) {
        self.handle(u64::MAX, until, Goal::Time);
    }

    /// The same, but no more than `events` of them: whether all that was due has been handled.
    pub fn run_some_until(&mut self, until: Time, events: u64) -> bool {
        self.handle(events, until, Goal::Time);
        self.next_at().is_none_or(|next| next > until)
    }

    /// The same, but no further than the next injected request that is done, which is returned as well.
    pub fn run_some_until_completed(&mut self, until: Time, events: u64) -> (bool, Option<Completed>) {
        self.handle(events, until, Goal::Completion);
        (self.next_at().is_none_or(|next| next > until), self.take_completed())
    }

    /// Handle up to `events` events; false once every thread is done.
    pub fn run(&mut self, events: u64) -> bool {
        self.handle(events, Time::NEVER, Goal::Threads)
    }

    /// Handle up to `events` events that come no later than `until`; false if there are no more, or if the goal has been
    /// reached.
    fn handle(&mut self, events: u64, until: Time, goal: Goal) -> bool {
        if self.others.is_some() {
            return self.handle_several(events, until, goal);
        }
        let last = self.shared.scheduler.events.saturating_add(events);
        while self.shared.scheduler.events < last {
            if !self.handle_up_to(last.min(self.next_cut()), until, goal) {
                return false;
            }
            self.cut_if_due();
        }
        !self.is_over()
    }

    /// Handle events up to the one of number `last`; false if there are no more, or if the goal has been reached. The only
    /// loop over events, so that it and the routing are one piece of code.
    fn handle_up_to(&mut self, last: u64, until: Time, goal: Goal) -> bool {
        while self.shared.scheduler.events < last {
            if self.is_reached(goal) {
                return false;
            }
            self.shared.scheduler.go_on(last);
            while self.shared.scheduler.goes_on() {
                if !self.shared.scheduler.is_due(until) {
                    return false;
                }
                let (now, event) = self.shared.scheduler.take();
                self.route(now, event);
            }
        }
        true
    }

    /// Whether it is; what may reach a goal makes the scheduler [look up](Scheduler::look_up).
    fn is_reached(&mut self, goal: Goal) -> bool {
        match goal {
            Goal::Time => false,
            Goal::Threads => self.host.finished() && !self.begin_group(),
            Goal::Completion => !self.client_completed.is_empty(),
        }
    }

    /// Whether all threads are done, and none are still to begin.
    fn is_over(&self) -> bool {
        self.host.finished() && self.plan.groups.is_empty()
    }

    /// Record up to `limit` steps.
    pub fn record(&mut self, limit: usize) {
        self.shared.trace = Trace::new(limit);
    }

    /// What has been recorded.
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// Keep the first `limit` requests that are counted.
    pub fn keep_requests(&mut self, limit: usize) {
        self.recorder.keep_requests(limit);
    }

    /// Those that were kept, if any were to be; no more are kept.
    pub fn take_requests(&mut self) -> Option<requests::KeptRequests> {
        self.recorder.take_requests()
    }

    /// Time of the last event.
    pub fn now(&self) -> Time {
        self.shared.scheduler.now()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.all_drives().map(|drive| drive.shared.scheduler.events).sum()
    }

    /// Requests completed so far.
    pub fn completed(&self) -> u64 {
        self.recorder.completed()
    }

    /// Requests counted so far, without those in a ramp.
    pub fn counted(&self) -> u64 {
        self.recorder.counted()
    }

    /// Latencies of all requests counted so far.
    pub fn latency(&self) -> crate::ledger::Latency {
        self.recorder.latency()
    }

    /// The architecture: every event, and who hears of it.
    #[inline(always)]
    fn route(&mut self, now: Time, event: Event) {
        let Engine { shared, host, driver, link, root_complex, controller, media, .. } = self;
        match event {
            Event::Thread(thread) => host.on_thread(now, thread, driver, shared),
            Event::Path(thread) => host.on_path(now, thread, driver, shared),
            Event::Release(lock) => host.on_release(now, lock, shared),
            Event::WorkDone(thread) => self.on_work_done(now, thread),
            Event::Poller(thread) => {
                let taken = host.on_poller(now, thread, driver, shared);
                self.submit_all(now, taken.into_iter());
            }
            Event::Driver => driver.on_timer(now, link, shared),
            Event::Wire(wire) => link.on_wire(now, wire.into(), shared),
            Event::Arrive(packet) => {
                if let Some(arrival) = link.on_arrival(now, packet, shared) {
                    self.on_arrival(now, arrival);
                }
            }
            Event::Dma(packet) => self.on_dma(now, packet),
            Event::Look(packet) => root_complex.on_look(now, packet, link, shared),
            Event::Answer(packet) => root_complex.on_answer(now, packet, link, shared),
            Event::Controller { kind, context } => {
                controller.on_timer(now, Timer { kind, context }, &mut Ports { link, media, shared });
            }
            Event::Settle(packet) => {
                let count = link.bursts[packet].count();
                self.on_settle_late(now, packet, 0, count);
            }
            Event::SettleOne { place, packet } => self.on_settle_late(now, packet, place.into(), 1),
            Event::Interrupt { vector } => host.on_interrupt(now, vector, driver, shared),
            Event::Fault(number) => self.on_fault(now, number),
            Event::Handled { vector } => {
                host.on_handled(vector);
                if self.others.is_some() && self.on_other_handled(now, vector) {
                    return;
                }
                let Engine { shared, host, driver, link, .. } = self;
                if let Some(until) = driver.on_handled(now, vector, link, shared) {
                    host.stall(now, vector, until, shared);
                }
                self.on_completed(now);
                self.host.leave_handler();
            }
        }
    }

    /// A thread has finished a piece of work: its request goes down to the driver, or is done.
    fn on_work_done(&mut self, now: Time, thread: u16) {
        match self.host.on_work_done(now, thread, &mut self.shared) {
            Done::Later(at) => return self.shared.scheduler.at(at, Event::WorkDone(thread)),
            Done::Submitted(request) => self.submit(now, request),
            Done::Completed(request) => self.on_done(now, request),
            Done::CompletedAndSubmitted(done, at, request) => {
                self.on_done(at, done);
                self.submit(now, request);
            }
            Done::SubmittedTogether => self.submit_together(now, thread),
            Done::LeftToPoller => self.host.leave_to_poller(now, thread, &self.driver, &mut self.shared),
            Done::CompletedTogether => self.complete_together(now, thread),
        }
        self.host.step(now, thread, &self.driver, &mut self.shared);
    }

    /// A request goes down to the driver.
    #[inline(always)]
    fn submit(&mut self, now: Time, request: RequestId) {
        if self.faults.is_some() {
            return self.submit_faulty(now, request);
        }
        if self.others.is_some() {
            return self.submit_to_drives(now, &[request]);
        }
        splitting::submit(now, request, &mut self.driver, &mut self.link, &mut self.shared);
    }

    /// A thread has taken a batch down to the driver.
    fn submit_together(&mut self, now: Time, thread: u16) {
        let members = self.host.take_members(thread);
        self.submit_all(now, members.iter().map(|member| member.request));
        self.host.give_members(thread, members);
    }

    /// Requests of one thread go down to the driver together.
    fn submit_all(&mut self, now: Time, requests: impl Iterator<Item = RequestId>) {
        match (self.faults.is_some(), self.others.is_some()) {
            (true, _) => self.submit_faulty_together(now, &requests.collect::<Vec<_>>()),
            (false, true) => self.submit_to_drives(now, &requests.collect::<Vec<_>>()),
            (false, false) => {
                splitting::submit_together(now, requests, &mut self.driver, &mut self.link, &mut self.shared);
            }
        }
    }

    /// It has collected a batch.
    fn complete_together(&mut self, now: Time, thread: u16) {
        let members = self.host.take_members(thread);
        for member in &members {
            self.on_done(member.end, member.request);
        }
        self.host.give_members(thread, members);
        self.driver.acknowledge(thread, &mut self.link, &mut self.shared);
        self.acknowledge_to_others(now, thread);
    }

    #[inline(always)]
    fn on_done(&mut self, now: Time, request: RequestId) {
        let Shared { trace, requests, data, .. } = &mut self.shared;
        let done = &requests[request];
        if trace.is_on() {
            trace.keep_request(done.number, &done.ledger, &self.stack_names);
        }
        match self.faults.is_some().then(|| faults::failure(&mut self.faults, done)).flatten() {
            Some(error) => {
                self.recorder.record_failed(now, done, error);
                if let Some(data) = data {
                    data.end_doubt(done.number);
                }
            }
            None => self.recorder.record(now, done),
        }
        let token = done.token;
        requests.vacate(request);
        if let Some(token) = token {
            self.complete_for_client(token, now);
        }
    }

    /// A request from outside is done.
    #[inline(never)]
    fn complete_for_client(&mut self, token: u32, now: Time) {
        self.client_completed.push_back(Completed { token, at: now });
        self.shared.scheduler.look_up();
    }

    /// The device's DMA engine is done with a step of a burst.
    #[inline(never)] // So that what arrives without such an engine is handled where it is routed.
    fn on_dma(&mut self, now: Time, packet: PacketId) {
        if let Some(arrival) = self.link.on_dma(now, packet, &mut self.shared) {
            self.on_arrival(now, arrival);
        }
    }

    /// Packets have crossed the link: up to the root complex, down to the controller.
    #[inline(always)]
    fn on_arrival(&mut self, now: Time, arrival: Arrival) {
        let flight = &self.link.bursts[arrival.packet];
        let last = arrival.first + arrival.count == flight.count();
        let recording = if last && self.shared.trace.is_on() { Some(self.burst(now, arrival.packet)) } else { None };
        if flight.packet.direction == Direction::Up {
            if let Some(burst) = recording {
                let number = flight.packet.request.map(|request| self.shared.requests[request].number);
                self.shared.trace.keep_burst(burst, number);
            }
            let is_settled = self.settles_alike && flight.packet.kind == Kind::MemoryWrite;
            if last {
                let token = flight.packet.token;
                let Engine { controller, link, media, shared, .. } = self;
                controller.on_delivered(now, token, &mut Ports { link, media, shared });
            }
            if is_settled {
                return self.on_settle(now, arrival.packet, arrival.first, arrival.count);
            }
            return self.root_complex.on_arrival(now, arrival, &mut self.link, &mut self.shared);
        }
        if last {
            let packet = flight.packet;
            self.link.bursts.vacate(arrival.packet);
            let payload = self.link.bursts.take_payload(arrival.packet);
            self.shared.requests.accepted = None;
            if self.shared.data.is_some() && packet.user_data {
                self.store(now, &packet);
            }
            let Engine { controller, link, media, shared, .. } = self;
            controller.on_packet(now, &packet, &payload, &mut Ports { link, media, shared });
            if let Some(burst) = recording {
                self.keep_answer(burst, &packet);
            }
        }
    }

    /// Real bytes have come down: the device holds them from now on, as far as no fault tears them.
    #[cold]
    fn store(&mut self, now: Time, packet: &Packet) {
        let Engine { controller, link, media, shared, .. } = self;
        faults::keep_up_with_power(now, media, shared);
        let stored = faults::stored(&self.faults, packet, shared);
        controller.store(&stored, &mut Ports { link, media, shared });
    }

    /// A burst as a trace keeps it.
    #[cold]
    fn burst(&self, now: Time, id: PacketId) -> Burst {
        let flight = &self.link.bursts[id];
        let (packets, wire_bytes) = (flight.count(), flight.wire_bytes());
        let up = flight.packet.direction == Direction::Up;
        let name = self.controller.packet_name(&flight.packet);
        let to = now - self.link.delivery_delay(&flight.packet);
        let memory = (flight.packet.address, flight.packet.bytes);
        Burst { name, up, packets, wire_bytes, from: flight.started(), to, memory }
    }

    /// Keep packets that have come down. Only now is it known whose command a queue read has brought, if any.
    #[cold]
    fn keep_answer(&mut self, mut burst: Burst, packet: &Packet) {
        let owner = self.shared.requests.accepted.or(packet.request);
        let number = owner.map(|request| self.shared.requests[request].number);
        match (self.controller.looking(packet), number) {
            (Some(looking), Some(number)) => self.shared.trace.assign(looking.read, packet.sampled_at, number),
            (Some(Looking { empty: Some(empty), .. }), None) => burst.name = empty,
            _ => {}
        }
        self.shared.trace.keep_burst(burst, number);
    }

    /// Packets are in host memory: an interrupt message goes to a core, anything else may be what the driver waits for.
    #[inline(always)]
    fn on_settle(&mut self, now: Time, id: PacketId, first: u32, count: u32) {
        let flight = &self.link.bursts[id];
        if flight.packet.interrupt {
            let vector = flight.packet.token.context as u16;
            self.link.bursts.vacate(id);
            if self.faults.is_some() && !self.hears_interrupt(now, vector) {
                return;
            }
            if let Some(relay) = &mut self.relay {
                return relay.messages.push(vector);
            }
            return self.host.on_message(now, vector, &mut self.shared);
        }
        let settled = Settled { packet: flight.packet, first, count, burst_count: flight.count() };
        if self.root_complex.on_settle(id, first, count, &mut self.link, &mut self.shared) {
            self.link.bursts.vacate(id);
        }
        if self.faults.is_some() {
            faults::damage(&self.faults, &settled, &mut self.shared);
        }
        if settled.packet.kind == Kind::Completion {
            let answer = self.link.bursts.take_payload(id);
            self.host.resume_handler(settled.packet.token.context as u16);
            self.driver.on_answer(now, &answer, &mut self.link, &mut self.shared);
            self.on_completed(now);
            return self.host.leave_handler();
        }
        self.driver.on_settled(now, &settled, self.polling, &mut self.link, &mut self.shared);
        self.on_completed(now);
    }

    /// The same where writes take different times to settle, which is rare.
    #[cold]
    fn on_settle_late(&mut self, now: Time, id: PacketId, first: u32, count: u32) {
        self.on_settle(now, id, first, count);
    }

    /// Hand the completions that the driver has found to the threads that wait for them.
    #[inline(always)]
    fn on_completed(&mut self, now: Time) {
        if !self.shared.requests.completed.is_empty() {
            self.hand_over(now);
        }
        if !self.shared.requests.answered.is_empty() {
            self.on_answered(now);
        }
    }

    fn hand_over(&mut self, now: Time) {
        let mut next = 0;
        while let Some(&part) = self.shared.requests.completed.get(next) {
            next += 1;
            let Some(request) = splitting::completed(part, &mut self.shared) else { continue };
            if let Some(relay) = &mut self.relay {
                relay.completed.push(request);
                continue;
            }
            if self.faults.is_some() && !self.hears_completion(now, request) {
                continue;
            }
            self.host.on_completed(now, request, &self.driver, &mut self.shared);
        }
        self.shared.requests.completed.clear();
    }

    /// Commands of real hosts are over.
    #[cold]
    fn on_answered(&mut self, now: Time) {
        while let Some((token, request)) = self.shared.requests.answered.pop_front() {
            match request {
                Some(request) => self.on_done(now, request),
                None => self.complete_for_client(token, now),
            }
        }
    }

    /// What the parts of this drive have counted.
    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.driver.counters();
        counters.extend(self.controller.counters());
        counters.extend(self.media.counters());
        counters.extend(self.fault_counts());
        if let Some(data) = &self.shared.data {
            counters.extend([("verified_reads", data.verified_reads), ("data_errors", data.data_errors)]);
            counters.extend(data.lost_units().map(|units| ("lost_units", units)));
        }
        counters
    }

    /// What has been measured so far.
    pub fn outcome(&self, drive: &Drive, seed: u64) -> crate::ledger::Outcome {
        let now = self.recorder.last();
        let cpu = self.host.used(now);
        self.recorder.outcome(
            drive,
            seed,
            recorder::Parts {
                now,
                upstream: self.used(Direction::Up),
                downstream: self.used(Direction::Down),
                cpu,
                awake_share: self.awake_share(now),
                memory_j: self.memory_joules(drive),
                counters: self.counters(),
                events: self.events(),
                finished: self.host.finished(),
            },
        )
    }
}
