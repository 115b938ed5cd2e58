//! Devices of a machine, and their counters added up.

use std::ops::{Index, IndexMut};

use super::device::AttachedDevice;
use crate::drive::Drive;
use crate::ledger::{PartBusyTime, WireUse};
use crate::memory::HostMemory;
use crate::number::length;
use crate::protocol::dispatch::{AnyController, AnyDriver};
use crate::protocol::halves::Driver as _;
use crate::protocol::ports::{HostPorts, Ports};
use crate::random::mix;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Direction;

/// All devices of a machine, by number. The first device is a field of its own, so that a machine with one device needs
/// no list; using the list would take 2 % of a request's instructions.
#[derive(Clone, Debug)]
pub(super) struct AttachedDevices {
    first: AttachedDevice,
    others: Vec<AttachedDevice>,
    /// True if hosts share one device. Each host then has an entry with a driver and a link of its own; controller and
    /// memory are those of the first entry.
    is_shared: bool,
}

impl Index<usize> for AttachedDevices {
    type Output = AttachedDevice;
    #[inline(always)]
    fn index(&self, number: usize) -> &AttachedDevice {
        if number == 0 { &self.first } else { &self.others[number - 1] }
    }
}

impl IndexMut<usize> for AttachedDevices {
    #[inline(always)]
    fn index_mut(&mut self, number: usize) -> &mut AttachedDevice {
        if number == 0 { &mut self.first } else { &mut self.others[number - 1] }
    }
}

impl AttachedDevices {
    /// Creates the devices of a description, each with its own random numbers, and with queues in its own area of
    /// `memory`.
    pub(super) fn new(drive: &Drive, seed: u64, memory: &mut HostMemory, shared: &mut Shared) -> AttachedDevices {
        let first = AttachedDevice::new(drive, seed, memory, shared);
        if drive.switch.has_hosts() {
            let other = |_| {
                memory.begin_device_area();
                AttachedDevice::of_host(drive, seed, memory, shared)
            };
            return AttachedDevices {
                first,
                others: (1..drive.switch.host_count()).map(other).collect(),
                is_shared: true,
            };
        }
        let one = drive.as_only_drive();
        let other = |number: u16| {
            memory.begin_device_area();
            AttachedDevice::new(&one, mix(seed.wrapping_add(number.into())), memory, shared)
        };
        AttachedDevices { first, others: (1..drive.drives).map(other).collect(), is_shared: false }
    }

    /// True if hosts share one device, so that each entry stands for a host.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the number of the entry that holds controller, memory and data of a device: the first where hosts share
    /// one device.
    #[inline(always)]
    pub(super) fn holder(&self, device: usize) -> usize {
        if device > 0 && self.is_shared { 0 } else { device }
    }

    /// Returns the driver of a device, with the parts of the machine that the driver uses.
    #[inline(always)]
    pub(super) fn driver_side<'a>(
        &'a mut self,
        device: usize,
        memory: &'a mut HostMemory,
        shared: &'a mut Shared,
    ) -> (&'a mut AnyDriver, HostPorts<'a>) {
        if self.holder(device) == device {
            return self[device].driver_side(memory, shared);
        }
        let AttachedDevice { driver, link, slots, .. } = &mut self.others[device - 1];
        (driver, HostPorts { link, memory, slots, data: &mut self.first.data, shared })
    }

    /// Returns the controller of a device, with the parts of the machine that the controller uses.
    #[inline(always)]
    pub(super) fn controller_side<'a>(
        &'a mut self,
        device: usize,
        shared: &'a mut Shared,
    ) -> (&'a mut AnyController, Ports<'a>) {
        if self.holder(device) == device {
            return self[device].controller_side(shared);
        }
        let AttachedDevice { controller, media, data, .. } = &mut self.first;
        let AttachedDevice { link, slots, .. } = &mut self.others[device - 1];
        (controller, Ports { link, media, slots, data, shared })
    }

    /// Returns the smallest and the largest share of all loads and stores that a single host sent, in per cent.
    pub(super) fn host_line_share_percent(&self) -> [u64; 2] {
        let lines = |device: &AttachedDevice| device.driver.counters().iter().map(|(_, count)| count).sum::<u64>();
        let all: u64 = self.iter().map(lines).sum();
        let percent = |lines: Option<u64>| lines.unwrap_or(0) * 100 / all.max(1);
        [percent(self.iter().map(lines).min()), percent(self.iter().map(lines).max())]
    }

    /// Returns the number of devices, or of hosts that share one.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the devices in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedDevice> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the devices for changing, in the order of their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut AttachedDevice> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Returns the traffic of one direction of all links: sums of rates, bytes and packets, and the mean of the busy
    /// times.
    pub(super) fn used(&self, direction: Direction) -> WireUse {
        let mut used = WireUse::default();
        self.iter().for_each(|device| used.add(&device.link.usage(direction)));
        WireUse { busy: used.busy / length(self.count()), ..used }
    }

    /// Returns the busy times of the memory resources of all devices up to `now`, summed by kind of resource.
    pub(super) fn parts(&self, now: Time) -> Vec<PartBusyTime> {
        let mut parts = self.first.media.uses(now);
        for device in &self.others {
            for (part, more) in parts.iter_mut().zip(device.media.uses(now)) {
                part.servers += more.servers;
                part.busy += more.busy;
            }
        }
        parts
    }

    /// Returns the counters of all devices and of faults, with their names. Counts are added up over devices; of
    /// percentages, the mean is taken.
    pub(super) fn counters(&self, faults: Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
        let of = |device: &AttachedDevice, faults| [device.counters(), faults, device.data_counters()].concat();
        let mut counters = of(&self.first, faults);
        let others = self.others.iter().flat_map(|device| of(device, Vec::new()).into_iter().enumerate());
        for (place, (name, count)) in others {
            match counters.get_mut(place).filter(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => counters.push((name, count)),
            }
        }
        // Hosts that share a device have a single memory, so its percentage is not divided by the number of devices.
        let count = if self.is_shared { 1 } else { length(self.count()) };
        counters.iter_mut().filter(|(name, _)| name.ends_with("_percent")).for_each(|(_, sum)| *sum /= count);
        counters
    }

    /// Returns the share of the time up to `now` for which reads of devices kept the processor package awake, at least:
    /// that of the device with the largest share.
    pub(super) fn awake_share(&self, now: Time) -> f64 {
        self.iter().map(|device| device.root_complex.awake_share(now)).fold(0.0, f64::max)
    }

    /// Returns the energy of all memories in joules; `None` if it is not known.
    pub(super) fn total_memory_joules(&self, drive: &Drive) -> Option<f64> {
        self.iter().map(|device| device.media.joules(&drive.media)).sum()
    }
}
