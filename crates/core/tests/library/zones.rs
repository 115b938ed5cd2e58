//! Drives with zones: how writes become appends, and what becomes of those that a zone refuses.

use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;

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

/// Runs writes and reads of zones with real bytes, in which no read finds what it may not, while the device is restarted four times.
fn restarted(action: &str, keys: &[&str]) -> Outcome {
    let fault = |from: u32| format!("{{ action = \"{action}\", from_us = {from}, outage_us = 5 }}");
    let faults = format!("faults=[{}]", [40, 700, 1300, 2900].map(fault).join(", "));
    let zones = ["zones.size_mib=1", "zones.append_max_kib=16", &faults];
    let drive = drive("nvme", &[&zones, keys].concat());
    let writes = "rw=randrw rwmixread=30 bs=32k iodepth=8 size=2m io_size=1g number_ios=400";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, writes), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0], "{action} {keys:?}");
    let outcome = simulation.outcome();
    assert!(outcome.finished, "{action} {keys:?}");
    assert_eq!(outcome.ios() + outcome.failed(), 400, "{action} {keys:?}");
    outcome
}

const VOLATILE: [&str; 2] = ["media.acknowledge=early", "buffer.power_loss_protection=false"];

#[test]
fn writers_of_zones_go_on_at_the_write_pointers_after_restarts() {
    for (action, counter_name) in [("reset", "fault_resets"), ("power-cut", "fault_power_cuts")] {
        for keys in [&[][..], &VOLATILE] {
            let outcome = restarted(action, keys);
            assert_eq!(counter(&outcome, counter_name), 4, "{action} {keys:?}");
            let refused = counter(&outcome, "refused_requests");
            assert!(outcome.failed() == refused && refused <= 16, "{action} {keys:?}: {refused} are refused");
            assert!(counter(&outcome, "zone_appends") >= 400, "{action} {keys:?}: the counts outlive restarts");
        }
    }
}

#[test]
fn writes_of_more_zones_than_can_be_active_are_refused_with_faults_that_restart_the_controller() {
    let found = |action: &str, active: u32| {
        let fault = format!("faults=[{{ action = \"{action}\", from_us = 50, outage_us = 5 }}]");
        let (active, zones) = (format!("zones.active_max={active}"), ["zones.size_mib=4", "zones.open_max=1"]);
        let drive = drive("nvme", &[&zones[..], &[&active, &fault]].concat());
        let file =
            phaselink_core::workload::fio::from_flags(&[("rw", "write"), ("bs", "64k"), ("size", "8m")]).unwrap();
        file.resolve(&drive.limits(), &Default::default())
            .map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    for action in ["reset", "power-cut"] {
        let refused = found(action, 1);
        assert!(refused.contains("it writes 2 zones, and faults restart the controller"), "{refused}");
        assert_eq!(found(action, 2), "");
        assert_eq!(found(action, 0), "");
    }
}
