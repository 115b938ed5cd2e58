//! Host in closed form: software time to submit and complete a request, and the time until a thread notices its
//! completion.

use super::demand::ServiceDemands;
use super::workload::{Class, Workload};
use super::{EngineSoftware, Parts};
use crate::config::{IdleWakeTime, LockHoldPeriod, LockScope, Wait};
use crate::fabric::host_queue_pair_count;
use crate::host::software::{StageCostTime, StageLockCost, locks};
use crate::host::stack::{Path, Stack, StackStep, Way};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::number::real;
use crate::request::{DataDirection, Io};
use crate::time::{Span, Time};

impl Parts<'_> {
    /// Returns the compute capacity that `threads` threads use, in cores. The second hardware thread of a core adds
    /// less than one.
    fn core_capacity_used(&self, threads: u32) -> f64 {
        let host = &self.drive.host;
        let alone = threads.min(host.cores.into());
        let beside = threads.min(host.processors().into()) - alone;
        f64::from(alone) + f64::from(beside) * host.thread_yield
    }

    /// Scales the time of an operation outside the core, such as a poll of memory, to the actual clock of the cores.
    pub fn at_core_clock(&self, cost: Span) -> Span {
        cost.scale(self.drive.host.nominal_clock_ratio())
    }

    /// Scales the time of the kernel's own code to the speed of this host's cores.
    fn on_host_cores(&self, cost: Span) -> Span {
        cost.scale(self.drive.host.kernel_cost_ratio())
    }

    fn stack(&self) -> Stack {
        Stack::of(self.drive)
    }

    /// Returns the ledger (time by stage) of submitting one request, from the application down to the driver, without
    /// contention.
    pub fn descend(&self, direction: DataDirection, bytes: u32) -> Ledger {
        let mut ledger = Ledger::new(Time::ZERO);
        if let Some(engaged) = &self.engaged {
            let costs = engaged.software.down(direction);
            spend(&mut ledger, &costs.user, direction, bytes);
            costs.batch.iter().for_each(|cost| ledger.spend(cost.stage, cost.time));
            if self.has_poller() {
                self.charge_poll_time(&mut ledger);
            }
            spend(&mut ledger, &costs.kernel, direction, bytes);
            return ledger;
        }
        let path = Path { request: 0, op: direction.into(), way: Way::Down, place: 0 };
        self.stack().copy(&path, bytes, &mut ledger);
        self.charge_uncontended_path(path, &mut ledger);
        ledger
    }

    /// Adds to a request's ledger of stage times the software time of completing one request, from the driver up to the
    /// application, without contention.
    pub fn charge_completion_path(&self, ledger: &mut Ledger, direction: DataDirection, bytes: u32) {
        if let Some(engaged) = &self.engaged {
            let costs = &engaged.software.up;
            spend(ledger, &costs.kernel, direction, bytes);
            if self.has_poller() {
                self.charge_poll_time(ledger);
            }
            costs.batch.iter().for_each(|cost| ledger.spend(cost.stage, cost.time));
            return spend(ledger, &costs.user, direction, bytes);
        }
        let path = Path { request: 0, op: direction.into(), way: Way::Up, place: 0 };
        self.stack().copy(&path, bytes, ledger);
        self.charge_uncontended_path(path, ledger);
    }

    /// True if threads block until an interrupt; false if they poll for completions.
    pub fn sleeps(&self) -> bool {
        match &self.engaged {
            Some(engaged) => !engaged.software.polls(),
            None => self.drive.host.wait == Wait::Sleep,
        }
    }

    /// True if a kernel poll thread submits requests and collects completions in place of the application's threads.
    pub fn has_poller(&self) -> bool {
        self.engaged.as_ref().is_some_and(|engaged| engaged.software.switches.sqthread_poll)
    }

    /// Returns the time after submitting a request until its thread has entered the call that waits for completions.
    fn wait_call_time(&self) -> Span {
        self.engaged.as_ref().map_or(Span::ZERO, |engaged| engaged.software.empty_poll_time())
    }

    /// Returns the time that a request saves if its thread finds the completion without having to wait.
    pub fn spared_wait_call_time(&self) -> Span {
        let batch = self.engaged.iter().flat_map(|engaged| &engaged.software.up.batch);
        batch.filter(|cost| cost.if_waited).map(|cost| cost.time).sum()
    }

    /// Returns the processor time of a request in the software above the driver. Costs of a batch are divided by the
    /// largest batch.
    pub fn software(&self, direction: DataDirection, bytes: u32) -> Span {
        let Some(EngineSoftware { software, together }) = &self.engaged else {
            let mut ledger = self.descend(direction, bytes);
            self.charge_completion_path(&mut ledger, direction, bytes);
            return ledger.cursor().since(ledger.start());
        };
        let (down, up) = (software.down(direction), &software.up);
        let mut ledger = Ledger::new(Time::ZERO);
        let all = [&down.user, &up.user, &down.kernel, &up.kernel];
        let own = if self.has_poller() { &all[..2] } else { &all };
        own.iter().for_each(|costs| spend(&mut ledger, costs, direction, bytes));
        let submitted: Span = down.batch.iter().map(|cost| cost.time).sum();
        let always = up.batch.iter().chain(&software.look).filter(|cost| !cost.if_waited);
        let completed: Span = always.map(|cost| cost.time).sum();
        let shares = submitted / u64::from(together.submit) + completed / u64::from(together.complete_max);
        ledger.cursor().since(ledger.start()) + shares
    }

    /// Returns the largest number of submissions that share one doorbell write, and the largest number of completions
    /// that do. Completions that are collected together may all belong to one drive.
    pub fn sharing(&self, workload: &Workload) -> (f64, f64) {
        let Some(EngineSoftware { together, .. }) = &self.engaged else { return (1.0, 1.0) };
        let submitted = f64::from(together.submit) / workload.least_distinct_drives(together.submit);
        match self.sleeps() {
            false => (submitted, together.complete_max.into()),
            true => (submitted, real(workload.outstanding.max(1))),
        }
    }

    /// Adds a path through the software stack to a request's ledger of stage times, if all locks are free and all cache
    /// lines present.
    fn charge_uncontended_path(&self, mut path: Path, ledger: &mut Ledger) {
        let stack = self.stack();
        while let Some(step) = stack.advance(&mut path, ledger) {
            if let StackStep::Spin { stage, hold, .. } = step {
                ledger.spend(stage, hold);
            }
            path.place += 1;
        }
    }

    /// Adds to a request's ledger of stage times the wait of a lone request that its thread passes to a worker of the
    /// kernel: wake-up, switch away from the thread, switch to the worker. With many threads, the worker is awake and
    /// nobody waits.
    pub fn hand_over(&self, ledger: &mut Ledger) {
        let stages = self.drive.stages();
        let Some(place) = stages.iter().position(|stage| stage.hand_over) else { return };
        let switch = self.on_host_cores(self.drive.host.context_switch);
        ledger.spend(Stage::stack(place), self.on_host_cores(self.drive.host.wake));
        ledger.spend(Stage::CoreWait, switch);
        ledger.spend(Stage::ContextSwitch, switch);
    }

    /// Adds to a request's ledger of stage times the time until a polling thread sees data that has become visible in
    /// memory.
    pub fn charge_poll_time(&self, ledger: &mut Ledger) {
        ledger.spend(Stage::Poll, self.at_core_clock(self.drive.host.poll));
    }

    /// Adds to a request's ledger of stage times the time until a polling thread sees a completion. The thread
    /// submitted the request at `since`, and must first have entered the call that waits for it.
    pub fn charge_polling_completion(&self, ledger: &mut Ledger, since: Time) {
        self.charge_poll_time(ledger);
        ledger.until(Stage::CoreWait, ledger.cursor().max(since + self.wait_call_time()));
    }

    /// Returns the time at which an interrupt handler ends whose message reaches the root complex at `now`. The handler
    /// runs on the core of its thread. That thread polls (`since` is `None`), or went to sleep at `since` and left the
    /// core idle.
    pub fn handled(&self, now: Time, since: Option<Time>) -> Time {
        let host = &self.drive.host;
        let free_at =
            since.map_or(Time::ZERO, |since| since + self.wait_call_time() + self.on_host_cores(host.deactivate()));
        let is_idle = since.is_some() && free_at <= now;
        let idle = if is_idle { Some(now.since(free_at)) } else { None };
        let in_call = self.engaged.as_ref().is_some_and(|engaged| engaged.software.waits_in_system_call());
        let exit = idle.map_or(Span::ZERO, |idle| {
            let IdleWakeTime { exit, cold } = host.idle_wake_time(idle, idle, in_call);
            exit + cold
        });
        let delivered = now + self.at_core_clock(host.interrupt) + exit;
        // The core runs the handler only after it has finished the switch away from the thread.
        delivered.max(free_at) + self.on_host_cores(host.interrupt_handler)
    }

    /// Adds to a request's ledger of stage times the wake-up of a thread that went to sleep at `since`: interrupt
    /// delivery, handler and context switch. The interrupt message has just reached the root complex.
    pub fn wake(&self, ledger: &mut Ledger, since: Time) {
        self.charge_interrupt_wake_up(ledger, since, Span::ZERO);
    }

    /// Adds to a request's ledger of stage times the wake-up, by an interrupt, of a thread that went to sleep at
    /// `since`. The interrupt handler takes `longer` more than usual.
    pub fn charge_interrupt_wake_up(&self, ledger: &mut Ledger, since: Time, longer: Span) {
        let handled = self.handled(ledger.cursor(), Some(since)) + longer;
        ledger.until(Stage::Interrupt, handled);
        self.charge_wake_up(ledger, handled);
    }

    /// Adds to a request's ledger of stage times the wake-up of a thread whose completion an interrupt handler has just
    /// found, and the context switch. The handler keeps the core busy until `busy_until`.
    pub fn charge_wake_up(&self, ledger: &mut Ledger, busy_until: Time) {
        let (found, wake) = (ledger.cursor(), self.on_host_cores(self.drive.host.wake));
        let stage = if wake.is_zero() { Stage::CoreWait } else { Stage::Interrupt };
        ledger.until(stage, busy_until.max(found) + wake);
        ledger.spend(Stage::ContextSwitch, self.on_host_cores(self.drive.host.reactivate()));
        if ledger.cursor() == found {
            self.charge_poll_time(ledger);
        }
    }

    /// Adds the service demand of a request on the cores and locks of the host: `software` time, and a share of an
    /// interrupt. One interrupt can serve all requests in flight on a queue.
    pub fn add_core_demands(
        &self,
        demands: &mut ServiceDemands,
        workload: &Workload,
        software: Span,
        interrupts: bool,
    ) {
        let cores = self.core_capacity_used(workload.threads);
        demands.add_host_resource_uses("cores", cores, software, 1.0);
        if interrupts && self.sleeps() {
            let handler = self.on_host_cores(self.drive.host.interrupt_handler);
            demands.add_host_resource_uses("cores", cores, handler, 1.0 / real(workload.outstanding.max(1)));
        }
        self.add_engine_lock_demands(demands, workload);
        let stages = self.drive.stages().into_iter();
        for stage in stages.filter(|stage| !stage.lock.is_empty() && stage.lock_held == LockHoldPeriod::Stage) {
            let submit_held = if stage.submit_held.is_zero() { stage.submit } else { stage.submit_held };
            let held = self.on_host_cores(submit_held) + self.on_host_cores(stage.complete_held);
            demands.add_host_resource_uses(&format!("lock {}", stage.lock), 1.0, held, 1.0);
        }
    }

    /// Adds the service demand of a request's `writes` posted register writes on the processors. It is zero if draining
    /// them takes no time.
    pub fn add_posted_write_demands(&self, demands: &mut ServiceDemands, workload: &Workload, writes: f64) {
        let host = &self.drive.host;
        let posting = f64::from(workload.threads.min(host.processors().into()));
        demands.add_host_resource_uses("register writes", posting, host.mmio_drain, writes);
    }

    /// Adds the service demand of a request on the kernel poll thread of its ring. `driver` is the driver's processor
    /// time for it.
    pub fn add_poller_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class, driver: Span) {
        let Some(EngineSoftware { software, .. }) = self.engaged.as_ref().filter(|_| self.has_poller()) else { return };
        let mut ledger = Ledger::new(Time::ZERO);
        spend(&mut ledger, &software.down(class.direction).kernel, class.direction, class.bytes);
        spend(&mut ledger, &software.up.kernel, class.direction, class.bytes);
        let each = ledger.cursor().since(ledger.start()) + driver;
        demands.add_host_resource_uses("poll threads", workload.threads.into(), each, 1.0);
    }

    /// Adds the service demand of each request on the locks that an I/O engine's stages take. Each drive has its own
    /// locks.
    fn add_engine_lock_demands(&self, demands: &mut ServiceDemands, workload: &Workload) {
        let Some(EngineSoftware { software, .. }) = self.engaged.as_ref().filter(|_| !self.has_poller()) else {
            return;
        };
        let names = locks(&self.drive.stack);
        for class in &workload.classes {
            let costs = software.down(class.direction).kernel.iter().chain(&software.up.kernel);
            for StageLockCost { lock, hold, scope, .. } in costs.filter_map(|cost| cost.lock) {
                let queues = host_queue_pair_count(self.drive);
                let processors = workload.threads.min(self.drive.host.processors().into());
                let each = match scope {
                    LockScope::Drive => 1.0,
                    LockScope::Queue if processors > queues => queues.into(),
                    LockScope::Queue => continue,
                };
                let locks = f64::from(self.drive.drives) * each;
                demands.add_host_resource_uses(&format!("lock {}", names[lock]), locks, hold, class.share);
            }
        }
    }
}

/// Adds the processor times and lock hold times of software stages to a request's ledger of stage times, without
/// contention.
fn spend(ledger: &mut Ledger, costs: &[StageCostTime], direction: DataDirection, bytes: u32) {
    let io = Io { op: direction.into(), offset: 0, bytes };
    for cost in costs {
        ledger.spend(cost.stage, cost.alone(&io));
    }
}
