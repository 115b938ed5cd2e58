//! Findings: remarkable facts in results, as data and as a sentence.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::words::UNBROKEN;

/// Finding of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Kind of finding, which says what its parts mean.
    pub kind: FindingKind,
    /// Size of the jobs that it is about; null if it is about all of them.
    pub at: Option<FindingPlace>,
    /// Amounts that the sentence is made of, with their causes and drives.
    pub parts: Vec<FindingPart>,
    /// Finding in words.
    #[serde(serialize_with = "plain")]
    pub sentence: String,
}

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Drive with queues that are too short for some of the jobs. Amount of its part: requests that the queues hold.
    ShortQueues,
    /// Drives whose memory is lost with the power, which are left out of the order of commits.
    Volatile,
    /// Drive alone: how long its requests take, and how many it serves. Amount of its part: requests a second.
    Result,
    /// Fastest drive. Amount of its part: time that it saves a request beside the next one, in the mean.
    Fastest,
    /// Fastest drive beside the slowest. First part: time that the first of its drives saves a request, in the mean. Other parts:
    /// the same time by cause, the largest first; a negative one is spent in return.
    Latency,
    /// Drives from the slowest to the fastest. A part for each: time that the first of its drives saves a request beside the
    /// second, and the largest cause.
    Steps,
    /// Drive with the most requests a second, then the drive with the fewest.
    Throughput,
    /// Resources that limit drives. A part for each resource, which is its cause; null if only latency limits the drives.
    Limit,
}

/// Size of the jobs that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingPlace {
    /// Bytes of a request; null if requests differ.
    pub bs: Option<u32>,
    /// Number of threads.
    pub numjobs: u32,
    /// Requests that each thread keeps in flight; null if threads differ.
    pub iodepth: Option<u32>,
}

/// Amount of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FindingPart {
    /// Drives that have it; of a difference the faster one first.
    pub drives: Vec<String>,
    /// Cause of the amount: stages of the ledger that belong together, or a resource.
    pub cause: Option<String>,
    /// Amount in `unit`; null if there is only a cause.
    pub amount: Option<f64>,
    /// Unit of the amount.
    pub unit: Option<FindingUnit>,
}

/// Unit of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FindingUnit {
    /// Nanoseconds a request.
    #[serde(rename = "ns")]
    Ns,
    /// Requests a second.
    #[serde(rename = "1/s")]
    PerS,
    /// Requests.
    #[serde(rename = "requests")]
    Requests,
}

impl FindingKind {
    /// True if findings of this kind answer the question of a run or a comparison, so that they are printed first.
    pub fn is_conclusion(self) -> bool {
        matches!(self, FindingKind::Result | FindingKind::Fastest | FindingKind::Throughput)
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
        FindingPart { drives, cause: cause.map(String::from), amount, unit }
    }
}

fn plain<S: Serializer>(sentence: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&sentence.replace(UNBROKEN, " "))
}
