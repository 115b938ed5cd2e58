//! DC Express, a protocol in which the endpoint polls the host's command queue by reads, and the data itself completes
//! a read (Vučinić et al., FAST 2014).
//!
//! ```text
//!       host                          link                          device
//!        |<--- queue read ----------------------------------------| (always one in flight)
//!        |---- empty ---------------------------------------------->|
//!   mark tags, command into ring
//!        |<--- queue read ----------------------------------------|
//!        |---- command -------------------------------------------->| parse
//!        |                                                          | media
//!        |<--- data packets, any order -----------------------------|
//!   last tag gone? all tags gone?
//! ```
//!
//! Reads need no doorbell, no completion queue entry and no interrupt. Writes take the NVMe path, as in the paper.

pub mod config;
pub mod driver;
pub mod endpoint;
pub(crate) mod form;
pub mod predict;
mod queue_reads;
mod trailers;
mod window;

use config::DcExpress;

use super::halves::{Attachment, Protocol};
use super::nvme;
use super::roles::roles;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::number::{low_u8, low_u16};
use crate::problem::BrokenCondition;
use crate::shared::Shared;
use crate::workload::Limits;

pub use driver::Driver;
pub use endpoint::Endpoint;
pub use endpoint::Endpoint as Controller;

impl Protocol for DcExpress {
    fn title(&self) -> &'static str {
        "DC Express"
    }

    /// Returns the names of the messages of DC Express and of NVMe, which carries the writes.
    fn messages(&self) -> Vec<&'static str> {
        Role::messages().chain(nvme::config::Nvme::default().messages()).collect()
    }

    /// Returns the limits of queues and memory of a DC Express drive: the smaller limit of each protocol, as writes are
    /// NVMe commands. Offsets and lengths of reads are in units of four bytes.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_pairs: drive.nvme.queue_pairs.min(self.queue_pairs.into()),
            queue_entries: drive.nvme.queue_entries.min(self.queue_entries),
            write_block_bytes: drive.nvme.block_bytes,
            transfer_bytes: drive.nvme.max_transfer_kib * 1024,
            queue_keys: "queue_pairs or queue_entries, both of [nvme] and [dc_express]",
            ..Limits::new(drive.media.capacity_bytes(), 4)
        }
    }

    fn broken(&self, _drive: &Drive) -> Vec<BrokenCondition> {
        [self.broken_fetch(), self.broken_polls()].into_iter().flatten().collect()
    }

    fn no_interrupts(&self) -> Option<&'static str> {
        Some("interface is \"dc-express\", which has no interrupts")
    }

    fn builds_on(&self) -> Option<&'static str> {
        Some("nvme")
    }

    fn attaches(&self, attachment: Attachment) -> bool {
        attachment == Attachment::SharedMemory
    }
}

/// Returns a driver and an endpoint (the controller) of a DC Express drive. Each contains its NVMe counterpart, which
/// executes writes.
pub fn connect(drive: &Drive, seed: u64, memory: &mut HostMemory, shared: &mut Shared) -> (Driver, Endpoint) {
    let (nvme_driver, nvme) = nvme::connect(drive, seed, memory, shared);
    let mut endpoint = Endpoint::new(drive, nvme);
    let driver = Driver::new(drive, nvme_driver, &mut endpoint, seed, memory, shared);
    (driver, endpoint)
}

roles! {
    /// Role of a DC Express packet. Role numbers below the first belong to NVMe.
    from nvme::Role::END;
    POLL = "queue read" / "command",
    DATA = "data",
    DOORBELL = "doorbell",
    MODE = "polling mode",
    TAG = "incomplete tag",
}

/// Returns the address of the doorbell register of command queue `queue`. These registers lie behind those of NVMe.
pub fn doorbell(queue: u32) -> u64 {
    nvme::spec::REGISTERS + (1 << 20) + u64::from(queue) * 4
}

/// Returns the command queue whose doorbell register is at this address; none if the address holds no such register.
pub fn queue_of_doorbell(address: u64) -> Option<u32> {
    let offset = address.checked_sub(doorbell(0))?;
    (offset % 4 == 0).then_some(u32::try_from(offset / 4).ok()?)
}

/// Identification of a read in its data packets, as one number: command queue, slot and attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadIdentity {
    /// Number of the read's command queue, of which the low 10 bits are sent.
    pub queue: u16,
    /// Slot of the read in the driver's table for its command queue.
    pub slot: u16,
    /// Number of the attempt to execute the read, of which the low 6 bits are sent.
    pub attempt: u8,
}

impl ReadIdentity {
    /// Returns the identification of a read as a number for [`crate::tlp::Token::context`].
    pub fn pack(self) -> u32 {
        u32::from(self.attempt & 0x3f) << 26 | u32::from(self.queue) << 16 | u32::from(self.slot)
    }

    /// Decodes the identification of a read from the number in a packet's token.
    pub fn unpack(number: u32) -> ReadIdentity {
        ReadIdentity { queue: low_u16(number >> 16 & 0x3ff), slot: low_u16(number), attempt: low_u8(number >> 26) }
    }
}
