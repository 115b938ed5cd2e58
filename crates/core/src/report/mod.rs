//! What a run gives back: counts, latency histograms, the stage ledger, link and processor use.

pub mod latency;
pub mod stage;

pub use latency::Latency;
pub use stage::{Stage, StageTimes};

use crate::time::{Span, Time};

/// Everything measured in one run. Deterministic: it depends on the description, the jobs and the seed alone.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the drive.
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
#[derive(Clone, Debug, Default)]
pub struct JobOutcome {
    pub name: String,
    pub iodepth: u32,
    pub threads: u32,
    pub read: DirectionOutcome,
    pub write: DirectionOutcome,
}

/// Reads, or writes, of one job section. Only requests issued after the ramp time count.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Energy {
    pub server_w: f64,
    pub idle_w: f64,
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

    /// End of the run.
    pub fn end(&self) -> Time {
        Time::ZERO + self.elapsed
    }
}
