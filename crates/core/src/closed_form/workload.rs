//! Workload of a job in the form that closed forms need: kinds of requests with their shares, and the queue depth.

use crate::number::{real, whole};
use crate::request::DataDirection;
use crate::time::Span;
use crate::workload::trace::Summary;
use crate::workload::{AddressPattern, BlockShare, Distribution, Job, RateProcess};

/// Kind of request: all requests of a job with one direction and size, and their share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Direction of the user data: read or write.
    pub direction: DataDirection,
    /// Size of a request in bytes.
    pub bytes: u32,
    /// Share of this kind among all requests of the job, 0 to 1.
    pub share: f64,
    /// True if each request starts at a multiple of `bytes` behind the first byte of the job's region.
    pub aligned: bool,
}

/// Arrival process of requests: regular or random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Each request follows an earlier one: a closed loop, or a constant rate.
    Regular,
    /// Requests arrive at random times, as in a Poisson process or a replayed trace.
    Random,
}

/// Workload of a job in the form that closed forms need: kinds of requests, pattern, queue depth, and limits.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Kinds of requests that the job submits, by direction and size. Their shares sum to 1.
    pub classes: Vec<Class>,
    /// True if the requests of a thread have consecutive addresses.
    pub sequential: bool,
    /// True if every address of the job's region is equally likely; false for traces.
    pub uniform: bool,
    /// Number of threads that submit requests.
    pub threads: u32,
    /// Largest number of requests in flight, summed over all threads.
    pub outstanding: u64,
    /// Arrival process of the requests: regular or random.
    pub arrivals: ArrivalProcess,
    /// Offered load in requests per second that rates, think times or a trace allow at most. `None` if only the drive
    /// limits it.
    pub offered_iops: Option<f64>,
    /// First byte on the drive of the region that the job accesses.
    pub offset: u64,
    /// Bytes of the region that the job accesses.
    pub region_bytes: u64,
    /// Largest number of bytes that the job writes to each drive after its ramp. `None` if time alone ends the job.
    pub written_bytes: Option<u64>,
    /// Duration of the ramp (warm-up), before requests are counted.
    pub ramp_time: Span,
    /// Longest time for which requests are counted. `None` if the job has no such limit.
    pub runtime: Option<Span>,
    /// Share of the written bytes that leave the drive's write buffer while requests are counted, 0 to 1.
    pub leaving_share: f64,
    /// True if writes to zones are Zone Appends; otherwise they are writes at the write pointer, one at a time.
    pub appends: bool,
    /// Number of drives that serve all requests. The next field is the number of drives to which one thread submits in
    /// turn.
    pub drives: u32,
    in_turn: u32,
}

impl Workload {
    /// Returns the workload of `job` on `drives` drives of this capacity. Each thread submits to all drives in turn,
    /// but a replayed trace stays on the one drive of its thread.
    pub fn new(job: &Job, capacity_bytes: u64, drives: u16) -> Workload {
        let (drives, in_turn) = match job.trace.is_some() {
            true => (job.threads.min(drives.into()), 1),
            false => (drives.into(), drives.into()),
        };
        let classes = match &job.trace {
            Some(trace) => classes_of_replayed_trace(trace.summary()),
            None => generated_classes(job),
        };
        Workload {
            written_bytes: written_bytes(job, &classes).map(|bytes| bytes / u64::from(drives)),
            ramp_time: job.ramp_time,
            runtime: job.runtime,
            leaving_share: 1.0,
            appends: job.zone_append,
            drives,
            in_turn,
            classes,
            sequential: job.pattern == AddressPattern::Sequential,
            uniform: job.trace.is_none()
                && job.pattern == AddressPattern::Random
                && job.distribution == Distribution::Uniform,
            threads: job.threads,
            outstanding: u64::from(job.threads) * u64::from(job.iodepth),
            arrivals: match job.trace.is_some() && !job.replay_no_stall
                || has_arrival_rate(job) && job.rate_process == RateProcess::Poisson
            {
                true => ArrivalProcess::Random,
                false => ArrivalProcess::Regular,
            },
            offered_iops: offered_iops(job),
            offset: if job.trace.is_some() { 0 } else { job.offset },
            region_bytes: if job.trace.is_some() { capacity_bytes } else { job.region_bytes(capacity_bytes) },
        }
    }

    /// Returns the number of requests that may share one piece of cached or buffered data. Threads of a sequential job
    /// all start at the region's first address, and its writes use the same addresses as its reads. Otherwise it is 1.
    pub fn requests_sharing_a_piece(&self) -> f64 {
        let has = |direction| self.classes.iter().any(|class| class.direction == direction);
        match self.sequential {
            true => {
                f64::from(self.threads) * if has(DataDirection::Read) && has(DataDirection::Write) { 2.0 } else { 1.0 }
            }
            false => 1.0,
        }
    }

    /// Returns the smallest number of drives that `together` consecutive requests of a thread go to. Reads and writes
    /// each take the drives in turn.
    pub fn least_distinct_drives(&self, together: u32) -> f64 {
        let mixed = self.classes.iter().any(|class| class.direction != self.classes[0].direction);
        let of_one_round = f64::from(together) / if mixed { 2.0 } else { 1.0 };
        of_one_round.min(self.in_turn.into()).max(1.0)
    }

    /// Returns the mean size of a request in bytes, over all kinds of requests.
    pub fn mean_bytes(&self) -> f64 {
        self.mean(|class| f64::from(class.bytes))
    }

    /// Returns the mean over all requests of a quantity, which `figure` returns for a kind of request. Each kind is
    /// weighted by its share.
    pub fn mean(&self, figure: impl Fn(&Class) -> f64) -> f64 {
        self.classes.iter().map(|class| class.share * figure(class)).sum()
    }
}

/// Returns the kinds of requests of a job that generates its requests, by direction and size.
fn generated_classes(job: &Job) -> Vec<Class> {
    let reads = job.read_percent / 100.0;
    let mut classes = Vec::new();
    let mut add = |direction, blocks: &[BlockShare], of_all: f64| {
        for block in blocks.iter().filter(|block| block.percent * of_all > 0.0) {
            classes.push(Class { direction, bytes: block.bytes, share: of_all * block.percent / 100.0, aligned: true });
        }
    };
    add(DataDirection::Read, &job.read_blocks, reads);
    add(DataDirection::Write, &job.write_blocks, 1.0 - reads);
    // A random request is aligned to its own size. A sequential request starts where the previous one ended, so it is
    // aligned only if all have one size.
    let one_size = classes.iter().all(|class| class.bytes == classes[0].bytes);
    for class in &mut classes {
        class.aligned = job.pattern == AddressPattern::Random || one_size;
    }
    classes
}

fn classes_of_replayed_trace(summary: &Summary) -> Vec<Class> {
    let class = |(&(writes, bytes), &count): (&(bool, u32), &u64)| Class {
        direction: if writes { DataDirection::Write } else { DataDirection::Read },
        bytes,
        share: real(count) / real(summary.count),
        aligned: false,
    };
    summary.sizes.iter().map(class).collect()
}

fn has_arrival_rate(job: &Job) -> bool {
    job.rate_iops_read.is_some() || job.rate_iops_write.is_some()
}

/// Returns the most bytes that a job writes, if a number of requests or bytes ends it. `None` if time does.
fn written_bytes(job: &Job, classes: &[Class]) -> Option<u64> {
    let mean = |of: fn(&Class) -> bool| {
        classes.iter().filter(|class| of(class)).map(|class| class.share * f64::from(class.bytes)).sum::<f64>()
    };
    let (all, written) = (mean(|_| true), mean(|class| class.direction == DataDirection::Write));
    let by_ios = job.ios.map(real);
    let by_bytes = job.io_bytes.map(|bytes| real(bytes) / all);
    let ios = [by_ios, by_bytes].into_iter().flatten().reduce(f64::min).filter(|_| !job.time_based)?;
    Some(whole(ios * f64::from(job.threads) * written))
}

/// Returns the offered load in requests per second that a job's rates, think times or trace allow at most. `None` if
/// nothing but the drive limits it.
fn offered_iops(job: &Job) -> Option<f64> {
    if let Some(trace) = &job.trace {
        let span = trace.summary().ends_at.as_ns() * 100.0 / f64::from(job.replay_percent);
        let has_times = span > 0.0 && !job.replay_no_stall;
        return has_times.then(|| f64::from(job.threads) * real(trace.count()) / span * 1e9);
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
