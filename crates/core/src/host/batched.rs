//! Submission in batches: threads whose requests enter and leave the software together, through the I/O engine of their
//! job.
//!
//! A thread gathers requests while it has slots, submits them with one call and one doorbell, and collects what has
//! completed, as fio does. Such a piece of work is a list of legs: costs of each request, costs of the whole batch, and
//! spinlocks. The work stops at a lock, so that threads that contend arrive in order of time. While one request of a
//! batch is worked for, the others wait for it (`batch` in the ledger).

use std::sync::Arc;

use super::interrupts::InterruptHandlerRun;
use super::locks::{LockSpinner, SharedCacheLine, SpinLock};
use super::poller::Poller;
use super::posted::PostedWriteQueue;
use super::processors::{HostContext, LockGrant, Processors};
use super::software::{self, Software, StageCostTime, StageLockCost, charge};
use super::stack::Way;
use super::thread::{State, Thread, Work};
use crate::config::{EngineOptions, IoEngine, LockScope, Stack, Wait};
use crate::drive::Drive;
use crate::fabric::host_queue_pair_count;
use crate::ledger::Stage;
use crate::number::{index, length, short_length};
use crate::protocol::dispatch::AnyDriver;
use crate::protocol::halves::Driver as _;
use crate::protocol::ports::queue_of;
use crate::request::{Op, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::{Batch, BatchSizes, Job};

/// Leg of the software's work on a batch of requests: a cost in time, a lock, or an end.
#[derive(Clone, Copy, Debug)]
enum BatchLeg {
    /// Work for one request of the batch.
    Each { member: usize, stage: Stage, time: Span, stalls: bool },
    /// Work for one request of the batch under a spinlock.
    Locked { member: usize, stage: Stage, lock: usize, hold: Span, lines: u8 },
    /// Write of a cache line that other processors write too, for one request of the batch.
    Line { member: usize, stage: Stage, line: usize },
    /// Work for all requests of the batch together.
    All { stage: Stage, time: Span },
    /// End of the work for one request, whose application has its result.
    End { member: usize },
}

/// Request of a batch, with the end of the thread's work on it.
#[derive(Clone, Copy, Debug)]
pub struct BatchMember {
    /// Index of the request in the table of requests in flight.
    pub request: RequestId,
    /// Instant at which the request's application has its result, or at which the request has left the thread.
    pub end: Time,
}

/// State of a thread that works on batches: its I/O engine and its present batch.
#[derive(Clone, Debug)]
pub(super) struct BatchingThread {
    pub software: Arc<Software>,
    together: BatchSizes,
    way: Way,
    pub members: Vec<BatchMember>,
    legs: Vec<BatchLeg>,
    /// Index of the next leg (cost, lock or end) of the present work on a batch.
    place: usize,
    /// Instant up to which the present work has been charged to its requests.
    cursor: Time,
    /// Instant up to which the processor's time has been counted as used by the present work.
    from: Time,
    /// True if the thread has made the system call that waits for completions since it last collected some.
    has_waited: bool,
    /// True from when all slots are taken until completions have freed enough of them for the next batch.
    is_draining: bool,
    /// Poll thread of the kernel for the thread's ring; `None` without one.
    pub poller: Option<Poller>,
    /// Processor that the job chooses for the poll thread.
    pub poller_cpu: Option<usize>,
    /// Number of the thread's queue pair on each drive.
    queue: usize,
    /// True if a thread on another processor uses the queue pair, too.
    shares_queue: bool,
    /// True if another processor than the thread's takes the interrupts of the queue pair.
    is_handled_elsewhere: bool,
}

/// Software whose requests go in batches: state of each thread, and what the threads share.
#[derive(Clone, Debug)]
pub(super) struct Batched {
    /// Description of the drive, whose software stack offers a choice of I/O engines.
    drive: Arc<Drive>,
    /// Batching state of each thread, by thread number.
    pub(super) batchers: Vec<BatchingThread>,
    /// Cache lines that processors share, by drive.
    lines: Vec<SharedCacheLine>,
    /// Register writes that cores have posted; `None` if the room for them cannot fill up.
    pub(super) posted: Option<PostedWriteQueue>,
    /// Number of interrupt vectors of each drive.
    vectors: usize,
    /// Core that handles each interrupt vector of a drive: that of the first thread that uses the vector's queue, or of
    /// its poll thread.
    pub(super) vector_cores: Vec<usize>,
}

impl BatchingThread {
    pub(super) fn new(software: Arc<Software>, together: BatchSizes) -> BatchingThread {
        BatchingThread {
            software,
            together,
            way: Way::Down,
            members: Vec::new(),
            legs: Vec::new(),
            place: 0,
            cursor: Time::ZERO,
            from: Time::ZERO,
            has_waited: false,
            is_draining: false,
            poller: None,
            poller_cpu: None,
            queue: 0,
            shares_queue: false,
            is_handled_elsewhere: false,
        }
    }

    /// Returns the batching state for the engine and the batch sizes of a job on this drive; without a job, for those
    /// that the stack has by default.
    pub(super) fn of(drive: &Drive, iodepth: u32, job: Option<&Job>) -> BatchingThread {
        let support = drive.limits().engine_support.expect("the stack has engines");
        let engine = job.map_or(Some(support.default), |job| support.engine(job)).expect("jobs are checked");
        let switches = job.map_or_else(EngineOptions::default, |job| job.engine_choice.switches);
        let batch = job.map_or_else(Batch::default, |job| job.batch);
        let together = batch.batch_for_slots(iodepth, engine == IoEngine::Spdk);
        let Stack { poller_idle, poller_wake, .. } = drive.stack;
        let poller = switches.sqthread_poll.then(|| Poller::new(0, poller_idle, poller_wake));
        let poller_cpu = job.and_then(|job| job.engine_choice.poller_cpu).map(index);
        BatchingThread {
            poller,
            poller_cpu,
            ..BatchingThread::new(Arc::new(Software::new(drive, engine, switches)), together)
        }
    }

    /// True if the thread waits for a flush as for a system call. Rings take flushes like any request, and so do
    /// drivers in user space.
    fn waits_for_flush(&self) -> bool {
        !self.software.engine.has_rings() && self.software.engine != IoEngine::Spdk
    }

    /// Returns the completion method of the thread, on a host whose default method is `default`.
    fn wait(&self, default: Wait) -> Wait {
        match self.software.polls() {
            // A thread with a poll thread finds its completions in the ring, so it spins on the ring.
            _ if self.poller.is_some() => Wait::Spin,
            false => Wait::Sleep,
            true if default == Wait::Hybrid => Wait::Hybrid,
            true => Wait::Spin,
        }
    }

    /// Returns the number of completions that a thread with `outstanding` requests in flight needs to go on.
    fn completions_needed(&self, outstanding: u32) -> usize {
        index(self.together.complete_min.min(outstanding).max(1))
    }

    /// Delays by `time` the requests of the batch whose work ends after an interrupt handler began at `begin`.
    fn delay_for_interrupt(&mut self, begin: Time, time: Span, shared: &mut Shared) {
        for member in self.members.iter_mut().filter(|member| member.end > begin) {
            member.end += time;
            shared.requests[member.request].charge_core_wait(time);
        }
    }

    /// Plans the legs of one request of the batch: each cost, with its shared cache lines and its lock. Leaves out what
    /// an interrupt handler has done on another processor.
    fn each(&mut self, member: usize, costs: &[StageCostTime], shared: &Shared) {
        let request = &shared.requests[self.members[member].request];
        for cost in costs.iter().filter(|cost| !(cost.in_handler && self.is_handled_elsewhere)) {
            let stage = cost.stage;
            let lock = cost.lock.filter(|lock| lock.scope == LockScope::Drive || self.shares_queue);
            // The cost of the stage includes the time under its queue lock, so subtract that to get the time without
            // the lock.
            let held = lock.filter(|lock| lock.scope == LockScope::Queue).map_or(Span::ZERO, |lock| lock.hold);
            let (time, stalls) = (cost.of(&request.io) - held, cost.stalls);
            self.legs.push(BatchLeg::Each { member, stage, time, stalls });
            let first = usize::from(request.drive) * self.software.lines + cost.lines.first;
            let lines = first..first + usize::from(cost.lines.count);
            self.legs.extend(lines.map(|line| BatchLeg::Line { member, stage, line }));
            self.legs.extend(lock.map(|lock| {
                let StageLockCost { hold, lines, .. } = lock;
                let lock = self.software.locks.number(&lock, request.drive, self.queue);
                BatchLeg::Locked { member, stage, lock, hold, lines }
            }));
        }
    }

    /// Plans the legs of a submission in the kernel: first those of the whole batch, then those of each request.
    /// `outstanding` is the number of the thread's requests in flight.
    fn plan_submission_legs(&mut self, software: &Software, outstanding: u32, shared: &Shared) {
        self.legs.clear();
        let first = shared.requests[self.members[0].request].io.op.direction();
        let batch = software.down(first).batch.iter();
        let others = u64::from(outstanding).saturating_sub(length(self.members.len()));
        self.legs.extend(batch.map(|cost| BatchLeg::All { stage: cost.stage, time: cost.time + cost.depth * others }));
        let own = if self.poller.is_some() { 0 } else { self.members.len() };
        for member in 0..own {
            let direction = shared.requests[self.members[member].request].io.op.direction();
            self.each(member, &software.down(direction).kernel, shared);
        }
    }

    /// Plans the legs of a completion: acknowledgement, the kernel's work, the work for the whole batch, and the
    /// application's work.
    fn plan_completion_legs(&mut self, software: &Software, acknowledge: Span, shared: &Shared) {
        self.legs.clear();
        if !acknowledge.is_zero() {
            self.legs.push(BatchLeg::All { stage: Stage::Driver, time: acknowledge });
        }
        let look = software.look.iter().filter(|cost| !self.has_waited && !cost.if_waited);
        self.legs.extend(look.map(|cost| BatchLeg::All { stage: cost.stage, time: cost.time }));
        let own = if self.poller.is_some() { 0 } else { self.members.len() };
        for member in 0..own {
            self.each(member, &software.up.kernel, shared);
        }
        let met = software.up.batch.iter().filter(|cost| self.has_waited || !cost.if_waited);
        self.legs.extend(met.map(|cost| BatchLeg::All { stage: cost.stage, time: cost.time }));
        for member in 0..self.members.len() {
            self.each(member, &software.up.user, shared);
            self.legs.push(BatchLeg::End { member });
        }
    }

    /// Charges a request of the batch for holding a lock, or for fetching a cache line, until `until`, and moves the work
    /// on to that instant.
    fn charge_lock_hold(&mut self, member: usize, stage: Stage, until: Time, shared: &mut Shared) {
        let ledger = &mut shared.requests[self.members[member].request].ledger;
        ledger.until(Stage::Batch, self.cursor.max(ledger.cursor()));
        ledger.until(stage, until);
        self.cursor = until;
    }

    /// Charges a leg without a lock to the requests of the batch, and moves the work on to its end.
    fn take(&mut self, leg: BatchLeg, shared: &mut Shared) {
        match leg {
            BatchLeg::Each { member, stage, time, stalls } => {
                let ledger = &mut shared.requests[self.members[member].request].ledger;
                ledger.until(Stage::Batch, self.cursor);
                charge(ledger, stage, time, stalls);
                self.cursor = ledger.cursor();
            }
            BatchLeg::All { stage, time } => {
                let from = self.cursor;
                for (place, member) in self.members.iter().enumerate() {
                    let ledger = &mut shared.requests[member.request].ledger;
                    ledger.until(Stage::Batch, from);
                    match place {
                        0 => ledger.spend(stage, time),
                        _ => ledger.until(stage, self.cursor),
                    }
                    self.cursor = ledger.cursor();
                }
            }
            BatchLeg::End { member } => self.members[member].end = self.cursor,
            BatchLeg::Locked { .. } | BatchLeg::Line { .. } => {
                unreachable!("locks and lines are taken at their instants")
            }
        }
    }
}

/// Charges the last request of a batch for the doorbells of `drives` drives, with the waits for room among posted
/// register writes.
pub(super) fn ring(
    posted: &mut Option<PostedWriteQueue>,
    core: usize,
    drives: u32,
    driver: &AnyDriver,
    last: &mut Request,
) {
    for _ in 0..drives {
        let from = last.ledger.cursor();
        driver.submit_work(&last.io, last.thread, &mut last.ledger);
        let to = last.ledger.cursor();
        // A driver without doorbells takes no time here and posts no register write.
        if let Some(posted) = posted.as_mut().filter(|_| to > from) {
            last.ledger.until(Stage::Driver, to + posted.write(to, core));
        }
    }
}

impl Batched {
    /// Creates the software of this drive's host; `None` if its threads do not choose among engines.
    pub(super) fn of(drive: &Drive) -> Option<Batched> {
        drive.stack.has_engines().then(|| Batched {
            drive: Arc::new(drive.clone()),
            batchers: Vec::new(),
            lines: vec![
                SharedCacheLine::default();
                software::count_shared_lines(&drive.stack) * usize::from(drive.drives)
            ],
            posted: PostedWriteQueue::of(&drive.host),
            vectors: index(host_queue_pair_count(drive)),
            vector_cores: Vec::new(),
        })
    }

    /// Adds the batching state of a thread. Returns the thread with the completion method of its engine.
    pub(super) fn thread(&mut self, thread: Thread, job: Option<&Job>, processors: &Processors) -> Thread {
        let batcher = BatchingThread::of(&self.drive, thread.iodepth, job);
        let (wait, waits_for_flush) = (batcher.wait(processors.wait), batcher.waits_for_flush());
        self.batchers.push(batcher);
        Thread { wait, waits_for_flush, ..thread }
    }

    /// Gives a new thread its queue pair, whose interrupts go to the core of the first thread that uses it. Notes which
    /// threads share the queue pair from several cores.
    pub(super) fn assign_queue_pair(&mut self, thread: u16, processors: &mut Processors) {
        let queues = index(host_queue_pair_count(&self.drive));
        let (thread, queue) = (usize::from(thread), queue_of(thread, queues));
        let core = processors.threads[thread].core;
        if queue == self.vector_cores.len() {
            self.vector_cores.push(core);
        }
        let software = self.batchers[thread].software.clone();
        processors.cores[core].waits_for_io |= software.waits_in_system_call();
        self.batchers[thread].queue = queue;
        // The kernel gives each processor a queue pair if there are enough, so that only threads of one processor share it.
        let is_short = processors.cores.len() > queues;
        let is_elsewhere = |other: usize| is_short && other != core;
        self.batchers[thread].is_handled_elsewhere = !software.polls() && is_elsewhere(self.vector_cores[queue]);
        for mate in (queue..thread).step_by(queues).filter(|mate| is_elsewhere(processors.threads[*mate].core)) {
            self.batchers[mate].shares_queue = true;
            self.batchers[thread].shares_queue = true;
        }
        let locks = software.locks.count(queue);
        if self.batchers[thread].shares_queue && processors.spin_locks.len() < locks {
            processors.spin_locks.resize(locks, SpinLock::default());
        }
    }

    /// Returns the core that handles an interrupt vector: that of the thread that uses its queue, as Linux has a queue
    /// for each core. `None` if no thread uses the queue.
    pub(super) fn core_of(&self, vector: u16) -> Option<usize> {
        self.vector_cores.get(usize::from(vector) % self.vectors).copied()
    }

    /// True if a poll thread of the kernel serves the ring of this thread.
    pub(super) fn has_poller(&self, thread: u16) -> bool {
        self.batchers[usize::from(thread)].poller.is_some()
    }

    /// Delays the batch whose work an interrupt handler has interrupted.
    pub(super) fn on_handler(&mut self, run: &InterruptHandlerRun, shared: &mut Shared) {
        if let Some(thread) = run.batch_of {
            self.batchers[usize::from(thread)].delay_for_interrupt(run.begin, run.time, shared);
        }
    }

    /// Lets a thread that holds its core take its next step. It gathers and submits requests while it has slots; then
    /// it collects completions, or waits for them.
    // Not inlined: a host uses either this way of submission or the blocking one.
    #[inline(never)]
    pub(super) fn step(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let begin = processors.thread_processor_free_at(now, thread);
        if self.gather_due_requests(begin, thread, processors, shared) {
            let batcher = &mut self.batchers[usize::from(thread)];
            let software = batcher.software.clone();
            batcher.plan_submission_legs(&software, processors.threads[usize::from(thread)].outstanding, shared);
            return self.charge_legs_until_lock(now, thread, context);
        }
        let this = &processors.threads[usize::from(thread)];
        let (outstanding, iodepth, done) = (this.outstanding, this.iodepth, this.done.len());
        let batcher = &mut self.batchers[usize::from(thread)];
        batcher.is_draining |= outstanding >= iodepth;
        if done >= batcher.completions_needed(outstanding) {
            return self.collect(now, thread, context);
        }
        if outstanding < iodepth {
            processors.set_thread_timer(thread, shared);
        }
        self.enter_wait_call(now, thread, processors, shared);
    }

    /// Draws due requests into free slots, as many as go together, and charges the application's work. Returns false if
    /// there are none.
    fn gather_due_requests(
        &mut self,
        begin: Time,
        thread: u16,
        processors: &mut Processors,
        shared: &mut Shared,
    ) -> bool {
        let outstanding = processors.threads[usize::from(thread)].outstanding;
        let batcher = &mut self.batchers[usize::from(thread)];
        if batcher.is_draining && outstanding > batcher.together.low {
            return false;
        }
        batcher.is_draining = false;
        (batcher.way, batcher.place, batcher.from, batcher.cursor) = (Way::Down, 0, begin, begin);
        batcher.members.clear();
        let most = index(batcher.together.submit);
        processors.piece_from = begin;
        let mut cursor = begin;
        while batcher.members.len() < most {
            let next = processors.next_request(cursor, thread, 0);
            let Some(next) = next.filter(|next| next.due <= cursor) else { break };
            let path = processors.issue(cursor, thread, next, shared);
            let ledger = &mut shared.requests[path.request].ledger;
            for cost in &batcher.software.down(next.io.op.direction()).user {
                charge(ledger, cost.stage, cost.of(&next.io), cost.stalls);
            }
            cursor = ledger.cursor();
            batcher.members.push(BatchMember { request: path.request, end: Time::NEVER });
            batcher.cursor = cursor;
        }
        !batcher.members.is_empty()
    }

    /// Begins to collect visible completions, as many as are collected together.
    fn collect(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, driver, shared } = context;
        let this = &mut processors.threads[usize::from(thread)];
        let core = this.core;
        let batcher = &mut self.batchers[usize::from(thread)];
        let count = this.done.len().min(index(batcher.together.complete_max));
        let is_flushed =
            this.is_flushing && this.done.iter().take(count).any(|it| shared.requests[*it].io.op == Op::Flush);
        this.is_flushing &= !is_flushed;
        batcher.members.clear();
        batcher.members.extend(this.done.drain(..count).map(|request| BatchMember { request, end: Time::NEVER }));
        let software = batcher.software.clone();
        let newest = batcher.members.iter().map(|member| shared.requests[member.request].visible).max();
        // A thread that was polling sees the completion at its next poll. A thread that begins to poll later finds it
        // at once.
        let poll = if newest == Some(now) { processors.poll } else { Span::ZERO };
        let begin = processors.thread_processor_free_at(now + poll, thread);
        processors.piece_from = begin;
        let latest = batcher.members.iter().map(|member| shared.requests[member.request].ledger.cursor()).max();
        let begin = begin.max(latest.unwrap_or(begin));
        (batcher.way, batcher.place, batcher.from, batcher.cursor) = (Way::Up, 0, begin, begin);
        let acknowledge = match software.polls() && batcher.poller.is_none() {
            true => self.completion_doorbell_time(begin, core, self.count_drives_of_batch(thread, shared), driver),
            false => Span::ZERO,
        };
        let batcher = &mut self.batchers[usize::from(thread)];
        batcher.plan_completion_legs(&software, acknowledge, shared);
        batcher.has_waited = false;
        let until = if batcher.together.complete_min > 1 { Stage::Batch } else { Stage::CoreWait };
        for member in &batcher.members {
            let pace = processors.draw_software_pace(begin, core);
            let ledger = &mut shared.requests[member.request].ledger;
            ledger.until(until, now.max(ledger.cursor()));
            ledger.until(Stage::Poll, (now + poll).max(ledger.cursor()));
            ledger.until(Stage::CoreWait, begin);
            ledger.set_stretch_factor(pace);
        }
        self.charge_legs_until_lock(now, thread, context);
    }

    /// Continues a thread's work on a batch after a stop at a lock; waits first for an interrupt handler that has come
    /// in between.
    pub(super) fn continue_legs(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let free_at = processors.thread_processor_free_at(Time::ZERO, thread);
        let batcher = &mut self.batchers[usize::from(thread)];
        if free_at > now {
            // An interrupt handler has used the core meanwhile, so the batch continues after it.
            for member in &batcher.members {
                let ledger = &mut shared.requests[member.request].ledger;
                ledger.until(Stage::CoreWait, free_at.max(ledger.cursor()));
            }
            (batcher.cursor, batcher.from) = (free_at, free_at);
            return shared.scheduler.at(free_at, Event::Path(thread));
        }
        batcher.from = now;
        self.charge_legs_until_lock(now, thread, context);
    }

    /// Charges leg after leg of a thread's work, up to a lock that has not been reached yet or to the end.
    fn charge_legs_until_lock(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let this = &mut processors.threads[usize::from(thread)];
        this.state = State::Busy;
        this.napped = false;
        let core = this.core;
        let batcher = &mut self.batchers[usize::from(thread)];
        while let Some(&leg) = batcher.legs.get(batcher.place) {
            if !matches!(leg, BatchLeg::Locked { .. } | BatchLeg::Line { .. }) {
                batcher.place += 1;
                batcher.take(leg, shared);
                continue;
            }
            if batcher.cursor > now {
                let (from, to) = (batcher.from, batcher.cursor);
                this.work = Work::Legs;
                processors.occupy(core, from, to);
                return shared.scheduler.at(to, Event::Path(thread));
            }
            batcher.place += 1;
            let (member, stage, lock, hold, lines) = match leg {
                BatchLeg::Locked { member, stage, lock, hold, lines } => (member, stage, lock, hold, lines),
                BatchLeg::Line { member, stage, line } => {
                    let written = self.lines[line].write(now, core, &processors.distances);
                    batcher.charge_lock_hold(member, stage, written, shared);
                    continue;
                }
                _ => unreachable!("other legs take their time above"),
            };
            let spin_lock = &mut processors.spin_locks[lock];
            let fetched = hold + spin_lock.lock_line_fetch_time(core, lines, &processors.distances);
            let Some(start) = spin_lock.take(now, core, fetched, &processors.distances) else {
                let spinner = LockSpinner { thread, core, hold, lines, stage };
                return processors.spin(now, lock, spinner, Work::Legs, shared);
            };
            let hold = fetched;
            processors.cores[core].mask(start + hold);
            batcher.charge_lock_hold(member, stage, start + hold, shared);
        }
        self.finish_batch_legs(thread, context);
    }

    /// Charges a batch whose thread has spun for a lock, and has it now, for holding the lock.
    pub(super) fn charge_lock_acquired(&mut self, granted: &LockGrant, shared: &mut Shared) {
        let batcher = &mut self.batchers[usize::from(granted.thread)];
        let BatchLeg::Locked { member, .. } = batcher.legs[batcher.place - 1] else {
            unreachable!("it spins for a lock")
        };
        batcher.charge_lock_hold(member, granted.stage, granted.until, shared);
    }

    /// Ends a piece of work whose legs have all been charged: rings the doorbells of a submission, and schedules the
    /// end of the work.
    fn finish_batch_legs(&mut self, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, driver, shared } = context;
        let drives = self.count_drives_of_batch(thread, shared);
        let this = &mut processors.threads[usize::from(thread)];
        let core = this.core;
        let batcher = &mut self.batchers[usize::from(thread)];
        if let (Way::Down, Some(last)) = (batcher.way, batcher.members.last()) {
            let request = &mut shared.requests[last.request];
            request.ledger.until(Stage::Batch, batcher.cursor);
            if batcher.poller.is_none() {
                ring(&mut self.posted, core, drives, driver, request);
            }
            batcher.cursor = request.ledger.cursor();
            for member in &mut batcher.members {
                member.end = batcher.cursor;
                let ledger = &mut shared.requests[member.request].ledger;
                ledger.until(Stage::Batch, batcher.cursor);
                if batcher.poller.is_none() {
                    ledger.set_stretch_factor(0);
                }
            }
        }
        let (from, end) = (batcher.from, batcher.cursor);
        (this.work, this.work_end) = (Work::Together, end);
        processors.occupy(core, from, end);
        shared.scheduler.at(end, Event::WorkDone(thread));
    }

    /// Returns the number of drives that the requests of a thread's batch are for; each of them needs its own doorbell.
    pub(super) fn count_drives_of_batch(&self, thread: u16, shared: &Shared) -> u32 {
        if self.drive.drives == 1 {
            return 1;
        }
        let members = &self.batchers[usize::from(thread)].members;
        let drives = members.iter().map(|member| shared.requests[member.request].drive);
        drives.fold(0_u64, |told, drive| told | 1 << drive).count_ones()
    }

    /// Returns the processor time, from `now` on, for telling `drives` drives how far their completion queues have been
    /// consumed.
    pub(super) fn completion_doorbell_time(&mut self, now: Time, core: usize, drives: u32, driver: &AnyDriver) -> Span {
        let each = driver.acknowledge_work();
        let Some(posted) = self.posted.as_mut().filter(|_| !each.is_zero()) else { return each * u64::from(drives) };
        let tell = |at: Time, _| at + each + posted.write(at + each, core);
        (0..drives).fold(now, tell).since(now)
    }

    /// Ends a piece of work on a batch: notes that its requests are submitted, or frees their slots. Returns the
    /// direction in which they go.
    #[inline(never)]
    pub(super) fn end_batch_work(
        &mut self,
        now: Time,
        thread: u16,
        processors: &mut Processors,
        shared: &mut Shared,
    ) -> Way {
        let batcher = &self.batchers[usize::from(thread)];
        match batcher.way {
            Way::Down => {
                for member in &batcher.members {
                    shared.requests[member.request].submitted = now;
                }
            }
            Way::Up => processors.threads[usize::from(thread)].outstanding -= short_length(batcher.members.len()),
        }
        batcher.way
    }

    /// Makes a thread with nothing to do wait for completions. Charges its core first for the system call that waits,
    /// once for each wait.
    fn enter_wait_call(&mut self, now: Time, thread: u16, processors: &mut Processors, shared: &mut Shared) {
        let this = &processors.threads[usize::from(thread)];
        let (core, outstanding) = (this.core, this.outstanding);
        let batcher = &mut self.batchers[usize::from(thread)];
        let wait = batcher.software.empty_poll_time();
        if outstanding > 0 && !std::mem::replace(&mut batcher.has_waited, true) && !wait.is_zero() {
            let core = &mut processors.cores[core];
            core.free_at = core.free_at.max(now) + wait;
            processors.used.working += wait;
        }
        processors.wait(now, thread, shared);
    }

    /// Lets an interrupt handler that runs on another processor than a request's thread do the kernel's part of the
    /// completion there. Threads that share a queue pair all have it done by one processor.
    fn complete_in_handler(&mut self, now: Time, thread: u16, request: RequestId, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let batcher = &self.batchers[usize::from(thread)];
        let Some(core) = processors.handler_core.filter(|_| batcher.is_handled_elsewhere) else { return };
        let costs = batcher.software.up.kernel.iter().filter(|cost| cost.in_handler);
        let time = costs.map(|cost| cost.alone(&shared.requests[request].io)).sum();
        let run = processors.run_interrupt_handler(now, core, time, shared);
        self.on_handler(&run, shared);
        shared.requests.charge(Some(request), Stage::Interrupt, run.end());
    }

    /// Tells a thread of a completion. The thread continues, or is woken, once it has as many completions as it needs.
    #[inline(never)]
    pub(super) fn on_completed(&mut self, now: Time, thread: u16, request: RequestId, context: &mut HostContext<'_>) {
        self.complete_in_handler(now, thread, request, context);
        let HostContext { processors, shared, .. } = context;
        let this = &mut processors.threads[usize::from(thread)];
        let wanted = self.batchers[usize::from(thread)].completions_needed(this.outstanding);
        if this.done.len() < wanted {
            return;
        }
        match (processors.handler_core, this.state) {
            (Some(_), State::Away) if !processors.wake.is_zero() && (this.queued || this.woken) => {}
            (Some(core), State::Away) if !processors.wake.is_zero() => {
                this.woken = true;
                let run = processors.run_interrupt_handler(now, core, processors.wake, shared);
                self.on_handler(&run, shared);
                shared.requests.charge(Some(request), Stage::Interrupt, run.end());
                shared.scheduler.at(run.end(), Event::Thread(thread));
            }
            _ if processors.notify_thread(now, thread, shared) => self.step(now, thread, context),
            _ => {}
        }
    }
}
