//! JSON document of `trace-info`.

use schemars::JsonSchema;
use serde::Serialize;

use super::OpName;

/// JSON document of `phaselink trace-info`: statistics of a recorded block trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceInfoDocument {
    /// Path of the trace, as given on the command line.
    pub file: String,
    /// Format of the trace, by the name that `--trace-format` accepts.
    pub format: String,
    /// Recorded devices of the trace, by descending number of reads and writes.
    pub devices: Vec<TraceDevice>,
    /// Name of the recorded device whose requests the statistics cover; null for all devices.
    pub device: Option<String>,
    /// Number of reads and writes in the trace.
    pub requests: u64,
    /// Fraction of the trace's reads and writes that are reads, 0 to 1.
    pub read_share: f64,
    /// Number of bytes that the reads of the trace transfer.
    pub read_bytes: u64,
    /// Number of bytes that the writes of the trace transfer, writes of zeros included.
    pub written_bytes: u64,
    /// Time from the first to the last arrival of a request in the trace, in seconds.
    pub seconds: f64,
    /// Mean rate of the trace's reads and writes, in requests a second; null if all requests arrive at one instant.
    pub requests_per_s: Option<f64>,
    /// Number of reads and writes in the busiest second of the trace.
    pub busiest_second_requests: u64,
    /// Number of requests of the trace for each direction and size.
    pub sizes: Vec<SizedRequests>,
    /// Percentiles of the size of the trace's reads and writes.
    pub size_percentiles: Vec<SizePercentile>,
    /// Greatest common divisor of all offsets and sizes in the trace, in bytes.
    pub granule_bytes: u64,
    /// Fraction of the trace's reads and writes whose offset and size are multiples of 4 KiB, 0 to 1.
    pub aligned_4k_share: f64,
    /// Fraction of the trace's reads and writes that begin where one of the last sixteen requests to their device ends,
    /// 0 to 1.
    pub sequential_share: f64,
    /// Largest end of a read or write in the trace, as an offset on the device in bytes.
    pub end_bytes: u64,
    /// Number of distinct 4 KiB blocks that the trace reads or writes, and how often.
    pub footprint: TraceFootprint,
    /// Queue depth on the recorded device; null if the trace records neither completions nor response times.
    pub queue_depth: Option<TraceQueueDepth>,
    /// Records of the trace that are neither reads, writes nor flushes, counted by kind.
    pub left_out: Vec<LeftOutRecords>,
    /// Command line of phaselink that replays the trace; null if no drive can replay the trace.
    pub command: Option<String>,
    /// Notes in words about the command that replays the trace.
    pub notes: Vec<String>,
}

/// Recorded device of a block trace with its number of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceDevice {
    /// Name of the recorded device, as the trace spells the name.
    pub name: String,
    /// Number of reads and writes of the recorded device in the trace.
    pub requests: u64,
}

/// Number of requests of a block trace with one direction and one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizedRequests {
    /// Direction of the counted requests of the trace: read or write.
    pub op: OpName,
    /// Size of each counted request of the trace, in bytes.
    pub bytes: u32,
    /// Number of requests of the trace with this direction and size.
    pub requests: u64,
}

/// Percentile of the request size in a block trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizePercentile {
    /// Percentage of the trace's reads and writes whose size is at most this percentile.
    pub percent: u64,
    /// Smallest request size in bytes that at least `percent` per cent of the trace's reads and writes do not exceed.
    pub bytes: u32,
}

/// Footprint of a block trace: distinct 4 KiB blocks that its requests read or write, and accesses to each.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceFootprint {
    /// True if the footprint counts every block; false if the footprint is estimated from a sample of blocks.
    pub is_exact: bool,
    /// Size in bytes of all distinct 4 KiB blocks that the trace reads or writes.
    pub bytes: u64,
    /// Size in bytes of all distinct 4 KiB blocks that the trace reads at least once.
    pub read_bytes: u64,
    /// Size in bytes of all distinct 4 KiB blocks that the trace writes at least once.
    pub written_bytes: u64,
    /// Mean number of accesses to a 4 KiB block, over all blocks that the trace accesses.
    pub accesses_per_block: f64,
    /// Fraction of the accessed 4 KiB blocks that the trace accesses exactly once, 0 to 1.
    pub once_share: f64,
    /// Fraction of all block accesses of the trace that go to the busiest tenth of the accessed 4 KiB blocks, 0 to 1.
    pub busiest_tenth_share: f64,
}

/// Queue depth and response time on the recorded device of a block trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceQueueDepth {
    /// Mean number of requests in flight on the recorded device, over the time of the trace.
    pub mean: f64,
    /// Largest number of requests in flight on the recorded device; null unless the trace records both submissions to
    /// the driver and completions.
    pub most: Option<u64>,
    /// Mean response time of a request on the recorded device, in ns.
    pub response_ns: f64,
}

/// Number of records of one kind in a block trace that are neither reads, writes nor flushes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOutRecords {
    /// Kind of the left-out trace records, such as `discards`.
    pub kind: String,
    /// Number of left-out trace records of this kind.
    pub records: u64,
}
