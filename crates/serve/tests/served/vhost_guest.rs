//! A guest of vhost-user, with a driver of virtio that has one ring.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_serve::front::vhost_user::blk::FEATURES;
use vhost::VhostBackend;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) const MEMORY_BYTES: u64 = 4 << 20;
/// Where the guest has its memory, in its own addresses and in those of its process.
pub(crate) const GUEST: u64 = 1 << 32;
pub(crate) const ENTRIES: u16 = 16;
pub(crate) const AVAILABLE: u64 = 0x1000;
pub(crate) const USED: u64 = 0x2000;
pub(crate) const INDIRECT: u64 = 0x3000;
pub(crate) const HEADERS: u64 = 0x4000;
pub(crate) const STATUS: u64 = 0x5000;
pub(crate) const DATA: u64 = 0x10_0000;

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const NAME: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const ZERO: u32 = 13;

pub(crate) const NEXT: u16 = 1;
pub(crate) const FOR_DRIVER: u16 = 2;
pub(crate) const IS_INDIRECT: u16 = 4;

/// A guest with one ring, whose descriptors it hands out in turn.
pub(crate) struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    pub kick: EventFd,
    pub call: EventFd,
    pub asked: u16,
    pub answered: u16,
}

/// What the guest asks the device, and where the data are.
pub(crate) struct Ask<'a> {
    pub kind: u32,
    pub sector: u64,
    /// Pieces of data: offset from the start of the data, and bytes.
    pub parts: &'a [(u64, u32)],
}

pub(crate) fn memory_file(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

impl Guest {
    pub(crate) fn connect(path: &Path, features: u64) -> Guest {
        let mut frontend = Frontend::connect(path, 1).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        assert_eq!(offered & FEATURES, FEATURES);
        frontend.set_features(features | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()).unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ;
        assert!(frontend.get_protocol_features().unwrap().contains(wanted));
        frontend.set_protocol_features(wanted | VhostUserProtocolFeatures::REPLY_ACK).unwrap();
        let file = memory_file(MEMORY_BYTES);
        let fd = file.as_raw_fd();
        let ranges = [(GuestAddress(GUEST), MEMORY_BYTES as usize, Some(FileOffset::new(file, 0)))];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        let user = memory.find_region(GuestAddress(GUEST)).unwrap().get_host_address(vm_memory::MemoryRegionAddress(0));
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: MEMORY_BYTES,
            userspace_addr: user.unwrap() as u64,
            mmap_offset: 0,
            mmap_handle: fd,
        };
        frontend.set_mem_table(&[region]).unwrap();
        let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        let mut guest = Guest { frontend, memory, kick, call, asked: 0, answered: 0 };
        guest.start(region.userspace_addr, 0);
        guest
    }

    pub(crate) fn start(&mut self, user: u64, base: u16) {
        let Guest { frontend, kick, call, .. } = self;
        frontend.set_vring_num(0, ENTRIES).unwrap();
        let ring = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: user,
            used_ring_addr: user + USED,
            avail_ring_addr: user + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &ring).unwrap();
        frontend.set_vring_base(0, base).unwrap();
        frontend.set_vring_call(0, call).unwrap();
        frontend.set_vring_kick(0, kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
    }

    pub(crate) fn at(offset: u64) -> GuestAddress {
        GuestAddress(GUEST + offset)
    }

    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, Guest::at(offset)).unwrap();
    }

    pub(crate) fn get(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.read_slice(&mut data, Guest::at(offset)).unwrap();
        data
    }

    pub(crate) fn describe(&self, table: u64, place: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&address.to_le_bytes());
        entry[8..12].copy_from_slice(&bytes.to_le_bytes());
        entry[12..14].copy_from_slice(&flags.to_le_bytes());
        entry[14..].copy_from_slice(&next.to_le_bytes());
        self.put(table + u64::from(place) * 16, &entry);
    }

    /// Ask, through a table of descriptors of its own.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>) {
        let slot = self.asked % ENTRIES;
        let header = HEADERS + u64::from(slot) * 16;
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&ask.kind.to_le_bytes());
        bytes[8..].copy_from_slice(&ask.sector.to_le_bytes());
        self.put(header, &bytes);
        self.put(STATUS + u64::from(slot), &[0xff]);
        let table = INDIRECT + u64::from(slot) * 256;
        self.describe(table, 0, GUEST + header, 16, NEXT, 1);
        let direction = if matches!(ask.kind, READ | NAME) { FOR_DRIVER } else { 0 };
        for (place, (offset, bytes)) in (1..).zip(ask.parts) {
            self.describe(table, place, GUEST + DATA + offset, *bytes, NEXT | direction, place + 1);
        }
        let last = ask.parts.len() as u16 + 1;
        self.describe(table, last, GUEST + STATUS + u64::from(slot), 1, FOR_DRIVER, 0);
        self.describe(0, slot, GUEST + table, u32::from(last + 1) * 16, IS_INDIRECT, 0);
        self.submit(slot);
    }

    pub(crate) fn submit(&mut self, head: u16) {
        self.put(AVAILABLE + 4 + u64::from(self.asked % ENTRIES) * 2, &head.to_le_bytes());
        self.asked += 1;
        self.memory.store(self.asked, Guest::at(AVAILABLE + 2), Ordering::Release).unwrap();
        self.kick.write(1).unwrap();
    }

    pub(crate) fn wait(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.memory.load::<u16>(Guest::at(USED + 2), Ordering::Acquire).unwrap() == self.answered {
            assert!(Instant::now() < until, "no answer");
            thread::yield_now();
        }
        self.answered += 1;
    }

    /// Ask and wait: the status, and how many bytes are said to have been written.
    pub(crate) fn exchange(&mut self, kind: u32, sector: u64, parts: &[(u64, u32)]) -> (u8, u32) {
        let slot = self.asked % ENTRIES;
        self.ask(&Ask { kind, sector, parts });
        self.wait();
        let used = self.get(USED + 4 + u64::from((self.answered - 1) % ENTRIES) * 8, 8);
        assert_eq!(used[..4], u32::from(slot).to_le_bytes());
        (self.get(STATUS + u64::from(slot), 1)[0], u32::from_le_bytes(used[4..].try_into().unwrap()))
    }
}
