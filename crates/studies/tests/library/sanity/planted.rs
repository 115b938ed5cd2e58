//! Faults that the laws must find.

use phaselink_core::config::{Acknowledge, Media};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::Outcome;
use phaselink_core::time::Span;
use phaselink_core::workload::Job;
use phaselink_studies::predict::JobPrediction;

use super::cases::{Case, Work};
use super::lab::SimulationLab;
use super::laws::{self, BOUND, FASTER, IDLE, LEAST};
use super::parts::{self, Part};

const SOUND: fn(&Drive, &[Job]) -> Outcome = |drive, jobs| (SimulationLab::default().simulate)(drive, jobs);

/// Simulates an altered drive.
fn altered(drive: &Drive, jobs: &[Job], alter: impl Fn(&mut Drive)) -> Outcome {
    let mut drive = drive.clone();
    alter(&mut drive);
    SOUND(&drive, jobs)
}

fn case(drive: &'static str, work: Work, part: Part) -> Case {
    Case { drive, set: Vec::new(), work, part }
}

/// Whether a lab breaks a law with one of these cases, and a sound one does not.
fn is_law_broken_only_by_lab(law: &str, lab: &SimulationLab, cases: impl IntoIterator<Item = Case>) -> bool {
    let broken = |lab: &SimulationLab, case: &Case| laws::check(lab, case).1.iter().any(|finding| finding.law == law);
    cases.into_iter().find(|case| broken(lab, case)).is_some_and(|case| !broken(&SimulationLab::default(), &case))
}

/// The last of the interfaces, over a memory that this changes.
fn simulate_ignoring_memory_key(drive: &Drive, jobs: &[Job], ignore: impl Fn(&mut Media)) -> Outcome {
    let is_last = shipped::set("interfaces").last() == Some(&drive.name.as_str());
    altered(drive, jobs, |drive| {
        if is_last {
            ignore(&mut drive.media)
        }
    })
}

#[test]
fn interface_that_ignores_a_memory_key_is_detected() {
    let ignorant: [fn(&Drive, &[Job]) -> Outcome; 6] = [
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.stripe_bytes = 256),
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.acknowledge = Acknowledge::Early),
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.read = Span::from_ns(110)),
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.program = Span::from_us(100)),
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.channels = 16),
        |drive, jobs| simulate_ignoring_memory_key(drive, jobs, |media| media.bus_bytes_per_ns = 2.0),
    ];
    let all = shipped::set("interfaces");
    let two = [all[0], all[all.len() - 1]];
    for (place, simulate) in ignorant.into_iter().enumerate() {
        assert!(
            !laws::unequal_memory_limits(&SimulationLab { simulate, ..SimulationLab::default() }, &two).is_empty(),
            "fault {place}"
        );
    }
}

#[test]
fn bound_too_low_by_two_percent_is_detected() {
    let predict = |drive: &Drive, jobs: &[Job]| -> JobPrediction {
        let mut prediction = (SimulationLab::default().predict)(drive, jobs);
        prediction.demands.iter_mut().for_each(|demand| demand.busy_ns /= 0.98);
        prediction
    };
    let work = Work { bytes: 131_072, depth: 32, ..Work::READS };
    let cases = shipped::names().map(|drive| case(drive, work, Part::Key("media.channels")));
    assert!(is_law_broken_only_by_lab(BOUND, &SimulationLab { predict, ..SimulationLab::default() }, cases));
}

#[test]
fn device_that_underestimates_cell_time_is_detected() {
    let simulate = |drive: &Drive, jobs: &[Job]| {
        altered(drive, jobs, |drive| {
            let hole = Span::from_ns(225)..Span::from_ns(235);
            if hole.contains(&drive.media.read) {
                drive.media.read += Span::from_ns(100);
            }
        })
    };
    let work = Work { bytes: 512, ..Work::READS };
    let cases = shipped::set("usual").into_iter().map(|drive| case(drive, work, Part::Ladder(parts::READS)));
    assert!(is_law_broken_only_by_lab(FASTER, &SimulationLab { simulate, ..SimulationLab::default() }, cases));
}

#[test]
fn read_that_skips_the_cells_is_detected() {
    let simulate = |drive: &Drive, jobs: &[Job]| altered(drive, jobs, |drive| drive.media.read = Span::ZERO);
    let work = Work { bytes: 512, ..Work::READS };
    let cases = shipped::set("usual").into_iter().map(|drive| case(drive, work, Part::Key("media.banks_per_channel")));
    assert!(is_law_broken_only_by_lab(LEAST, &SimulationLab { simulate, ..SimulationLab::default() }, cases));
}

#[test]
fn device_that_pauses_between_requests_is_detected() {
    let simulate = |drive: &Drive, jobs: &[Job]| {
        let dozes = jobs.iter().any(|job| job.thinktime > Span::ZERO);
        altered(drive, jobs, |drive| {
            if dozes {
                drive.media.command += Span::from_us(2)
            }
        })
    };
    let cases = [case("nvme", Work::READS, Part::Key("media.read_ns"))];
    assert!(is_law_broken_only_by_lab(IDLE, &SimulationLab { simulate, ..SimulationLab::default() }, cases));
}
