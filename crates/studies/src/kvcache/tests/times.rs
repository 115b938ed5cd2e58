//! Times of a drive under the accesses of a cache.

use super::{accelerators, generated, plan};
use crate::kvcache::generate::PromptMix;
use crate::kvcache::source::PromptSource;
use crate::kvcache::study::{
    CacheAnswer, CacheLifetime, CacheLoad, CacheMeasurement, CacheWalkResult, has_writes, walk,
};
use crate::kvcache::tiers::{DriveAccess, RequestBlockParts};
use crate::kvcache::windows::{CacheDrive, DrivePiece, SampledWindow, StripedDrives, WindowRequest, WindowWork};
use phaselink_core::drive::Drive;
use phaselink_core::request::{Io, Op};
use phaselink_core::simulation::simulate;
use phaselink_core::time::Span;
use phaselink_core::workload::fio;

fn window_of_lone_reads(sizes: &[u32]) -> WindowWork {
    let request = |place: usize| WindowRequest {
        at: Span::from_ms(10 * place as u64),
        counts: true,
        parts: RequestBlockParts::default(),
    };
    let piece = |(place, bytes): (usize, &u32)| DrivePiece {
        request: place as u32,
        io: Io { op: Op::Read, offset: 0, bytes: *bytes },
    };
    WindowWork {
        requests: (0..sizes.len()).map(request).collect(),
        pieces: sizes.iter().enumerate().map(piece).collect(),
    }
}

#[test]
fn wait_of_a_lone_cache_read_equals_run_latency() {
    let mut drive = Drive::shipped("optane-p5800x").unwrap();
    drive.host.variation = 0.0;
    for bytes in [4096u32, 65_536] {
        let size = bytes.to_string();
        let file =
            fio::job_from_flags(&[("rw", "randread"), ("bs", &size), ("iodepth", "1"), ("number_ios", "50")]).unwrap();
        let outcome = simulate(&drive, &file.resolve(&drive.limits(), &Default::default()).unwrap(), 1).unwrap();
        let run = outcome.jobs[0].read.total.mean().as_us();
        let times = CacheDrive::new(&drive, false, 1).run(&window_of_lone_reads(&[bytes; 20]));
        let waits: Vec<f64> = times.read_waits.iter().map(|wait| wait.unwrap().as_us()).collect();
        let mean = waits.iter().sum::<f64>() / 20.0;
        assert!((mean / run - 1.0).abs() < 0.02, "{mean} {run}");
    }
}

#[test]
fn drive_pieces_add_up_to_the_whole_access() {
    let access = DriveAccess { op: Op::Read, offset: 3 << 12, objects: 80, object_bytes: 65_536 };
    let bytes = |count| {
        let pieces = StripedDrives { count, chunk_bytes: 1 << 20 }.pieces(&access).collect::<Vec<Io>>();
        assert!(pieces.iter().all(|io| io.bytes <= 1 << 20 && io.offset.is_multiple_of(4096)));
        pieces.iter().map(|io| u64::from(io.bytes)).sum::<u64>()
    };
    assert_eq!(bytes(1), 80 * 65_536);
    assert_eq!(bytes(2), (3 << 20) - (3 << 12));
}

#[test]
fn sampled_windows_do_not_overlap_and_lie_within_the_trace() {
    for (requests, windows, pieces_per_request) in [(36_000, 20, 24.0), (50, 20, 1e6), (1000, 5, 0.0), (2, 20, 1.0)] {
        let drawn = SampledWindow::draw(requests, windows, pieces_per_request, 1000, 3);
        assert!(drawn.windows(2).all(|pair| pair[0].end() <= pair[1].first), "{drawn:?}");
        assert!(drawn.last().unwrap().end() <= requests && drawn[0].counted > 0, "{drawn:?}");
    }
}

fn simulated_cache_answer(name: &str, drives: u64) -> CacheAnswer {
    let drive = Drive::shipped(name).unwrap();
    let block = 512 * 327_680;
    let plan = plan(512, [100 * block, 300 * block, 900 * block]);
    let source = PromptSource::generated(generated(PromptMix::ToolAgent, 60.0, 512));
    let drives = StripedDrives { count: drives, chunk_bytes: 1 << 20 };
    let windows = SampledWindow::draw(source.sums().requests, 4, 20.0, 100, 1);
    let walk: CacheWalkResult = walk(&source, &plan, &accelerators(), &windows, drives).unwrap();
    let cache = CacheDrive::new(&drive, has_writes(&walk.windows), 1);
    let closed: Vec<_> = walk.windows.iter().map(|work| cache.simulate_at_full_rate(work, 100)).collect();
    let sums = source.sums();
    let load = CacheLoad::of(&walk, sums, drives, &closed);
    let open = match load.unwrap().exceeds_bandwidth() {
        true => Vec::new(),
        false => walk.windows.iter().map(|work| cache.run(work)).collect(),
    };
    CacheMeasurement { drive: &drive, drives, sums, plan: &plan, walk: &walk, load, open }.answer()
}

#[test]
fn overloaded_cache_drive_reports_load_without_mean_waits() {
    let [few, many] = [1, 16].map(|drives| simulated_cache_answer("optane-p5800x", drives));
    let [few_load, many_load] = [&few, &many].map(|answer| answer.load.unwrap());
    assert!(few.falls_behind() && few_load.interval[0] > 1.0 && few_load.share < few_load.interval[1], "{few_load:?}");
    assert!(few.first_token.is_none() && few.read_wait.is_none() && few.sampled_requests == 0);
    assert!(!many.falls_behind() && many.first_token.is_some() && many.sampled_requests > 0, "{many_load:?}");
    assert!((few_load.share / many_load.share / 16.0 - 1.0).abs() < 0.2, "{few_load:?} {many_load:?}");
}

#[test]
fn cache_shortens_time_to_first_token_within_intervals() {
    let answer = simulated_cache_answer("optane-p5800x", 16);
    let means = [&answer.without_drive, &answer.recomputed].map(|time| time.mean_s);
    assert!(means[0] < means[1], "{answer:?}");
    let first_token = answer.first_token.unwrap();
    for time in [first_token, answer.without_drive, answer.recomputed, answer.read_wait.unwrap()] {
        assert!(time.low_s <= time.mean_s && time.mean_s <= time.high_s, "{time:?}");
        assert!(time.p50_s <= time.p99_s, "{time:?}");
    }
    assert!(first_token.high_s > first_token.low_s, "the drive is sampled");
    let exact = answer.recomputed;
    assert_eq!([exact.low_s, exact.high_s], [exact.mean_s; 2], "what no drive touches is exact");
    assert!(answer.prefill_shares[0] < answer.prefill_shares[1] && answer.prefill_shares[1] < answer.prefill_shares[2]);
    let per_day = answer.written_bytes_per_s * 86_400.0
        / (16.0 * Drive::shipped("optane-p5800x").unwrap().limits().capacity_bytes as f64);
    assert!((answer.drive_writes_per_day / per_day - 1.0).abs() < 1e-12);
}

#[test]
fn missing_endurance_is_named_in_the_cache_answer() {
    let CacheLifetime::Missing { missing } = simulated_cache_answer("dram-card", 16).lifetime else {
        panic!("an answer")
    };
    assert!(missing.contains("media.endurance_cycles"), "{missing}");
}
