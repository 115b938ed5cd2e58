//! What a run gives back: counts, latency histograms, the stage ledger, link and processor use.

use super::latency::Latency;
use super::stage::StageTimes;
use crate::time::{Span, Time};

/// Everything measured in one run. Deterministic: it depends on the description, the jobs and the seed alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the drive, and how many of it there are if there are several.
    pub drive: String,
    pub seed: u64,
    /// From the start of the run to its last completion, ramp time included.
    pub elapsed: Span,
    /// One entry a job section, threads of a section added up.
    pub jobs: Vec<JobOutcome>,
    /// Device to host, then host to device.
    pub upstream: WireUse,
    pub downstream: WireUse,
    pub cpu: CpuUse,
    pub energy: Energy,
    /// Joules of all accesses to the device's memory, which are no part of the server's, if it is known what they take.
    pub memory_j: Option<f64>,
    /// Names of the stack's stages, in the order of [`Stage::stack`].
    pub stack_stages: Vec<String>,
    /// Protocol counters by name: queue reads, wasted queue reads, tag collisions, interrupts, …
    pub counters: Vec<(&'static str, u64)>,
    /// Simulation events processed.
    pub events: u64,
    /// False if the run was stopped before its jobs were done.
    pub finished: bool,
}

/// One job section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutcome {
    pub name: String,
    pub iodepth: u32,
    pub threads: u32,
    /// Jobs of the same group ran at the same time, those of one group after those of another.
    pub group: u32,
    /// fio's options that make the job, with their values; none of requests that no job has made.
    pub options: Vec<(&'static str, String)>,
    pub read: DirectionOutcome,
    pub write: DirectionOutcome,
    /// Flushes, which are no requests of the job's number.
    pub flush: DirectionOutcome,
    /// Discards, as real hosts and traces ask for them.
    pub discard: DirectionOutcome,
    /// Requests that have failed, which count nowhere else, and the error of the first: a number of Linux (`EIO` is 5).
    pub failed: u64,
    pub first_error: Option<u32>,
    /// How many of them were flushes.
    pub failed_flushes: u64,
}

/// Reads, or writes, of one job section. Only requests issued after the ramp time count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionOutcome {
    pub ios: u64,
    pub bytes: u64,
    /// Time over which these were counted: from the end of the ramp (or the start) to the job's last completion.
    pub runtime: Span,
    /// From the issue of a request by the application to its command being handed to the device.
    pub submission: Latency,
    /// From there to the completion in the application.
    pub completion: Latency,
    /// From when the application wanted the request to its completion; what the ledger sums to.
    pub total: Latency,
    /// Time in each stage, summed over all requests; the stages sum to the sum of `total`, exactly.
    pub stages: StageTimes,
}

/// Use of one direction of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireUse {
    /// Wire rate in bytes per nanosecond, encoding taken off.
    pub bytes_per_ns: f64,
    /// User data.
    pub data_bytes: u64,
    /// Payloads other than user data: commands, completion entries, doorbells, interrupt messages.
    pub command_bytes: u64,
    /// Headers and framing of all packets.
    pub header_bytes: u64,
    /// ACK and flow-control packets.
    pub dllp_bytes: u64,
    /// Packets, and those of them sent again after an error.
    pub packets: u64,
    pub replays: u64,
    /// Time during which the wire was busy with packets and their skip ordered sets.
    pub busy: Span,
}

/// Use of the cores, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    pub cores: u16,
    /// Running code for a request.
    pub working: Span,
    /// Spinning for a completion.
    pub spinning: Span,
    /// In interrupt handlers and context switches.
    pub switching: Span,
    pub interrupts: u64,
    pub context_switches: u64,
}

/// Power of the whole server during the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    pub server_w: f64,
    pub idle_w: f64,
}

impl DirectionOutcome {
    /// Requests per second; zero if nothing was counted.
    pub fn iops(&self) -> f64 {
        per(self.ios as f64, self.runtime.as_s())
    }

    /// User data in bytes per second; zero if nothing was counted.
    pub fn bytes_per_s(&self) -> f64 {
        per(self.bytes as f64, self.runtime.as_s())
    }
}

impl JobOutcome {
    /// The directions in which anything was counted, with their names.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        [("read", &self.read), ("write", &self.write)].into_iter().filter(|(_, direction)| direction.ios > 0)
    }

    /// Operations of which any were counted, with their names: reads and writes, then those that move no data.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &DirectionOutcome)> {
        let without_data = [("flush", &self.flush), ("discard", &self.discard)];
        self.directions().chain(without_data.into_iter().filter(|(_, outcome)| outcome.ios > 0))
    }
}

impl WireUse {
    /// All bytes on the wire.
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.command_bytes + self.header_bytes + self.dllp_bytes
    }

    /// Add another wire's: its rate, its bytes and its time.
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
    /// Time in which a core did anything at all.
    pub fn busy(&self) -> Span {
        self.working + self.spinning + self.switching
    }
}

impl Outcome {
    /// Requests completed in all jobs.
    pub fn ios(&self) -> u64 {
        self.jobs.iter().map(|j| j.read.ios + j.write.ios).sum()
    }

    /// Requests of all jobs that have failed.
    pub fn failed(&self) -> u64 {
        self.jobs.iter().map(|job| job.failed).sum()
    }

    /// Requests per second of all jobs; of groups of jobs one after the other, the mean over their times.
    pub fn iops(&self) -> f64 {
        self.rate(DirectionOutcome::iops)
    }

    /// User data of all jobs in bytes per second, as [`iops`](Self::iops).
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

    /// Cores kept busy, on average over the run.
    pub fn busy_cores(&self) -> f64 {
        per(self.cpu.busy().as_ns(), self.elapsed.as_ns())
    }

    /// Busy cores for each 10^9 bytes per second of user data; zero if none moved.
    pub fn cores_per_gb_per_s(&self) -> f64 {
        per(self.busy_cores(), self.bytes_per_s() / 1e9)
    }

    /// Energy of the whole server for each request; zero if none was served.
    pub fn joules_per_io(&self) -> f64 {
        per(self.energy.server_w, self.iops())
    }

    /// What that is above the energy of the idle server in the same time: what the requests themselves cost.
    pub fn joules_per_io_above_idle(&self) -> f64 {
        per(self.energy.server_w - self.energy.idle_w, self.iops())
    }

    /// Energy of the device's memory for each request, if it is known; zero if none was served.
    pub fn memory_joules_per_io(&self) -> Option<f64> {
        Some(per(per(self.memory_j?, self.elapsed.as_s()), self.iops()))
    }

    /// End of the run.
    pub fn end(&self) -> Time {
        Time::ZERO + self.elapsed
    }
}

/// `amount` for each of `parts`, or zero where there are none.
pub(crate) fn per(amount: f64, parts: f64) -> f64 {
    if parts > 0.0 { amount / parts } else { 0.0 }
}
