//! Targets that act as a guest with a virtqueue in its memory.

use phaselink_serve::device::faults::FaultEffect;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::vhost_user::blk::{BlockRequest, Command, HEADER_BYTES, RANGE_BYTES, Status};
use phaselink_serve::front::vhost_user::data::GuestTransfer;
use phaselink_serve::front::vhost_user::ring::{Request, Ring};
use virtio_queue::QueueT;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::Target;
use crate::script::Script;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 64 << 10, block_bytes: 512 };
const MEMORY_BYTES: u64 = 32 << 10;
const ENTRIES: u16 = 8;
const AVAILABLE: u64 = 0x400;
const USED: u64 = 0x800;
const HEADERS: u64 = 0xc00;
const DATA: u64 = 0x1000;

/// Checks the steps of a guest and of the device: nearly correct chains, overwritten bytes, polls of the ring,
/// completions.
pub(super) const RING: Target = Target { name: "vhost-user", run: ring, seeds: conversations };

fn ring(input: &[u8]) {
    let mut script = Script::new(input);
    let mut pair = Pair::new();
    while !script.is_over() {
        match script.byte() % 4 {
            0 => pair.submit(&mut script),
            1 => pair.scribble(&mut script),
            2 => pair.take(),
            _ => pair.answer(),
        }
    }
}

/// Guest's memory and the device.
struct Pair {
    memory: GuestMemoryMmap,
    ring: Ring,
    store: Store,
    submitted: u16,
    taken: Vec<Request>,
    space: Vec<u8>,
}

impl Pair {
    fn new() -> Pair {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES as usize)]).expect("memory");
        let mut ring = Ring::default();
        ring.queue.set_size(ENTRIES);
        ring.queue.try_set_desc_table_address(GuestAddress(0)).expect("aligned");
        ring.queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).expect("aligned");
        ring.queue.try_set_used_ring_address(GuestAddress(USED)).expect("aligned");
        ring.queue.set_ready(true);
        let store = Store::in_memory(GEOMETRY).expect("64 KiB");
        Pair { memory, ring, store, submitted: 0, taken: Vec::new(), space: Vec::new() }
    }

    /// Writes a chain of header, data and status, each part of which may be wrong.
    fn submit(&mut self, script: &mut Script<'_>) {
        let [kind, sector, blocks, wrong] = [(); 4].map(|()| script.byte());
        let slot = self.submitted % (ENTRIES / 4) * 4;
        let header = HEADERS + u64::from(slot) * 16;
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = [0, 1, 4, 8, 11, 13, kind][usize::from(kind % 7)];
        bytes[8] = sector;
        let to_driver = if matches!(bytes[0], 0 | 8) { 2 } else { 0 };
        if wrong & 1 != 0 {
            bytes[8..].copy_from_slice(&script.number(8).to_le_bytes());
        }
        let _ = self.memory.write_slice(&bytes, GuestAddress(header));
        let mut parts = [(header, 16, 1), (DATA, u32::from(blocks % 16) * 512, 1 | to_driver), (header + 16, 1, 2)];
        if wrong & 2 != 0 {
            parts[usize::from(script.byte() % 3)] = (script.number(8), script.number(4) as u32, script.byte().into());
        }
        for (place, (address, bytes, flags)) in (slot..).zip(parts) {
            self.describe(place, address, bytes, flags);
        }
        let entry = GuestAddress(AVAILABLE + 4 + u64::from(self.submitted % ENTRIES) * 2);
        let _ = self.memory.write_obj(slot, entry);
        self.submitted = self.submitted.wrapping_add(1);
        let _ = self.memory.write_obj(self.submitted, GuestAddress(AVAILABLE + 2));
    }

    fn describe(&self, place: u16, address: u64, bytes: u32, flags: u16) {
        let at = u64::from(place) * 16;
        let next = place.wrapping_add(1);
        let _ = self.memory.write_obj(address, GuestAddress(at));
        let _ = self.memory.write_obj(bytes, GuestAddress(at + 8));
        let _ = self.memory.write_obj(flags, GuestAddress(at + 12));
        let _ = self.memory.write_obj(next, GuestAddress(at + 14));
    }

    /// Overwrites any bytes.
    fn scribble(&mut self, script: &mut Script<'_>) {
        let at = GuestAddress(script.number(2) % MEMORY_BYTES);
        let _ = self.memory.write_slice(script.bytes(4), at);
    }

    fn take(&mut self) {
        if !self.ring.queue.ready() {
            return;
        }
        let Some(request) = self.ring.take(&self.memory, GEOMETRY) else { return };
        if let Ok(BlockRequest { command, offset, bytes }) = request.wanted {
            let lies_within = offset.checked_add(bytes.into()).is_some_and(|end| end <= GEOMETRY.capacity_bytes);
            let moves = matches!(command, Command::Read | Command::Write | Command::Zero);
            assert!(!moves || lies_within, "{request:?}");
            let ranges = request.ranges.iter().all(|range| {
                range.offset + u64::from(range.bytes) <= GEOMETRY.capacity_bytes && range.bytes.is_multiple_of(512)
            });
            assert!(ranges && (command != Command::Discard || bytes as usize == request.ranges.len() * RANGE_BYTES));
        }
        self.taken.push(request);
        assert!(self.taken.len() <= ENTRIES.into(), "more under way than entries");
    }

    fn answer(&mut self) {
        let Some(request) = self.taken.pop() else { return };
        let mut transfer = GuestTransfer { memory: &self.memory, store: &self.store, space: &mut self.space };
        let done = transfer.perform(&request, FaultEffect::default(), "fuzzed");
        let (status, bytes) = done.map_or_else(|status| (status, 0), |bytes| (Status::Ok, bytes));
        self.ring.answer(&self.memory, &request, status, bytes);
        self.ring.signal(&self.memory);
        assert_eq!(self.ring.in_flight as usize, self.taken.len());
    }
}

fn conversations() -> Vec<Vec<u8>> {
    let each = (0..6).map(|kind| vec![0, kind, 2, 4, 0, 2, 3]);
    let wrong = (1..4).map(|wrong| [&[0, 1, 2, 4, wrong][..], &[7; 13], &[2, 3]].concat());
    let many = [[0, 0, 0, 1, 0, 2]; 4].concat();
    each.chain(wrong).chain([many]).collect()
}
