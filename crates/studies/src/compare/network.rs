//! Findings about drives behind a network: what it adds to the latency, and the cores of initiator and target.

use super::{Cell, ComparedGroup, NamedJobSizes, means_ns};
use crate::results::units;
use crate::results::words::{UNBROKEN, listed};
use crate::results::{Finding, FindingKind, FindingPart, FindingUnit};
use phaselink_core::drive::Drive;
use phaselink_core::fabric::TARGET_CORES;
use phaselink_core::ledger::outcome::per;
use phaselink_core::ledger::stage::CauseOfLatency;
use phaselink_core::time::Span;

/// Polling time of a target's core from which on the core polls all the time.
const ALWAYS: Span = Span::from_s(1);

/// Returns a finding for each line of a comparison with drives behind a network.
pub(super) fn network(drives: &[Drive], groups: &[ComparedGroup], named: NamedJobSizes) -> Vec<Finding> {
    groups.iter().filter_map(|group| of_group(drives, group, named)).collect()
}

fn of_group(drives: &[Drive], group: &ComparedGroup, named: NamedJobSizes) -> Option<Finding> {
    let entries = drives.iter().zip(&group.cells).filter_map(|(drive, cell)| Some((drive, cell.as_ref()?)));
    let uses =
        entries.filter(|(drive, _)| drive.fabric.is_there()).map(|(drive, cell)| NetworkAndCoreUse::new(drive, cell));
    let uses: Vec<NetworkAndCoreUse> = uses.collect();
    let told: Vec<String> = uses.iter().map(NetworkAndCoreUse::text).collect();
    (!uses.is_empty()).then(|| Finding {
        kind: FindingKind::Network,
        at: Some(group.label.place()),
        parts: uses.iter().flat_map(NetworkAndCoreUse::parts).collect(),
        sentence: format!("At {}, {}.", named.place(&group.label), listed(&told)),
    })
}

/// Time that requests of a drive spend on network and target, and cores that work for them.
struct NetworkAndCoreUse<'a> {
    /// Name of the drive.
    name: &'a str,
    /// Number of target cores that poll all the time; 0 if they sleep.
    polling: u16,
    network_ns: f64,
    initiator: f64,
    target: f64,
    iops: f64,
}

impl NetworkAndCoreUse<'_> {
    fn new<'a>(drive: &Drive, cell: &'a Cell) -> NetworkAndCoreUse<'a> {
        let elapsed = cell.outcome.elapsed.as_ns();
        let busy = cell.outcome.cpu.working + cell.outcome.cpu.switching;
        let network = means_ns(&cell.all).into_iter().find(|(cause, _)| *cause == CauseOfLatency::Network);
        NetworkAndCoreUse {
            name: &cell.outcome.drive,
            polling: if drive.fabric.target_poll >= ALWAYS { drive.fabric.target_cores } else { 0 },
            network_ns: network.map_or(0.0, |(_, ns)| ns),
            initiator: per(busy.as_ns(), elapsed),
            target: cell.outcome.mean_busy_parts(TARGET_CORES).unwrap_or(0.0),
            iops: cell.outcome.iops(),
        }
    }

    fn text(&self) -> String {
        let NetworkAndCoreUse { name, polling, network_ns, initiator, target, iops } = self;
        let polls = match polling {
            0 => String::new(),
            cores => format!(", which polls on {cores} all the time"),
        };
        format!(
            "a request of {name} spends {} on network and target; {} IOPS keep {initiator:.2}{UNBROKEN}cores of the initiator and \
             {target:.2} of the target busy{polls}",
            units::quantity(network_ns * 1e-9, "s").replace(' ', UNBROKEN),
            units::count(*iops).replace(' ', UNBROKEN),
        )
    }

    fn parts(&self) -> [FindingPart; 3] {
        let part = |cause, amount, unit| FindingPart::new(&[self.name], Some(cause), Some((amount, unit)));
        [
            part(CauseOfLatency::Network.name(), self.network_ns, FindingUnit::Ns),
            part("initiator cores", self.initiator, FindingUnit::Cores),
            part(TARGET_CORES, self.target, FindingUnit::Cores),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{LineLabel, named};
    use phaselink_core::drive_file::{KeyOverride, shipped};
    use phaselink_core::simulation::simulate;
    use phaselink_core::workload::fio;

    fn described(set: &[&str]) -> Drive {
        let shipped = shipped::find("tlc-gen4").unwrap();
        let overrides: Vec<KeyOverride> = set.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
        Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap()
    }

    #[test]
    fn remote_drive_finding_names_cores_of_both_sides() {
        let drives = [described(&[]), described(&["name=remote", "fabric.preset=nvme-tcp-spdk"])];
        let options = [("rw", "randread"), ("bs", "4k"), ("number_ios", "500")];
        let jobs = fio::job_from_flags(&options).unwrap().resolve(&drives[0].limits(), &Default::default()).unwrap();
        let cell = |drive| Some(Cell::new(drive, &jobs, simulate(drive, &jobs, 1).unwrap()));
        let group = ComparedGroup { label: LineLabel::of(&jobs), cells: drives.iter().map(cell).collect() };
        let groups = std::slice::from_ref(&group);
        let found = network(&drives, groups, named(groups)).remove(0);
        assert!(found.sentence.contains("of the target busy, which polls on 1 all the time"), "{}", found.sentence);
        let amounts: Vec<f64> = found.parts.iter().filter_map(|part| part.amount).collect();
        // Each read takes 1.4 and 1.7 us of a core, 3.1 us in total, besides the time on the wires.
        let iops = group.cells[1].as_ref().unwrap().outcome.iops();
        assert!((amounts[2] - 3.1e-6 * iops).abs() < 0.01 * amounts[2], "{amounts:?}");
        assert!(amounts[0] > 3_100.0, "{amounts:?}");
        assert!(network(&drives[..1], groups, named(groups)).is_empty());
    }
}
