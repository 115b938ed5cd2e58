//! Submission of one request at a time: a thread takes each request down the software stack by itself, as a system call
//! does, and handles each completion by itself.
//!
//! Where cores do not contend, the software of a request is one piece of work. Where they do (`locks.rs`), a request
//! goes from one such place to the next (`path.rs`).

use super::locks::{SharedCacheLine, SleepingLock};
use super::path::LockSleeper;
use super::processors::{HostContext, Processors};
use super::stack::{Path, Stack, Way};
use super::thread::{ScheduledWork, State, Thread, Work};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::protocol::halves::Driver as _;
use crate::request::{NextRequest, RequestId};
use crate::scheduler::Event;
use crate::time::{Span, Time};

/// Software stack through which requests go one at a time, with the cache lines, locks and kernel workers that cores
/// share.
#[derive(Clone, Debug)]
pub(super) struct Blocking {
    pub(super) stack: Stack,
    /// Cache lines that several cores write.
    pub(super) lines: Vec<SharedCacheLine>,
    /// Locks that requests hold from their way down to their way up.
    pub(super) request_locks: Vec<SleepingLock<LockSleeper>>,
    /// Kernel worker of each core, which continues requests that threads hand over; `None` until it is needed.
    pub(super) workers: Vec<Option<u16>>,
    /// Size in bytes of the largest request for which a thread spins in the driver.
    spin_up_to_bytes: u32,
}

impl Blocking {
    /// Creates the software stack of this drive's host.
    pub(super) fn new(drive: &Drive) -> Blocking {
        let stack = Stack::of(drive);
        Blocking {
            lines: vec![SharedCacheLine::default(); stack.lines],
            request_locks: vec![SleepingLock::default(); stack.request_locks],
            workers: Vec::new(),
            spin_up_to_bytes: drive.protocol().spin_up_to_bytes(),
            stack,
        }
    }

    /// Returns a thread of the workload with the completion method and the flush behaviour of this software.
    pub(super) fn thread(&self, thread: Thread, processors: &Processors) -> Thread {
        let spin_up_to_bytes = self.spin_up_to_bytes;
        Thread { spin_up_to_bytes, wait: processors.wait, waits_for_flush: true, ..thread }
    }

    /// Runs a thread that holds its core up to its next simulated event. The thread resumes a request that was stopped
    /// in the stack, submits a request while its queue depth allows, or handles a completion. Without any of them, it
    /// waits for completions.
    pub(super) fn step(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        if self.stack.contended() && self.resume(now, thread, processors, shared) {
            return;
        }
        if let Some(next) = processors.next_request(now, thread, 0) {
            return self.submit(now, thread, next, context);
        }
        if let Some(request) = processors.threads[usize::from(thread)].done.pop_front() {
            return self.complete(now, thread, request, context);
        }
        processors.set_thread_timer(thread, shared);
        processors.wait(now, thread, shared);
    }

    /// Tells a thread of a completion that it can see from now on: wakes the thread, or lets a spinning one take its
    /// next step.
    #[inline(always)]
    pub(super) fn on_completed(&mut self, now: Time, thread: u16, request: RequestId, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let this = &processors.threads[usize::from(thread)];
        match (processors.handler_core, this.state) {
            (Some(core), State::Away) if !processors.wake.is_zero() && !this.queued && this.done.len() == 1 => {
                let woken = processors.run_interrupt_handler(now, core, processors.wake, shared).end();
                shared.requests.charge(Some(request), Stage::Interrupt, woken);
                shared.scheduler.at(woken, Event::Thread(thread));
            }
            _ if processors.notify_thread(now, thread, shared) => self.step(now, thread, context),
            _ => {}
        }
    }

    /// Starts a request at the top of the software stack, from which it passes down to the driver.
    // Not inlined: most requests are started in `complete`, when the previous request is collected.
    #[inline(never)]
    fn submit(&mut self, now: Time, thread: u16, next: NextRequest, context: &mut HostContext<'_>) {
        let HostContext { processors, shared, .. } = context;
        let begin = processors.thread_processor_free_at(now, thread);
        processors.piece_from = begin;
        if self.stack.contended() {
            let path = processors.issue(begin, thread, next, shared);
            return processors.start_stack_path(begin, thread, path, shared);
        }
        let (request, end) = self.submit_down_stack(begin, thread, next, context);
        let overlapped = context.driver.overlapped_work(&next.io);
        let work = ScheduledWork { work: Work::Submit(request), begin, end, overlapped };
        context.processors.run(thread, work, context.shared);
    }

    /// Charges a request for its whole way down to the driver. Returns the request, and the instant at which it gets
    /// there.
    #[inline(always)]
    fn submit_down_stack(
        &mut self,
        begin: Time,
        thread: u16,
        next: NextRequest,
        context: &mut HostContext<'_>,
    ) -> (RequestId, Time) {
        let HostContext { processors, driver, shared } = context;
        let mut path = processors.issue(begin, thread, next, shared);
        let request = &mut shared.requests[path.request];
        let ledger = &mut request.ledger;
        self.stack.advance(&mut path, ledger);
        self.stack.copy(&path, next.io.bytes, ledger);
        driver.submit_work(&next.io, thread, ledger);
        ledger.set_stretch_factor(0);
        let end = ledger.cursor();
        request.submitted = end;
        (path.request, end)
    }

    /// Handles a visible completion: charges its request for the driver's work and for the way up the stack. The thread
    /// then starts its next request, if there is one.
    fn complete(&mut self, now: Time, thread: u16, id: RequestId, context: &mut HostContext<'_>) {
        let HostContext { processors, driver, shared } = context;
        let request = &mut shared.requests[id];
        processors.threads[usize::from(thread)].note_handled_completion(&request.io);
        // A thread that was polling sees the completion after one poll. A thread that polls later finds it at once, but
        // not before the thread that woke it has finished.
        let seen = if request.visible == now { now + processors.poll } else { now };
        let (now, seen) = (now.max(request.ledger.cursor()), seen.max(request.ledger.cursor()));
        let begin = processors.thread_processor_free_at(seen, thread);
        let ledger = &mut request.ledger;
        ledger.until(Stage::CoreWait, now);
        ledger.until(Stage::Poll, seen);
        ledger.until(Stage::CoreWait, begin);
        processors.piece_from = begin;
        ledger.set_stretch_factor(processors.draw_software_pace(begin, processors.threads[usize::from(thread)].core));
        let mut path = Path { request: id, op: request.io.op, way: Way::Up, place: 0 };
        driver.complete_work(&request.io, ledger);
        self.stack.copy(&path, request.io.bytes, ledger);
        if self.stack.contended() {
            let ready = ledger.cursor();
            processors.occupy(processors.threads[usize::from(thread)].core, begin, ready);
            return processors.start_stack_path(ready, thread, path, shared);
        }
        self.stack.advance(&mut path, ledger);
        let end = ledger.cursor();
        // The thread submits its next request first and polls for further completions afterwards.
        let work = match processors.next_request(end, thread, 1) {
            None => ScheduledWork { work: Work::Complete(id), begin, end, overlapped: Span::ZERO },
            Some(next) => {
                let overlapped = driver.overlapped_work(&next.io);
                let (request, submitted) = self.submit_down_stack(end, thread, next, context);
                let work = Work::CompleteAndSubmit(id, end, request);
                ScheduledWork { work, begin, end: submitted, overlapped }
            }
        };
        context.processors.run(thread, work, context.shared);
    }
}
