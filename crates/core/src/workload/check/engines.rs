//! Checks of a job's I/O engine: the engine exists in the host's software, and its options have an effect.

use super::{JobFinding, Limits, when};
use crate::config::engine::{IoEngine, polls};
use crate::number::index;
use crate::workload::{Batch, Job};

/// I/O engines of the host's software, among which jobs choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSupport {
    /// I/O engine of jobs that name none.
    pub default: IoEngine,
    /// For each engine of [`IoEngine::ALL`], true if the host's software supports it.
    pub known: [bool; IoEngine::ALL.len()],
    /// True if the drive's completions can raise interrupts.
    pub has_interrupts: bool,
    /// Key of the drive file that turns interrupts on, if they are off because of it.
    pub interrupts_key: Option<&'static str>,
    /// Number of processors of the host.
    pub processors: u32,
    /// True if a file system is between application and device.
    pub has_files: bool,
}

const LEAVE_OUT: &str =
    "leave it out, or a stack whose engines differ, such as stack.preset = \"linux-6\" (docs/hosts.md)";

impl EngineSupport {
    /// Returns the I/O engine of a job, or `None` if the host's software does not support it.
    pub fn engine(&self, job: &Job) -> Option<IoEngine> {
        let Some(name) = &job.engine_choice.engine else { return Some(self.default) };
        IoEngine::of_fio(name).filter(|engine| self.known[*engine as usize])
    }

    fn names(&self) -> String {
        let known = IoEngine::ALL.iter().filter(|engine| self.known[**engine as usize]);
        known.map(|engine| engine.name()).collect::<Vec<_>>().join(", ")
    }

    fn polls(&self, job: &Job) -> bool {
        self.engine(job).is_some_and(|engine| polls(engine, job.engine_choice.switches))
    }
}

pub(super) fn engine(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let support = limits.engine_support.as_ref()?;
    let name = job.engine_choice.engine.as_deref().unwrap_or(support.default.name());
    if support.engine(job).is_none() {
        return Some(("ioengine", format!("ioengine={name}, which the stack does not support"), support.names()));
    }
    if support.has_files && support.engine(job) == Some(IoEngine::IoUringCmd) {
        let found = format!("ioengine={name} with a file system, which passthrough does not reach");
        return Some(("ioengine", found, String::from("ioengine=io_uring, or stack.filesystem = \"raw\"")));
    }
    let waits = support.engine(job) == Some(IoEngine::Sync) && job.iodepth > 1;
    when(waits, "iodepth", format!("iodepth={} with ioengine={name}, which waits for each request", job.iodepth), "1")
}

/// Refuses options of an I/O engine that have no effect with it or with the host's software.
pub(super) fn switches(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let (name, _) = job.engine_choice.switches.named().into_iter().find(|(_, is_on)| *is_on)?;
    let Some(support) = &limits.engine_support else {
        return Some((name, format!("{name} with software that is alike for all engines"), LEAVE_OUT.into()));
    };
    let engine = support.engine(job)?;
    if engine == IoEngine::Sync
        && job.engine_choice.switches.hipri
        && job.engine_choice.engine.as_deref() != Some("pvsync2")
    {
        return Some(("hipri", String::from("hipri with reads that cannot ask for it"), "ioengine=pvsync2".into()));
    }
    let rings_only = |name: &&(&str, bool)| name.1 && !(name.0 == "hipri" && engine == IoEngine::Sync);
    let (name, _) = job.engine_choice.switches.named().into_iter().find(|named| rings_only(&named))?;
    if !engine.has_rings() {
        let found = format!("{name} with ioengine={}", engine.name());
        return Some((name, found, String::from("ioengine=io_uring or io_uring_cmd")));
    }
    let vectors = job.engine_choice.switches.nonvectored && job.engine_choice.switches.fixedbufs;
    when(
        vectors,
        "nonvectored",
        String::from("nonvectored with fixedbufs"),
        "one of them: fixed buffers have no vector",
    )
}

pub(super) fn poller(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let cpu = job.engine_choice.poller_cpu?;
    let processors = limits.engine_support.map_or(u32::MAX, |support| support.processors);
    if !job.engine_choice.switches.sqthread_poll {
        let found = format!("sqthread_poll_cpu={cpu} without sqthread_poll");
        return Some(("sqthread_poll_cpu", found, String::from("sqthread_poll=1")));
    }
    let allowed = format!("0 to {}, the host's processors", processors - 1);
    when(cpu >= processors, "sqthread_poll_cpu", format!("sqthread_poll_cpu={cpu}"), allowed)
}

pub(super) fn check_completion_method(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let support = limits.engine_support.as_ref().filter(|support| !support.has_interrupts)?;
    let engine = support.engine(job)?;
    let found = format!("ioengine={} waits for interrupts, which the drive does not raise", engine.name());
    let interrupts = support
        .interrupts_key
        .map_or(String::from("a drive with interrupts"), |key| format!("{key} = true in the drive"));
    let hipri = if engine.can_poll_on_request() { ", or hipri=1 in the job" } else { "" };
    when(!polls(engine, job.engine_choice.switches), "ioengine", found, format!("{interrupts}{hipri}"))
}

/// Returns the first I/O engine that a job names without effect, because the host's software treats all engines alike.
pub fn ineffective_io_engine<'a>(jobs: &'a [Job], limits: &Limits) -> Option<&'a str> {
    let mut named = jobs.iter().filter_map(|job| job.engine_choice.engine.as_deref());
    named.next().filter(|_| limits.engine_support.is_none())
}

/// Refuses batch sizes on software without I/O engines, which takes requests one by one, and a largest number of
/// completions below the smallest.
pub(super) fn batches(job: &Job, limits: &Limits) -> Option<JobFinding> {
    let Batch { submit, complete_min, complete_max, low } = job.batch;
    let asked = [
        ("iodepth_batch", submit.filter(|&count| count != 1)),
        ("iodepth_batch_complete_min", Some(complete_min).filter(|&count| count != 1)),
        ("iodepth_batch_complete_max", complete_max.filter(|&count| count != 1)),
        ("iodepth_low", Some(low).filter(|&count| count != 0 && count != job.iodepth)),
    ];
    let (name, count) = asked.into_iter().find_map(|(name, count)| Some((name, count?)))?;
    if limits.engine_support.is_none() {
        return Some((name, format!("{name}={count} with software that takes requests one by one"), LEAVE_OUT.into()));
    }
    let most = complete_max.filter(|&most| most > 0 && most < complete_min)?;
    let found = format!("iodepth_batch_complete_max={most} with iodepth_batch_complete_min={complete_min}");
    Some(("iodepth_batch_complete_max", found, format!("{complete_min} or more")))
}

/// Returns a finding about the I/O engines of jobs of one run: threads that share a queue but not a completion method,
/// or too few processors for poll threads.
pub(super) fn check_shared_queues(jobs: &[Job], limits: &Limits) -> Option<JobFinding> {
    let support = limits.engine_support.as_ref()?;
    check_shared_queue_methods(jobs, support, limits.queue_pairs).or_else(|| check_poller_processors(jobs, support))
}

/// Refuses threads that share a queue and use different completion methods: a queue either raises interrupts or is
/// polled.
fn check_shared_queue_methods(jobs: &[Job], support: &EngineSupport, queue_pairs: u32) -> Option<JobFinding> {
    let threads = jobs.iter().flat_map(|job| std::iter::repeat_n(support.polls(job), index(job.threads)));
    let mut polled: Vec<Option<bool>> = vec![None; index(queue_pairs)];
    let mixed = threads.enumerate().find(|(thread, polls)| {
        let queue = &mut polled[thread % index(queue_pairs)];
        *queue.get_or_insert(*polls) != *polls
    })?;
    let queue = mixed.0 % index(queue_pairs);
    let found = format!("of the threads that share queue {queue}, some look for completions and some sleep");
    Some(("hipri", found, String::from("jobs that wait alike, or a drive with more queue pairs")))
}

/// Refuses poll threads without a processor of their own. On the processor of an application thread, each would wait
/// for the end of the other's time slices.
fn check_poller_processors(jobs: &[Job], support: &EngineSupport) -> Option<JobFinding> {
    let threads: u32 = jobs.iter().map(|job| job.threads).sum();
    let users = threads.min(support.processors);
    let pinned = jobs
        .iter()
        .filter(|job| job.engine_choice.switches.sqthread_poll)
        .filter_map(|job| job.engine_choice.poller_cpu);
    if let Some(cpu) = pinned.clone().find(|cpu| *cpu < users) {
        let found = format!("sqthread_poll_cpu={cpu} is the processor of a thread of the jobs");
        return Some(("sqthread_poll_cpu", found, format!("{users} or above, in a host with more host.cores")));
    }
    let free =
        jobs.iter().filter(|job| job.engine_choice.switches.sqthread_poll && job.engine_choice.poller_cpu.is_none());
    let wanted: u32 = free.map(|job| job.threads).sum();
    let found = format!("{threads} threads and {wanted} poll threads on {} processors", support.processors);
    let allowed =
        "a processor for each: more host.cores, fewer jobs, or sqthread_poll_cpu for poll threads that share one";
    when(wanted > 0 && threads + wanted > support.processors, "sqthread_poll", found, allowed)
}
