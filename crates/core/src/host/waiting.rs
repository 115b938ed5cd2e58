//! Completion methods and scheduling of threads: spinning, sleeping, naps, and context switches.

use super::processors::Processors;
use super::thread::{State, Thread};
use crate::config::Wait;
use crate::number::real_length;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

impl Processors {
    /// Returns the time for which a thread has spun by `now`, without the handlers that ran on its core meanwhile.
    pub(super) fn spinning_time_until(&self, now: Time, thread: &Thread) -> Span {
        now.since(thread.watching_since) - (self.cores[thread.core].handlers - thread.handlers_before)
    }

    /// Makes a thread spin from `now` on.
    pub(super) fn watch(&mut self, now: Time, thread: u16) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Watching;
        // Spinning counts only after the core has finished its current work, which counts as work.
        this.watching_since = now.max(self.cores[this.core].free_at);
        this.handlers_before = self.cores[this.core].handlers;
    }

    /// Adds the time of a thread that stops spinning to the use of the processors.
    pub(super) fn add_spinning_time(&mut self, now: Time, thread: u16) {
        self.used.spinning += self.spinning_time_until(now, &self.threads[usize::from(thread)]);
    }

    /// Makes a thread with nothing to do spin, nap or sleep, by its completion method. A thread without further
    /// requests finishes.
    pub(super) fn wait(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        if this.is_worker {
            this.state = State::Away;
            return self.leave_core(now, thread, shared);
        }
        let finished = this.next.is_none() && this.external.is_empty() && this.outstanding == 0;
        if finished {
            this.state = State::Finished;
            self.unfinished -= 1;
            shared.scheduler.return_to_caller();
            return self.leave_core(now, thread, shared);
        }
        let others = !self.cores[this.core].ready.is_empty();
        let this = &self.threads[usize::from(thread)];
        match this.wait {
            Wait::Spin if !others => self.watch(now, thread),
            Wait::Sleep if this.is_spinning_in_driver() && !(others && now >= self.cores[this.core].slice_end) => {
                self.watch(now, thread);
            }
            Wait::Hybrid if !others && this.outstanding > 0 => self.start_hybrid_wait(now, thread, shared),
            _ => {
                self.threads[usize::from(thread)].state = State::Away;
                self.leave_core(now, thread, shared);
            }
        }
    }

    /// Makes a thread sleep for a share of its expected latency, and then spin (hybrid waiting).
    fn start_hybrid_wait(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        let nap = this.latency_mean.scale(self.hybrid_sleep_ratio);
        // A nap shorter than two context switches would not free the core at all, so spin instead.
        if this.napped || nap < self.context_switch * 2 {
            return self.watch(now, thread);
        }
        this.napped = true;
        this.state = State::Away;
        this.asleep_until = Some(now + nap);
        shared.scheduler.after(now, nap, Event::Thread(thread));
        self.leave_core(now, thread, shared);
    }

    /// Takes a thread off its core, and gives the core to the next thread that is ready for it.
    fn leave_core(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let core = self.threads[usize::from(thread)].core;
        let core = &mut self.cores[core];
        core.current = None;
        if self.wait != Wait::Spin || self.has_workers {
            // The thread now waits for its completion, so switching away from it occupies the core without delaying the
            // thread.
            core.free_at = core.free_at.max(now) + self.deactivate;
            core.mask(core.free_at);
            self.used.switching += self.deactivate;
            self.used.context_switches += 1;
        }
        let core = self.threads[usize::from(thread)].core;
        self.dispatch_next_thread(now, core, shared);
    }

    /// Tells a thread that it has something to do. Returns true if the thread holds its core and is to take its next
    /// step now; otherwise its turn comes later.
    #[inline(always)]
    pub(super) fn notify_thread(&mut self, now: Time, thread: u16, shared: &mut Shared) -> bool {
        let this = &mut self.threads[usize::from(thread)];
        match this.state {
            State::Busy => false,
            State::Watching => {
                this.state = State::Busy;
                self.add_spinning_time(now, thread);
                true
            }
            State::Away | State::Finished => {
                let core = this.core;
                // A kernel thread that has slept runs first, as under Linux's fair scheduler.
                match (std::mem::replace(&mut this.queued, true), this.is_worker) {
                    (true, _) => {}
                    (false, true) => self.cores[core].ready.push_front(thread),
                    (false, false) => self.cores[core].ready.push_back(thread),
                }
                self.dispatch_next_thread(now, core, shared);
                false
            }
        }
    }

    /// Switches a core to the next thread that is ready for it, if nobody holds the core or its holder only spins.
    fn dispatch_next_thread(&mut self, now: Time, place: usize, shared: &mut Shared) {
        if let Some(current) = self.cores[place].current {
            let holder = &mut self.threads[usize::from(current)];
            let keeps = self.wait == Wait::Sleep && holder.is_spinning_in_driver() && now < self.cores[place].slice_end;
            if holder.state != State::Watching || keeps || self.cores[place].ready.is_empty() {
                return;
            }
            holder.state = State::Away;
            self.add_spinning_time(now, current);
        }
        let core = &mut self.cores[place];
        let Some(thread) = core.ready.pop_front() else { return };
        let others = self.threads.len() > self.cores.len();
        let core = &mut self.cores[place];
        let from = core.free_at.max(now);
        let switch = match self.wait {
            Wait::Spin if !others => Span::ZERO,
            _ if core.free_at <= now => self.reactivate,
            _ => self.context_switch + crowd_switch_time(self.context_switch_growth, core.ready.len()),
        };
        core.free_at = from + switch;
        core.mask(core.free_at);
        core.current = Some(thread);
        core.slice_end = core.free_at + self.time_slice;
        if !switch.is_zero() {
            self.used.switching += switch;
            self.used.context_switches += 1;
        }
        let this = &mut self.threads[usize::from(thread)];
        (this.queued, this.woken) = (false, false);
        this.state = State::Busy;
        this.charge_context_switch(from, switch, shared);
        shared.scheduler.at(from + switch, Event::Thread(thread));
    }
}

/// Number of waiting threads with which a context switch takes one growth longer (assumed).
const CROWD: f64 = 8.0;

/// Returns the extra time of a context switch while `ready` threads wait for the core: `growth` for each doubling of
/// the crowd.
fn crowd_switch_time(growth: Span, ready: usize) -> Span {
    match growth.is_zero() {
        true => Span::ZERO,
        false => growth.scale(libm::log2(1.0 + real_length(ready) / CROWD)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_switch_slows_equally_for_each_doubling_of_ready_threads() {
        let growth = Span::from_ns(500);
        assert_eq!([0, 8, 24].map(|ready| crowd_switch_time(growth, ready)), [0, 500, 1000].map(Span::from_ns));
        assert_eq!(crowd_switch_time(Span::ZERO, 1000), Span::ZERO);
    }
}
