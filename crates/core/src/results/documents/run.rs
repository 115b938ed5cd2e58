//! JSON document of `run`, `bench` and `serve`: fio's format, with an additional object for everything that fio does
//! not have.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    AllPercentiles, ByName, Description, FigureInterval, FioJob, PrecisionResult, ResourceUse, RunFigures, StageMean,
};
use crate::ledger::{MeasuredState, TroubleMet};
use crate::results::{Evidence, Finding, words};
use crate::time::Time;

/// Result of a run in fio's shape, with what fio has no place for beside it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDocument {
    /// `phaselink-` and the version of the program.
    #[serde(rename = "fio version")]
    pub fio_version: String,
    /// Jobs as fio prints them.
    pub jobs: Vec<FioJob>,
    /// Results that fio has no place for.
    pub phaselink: RunResult,
}

/// Results of a run that fio has no place for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// Name of the drive, and how many of it there are if there are several.
    pub drive: String,
    /// Seed of everything random.
    pub seed: u64,
    /// True if the jobs came to their end, or the precision was reached.
    pub finished: bool,
    /// Simulated time from the start to the last completion, in ns.
    pub elapsed_ns: f64,
    /// State of the drive in which requests were counted.
    pub measured: MeasuredIn,
    /// Number of simulated events.
    pub events: u64,
    /// Figures of all requests together.
    pub figures: RunFigures,
    /// Jobs with latencies by stage.
    pub jobs: Vec<RunJob>,
    /// Use of the link.
    pub link: LinkUse,
    /// Use of the processor.
    pub cpu: ProcessorUse,
    /// Power and energy.
    pub energy: EnergyUse,
    /// Counters of the protocol by name.
    pub counters: ByName<u64>,
    /// Drive as it was run.
    pub description: Description,
    /// Measurements behind the drive, its host's software and its host. Of `run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Vec<Evidence>>,
    /// Findings: the resource that limits the drive. Of `run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// Utilisation of each resource, the busiest first. Of `run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Vec<ResourceUse>>,
    /// Trouble of the timeline that the run has met, if it had any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<TroubleResult>,
    /// Confidence in mean and p99, if a precision was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionResult>,
    /// Intervals of figures, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Event of a timeline of trouble, with what it has met.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TroubleResult {
    /// Line of the timeline.
    pub line: String,
    /// Number of requests that it has touched, or of times that it has happened to the device.
    pub touched: u64,
    /// Simulated time at which it first had an effect, in ns; null if it had none.
    pub first_ns: Option<f64>,
    /// Simulated time at which it last began to have an effect, in ns.
    pub last_ns: Option<f64>,
}

impl TroubleResult {
    /// Returns the JSON object for an event of a timeline of faults that occurred in the run.
    pub fn of(met: &TroubleMet) -> TroubleResult {
        TroubleResult {
            line: met.line.clone(),
            touched: met.count,
            first_ns: met.first.map(Time::as_ns),
            last_ns: met.last.map(Time::as_ns),
        }
    }
}

/// State of a drive in which its requests were counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredIn {
    /// `steady`, `burst`, or `only` for a drive that has no other state.
    pub state: &'static str,
    /// Number of requests before the first one that counts.
    pub warm_up_ios: u64,
    /// Simulated time before the first request that counts, in ns.
    pub warm_up_ns: f64,
    /// Reason why the state does not last, or state of a volume's credits; null in others.
    pub reason: Option<String>,
}

impl MeasuredIn {
    /// Returns the JSON object for the state of the drive in which requests were counted.
    pub fn of(measured: MeasuredState) -> MeasuredIn {
        let state = |state, reason| MeasuredIn { state, warm_up_ios: 0, warm_up_ns: 0.0, reason };
        match measured {
            MeasuredState::Only => state("only", None),
            MeasuredState::Burst(reason) => state("burst", Some(String::from(reason))),
            MeasuredState::Volume(credits) => {
                let name = if words::is_lasting(credits) { "steady" } else { "burst" };
                state(name, Some(words::credits(credits)))
            }
            MeasuredState::Steady { warm_up_ios, warm_up } => {
                MeasuredIn { warm_up_ios, warm_up_ns: warm_up.as_ns(), ..state("steady", None) }
            }
        }
    }
}

/// Job of a run with latencies by stage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunJob {
    /// Name of the job.
    pub name: String,
    /// Requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Number of threads.
    pub threads: u32,
    /// Reads of the job.
    pub read: DirectionResult,
    /// Writes of the job.
    pub write: DirectionResult,
    /// Flushes of the job, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<DirectionResult>,
    /// Discards of hosts, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<DirectionResult>,
    /// Writes of zeros without data of hosts, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeroes: Option<DirectionResult>,
}

/// Requests of one kind with their latency and its stages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DirectionResult {
    /// Number of requests.
    pub ios: u64,
    /// Time from the end of the ramp to the job's last completion, in ns.
    pub runtime_ns: f64,
    /// Latency from the application's call to the completion.
    pub latency_ns: LatencySummary,
    /// Stages in which requests spent time, in their order; they sum to `total_ns`.
    pub stages: Vec<StageMean>,
    /// Mean latency, in ns.
    pub total_ns: f64,
}

/// Distribution of latencies, in ns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Shortest latency, in ns; 0 without requests.
    pub min: f64,
    /// Longest latency, in ns; 0 without requests.
    pub max: f64,
    /// Mean latency, in ns; 0 without requests.
    pub mean: f64,
    /// Standard deviation of the sample, in ns.
    pub stddev: f64,
    /// Percentiles of latency, in ns.
    pub percentile: AllPercentiles,
}

/// Use of both directions of the link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinkUse {
    /// Direction from the device to the host.
    pub upstream: WireTraffic,
    /// Direction from the host to the device.
    pub downstream: WireTraffic,
}

/// Traffic on one direction of the link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WireTraffic {
    /// Rate of the wire without its encoding, in bytes a nanosecond.
    pub bytes_per_ns: f64,
    /// User data, in bytes.
    pub data_bytes: u64,
    /// Payloads other than user data (commands, completion entries, doorbells, interrupt messages), in bytes.
    pub command_bytes: u64,
    /// Headers and framing of all packets, in bytes.
    pub header_bytes: u64,
    /// ACK and flow-control packets, in bytes.
    pub dllp_bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of packets that were sent again after an error.
    pub replays: u64,
    /// Time for which the wire was busy, in ns.
    pub busy_ns: f64,
    /// Share of the simulated time for which the wire was busy, 0 to 1.
    pub busy_share: f64,
    /// Share of user data in all bytes on the wire, 0 to 1.
    pub payload_efficiency: f64,
}

/// Use of the processor, summed over its cores.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessorUse {
    /// Number of cores of the host.
    pub cores: u16,
    /// Time of all cores for the code of requests, in ns.
    pub working_ns: f64,
    /// Time of all cores spinning for a completion, in ns.
    pub spinning_ns: f64,
    /// Time of all cores in interrupt handlers and context switches, in ns.
    pub switching_ns: f64,
    /// Number of interrupts.
    pub interrupts: u64,
    /// Number of context switches.
    pub context_switches: u64,
    /// Cores kept busy, on average over the run.
    pub busy_cores: f64,
    /// Busy cores for each 10^9 bytes a second of user data.
    pub cores_per_gb_per_s: f64,
}

/// Power of the server, and energy for each request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EnergyUse {
    /// Power of the whole server, in watts; null if the drive file does not say.
    pub server_w: Option<f64>,
    /// Power of the idle server, in watts; null if the drive file does not say.
    pub idle_w: Option<f64>,
    /// Energy of the whole server for each request, in joules; null if the drive file does not say.
    pub joules_per_io: Option<f64>,
    /// Energy of the device's memory for each request, in joules; null if the drive file does not say.
    pub memory_joules_per_io: Option<f64>,
}
