//! The host: threads on cores, the software that they run for each request, and how they wait.
//!
//! Software that no core contends for is one piece of work a request; where cores contend (locks.rs), a request takes its
//! path from one such place to the next (path.rs). Interrupts come in between (interrupts.rs). How threads wait, and whose
//! turn it is, is in waiting.rs.

mod batch;
mod idle;
mod interrupts;
pub mod locks;
mod pace;
mod path;
mod poller;
mod posted;
pub mod software;
pub mod stack;
mod waiting;

use crate::drive::Drive;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::Wait;
use crate::ledger::{CpuUse, Stage};
use crate::protocol::dispatch::AnyDriver;
use crate::protocol::halves::Driver as _;
use crate::request::{Io, Next, Op, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::Job;
use crate::workload::generator::Generator;
use batch::Batcher;
pub use batch::Member;
use idle::{Governor, Idles};
use locks::Distances;
use pace::Pace;
use path::Contention;
use poller::Polled;
use posted::Posted;
use stack::{Path, Stack, Way};

/// What a thread is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Running a piece of work, or being switched to.
    Busy,
    /// On its core with nothing to do but look for a completion or wait for the next request.
    Watching,
    /// Off its core.
    #[default]
    Away,
    /// Its requests are done.
    Finished,
}

/// A piece of work under way.
#[derive(Clone, Copy, Debug, Default)]
enum Work {
    #[default]
    None,
    /// Take a request through software that cores contend for.
    Path(Path),
    Submit(RequestId),
    Complete(RequestId),
    /// Complete one request by the given instant, and go on to submit another.
    CompleteAndSubmit(RequestId, Time, RequestId),
    /// Take a batch through software that cores contend for.
    Legs,
    /// Submit or collect a batch.
    Together,
}

/// What a thread has just finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Not yet: handlers have come in between.
    Later(Time),
    /// The request goes to the driver.
    Submitted(RequestId),
    /// The application has its result.
    Completed(RequestId),
    /// It had one result at the given instant, and its next request goes to the driver.
    CompletedAndSubmitted(RequestId, Time, RequestId),
    /// The requests of a batch go to the driver ([`Host::take_members`]).
    SubmittedTogether,
    /// They are in the ring that a poll thread looks into.
    LeftToPoller,
    /// Those of a batch have their results.
    CompletedTogether,
}

/// A thread of the workload, or of the kernel.
#[derive(Clone, Debug, Default)]
struct Thread {
    core: usize,
    iodepth: u32,
    /// Size of the request that it has issued to the device last (none while it has the next one under way, or has left
    /// it to a kernel thread), and up to which size it spins in the driver.
    issued_bytes: u32,
    spin_up_to_bytes: u32,
    generator: Option<Generator>,
    /// The next request, once drawn, and the last instant for which the thread has set its alarm.
    next: Option<Next>,
    alarm_at: Time,
    /// Requests that arrive from outside the simulation.
    external: VecDeque<Next>,
    /// What their senders call them: those of `external`, and before them that of `next`.
    tokens: VecDeque<u32>,
    outstanding: u32,
    /// It waits for a flush, as a system call does.
    is_flushing: bool,
    /// Requests that have waited for a lock or for this thread, and can go on.
    resumed: VecDeque<Path>,
    /// Its engine, on a stack whose engines differ, and the batch under way.
    batcher: Option<Box<Batcher>>,
    done: VecDeque<RequestId>,
    state: State,
    work: Work,
    /// When its piece of work is over, unless another handler comes in between.
    work_end: Time,
    watching_since: Time,
    /// How long its core had run handlers by then.
    handlers_before: Span,
    /// Sleeping until then, whatever completes (hybrid waiting).
    asleep_until: Option<Time>,
    /// Whether it has slept for the present wait (hybrid waiting).
    napped: bool,
    queued: bool,
    /// Mean time from submission to visibility, for hybrid waiting.
    latency_mean: Span,
    /// Whether it is a kernel thread, and on its way to a core.
    is_worker: bool,
    woken: bool,
}

/// A core, and whose turn it is on it.
#[derive(Clone, Debug, Default)]
struct Core {
    free_at: Time,
    /// Until when it takes no interrupt: it runs a handler, switches threads, or holds a spinlock.
    masked_until: Time,
    /// How long it has run interrupt handlers.
    handlers: Span,
    current: Option<u16>,
    /// Until when a thread that spins in its driver may keep others waiting.
    slice_end: Time,
    ready: VecDeque<u16>,
    /// A poll thread of the kernel runs on it, and how long that has worked and slept.
    polls: bool,
    polled: Polled,
    idles: Idles,
}

impl Thread {
    /// Whether it spins for a request, on a host where others sleep.
    fn spins_in_driver(&self) -> bool {
        (1..=self.spin_up_to_bytes).contains(&self.issued_bytes) && self.outstanding > 0
    }

    /// It issues a request: a flush is a system call, for which the thread waits, except into a ring.
    fn on_issue(&mut self, io: &Io) {
        self.outstanding += 1;
        self.is_flushing = io.op == Op::Flush && self.batcher.as_ref().is_none_or(|batcher| !batcher.flushes_beside());
    }

    /// A request has taken so long, and the next ones are expected to take about as long.
    #[inline(never)]
    fn expect(&mut self, latency: Span) {
        self.latency_mean = match self.latency_mean.is_zero() {
            true => latency,
            false => (self.latency_mean * 7 + latency) / 8,
        };
    }

    /// It takes up the completion of a request.
    fn on_taken(&mut self, io: &Io) {
        self.is_flushing &= io.op != Op::Flush;
    }
}

/// All cores and threads of the workload.
#[derive(Clone, Debug)]
pub struct Host {
    threads: Vec<Thread>,
    /// Threads that have not finished.
    unfinished: usize,
    /// By processor: the first threads of all cores, then the second ones.
    cores: Vec<Core>,
    /// How many cores there are.
    core_count: usize,
    pace: Pace,
    is_even: bool,
    /// When the piece of work that is being planned begins.
    piece_from: Time,
    stack: Stack,
    contention: Contention,
    distances: Distances,
    /// The kernel's threads that take requests on, by core.
    workers: Vec<Option<u16>>,
    wait: Wait,
    hybrid_sleep_ratio: f64,
    poll: Span,
    context_switch: Span,
    deactivate: Span,
    reactivate: Span,
    interrupt: Span,
    governor: Governor,
    interrupt_handler: Span,
    interrupt_cores: usize,
    wake: Span,
    time_slice: Span,
    spin_up_to_bytes: u32,
    /// Core whose handler is looking for completions.
    handler_core: Option<usize>,
    /// The drive, if its threads choose among engines.
    ways: Option<Arc<Drive>>,
    /// How many drives there are, and the vectors of each.
    drives: u16,
    vectors: usize,
    /// Register writes that can fill up, where engines differ.
    posted: Option<Posted>,
    /// The core that handles each vector of a drive, where that is the core of its thread.
    vector_cores: Vec<usize>,
    /// Vectors whose handler has yet to run.
    pending: Vec<bool>,
    used: CpuUse,
}

impl Host {
    /// The host of this drive, without threads.
    pub fn new(drive: &Drive, seed: u64) -> Host {
        let config = &drive.host;
        let ratio = config.cost_ratio();
        let stack = Stack::new(&drive.stages(), &drive.stack, drive.software_ratio());
        let interrupt_cores = match config.interrupt_cores {
            0 => config.processors(),
            cores => cores.min(config.processors()),
        };
        let pace = Pace::new(config, seed);
        Host {
            threads: Vec::new(),
            unfinished: 0,
            cores: vec![Core::default(); config.processors().into()],
            core_count: config.cores.into(),
            is_even: pace.is_even(),
            pace,
            piece_from: Time::ZERO,
            contention: Contention::new(&stack, software::locks(&drive.stack).len()),
            ways: drive.stack.has_engines().then(|| Arc::new(drive.clone())),
            vector_cores: Vec::new(),
            drives: drive.drives,
            vectors: drive.limits().queue_pairs.max(1) as usize,
            posted: Posted::of(config).filter(|_| drive.stack.has_engines()),
            distances: Distances::new(config),
            stack,
            workers: Vec::new(),
            // Engines say themselves who looks for completions; what remains is whether those nap.
            wait: match config.wait {
                Wait::Spin if drive.stack.has_engines() => Wait::Sleep,
                wait => wait,
            },
            hybrid_sleep_ratio: config.hybrid_sleep_ratio,
            poll: drive.protocol().poll(drive).scale(config.clock_ratio()),
            context_switch: config.context_switch.scale(ratio),
            deactivate: config.deactivate().scale(ratio),
            reactivate: config.reactivate().scale(ratio),
            interrupt: config.interrupt.scale(config.clock_ratio()),
            governor: Governor::new(config),
            interrupt_handler: config.interrupt_handler.scale(ratio),
            interrupt_cores: interrupt_cores.into(),
            wake: config.wake.scale(ratio),
            time_slice: config.time_slice,
            spin_up_to_bytes: drive.protocol().spin_up_to_bytes(),
            handler_core: None,
            pending: Vec::new(),
            used: CpuUse { cores: config.processors(), ..CpuUse::default() },
        }
    }

    /// Add a thread that keeps up to `iodepth` requests outstanding; without a generator its requests come from outside.
    pub fn add_thread(&mut self, iodepth: u32, generator: Option<Generator>, job: Option<&Job>) -> u16 {
        let thread = self.threads.len() as u16;
        let batcher = self.ways.clone().map(|drive| Box::new(Batcher::of(&drive, iodepth, job)));
        // Without a generator there is nothing to do before the first request comes from outside.
        let state = if generator.is_some() { State::Away } else { State::Finished };
        self.unfinished += usize::from(state != State::Finished);
        self.threads.push(Thread {
            state,
            core: usize::from(thread) % self.cores.len(),
            iodepth,
            generator,
            spin_up_to_bytes: self.spin_up_to_bytes,
            batcher,
            ..Thread::default()
        });
        self.take_vector(thread);
        self.place_pollers();
        thread
    }

    /// Whether a thread looks for completions by itself, on a host where engines differ.
    pub fn looks(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].batcher.as_ref().is_some_and(|batcher| batcher.software.polls())
    }

    /// How many threads there are.
    pub fn threads(&self) -> u16 {
        self.threads.len() as u16
    }

    /// Whether every thread has done all its requests.
    pub fn finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Use of the cores up to `now`.
    pub fn used(&self, now: Time) -> CpuUse {
        let mut used = self.used;
        for thread in self.threads.iter().filter(|thread| thread.state == State::Watching) {
            used.spinning += self.spun(now, thread);
        }
        used.spinning += self.polled(now);
        used
    }

    /// A request from outside, for a thread without a generator.
    pub fn inject(&mut self, now: Time, thread: u16, io: Io, token: u32, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        this.external.push_back(Next { io, due: now, drive: 0 });
        this.tokens.push_back(token);
        if this.state == State::Finished {
            this.state = State::Away;
            self.unfinished += 1;
        }
        self.rouse(now, thread, driver, shared);
    }

    /// A thread looks for something to do: at the start, when its next request is due, after a hybrid sleep, and when
    /// a context switch is over.
    pub fn on_thread(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        if this.asleep_until.is_some_and(|until| until > now) {
            return;
        }
        this.asleep_until = None;
        let free_at = self.cores[this.core].free_at;
        match this.state {
            // Still being switched to, or behind an interrupt handler.
            State::Busy if matches!(this.work, Work::None) && free_at > now => {
                shared.scheduler.at(free_at, Event::Thread(thread))
            }
            State::Busy if matches!(this.work, Work::None) => self.step(now, thread, driver, shared),
            State::Busy | State::Finished => {}
            State::Watching | State::Away => self.rouse(now, thread, driver, shared),
        }
    }

    /// A request's completion can be seen by the host.
    #[inline(always)]
    pub fn on_completed(&mut self, now: Time, request: RequestId, driver: &AnyDriver, shared: &mut Shared) {
        let Request { thread, submitted, .. } = shared.requests[request];
        if self.ways.is_some() && self.has_poller(thread) {
            return self.answer_by_poller(now, thread, request, driver, shared);
        }
        shared.requests[request].visible = now;
        let this = &mut self.threads[usize::from(thread)];
        this.done.push_back(request);
        if self.wait == Wait::Hybrid {
            this.expect(now.since(submitted));
        }
        if this.asleep_until.is_some() {
            return;
        }
        if this.batcher.is_some() {
            return self.on_completed_together(now, thread, request, driver, shared);
        }
        match (self.handler_core, this.state) {
            (Some(core), State::Away) if !self.wake.is_zero() && !this.queued && this.done.len() == 1 => {
                let woken = self.run_handler(now, core, self.wake, shared);
                shared.requests.charge(Some(request), Stage::Interrupt, woken);
                shared.scheduler.at(woken, Event::Thread(thread));
            }
            _ => self.rouse(now, thread, driver, shared),
        }
    }

    /// A thread's piece of work is over; the caller acts on it, and then calls [`step`](Self::step).
    #[inline(always)]
    pub fn on_work_done(&mut self, now: Time, thread: u16, shared: &mut Shared) -> Done {
        let this = &mut self.threads[usize::from(thread)];
        if this.work_end > now {
            return Done::Later(this.work_end);
        }
        match std::mem::replace(&mut this.work, Work::None) {
            Work::Submit(request) => {
                this.issued_bytes = shared.requests[request].io.bytes;
                shared.requests[request].submitted = now;
                Done::Submitted(request)
            }
            Work::Complete(request) => {
                this.outstanding -= 1;
                Done::Completed(request)
            }
            Work::CompleteAndSubmit(completed, at, submitted) => {
                this.outstanding -= 1;
                this.issued_bytes = shared.requests[submitted].io.bytes;
                shared.requests[submitted].submitted = now;
                Done::CompletedAndSubmitted(completed, at, submitted)
            }
            Work::Together => match self.end_together(now, thread, shared) {
                Way::Down if self.has_poller(thread) => Done::LeftToPoller,
                Way::Down => Done::SubmittedTogether,
                Way::Up => Done::CompletedTogether,
            },
            Work::None | Work::Path(_) | Work::Legs => unreachable!("a thread has finished what it has not done"),
        }
    }

    /// A thread that holds its core takes up the next thing to do: requests that can go on, then it fills its slots, as
    /// fio does, and then looks for completions.
    pub fn step(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        if self.ways.is_some() {
            return self.step_together(now, thread, driver, shared);
        }
        if self.stack.contended() && self.resume(now, thread, shared) {
            return;
        }
        if let Some(next) = self.next_request(now, thread, 0) {
            return self.submit(now, thread, next, driver, shared);
        }
        if let Some(request) = self.threads[usize::from(thread)].done.pop_front() {
            return self.complete(now, thread, request, driver, shared);
        }
        self.set_alarm(thread, shared);
        self.wait(now, thread, shared);
    }

    /// Let a thread hear of its next request when that is due. One alarm for each instant: every other would set one again
    /// for the next.
    fn set_alarm(&mut self, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        if let Some(next) = this.next.filter(|next| next.due != this.alarm_at) {
            this.alarm_at = next.due;
            shared.scheduler.at(next.due, Event::Thread(thread));
        }
    }

    /// The next request of a thread that has a slot for it, once `completing` more of its requests are done. One that is
    /// not due yet stays with the thread.
    #[inline(always)]
    fn next_request(&mut self, now: Time, thread: u16, completing: u32) -> Option<Next> {
        let this = &mut self.threads[usize::from(thread)];
        if this.outstanding - completing >= this.iodepth || this.is_flushing {
            return None;
        }
        let next = match (this.next, &mut this.generator) {
            (Some(next), _) => {
                this.next = None;
                next
            }
            (None, Some(generator)) => match generator.next(now) {
                Some(next) => next,
                None if this.outstanding == completing => generator.end(now)?,
                None => return None,
            },
            (None, None) => this.external.pop_front()?,
        };
        if next.due > now {
            this.next = Some(next);
            return None;
        }
        Some(next)
    }

    /// Start on a request: down the stack, and through the driver.
    #[inline(never)] // Most requests are started on when another is taken up.
    fn submit(&mut self, now: Time, thread: u16, next: Next, driver: &AnyDriver, shared: &mut Shared) {
        let begin = self.begin(now, thread);
        self.piece_from = begin;
        if self.stack.contended() {
            let path = self.issue(begin, thread, next, shared);
            return self.start_path(begin, thread, path, shared);
        }
        let (request, end) = self.descend(begin, thread, next, driver, shared);
        self.run(thread, Work::Submit(request), begin, end, driver.work_beside(&next.io), shared);
    }

    /// Take a request down to the driver: the request, and when it gets there.
    #[inline(always)]
    fn descend(
        &mut self,
        begin: Time,
        thread: u16,
        next: Next,
        driver: &AnyDriver,
        shared: &mut Shared,
    ) -> (RequestId, Time) {
        let mut path = self.issue(begin, thread, next, shared);
        let request = &mut shared.requests[path.request];
        let ledger = &mut request.ledger;
        self.stack.advance(&mut path, ledger);
        self.stack.copy(&path, next.io.bytes, ledger);
        driver.submit_work(&next.io, thread, &shared.memory, ledger);
        ledger.set_pace(0);
        let end = ledger.cursor();
        request.submitted = end;
        (path.request, end)
    }

    /// The application issues a request.
    #[inline(always)]
    fn issue(&mut self, begin: Time, thread: u16, next: Next, shared: &mut Shared) -> Path {
        shared.requests.issued += 1;
        let this = &mut self.threads[usize::from(thread)];
        this.issued_bytes = u32::MAX;
        this.on_issue(&next.io);
        let id = shared.requests.occupy();
        let number = shared.requests.issued;
        let request = &mut shared.requests[id];
        request.open(number, next, begin, thread, this.tokens.pop_front());
        let ledger = &mut request.ledger;
        if shared.trace.is_on() {
            ledger.keep_steps();
        }
        ledger.until(Stage::Queued, begin);
        let processor = this.core;
        ledger.set_pace(self.draw_pace(self.piece_from, processor));
        Path { request: id, op: next.io.op, way: Way::Down, place: 0 }
    }

    /// Take up a completion: from the driver, and up the stack.
    fn complete(&mut self, now: Time, thread: u16, id: RequestId, driver: &AnyDriver, shared: &mut Shared) {
        let request = &mut shared.requests[id];
        self.threads[usize::from(thread)].on_taken(&request.io);
        // A thread that was looking for it takes a moment to see it; one that comes to it later finds it there, but not
        // before its waker has done with it.
        let seen = if request.visible == now { now + self.poll } else { now };
        let (now, seen) = (now.max(request.ledger.cursor()), seen.max(request.ledger.cursor()));
        let begin = self.begin(seen, thread);
        let ledger = &mut request.ledger;
        ledger.until(Stage::CoreWait, now);
        ledger.until(Stage::Poll, seen);
        ledger.until(Stage::CoreWait, begin);
        self.piece_from = begin;
        ledger.set_pace(self.draw_pace(begin, self.threads[usize::from(thread)].core));
        let mut path = Path { request: id, op: request.io.op, way: Way::Up, place: 0 };
        driver.complete_work(&request.io, ledger);
        self.stack.copy(&path, request.io.bytes, ledger);
        if self.stack.contended() {
            let ready = ledger.cursor();
            self.occupy(self.threads[usize::from(thread)].core, begin, ready);
            return self.start_path(ready, thread, path, shared);
        }
        self.stack.advance(&mut path, ledger);
        let end = ledger.cursor();
        // With the result in hand, the thread goes on to its next request before it looks for other completions.
        match self.next_request(end, thread, 1) {
            None => self.run(thread, Work::Complete(id), begin, end, Span::ZERO, shared),
            Some(next) => {
                let (request, submitted) = self.descend(end, thread, next, driver, shared);
                let work = Work::CompleteAndSubmit(id, end, request);
                self.run(thread, work, begin, submitted, driver.work_beside(&next.io), shared);
            }
        }
    }

    /// The pace of a piece of software that begins on this processor, 0 if all is always alike. It is slower if another
    /// thread of the core works; one that only waits leaves the core to it (`PAUSE`).
    #[inline(always)]
    fn draw_pace(&mut self, begin: Time, processor: usize) -> u32 {
        if self.is_even {
            return 0;
        }
        match self.cores.len() > self.core_count && self.sibling_works(begin, processor) {
            true => self.pace.draw_shared(),
            false => self.pace.draw(),
        }
    }

    /// Whether the other thread of a processor's core is at work then.
    #[inline(never)]
    fn sibling_works(&self, at: Time, processor: usize) -> bool {
        let beside = processor + self.core_count;
        let sibling = if beside < self.cores.len() { beside } else { beside - self.cores.len() };
        self.cores[sibling].free_at > at
    }

    /// When a thread's core is free for it, from `at` on.
    fn begin(&self, at: Time, thread: u16) -> Time {
        at.max(self.cores[self.threads[usize::from(thread)].core].free_at)
    }

    /// A thread is at work until `end`, and its core `beside` longer, while the request is on its way.
    #[inline(always)]
    fn run(&mut self, thread: u16, work: Work, begin: Time, end: Time, beside: Span, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        (this.work, this.work_end) = (work, end);
        this.napped = false;
        self.cores[this.core].free_at = end + beside;
        self.used.working += end.since(begin) + beside;
        shared.scheduler.at(end, Event::WorkDone(thread));
    }
}
