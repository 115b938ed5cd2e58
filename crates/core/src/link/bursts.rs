//! The bursts on their way, with their payloads.

use std::ops::{Index, IndexMut};

use super::InFlight;
use crate::memory::HostMemory;
use crate::table::Table;
use crate::tlp::{PacketId, Payload};

/// Bursts by [`PacketId`].
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    table: Table<InFlight>,
    /// Payloads beside them, because few bursts have one whose bytes matter.
    payloads: Vec<Payload>,
}

impl Index<PacketId> for Bursts {
    type Output = InFlight;
    #[inline(always)]
    fn index(&self, id: PacketId) -> &InFlight {
        &self.table[id as usize]
    }
}

impl IndexMut<PacketId> for Bursts {
    #[inline(always)]
    fn index_mut(&mut self, id: PacketId) -> &mut InFlight {
        &mut self.table[id as usize]
    }
}

impl Bursts {
    /// A place for a burst, to be filled.
    #[inline]
    pub(super) fn occupy(&mut self) -> PacketId {
        self.table.occupy()
    }

    /// A burst is over.
    #[inline]
    pub fn vacate(&mut self, id: PacketId) {
        self.table.vacate(id);
    }

    /// The payload of a burst. Whoever sends or answers it fills it before anybody looks.
    #[inline]
    pub fn payload(&mut self, id: PacketId) -> &mut Payload {
        let place = id as usize;
        if self.payloads.len() <= place {
            self.add_payloads(place);
        }
        &mut self.payloads[place]
    }

    #[cold]
    fn add_payloads(&mut self, place: usize) {
        self.payloads.resize_with(place + 1, Payload::default);
    }

    /// The same at the end of the burst's journey.
    #[inline(always)]
    pub fn take_payload(&mut self, id: PacketId) -> Payload {
        std::mem::take(self.payload(id))
    }

    /// Write a burst's payload to host memory.
    pub(super) fn store(&self, id: PacketId, address: u64, bytes: u32, memory: &mut HostMemory) {
        memory.write(address, &self.payloads[id as usize].bytes()[..bytes as usize]);
    }

    /// Fill a burst's payload from host memory.
    #[inline(always)]
    pub(super) fn load(&mut self, id: PacketId, address: u64, bytes: u32, memory: &HostMemory) {
        memory.read(address, self.payload(id).room(bytes as usize));
    }
}
