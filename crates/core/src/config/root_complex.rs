//! Keys of the root complex and the memory behind it.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// The root complex and the memory behind it, as the device sees them.
    pub struct RootComplex ("root_complex") {
        /// Where the device's reads of rings and commands hit: `cache`, `dram`, `remote-cache` or `remote-dram`
        placement => placement: Placement = Placement::Cache, any();
        /// Read of a line that the last-level cache holds
        cache_read_ns => cache_read: Span = ns(100), ZERO..=LONGEST;
        /// Read of a line from DRAM
        dram_read_ns => dram_read: Span = ns(160), ZERO..=LONGEST;
        /// What a remote socket adds to a read or write
        remote_ns => remote: Span = ns(100), ZERO..=LONGEST;
        /// Time from a posted write's arrival to its data being visible to the cores
        write_ns => write: Span = ns(20), ZERO..=LONGEST;
        /// Time for which a posted write occupies the ingress, and with it its credits
        write_accept_ns => write_accept: Span = ns(4), ZERO..=LONGEST;
        /// Whether device addresses are translated by an IOMMU
        iommu => iommu: bool = false, any();
        /// Share of accesses whose translation misses in the IOMMU's cache
        iommu_miss_ratio => iommu_miss_ratio: f64 = 0.0, 0.0..=1.0;
        /// Page walk of such a miss
        iommu_miss_ns => iommu_miss: Span = ns(300), ZERO..=LONGEST;
        /// Time from one refresh of a rank of DRAM to the next, or 0 for none
        refresh_interval_ns => refresh_interval: Span = ZERO, ZERO..=LONGEST;
        /// Length of a refresh, which the device's reads from DRAM wait for
        refresh_ns => refresh: Span = ZERO, ZERO..=LONGEST;
        /// Share of posted packets whose write into memory is held up
        late_write_ratio => late_write_ratio: f64 = 0.0, 0.0..=1.0;
        /// For how long such a write is held up
        late_write_ns => late_write: Span = ns(300), ZERO..=LONGEST;
    }
}

/// Where the device's reads of host memory are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Cache,
    Dram,
    RemoteCache,
    RemoteDram,
}

names! { Placement { "cache" => Cache, "dram" => Dram, "remote-cache" => RemoteCache, "remote-dram" => RemoteDram } }
