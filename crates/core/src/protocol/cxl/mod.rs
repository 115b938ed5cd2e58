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
pub(crate) mod form;

pub use buffer::Buffer;

use crate::drive::Drive;
use crate::shared::Shared;

/// Bytes of a line: what one message carries (CXL, section 3.3.1).
pub const LINE_BYTES: u32 = 64;

/// The processor's side and the device.
pub fn connect(drive: &Drive, shared: &mut Shared) -> (driver::Driver, device::Device) {
    (driver::Driver::new(drive, shared), device::Device::new(drive))
}

/// What a packet is, in [`crate::tlp::Token::role`].
pub mod role {
    use crate::protocol::nvme;

    /// Behind those of the other protocols.
    pub const READ: u8 = 5 * nvme::role::END;
    pub const DATA: u8 = READ + 1;
    pub const WRITE: u8 = READ + 2;
    pub const DONE: u8 = READ + 3;
}
