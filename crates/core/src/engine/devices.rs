//! The devices of a machine, and what they have counted together.

use std::ops::{Index, IndexMut};

use super::device::AttachedDevice;
use crate::drive::Drive;
use crate::ledger::{PartUse, WireUse};
use crate::memory::HostMemory;
use crate::random::mix;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Direction;

/// All devices of a machine, by number. The first stands by itself, so that a machine with but one device finds it without a
/// look at a list: that list would take 2 % of a request's instructions.
#[derive(Clone, Debug)]
pub(super) struct AttachedDevices {
    first: AttachedDevice,
    others: Vec<AttachedDevice>,
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
    /// As many devices as a description has, each with chances of its own and queues in an area of `memory` of its own.
    pub(super) fn new(drive: &Drive, seed: u64, memory: &mut HostMemory, shared: &mut Shared) -> AttachedDevices {
        let first = AttachedDevice::new(drive, seed, memory, shared);
        let one = drive.alone();
        let other = |number: u16| {
            memory.begin_area();
            AttachedDevice::new(&one, mix(seed.wrapping_add(number.into())), memory, shared)
        };
        AttachedDevices { first, others: (1..drive.drives).map(other).collect() }
    }

    /// Number of devices.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Devices by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedDevice> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Devices by number, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut AttachedDevice> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Use of one direction of all links: rates and bytes of all, and the mean of the times for which they were busy.
    pub(super) fn used(&self, direction: Direction) -> WireUse {
        let mut used = WireUse::default();
        self.iter().for_each(|device| used.add(&device.link.usage(direction)));
        WireUse { busy: used.busy / self.count() as u64, ..used }
    }

    /// Use of the parts of all memories up to `now`.
    pub(super) fn parts(&self, now: Time) -> Vec<PartUse> {
        let mut parts = self.first.media.uses(now);
        for device in &self.others {
            for (part, more) in parts.iter_mut().zip(device.media.uses(now)) {
                part.servers += more.servers;
                part.busy += more.busy;
            }
        }
        parts
    }

    /// Counters of all devices and of faults: sums, and means of counters in per cent.
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
        let count = self.count() as u64;
        counters.iter_mut().filter(|(name, _)| name.ends_with("_percent")).for_each(|(_, sum)| *sum /= count);
        counters
    }

    /// Share of the time up to `now` for which the reads of some device kept the package awake, at least: that of the device
    /// which did so for longest.
    pub(super) fn awake_share(&self, now: Time) -> f64 {
        self.iter().map(|device| device.root_complex.awake_share(now)).fold(0.0, f64::max)
    }

    /// Energy of all memories in joules, if it is known.
    pub(super) fn memory_joules(&self, drive: &Drive) -> Option<f64> {
        self.iter().map(|device| device.media.joules(&drive.media)).sum()
    }
}
