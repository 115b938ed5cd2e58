//! Table of the bursts in flight, with their payloads.

use std::ops::{Index, IndexMut};

use super::PacketBurst;
use crate::memory::HostMemory;
use crate::number::index;
use crate::table::Table;
use crate::tlp::{BurstId, Payload};

/// Bursts in flight, indexed by [`BurstId`].
#[derive(Clone, Debug, Default)]
pub struct BurstTable {
    table: Table<PacketBurst>,
    /// Payload by burst number; `None` where the content does not matter, as for user data. `spare_payloads` holds free
    /// ones for reuse.
    payloads: Vec<Option<Box<Payload>>>,
    #[expect(clippy::vec_box, reason = "payloads change hands by their pointers, and are not copied")]
    spare_payloads: Vec<Box<Payload>>,
    /// Free buffers of long payloads (more than 64 bytes), kept for reuse.
    spare: Vec<Box<[u8]>>,
}

impl Index<BurstId> for BurstTable {
    type Output = PacketBurst;
    #[inline(always)]
    fn index(&self, id: BurstId) -> &PacketBurst {
        &self.table[index(id)]
    }
}

impl IndexMut<BurstId> for BurstTable {
    #[inline(always)]
    fn index_mut(&mut self, id: BurstId) -> &mut PacketBurst {
        &mut self.table[index(id)]
    }
}

impl BurstTable {
    /// Reserves a table entry for a new burst, and returns its number. The entry holds stale values, which the caller
    /// must overwrite.
    #[inline]
    pub(super) fn occupy(&mut self) -> BurstId {
        let id = self.table.occupy();
        self.table[index(id)].in_use = true;
        id
    }

    /// Frees the table entry of a burst that its receiver has handled.
    ///
    /// # Panics
    /// If the entry is free already: a burst ends once.
    #[inline]
    pub fn vacate(&mut self, id: BurstId) {
        assert!(std::mem::take(&mut self.table[index(id)].in_use), "the entry of burst {id} is freed twice");
        self.table.vacate(id);
    }

    /// Returns the first `bytes` bytes of a burst's payload, which the sender fills before the burst arrives.
    #[inline]
    pub fn room(&mut self, id: BurstId, bytes: usize) -> &mut [u8] {
        let place = index(id);
        if self.payloads.len() <= place {
            self.extend_payloads(place);
        }
        let BurstTable { payloads, spare_payloads, spare, .. } = self;
        payloads[place].get_or_insert_with(|| spare_payloads.pop().unwrap_or_default()).room(bytes, spare)
    }

    /// Extends the list of payloads to the entry `place`, and reserves capacity for as many spare payloads, so that
    /// returning one never allocates.
    #[cold]
    fn extend_payloads(&mut self, place: usize) {
        self.payloads.resize_with(place + 1, Default::default);
        self.spare_payloads.reserve((place + 1).saturating_sub(self.spare_payloads.len()));
    }

    /// Removes and returns the payload of a burst that has arrived; `None` if its sender has not filled one.
    #[inline(always)]
    pub fn take_burst_payload(&mut self, id: BurstId) -> Option<Box<Payload>> {
        self.payloads.get_mut(index(id)).and_then(Option::take)
    }

    /// Puts a payload that has been read back among the spare ones, for reuse by later bursts.
    #[inline(always)]
    pub fn reuse_payload(&mut self, payload: Option<Box<Payload>>) {
        if let Some(payload) = payload {
            match payload.is_long() {
                false => self.spare_payloads.push(payload),
                true => self.reuse_long_payload(payload),
            }
        }
    }

    #[cold]
    fn reuse_long_payload(&mut self, mut payload: Box<Payload>) {
        self.spare.extend(payload.take_heap_buffer());
        self.spare_payloads.push(payload);
    }

    /// Writes the first `bytes` bytes of a burst's payload to host memory at `address`.
    pub(super) fn store(&self, id: BurstId, address: u64, bytes: u32, memory: &mut HostMemory) {
        let payload = self.payloads[index(id)].as_ref().expect("the sender of a burst has filled its payload");
        memory.write(address, &payload.bytes()[..index(bytes)]);
    }

    /// Frees the payload of a burst that has been written to host memory, so that its buffer is reused.
    #[cold]
    pub(super) fn release(&mut self, id: BurstId) {
        let payload = self.take_burst_payload(id);
        self.reuse_payload(payload);
    }

    /// Fills the payload of a burst with `bytes` bytes of host memory from `address` on.
    #[inline(always)]
    pub(super) fn load(&mut self, id: BurstId, address: u64, bytes: u32, memory: &HostMemory) {
        memory.read(address, self.room(id, index(bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "burst 0 is freed twice")]
    fn freeing_a_burst_twice_causes_a_panic() {
        let mut bursts = BurstTable::default();
        let id = bursts.occupy();
        bursts.vacate(id);
        bursts.vacate(id);
    }
}
