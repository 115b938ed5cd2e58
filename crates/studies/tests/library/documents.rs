//! Documents, summaries and precision of runs: faults, flushes, what an acknowledged write promises.

use crate::common::{drive, jobs, run};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;
use phaselink_studies::{compare, precision, report};

#[test]
fn documents_count_failed_requests() {
    let drive = drive("nvme", &[r#"faults=[{ action = "error", times = 3 }]"#]);
    let reads = "bs=4k number_ios=100";
    let outcome = run(&drive, reads);
    let document = report::json(&outcome, drive.resolved());
    let job = &document["jobs"][0];
    assert_eq!([&job["error"], &job["total_err"], &job["first_error"]], [5, 3, 5]);
    assert_eq!(document["phaselink"]["counters"]["fault_errors"], 3);
    assert_eq!(document["phaselink"]["description"]["faults"][0]["times"], 3);
    assert!(report::summary(&outcome).contains("\n3 requests have failed"));
    let well = crate::common::drive("nvme", &[]);
    let well = report::json(&run(&well, reads), well.resolved());
    assert_eq!(well["jobs"][0]["error"], 0);
    assert!(well["jobs"][0].get("total_err").is_none());
    assert!(well["phaselink"]["description"].get("faults").is_none());
}

#[test]
fn documents_list_flushes_separately() {
    let drive = drive("tlc-gen4", &["host.preset=zen4-9654p", "stack.preset=linux-6", "nvme.interrupts=true"]);
    let outcome =
        run(&drive, "rw=randrw size=1m io_size=1g number_ios=500 iodepth=8 ioengine=io_uring fsync=8 end_fsync=1");
    let flushes = outcome.jobs[0].flush.ios;
    let document = report::json(&outcome, serde_json::json!({}));
    assert_eq!(document["jobs"][0]["sync"]["total_ios"], flushes);
    assert_eq!(document["phaselink"]["jobs"][0]["flush"]["ios"], flushes);
    assert!(report::summary(&outcome).contains("job  flush"));
}

#[test]
fn run_document_states_where_acknowledged_writes_are() {
    let promise = |acknowledge: &str| compare::promise(&drive("pss", &[acknowledge]));
    assert_eq!(promise("media.acknowledge=late"), "an acknowledged write is in the cells");
    assert!(promise("media.acknowledge=early").starts_with("an acknowledged write is in the card's memory"));
}

#[test]
fn precision_covers_only_the_steady_part() {
    let drive = drive("tlc-gen4", &[]);
    let job = "rw=randwrite bs=4k iodepth=32 number_ios=10000000 io_size=1024p";
    let jobs: Vec<Job> = jobs(&drive, job).into_iter().map(|job| Job { steady: Some(true), ..job }).collect();
    let mut simulation = Simulation::new(&drive, &jobs, 1).expect("a run");
    let measurement = precision::measure(&mut simulation, 0.05, || false);
    let (known, outcome) = (measurement.estimate().expect("known"), simulation.outcome());
    let mean_ns = outcome.jobs[0].write.total.mean_ns();
    assert!((mean_ns / known.mean.value_ns - 1.0).abs() < 0.1, "{mean_ns} {}", known.mean.value_ns);
}
