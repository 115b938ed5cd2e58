//! Flash whose hosts place data: handles for data of different life move less, and say what each costs.

use crate::common::{counter, drive, jobs};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::simulate;

/// A drive of 512 MiB with reclaim units of 3 MiB and a fifth of spare space, as it comes from the factory.
const SMALL: [&str; 7] = [
    "media.capacity_mib=512",
    "media.channels=4",
    "media.banks_per_channel=1",
    "media.block_pages=12",
    "translation.over_provisioning=0.2",
    "translation.precondition=none",
    "buffer.capacity_kib=4096",
];

/// Fills the drive, and then overwrites an eighth of it at random and the rest in order, at the same rate.
fn run(drive: &Drive, hot: &str, cold: &str) -> Outcome {
    let hot = format!("rw=randwrite bs=64k size=64m iodepth=8 io_size=2g rate_iops=500 burst=1 {hot}");
    let cold = format!("rw=write bs=64k offset=64m size=448m iodepth=8 io_size=2g rate_iops=500 burst=1 {cold}");
    let all = [jobs(drive, &hot), jobs(drive, &cold)].concat();
    simulate(drive, &all, 1).unwrap_or_else(|problems| panic!("{problems}"))
}

fn placed(handles: &str) -> Drive {
    let handles = format!("placement.handles={handles}");
    drive("tlc-gen4", &[&SMALL[..], &[handles.as_str()]].concat())
}

#[test]
fn separate_handles_for_hot_and_cold_data_reduce_amplification() {
    let amplification = |outcome: &Outcome| counter(outcome, "write_amplification_percent");
    let none = run(&drive("tlc-gen4", &SMALL), "", "");
    let one = run(&placed("2"), "fdp=1 plids=0", "fdp=1 plids=0");
    let two = run(&placed("2"), "fdp=1 plids=1", "fdp=1 plids=0");
    println!("{} {} {}", amplification(&none), amplification(&one), amplification(&two));
    assert_eq!(amplification(&none), amplification(&one), "one handle is as good as none");
    assert!(
        amplification(&two) < 100 + (amplification(&one) - 100) / 2,
        "{} {}",
        amplification(&one),
        amplification(&two)
    );
    for (outcome, handles) in [(one, 1), (two, 2)] {
        let of = |handle: u32, what: &str| counter(&outcome, &format!("handle_{handle}_{what}"));
        let programmed: u64 =
            (0..handles).map(|it| of(it, "written_bytes") * of(it, "write_amplification_percent")).sum();
        let written: u64 = (0..handles).map(|it| of(it, "written_bytes")).sum();
        let all = amplification(&outcome);
        assert!((all - 1..=all + 1).contains(&(programmed / written)), "{all} of {handles}: {programmed} {written}");
    }
}

#[test]
fn jobs_name_only_existing_placement_identifiers() {
    let drive = placed("2");
    let refused = |job: &str| {
        let file = phaselink_core::workload::fio::job_from_flags(&[("rw", "randwrite"), ("fdp", "1"), ("plids", job)]);
        file.unwrap().resolve(&drive.limits(), &Default::default()).unwrap_err().to_string()
    };
    assert!(refused("0-2").contains("the drive has 2 placement identifiers"), "{}", refused("0-2"));
    let plain = crate::common::drive("tlc-gen4", &SMALL);
    let file = phaselink_core::workload::fio::job_from_flags(&[("rw", "randwrite"), ("fdp", "1")]).unwrap();
    let found = file.resolve(&plain.limits(), &Default::default()).unwrap_err().to_string();
    assert!(found.contains("the drive has none"), "{found}");
}

#[test]
fn nine_handles_of_16_gib_units_fit_a_terabyte_drive() {
    let checked = |isolation: &str| {
        let isolation = format!("placement.isolation={isolation}");
        let set = ["media.capacity_mib=953674", "translation.block_mib=16384", "placement.handles=9", &isolation];
        let set: Vec<_> = set.map(|text| phaselink_core::drive_file::KeyOverride::parse(text).unwrap()).into();
        let shipped = phaselink_core::drive_file::shipped::find("tlc-gen4").unwrap();
        Drive::from_toml(shipped.file, shipped.text, &set).map(drop).map_err(|problems| problems.to_string())
    };
    assert_eq!(checked("initial"), Ok(()));
    assert!(checked("persistent").unwrap_err().contains("translation.over_provisioning is 0.09"));
}
