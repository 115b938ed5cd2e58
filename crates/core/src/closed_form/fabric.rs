//! Network between host and drive in closed form: times of a lone request on it, and demands on links and target cores.

use super::Parts;
use super::demand::ServiceDemands;
use super::workload::{Class, Workload};
use crate::config::Transport;
use crate::fabric::{LoneRemoteTimes, TARGET_CORES, connections};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::Io;
use crate::time::{Span, Time};

impl Parts<'_> {
    /// Returns the times of a lone request of a class on the drive's network; `None` if the drive is in its host.
    pub fn remote(&self, class: &Class) -> Option<LoneRemoteTimes> {
        LoneRemoteTimes::of(self.drive, &Io { op: class.direction.into(), offset: 0, bytes: class.bytes })
    }

    /// True if polling threads find responses of a network without interrupts.
    pub fn finds_responses(&self) -> bool {
        !self.sleeps() && (self.engaged.is_none() || self.drive.fabric.polled_queues)
    }

    /// Adds to a request's ledger the way of its command over the network, up to its submission to the drive. `is_woken`
    /// is true if the target's core sleeps when the command arrives; the initiator has submitted it at `since`.
    pub fn charge_command_path(&self, ledger: &mut Ledger, times: &LoneRemoteTimes, is_woken: bool, since: Time) {
        ledger.spend(Stage::Capsule, times.capsule);
        if is_woken {
            ledger.spend(Stage::TargetWake, self.drive.fabric.target_wake);
        }
        ledger.spend(Stage::Target, times.command);
        if let Some([ask, data]) = times.write_data {
            let asked = ledger.cursor();
            ledger.spend(Stage::WriteData, ask);
            let answered = ledger.cursor() + self.data_request_response_time(ledger.cursor(), since);
            ledger.until(Stage::WriteData, answered);
            ledger.spend(Stage::WriteData, data);
            if ledger.cursor().since(asked) > self.drive.fabric.target_poll {
                ledger.spend(Stage::TargetWake, self.drive.fabric.target_wake);
            }
            ledger.spend(Stage::Target, times.data_work);
        }
    }

    /// Returns the time of the initiator to answer the target's request for data, which arrives at `now`.
    fn data_request_response_time(&self, now: Time, since: Time) -> Span {
        let fabric = &self.drive.fabric;
        let answer = fabric.initiator_receive.scale(self.drive.software_ratio());
        match (fabric.transport, self.finds_responses()) {
            (Transport::Rdma, _) => Span::ZERO,
            (_, true) => answer,
            (_, false) => {
                let asleep = self.sleeps().then_some(since);
                self.handled(now, asleep).since(now) + fabric.initiator_worker + answer
            }
        }
    }

    /// Adds to a request's ledger the way of its response over the network, from the drive's completion until the
    /// initiator's software continues. The initiator has submitted the request at `since`.
    pub fn charge_response_path(&self, ledger: &mut Ledger, times: &LoneRemoteTimes, since: Time) {
        ledger.spend(Stage::TargetWake, self.drive.fabric.target_notice);
        ledger.spend(Stage::Target, times.response_work);
        ledger.spend(Stage::Response, times.response);
        let worker = self.drive.fabric.initiator_worker;
        match (self.sleeps(), self.finds_responses()) {
            (true, _) => self.charge_interrupt_wake_up(ledger, since, worker),
            (false, true) => self.charge_polling_completion(ledger, since),
            (false, false) => {
                ledger.until(Stage::Interrupt, self.handled(ledger.cursor(), None) + worker);
                self.charge_polling_completion(ledger, since);
            }
        }
    }

    /// Adds the demands of a request on the network's links and the target's cores. A queue pair is served by one core,
    /// so that no more cores work than queue pairs are in use.
    pub fn add_network_demands(&self, demands: &mut ServiceDemands, workload: &Workload, class: &Class) {
        let Some(times) = self.remote(class) else { return };
        let fabric = &self.drive.fabric;
        let cores = u32::from(fabric.target_cores).min(connections(self.drive)).min(workload.threads.max(1));
        demands.add_host_resource_uses(TARGET_CORES, f64::from(cores), times.target_work(), 1.0);
        let [to_target, to_initiators] = times.on_wire;
        demands.add_host_resource_uses("network to target", 1.0, to_target, 1.0);
        demands.add_host_resource_uses("network to initiators", 1.0, to_initiators, 1.0);
    }
}
