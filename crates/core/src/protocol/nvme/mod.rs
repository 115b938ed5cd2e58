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
//! With shadow doorbells (Doorbell Buffer Config) the driver writes its tail into host memory, and rings the register
//! only when the controller has asked for it.

pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
pub mod shadow;
pub mod spec;

use crate::drive::Drive;
use crate::shared::Shared;

/// Driver and controller, which has been told of the driver's queues.
pub fn connect(drive: &Drive, shared: &mut Shared) -> (driver::Driver, controller::Controller) {
    let mut controller = controller::Controller::new(drive);
    let driver = driver::Driver::new(drive, &mut controller, shared);
    (driver, controller)
}

/// What a packet is, in [`crate::tlp::Token::role`].
pub mod role {
    pub const DOORBELL: u8 = 0;
    pub const FETCH: u8 = 1;
    pub const PAGE_LIST: u8 = 2;
    pub const PAYLOAD: u8 = 3;
    pub const DATA: u8 = 4;
    pub const COMPLETION: u8 = 5;
    pub const INTERRUPT: u8 = 6;
    pub const SHADOW: u8 = 7;
    pub const EVENT_INDEX: u8 = 8;
    /// Roles of protocols that are built on this one start here.
    pub const END: u8 = 16;
}
