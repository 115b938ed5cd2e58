//! Interrupts, and the work that they come in between.
//!
//! A handler runs as soon as its core takes interrupts, and what the core was doing takes longer by as much: system calls
//! run with interrupts enabled. Handlers, switches of threads and holders of spinlocks run with interrupts disabled, as
//! those of the block layer and of drivers do (`spin_lock_irqsave`; Love, "Linux Kernel Development", 3rd edition,
//! chapters 4, 7 and 10).

use super::{Core, Host, Thread, Work};
use crate::config::Wait;
use crate::protocol::dispatch::AnyDriver;
use crate::protocol::ports::queue_of;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

impl Core {
    /// No interrupt is taken until then.
    pub(super) fn mask(&mut self, until: Time) {
        self.masked_until = self.masked_until.max(until);
    }
}

impl Host {
    /// The core that handles a vector: on hosts where engines differ that of the thread which submits, as Linux has a
    /// queue for each core; else the vectors are spread.
    fn core_of(&self, vector: u16) -> usize {
        let own = self.vector_cores.get(usize::from(vector) % self.vectors);
        own.copied().unwrap_or(usize::from(vector) % self.interrupt_cores)
    }

    /// A queue's interrupts go to the core of the first thread that uses it.
    pub(super) fn take_vector(&mut self, thread: u16) {
        let Some(drive) = &self.ways else { return };
        let queue = queue_of(thread, drive.limits().queue_pairs as usize);
        if queue == self.vector_cores.len() {
            self.vector_cores.push(self.threads[usize::from(thread)].core);
        }
    }

    /// An interrupt message has reached the root complex.
    #[inline(always)]
    pub fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) {
        let place = usize::from(vector);
        if self.pending.len() <= place {
            self.pending.resize(place + 1, false);
        }
        // A host that looks by itself has the interrupt masked; one whose handler has yet to run will see this completion too.
        let is_masked = self.wait != Wait::Sleep && self.ways.is_none();
        if is_masked || std::mem::replace(&mut self.pending[place], true) {
            return;
        }
        let place = self.core_of(vector);
        let core = &mut self.cores[place];
        let is_idle = core.current.is_none() && !core.polls && core.free_at <= now;
        let exit = match is_idle {
            true => self.governor.exit(&mut core.idles, now.since(core.free_at)),
            false => Span::ZERO,
        };
        shared.scheduler.after(now, self.interrupt + exit, Event::Interrupt { vector });
    }

    /// The interrupt has reached its core: the handler runs as soon as that takes interrupts.
    #[inline(always)]
    pub fn on_interrupt(&mut self, now: Time, vector: u16, driver: &AnyDriver, shared: &mut Shared) {
        // Where requests are collected together, the handler itself tells the device how far it has read.
        let core = self.core_of(vector);
        let acknowledge = if self.ways.is_some() { self.acknowledge(now, core, 1, driver) } else { Span::ZERO };
        let end = self.run_handler(now, core, self.interrupt_handler + acknowledge, shared);
        self.used.interrupts += 1;
        shared.scheduler.at(end, Event::Handled { vector });
    }

    /// Run a handler, or more of one, on a core: when it ends.
    pub(super) fn run_handler(&mut self, now: Time, core: usize, time: Span, shared: &mut Shared) -> Time {
        let time = match self.draw_pace(now, core) {
            0 => time,
            pace => time.paced(pace),
        };
        self.occupy_handler(now, core, time, shared)
    }

    #[inline(always)]
    fn occupy_handler(&mut self, now: Time, place: usize, time: Span, shared: &mut Shared) -> Time {
        let core = &mut self.cores[place];
        let begin = now.max(core.masked_until);
        core.masked_until = begin + time;
        core.free_at = core.free_at.max(begin) + time;
        core.handlers += time;
        self.used.switching += time;
        if let Some(thread) = core.current {
            self.threads[usize::from(thread)].preempt(begin, time, shared);
        }
        begin + time
    }

    /// The handler of `vector` waits for the device until `until`, and its core with it.
    pub fn stall(&mut self, now: Time, vector: u16, until: Time, shared: &mut Shared) {
        self.occupy_handler(now, self.core_of(vector), until.since(now), shared);
    }

    /// The handler has run; the driver may look for completions.
    pub fn on_handled(&mut self, vector: u16) {
        self.pending[usize::from(vector)] = false;
        self.resume_handler(vector);
    }

    /// The handler of `vector` goes on, with what it has read from the device.
    pub fn resume_handler(&mut self, vector: u16) {
        self.handler_core = Some(self.core_of(vector));
    }

    /// The completions that a handler has found are known.
    pub fn leave_handler(&mut self) {
        self.handler_core = None;
    }
}

impl Thread {
    /// A handler runs at `begin` for so long: a piece of work that is under way is over later.
    fn preempt(&mut self, begin: Time, time: Span, shared: &mut Shared) {
        if self.work_end <= begin {
            return;
        }
        self.work_end += time;
        match &mut self.work {
            Work::None | Work::Path(_) | Work::Legs => {}
            Work::Together => {
                if let Some(batcher) = &mut self.batcher {
                    batcher.preempt(begin, time, shared);
                }
            }
            Work::Submit(request) | Work::Complete(request) => shared.requests[*request].wait_for_core(time),
            Work::CompleteAndSubmit(completed, at, submitted) if *at > begin => {
                *at += time;
                shared.requests[*completed].wait_for_core(time);
                shared.requests[*submitted].postpone(time);
            }
            Work::CompleteAndSubmit(_, _, submitted) => shared.requests[*submitted].wait_for_core(time),
        }
    }
}
