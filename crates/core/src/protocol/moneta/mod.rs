//! Moneta: driver and controller of the array that Swanson presented in 2011 (MON in the comments of this folder).
//!
//! ```text
//!       host                          link                          device
//!   driver: tag, buffer
//!        |---- request word (8 B write), one or more ------------->| pipeline, request queue
//!        |                                                         | scoreboard: a piece, when a buffer is free
//!   read:|                                                         | memory controller ── ring ── transfer buffer
//!        |<--- data -----------------------------------------------|
//!   write|<--- read data ------------------------------------------|
//!        |---- data ---------------------------------------------->| transfer buffer ── ring ── memory controller
//!        |                                                         | all pieces done: status register
//!        |<--- interrupt message (4 B write) ----------------------|
//!   handler
//!        |---- read status (24 B) -------------------------------->|
//!        |<--- status (8 B), behind the data before it ------------|
//!   each tag in it: wake its thread, or set the flag that it spins on
//! ```
//!
//! "It sets some status registers, and then it raises an interrupt so that the host can come back and check the
//! status": the registers are read, not posted. Reading one clears it, and lets the next interrupt of its vector pass.

pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use crate::drive::Drive;
use crate::shared::Shared;

/// Driver and device, the device's table of DMA addresses loaded.
pub fn connect(drive: &Drive, shared: &mut Shared) -> (driver::Driver, controller::Controller) {
    let driver = driver::Driver::new(drive, shared);
    let controller = controller::Controller::new(drive, driver.buffers().collect());
    (driver, controller)
}

/// What a packet is, in [`crate::tlp::Token::role`].
pub mod role {
    use crate::protocol::nvme;

    /// Behind those of the other protocols.
    pub const REQUEST: u8 = 2 * nvme::role::END;
    pub const READ_DATA: u8 = REQUEST + 1;
    pub const DATA: u8 = REQUEST + 2;
    pub const STATUS: u8 = REQUEST + 3;
    /// Interrupt messages are those of NVMe, which the host knows.
    pub const INTERRUPT: u8 = nvme::role::INTERRUPT;
}
