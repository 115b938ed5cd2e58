//! Table of the bursts in flight, with their payloads.

use std::ops::{Index, IndexMut};

use super::PacketBurst;
use crate::memory::HostMemory;
use crate::number::index;
use crate::table::Table;
use crate::tlp::{PacketId, Payload};

/// Bursts in flight, indexed by [`PacketId`].
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    table: Table<PacketBurst>,
    /// Payload of each burst, kept apart because the bytes of few bursts matter.
    payloads: Vec<Payload>,
}

impl Index<PacketId> for Bursts {
    type Output = PacketBurst;
    #[inline(always)]
    fn index(&self, id: PacketId) -> &PacketBurst {
        &self.table[index(id)]
    }
}

impl IndexMut<PacketId> for Bursts {
    #[inline(always)]
    fn index_mut(&mut self, id: PacketId) -> &mut PacketBurst {
        &mut self.table[index(id)]
    }
}

impl Bursts {
    /// Reserves an entry for a new burst; it still holds the values of its last user, which the caller overwrites.
    #[inline]
    pub(super) fn occupy(&mut self) -> PacketId {
        let id = self.table.occupy();
        self.table[index(id)].in_use = true;
        id
    }

    /// Frees the entry of a burst whose journey is over.
    ///
    /// # Panics
    /// If the entry is free already: a burst ends once.
    #[inline]
    pub fn vacate(&mut self, id: PacketId) {
        assert!(std::mem::take(&mut self.table[index(id)].in_use), "the entry of burst {id} is freed twice");
        self.table.vacate(id);
    }

    /// Returns the payload of a burst for reading or filling. The sender fills it before the receiver looks.
    #[inline]
    pub fn payload(&mut self, id: PacketId) -> &mut Payload {
        let place = index(id);
        if self.payloads.len() <= place {
            self.add_payloads(place);
        }
        &mut self.payloads[place]
    }

    #[cold]
    fn add_payloads(&mut self, place: usize) {
        self.payloads.resize_with(place + 1, Payload::default);
    }

    /// Takes the payload out of a burst that has arrived.
    #[inline(always)]
    pub fn take_payload(&mut self, id: PacketId) -> Payload {
        std::mem::take(self.payload(id))
    }

    /// Writes the payload of a burst to host memory at `address`.
    pub(super) fn store(&self, id: PacketId, address: u64, bytes: u32, memory: &mut HostMemory) {
        memory.write(address, &self.payloads[index(id)].bytes()[..index(bytes)]);
    }

    /// Fills the payload of a burst with `bytes` of host memory from `address` on.
    #[inline(always)]
    pub(super) fn load(&mut self, id: PacketId, address: u64, bytes: u32, memory: &HostMemory) {
        memory.read(address, self.payload(id).room(index(bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "burst 0 is freed twice")]
    fn freeing_a_burst_twice_panics() {
        let mut bursts = Bursts::default();
        let id = bursts.occupy();
        bursts.vacate(id);
        bursts.vacate(id);
    }
}
