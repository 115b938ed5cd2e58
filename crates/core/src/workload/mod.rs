//! Workloads: jobs in fio's terms, and block traces.
//!
//! A [`Job`] is a section of a fio job file after its options are resolved. A [`RequestGenerator`] turns it into the requests
//! of one thread: the engine asks for the next request whenever the thread has a free slot, and gets the request and
//! its earliest time.
//!
//! [`fio`] reads job files and flags, by one table of [`options`], into a [`WrittenJobFile`], which resolves into jobs once
//! the drive's [`Limits`] and the named [`trace`]s are known. Jobs built in code start from [`Job::named`] and are
//! checked by [`Job::problems`].

mod addresses;
mod batch;
pub mod check;
mod defaults;
mod draft;
pub mod fio;
mod flushes;
pub mod generator;
mod job_file;
pub mod options;
mod pace;
mod query;
mod spelt;
pub mod trace;
mod values;
mod written;

pub use batch::{Batch, BatchSizes, EngineChoice};
pub use check::{
    EngineSupport, FilledKeys, JobPlace, KeyValueSpace, Limits, ZoneJobLimits, combined_job_problems,
    ineffective_io_engine,
};
pub use defaults::{add_default_options, has_end, option_words};
pub use flushes::Flushes;
pub use generator::RequestGenerator;
pub use job_file::WrittenJobFile;
pub use query::{OpenQuery, Rounds};
pub use trace::{TimedTraceRequest, Trace};
pub use written::UnresolvedJobs;

use crate::time::Span;
use serde::Serialize;

/// Parses a number of bytes with a suffix, as in fio job files: `4k` is 4096. Returns none for other text.
pub fn bytes(text: &str) -> Option<u64> {
    values::whole(text)
}

/// Order of a job's addresses (fio `rw`: `read`, `write` and `rw` are sequential, the `rand` forms random).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AddressPattern {
    /// Each request begins where the previous one ended.
    Sequential,
    /// Requests begin at random blocks, drawn from the job's [`Distribution`].
    Random,
}

/// Distribution of random addresses over blocks (fio `random_distribution`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Distribution {
    /// Every block is equally likely.
    Uniform,
    /// Zipf distribution with this exponent theta.
    Zipf(f64),
    /// Pareto distribution with this power h: a share h of the blocks gets a share 1 - h of the requests.
    Pareto(f64),
    /// Normal distribution around the middle of the region, with this standard deviation in per cent of the region's
    /// size.
    Normal(f64),
}

/// Spacing in time of the requests of a job with a rate (fio `rate_process`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RateProcess {
    /// Equal times between successive requests.
    Linear,
    /// Exponentially distributed times between successive requests.
    Poisson,
}

/// Block size and its share of the reads, or of the writes, of a job in per cent (fio `bssplit`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlockShare {
    /// Block size in bytes.
    pub bytes: u32,
    /// Share of the job's reads, or of its writes, that have this block size, in per cent.
    pub percent: f64,
}

/// One section of a fio job file with all options resolved: requests, threads, region, times and end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Name of the section, under which results show the job.
    pub name: String,
    /// Order of the addresses of the job's requests, sequential or random.
    pub pattern: AddressPattern,
    /// Share of reads in per cent: 100 for `read`, 0 for `write`, `rwmixread` for `rw`.
    pub read_percent: f64,
    /// Block sizes of reads, whose shares add up to 100 per cent.
    pub read_blocks: Vec<BlockShare>,
    /// Block sizes of writes, whose shares add up to 100 per cent.
    pub write_blocks: Vec<BlockShare>,
    /// Number of requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Number of threads that run this job (fio `numjobs`).
    pub threads: u32,
    /// First byte of the region that the job accesses (fio `offset`).
    pub offset: u64,
    /// Length in bytes of the region that the job accesses (fio `size`); none if the region ends with the device.
    pub size: Option<u64>,
    /// Number of bytes after which a thread ends (fio `io_size`, else `size`). A thread ends at the first of its
    /// limits: bytes, requests or time. Each counts from the end of the ramp, as in fio.
    pub io_bytes: Option<u64>,
    /// Number of requests after which a thread ends (fio `number_ios`).
    pub ios: Option<u64>,
    /// Time after which a thread ends, counted from the end of the ramp (fio `runtime`).
    pub runtime: Option<Span>,
    /// True if a thread ends only after `runtime`, whatever number of bytes or requests it has completed (fio
    /// `time_based`).
    pub time_based: bool,
    /// Time at the start of the job in which requests are issued, but not counted in the results (fio `ramp_time`).
    pub ramp_time: Span,
    /// True if results count requests only after a warm-up that brings each drive into its steady state; `None` if the
    /// job does not say.
    pub steady: Option<bool>,
    /// Time from the start of the run to the start of the job (fio `startdelay`).
    pub start_delay: Span,
    /// True if the job starts only when all jobs before it in the job file have ended (fio `stonewall`).
    #[serde(rename = "waits")]
    pub waits_for_previous: bool,
    /// Pause of a thread after every `thinktime_blocks` requests (fio `thinktime`).
    pub thinktime: Span,
    /// Number of requests between two pauses of a thread (fio `thinktime_blocks`).
    pub thinktime_blocks: u32,
    /// Number of rounds of a query. A round is `iodepth` reads, which are issued only once all reads of the previous
    /// round have completed. Zero if the job makes no queries.
    #[serde(skip_serializing_if = "is_zero")]
    pub query_rounds: u32,
    /// Number of clients of each thread, whose log records it gathers into one write and one flush (group commit). Zero
    /// if the job does none.
    #[serde(skip_serializing_if = "is_zero")]
    pub group_commit: u32,
    /// Reads per second of each thread (fio `rate_iops`); none if the rate is not limited.
    pub rate_iops_read: Option<f64>,
    /// Writes per second of each thread (fio `rate_iops`); none if the rate is not limited.
    pub rate_iops_write: Option<f64>,
    /// Spacing in time of the requests, if the job has a rate.
    pub rate_process: RateProcess,
    /// Distribution of random addresses over the blocks of the region.
    pub distribution: Distribution,
    /// I/O engine that submits the job's requests, with its options.
    #[serde(rename = "way")]
    pub engine_choice: EngineChoice,
    /// Numbers of requests that are submitted together and of completions that are collected together.
    pub batch: Batch,
    /// Points of a job at which a thread flushes its acknowledged writes, such as after every n writes.
    pub flushes: Flushes,
    /// Requests of a trace, replayed at their recorded times instead of generated ones (fio `read_iolog`).
    pub trace: Option<trace::TraceRequests>,
    /// Rate of a replay in per cent of the recorded rate (fio `replay_time_scale`).
    pub replay_percent: u32,
    /// True if a replay issues each request as soon as a slot is free, and ignores recorded times (fio
    /// `replay_no_stall`).
    pub replay_no_stall: bool,
    /// True if writes on a drive with zones are Zone Appends; otherwise they are writes at the write pointer, of which
    /// the host has one in flight in each zone.
    #[serde(skip_serializing_if = "is_true")]
    pub zone_append: bool,
    /// Size in bytes of the objects that writes replace as a whole, in order or at random; 0 if they do not.
    #[serde(skip_serializing_if = "is_zero_long")]
    pub object_bytes: u64,
    /// True if an object is deallocated before it is replaced.
    #[serde(skip_serializing_if = "is_false")]
    pub object_trim: bool,
    /// Placement identifiers that the job's writes name (fio `fdp`); `None` if writes name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementChoice>,
}

/// Choice of placement identifiers for the writes of a job, as indices into the drive's list (fio `fdp_pli`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlacementChoice {
    /// Indices into the drive's list of placement identifiers; empty if the job uses all of them.
    pub places: Vec<u16>,
    /// True if each write draws an identifier at random, instead of taking them in turn (fio `fdp_pli_select=random`).
    pub is_random: bool,
}

/// True if a number is zero, so that serialisation leaves out a field with this value.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// True if a number is zero, so that serialisation leaves out a field with this value.
fn is_zero_long(number: &u64) -> bool {
    *number == 0
}

/// True if a switch is on, so that serialisation leaves out a field that is on by default.
fn is_true(is_on: &bool) -> bool {
    *is_on
}

/// True if a switch is off, so that serialisation leaves out a field that is off by default.
fn is_false(is_on: &bool) -> bool {
    !*is_on
}

/// Returns the groups of jobs that run at the same time, in the order in which the groups run. A job that waits (fio
/// `stonewall`) starts a group.
pub fn side_by_side(jobs: &[Job]) -> impl DoubleEndedIterator<Item = &[Job]> {
    jobs.chunk_by(|_, next| !next.waits_for_previous)
}

impl Job {
    /// Returns the job with a rate of all its threads together, at random times (Poisson process), divided between reads
    /// and writes by their shares. `None` if its load cannot be set by a rate alone.
    pub fn offering(&self, iops: f64) -> Option<Job> {
        let has_own_pace = self.trace.is_some()
            || self.rate_iops_read.is_some()
            || self.rate_iops_write.is_some()
            || !self.thinktime.is_zero()
            || self.query_rounds > 0
            || self.group_commit > 0
            || self.includes_flushes();
        let of_thread = |percent: f64| (percent > 0.0).then(|| iops * percent / 100.0 / f64::from(self.threads));
        let paced = || Job {
            rate_iops_read: of_thread(self.read_percent),
            rate_iops_write: of_thread(100.0 - self.read_percent),
            rate_process: RateProcess::Poisson,
            ..self.clone()
        };
        (!has_own_pace).then(paced)
    }

    /// Returns the sizes of the job's requests in bytes, for a log with group commit the smallest and the largest. A
    /// size may occur twice.
    pub fn sizes(&self) -> Vec<u32> {
        if let Some(trace) = &self.trace {
            let summary = trace.summary();
            return summary.sizes.keys().map(|(_, bytes)| *bytes).chain([summary.largest_bytes]).collect();
        }
        if self.group_commit > 0 {
            let record = self.write_blocks.first().map_or(0, |share| share.bytes);
            return vec![record, record.saturating_mul(self.group_commit)];
        }
        let reads = self.read_blocks.iter().filter(|_| self.read_percent > 0.0);
        let writes = self.write_blocks.iter().filter(|_| self.read_percent < 100.0);
        reads.chain(writes).map(|block| block.bytes).collect()
    }

    /// Lets the job be measured in the steady state if the drive has one or is a volume with credits, unless the job
    /// says otherwise.
    pub fn measure_in_steady_state(&mut self, limits: &Limits) {
        if limits.has_steady_state || limits.has_credits {
            self.steady = self.steady.or(Some(true));
        }
    }

    /// True if the job is to be measured in the steady state of the drive, and not from its first request on.
    pub fn is_steady(&self) -> bool {
        self.steady == Some(true)
    }

    /// True if the job generates writes, or replays a trace that has some.
    pub fn has_writes(&self) -> bool {
        self.trace.as_ref().map_or(self.read_percent < 100.0, |trace| trace.summary().has_writes())
    }

    /// True if the job generates writes at random addresses, or replays a trace that has writes.
    pub fn writes_at_random(&self) -> bool {
        self.has_writes() && (self.trace.is_some() || self.pattern == AddressPattern::Random)
    }

    /// True if a warm-up precedes the requests that count: the job writes and is measured in the steady state. A replay
    /// has no requests to spare for a warm-up.
    pub fn warms_up(&self) -> bool {
        self.is_steady() && self.trace.is_none() && self.has_writes()
    }

    /// Returns the number of reads of one query (rounds times queue depth); zero if the job makes no queries.
    pub fn query_ios(&self) -> u32 {
        self.query_rounds.saturating_mul(self.iodepth)
    }

    /// True if the job flushes its writes, because its options or its trace contain flushes.
    pub fn includes_flushes(&self) -> bool {
        let recorded = self.trace.as_ref().is_some_and(|trace| trace.summary().flushes > 0);
        recorded || self.flushes.named().next().is_some()
    }

    /// Returns the value of fio's option `rw` for this job, such as `randread`; `None` for a replay.
    pub fn rw(&self) -> Option<&'static str> {
        let names = match self.pattern {
            AddressPattern::Sequential => ["read", "write", "rw"],
            AddressPattern::Random => ["randread", "randwrite", "randrw"],
        };
        let place = match self.read_percent {
            100.0 => 0,
            0.0 => 1,
            _ => 2,
        };
        self.trace.is_none().then_some(names[place])
    }
}
