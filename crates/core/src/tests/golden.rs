//! Outcomes of runs that between them take every path through the machine, kept to the picosecond.
//!
//! A change that should not change results must leave this table as it is; one that should shows here what it does.

use std::fmt::Write;

use expect_test::expect;

use crate::drive::Drive;
use crate::drive_file::{Override, shipped};
use crate::engine::simulation::simulate;
use crate::ledger::{DirectionOutcome, Latency, Outcome};
use crate::workload::{BlockShare, Job, RateProcess};

const IOS: u64 = 1500;

/// One run: a shipped drive, what is different about it, and the job.
struct Run {
    drive: &'static str,
    overrides: &'static [&'static str],
    kib: &'static [u32],
    iodepth: u32,
    threads: u32,
    read_percent: f64,
    poisson_iops: Option<f64>,
}

/// Random reads of 4 KiB, one at a time.
const READS: Run =
    Run { drive: "", overrides: &[], kib: &[4], iodepth: 1, threads: 1, read_percent: 100.0, poisson_iops: None };

const RUNS: &[Run] = &[
    Run { drive: "dc-express", ..READS },
    Run {
        drive: "dc-express",
        overrides: &["dc_express.max_latency_us=1000"],
        kib: &[8, 32, 128],
        iodepth: 4,
        read_percent: 70.0,
        ..READS
    },
    Run { drive: "dc-express", overrides: &["link.granularity=packet"], iodepth: 32, read_percent: 90.0, ..READS },
    Run { drive: "dc-express", overrides: &["root_complex.late_write_ratio=0.01"], iodepth: 4, ..READS },
    Run { drive: "dc-express", overrides: &["root_complex.late_write_ratio=0.01"], read_percent: 50.0, ..READS },
    Run { drive: "dc-express", overrides: &["link.posted_header_credits=4"], kib: &[4, 16], iodepth: 4, ..READS },
    Run { drive: "dc-express", overrides: &["link.bit_error_rate=1e-7"], iodepth: 4, ..READS },
    Run { drive: "dc-express", overrides: &["link.bit_error_rate=1e-7", "link.granularity=packet"], ..READS },
    Run { drive: "dc-express", overrides: &["link.duplex=shared"], iodepth: 4, ..READS },
    Run { drive: "dc-express", poisson_iops: Some(20_000.0), ..READS },
    Run { drive: "dc-express", overrides: &["dc_express.tag_bits=8"], kib: &[4, 8], iodepth: 4, ..READS },
    Run { drive: "dc-express-block", overrides: &["link.generation=3", "link.dllps=true"], iodepth: 4, ..READS },
    Run { drive: "nvme", iodepth: 4, read_percent: 50.0, ..READS },
    Run { drive: "nvme", kib: &[4, 128], iodepth: 32, threads: 8, overrides: &["host.cores=4"], ..READS },
    Run { drive: "nvme", overrides: &["host.wait=hybrid"], threads: 2, ..READS },
    Run { drive: "nvme-polled", kib: &[8, 16], iodepth: 32, ..READS },
    Run {
        drive: "nvme-polled",
        overrides: &["link.posted_header_credits=4"],
        iodepth: 32,
        read_percent: 50.0,
        ..READS
    },
    Run {
        drive: "nvme-polled",
        overrides: &["link.non_posted_header_credits=2"],
        iodepth: 32,
        read_percent: 0.0,
        ..READS
    },
    Run {
        drive: "nvme-polled",
        overrides: &["link.granularity=packet", "link.posted_header_credits=4", "root_complex.late_write_ratio=0.01"],
        kib: &[4, 64],
        iodepth: 4,
        read_percent: 50.0,
        ..READS
    },
    Run { drive: "nvme-polled", overrides: &["link.duplex=shared"], iodepth: 4, read_percent: 50.0, ..READS },
    Run { drive: "nvme-polled", overrides: &["link.bit_error_rate=1e-7"], kib: &[32], iodepth: 4, ..READS },
    Run {
        drive: "nvme-polled",
        overrides: &["root_complex.iommu=true", "root_complex.iommu_entries=8"],
        threads: 4,
        iodepth: 4,
        ..READS
    },
];

impl Run {
    fn job(&self) -> Job {
        let percent = 100.0 / self.kib.len() as f64;
        let blocks: Vec<_> = self.kib.iter().map(|kib| BlockShare { bytes: kib * 1024, percent }).collect();
        let (read_blocks, write_blocks) = (blocks.clone(), blocks);
        Job {
            read_blocks,
            write_blocks,
            iodepth: self.iodepth,
            threads: self.threads,
            read_percent: self.read_percent,
            rate_iops_read: self.poisson_iops,
            rate_process: RateProcess::Poisson,
            ios: Some(IOS / u64::from(self.threads)),
            ..Job::named("job")
        }
    }

    fn outcome(&self) -> Outcome {
        let shipped = shipped::find(self.drive).expect("a shipped drive");
        let overrides: Vec<_> = self.overrides.iter().map(|text| Override::parse(text).unwrap()).collect();
        let drive = Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap_or_else(|e| panic!("{e}"));
        simulate(&drive, &[self.job()], 1).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// All numbers of an outcome but the count of events, which is the simulator's own affair.
fn full_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for job in &outcome.jobs {
        for (name, direction) in job.directions() {
            let DirectionOutcome { ios, bytes, runtime, submission, completion, total, .. } = direction;
            let stages: Vec<_> = direction.stages.named(&outcome.stack_stages).collect();
            let latencies = [submission, completion, total].map(latency_text);
            writeln!(text, "{name} {ios} {bytes} {runtime:?} {latencies:?} {stages:?}").unwrap();
        }
    }
    let Outcome { elapsed, upstream, downstream, cpu, energy, counters, finished, .. } = outcome;
    write!(text, "{elapsed:?} {upstream:?} {downstream:?} {cpu:?} {energy:?} {counters:?} {finished}").unwrap();
    text
}

fn latency_text(latency: &Latency) -> String {
    let classes: Vec<_> = latency.classes().collect();
    let exact = (latency.count(), latency.sum_ps(), latency.min(), latency.max(), latency.deviation_ns());
    format!("{exact:?} {classes:?}")
}

/// The FNV-1a hash (Fowler, Noll and Vo).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn line(run: &Run) -> String {
    let outcome = run.outcome();
    let packets = outcome.upstream.packets + outcome.downstream.packets;
    let elapsed_ps = outcome.elapsed.as_ps();
    let hash = hash(&full_text(&outcome));
    let sizes: Vec<_> = run.kib.iter().map(u32::to_string).collect();
    format!(
        "{hash:016x} {} ios, {elapsed_ps} ps, {packets} packets: {} {} KiB, {} x {}, {} % reads; {}\n",
        outcome.ios(),
        run.drive,
        sizes.join("+"),
        run.threads,
        run.iodepth,
        run.read_percent,
        run.overrides.join(" "),
    )
}

#[test]
fn outcomes_are_what_they_were_to_the_picosecond() {
    let table: String = RUNS.iter().map(line).collect();
    let table = table.replace("; \n", "\n");
    expect![[r#"
        5167f01fc045f7af 1500 ios, 5615149003 ps, 54169 packets: dc-express 4 KiB, 1 x 1, 100 % reads
        0d876b137e3a36c3 1500 ios, 236333127327 ps, 1423035 packets: dc-express 8+32+128 KiB, 1 x 4, 70 % reads; dc_express.max_latency_us=1000
        c02fff045d0979ed 1500 ios, 12986119852 ps, 56947 packets: dc-express 4 KiB, 1 x 32, 90 % reads; link.granularity=packet
        a4d44dfc230396fb 1500 ios, 3676831599 ps, 51789 packets: dc-express 4 KiB, 1 x 4, 100 % reads; root_complex.late_write_ratio=0.01
        d015542c505cff1c 1500 ios, 99979383222 ps, 358195 packets: dc-express 4 KiB, 1 x 1, 50 % reads; root_complex.late_write_ratio=0.01
        aa4cb5e94cdcda6e 1500 ios, 17556058544 ps, 137695 packets: dc-express 4+16 KiB, 1 x 4, 100 % reads; link.posted_header_credits=4
        5c36c07bc1d29aab 1500 ios, 3679702644 ps, 51789 packets: dc-express 4 KiB, 1 x 4, 100 % reads; link.bit_error_rate=1e-7
        8fe7560c7ba3b51f 1500 ios, 5614978217 ps, 54195 packets: dc-express 4 KiB, 1 x 1, 100 % reads; link.bit_error_rate=1e-7 link.granularity=packet
        44ea9e598f27937c 1500 ios, 4083121861 ps, 51787 packets: dc-express 4 KiB, 1 x 4, 100 % reads; link.duplex=shared
        dd619e3ef436bb56 1500 ios, 76540723061 ps, 257453 packets: dc-express 4 KiB, 1 x 1, 100 % reads
        e3668dc01e9f21a1 1500 ios, 18563388343561 ps, 52801027 packets: dc-express 4+8 KiB, 1 x 4, 100 % reads; dc_express.tag_bits=8
        25e6cd0807816280 1500 ios, 4313276739 ps, 52493 packets: dc-express-block 4 KiB, 1 x 4, 100 % reads; link.generation=3 link.dllps=true
        1e5b7c0cf0acb169 1500 ios, 43466295100 ps, 87120 packets: nvme 4 KiB, 1 x 4, 50 % reads
        6bfecae297bff0ce 1496 ios, 60603300708 ps, 805955 packets: nvme 4+128 KiB, 8 x 32, 100 % reads; host.cores=4
        5c8bf54dd3cb407f 1500 ios, 5158709594 ps, 57000 packets: nvme 4 KiB, 2 x 1, 100 % reads; host.wait=hybrid
        14055fef35e0ed01 1500 ios, 11131297043 ps, 153990 packets: nvme-polled 8+16 KiB, 1 x 32, 100 % reads
        65b134fe39c102d7 1500 ios, 25796122659 ps, 86100 packets: nvme-polled 4 KiB, 1 x 32, 50 % reads; link.posted_header_credits=4
        b8aead1d1f0a3922 1500 ios, 48050011248 ps, 115500 packets: nvme-polled 4 KiB, 1 x 32, 0 % reads; link.non_posted_header_credits=2
        f2d1323155cc2419 1500 ios, 222912896751 ps, 681343 packets: nvme-polled 4+64 KiB, 1 x 4, 50 % reads; link.granularity=packet link.posted_header_credits=4 root_complex.late_write_ratio=0.01
        3f629f6d6c7d65a8 1500 ios, 42154320613 ps, 86100 packets: nvme-polled 4 KiB, 1 x 4, 50 % reads; link.duplex=shared
        f3d1c4f4f7272470 1500 ios, 29377878032 ps, 394500 packets: nvme-polled 32 KiB, 1 x 4, 100 % reads; link.bit_error_rate=1e-7
        24ffca3c3f6b79e7 1500 ios, 3731741761 ps, 55500 packets: nvme-polled 4 KiB, 4 x 4, 100 % reads; root_complex.iommu=true root_complex.iommu_entries=8
    "#]].assert_eq(&table);
}
