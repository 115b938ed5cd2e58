//! Tests that each mistake in a job is found, with what is allowed.

use super::*;
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use crate::workload::TraceIo;

const LIMITS: Limits = Limits { queue_pairs: 2, queue_entries: 64, transfer_bytes: 4096, ..Limits::new(1 << 20, 1) };

fn right() -> Job {
    Job { ios: Some(10), ..Job::named("j") }
}

fn text(problems: Vec<Problem>) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Asserts that a change of a correct job makes exactly one problem, whose text contains all of these words.
fn assert_found(change: impl Fn(&mut Job), words: &[&str]) {
    let mut job = right();
    assert_eq!(job.problems(&JobPlace::new("f", 3), &LIMITS), []);
    change(&mut job);
    let problems = job.problems(&JobPlace::new("f", 3), &LIMITS);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = text(problems);
    assert!(text.starts_with("f:3: job `j`: "), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn no_threads_and_too_many_are_found() {
    assert_found(|job| job.threads = 0, &["numjobs is 0", "1 to 65536"]);
    assert_found(|job| job.threads = 65537, &["numjobs is 65537"]);
}

#[test]
fn a_depth_that_a_queue_cannot_hold_is_found_at_its_boundary() {
    let mut job = Job { iodepth: 63, ..right() };
    assert_eq!(job.problems(&JobPlace::default(), &LIMITS), []);
    job.iodepth = 64;
    assert_eq!(job.problems(&JobPlace::default(), &LIMITS).len(), 1);
    assert_found(|job| job.iodepth = 64, &["iodepth is 64", "1 to 63", "keeps one empty"]);
    assert_found(|job| job.iodepth = 0, &["iodepth is 0"]);
}

#[test]
fn regions_beyond_the_capacity_are_found_at_their_boundary() {
    assert_eq!(Job { offset: 1 << 19, size: Some(1 << 19), ..right() }.problems(&JobPlace::default(), &LIMITS), []);
    assert_found(|job| (job.offset, job.size) = (1 << 19, Some((1 << 19) + 1)), &["524289 bytes from byte 524288"]);
    assert_found(|job| job.size = Some(u64::MAX), &["1 to 1048576"]);
}

#[test]
fn a_region_behind_the_end_is_found() {
    let job = Job { offset: 1 << 20, ..right() };
    assert!(text(job.problems(&JobPlace::default(), &LIMITS)).contains("starts at byte 1048576"));
}

#[test]
fn blocks_that_are_empty_or_larger_than_the_region_are_found() {
    assert_found(|job| job.read_blocks[0].bytes = 0, &["a block has 0 bytes"]);
    assert_found(|job| job.size = Some(4095), &["a block has 4096 bytes", "1 to 4095"]);
    assert_found(|job| (job.size, job.read_percent) = (Some(4095), 0.0), &["a block has 4096 bytes"]);
}

#[test]
fn shares_that_do_not_add_up_to_100_are_found() {
    assert_found(|job| job.read_blocks[0].percent = 99.0, &["add up to 99 %"]);
    assert_found(|job| job.read_blocks[0].percent = f64::NAN, &["NaN"]);
    assert_found(|job| job.read_blocks.clear(), &["add up to 0 %"]);
    assert_found(|job| (job.read_percent, job.write_blocks) = (50.0, Vec::new()), &["add up to 0 %"]);
}

#[test]
fn shares_of_reads_beyond_100_are_found() {
    assert_found(|job| job.read_percent = 100.5, &["100.5 % of the requests are reads"]);
}

#[test]
fn distributions_without_meaning_are_found() {
    assert_found(|job| job.distribution = Distribution::Zipf(0.0), &["zipf:0"]);
    assert_found(|job| job.distribution = Distribution::Zipf(f64::NAN), &["zipf:NaN"]);
    assert_found(|job| job.distribution = Distribution::Pareto(1.0), &["pareto:1"]);
    assert_found(|job| job.distribution = Distribution::Normal(100.0), &["normal:100"]);
}

#[test]
fn rates_of_zero_are_found() {
    assert_found(|job| job.rate_iops_read = Some(0.0), &["rate of reads is 0"]);
    assert_found(|job| job.rate_iops_write = Some(f64::NAN), &["rate of writes is NaN"]);
}

#[test]
fn times_that_do_not_fit_are_found() {
    let too_long = Span::from_ps(Span::MAX.as_ps() + 1);
    assert_found(|job| job.runtime = Some(too_long), &["runtime are 0 ps, 0 ps and 2305843.009 s"]);
    assert_found(|job| job.ramp_time = too_long, &["26 days"]);
    assert_found(|job| job.thinktime = too_long, &["thinktime is 2305843.009 s"]);
    assert_found(|job| (job.thinktime, job.thinktime_blocks) = (Span::from_us(1), 0), &["thinktime_blocks is 0"]);
}

#[test]
fn jobs_without_end_or_without_anything_to_do_are_found() {
    assert_found(|job| job.ios = None, &["never end", "runtime, number_ios or io_size"]);
    assert_found(|job| job.time_based = true, &["time_based without a runtime"]);
    assert_found(|job| job.ios = Some(0), &["number_ios is 0"]);
    assert_found(|job| job.io_bytes = Some(0), &["io_size is 0"]);
}

#[test]
fn traces_beyond_the_capacity_are_found_with_what_they_need() {
    let entry = |offset| TraceIo { at: Time::ZERO, io: Io { op: Op::Read, offset, bytes: 512 } };
    let trace = [entry(0), entry((1 << 20) - 512), entry((1 << 20) - 511), entry(1 << 21)];
    assert_found(
        |job| job.trace = Some(trace.into_iter().collect()),
        &["2 of 4 requests", "512 bytes at byte 1048065", "capacity of 1048576 bytes", "needs 2097664"],
    );
    assert_found(|job| job.trace = Some([].into_iter().collect()), &["no request"]);
    assert_found(
        |job| (job.trace, job.time_based) = (Some([entry(0)].into_iter().collect()), true),
        &["time_based with read_iolog"],
    );
}

#[test]
fn replays_at_a_rate_that_nothing_can_have_are_found() {
    let replay = |job: &mut Job, at, percent, no_stall| {
        let io = Io { op: Op::Read, offset: 0, bytes: 512 };
        job.trace = Some([TraceIo { at: Time::ZERO, io }, TraceIo { at, io }].into_iter().collect());
        (job.replay_percent, job.replay_no_stall) = (percent, no_stall);
    };
    let day = Time::ZERO + Span::from_s(86_400);
    let mut long = right();
    replay(&mut long, day, 1, false);
    assert_eq!(long.problems(&JobPlace::default(), &LIMITS), [], "100 days are less than a run can take");
    assert_found(
        |job| replay(job, day + Span::from_s(86_400), 1, false),
        &["at 1 % of its rate the trace takes 200 days"],
    );
    assert_found(|job| replay(job, day, 200, true), &["replay_time_scale=200 with replay_no_stall"]);
    assert_found(|job| job.replay_percent = 200, &["replay_time_scale without a trace", "read_iolog"]);
    assert_found(|job| job.replay_no_stall = true, &["replay_no_stall without a trace"]);
}

#[test]
fn a_queue_shared_by_too_many_threads_is_found() {
    // Threads 0, 2, 4 share queue 0; 1 and 3 share queue 1.
    let jobs = [Job { threads: 3, iodepth: 20, ..right() }, Job { threads: 2, iodepth: 23, ..right() }];
    assert_eq!(problems_together(&jobs, &JobPlace::default(), &LIMITS), []);
    let jobs = [Job { threads: 3, iodepth: 20, ..right() }, Job { threads: 2, iodepth: 24, ..right() }];
    let text = text(problems_together(&jobs, &JobPlace::default(), &LIMITS));
    assert!(text.contains("queue 0 keep 64 requests") && text.contains("at most 63"), "{text}");
    assert!(!text.contains("raise"), "{text}");
    let limits = Limits { queue_keys: "some.key", ..LIMITS };
    let text = self::text(problems_together(&jobs, &JobPlace::default(), &limits));
    assert!(text.ends_with("keeps one empty; ask for fewer, or raise some.key"), "{text}");
}

#[test]
fn too_many_threads_of_all_jobs_are_found() {
    let jobs = [Job { threads: 65536, ..right() }, right()];
    assert!(text(problems_together(&jobs, &JobPlace::default(), &LIMITS)).contains("65537 threads"));
}

#[test]
fn more_under_way_than_memory_should_hold_is_found_at_its_boundary() {
    let limits = Limits { capacity_bytes: 1 << 40, transfer_bytes: 64, queue_entries: 1 << 16, ..LIMITS };
    let job = |bytes| {
        let shares = vec![BlockShare { bytes, percent: 100.0 }];
        Job { threads: 4, iodepth: 16, read_blocks: shares, ..right() }
    };
    // At most 64 requests of 16384 parts each: 1048576 parts.
    assert_eq!(problems_together(&[job(1 << 20)], &JobPlace::default(), &limits), []);
    let text = text(problems_together(&[job((1 << 20) + 1)], &JobPlace::default(), &limits));
    assert!(text.contains("1048640 parts") && text.contains("at most 1048576") && text.contains("64 bytes"), "{text}");
}

#[test]
fn problems_point_to_the_line_of_their_option() {
    let mut place = JobPlace::new("f", 3);
    place.note("iodepth", Some(7));
    let job = Job { iodepth: 0, threads: 0, ..right() };
    let lines: Vec<_> = job.problems(&place, &LIMITS).iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(3), Some(7)]);
}
