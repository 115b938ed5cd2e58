//! Checks of jobs on a given drive, before anything runs.
//!
//! [`RequestGenerator`](super::generator::RequestGenerator) and the engine trust a job for which [`Job::problems`]
//! and, for all jobs of a run, [`combined_job_problems`] are empty.

use super::{AddressPattern, BlockShare, Distribution, Job, TimedTraceRequest, side_by_side};
use crate::config::FaultAction;
use crate::number::index;
use crate::problem::Problem;
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use std::collections::BTreeMap;

mod engines;
mod flushes;
mod keys;
mod objects;
mod placement;
mod zones;
pub use engines::{EngineSupport, ineffective_io_engine};
pub use keys::{FilledKeys, KeyValueSpace};
pub use zones::ZoneJobLimits;

/// Largest number of threads of one run, over all jobs.
pub const THREADS_MAX: u64 = 65536;

/// Largest number of bytes in one group commit, the log records of all clients of a thread together.
const GROUP_BYTES_MAX: u32 = 1 << 30;

/// Largest number of parts into which requests in flight in one run may be split. Each takes 470 bytes (measured), so
/// that all of them take half a gibibyte.
const PARTS_MAX: u64 = 1 << 20;

/// Largest number of threads of a job that replay one trace from its files at the same time.
const STREAMS_MAX: u32 = 16;

const PS_PER_DAY: u128 = 86_400_000_000_000_000;

/// Capacity, queues and abilities of a drive, against which jobs are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
    /// Number of bytes from the drive's start on that are in use, which jobs without a size access.
    pub used_bytes: u64,
    /// Number of queue pairs; thread i, counted over all jobs in their order, uses pair i modulo this number.
    pub queue_pairs: u32,
    /// Number of entries of each queue, one of which stays empty to distinguish a full queue from an empty one.
    pub queue_entries: u32,
    /// Logical block size in bytes; offsets and lengths are multiples of it.
    pub block_bytes: u32,
    /// Block size in bytes for writes, and for all requests of jobs that write.
    pub write_block_bytes: u32,
    /// Largest data of one command in bytes: a larger request is split into parts, each of which takes memory while it
    /// is in flight.
    pub transfer_bytes: u32,
    /// Keys of the drive file that add or lengthen queues, as text for error messages; empty if no key does.
    pub queue_keys: &'static str,
    /// I/O engines that the host's software supports; `None` if jobs cannot choose an engine.
    pub engine_support: Option<EngineSupport>,
    /// Number of equal drives among which each thread divides its requests, each drive with such queues.
    pub drives: u32,
    /// True if acknowledged writes may lie in a volatile buffer, which loses them when the power fails.
    pub is_volatile: bool,
    /// True if the drive has a write buffer or a translation layer, which reach a steady state only after many writes.
    pub has_steady_state: bool,
    /// True if the drive is a volume whose burst credits raise its performance for a limited time.
    pub has_credits: bool,
    /// First fault of the drive that needs a network, if the drive is behind none.
    pub fault_without_network: Option<FaultAction>,
    /// Zones of the drive, if it has zones, in which blocks must be written in order.
    pub zones: Option<ZoneJobLimits>,
    /// Keys and values of the drive, if it stores values by key instead of blocks.
    pub keys: Option<KeyValueSpace>,
    /// Number of placement identifiers that writes can name; 0 if the drive has no data placement.
    pub placement_identifiers: u16,
    /// For each operation of [`Op::ALL`], true if the drive has a command for it.
    pub supported: [bool; Op::ALL.len()],
}

impl Limits {
    /// Returns the limits of a drive with one queue that reads and writes blocks of this size; every other limit is as
    /// wide as possible.
    pub const fn new(capacity_bytes: u64, block_bytes: u32) -> Limits {
        Limits {
            capacity_bytes,
            used_bytes: capacity_bytes,
            queue_pairs: 1,
            queue_entries: u32::MAX,
            block_bytes,
            write_block_bytes: block_bytes,
            transfer_bytes: u32::MAX,
            queue_keys: "",
            engine_support: None,
            drives: 1,
            is_volatile: false,
            has_steady_state: false,
            has_credits: false,
            fault_without_network: None,
            zones: None,
            keys: None,
            placement_identifiers: 0,
            supported: [true, true, false, false, false],
        }
    }

    /// Returns the limits with a volatile buffer and a flush command if `has_flush` is true, else with neither of them.
    pub fn flushed(mut self, has_flush: bool) -> Limits {
        self.is_volatile = has_flush;
        self.supported[Op::Flush as usize] = has_flush;
        self
    }

    /// True if the drive has a command for requests of this operation.
    pub fn supports(&self, op: Op) -> bool {
        self.supported[op as usize]
    }

    /// Returns the number of requests that the queues of one thread can hold: one queue on each drive, of which one
    /// entry stays empty.
    pub fn queue_capacity(&self) -> u32 {
        self.queue_entries.saturating_sub(1).saturating_mul(self.drives)
    }

    /// Returns the text that explains the number of requests that the queues of a thread can hold.
    fn queue_capacity_reason(&self) -> String {
        let entries = self.queue_entries;
        match self.drives {
            1 => format!("a queue of {entries} entries keeps one empty"),
            drives => format!("a queue of {entries} entries on each of {drives} drives keeps one empty"),
        }
    }
}

/// Position of a job in a file, with the lines of its options, for error messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPlace {
    /// Name of the file, or of what stands for it, such as "command line".
    pub file: String,
    /// Number of the line at which the job's section starts, from 1; `None` if the job stands in no file.
    pub line: Option<usize>,
    options: BTreeMap<&'static str, usize>,
}

impl JobPlace {
    /// Makes the position of a job in `file` whose section starts at `line`, if it has one.
    pub fn new(file: impl Into<String>, line: impl Into<Option<usize>>) -> JobPlace {
        JobPlace { file: file.into(), line: line.into(), options: BTreeMap::new() }
    }

    /// Stores the number of the job file's line that sets `option`, for error messages; nothing if `line` is none.
    /// `option` is the option's first name in the table of options.
    pub fn note(&mut self, option: &'static str, line: Option<usize>) {
        if let Some(line) = line {
            self.options.insert(option, line);
        }
    }

    /// Returns a problem at the line of `option`, or of the section if the option is not given.
    pub fn problem(&self, option: &str, found: impl Into<String>, allowed: impl Into<String>) -> Problem {
        let line = self.options.get(option).copied().or(self.line);
        Problem::new(self.file.clone(), line, found, allowed)
    }
}

/// Finding of a check of a job: name of the option at fault, what was found, what is allowed.
type JobFinding = (&'static str, String, String);
type Check = fn(&Job, &Limits) -> Option<JobFinding>;

/// All checks of one job, in the order in which their problems are reported.
const CHECKS: [Check; 39] = [
    threads,
    iodepth,
    check_mix,
    region,
    check_granularity,
    check_write_granularity,
    read_blocks,
    write_blocks,
    distribution,
    check_read_rate,
    write_rate,
    thinktime,
    thinktime_blocks,
    query_rounds,
    group_commit,
    time,
    end,
    amounts,
    check_trace_is_not_empty,
    check_trace_within_capacity,
    check_trace_threads,
    replay,
    flushes::known,
    engines::engine,
    engines::switches,
    engines::poller,
    engines::check_completion_method,
    engines::batches,
    zones::replay,
    zones::restarts,
    zones::region,
    zones::read_blocks,
    zones::write_blocks,
    zones::write_pointer,
    objects::region,
    objects::check_objects_are_used,
    placement::identifiers,
    keys::trace,
    keys::values,
];

impl Job {
    /// Returns the length in bytes of the region that the job accesses on a drive of this capacity.
    pub fn region_bytes(&self, capacity_bytes: u64) -> u64 {
        self.size.unwrap_or(capacity_bytes.saturating_sub(self.offset))
    }

    /// Returns the largest number of commands into which the job's requests in flight can be split, because of the
    /// drive's largest transfer.
    fn command_parts_in_flight(&self, limits: &Limits) -> u64 {
        let largest = self.sizes().into_iter().max().unwrap_or(0);
        let parts = u64::from(largest.div_ceil(limits.transfer_bytes).max(1));
        parts.saturating_mul(u64::from(self.threads) * u64::from(self.iodepth))
    }

    /// Returns all problems that keep this job from running within `limits`; `place` gives the lines of its options.
    pub fn problems(&self, place: &JobPlace, limits: &Limits) -> Vec<Problem> {
        let findings = CHECKS.iter().filter_map(|check| check(self, limits));
        findings
            .map(|(option, found, allowed)| place.problem(option, format!("job `{}`: {found}", self.name), allowed))
            .collect()
    }
}

fn check_granularity(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let block_bytes = u64::from(limits.block_bytes);
    let sizes = job.read_blocks.iter().chain(&job.write_blocks).map(|share| u64::from(share.bytes));
    let odd = match &job.trace {
        None => sizes.chain([job.offset]).find(|amount| amount % block_bytes != 0),
        Some(trace) if trace.summary().granule_bytes % block_bytes == 0 => {
            Some(job.offset).filter(|offset| offset % block_bytes != 0)
        }
        Some(trace) => first_unaligned_trace_amount(trace.iter(), block_bytes),
    }?;
    let found = format!("{odd} bytes are no whole number of blocks");
    Some(("bs", found, format!("multiples of the drive's block of {block_bytes} bytes")))
}

/// Refuses jobs that write and whose sizes or offset are no multiples of the drive's write block. Sizes of reads count
/// too, because they would move the following writes off their blocks. In a trace only writes count.
fn check_write_granularity(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let block_bytes = u64::from(limits.write_block_bytes);
    if u64::from(limits.block_bytes) >= block_bytes {
        return None;
    }
    let shares = job.read_blocks.iter().chain(&job.write_blocks).map(|share| u64::from(share.bytes));
    let odd = match &job.trace {
        None => shares.chain([job.offset]).filter(|_| job.read_percent < 100.0).find(|it| it % block_bytes != 0),
        Some(trace) if trace.summary().write_granule_bytes % block_bytes == 0 => None,
        Some(trace) => first_unaligned_trace_amount(trace.iter().filter(|entry| entry.io.op == Op::Write), block_bytes),
    }?;
    let found = format!("it writes, and {odd} bytes are no whole number of blocks");
    Some(("bs", found, format!("multiples of {block_bytes} bytes in jobs that write")))
}

/// Returns the first offset or size in a trace, in bytes, that is no multiple of `block_bytes`.
fn first_unaligned_trace_amount(
    mut requests: impl Iterator<Item = TimedTraceRequest>,
    block_bytes: u64,
) -> Option<u64> {
    requests
        .find_map(|entry| [entry.io.offset, entry.io.bytes.into()].into_iter().find(|amount| amount % block_bytes != 0))
}

/// Returns the problems that keep these jobs from running together: too many threads, more requests in flight than
/// memory should hold, an overflowing queue, or engines, zones or keys that do not go together.
pub fn combined_job_problems(jobs: &[Job], place: &JobPlace, limits: &Limits) -> Vec<Problem> {
    let threads: u64 = jobs.iter().map(|job| u64::from(job.threads)).sum();
    if threads > THREADS_MAX {
        let found = format!("all jobs together have {threads} threads (numjobs)");
        return vec![place.problem("numjobs", found, format!("at most {THREADS_MAX}"))];
    }
    if let Some((option, found, allowed)) = engines::check_shared_queues(jobs, limits) {
        return vec![place.problem(option, found, allowed)];
    }
    if let Some((option, found, allowed)) = zones::check_written_zones(jobs, limits) {
        return vec![place.problem(option, found, allowed)];
    }
    if let Some((option, found, allowed)) = keys::check_value_sizes(jobs, limits) {
        return vec![place.problem(option, found, allowed)];
    }
    let crowded = side_by_side(jobs)
        .find_map(|jobs| check_parts_in_flight(jobs, limits).or_else(|| check_queue_overflow(jobs, limits)));
    crowded.map(|(option, found, allowed)| place.problem(option, found, allowed)).into_iter().collect()
}

/// Refuses jobs whose requests in flight at one time have more parts than memory should hold.
fn check_parts_in_flight(jobs: &[Job], limits: &Limits) -> Option<JobFinding> {
    let parts = jobs.iter().fold(0, |sum: u64, job| sum.saturating_add(job.command_parts_in_flight(limits)));
    let part_bytes = limits.transfer_bytes;
    let found = format!("all jobs together have up to {parts} parts of requests under way (bs, iodepth, numjobs)");
    let allowed = format!("at most {PARTS_MAX}, and this drive cuts requests into parts of {part_bytes} bytes");
    when(parts > PARTS_MAX, "bs", found, allowed)
}

/// Refuses jobs that run at the same time and would overflow a queue, because their threads' queue depths add up to
/// more than it can hold.
fn check_queue_overflow(jobs: &[Job], limits: &Limits) -> Option<JobFinding> {
    let slots = u64::from(limits.queue_capacity());
    let (queue, requests) = fullest_queue_of(jobs, limits.queue_pairs);
    let found = format!(
        "the threads that share queue {queue} keep {requests} requests outstanding (iodepth of each, added up)"
    );
    let more = match limits.queue_keys {
        "" => String::new(),
        keys => format!("; ask for fewer, or raise {keys}"),
    };
    let allowed = format!("at most {slots}: {}{more}", limits.queue_capacity_reason());
    when(requests > slots, "iodepth", found, allowed)
}

/// Returns index and number of outstanding requests of the fullest queue, which is the first of several equal ones.
/// Threads use the queue pairs in turn, and each keeps its queue depth outstanding.
fn fullest_queue_of(jobs: &[Job], queue_pairs: u32) -> (usize, u64) {
    let depths = jobs.iter().flat_map(|job| std::iter::repeat_n(u64::from(job.iodepth), index(job.threads)));
    let mut queues = vec![0u64; index(queue_pairs.max(1))];
    let count = queues.len();
    depths.enumerate().for_each(|(thread, depth)| queues[thread % count] += depth);
    queues.into_iter().enumerate().rev().max_by_key(|&(_, requests)| requests).unwrap_or_default()
}

/// Returns a finding about `option` if `wrong` is true.
fn when(wrong: bool, option: &'static str, found: String, allowed: impl Into<String>) -> Option<JobFinding> {
    wrong.then(|| (option, found, allowed.into()))
}

fn threads(job: &Job, _: &Limits) -> Option<JobFinding> {
    let wrong = job.threads == 0 || u64::from(job.threads) > THREADS_MAX;
    when(wrong, "numjobs", format!("numjobs is {}", job.threads), format!("1 to {THREADS_MAX}"))
}

fn iodepth(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let slots = limits.queue_capacity();
    let allowed = format!("1 to {slots}, since {}", limits.queue_capacity_reason());
    when(job.iodepth == 0 || job.iodepth > slots, "iodepth", format!("iodepth is {}", job.iodepth), allowed)
}

fn check_mix(job: &Job, _: &Limits) -> Option<JobFinding> {
    let wrong = !(0.0..=100.0).contains(&job.read_percent);
    when(wrong, "rwmixread", format!("{} % of the requests are reads", job.read_percent), "0 to 100 %")
}

fn region(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let capacity = limits.capacity_bytes;
    if job.trace.is_some() {
        return None;
    }
    if job.offset >= capacity {
        let allowed = format!("less than the drive's capacity of {capacity} bytes");
        return Some(("offset", format!("the region starts at byte {}", job.offset), allowed));
    }
    let size = job.size?;
    let found = format!("the region takes {size} bytes from byte {}", job.offset);
    let allowed = format!("1 to {} bytes, to the end of a drive of {capacity}", capacity - job.offset);
    when(size == 0 || size > capacity - job.offset, "size", found, allowed)
}

fn read_blocks(job: &Job, limits: &Limits) -> Option<JobFinding> {
    (job.read_percent > 0.0).then(|| blocks(job, &job.read_blocks, limits))?
}

fn write_blocks(job: &Job, limits: &Limits) -> Option<JobFinding> {
    (job.read_percent < 100.0).then(|| blocks(job, &job.write_blocks, limits))?
}

fn blocks(job: &Job, blocks: &[BlockShare], limits: &Limits) -> Option<JobFinding> {
    if job.trace.is_some() {
        return None;
    }
    let percent = blocks.iter().fold(0.0, |sum, share| sum + share.percent);
    let one_is_wrong = blocks.iter().any(|share| share.percent.is_nan() || share.percent < 0.0);
    if one_is_wrong || (percent - 100.0).abs() > 1e-6 || percent.is_nan() {
        let found = format!("the shares of the block sizes add up to {percent} %");
        return Some(("bssplit", found, String::from("shares from 0 % that add up to 100 %")));
    }
    let region_bytes = job.region_bytes(limits.capacity_bytes);
    let wrong = blocks.iter().find(|share| share.bytes == 0 || u64::from(share.bytes) > region_bytes)?;
    let allowed = format!("1 to {region_bytes} bytes, so that a block fits the region");
    Some(("bs", format!("a block has {} bytes", wrong.bytes), allowed))
}

fn distribution(job: &Job, _: &Limits) -> Option<JobFinding> {
    let (found, allowed, fine) = match job.distribution {
        Distribution::Uniform => return None,
        Distribution::Zipf(theta) => (format!("zipf:{theta}"), "zipf: above 0, to 100", theta > 0.0 && theta <= 100.0),
        Distribution::Pareto(h) => (format!("pareto:{h}"), "pareto: between 0 and 1", h > 0.0 && h < 1.0),
        Distribution::Normal(percent) => (
            format!("normal:{percent}"),
            "normal: 0 to 100 % of the region, 100 excluded",
            (0.0..100.0).contains(&percent),
        ),
    };
    let found = format!("random_distribution is {found}");
    when(!fine && job.pattern == AddressPattern::Random, "random_distribution", found, allowed)
}

fn check_read_rate(job: &Job, _: &Limits) -> Option<JobFinding> {
    rate("reads", job.rate_iops_read)
}

fn write_rate(job: &Job, _: &Limits) -> Option<JobFinding> {
    rate("writes", job.rate_iops_write)
}

fn rate(what: &str, rate_iops: Option<f64>) -> Option<JobFinding> {
    let rate_iops = rate_iops?;
    let fine = rate_iops > 0.0 && rate_iops <= 1e12;
    let allowed = "above 0, at most 10^12 a second; leave the rate out for as many as the drive can do";
    when(!fine, "rate_iops", format!("the rate of {what} is {rate_iops} a second"), allowed)
}

fn thinktime_blocks(job: &Job, _: &Limits) -> Option<JobFinding> {
    let wrong = job.thinktime_blocks == 0 && !job.thinktime.is_zero();
    when(wrong, "thinktime_blocks", String::from("thinktime_blocks is 0"), "1 or more")
}

/// Refuses queries that write, replay a trace, have a rate, or pause anywhere but between rounds.
fn query_rounds(job: &Job, _: &Limits) -> Option<JobFinding> {
    let rounds = job.query_rounds;
    let refused = |found: &str, allowed: &str| {
        Some(("query_rounds", format!("query_rounds={rounds} {found}"), String::from(allowed)))
    };
    match job {
        _ if rounds == 0 => None,
        Job { trace: Some(_), .. } => {
            refused("with a trace", "a job without a trace, whose reads follow from one another")
        }
        Job { read_percent, .. } if *read_percent < 100.0 => {
            refused("in a job that writes", "rw=randread or rw=read; writes go into a job beside it")
        }
        Job { rate_iops_read: Some(_), .. } => {
            refused("with rate_iops", "thinktime between rounds, or a job without it")
        }
        Job { iodepth, thinktime, thinktime_blocks, .. } if !thinktime.is_zero() && thinktime_blocks != iodepth => {
            let found = format!("with thinktime_blocks={thinktime_blocks} and rounds of iodepth={iodepth} reads");
            refused(&found, &format!("thinktime_blocks={iodepth}, or none: a query thinks between its rounds"))
        }
        _ => None,
    }
}

/// Refuses group commit in a job that is not a log: one that reads, writes at random or in several sizes, has a rate,
/// replays a trace, omits the flush after each write, or has more than one write in flight. Zones and groups of more
/// than 1 GiB are refused too.
fn group_commit(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let clients = job.group_commit;
    let refused = |found: &str, allowed: &str| {
        Some(("group_commit", format!("group_commit={clients} {found}"), String::from(allowed)))
    };
    let flushes = [job.flushes.fsync, job.flushes.fdatasync];
    let record = job.write_blocks.first().map_or(0, |share| u64::from(share.bytes));
    match job {
        _ if clients == 0 => None,
        Job { trace: Some(_), .. } => refused("with a trace", "a job without a trace, whose records are drawn"),
        Job { read_percent, .. } if *read_percent > 0.0 => {
            refused("in a job that reads", "rw=write; reads go into a job beside it")
        }
        Job { pattern: AddressPattern::Random, .. } => {
            refused("with rw=randwrite", "rw=write: a log is written in order")
        }
        Job { write_blocks, .. } if write_blocks.len() > 1 => {
            refused("with several sizes", "one bs, the size of a record")
        }
        Job { rate_iops_write: Some(_), .. } => {
            refused("with rate_iops", "thinktime of each client, or a job without it")
        }
        Job { iodepth, .. } if *iodepth > 1 => {
            refused(&format!("with iodepth={iodepth}"), "iodepth=1: records that come meanwhile go into the next write")
        }
        _ if !flushes.contains(&1) => refused("without a flush after each write", "fsync=1 or fdatasync=1"),
        _ if limits.zones.is_some() => refused("on a drive with zones", "a drive without zones"),
        _ if record.saturating_mul(clients.into()) > u64::from(GROUP_BYTES_MAX) => {
            let found = format!("with records of {record} bytes");
            refused(&found, &format!("at most {GROUP_BYTES_MAX} bytes of all clients together"))
        }
        _ => None,
    }
}

fn time(job: &Job, _: &Limits) -> Option<JobFinding> {
    let (runtime, ramp, delay) = (job.runtime.unwrap_or_default(), job.ramp_time, job.start_delay);
    let wrong = [runtime, ramp, delay].into_iter().any(|span| span > Span::MAX);
    let found = format!("startdelay, ramp_time and runtime are {delay}, {ramp} and {runtime}");
    when(wrong, "runtime", found, "26 days at most each")
}

fn thinktime(job: &Job, _: &Limits) -> Option<JobFinding> {
    when(job.thinktime > Span::MAX, "thinktime", format!("thinktime is {}", job.thinktime), "26 days at most")
}

fn end(job: &Job, _: &Limits) -> Option<JobFinding> {
    if job.time_based && job.trace.is_some() {
        let allowed = "one of the two: a replay ends with its trace";
        return Some(("time_based", String::from("time_based with read_iolog"), allowed.into()));
    }
    if job.time_based {
        let found = String::from("time_based without a runtime");
        return when(job.runtime.is_none(), "time_based", found, "time_based together with runtime");
    }
    let has_end = job.trace.is_some() || job.runtime.is_some() || job.ios.is_some() || job.io_bytes.is_some();
    when(!has_end, "runtime", String::from("the job would never end"), "a limit: runtime, number_ios or io_size")
}

fn amounts(job: &Job, _: &Limits) -> Option<JobFinding> {
    let zero = |limit| limit == Some(0);
    if zero(job.ios) {
        return Some(("number_ios", String::from("number_ios is 0"), String::from("1 or more")));
    }
    when(zero(job.io_bytes), "io_size", String::from("io_size is 0"), "1 byte or more")
}

fn check_trace_is_not_empty(job: &Job, _: &Limits) -> Option<JobFinding> {
    let empty = job.trace.as_ref()?.count() == 0;
    when(empty, "read_iolog", String::from("the trace holds no request"), "a trace with reads or writes")
}

/// Refuses a trace that reaches beyond the drive's capacity; clipping or wrapping it would change which requests access
/// the same blocks.
fn check_trace_within_capacity(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let (capacity, trace) = (limits.capacity_bytes, job.trace.as_ref()?);
    let needed = trace.summary().end_bytes;
    if needed <= capacity {
        return None;
    }
    let end = |io: &Io| io.offset.saturating_add(u64::from(io.bytes));
    let mut beyond = trace.iter().filter(|entry| end(&entry.io) > capacity);
    let first = beyond.next()?;
    let found = format!(
        "{} of {} requests of the trace reach beyond the drive, the first with {} bytes at byte {}",
        beyond.count() + 1,
        trace.count(),
        first.io.bytes,
        first.io.offset
    );
    let allowed = format!("offsets below its capacity of {capacity} bytes; the trace needs {needed}");
    Some(("read_iolog", found, allowed))
}

/// Refuses too many threads that replay a trace from its files, because each thread opens them, and takes memory to
/// unpack and sort them.
fn check_trace_threads(job: &Job, _: &Limits) -> Option<JobFinding> {
    let is_streamed = job.trace.as_ref()?.are_read_from_files();
    let found = format!("{} threads replay a trace that is too long for memory", job.threads);
    when(is_streamed && job.threads > STREAMS_MAX, "numjobs", found, format!("numjobs of at most {STREAMS_MAX}"))
}

fn replay(job: &Job, _: &Limits) -> Option<JobFinding> {
    let percent = job.replay_percent;
    let Some(trace) = &job.trace else {
        let given = if percent != 100 { Some("replay_time_scale") } else { None };
        let given = given.or(job.replay_no_stall.then_some("replay_no_stall"))?;
        return Some((given, format!("{given} without a trace"), String::from("read_iolog")));
    };
    if job.replay_no_stall && percent != 100 {
        let found = format!("replay_time_scale={percent} with replay_no_stall, which takes no notice of times");
        return Some(("replay_time_scale", found, String::from("one of the two")));
    }
    let end = u128::from(trace.summary().ends_at.as_ps()) * 100 / u128::from(percent.max(1));
    let found = format!("at {percent} % of its rate the trace takes {} days", end / PS_PER_DAY);
    when(end >= Time::NEVER.as_ps().into(), "replay_time_scale", found, "less than 106 days")
}

#[cfg(test)]
mod tests;
