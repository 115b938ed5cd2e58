//! Threads of a host: their states, their present work, and their requests in flight.

use std::collections::VecDeque;

use super::stack::Path;
use crate::config::Wait;
use crate::ledger::Stage;
use crate::request::{Io, NextRequest, Op, RequestId};
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::Rounds;
use crate::workload::generator::RequestGenerator;

/// State of a thread with respect to its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The thread runs a piece of work, or is being switched to.
    Busy,
    /// The thread spins on its core: it polls for a completion, or waits for the next request.
    Watching,
    /// The thread is off its core: it sleeps, or waits for its turn.
    #[default]
    Away,
    /// The thread has done all its requests.
    Finished,
}

/// Piece of work that a thread is doing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Work {
    /// The thread has no work.
    #[default]
    None,
    /// The thread takes a request through software in which cores contend.
    Path(Path),
    /// The thread takes a request down to the driver.
    Submit(RequestId),
    /// The thread takes a completion up to the application.
    Complete(RequestId),
    /// The thread completes the first request by the given instant, and then submits the second.
    CompleteAndSubmit(RequestId, Time, RequestId),
    /// The thread takes a batch of requests through software in which cores contend.
    Legs,
    /// The thread ends the submission or the collection of a batch of requests.
    Together,
}

/// Piece of work with the time that it takes.
pub(super) struct ScheduledWork {
    pub work: Work,
    pub begin: Time,
    pub end: Time,
    /// Time for which the processor is busy after the end of the work, while the request is in flight.
    pub overlapped: Span,
}

/// Piece of work that a thread has just finished, with the requests that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishedWork {
    /// The work is not over yet: interrupt handlers have delayed it, and it ends at this instant.
    Later(Time),
    /// The request goes to the driver now.
    Submitted(RequestId),
    /// The application has the result of the request.
    Completed(RequestId),
    /// The application had the result of the first request at the given instant; the second request goes to the driver
    /// now.
    CompletedAndSubmitted(RequestId, Time, RequestId),
    /// The requests of a batch go to the driver now ([`Host::take_batch_members`](super::Host::take_batch_members)).
    SubmittedTogether,
    /// The requests of a batch are in the ring that a poll thread of the kernel serves.
    LeftToPoller,
    /// The applications have the results of all requests of a batch.
    CompletedTogether,
}

/// Thread of the workload, or worker of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// Processor that the thread runs on.
    pub core: usize,
    /// Largest number of requests that the thread keeps in flight.
    pub iodepth: u32,
    /// Size in bytes of the request that the thread has submitted last; `u32::MAX` while it prepares the next one, or
    /// has left it to a kernel thread.
    pub issued_bytes: u32,
    /// Size in bytes of the largest request for which the thread spins in the driver.
    pub spin_up_to_bytes: u32,
    /// Generator of the thread's requests; `None` if they come from outside the simulation.
    pub generator: Option<RequestGenerator>,
    /// Next request of the thread, if it has been drawn and is not due yet.
    pub next: Option<NextRequest>,
    /// Instant for which the thread has set its timer last.
    pub alarm_at: Time,
    /// Requests that have come from outside the simulation and have not been issued yet.
    pub external: VecDeque<NextRequest>,
    /// Numbers by which their senders know the requests of `external`, and before them that of `next`.
    pub tokens: VecDeque<u32>,
    /// Number of requests that are issued and not completed.
    pub outstanding: u32,
    /// Rounds of requests, each of which begins when the one before it is complete.
    pub rounds: Rounds,
    /// True if the thread waits for its flushes, as for a system call.
    pub waits_for_flush: bool,
    /// True while the thread waits for the completion of a flush.
    pub is_flushing: bool,
    /// Requests that have waited for a lock or for this thread, and can go on now.
    pub resumed: VecDeque<Path>,
    /// Requests whose completion is visible and has not been handled yet.
    pub done: VecDeque<RequestId>,
    /// Completion method of the thread: spinning, sleeping or hybrid.
    pub wait: Wait,
    pub state: State,
    pub work: Work,
    /// End of the thread's piece of work, unless an interrupt handler delays it.
    pub work_end: Time,
    /// Start of the thread's present spinning.
    pub watching_since: Time,
    /// Time for which the thread's core had run interrupt handlers when the spinning began.
    pub handlers_before: Span,
    /// End of the thread's nap, during which no completion wakes it (hybrid waiting); `None` if it does not nap.
    pub asleep_until: Option<Time>,
    /// True if the thread has napped during its present wait (hybrid waiting).
    pub napped: bool,
    /// True while the thread waits for its turn on its core.
    pub queued: bool,
    /// Running mean of the time from submission to visible completion (hybrid waiting).
    pub latency_mean: Span,
    /// True for a kernel worker, to which threads hand requests over.
    pub is_worker: bool,
    /// True while a wake-up of the thread is pending.
    pub woken: bool,
}

impl Thread {
    /// True if the thread spins in the driver for a request, on a host where threads sleep otherwise.
    pub(super) fn is_spinning_in_driver(&self) -> bool {
        (1..=self.spin_up_to_bytes).contains(&self.issued_bytes) && self.outstanding > 0
    }

    /// Counts a request as in flight. A thread whose flushes are system calls waits for them.
    pub(super) fn on_issue(&mut self, io: &Io) {
        self.outstanding += 1;
        self.rounds.on_issue();
        self.is_flushing = io.op == Op::Flush && self.waits_for_flush;
    }

    /// True if the thread may issue one more request beside `in_flight` others: it has a free slot, waits for no flush,
    /// and its round has not ended.
    #[inline(always)]
    pub(super) fn may_issue(&mut self, in_flight: u32) -> bool {
        in_flight < self.iodepth && !self.is_flushing && self.rounds.may_issue(in_flight)
    }

    /// Updates the mean latency of the thread's requests, from which it predicts the next one.
    #[inline(never)]
    pub(super) fn expect(&mut self, latency: Span) {
        self.latency_mean = match self.latency_mean.is_zero() {
            true => latency,
            false => (self.latency_mean * 7 + latency) / 8,
        };
    }

    /// Notes that the thread handles the completion of a request, which ends its wait if the request is a flush.
    pub(super) fn note_handled_completion(&mut self, io: &Io) {
        self.is_flushing &= io.op != Op::Flush;
    }

    /// Delays the thread's piece of work by an interrupt handler that runs for `time` from `begin` on. Returns true if
    /// that is work on a batch, whose requests have to be delayed as well.
    pub(super) fn preempt(&mut self, begin: Time, time: Span, shared: &mut Shared) -> bool {
        if self.work_end <= begin {
            return false;
        }
        self.work_end += time;
        match &mut self.work {
            Work::None | Work::Path(_) | Work::Legs => {}
            Work::Together => return true,
            Work::Submit(request) | Work::Complete(request) => shared.requests[*request].charge_core_wait(time),
            Work::CompleteAndSubmit(completed, at, submitted) if *at > begin => {
                *at += time;
                shared.requests[*completed].charge_core_wait(time);
                shared.requests[*submitted].postpone(time);
            }
            Work::CompleteAndSubmit(_, _, submitted) => shared.requests[*submitted].charge_core_wait(time),
        }
        false
    }

    /// Returns the request that the thread will go on with once it has its core; `None` if there is none.
    pub(super) fn first_waiting_request(&self) -> Option<RequestId> {
        let resumed = self.resumed.front().map(|path| path.request);
        resumed.or(self.done.front().copied())
    }

    /// Charges the request that the thread will go on with for the wait for the core and for the context switch.
    pub(super) fn charge_context_switch(&self, from: Time, switch: Span, shared: &mut Shared) {
        if let Some(request) = self.first_waiting_request() {
            shared.requests.charge_stage_until(Some(request), Stage::CoreWait, from);
            shared.requests.charge_stage_until(Some(request), Stage::ContextSwitch, from + switch);
        }
    }
}
