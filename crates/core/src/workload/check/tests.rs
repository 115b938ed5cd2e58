//! Tests that each mistake in a job is found, with what is allowed.

use super::*;
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use crate::workload::TimedTraceRequest;

const LIMITS: Limits = Limits { queue_pairs: 2, queue_entries: 64, transfer_bytes: 4096, ..Limits::new(1 << 20, 1) };

fn valid_job() -> Job {
    Job { ios: Some(10), ..Job::named("j") }
}

fn text(problems: Vec<Problem>) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Asserts that a change of a correct job makes exactly one problem, whose text contains all of these words.
fn assert_single_problem(change: impl Fn(&mut Job), words: &[&str]) {
    let mut job = valid_job();
    assert_eq!(job.problems(&JobPlace::new("f", 3), &LIMITS), []);
    change(&mut job);
    let problems = job.problems(&JobPlace::new("f", 3), &LIMITS);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = text(problems);
    assert!(text.starts_with("f:3: job `j`: "), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text} lacks one of {words:?}");
}

#[test]
fn zero_and_too_many_threads_are_refused() {
    assert_single_problem(|job| job.threads = 0, &["numjobs is 0", "1 to 65536"]);
    assert_single_problem(|job| job.threads = 65537, &["numjobs is 65537"]);
}

#[test]
fn depth_beyond_the_queue_is_refused_at_its_boundary() {
    let mut job = Job { iodepth: 63, ..valid_job() };
    assert_eq!(job.problems(&JobPlace::default(), &LIMITS), []);
    job.iodepth = 64;
    assert_eq!(job.problems(&JobPlace::default(), &LIMITS).len(), 1);
    assert_single_problem(|job| job.iodepth = 64, &["iodepth is 64", "1 to 63", "keeps one empty"]);
    assert_single_problem(|job| job.iodepth = 0, &["iodepth is 0"]);
}

#[test]
fn region_beyond_capacity_is_refused_at_its_boundary() {
    assert_eq!(Job { offset: 1 << 19, size: Some(1 << 19), ..valid_job() }.problems(&JobPlace::default(), &LIMITS), []);
    assert_single_problem(
        |job| (job.offset, job.size) = (1 << 19, Some((1 << 19) + 1)),
        &["524289 bytes from byte 524288"],
    );
    assert_single_problem(|job| job.size = Some(u64::MAX), &["1 to 1048576"]);
}

#[test]
fn region_starting_behind_the_end_is_refused() {
    let job = Job { offset: 1 << 20, ..valid_job() };
    assert!(text(job.problems(&JobPlace::default(), &LIMITS)).contains("starts at byte 1048576"));
}

#[test]
fn block_size_of_zero_or_beyond_the_region_is_refused() {
    assert_single_problem(|job| job.read_blocks[0].bytes = 0, &["a block has 0 bytes"]);
    assert_single_problem(|job| job.size = Some(4095), &["a block has 4096 bytes", "1 to 4095"]);
    assert_single_problem(|job| (job.size, job.read_percent) = (Some(4095), 0.0), &["a block has 4096 bytes"]);
}

#[test]
fn block_shares_that_do_not_sum_to_100_are_refused() {
    assert_single_problem(|job| job.read_blocks[0].percent = 99.0, &["add up to 99 %"]);
    assert_single_problem(|job| job.read_blocks[0].percent = f64::NAN, &["NaN"]);
    assert_single_problem(|job| job.read_blocks.clear(), &["add up to 0 %"]);
    assert_single_problem(|job| (job.read_percent, job.write_blocks) = (50.0, Vec::new()), &["add up to 0 %"]);
}

#[test]
fn read_share_beyond_100_is_refused() {
    assert_single_problem(|job| job.read_percent = 100.5, &["100.5 % of the requests are reads"]);
}

#[test]
fn invalid_distributions_are_refused() {
    assert_single_problem(|job| job.distribution = Distribution::Zipf(0.0), &["zipf:0"]);
    assert_single_problem(|job| job.distribution = Distribution::Zipf(f64::NAN), &["zipf:NaN"]);
    assert_single_problem(|job| job.distribution = Distribution::Pareto(1.0), &["pareto:1"]);
    assert_single_problem(|job| job.distribution = Distribution::Normal(100.0), &["normal:100"]);
}

#[test]
fn zero_rates_are_refused() {
    assert_single_problem(|job| job.rate_iops_read = Some(0.0), &["rate of reads is 0"]);
    assert_single_problem(|job| job.rate_iops_write = Some(f64::NAN), &["rate of writes is NaN"]);
}

#[test]
fn overflowing_times_are_refused() {
    let too_long = Span::from_ps(Span::MAX.as_ps() + 1);
    assert_single_problem(|job| job.runtime = Some(too_long), &["runtime are 0 ps, 0 ps and 2305843.009 s"]);
    assert_single_problem(|job| job.ramp_time = too_long, &["26 days"]);
    assert_single_problem(|job| job.thinktime = too_long, &["thinktime is 2305843.009 s"]);
    assert_single_problem(
        |job| (job.thinktime, job.thinktime_blocks) = (Span::from_us(1), 0),
        &["thinktime_blocks is 0"],
    );
}

#[test]
fn endless_or_empty_jobs_are_refused() {
    assert_single_problem(|job| job.ios = None, &["never end", "runtime, number_ios or io_size"]);
    assert_single_problem(|job| job.time_based = true, &["time_based without a runtime"]);
    assert_single_problem(|job| job.ios = Some(0), &["number_ios is 0"]);
    assert_single_problem(|job| job.io_bytes = Some(0), &["io_size is 0"]);
}

#[test]
fn trace_beyond_capacity_is_refused_with_the_needed_size() {
    let entry = |offset| TimedTraceRequest { at: Time::ZERO, io: Io { op: Op::Read, offset, bytes: 512 } };
    let trace = [entry(0), entry((1 << 20) - 512), entry((1 << 20) - 511), entry(1 << 21)];
    assert_single_problem(
        |job| job.trace = Some(trace.into_iter().collect()),
        &["2 of 4 requests", "512 bytes at byte 1048065", "capacity of 1048576 bytes", "needs 2097664"],
    );
    assert_single_problem(|job| job.trace = Some([].into_iter().collect()), &["no request"]);
    assert_single_problem(
        |job| (job.trace, job.time_based) = (Some([entry(0)].into_iter().collect()), true),
        &["time_based with read_iolog"],
    );
}

#[test]
fn impossible_replay_rates_are_refused() {
    let replay = |job: &mut Job, at, percent, no_stall| {
        let io = Io { op: Op::Read, offset: 0, bytes: 512 };
        job.trace =
            Some([TimedTraceRequest { at: Time::ZERO, io }, TimedTraceRequest { at, io }].into_iter().collect());
        (job.replay_percent, job.replay_no_stall) = (percent, no_stall);
    };
    let day = Time::ZERO + Span::from_s(86_400);
    let mut long = valid_job();
    replay(&mut long, day, 1, false);
    assert_eq!(long.problems(&JobPlace::default(), &LIMITS), [], "100 days are less than a run can take");
    assert_single_problem(
        |job| replay(job, day + Span::from_s(86_400), 1, false),
        &["at 1 % of its rate the trace takes 200 days"],
    );
    assert_single_problem(|job| replay(job, day, 200, true), &["replay_time_scale=200 with replay_no_stall"]);
    assert_single_problem(|job| job.replay_percent = 200, &["replay_time_scale without a trace", "read_iolog"]);
    assert_single_problem(|job| job.replay_no_stall = true, &["replay_no_stall without a trace"]);
}

#[test]
fn queue_shared_by_too_many_threads_is_refused() {
    // Threads 0, 2, 4 share queue 0; 1 and 3 share queue 1.
    let jobs = [Job { threads: 3, iodepth: 20, ..valid_job() }, Job { threads: 2, iodepth: 23, ..valid_job() }];
    assert_eq!(combined_job_problems(&jobs, &JobPlace::default(), &LIMITS), []);
    let jobs = [Job { threads: 3, iodepth: 20, ..valid_job() }, Job { threads: 2, iodepth: 24, ..valid_job() }];
    let text = text(combined_job_problems(&jobs, &JobPlace::default(), &LIMITS));
    assert!(text.contains("queue 0 keep 64 requests") && text.contains("at most 63"), "{text}");
    assert!(!text.contains("raise"), "{text}");
    let limits = Limits { queue_keys: "some.key", ..LIMITS };
    let text = self::text(combined_job_problems(&jobs, &JobPlace::default(), &limits));
    assert!(text.ends_with("keeps one empty; ask for fewer, or raise some.key"), "{text}");
}

#[test]
fn too_many_threads_over_all_jobs_are_refused() {
    let jobs = [Job { threads: 65536, ..valid_job() }, valid_job()];
    assert!(text(combined_job_problems(&jobs, &JobPlace::default(), &LIMITS)).contains("65537 threads"));
}

#[test]
fn requests_in_flight_beyond_memory_are_refused_at_the_boundary() {
    let limits = Limits { capacity_bytes: 1 << 40, transfer_bytes: 64, queue_entries: 1 << 16, ..LIMITS };
    let job = |bytes| {
        let shares = vec![BlockShare { bytes, percent: 100.0 }];
        Job { threads: 4, iodepth: 16, read_blocks: shares, ..valid_job() }
    };
    // At most 64 requests of 16384 parts each: 1048576 parts.
    assert_eq!(combined_job_problems(&[job(1 << 20)], &JobPlace::default(), &limits), []);
    let text = text(combined_job_problems(&[job((1 << 20) + 1)], &JobPlace::default(), &limits));
    assert!(text.contains("1048640 parts") && text.contains("at most 1048576") && text.contains("64 bytes"), "{text}");
}

#[test]
fn job_problem_points_to_its_options_line() {
    let mut place = JobPlace::new("f", 3);
    place.note("iodepth", Some(7));
    let job = Job { iodepth: 0, threads: 0, ..valid_job() };
    let lines: Vec<_> = job.problems(&place, &LIMITS).iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(3), Some(7)]);
}
