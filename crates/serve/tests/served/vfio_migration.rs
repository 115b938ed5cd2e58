//! Controllers over vfio-user that move from one server to another, with a client that moves them as QEMU would.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, admin};
use phaselink_serve::device::geometry;
use phaselink_serve::device::store::Store;
use phaselink_serve::front::vfio_user::wire::command;
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

use crate::background::{BackgroundServer, alone, device};
use crate::nvme_tcp::{PLACEMENT, drive_of, store_of};
use crate::vfio_client::{Client, DATA, DoorbellMethod, Driver, PAGE, RAM, RAM_BYTES, u32_at, words};

/// States of a device in VFIO's migration protocol.
const ERROR: u32 = 0;
const STOP: u32 = 1;
const RUNNING: u32 = 2;
const STOP_COPY: u32 = 3;
const RESUMING: u32 = 4;
const PRE_COPY: u32 = 6;

/// Flags and numbers of features.
const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const PROBE: u32 = 1 << 18;
const MIGRATION: u32 = 1;
const DEVICE_STATE: u32 = 2;
const LOGGING_START: u32 = 6;
const LOGGING_STOP: u32 = 7;
const LOGGING_REPORT: u32 = 8;

const EINVAL: u32 = 22;
const ENOTTY: u32 = 25;
/// Bytes of a block of the load.
const BLOCK_BYTES: usize = 4096;
const CAPABILITIES: &str = r#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}"#;

/// Server of a drive with two controllers.
struct Running {
    paths: Vec<PathBuf>,
    store: Arc<Store>,
    _server: BackgroundServer,
}

fn drive() -> Drive {
    drive_with(&[])
}

fn drive_with(settings: &[&str]) -> Drive {
    let all = ["media.capacity_mib=16", "nvme.queue_pairs=4", "nvme.queue_entries=64"];
    drive_of("nvme", &[&all, settings].concat())
}

/// Starts the source of a test, and then its target.
fn serve_both(test: &str, source: &Drive, target: &Drive, timing: bool) -> [Running; 2] {
    let alone = alone();
    let [source, target] = [(source, "source"), (target, "target")].map(|(drive, role)| {
        let device = device(drive.clone(), store_of(drive));
        let store = Arc::clone(&device.store);
        let bind = |number| {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{role}-{number}.vfio"));
            (path.clone(), ControllerSocket::bind(&path, drive, geometry(drive), number).unwrap())
        };
        let (paths, served) = (0..2).map(bind).unzip::<_, _, Vec<_>, Vec<_>>();
        let fronts: Vec<Box<dyn phaselink_serve::front::kind::Front>> = vec![Box::new(VfioUser(served))];
        let server = Server {
            device,
            timing,
            wait: Wait::Adaptive,
            seed: 1,
            fronts,
            metrics: None,
            device_threads: 2,
            control: None,
        };
        (paths, store, server)
    });
    let (paths, store, server) = source;
    let source = Running { paths, store, _server: BackgroundServer::start(server, alone) };
    let (paths, store, server) = target;
    [source, Running { paths, store, _server: BackgroundServer::start(server, None) }]
}

fn connect(path: &Path) -> Client {
    let client = Client::connect(path);
    client.agree(CAPABILITIES);
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    client
}

fn driver(path: &Path) -> Driver {
    let mut driver = Driver::start(connect(path), RAM, DoorbellMethod::Messages);
    driver.bring_up_like_linux(1);
    driver
}

fn feature(client: &Client, flags: u32, data: &[u8]) -> Result<Vec<u8>, u32> {
    let payload = [&words(&[4096, flags])[..], data].concat();
    client.ask(command::DEVICE_FEATURE, &payload, &[]).map(|(answer, _)| answer[8..].to_vec())
}

fn state(client: &Client) -> u32 {
    u32_at(&feature(client, GET | DEVICE_STATE, &[]).unwrap(), 0)
}

fn set_state(client: &Client, state: u32) -> Result<(), u32> {
    feature(client, SET | DEVICE_STATE, &words(&[state, u32::MAX])).map(|answer| assert_eq!(u32_at(&answer, 0), state))
}

fn read_stream(client: &Client, bytes: u32) -> Vec<u8> {
    let (answer, _) = client.ask(command::MIG_DATA_READ, &words(&[bytes + 8, bytes]), &[]).unwrap();
    assert_eq!((u32_at(&answer, 0), u32_at(&answer, 4)), (answer.len() as u32, answer.len() as u32 - 8));
    answer[8..].to_vec()
}

fn write_stream(client: &Client, bytes: &[u8]) -> Result<(), u32> {
    let payload = [&words(&[bytes.len() as u32 + 8, bytes.len() as u32])[..], bytes].concat();
    client.ask(command::MIG_DATA_WRITE, &payload, &[]).map(drop)
}

/// Reads the stream to its present end.
fn read_all(client: &Client) -> Vec<u8> {
    let pieces = std::iter::from_fn(|| Some(read_stream(client, 100_000)).filter(|piece| !piece.is_empty()));
    pieces.flatten().collect()
}

/// Stops a driver's controller and moves it to the controller of `target`, by which the driver continues.
fn finish_move(driver: &mut Driver, mut target: Client) -> (usize, Duration) {
    let begun = Instant::now();
    set_state(&driver.client, STOP_COPY).unwrap();
    let rest = read_all(&driver.client);
    for piece in rest.chunks(100_000) {
        write_stream(&target, piece).unwrap();
    }
    target.unmap(RAM, RAM_BYTES).unwrap();
    target.map(RAM, 0, RAM_BYTES, Some(driver.client.ram.as_fd())).unwrap();
    set_state(&target, RUNNING).unwrap();
    std::mem::swap(&mut target.ram, &mut driver.client.ram);
    std::mem::swap(&mut target.ram_words, &mut driver.client.ram_words);
    driver.client = target;
    (rest.len(), begun.elapsed())
}

fn move_at_once(driver: &mut Driver, target: &Running) {
    let client = connect(&target.paths[0]);
    set_state(&client, RESUMING).unwrap();
    finish_move(driver, client);
}

/// Load of writes and reads of blocks, which checks what it reads.
#[derive(Default)]
struct Load {
    /// Seed of the data in each block that has been written.
    written: BTreeMap<u32, u8>,
    /// Commands in flight in the order of their submission: identifier, block, and the seed that a write writes.
    in_flight: Vec<(u16, u32, Option<u8>)>,
    /// Page of the data of each command in flight.
    places: BTreeMap<u16, u64>,
    count: u32,
}

impl Load {
    const DEPTH: usize = 16;
    const BLOCKS: u32 = 512;

    fn page(place: u32) -> u64 {
        DATA / PAGE + u64::from(place)
    }

    fn fill(seed: u8) -> Vec<u8> {
        (0..BLOCK_BYTES).map(|place| (place * 7 + place / 256) as u8 ^ seed).collect()
    }

    /// Submits a command: a write, or every third time a read.
    fn submit(&mut self, driver: &mut Driver) {
        self.count += 1;
        let block = self.count.wrapping_mul(0x9e37_79b9) >> 7 & (Load::BLOCKS - 1);
        if self.in_flight.iter().any(|(_, other, _)| *other == block) {
            return;
        }
        let place = self.count % (4 * Load::DEPTH as u32);
        let (page, seed) = (Load::page(place), (self.count % 251 + 1) as u8);
        let is_write = !self.count.is_multiple_of(3);
        let bytes = if is_write { Load::fill(seed) } else { vec![0xee; BLOCK_BYTES] };
        driver.memory().write_all_at(&bytes, page * PAGE).unwrap();
        let code = if is_write { opcode::WRITE } else { opcode::READ };
        let blocks = BLOCK_BYTES as u32 / 512;
        let id = driver.submit(1, code, 1, [RAM + page * PAGE, 0], [block * blocks, 0, blocks - 1, 0, 0, 0]);
        self.in_flight.push((id, block, is_write.then_some(seed)));
        self.places.insert(id, page);
    }

    /// Takes a completion and checks the data of a read.
    fn complete(&mut self, driver: &mut Driver) {
        let entry = driver.answer(1);
        assert_eq!(entry.status, Status::SUCCESS);
        let place = self.in_flight.iter().position(|(id, ..)| *id == entry.command_id);
        let (id, block, written) = self.in_flight.remove(place.expect("a command completes once"));
        let page = self.places.remove(&id).unwrap();
        match written {
            Some(seed) => drop(self.written.insert(block, seed)),
            None => {
                let mut found = vec![0; BLOCK_BYTES];
                driver.memory().read_exact_at(&mut found, page * PAGE).unwrap();
                let expected = self.written.get(&block).map_or(vec![0; BLOCK_BYTES], |seed| Load::fill(*seed));
                assert!(found == expected, "block {block} of command {id}");
            }
        }
    }

    fn run(&mut self, driver: &mut Driver, commands: u32) {
        for _ in 0..commands {
            self.submit(driver);
            while self.in_flight.len() >= Load::DEPTH {
                self.complete(driver);
            }
        }
    }

    fn finish(&mut self, driver: &mut Driver) {
        while !self.in_flight.is_empty() {
            self.complete(driver);
        }
    }

    /// Reads every block and compares it.
    fn check_all(&self, driver: &mut Driver) {
        for block in 0..Load::BLOCKS {
            let found = driver.read(u64::from(block) * 8, BLOCK_BYTES);
            let expected = self.written.get(&block).map_or(vec![0; BLOCK_BYTES], |seed| Load::fill(*seed));
            assert!(found == expected, "block {block}");
        }
    }
}

#[test]
fn drive_moves_under_load_and_no_command_or_byte_is_lost() {
    for timing in [false, true] {
        let [source, target] = serve_both("move-load", &drive(), &drive(), timing);
        let (mut driver, mut load) = (driver(&source.paths[0]), Load::default());
        load.run(&mut driver, 600);
        let client = connect(&target.paths[0]);
        set_state(&client, RESUMING).unwrap();
        set_state(&driver.client, PRE_COPY).unwrap();
        let mut copied = 0;
        for _ in 0..60 {
            load.run(&mut driver, 5);
            let piece = read_stream(&driver.client, 50_000);
            write_stream(&client, &piece).unwrap();
            copied += piece.len();
        }
        let dirty = source.store.changed_bytes() as usize + Load::DEPTH * 2 * BLOCK_BYTES;
        // These commands are in the queue, or complete, when the controller stops.
        (0..Load::DEPTH).for_each(|_| load.submit(&mut driver));
        let (rest, time) = finish_move(&mut driver, client);
        println!("timing {timing}: {copied} bytes before the stop, {rest} behind it, {time:?} without service");
        assert!(copied > 1 << 20 && rest < dirty + dirty / 8 + (128 << 10), "{copied} {rest} {dirty}");
        load.finish(&mut driver);
        load.run(&mut driver, 200);
        load.finish(&mut driver);
        load.check_all(&mut driver);
        // Admin queue and event request have moved, too.
        driver.administer(admin::IDENTIFY, 0, DATA / PAGE, [1, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn zones_move_with_their_states_and_write_pointers() {
    let drive = drive_with(&["zones.size_mib=1", "zones.active_max=3", "zones.open_max=2"]);
    let [source, target] = serve_both("move-zones", &drive, &drive, false);
    let mut driver = Driver::start_with_sets(connect(&source.paths[0]), RAM, DoorbellMethod::Messages, 6 << 4);
    driver.bring_up_like_linux(1);
    driver.write(0, &[1; 4096]);
    driver.write(2048, &[2; 8192]);
    // Zone 3 is opened explicitly, and zone 1 closed.
    for (zone, action) in [(3, 3), (1, 1)] {
        let code = opcode::ZONE_MANAGEMENT_SEND;
        driver.submit(1, code, 1, [0; 2], [zone * 2048, 0, 0, action, 0, 0]);
        assert_eq!(driver.answer(1).status, Status::SUCCESS);
    }
    let before = report_zones(&mut driver);
    assert_eq!((before[112] >> 4, before[64 + 3 * 64 + 1] >> 4), (0, 3), "zone 3 is open");
    move_at_once(&mut driver, &target);
    assert_eq!(report_zones(&mut driver), before);
    driver.write(2048 + 16, &[3; 4096]);
    assert_eq!((driver.read(0, 4096), driver.read(2048, 8192)), (vec![1; 4096], vec![2; 8192]));
    driver.transfer(opcode::WRITE, 0, 1);
    assert_eq!(driver.answer(1).status, Status::ZONE_INVALID_WRITE.with_do_not_retry());
}

fn report_zones(driver: &mut Driver) -> Vec<u8> {
    let data = driver.base + DATA;
    driver.submit(1, opcode::ZONE_MANAGEMENT_RECEIVE, 1, [data, 0], [0, 0, 1023, 0, 0, 0]);
    assert_eq!(driver.answer(1).status, Status::SUCCESS);
    let mut report = vec![0; 4096];
    driver.memory().read_exact_at(&mut report, DATA).unwrap();
    report
}

#[test]
fn reservation_keeps_a_second_host_out_after_its_holder_has_moved() {
    let [source, target] = serve_both("move-reservation", &drive(), &drive(), false);
    let mut driver = driver(&source.paths[0]);
    // Host Identifier of 128 bits.
    driver.memory().write_all_at(&[7; 16], DATA).unwrap();
    driver.administer(admin::SET_FEATURES, 0, DATA / PAGE, [0x81, 1, 0, 0, 0, 0]);
    reserve(&mut driver, opcode::RESERVATION_REGISTER, 0, [0, 5]);
    // Exclusive access.
    reserve(&mut driver, opcode::RESERVATION_ACQUIRE, 2 << 8, [5, 0]);
    move_at_once(&mut driver, &target);
    driver.write(0, &[9; 512]);
    let mut second = super::vfio_migration::driver(&target.paths[1]);
    second.transfer(opcode::READ, 0, 1);
    assert_eq!(second.answer(1).status.kind(), Status::RESERVATION_CONFLICT);
    reserve(&mut driver, opcode::RESERVATION_RELEASE, 2 << 8, [5, 0]);
    assert_eq!(second.read(0, 512), [9; 512]);
}

fn reserve(driver: &mut Driver, code: u8, dword10: u32, keys: [u64; 2]) {
    let bytes: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
    driver.memory().write_all_at(&bytes, DATA).unwrap();
    let data = driver.base + DATA;
    driver.submit(1, code, 1, [data, 0], [dword10, 0, 0, 0, 0, 0]);
    assert_eq!(driver.answer(1).status, Status::SUCCESS, "opcode {code:x}");
}

#[test]
fn features_and_unreadable_blocks_move() {
    let [source, target] = serve_both("move-features", &drive(), &drive(), false);
    let mut driver = driver(&source.paths[0]);
    set_state(&driver.client, PRE_COPY).unwrap();
    read_all(&driver.client);
    set_state(&driver.client, RUNNING).unwrap();
    driver.administer(admin::SET_FEATURES, 0, 0, [6, 0, 0, 0, 0, 0]);
    driver.write(8, &[4; 4096]);
    driver.submit(1, opcode::WRITE_UNCORRECTABLE, 1, [0; 2], [9, 0, 0, 0, 0, 0]);
    assert_eq!(driver.answer(1).status, Status::SUCCESS);
    move_at_once(&mut driver, &target);
    assert_eq!(driver.administer(admin::GET_FEATURES, 0, 0, [6, 0, 0, 0, 0, 0]).result, 0, "no write cache");
    driver.transfer(opcode::READ, 9, 1);
    assert_eq!(driver.answer(1).status, Status::UNRECOVERED_READ_ERROR);
    assert_eq!(driver.read(10, 512), [4; 512]);
}

#[test]
fn placement_handles_and_enabled_events_move() {
    let drive = drive_of("tlc-gen4", &[&PLACEMENT[..], &["nvme.queue_entries=64"]].concat());
    let [source, target] = serve_both("move-placement", &drive, &drive, false);
    let mut driver = driver(&source.paths[0]);
    // Two types of events are enabled for placement handle 2.
    driver.memory().write_all_at(&[0, 3], DATA).unwrap();
    driver.administer(admin::SET_FEATURES, 1, DATA / PAGE, [0x1e, 2 | 2 << 16, 1, 0, 0, 0]);
    write_to_stream(&mut driver, 0, 2);
    move_at_once(&mut driver, &target);
    driver.memory().write_all_at(&[0xee; 16], DATA).unwrap();
    assert_eq!(driver.administer(admin::GET_FEATURES, 1, DATA / PAGE, [0x1e, 2, 0, 0, 0, 0]).result, 3);
    let mut types = [0; 6];
    driver.memory().read_exact_at(&mut types, DATA).unwrap();
    assert_eq!(types, [0, 1, 3, 1, 0x80, 0]);
    write_to_stream(&mut driver, 8, 3);
    assert_eq!(driver.read(0, 8192), [5; 8192]);
}

/// Writes a page with the Data Placement directive.
fn write_to_stream(driver: &mut Driver, slba: u32, handle: u32) {
    driver.memory().write_all_at(&[5; 4096], DATA).unwrap();
    driver.submit(1, opcode::WRITE, 1, [driver.base + DATA, 0], [slba, 0, 7 | 2 << 20, handle << 16, 0, 0]);
    assert_eq!(driver.answer(1).status, Status::SUCCESS);
}

#[test]
fn stream_of_another_drive_or_damaged_is_refused_and_a_whole_one_still_moves() {
    let other = drive_with(&["nvme.max_transfer_kib=64"]);
    let [source, target] = serve_both("move-refused", &drive(), &drive(), false);
    let mut driver = driver(&source.paths[0]);
    driver.write(100, &[6; 4096]);
    set_state(&driver.client, STOP_COPY).unwrap();
    let stream = read_all(&driver.client);
    let client = connect(&target.paths[0]);
    let flipped = |at: usize| {
        let mut stream = stream.clone();
        stream[at] ^= 1;
        stream
    };
    for bad in [flipped(0), flipped(30), flipped(100), flipped(stream.len() - 20)] {
        set_state(&client, RESUMING).unwrap();
        let refused = bad.chunks(100_000).try_for_each(|piece| write_stream(&client, piece));
        assert_eq!((refused, state(&client)), (Err(EINVAL), ERROR));
        assert!(target.store.is_unwritten().unwrap(), "nothing is left of a refused stream");
        assert_eq!(set_state(&client, RUNNING), Err(EINVAL));
        client.ask(command::DEVICE_RESET, &[], &[]).unwrap();
        assert_eq!(state(&client), RUNNING);
    }
    set_state(&client, RESUMING).unwrap();
    write_stream(&client, &stream[..stream.len() - 1]).unwrap();
    assert_eq!((set_state(&client, RUNNING), state(&client)), (Err(EINVAL), ERROR));
    drop(client);
    let client = connect(&target.paths[1]);
    set_state(&client, RESUMING).unwrap();
    assert_eq!(write_stream(&client, &stream), Err(EINVAL), "the other controller of the drive");
    drop(client);
    // The source goes on after the failures.
    set_state(&driver.client, RUNNING).unwrap();
    assert_eq!(driver.read(100, 4096), [6; 4096]);
    move_at_once(&mut driver, &target);
    assert_eq!(driver.read(100, 4096), [6; 4096]);
    drop((source, target));
    let [source, target] = serve_both("move-other", &drive(), &other, false);
    let driver = super::vfio_migration::driver(&source.paths[0]);
    set_state(&driver.client, STOP_COPY).unwrap();
    let client = connect(&target.paths[0]);
    set_state(&client, RESUMING).unwrap();
    assert_eq!(write_stream(&client, &read_all(&driver.client)), Err(EINVAL));
}

#[test]
fn states_that_cannot_be_reached_are_refused_and_leave_the_state() {
    let [source, _target] = serve_both("move-states", &drive(), &drive(), false);
    let mut driver = driver(&source.paths[0]);
    let client = &driver.client;
    assert_eq!(feature(client, GET | MIGRATION, &[]).unwrap(), 5_u64.to_le_bytes());
    assert_eq!(feature(client, PROBE | SET | DEVICE_STATE, &[]), Ok(vec![]));
    assert_eq!((feature(client, SET | MIGRATION, &[]), feature(client, GET | 40, &[])), (Err(EINVAL), Err(ENOTTY)));
    assert_eq!(client.ask(command::MIG_DATA_READ, &words(&[108, 100]), &[]).map(drop), Err(EINVAL));
    for (from, to) in [(RUNNING, ERROR), (RUNNING, 5), (RUNNING, 99), (STOP_COPY, PRE_COPY), (STOP_COPY, ERROR)] {
        set_state(client, from).unwrap();
        assert_eq!((set_state(client, to), state(client)), (Err(EINVAL), from), "from {from} to {to}");
    }
    // A controller that a host has enabled is no target.
    set_state(client, STOP).unwrap();
    assert_eq!((set_state(client, RESUMING), state(client)), (Err(16), STOP));
    assert_eq!(write_stream(client, &[0; 8]), Err(EINVAL));
    set_state(client, RUNNING).unwrap();
    driver.write(0, &[1; 512]);
    // Nothing executes while the controller is stopped.
    set_state(&driver.client, STOP).unwrap();
    driver.memory().write_all_at(&[2; 512], DATA).unwrap();
    driver.transfer(opcode::WRITE, 0, 1);
    std::thread::sleep(Duration::from_millis(20));
    let mut stored = [0];
    source.store.read(0, &mut stored).unwrap();
    assert_eq!(stored, [1]);
    set_state(&driver.client, RUNNING).unwrap();
    assert_eq!(driver.answer(1).status, Status::SUCCESS);
    assert_eq!(driver.read(0, 512), [2; 512]);
}

#[test]
fn pages_that_the_device_writes_are_reported_and_others_are_not() {
    let [source, _target] = serve_both("move-pages", &drive(), &drive(), false);
    let mut driver = driver(&source.paths[0]);
    let control = [&PAGE.to_le_bytes()[..], &words(&[0, 0])].concat();
    let request: Vec<u8> = [RAM, RAM_BYTES, PAGE].into_iter().flat_map(u64::to_le_bytes).collect();
    let report = |client: &Client| -> Vec<u64> {
        let answer = feature(client, GET | LOGGING_REPORT, &request).unwrap();
        assert_eq!(answer[..24], request);
        (0..RAM_BYTES / PAGE).filter(|page| answer[24 + *page as usize / 8] >> (page % 8) & 1 == 1).collect()
    };
    assert_eq!(feature(&driver.client, GET | LOGGING_REPORT, &request), Err(EINVAL));
    assert_eq!(feature(&driver.client, SET | LOGGING_START, &control).unwrap(), control);
    driver.read(0, 4096);
    driver.write(0, &[1; 4096]);
    assert_eq!(report(&driver.client), [4, DATA / PAGE], "the completion queue, and the data of the read");
    driver.write(8, &[1; 4096]);
    assert_eq!(report(&driver.client), [4]);
    assert_eq!(feature(&driver.client, SET | LOGGING_STOP, &[]), Ok(vec![]));
    driver.read(0, 4096);
    assert_eq!(feature(&driver.client, GET | LOGGING_REPORT, &request), Err(EINVAL));
    assert_eq!(feature(&driver.client, SET | LOGGING_STOP, &[]), Err(EINVAL));
}
