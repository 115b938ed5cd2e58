//! Driver and controller of Moneta, the array of emulated phase-change memory that Swanson presented in 2011 (MON in
//! the comments of this folder).
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
//! "It sets some status registers, and then it raises an interrupt so that the host can come back and check the status"
//! (MON). So the host reads the registers; the device does not write them to host memory. A read of a status register
//! clears it, and lets the device send the vector's next interrupt.

pub mod config;
pub mod controller;
pub mod driver;
pub(crate) mod form;
pub mod spec;

use config::Moneta;

use super::halves::Protocol;
use super::roles::roles;
use crate::config::{StackStage, Wait};
use crate::drive::{Drive, Interface};
use crate::memory::HostMemory;
use crate::problem::BrokenCondition;
use crate::shared::Shared;
use crate::workload::Limits;

pub use controller::Controller;
pub use driver::Driver;

impl Protocol for Moneta {
    fn title(&self) -> &'static str {
        "Moneta"
    }

    fn messages(&self) -> Vec<&'static str> {
        Role::messages().collect()
    }

    /// Returns the limits of queues and memory of a Moneta drive. Queue entries are not bounded, as requests that find
    /// no free tag wait in the driver.
    fn limits(&self, drive: &Drive) -> Limits {
        Limits {
            queue_entries: u16::MAX.into(),
            write_block_bytes: drive.nvme.block_bytes,
            transfer_bytes: self.max_transfer_kib * 1024,
            ..Limits::new(drive.media.capacity_bytes(), spec::BLOCK_BYTES)
        }
    }

    fn broken(&self, drive: &Drive) -> Vec<BrokenCondition> {
        [broken_wait(drive), self.broken_zero_copy(drive.stack.copy_bytes_per_ns)].into_iter().flatten().collect()
    }

    fn wait_description(&self, _drive: &Drive) -> Option<String> {
        let bytes = self.spin_up_to_bytes;
        (bytes > 0).then(|| match bytes.is_multiple_of(1024) {
            true => format!("spinning up to {} KiB", bytes / 1024),
            false => format!("spinning up to {bytes} B"),
        })
    }

    fn stages(&self, drive: &Drive) -> Vec<StackStage> {
        driver::stages(drive)
    }

    fn spin_up_to_bytes(&self) -> u32 {
        self.spin_up_to_bytes
    }
}

/// Returns the violated condition if the drive is Moneta and the key `host.wait` is not `sleep`. The driver learns of
/// completions only from its interrupt handler; the size of a request determines whether its thread spins until then.
fn broken_wait(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.interface == Interface::Moneta && drive.host.wait != Wait::Sleep,
        &["host.wait", "interface"],
        String::from("interface is \"moneta\" with a host.wait that is not \"sleep\""),
        String::from("host.wait = \"sleep\", with moneta.spin_up_to_bytes for the requests that spin"),
    )
}

/// Returns a driver and a controller of a Moneta drive. The controller's table of DMA addresses holds the driver's
/// buffer for each tag.
pub fn connect(drive: &Drive, _seed: u64, memory: &mut HostMemory, _shared: &mut Shared) -> (Driver, Controller) {
    let driver = Driver::new(drive, memory);
    let controller = Controller::new(drive, driver.buffers().collect());
    (driver, controller)
}

roles! {
    /// Role of a Moneta packet: request word, data or its read, status read, or interrupt message.
    from 0;
    REQUEST = "request word",
    READ_DATA = "read data" / "data",
    DATA = "data",
    STATUS = "read status" / "status",
    INTERRUPT = "interrupt message",
}
