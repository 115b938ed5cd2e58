//! JSON document of `trace-info`.

use schemars::JsonSchema;
use serde::Serialize;

use super::OpName;

/// Contents of a block trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceInfoDocument {
    /// File of the trace.
    pub file: String,
    /// Format of the trace, as `--trace-format` takes it.
    pub format: String,
    /// Devices of the trace.
    pub devices: Vec<TraceDevice>,
    /// Device that the figures are about; null for all.
    pub device: Option<String>,
    /// Number of reads and writes.
    pub requests: u64,
    /// Share of reads in the requests, 0 to 1.
    pub read_share: f64,
    /// Bytes that requests read.
    pub read_bytes: u64,
    /// Bytes that requests write.
    pub written_bytes: u64,
    /// Time from the first request to the last, in seconds.
    pub seconds: f64,
    /// Mean number of requests a second; null if the trace takes no time.
    pub requests_per_s: Option<f64>,
    /// Number of requests in the busiest second.
    pub busiest_second_requests: u64,
    /// Requests by direction and size.
    pub sizes: Vec<SizedRequests>,
    /// Percentiles of the sizes of requests.
    pub size_percentiles: Vec<SizePercentile>,
    /// Largest number of bytes that divides all offsets and sizes.
    pub granule_bytes: u64,
    /// Share of requests that begin and end at a multiple of 4 KiB, 0 to 1.
    pub aligned_4k_share: f64,
    /// Share of requests that begin where the one before ends, 0 to 1.
    pub sequential_share: f64,
    /// End of the last byte that is touched, in bytes.
    pub end_bytes: u64,
    /// Blocks that are touched.
    pub footprint: TraceFootprint,
    /// Requests in flight; null if the trace has no completion times.
    pub queue_depth: Option<TraceQueueDepth>,
    /// Records that are neither reads nor writes.
    pub left_out: Vec<LeftOutRecords>,
    /// Command that replays the trace; null if none can.
    pub command: Option<String>,
    /// Notes on the command.
    pub notes: Vec<String>,
}

/// Device of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceDevice {
    /// Name of the device in the trace.
    pub name: String,
    /// Number of its requests.
    pub requests: u64,
}

/// Requests of one direction and size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizedRequests {
    /// Direction of the requests.
    pub op: OpName,
    /// Size of a request, in bytes.
    pub bytes: u32,
    /// Number of requests.
    pub requests: u64,
}

/// Percentile of the sizes of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizePercentile {
    /// Per cent of the requests.
    pub percent: u64,
    /// Size that these requests do not exceed, in bytes.
    pub bytes: u32,
}

/// Blocks that requests of a trace touch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceFootprint {
    /// True if every block was counted, false if a sample was.
    pub is_exact: bool,
    /// Bytes that are touched.
    pub bytes: u64,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Bytes that are written.
    pub written_bytes: u64,
    /// Mean number of accesses to a block that is touched.
    pub accesses_per_block: f64,
    /// Share of blocks that are touched once, 0 to 1.
    pub once_share: f64,
    /// Share of accesses that go to the busiest tenth of the blocks, 0 to 1.
    pub busiest_tenth_share: f64,
}

/// Requests in flight of a trace with completion times.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceQueueDepth {
    /// Mean number of requests in flight.
    pub mean: f64,
    /// Largest number of requests in flight; null if it is unknown.
    pub most: Option<u64>,
    /// Mean response time, in ns.
    pub response_ns: f64,
}

/// Records of a trace that are neither reads nor writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOutRecords {
    /// Kind of record.
    pub kind: String,
    /// Number of records.
    pub records: u64,
}
