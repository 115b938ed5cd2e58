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
    /// Buffers of long payloads, for the next ones.
    spare: Vec<Box<[u8]>>,
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

    /// Returns the first `bytes` bytes of a burst's payload, which the sender fills before the receiver looks.
    #[inline]
    pub fn room(&mut self, id: PacketId, bytes: usize) -> &mut [u8] {
        let place = index(id);
        if self.payloads.len() <= place {
            self.add_payloads(place);
        }
        self.payloads[place].room(bytes, &mut self.spare)
    }

    #[cold]
    fn add_payloads(&mut self, place: usize) {
        self.payloads.resize_with(place + 1, Payload::default);
    }

    /// Takes the payload out of a burst that has arrived; zeros if nobody has filled it.
    #[inline(always)]
    pub fn take_payload(&mut self, id: PacketId) -> Payload {
        self.payloads.get_mut(index(id)).map(std::mem::take).unwrap_or_default()
    }

    /// Takes a payload back that has been read.
    #[inline(always)]
    pub fn keep_buffer(&mut self, payload: Payload) {
        if let Some(buffer) = payload.into_buffer() {
            self.spare.push(buffer);
        }
    }

    /// Writes the payload of a burst to host memory at `address`.
    pub(super) fn store(&self, id: PacketId, address: u64, bytes: u32, memory: &mut HostMemory) {
        memory.write(address, &self.payloads[index(id)].bytes()[..index(bytes)]);
    }

    /// Takes the buffer of a long payload back, which has been stored.
    #[cold]
    pub(super) fn release(&mut self, id: PacketId) {
        let payload = self.take_payload(id);
        self.keep_buffer(payload);
    }

    /// Fills the payload of a burst with `bytes` of host memory from `address` on.
    #[inline(always)]
    pub(super) fn load(&mut self, id: PacketId, address: u64, bytes: u32, memory: &HostMemory) {
        memory.read(address, self.room(id, index(bytes)));
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
