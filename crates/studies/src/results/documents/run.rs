//! JSON document of `run`, `bench` and `serve`: fio's format, with an additional object for everything that fio does
//! not have.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    AllPercentiles, ByName, Description, EnergyFigures, FigureInterval, FioJob, PowerFigures, PrecisionResult,
    ProcessorFigures, ResourceUse, RunFigures, StageMean, TailResult,
};
use crate::results::{Evidence, Finding, words};
use phaselink_core::ledger::{FaultEffectSummary, MeasuredState};
use phaselink_core::time::Time;

/// JSON document of `phaselink run`, `bench` and `serve`: fio's JSON output, with an additional object `phaselink` for
/// simulation results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDocument {
    /// Text in place of fio's version: `phaselink-` and the version of phaselink.
    #[serde(rename = "fio version")]
    pub fio_version: String,
    /// Results of each job with the keys of fio's JSON output.
    pub jobs: Vec<FioJob>,
    /// Results that fio's JSON output has no key for, such as latency by stage, link traffic and energy.
    pub phaselink: RunResult,
}

/// Results of `phaselink run`, `bench` or `serve` that fio's JSON output has no key for, such as latency by stage, link
/// traffic and energy.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// Name of the drive that ran; for several equal drives, also their number.
    pub drive: String,
    /// Seed of all random numbers in the run.
    pub seed: u64,
    /// True if all jobs of the run ended, or if the run reached the precision of `--precision`; false if the run was
    /// stopped before.
    pub finished: bool,
    /// Simulated time to the last completion, in ns: from the end of the warm-up, or from the start of a run without
    /// warm-up. fio's ramp time is included.
    pub elapsed_ns: f64,
    /// State of the drive (steady or burst) in which the run's requests were counted.
    pub measured: MeasuredIn,
    /// Number of events that the simulator processed in the run.
    pub events: u64,
    /// Figures of all requests of the run, such as throughput and p99 latency.
    pub figures: RunFigures,
    /// Percentiles of latency from p99 on by name of the figure, each with its 95 % confidence interval, or with the
    /// reason why the run has too few requests for it.
    pub tails: ByName<TailResult>,
    /// Results of each job of the run, with latencies divided into stages.
    pub jobs: Vec<RunJob>,
    /// Traffic of the PCI Express link in both directions during the run.
    pub link: LinkUse,
    /// Processor time of the host during the run, summed over all cores.
    pub cpu: ProcessorUse,
    /// Power of the server during the run, and energy for each request.
    pub energy: EnergyUse,
    /// Event counts of the run by name: protocol events such as queue reads and interrupts, and injected faults.
    pub counters: ByName<u64>,
    /// Drive that ran with every key resolved, overrides applied; of `phaselink bench`, the address of the served drive.
    pub description: RunSubject,
    /// Measurements with which the model of the drive, its software stack and its host was checked; in documents of
    /// `phaselink run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Vec<Evidence>>,
    /// Findings of the run: its latency and throughput, and the resource that limits the drive; in documents of
    /// `phaselink run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// Utilisation of each resource of drive and host during the run, in descending order; in documents of `phaselink
    /// run` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Vec<ResourceUse>>,
    /// Injected fault rules that had an effect in the run, in the order of their first effects; absent without an
    /// effect. Faults of memory banks and packets are in the counters alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultResult>,
    /// 95 % confidence intervals of the run's mean and p99 latency; absent without `--precision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionResult>,
    /// Prediction intervals of the run's figures from uncertain constants, by name of the figure; absent without
    /// `--intervals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Drive of a run, or address of the served drive that a benchmark has measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RunSubject {
    /// Drive that was simulated or served.
    Drive(Description),
    /// Served drive that `phaselink bench` has measured at the client.
    Served {
        /// Address at which the drive is served, such as `shm:PATH`.
        target: String,
    },
}

/// Injected fault rule that had an effect in a run, with the number and the times of its effects.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FaultResult {
    /// Fault rule as a line of a fault timeline, such as `at=2s for=500ms stall`.
    pub line: String,
    /// Number of requests that the fault rule affected, or number of times that the rule affected the device.
    pub touched: u64,
    /// Simulated time of the fault rule's first effect, in ns; null without an effect.
    pub first_ns: Option<f64>,
    /// Simulated time at which the fault rule's last effect began, in ns; null without an effect.
    pub last_ns: Option<f64>,
}

impl FaultResult {
    /// Returns the JSON object for an event of a timeline of faults that occurred in the run.
    pub fn of(met: &FaultEffectSummary) -> FaultResult {
        FaultResult {
            line: met.line.clone(),
            touched: met.count,
            first_ns: met.first.map(Time::as_ns),
            last_ns: met.last.map(Time::as_ns),
        }
    }
}

/// State of a drive in which the requests of a run were counted: steady, or a burst that does not last.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredIn {
    /// State of the drive while requests were counted: `steady`, `burst`, or `only` if the drive has one state or
    /// nothing was written.
    pub state: &'static str,
    /// Number of requests that the run completed as warm-up before the first counted request; 0 without warm-up.
    pub warm_up_ios: u64,
    /// Simulated time of the warm-up before the first counted request, in ns; 0 without warm-up.
    pub warm_up_ns: f64,
    /// Reason in words why the burst does not last, or state of a cloud volume's burst credits; null for other drives
    /// and states.
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

/// Results of one job of a run, with latencies divided into stages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunJob {
    /// Name of the job in the run's job file.
    pub name: String,
    /// Queue depth of the job: requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Number of threads of the job.
    pub threads: u32,
    /// Latency of the job's reads, in total and by stage.
    pub read: DirectionResult,
    /// Latency of the job's writes, in total and by stage.
    pub write: DirectionResult,
    /// Latency of the job's flushes, in total and by stage; absent without flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<DirectionResult>,
    /// Latency of the job's discards (trim), in total and by stage; absent without discards, which real hosts and
    /// traces send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<DirectionResult>,
    /// Latency of the job's Write Zeroes requests, in total and by stage; absent without such requests, which real
    /// hosts send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeroes: Option<DirectionResult>,
}

/// Latency of one kind of a job's requests, such as reads or flushes, in total and by stage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DirectionResult {
    /// Number of completed requests of this kind, without warm-up and ramp.
    pub ios: u64,
    /// Time over which a job's requests are counted, in ns: from the end of the warm-up and fio's ramp to the job's
    /// last completion.
    pub runtime_ns: f64,
    /// Distribution of the latency of the job's requests, in ns, from the time at which the application wants a request
    /// to its completion.
    pub latency_ns: LatencySummary,
    /// Mean time of the job's requests in each latency stage, in the order of the stages; the times sum to `total_ns`.
    pub stages: Vec<StageMean>,
    /// Mean latency of the job's requests, in ns.
    pub total_ns: f64,
}

/// Distribution of the latency of one kind of requests in a run, in ns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Shortest latency of these requests, in ns; 0 without requests.
    pub min: f64,
    /// Longest latency of these requests, in ns; 0 without requests.
    pub max: f64,
    /// Mean latency of these requests, in ns; 0 without requests.
    pub mean: f64,
    /// Standard deviation of the latency of these requests, in ns.
    pub stddev: f64,
    /// Percentiles of the latency of these requests, in ns.
    pub percentile: AllPercentiles,
}

/// Traffic of the PCI Express link in both directions during a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinkUse {
    /// Traffic of the link from the device to the host.
    pub upstream: WireTraffic,
    /// Traffic of the link from the host to the device.
    pub downstream: WireTraffic,
}

/// Traffic of one direction of the PCI Express link during a run; if the host has several drives, their links together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WireTraffic {
    /// Data rate of one direction of the link after line encoding (8b/10b, 128b/130b), in bytes a nanosecond.
    pub bytes_per_ns: f64,
    /// User data in packets (TLPs) that arrived in one direction of the link, in bytes; a replayed packet counts once.
    pub data_bytes: u64,
    /// Payload other than user data in packets (TLPs) that arrived in one direction of the link, in bytes: commands,
    /// completion queue entries, doorbells, interrupt messages.
    pub command_bytes: u64,
    /// Headers and framing of packets (TLPs) that arrived in one direction of the link, in bytes; a replayed packet
    /// counts once.
    pub header_bytes: u64,
    /// ACK and flow-control packets (DLLPs) on one direction of the link, in bytes.
    pub dllp_bytes: u64,
    /// Number of packets (TLPs) that arrived in one direction of the link; a replayed packet counts once.
    pub packets: u64,
    /// Number of packets (TLPs) that one direction of the link sent again after a bit error.
    pub replays: u64,
    /// Time during which one direction of the link was busy with packets, in ns.
    pub busy_ns: f64,
    /// Utilisation of one direction of the link: fraction of the simulated time during which the wire was busy, 0 to 1.
    pub busy_share: f64,
    /// Fraction of user data in all bytes of one direction of the link, 0 to 1; 0 without traffic.
    pub payload_efficiency: f64,
}

/// Processor time of the host during a run, summed over all cores.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessorUse {
    /// Number of hardware threads of the host whose processor time is counted.
    pub cores: u16,
    /// Time during which the host's cores executed code for requests, in ns, summed over all cores.
    pub working_ns: f64,
    /// Time during which the host's cores spun for a completion, in ns, summed over all cores.
    pub spinning_ns: f64,
    /// Time of the host's cores in interrupt handlers and context switches, in ns, summed over all cores.
    pub switching_ns: f64,
    /// Number of interrupts that the host handled during the run.
    pub interrupts: u64,
    /// Number of context switches on all cores of the host during the run.
    pub context_switches: u64,
    /// Figures of the run that follow from the processor time of the host, such as its busy cores.
    #[serde(flatten)]
    pub figures: ProcessorFigures,
}

/// Power of the server during a run, and energy for each request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EnergyUse {
    /// Figures of the run on the power of the server.
    #[serde(flatten)]
    pub power: PowerFigures,
    /// Power of the idle server, in watts; null if the drive file gives none.
    pub idle_w: Option<f64>,
    /// Figures of the run on the energy for each request.
    #[serde(flatten)]
    pub requests: EnergyFigures,
}
