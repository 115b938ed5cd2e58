//! Outcome of a run: counts, latency histograms, times by stage, link and processor use.

use super::latency::Latency;
use super::stage::StageTimes;
use crate::time::{Span, Time};

/// All measurements of one run. They are deterministic: they depend on the description, the jobs and the seed alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the drive, with the number of drives if there are several.
    pub drive: String,
    /// Seed of the run's random numbers.
    pub seed: u64,
    /// Time to the last completion from the end of the warm-up, or from the start of the run; ramp time included.
    pub elapsed: Span,
    /// Results of each job section, threads of a section added up.
    pub jobs: Vec<JobOutcome>,
    /// Use of the link from device to host.
    pub upstream: WireUse,
    /// Use of the link from host to device.
    pub downstream: WireUse,
    /// Use of the processor cores.
    pub cpu: CpuUse,
    /// Use of dies and channels of flash behind a translation layer; empty for other memories.
    pub parts: Vec<PartUse>,
    /// Power of the server; `None` if the drive file does not say.
    pub energy: Option<Energy>,
    /// Energy of all accesses to the device's memory in joules, which is not part of the server's; `None` if the energy
    /// of an access is unknown.
    pub memory_j: Option<f64>,
    /// Names of the software stack's stages, in the order of [`Stage::stack`].
    pub stack_stages: Vec<String>,
    /// Protocol counters by name, such as queue reads, wasted queue reads, tag collisions and interrupts.
    pub counters: Vec<(&'static str, u64)>,
    /// Number of simulation events processed.
    pub events: u64,
    /// State of the drive in which requests were counted.
    pub measured: MeasuredState,
    /// Trouble of the timeline that the run has met; faults of banks and of packets are in the counters alone.
    pub trouble: Vec<TroubleMet>,
    /// True if all jobs were done, false if the run was stopped before.
    pub finished: bool,
}

/// Event of a timeline of trouble, with what it has met in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TroubleMet {
    /// Line of the timeline.
    pub line: String,
    /// Instant at which it first had an effect; none if it had none.
    pub first: Option<Time>,
    /// Instant at which it last began to have an effect.
    pub last: Option<Time>,
    /// Number of requests that it has touched, or of times that it has happened to the device.
    pub count: u64,
}

/// State in which a drive was when its requests were counted. A drive with a write buffer and a translation layer is fast as
/// long as the buffer has room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MeasuredState {
    /// The only one: the drive has no such parts, or nothing was written.
    #[default]
    Only,
    /// The write buffer had been turned over, and the translation layer was in the state that such writes lead to.
    Steady {
        /// Number of requests before the first one that counts.
        warm_up_ios: u64,
        /// Time before the first request that counts.
        warm_up: Span,
    },
    /// A state that does not last, with the reason.
    Burst(&'static str),
    /// A volume with credits, in this state of them.
    Volume(CreditState),
}

/// Credits of a volume in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CreditState {
    /// The run began without credits.
    Used,
    /// The run began with all credits, and kept them: it stays below the rate that lasts.
    Kept,
    /// The run took more credits than it earned; a full bucket lasts for so long at this rate.
    Last(Span),
    /// The run began with all credits, and had used them up after this time.
    UsedUpAfter(Span),
}

/// Results of one job section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutcome {
    /// Name of the job.
    pub name: String,
    /// Queue depth of each thread.
    pub iodepth: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of the job's group. Jobs of one group run at the same time, groups one after the other.
    pub group: u32,
    /// fio options that define the job, with their values; empty for requests that no job has issued.
    pub options: Vec<(&'static str, String)>,
    /// Results of reads.
    pub read: DirectionOutcome,
    /// Results of writes.
    pub write: DirectionOutcome,
    /// Results of flushes, which do not count as requests of the job.
    pub flush: DirectionOutcome,
    /// Latencies of commits, of jobs that flush: from the time at which the first write since the last flush was wanted to the
    /// completion of the flush, or of the writes if the drive needs none.
    pub commit: Latency,
    /// Latencies of queries, of jobs whose reads follow from one another: from the time at which the first read was wanted to the
    /// completion of the last read of the last round.
    pub query: Latency,
    /// Discards, as real hosts and traces ask for them.
    pub discard: DirectionOutcome,
    /// Writes of zeros without data, as real hosts ask for them.
    pub zeroes: DirectionOutcome,
    /// Number of requests that have failed, which are counted nowhere else.
    pub failed: u64,
    /// Linux error number of the first failed request (`EIO` is 5).
    pub first_error: Option<u32>,
    /// Number of flushes among the failed requests.
    pub failed_flushes: u64,
    /// Number of resets of zones among the failed requests.
    pub failed_resets: u64,
}

/// Results of the reads, or of the writes, of one job section. Only requests issued after the ramp time count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionOutcome {
    /// Number of requests.
    pub ios: u64,
    /// Number of bytes of user data.
    pub bytes: u64,
    /// Time over which requests were counted: from the end of the ramp (or the start) to the job's last completion.
    pub runtime: Span,
    /// Submission latency: from the issue of a request by the application until its command is handed to the device.
    pub submission: Latency,
    /// Completion latency: from the command being handed to the device until the completion is seen by the application.
    pub completion: Latency,
    /// Total latency: from the instant at which the application wanted the request to its completion; equals the sum of
    /// its stages.
    pub total: Latency,
    /// Time in each stage, summed over all requests; the sum of all stages equals the sum of `total` exactly.
    pub stages: StageTimes,
}

/// Use of one direction of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireUse {
    /// Wire rate in bytes per nanosecond, after encoding.
    pub bytes_per_ns: f64,
    /// Bytes of user data.
    pub data_bytes: u64,
    /// Bytes of payload other than user data: commands, completion queue entries, doorbells, interrupt messages.
    pub command_bytes: u64,
    /// Bytes of headers and framing of all packets.
    pub header_bytes: u64,
    /// Bytes of ACK and flow-control packets (DLLPs).
    pub dllp_bytes: u64,
    /// Number of packets, replayed ones included.
    pub packets: u64,
    /// Number of packets that were replayed after an error.
    pub replays: u64,
    /// Time during which the wire was busy with packets and their skip ordered sets.
    pub busy: Span,
}

/// Use of one kind of part of the memory, summed over all parts of this kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartUse {
    /// Name of the resource, as predictions have it: `flash dies`.
    pub resource: &'static str,
    /// Number of parts in all devices.
    pub servers: u32,
    /// Time for which parts were busy, background operations included.
    pub busy: Span,
}

impl PartUse {
    /// Use since an earlier time, of which `earlier` is the use until then.
    pub(crate) fn since(&self, earlier: &PartUse) -> PartUse {
        PartUse { busy: self.busy - earlier.busy, ..*self }
    }
}

/// Use of the processor cores, summed over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// Number of cores.
    pub cores: u16,
    /// Time running code for requests.
    pub working: Span,
    /// Time polling for completions.
    pub spinning: Span,
    /// Time in interrupt handlers and context switches.
    pub switching: Span,
    /// Number of interrupts.
    pub interrupts: u64,
    /// Number of context switches.
    pub context_switches: u64,
}

/// Power of the whole server during the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Mean power of the server during the run in watts.
    pub server_w: f64,
    /// Power of the idle server in watts.
    pub idle_w: f64,
}

impl DirectionOutcome {
    /// Requests per second; zero if nothing was counted.
    pub fn iops(&self) -> f64 {
        per(self.ios as f64, self.runtime.as_s())
    }

    /// Bytes of user data per second; zero if nothing was counted.
    pub fn bytes_per_s(&self) -> f64 {
        per(self.bytes as f64, self.runtime.as_s())
    }
}

impl JobOutcome {
    /// Name and results of reads and writes, of which any were counted.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        [("read", &self.read), ("write", &self.write)].into_iter().filter(|(_, direction)| direction.ios > 0)
    }

    /// Commits per second; zero if nothing was counted.
    pub fn commits_per_s(&self) -> f64 {
        per(self.commit.count() as f64, self.write.runtime.as_s())
    }

    /// Queries per second; zero if nothing was counted.
    pub fn queries_per_s(&self) -> f64 {
        per(self.query.count() as f64, self.read.runtime.as_s())
    }

    /// Operations of which any were counted, with their names: reads and writes, then those that move no data.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        let without_data = [("flush", &self.flush), ("discard", &self.discard), ("zeroes", &self.zeroes)];
        self.directions().chain(without_data.into_iter().filter(|(_, outcome)| outcome.ios > 0))
    }
}

impl WireUse {
    /// Number of all bytes on the wire.
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.command_bytes + self.header_bytes + self.dllp_bytes
    }

    /// Adds the rate, bytes and busy time of another wire.
    pub fn add(&mut self, other: &WireUse) {
        self.bytes_per_ns += other.bytes_per_ns;
        self.data_bytes += other.data_bytes;
        self.command_bytes += other.command_bytes;
        self.header_bytes += other.header_bytes;
        self.dllp_bytes += other.dllp_bytes;
        self.packets += other.packets;
        self.replays += other.replays;
        self.busy += other.busy;
    }

    /// Use since an earlier time, of which `earlier` is the use until then.
    pub(crate) fn since(&self, earlier: &WireUse) -> WireUse {
        WireUse {
            bytes_per_ns: self.bytes_per_ns,
            data_bytes: self.data_bytes - earlier.data_bytes,
            command_bytes: self.command_bytes - earlier.command_bytes,
            header_bytes: self.header_bytes - earlier.header_bytes,
            dllp_bytes: self.dllp_bytes - earlier.dllp_bytes,
            packets: self.packets - earlier.packets,
            replays: self.replays - earlier.replays,
            busy: self.busy - earlier.busy,
        }
    }

    /// Share of the wire's bytes that is user data, 0 to 1; zero for an unused wire.
    pub fn payload_efficiency(&self) -> f64 {
        per(self.data_bytes as f64, self.bytes() as f64)
    }

    /// Share of `elapsed` in which the wire was busy, 0 to 1.
    pub fn busy_share(&self, elapsed: Span) -> f64 {
        per(self.busy.as_ns(), elapsed.as_ns())
    }
}

impl CpuUse {
    /// Use since an earlier time, of which `earlier` is the use until then.
    pub(crate) fn since(&self, earlier: &CpuUse) -> CpuUse {
        CpuUse {
            cores: self.cores,
            working: self.working - earlier.working,
            spinning: self.spinning - earlier.spinning,
            switching: self.switching - earlier.switching,
            interrupts: self.interrupts - earlier.interrupts,
            context_switches: self.context_switches - earlier.context_switches,
        }
    }

    /// Time in which cores did anything at all.
    pub fn busy(&self) -> Span {
        self.working + self.spinning + self.switching
    }
}

impl Outcome {
    /// Number of requests completed in all jobs.
    pub fn ios(&self) -> u64 {
        self.jobs.iter().map(|j| j.read.ios + j.write.ios).sum()
    }

    /// Number of failed requests of all jobs.
    pub fn failed(&self) -> u64 {
        self.jobs.iter().map(|job| job.failed).sum()
    }

    /// Requests per second of all jobs. For groups of jobs one after the other, the mean over their times.
    pub fn iops(&self) -> f64 {
        self.rate(DirectionOutcome::iops)
    }

    /// Bytes of user data per second of all jobs, averaged as in [`iops`](Self::iops).
    pub fn bytes_per_s(&self) -> f64 {
        self.rate(DirectionOutcome::bytes_per_s)
    }

    fn rate(&self, of: fn(&DirectionOutcome) -> f64) -> f64 {
        let groups = self.jobs.chunk_by(|job, next| job.group == next.group);
        let rates = groups.map(|jobs| {
            let runtime = jobs.iter().map(|job| job.read.runtime.max(job.write.runtime)).max().unwrap_or_default();
            (jobs.iter().map(|job| of(&job.read) + of(&job.write)).sum(), runtime.as_s())
        });
        match rates.collect::<Vec<(f64, f64)>>()[..] {
            [(rate, _)] => rate,
            ref rates => {
                let [done, s] = [|(rate, s): &(f64, f64)| rate * s, |(_, s): &(f64, f64)| *s]
                    .map(|figure| rates.iter().map(figure).sum::<f64>());
                per(done, s)
            }
        }
    }

    /// Mean number of busy cores over the run.
    pub fn busy_cores(&self) -> f64 {
        per(self.cpu.busy().as_ns(), self.elapsed.as_ns())
    }

    /// Mean number of busy cores for each 10^9 bytes per second of user data; zero if no data moved.
    pub fn cores_per_gb_per_s(&self) -> f64 {
        per(self.busy_cores(), self.bytes_per_s() / 1e9)
    }

    /// Energy of the whole server in joules for each request; `None` if unknown, zero if there was no request.
    pub fn joules_per_io(&self) -> Option<f64> {
        Some(per(self.energy?.server_w, self.iops()))
    }

    /// Energy in joules for each request beyond that of the idle server in the same time; `None` if unknown.
    pub fn joules_per_io_above_idle(&self) -> Option<f64> {
        let energy = self.energy?;
        Some(per(energy.server_w - energy.idle_w, self.iops()))
    }

    /// Energy of the device's memory in joules for each request; `None` if unknown, zero if there was no request.
    pub fn memory_joules_per_io(&self) -> Option<f64> {
        Some(per(per(self.memory_j?, self.elapsed.as_s()), self.iops()))
    }

    /// Instant at which the run ended.
    pub fn end(&self) -> Time {
        Time::ZERO + self.elapsed
    }
}

/// Divides `amount` by `parts`; zero if there are no parts.
pub(crate) fn per(amount: f64, parts: f64) -> f64 {
    if parts > 0.0 { amount / parts } else { 0.0 }
}
