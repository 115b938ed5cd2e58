//! Interrupt handlers on the cores of a host, and the delay of the work that they interrupt.
//!
//! A handler runs as soon as its core takes interrupts, and what the core was doing takes longer by as much: system
//! calls run with interrupts enabled. Handlers, switches of threads and holders of spinlocks run with interrupts
//! disabled, as those of the block layer and of drivers do (`spin_lock_irqsave`; Love, "Linux Kernel Development", 3rd
//! edition, chapters 4, 7 and 10).

use super::processors::{Core, Processors};
use crate::config::IdleWakeTime;
use crate::shared::Shared;
use crate::time::{Span, Time};

/// Run of an interrupt handler on a processor: its start, its duration, and the work that it delays.
pub(super) struct InterruptHandlerRun {
    pub begin: Time,
    pub time: Span,
    /// Thread whose work on a batch the handler has delayed; `None` if there is none.
    pub batch_of: Option<u16>,
}

impl InterruptHandlerRun {
    /// Returns the instant at which the handler ends.
    pub(super) fn end(&self) -> Time {
        self.begin + self.time
    }
}

impl Core {
    /// Makes the core take no interrupt before `until`.
    pub(super) fn mask(&mut self, until: Time) {
        self.masked_until = self.masked_until.max(until);
    }
}

impl Processors {
    /// Notes an interrupt message of this vector. Returns false if the handler of an earlier message has yet to run,
    /// which will see this completion too.
    pub(super) fn is_first_message(&mut self, vector: u16) -> bool {
        let place = usize::from(vector);
        if self.pending.len() <= place {
            self.pending.resize(place + 1, false);
        }
        !std::mem::replace(&mut self.pending[place], true)
    }

    /// Returns the time from the arrival of an interrupt message to the start of its handler, if the core takes
    /// interrupts then. A core that idles takes longer.
    pub(super) fn interrupt_start_delay(&mut self, now: Time, core: usize) -> Span {
        let core = &mut self.cores[core];
        let is_idle = core.current.is_none() && !core.polls && core.free_at <= now;
        if !is_idle {
            return self.interrupt;
        }
        let idle = now.since(core.free_at);
        let IdleWakeTime { exit, cold } = self.governor.wake(&mut core.idles, idle, core.waits_for_io);
        self.used.switching += cold;
        self.interrupt + exit + cold
    }

    /// Runs an interrupt handler, or a further part of it, for `time` on a core, at the present pace of that core.
    pub(super) fn run_interrupt_handler(
        &mut self,
        now: Time,
        core: usize,
        time: Span,
        shared: &mut Shared,
    ) -> InterruptHandlerRun {
        let time = match self.draw_software_pace(now, core) {
            0 => time,
            pace => time.paced(pace),
        };
        self.occupy_with_handler(now, core, time, shared)
    }

    /// Keeps a core in an interrupt handler for `time`, as soon as it takes interrupts, and delays what the core was
    /// doing.
    #[inline(always)]
    pub(super) fn occupy_with_handler(
        &mut self,
        now: Time,
        place: usize,
        time: Span,
        shared: &mut Shared,
    ) -> InterruptHandlerRun {
        let core = &mut self.cores[place];
        let begin = now.max(core.masked_until);
        core.masked_until = begin + time;
        core.free_at = core.free_at.max(begin) + time;
        core.handlers += time;
        self.used.switching += time;
        let delayed = core.current.filter(|thread| self.threads[usize::from(*thread)].preempt(begin, time, shared));
        InterruptHandlerRun { begin, time, batch_of: delayed }
    }
}
