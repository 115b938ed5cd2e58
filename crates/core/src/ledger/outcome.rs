//! Outcome of a run: counts, latency histograms, times by stage, link and processor use.

use super::latency::Latency;
use super::stage::StageTimes;
use crate::number::real;
use crate::time::{Span, Time};

/// All measurements of one run. They are deterministic: they depend on the description, the jobs and the seed alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Name of the drive, with the number of drives if there are several.
    pub drive: String,
    /// Seed of the run's random numbers.
    pub seed: u64,
    /// Time from the end of the warm-up (or the start of the run) to the last completion, ramp time included.
    pub elapsed: Span,
    /// Results of each job section, added up over its threads.
    pub jobs: Vec<JobOutcome>,
    /// Traffic of the link from device to host.
    pub upstream: WireUse,
    /// Traffic of the link from host to device.
    pub downstream: WireUse,
    /// Use of the processor cores: work, polling, switching and interrupts.
    pub cpu: CpuUse,
    /// Busy time of dies and channels of flash behind a translation layer; empty for other memories.
    pub parts: Vec<PartBusyTime>,
    /// Mean and idle power of the server; `None` if the drive file does not say.
    pub energy: Option<Energy>,
    /// Energy in joules of all accesses to the device's memory, which the server's energy does not include; `None` if
    /// the energy of an access is unknown.
    pub memory_j: Option<f64>,
    /// Names of the software stack's stages, in the order of `Stage::stack`.
    pub stack_stages: Vec<String>,
    /// Protocol counters by name, such as queue reads, wasted queue reads, tag collisions and interrupts.
    pub counters: Vec<(&'static str, u64)>,
    /// Number of simulation events processed.
    pub events: u64,
    /// State of the drive while requests were counted: steady, transient, or with a state of its credits.
    pub measured: MeasuredState,
    /// Fault rules that have had effects in the run. Bank and packet faults appear in the counters alone.
    pub faults: Vec<FaultEffectSummary>,
    /// True if all jobs were done; false if the run was stopped before their end.
    pub finished: bool,
}

/// Fault rule that has had effects in a run, with their number and times.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultEffectSummary {
    /// Description of the fault rule, as a line of a timeline of faults.
    pub line: String,
    /// Instant at which the fault rule first had an effect; `None` if it had none.
    pub first: Option<Time>,
    /// Instant at which the fault rule last began to have an effect; `None` if it had none.
    pub last: Option<Time>,
    /// Number of requests that the fault rule affected, or of times that it affected the device.
    pub count: u64,
}

/// State in which a drive was when its requests were counted. A drive with a write buffer and a translation layer is
/// fast as long as the buffer has room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MeasuredState {
    /// The drive has one state only, because it lacks a write buffer and a translation layer, or because nothing was
    /// written.
    #[default]
    Only,
    /// Steady state: requests counted only after a warm-up, in which the SLC cache was used up and the write buffer had
    /// been full or drained as fast as it filled. For random writes, the translation layer began randomly overwritten.
    Steady {
        /// Number of warm-up requests, which are left out of the results.
        warm_up_ios: u64,
        /// Duration of the warm-up, until the first request that counts.
        warm_up: Span,
    },
    /// Requests were counted in a state that does not last, for the reason given.
    Burst(&'static str),
    /// The drive is a volume with burst credits, and this was the state of its credits.
    Volume(CreditState),
}

/// State of a volume's burst credits in a run, which tells how long its rate lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CreditState {
    /// The run began without burst credits.
    Used,
    /// The run began with all burst credits and kept them, because its rate is below the volume's sustained rate.
    Kept,
    /// The run spent burst credits faster than it earned them. A full bucket of credits lasts for this time at the
    /// run's rate.
    Last(Span),
    /// The run began with all burst credits, and had used them up after this time.
    UsedUpAfter(Span),
}

/// Results of one job section of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutcome {
    /// Name of the job section.
    pub name: String,
    /// Queue depth of each thread of the job.
    pub iodepth: u32,
    /// Number of threads of the job.
    pub threads: u32,
    /// Number of the job's group. Jobs of one group run at the same time, groups one after the other.
    pub group: u32,
    /// fio options that define the job, with their values; empty for requests that no job has issued.
    pub options: Vec<(&'static str, String)>,
    /// Results of the job's reads.
    pub read: DirectionOutcome,
    /// Results of the job's writes.
    pub write: DirectionOutcome,
    /// Results of the job's flushes, which do not count as requests of the job.
    pub flush: DirectionOutcome,
    /// Latencies of commits, in jobs that flush: from the due time of the first write since the last flush to the
    /// completion of the flush. If the drive needs no flush, to the completion of the writes.
    pub commit: Latency,
    /// Latencies of queries, in jobs whose reads depend on one another: from the due time of the first read to the
    /// completion of the last read of the last round.
    pub query: Latency,
    /// Results of discards (trim), which real hosts and traces send.
    pub discard: DirectionOutcome,
    /// Results of writes of zeros without data, which real hosts send.
    pub zeroes: DirectionOutcome,
    /// Number of failed requests that were due after the ramp. `ios`, `bytes` and the latencies of requests exclude
    /// them.
    pub failed: u64,
    /// Linux error number of the job's first failed request (`EIO` is 5); `None` if none failed.
    pub first_error: Option<u32>,
    /// Number of flushes among the failed requests of the job.
    pub failed_flushes: u64,
    /// Number of zone resets among the failed requests of the job.
    pub failed_resets: u64,
}

/// Results of one operation (reads, writes, flushes and so on) of one job section. Only requests that were due after
/// the ramp time count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionOutcome {
    /// Number of requests completed.
    pub ios: u64,
    /// Number of bytes of user data that the completed requests moved.
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

/// Traffic of one direction of the link: bytes, packets and busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireUse {
    /// Rate of the wire in bytes per nanosecond, after encoding.
    pub bytes_per_ns: f64,
    /// Bytes of user data of the TLPs that have arrived. A replayed TLP counts once.
    pub data_bytes: u64,
    /// Bytes of payload other than user data in TLPs that have arrived: commands, completion queue entries, doorbells,
    /// interrupt messages.
    pub command_bytes: u64,
    /// Bytes of headers and framing of the TLPs that have arrived. A replayed TLP counts once.
    pub header_bytes: u64,
    /// Bytes of ACK and flow-control packets (DLLPs) on the wire.
    pub dllp_bytes: u64,
    /// Number of packets that have arrived; a packet that was replayed counts once.
    pub packets: u64,
    /// Number of packets that were sent again after an error, derived from the wire time lost until the NAK.
    pub replays: u64,
    /// Time during which the wire was busy with packets and their skip ordered sets.
    pub busy: Span,
}

/// Busy time of one kind of memory resource, such as flash dies, summed over all resources of this kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartBusyTime {
    /// Name of the resource, as predictions have it: `flash dies`.
    pub resource: &'static str,
    /// Number of resources of this kind in all devices, such as flash dies.
    pub servers: u32,
    /// Time for which resources were busy, background operations included.
    pub busy: Span,
}

impl PartBusyTime {
    /// Returns the use since an earlier time of the run; `earlier` is the use up to that time.
    pub(crate) fn since(&self, earlier: &PartBusyTime) -> PartBusyTime {
        PartBusyTime { busy: self.busy - earlier.busy, ..*self }
    }
}

/// Use of the processor cores by a run, summed over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// Number of processors whose use is counted.
    pub cores: u16,
    /// Time for which cores ran code for requests.
    pub working: Span,
    /// Time for which cores polled for completions.
    pub spinning: Span,
    /// Time that cores spent in interrupt handlers and context switches.
    pub switching: Span,
    /// Number of interrupts that were handled.
    pub interrupts: u64,
    /// Number of context switches of all cores.
    pub context_switches: u64,
}

/// Power of the whole server during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Mean power of the server during the run in watts.
    pub server_w: f64,
    /// Power of the idle server in watts.
    pub idle_w: f64,
}

impl DirectionOutcome {
    /// Returns the requests of one operation per second; zero if nothing was counted.
    pub fn iops(&self) -> f64 {
        per(real(self.ios), self.runtime.as_s())
    }

    /// Returns the bytes of user data per second; zero if nothing was counted.
    pub fn bytes_per_s(&self) -> f64 {
        per(real(self.bytes), self.runtime.as_s())
    }
}

impl JobOutcome {
    /// Returns the names and results of reads and of writes; leaves out an operation of which nothing was counted.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        [("read", &self.read), ("write", &self.write)].into_iter().filter(|(_, direction)| direction.ios > 0)
    }

    /// Returns the commits of the job per second; zero if nothing was counted.
    pub fn commit_rate_per_s(&self) -> f64 {
        per(real(self.commit.count()), self.write.runtime.as_s())
    }

    /// Returns the queries of the job per second; zero if nothing was counted.
    pub fn queries_per_s(&self) -> f64 {
        per(real(self.query.count()), self.read.runtime.as_s())
    }

    /// Returns the names and results of all operations of which any were counted: reads and writes, then those that
    /// move no data.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        let without_data = [("flush", &self.flush), ("discard", &self.discard), ("zeroes", &self.zeroes)];
        self.directions().chain(without_data.into_iter().filter(|(_, outcome)| outcome.ios > 0))
    }
}

impl WireUse {
    /// Returns the number of all bytes on the wire: user data, commands, headers and DLLPs.
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.command_bytes + self.header_bytes + self.dllp_bytes
    }

    /// Adds the rate, bytes, packets and busy time of another wire to those of this one.
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

    /// Returns the traffic since an earlier time of the run; `earlier` is the traffic up to that time.
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

    /// Returns the share of the wire's bytes that is user data, 0 to 1; zero for an unused wire.
    pub fn payload_efficiency(&self) -> f64 {
        per(real(self.data_bytes), real(self.bytes()))
    }

    /// Returns the utilisation of the wire over the time `elapsed`, from 0 to 1.
    pub fn busy_share(&self, elapsed: Span) -> f64 {
        per(self.busy.as_ns(), elapsed.as_ns())
    }
}

impl CpuUse {
    /// Returns the use of the cores since an earlier time of the run; `earlier` is the use up to that time.
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

    /// Returns the time for which cores were busy, summed over all cores: working, spinning and switching.
    pub fn busy(&self) -> Span {
        self.working + self.spinning + self.switching
    }
}

impl Outcome {
    /// Returns the number of reads and writes completed in all jobs.
    pub fn ios(&self) -> u64 {
        self.jobs.iter().map(|j| j.read.ios + j.write.ios).sum()
    }

    /// Returns the number of failed requests of all jobs.
    pub fn failed(&self) -> u64 {
        self.jobs.iter().map(|job| job.failed).sum()
    }

    /// Returns the reads and writes per second of all jobs. For groups of jobs one after the other, the mean weighted
    /// by their times.
    pub fn iops(&self) -> f64 {
        self.rate(DirectionOutcome::iops)
    }

    /// Returns the bytes of user data per second of all jobs, averaged as in [`iops`](Self::iops).
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

    /// Returns the mean number of busy cores over the run.
    pub fn busy_cores(&self) -> f64 {
        per(self.cpu.busy().as_ns(), self.elapsed.as_ns())
    }

    /// Returns the mean number of busy resources of a kind in [`Outcome::parts`]; `None` if the run has none of them.
    pub fn mean_busy_parts(&self, resource: &str) -> Option<f64> {
        let part = self.parts.iter().find(|part| part.resource == resource)?;
        Some(per(part.busy.as_ns(), self.elapsed.as_ns()))
    }

    /// Returns the mean number of busy cores for each 10^9 bytes per second of user data; zero if no data moved.
    pub fn cores_per_gb_per_s(&self) -> f64 {
        per(self.busy_cores(), self.bytes_per_s() / 1e9)
    }

    /// Returns the energy of the whole server in joules for each request; `None` if unknown, zero if there was no
    /// request.
    pub fn joules_per_io(&self) -> Option<f64> {
        Some(per(self.energy?.server_w, self.iops()))
    }

    /// Returns the energy in joules for each request beyond that of the idle server in the same time; `None` if
    /// unknown.
    pub fn joules_per_io_above_idle(&self) -> Option<f64> {
        let energy = self.energy?;
        Some(per(energy.server_w - energy.idle_w, self.iops()))
    }

    /// Returns the energy of the device's memory in joules for each request; `None` if unknown, zero if there was no
    /// request.
    pub fn memory_joules_per_io(&self) -> Option<f64> {
        Some(per(per(self.memory_j?, self.elapsed.as_s()), self.iops()))
    }

    /// Returns the instant at which the run ended, if it is counted from the end of the warm-up.
    pub fn end(&self) -> Time {
        Time::ZERO + self.elapsed
    }
}

/// Returns `amount` divided by `parts`; zero if there are no parts.
pub fn per(amount: f64, parts: f64) -> f64 {
    if parts > 0.0 { amount / parts } else { 0.0 }
}
