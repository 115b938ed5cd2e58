//! Simulated machine: a host, its devices, one queue of events, and the one match that says which part handles which
//! event.
//!
//! ```text
//!     workload ── host ── protocol driver ══ link ══ protocol controller ── media
//! ```
//!
//! A machine can be driven in two ways. A simulation runs it until its threads are done. A server stamps requests that
//! really arrive, injects them, runs the machine up to its own clock, and asks when the next event is due:
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

mod device;
mod devices;
pub mod driver_end;
pub mod faults;
mod outside;
mod pending_jobs;
pub mod power;
mod recorder;
mod remote;
pub mod requests;
mod results;
mod several;
pub mod simulation;
mod switched;
pub mod timeline;
mod warm_up;

use std::collections::VecDeque;

use crate::config::Wait;
use crate::drive::Drive;
use crate::fabric::{FabricCommandStep, NetworkedTarget, host_queue_pair_count};
use crate::host::{FinishedWork, Host};
use crate::ledger::StageTimes;
use crate::ledger::record::RecordedBurst;
use crate::ledger::trace::Trace;
use crate::link::Arrival;
use crate::link::switch::Switches;
use crate::memory::HostMemory;
use crate::number::low_u16;
use crate::protocol::halves::{Controller, Driver, PollNames};
use crate::protocol::ports::Settled;
use crate::protocol::splitting;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::{BurstId, Direction, Kind, Packet, Payload};
use device::AttachedDevice;
use devices::AttachedDevices;
use driver_end::DriverEnd;
use faults::Faults;
pub use outside::{Completed, Input};
use pending_jobs::PendingJobGroups;
use recorder::Recorder;
use switched::SwitchedLinks;
use warm_up::WarmUp;

/// Condition that ends the handling of events, besides the instant up to which they are handled.
#[derive(Clone, Copy)]
enum RunGoal {
    /// No further condition: events are handled up to the given instant.
    Time,
    /// Every thread with a job is done, and no group of jobs is left.
    Threads,
    /// An injected request has completed.
    Completion,
}

/// Simulated machine: a host and its devices, with all pending events.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Shared,
    host: Host,
    memory: HostMemory,
    devices: AttachedDevices,
    /// Switches between the links of the devices and their root ports, if there are any.
    switched: Option<Box<SwitchedLinks>>,
    /// True if the machine has one device and no switch.
    is_alone: bool,
    /// Number of interrupt vectors of each device.
    vectors: u16,
    recorder: Recorder,
    /// Network between host and drives, with the target's cores; `None` if the drives are in the host.
    fabric: Option<Box<NetworkedTarget>>,
    /// Injected faults of the run; `None` without any.
    faults: Option<Box<Faults>>,
    /// True if every posted write is in memory a fixed time after its arrival.
    settles_alike: bool,
    /// True if controllers are told when their packets have arrived at the host.
    needs_delivery_events: bool,
    /// True if drivers poll for completions instead of waiting for interrupts.
    polling: bool,
    /// Names of the stages of the host's software stack, for traces.
    stack_names: Vec<String>,
    /// Completions of injected requests that have not been taken.
    client_completed: VecDeque<Completed>,
    /// Stages of the injected requests that are complete; `None` unless they are to be kept.
    completed_stages: Option<VecDeque<StageTimes>>,
    driver_end: DriverEnd,
    /// Thread that the commands of real hosts are counted for, by the number of their queue.
    queue_threads: Vec<u16>,
    plan: PendingJobGroups,
    warm_up: WarmUp,
}

impl Engine {
    /// Returns an idle machine with the devices of a description, at time zero.
    pub fn new(drive: &Drive, seed: u64) -> Engine {
        let drive = &*drive.combined_hosts();
        let mut shared = Shared::default();
        let Drive { switch, peer, link, root_complex, drives, .. } = drive;
        let switches = Switches::of(switch, peer, link, root_complex.write_accept, *drives);
        let is_alone = *drives == 1 && switches.is_none();
        if !is_alone {
            shared.scheduler.rank_by_source();
        }
        let mut memory = HostMemory::default();
        let devices = AttachedDevices::new(drive, seed, &mut memory, &mut shared);
        let mut faults = Faults::of(drive, seed);
        if let Some(faults) = &mut faults {
            faults.begin(&mut shared);
        }
        Engine {
            host: Host::new(drive, seed),
            memory,
            settles_alike: device::settle(drive, &devices[0].root_complex).is_some(),
            needs_delivery_events: devices[0].controller.needs_delivery_events(),
            devices,
            switched: switches.zip(switch.direction()).map(|(switches, to)| SwitchedLinks::new(switches, to)),
            is_alone,
            vectors: low_u16(host_queue_pair_count(drive)),
            faults,
            recorder: Recorder::default(),
            polling: drive.fabric.is_there() || drive.host.wait != Wait::Sleep && !drive.stack.has_engines(),
            fabric: NetworkedTarget::of(drive, seed),
            stack_names: drive.software_stage_names(),
            client_completed: VecDeque::new(),
            completed_stages: None,
            driver_end: DriverEnd::Host,
            queue_threads: Vec::new(),
            plan: PendingJobGroups::default(),
            warm_up: WarmUp::default(),
            shared,
        }
    }

    /// Returns an idle machine with real bytes: devices hold data, writes change them, and every read is checked
    /// against the bytes that it may return. The counters `verified_reads` and `data_errors` join the outcome's.
    pub fn with_data(drive: &Drive, seed: u64) -> Engine {
        let mut engine = Engine::new(drive, seed);
        let Engine { devices, memory, .. } = &mut engine;
        memory.back_buffers_with_bytes();
        devices.iter_mut().for_each(|device| device.keep_data(drive, seed, memory));
        engine.follow_power(drive, seed);
        engine
    }

    /// Returns descriptions of the first reads that returned wrong bytes, of the first device with any.
    pub fn data_problems(&self) -> &[String] {
        let mut problems = self.devices.iter().filter_map(|device| device.data.as_ref()).map(|data| data.problems());
        problems.find(|problems| !problems.is_empty()).unwrap_or_default()
    }

    /// Returns the number of the first request whose read returned wrong bytes; `None` if there was none.
    pub fn first_wrong_read(&self) -> Option<u64> {
        self.devices.iter().filter_map(|device| device.data.as_ref()?.first_wrong()).min()
    }

    /// Returns a description of an inconsistency in the account that wear levelling keeps of its lines, or a small
    /// flash drive of its units; `None` if there is none.
    pub fn memory_problem(&self) -> Option<String> {
        self.devices.iter().find_map(AttachedDevice::memory_problem)
    }

    /// Returns the instant of the next event; `None` if none is pending.
    pub fn next_at(&self) -> Option<Time> {
        self.shared.scheduler.next_at()
    }

    /// Handles every event up to and at `until`.
    pub fn run_until(&mut self, until: Time) {
        // In most calls no event is due, so check before entering the loop.
        if self.shared.scheduler.is_due(until) {
            self.handle_events(u64::MAX, until, RunGoal::Time);
        }
    }

    /// Handles up to `events` events up to and at `until`. Returns true if all events up to then have been handled.
    pub fn run_events_until(&mut self, until: Time, events: u64) -> bool {
        self.handle_events(events, until, RunGoal::Time);
        self.next_at().is_none_or(|next| next > until)
    }

    /// True if an event is pending up to `until`, or a completion of an injected request waits to be taken.
    #[inline]
    pub fn has_due_work(&mut self, until: Time) -> bool {
        self.shared.scheduler.is_due(until) || !self.client_completed.is_empty()
    }

    /// Handles up to `events` events up to and at `until`, but no further than the completion of an injected request.
    /// Returns true if all events up to then have been handled, and that completion.
    pub fn run_events_until_completed(&mut self, until: Time, events: u64) -> (bool, Option<Completed>) {
        if self.shared.scheduler.is_due(until) {
            self.handle_events(events, until, RunGoal::Completion);
        }
        (self.next_at().is_none_or(|next| next > until), self.take_completed())
    }

    /// Handles up to `events` events. Returns false once every thread is done and no jobs are left to begin.
    pub fn run(&mut self, events: u64) -> bool {
        self.handle_events(events, Time::NEVER, RunGoal::Threads)
    }

    /// Handles up to `events` events that come no later than `until`. Returns false if there are no more, or if the
    /// goal is reached.
    fn handle_events(&mut self, events: u64, until: Time, goal: RunGoal) -> bool {
        let last = self.shared.scheduler.events.saturating_add(events);
        while self.shared.scheduler.events < last {
            let last = last.min(self.next_cut());
            let goes_on = match self.is_alone {
                true => self.handle_up_to::<true>(last, until, goal),
                false => self.handle_up_to::<false>(last, until, goal),
            };
            if !goes_on {
                return false;
            }
            self.cut_power_if_due();
        }
        !self.is_over()
    }

    /// Handles events up to the one of number `last`. Returns false if there are no more, or if the goal is reached.
    /// This is the only loop over events, so that loop and routing are one piece of code. A machine with one device has
    /// a loop of its own, which does not look up the device of an event.
    fn handle_up_to<const IS_ALONE: bool>(&mut self, last: u64, until: Time, goal: RunGoal) -> bool {
        while self.shared.scheduler.events < last {
            if self.is_goal_reached(goal) {
                return false;
            }
            self.shared.scheduler.go_on(last);
            while self.shared.scheduler.may_handle_next() {
                if !self.shared.scheduler.is_due(until) {
                    return false;
                }
                let (now, event) = self.shared.scheduler.take();
                match IS_ALONE {
                    true => self.route(now, event, 0),
                    false => self.dispatch_to_device(now, event),
                }
            }
        }
        true
    }

    /// True if the goal is reached. If all threads are done, starts the next group of jobs instead, if there is one.
    /// Everything that may reach a goal makes the event loop
    /// [return to its caller](crate::scheduler::Scheduler::return_to_caller).
    fn is_goal_reached(&mut self, goal: RunGoal) -> bool {
        match goal {
            RunGoal::Time => false,
            RunGoal::Threads => self.host.finished() && !self.begin_next_job_group(),
            RunGoal::Completion => !self.client_completed.is_empty(),
        }
    }

    /// True if all threads are done, and no jobs are left to begin.
    fn is_over(&self) -> bool {
        self.host.finished() && self.plan.groups.is_empty()
    }

    /// Records up to `limit` steps of requests and packets from now on.
    pub fn record(&mut self, limit: usize) {
        self.shared.trace = Trace::new(limit);
    }

    /// Returns the steps of requests and packets recorded so far.
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// Keeps the first `limit` requests that are counted, each with its stages.
    pub fn keep_requests(&mut self, limit: usize) {
        self.recorder.keep_requests(limit);
    }

    /// Returns the single requests that the run has kept, and keeps no more; `None` if none were to be kept.
    pub fn take_requests(&mut self) -> Option<requests::KeptRequestRecords> {
        self.recorder.take_requests()
    }

    /// Returns the instant of the last event: the current simulated time.
    pub fn now(&self) -> Time {
        self.shared.scheduler.now()
    }

    /// Returns the number of events handled so far.
    pub fn events(&self) -> u64 {
        self.shared.scheduler.events
    }

    /// Returns the number of requests completed so far, including failed ones.
    pub fn completed(&self) -> u64 {
        self.recorder.completed()
    }

    /// Returns the number of reads and writes counted so far, without those in a ramp.
    pub fn counted_requests(&self) -> u64 {
        self.recorder.counted_requests()
    }

    /// Returns the latencies of all reads and writes counted so far.
    pub fn latency(&self) -> crate::ledger::Latency {
        self.recorder.latency()
    }

    /// Hands an event to the part of the machine that handles it; `device` is the device that the event is of. This
    /// match is the architecture of the simulator.
    #[inline(always)]
    fn route(&mut self, now: Time, event: Event, device: usize) {
        let Engine { shared, host, memory, devices, .. } = self;
        // All devices have the same driver type, so the host takes the software costs from the first.
        let driver = &devices[0].driver;
        match event {
            Event::Thread(thread) => host.wake_thread_for_next_step(now, thread, driver, shared),
            Event::Path(thread) => host.on_path(now, thread, driver, shared),
            Event::Release(lock) => host.on_lock_release(now, lock, shared),
            Event::WorkDone(thread) => self.on_work_done(now, thread),
            Event::Poller(thread) => {
                let taken = host.on_poller(now, thread, driver, shared);
                self.submit_together(now, taken.into_iter());
            }
            Event::Driver => {
                let (driver, mut ports) = devices.driver_side(device, memory, shared);
                driver.on_timer(now, &mut ports);
            }
            Event::Wire(wire) => devices[device].link.on_wire(now, wire.into(), shared),
            Event::Arrive(packet) => {
                if let Some(arrival) = devices[device].link.on_arrival(now, packet, shared) {
                    self.on_arrival(now, arrival, device);
                }
            }
            Event::Dma(packet) => self.on_dma(now, packet, device),
            Event::Recheck(packet) => {
                let AttachedDevice { root_complex, link, .. } = &mut devices[device];
                root_complex.sample_host_memory(now, packet, link, memory, shared);
            }
            Event::ReadDone(packet) => {
                let AttachedDevice { root_complex, link, .. } = &mut devices[device];
                root_complex.on_answer(now, packet, link, shared);
            }
            Event::Controller { kind, context } => {
                let (controller, mut ports) = devices.controller_side(device, shared);
                controller.on_timer(now, Timer { kind, context }, &mut ports);
            }
            Event::Settle(packet) => {
                let count = devices[device].link.bursts[packet].count();
                self.on_settle_late(now, packet, 0, count, device);
            }
            Event::SettleOne { place, packet } => self.on_settle_late(now, packet, place.into(), 1, device),
            Event::Fabric { step, context } => self.on_fabric_step(now, FabricCommandStep::of_number(step), context),
            Event::Interrupt { vector } => host.on_interrupt(now, vector, driver, shared),
            Event::Fault(number) => self.apply_fault_effect(now, number),
            Event::Handled { vector } => self.on_handled(now, vector, device),
        }
    }

    /// Handles the end of an interrupt handler: lets the driver of the device collect completions, and ends the
    /// handler.
    #[inline(always)]
    fn on_handled(&mut self, now: Time, vector: u16, device: usize) {
        if self.fabric.is_some() {
            return self.on_network_handled(now, vector);
        }
        self.host.on_handled(vector);
        let of_device = vector - device as u16 * self.vectors;
        let (driver, mut ports) = self.devices.driver_side(device, &mut self.memory, &mut self.shared);
        if let Some(until) = driver.on_handled(now, of_device, &mut ports) {
            self.host.stall(now, vector, until, &mut self.shared);
        }
        self.on_completed(now);
        self.host.end_handler();
    }

    /// Handles the end of a thread's piece of work: submits or completes its requests, and lets the thread take its
    /// next step.
    #[inline(always)]
    fn on_work_done(&mut self, now: Time, thread: u16) {
        match self.host.on_work_done(now, thread, &mut self.shared) {
            FinishedWork::Later(at) => return self.shared.scheduler.at(at, Event::WorkDone(thread)),
            FinishedWork::Submitted(request) => self.submit(now, request),
            FinishedWork::Completed(request) => self.on_done(now, request),
            FinishedWork::CompletedAndSubmitted(done, at, request) => {
                self.on_done(at, done);
                self.submit(now, request);
            }
            FinishedWork::SubmittedTogether => self.submit_gathered_batch(now, thread),
            FinishedWork::LeftToPoller => {
                self.host.leave_to_poller(now, thread, &self.devices[0].driver, &mut self.shared)
            }
            FinishedWork::CompletedTogether => self.complete_collected_batch(thread),
        }
        self.host.step(now, thread, &self.devices[0].driver, &mut self.shared);
    }

    /// Submits a request to the driver of its device, unless a fault keeps it back.
    #[inline(always)]
    fn submit(&mut self, now: Time, request: RequestId) {
        if self.needs_submission_checks() && self.pass_submission_checks(now, vec![request]).is_empty() {
            return;
        }
        if !self.is_alone {
            return self.submit_to_devices(now, &[request]);
        }
        let (driver, mut ports) = self.devices[0].driver_side(&mut self.memory, &mut self.shared);
        splitting::submit(now, request, driver, &mut ports);
    }

    /// Submits the batch of requests that a thread has gathered, all together.
    fn submit_gathered_batch(&mut self, now: Time, thread: u16) {
        let members = self.host.take_batch_members(thread);
        self.submit_together(now, members.iter().map(|member| member.request));
        self.host.return_batch_members(thread, members);
    }

    /// Submits requests of one thread together, except those that faults keep back.
    fn submit_together(&mut self, now: Time, requests: impl Iterator<Item = RequestId>) {
        if self.is_alone && !self.needs_submission_checks() {
            return self.submit_to_only_device(now, requests);
        }
        let mut left: Vec<RequestId> = requests.collect();
        if self.needs_submission_checks() {
            left = self.pass_submission_checks(now, left);
        }
        match self.is_alone {
            true => self.submit_to_only_device(now, left.into_iter()),
            false => self.submit_to_devices(now, &left),
        }
    }

    #[inline(always)]
    fn submit_to_only_device(&mut self, now: Time, requests: impl Iterator<Item = RequestId>) {
        let (driver, mut ports) = self.devices[0].driver_side(&mut self.memory, &mut self.shared);
        splitting::submit_together(now, requests, driver, &mut ports);
    }

    /// True if requests at the drivers are recorded, if faults may keep them back, or if they go over a fabric.
    #[inline(always)]
    fn needs_submission_checks(&self) -> bool {
        self.faults.is_some() || self.fabric.is_some() || matches!(self.driver_end, DriverEnd::Recorded { .. })
    }

    /// Passes requests through the stages before their drivers, and returns those that are left: all are recorded if the
    /// run records requests at the drivers, faults keep some back or fail them, and a fabric takes the others.
    #[cold]
    #[inline(never)]
    fn pass_submission_checks(&mut self, now: Time, mut requests: Vec<RequestId>) -> Vec<RequestId> {
        if let DriverEnd::Recorded { .. } = self.driver_end {
            requests.iter().for_each(|request| self.note_submission(now, *request));
        }
        if let Some(faults) = &mut self.faults {
            let (shared, data) = (&mut self.shared, &mut self.devices[0].data);
            requests.retain(|id| faults.passes_to_driver(now, *id, data, shared));
        }
        self.send_over_fabric(now, &mut requests);
        requests
    }

    /// Completes the batch of requests whose completions a thread has collected, and tells the devices that they are
    /// consumed.
    fn complete_collected_batch(&mut self, thread: u16) {
        let members = self.host.take_batch_members(thread);
        for member in &members {
            self.on_done(member.end, member.request);
        }
        self.host.return_batch_members(thread, members);
        self.acknowledge(thread);
    }

    /// Ends a request whose application has its result: records it, or its failure, and frees its entry.
    #[inline(always)]
    fn on_done(&mut self, now: Time, request: RequestId) {
        let Shared { trace, requests, .. } = &mut self.shared;
        let done = &requests[request];
        assert_eq!(done.parts_left, 0, "a request is complete while parts of it are in flight");
        if trace.is_on() {
            trace.keep_finished_request(done.number, &done.ledger, &self.stack_names);
        }
        let error = self.faults.is_some().then(|| faults::failure(&mut self.faults, done)).flatten();
        match error {
            Some(error) => {
                self.recorder.record_failed_request(now, done, error);
                if let Some(data) = &mut self.devices[0].data {
                    data.clear_expected_failure(done.number);
                }
            }
            None => self.recorder.record(now, done),
        }
        if done.ends_commit && self.recorder.has_groups(done.thread) {
            let (recorder, thread) = (&mut self.recorder, done.thread);
            self.host.take_group(thread, |handed_in| {
                // A failed flush has made no record durable, so no client's commit counts as complete.
                if error.is_none() {
                    recorder.record_client_commit(now, thread, handed_in);
                }
            });
        }
        let token = done.token;
        if let (Some(kept), Some(_)) = (&mut self.completed_stages, token) {
            kept.push_back(done.ledger.close(now).clone());
        }
        requests.vacate(request);
        if let Some(token) = token {
            self.complete_for_client(token, now, error);
        }
    }

    /// Keeps the completion of an injected request until it is taken.
    #[inline(never)]
    fn complete_for_client(&mut self, token: u32, now: Time, error: Option<u32>) {
        self.client_completed.push_back(Completed { token, at: now, error });
        self.shared.scheduler.return_to_caller();
    }

    /// Handles the end of a step that a device's DMA engine has taken for a burst: a transfer that is complete arrives.
    // Not inlined: most drives have no DMA engine, and `on_arrival` is to be inlined only at the main call.
    #[inline(never)]
    fn on_dma(&mut self, now: Time, packet: BurstId, device: usize) {
        if let Some(arrival) = self.devices[device].link.on_dma(now, packet, &mut self.shared) {
            self.on_arrival(now, arrival, device);
        }
    }

    /// Hands packets at the far end of the link to the root complex (up), or the whole burst to the controller once its
    /// last packet is there (down).
    #[inline(always)]
    fn on_arrival(&mut self, now: Time, arrival: Arrival, device: usize) {
        let flight = &self.devices[device].link.bursts[arrival.packet];
        let last = arrival.first + arrival.count == flight.count();
        let recording =
            if last && self.shared.trace.is_on() { Some(self.burst(now, arrival.packet, device)) } else { None };
        if flight.packet.direction == Direction::Up {
            if let Some(burst) = recording {
                let number = flight.packet.request.map(|request| self.shared.requests[request].number);
                self.shared.trace.keep_arrived_burst(burst, number);
            }
            let is_settled = self.settles_alike && flight.packet.kind == Kind::MemoryWrite;
            if last && self.needs_delivery_events {
                let token = flight.packet.token;
                let (controller, mut ports) = self.devices.controller_side(device, &mut self.shared);
                controller.on_delivered(now, token, &mut ports);
            }
            if is_settled {
                return self.on_settle(now, arrival.packet, arrival.first, arrival.count, device);
            }
            let AttachedDevice { root_complex, link, .. } = &mut self.devices[device];
            return root_complex.on_arrival(now, arrival, link, &self.memory, &mut self.shared);
        }
        if last {
            let packet = flight.packet;
            self.devices[device].link.bursts.vacate(arrival.packet);
            let payload = self.devices[device].link.bursts.take_burst_payload(arrival.packet);
            self.shared.requests.accepted = None;
            if self.devices[self.devices.holder(device)].data.is_some() && packet.user_data {
                self.store(now, &packet, device);
            }
            let (controller, mut ports) = self.devices.controller_side(device, &mut self.shared);
            controller.on_packet(now, &packet, payload.as_deref().unwrap_or(Payload::zeros()), &mut ports);
            self.devices[device].link.bursts.reuse_payload(payload);
            if let Some(burst) = recording {
                self.trace_arrived_packets(burst, &packet, device);
            }
        }
    }

    /// Stores the data of a write that has reached the device, without the bytes that a fault tears off.
    #[cold]
    fn store(&mut self, now: Time, packet: &Packet, device: usize) {
        let holder = self.devices.holder(device);
        let AttachedDevice { media, data, .. } = &mut self.devices[holder];
        let Some(data) = data else { return };
        faults::update_durable_programs(now, media, data);
        let packet = faults::stored(&self.faults, packet, &self.shared);
        let arrived = data.read_write_data(&packet, &self.memory);
        let (controller, mut ports) = self.devices.controller_side(device, &mut self.shared);
        controller.on_user_data(&packet, &arrived, &mut ports);
        if let Some(data) = ports.data {
            data.store(&packet, arrived);
        }
    }

    /// Returns the trace record of a burst that has arrived at `now`.
    #[cold]
    fn burst(&self, now: Time, id: BurstId, device: usize) -> RecordedBurst {
        let flight = &self.devices[device].link.bursts[id];
        let (packets, wire_bytes) = (flight.count(), flight.wire_bytes());
        let up = flight.packet.direction == Direction::Up;
        let name = self.devices[self.devices.holder(device)].controller.packet_name(&flight.packet);
        let to = now - self.devices[device].link.settle_delay_of(&flight.packet);
        let memory = (flight.packet.address, flight.packet.bytes);
        RecordedBurst { name, up, packets, wire_bytes, from: flight.started(), to, memory }
    }

    /// Adds packets that have reached the device to the trace. Only now is it known whose command a read of the queue
    /// has brought, if any.
    #[cold]
    fn trace_arrived_packets(&mut self, mut burst: RecordedBurst, packet: &Packet, device: usize) {
        let owner = self.shared.requests.accepted.or(packet.request);
        let number = owner.map(|request| self.shared.requests[request].number);
        match (self.devices[device].controller.poll_names(packet), number) {
            (Some(poll_names), Some(number)) => self.shared.trace.assign(poll_names.read, packet.sampled_at, number),
            (Some(PollNames { empty: Some(empty), .. }), None) => burst.name = empty,
            _ => {}
        }
        self.shared.trace.keep_arrived_burst(burst, number);
    }

    /// Handles packets that are in host memory now: an interrupt message goes to a core, anything else to the driver.
    #[inline(always)]
    fn on_settle(&mut self, now: Time, id: BurstId, first: u32, count: u32, device: usize) {
        let flight = &self.devices[device].link.bursts[id];
        if flight.packet.interrupt {
            let vector = low_u16(flight.packet.token.context) + device as u16 * self.vectors;
            self.devices[device].link.bursts.vacate(id);
            // On a networked target, the target's cores notice completions by themselves
            // (`NetworkedTarget::on_drive_completion`), so ignore the interrupt.
            if self.fabric.is_some() || self.faults.is_some() && !self.does_interrupt_reach_host(now, vector) {
                return;
            }
            return self.host.on_message(now, vector, &mut self.shared);
        }
        let settled = Settled { packet: flight.packet, first, count, burst_count: flight.count() };
        let AttachedDevice { root_complex, link, .. } = &mut self.devices[device];
        if root_complex.on_settle(id, count, link, &mut self.memory) {
            link.bursts.vacate(id);
        }
        let holder = self.devices.holder(device);
        if let Some(data) = self.devices[holder].data.as_mut()
            && settled.packet.user_data
            && settled.packet.kind != Kind::Completion
        {
            data.to_host(&settled.packet, first, count, &mut self.memory);
        }
        if self.faults.is_some() {
            self.damage(&settled);
        }
        if settled.packet.kind == Kind::Completion {
            let answer = self.devices[device].link.bursts.take_burst_payload(id);
            self.host.continue_handler(low_u16(settled.packet.token.context) + device as u16 * self.vectors);
            let (driver, mut ports) = self.devices.driver_side(device, &mut self.memory, &mut self.shared);
            driver.on_answer(now, answer.as_deref().unwrap_or(Payload::zeros()), &mut ports);
            self.devices[device].link.bursts.reuse_payload(answer);
            self.on_completed(now);
            return self.host.end_handler();
        }
        let (driver, mut ports) = self.devices.driver_side(device, &mut self.memory, &mut self.shared);
        driver.on_settled(now, &settled, self.polling, &mut ports);
        self.on_completed(now);
    }

    /// Handles packets that are in host memory where writes take different times to settle, which is rare.
    #[cold]
    fn on_settle_late(&mut self, now: Time, id: BurstId, first: u32, count: u32, device: usize) {
        self.on_settle(now, id, first, count, device);
    }

    /// Hands the completions that a driver has found to the threads that wait for them.
    #[inline(always)]
    fn on_completed(&mut self, now: Time) {
        if !self.shared.requests.completed.is_empty() {
            self.hand_over(now);
        }
        if !self.shared.requests.answered.is_empty() {
            self.end_real_host_commands(now);
        }
    }

    fn hand_over(&mut self, now: Time) {
        if !self.shared.requests.refused.is_empty() {
            self.fail_refused_requests();
        }
        let mut next = 0;
        while let Some(&part) = self.shared.requests.completed.get(next) {
            next += 1;
            let Some(request) = splitting::completed(part, &mut self.shared) else { continue };
            if self.faults.is_some() && !self.does_completion_reach_host(now, request) {
                continue;
            }
            self.deliver_to_target_or_host(now, request);
        }
        self.shared.requests.completed.clear();
    }

    /// Hands a completion that a driver has seen to the target's core, if the drive is behind a network, or to the host.
    #[inline(always)]
    fn deliver_to_target_or_host(&mut self, now: Time, request: RequestId) {
        match &mut self.fabric {
            None => self.deliver_to_host(now, request),
            Some(fabric) => fabric.on_drive_completion(now, request, &mut self.shared),
        }
    }

    /// Hands a completion to the simulated host, or to the caller at the driver.
    #[inline(always)]
    fn deliver_to_host(&mut self, now: Time, request: RequestId) {
        match self.driver_end {
            DriverEnd::Host => self.host.on_completed(now, request, &self.devices[0].driver, &mut self.shared),
            DriverEnd::Recorded { .. } | DriverEnd::Callers => self.on_driver_completion(now, request),
        }
    }

    /// Ends the commands of real hosts whose completion queue entries are in memory.
    #[cold]
    fn end_real_host_commands(&mut self, now: Time) {
        while let Some((token, request)) = self.shared.requests.answered.pop_front() {
            match request {
                Some(request) => self.on_done(now, request),
                None => self.complete_for_client(token, now, None),
            }
        }
    }
}
