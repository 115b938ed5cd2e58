//! Workload of a job as closed forms see it: kinds of requests with their shares, and the number outstanding.

use crate::request::DataDirection;
use crate::time::Span;
use crate::workload::trace::Summary;
use crate::workload::{BlockShare, Distribution, Job, Pattern, RateProcess};

/// A kind of requests that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Read or write.
    pub direction: DataDirection,
    /// Length in bytes.
    pub bytes: u32,
    /// Share of all requests, 0 to 1.
    pub share: f64,
    /// True if every request starts at the job's first byte plus a multiple of `bytes`.
    pub aligned: bool,
}

/// Arrival process of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Each request follows an earlier one, in a closed loop or at a steady rate.
    Regular,
    /// Requests arrive at random instants.
    Random,
}

/// Workload of a job as closed forms see it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Kinds of requests.
    pub classes: Vec<Class>,
    /// True if requests have consecutive addresses.
    pub sequential: bool,
    /// True if every address of the region is equally likely.
    pub uniform: bool,
    /// Number of threads.
    pub threads: u32,
    /// Largest number of outstanding requests, over all threads.
    pub outstanding: u64,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Largest offered load in requests per second, if anything but the drive limits it.
    pub offered_iops: Option<f64>,
    /// First byte of the region that the job accesses.
    pub offset: u64,
    /// Length of the region that the job accesses.
    pub region_bytes: u64,
    /// Bytes that the job writes to a drive at most after its ramp, if the job says.
    pub written_bytes: Option<u64>,
    /// Time before requests are counted.
    pub ramp_time: Span,
    /// Longest time for which requests are counted, if the job says.
    pub runtime: Option<Span>,
    /// Share of the written bytes that leave a write buffer while requests are counted, 0 to 1.
    pub leaving_share: f64,
    /// Number of drives among which the requests of all threads are divided, and number to which the requests of one
    /// thread go in turn.
    pub drives: u32,
    in_turn: u32,
}

impl Workload {
    /// Makes the workload of `job` on `drives` drives of this capacity, to which the requests of a thread go in turn. A
    /// replayed trace stays on the one drive of its thread.
    pub fn new(job: &Job, capacity_bytes: u64, drives: u16) -> Workload {
        let (drives, in_turn) = match job.trace.is_some() {
            true => (job.threads.min(drives.into()), 1),
            false => (drives.into(), drives.into()),
        };
        let classes = match &job.trace {
            Some(trace) => replayed(trace.summary()),
            None => generated(job),
        };
        Workload {
            written_bytes: written_bytes(job, &classes).map(|bytes| bytes / u64::from(drives)),
            ramp_time: job.ramp_time,
            runtime: job.runtime,
            leaving_share: 1.0,
            drives,
            in_turn,
            classes,
            sequential: job.pattern == Pattern::Sequential,
            uniform: job.trace.is_none() && job.pattern == Pattern::Random && job.distribution == Distribution::Uniform,
            threads: job.threads,
            outstanding: u64::from(job.threads) * u64::from(job.iodepth),
            arrivals: match job.trace.is_some() && !job.replay_no_stall
                || has_rate(job) && job.rate_process == RateProcess::Poisson
            {
                true => Arrivals::Random,
                false => Arrivals::Regular,
            },
            offered_iops: offered_iops(job),
            offset: if job.trace.is_some() { 0 } else { job.offset },
            region_bytes: if job.trace.is_some() { capacity_bytes } else { job.region_bytes(capacity_bytes) },
        }
    }

    /// Number of requests that may share cached or buffered data: threads that go through a region in order all start
    /// with its first address, and writes with the addresses of reads.
    pub fn sharers(&self) -> f64 {
        let has = |direction| self.classes.iter().any(|class| class.direction == direction);
        match self.sequential {
            true => {
                f64::from(self.threads) * if has(DataDirection::Read) && has(DataDirection::Write) { 2.0 } else { 1.0 }
            }
            false => 1.0,
        }
    }

    /// Least number of drives that `together` consecutive requests of a thread go to: reads and writes each go round
    /// the drives.
    pub fn told(&self, together: u32) -> f64 {
        let mixed = self.classes.iter().any(|class| class.direction != self.classes[0].direction);
        let of_one_round = f64::from(together) / if mixed { 2.0 } else { 1.0 };
        of_one_round.min(self.in_turn.into()).max(1.0)
    }

    /// Mean size of a request in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.mean(|class| f64::from(class.bytes))
    }

    /// Mean of a figure over all requests.
    pub fn mean(&self, figure: impl Fn(&Class) -> f64) -> f64 {
        self.classes.iter().map(|class| class.share * figure(class)).sum()
    }
}

/// Kinds of requests of a job that generates its requests.
fn generated(job: &Job) -> Vec<Class> {
    let reads = job.read_percent / 100.0;
    let mut classes = Vec::new();
    let mut add = |direction, blocks: &[BlockShare], of_all: f64| {
        for block in blocks.iter().filter(|block| block.percent * of_all > 0.0) {
            classes.push(Class { direction, bytes: block.bytes, share: of_all * block.percent / 100.0, aligned: true });
        }
    };
    add(DataDirection::Read, &job.read_blocks, reads);
    add(DataDirection::Write, &job.write_blocks, 1.0 - reads);
    // Random requests are aligned to their own size, sequential ones to the size of those before them.
    let one_size = classes.iter().all(|class| class.bytes == classes[0].bytes);
    for class in &mut classes {
        class.aligned = job.pattern == Pattern::Random || one_size;
    }
    classes
}

fn replayed(summary: &Summary) -> Vec<Class> {
    let class = |(&(writes, bytes), &count): (&(bool, u32), &u64)| Class {
        direction: if writes { DataDirection::Write } else { DataDirection::Read },
        bytes,
        share: count as f64 / summary.count as f64,
        aligned: false,
    };
    summary.sizes.iter().map(class).collect()
}

fn has_rate(job: &Job) -> bool {
    job.rate_iops_read.is_some() || job.rate_iops_write.is_some()
}

/// Bytes that a job writes at most, if a number of requests or bytes ends it.
fn written_bytes(job: &Job, classes: &[Class]) -> Option<u64> {
    let mean = |of: fn(&Class) -> bool| {
        classes.iter().filter(|class| of(class)).map(|class| class.share * f64::from(class.bytes)).sum::<f64>()
    };
    let (all, written) = (mean(|_| true), mean(|class| class.direction == DataDirection::Write));
    let by_ios = job.ios.map(|ios| ios as f64);
    let by_bytes = job.io_bytes.map(|bytes| bytes as f64 / all);
    let ios = [by_ios, by_bytes].into_iter().flatten().reduce(f64::min).filter(|_| !job.time_based)?;
    Some((ios * f64::from(job.threads) * written) as u64)
}

/// Largest offered load of a job, which rates, think times and traces limit.
fn offered_iops(job: &Job) -> Option<f64> {
    if let Some(trace) = &job.trace {
        let span = trace.summary().ends_at.as_ns() * 100.0 / f64::from(job.replay_percent);
        let has_times = span > 0.0 && !job.replay_no_stall;
        return has_times.then(|| f64::from(job.threads) * trace.count() as f64 / span * 1e9);
    }
    let read = job.rate_iops_read.filter(|_| job.read_percent > 0.0);
    let write = job.rate_iops_write.filter(|_| job.read_percent < 100.0);
    let rate = match (read, write, job.read_percent) {
        (Some(read), Some(write), _) => Some(read + write),
        (Some(rate), None, 100.0) | (None, Some(rate), 0.0) => Some(rate),
        _ => None,
    };
    let thinking = (job.thinktime > Span::ZERO).then(|| f64::from(job.thinktime_blocks) / job.thinktime.as_s());
    let per_thread = [rate, thinking].into_iter().flatten().reduce(f64::min);
    per_thread.map(|iops| iops * f64::from(job.threads))
}
