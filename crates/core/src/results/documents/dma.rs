//! JSON document of `dma`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Description, OpName, TablePercentiles};

/// Latency and bandwidth with which a device reads and writes host memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaDocument {
    /// Seed of the addresses.
    pub seed: u64,
    /// Name of the device.
    pub device: String,
    /// Transfers that were measured.
    pub question: Option<DmaQuestion>,
    /// Results by size and direction.
    pub rows: Vec<DmaRow>,
    /// Sections of the device's description that have a part in transfers.
    pub description: Description,
}

/// Transfers of a measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaQuestion {
    /// Operation of a transfer.
    pub op: String,
    /// Part of host memory in which transfers begin, in bytes.
    pub window_bytes: u64,
    /// Transfers in flight when bandwidth is measured.
    pub outstanding: u32,
    /// Transfers that each figure counts.
    pub transfers: u64,
    /// True if the device's commands make transfers, without its DMA engine.
    pub direct: bool,
    /// CPU cache that has the data that are read; null for that of the device's description.
    pub cache: Option<String>,
    /// Node of the memory; null for that of the device's description.
    pub node: Option<String>,
    /// True if the host translates addresses; null if the device's description decides.
    pub iommu: Option<bool>,
}

/// Transfers of one size in one direction.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaRow {
    /// Size of a transfer, in bytes.
    pub bytes: u32,
    /// Direction of the data.
    pub direction: OpName,
    /// Mean latency of transfers one at a time, in ns.
    pub mean_ns: f64,
    /// Percentiles of the latency of transfers one at a time.
    #[serde(flatten)]
    pub percentiles: TablePercentiles,
    /// Longest latency of transfers one at a time, in ns.
    pub max_ns: f64,
    /// Bandwidth of many transfers at a time, in bytes a second.
    pub bytes_per_s: f64,
    /// Rate of many transfers at a time, in transfers a second.
    pub transfers_per_s: f64,
}
