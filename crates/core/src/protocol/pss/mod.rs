//! PSS: block driver and controller of IBM's phase-change storage card (PSS in the comments of this folder: Koltsidas
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
//! and an interrupt are assumed. Early and Late Completion are `media.acknowledge`.

pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use crate::drive::Drive;
use crate::shared::Shared;

/// Driver and card, which knows where the shared area is.
pub fn connect(drive: &Drive, shared: &mut Shared) -> (driver::Driver, controller::Controller) {
    let driver = driver::Driver::new(drive, shared);
    let controller = controller::Controller::new(drive, driver.area());
    (driver, controller)
}

/// What a packet is, in [`crate::tlp::Token::role`].
pub mod role {
    use crate::protocol::nvme;

    /// Behind those of the other protocols.
    pub const TAIL: u8 = 3 * nvme::role::END;
    pub const DESCRIPTORS: u8 = TAIL + 1;
    pub const READ_DATA: u8 = TAIL + 2;
    pub const DATA: u8 = TAIL + 3;
    pub const METADATA: u8 = TAIL + 4;
    pub const RECORD: u8 = TAIL + 5;
    /// Interrupt messages are those of NVMe, which the host knows.
    pub const INTERRUPT: u8 = nvme::role::INTERRUPT;
}
