//! Poll threads of the kernel (`sqthread_poll`): each takes requests from the ring of a thread on a processor of its
//! own, so that the application makes no system call. It serves in order, so that its processor is modelled by the
//! instant at which it is free. After a time without requests it sleeps, and the next request has to wake it.

use std::collections::VecDeque;

use super::batched::{Batched, BatchingThread, ring};
use super::processors::{Core, HostContext, Processors};
use super::software::StageCostTime;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::protocol::halves::Driver as _;
use crate::request::{Io, RequestId};
use crate::scheduler::Event;
use crate::time::{Span, Time};

/// Poll thread of the kernel for the ring of one thread.
#[derive(Clone, Debug)]
pub(super) struct Poller {
    /// Processor that the poll thread runs on.
    core: usize,
    /// Time without requests after which the poll thread goes to sleep.
    idle: Span,
    /// Time that the poll thread takes to wake up.
    wake: Span,
    /// Instant at which the poll thread ended its latest work.
    last_at: Time,
    /// Requests that the poll thread has taken from the ring, each with the instant at which it is at the driver.
    taken: VecDeque<(Time, RequestId)>,
    /// Completions that the poll thread puts into the ring, each with the instant at which it is there.
    answered: VecDeque<(Time, RequestId)>,
}

impl Poller {
    /// Creates a poll thread on a processor, which sleeps after `idle` without requests and takes `wake` to wake up.
    pub(super) fn new(core: usize, idle: Span, wake: Span) -> Poller {
        Poller { core, idle, wake, last_at: Time::ZERO, taken: VecDeque::new(), answered: VecDeque::new() }
    }
}

impl Processors {
    /// Returns the time for which the processors of poll threads have polled rings by `now`, without their work, sleep
    /// and handlers.
    pub(super) fn poll_thread_time(&self, now: Time) -> Span {
        let busy = |core: &Core| core.polled.worked + core.polled.slept + core.handlers;
        let cores = self.cores.iter().filter(|core| core.polls);
        cores.map(|core| now.since(Time::ZERO).saturating_sub(busy(core))).sum()
    }
}

impl Batched {
    /// Places the poll threads for which no processor was chosen on the processors behind all threads of the jobs, in
    /// turn.
    pub(super) fn assign_poller_processors(&mut self, processors: &mut Processors) {
        let mut free = self.batchers.len();
        for (place, batcher) in self.batchers.iter_mut().enumerate() {
            let cpu = batcher.poller_cpu;
            let Some(poller) = &mut batcher.poller else { continue };
            poller.core = cpu.unwrap_or(free) % processors.cores.len();
            free += usize::from(cpu.is_none());
            processors.cores[poller.core].polls = true;
            if let Some(vector) = self.vector_cores.get_mut(place) {
                *vector = poller.core;
            }
        }
    }

    /// Lets the poll thread take the batch that a thread has put into its ring down to the driver. Wakes the poll
    /// thread if it sleeps.
    pub(super) fn leave_to_poller(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) {
        let HostContext { processors, driver, shared } = context;
        let (poll, drives) = (processors.poll, self.count_drives_of_batch(thread, shared));
        let BatchingThread { software, poller, members, .. } = &mut self.batchers[usize::from(thread)];
        let poller = poller.as_mut().expect("it has a poll thread");
        let core = &mut processors.cores[poller.core];
        let sleeps = now > poller.last_at + poller.idle;
        let wake = if sleeps { poller.wake } else { Span::ZERO };
        let begin = (now + poll + wake).max(core.free_at);
        let mut cursor = begin;
        let last = members.len() - 1;
        for (place, member) in members.iter().enumerate() {
            let request = &mut shared.requests[member.request];
            let ledger = &mut request.ledger;
            ledger.until(Stage::ContextSwitch, now + wake);
            ledger.until(Stage::Poll, now + wake + poll);
            ledger.until(Stage::CoreWait, begin);
            ledger.until(Stage::Batch, cursor);
            spend(ledger, &software.down(request.io.op.direction()).kernel, &request.io);
            if place == last {
                ring(&mut self.posted, poller.core, drives, driver, request);
            }
            cursor = request.ledger.cursor();
        }
        for member in members.iter() {
            shared.requests[member.request].ledger.until(Stage::Batch, cursor);
            shared.requests[member.request].ledger.set_stretch_factor(0);
            poller.taken.push_back((cursor, member.request));
        }
        if sleeps {
            core.polled.slept += now.since(poller.last_at + poller.idle);
        }
        core.polled.worked += cursor.since(begin);
        (core.free_at, poller.last_at) = (cursor, cursor);
        processors.used.working += cursor.since(begin);
        shared.scheduler.at(cursor, Event::Poller(thread));
    }

    /// Lets the poll thread of a thread handle a completion of the device, and put it into the ring.
    // Not inlined: few jobs use a poll thread.
    #[inline(never)]
    pub(super) fn on_poller_completion(
        &mut self,
        now: Time,
        thread: u16,
        id: RequestId,
        context: &mut HostContext<'_>,
    ) {
        let HostContext { processors, driver, shared } = context;
        let BatchingThread { software, poller, .. } = &mut self.batchers[usize::from(thread)];
        let poller = poller.as_mut().expect("it has a poll thread");
        let core = &mut processors.cores[poller.core];
        let seen = if software.polls() { now + processors.poll } else { now };
        let begin = seen.max(core.free_at);
        let request = &mut shared.requests[id];
        let ledger = &mut request.ledger;
        ledger.until(Stage::Poll, seen.max(ledger.cursor()));
        ledger.until(Stage::CoreWait, begin.max(ledger.cursor()));
        let each = if software.polls() { driver.acknowledge_work() } else { Span::ZERO };
        ledger.spend(Stage::Driver, each);
        if let Some(posted) = self.posted.as_mut().filter(|_| !each.is_zero()) {
            let at = ledger.cursor();
            ledger.until(Stage::Driver, at + posted.write(at, poller.core));
        }
        spend(ledger, &software.up.kernel, &request.io);
        let end = ledger.cursor();
        core.polled.worked += end.since(begin);
        (core.free_at, poller.last_at) = (end, end);
        processors.used.working += end.since(begin);
        poller.answered.push_back((end, id));
        shared.scheduler.at(end, Event::Poller(thread));
    }

    /// Ends what a poll thread has finished by `now`: its completions become visible, and the requests returned go to
    /// the driver.
    #[inline(never)]
    pub(super) fn on_poller(&mut self, now: Time, thread: u16, context: &mut HostContext<'_>) -> Vec<RequestId> {
        let Some(poller) = self.poller(thread) else { return Vec::new() };
        let done = poller.taken.iter().take_while(|(at, _)| *at <= now).count();
        let taken: Vec<RequestId> = poller.taken.drain(..done).map(|(_, request)| request).collect();
        for &request in &taken {
            context.shared.requests[request].submitted = now;
        }
        while let Some((_, request)) = self.poller(thread).and_then(|poller| poller.take_ring_completion(now)) {
            context.shared.requests[request].visible = now;
            context.processors.threads[usize::from(thread)].done.push_back(request);
            self.on_completed(now, thread, request, context);
        }
        taken
    }

    fn poller(&mut self, thread: u16) -> Option<&mut Poller> {
        self.batchers[usize::from(thread)].poller.as_mut()
    }
}

impl Poller {
    /// Removes and returns the next completion that is in the ring by `now`.
    fn take_ring_completion(&mut self, now: Time) -> Option<(Time, RequestId)> {
        let is_due = self.answered.front().is_some_and(|(at, _)| *at <= now);
        is_due.then(|| self.answered.pop_front())?
    }
}

/// Charges a request for a poll thread's work on it. A poll thread is assumed to meet no contention for a lock, but
/// holds it for as long as any thread.
fn spend(ledger: &mut Ledger, costs: &[StageCostTime], io: &Io) {
    for cost in costs {
        ledger.spend(cost.stage, cost.alone(io));
    }
}
