//! Group commit: clients whose records one thread writes and flushes together.

use crate::common::{drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;

/// Clients' drives: one whose buffer forgets without power, and one that needs no flush.
fn drives() -> [Drive; 2] {
    let own =
        ["host.preset=zen4-9654p", "stack.preset=linux-6", "nvme.interrupts=true", "translation.precondition=none"];
    [drive("tlc-gen4", &own), drive("optane-p5800x", &own[..3])]
}

#[test]
fn lone_client_commits_like_a_thread_with_flushes() {
    for drive in drives() {
        let lone = run(&drive, "rw=write group_commit=1 fsync=1 number_ios=200 burst=1");
        let plain = run(&drive, "rw=write fsync=1 number_ios=200 burst=1");
        let (lone, plain) = (&lone.jobs[0], &plain.jobs[0]);
        assert_eq!((lone.commit.count(), plain.commit.count()), (199, 199), "{}", drive.name);
        assert_eq!(lone.commit.sum_ps(), plain.commit.sum_ps(), "{}", drive.name);
    }
}

#[test]
fn clients_without_think_time_share_each_write_and_flush() {
    for drive in drives() {
        let jobs = jobs(&drive, "rw=write group_commit=16 fsync=1 number_ios=50 size=1m io_size=1g burst=1");
        let mut simulation = Simulation::new(&drive, &jobs, 1).unwrap();
        simulation.keep_requests(100);
        while simulation.step(1 << 20) {}
        let outcome = simulation.outcome();
        let kept = simulation.take_requests().unwrap();
        assert!(kept.kept().iter().all(|write| write.io.bytes == 16 * 4096), "{}", drive.name);
        // As with fsync=1 alone, the last write is not followed by a flush.
        assert_eq!((outcome.jobs[0].commit.count(), outcome.jobs[0].write.ios), (49 * 16, 50), "{}", drive.name);
        let offsets: Vec<u64> = kept.kept().iter().map(|write| write.io.offset).collect();
        assert!((0..50).zip(&offsets).all(|(number, offset)| *offset == number * 65536 % (1 << 20)), "{offsets:?}");
    }
}

#[test]
fn clients_are_always_thinking_or_in_a_commit() {
    for drive in drives() {
        for think_us in [50.0, 2000.0] {
            let job = format!(
                "rw=write group_commit=40 fsync=1 thinktime={think_us}us number_ios=3000 burst=1 size=64m io_size=9g"
            );
            let outcome = run(&drive, &job);
            let commit = &outcome.jobs[0].commit;
            let per_s = commit.count() as f64 / outcome.elapsed.as_s();
            let clients = per_s * (think_us * 1e3 + commit.mean_ns()) / 1e9;
            assert!((clients / 40.0 - 1.0).abs() < 0.03, "{} {think_us}: {clients} clients", drive.name);
            let sizes = outcome.jobs[0].write.bytes as f64 / 4096.0 / outcome.jobs[0].write.ios as f64;
            assert!((1.0..=40.0).contains(&sizes), "{sizes}");
        }
    }
}

#[test]
fn jobs_that_are_no_logs_are_refused_for_group_commit() {
    let [drive, _] = drives();
    for (options, found) in [
        (&[("rw", "randwrite")][..], "with rw=randwrite"),
        (&[("rw", "rw")], "in a job that reads"),
        (&[("iodepth", "4")], "with iodepth=4"),
        (&[("fsync", "2")], "without a flush after each write"),
        (&[("bs", "1m"), ("group_commit", "2000")], "with records of 1048576 bytes"),
        (&[("group_commit", "65537")], "65537"),
    ] {
        let usual = [("rw", "write"), ("number_ios", "8"), ("group_commit", "3"), ("fsync", "1")];
        let kept = usual.iter().filter(|(name, _)| options.iter().all(|(other, _)| other != name)).copied();
        let options: Vec<_> = kept.chain(options.iter().copied()).collect();
        let resolved =
            fio::job_from_flags(&options).and_then(|file| file.resolve(&drive.limits(), &Default::default()));
        let problems = resolved.map_or_else(|problems| problems.to_string(), |_| String::new());
        assert!(problems.contains(found), "{options:?}: {problems}");
    }
}
