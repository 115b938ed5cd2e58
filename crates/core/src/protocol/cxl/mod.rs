//! CXL.mem: a memory expander that the processor accesses with loads and stores (CXL in the comments of this folder:
//! Compute Express Link Specification, revision 3.1).
//!
//! ```text
//!       host                          link                          device
//!   core: loads, as many lines of 64 B as it has fill buffers
//!        |---- MemRd (a slot) ------------------------------------>| controller
//!        |                                                         | buffer of units or cache of pages, media
//!        |<--- MemData (a header, four slots of data) -------------|
//!   core: the line is there, its fill buffer takes the next
//!
//!   core: stores, pushed out of the caches
//!        |---- MemWr (a slot, four slots of data) ---------------->| controller
//!        |                                                         | buffer of units: persistent, media later
//!        |<--- Cmp (half a slot) ----------------------------------|
//!   core: the fence may pass, if what is in the buffer counts as written (acknowledge = "early"); otherwise it asks for a
//!         deep flush, a store to the address that the firmware gives for it (ACPI 6.5, section 5.2.25.9, flush hints)
//!        |---- MemWr (what is to be flushed) --------------------->| controller, buffer, cells
//!        |<--- Cmp ------------------------------------------------|
//! ```
//!
//! There is no driver, no queue and no interrupt. A request of N bytes is N / 64 lines, and completes with the last of
//! them. The time of a message on the wire follows from the slots that it fills (CXL, section 4.2): the preset of the
//! link does that arithmetic. Credits and acknowledgements travel in the headers of flits.

mod buffer;
pub mod cache;
pub mod config;
pub mod device;
pub mod driver;
pub mod fetched;
pub mod memory;

use config::{CacheStart, Cxl};

use super::halves::Protocol;
use super::roles::roles;
use crate::config::{Acknowledge, Wait};
use crate::drive::{Drive, Interface};
use crate::memory::HostMemory;
use crate::number::index;
use crate::problem::BrokenCondition;
use crate::shared::Shared;
use crate::time::Span;
use crate::workload::Limits;

pub use buffer::Buffer;
pub use cache::CxlPageCache;
pub use device::Device;
pub use device::Device as Controller;
pub use driver::Driver;
pub use memory::CxlDeviceMemory;
pub(crate) mod form;

/// Size in bytes of a cache line, which one message carries (CXL, section 3.3.1).
pub const LINE_BYTES: u32 = 64;

impl Protocol for Cxl {
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            _ if self.has_cache() => "in the device's cache",
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the device's buffer",
        }
    }

    /// True if the device acknowledges stores before they are in the cells. Always true with a DRAM cache, which holds
    /// stored lines whatever the memory behind it does.
    fn acknowledges_early(&self, drive: &Drive) -> bool {
        self.has_cache() || drive.media.acknowledges_early()
    }

    fn title(&self) -> &'static str {
        "CXL.mem"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    fn is_routed_by_port(&self) -> bool {
        true
    }

    /// Returns false: the throughput of a mix does not follow from single resources. Loads hold a core's fill buffers
    /// while their lines wait for banks that stores occupy.
    fn foresees_mixes(&self) -> bool {
        false
    }

    /// True if the device has a DRAM cache, whose misses reach processors and flash like requests of other controllers.
    fn foresees_inside(&self) -> bool {
        self.has_cache()
    }

    /// True for flash, unless the device has a DRAM cache that begins clean or empty. Behind such a cache, stores reach
    /// the write buffer of the flash only once all pages of the cache have been replaced.
    fn has_steady_state(&self, drive: &Drive) -> bool {
        drive.is_flash() && (!self.has_cache() || self.cache_start == CacheStart::Dirty)
    }

    /// Returns the limits of queues and memory of a CXL.mem device. Lines that find no free fill buffer wait in their
    /// core.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: 1 << 16,
            transfer_bytes: LINE_BYTES,
            ..Limits::new(drive.media.capacity_bytes(), LINE_BYTES)
        }
    }

    /// Returns the violated conditions on the keys of section `cxl`. Among them: cores must spin, as a core that loads
    /// can do nothing else until the line has arrived.
    fn broken(&self, drive: &Drive) -> Vec<BrokenCondition> {
        let sleeps = BrokenCondition::when(
            drive.interface == Interface::Cxl && drive.host.wait != Wait::Spin,
            &["host.wait", "interface"],
            String::from("interface is \"cxl\" with a host.wait that is not \"spin\""),
            String::from("host.wait = \"spin\": a core waits for its loads"),
        );
        let engine = BrokenCondition::when(
            drive.interface == Interface::Cxl && drive.dma.is_there(),
            &["dma.descriptor_ns", "dma.from_host_ns", "dma.to_host_ns", "dma.piece_ns", "dma.fetch_ns", "interface"],
            String::from("interface is \"cxl\" with a DMA engine"),
            String::from("no section [dma]: the processor loads and stores"),
        );
        let large = BrokenCondition::when(
            drive.interface == Interface::Cxl && self.cache_mib > drive.media.capacity_mib,
            &["cxl.cache_mib", "media.capacity_mib"],
            format!("cxl.cache_mib is {} with media.capacity_mib {}", self.cache_mib, drive.media.capacity_mib),
            String::from("a cache that is no larger than the memory behind it"),
        );
        sleeps.into_iter().chain(engine).chain(large).collect()
    }

    fn wait_description(&self, _drive: &Drive) -> Option<String> {
        Some(String::from("loads and stores"))
    }

    /// Returns zero: a load returns with its line, so that no core has to poll.
    fn poll(&self, _drive: &Drive) -> Span {
        Span::ZERO
    }

    fn packet_bytes(&self, _drive: &Drive) -> u32 {
        LINE_BYTES
    }
}

/// Range of bytes that a deep flush makes durable: those of the request that the flush ends. It is assumed that the
/// store to the flush hint's address names them, so that other requests need not write half-filled units for it. ACPI's
/// hint flushes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// First byte on the device of the request that the flush makes durable.
    pub offset: u64,
    /// Length in bytes of the request that the flush makes durable.
    pub bytes: u32,
}

impl Flush {
    /// Returns the encoded flush, as the line that a store carries to the device.
    pub fn encode(&self) -> [u8; index(LINE_BYTES)] {
        let mut line = [0; index(LINE_BYTES)];
        line[..8].copy_from_slice(&self.offset.to_le_bytes());
        line[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        line
    }

    /// Decodes a flush from the line that a store has carried to the device.
    pub fn decode(line: &[u8]) -> Flush {
        let mut offset = [0; 8];
        let mut bytes = [0; 4];
        offset.copy_from_slice(&line[..8]);
        bytes.copy_from_slice(&line[8..12]);
        Flush { offset: u64::from_le_bytes(offset), bytes: u32::from_le_bytes(bytes) }
    }
}

/// Returns the driver (loads and stores of all cores) and the controller (memory expander) of a CXL.mem device.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Device) {
    (Driver::new(drive, memory), Device::new(drive))
}

roles! {
    /// Role of a CXL.mem message: request of a line, its data, store, flush, or completion of either.
    from 0;
    READ = "MemRd",
    DATA = "MemData",
    WRITE = "MemWr",
    DONE = "Cmp",
    FLUSH = "MemWr flush",
    FLUSHED = "Cmp",
}
