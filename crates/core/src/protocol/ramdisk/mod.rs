//! Protocol `ramdisk`: a block device whose doorbell write carries the whole command. About the smallest possible
//! protocol, it is the example of `docs/adding-a-protocol.md`. No such device is known.
//!
//! ```text
//!       host                          link                          device
//!   driver: a free slot
//!        |---- doorbell (24 B write: the command itself) --------->| parse
//!   write|<--- read data ------------------------------------------|
//!        |---- data ---------------------------------------------->| media
//!   read:|<--- data -----------------------------------------------| media
//!        |<--- status (4 B into the slot's word) ------------------|
//!   thread: sees its status
//! ```

mod command;
pub mod config;
mod controller;
mod driver;
pub(crate) mod form;

pub use controller::Controller;
pub use driver::Driver;

use config::RamdiskKeys;

use super::halves::Protocol;
use super::roles::roles;
use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::shared::Shared;
use crate::workload::Limits;

roles! {
    /// Role of a `ramdisk` packet: doorbell, read of a write's data, data of a read, or status.
    from 0;
    DOORBELL = "doorbell",
    PAYLOAD = "read data" / "data",
    DATA = "data",
    STATUS = "status",
}

impl Protocol for RamdiskKeys {
    fn title(&self) -> &'static str {
        "one doorbell"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    /// Returns limits without a bound on queue entries, as requests that find no free slot wait in the driver.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: u16::MAX.into(),
            transfer_bytes: self.max_transfer_kib * 1024,
            ..Limits::new(drive.media.capacity_bytes(), command::BLOCK_BYTES)
        }
    }

    fn no_interrupts(&self) -> Option<&'static str> {
        Some("interface is \"ramdisk\", which has no interrupts")
    }
}

/// Returns a driver and a controller of a `ramdisk` drive. The controller knows the bus address of the driver's status
/// words.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Controller) {
    let driver = Driver::new(drive, memory);
    let controller = Controller::new(drive, driver.statuses());
    (driver, controller)
}
