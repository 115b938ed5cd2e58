//! Runs with data: real bytes through both protocols, and every read verified.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::{WrittenJobFile, fio};
use proptest::prelude::*;

/// A drive with a small memory and these changes.
fn drive(name: &str, changes: &[&str]) -> Drive {
    let changes: Vec<_> = changes.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    let preset = format!("preset = \"{name}\"\n[media]\ncapacity_mib = 4\nprogram_ns = 2000\n");
    Drive::from_toml("drive.toml", &preset, &changes).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What a run with data counts, and the reads that it found wrong.
struct Run {
    outcome: Outcome,
    problems: Vec<String>,
}

impl Run {
    fn count(&self, name: &str) -> u64 {
        let mut counters = self.outcome.counters.iter();
        counters.find(|(counter, _)| *counter == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    fn reads(&self) -> u64 {
        self.outcome.jobs.iter().map(|job| job.read.ios).sum()
    }

    fn ios(&self) -> u64 {
        self.reads() + self.outcome.jobs.iter().map(|job| job.write.ios).sum::<u64>()
    }

    /// All requests are done, and every read is verified.
    fn assert_all_verified(&self, ios: u64) -> &Run {
        assert!(self.outcome.finished);
        assert_eq!(self.problems, [""; 0]);
        assert_eq!(self.count("data_errors"), 0);
        assert_eq!(self.ios(), ios, "every request completes exactly once");
        assert!(self.count("verified_reads") >= self.reads(), "{} reads", self.reads());
        self
    }
}

fn run(drive: &Drive, flags: &[(&str, &str)]) -> Run {
    run_jobs(drive, &fio::job_from_flags(flags).unwrap_or_else(|problems| panic!("{problems}")))
}

fn run_file(drive: &Drive, text: &str) -> Run {
    run_jobs(drive, &fio::parse("jobs.fio", text).unwrap_or_else(|problems| panic!("{problems}")))
}

fn run_jobs(drive: &Drive, file: &WrittenJobFile) -> Run {
    let jobs = file.resolve(&drive.limits(), &Default::default()).unwrap_or_else(|problems| panic!("{problems}"));
    let mut simulation = Simulation::with_data(drive, &jobs, 1).unwrap_or_else(|problems| panic!("{problems}"));
    let mut turns = 0;
    while simulation.step(1 << 16) {
        turns += 1;
        assert!(turns < 400, "the run does not end: {:?}", simulation.outcome().counters);
    }
    Run { outcome: simulation.outcome(), problems: simulation.data_problems().to_vec() }
}

/// Reads and writes of mixed sizes, which race in a small region.
fn racing_mix_job(iodepth: &str, ios: &str) -> [(&'static str, String); 6] {
    [
        ("rw", "randrw".into()),
        ("bssplit", "512/40:4k/40:16k/16:256k/4".into()),
        ("size", "1m".into()),
        ("io_size", "1g".into()),
        ("iodepth", iodepth.into()),
        ("number_ios", ios.into()),
    ]
}

fn run_mix(drive: &Drive, iodepth: &str, ios: &str) -> Run {
    let flags = racing_mix_job(iodepth, ios);
    run(drive, &flags.each_ref().map(|(name, value)| (*name, value.as_str())))
}

#[test]
fn racing_reads_and_writes_return_allowed_data_at_all_depths() {
    for name in ["nvme", "nvme-polled", "dc-express", "dc-express-block"] {
        for iodepth in ["1", "4", "32"] {
            let run = run_mix(&drive(name, &["dc_express.max_latency_us=200"]), iodepth, "400");
            run.assert_all_verified(400);
        }
    }
}

#[test]
fn link_settings_change_no_data() {
    for name in ["nvme", "dc-express"] {
        for change in [
            "link.granularity=packet",
            "link.bit_error_rate=1e-6",
            "link.max_payload_bytes=1024",
            "nvme.shadow_doorbells=true",
        ] {
            run_mix(&drive(name, &["dc_express.max_latency_us=500", change]), "8", "200").assert_all_verified(200);
        }
    }
}

#[test]
fn short_queues_with_shadow_doorbells_lose_no_commands() {
    for (entries, doorbells) in [(2, true), (2, false), (3, true), (3, false), (5, false)] {
        let changes = [
            format!("nvme.queue_entries={entries}"),
            format!("nvme.completion_doorbells={doorbells}"),
            String::from("nvme.fetch_entries=1"),
            String::from("nvme.shadow_doorbells=true"),
        ];
        for name in ["nvme", "nvme-polled", "nvm-model-dram"] {
            let drive = drive(name, &changes.each_ref().map(String::as_str));
            run_mix(&drive, "1", "60").assert_all_verified(60);
        }
    }
}

#[test]
fn lines_crossing_singly_keep_data_for_any_packet_size() {
    let drive = drive("capi", &["link.max_payload_bytes=512", "link.granularity=packet"]);
    let flags = [("rw", "randrw"), ("bs", "16k"), ("size", "32k"), ("io_size", "1g"), ("iodepth", "16")];
    let flags: Vec<_> = flags.into_iter().chain([("rwmixread", "70"), ("number_ios", "400")]).collect();
    run(&drive, &flags).assert_all_verified(400);
}

#[test]
fn reordered_packets_cause_tag_collisions_but_no_wrong_read() {
    for granularity in ["train", "packet"] {
        let changes = [
            "root_complex.late_write_ratio=0.2",
            "root_complex.late_write_ns=900",
            "dc_express.max_latency_us=200",
            &format!("link.granularity={granularity}"),
        ];
        let run = run_mix(&drive("dc-express", &changes), "8", "300");
        assert!(run.assert_all_verified(300).count("oops") > 50, "{}", run.count("oops"));
    }
    let run = run_mix(&drive("nvme", &["root_complex.late_write_ratio=0.2"]), "8", "300");
    run.assert_all_verified(300);
}

#[test]
fn data_equal_to_the_tag_is_reread_after_the_timeout() {
    let drive = drive("dc-express", &["dc_express.tag_bits=8", "dc_express.max_latency_us=1"]);
    let flags =
        [("rw", "randrw"), ("bs", "4k"), ("size", "1m"), ("io_size", "1g"), ("iodepth", "4"), ("number_ios", "1000")];
    let run = run(&drive, &flags);
    run.assert_all_verified(1000);
    let collisions = run.count("tag_collisions");
    // Half of the requests are reads of 32 chunks. Once all blocks are written, one read in eight collides: 32 chances
    // of 1/256.
    assert!((20..200).contains(&collisions), "{collisions}");
    assert!(run.count("tag_timeouts") >= collisions);
}

#[test]
fn tag_inside_a_chunk_collides_only_with_its_write() {
    for choice in ["compare", "intervals"] {
        for (bits, size) in [("8", "16k"), ("16", "1m"), ("64", "1m")] {
            let changes = [
                format!("dc_express.tag_choice={choice}"),
                format!("dc_express.tag_bits={bits}"),
                String::from("dc_express.max_latency_us=1"),
            ];
            let drive = drive("dc-express", &changes.each_ref().map(String::as_str));
            let flags = [
                ("rw", "randrw"),
                ("bs", "4k"),
                ("size", size),
                ("io_size", "1g"),
                ("iodepth", "4"),
                ("number_ios", "1000"),
            ];
            let run = run(&drive, &flags);
            run.assert_all_verified(1000);
            let (changes, collisions) = (run.count("tag_changes"), run.count("tag_collisions"));
            // After a tag change, only reads in flight can collide, at most four.
            assert!(collisions <= 4 * changes, "{choice} {bits}: {collisions} collisions, {changes} changes");
            assert_eq!(changes > 0, bits == "8", "{choice} {bits}: {changes} changes");
        }
    }
}

#[test]
fn host_reads_with_the_tag_announced_by_the_device() {
    for choice in ["compare", "intervals"] {
        let choice = format!("dc_express.tag_choice={choice}");
        let drive = drive("dc-express", &[&choice, "dc_express.tag_bits=8", "dc_express.max_latency_us=1"]);
        let file = "[global]\nbs=4k\nsize=64k\nio_size=1g\n[fill]\nrw=randwrite\nnumber_ios=200\n\
                    [read]\nrw=randread\niodepth=4\nnumber_ios=500\nstonewall\n";
        let run = run_file(&drive, file);
        run.assert_all_verified(700);
        assert!(run.count("tag_changes") > 0, "{choice}");
        assert_eq!(run.count("tag_collisions"), 0, "{choice}");
    }
}

#[test]
fn random_tags_without_an_unused_value_still_read_correctly() {
    let changes = ["dc_express.tag_choice=intervals", "dc_express.tag_bits=8", "dc_express.max_latency_us=1"];
    let flags =
        [("rw", "randrw"), ("bs", "4k"), ("size", "1m"), ("io_size", "1g"), ("iodepth", "4"), ("number_ios", "1000")];
    let run = run(&drive("dc-express", &changes), &flags);
    assert!(run.assert_all_verified(1000).count("tag_collisions") > 10);
}

#[test]
fn reads_ending_within_a_chunk_complete_by_timeout() {
    let changes = ["dc_express.tag_choice=compare", "dc_express.tag_bits=8", "dc_express.max_latency_us=1"];
    let file = "[fill]\nrw=write\nbs=4k\nsize=8k\nnumber_ios=2\n\
                [short]\nrw=randread\nbs=4\nsize=8k\nio_size=1g\nnumber_ios=2000\nnumjobs=2";
    let drive = drive("dc-express", &changes);
    assert!(run_file(&drive, file).assert_all_verified(4002).count("tag_collisions") > 0);
}

#[test]
fn too_short_timeout_costs_time_but_no_data() {
    for latency in ["0.01", "0.3", "3"] {
        for iodepth in ["1", "8", "32"] {
            let changes = [format!("dc_express.max_latency_us={latency}"), String::from("dc_express.queue_entries=34")];
            let drive = drive("dc-express", &changes.each_ref().map(String::as_str));
            let run = run_mix(&drive, iodepth, "300");
            run.assert_all_verified(300);
            assert!(run.count("late_packets") > 0 || latency == "3");
        }
    }
}

#[test]
fn request_of_more_parts_than_queue_slots_is_verified() {
    for name in ["nvme", "dc-express"] {
        let changes = ["nvme.max_transfer_kib=4", "nvme.queue_entries=16", "dc_express.queue_entries=16"];
        let flags = [
            ("rw", "randrw"),
            ("bs", "256k"),
            ("size", "1m"),
            ("io_size", "1g"),
            ("iodepth", "4"),
            ("number_ios", "40"),
        ];
        let run = run(&drive(name, &changes), &flags);
        assert_eq!(run.assert_all_verified(40).count("verified_reads"), run.reads() * 64);
    }
}

#[test]
fn writes_below_a_block_are_refused_before_the_run() {
    let drive = drive("dc-express", &[]);
    for (rw, works) in [("randread", true), ("randrw", false), ("write", false)] {
        let flags = [("rw", rw), ("bs", "256"), ("number_ios", "10")];
        let resolved = fio::job_from_flags(&flags).unwrap().resolve(&drive.limits(), &Default::default());
        assert_eq!(resolved.is_ok(), works, "{rw}");
    }
}

#[test]
fn data_run_repeats_for_equal_seeds() {
    let drive = drive("dc-express", &["dc_express.tag_bits=8", "dc_express.max_latency_us=1"]);
    assert_eq!(run_mix(&drive, "8", "200").outcome, run_mix(&drive, "8", "200").outcome);
}

#[test]
fn stored_data_takes_no_time_without_collisions() {
    for name in ["nvme", "dc-express"] {
        let drive = drive(name, &["dc_express.max_latency_us=500"]);
        let flags = racing_mix_job("8", "300");
        let flags = flags.each_ref().map(|(name, value)| (*name, value.as_str()));
        let jobs = fio::job_from_flags(&flags).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
        let mut dry = Simulation::new(&drive, &jobs, 1).unwrap();
        while dry.step(1 << 16) {}
        let wet = run(&drive, &flags);
        assert_eq!(wet.outcome.elapsed, dry.outcome().elapsed);
        assert_eq!(wet.outcome.jobs, dry.outcome().jobs);
        assert_eq!(wet.outcome.events, dry.outcome().events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_small_systems_verify_all_reads(
        name in prop::sample::select(vec!["nvme", "nvme-polled", "dc-express", "dc-express-block"]),
        granularity in prop::sample::select(vec!["train", "packet"]),
        payload in prop::sample::select(vec!["128", "256", "512", "2048"]),
        choice in prop::sample::select(vec!["random", "compare", "intervals"]),
        bits in prop::sample::select(vec!["8", "16", "32", "64"]),
        late in prop::sample::select(vec!["0", "0.1", "0.5"]),
        errors in prop::sample::select(vec!["0", "1e-6"]),
        transfer in prop::sample::select(vec!["4", "16"]),
        latency in 1u32..50,
        (iodepth, numjobs) in (1u32..20, 1u32..3),
        (size, bs) in prop::sample::select(vec![("64k", "512"), ("64k", "8k"), ("1m", "4k"), ("256k", "32k")]),
    ) {
        let changes = [
            format!("link.granularity={granularity}"),
            format!("link.max_payload_bytes={payload}"),
            format!("link.bit_error_rate={errors}"),
            format!("root_complex.late_write_ratio={late}"),
            format!("dc_express.tag_choice={choice}"),
            format!("dc_express.tag_bits={bits}"),
            format!("dc_express.max_latency_us={latency}"),
            format!("nvme.max_transfer_kib={transfer}"),
        ];
        let drive = drive(name, &changes.each_ref().map(String::as_str));
        let (iodepth, numjobs) = (iodepth.to_string(), numjobs.to_string());
        let flags = [
            ("rw", "randrw"), ("bs", bs), ("size", size), ("io_size", "1g"), ("number_ios", "60"),
            ("iodepth", &iodepth), ("numjobs", &numjobs),
        ];
        let run = run(&drive, &flags);
        run.assert_all_verified(60 * numjobs.parse::<u64>().unwrap());
    }
}
