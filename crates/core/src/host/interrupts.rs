//! Interrupts, and the work that they come in between.
//!
//! A handler runs as soon as its core takes interrupts, and what the core was doing takes longer by as much: system calls
//! run with interrupts enabled. Handlers, switches of threads and holders of spinlocks run with interrupts disabled, as
//! those of the block layer and of drivers do (`spin_lock_irqsave`; Love, "Linux Kernel Development", 3rd edition,
//! chapters 4, 7 and 10).

use super::{Core, Host, Thread, Work};
use crate::config::Wait;
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
    /// An interrupt message has reached the root complex.
    #[inline(always)]
    pub fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) {
        let place = usize::from(vector);
        if self.pending.len() <= place {
            self.pending.resize(place + 1, false);
        }
        // A host that looks by itself has the interrupt masked; one whose handler has yet to run will see this completion too.
        if self.wait != Wait::Sleep || std::mem::replace(&mut self.pending[place], true) {
            return;
        }
        let core = &self.cores[usize::from(vector) % self.interrupt_cores];
        let is_idle = core.current.is_none() && core.free_at <= now;
        let exit = if is_idle { self.idle_exit } else { Span::ZERO };
        shared.scheduler.after(now, self.interrupt + exit, Event::Interrupt { vector });
    }

    /// The interrupt has reached its core: the handler runs as soon as that takes interrupts.
    #[inline(always)]
    pub fn on_interrupt(&mut self, now: Time, vector: u16, shared: &mut Shared) {
        let core = usize::from(vector) % self.interrupt_cores;
        let end = self.run_handler(now, core, self.interrupt_handler, shared);
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
        self.occupy_handler(now, usize::from(vector) % self.interrupt_cores, until.since(now), shared);
    }

    /// The handler has run; the driver may look for completions.
    pub fn on_handled(&mut self, vector: u16) {
        self.pending[usize::from(vector)] = false;
        self.resume_handler(vector);
    }

    /// The handler of `vector` goes on, with what it has read from the device.
    pub fn resume_handler(&mut self, vector: u16) {
        self.handler_core = Some(usize::from(vector) % self.interrupt_cores);
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
            Work::None | Work::Path(_) => {}
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
