//! Workloads: jobs in fio's terms, and block traces.
//!
//! A [`Job`] is a section of a fio job file after its options are resolved. A [`Generator`] turns it into the requests
//! of one thread: the engine asks for the next request whenever the thread has a free slot, and gets the request and
//! its earliest time.
//!
//! [`fio`] reads job files and flags, by one table of [`options`], into a [`JobFile`], which resolves into jobs once
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
    EngineSupport, FilledKeys, JobPlace, KeyedSpace, Limits, ZonedSpace, engine_without_effect, problems_together,
};
pub use defaults::{has_end, in_words, with_defaults};
pub use flushes::Flushes;
pub use generator::Generator;
pub use job_file::JobFile;
pub use query::{OpenQuery, Rounds};
pub use trace::{Trace, TraceIo};
pub use written::UnresolvedJobs;

use crate::time::Span;
use serde::Serialize;

/// A number of bytes with a suffix, as job files have it: `4k` is 4096.
pub fn bytes(text: &str) -> Option<u64> {
    values::whole(text)
}

/// Order of addresses (fio `rw`: `read`/`write`/`rw` are sequential, the `rand` forms random).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Pattern {
    /// Each request begins where the one before has ended.
    Sequential,
    /// Requests begin at random blocks, by the job's [`Distribution`].
    Random,
}

/// Distribution of random addresses over blocks (fio `random_distribution`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Distribution {
    /// Every block is equally likely.
    Uniform,
    /// Zipf with exponent theta.
    Zipf(f64),
    /// Pareto with the power h.
    Pareto(f64),
    /// Normal around the middle of the region, with a deviation in per cent of its size.
    Normal(f64),
}

/// Spacing of the requests of a job with a rate (fio `rate_process`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RateProcess {
    /// Equal distances between requests.
    Linear,
    /// Exponentially distributed distances between requests.
    Poisson,
}

/// A block size and its share of the requests in per cent (fio `bssplit`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlockShare {
    /// Block size in bytes.
    pub bytes: u32,
    /// Share of the requests of one direction, in per cent.
    pub percent: f64,
}

/// A fio job section, resolved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Name of the section, under which results show the job.
    pub name: String,
    /// Order of addresses.
    pub pattern: Pattern,
    /// Share of reads in per cent: 100 for `read`, 0 for `write`, `rwmixread` for `rw`.
    pub read_percent: f64,
    /// Block sizes of reads, whose shares add up to 100 per cent.
    pub read_blocks: Vec<BlockShare>,
    /// Block sizes of writes, whose shares add up to 100 per cent.
    pub write_blocks: Vec<BlockShare>,
    /// Requests that each thread keeps outstanding.
    pub iodepth: u32,
    /// Threads that run this job (fio `numjobs`).
    pub threads: u32,
    /// First byte of the region that the job accesses (fio `offset`).
    pub offset: u64,
    /// Length of the region in bytes (fio `size`); none if it ends with the device.
    pub size: Option<u64>,
    /// Number of bytes after which a thread ends (fio `io_size`, else `size`). The first of the job's ends counts:
    /// bytes, requests or time, each from the end of the ramp, as in fio.
    pub io_bytes: Option<u64>,
    /// Number of requests after which a thread ends (fio `number_ios`).
    pub ios: Option<u64>,
    /// Time after which a thread ends (fio `runtime`).
    pub runtime: Option<Span>,
    /// True if a thread ends only with `runtime`, however much it has accessed (fio `time_based`).
    pub time_based: bool,
    /// Requests in the first part of the job are not counted.
    pub ramp_time: Span,
    /// True if requests are counted only once the drive's write buffer has been turned over; `None` if the job does not say.
    pub steady: Option<bool>,
    /// Time from the start of the run to the start of the job (fio `startdelay`).
    pub start_delay: Span,
    /// True if the job starts only when all jobs above it are done (fio `stonewall`).
    pub waits: bool,
    /// Pause of a thread after every `thinktime_blocks` requests (fio `thinktime`).
    pub thinktime: Span,
    /// Number of requests between two pauses (fio `thinktime_blocks`).
    pub thinktime_blocks: u32,
    /// Number of rounds of a query: `iodepth` reads that are issued only once all of the round before have completed. Zero if reads do not
    /// follow from one another.
    #[serde(skip_serializing_if = "is_zero")]
    pub query_rounds: u32,
    /// Number of clients whose records each thread writes together and flushes once for all. Zero if the job is no such log.
    #[serde(skip_serializing_if = "is_zero")]
    pub group_commit: u32,
    /// Reads per second and thread (fio `rate_iops`); none if they are not limited.
    pub rate_iops_read: Option<f64>,
    /// Writes per second and thread (fio `rate_iops`); none if they are not limited.
    pub rate_iops_write: Option<f64>,
    /// Spacing of the requests if the job has a rate.
    pub rate_process: RateProcess,
    /// Distribution of random addresses.
    pub distribution: Distribution,
    /// I/O engine through which the job's requests go.
    pub way: EngineChoice,
    /// Batch sizes of submission and completion.
    pub batch: Batch,
    /// Times at which written data is flushed.
    pub flushes: Flushes,
    /// Replay these requests at their own times instead of generating any (fio `read_iolog`).
    pub trace: Option<trace::TraceRequests>,
    /// Rate of a replay in per cent of the recorded one (fio `replay_time_scale`).
    pub replay_percent: u32,
    /// Replay as fast as requests come back, whatever the recorded times (fio `replay_no_stall`).
    pub replay_no_stall: bool,
    /// Placement identifiers that the job's writes name (fio `fdp`); none if they name no identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<HandleChoice>,
}

/// Placement identifiers among which the writes of a job choose, by their places in the drive's list (fio `fdp_pli`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HandleChoice {
    /// Places in the list; empty if the job uses all identifiers.
    pub places: Vec<u16>,
    /// True if each write draws one, instead of taking them in turn (fio `fdp_pli_select=random`).
    pub is_random: bool,
}

/// True for zero, which is not part of a job's serialised form.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Groups of jobs that run at the same time, in the order in which the groups run.
pub fn side_by_side(jobs: &[Job]) -> impl DoubleEndedIterator<Item = &[Job]> {
    jobs.chunk_by(|_, next| !next.waits)
}

impl Job {
    /// Sizes of the job's requests in bytes, each at least once.
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

    /// Has the job measured in the steady state on a drive that has one, unless the job says otherwise.
    pub fn measure_steadily(&mut self, limits: &Limits) {
        if limits.has_steady_state || limits.has_credits {
            self.steady = self.steady.or(Some(true));
        }
    }

    /// True if the job is measured in the steady state.
    pub fn is_steady(&self) -> bool {
        self.steady == Some(true)
    }

    /// True if the job writes, or replays writes.
    pub fn has_writes(&self) -> bool {
        self.trace.as_ref().map_or(self.read_percent < 100.0, |trace| trace.summary().has_writes())
    }

    /// True if the job writes all over its region, in no order, or replays writes.
    pub fn writes_at_random(&self) -> bool {
        self.has_writes() && (self.trace.is_some() || self.pattern == Pattern::Random)
    }

    /// True if a steady state can be reached before requests are counted. A replay has no requests to spare for that.
    pub fn warms_up(&self) -> bool {
        self.is_steady() && self.trace.is_none() && self.has_writes()
    }

    /// Number of requests of one query; zero if the job makes no queries.
    pub fn query_ios(&self) -> u32 {
        self.query_rounds.saturating_mul(self.iodepth)
    }

    /// True if the job flushes its writes, as its options or its trace say.
    pub fn has_flushes(&self) -> bool {
        let recorded = self.trace.as_ref().is_some_and(|trace| trace.summary().flushes > 0);
        recorded || self.flushes.named().next().is_some()
    }

    /// fio's `rw` of this job; `None` for a replay.
    pub fn rw(&self) -> Option<&'static str> {
        let names = match self.pattern {
            Pattern::Sequential => ["read", "write", "rw"],
            Pattern::Random => ["randread", "randwrite", "randrw"],
        };
        let place = match self.read_percent {
            100.0 => 0,
            0.0 => 1,
            _ => 2,
        };
        self.trace.is_none().then_some(names[place])
    }
}
