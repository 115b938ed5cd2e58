//! Section of a job file as written, before the drive on which the job runs is known.

use super::check::{JobPlace, Limits};
use super::defaults::ENDLESS_BYTES;
use super::trace::{NamedJobTrace, Trace, TraceSelection};
use super::values::ByteAmount;
use super::{
    AddressPattern, Batch, BlockShare, Distribution, EngineChoice, Flushes, Job, PlacementChoice, RateProcess,
};
use crate::number::real;
use crate::problem::Problem;
use crate::time::Span;
use std::collections::BTreeMap;

/// Section of a job file as written. Options that need no drive are set in `job`; sizes, offsets and the trace wait
/// until the drive is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobDraft {
    pub job: Job,
    pub place: JobPlace,
    pub reads: bool,
    pub writes: bool,
    pub mix_read_percent: u64,
    /// Block sizes of reads and of writes in bytes (`bs`). Sizes with shares in `block_splits` (`bssplit`) take
    /// precedence.
    pub block_bytes: [u32; 2],
    pub block_splits: [Option<Vec<BlockShare>>; 2],
    pub offset: ByteAmount,
    /// Size of the region; `None` and zero mean up to the end of the drive.
    pub size: Option<ByteAmount>,
    pub io_size: Option<ByteAmount>,
    pub read_iolog: Option<String>,
    /// Device and format that are to be read from the trace, as far as the job names them.
    pub selection: TraceSelection,
    /// Name of the I/O engine, if it is one that waits for each request.
    pub synchronous_engine: Option<String>,
    pub filename: Option<String>,
    /// True if writes name placement identifiers; `handles` then holds the chosen ones.
    pub places_data: bool,
    pub handles: PlacementChoice,
    /// Names of the options with a value that the section itself gives, without those of `[global]`, in their order. An
    /// option with several names has its first name here.
    pub given: Vec<&'static str>,
}

/// Options that choose the requests of a job. They have no effect on a replay, whose trace holds its requests.
const CHOOSING_REQUESTS: [&str; 11] = [
    "rw",
    "bs",
    "bssplit",
    "rwmixread",
    "rwmixwrite",
    "random_distribution",
    "rate_iops",
    "rate_process",
    "query_rounds",
    "group_commit",
    "object_size",
];

/// Block size in bytes of a job that gives none (fio's default of `bs`).
pub(super) const BLOCK_BYTES_DEFAULT: u32 = 4096;

impl Job {
    /// Makes a job with one thread that reads 4 KiB blocks at random over the whole drive, at queue depth 1. The job
    /// has no end: set `runtime`, `ios` or `io_bytes`.
    pub fn named(name: impl Into<String>) -> Job {
        let blocks = vec![BlockShare { bytes: BLOCK_BYTES_DEFAULT, percent: 100.0 }];
        Job {
            name: name.into(),
            pattern: AddressPattern::Random,
            read_percent: 100.0,
            read_blocks: blocks.clone(),
            write_blocks: blocks,
            iodepth: 1,
            threads: 1,
            offset: 0,
            size: None,
            io_bytes: None,
            ios: None,
            runtime: None,
            time_based: false,
            ramp_time: Span::ZERO,
            steady: None,
            start_delay: Span::ZERO,
            waits_for_previous: false,
            thinktime: Span::ZERO,
            thinktime_blocks: 1,
            query_rounds: 0,
            group_commit: 0,
            rate_iops_read: None,
            rate_iops_write: None,
            rate_process: RateProcess::Linear,
            distribution: Distribution::Uniform,
            engine_choice: EngineChoice::default(),
            batch: Batch::default(),
            flushes: Flushes::default(),
            trace: None,
            replay_percent: 100,
            replay_no_stall: false,
            zone_append: true,
            object_bytes: 0,
            object_trim: false,
            placement: None,
        }
    }
}

impl JobDraft {
    /// Makes a section with fio's defaults: sequential reads of 4 KiB.
    pub(super) fn new(name: &str, place: JobPlace) -> JobDraft {
        JobDraft {
            job: Job { pattern: AddressPattern::Sequential, ..Job::named(name) },
            place,
            reads: true,
            writes: false,
            mix_read_percent: 50,
            block_bytes: [BLOCK_BYTES_DEFAULT; 2],
            block_splits: [None, None],
            offset: ByteAmount::Bytes(0),
            size: None,
            io_size: None,
            read_iolog: None,
            selection: TraceSelection::default(),
            synchronous_engine: None,
            filename: None,
            places_data: false,
            handles: PlacementChoice::default(),
            given: Vec::new(),
        }
    }

    /// Returns the problem of a section with a queue depth above 1 and an I/O engine that waits for each request.
    pub(super) fn contradictory_engine_problem(&self) -> Option<Problem> {
        let engine = self.synchronous_engine.as_ref().filter(|_| self.job.iodepth > 1)?;
        let found = format!("iodepth={} with ioengine={engine}, which waits for each request", self.job.iodepth);
        Some(self.place.problem("iodepth", found, "iodepth=1, or an engine such as io_uring or libaio"))
    }

    /// Returns a problem for each option of this section that would have no effect. Options of `[global]` are not
    /// checked: they are defaults for several jobs, some of which may use them.
    pub(super) fn unused(&self) -> Vec<Problem> {
        let replays = self.read_iolog.is_some();
        let is_mixed = self.reads && self.writes;
        let problem = |option: &&'static str| {
            if replays && CHOOSING_REQUESTS.contains(option) {
                let found = format!("{option} with a trace, which says itself what is read and written, and when");
                return Some(self.place.problem(option, found, "a replay without it, or a job without a trace"));
            }
            let (found, allowed) = match *option {
                "rwmixread" | "rwmixwrite" if !is_mixed => {
                    let found = format!("{option} in a job that only {}", if self.reads { "reads" } else { "writes" });
                    (found, "rw=randrw or rw=rw, or a job without it")
                }
                "random_distribution" if self.job.pattern == AddressPattern::Sequential => {
                    let found = format!("{option} in a job whose requests are sequential");
                    (found, "rw=randread, randwrite or randrw, or a job without it")
                }
                "plids" | "plid_select" if !self.places_data => {
                    let found = format!("{option} in a job whose writes name no placement identifier");
                    (found, "fdp=1 or dataplacement=fdp beside it, or a job without it")
                }
                "number_ios" if self.has_no_end() => {
                    let found = String::from("number_ios=0, with which nothing ends the job");
                    (found, "1 or more, or a runtime, size or io_size without it")
                }
                _ => return None,
            };
            Some(self.place.problem(option, found, allowed))
        };
        self.given.iter().filter_map(problem).collect()
    }

    /// True if neither a number of requests, nor a time, nor a number of bytes ends the job.
    fn has_no_end(&self) -> bool {
        let is_unlimited = self.io_size == Some(ByteAmount::Bytes(ENDLESS_BYTES));
        is_unlimited && self.job.ios.is_none() && self.job.runtime.is_none()
    }

    pub(super) fn resolve(&self, limits: &Limits, traces: &BTreeMap<NamedJobTrace, Trace>) -> Result<Job, Problem> {
        let mut job = self.job.clone();
        job.read_percent = match (self.reads, self.writes) {
            (true, true) => real(self.mix_read_percent),
            (reads, _) => f64::from(u8::from(reads)) * 100.0,
        };
        [job.read_blocks, job.write_blocks] = [0, 1].map(|direction| self.blocks(direction));
        job.placement = self.places_data.then(|| self.handles.clone());
        self.resolve_region_bytes(&mut job, limits)?;
        if job.query_rounds > 0 && !self.given.contains(&"thinktime_blocks") {
            // A query pauses once after each round of `iodepth` reads.
            job.thinktime_blocks = job.iodepth;
        }
        if !job.thinktime.is_zero() && job.group_commit == 0 {
            // fio documentation, `thinktime_blocks`: "this setting effectively caps the queue depth".
            job.iodepth = job.iodepth.min(job.thinktime_blocks.max(1));
        }
        if let Some(wanted) = self.wanted_trace() {
            let trace = traces.get(&wanted).ok_or_else(|| {
                self.place.problem(
                    "read_iolog",
                    format!("the trace `{}` was not given", wanted.path),
                    "a trace that can be read",
                )
            })?;
            job.trace = Some(trace.requests.clone());
            // A replay runs to the end of its trace unless `io_size` limits it.
            job.io_bytes = job.io_bytes.filter(|_| self.io_size.is_some());
        }
        Ok(job)
    }

    /// Returns path, device and format of the trace that the job replays; none if it replays no trace.
    pub(super) fn wanted_trace(&self) -> Option<NamedJobTrace> {
        let path = self.read_iolog.clone()?;
        Some(NamedJobTrace { path, selection: self.selection.clone() })
    }

    fn blocks(&self, direction: usize) -> Vec<BlockShare> {
        let single = || vec![BlockShare { bytes: self.block_bytes[direction], percent: 100.0 }];
        self.block_splits[direction].clone().unwrap_or_else(single)
    }

    /// Sets offset, size and number of bytes of a job on a drive of this capacity. Percentages of the drive are rounded
    /// to the smallest block, offsets up and sizes down (fio documentation, `offset`, `size` and `io_size`). A
    /// percentage of `io_size` is of the region. A region given in per cent ends with the drive; one in bytes must fit
    /// it, which [`Job::problems`] checks. Without a size, the region ends with the part of the drive that is in use.
    fn resolve_region_bytes(&self, job: &mut Job, limits: &Limits) -> Result<(), Problem> {
        let (capacity_bytes, block) = (limits.capacity_bytes, self.smallest_block(job));
        let zones = |option, amount| self.amount_in_bytes(option, amount, limits);
        let offset = zones("offset", self.offset)?;
        let size = self.size.map(|size| zones("size", size)).transpose()?;
        let io_size = self.io_size.map(|size| zones("io_size", size)).transpose()?;
        job.offset = match offset {
            ByteAmount::Bytes(bytes) | ByteAmount::Zones(bytes) => bytes,
            ByteAmount::Percent(percent) => percent_of(capacity_bytes, percent).next_multiple_of(block),
        };
        let rest = capacity_bytes.saturating_sub(job.offset);
        let used = limits.used_bytes.saturating_sub(job.offset);
        job.size = match size {
            None | Some(ByteAmount::Bytes(0)) => Some(used).filter(|used| *used > 0 && *used < rest),
            Some(ByteAmount::Bytes(bytes) | ByteAmount::Zones(bytes)) => Some(bytes),
            Some(ByteAmount::Percent(percent)) => {
                let bytes = percent_of(capacity_bytes, percent);
                Some((bytes - bytes % block).min(rest))
            }
        };
        let region_bytes = job.region_bytes(capacity_bytes);
        job.io_bytes = Some(match io_size {
            None | Some(ByteAmount::Bytes(0)) => region_bytes,
            Some(ByteAmount::Bytes(bytes) | ByteAmount::Zones(bytes)) => bytes,
            Some(ByteAmount::Percent(percent)) => percent_of(region_bytes, percent),
        });
        Ok(())
    }

    /// Returns an amount with zones converted to bytes.
    fn amount_in_bytes(&self, option: &str, amount: ByteAmount, limits: &Limits) -> Result<ByteAmount, Problem> {
        let ByteAmount::Zones(count) = amount else { return Ok(amount) };
        let bytes = limits.zones.and_then(|zones| count.checked_mul(zones.zone_bytes));
        bytes.map(ByteAmount::Bytes).ok_or_else(|| {
            let found = format!("{option}={count}z on a drive with no or fewer zones");
            self.place.problem(option, found, "bytes or a percentage, or a drive with zones")
        })
    }

    fn smallest_block(&self, job: &Job) -> u64 {
        let reads = job.read_blocks.iter().filter(|_| self.reads);
        let writes = job.write_blocks.iter().filter(|_| self.writes);
        reads.chain(writes).map(|share| u64::from(share.bytes)).min().unwrap_or(1).max(1)
    }
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
