//! Device of a machine, from its driver to its memory: everything that each device has for itself.

use crate::config::Mapping;
use crate::data::Data;
use crate::drive::Drive;
use crate::link::Link;
use crate::link::root_complex::RootComplex;
use crate::media::Media;
use crate::media::wear::StartGapWear;
use crate::memory::HostMemory;
use crate::protocol::dispatch::{AnyController, AnyDriver, connect};
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::ports::{HostPorts, Ports};
use crate::protocol::slots::SlotRequestTable;
use crate::shared::Shared;
use crate::time::Span;

/// Largest number of translation units of a flash drive whose account is checked unit by unit.
const UNITS_CHECKED_MAX: u64 = 1 << 16;

/// Driver and controller of one device, the link between them with its root port, and the device's memory.
#[derive(Clone, Debug)]
pub(super) struct AttachedDevice {
    pub driver: AnyDriver,
    pub controller: AnyController,
    pub link: Link,
    /// Root port of the device's link, and the path from there into host memory.
    pub root_complex: RootComplex,
    pub media: Media,
    /// Request that each command slot carries.
    pub slots: SlotRequestTable,
    /// Real bytes that the device holds; `None` in a run without data.
    pub data: Option<Box<Data>>,
}

impl AttachedDevice {
    /// Creates an idle device of this description, whose queues lie in `memory`.
    pub(super) fn new(drive: &Drive, seed: u64, memory: &mut HostMemory, shared: &mut Shared) -> AttachedDevice {
        let (driver, controller) = connect(drive, seed, memory, shared);
        let root_complex = RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, seed)
            .with_peer_memory(&drive.peer);
        let settle = settle(drive, &root_complex).unwrap_or_default();
        AttachedDevice {
            driver,
            controller,
            link: Link::new(&drive.link, drive.write_accept(), settle, seed)
                .with_dma(&drive.dma, &drive.link)
                .with_switch(&drive.switch)
                .with_faults(&drive.faults, seed),
            root_complex,
            media: drive.memory(seed).with_faults(&drive.faults, seed),
            slots: SlotRequestTable::default(),
            data: None,
        }
    }

    /// Creates the driver and the link of another host that shares a device. The controller and the memory made here
    /// are never used.
    pub(super) fn of_host(drive: &Drive, seed: u64, memory: &mut HostMemory, shared: &mut Shared) -> AttachedDevice {
        let mut bare = drive.clone();
        bare.translation.mapping = Mapping::None;
        AttachedDevice::new(&bare, seed, memory, shared)
    }

    /// Returns the driver, with the parts of the machine that the driver uses.
    #[inline(always)]
    pub(super) fn driver_side<'a>(
        &'a mut self,
        memory: &'a mut HostMemory,
        shared: &'a mut Shared,
    ) -> (&'a mut AnyDriver, HostPorts<'a>) {
        let AttachedDevice { driver, link, slots, data, .. } = self;
        (driver, HostPorts { link, memory, slots, data, shared })
    }

    /// Returns the controller, with the parts of the machine that the controller uses.
    #[inline(always)]
    pub(super) fn controller_side<'a>(&'a mut self, shared: &'a mut Shared) -> (&'a mut AnyController, Ports<'a>) {
        let AttachedDevice { controller, link, media, slots, data, .. } = self;
        (controller, Ports { link, media, slots, data, shared })
    }

    /// Returns the counters of driver, controller and memory, with their names.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.driver.counters();
        counters.extend(self.controller.counters());
        counters.extend(self.media.counters());
        counters
    }

    /// Returns the counters of a run with real bytes: verified reads, wrong reads and lost units; empty in other runs.
    pub(super) fn data_counters(&self) -> Vec<(&'static str, u64)> {
        let Some(data) = &self.data else { return Vec::new() };
        let mut counters = vec![("verified_reads", data.verified_reads), ("data_errors", data.data_errors)];
        counters.extend(data.lost_units().map(|units| ("lost_units", units)));
        counters
    }

    /// Makes the device hold real bytes from now on, and every read be checked.
    pub(super) fn keep_data(&mut self, drive: &Drive, seed: u64, memory: &mut HostMemory) {
        let data = Box::new(Data::new(seed, drive.protocol().packet_bytes(drive)));
        self.controller.keep_data(drive, seed, &data.contents, memory);
        self.data = Some(data);
    }

    /// Returns a description of an inconsistency in the account that wear levelling keeps of its lines, or a small
    /// flash drive of its units; `None` if there is none.
    pub(super) fn memory_problem(&self) -> Option<String> {
        if let Some(found) = self.media.wear().and_then(StartGapWear::inconsistency) {
            return Some(found);
        }
        let translation = self.media.flash()?.translation();
        (translation.shape().units <= UNITS_CHECKED_MAX).then(|| translation.inconsistency())?
    }
}

/// Returns the time from the arrival of every posted write to its being in memory. `None` if that differs between
/// writes, or behind a switch, where packets at the end of the link are not at the root port yet.
pub(super) fn settle(drive: &Drive, root_complex: &RootComplex) -> Option<Span> {
    root_complex.settle_time().filter(|_| !drive.switch.is_there())
}
