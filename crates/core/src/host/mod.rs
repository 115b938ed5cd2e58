//! The host: threads on cores, the software that they run for each request, and how they wait.
//!
//! Work on a core is not interrupted half-way: an interrupt handler runs at the next boundary between two pieces of
//! work, and delays what comes after it.

pub mod power;
pub mod root_complex;
pub mod stack;

use std::collections::VecDeque;

use crate::config::{self, Wait};
use crate::protocol::Driver;
use crate::report::stage::Ledger;
use crate::report::{CpuUse, Stage};
use crate::sink::{Event, Request, RequestId, Sink};
use crate::time::{Span, Time};
use crate::workload::generator::Generator;
use crate::workload::{Io, Next, Op};
use stack::Stack;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Running a piece of work, or being switched to.
    Busy,
    /// On its core with nothing to do but look for a completion or wait for the next request.
    Watching,
    /// Off its core.
    Away,
    /// Its requests are done.
    Finished,
}

/// A piece of work under way.
#[derive(Clone, Copy, Debug)]
enum Work {
    None,
    Submit(RequestId),
    Complete(RequestId),
    /// Complete one request by the given instant, and go on to submit another.
    CompleteAndSubmit(RequestId, Time, RequestId),
}

/// What a thread has just finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The request goes to the driver.
    Submitted(RequestId),
    /// The application has its result.
    Completed(RequestId),
    /// It had one result at the given instant, and its next request goes to the driver.
    CompletedAndSubmitted(RequestId, Time, RequestId),
}

/// A thread of the workload.
#[derive(Clone, Debug)]
struct Thread {
    core: usize,
    iodepth: u32,
    generator: Option<Generator>,
    /// The next request, once drawn, and the last instant for which the thread has set its alarm.
    next: Option<Next>,
    alarm_at: Time,
    /// Requests that arrive from outside the simulation.
    external: VecDeque<Next>,
    outstanding: u32,
    done: VecDeque<RequestId>,
    state: State,
    work: Work,
    watching_since: Time,
    /// Sleeping until then, whatever completes (hybrid waiting).
    asleep_until: Option<Time>,
    /// Whether it has slept for the present wait (hybrid waiting).
    napped: bool,
    queued: bool,
    /// Mean time from submission to visibility, for hybrid waiting.
    latency_mean: Span,
}

/// A core, and whose turn it is on it.
#[derive(Clone, Debug, Default)]
struct Core {
    free_at: Time,
    current: Option<u16>,
    ready: VecDeque<u16>,
}

/// All cores and threads of the workload.
#[derive(Clone, Debug)]
pub struct Host {
    threads: Vec<Thread>,
    /// Threads that have not finished.
    unfinished: usize,
    cores: Vec<Core>,
    stack: Stack,
    wait: Wait,
    hybrid_sleep_ratio: f64,
    poll: Span,
    context_switch: Span,
    interrupt: Span,
    interrupt_handler: Span,
    /// Vectors whose handler has yet to run.
    pending: Vec<bool>,
    used: CpuUse,
}

impl Host {
    /// The host of this drive, without threads.
    pub fn new(drive: &config::Drive) -> Host {
        let config = &drive.host;
        let ratio = config.nominal_ghz / config.core_ghz;
        Host {
            threads: Vec::new(),
            unfinished: 0,
            cores: vec![Core::default(); config.cores.into()],
            stack: Stack::new(&drive.stack, ratio),
            wait: config.wait,
            hybrid_sleep_ratio: config.hybrid_sleep_ratio,
            poll: config.poll.scale(ratio),
            context_switch: config.context_switch.scale(ratio),
            interrupt: config.interrupt.scale(ratio),
            interrupt_handler: config.interrupt_handler.scale(ratio),
            pending: Vec::new(),
            used: CpuUse { cores: config.cores, ..CpuUse::default() },
        }
    }

    /// Add a thread that keeps up to `iodepth` requests outstanding; without a generator its requests come from outside.
    pub fn add_thread(&mut self, iodepth: u32, generator: Option<Generator>) -> u16 {
        let thread = self.threads.len() as u16;
        self.unfinished += 1;
        self.threads.push(Thread {
            core: usize::from(thread) % self.cores.len(),
            iodepth,
            generator,
            next: None,
            alarm_at: Time::ZERO,
            external: VecDeque::new(),
            outstanding: 0,
            done: VecDeque::new(),
            state: State::Away,
            work: Work::None,
            watching_since: Time::ZERO,
            asleep_until: None,
            napped: false,
            queued: false,
            latency_mean: Span::ZERO,
        });
        thread
    }

    /// Whether every thread has done all its requests.
    pub fn finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Use of the cores up to `now`.
    pub fn used(&self, now: Time) -> CpuUse {
        let mut used = self.used;
        for thread in self.threads.iter().filter(|thread| thread.state == State::Watching) {
            used.spinning += now.since(thread.watching_since);
        }
        used
    }

    /// A request from outside, for a thread without a generator.
    pub fn inject(&mut self, now: Time, thread: u16, io: Io, driver: &Driver, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        this.external.push_back(Next { io, due: now });
        if this.state == State::Finished {
            this.state = State::Away;
            self.unfinished += 1;
        }
        self.rouse(now, thread, driver, sink);
    }

    /// A thread looks for something to do: at the start, when its next request is due, after a hybrid sleep, and when
    /// a context switch is over.
    pub fn on_thread(&mut self, now: Time, thread: u16, driver: &Driver, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        if this.asleep_until.is_some_and(|until| until > now) {
            return;
        }
        this.asleep_until = None;
        let free_at = self.cores[this.core].free_at;
        match this.state {
            // Still being switched to, or behind an interrupt handler.
            State::Busy if matches!(this.work, Work::None) && free_at > now => sink.at(free_at, Event::Thread(thread)),
            State::Busy if matches!(this.work, Work::None) => self.step(now, thread, driver, sink),
            State::Busy | State::Finished => {}
            State::Watching | State::Away => self.rouse(now, thread, driver, sink),
        }
    }

    /// A request's completion can be seen by the host.
    pub fn on_completed(&mut self, now: Time, request: RequestId, driver: &Driver, sink: &mut Sink) {
        let Request { thread, submitted, .. } = sink.requests[request as usize];
        sink.requests[request as usize].visible = now;
        let this = &mut self.threads[usize::from(thread)];
        this.done.push_back(request);
        let latency = now.since(submitted);
        this.latency_mean = match this.latency_mean.is_zero() {
            true => latency,
            false => (this.latency_mean * 7 + latency) / 8,
        };
        if this.asleep_until.is_none() {
            self.rouse(now, thread, driver, sink);
        }
    }

    /// An interrupt message has reached the root complex.
    pub fn on_message(&mut self, now: Time, vector: u16, sink: &mut Sink) {
        let place = usize::from(vector);
        if self.pending.len() <= place {
            self.pending.resize(place + 1, false);
        }
        // A host that looks by itself has the interrupt masked; one whose handler has yet to run will see this completion too.
        if self.wait != Wait::Sleep || std::mem::replace(&mut self.pending[place], true) {
            return;
        }
        sink.after(now, self.interrupt, Event::Interrupt { vector });
    }

    /// The interrupt has reached its core: the handler runs as soon as the core is between two pieces of work.
    pub fn on_interrupt(&mut self, now: Time, vector: u16, sink: &mut Sink) {
        let core = usize::from(vector) % self.cores.len();
        let core = &mut self.cores[core];
        core.free_at = core.free_at.max(now) + self.interrupt_handler;
        self.used.switching += self.interrupt_handler;
        self.used.interrupts += 1;
        sink.at(core.free_at, Event::Handled { vector });
    }

    /// The handler has run; the driver may look for completions.
    pub fn on_handled(&mut self, vector: u16) {
        self.pending[usize::from(vector)] = false;
    }

    /// A thread's piece of work is over; the caller acts on it, and then calls [`step`](Self::step).
    pub fn on_work_done(&mut self, now: Time, thread: u16, sink: &mut Sink) -> Done {
        let this = &mut self.threads[usize::from(thread)];
        match std::mem::replace(&mut this.work, Work::None) {
            Work::Submit(request) => {
                sink.requests[request as usize].submitted = now;
                Done::Submitted(request)
            }
            Work::Complete(request) => {
                this.outstanding -= 1;
                Done::Completed(request)
            }
            Work::CompleteAndSubmit(completed, at, submitted) => {
                this.outstanding -= 1;
                sink.requests[submitted as usize].submitted = now;
                Done::CompletedAndSubmitted(completed, at, submitted)
            }
            Work::None => unreachable!("a thread without work has finished some"),
        }
    }

    /// A thread that holds its core takes up the next thing to do: it fills its slots first, as fio does, and then
    /// looks for completions.
    pub fn step(&mut self, now: Time, thread: u16, driver: &Driver, sink: &mut Sink) {
        let next = self.next_request(now, thread, 0);
        if let Some(next) = next.filter(|next| next.due <= now) {
            return self.submit(now, thread, next, driver, sink);
        }
        if let Some(request) = self.threads[usize::from(thread)].done.pop_front() {
            return self.complete(now, thread, request, driver, sink);
        }
        let this = &mut self.threads[usize::from(thread)];
        // One alarm for each instant: every other would set one again for the next.
        if let Some(next) = next.filter(|next| next.due != this.alarm_at) {
            this.alarm_at = next.due;
            sink.at(next.due, Event::Thread(thread));
        }
        self.wait(now, thread, sink);
    }

    /// The next request of a thread that has a slot for it, once `completing` more of its requests are done.
    fn next_request(&mut self, now: Time, thread: u16, completing: u32) -> Option<Next> {
        let this = &mut self.threads[usize::from(thread)];
        if this.outstanding - completing >= this.iodepth {
            return None;
        }
        if this.next.is_none() {
            this.next = match &mut this.generator {
                Some(generator) => generator.next(now),
                None => this.external.pop_front(),
            };
        }
        this.next
    }

    /// Start on a request: down the stack, and through the driver.
    fn submit(&mut self, now: Time, thread: u16, next: Next, driver: &Driver, sink: &mut Sink) {
        let begin = self.begin(now, thread);
        let (request, end) = self.descend(begin, thread, next, driver, sink);
        self.run(thread, Work::Submit(request), begin, end, sink);
    }

    /// Walk a request down to the driver: the request, and when it gets there.
    fn descend(&mut self, begin: Time, thread: u16, next: Next, driver: &Driver, sink: &mut Sink) -> (RequestId, Time) {
        sink.issued += 1;
        let id = sink.requests.insert(Request {
            number: sink.issued,
            io: next.io,
            thread,
            buffer: 0,
            issued: begin,
            submitted: begin,
            visible: Time::NEVER,
            parent: None,
            parts_left: 0,
            ledger: Ledger::new(next.due),
        });
        let request = &mut sink.requests[id as usize];
        let ledger = &mut request.ledger;
        if sink.trace.is_on() {
            ledger.keep_steps();
        }
        ledger.until(Stage::Queued, begin);
        self.stack.submit(ledger);
        driver.submit_work(&next.io, thread, &sink.memory, ledger);
        let end = ledger.cursor();
        request.submitted = end;
        let this = &mut self.threads[usize::from(thread)];
        this.next = None;
        this.outstanding += 1;
        (id, end)
    }

    /// Take up a completion: from the driver, and up the stack.
    fn complete(&mut self, now: Time, thread: u16, id: RequestId, driver: &Driver, sink: &mut Sink) {
        let request = &mut sink.requests[id as usize];
        // A thread that was looking for it takes a moment to see it; one that comes to it later finds it there.
        let seen = if request.visible == now { now + self.poll } else { now };
        let begin = self.begin(seen, thread);
        let ledger = &mut request.ledger;
        ledger.until(Stage::CoreWait, now);
        ledger.until(Stage::Poll, seen);
        ledger.until(Stage::CoreWait, begin);
        driver.complete_work(&request.io, ledger);
        self.stack.complete(if request.io.op == Op::Read { request.io.bytes } else { 0 }, ledger);
        let end = ledger.cursor();
        // With the result in hand, the thread goes on to its next request before it looks for other completions.
        match self.next_request(end, thread, 1).filter(|next| next.due <= end) {
            None => self.run(thread, Work::Complete(id), begin, end, sink),
            Some(next) => {
                let (request, submitted) = self.descend(end, thread, next, driver, sink);
                self.run(thread, Work::CompleteAndSubmit(id, end, request), begin, submitted, sink);
            }
        }
    }

    /// When a thread's core is free for it, from `at` on.
    fn begin(&self, at: Time, thread: u16) -> Time {
        at.max(self.cores[self.threads[usize::from(thread)].core].free_at)
    }

    fn run(&mut self, thread: u16, work: Work, begin: Time, end: Time, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        this.work = work;
        this.napped = false;
        self.cores[this.core].free_at = end;
        self.used.working += end.since(begin);
        sink.at(end, Event::WorkDone(thread));
    }

    /// Nothing to do: watch, go to sleep, or leave for good.
    fn wait(&mut self, now: Time, thread: u16, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        let finished = this.next.is_none() && this.external.is_empty() && this.outstanding == 0;
        if finished {
            this.state = State::Finished;
            self.unfinished -= 1;
            return self.leave(now, thread, sink);
        }
        let others = !self.cores[this.core].ready.is_empty();
        match self.wait {
            Wait::Spin if !others => {
                this.state = State::Watching;
                this.watching_since = now;
            }
            Wait::Hybrid if !others && this.outstanding > 0 => self.wait_hybrid(now, thread, sink),
            _ => {
                this.state = State::Away;
                self.leave(now, thread, sink);
            }
        }
    }

    /// Sleep for a share of the expected time, then watch.
    fn wait_hybrid(&mut self, now: Time, thread: u16, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        let nap = this.latency_mean.scale(self.hybrid_sleep_ratio);
        // A nap shorter than the switches away and back would not let the core go at all.
        if this.napped || nap < self.context_switch * 2 {
            this.state = State::Watching;
            this.watching_since = now;
            return;
        }
        this.napped = true;
        this.state = State::Away;
        this.asleep_until = Some(now + nap);
        sink.after(now, nap, Event::Thread(thread));
        self.leave(now, thread, sink);
    }

    /// Give the core to the next thread that is ready for it.
    fn leave(&mut self, now: Time, thread: u16, sink: &mut Sink) {
        let core = self.threads[usize::from(thread)].core;
        let core = &mut self.cores[core];
        core.current = None;
        if self.wait != Wait::Spin {
            // Switching away takes the core, but not this thread's time.
            core.free_at = core.free_at.max(now) + self.context_switch;
            self.used.switching += self.context_switch;
            self.used.context_switches += 1;
        }
        let core = self.threads[usize::from(thread)].core;
        self.dispatch(now, core, sink);
    }

    /// A thread has something to do: at once if it holds its core, when its turn comes otherwise.
    fn rouse(&mut self, now: Time, thread: u16, driver: &Driver, sink: &mut Sink) {
        let this = &mut self.threads[usize::from(thread)];
        match this.state {
            State::Busy => {}
            State::Watching => {
                this.state = State::Busy;
                self.used.spinning += now.since(this.watching_since);
                self.step(now, thread, driver, sink);
            }
            State::Away | State::Finished => {
                let core = this.core;
                if !std::mem::replace(&mut this.queued, true) {
                    self.cores[core].ready.push_back(thread);
                }
                self.dispatch(now, core, sink);
            }
        }
    }

    /// Switch a core that nobody needs to the next thread in line.
    fn dispatch(&mut self, now: Time, place: usize, sink: &mut Sink) {
        if let Some(current) = self.cores[place].current {
            let holder = &mut self.threads[usize::from(current)];
            if holder.state != State::Watching || self.cores[place].ready.is_empty() {
                return;
            }
            holder.state = State::Away;
            self.used.spinning += now.since(holder.watching_since);
        }
        let core = &mut self.cores[place];
        let Some(thread) = core.ready.pop_front() else { return };
        let others = self.threads.len() > self.cores.len();
        let core = &mut self.cores[place];
        let switch = if self.wait == Wait::Spin && !others { Span::ZERO } else { self.context_switch };
        let from = core.free_at.max(now);
        core.free_at = from + switch;
        core.current = Some(thread);
        if !switch.is_zero() {
            self.used.switching += switch;
            self.used.context_switches += 1;
        }
        let this = &mut self.threads[usize::from(thread)];
        this.queued = false;
        this.state = State::Busy;
        if let Some(&request) = this.done.front() {
            let ledger = &mut sink.requests[request as usize].ledger;
            ledger.until(Stage::CoreWait, from);
            ledger.until(Stage::ContextSwitch, from + switch);
        }
        sink.at(from + switch, Event::Thread(thread));
    }
}
