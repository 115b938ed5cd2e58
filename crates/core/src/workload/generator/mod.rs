//! Requests of one thread of a job.
//!
//! A [`RequestGenerator`] gives the engine requests that are aligned and inside the region. Their order and times follow from
//! job, thread and seed alone: every thread has its own stream of random numbers, so that neither another job nor the
//! drive's speed changes its requests. (With a rate for reads or writes or both, the drive's speed decides which of the
//! two is late, and so their interleaving.) No call allocates, unless a trace is read from its files.

mod group_commit;
mod handles;
mod objects;
mod zones;

use super::addresses::BlockNumberSource;
use super::check::ZoneJobLimits;
use super::flushes::ThreadFlushState;
use super::pace::RateDueTimes;
use super::trace::{self, TimedTraceRequest};
use super::{AddressPattern, BlockShare, Flushes, Job};
use crate::number::{low_u16, whole};
use crate::request::{DataDirection, Io, NamedWritePlace, NextRequest, Op};
use crate::time::{Span, Time};
use group_commit::GroupCommitLog;
use handles::PlacementTurns;
use objects::ObjectReplacementTurns;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use zones::{JoinedWritableParts, ThreadZoneTurns};

/// Generator of the requests of one thread, one at a time.
#[derive(Clone, Debug)]
pub struct RequestGenerator {
    /// Start of the thread, from which all times of the job are counted.
    starts_at: Time,
    source: RequestOrigin,
    pause: ThinkPause,
    budget: RemainingWork,
    flushing: ThreadFlushState,
    /// Placement identifiers that the thread's writes name in turn or at random; none if they name none.
    handles: Option<Box<PlacementTurns>>,
}

/// Origin of a thread's requests: a random mix, a database log with group commit, or a replayed trace.
#[derive(Clone, Debug)]
enum RequestOrigin {
    Mix(Box<Mix>),
    Log(Box<GroupCommitLog>),
    Replay(Replay),
}

impl RequestGenerator {
    /// Makes the generator of thread `thread` (from 0) of `job` on a drive of `capacity_bytes`.
    ///
    /// Panics if [`Job::problems`] finds that the job cannot run on such a drive.
    pub fn new(job: &Job, thread: u32, capacity_bytes: u64, seed: u64) -> RequestGenerator {
        let source = match &job.trace {
            Some(requests) => RequestOrigin::Replay(Replay::new(job, requests)),
            None if job.group_commit > 0 => {
                RequestOrigin::Log(Box::new(GroupCommitLog::new(job, thread, capacity_bytes, seed)))
            }
            None => RequestOrigin::Mix(Box::new(Mix::new(job, thread, capacity_bytes, seed))),
        };
        let (pause, budget) = (ThinkPause::new(job), RemainingWork::new(job));
        let handles = None;
        RequestGenerator {
            starts_at: Time::ZERO,
            source,
            pause,
            budget,
            flushing: ThreadFlushState::default(),
            handles,
        }
    }

    /// Returns the generator of a thread that starts at `starts_at` instead of time zero.
    pub fn starting_at(self, starts_at: Time) -> RequestGenerator {
        RequestGenerator { starts_at, ..self }
    }

    /// Returns the generator with these flushes. If `are_needed` is false, because acknowledged writes are durable, no
    /// flush is issued; instead, the request before each spared flush ends a commit.
    pub fn flushing(mut self, flushes: Flushes, are_needed: bool) -> RequestGenerator {
        self.flushing = ThreadFlushState::new(flushes, are_needed);
        if let RequestOrigin::Replay(replay) = &mut self.source {
            replay.spares_flushes = !are_needed;
        }
        self
    }

    /// Returns the generator over several equal drives. Reads go to them in turn from drive `first` (modulo their
    /// number), and so do writes, counted apart. A sequential job repeats each offset on every drive, so that each
    /// drive sees a sequence of its own, as fio's jobs on several files do. A replay stays on drive `first`, because
    /// its trace is one drive's.
    pub fn over(mut self, drives: u16, first: u32) -> RequestGenerator {
        let turns = DriveTurns::over(drives, first);
        match &mut self.source {
            RequestOrigin::Mix(mix) => {
                let directions = [&mut mix.read, &mut mix.write].into_iter().flatten();
                directions.for_each(|direction| direction.turns = turns);
            }
            RequestOrigin::Replay(replay) => replay.drive = turns.first,
            // A log uses a single drive, because a flash could not name another one.
            RequestOrigin::Log(_) => {}
        }
        self
    }

    /// Returns the generator of a thread whose writes fill zones of the job's region one after the other, each after a
    /// reset, whatever the order of addresses. The thread is number `thread` of `threads` that share the zones.
    ///
    /// Panics if there are fewer zones than threads.
    pub fn for_zone_filling(mut self, space: ZoneJobLimits, thread: u32, threads: u32) -> RequestGenerator {
        if let RequestOrigin::Mix(mix) = &mut self.source
            && let Some(write) = &mut mix.write
        {
            let turns = ThreadZoneTurns::new(space, write.region_bytes, thread, threads);
            write.zones = Some(Box::new(WholePartUse::Fill(turns)));
        }
        self
    }

    /// Returns the generator of a thread whose reads go to the writable part of each zone alone, as fio's do: the blocks
    /// behind it never hold data.
    pub fn for_zone_reading(mut self, job: &Job, space: ZoneJobLimits, seed: u64) -> RequestGenerator {
        if let RequestOrigin::Mix(mix) = &mut self.source
            && let Some(read) = &mut mix.read
        {
            let region = JoinedWritableParts::new(space, job.offset, read.region_bytes);
            if region.bytes() >= read.sizes.iter().map(|size| u64::from(size.bytes)).max().unwrap_or(0) {
                read.limit_to_writable(region, job, seed);
            }
        }
        self
    }

    /// Returns the generator of a thread whose writes name the placement identifiers that the job chooses, on a drive
    /// that has `identifiers` of them.
    pub fn placing(mut self, job: &Job, thread: u32, identifiers: u16, seed: u64) -> RequestGenerator {
        self.handles = job.placement.as_ref().map(|choice| {
            let random =
                Xoshiro256PlusPlus::seed_from_u64(random_stream_seed(seed, &format!("{} placement", job.name), thread));
            Box::new(PlacementTurns::new(choice, identifiers, random))
        });
        self
    }

    /// Returns the next request of the thread, which has had a free slot since `now`; `None` if the thread is done.
    /// Without a rate the request is due now, or after the think time; with a rate, at the time that the rate gives.
    /// `now` must not decrease from call to call, nor be before the thread's start.
    pub fn next(&mut self, now: Time) -> Option<NextRequest> {
        if self.budget.is_spent() {
            return None;
        }
        if self.flushing.take_due() {
            return Some(flush(now));
        }
        let now = Time::ZERO + now.since(self.starts_at);
        let wanted = match &mut self.source {
            RequestOrigin::Mix(mix) => mix.next(now),
            RequestOrigin::Replay(replay) => replay.next(now),
            RequestOrigin::Log(log) => log.next(now),
        };
        let NextRequest { io, due, drive, ends_commit, target } = wanted?;
        // Flushes, and resets of zones that the job writes, do not count as requests of the job.
        let is_reset = io.op == Op::Discard && matches!(self.source, RequestOrigin::Mix(_));
        let is_beside = io.op == Op::Flush || is_reset;
        let thinks_itself = is_beside || matches!(self.source, RequestOrigin::Log(_));
        let due = if thinks_itself { due } else { self.pause.issue_time_after_pause(due, now) };
        let due_at = self.starts_at + due.since(Time::ZERO);
        let is_in_time = is_beside || self.budget.spend(io.bytes, due.max(now));
        let is_last = self.budget.is_spent();
        let ends_commit = is_in_time && (self.flushing.on_request(io.op, is_last) || ends_commit);
        let target = match &mut self.handles {
            Some(handles) if io.op == Op::Write => NamedWritePlace::Handle(handles.take()),
            _ => target,
        };
        is_in_time.then_some(NextRequest { io, due: due_at, drive, ends_commit, target })
    }

    /// Returns the generator of a job whose requests count only once [`begin_to_count`](Self::begin_to_count) is
    /// called.
    pub fn with_warm_up(mut self) -> RequestGenerator {
        (self.budget.counts_from, self.budget.ends_at) = (Time::NEVER, Time::NEVER);
        self
    }

    /// Takes the oldest committed group of log records (`group_commit`), which is now durable. Calls `record` for each
    /// with the time at which its client handed it in.
    #[cold]
    pub fn take_group(&mut self, mut record: impl FnMut(Time)) {
        let starts_at = self.starts_at;
        if let RequestOrigin::Log(log) = &mut self.source {
            log.take_group(|handed_in| record(starts_at + handed_in.since(Time::ZERO)));
        }
    }

    /// Returns the time at which the last request of this generator is issued that was within the budget.
    pub fn issued_until(&self) -> Time {
        self.starts_at + self.budget.issued_until.since(Time::ZERO)
    }

    /// Ends the warm-up at `now`: requests issued from then on count, but not before the end of the ramp.
    pub fn begin_to_count(&mut self, now: Time) {
        if self.budget.counts_from == Time::NEVER {
            self.budget.begin_counting(Time::ZERO + now.since(self.starts_at));
        }
    }

    /// Returns the flush that a finished thread issues once all its requests have completed, if the job ends with one
    /// that the drive needs.
    pub fn end(&mut self, now: Time) -> Option<NextRequest> {
        self.flushing.take_final_flush().then(|| flush(now))
    }
}

fn flush(now: Time) -> NextRequest {
    NextRequest { io: Io::flush(), due: now, drive: 0, ends_commit: true, target: NamedWritePlace::Any }
}

/// Generator of the reads and writes of a job that is neither a replay nor a log with group commit.
#[derive(Clone, Debug)]
struct Mix {
    random: Xoshiro256PlusPlus,
    first_byte: u64,
    /// Probability of a read, times 2^64; used if the job both reads and writes.
    read_threshold: u64,
    read: Option<JobDirectionState>,
    write: Option<JobDirectionState>,
    /// Place that writes name, and resets of their zones with them.
    write_target: NamedWritePlace,
}

impl Mix {
    fn new(job: &Job, thread: u32, capacity_bytes: u64, seed: u64) -> Mix {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(random_stream_seed(seed, &job.name, thread));
        let mut direction = |blocks: &[BlockShare], rate_iops: Option<f64>| {
            let pace = rate_iops.map(|rate| RateDueTimes::new(rate, job.rate_process, &mut random));
            JobDirectionState::new(job, blocks, pace, capacity_bytes, seed)
        };
        let read = (job.read_percent > 0.0).then(|| direction(&job.read_blocks, job.rate_iops_read));
        let mut write = (job.read_percent < 100.0).then(|| direction(&job.write_blocks, job.rate_iops_write));
        if let Some(write) = write.as_mut().filter(|_| job.object_bytes > 0) {
            write.write_whole_objects(job, thread, seed);
        }
        let read_threshold = threshold(job.read_percent);
        let write_target = if job.zone_append { NamedWritePlace::Any } else { NamedWritePlace::WritePointer };
        Mix { random, first_byte: job.offset, read_threshold, read, write, write_target }
    }

    fn next(&mut self, now: Time) -> Option<NextRequest> {
        let chosen = self.choose_direction(now)?;
        let direction = match chosen {
            DataDirection::Read => self.read.as_mut(),
            DataDirection::Write => self.write.as_mut(),
        }?;
        let due = direction.take_due(now, &mut self.random);
        let (offset, bytes, drive) = direction.draw(&mut self.random);
        let (op, offset, bytes) = match direction.zones.as_deref_mut() {
            None => (chosen.into(), offset, bytes),
            Some(WholePartUse::Fill(zones)) => zones.take(bytes),
            Some(WholePartUse::Read(region)) => (chosen.into(), region.offset(offset, bytes), bytes),
            Some(WholePartUse::Replace(objects)) => objects.take(offset / u64::from(bytes), bytes),
        };
        let io = Io { op, offset: self.first_byte + offset, bytes };
        let target = if chosen == DataDirection::Write { self.write_target } else { NamedWritePlace::Any };
        Some(NextRequest { io, due, drive, ends_commit: false, target })
    }

    /// Chooses a read or a write at random by their shares. If the chosen one is ahead of its rate and the other is due
    /// earlier, the other takes its place, as in fio (see `rwmixread`).
    fn choose_direction(&mut self, now: Time) -> Option<DataDirection> {
        match (&self.read, &self.write) {
            (Some(read), Some(write)) => Some(self.choose_of_both(now, read.due(now), write.due(now))),
            (Some(_), None) => Some(DataDirection::Read),
            (None, Some(_)) => Some(DataDirection::Write),
            (None, None) => None,
        }
    }

    #[inline(never)]
    fn choose_of_both(&mut self, now: Time, read: Time, write: Time) -> DataDirection {
        let drawn =
            if self.random.next_u64() < self.read_threshold { DataDirection::Read } else { DataDirection::Write };
        match drawn {
            DataDirection::Read if read > now && write < read => DataDirection::Write,
            DataDirection::Write if write > now && read < write => DataDirection::Read,
            drawn => drawn,
        }
    }
}

/// State of the reads, or of the writes, of a job: sizes, position and rate.
#[derive(Clone, Debug)]
struct JobDirectionState {
    sizes: Vec<Size>,
    pattern: AddressPattern,
    region_bytes: u64,
    /// Offset of the next sequential request in bytes, from the start of the region.
    position: u64,
    turns: DriveTurns,
    pace: Option<RateDueTimes>,
    /// Use of zones, on a drive that has zones, or of objects that writes replace.
    zones: Option<Box<WholePartUse>>,
}

/// Parts of the region that the reads, or the writes, of a thread use as a whole: zones or objects.
#[derive(Clone, Debug)]
enum WholePartUse {
    /// Writes fill zones of the thread one after the other.
    Fill(ThreadZoneTurns),
    /// Reads go to the writable part of each zone.
    Read(JoinedWritableParts),
    /// Writes replace whole objects of a drive without zones.
    Replace(ObjectReplacementTurns),
}

/// Round-robin choice among several drives for the reads, or the writes, of a thread.
#[derive(Clone, Copy, Debug)]
struct DriveTurns {
    drives: u16,
    first: u16,
    next: u16,
}

/// One block size of a job's reads, or of its writes.
#[derive(Clone, Debug)]
struct Size {
    bytes: u32,
    /// Probability of this size or of one before it in the list, times 2^64.
    threshold: u64,
    addresses: BlockNumberSource,
}

impl JobDirectionState {
    fn new(
        job: &Job,
        blocks: &[BlockShare],
        pace: Option<RateDueTimes>,
        capacity_bytes: u64,
        seed: u64,
    ) -> JobDirectionState {
        let region_bytes = job.region_bytes(capacity_bytes);
        let mut percent = 0.0;
        let sizes: Vec<Size> = blocks
            .iter()
            .filter(|share| share.percent > 0.0)
            .map(|share| {
                percent += share.percent;
                Size::new(*share, percent, addresses(job, region_bytes, share.bytes, seed))
            })
            .collect();
        assert!(!sizes.is_empty(), "job {} has no block size", job.name);
        let turns = DriveTurns::over(1, 0);
        JobDirectionState { sizes, pattern: job.pattern, region_bytes, position: 0, turns, pace, zones: None }
    }

    /// Limits the requests to the writable parts of zones, on which their order and distribution are those of the job.
    fn limit_to_writable(&mut self, region: JoinedWritableParts, job: &Job, seed: u64) {
        self.region_bytes = region.bytes();
        for size in &mut self.sizes {
            size.addresses = addresses(job, self.region_bytes, size.bytes, seed);
        }
        self.zones = Some(Box::new(WholePartUse::Read(region)));
    }

    /// Makes the writes of a thread replace whole objects. A random job draws each object by its distribution.
    fn write_whole_objects(&mut self, job: &Job, thread: u32, seed: u64) {
        let objects = ObjectReplacementTurns::new(job, self.region_bytes, thread);
        for size in &mut self.sizes {
            size.addresses = BlockNumberSource::new(job.distribution, objects.count(), random_stream_seed(seed, "", 0));
        }
        self.zones = Some(Box::new(WholePartUse::Replace(objects)));
    }

    /// Returns the time at which the next request is due, by its rate; `now` if there is no rate.
    fn due(&self, now: Time) -> Time {
        self.pace.as_ref().map_or(now, RateDueTimes::due)
    }

    fn take_due(&mut self, now: Time, random: &mut Xoshiro256PlusPlus) -> Time {
        let due = self.due(now);
        if let Some(pace) = &mut self.pace {
            pace.advance(random);
        }
        due
    }

    /// Returns offset in the region and length of the next request, both in bytes, and the index of its drive.
    fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> (u64, u32, u16) {
        let size = pick_block_size(&self.sizes, random);
        let length = u64::from(size.bytes);
        let offset = match self.pattern {
            AddressPattern::Random => size.addresses.draw(random) * length,
            // If the block would reach beyond the end of the region, it starts the next pass.
            AddressPattern::Sequential if self.region_bytes - self.position < length => 0,
            AddressPattern::Sequential => self.position,
        };
        let drive = self.turns.take();
        if self.turns.is_round_complete() {
            self.position = offset + length;
        }
        (offset, size.bytes, drive)
    }
}

impl DriveTurns {
    fn over(drives: u16, first: u32) -> DriveTurns {
        let first = low_u16(first % u32::from(drives));
        DriveTurns { drives, first, next: first }
    }

    /// Returns the index of the drive whose turn it is, and moves on to the next one.
    fn take(&mut self) -> u16 {
        let drive = self.next;
        self.next = if drive + 1 == self.drives { 0 } else { drive + 1 };
        drive
    }

    /// True if every drive has had equally many turns.
    fn is_round_complete(self) -> bool {
        self.next == self.first
    }
}

impl Size {
    fn new(share: BlockShare, percent: f64, addresses: BlockNumberSource) -> Size {
        Size { bytes: share.bytes, threshold: threshold(percent), addresses }
    }
}

/// Returns the addresses of blocks of `bytes` bytes in a region, distributed as the job says. All threads and directions
/// use the same key, so that they share their hot blocks, as fio jobs on one file do.
fn addresses(job: &Job, region_bytes: u64, bytes: u32, seed: u64) -> BlockNumberSource {
    BlockNumberSource::new(job.distribution, region_bytes / u64::from(bytes), random_stream_seed(seed, "", 0))
}

/// Chooses a block size at random by the shares of the sizes; the last one takes what rounding leaves.
fn pick_block_size<'a>(sizes: &'a [Size], random: &mut Xoshiro256PlusPlus) -> &'a Size {
    let (last, others) = sizes.split_last().expect("a direction has a size");
    if others.is_empty() { last } else { pick_of_several_sizes(last, others, random) }
}

#[inline(never)]
fn pick_of_several_sizes<'a>(last: &'a Size, others: &'a [Size], random: &mut Xoshiro256PlusPlus) -> &'a Size {
    let draw = random.next_u64();
    others.iter().find(|size| draw < size.threshold).unwrap_or(last)
}

/// Converts a probability in per cent into one times 2^64, for comparison with a random number of 64 bits.
fn threshold(percent: f64) -> u64 {
    whole(percent / 100.0 * (1u128 << 64) as f64)
}

/// Returns the seed of one stream of random numbers: the FNV-1a hash (Fowler, Noll and Vo) of the run's seed, a name
/// and a thread.
fn random_stream_seed(seed: u64, name: &str, thread: u32) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let start = seed.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, hash);
    thread.to_le_bytes().iter().fold(name.as_bytes().iter().fold(start, hash), hash)
}

/// Generator of the requests of a trace at their recorded times, or at a multiple of their rate. They are replayed as
/// fast as slots become free if the job says so, or if the trace has no times: all arrive at zero in a fio iolog of
/// version 2 without waits.
#[derive(Clone, Debug)]
struct Replay {
    requests: trace::TraceRequestIter,
    has_times: bool,
    /// Rate of the replay in per cent of the recorded rate.
    percent: u32,
    /// Index of the drive to which the replay goes, if there are several.
    drive: u16,
    /// True if the drive needs no flushes, so that the flushes of the trace are not issued.
    spares_flushes: bool,
    /// Next request of the trace, if it has been read before its turn, to see whether it is a flush.
    ahead: Option<TimedTraceRequest>,
}

impl Replay {
    fn new(job: &Job, requests: &trace::TraceRequests) -> Replay {
        let has_times = requests.summary().ends_at > Time::ZERO && !job.replay_no_stall;
        let (requests, percent) = (requests.iter(), job.replay_percent);
        Replay { requests, has_times, percent, drive: 0, spares_flushes: false, ahead: None }
    }

    // Not inlined: most jobs replay no trace.
    #[inline(never)]
    fn next(&mut self, now: Time) -> Option<NextRequest> {
        let TimedTraceRequest { at, io } = self.ahead.take().or_else(|| self.requests.next())?;
        let due = if self.has_times { scaled_arrival(at, self.percent) } else { now };
        let ends_commit = if self.spares_flushes { self.skip_unneeded_flushes() } else { io.op == Op::Flush };
        Some(NextRequest { io, due, drive: self.drive, ends_commit, target: NamedWritePlace::Any })
    }

    /// Skips the flushes that come next in the trace, and reads one request ahead to find their end. Returns true if a
    /// flush was skipped.
    fn skip_unneeded_flushes(&mut self) -> bool {
        self.ahead = self.requests.next();
        let is_flushed = self.is_flush_ahead();
        while self.is_flush_ahead() {
            self.ahead = self.requests.next();
        }
        is_flushed
    }

    fn is_flush_ahead(&self) -> bool {
        self.ahead.is_some_and(|ahead| ahead.io.op == Op::Flush)
    }
}

/// Returns the arrival time of a recorded request at `percent` per cent of the recorded rate, rounded down to a
/// picosecond.
fn scaled_arrival(at: Time, percent: u32) -> Time {
    match percent {
        100 => at,
        _ => Time::from_ps((u128::from(at.as_ps()) * 100 / u128::from(percent)) as u64),
    }
}

/// Think time of a thread: a pause of `length` after `every` requests.
#[derive(Clone, Debug)]
struct ThinkPause {
    length: Span,
    every: u32,
    /// Number of requests until the next pause.
    left: u32,
    over_at: Time,
}

impl ThinkPause {
    fn new(job: &Job) -> ThinkPause {
        ThinkPause {
            length: job.thinktime,
            every: job.thinktime_blocks,
            left: job.thinktime_blocks,
            over_at: Time::ZERO,
        }
    }

    /// Returns the time at which a request that is due at `due` may be issued. A pause starts at `now`, when its
    /// request is generated: with one request outstanding, when the previous one has completed.
    fn issue_time_after_pause(&mut self, due: Time, now: Time) -> Time {
        if self.length.is_zero() {
            return due;
        }
        if self.left == 0 {
            self.left = self.every;
            self.over_at = self.over_at.max(now) + self.length;
        }
        self.left -= 1;
        due.max(self.over_at)
    }
}

/// Remaining requests, bytes and time of a thread.
#[derive(Clone, Debug)]
struct RemainingWork {
    ios: u64,
    bytes: u64,
    /// Time from which issued requests count against the budget; as in fio, not before the end of the ramp.
    counts_from: Time,
    /// Issue time of the last request that was within the budget.
    issued_until: Time,
    /// Time from which no more requests are issued.
    ends_at: Time,
    /// Time from the start to the first request that counts (fio `ramp_time`). `runtime` is the time from there to the
    /// end of the thread, if a time ends it.
    ramp: Span,
    runtime: Option<Span>,
}

impl RemainingWork {
    fn new(job: &Job) -> RemainingWork {
        let unlimited = |limit: Option<u64>| {
            if job.time_based { u64::MAX } else { limit.unwrap_or(u64::MAX) }
        };
        let (ios, bytes) = (unlimited(job.ios), unlimited(job.io_bytes));
        let (ramp, runtime) = (job.ramp_time, job.runtime);
        let mut budget = RemainingWork {
            ios,
            bytes,
            counts_from: Time::ZERO,
            issued_until: Time::ZERO,
            ends_at: Time::NEVER,
            ramp,
            runtime,
        };
        budget.begin_counting(Time::ZERO);
        budget
    }

    /// Starts to count requests at `now`, or at the end of the ramp if that is later, and sets the end of the thread.
    fn begin_counting(&mut self, now: Time) {
        self.counts_from = now.max(Time::ZERO + self.ramp);
        self.ends_at = self.runtime.map_or(Time::NEVER, |runtime| self.counts_from + runtime);
    }

    fn is_spent(&self) -> bool {
        self.ios == 0 || self.bytes == 0
    }

    /// Takes a request of `bytes` bytes out of the budget if it starts when requests count. Returns false if it starts
    /// at `issue`, after the end of the thread; the budget is then spent for good.
    fn spend(&mut self, bytes: u32, issue: Time) -> bool {
        if issue >= self.ends_at {
            self.ios = 0;
            return false;
        }
        self.issued_until = issue;
        if issue >= self.counts_from {
            self.ios -= 1;
            self.bytes = self.bytes.saturating_sub(u64::from(bytes));
        }
        true
    }
}

#[cfg(test)]
mod tests;
