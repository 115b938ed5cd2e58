//! Flushes that jobs ask for: how many there are, who pays for them, who waits, and what is refused.

use crate::common::{drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::request::Op;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_core::workload::{Job, JobPlace, fio, trace};

/// A client's drive, whose buffer forgets without power, behind Linux.
fn volatile(set: &[&str]) -> Drive {
    let own = ["host.preset=zen4-9654p", "stack.preset=linux-6", "nvme.interrupts=true"];
    drive("tlc-gen4", &own.iter().chain(set).copied().collect::<Vec<_>>())
}

fn flushes(outcome: &Outcome) -> u64 {
    outcome.jobs[0].flush.ios
}

fn refused(drive: &Drive, options: &[(&str, &str)]) -> String {
    let options = [&[("rw", "randwrite"), ("number_ios", "8")], options].concat();
    let file = fio::job_from_flags(&options).expect("options are right by themselves");
    file.resolve(&drive.limits(), &Default::default()).map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn flush_follows_every_nth_write_and_ends_the_job() {
    let drive = volatile(&[]);
    for (options, count) in [
        ("", 0),
        ("fsync=1", 95),
        ("fsync=32", 2),
        ("fdatasync=32", 2),
        ("fsync=32 fdatasync=24", 5),
        ("end_fsync=1", 1),
        ("fsync=32 end_fsync=1", 3),
    ] {
        for ways in ["ioengine=psync", "ioengine=libaio iodepth=8", "ioengine=io_uring iodepth=8 iodepth_batch=4"] {
            let outcome = run(&drive, &format!("rw=randwrite number_ios=96 {ways} {options}"));
            assert_eq!(flushes(&outcome), count, "{ways} {options}");
            assert_eq!((outcome.jobs[0].write.ios, outcome.finished), (96, true), "{ways} {options}");
        }
    }
    let mixed = run(&drive, "rw=randrw number_ios=200 ioengine=psync fsync=4");
    let written = mixed.jobs[0].write.ios;
    assert!(written > 50 && ((written - 1) / 4..=written / 4).contains(&flushes(&mixed)), "{written}");
    assert_eq!(flushes(&run(&drive, "rw=randread number_ios=20 fsync=1 end_fsync=1")), 0, "nothing is written");
}

#[test]
fn flush_waits_for_cells_unless_power_loss_is_protected() {
    let job = "rw=randwrite number_ios=40 ioengine=psync fsync=1";
    // Disable idle states, because a core that has been idle for long takes long to wake.
    let drive = volatile(&["host.idle_states=none"]);
    let (without, with) = (run(&drive, &job.replace("fsync=1", "")), run(&drive, job));
    let flush = &with.jobs[0].flush;
    let program = drive.media.program;
    assert!(flush.total.min() > program, "{} of {program}", flush.total.min());
    assert!(flush.stages.get(Stage::Media) >= program * flush.ios);
    let writes = |outcome: &Outcome| outcome.jobs[0].write.total.percentile(50.0);
    assert_eq!(writes(&with), writes(&without), "a write alone takes as long");
    let total = |outcome: &Outcome| outcome.jobs[0].kinds().fold(Span::ZERO, |sum, (_, kind)| sum + kind.total.max());
    assert!(total(&with) > total(&without) + program);
    let safe = volatile(&["buffer.power_loss_protection=true"]);
    let (plain, asked) = (run(&safe, &job.replace("fsync=1", "")), run(&safe, job));
    assert_eq!((flushes(&asked), plain.elapsed), (0, asked.elapsed));
}

#[test]
fn system_call_waits_for_its_flush_and_a_ring_continues() {
    let job = "rw=randwrite number_ios=400 iodepth=16 fsync=16";
    let [calls, rings] = ["libaio", "io_uring"].map(|engine| run(&volatile(&[]), &format!("{job} ioengine={engine}")));
    assert_eq!(flushes(&calls), flushes(&rings));
    assert!(rings.iops() > 1.05 * calls.iops(), "{} {}", rings.iops(), calls.iops());
}

#[test]
fn flushes_leave_data_unchanged() {
    let drive = volatile(&[]);
    let jobs =
        jobs(&drive, "rw=randrw size=1m io_size=1g number_ios=500 iodepth=8 ioengine=io_uring fsync=8 end_fsync=1");
    assert!(jobs[0].options().contains(&("fsync", String::from("8"))));
    let mut simulation = Simulation::with_data(&drive, &jobs, 1).expect("a run");
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
    let outcome = simulation.outcome();
    assert_eq!(outcome.ios(), 500);
}

#[test]
fn unmodelled_flush_options_are_refused() {
    let (raw, ext4) = (volatile(&[]), volatile(&["stack.filesystem=ext4"]));
    assert_eq!(refused(&raw, &[("fsync", "1"), ("fdatasync", "2"), ("end_fsync", "1")]), "");
    assert!(refused(&ext4, &[("fsync", "1")]).contains("fsync over a file system, whose journal is not modelled"));
    assert!(refused(&ext4, &[("fdatasync", "1"), ("end_fsync", "1")]).contains("end_fsync over a file system"));
    assert_eq!(refused(&ext4, &[("fdatasync", "1")]), "");
    let two = refused(&volatile(&["drives=2"]), &[("fsync", "1")]);
    assert!(two.contains("fsync with several drives, of which it names none"), "{two}");
    let safe = refused(&volatile(&["drives=2", "buffer.power_loss_protection=true"]), &[("fsync", "1")]);
    assert_eq!(safe, "");
    let mut limits = raw.limits();
    limits.supported[Op::Flush as usize] = false;
    let file = fio::job_from_flags(&[("rw", "write"), ("size", "1m"), ("fsync", "1")]).expect("options");
    let problems = file.resolve(&limits, &Default::default()).expect_err("no command").to_string();
    assert!(problems.contains("of a volatile buffer behind an interface without flushes"), "{problems}");
}

/// Recording of 20 transactions, each of two writes and a flush.
fn recording_of_transactions() -> Vec<Job> {
    let transaction = |at: u32| format!("{at} d write 4096 4096\n{at} d write 8192 4096\n{at} d sync 0 0\n");
    let text = format!("fio version 3 iolog\n{}", (1..=20).map(transaction).collect::<String>());
    let trace = trace::parse("t", text).expect("an iolog");
    vec![Job { trace: Some(trace.requests), replay_no_stall: true, ..Job::named("replay") }]
}

#[test]
fn replay_flushes_like_an_equivalent_job() {
    let drive = volatile(&["host.idle_states=none"]);
    let mut simulation = Simulation::new(&drive, &recording_of_transactions(), 1).expect("a replay");
    while simulation.step(1 << 20) {}
    let replayed = simulation.outcome();
    assert_eq!((replayed.jobs[0].write.ios, flushes(&replayed), replayed.jobs[0].commit.count()), (40, 20, 20));
    let asked = run(&drive, "rw=write bs=4k offset=4k size=8k io_size=160k fsync=2 end_fsync=1 ioengine=psync");
    assert_eq!(flushes(&asked), 20);
    let means = [&replayed, &asked].map(|outcome| outcome.jobs[0].commit.mean_ns());
    assert!((means[0] / means[1] - 1.0).abs() < 0.02, "{means:?}");
    assert!(means[0] > drive.media.program.as_ns());
}

#[test]
fn commit_lasts_from_first_write_to_flush_or_last_write() {
    let job = "rw=randwrite number_ios=40 ioengine=psync fsync=4 end_fsync=1";
    let needed = run(&volatile(&["host.idle_states=none"]), job);
    let (writes, commits) = (&needed.jobs[0].write.total, &needed.jobs[0].commit);
    assert_eq!(commits.count(), 10);
    let sum = 4.0 * writes.mean_ns() + needed.jobs[0].flush.total.mean_ns();
    assert!((commits.mean_ns() / sum - 1.0).abs() < 0.01, "{} {sum}", commits.mean_ns());
    let spared = run(&volatile(&["host.idle_states=none", "buffer.power_loss_protection=true"]), job);
    let (writes, commits) = (&spared.jobs[0].write.total, &spared.jobs[0].commit);
    assert_eq!((commits.count(), flushes(&spared)), (10, 0));
    let without_end = job.replace(" end_fsync=1", "");
    let counts = [&[][..], &["buffer.power_loss_protection=true"]]
        .map(|set| run(&volatile(set), &without_end).jobs[0].commit.count());
    assert_eq!(counts, [9, 9], "the last writes are not flushed");
    assert!((commits.mean_ns() / (4.0 * writes.mean_ns()) - 1.0).abs() < 0.05, "{}", commits.mean_ns());
}

#[test]
fn volatile_drive_without_flush_refuses_recorded_flushes() {
    let mut limits = volatile(&[]).limits();
    limits.supported[Op::Flush as usize] = false;
    let problems = recording_of_transactions()[0].problems(&JobPlace::new("t", None), &limits);
    assert!(
        problems.iter().any(|it| it.to_string().contains("of a volatile buffer behind an interface without")),
        "{problems:?}"
    );
}
