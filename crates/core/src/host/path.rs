//! Requests on their way through software in which cores contend.
//!
//! A thread advances its request until it meets a shared line, a lock or a hand-over. There it stops, and an event at
//! that very instant resumes it, so that contending threads are served in the order of time. Time that a request waits is charged to the
//! stage in which it waits. Spinning keeps the core; a request that waits for a mutex or for the kernel's worker leaves
//! its thread free.

use super::blocking::Blocking;
use super::locks::LockSpinner;
use super::processors::{HostContext, Processors};
use super::stack::{Path, StackStep, Way};
use super::thread::{State, Thread, Work};
use crate::ledger::Stage;
use crate::protocol::halves::Driver as _;
use crate::request::RequestId;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

/// Request that sleeps for a lock, with the thread that will continue it and its stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockSleeper {
    thread: u16,
    path: Path,
    stage: Stage,
}

impl Processors {
    /// Starts a thread on its request's path through the software, at `from` at the earliest.
    // Not inlined: few hosts have stages in which cores contend.
    #[inline(never)]
    pub(super) fn start_stack_path(&mut self, from: Time, thread: u16, path: Path, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        this.napped = false;
        this.work = Work::Path(path);
        shared.scheduler.at(from, Event::Path(thread));
    }

    /// Frees a thread for other work while its request waits for a lock or for another thread.
    fn release_thread(&mut self, at: Time, thread: u16, shared: &mut Shared) {
        self.threads[usize::from(thread)].work = Work::None;
        shared.scheduler.at(at, Event::Thread(thread));
    }
}

impl Blocking {
    /// Resumes a request that has waited for this thread. Returns false if there is none.
    #[inline(never)]
    pub(super) fn resume(&mut self, now: Time, thread: u16, processors: &mut Processors, shared: &mut Shared) -> bool {
        let Some(path) = processors.threads[usize::from(thread)].resumed.pop_front() else { return false };
        let ledger = &mut shared.requests[path.request].ledger;
        let from = processors.thread_processor_free_at(now.max(ledger.cursor()), thread);
        ledger.until(Stage::CoreWait, from);
        processors.start_stack_path(from, thread, path, shared);
        true
    }

    /// Takes a thread's request along its path through the software, from `now` until it has to stop.
    #[inline(never)]
    pub(super) fn on_path(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let this = &processors.threads[usize::from(thread)];
        let Work::Path(mut path) = this.work else { unreachable!("only a thread with a request takes it on") };
        let core = this.core;
        let free_at = processors.cores[core].free_at;
        if free_at > now {
            // An interrupt handler has used the core meanwhile, so the path continues after it.
            shared.requests[path.request].ledger.until(Stage::CoreWait, free_at);
            return shared.scheduler.at(free_at, Event::Path(thread));
        }
        loop {
            let ledger = &mut context.shared.requests[path.request].ledger;
            let Some(step) = self.stack.advance(&mut path, ledger) else {
                return self.finish(now, thread, path, context);
            };
            let reached = ledger.cursor();
            if reached > now {
                context.processors.threads[usize::from(thread)].work = Work::Path(path);
                context.processors.occupy(core, now, reached);
                return context.shared.scheduler.at(reached, Event::Path(thread));
            }
            path.place += 1;
            if !self.take_contended_step(now, thread, path, step, context) {
                return;
            }
        }
    }

    /// Processes a step at which cores contend. Returns false if the request has to stop there. `path` stands behind
    /// the step.
    fn take_contended_step(
        &mut self,
        now: Time,
        thread: u16,
        path: Path,
        step: StackStep,
        context: &mut HostContext<'_>,
    ) -> bool {
        let HostContext { processors, shared, .. } = context;
        let core = processors.threads[usize::from(thread)].core;
        let distances = &processors.distances;
        let ledger = &mut shared.requests[path.request].ledger;
        match step {
            StackStep::Run { stage, time } => ledger.spend(stage, time),
            StackStep::Line { stage, line } => ledger.until(stage, self.lines[line].write(now, core, distances)),
            StackStep::Spin { stage, lock, hold, lines } => {
                let spin_lock = &mut processors.spin_locks[lock];
                let held = hold + spin_lock.lock_line_fetch_time(core, lines, distances);
                let Some(start) = spin_lock.take(now, core, held, distances) else {
                    let spinner = LockSpinner { thread, core, hold, lines, stage };
                    processors.spin(now, lock, spinner, Work::Path(path), shared);
                    return false;
                };
                ledger.until(stage, start + held);
                processors.cores[core].mask(start + held);
            }
            StackStep::Take { stage, lock } => {
                let lock = &mut self.request_locks[lock];
                let Some(start) = lock.take(now, core, distances) else {
                    lock.add_waiter(LockSleeper { thread, path, stage });
                    processors.release_thread(now, thread, shared);
                    return false;
                };
                ledger.until(stage, start);
            }
            StackStep::Release { stage, lock } => self.release_request_lock(now, lock, stage, path.request, context),
            StackStep::HandOver { stage } => {
                self.hand_over(now, thread, path, stage, context);
                return false;
            }
        }
        true
    }

    /// Ends a request's path through the software, down at the driver or up at the application, and schedules the end
    /// of the thread's work.
    fn finish(&mut self, now: Time, thread: u16, path: Path, context: &mut HostContext<'_>) {
        let HostContext { processors, driver, shared } = context;
        let request = &mut shared.requests[path.request];
        let work = match path.way {
            Way::Down => {
                self.stack.copy(&path, request.io.bytes, &mut request.ledger);
                driver.submit_work(&request.io, request.thread, &mut request.ledger);
                request.ledger.set_stretch_factor(0);
                Work::Submit(path.request)
            }
            Way::Up => Work::Complete(path.request),
        };
        let end = request.ledger.cursor();
        let this = &mut processors.threads[usize::from(thread)];
        (this.work, this.work_end) = (work, end);
        let core = this.core;
        let beside = if path.way == Way::Down { driver.overlapped_work(&request.io) } else { Span::ZERO };
        processors.occupy(core, now, end);
        processors.cores[core].free_at += beside;
        processors.used.working += beside;
        shared.scheduler.at(end, Event::WorkDone(thread));
    }

    /// Releases a lock that a request has held, and wakes the thread of the first request that waits for it.
    fn release_request_lock(
        &mut self,
        now: Time,
        lock: usize,
        stage: Stage,
        request: RequestId,
        context: &mut HostContext<'_>,
    ) {
        let HostContext { processors, shared, .. } = context;
        let Some(parked) = self.request_locks[lock].release() else { return };
        let next = &mut processors.threads[usize::from(parked.thread)];
        next.resumed.push_back(parked.path);
        let wake = if next.state == State::Away { processors.wake } else { Span::ZERO };
        shared.requests[request].ledger.spend(stage, wake);
        shared.requests[parked.path.request].ledger.until(parked.stage, now + wake);
        if next.state != State::Busy {
            shared.scheduler.at(now + wake, Event::Thread(parked.thread));
        }
    }

    /// Hands a request over to the kernel's worker of this core, as the work queues of Linux do (kblockd had a thread
    /// for each processor). Wakes the worker if it sleeps.
    fn hand_over(&mut self, now: Time, thread: u16, path: Path, stage: Stage, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let core = processors.threads[usize::from(thread)].core;
        let number = self.worker(core, processors);
        let worker = &mut processors.threads[usize::from(number)];
        worker.resumed.push_back(path);
        let sleeps = worker.state == State::Away && !worker.queued && !worker.woken;
        let wake = if sleeps { processors.wake } else { Span::ZERO };
        shared.requests[path.request].ledger.spend(stage, wake);
        if sleeps {
            worker.woken = true;
            shared.scheduler.at(now + wake, Event::Thread(number));
        }
        processors.occupy(core, now, now + wake);
        processors.release_thread(now + wake, thread, shared);
    }

    /// Returns the number of the kernel worker of a core, which is created when it is first needed.
    fn worker(&mut self, core: usize, processors: &mut Processors) -> u16 {
        self.workers.resize(processors.cores.len(), None);
        *self.workers[core].get_or_insert_with(|| {
            processors.has_workers = true;
            processors.threads.push(Thread { core, is_worker: true, wait: processors.wait, ..Thread::default() });
            processors.threads.len() as u16 - 1
        })
    }
}
