//! Arrivals recorded at the driver of a run, submitted to an embedded drive at the same instants, complete at the same
//! picosecond.

use expect_test::expect_file;
use phaselink_core::drive::Drive as CoreDrive;
use phaselink_core::drive_file::{Override, shipped};
use phaselink_core::engine::driver_end::DriverRecord;
use phaselink_core::request::Op;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Time;
use phaselink_core::workload::fio;
use phaselink_embed::{Description, Operation};

/// Requests recorded at the driver of a run of a shipped drive.
fn recorded(name: &str, settings: &[&str], job: &[(&str, &str)]) -> Vec<DriverRecord> {
    let file = shipped::find(name).expect("a shipped drive");
    let settings: Vec<Override> = settings.iter().map(|text| Override::parse(text).unwrap()).collect();
    // The embedding program polls for completions, and is the software above the driver.
    let drive = CoreDrive::from_toml(file.file, file.text, &settings).unwrap().polled();
    let jobs = fio::from_flags(job).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
    let mut simulation = Simulation::new(&drive, &jobs, 1).unwrap();
    simulation.record_driver(2000);
    while simulation.step(1 << 16) {}
    simulation.driver_records().copied().collect()
}

/// Instants at which an embedded drive completes the same requests.
fn replayed(name: &str, settings: &[&str], records: &[DriverRecord]) -> Vec<Time> {
    let mut description = Description::shipped(name).unwrap().without_data();
    for setting in settings {
        description = description.with(setting).unwrap();
    }
    let mut drive = description.open().unwrap();
    let queues = drive.queues();
    let mut completed = vec![Time::NEVER; records.len()];
    let mut tickets = std::collections::BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        let operation = match record.io.op {
            Op::Read => Operation::read(record.io.offset, record.io.bytes),
            Op::Write => Operation::write_without_data(record.io.offset, record.io.bytes),
            Op::Flush => Operation::flush(),
            Op::Discard => Operation::discard(record.io.offset, record.io.bytes),
            Op::WriteZeroes => Operation::write_zeroes(record.io.offset, record.io.bytes),
        };
        let ticket = drive.submit(record.submitted, record.thread % queues, operation).unwrap();
        tickets.insert(ticket, place);
        while let Some(done) = drive.next_completion() {
            completed[tickets[&done.ticket()]] = done.at();
        }
    }
    while drive.in_flight() > 0 {
        drive.advance_to_completion(Time::from_ps(1 << 62)).unwrap();
    }
    while let Some(done) = drive.next_completion() {
        completed[tickets[&done.ticket()]] = done.at();
    }
    completed
}

/// First request that completes at another instant, with its number.
fn difference(name: &str, settings: &[&str], job: &[(&str, &str)]) -> Option<String> {
    let records = recorded(name, settings, job);
    assert!(records.len() >= 100, "{name}: {} records", records.len());
    let replayed = replayed(name, settings, &records);
    let mut pairs = records.iter().zip(&replayed).enumerate();
    let count = records.iter().zip(&replayed).filter(|(record, at)| record.completed != **at).count();
    let (place, (record, at)) = pairs.find(|(_, (record, at))| record.completed != **at)?;
    Some(format!("{name} {job:?}: {count} of {}, first request {place} {record:?}: {at:?}", records.len()))
}

/// Settings with which run and embedded drive begin in the same state.
fn settings(name: &str) -> &'static [&'static str] {
    if CoreDrive::shipped(name).unwrap().is_flash() { &["translation.precondition=random"] } else { &[] }
}

/// True if the driver of a shipped drive can poll for completions: the others have interrupts, and the software of a host.
fn can_poll(name: &str) -> bool {
    let drive = CoreDrive::shipped(name).unwrap().polled();
    drive.protocol().broken(&drive).is_empty()
}

#[test]
fn arrivals_recorded_at_the_driver_complete_at_the_same_picosecond() {
    let jobs: &[&[(&str, &str)]] = &[
        &[("rw", "randread"), ("bs", "4k"), ("number_ios", "300")],
        &[("rw", "randread"), ("bs", "4k"), ("iodepth", "8"), ("number_ios", "600")],
        &[("rw", "randrw"), ("bs", "4k"), ("iodepth", "4"), ("numjobs", "2"), ("number_ios", "400"), ("size", "64m")],
    ];
    let found: Vec<String> = shipped::names()
        .filter(|name| can_poll(name))
        .flat_map(|name| jobs.iter().filter_map(move |job| difference(name, settings(name), job)))
        .collect();
    assert_eq!(found.len(), 0, "{}", found.join("\n"));
}

/// Arrivals for the tests of the C and Python interfaces, which submit these requests and compare the completions.
#[test]
fn stored_arrivals_of_other_languages_are_those_of_runs() {
    let job =
        [("rw", "randrw"), ("bs", "4k"), ("iodepth", "4"), ("numjobs", "2"), ("number_ios", "30"), ("size", "64m")];
    let mut rows = String::from("drive;setting;queue;operation;offset;bytes;submitted_ps;completed_ps\n");
    for name in ["nvme", "dc-express", "capi", "cxl", "pss", "ramdisk", "tlc-gen4"] {
        let setting = settings(name).first().copied().unwrap_or_default();
        let records = recorded(name, settings(name), &job);
        for DriverRecord { thread, io, submitted, completed, .. } in records.iter().take(80) {
            let (operation, offset, bytes) = (io.op.name(), io.offset, io.bytes);
            let (submitted, completed) = (submitted.as_ps(), completed.as_ps());
            rows += &format!("{name};{setting};{thread};{operation};{offset};{bytes};{submitted};{completed}\n");
        }
    }
    expect_file!["arrivals.csv"].assert_eq(&rows);
}
