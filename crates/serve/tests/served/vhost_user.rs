//! A virtio block device over vhost-user, as the driver of a virtual machine meets it.

// The benchmark uses this module too.
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use crate::vhost_guest::*;
use phaselink_core::drive::Drive;
use phaselink_core::time::Span;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::FrontEndArguments;
use phaselink_serve::front::vhost_user::KIND;
use phaselink_serve::front::vhost_user::blk::{FEATURES, feature};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const WAITS: [Wait; 3] = [Wait::Spin, Wait::Block, Wait::Adaptive];

struct Running {
    path: PathBuf,
    server: BackgroundServer,
}

fn serve(test: &str, drive: &str, store: Store, timing: bool, wait: Wait) -> Running {
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vhost-{test}.sock"));
    let drive = Drive::shipped(drive).unwrap();
    let asked = FrontEndArguments { addresses: vec![path.display().to_string()], ..FrontEndArguments::default() };
    let front = (KIND.bind)(&asked, &drive, store.geometry()).unwrap();
    let server = Server {
        device: device(drive, store),
        timing,
        wait,
        seed: 1,
        fronts: vec![front],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    Running { path, server: BackgroundServer::start(server, alone) }
}

impl Running {
    fn in_memory(test: &str, timing: bool, wait: Wait) -> Running {
        serve(test, "nvme-polled", Store::in_memory(GEOMETRY).unwrap(), timing, wait)
    }

    fn finish(self) -> Summary {
        self.server.finish()
    }
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn virtio_data_reads_back_with_all_wait_methods() {
    for (timing, wait) in [false, true].into_iter().flat_map(|timing| WAITS.map(|wait| (timing, wait))) {
        let running = Running::in_memory("bytes", timing, wait);
        let mut guest = Guest::connect(&running.path, FEATURES);
        let data: Vec<u8> = (0..4096u32).map(|place| (place % 251) as u8).collect();
        guest.put(DATA, &data);
        assert_eq!(guest.exchange(WRITE, 8, &[(0, 4096)]), (0, 1));
        // Split the buffer at unusual positions.
        assert_eq!(guest.exchange(READ, 8, &[(8192, 1), (9000, 4000), (20_000, 95)]), (0, 4097));
        let read = [guest.get(DATA + 8192, 1), guest.get(DATA + 9000, 4000), guest.get(DATA + 20_000, 95)].concat();
        assert_eq!(read, data, "{timing} {wait:?}");
        assert_eq!(guest.exchange(FLUSH, 0, &[]), (0, 1));
        let summary = running.finish();
        assert_eq!((summary.tally.read.ios, summary.tally.write.ios, summary.tally.flush.ios), (1, 1, 1));
        assert_eq!(summary.tally.errors, 0);
        assert_eq!((summary.outcome.ios(), summary.tally.lag.count()), (2, if timing { 2 } else { 0 }));
    }
}

#[test]
fn discard_and_write_zeroes_leave_zeros() {
    let running = Running::in_memory("zeros", false, Wait::Block);
    let mut guest = Guest::connect(&running.path, FEATURES);
    guest.put(DATA, &[7; 8192]);
    assert_eq!(guest.exchange(WRITE, 0, &[(0, 8192)]), (0, 1));
    guest.put(DATA, &[range(0, 1, 0), range(4, 2, 0)].concat());
    assert_eq!(guest.exchange(DISCARD, 0, &[(0, 32)]), (0, 1));
    guest.put(DATA, &range(8, 8, 1));
    assert_eq!(guest.exchange(ZERO, 0, &[(0, 16)]), (0, 1));
    assert_eq!(guest.exchange(READ, 0, &[(0, 8192)]), (0, 8193));
    let zeros = |sector: usize| matches!(sector, 0 | 4 | 5 | 8..16);
    let read = guest.get(DATA, 8192);
    let wrong = (0..16).find(|sector| read[sector * 512..][..512] != [if zeros(*sector) { 0 } else { 7 }; 512]);
    assert_eq!(wrong, None);
    assert_eq!(guest.exchange(NAME, 0, &[(0, 20)]), (0, 21));
    assert_eq!(guest.get(DATA, 20), b"nvme-polled\0\0\0\0\0\0\0\0\0");
    let config = guest.frontend.get_config(0, 60, VhostUserConfigFlags::empty(), &[0; 60]).unwrap().1;
    assert_eq!(config[..8], 2048u64.to_le_bytes());
}

#[test]
fn invalid_virtio_request_gets_a_status_and_the_next_is_served() {
    let running = Running::in_memory("wrong", false, Wait::Adaptive);
    let mut guest = Guest::connect(&running.path, FEATURES);
    assert_eq!(guest.exchange(READ, 2048, &[(0, 512)]).0, 1);
    assert_eq!(guest.exchange(READ, 0, &[(0, 511)]).0, 1);
    assert_eq!(guest.exchange(WRITE, u64::MAX, &[(0, 512)]).0, 1);
    assert_eq!(guest.exchange(99, 0, &[(0, 512)]).0, 2);
    guest.put(DATA, &range(0, 1, 1));
    assert_eq!(guest.exchange(DISCARD, 0, &[(0, 16)]).0, 2);
    // The data address is outside guest memory.
    assert_eq!(guest.exchange(WRITE, 0, &[(MEMORY_BYTES, 512)]).0, 1);
    // The descriptor chain has no room for a status.
    guest.describe(0, guest.asked % ENTRIES, GUEST + HEADERS, 16, 0, 0);
    guest.submit(guest.asked % ENTRIES);
    guest.wait();
    // The descriptor chain is a loop.
    let head = guest.asked % ENTRIES;
    guest.describe(0, head, GUEST + HEADERS, 16, NEXT, head);
    guest.submit(head);
    guest.wait();
    assert_eq!(guest.exchange(READ, 0, &[(0, 512)]), (0, 513));
    assert_eq!(running.finish().tally.errors, 8);
}

#[test]
fn writes_are_durable_for_drivers_without_flush() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vhost-durable.store");
    let _ = std::fs::remove_file(&path);
    let running = serve("durable", "nvme-polled", Store::open(&path, GEOMETRY).unwrap(), true, Wait::Block);
    let mut guest = Guest::connect(&running.path, FEATURES & !feature::FLUSH);
    guest.put(DATA, &[9; 512]);
    assert_eq!(guest.exchange(WRITE, 3, &[(0, 512)]), (0, 1));
    assert_eq!(running.finish().tally.write.ios, 1);
    let mut data = [0; 512];
    Store::open(&path, GEOMETRY).unwrap().read(3 * 512, &mut data).unwrap();
    assert_eq!(data, [9; 512]);
}

#[test]
fn virtio_requests_without_data_take_modelled_time() {
    for (features, flushes) in [(FEATURES, 1), (FEATURES & !feature::FLUSH, 4)] {
        let running = serve("modelled", "tlc-gen4", Store::in_memory(GEOMETRY).unwrap(), true, Wait::Block);
        let mut guest = Guest::connect(&running.path, features);
        guest.put(DATA, &[9; 4096]);
        assert_eq!(guest.exchange(WRITE, 0, &[(0, 4096)]), (0, 1));
        assert_eq!(guest.exchange(FLUSH, 0, &[]), (0, 1));
        guest.put(DATA, &[range(16, 8, 0), range(32, 8, 0)].concat());
        assert_eq!(guest.exchange(DISCARD, 0, &[(0, 32)]), (0, 1));
        guest.put(DATA, &range(8, 8, 1));
        assert_eq!(guest.exchange(ZERO, 0, &[(0, 16)]), (0, 1));
        let summary = running.finish();
        let job = &summary.outcome.jobs[0];
        // Each range of a discard is a separate command of the modelled drive. For a driver without flushes, the device
        // adds a flush after each change.
        let counts = [&job.write, &job.flush, &job.discard, &job.zeroes].map(|kind| kind.ios);
        assert_eq!(counts, [1, flushes, 2, 1]);
        let tally = &summary.tally;
        assert_eq!((tally.flush.ios, tally.discard.ios, tally.discard.bytes, tally.zeroes.ios), (1, 1, 8192, 1));
        let program = Span::from_us(300);
        assert_eq!(tally.write.latency.max() > program, flushes > 1);
        assert!(tally.discard.latency.max() > Span::from_us(1) && tally.flush.latency.max() > Span::from_us(1));
        assert!(flushes > 1 || tally.flush.latency.max() > program, "{}", tally.flush.latency.max());
    }
}

#[test]
fn stopped_ring_resumes_at_its_index() {
    let running = Running::in_memory("again", true, Wait::Block);
    let mut guest = Guest::connect(&running.path, FEATURES);
    for sector in 0..3 {
        guest.ask(&Ask { kind: READ, sector, parts: &[(0, 512)] });
    }
    // Requests that were taken complete before the ring is returned.
    let base = guest.frontend.get_vring_base(0).unwrap();
    assert_eq!(u32::from(guest.memory.load::<u16>(Guest::at(USED + 2), Ordering::Acquire).unwrap()), base);
    let region = guest.memory.find_region(GuestAddress(GUEST)).unwrap();
    let user = region.get_host_address(vm_memory::MemoryRegionAddress(0)).unwrap() as u64;
    guest.start(user, base as u16);
    (0..3).for_each(|_| guest.wait());
    assert_eq!(guest.exchange(READ, 0, &[(0, 512)]), (0, 513));
    drop(guest);
    let mut guest = Guest::connect(&running.path, FEATURES);
    assert_eq!(guest.exchange(READ, 0, &[(0, 512)]), (0, 513));
    assert_eq!(running.finish().tally.read.ios, 5);
}

#[test]
fn lost_guest_memory_harms_only_its_client() {
    let running = Running::in_memory("away", false, Wait::Spin);
    let guest = Guest::connect(&running.path, FEATURES);
    let region = guest.memory.find_region(GuestAddress(GUEST)).unwrap();
    region.file_offset().unwrap().file().set_len(0).unwrap();
    guest.kick.write(1).unwrap();
    thread::sleep(Duration::from_millis(50));
    drop(guest);
    let mut guest = Guest::connect(&running.path, FEATURES);
    assert_eq!(guest.exchange(READ, 0, &[(0, 512)]), (0, 513));
}

#[test]
fn vhost_user_features_are_offered() {
    let running = Running::in_memory("offered", false, Wait::Block);
    let mut guest = Guest::connect(&running.path, FEATURES);
    // Feature bits of the vhost-user protocol: multiple queues, REPLY_ACK, configuration, reset, memory slots.
    let expected = 1 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15;
    assert_eq!(guest.frontend.get_protocol_features().unwrap().bits(), expected);
}

#[test]
fn incomplete_client_message_does_not_block_shutdown() {
    use std::io::Write;
    let running = Running::in_memory("silent", false, Wait::Block);
    let mut stream = std::os::unix::net::UnixStream::connect(&running.path).unwrap();
    stream.write_all(&[1, 0]).unwrap();
    thread::sleep(Duration::from_millis(50));
    let started = Instant::now();
    running.finish();
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn guest_is_notified_when_it_asks() {
    let running = Running::in_memory("woken", false, Wait::Block);
    for features in [FEATURES, FEATURES & !feature::EVENT_IDX] {
        let mut guest = Guest::connect(&running.path, features);
        guest.exchange(READ, 0, &[(0, 512)]);
        let until = Instant::now() + Duration::from_secs(20);
        while guest.call.read().is_err() {
            assert!(Instant::now() < until, "nobody called");
            thread::yield_now();
        }
    }
}
