//! Threads: what each is doing, and what it has outstanding.

use std::collections::VecDeque;

use super::stack::Path;
use crate::config::Wait;
use crate::ledger::Stage;
use crate::request::{Io, Next, Op, RequestId};
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::workload::Rounds;
use crate::workload::generator::Generator;

/// State of a thread towards its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Runs a piece of work, or is being switched to.
    Busy,
    /// Spins on its core: looks for a completion, or waits for the next request.
    Watching,
    /// Off its core.
    #[default]
    Away,
    /// Has done all its requests.
    Finished,
}

/// Piece of work that a thread has begun.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Work {
    /// No work: the thread is free.
    #[default]
    None,
    /// Takes a request through software that cores contend for.
    Path(Path),
    /// Takes a request down to the driver.
    Submit(RequestId),
    /// Takes a completion up to the application.
    Complete(RequestId),
    /// Completes the first request by the given instant, and goes on to submit the second.
    CompleteAndSubmit(RequestId, Time, RequestId),
    /// Takes a batch through software that cores contend for.
    Legs,
    /// Submits or collects a batch.
    Together,
}

/// Piece of work that a thread has just finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The work is not over yet: interrupt handlers have come in between, and it ends at this instant.
    Later(Time),
    /// The request goes to the driver.
    Submitted(RequestId),
    /// The application has its result.
    Completed(RequestId),
    /// The application had the first result at the given instant, and the second request goes to the driver.
    CompletedAndSubmitted(RequestId, Time, RequestId),
    /// The requests of a batch go to the driver ([`Host::take_members`](super::Host::take_members)).
    SubmittedTogether,
    /// The requests of a batch are in the ring that a poll thread looks into.
    LeftToPoller,
    /// The requests of a batch have their results.
    CompletedTogether,
}

/// Thread of the workload, or of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// Processor that the thread runs on.
    pub core: usize,
    /// Requests that the thread keeps outstanding.
    pub iodepth: u32,
    /// Size of the request that it has issued to the device last; none while it prepares the next one, or has left it to a
    /// kernel thread.
    pub issued_bytes: u32,
    /// Largest request for which it spins in the driver.
    pub spin_up_to_bytes: u32,
    /// Source of its requests; none if they come from outside.
    pub generator: Option<Generator>,
    /// The next request, once drawn.
    pub next: Option<Next>,
    /// The last instant for which the thread has set its alarm.
    pub alarm_at: Time,
    /// Requests that have arrived from outside the simulation.
    pub external: VecDeque<Next>,
    /// Names that their senders gave to the requests of `external`, and before them to `next`.
    pub tokens: VecDeque<u32>,
    /// Requests that are issued and not completed.
    pub outstanding: u32,
    /// Rounds of requests, each of which waits for the one before it.
    pub rounds: Rounds,
    /// True if the thread waits for its flushes, as for a system call.
    pub waits_for_flush: bool,
    /// True while the thread waits for a flush.
    pub is_flushing: bool,
    /// Requests that have waited for a lock or for this thread, and can go on.
    pub resumed: VecDeque<Path>,
    /// Requests whose completion is visible and not taken up yet.
    pub done: VecDeque<RequestId>,
    /// Completion method of the thread.
    pub wait: Wait,
    pub state: State,
    pub work: Work,
    /// End of its piece of work, unless another handler comes in between.
    pub work_end: Time,
    /// Start of its present spinning.
    pub watching_since: Time,
    /// Time that its core had run handlers when the spinning began.
    pub handlers_before: Span,
    /// End of its nap, during which no completion wakes it (hybrid waiting).
    pub asleep_until: Option<Time>,
    /// True if it has napped during the present wait (hybrid waiting).
    pub napped: bool,
    /// True while it stands in line for its core.
    pub queued: bool,
    /// Mean time from submission to visibility (hybrid waiting).
    pub latency_mean: Span,
    /// True for a kernel thread that takes requests on.
    pub is_worker: bool,
    /// True while a wake-up is on its way to it.
    pub woken: bool,
}

impl Thread {
    /// True if it spins for a request on a host where threads sleep otherwise.
    pub(super) fn spins_in_driver(&self) -> bool {
        (1..=self.spin_up_to_bytes).contains(&self.issued_bytes) && self.outstanding > 0
    }

    /// Counts a request as outstanding. A thread whose flushes are system calls waits for them.
    pub(super) fn on_issue(&mut self, io: &Io) {
        self.outstanding += 1;
        self.rounds.on_issue();
        self.is_flushing = io.op == Op::Flush && self.waits_for_flush;
    }

    /// True if the thread may issue one more request beside so many in flight: it has a free slot, waits for no flush, and its round goes on.
    #[inline(always)]
    pub(super) fn may_issue(&mut self, in_flight: u32) -> bool {
        in_flight < self.iodepth && !self.is_flushing && self.rounds.may_issue(in_flight)
    }

    /// Notes the latency of a request, so that the next ones are expected to take about as long.
    #[inline(never)]
    pub(super) fn expect(&mut self, latency: Span) {
        self.latency_mean = match self.latency_mean.is_zero() {
            true => latency,
            false => (self.latency_mean * 7 + latency) / 8,
        };
    }

    /// Notes that it takes up the completion of a request.
    pub(super) fn on_taken(&mut self, io: &Io) {
        self.is_flushing &= io.op != Op::Flush;
    }

    /// Delays the piece of work that an interrupt handler comes in between at `begin`; true if that is work on a batch, whose
    /// members are delayed as well.
    pub(super) fn preempt(&mut self, begin: Time, time: Span, shared: &mut Shared) -> bool {
        if self.work_end <= begin {
            return false;
        }
        self.work_end += time;
        match &mut self.work {
            Work::None | Work::Path(_) | Work::Legs => {}
            Work::Together => return true,
            Work::Submit(request) | Work::Complete(request) => shared.requests[*request].wait_for_core(time),
            Work::CompleteAndSubmit(completed, at, submitted) if *at > begin => {
                *at += time;
                shared.requests[*completed].wait_for_core(time);
                shared.requests[*submitted].postpone(time);
            }
            Work::CompleteAndSubmit(_, _, submitted) => shared.requests[*submitted].wait_for_core(time),
        }
        false
    }

    /// The request that it will go on with, once it has its core.
    pub(super) fn first_waiting(&self) -> Option<RequestId> {
        let resumed = self.resumed.front().map(|path| path.request);
        resumed.or(self.done.front().copied())
    }

    /// Charges the request that it will go on with for the wait for the core and for the context switch.
    pub(super) fn charge_switch(&self, from: Time, switch: Span, shared: &mut Shared) {
        if let Some(request) = self.first_waiting() {
            shared.requests.charge_late(Some(request), Stage::CoreWait, from);
            shared.requests.charge_late(Some(request), Stage::ContextSwitch, from + switch);
        }
    }
}
