//! Keys of section `cxl` of drive files: cores, device and DRAM cache of CXL.mem.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::request::DataDirection;
use crate::time::Span;

/// Hands the list of replacement policies to a macro. A new policy is one file in `cache/` and one line here.
macro_rules! policies {
    ($with:ident) => {
        $with! {
            lru: Lru = "lru", "Replaces the page that has not been accessed for the longest time.";
            fifo: FirstInFirstOut = "fifo", "Replaces the page that was admitted first.";
            clock: Clock = "clock", "Replaces the oldest page that has not been accessed since the hand last passed it.";
            s3_fifo: S3Fifo = "s3-fifo", "Replaces first what is admitted to a small queue and not accessed there again.";
            lifo: Lifo = "lifo", "Replaces the page that was admitted last.";
        }
    };
}
pub(super) use policies;

macro_rules! cache_policy {
    ($($module:ident: $Policy:ident = $name:literal, $about:literal;)+) => {
        /// Replacement policy of a CXL device's DRAM cache: the rule that chooses the page to evict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CachePolicy {
            $(#[doc = $about] $Policy,)+
        }

        names! { CachePolicy { $($name => $Policy,)+ } }

        impl CachePolicy {
            /// All replacement policies of the DRAM cache, in the order in which they are listed.
            pub const ALL: &[CachePolicy] = &[$(CachePolicy::$Policy,)+];
        }
    };
}
policies!(cache_policy);

/// Content of a CXL device's DRAM cache at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStart {
    /// The device's DRAM cache starts empty.
    Empty,
    /// The cache starts with the device's first pages, which the memory has too.
    Clean,
    /// The cache starts with the device's first pages, all of which must be written back before they are replaced.
    Dirty,
}

names! { CacheStart { "empty" => Empty, "clean" => Clean, "dirty" => Dirty } }

section! {
    /// CXL.mem: loads and stores of the host's cores to a memory expander (Compute Express Link Specification).
    pub struct Cxl ("cxl") {
        /// Number of line fill buffers of a core: cache lines of 64 bytes that the core may have in flight to the CXL
        /// device
        fill_buffers => fill_buffers: u16 = 16, 1..=256;
        /// Number of cache lines that a core's prefetchers may have in flight beyond its fill buffers. Only lines of a
        /// read from its third line on are prefetched, as two consecutive lines show a stream
        prefetch_lines => prefetch_lines: u16 = 0, 0..=256;
        /// Processor time to issue the loads or stores of one cache line to the CXL device
        issue_ns => issue: Span = ns(1), ZERO..=LONGEST;
        /// Time of a CXL message in the device's port and controller, both ways together, without buffer and memory
        controller_ns => controller: Span = ns(40), ZERO..=LONGEST;
        /// Number of bytes that the CXL device reads from its memory, or writes to its memory, at once; for a device
        /// with a DRAM cache, the size of a cache page
        unit_bytes => unit_bytes: u32 = 256, [64, 128, 256, 512, 1024, 2048, 4096];
        /// Number of units that the CXL device's buffer holds for reads, and also for writes; the buffer is within the
        /// persistence domain. For a device with a DRAM cache: pages in flight from cache to memory
        buffer_units => buffer_units: u32 = 64, 1..=65536;
        /// Capacity of the CXL device's DRAM cache in front of its memory, in MiB; 0: no cache
        cache_mib => cache_mib: u64 = 0, 0..=1_048_576;
        /// Replacement policy of the CXL device's DRAM cache: the rule that chooses the page to evict
        cache_policy => cache_policy: CachePolicy = CachePolicy::Lru, any(), with cache_mib;
        /// Time of a load that hits the CXL device's DRAM cache, in the DRAM itself (OpenCXD, arXiv 2508.11477: 150 ns)
        cache_ns => cache: Span = ns(150), ZERO..=LONGEST, with cache_mib;
        /// Number of pages that the CXL device reads ahead into its DRAM cache, for loads that go from one page to the
        /// next
        cache_prefetch_pages => cache_prefetch_pages: u16 = 0, 0..=256, with cache_mib;
        /// Content of the CXL device's DRAM cache at the start of a run: `empty`, or the first pages of the device:
        /// `clean`, or all with changes to be written back (`dirty`)
        cache_start => cache_start: CacheStart = CacheStart::Clean, any(), with cache_mib;
    }
    conditions [Cxl::check_stream, Cxl::check_prefetched_pages]
}

impl Cxl {
    /// Checks that a core has enough fill buffers for the lines that show a stream, if it prefetches streams.
    fn check_stream(&self) -> Option<BrokenCondition> {
        BrokenCondition::when(
            self.prefetch_lines > 0 && u32::from(self.fill_buffers) < STREAM_LINES,
            &["cxl.prefetch_lines", "cxl.fill_buffers"],
            format!("cxl.prefetch_lines is {} with cxl.fill_buffers {}", self.prefetch_lines, self.fill_buffers),
            format!("cxl.fill_buffers of {STREAM_LINES} at least: so many lines show a stream"),
        )
    }

    /// Checks that the pages which the device reads ahead take no more than half of its DRAM cache.
    fn check_prefetched_pages(&self) -> Option<BrokenCondition> {
        BrokenCondition::when(
            self.has_cache() && u32::from(self.cache_prefetch_pages) > self.cache_pages() / 2,
            &["cxl.cache_prefetch_pages", "cxl.cache_mib", "cxl.unit_bytes"],
            format!(
                "cxl.cache_prefetch_pages is {} with a cache of {} pages",
                self.cache_prefetch_pages,
                self.cache_pages()
            ),
            String::from("no more than half of the cache's pages"),
        )
    }

    /// True if the device has a DRAM cache in front of its memory.
    pub fn has_cache(&self) -> bool {
        self.cache_mib > 0
    }

    /// Returns the size of the device's DRAM cache in pages of `cxl.unit_bytes`.
    pub fn cache_pages(&self) -> u32 {
        let pages = (self.cache_mib << 20) / u64::from(self.unit_bytes);
        pages.try_into().unwrap_or(u32::MAX)
    }

    /// Returns the most lines that a core may have in flight for a read or write of `lines` lines. There is one in each
    /// fill buffer, and for long reads one in each prefetcher.
    pub fn most_lines_in_flight(&self, direction: DataDirection, lines: u32) -> u32 {
        let prefetched = direction == DataDirection::Read && lines > STREAM_LINES;
        u32::from(self.fill_buffers) + if prefetched { self.prefetch_lines.into() } else { 0 }
    }
}

/// Number of consecutive lines that a core loads before its prefetchers request the next ones (assumed: two misses).
pub const STREAM_LINES: u32 = 2;
