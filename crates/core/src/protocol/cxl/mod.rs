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
//!   core: the fence may pass
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
use crate::config::Wait;
use crate::drive::{Drive, Interface};
use crate::problem::Broken;
use crate::shared::Shared;
use crate::time::Span;
use crate::workload::Limits;

pub use buffer::Buffer;
pub use device::Device;
pub use device::Device as Controller;
pub use driver::Driver;
pub(crate) mod form;

/// Bytes of a line: what one message carries (CXL, section 3.3.1).
pub const LINE_BYTES: u32 = 64;

impl Protocol for Cxl {
    fn title(&self) -> &'static str {
        "CXL.mem"
    }

    /// Lines beyond the fill buffers wait in the core.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            capacity_bytes: drive.media.capacity_mib << 20,
            queue_pairs: 1,
            queue_entries: 1 << 16,
            block_bytes: LINE_BYTES,
            write_block_bytes: LINE_BYTES,
        }
    }

    /// A core that loads can do nothing else until the line is there.
    fn broken(&self, drive: &Drive) -> Vec<Broken> {
        let sleeps = Broken::when(
            drive.interface == Interface::Cxl && drive.host.wait != Wait::Spin,
            &["host.wait", "interface"],
            || String::from("interface is \"cxl\" with a host.wait that is not \"spin\""),
            || String::from("host.wait = \"spin\": a core waits for its loads"),
        );
        sleeps.into_iter().collect()
    }

    fn waiting(&self, _drive: &Drive) -> Option<String> {
        Some(String::from("loads and stores"))
    }

    /// A load returns by itself.
    fn poll(&self, _drive: &Drive) -> Span {
        Span::ZERO
    }

    fn packet_bytes(&self, _drive: &Drive) -> u32 {
        LINE_BYTES
    }
}

/// The processor's side and the device.
pub fn connect(drive: &Drive, _seed: u64, shared: &mut Shared) -> (Driver, Device) {
    (Driver::new(drive, shared), Device::new(drive))
}

roles! {
    /// What a packet is.
    from 0;
    READ = "MemRd",
    DATA = "MemData",
    WRITE = "MemWr",
    DONE = "Cmp",
}
