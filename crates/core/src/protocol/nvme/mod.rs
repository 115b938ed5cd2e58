//! NVMe over PCI Express: driver and controller.
//!
//! ```text
//!       host                          link                          device
//!   driver: SQE into ring, tail
//!        |---- doorbell (4 B write) ------------------------------>|
//!        |<--- read SQEs (fetch) ----------------------------------|
//!        |---- completion with SQEs ------------------------------>| parse
//!        |<--- [write: read data] ---------------------------------|
//!        |---- [write: data] ------------------------------------->| media
//!        |<--- [read: data, strictly ordered] ---------------------|
//!        |<--- completion entry (16 B write) ----------------------|
//!        |<--- interrupt message (4 B write) ----------------------|
//!   handler or poll: CQE
//!        |---- CQ head doorbell ---------------------------------->|
//! ```
//!
//! Metadata with protection information follows the data in either direction, if the host transfers it. With shadow
//! doorbells (Doorbell Buffer Config) the driver writes its tail into host memory, and writes the register only when
//! the controller has asked for it.

pub mod commands;
pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
mod host_lists;
mod real_host;
pub mod rules;
pub mod served;
pub mod spec;
mod zone_locks;

use config::Nvme;

use super::halves::{Attachment, Protocol};
use super::roles::roles;
use crate::crash::explain::LossClauses;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::problem::BrokenCondition;
use crate::request::Op;
use crate::shared::Shared;
use crate::workload::Limits;

pub use controller::Controller;
pub use driver::Driver;

impl Protocol for Nvme {
    fn title(&self) -> &'static str {
        if self.shadow_doorbells { "NVMe with shadow doorbells" } else { "NVMe" }
    }

    /// Returns the names of the messages that reads and writes without metadata send. Omitted are range lists, which
    /// only deallocations and copies send, and metadata, which only blocks with protection information have.
    fn messages(&self) -> Vec<&'static str> {
        Role::messages().filter(|name| !name.ends_with("ranges") && !name.ends_with("metadata")).collect()
    }

    fn foresees_inside(&self) -> bool {
        true
    }

    fn passes_whole_commands(&self) -> bool {
        true
    }

    fn knows_zones(&self) -> bool {
        true
    }

    fn knows_placement(&self) -> bool {
        true
    }

    fn knows_keys(&self) -> bool {
        true
    }

    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_pairs: self.queue_pairs,
            queue_entries: self.queue_entries,
            transfer_bytes: self.max_transfer_kib * 1024,
            queue_keys: "nvme.queue_pairs or nvme.queue_entries",
            ..Limits::new(drive.media.capacity_bytes(), self.block_bytes)
        }
    }

    fn broken(&self, drive: &Drive) -> Vec<BrokenCondition> {
        [
            self.broken_rings(),
            self.broken_blocks(),
            self.broken_fetch(),
            self.broken_atomicity(),
            self.broken_coalescing(),
            self.broken_namespaces(drive.zones.is_there(), drive.key_value.is_there()),
            self.check_protection(drive.zones.is_there(), drive.key_value.is_there()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn atomic_bytes(&self, drive: &Drive) -> u32 {
        self.atomic_write_bytes.max(self.limits(drive).write_block_bytes).max(64)
    }

    fn loss_clauses(&self) -> Option<LossClauses> {
        let clauses = LossClauses::of_nvm_express();
        let torn = format!("{}, here `nvme.atomic_write_bytes`", clauses.torn);
        Some(LossClauses { torn, ..clauses })
    }

    fn no_interrupts(&self) -> Option<&'static str> {
        (!self.interrupts).then_some("nvme.interrupts is false")
    }

    fn interrupts_key(&self) -> Option<&'static str> {
        (!self.interrupts).then_some("nvme.interrupts")
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn crosses_fabrics(&self) -> bool {
        true
    }

    fn takes_engines(&self) -> bool {
        true
    }

    /// Returns false with shadow doorbells: the cost of a doorbell then depends on the state of this drive's shadow
    /// doorbell, which the host model does not read.
    fn stands_beside_others(&self, _drive: &Drive) -> bool {
        !self.shadow_doorbells
    }

    fn attaches(&self, attachment: Attachment) -> bool {
        attachment == Attachment::PciFunction
    }
}

/// Returns an NVMe driver and controller for this drive, connected: the controller knows the addresses of the queues
/// that the driver has allocated.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Controller) {
    let mut controller = Controller::new(drive);
    let driver = Driver::new(drive, &mut controller, memory);
    (driver, controller)
}

roles! {
    /// Role of a packet in NVMe: the kind of message that it carries.
    from 0;
    DOORBELL = "doorbell",
    FETCH = "fetch command" / "command",
    PAGE_LIST = "read page list" / "page list",
    PAYLOAD = "read data" / "data",
    DATA = "data",
    COMPLETION = "completion entry",
    INTERRUPT = "interrupt message",
    SHADOW = "read shadow doorbell" / "shadow doorbell",
    EVENT_INDEX = "event index",
    RANGES = "read ranges" / "ranges",
    METADATA = "metadata",
    METADATA_READ = "read metadata" / "metadata",
}
