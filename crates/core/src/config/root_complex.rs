//! Keys of a drive file that describe the root complex and the host memory behind it.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// The root complex and the host memory behind it, as the device sees them.
    pub struct RootComplex ("root_complex") {
        /// Place in which the device's reads find queues and commands: `cache` (last-level cache), `core` (lines that a
        /// core holds modified in a private cache) or `dram`; with `remote-` before it, in another socket
        placement => placement: Placement = Placement::Cache, any();
        /// Place in which the device's reads find the user data of writes, and in which the buffers of reads are: a
        /// value as for `root_complex.placement`
        data_placement => data_placement: Placement = Placement::Cache, any();
        /// Time of a device's read of a cache line that the last-level cache holds
        cache_read_ns => cache_read: Span = ns(100), ZERO..=LONGEST;
        /// Time of a device's read of a cache line that a core holds modified in a private cache; 0: as
        /// `root_complex.dram_read_ns`
        core_read_ns => core_read: Span = ZERO, ZERO..=LONGEST;
        /// Time of a device's read of a cache line from DRAM
        dram_read_ns => dram_read: Span = ns(160), ZERO..=LONGEST;
        /// Size of the host's last-level cache, in KiB, for the DMA transfers of `phaselink dma`, whose window of
        /// memory may exceed the cache; 0: the cache holds every window
        llc_kib => llc_kib: u32 = 0, 0..=4_194_304;
        /// Size of the part of the last-level cache that a device's writes may fill, in KiB (two of twenty ways on
        /// processors with Data Direct I/O); 0: as `root_complex.llc_kib`
        llc_io_kib => llc_io_kib: u32 = 0, 0..=4_194_304;
        /// Fraction of the device's reads of user data that find the data in DRAM instead of
        /// `root_complex.data_placement`
        data_cold_ratio => data_cold_ratio: f64 = 0.0, 0.0..=1.0;
        /// Extra time of a device's read or write of memory at another socket
        remote_ns => remote: Span = ns(100), ZERO..=LONGEST;
        /// Time from the arrival of a device's posted write to its data being visible to the cores
        write_ns => write: Span = ns(20), ZERO..=LONGEST;
        /// Time for which a device's posted write occupies the root complex's input and its flow-control credits
        write_accept_ns => write_accept: Span = ns(4), ZERO..=LONGEST;
        /// True if an IOMMU translates the addresses that the device uses
        iommu => iommu: bool = false, any();
        /// Number of translations that the IOMMU's cache (IOTLB) holds (measured: about 64; Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018)
        iommu_entries => iommu_entries: u16 = 64, 1..=4096;
        /// Page size of an IOMMU translation: 4 KiB, or 2 MiB if buffers are mapped once and as a whole
        iommu_page_kib => iommu_page_kib: u32 = 4, [4, 2048];
        /// Time of the IOMMU's page table walk for a page that its cache (IOTLB) does not hold (measured: 269 ns;
        /// Neugebauer et al., SIGCOMM 2018)
        iommu_walk_ns => iommu_walk: Span = ns(269), ZERO..=LONGEST;
        /// Number of page table walks that the IOMMU does at a time (derived from Neugebauer et al., SIGCOMM 2018: 19.2
        /// M misses a second are one in 52 ns, 269 / 52)
        iommu_walks => iommu_walks: u8 = 5, 1..=255;
        /// Time from one refresh of a DRAM rank of the host to the next; 0: no refresh
        refresh_interval_ns => refresh_interval: Span = ZERO, ZERO..=LONGEST;
        /// Duration of a refresh of the host's DRAM, during which the device's reads from DRAM wait
        refresh_ns => refresh: Span = ZERO, ZERO..=LONGEST;
        /// Fraction of the device's posted packets whose write into host memory is delayed by
        /// `root_complex.late_write_ns`
        late_write_ratio => late_write_ratio: f64 = 0.0, 0.0..=1.0;
        /// Delay of a device's posted write into host memory, for the fraction `root_complex.late_write_ratio` of the
        /// packets
        late_write_ns => late_write: Span = ns(300), ZERO..=LONGEST;
    }
    conditions [RootComplex::check_refresh]
}

impl RootComplex {
    /// Checks that a DRAM refresh is no longer than the interval between refreshes.
    fn check_refresh(&self) -> Option<BrokenCondition> {
        let (refresh, interval) = (self.refresh, self.refresh_interval);
        BrokenCondition::when(
            refresh > interval,
            &["root_complex.refresh_ns", "root_complex.refresh_interval_ns"],
            format!(
                "root_complex.refresh_ns is {} with root_complex.refresh_interval_ns {}",
                refresh.as_ns(),
                interval.as_ns()
            ),
            String::from("a refresh no longer than the interval"),
        )
    }
}

/// Location in the host where the device's reads of host memory find the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Last-level cache of the device's own socket.
    Cache,
    /// Modified line in the private cache of a core of the device's own socket.
    Core,
    /// DRAM of the device's own socket.
    Dram,
    /// Last-level cache of another socket.
    RemoteCache,
    /// Modified line in the private cache of a core of another socket.
    RemoteCore,
    /// DRAM of another socket.
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
    /// Returns this kind of location (cache, core or DRAM) on another socket if `is_remote`, else on the device's own
    /// socket.
    pub fn on_device_or_remote_socket(self, is_remote: bool) -> Placement {
        match (self, is_remote) {
            (Placement::Cache | Placement::RemoteCache, false) => Placement::Cache,
            (Placement::Core | Placement::RemoteCore, false) => Placement::Core,
            (Placement::Dram | Placement::RemoteDram, false) => Placement::Dram,
            (Placement::Cache | Placement::RemoteCache, true) => Placement::RemoteCache,
            (Placement::Core | Placement::RemoteCore, true) => Placement::RemoteCore,
            (Placement::Dram | Placement::RemoteDram, true) => Placement::RemoteDram,
        }
    }

    /// True if the location is on another socket than the device's.
    pub fn is_remote(self) -> bool {
        self == self.on_device_or_remote_socket(true)
    }
}
