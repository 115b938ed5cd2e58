//! The NVMe model of Choi et al. (NVMSA 2016) as drives: its formulas are closed forms.
use crate::common::{self, drive, jobs, reads, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::ledger::{DirectionOutcome, Stage};
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;

/// The five packets of a request without data: 24 + 24 + 20 + 20 + 20 bytes, each with an ACK of 8.
const INFO_BYTES: u64 = 108 + 5 * 8;

fn info(requests: &DirectionOutcome) -> Span {
    let stages = [Stage::Doorbell, Stage::Fetch, Stage::CompletionEntry, Stage::Interrupt];
    stages.iter().map(|stage| requests.stages.get(*stage)).fold(Span::ZERO, |sum, span| sum + span)
}

/// Every latency of a request that finds the bus idle: info, DMA and memory.
fn assert_idle_bus_parts(requests: &DirectionOutcome, info_ps: u64, dma_ps: u64, media_ps: u64) {
    let count = requests.ios;
    assert!(count > 0);
    assert_eq!(info(requests), Span::from_ps(info_ps * count), "info");
    assert_eq!(requests.stages.get(Stage::Transfer), Span::from_ps(dma_ps * count), "DMA");
    assert_eq!(requests.stages.get(Stage::Media), Span::from_ps(media_ps * count), "memory");
    let total = Span::from_ps(info_ps + dma_ps + media_ps);
    assert_eq!((requests.total.min(), requests.total.max()), (total, total));
}

#[test]
fn nvm_model_request_of_64_bytes_on_gen2_x1_is_as_published() {
    let drive = drive("nvm-model-dram", &[]);
    assert_idle_bus_parts(reads(&run(&drive, "bs=64 number_ios=20")), 296_000, 168_000, 50_000);
    let writes = run(&drive, "rw=randwrite bs=64 number_ios=20");
    assert_idle_bus_parts(&writes.jobs[0].write, 296_000, 168_000, 1_000_000);
}

#[test]
fn nvm_model_formula_covers_all_generations_and_memories() {
    for (version, ps) in [(1, 4000), (2, 2000), (3, 1000), (4, 500)] {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let set = [&*format!("link.preset=nvm-model-v{version}"), &format!("link.lanes={lanes}")];
            // The times of packets and ACKs are rounded up to picoseconds.
            let time = |bytes: u64| (bytes * ps).div_ceil(lanes);
            let info = time(24) * 2 + time(20) * 3 + time(8) * 5;
            let block = run(&drive("nvm-model-block", &set), "bs=4k number_ios=5");
            assert_idle_bus_parts(reads(&block), info, time(4116), 30_000_000);
            let dram = run(&drive("nvm-model-dram", &set), "bs=64 number_ios=5");
            assert_idle_bus_parts(reads(&dram), info, time(84), 50_000);
        }
    }
}

#[test]
fn saturated_bus_carries_only_info_and_data() {
    for (job, packets) in [("bs=64", 1), ("bs=64 rw=randwrite", 1), ("bs=1024", 1)] {
        let outcome = run(&drive("nvm-model-dram", &[]), &format!("{job} iodepth=256 number_ios=20000"));
        let (wire, other) = (&outcome.upstream, &outcome.downstream);
        let ios = outcome.ios();
        assert_eq!(wire.header_bytes + other.header_bytes, ios * (108 + 20 * packets), "{job}");
        assert_eq!(wire.dllp_bytes + other.dllp_bytes, ios * 40, "{job}");
        let bytes = (wire.bytes() + other.bytes()) as f64;
        assert!(common::close(bytes * 2.0, outcome.elapsed.as_ns(), 1e-3), "{job}: {bytes}");
    }
}

#[test]
fn large_requests_take_only_their_data_packets() {
    let outcome = run(&drive("nvm-model-block", &[]), "bs=1m number_ios=4");
    let bytes = outcome.upstream.bytes() + outcome.downstream.bytes();
    assert_eq!(bytes, 4 * (INFO_BYTES + 256 * 4116));
    let whole = Span::from_ns(30_000 + 2 * (INFO_BYTES + 256 * 4116));
    assert_eq!(reads(&outcome).total.max(), whole);
}

fn wide(name: &str, set: &[&str]) -> Drive {
    drive(name, &[&["link.preset=nvm-model-v4", "link.lanes=32"], set].concat())
}

#[test]
fn queue_of_65536_entries_can_be_filled() {
    let deep = wide("nvm-model-dram", &["nvme.queue_pairs=1", "nvme.queue_entries=65536"]);
    let outcome = run(&deep, "bs=64 iodepth=65535 number_ios=140000");
    assert_eq!(outcome.ios(), 140_000);
    let slowest = reads(&outcome).total.max().as_ns();
    assert!(common::close(slowest, 65_535.0 * 232.0 / 64.0, 0.02), "{slowest}");
}

#[test]
fn queue_count_of_65536_can_be_used() {
    let outcome = run(&wide("nvm-model-dram", &[]), "bs=64 numjobs=65536 number_ios=1");
    assert_eq!(outcome.ios(), 65_536);
    let slowest = reads(&outcome).total.max().as_ns();
    assert!(common::close(slowest, 65_536.0 * 232.0 / 64.0, 0.02), "{slowest}");
}

#[test]
fn rings_beyond_two_to_the_25_entries_are_refused() {
    let shipped = shipped::find("nvm-model-dram").unwrap();
    let read = |set: &str| Drive::from_toml(shipped.file, shipped.text, &[KeyOverride::parse(set).unwrap()]);
    assert!(read("nvme.queue_entries=512").is_ok());
    let problems = read("nvme.queue_entries=513").unwrap_err().to_string();
    assert!(problems.contains("at most 33554432 entries in all queues together"), "{problems}");
}

#[test]
fn data_runs_refuse_writes_below_512_bytes() {
    let drive = drive("nvm-model-dram", &[]);
    let small = Simulation::with_data(&drive, &jobs(&drive, "rw=randrw bs=64 number_ios=10"), 1);
    assert!(small.unwrap_err().to_string().contains("multiples of 512 bytes in jobs that write"));
    let job = "rw=randrw bs=1024 size=16k iodepth=4 number_ios=500";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
}

#[test]
fn sgl_segment_moves_the_bytes_of_page_lists() {
    let drive = drive("nvme-polled", &["nvme.data_pointer=sgl"]);
    let job = "rw=randrw bs=64k size=1m iodepth=8 number_ios=300";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
}
