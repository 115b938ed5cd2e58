//! Requests on their way through software that cores contend for.
//!
//! A thread takes its request on until it meets a line, a lock or a hand-over. There it stops, and goes on at that very
//! instant: so those who contend come in order of time. What a request waits for is charged to the stage in which it
//! waits. Spinning keeps the core; a request that waits for a mutex or for the kernel's worker leaves its thread free.

use super::locks::{Line, RequestLock, SpinLock, Spinner};
use super::stack::{Path, Stack, Step, Way};
use super::{Host, State, Thread, Work};
use crate::ledger::Stage;
use crate::protocol::dispatch::AnyDriver;
use crate::protocol::halves::Driver as _;
use crate::request::RequestId;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

/// What the cores contend for.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    lines: Vec<Line>,
    pub spin_locks: Vec<SpinLock>,
    request_locks: Vec<RequestLock<Parked>>,
}

/// A request that sleeps for a lock, the thread that takes it on, and the stage that it is in.
#[derive(Clone, Copy, Debug)]
struct Parked {
    thread: u16,
    path: Path,
    stage: Stage,
}

impl Contention {
    /// The lines and locks of this stack, or the locks of one whose engines differ.
    pub(super) fn new(stack: &Stack, engine_locks: usize) -> Contention {
        Contention {
            lines: vec![Line::default(); stack.lines],
            spin_locks: vec![SpinLock::default(); stack.spin_locks.max(engine_locks)],
            request_locks: vec![RequestLock::default(); stack.request_locks],
        }
    }
}

impl Host {
    /// Let a thread take a request on, from `from` at the earliest.
    #[inline(never)] // Where cores contend, which they do on few hosts.
    pub(super) fn start_path(&mut self, from: Time, thread: u16, path: Path, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        this.napped = false;
        this.work = Work::Path(path);
        shared.scheduler.at(from, Event::Path(thread));
    }

    /// Take up a request that has waited for this thread, if there is one.
    #[inline(never)]
    pub(super) fn resume(&mut self, now: Time, thread: u16, shared: &mut Shared) -> bool {
        let Some(path) = self.threads[usize::from(thread)].resumed.pop_front() else { return false };
        let ledger = &mut shared.requests[path.request].ledger;
        let from = self.begin(now.max(ledger.cursor()), thread);
        ledger.until(Stage::CoreWait, from);
        self.start_path(from, thread, path, shared);
        true
    }

    /// A thread takes its request on along its path, from `now` until it has to stop.
    #[inline(never)]
    pub fn on_path(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &self.threads[usize::from(thread)];
        if matches!(this.work, Work::Legs) {
            return self.on_legs(now, thread, driver, shared);
        }
        let Work::Path(mut path) = this.work else { unreachable!("only a thread with a request takes it on") };
        let core = this.core;
        let free_at = self.cores[core].free_at;
        if free_at > now {
            // An interrupt handler has come in between.
            shared.requests[path.request].ledger.until(Stage::CoreWait, free_at);
            return shared.scheduler.at(free_at, Event::Path(thread));
        }
        loop {
            let ledger = &mut shared.requests[path.request].ledger;
            let Some(step) = self.stack.advance(&mut path, ledger) else {
                return self.finish(now, thread, path, driver, shared);
            };
            let reached = ledger.cursor();
            if reached > now {
                self.threads[usize::from(thread)].work = Work::Path(path);
                self.occupy(core, now, reached);
                return shared.scheduler.at(reached, Event::Path(thread));
            }
            path.place += 1;
            if !self.take_step(now, thread, path, step, shared) {
                return;
            }
        }
    }

    /// Take a step at which cores contend; false if the request has to stop for it. `path` stands behind the step.
    fn take_step(&mut self, now: Time, thread: u16, path: Path, step: Step, shared: &mut Shared) -> bool {
        let core = self.threads[usize::from(thread)].core;
        let ledger = &mut shared.requests[path.request].ledger;
        match step {
            Step::Run { stage, time } => ledger.spend(stage, time),
            Step::Line { stage, line } => {
                ledger.until(stage, self.contention.lines[line].write(now, core, &self.distances));
            }
            Step::Spin { stage, lock, hold, lines } => {
                let spin_lock = &mut self.contention.spin_locks[lock];
                let held = hold + spin_lock.fetch(core, lines, &self.distances);
                let Some(start) = spin_lock.take(now, core, held, &self.distances) else {
                    self.spin(now, lock, Spinner { thread, core, hold, lines, stage }, Work::Path(path), shared);
                    return false;
                };
                ledger.until(stage, start + held);
                self.cores[core].mask(start + held);
            }
            Step::Take { stage, lock } => {
                let lock = &mut self.contention.request_locks[lock];
                let Some(start) = lock.take(now, core, &self.distances) else {
                    lock.wait(Parked { thread, path, stage });
                    self.let_go(now, thread, shared);
                    return false;
                };
                ledger.until(stage, start);
            }
            Step::Release { stage, lock } => self.release_request_lock(now, lock, stage, path.request, shared),
            Step::HandOver { stage } => {
                self.hand_over(now, thread, path, stage, shared);
                return false;
            }
        }
        true
    }

    /// The end of a path: down to the driver, or up to the application.
    fn finish(&mut self, now: Time, thread: u16, path: Path, driver: &AnyDriver, shared: &mut Shared) {
        let request = &mut shared.requests[path.request];
        let work = match path.way {
            Way::Down => {
                self.stack.copy(&path, request.io.bytes, &mut request.ledger);
                driver.submit_work(&request.io, request.thread, &shared.memory, &mut request.ledger);
                request.ledger.set_pace(0);
                Work::Submit(path.request)
            }
            Way::Up => Work::Complete(path.request),
        };
        let end = request.ledger.cursor();
        let this = &mut self.threads[usize::from(thread)];
        (this.work, this.work_end) = (work, end);
        let core = this.core;
        let beside = if path.way == Way::Down { driver.work_beside(&request.io) } else { Span::ZERO };
        self.occupy(core, now, end);
        self.cores[core].free_at += beside;
        self.used.working += beside;
        shared.scheduler.at(end, Event::WorkDone(thread));
    }

    /// A core works for a request.
    pub(super) fn occupy(&mut self, core: usize, from: Time, to: Time) {
        self.cores[core].free_at = to;
        self.used.working += to.since(from);
    }

    /// Spin for a lock that somebody has.
    pub(super) fn spin(&mut self, now: Time, lock: usize, spinner: Spinner, work: Work, shared: &mut Shared) {
        self.watch(now, spinner.thread);
        let this = &mut self.threads[usize::from(spinner.thread)];
        this.state = State::Busy;
        this.work = work;
        if let Some(release) = self.contention.spin_locks[lock].wait(spinner) {
            shared.scheduler.at(release, Event::Release(lock as u16));
        }
    }

    /// A spinlock is released: the next in line has it, as soon as it has seen so and no interrupt handler keeps it.
    #[inline(never)]
    pub fn on_release(&mut self, now: Time, lock: u16, shared: &mut Shared) {
        let this = &mut self.contention.spin_locks[usize::from(lock)];
        let Some((next, seen)) = this.release(now, &self.distances) else { return };
        let Spinner { thread, core, hold, lines, stage } = next;
        let hold = hold + this.fetch(core, lines, &self.distances);
        let start = seen.max(self.cores[core].free_at);
        if let Some(next) = this.keep(start, core, hold) {
            shared.scheduler.at(next, Event::Release(lock));
        }
        self.count_spinning(start, thread);
        match self.threads[usize::from(thread)].work {
            Work::Path(path) => shared.requests[path.request].ledger.until(stage, start + hold),
            Work::Legs => self.pass_lock(thread, stage, start + hold, shared),
            _ => unreachable!("it spins for a request"),
        }
        self.occupy(core, start, start + hold);
        self.cores[core].mask(start + hold);
        shared.scheduler.at(start + hold, Event::Path(thread));
    }

    /// A thread's request waits for something else: the thread looks for other things to do.
    fn let_go(&mut self, at: Time, thread: u16, shared: &mut Shared) {
        self.threads[usize::from(thread)].work = Work::None;
        shared.scheduler.at(at, Event::Thread(thread));
    }

    /// A request gives a lock back, and wakes the thread of the first that waits for it.
    fn release_request_lock(&mut self, now: Time, lock: usize, stage: Stage, request: RequestId, shared: &mut Shared) {
        let Some(parked) = self.contention.request_locks[lock].release() else { return };
        let next = &mut self.threads[usize::from(parked.thread)];
        next.resumed.push_back(parked.path);
        let wake = if next.state == State::Away { self.wake } else { Span::ZERO };
        shared.requests[request].ledger.spend(stage, wake);
        shared.requests[parked.path.request].ledger.until(parked.stage, now + wake);
        if next.state != State::Busy {
            shared.scheduler.at(now + wake, Event::Thread(parked.thread));
        }
    }

    /// Leave a request to the kernel's worker of this core, as the work queues of Linux do (kblockd had a thread for each
    /// processor). One that sleeps is woken.
    fn hand_over(&mut self, now: Time, thread: u16, path: Path, stage: Stage, shared: &mut Shared) {
        let core = self.threads[usize::from(thread)].core;
        let number = self.worker(core);
        let worker = &mut self.threads[usize::from(number)];
        worker.resumed.push_back(path);
        let sleeps = worker.state == State::Away && !worker.queued && !worker.woken;
        let wake = if sleeps { self.wake } else { Span::ZERO };
        shared.requests[path.request].ledger.spend(stage, wake);
        if sleeps {
            worker.woken = true;
            shared.scheduler.at(now + wake, Event::Thread(number));
        }
        self.occupy(core, now, now + wake);
        self.let_go(now + wake, thread, shared);
    }

    /// The kernel thread that takes requests on for a core; there is one once it is needed.
    fn worker(&mut self, core: usize) -> u16 {
        let (workers, threads) = (&mut self.workers, &mut self.threads);
        workers.resize(self.cores.len(), None);
        *workers[core].get_or_insert_with(|| {
            threads.push(Thread { core, is_worker: true, ..Thread::default() });
            threads.len() as u16 - 1
        })
    }
}
