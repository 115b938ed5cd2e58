//! Counts completed requests, and makes the outcome of a run of them.

use crate::drive::Drive;
use crate::engine::power::PowerModel;
use crate::engine::requests::{Kept, KeptRequests};
use crate::ledger::{CpuUse, DirectionOutcome, Energy, JobOutcome, Latency, MeasuredState, Outcome, PartUse, WireUse};
use crate::request::Op;
use crate::request::Request;
use crate::time::{Span, Time};
use crate::workload::{Job, OpenQuery};

/// Measurements of one job.
#[derive(Clone, Debug, Default)]
struct JobRecord {
    outcome: JobOutcome,
    /// Requests count that are wanted from here on; never as long as the drive warms up.
    ramp_end: Time,
    /// End of the ramp that the job asks for.
    ramp_until: Time,
    last: Time,
    /// True if the job flushes, which ends commits.
    has_commits: bool,
    /// True if requests are those of a trace. Others discard zones alone, before they write them anew.
    is_replay: bool,
    /// Number of requests of a query; zero if the job makes none.
    query_ios: u32,
    /// True if commits are those of clients, whose records go to a log together.
    has_groups: bool,
}

/// Results of a run so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    jobs: Vec<JobRecord>,
    /// Job of each thread.
    threads: Vec<usize>,
    completed: u64,
    last: Time,
    /// For each thread whose job flushes, the time at which the first write since its last commit was wanted.
    commits_begin: Vec<Option<Time>>,
    /// For each thread whose job makes queries, the present one.
    queries: Vec<OpenQuery>,
    /// Single requests, if they are to be kept.
    kept: Option<Box<KeptRequests>>,
}

/// Measurements of the parts of a machine.
#[derive(Clone, Debug)]
pub(super) struct PartOutcomes {
    /// Start of the time that the measurements are about, and its end.
    pub begin: Time,
    pub now: Time,
    pub upstream: WireUse,
    pub downstream: WireUse,
    pub cpu: CpuUse,
    pub parts: Vec<PartUse>,
    pub awake_share: f64,
    /// Energy of the memory in joules, if it is known.
    pub memory_j: Option<f64>,
    pub counters: Vec<(&'static str, u64)>,
    pub events: u64,
    pub finished: bool,
}

impl PartOutcomes {
    /// Measurements since an earlier time. Counters of the protocol and of the memory count from the start all the same.
    pub(super) fn since(self, earlier: &PartOutcomes) -> PartOutcomes {
        PartOutcomes {
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
    /// Begins to count the requests of a job, which starts at `start` and runs beside all others of its group. Returns the job's
    /// number.
    pub(super) fn add_job(&mut self, job: &Job, group: u32, start: Time, warms_up: bool) -> usize {
        let (name, iodepth, threads) = (job.name.clone(), job.iodepth, job.threads);
        let outcome = JobOutcome { name, iodepth, threads, group, options: job.options(), ..JobOutcome::default() };
        let (has_commits, ramp_until) = (job.has_flushes(), start + job.ramp_time);
        let ramp_end = if warms_up { Time::NEVER } else { ramp_until };
        let query_ios = job.query_ios();
        // Clients have their commits themselves.
        let has_groups = job.group_commit > 0;
        let has_commits = has_commits && !has_groups;
        let (last, is_replay) = (Time::ZERO, job.trace.is_some());
        let record = JobRecord { outcome, ramp_end, last, has_commits, is_replay, query_ios, has_groups, ramp_until };
        self.jobs.push(record);
        self.jobs.len() - 1
    }

    /// Begins to count injected requests, and returns the number of their job.
    pub(super) fn add_client(&mut self, iodepth: u32) -> usize {
        let name = format!("client{}", self.jobs.len());
        self.jobs.push(JobRecord {
            outcome: JobOutcome { name, iodepth, threads: 1, ..JobOutcome::default() },
            ..JobRecord::default()
        });
        self.jobs.len() - 1
    }

    /// Notes that `thread` works for job number `job`.
    pub(super) fn add_thread(&mut self, thread: u16, job: usize) {
        assert!(usize::from(thread) >= self.threads.len(), "threads are numbered in order");
        // Numbers in between are those of kernel threads, which complete nothing.
        self.threads.resize(usize::from(thread), usize::MAX);
        self.threads.push(job);
    }

    /// Keeps the first `limit` requests that are counted.
    pub(super) fn keep_requests(&mut self, limit: usize) {
        self.kept = Some(Box::new(KeptRequests::new(limit)));
    }

    /// Takes the requests that were kept, if any were to be, and ends the keeping.
    pub(super) fn take_requests(&mut self) -> Option<KeptRequests> {
        self.kept.take().map(|kept| *kept)
    }

    /// Ends the warm-up of all jobs: requests count that are wanted from `now` on, but none in the ramp of their job.
    pub(super) fn begin_to_count(&mut self, now: Time) {
        for job in self.jobs.iter_mut().filter(|job| job.ramp_end == Time::NEVER) {
            job.ramp_end = job.ramp_until.max(now);
        }
    }

    /// Number of requests completed so far, those in the ramp included.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// Number of requests counted so far, without those in the ramp.
    pub(super) fn counted(&self) -> u64 {
        self.jobs.iter().map(|job| job.outcome.read.ios + job.outcome.write.ios).sum()
    }

    /// Latencies of all requests counted so far.
    pub(super) fn latency(&self) -> Latency {
        let mut latency = Latency::default();
        for (_, direction) in self.jobs.iter().flat_map(|job| job.outcome.directions()) {
            latency.merge(&direction.total);
        }
        latency
    }

    /// Instant of the last completion.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// Records a completed request.
    pub(super) fn record(&mut self, now: Time, request: &Request) {
        self.completed += 1;
        self.last = now;
        let number = self.threads[usize::from(request.thread)];
        let job = &mut self.jobs[number];
        job.last = now;
        if job.query_ios > 0 {
            self.note_query(now, request, number);
        }
        let job = &mut self.jobs[number];
        if request.ledger.start() < job.ramp_end {
            request.ledger.close(now);
            return;
        }
        if let Some(kept) = self.kept.as_mut().filter(|_| request.io.op != Op::Flush) {
            kept.keep(Kept {
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
        direction.total.record(now.since(request.ledger.start()));
        request.ledger.close_into(now, &mut direction.stages);
        if job.has_commits {
            self.note_commit(now, request, number);
        }
    }

    /// Notes the part of a request in the commits of its thread.
    #[cold]
    fn note_commit(&mut self, now: Time, request: &Request, job: usize) {
        let thread = usize::from(request.thread);
        self.commits_begin.resize(self.threads.len(), None);
        let begin = &mut self.commits_begin[thread];
        if request.io.op == Op::Write {
            *begin = Some(begin.unwrap_or(Time::NEVER).min(request.ledger.start()));
        }
        if let Some(begin) = begin.take_if(|_| request.ends_commit) {
            self.jobs[job].outcome.commit.record(now.since(begin));
        }
    }

    /// True if commits of a thread are those of clients.
    #[cold]
    pub(super) fn has_groups(&self, thread: u16) -> bool {
        self.jobs[self.threads[usize::from(thread)]].has_groups
    }

    /// Records the commit of a client that handed in its record at `handed_in`.
    pub(super) fn record_client(&mut self, now: Time, thread: u16, handed_in: Time) {
        let job = &mut self.jobs[self.threads[usize::from(thread)]];
        if handed_in >= job.ramp_end {
            job.outcome.commit.record(now.since(handed_in));
        }
    }

    /// Notes the part of a read in the query of its thread, which ends with the last of its reads. One that began in the ramp does not
    /// count.
    #[cold]
    fn note_query(&mut self, now: Time, request: &Request, job: usize) {
        let (thread, job) = (usize::from(request.thread), &mut self.jobs[job]);
        self.queries.resize(self.threads.len(), OpenQuery::NEW);
        let begin = self.queries[thread].complete(request.ledger.start(), job.query_ios);
        if let Some(begin) = begin.filter(|begin| *begin >= job.ramp_end) {
            job.outcome.query.record(now.since(begin));
        }
    }

    /// Records a failed request, which counts nowhere else.
    #[cold]
    pub(super) fn record_failed(&mut self, now: Time, request: &Request, error: u32) {
        self.completed += 1;
        self.last = now;
        request.ledger.close(now);
        let number = self.threads[usize::from(request.thread)];
        let job = &mut self.jobs[number];
        job.last = now;
        if job.query_ios > 0 {
            // Its query goes on, as a search does with the answers that it has.
            self.note_query(now, request, number);
        }
        let job = &mut self.jobs[number];
        if request.ledger.start() >= job.ramp_end {
            job.outcome.failed += 1;
            job.outcome.failed_flushes += u64::from(request.io.op == Op::Flush);
            job.outcome.failed_resets += u64::from(request.io.op == Op::Discard && !job.is_replay);
            job.outcome.first_error.get_or_insert(error);
        }
    }

    /// Outcome of the run so far.
    pub(super) fn outcome(&self, drive: &Drive, seed: u64, measured: MeasuredState, parts: PartOutcomes) -> Outcome {
        let elapsed = parts.now.since(parts.begin);
        Outcome {
            drive: drive.title(),
            seed,
            elapsed,
            jobs: self.jobs.iter().map(JobRecord::outcome).collect(),
            upstream: parts.upstream,
            downstream: parts.downstream,
            cpu: parts.cpu,
            energy: energy(drive, &parts, elapsed),
            parts: parts.parts,
            memory_j: parts.memory_j,
            stack_stages: drive.stage_names(),
            counters: parts.counters,
            events: parts.events,
            measured,
            trouble: Vec::new(),
            finished: parts.finished,
        }
    }
}

impl JobRecord {
    fn outcome(&self) -> JobOutcome {
        let runtime = self.last.since(self.ramp_end);
        let over = |direction: &DirectionOutcome| DirectionOutcome { runtime, ..direction.clone() };
        let JobOutcome { read, write, flush, discard, zeroes, .. } = &self.outcome;
        let (read, write, flush) = (over(read), over(write), over(flush));
        let (discard, zeroes) = (over(discard), over(zeroes));
        JobOutcome { read, write, flush, discard, zeroes, ..self.outcome.clone() }
    }
}

fn energy(drive: &Drive, parts: &PartOutcomes, elapsed: Span) -> Option<Energy> {
    let model = PowerModel::from(drive);
    let busy_cores = if elapsed.is_zero() { 0.0 } else { parts.cpu.busy().as_s() / elapsed.as_s() };
    (drive.power.idle_w > 0.0).then(|| Energy {
        server_w: model.server_w(busy_cores, drive.host.core_ghz, parts.awake_share),
        idle_w: drive.power.idle_w,
    })
}
