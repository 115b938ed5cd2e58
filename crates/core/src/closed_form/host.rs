//! The host in closed form: software on the way down and up, and how a thread learns of its completion.

use super::Parts;
use super::demand::Demands;
use super::workload::Workload;
use crate::config::{LockHeld, Wait};
use crate::host::stack::{Path, Stack, Step, Way};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::Op;
use crate::time::{Span, Time};

impl Parts<'_> {
    /// What so many threads can do at a time, in cores: the second thread of a core adds its yield.
    fn cores_used(&self, threads: u32) -> f64 {
        let host = &self.drive.host;
        let alone = threads.min(host.cores.into());
        let beside = threads.min(host.processors().into()) - alone;
        f64::from(alone) + f64::from(beside) * host.thread_yield
    }

    /// A processor cost at the clock that the cores run at.
    pub fn at_clock(&self, cost: Span) -> Span {
        cost.scale(self.clock_ratio())
    }

    fn clock_ratio(&self) -> f64 {
        self.drive.host.nominal_ghz / self.drive.host.core_ghz
    }

    fn stack(&self) -> Stack {
        Stack::new(&self.drive.stages(), &self.drive.stack, self.clock_ratio())
    }

    /// A request on its way down to the driver, meeting nobody.
    pub fn descend(&self, op: Op, bytes: u32) -> Ledger {
        let mut ledger = Ledger::new(Time::ZERO);
        let path = Path { request: 0, op, way: Way::Down, place: 0 };
        self.stack().copy(&path, bytes, &mut ledger);
        self.go_alone(path, &mut ledger);
        ledger
    }

    /// And on its way back up from the driver.
    pub fn ascend(&self, ledger: &mut Ledger, op: Op, bytes: u32) {
        let path = Path { request: 0, op, way: Way::Up, place: 0 };
        self.stack().copy(&path, bytes, ledger);
        self.go_alone(path, ledger);
    }

    /// Locks are free and lines are there.
    fn go_alone(&self, mut path: Path, ledger: &mut Ledger) {
        let stack = self.stack();
        while let Some(step) = stack.advance(&mut path, ledger) {
            if let Step::Spin { stage, hold, .. } = step {
                ledger.spend(stage, hold);
            }
            path.place += 1;
        }
    }

    /// What a lone request waits where its thread leaves it to the kernel's worker: for the wake-up, for the switch away
    /// from the thread and for that to the worker. Requests of many threads need not wait for it: a busy worker is awake.
    pub fn hand_over(&self, ledger: &mut Ledger) {
        let stages = self.drive.stages();
        let Some(place) = stages.iter().position(|stage| stage.hand_over) else { return };
        let switch = self.at_clock(self.drive.host.context_switch);
        ledger.spend(Stage::stack(place), self.at_clock(self.drive.host.wake));
        ledger.spend(Stage::CoreWait, switch);
        ledger.spend(Stage::ContextSwitch, switch);
    }

    /// The thread that watches sees what has settled.
    pub fn see(&self, ledger: &mut Ledger) {
        ledger.spend(Stage::Poll, self.at_clock(self.drive.host.poll));
    }

    /// When the handler of an interrupt has run whose message reaches the root complex at `now`. It runs on the core of
    /// its thread, which spins, or went to sleep at `since` and has left the core idle.
    pub fn handled(&self, now: Time, since: Option<Time>) -> Time {
        let host = &self.drive.host;
        let free_at = since.map_or(Time::ZERO, |since| since + self.at_clock(host.context_switch));
        let exit = if since.is_some() && free_at <= now { host.idle_exit } else { Span::ZERO };
        let delivered = now + self.at_clock(host.interrupt) + exit;
        // The handler runs when its core is done with the switch away from the thread.
        delivered.max(free_at) + self.at_clock(host.interrupt_handler)
    }

    /// The thread that went to sleep at `since` is woken by an interrupt whose message has just reached the root
    /// complex: delivery, handler, switch.
    pub fn wake(&self, ledger: &mut Ledger, since: Time) {
        let handled = self.handled(ledger.cursor(), Some(since));
        ledger.until(Stage::Interrupt, handled);
        self.rouse(ledger, handled);
    }

    /// A handler that is at it until `busy_until` wakes the thread whose completion it has just found, and its core
    /// switches to it.
    pub fn rouse(&self, ledger: &mut Ledger, busy_until: Time) {
        let (found, wake) = (ledger.cursor(), self.at_clock(self.drive.host.wake));
        let stage = if wake.is_zero() { Stage::CoreWait } else { Stage::Interrupt };
        ledger.until(stage, busy_until.max(found) + wake);
        ledger.spend(Stage::ContextSwitch, self.at_clock(self.drive.host.context_switch));
        if ledger.cursor() == found {
            self.see(ledger);
        }
    }

    /// What a request costs the cores of its threads: `software` each, and a share of an interrupt that can serve all
    /// requests outstanding on a queue.
    pub fn demand_cores(&self, demands: &mut Demands, workload: &Workload, software: Span, interrupts: bool) {
        let cores = self.cores_used(workload.threads);
        demands.add("cores", cores, software, 1.0);
        if interrupts && self.drive.host.wait == Wait::Sleep {
            let handler = self.at_clock(self.drive.host.interrupt_handler);
            demands.add("cores", cores, handler, 1.0 / workload.outstanding.max(1) as f64);
        }
        let stages = self.drive.stages().into_iter();
        for stage in stages.filter(|stage| !stage.lock.is_empty() && stage.lock_held == LockHeld::Stage) {
            let submit_held = if stage.submit_held.is_zero() { stage.submit } else { stage.submit_held };
            let held = self.at_clock(submit_held) + self.at_clock(stage.complete_held);
            demands.add(&format!("lock {}", stage.lock), 1.0, held, 1.0);
        }
    }
}
