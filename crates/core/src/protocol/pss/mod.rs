//! Block driver and controller of PSS, IBM's phase-change storage card (PSS in the comments of this folder: Koltsidas
//! et al., "PSS: A prototype storage subsystem based on PCM", NVMW 2014).
//!
//! ```text
//!       host                          link                          device
//!   driver: descriptor into the shared area
//!        |---- tail (4 B write) ---------------------------------->|
//!        |<--- read descriptors, as many as there is room for -----| DMA engine 1
//!        |---- descriptors --------------------------------------->| firmware, one of two cores
//!        |<--- [write: read page] ---------------------------------| DMA engine 2
//!        |---- [write: page] ------------------------------------->| chips, or DRAM while these are busy
//!        |<--- [read: page, from chips or DRAM] -------------------| DMA engine 2
//!        |<--- [passthrough read: metadata of its sectors] --------|
//!        |<--- record of completion (8 B write) -------------------| DMA engine 1
//!        |<--- interrupt message (4 B write) ----------------------|
//!   handler: records in sequence
//! ```
//!
//! The paper does not say how the card learns of new descriptors, nor how the host learns of completions: a register
//! and an interrupt are assumed. The drive file's key `media.acknowledge` selects between the paper's Early and Late
//! Completion.

pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use config::PssKeys;

use super::halves::Protocol;
use super::roles::roles;
use crate::config::Acknowledge;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::shared::Shared;
use crate::workload::Limits;

pub use controller::Controller;
pub use driver::Driver;

impl Protocol for PssKeys {
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the card's memory, or in the buffers of the chips without it",
        }
    }

    fn title(&self) -> &'static str {
        "PSS"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    /// Returns the limits of queues and memory of a PSS drive. Queue entries are not bounded, as requests that find no
    /// free descriptor wait in the driver.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: u16::MAX.into(),
            transfer_bytes: self.max_transfer_kib * 1024,
            ..Limits::new(drive.media.capacity_bytes(), spec::SECTOR_BYTES)
        }
    }
}

/// Returns a driver and a controller of a PSS card. The controller knows the addresses of the descriptors and records
/// that the driver has allocated in host memory.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Controller) {
    let driver = Driver::new(drive, memory);
    let controller = Controller::new(drive, driver.area());
    (driver, controller)
}

roles! {
    /// Role of a PSS packet: doorbell, descriptors, data, metadata, completion record or interrupt message.
    from 0;
    TAIL = "doorbell",
    DESCRIPTORS = "read descriptors" / "descriptors",
    READ_DATA = "read data" / "data",
    DATA = "data",
    METADATA = "metadata",
    RECORD = "completion record",
    INTERRUPT = "interrupt message",
}
