//! CAPI: a memory that is attached to the processor as a coherent peer (CAPI in the comments of this folder: Bougioukou
//! et al., "Phase Change Memory Access in OpenPOWER Systems using CAPI").
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
//! There is no interrupt and no system call. A command goes to the device at once while a work element is free. While
//! none is free, commands of all threads gather for the next element: "multiple threads from the host can form a single
//! WED" (CAPI). Every bus command of the accelerator (AFU) takes its time in the processor service layer (PSL). If the
//! PSL cannot translate the address, it first reads a group of the page table, which is one line of 128 bytes.

pub mod afu;
mod buffer;
pub mod config;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use config::Capi;

use super::halves::Protocol;
use super::roles::roles;
use crate::config::Acknowledge;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::shared::Shared;
use crate::workload::Limits;

pub use afu::Afu;
pub use afu::Afu as Controller;
pub use driver::Driver;

impl Protocol for Capi {
    fn promise(&self, drive: &Drive) -> &'static str {
        match drive.media.acknowledge {
            Acknowledge::Late => "in the cells",
            Acknowledge::Early => "in the device's buffer",
        }
    }

    fn title(&self) -> &'static str {
        "CAPI"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    /// Returns the limits of queues and memory of a CAPI drive. Commands that find no free work element wait for the
    /// next one.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: 1 << 16,
            transfer_bytes: self.max_transfer_kib * 1024,
            ..Limits::new(drive.media.capacity_bytes(), spec::LINE_BYTES)
        }
    }

    fn no_interrupts(&self) -> Option<&'static str> {
        Some("interface is \"capi\", which has no interrupts")
    }

    /// Returns the size in bytes of a cache line: lines cross the link one by one, whatever the link's largest payload.
    fn packet_bytes(&self, _drive: &Drive) -> u32 {
        spec::LINE_BYTES
    }
}

/// Returns a driver and an AFU (the controller) of a CAPI drive. The AFU knows the addresses of the driver's work
/// elements.
pub fn connect(drive: &Drive, seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Afu) {
    let driver = Driver::new(drive, memory);
    let afu = Afu::new(drive, driver.areas, seed);
    (driver, afu)
}

roles! {
    /// Role of a CAPI packet: doorbell, work element, lines, claim of lines, status or page table.
    from 0;
    DOORBELL = "doorbell",
    ELEMENT = "fetch element" / "element",
    PAYLOAD = "read lines" / "lines",
    CLAIM = "claim lines" / "claimed",
    DATA = "lines",
    STATUS = "status",
    PAGE_TABLE = "read page table" / "page table",
}
