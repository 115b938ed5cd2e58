//! Keys of the root complex and the memory behind it.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// The root complex and the memory behind it, as the device sees them.
    pub struct RootComplex ("root_complex") {
        /// Where the device's reads of rings and commands hit: `cache` (the last-level cache), `core` (lines that a core holds modified in a cache of its own), `dram`, or the same of another socket with `remote-` before it
        placement => placement: Placement = Placement::Cache, any();
        /// The same for user data: the buffers that applications have filled for writes, and where those of reads lie
        data_placement => data_placement: Placement = Placement::Cache, any();
        /// Read of a line that the last-level cache holds
        cache_read_ns => cache_read: Span = ns(100), ZERO..=LONGEST;
        /// Read of a line that a core holds modified in a cache of its own, or 0 for as long as from DRAM
        core_read_ns => core_read: Span = ZERO, ZERO..=LONGEST;
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
        /// Translations that the IOMMU's cache holds (measured: about 64; Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018)
        iommu_entries => iommu_entries: u16 = 64, 1..=4096;
        /// Page of a translation: 4 KiB, or 2 MiB where buffers are mapped once and whole
        iommu_page_kib => iommu_page_kib: u32 = 4, [4, 2048];
        /// Walk of the page table for a page that the cache does not hold (measured: 269 ns, same source)
        iommu_walk_ns => iommu_walk: Span = ns(269), ZERO..=LONGEST;
        /// Walks that go on at a time (derived from the same source: 19.2 M misses a second are one in 52 ns, 269 / 52)
        iommu_walks => iommu_walks: u8 = 5, 1..=255;
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
    Core,
    Dram,
    RemoteCache,
    RemoteCore,
    RemoteDram,
}

names! {
    Placement {
        "cache" => Cache,
        "core" => Core,
        "dram" => Dram,
        "remote-cache" => RemoteCache,
        "remote-core" => RemoteCore,
        "remote-dram" => RemoteDram,
    }
}

impl Placement {
    /// The same on the socket at which the device is, or on another.
    pub fn on_socket(self, is_remote: bool) -> Placement {
        match (self, is_remote) {
            (Placement::Cache | Placement::RemoteCache, false) => Placement::Cache,
            (Placement::Core | Placement::RemoteCore, false) => Placement::Core,
            (Placement::Dram | Placement::RemoteDram, false) => Placement::Dram,
            (Placement::Cache | Placement::RemoteCache, true) => Placement::RemoteCache,
            (Placement::Core | Placement::RemoteCore, true) => Placement::RemoteCore,
            (Placement::Dram | Placement::RemoteDram, true) => Placement::RemoteDram,
        }
    }

    /// Whether it is another socket's.
    pub fn is_remote(self) -> bool {
        self == self.on_socket(true)
    }
}
