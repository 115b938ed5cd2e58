//! JSON document of `dma`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ByName, Description, OpName, TablePercentiles, TailResult};

/// JSON document of `phaselink dma`: latency and bandwidth with which a PCI Express device reads and writes host
/// memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaDocument {
    /// Seed of the random addresses of measured DMA transfers.
    pub seed: u64,
    /// Name of the device whose DMA transfers are measured.
    pub device: String,
    /// Parameters of the measured DMA transfers, such as direction and number in flight; null if no size was measured.
    pub question: Option<DmaQuestion>,
    /// Latency and bandwidth of DMA transfers, one row for each transfer size and direction.
    pub rows: Vec<DmaRow>,
    /// Sections of the device's description that affect its DMA transfers, with every key resolved.
    pub description: Description,
}

/// Parameters of the DMA transfers that `phaselink dma` measures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaQuestion {
    /// Operation of the measured DMA transfers on host memory: `read`, `write`, `both`, or `write-read`.
    pub op: String,
    /// Size in bytes of the window of host memory in which measured DMA transfers begin, at random cache lines.
    pub window_bytes: u64,
    /// Number of DMA transfers that the device keeps in flight while bandwidth is measured; latency is measured with
    /// one.
    pub outstanding: u32,
    /// Number of DMA transfers over which each latency and each bandwidth is measured.
    pub transfers: u64,
    /// True if commands of the device make the measured transfers without its DMA engine.
    pub direct: bool,
    /// Cache state of the data that DMA transfers read: `warm`, `cold` or `device-written`; null if the device's
    /// description decides.
    pub cache: Option<String>,
    /// NUMA node of the host memory in DMA transfers: `local` or `remote`, as seen from the device; null if the
    /// device's description decides.
    pub node: Option<String>,
    /// True if an IOMMU translates the addresses of DMA transfers, false if none does; null if the device's description
    /// decides.
    pub iommu: Option<bool>,
}

/// Latency and bandwidth of DMA transfers of one size in one direction.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DmaRow {
    /// Size of each measured DMA transfer, in bytes.
    pub bytes: u32,
    /// Direction of measured DMA transfers: reads or writes of host memory by the device. A `write-read` pair counts as
    /// a read.
    pub direction: OpName,
    /// Mean latency of DMA transfers with one transfer in flight, in ns.
    pub mean_ns: f64,
    /// Latency percentiles of DMA transfers with one transfer in flight, in ns.
    #[serde(flatten)]
    pub percentiles: TablePercentiles,
    /// Percentiles of DMA transfers from p99 on with one transfer in flight, each with its 95 % confidence interval, or
    /// with the number of transfers that it needs.
    pub tails: ByName<TailResult>,
    /// Largest latency of a DMA transfer with one transfer in flight, in ns.
    pub max_ns: f64,
    /// Bandwidth of DMA transfers with `outstanding` transfers in flight, in bytes a second.
    pub bytes_per_s: f64,
    /// Rate of DMA transfers with `outstanding` transfers in flight, in transfers a second.
    pub transfers_per_s: f64,
}
