//! Tests of requests of which only the data is known.

use super::{ClosedForm, Parts, predict, predict_job, stages_of_mean_flash_read, text, usage};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::simulation::simulate;
use phaselink_core::time::Span;
use phaselink_core::workload::{BlockShare, Job};

#[test]
fn job_without_closed_form_has_bounds_but_no_latency() {
    let drive = Drive::shipped("nvme-polled").unwrap();
    let job = Job::named("any");
    let bare = predict_job(&Parts::new(&drive), &job, ClosedForm::of_data_path);
    assert_eq!((bare.alone_ns(), bare.saturation_depth(), bare.loaded().least_ns), (None, None, None));
    let mut prediction = predict(&drive, &[job]);
    // With any protocol, a request uses each resource at least as long as its data alone does.
    assert!(bare.bottleneck().saturation_iops() >= prediction.jobs[0].bottleneck().saturation_iops());
    for demand in &bare.demands {
        let whole = prediction.jobs[0].demands.iter().find(|other| other.resource == demand.resource).unwrap();
        assert!(demand.busy_ns <= whole.busy_ns, "{}", demand.resource);
    }
    prediction.jobs = vec![bare];
    assert!(text(&prediction).contains("no closed form of its latency"));
}

#[test]
fn predicted_lone_flash_read_mean_equals_simulation() {
    for name in ["tlc-gen3", "tlc-gen4", "tlc-gen5"] {
        // Pages of one read on the same die wait for each other, which the predicted mean leaves out: 8.1 % on
        // tlc-gen3.
        for (bytes, tolerance) in [(4096, 0.01), (16_384, 0.09)] {
            let overrides = [KeyOverride::parse("translation.precondition=random").unwrap()];
            let shipped = phaselink_core::drive_file::shipped::find(name).unwrap();
            let drive = Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap();
            let read_blocks = vec![BlockShare { bytes, percent: 100.0 }];
            let jobs = [Job { ios: Some(4000), read_blocks, ..Job::named("lone") }];
            let job = predict(&drive, &jobs).jobs.remove(0);
            let (latency, read) = (job.latencies[0].as_ref().unwrap(), job.flash_reads[0].as_ref().unwrap());
            let predicted_ns = stages_of_mean_flash_read(latency, read).total().as_ns();
            let simulated_ns = simulate(&drive, &jobs, 1).unwrap().jobs[0].read.total.mean_ns();
            assert!(
                (predicted_ns / simulated_ns - 1.0).abs() < tolerance,
                "{name} {bytes}: {predicted_ns} {simulated_ns}"
            );
            assert!(latency.stages.total().as_ns() < simulated_ns);
        }
    }
}

/// Returns the busiest resource of reads on a shipped drive, changed by `set`, and its utilisation.
fn busiest_resource_of_reads(name: &str, set: &[&str], job: Job) -> (String, f64) {
    let overrides: Vec<KeyOverride> = set.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    let shipped = phaselink_core::drive_file::shipped::find(name).unwrap();
    let drive = Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap();
    let jobs = [Job { ios: Some(3000 / u64::from(job.threads)), ..job }];
    let first = usage(&drive, &jobs, &simulate(&drive, &jobs, 1).unwrap()).remove(0);
    (first.resource, first.share)
}

#[test]
fn saturated_resource_is_reported_as_the_bottleneck() {
    let deep = || Job { iodepth: 32, ..Job::named("deep") };
    // Enough requests to fill the write buffer many times.
    let steady = || Job { read_percent: 0.0, ramp_time: Span::from_ms(100), ..deep() };
    for (drive, set, job, resource, least) in [
        ("nvme-polled", &[][..], deep(), "cores", 0.95),
        ("nvme-polled", &[], Job { threads: 8, iodepth: 4, ..deep() }, "wire to host", 0.95),
        // With random addresses some banks are idle while requests queue at others.
        ("dc-express", &["media.read_ns=40000"], deep(), "media banks", 0.75),
        ("dc-express", &["link.preset=gen4-x4"], deep(), "media buses", 0.95),
        ("tlc-gen3", &["translation.precondition=random"], steady(), "flash dies", 0.4),
        ("tlc-gen5", &["translation.precondition=random"], steady(), "flash dies", 0.4),
    ] {
        let (found, share) = busiest_resource_of_reads(drive, set, job);
        assert_eq!(found, resource, "{drive} {set:?}");
        assert!((least..=1.0).contains(&share), "{drive} {set:?}: {share}");
    }
}

#[test]
fn lone_request_saturates_no_resource() {
    let (_, share) = busiest_resource_of_reads("nvme", &[], Job::named("alone"));
    assert!(share < 0.6, "{share}");
}
