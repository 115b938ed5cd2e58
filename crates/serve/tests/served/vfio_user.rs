//! A served NVMe device over vfio-user, from the other side: what QEMU with Linux and what SPDK do to it, and worse.

// The benchmark uses another part of this module.
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use crate::vfio_client::{Client, DATA, DoorbellMethod, Driver, ISLAND, PAGE, RAM, RAM_BYTES, u32_at, words};
use phaselink_client::shared::memory::Memory;
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_core::protocol::nvme::spec::{Status, admin};
use phaselink_core::time::Span;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::vfio_user::session::Session;
use phaselink_serve::front::vfio_user::wire::{Header, command};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };

/// A server that runs until this goes.
const QUEUE_PAIRS: u32 = 4;

struct Running {
    path: PathBuf,
    server: BackgroundServer,
}

fn serve(test: &str, timing: bool, wait: Wait) -> Running {
    serve_store(test, timing, wait, Store::in_memory(GEOMETRY).unwrap())
}

fn serve_store(test: &str, timing: bool, wait: Wait, store: Store) -> Running {
    serve_drive(test, timing, wait, store, drive())
}

fn serve_drive(test: &str, timing: bool, wait: Wait, store: Store, drive: Drive) -> Running {
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.vfio"));
    let device = device(drive, store);
    let served = ControllerSocket::bind(&path, &device.drive, GEOMETRY, 0).unwrap();
    let path = if path.is_dir() { path.join("cntrl") } else { path };
    let server = Server {
        device,
        timing,
        wait,
        seed: 1,
        fronts: vec![Box::new(VfioUser(vec![served]))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    Running { path, server: BackgroundServer::start(server, alone) }
}

impl Running {
    fn finish(self) -> Summary {
        self.server.finish()
    }
}

/// Every limit is another than the schema's default.
fn drive() -> Drive {
    let mut drive = Drive::shipped("nvme").unwrap();
    let nvme = &mut drive.nvme;
    (nvme.queue_pairs, nvme.queue_entries, nvme.max_transfer_kib) = (QUEUE_PAIRS, 64, 64);
    drive
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|place| (place * 31 + place / 251 + seed) as u8).collect()
}

fn eventfds(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()).collect()
}

fn count(fd: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(fd, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

/// Interrupts since the last look, of which there is one or will be: an answer stands in the queue before its interrupt.
fn wait_for_interrupt(fd: &OwnedFd) -> u64 {
    let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)).unwrap();
    count(fd)
}

const QEMU: &str = r#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"write_multiple":true}}"#;

/// QEMU attaches: versions, regions asked twice, interrupts, memory.
fn attach_like_qemu(path: &Path) -> Client {
    let client = Client::connect(path);
    let answer = client.agree(QEMU);
    assert_eq!((&answer[..4], answer.last()), (&[0; 4][..], Some(&0)));
    let json: serde_json::Value = serde_json::from_slice(&answer[4..answer.len() - 1]).unwrap();
    assert_eq!(json["capabilities"]["write_multiple"], true);
    let info = client.ask(command::DEVICE_GET_INFO, &words(&[16, 0, 0, 0]), &[]).unwrap().0;
    assert_eq!((u32_at(&info, 8), u32_at(&info, 12)), (9, 5));
    for region in 0..9 {
        let (short, _) = client.region_info(region, 32);
        let (long, fds) = client.region_info(region, u32_at(&short, 0));
        assert_eq!(u32_at(&long, 0) as usize, long.len());
        assert_eq!(u32_at(&long, 4) & 4 != 0, !fds.is_empty());
    }
    for kind in 0..5 {
        let info = client.ask(command::DEVICE_GET_IRQ_INFO, &words(&[16, 0, kind, 0]), &[]).unwrap().0;
        assert_eq!(u32_at(&info, 12), [1, 0, QUEUE_PAIRS + 1, 1, 0][kind as usize]);
    }
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    client
}

#[test]
fn linux_driver_sequence_works_with_interrupts() {
    let server = serve("linux", false, Wait::Spin);
    let client = attach_like_qemu(&server.path);
    let class = client.region_read(7, 8, 4).unwrap();
    assert_eq!(&class[1..], [2, 8, 1]);
    let fds = eventfds(2);
    client.set_msix_eventfds(&[fds[0].as_fd(), fds[1].as_fd()]).unwrap();
    let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(1);
    assert!(wait_for_interrupt(&fds[0]) > 0 && count(&fds[1]) == 0);
    let data = pattern(8192, 3);
    driver.write(5, &data);
    assert!(wait_for_interrupt(&fds[1]) > 0);
    assert_eq!(driver.read(5, 8192), data);
    // Fill the rings more than once.
    for round in 0..100 {
        driver.write(round * 16, &pattern(8192, round as usize));
    }
    for round in 0..100 {
        assert_eq!(driver.read(round * 16, 8192), pattern(8192, round as usize), "round {round}");
    }
    let summary = server.finish();
    assert_eq!((summary.tally.write.ios, summary.tally.read.ios, summary.tally.errors), (101, 101, 0));
}

/// Base Specification 2.0, section 3.4.4.2.
#[test]
fn weighted_arbitration_serves_all_priority_classes() {
    for timing in [false, true] {
        let server = serve(if timing { "weighted-timed" } else { "weighted" }, timing, Wait::Spin);
        let client = attach_like_qemu(&server.path);
        let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
        driver.client.set_register(0x14, 0);
        driver.wait_for_status(0);
        driver.client.set_register(0x14, 1 | 1 << 11 | 6 << 16 | 4 << 20);
        driver.wait_for_status(1);
        driver.bring_up_like_linux(0);
        // Arbitration burst of two commands, and weights of one.
        driver.administer(admin::SET_FEATURES, 0, 0, [1, 1, 0, 0, 0, 0]);
        for class in 0..4 {
            driver.administer(admin::DELETE_SUBMISSION_QUEUE, 0, 0, [1, 0, 0, 0, 0, 0]);
            driver.tails[1] = 0;
            let size = (crate::vfio_client::ENTRIES - 1) << 16;
            let dwords = [1 | size, 1 | class << 1 | 1 << 16, 0, 0, 0, 0];
            driver.administer(admin::CREATE_SUBMISSION_QUEUE, 0, 3, dwords);
            (0..20).for_each(|place| driver.write(place, &pattern(512, place as usize)));
            assert_eq!(driver.read(19, 512), pattern(512, 19), "class {class}");
        }
        assert_eq!(server.finish().tally.errors, 0);
    }
}

#[test]
fn spdk_doorbell_page_and_socket_directory_work() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spdk.vfio");
    fs::create_dir_all(&directory).unwrap();
    let server = serve("spdk", false, Wait::Spin);
    let client = Client::connect(&server.path);
    assert_eq!(client.agree(""), [0; 4]);
    // The buffer has room for the whole reply, which is padded with zeros.
    let (info, mut fds) = client.region_info(0, 128);
    assert_eq!((u32_at(&info, 4), u32_at(&info, 12)), (15, 32));
    assert_eq!((u32_at(&info, 32), u32_at(&info, 40), u32_at(&info, 48), u32_at(&info, 56)), (0x1_0001, 1, 4096, 4096));
    let page = Memory::open(&fds.remove(0), 0x2000).unwrap();
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    let mut driver = Driver::start(client, RAM, DoorbellMethod::Page(page));
    driver.bring_up_like_linux(0);
    let data = pattern(4096, 9);
    driver.write(0, &data);
    assert_eq!(driver.read(0, 4096), data);
    let whole = driver.client.region_read(0, 0, 8).unwrap();
    assert_eq!(u32_at(&whole, 0), driver.client.register(0));
    driver.client.set_register(0x14, 1 | 6 << 16 | 4 << 20 | 1 << 14);
    while driver.client.register(0x1c) >> 2 & 3 != 2 {}
}

#[test]
fn memory_without_a_descriptor_is_requested_from_the_client() {
    let server = serve("island", false, Wait::Spin);
    works_without_a_descriptor(attach_like_qemu(&server.path));
}

fn works_without_a_descriptor(client: Client) {
    client.map(ISLAND, 0, RAM_BYTES, None).unwrap();
    let mut driver = Driver::start(client, ISLAND, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    let data = pattern(8192, 1);
    driver.write(7, &data);
    assert_eq!(driver.read(7, 8192), data);
}

#[test]
fn small_message_client_is_asked_for_memory_in_parts() {
    let server = serve("small-messages", false, Wait::Spin);
    let client = Client::connect(&server.path);
    client.agree(r#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":700}}"#);
    works_without_a_descriptor(client);
}

#[test]
fn sleeping_device_is_woken_by_messages_without_shared_doorbells() {
    let server = serve("block", false, Wait::Block);
    let client = attach_like_qemu(&server.path);
    assert_eq!(u32_at(&client.region_info(0, 64).0, 4), 3);
    let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    driver.write(1, &pattern(512, 4));
    assert_eq!(driver.read(1, 512), pattern(512, 4));
}

/// The device thread sleeps for up to 100 ms unless it is told that the disk has done its part.
#[test]
fn file_flush_completes_with_and_without_timing() {
    for (name, timing) in [("disk-untimed", false), ("disk-modelled", true)] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.store"));
        let server = serve_store(name, timing, Wait::Block, Store::open(&path, GEOMETRY).unwrap());
        let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
        driver.bring_up_like_linux(0);
        driver.write(1, &pattern(512, 4));
        let before = Instant::now();
        for _ in 0..40 {
            driver.submit(1, opcode::FLUSH, 1, [0, 0], [0; 6]);
            assert_eq!(driver.answer(1).status, Status::SUCCESS);
        }
        assert!(before.elapsed() < Duration::from_secs(3), "{name}: {:?}", before.elapsed());
        assert_eq!(server.finish().tally.flush.ios, 40);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn host_flushes_and_fua_writes_take_modelled_time() {
    let mut drive = Drive::shipped("tlc-gen4").unwrap();
    let (program, nvme) = (drive.media.program, &mut drive.nvme);
    (nvme.queue_pairs, nvme.queue_entries, nvme.max_transfer_kib) = (QUEUE_PAIRS, 64, 64);
    let server = serve_drive("flush-modelled", true, Wait::Block, Store::in_memory(GEOMETRY).unwrap(), drive);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    driver.write(1, &pattern(512, 4));
    let forced_zeroes = [8, 0, 1 << 30 | 7, 0, 0, 0];
    for (opcode, dwords) in [(opcode::FLUSH, [0; 6]), (opcode::WRITE_ZEROES, forced_zeroes)] {
        driver.submit(1, opcode, 1, [0, 0], dwords);
        assert_eq!(driver.answer(1).status, Status::SUCCESS);
    }
    let summary = server.finish();
    let job = &summary.outcome.jobs[0];
    assert_eq!([&job.write, &job.flush, &job.zeroes].map(|kind| kind.ios), [1; 3]);
    assert!(job.write.total.max() < program && job.flush.total.max() > program && job.zeroes.total.max() > program);
    assert_eq!((summary.tally.flush.latency.count(), summary.tally.zeroes.bytes), (1, 4096));
}

#[test]
fn controllers_on_several_threads_share_data() {
    const SOCKETS: usize = 3;
    for (device_threads, timing) in [(2, false), (16, false), (2, true)] {
        let alone = alone();
        let device = device(drive(), Store::in_memory(GEOMETRY).unwrap());
        let path = |number| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("threads{number}.vfio"));
        let paths: Vec<PathBuf> = (0..SOCKETS).map(path).collect();
        let bind = |(number, path): (usize, &PathBuf)| ControllerSocket::bind(path, &device.drive, GEOMETRY, number);
        let served = paths.iter().enumerate().map(bind).collect::<Result<_, _>>().unwrap();
        let fronts: Vec<Box<dyn phaselink_serve::front::Front>> = vec![Box::new(VfioUser(served))];
        let server = Server {
            device,
            timing,
            wait: Wait::Adaptive,
            seed: 1,
            fronts,
            metrics: None,
            control: None,
            device_threads,
        };
        let server = BackgroundServer::start(server, alone);
        let mut drivers: Vec<Driver> =
            paths.iter().map(|path| Driver::start(attach_like_qemu(path), RAM, DoorbellMethod::Messages)).collect();
        drivers.iter_mut().for_each(|driver| driver.bring_up_like_linux(0));
        std::thread::scope(|scope| {
            for (place, driver) in drivers.iter_mut().enumerate() {
                scope.spawn(move || (0..20).for_each(|round| driver.write(place as u64 * 16, &pattern(8192, round))));
            }
        });
        for (place, writer) in (0..SOCKETS).zip([1, 2, 0]) {
            assert_eq!(drivers[place].read(writer * 16, 8192), pattern(8192, 19), "{place}");
        }
        let tally = server.finish().tally;
        assert_eq!((tally.write.ios, tally.read.ios, tally.errors), (60, 3, 0));
    }
}

/// Serves two controllers on one device thread.
fn serve_two_controllers(test: &str, timing: bool) -> ([PathBuf; 2], BackgroundServer) {
    let alone = alone();
    let device = device(drive(), Store::in_memory(GEOMETRY).unwrap());
    let paths = [0, 1].map(|number| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}{number}.vfio")));
    let bind = |(number, path): (usize, &PathBuf)| ControllerSocket::bind(path, &device.drive, GEOMETRY, number);
    let served = paths.iter().enumerate().map(bind).collect::<Result<_, _>>().unwrap();
    let server = Server {
        device,
        timing,
        wait: Wait::Adaptive,
        seed: 1,
        fronts: vec![Box::new(VfioUser(served))],
        metrics: None,
        control: None,
        device_threads: 1,
    };
    (paths, BackgroundServer::start(server, alone))
}

/// Attaches with an admin queue in memory that the server has to ask for, rings, and answers nothing until the server hangs up.
fn withhold_memory_replies(path: &Path) {
    let client = Client::connect(path);
    client.agree("");
    client.map(ISLAND, 0, RAM_BYTES, None).unwrap();
    client.set_register(0x24, 63 | 63 << 16);
    for (register, page) in [(0x28, 1), (0x30, 2)] {
        client.set_register(register, (ISLAND + page * PAGE) as u32);
        client.set_register(register + 4, 0);
    }
    client.set_register(0x14, 1 | 6 << 16 | 4 << 20);
    while client.register(0x1c) & 1 == 0 {}
    client.write_region_posted(0, 0x1000, &1_u32.to_le_bytes());
    let mut byte = [0];
    while client.receive(&mut byte, &mut Vec::new()).is_ok() {}
}

#[test]
fn clients_withholding_memory_delay_a_neighbour_once() {
    const LASTS: Duration = Duration::from_secs(4);
    for timing in [false, true] {
        let (paths, server) = serve_two_controllers("withhold", timing);
        let mut driver = Driver::start(attach_like_qemu(&paths[0]), RAM, DoorbellMethod::Messages);
        driver.bring_up_like_linux(0);
        let started = Instant::now();
        let delayed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while started.elapsed() < LASTS {
                    withhold_memory_replies(&paths[1])
                }
            });
            let mut delayed = Duration::ZERO;
            while started.elapsed() < LASTS {
                let asked = Instant::now();
                driver.read(0, 512);
                delayed += Some(asked.elapsed()).filter(|time| *time > Duration::from_millis(100)).unwrap_or_default();
            }
            delayed
        });
        assert!(delayed < Duration::from_millis(1500), "a neighbour has waited {delayed:?} of {LASTS:?}");
        drop(server.finish());
    }
}

#[test]
fn neighbours_and_successors_of_a_leaving_client_are_served() {
    for timing in [false, true] {
        let (paths, server) = serve_two_controllers("aside", timing);
        let mut neighbour = Driver::start(attach_like_qemu(&paths[0]), RAM, DoorbellMethod::Messages);
        neighbour.bring_up_like_linux(0);
        for round in 0..3 {
            let client = attach_like_qemu(&paths[1]);
            client.map(ISLAND, 0, RAM_BYTES, None).unwrap();
            // In later rounds the client's memory is mapped, like its neighbour's.
            let base = if round < 2 { ISLAND } else { RAM };
            let mut driver = Driver::start(client, base, DoorbellMethod::Messages);
            driver.bring_up_like_linux(0);
            if round > 0 {
                assert_eq!(driver.read(64, 4096), pattern(4096, round - 1));
            }
            driver.write(64, &pattern(4096, round));
            assert_eq!(neighbour.read(64, 4096), pattern(4096, round));
            // The client disconnects with commands in flight.
            for _ in 0..4 {
                driver.transfer(opcode::READ, 0, 8);
            }
        }
        assert_eq!(server.finish().tally.write.ios, 3);
    }
}

#[test]
fn polled_completion_queue_sends_no_interrupts() {
    for has_interrupts in [false, true] {
        let server = serve("silent", true, Wait::Spin);
        let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
        let size = 63 << 16;
        let flags = if has_interrupts { 0b11 } else { 0b01 };
        driver.administer(admin::CREATE_COMPLETION_QUEUE, 0, 4, [1 | size, flags, 0, 0, 0, 0]);
        driver.administer(admin::CREATE_SUBMISSION_QUEUE, 0, 3, [1 | size, 1 | 1 << 16, 0, 0, 0, 0]);
        (0..50).for_each(|_| drop(driver.read(0, 512)));
        let outcome = server.finish().outcome;
        let counters: std::collections::BTreeMap<_, _> = outcome.counters.into_iter().collect();
        assert_eq!((counters["commands"], counters["interrupts"]), (50, if has_interrupts { 50 } else { 0 }));
    }
}

#[test]
fn departed_clients_data_remains_for_the_next() {
    let server = serve("again", false, Wait::Spin);
    for round in 0..3 {
        let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
        driver.bring_up_like_linux(0);
        if round > 0 {
            assert_eq!(driver.read(64, 4096), pattern(4096, round - 1));
        }
        driver.write(64, &pattern(4096, round));
        // Leave a command without waiting for it, and in one round half a message after it.
        driver.transfer(opcode::READ, 0, 8);
        if round == 1 {
            (&driver.client.socket).write_all(&[1, 2, 3]).unwrap();
        }
    }
}

#[test]
fn described_limits_are_offered_to_hosts() {
    let server = serve("offer", false, Wait::Spin);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    // CAP.MQES and Number of Queues are 0-based values.
    assert_eq!(driver.client.register(0) & 0xffff, 63);
    assert_eq!(driver.administer(admin::SET_FEATURES, 0, 0, [7, 500 | 500 << 16, 0, 0, 0, 0]).result, 3 | 3 << 16);
    let queue = |number: u32, entries: u32| [number | (entries - 1) << 16, 1, 0, 0, 0, 0];
    for (dwords, expected) in [
        (queue(5, 64), Status::INVALID_QUEUE_ID),
        (queue(4, 65), Status::INVALID_QUEUE_SIZE),
        (queue(4, 64), Status::SUCCESS),
    ] {
        driver.submit(0, admin::CREATE_COMPLETION_QUEUE, 0, [RAM + 8 * PAGE, 0], dwords);
        assert_eq!(driver.answer(0).status.kind(), expected, "{dwords:x?}");
    }
}

#[test]
fn device_can_be_reset_and_enabled_again() {
    let server = serve("reset", false, Wait::Spin);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    driver.write(0, &pattern(512, 8));
    driver.client.ask(command::DEVICE_RESET, &[], &[]).unwrap();
    assert_eq!(driver.client.register(0x14), 0);
    let Driver { client, .. } = driver;
    let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    assert_eq!(driver.read(0, 512), pattern(512, 8));
}

#[test]
fn responses_are_never_earlier_than_modelled() {
    let server = serve("timed", true, Wait::Spin);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    driver.write(8, &pattern(4096, 2));
    for _ in 0..20 {
        let started = Instant::now();
        assert_eq!(driver.read(8, 4096), pattern(4096, 2));
        // The link alone takes 2 us for this size, and the memory takes longer.
        assert!(started.elapsed() > Duration::from_micros(3));
    }
    let summary = server.finish();
    assert_eq!((summary.tally.read.ios, summary.tally.lag.count(), summary.outcome.ios()), (20, 21, 21));
    // The modelled software of this drive takes 5 us, which is not included here.
    let median = summary.tally.read.latency.percentile(50.0);
    assert!((Span::from_us(3)..Span::from_us(9)).contains(&median), "{median:?}");
}

#[test]
fn memory_can_be_mapped_and_unmapped_repeatedly() {
    let server = serve("maps", false, Wait::Spin);
    let client = attach_like_qemu(&server.path);
    for _ in 0..50 {
        client.unmap(RAM, RAM_BYTES).unwrap();
        client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    }
    assert_eq!(client.map(RAM + PAGE, 0, PAGE, None), Err(17));
    assert_eq!(client.unmap(RAM, PAGE), Err(22));
    assert_eq!(client.unmap(ISLAND, PAGE), Err(2));
    // The region begins one page into its file and is as long as the file, so it ends beyond it.
    assert_eq!(client.map(ISLAND, PAGE, RAM_BYTES, Some(client.ram.as_fd())), Err(22));
    let all = [&words(&[24, 2])[..], &[0; 16]].concat();
    client.ask(command::DMA_UNMAP, &all, &[]).unwrap();
    assert_eq!(client.unmap(RAM, RAM_BYTES), Err(2));
}

/// As user-space drivers do, which map each of their pages by itself.
#[test]
fn fifty_thousand_regions_can_be_mapped_and_unmapped() {
    const REGIONS: u64 = 50_000;
    let server = serve("regions", false, Wait::Spin);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(0);
    let address = |region: u64| ISLAND + region * PAGE;
    let pages = RAM_BYTES / PAGE;
    // Ask for no replies, so that the test does not wait 50,000 times.
    let posted = 1 << 4;
    for region in 0..REGIONS {
        let mut payload = words(&[32, 3]);
        payload.extend([region % pages * PAGE, address(region), PAGE].into_iter().flat_map(u64::to_le_bytes));
        driver.client.send(7, command::DMA_MAP, posted, &payload, &[driver.client.ram.as_fd()]);
    }
    assert_eq!(driver.client.map(address(REGIONS - 1), 0, PAGE, None), Err(17), "the last one is there");
    driver.write(9, &pattern(4096, 5));
    // Use the page with the driver's data in a region at the beginning, in the middle and at the end.
    for turn in [0, REGIONS / pages / 2, REGIONS / pages - 1] {
        driver.memory().write_all_at(&[0; 4096], DATA).unwrap();
        let data = address(turn * pages + DATA / PAGE);
        driver.submit(1, opcode::READ, 1, [data, 0], [9, 0, 7, 0, 0, 0]);
        assert_eq!(driver.answer(1).status, Status::SUCCESS);
        let mut found = vec![0; 4096];
        driver.memory().read_exact_at(&mut found, DATA).unwrap();
        assert!(found == pattern(4096, 5), "turn {turn}");
    }
    for region in 0..REGIONS {
        let mut payload = words(&[24, 0]);
        payload.extend([address(region), PAGE].into_iter().flat_map(u64::to_le_bytes));
        driver.client.send(7, command::DMA_UNMAP, posted, &payload, &[]);
    }
    assert_eq!(driver.client.unmap(address(REGIONS - 1), PAGE), Err(2));
    assert_eq!(driver.read(9, 4096), pattern(4096, 5));
}

#[test]
fn silent_client_delays_nobody() {
    let server = serve("silent", false, Wait::Block);
    let silent = Client::connect(&server.path);
    attach_like_qemu(&server.path);
    assert!(silent.next().is_err());
}

#[test]
fn silent_host_with_keep_alive_finds_a_fatal_status() {
    let server = serve("keep-alive", false, Wait::Block);
    let mut driver = Driver::start(attach_like_qemu(&server.path), RAM, DoorbellMethod::Messages);
    driver.administer(admin::SET_FEATURES, 0, 0, [0x0f, 300, 0, 0, 0, 0]);
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        driver.administer(admin::KEEP_ALIVE, 0, 0, [0; 6]);
    }
    assert_eq!(driver.client.register(0x1c) & 2, 0);
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(driver.client.register(0x1c) & 2, 2);
}

#[test]
fn invalid_requests_are_refused_without_disconnect() {
    let server = serve("nonsense", false, Wait::Spin);
    let client = attach_like_qemu(&server.path);
    for (command, payload) in [
        (99, vec![]),
        (command::REGION_READ, Client::access(0, 0x1fff, 2)),
        (command::REGION_READ, Client::access(9, 0, 4)),
        (command::REGION_READ, Client::access(0, u64::MAX, 4)),
        (command::REGION_WRITE, Client::access(0, 0, 4)),
        (command::REGION_WRITE_MULTI, vec![255; 8]),
        (command::DEVICE_SET_IRQS, words(&[20, 36, 2, 33, 1])),
        (command::DEVICE_SET_IRQS, words(&[20, 36, 2, u32::MAX, 2])),
        (command::DEVICE_GET_INFO, vec![1]),
        (command::DEVICE_GET_INFO, words(&[15, 0, 0, 0])),
        (command::DEVICE_GET_REGION_INFO, words(&[32, 0, 9, 0])),
        (command::DMA_MAP, vec![0; 31]),
    ] {
        assert!(client.ask(command, &payload, &[]).is_err(), "{command}");
    }
    // If the buffer is larger than the reply, the header states the length of the reply.
    let info = client.ask(command::DEVICE_GET_INFO, &words(&[24, 0, 0, 0]), &[]).unwrap().0;
    assert_eq!((info.len(), u32_at(&info, 0)), (16, 16));
    assert_eq!(client.register(8), 0x0002_0000);
    // One message with two register writes.
    let one = |offset: u64, value: u32| [&Client::access(0, offset, 4)[..], &words(&[value, 0])].concat();
    let multi = [&2_u64.to_le_bytes()[..], &one(0x24, 0x1f_001f), &one(0x28, 0x5000)].concat();
    client.ask(command::REGION_WRITE_MULTI, &multi, &[]).unwrap();
    assert_eq!((client.register(0x24), client.register(0x28)), (0x1f_001f, 0x5000));
    // A message with length 0 ends the connection. The next client is then served.
    (&client.socket).write_all(&[0; 16]).unwrap();
    assert!(client.next().is_err());
    attach_like_qemu(&server.path);
}

#[test]
fn first_message_must_negotiate_a_known_version() {
    let mut session = Session::new(true, &Limits::of_real_hosts(&drive())).unwrap();
    let mut refusal = |command, payload: &[u8]| {
        let message = [&Header::request(1, command, payload.len()).encode()[..], payload].concat();
        let reply = session.on_message(&message, Vec::new()).unwrap();
        Header::decode(reply.bytes.first_chunk().unwrap()).is_error_reply()
    };
    assert!(refusal(command::DEVICE_RESET, &[]));
    assert!(refusal(command::VERSION, &[1, 0, 0, 0]));
    assert!(refusal(command::VERSION, &[0, 0, 1]));
    assert!(refusal(command::VERSION, b"\0\0\x01\0{nonsense\0"));
    assert!(!refusal(command::VERSION, &[0, 0, 9, 0]));
    assert!(!refusal(command::DEVICE_RESET, &[]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever comes through the socket, with its length right or not: an answer or none, and never a panic.
    #[test]
    fn random_vfio_user_messages_cause_no_panic(
        messages in prop::collection::vec((0_u16..20, any::<u32>(), prop::collection::vec(any::<u8>(), 0..64), 0_u64..9), 1..40)
    ) {
        let mut session = Session::new(true, &Limits::of_real_hosts(&drive())).unwrap();
        session.on_message(&[&Header::request(0, command::VERSION, 4).encode()[..], &[0; 4]].concat(), Vec::new());
        for (number, flags, mut payload, small) in messages {
            // Half of the messages have values near the valid range.
            if flags & 1 == 0 && payload.len() >= 16 {
                payload[..16].fill(0);
                payload[0] = small as u8 * 4;
                payload[4] = flags as u8 & 0x3f;
                payload[8] = small as u8;
                payload[12] = (flags >> 8) as u8 & 15;
            }
            let mut message = [&Header::request(3, number, payload.len()).encode()[..], &payload].concat();
            message[8] = (flags >> 16) as u8 & 0x3f;
            session.on_message(&message, Vec::new());
        }
    }
}
