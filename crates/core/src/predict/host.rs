//! The host in closed form: software on the way down and up, and how a thread learns of its completion.

use super::Parts;
use super::demand::Demands;
use super::workload::Workload;
use crate::config::Wait;
use crate::host::stack::Stack;
use crate::report::Stage;
use crate::report::stage::Ledger;
use crate::time::{Span, Time};
use crate::workload::Op;

impl Parts<'_> {
    /// A processor cost at the clock that the cores run at.
    pub fn at_clock(&self, cost: Span) -> Span {
        cost.scale(self.clock_ratio())
    }

    fn clock_ratio(&self) -> f64 {
        self.drive.host.nominal_ghz / self.drive.host.core_ghz
    }

    fn stack(&self) -> Stack {
        Stack::new(&self.drive.stack, self.clock_ratio())
    }

    /// A request on its way down to the driver.
    pub fn descend(&self) -> Ledger {
        let mut ledger = Ledger::new(Time::ZERO);
        self.stack().submit(&mut ledger);
        ledger
    }

    /// And on its way back up from the driver.
    pub fn ascend(&self, ledger: &mut Ledger, op: Op, bytes: u32) {
        self.stack().complete(if op == Op::Read { bytes } else { 0 }, ledger);
    }

    /// The thread that watches sees what has settled.
    pub fn see(&self, ledger: &mut Ledger) {
        ledger.spend(Stage::Poll, self.at_clock(self.drive.host.poll));
    }

    /// The thread that went to sleep at `since` is woken by an interrupt whose message has just reached the root
    /// complex: delivery, handler, switch.
    pub fn wake(&self, ledger: &mut Ledger, since: Time) {
        let host = &self.drive.host;
        let switch = self.at_clock(host.context_switch);
        let delivered = ledger.cursor() + self.at_clock(host.interrupt);
        // The handler runs when its core is done with the switch away from the thread.
        let handled = delivered.max(since + switch) + self.at_clock(host.interrupt_handler);
        ledger.until(Stage::Interrupt, handled);
        ledger.spend(Stage::ContextSwitch, switch);
        if switch.is_zero() {
            self.see(ledger);
        }
    }

    /// What a request costs the cores of its threads: `software` each, and a share of an interrupt that can serve all
    /// requests outstanding on a queue.
    pub fn demand_cores(&self, demands: &mut Demands, workload: &Workload, software: Span, interrupts: bool) {
        let cores = f64::from(workload.threads.min(self.drive.host.cores.into()));
        demands.add("cores", cores, software, 1.0);
        if interrupts && self.drive.host.wait == Wait::Sleep {
            let handler = self.at_clock(self.drive.host.interrupt_handler);
            demands.add("cores", cores, handler, 1.0 / workload.outstanding.max(1) as f64);
        }
        for stage in self.drive.stack.stages.iter().filter(|stage| !stage.lock.is_empty()) {
            demands.add(&format!("lock {}", stage.lock), 1.0, self.at_clock(stage.submit), 1.0);
        }
    }
}
