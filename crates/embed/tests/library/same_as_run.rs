//! Arrivals recorded at the driver of a run, submitted to an embedded drive at the same instants, complete at the same
//! picosecond. A drive whose driver cannot poll has the simulated software of its host, embedded as well: its arrivals are recorded
//! where they come to an embedded drive, at the calls of the application.

use expect_test::expect_file;
use phaselink_core::drive::Drive as CoreDrive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::engine::driver_end::DriverRecord;
use phaselink_core::request::Op;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Time;
use phaselink_core::workload::fio;
use phaselink_embed::{Description, Operation};

/// Requests of a run of a shipped drive, recorded at its driver, or at the calls of its application if the driver cannot poll.
fn recorded(name: &str, settings: &[&str], job: &[(&str, &str)]) -> Vec<DriverRecord> {
    let file = shipped::find(name).expect("a shipped drive");
    let settings: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    let described = CoreDrive::from_toml(file.file, file.text, &settings).unwrap();
    // The embedding program takes the place of the software above the driver, and polls for completions.
    let drive = if can_poll(name) { described.polled() } else { described };
    let jobs = fio::job_from_flags(job).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
    let mut simulation = Simulation::new(&drive, &jobs, 1).unwrap();
    simulation.record_driver(2000);
    simulation.keep_requests(2000);
    while simulation.step(1 << 16) {}
    let records: Vec<DriverRecord> = simulation.driver_records().copied().collect();
    if can_poll(name) {
        return records;
    }
    let kept = simulation.take_requests().expect("requests are kept");
    let at_calls = kept.kept().iter().map(|request| {
        let record = records.iter().find(|record| record.number == request.number).expect("it went to the driver");
        DriverRecord { submitted: request.wanted, completed: request.done, ..*record }
    });
    let mut at_calls: Vec<DriverRecord> = at_calls.collect();
    at_calls.sort_by_key(|record| (record.submitted, record.number));
    at_calls
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

/// Job whose threads call now and then: a thread of a run that calls again at once does not leave its core in between, as one does
/// that waits for calls from outside. (The reads and the writes of a mix have a rate each, and would come together.)
const CALLS: &[(&str, &str)] = &[
    ("rw", "randwrite"),
    ("bs", "4k"),
    ("numjobs", "2"),
    ("rate_iops", "1000"),
    ("number_ios", "200"),
    ("size", "64m"),
];

#[test]
fn calls_above_an_interrupt_driver_complete_at_the_same_picosecond() {
    let names: Vec<&str> = shipped::names().filter(|name| !can_poll(name)).collect();
    assert!(names.contains(&"moneta"), "{names:?}");
    let alone = [("rw", "randread"), ("bs", "16k"), ("rate_iops", "3000"), ("number_ios", "200")];
    let reads = [("rw", "randread"), ("bs", "4k"), ("numjobs", "4"), ("rate_iops", "4000"), ("number_ios", "200")];
    let found: Vec<String> = names
        .into_iter()
        .flat_map(|name| [&alone[..], &reads, CALLS].into_iter().filter_map(move |job| difference(name, &[], job)))
        .collect();
    assert_eq!(found.len(), 0, "{}", found.join("\n"));
}

#[test]
fn arrivals_during_garbage_collection_complete_at_the_same_picosecond() {
    let small = [
        "translation.precondition=random",
        "media.channels=2",
        "media.banks_per_channel=1",
        "media.block_pages=96",
        "media.capacity_mib=256",
    ];
    let job = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "8"), ("number_ios", "1500"), ("fsync", "50")];
    assert_eq!(difference("tlc-gen4", &small, &job), None);
    let records = recorded("tlc-gen4", &small, &job);
    assert!(records.iter().any(|record| record.io.op == Op::Flush), "the job flushes");
}

/// Arrivals for the tests of the C and Python interfaces, which submit these requests and compare the completions.
#[test]
fn stored_arrivals_for_c_and_python_tests_match_current_runs() {
    let job =
        [("rw", "randrw"), ("bs", "4k"), ("iodepth", "4"), ("numjobs", "2"), ("number_ios", "30"), ("size", "64m")];
    let mut rows = String::from("drive;setting;queue;operation;offset;bytes;submitted_ps;completed_ps\n");
    for name in ["nvme", "dc-express", "capi", "cxl", "pss", "ramdisk", "tlc-gen4", "moneta"] {
        let setting = settings(name).first().copied().unwrap_or_default();
        let records = recorded(name, settings(name), if can_poll(name) { &job } else { CALLS });
        for DriverRecord { thread, io, submitted, completed, .. } in records.iter().take(80) {
            let (operation, offset, bytes) = (io.op.name(), io.offset, io.bytes);
            let (submitted, completed) = (submitted.as_ps(), completed.as_ps());
            rows += &format!("{name};{setting};{thread};{operation};{offset};{bytes};{submitted};{completed}\n");
        }
    }
    expect_file!["arrivals.csv"].assert_eq(&rows);
}
