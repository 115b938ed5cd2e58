//! CAPI: a memory as a coherent peer of the processor (CAPI in the comments of this folder: Bougioukou et al., "Phase
//! Change Memory Access in OpenPOWER Systems using CAPI").
//!
//! ```text
//!       host                          link                          device
//!   thread: command into a work element
//!        |---- doorbell (4 B write) ------------------------------>| PSL, AFU
//!        |<--- read the element's line ----------------------------| (PSL)
//!        |---- line with up to seven commands -------------------->| AFU parses
//!   write|<--- read lines -----------------------------------------| (PSL)
//!        |---- lines --------------------------------------------->| AFU buffer: done, media later
//!   read:|                                                         | media, AFU buffer
//!        |<--- claim lines ----------------------------------------| (PSL)
//!        |---- claimed ------------------------------------------->|
//!        |<--- lines ----------------------------------------------| (PSL)
//!        |<--- status (8 B into the element's status line) --------| (PSL)
//!   thread: sees its status
//! ```
//!
//! There is no interrupt and no system call. An element that finds a place in the AFU goes at once; while none is free,
//! commands of all threads gather for the next, "multiple threads from the host can form a single WED" (CAPI). Every
//! command of the accelerator (AFU) takes its time in the processor service layer (PSL); one whose address that cannot
//! translate reads a group of the page table first, which is one line of 128 bytes.

pub mod afu;
mod buffer;
pub mod config;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use crate::drive::Drive;
use crate::shared::Shared;

/// Driver and AFU, the AFU told where the host keeps its elements.
pub fn connect(drive: &Drive, seed: u64, shared: &mut Shared) -> (driver::Driver, afu::Afu) {
    let driver = driver::Driver::new(drive, shared);
    let afu = afu::Afu::new(drive, driver.areas, seed);
    (driver, afu)
}

/// What a packet is, in [`crate::tlp::Token::role`].
pub mod role {
    use crate::protocol::nvme;

    /// Behind those of the other protocols.
    pub const DOORBELL: u8 = 4 * nvme::role::END;
    pub const ELEMENT: u8 = DOORBELL + 1;
    pub const PAYLOAD: u8 = DOORBELL + 2;
    pub const CLAIM: u8 = DOORBELL + 3;
    pub const DATA: u8 = DOORBELL + 4;
    pub const STATUS: u8 = DOORBELL + 5;
    pub const PAGE_TABLE: u8 = DOORBELL + 6;
}
