//! Outcomes of runs that between them take every path through the machine, kept to the picosecond.
//!
//! A change that should not change results must leave this table as it is; one that should shows here what it does.

use std::fmt::Write;

use expect_test::expect;

use crate::drive::Drive;
use crate::drive_file::{KeyOverride, shipped};
use crate::engine::simulation::simulate;
use crate::ledger::{DirectionOutcome, Latency, Outcome};
use crate::workload::{BlockShare, Job, RateProcess};

const IOS: u64 = 1500;

/// One run: a shipped drive, what is different about it, and the job.
struct GoldenScenario {
    drive: &'static str,
    overrides: &'static [&'static str],
    kib: &'static [u32],
    iodepth: u32,
    threads: u32,
    read_percent: f64,
    poisson_iops: Option<f64>,
}

/// Random reads of 4 KiB, one at a time.
const READS: GoldenScenario = GoldenScenario {
    drive: "",
    overrides: &[],
    kib: &[4],
    iodepth: 1,
    threads: 1,
    read_percent: 100.0,
    poisson_iops: None,
};

const RUNS: &[GoldenScenario] = &[
    GoldenScenario { drive: "dc-express", ..READS },
    GoldenScenario {
        drive: "dc-express",
        overrides: &["dc_express.max_latency_us=1000"],
        kib: &[8, 32, 128],
        iodepth: 4,
        read_percent: 70.0,
        ..READS
    },
    GoldenScenario {
        drive: "dc-express",
        overrides: &["link.granularity=packet"],
        iodepth: 32,
        read_percent: 90.0,
        ..READS
    },
    GoldenScenario { drive: "dc-express", overrides: &["root_complex.late_write_ratio=0.01"], iodepth: 4, ..READS },
    GoldenScenario {
        drive: "dc-express",
        overrides: &["root_complex.late_write_ratio=0.01"],
        read_percent: 50.0,
        ..READS
    },
    GoldenScenario {
        drive: "dc-express",
        overrides: &["link.posted_header_credits=4"],
        kib: &[4, 16],
        iodepth: 4,
        ..READS
    },
    GoldenScenario { drive: "dc-express", overrides: &["link.bit_error_rate=1e-7"], iodepth: 4, ..READS },
    GoldenScenario {
        drive: "dc-express",
        overrides: &["link.bit_error_rate=1e-7", "link.granularity=packet"],
        ..READS
    },
    GoldenScenario { drive: "dc-express", overrides: &["link.duplex=shared"], iodepth: 4, ..READS },
    GoldenScenario { drive: "dc-express", poisson_iops: Some(20_000.0), ..READS },
    GoldenScenario { drive: "dc-express", overrides: &["dc_express.tag_bits=8"], kib: &[4, 8], iodepth: 4, ..READS },
    GoldenScenario {
        drive: "dc-express-block",
        overrides: &["link.generation=3", "link.dllps=true"],
        iodepth: 4,
        ..READS
    },
    GoldenScenario { drive: "nvme", iodepth: 4, read_percent: 50.0, ..READS },
    GoldenScenario { drive: "nvme", kib: &[4, 128], iodepth: 32, threads: 8, overrides: &["host.cores=4"], ..READS },
    GoldenScenario { drive: "nvme", overrides: &["host.wait=hybrid"], threads: 2, ..READS },
    GoldenScenario { drive: "nvme-polled", kib: &[8, 16], iodepth: 32, ..READS },
    GoldenScenario {
        drive: "nvme-polled",
        overrides: &["link.posted_header_credits=4"],
        iodepth: 32,
        read_percent: 50.0,
        ..READS
    },
    GoldenScenario {
        drive: "nvme-polled",
        overrides: &["link.non_posted_header_credits=2"],
        iodepth: 32,
        read_percent: 0.0,
        ..READS
    },
    GoldenScenario {
        drive: "nvme-polled",
        overrides: &["link.granularity=packet", "link.posted_header_credits=4", "root_complex.late_write_ratio=0.01"],
        kib: &[4, 64],
        iodepth: 4,
        read_percent: 50.0,
        ..READS
    },
    GoldenScenario {
        drive: "nvme-polled",
        overrides: &["link.duplex=shared"],
        iodepth: 4,
        read_percent: 50.0,
        ..READS
    },
    GoldenScenario { drive: "nvme-polled", overrides: &["link.bit_error_rate=1e-7"], kib: &[32], iodepth: 4, ..READS },
    GoldenScenario {
        drive: "nvme-polled",
        overrides: &["root_complex.iommu=true", "root_complex.iommu_entries=8"],
        threads: 4,
        iodepth: 4,
        ..READS
    },
];

impl GoldenScenario {
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
        let overrides: Vec<_> = self.overrides.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
        let drive = Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap_or_else(|e| panic!("{e}"));
        simulate(&drive, &[self.job()], 1).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// All numbers of an outcome but the count of events, which is the simulator's own affair.
fn outcome_text(outcome: &Outcome) -> String {
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
    let exact = (latency.count(), latency.sum_ps(), latency.min(), latency.max(), latency.standard_deviation_ns());
    format!("{exact:?} {classes:?}")
}

/// The FNV-1a hash (Fowler, Noll and Vo).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn line(run: &GoldenScenario) -> String {
    let outcome = run.outcome();
    let packets = outcome.upstream.packets + outcome.downstream.packets;
    let elapsed_ps = outcome.elapsed.as_ps();
    let hash = hash(&outcome_text(&outcome));
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
fn golden_outcomes_are_unchanged_to_the_picosecond() {
    let table: String = RUNS.iter().map(line).collect();
    let table = table.replace("; \n", "\n");
    expect![[r#"
        ed0459f2a5dea2dc 1500 ios, 5601358693 ps, 54107 packets: dc-express 4 KiB, 1 x 1, 100 % reads
        24189e6201abdc60 1500 ios, 236330915034 ps, 1450642 packets: dc-express 8+32+128 KiB, 1 x 4, 70 % reads; dc_express.max_latency_us=1000
        e398c725f84bbded 1500 ios, 12986478316 ps, 56955 packets: dc-express 4 KiB, 1 x 32, 90 % reads; link.granularity=packet
        e2c8c5c1aa224999 1500 ios, 3676988253 ps, 51819 packets: dc-express 4 KiB, 1 x 4, 100 % reads; root_complex.late_write_ratio=0.01
        1f594c3621c54880 1500 ios, 99986509213 ps, 362876 packets: dc-express 4 KiB, 1 x 1, 50 % reads; root_complex.late_write_ratio=0.01
        cbf74f9c42b3a33b 1500 ios, 17921115234 ps, 136257 packets: dc-express 4+16 KiB, 1 x 4, 100 % reads; link.posted_header_credits=4
        f68cf235a76ed8cb 1500 ios, 3679919298 ps, 51819 packets: dc-express 4 KiB, 1 x 4, 100 % reads; link.bit_error_rate=1e-7
        fc7b9ac7d83694c5 1500 ios, 5639685198 ps, 54209 packets: dc-express 4 KiB, 1 x 1, 100 % reads; link.bit_error_rate=1e-7 link.granularity=packet
        64c3dbad00ff0047 1500 ios, 4083214909 ps, 51790 packets: dc-express 4 KiB, 1 x 4, 100 % reads; link.duplex=shared
        16c7b538420c823d 1500 ios, 76540520703 ps, 261258 packets: dc-express 4 KiB, 1 x 1, 100 % reads
        6dc1edf7575a5646 1500 ios, 18309484341396 ps, 52979659 packets: dc-express 4+8 KiB, 1 x 4, 100 % reads; dc_express.tag_bits=8
        f0453905b2e485d0 1500 ios, 4322903702 ps, 52903 packets: dc-express-block 4 KiB, 1 x 4, 100 % reads; link.generation=3 link.dllps=true
        efb3889ce5b9c31e 1500 ios, 43476816652 ps, 87118 packets: nvme 4 KiB, 1 x 4, 50 % reads
        268df4848c0deb75 1496 ios, 60603324708 ps, 805955 packets: nvme 4+128 KiB, 8 x 32, 100 % reads; host.cores=4
        fd60d3ce500e63c4 1500 ios, 5176580631 ps, 57000 packets: nvme 4 KiB, 2 x 1, 100 % reads; host.wait=hybrid
        fe9795be4d36e3ec 1500 ios, 11131333043 ps, 153990 packets: nvme-polled 8+16 KiB, 1 x 32, 100 % reads
        94a1b49862bc8d30 1500 ios, 25795893595 ps, 86100 packets: nvme-polled 4 KiB, 1 x 32, 50 % reads; link.posted_header_credits=4
        16faf850ce25ed98 1500 ios, 48050083248 ps, 115500 packets: nvme-polled 4 KiB, 1 x 32, 0 % reads; link.non_posted_header_credits=2
        a8d15e57a28ecf63 1500 ios, 223070736135 ps, 681343 packets: nvme-polled 4+64 KiB, 1 x 4, 50 % reads; link.granularity=packet link.posted_header_credits=4 root_complex.late_write_ratio=0.01
        58c9d6d540c40123 1500 ios, 42157720729 ps, 86100 packets: nvme-polled 4 KiB, 1 x 4, 50 % reads; link.duplex=shared
        18ba99cf5563e44f 1500 ios, 29378358032 ps, 394500 packets: nvme-polled 32 KiB, 1 x 4, 100 % reads; link.bit_error_rate=1e-7
        de4762641954258e 1500 ios, 3731765761 ps, 55500 packets: nvme-polled 4 KiB, 4 x 4, 100 % reads; root_complex.iommu=true root_complex.iommu_entries=8
    "#]].assert_eq(&table);
}
