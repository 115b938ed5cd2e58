//! Findings: remarkable facts in results, as data and as a sentence.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::words::UNBROKEN;

/// Finding of `phaselink run` or `compare`: a remarkable fact in the results, as numbers and as a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Kind of the finding, which decides the meaning of its parts.
    pub kind: FindingKind,
    /// Block size, number of threads and queue depth to which the finding applies; null if the finding applies to all
    /// of them.
    pub at: Option<FindingPlace>,
    /// Numbers of the finding's sentence, each with its drives and its cause.
    pub parts: Vec<FindingPart>,
    /// Finding as an English sentence.
    #[serde(serialize_with = "plain")]
    pub sentence: String,
}

/// Kind of a finding of `phaselink run` or `compare`, which decides the meaning of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Drive whose queues have too few entries for some of the jobs. Amount of its part: requests that the queues hold.
    ShortQueues,
    /// Drives whose memory loses its content without power, so that the ranking by commit latency leaves them out. Its
    /// part has no amount.
    Volatile,
    /// Latency and throughput of the only drive of a run. Amount of its part: throughput in requests a second.
    Result,
    /// Drive with the lowest mean latency. Amount of its part: mean time that a request saves on this drive compared
    /// with the next one.
    Fastest,
    /// Fastest drive compared with the slowest. First part: mean time that a request saves on the fastest drive.
    /// Further parts divide this time by cause, the largest first; the fastest drive spends more on a negative one.
    Latency,
    /// Ranking of drives from the slowest to the fastest, with a part for each step. Amount of a part: mean time that a
    /// request saves on its first drive compared with its second; its cause is the largest one.
    Steps,
    /// Drives with the highest and the lowest throughput, one part for each, the highest first.
    Throughput,
    /// Drives with the lowest and the highest mean latency at the same offered load, one part for each. Amount of a
    /// part: mean latency.
    EqualLoad,
    /// Resources that limit the throughput of drives, with a part for each resource. The cause of a part is the
    /// resource; null if only latency limits its drives.
    Limit,
    /// Drives behind a network, with three parts for each: mean time that a request spends on network and target, and
    /// busy cores of the initiator and of the target, without polling in vain.
    Network,
}

/// Block size, number of threads and queue depth to which a finding applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingPlace {
    /// Size of each request to which the finding applies, in bytes; null if requests have several sizes.
    pub bs: Option<u32>,
    /// Number of threads that issue the requests to which the finding applies.
    pub numjobs: u32,
    /// Requests that each thread keeps in flight in the jobs to which the finding applies; null if threads have
    /// different depths.
    pub iodepth: Option<u32>,
}

/// Number of a finding's sentence, with its drives and its cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FindingPart {
    /// Names of the drives to which the amount of a finding applies; for a difference of two drives, the faster one
    /// first.
    pub drives: Vec<String>,
    /// Cause of the amount: a group of latency stages such as `queueing`, or a resource; null if no single cause is
    /// known.
    pub cause: Option<String>,
    /// Resource for which requests wait longest, such as `flash dies`, if the cause of the amount is `queueing`; absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited: Option<String>,
    /// Amount of the finding's part, in `unit`; null for a part without an amount.
    pub amount: Option<f64>,
    /// Unit of the amount of a finding's part; null for a part without an amount.
    pub unit: Option<FindingUnit>,
}

/// Unit of an amount in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FindingUnit {
    /// Time in nanoseconds for each request.
    #[serde(rename = "ns")]
    Ns,
    /// Throughput in requests a second.
    #[serde(rename = "1/s")]
    PerS,
    /// Number of requests.
    #[serde(rename = "requests")]
    Requests,
    /// Number of processor cores.
    #[serde(rename = "cores")]
    Cores,
}

impl FindingKind {
    /// True if findings of this kind answer the question of a run or a comparison, so that they are printed first.
    pub fn answers_the_question(self) -> bool {
        matches!(self, FindingKind::Result | FindingKind::Fastest | FindingKind::Throughput | FindingKind::EqualLoad)
    }
}

impl Finding {
    /// Returns the sentence of the finding with ordinary spaces instead of no-break spaces.
    pub fn text(&self) -> String {
        self.sentence.replace(UNBROKEN, " ")
    }
}

impl FindingPart {
    /// Creates a part of a finding: the drives it is about, the cause if known, and the amount with its unit if there is
    /// one. For a difference between two drives, the faster one comes first.
    pub fn new(drives: &[&str], cause: Option<&str>, amount: Option<(f64, FindingUnit)>) -> FindingPart {
        let drives = drives.iter().map(|name| String::from(*name)).collect();
        let (amount, unit) = amount.unzip();
        FindingPart { drives, cause: cause.map(String::from), awaited: None, amount, unit }
    }

    /// Adds the resource for which requests wait longest.
    pub fn waiting_for_resource(self, resource: Option<String>) -> FindingPart {
        FindingPart { awaited: resource, ..self }
    }
}

fn plain<S: Serializer>(sentence: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&sentence.replace(UNBROKEN, " "))
}
