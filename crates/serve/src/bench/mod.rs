//! Benchmarks of a served device: jobs in fio's terms, measured at the client. Front-ends implement [`target::Target`].
//!
//! Each thread of a job has a connection of its own and keeps up to `iodepth` requests in flight. Latencies count from
//! the instant at which the job planned to submit a request, so that late submissions of a job with a rate count as
//! latency.

mod loader;
pub mod target;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::ledger::{JobOutcome, Latency, Outcome};
use phaselink_core::problem::Problem;
use phaselink_core::request::Op;
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Job, Limits, side_by_side};

use crate::device::report;
use crate::device::tally::Tally;

use target::{Load, Measurement, Target};

/// Runs `jobs` against the server at `target` until they end, or until `stop` is true. Returns what the clients
/// measured.
///
/// # Errors
/// If a connection cannot be made or breaks, or a job asks for transfers that the target does not take.
pub fn run(target: &dyn Target, jobs: &[Job], seed: u64, stop: &AtomicBool) -> io::Result<Outcome> {
    let capacity_bytes = target.limits()?.capacity_bytes;
    let measured = target.measure(&Load { jobs, capacity_bytes, seed, stop })?;
    Ok(build_bench_outcome(target, jobs, seed, &measured, !stop.load(Ordering::Relaxed)))
}

/// Checks that the server at `target` supports the flushes and commits of `jobs`.
///
/// # Errors
/// If a job flushes and the server offers no flush. Also if a job groups the commits of several clients
/// (`group_commit`), which only a simulation times.
pub fn check(target: &dyn Target, limits: &Limits, jobs: &[Job]) -> Result<(), Problem> {
    if let Some(job) = jobs.iter().find(|job| job.group_commit > 0) {
        let found = format!("group_commit={}, whose commits are not timed against a server", job.group_commit);
        let allowed = "a job without it, with fsync=1 and a thread for each client (numjobs); or `phaselink run`";
        return Err(Problem::new(format!("job {}", job.name), None, found, allowed));
    }
    let Some(job) = jobs.iter().find(|job| job.includes_flushes() && !limits.supports(Op::Flush)) else {
        return Ok(());
    };
    let (asked, name) = match job.flushes.named().next() {
        Some((name, value)) => (format!("{name}={value}"), name),
        None => (String::from("a trace with flushes"), "them"),
    };
    let found = format!("{asked}, and the server at {target} offers no flush");
    let allowed = format!("a server that offers flushes, as `phaselink serve` does, or a job without {name}");
    Err(Problem::new(format!("job {}", job.name), None, found, allowed))
}

fn build_bench_outcome(
    target: &dyn Target,
    jobs: &[Job],
    seed: u64,
    measured: &[(usize, Measurement)],
    finished: bool,
) -> Outcome {
    let errors = measured.iter().map(|(_, measured)| measured.tally.errors).sum();
    let last = measured.iter().map(|(_, measured)| measured.last).max().unwrap_or(Time::ZERO);
    Outcome {
        drive: target.to_string(),
        seed,
        elapsed: last.since(Time::ZERO),
        jobs: build_job_outcomes(jobs, measured),
        counters: vec![("errors", errors)],
        finished,
        ..Outcome::default()
    }
}

fn build_job_outcomes(jobs: &[Job], measured: &[(usize, Measurement)]) -> Vec<JobOutcome> {
    let groups = (0..).zip(side_by_side(jobs));
    let grouped = groups.flat_map(|(group, jobs)| jobs.iter().map(move |job| (group, job)));
    grouped.enumerate().map(|(place, (group, job))| build_job_outcome(place, group, job, measured)).collect()
}

fn build_job_outcome(place: usize, group: u32, job: &Job, measured: &[(usize, Measurement)]) -> JobOutcome {
    let (mut sum, mut last, mut starts_at) = (Tally::default(), Time::ZERO, Time::NEVER);
    let mut query = Latency::default();
    for (_, measured) in measured.iter().filter(|(of, _)| *of == place) {
        sum.merge(&measured.tally);
        query.merge(&measured.queries);
        last = last.max(measured.last);
        starts_at = starts_at.min(measured.starts_at);
    }
    let runtime: Span = last.since(starts_at).saturating_sub(job.ramp_time);
    JobOutcome {
        group,
        name: job.name.clone(),
        iodepth: job.iodepth,
        threads: job.threads,
        options: job.options(),
        query,
        ..report::job(&sum, runtime)
    }
}
