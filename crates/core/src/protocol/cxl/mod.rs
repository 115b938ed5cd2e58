//! CXL.mem: a memory that the processor reads and writes with loads and stores (CXL in the comments of this folder:
//! Compute Express Link Specification, revision 3.1).
//!
//! ```text
//!       host                          link                          device
//!   core: loads, as many lines of 64 B as it has fill buffers
//!        |---- MemRd (a slot) ------------------------------------>| controller
//!        |                                                         | buffer of units, media
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
//! There is no driver, no queue and no interrupt. A request of N bytes is N / 64 lines, and takes as long as the last of
//! them. What messages take on the wire follows from the slots that they fill (CXL, section 4.2): the preset of the link
//! does that arithmetic. Credits and acknowledgements ride in the headers of flits.

mod buffer;
pub mod config;
pub mod device;
pub mod driver;

use config::Cxl;

use super::halves::Protocol;
use super::roles::roles;
use crate::config::{Acknowledge, Wait};
use crate::drive::{Drive, Interface};
use crate::memory::HostMemory;
use crate::problem::BrokenCondition;
use crate::shared::Shared;
use crate::time::Span;
use crate::workload::Limits;

pub use buffer::Buffer;
pub use device::Device;
pub use device::Device as Controller;
pub use driver::Driver;
pub(crate) mod form;

/// Bytes of a line, which one message carries (CXL, section 3.3.1).
pub const LINE_BYTES: u32 = 64;

impl Protocol for Cxl {
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the device's buffer",
        }
    }

    fn title(&self) -> &'static str {
        "CXL.mem"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    /// Returns false: loads hold a core's fill buffers while their lines wait for banks that stores occupy.
    fn foresees_mixes(&self) -> bool {
        false
    }

    /// Returns the limits of queues and memory. Lines beyond the fill buffers wait in the core.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: 1 << 16,
            transfer_bytes: LINE_BYTES,
            ..Limits::new(drive.media.capacity_bytes(), LINE_BYTES)
        }
    }

    /// Returns the violated conditions. A core that loads can do nothing else until the line is there.
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
        let stream = BrokenCondition::when(
            self.prefetch_lines > 0 && u32::from(self.fill_buffers) < config::STREAM_LINES,
            &["cxl.prefetch_lines", "cxl.fill_buffers"],
            format!("cxl.prefetch_lines is {} with cxl.fill_buffers {}", self.prefetch_lines, self.fill_buffers),
            format!("cxl.fill_buffers of {} at least: so many lines show a stream", config::STREAM_LINES),
        );
        sleeps.into_iter().chain(engine).chain(stream).collect()
    }

    fn waiting(&self, _drive: &Drive) -> Option<String> {
        Some(String::from("loads and stores"))
    }

    /// Returns zero: a load returns by itself.
    fn poll(&self, _drive: &Drive) -> Span {
        Span::ZERO
    }

    fn packet_bytes(&self, _drive: &Drive) -> u32 {
        LINE_BYTES
    }
}

/// Contents of a flush: the bytes of the request that it ends. It is assumed that the store to the hint's address names
/// them, so that other requests need not write half-filled units for it; ACPI's hint flushes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// First byte of the request on the device.
    pub offset: u64,
    /// Length of the request in bytes.
    pub bytes: u32,
}

impl Flush {
    /// Returns the line that is stored for the flush.
    pub fn encode(&self) -> [u8; LINE_BYTES as usize] {
        let mut line = [0; LINE_BYTES as usize];
        line[..8].copy_from_slice(&self.offset.to_le_bytes());
        line[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        line
    }

    /// Returns the flush that a stored line holds.
    pub fn decode(line: &[u8]) -> Flush {
        let mut offset = [0; 8];
        let mut bytes = [0; 4];
        offset.copy_from_slice(&line[..8]);
        bytes.copy_from_slice(&line[8..12]);
        Flush { offset: u64::from_le_bytes(offset), bytes: u32::from_le_bytes(bytes) }
    }
}

/// Returns the processor's side and the device.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Device) {
    (Driver::new(drive, memory), Device::new(drive))
}

roles! {
    /// Role of a packet.
    from 0;
    READ = "MemRd",
    DATA = "MemData",
    WRITE = "MemWr",
    DONE = "Cmp",
    FLUSH = "MemWr flush",
    FLUSHED = "Cmp",
}
