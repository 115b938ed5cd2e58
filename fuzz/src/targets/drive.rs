//! Targets that read drive files, and run the accepted ones.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;
use phaselink_studies::report;

use super::text;
use crate::Target;

/// Checks that any text is a drive or refused, and that a drive reads back from its own description.
pub(super) const FILE: Target = Target { name: "drive", run: file, seeds };

/// Checks that an accepted drive runs a few requests of a mixed job, or says why not.
pub(super) const RUN: Target = Target { name: "drive-run", run, seeds };

/// Number of events of one run: some hundred requests of most drives.
const EVENTS: u64 = 20_000;

const JOB: &str = "[mixed]\nrw=randrw\nbs=4k\niodepth=4\nnumjobs=2\nnumber_ios=20\n";

fn file(input: &[u8]) {
    match Drive::from_toml("fuzz.toml", &text(input), &[]) {
        Ok(drive) => {
            let again = Drive::from_toml("again.toml", &drive.to_toml(), &[]);
            let again = again.unwrap_or_else(|problems| panic!("its own description is refused: {problems}"));
            assert_eq!(again.resolved(), drive.resolved());
            assert!(!drive.explain().is_empty());
        }
        Err(problems) => assert!(!problems.0.is_empty() && !problems.to_string().is_empty()),
    }
}

fn run(input: &[u8]) {
    let Ok(drive) = Drive::from_toml("fuzz.toml", &text(input), &[]) else { return };
    let file = fio::parse("job", JOB).expect("a fair job");
    let Ok(jobs) = file.resolve(&drive.limits(), &Default::default()) else { return };
    let Ok(mut simulation) = Simulation::new(&drive, &jobs, 1) else { return };
    simulation.step(EVENTS);
    assert!(!report::summary(&simulation.outcome()).is_empty());
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = shipped::all().map(|drive| drive.text.as_bytes().to_vec()).collect();
    seeds.extend(shipped::all().map(|drive| format!("preset = \"{}\"\n[media]\nread_ns = 300\n", drive.name).into()));
    seeds
}
