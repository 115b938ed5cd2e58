//! Processors and the threads that run on them: what [`Blocking`](super::blocking::Blocking) and
//! [`Batched`](super::batched::Batched) submission share.
//!
//! A processor is modelled by the instant at which it is free. Threads that wait for their turn are in `waiting.rs`,
//! and the effects of interrupts on them in `interrupts.rs`.

use std::collections::VecDeque;

use super::idle::{IdleGovernor, RecentIdleTimes};
use super::locks::{CacheLineDistances, LockSpinner, SpinLock};
use super::pace::SoftwarePaces;
use super::stack::{Path, Way};
use super::thread::{ScheduledWork, State, Thread, Work};
use crate::config::Wait;
use crate::drive::Drive;
use crate::ledger::{CpuUse, Stage};
use crate::protocol::dispatch::AnyDriver;
use crate::request::NextRequest;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

/// Time for which the poll threads of a processor have worked and slept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollThreadTime {
    pub worked: Span,
    pub slept: Span,
}

/// Processor (hardware thread), with the thread that holds it and those that are ready for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Core {
    pub free_at: Time,
    /// End of the time in which the processor takes no interrupt: it runs a handler, switches threads, or holds a
    /// spinlock.
    pub masked_until: Time,
    /// Time for which the processor has run interrupt handlers.
    pub handlers: Span,
    /// Thread that holds the processor; `None` if it is idle.
    pub current: Option<u16>,
    /// End of the time slice in which a thread that spins in its driver may keep other threads waiting.
    pub slice_end: Time,
    /// Threads that are ready to run on the processor, in the order of their turn.
    pub ready: VecDeque<u16>,
    /// True if a poll thread of the kernel runs on the processor.
    pub polls: bool,
    /// Time for which the processor's poll threads have worked and slept.
    pub polled: PollThreadTime,
    pub idles: RecentIdleTimes,
    /// True if a thread of the processor waits for its requests in synchronous calls.
    pub waits_for_io: bool,
}

/// Thread that gets a released spinlock, and the stage in which it spun for the lock.
pub(super) struct LockGrant {
    pub thread: u16,
    pub stage: Stage,
    /// Instant up to which the thread will hold the lock.
    pub until: Time,
}

/// All processors of a host, the threads on them, and their costs of waiting and interrupts.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    pub threads: Vec<Thread>,
    /// Number of threads that have not done all their requests.
    pub unfinished: usize,
    /// Processors by number: the first hardware threads of all cores, then the second ones.
    pub cores: Vec<Core>,
    /// Number of cores, each of which has one or two processors.
    core_count: usize,
    pace: SoftwarePaces,
    /// True if software takes exactly its configured time, without random variation and without a slower second
    /// hardware thread.
    is_even: bool,
    /// Instant at which the piece of software starts whose costs are being charged.
    pub piece_from: Time,
    pub distances: CacheLineDistances,
    pub spin_locks: Vec<SpinLock>,
    /// Default completion method of threads: spinning, sleeping or hybrid.
    pub wait: Wait,
    pub hybrid_sleep_ratio: f64,
    /// Time from the instant at which a completion is visible until a spinning thread has seen it.
    pub poll: Span,
    pub context_switch: Span,
    /// Extra time of a context switch for each doubling of a crowd of waiting threads.
    pub context_switch_growth: Span,
    /// Time to switch away from a thread that sleeps.
    pub deactivate: Span,
    /// Time to switch to a thread on a core that was idle.
    pub reactivate: Span,
    /// Time from the arrival of an interrupt message until its handler begins, on a core that does not idle.
    pub interrupt: Span,
    pub governor: IdleGovernor,
    pub interrupt_handler: Span,
    /// Number of processors that handle interrupts.
    pub interrupt_cores: usize,
    /// Time that an interrupt handler takes to wake a thread.
    pub wake: Span,
    pub time_slice: Span,
    /// Processor whose interrupt handler is collecting completions; `None` outside a handler.
    pub handler_core: Option<usize>,
    /// True for each interrupt vector whose message has arrived and whose handler has yet to run.
    pub pending: Vec<bool>,
    /// True if there are kernel workers, to which threads hand requests over.
    pub has_workers: bool,
    pub used: CpuUse,
}

/// Parts of the machine that the software of a host works with while it handles an event.
pub(super) struct HostContext<'a> {
    pub processors: &'a mut Processors,
    /// Driver of the protocol, which says how long its own work on a request takes.
    pub driver: &'a AnyDriver,
    pub shared: &'a mut Shared,
}

impl Processors {
    /// Creates the processors of a drive's host, without threads, and with `spin_locks` spinlocks.
    pub(super) fn new(drive: &Drive, spin_locks: usize, seed: u64) -> Processors {
        let config = &drive.host;
        let ratio = config.kernel_cost_ratio();
        let pace = SoftwarePaces::new(config, seed);
        let interrupt_cores = match config.interrupt_cores {
            0 => config.processors(),
            cores => cores.min(config.processors()),
        };
        Processors {
            threads: Vec::new(),
            unfinished: 0,
            cores: vec![Core::default(); config.processors().into()],
            core_count: config.cores.into(),
            is_even: pace.is_even(),
            pace,
            piece_from: Time::ZERO,
            distances: CacheLineDistances::new(config),
            spin_locks: vec![SpinLock::default(); spin_locks],
            // An I/O engine decides by itself whether it polls, so the host's method matters only for hybrid polling.
            wait: match config.wait {
                Wait::Spin if drive.stack.has_engines() => Wait::Sleep,
                wait => wait,
            },
            hybrid_sleep_ratio: config.hybrid_sleep_ratio,
            poll: drive.protocol().poll(drive).scale(config.nominal_clock_ratio()),
            context_switch: config.context_switch.scale(ratio),
            context_switch_growth: config.context_switch_growth.scale(ratio),
            deactivate: config.deactivate().scale(ratio),
            reactivate: config.reactivate().scale(ratio),
            interrupt: config.interrupt.scale(config.nominal_clock_ratio()),
            governor: IdleGovernor::new(config),
            interrupt_handler: config.interrupt_handler.scale(ratio),
            interrupt_cores: interrupt_cores.into(),
            wake: config.wake.scale(ratio),
            time_slice: config.time_slice,
            handler_core: None,
            pending: Vec::new(),
            has_workers: false,
            used: CpuUse { cores: config.processors(), ..CpuUse::default() },
        }
    }

    /// Returns the use of the processors up to `now`, including spins that have not ended.
    pub(super) fn used(&self, now: Time) -> CpuUse {
        let mut used = self.used;
        for thread in self.threads.iter().filter(|thread| thread.state == State::Watching) {
            used.spinning += self.spinning_time_until(now, thread);
        }
        used.spinning += self.poll_thread_time(now);
        used
    }

    /// Sets a timer that lets a thread go on when its next request is due. Sets only one for each instant.
    pub(super) fn set_thread_timer(&mut self, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        if let Some(next) = this.next.filter(|next| next.due != this.alarm_at) {
            this.alarm_at = next.due;
            shared.scheduler.at(next.due, Event::Thread(thread));
        }
    }

    /// Returns the next request of a thread that has a slot for it, once `completing` more of its requests are done.
    /// `None` without such a request; one that is not due yet stays with the thread.
    #[inline(always)]
    pub(super) fn next_request(&mut self, now: Time, thread: u16, completing: u32) -> Option<NextRequest> {
        let this = &mut self.threads[usize::from(thread)];
        if !this.may_issue(this.outstanding - completing) {
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

    /// Opens the request that an application issues, and returns it at the start of its way down.
    #[inline(always)]
    pub(super) fn issue(&mut self, begin: Time, thread: u16, next: NextRequest, shared: &mut Shared) -> Path {
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
            ledger.record_steps();
        }
        ledger.until(Stage::Queued, begin);
        let processor = this.core;
        ledger.set_stretch_factor(self.draw_software_pace(self.piece_from, processor));
        Path { request: id, op: next.io.op, way: Way::Down, place: 0 }
    }

    /// Draws the pace of a piece of software that begins on this processor, in units of 2^-16; 0 if all pieces take
    /// their time exactly. Software is slower if the other hardware thread of the core works; one that only waits
    /// leaves the core to it (`PAUSE`).
    #[inline(always)]
    pub(super) fn draw_software_pace(&mut self, begin: Time, processor: usize) -> u32 {
        if self.is_even {
            return 0;
        }
        match self.cores.len() > self.core_count && self.is_sibling_working(begin, processor) {
            true => self.pace.draw_sibling_pace(),
            false => self.pace.draw(),
        }
    }

    /// True if the other hardware thread of a processor's core is at work at `at`.
    #[inline(never)]
    fn is_sibling_working(&self, at: Time, processor: usize) -> bool {
        let beside = processor + self.core_count;
        let sibling = if beside < self.cores.len() { beside } else { beside - self.cores.len() };
        self.cores[sibling].free_at > at
    }

    /// Returns the instant, not before `at`, at which a thread's processor is free for it.
    pub(super) fn thread_processor_free_at(&self, at: Time, thread: u16) -> Time {
        at.max(self.cores[self.threads[usize::from(thread)].core].free_at)
    }

    /// Runs a thread's piece of work until its end.
    #[inline(always)]
    pub(super) fn run(&mut self, thread: u16, work: ScheduledWork, shared: &mut Shared) {
        let ScheduledWork { work, begin, end, overlapped } = work;
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Busy;
        (this.work, this.work_end) = (work, end);
        this.napped = false;
        self.cores[this.core].free_at = end + overlapped;
        self.used.working += end.since(begin) + overlapped;
        shared.scheduler.at(end, Event::WorkDone(thread));
    }

    /// Counts a processor as working for a request from `from` to `to`.
    pub(super) fn occupy(&mut self, core: usize, from: Time, to: Time) {
        self.cores[core].free_at = to;
        self.used.working += to.since(from);
    }

    /// Makes a thread spin for a lock that another thread holds.
    pub(super) fn spin(&mut self, now: Time, lock: usize, spinner: LockSpinner, work: Work, shared: &mut Shared) {
        self.watch(now, spinner.thread);
        let this = &mut self.threads[usize::from(spinner.thread)];
        this.state = State::Busy;
        this.work = work;
        if let Some(release) = self.spin_locks[lock].add_waiter(spinner) {
            shared.scheduler.at(release, Event::Release(lock as u16));
        }
    }

    /// Gives a released spinlock to the next thread that spins for it, once that thread has seen the release and no
    /// interrupt handler delays it. Returns that thread; `None` if none spins.
    pub(super) fn grant_spinlock(&mut self, now: Time, lock: u16, shared: &mut Shared) -> Option<LockGrant> {
        let this = &mut self.spin_locks[usize::from(lock)];
        let (next, seen) = this.release(now, &self.distances)?;
        let LockSpinner { thread, core, hold, lines, stage } = next;
        let hold = hold + this.lock_line_fetch_time(core, lines, &self.distances);
        let start = seen.max(self.cores[core].free_at);
        if let Some(next) = this.keep(start, core, hold) {
            shared.scheduler.at(next, Event::Release(lock));
        }
        self.add_spinning_time(start, thread);
        let until = start + hold;
        self.occupy(core, start, until);
        self.cores[core].mask(until);
        shared.scheduler.at(until, Event::Path(thread));
        Some(LockGrant { thread, stage, until })
    }
}
