//! Drives with zones: how writes become appends, and what becomes of those that a zone refuses.

use crate::common::{counter, drive, jobs, run};

const WRITES: &str = "rw=write bs=64k iodepth=4 size=8m number_ios=40";

#[test]
fn a_write_that_is_longer_than_an_append_is_split() {
    for (append_kib, appends) in [(64, 40), (16, 160), (8, 320)] {
        let append = format!("zones.append_max_kib={append_kib}");
        let outcome = run(&drive("nvme", &["zones.size_mib=4", &append]), WRITES);
        assert_eq!((outcome.ios(), outcome.failed()), (40, 0), "{append_kib}");
        assert_eq!(counter(&outcome, "zone_appends"), appends, "{append_kib}");
    }
}

#[test]
fn appends_to_a_full_zone_whose_reset_was_lost_fail_their_requests() {
    let fault = "faults=[{ action = \"hang\", first = 1, times = 1, timeout_us = 10 }]";
    let outcome = run(&drive("nvme", &["zones.size_mib=4", fault]), WRITES);
    assert_eq!((outcome.ios(), outcome.failed()), (0, 41), "all writes, and the reset");
    assert_eq!((counter(&outcome, "refused_requests"), outcome.jobs[0].failed_resets), (40, 1));
}

#[test]
fn writes_with_faults_that_restart_the_controller_are_refused() {
    for action in ["reset", "power-cut"] {
        let fault = format!("faults=[{{ action = \"{action}\", from_us = 50, outage_us = 5 }}]");
        let drive = drive("nvme", &["zones.size_mib=4", &fault]);
        let file =
            phaselink_core::workload::fio::from_flags(&[("rw", "write"), ("bs", "64k"), ("size", "8m")]).unwrap();
        let refused = file.resolve(&drive.limits(), &Default::default()).unwrap_err().to_string();
        assert!(refused.contains("faults restart the controller"), "{refused}");
    }
    assert_eq!(jobs(&drive("nvme", &["zones.size_mib=4"]), WRITES).len(), 1);
}
