//! Counting of the completed requests of a run, and the outcome made from the counts.

use crate::drive::Drive;
use crate::engine::power::ServerPowerModel;
use crate::engine::requests::{KeptRequestRecord, KeptRequestRecords};
use crate::ledger::{
    CpuUse, DirectionOutcome, Energy, JobOutcome, Latency, MeasuredState, Outcome, PartBusyTime, WireUse,
};
use crate::request::Op;
use crate::request::Request;
use crate::time::{Span, Time};
use crate::workload::{Job, OpenQuery};

/// Counts and latencies of one job so far.
#[derive(Clone, Debug, Default)]
struct JobMeasurements {
    outcome: JobOutcome,
    /// Instant from which on requests that become due are counted; `Time::NEVER` during the warm-up.
    ramp_end: Time,
    /// End of the ramp time that the job asks for.
    ramp_until: Time,
    last: Time,
    /// True if each flush of the job ends a commit of its thread, whose latency is recorded.
    has_commits: bool,
    /// True if the job replays a trace. Other jobs discard only to reset zones, before they write these again.
    is_replay: bool,
    /// Number of reads of one query; zero if the job makes no queries.
    query_ios: u32,
    /// True if the job's commits are those of clients, whose records are written and flushed together (group commit).
    has_groups: bool,
}

/// Counts and latencies of a run so far, by job.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    jobs: Vec<JobMeasurements>,
    /// Index of each thread's job, by thread number; `usize::MAX` for kernel threads.
    threads: Vec<usize>,
    completed: u64,
    last: Time,
    /// Earliest due time of the writes since the last commit, by thread; `None` for a thread without such writes.
    commits_begin: Vec<Option<Time>>,
    /// Query in progress, for each thread whose job makes queries.
    queries: Vec<OpenQuery>,
    /// Single requests of the run; `None` unless they are to be kept.
    kept: Option<Box<KeptRequestRecords>>,
}

/// Measurements of the machine's links, cores, memory, power and counters.
#[derive(Clone, Debug)]
pub(super) struct PartMeasurements {
    /// Start of the time that the measurements are about; `now` is its end.
    pub begin: Time,
    pub now: Time,
    pub upstream: WireUse,
    pub downstream: WireUse,
    pub cpu: CpuUse,
    pub parts: Vec<PartBusyTime>,
    pub awake_share: f64,
    /// Energy of the devices' memories in joules; `None` if it is not known.
    pub memory_j: Option<f64>,
    pub counters: Vec<(&'static str, u64)>,
    pub events: u64,
    pub finished: bool,
}

impl PartMeasurements {
    /// Returns the measurements since an earlier time of the run. Counters of the protocol and of the memory still
    /// count from the start.
    pub(super) fn since(self, earlier: &PartMeasurements) -> PartMeasurements {
        PartMeasurements {
            begin: earlier.now,
            upstream: self.upstream.since(&earlier.upstream),
            downstream: self.downstream.since(&earlier.downstream),
            cpu: self.cpu.since(&earlier.cpu),
            parts: self.parts.iter().zip(&earlier.parts).map(|(part, before)| part.since(before)).collect(),
            memory_j: self.memory_j.zip(earlier.memory_j).map(|(all, before)| all - before),
            ..self
        }
    }
}

impl Recorder {
    /// Adds a job of group number `group`, which starts at `start`, and begins to count its requests. Returns the job's
    /// index.
    pub(super) fn add_job(&mut self, job: &Job, group: u32, start: Time, warms_up: bool) -> usize {
        let (name, iodepth, threads) = (job.name.clone(), job.iodepth, job.threads);
        let outcome = JobOutcome { name, iodepth, threads, group, options: job.options(), ..JobOutcome::default() };
        let (has_commits, ramp_until) = (job.includes_flushes(), start + job.ramp_time);
        let ramp_end = if warms_up { Time::NEVER } else { ramp_until };
        let query_ios = job.query_ios();
        // With group commit, commits are recorded for each client and not for each flush.
        let has_groups = job.group_commit > 0;
        let has_commits = has_commits && !has_groups;
        let (last, is_replay) = (Time::ZERO, job.trace.is_some());
        let record =
            JobMeasurements { outcome, ramp_end, last, has_commits, is_replay, query_ios, has_groups, ramp_until };
        self.jobs.push(record);
        self.jobs.len() - 1
    }

    /// Adds a job for the injected requests of a client, and returns its index.
    pub(super) fn add_client(&mut self, iodepth: u32) -> usize {
        let name = format!("client{}", self.jobs.len());
        self.jobs.push(JobMeasurements {
            outcome: JobOutcome { name, iodepth, threads: 1, ..JobOutcome::default() },
            ..JobMeasurements::default()
        });
        self.jobs.len() - 1
    }

    /// Assigns `thread` to the job of this index, whose results its requests count in.
    pub(super) fn add_thread(&mut self, thread: u16, job: usize) {
        assert!(usize::from(thread) >= self.threads.len(), "threads are numbered in order");
        // The thread numbers that are skipped belong to kernel threads, which complete no requests.
        self.threads.resize(usize::from(thread), usize::MAX);
        self.threads.push(job);
    }

    /// Keeps the first `limit` requests that are counted, each with its stages.
    pub(super) fn keep_requests(&mut self, limit: usize) {
        self.kept = Some(Box::new(KeptRequestRecords::new(limit)));
    }

    /// Returns the single requests that the run has kept, and keeps no more; `None` if none were to be kept.
    pub(super) fn take_requests(&mut self) -> Option<KeptRequestRecords> {
        self.kept.take().map(|kept| *kept)
    }

    /// Ends the warm-up of all jobs: requests that are due from `now` on are counted, except those in the ramp of their
    /// job.
    pub(super) fn begin_to_count(&mut self, now: Time) {
        for job in self.jobs.iter_mut().filter(|job| job.ramp_end == Time::NEVER) {
            job.ramp_end = job.ramp_until.max(now);
        }
    }

    /// Returns the number of requests completed so far, including failed ones and those in the ramp.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// Returns the number of reads and writes counted so far, without those in the ramp.
    pub(super) fn counted_requests(&self) -> u64 {
        self.jobs.iter().map(|job| job.outcome.read.ios + job.outcome.write.ios).sum()
    }

    /// Returns the latencies of all reads and writes counted so far.
    pub(super) fn latency(&self) -> Latency {
        let mut latency = Latency::default();
        for (_, direction) in self.jobs.iter().flat_map(|job| job.outcome.directions()) {
            latency.merge(&direction.total);
        }
        latency
    }

    /// Returns the instant of the last completion.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// Notes the end of a request, and updates the query that it belongs to. Returns the number of its job.
    #[inline(always)]
    fn note_request_end(&mut self, now: Time, request: &Request) -> usize {
        self.completed += 1;
        self.last = now;
        let number = self.threads[usize::from(request.thread)];
        let job = &mut self.jobs[number];
        job.last = now;
        if job.query_ios > 0 {
            // The query continues without the data of a failed read, like a search that returns partial results.
            self.update_query(now, request, number);
        }
        number
    }

    /// Records a completed request. Its latencies, bytes and stages count only if it was due after the ramp of its job.
    pub(super) fn record(&mut self, now: Time, request: &Request) {
        let number = self.note_request_end(now, request);
        let job = &mut self.jobs[number];
        if request.ledger.start() < job.ramp_end {
            request.ledger.close(now);
            return;
        }
        if let Some(kept) = self.kept.as_mut().filter(|_| request.io.op != Op::Flush) {
            kept.keep(KeptRequestRecord {
                number: request.number,
                job: number,
                io: request.io,
                wanted: request.ledger.start(),
                done: now,
                stages: request.ledger.close(now).clone(),
            });
        }
        let direction = match request.io.op {
            Op::Read => &mut job.outcome.read,
            Op::Write => &mut job.outcome.write,
            Op::Flush => &mut job.outcome.flush,
            Op::Discard => &mut job.outcome.discard,
            Op::WriteZeroes => &mut job.outcome.zeroes,
        };
        direction.ios += 1;
        direction.bytes += u64::from(request.io.bytes);
        direction.submission.record(request.submitted.since(request.issued));
        direction.completion.record(now.since(request.submitted));
        direction.total.record_at(now.since(request.ledger.start()), now);
        request.ledger.close_into_sum(now, &mut direction.stages);
        if job.has_commits {
            self.update_commit(now, request, number);
        }
    }

    /// Updates the commit of the request's thread: a write may begin it, and the request that ends it records its
    /// latency.
    #[cold]
    fn update_commit(&mut self, now: Time, request: &Request, job: usize) {
        let thread = usize::from(request.thread);
        self.commits_begin.resize(self.threads.len(), None);
        let begin = &mut self.commits_begin[thread];
        if request.io.op == Op::Write {
            *begin = Some(begin.unwrap_or(Time::NEVER).min(request.ledger.start()));
        }
        if let Some(begin) = begin.take_if(|_| request.ends_commit) {
            self.jobs[job].outcome.commit.record_at(now.since(begin), now);
        }
    }

    /// True if the commits of this thread's job are those of clients (group commit).
    #[cold]
    pub(super) fn has_groups(&self, thread: u16) -> bool {
        self.jobs[self.threads[usize::from(thread)]].has_groups
    }

    /// Records the commit of a client that handed in its record at `handed_in`, unless that was in the ramp.
    pub(super) fn record_client_commit(&mut self, now: Time, thread: u16, handed_in: Time) {
        let job = &mut self.jobs[self.threads[usize::from(thread)]];
        if handed_in >= job.ramp_end {
            job.outcome.commit.record_at(now.since(handed_in), now);
        }
    }

    /// Updates the query of the read's thread, which ends with the last of its reads. A query that began in the ramp
    /// does not count.
    #[cold]
    fn update_query(&mut self, now: Time, request: &Request, job: usize) {
        let (thread, job) = (usize::from(request.thread), &mut self.jobs[job]);
        self.queries.resize(self.threads.len(), OpenQuery::NEW);
        let begin = self.queries[thread].complete(request.ledger.start(), job.query_ios);
        if let Some(begin) = begin.filter(|begin| *begin >= job.ramp_end) {
            job.outcome.query.record_at(now.since(begin), now);
        }
    }

    /// Records a failed request: counts the failure and keeps the first error, but records no latency.
    #[cold]
    pub(super) fn record_failed_request(&mut self, now: Time, request: &Request, error: u32) {
        request.ledger.close(now);
        let number = self.note_request_end(now, request);
        let job = &mut self.jobs[number];
        if request.ledger.start() >= job.ramp_end {
            job.outcome.failed += 1;
            job.outcome.failed_flushes += u64::from(request.io.op == Op::Flush);
            job.outcome.failed_resets += u64::from(request.io.op == Op::Discard && !job.is_replay);
            job.outcome.first_error.get_or_insert(error);
        }
    }

    /// Returns the outcome of the run so far.
    pub(super) fn outcome(
        &self,
        drive: &Drive,
        seed: u64,
        measured: MeasuredState,
        parts: PartMeasurements,
    ) -> Outcome {
        let elapsed = parts.now.since(parts.begin);
        Outcome {
            drive: drive.title(),
            seed,
            elapsed,
            jobs: self.jobs.iter().map(JobMeasurements::outcome).collect(),
            upstream: parts.upstream,
            downstream: parts.downstream,
            cpu: parts.cpu,
            energy: energy(drive, &parts, elapsed),
            parts: parts.parts,
            memory_j: parts.memory_j,
            stack_stages: drive.software_stage_names(),
            counters: parts.counters,
            events: parts.events,
            measured,
            faults: Vec::new(),
            finished: parts.finished,
        }
    }
}

impl JobMeasurements {
    fn outcome(&self) -> JobOutcome {
        let runtime = self.last.since(self.ramp_end);
        let over = |direction: &DirectionOutcome| DirectionOutcome { runtime, ..direction.clone() };
        let JobOutcome { read, write, flush, discard, zeroes, .. } = &self.outcome;
        let (read, write, flush) = (over(read), over(write), over(flush));
        let (discard, zeroes) = (over(discard), over(zeroes));
        JobOutcome { read, write, flush, discard, zeroes, ..self.outcome.clone() }
    }
}

fn energy(drive: &Drive, parts: &PartMeasurements, elapsed: Span) -> Option<Energy> {
    let model = ServerPowerModel::from(drive);
    let busy_cores = if elapsed.is_zero() { 0.0 } else { parts.cpu.busy().as_s() / elapsed.as_s() };
    (drive.power.idle_w > 0.0).then(|| Energy {
        server_w: model.server_w(busy_cores, drive.host.core_ghz, parts.awake_share),
        idle_w: drive.power.idle_w,
    })
}
