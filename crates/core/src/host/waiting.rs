//! How threads wait, and whose turn it is on a core: spinning, sleeping, naps, and context switches.

use super::{Host, State, Thread};
use crate::config::Wait;
use crate::ledger::Stage;
use crate::protocol::dispatch::AnyDriver;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};

impl Host {
    /// How long a thread has spun by `now`, handlers that ran on its core meanwhile taken off.
    pub(super) fn spun(&self, now: Time, thread: &Thread) -> Span {
        now.since(thread.watching_since) - (self.cores[thread.core].handlers - thread.handlers_before)
    }

    /// A thread begins to spin.
    pub(super) fn watch(&mut self, now: Time, thread: u16) {
        let this = &mut self.threads[usize::from(thread)];
        this.state = State::Watching;
        // What the thread still does beside its requests is counted as work.
        this.watching_since = now.max(self.cores[this.core].free_at);
        this.handlers_before = self.cores[this.core].handlers;
    }

    /// It ends.
    pub(super) fn count_spinning(&mut self, now: Time, thread: u16) {
        self.used.spinning += self.spun(now, &self.threads[usize::from(thread)]);
    }

    /// Nothing to do: watch, go to sleep, or leave for good.
    pub(super) fn wait(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        if this.is_worker {
            this.state = State::Away;
            return self.leave(now, thread, shared);
        }
        let finished = this.next.is_none() && this.external.is_empty() && this.outstanding == 0;
        if finished {
            this.state = State::Finished;
            self.unfinished -= 1;
            shared.scheduler.look_up();
            return self.leave(now, thread, shared);
        }
        let others = !self.cores[this.core].ready.is_empty();
        let how = self.wait_of(thread);
        let this = &self.threads[usize::from(thread)];
        match how {
            Wait::Spin if !others => self.watch(now, thread),
            Wait::Sleep if this.spins_in_driver() && !(others && now >= self.cores[this.core].slice_end) => {
                self.watch(now, thread);
            }
            Wait::Hybrid if !others && this.outstanding > 0 => self.wait_hybrid(now, thread, shared),
            _ => {
                self.threads[usize::from(thread)].state = State::Away;
                self.leave(now, thread, shared);
            }
        }
    }

    /// Sleep for a share of the expected time, then watch.
    pub(super) fn wait_hybrid(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        let nap = this.latency_mean.scale(self.hybrid_sleep_ratio);
        // A nap shorter than the switches away and back would not let the core go at all.
        if this.napped || nap < self.context_switch * 2 {
            return self.watch(now, thread);
        }
        this.napped = true;
        this.state = State::Away;
        this.asleep_until = Some(now + nap);
        shared.scheduler.after(now, nap, Event::Thread(thread));
        self.leave(now, thread, shared);
    }

    /// Give the core to the next thread that is ready for it.
    pub(super) fn leave(&mut self, now: Time, thread: u16, shared: &mut Shared) {
        let core = self.threads[usize::from(thread)].core;
        let core = &mut self.cores[core];
        core.current = None;
        if self.wait != Wait::Spin || !self.workers.is_empty() {
            // Switching away takes the core, but not this thread's time.
            core.free_at = core.free_at.max(now) + self.deactivate;
            core.mask(core.free_at);
            self.used.switching += self.deactivate;
            self.used.context_switches += 1;
        }
        let core = self.threads[usize::from(thread)].core;
        self.dispatch(now, core, shared);
    }

    /// A thread has something to do: at once if it holds its core, when its turn comes otherwise.
    #[inline(always)]
    pub(super) fn rouse(&mut self, now: Time, thread: u16, driver: &AnyDriver, shared: &mut Shared) {
        let this = &mut self.threads[usize::from(thread)];
        match this.state {
            State::Busy => {}
            State::Watching => {
                this.state = State::Busy;
                self.count_spinning(now, thread);
                self.step(now, thread, driver, shared);
            }
            State::Away | State::Finished => {
                let core = this.core;
                // A kernel thread that has slept goes first, as the fair scheduler of Linux has it.
                match (std::mem::replace(&mut this.queued, true), this.is_worker) {
                    (true, _) => {}
                    (false, true) => self.cores[core].ready.push_front(thread),
                    (false, false) => self.cores[core].ready.push_back(thread),
                }
                self.dispatch(now, core, shared);
            }
        }
    }

    /// Switch a core that nobody needs to the next thread in line.
    pub(super) fn dispatch(&mut self, now: Time, place: usize, shared: &mut Shared) {
        if let Some(current) = self.cores[place].current {
            let holder = &mut self.threads[usize::from(current)];
            let keeps = self.wait == Wait::Sleep && holder.spins_in_driver() && now < self.cores[place].slice_end;
            if holder.state != State::Watching || keeps || self.cores[place].ready.is_empty() {
                return;
            }
            holder.state = State::Away;
            self.count_spinning(now, current);
        }
        let core = &mut self.cores[place];
        let Some(thread) = core.ready.pop_front() else { return };
        let others = self.threads.len() > self.cores.len();
        let core = &mut self.cores[place];
        let from = core.free_at.max(now);
        let switch = match self.wait {
            Wait::Spin if !others => Span::ZERO,
            _ if core.free_at <= now => self.reactivate,
            _ => self.context_switch,
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
        let resumed = this.resumed.front().map(|path| path.request);
        if let Some(request) = resumed.or(this.done.front().copied()) {
            shared.requests.charge_late(Some(request), Stage::CoreWait, from);
            shared.requests.charge_late(Some(request), Stage::ContextSwitch, from + switch);
        }
        shared.scheduler.at(from + switch, Event::Thread(thread));
    }
}
