//! A served device in shared memory, from the other side: what clients get, and what they cannot do to each other.

#[path = "served/background.rs"]
mod background;

use std::env;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use background::{BackgroundServer, alone, device};
use phaselink_client::chunk::CHUNK_BYTES;
use phaselink_client::shared::memory::Memory;
use phaselink_client::shared::socket;
use phaselink_client::{Client, Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::random::mix;
use phaselink_core::time::Span;
use phaselink_ring::greeting::{Hello, ServerWelcomeMessage, VERSION, WELCOME_BYTES};
use phaselink_ring::layout::Layout;
use phaselink_ring::trailer::{ArrivalTagSource, TagWidth};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const HALF: u64 = 512 << 10;

/// A server that runs until this goes.
struct Running {
    paths: Vec<PathBuf>,
    server: BackgroundServer,
}

/// Serve shares, each at a socket of its own: what stands behind the path on the command line.
fn serve(test: &str, shares: &[&str], timing: bool, wait: Wait) -> Running {
    serve_store(test, shares, timing, wait, Store::in_memory(GEOMETRY).unwrap())
}

fn serve_store(test: &str, shares: &[&str], timing: bool, wait: Wait, store: Store) -> Running {
    serve_drive(test, shares, timing, wait, store, Drive::shipped("dc-express").unwrap())
}

fn serve_drive(test: &str, shares: &[&str], timing: bool, wait: Wait, store: Store, drive: Drive) -> Running {
    let alone = alone();
    let path = |number: usize| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}{number}.sock"));
    let paths: Vec<PathBuf> = (0..shares.len()).map(path).collect();
    let bound = shares.iter().zip(&paths).map(|(share, path)| {
        let share = Share::parse(&format!("{}{share}", path.display())).unwrap();
        ShareSocket::bind(&share, GEOMETRY).unwrap()
    });
    let device = device(drive, store);
    let shm = bound.collect();
    let server = Server {
        device,
        timing,
        wait,
        seed: 1,
        fronts: vec![Box::new(ShmFrontEnd(shm))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    Running { paths, server: BackgroundServer::start(server, alone) }
}

impl Running {
    fn client(&self, share: usize, options: &Options) -> Client {
        Client::connect(&self.paths[share], options).unwrap()
    }

    fn queue(&self, share: usize) -> Queue {
        self.client(share, &Options::default()).take_queue().unwrap()
    }

    fn finish(self) -> Summary {
        self.server.finish()
    }
}

fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| mix(seed << 32 | word).to_le_bytes()).collect()
}

/// Write and read at random in a part of the drive, and compare everything with what it should be.
fn exercise_range(queue: &mut Queue, bytes: usize, rounds: u64, seed: u64) {
    let mut expected = vec![0; bytes];
    queue.write(0, &expected).unwrap();
    for round in 0..rounds {
        let draw = mix(seed << 40 | round);
        let length = (1 + (draw % 64) as usize) * 512;
        let offset = (draw >> 8) as usize % (bytes - length) / 512 * 512;
        if draw >> 40 & 3 == 0 {
            let data = random_bytes(draw, length);
            queue.write(offset as u64, &data).unwrap();
            expected[offset..offset + length].copy_from_slice(&data);
        }
        let mut found = vec![0; length];
        queue.read(offset as u64, &mut found).unwrap();
        assert!(found == expected[offset..offset + length], "round {round}: {length} bytes at {offset}");
    }
    queue.flush().unwrap();
    let mut found = vec![0; bytes];
    queue.read(0, &mut found).unwrap();
    assert!(found == expected);
}

#[test]
fn shm_data_reads_back_with_all_wait_methods() {
    for (timing, wait) in [(false, Wait::Spin), (false, Wait::Block), (true, Wait::Spin), (true, Wait::Block)] {
        let server = serve("plain", &[""], timing, wait);
        let mut queue = server.queue(0);
        exercise_range(&mut queue, 64 << 10, 20, 1);
        thread::sleep(Duration::from_millis(5));
        exercise_range(&mut queue, 64 << 10, 10, 2);
        let summary = server.finish();
        assert_eq!((summary.tally.errors, summary.tally.flush.ios), (0, 2));
        assert!(summary.tally.read.ios >= 30);
        assert_eq!(summary.tally.lag.count() > 30, timing);
    }
}

#[test]
fn many_commands_in_flight_get_their_own_data() {
    let server = serve("deep", &[""], false, Wait::Spin);
    let mut client = server.client(0, &Options { depth: 7, transfer_bytes: 4096, ..Options::default() });
    let mut queue = client.take_queue().unwrap();
    let data = random_bytes(3, 1 << 16);
    queue.write(0, &data).unwrap();
    for round in 0..40 {
        let offsets: Vec<usize> = (0..7).map(|slot| mix(round << 8 | slot) as usize % 15 * 4096).collect();
        let slots: Vec<_> = offsets.iter().map(|at| queue.submit_read(*at as u64, 4096).unwrap().unwrap()).collect();
        assert_eq!(queue.submit_read(0, 512).unwrap(), None, "the queue is full");
        for (slot, at) in slots.into_iter().zip(offsets).rev() {
            let mut found = [0; 4096];
            while !queue.complete(slot, &mut found).unwrap() {}
            assert!(found == data[at..at + 4096]);
        }
    }
}

#[test]
fn file_flush_completes_while_reads_continue() {
    for timing in [false, true] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flushed.store");
        let _ = fs::remove_file(&path);
        let store = Store::open(&path, GEOMETRY).unwrap();
        let server = serve_store("flush", &[""], timing, Wait::Spin, store);
        let (mut queue, mut neighbour) = (server.queue(0), server.queue(0));
        let data = random_bytes(8, 64 << 10);
        queue.write(0, &data).unwrap();
        let slots: Vec<_> = (0..3).map(|_| queue.submit_flush().unwrap().unwrap()).collect();
        let mut found = vec![0; data.len()];
        neighbour.read(0, &mut found).unwrap();
        assert!(found == data);
        for slot in slots {
            while !queue.complete(slot, &mut []).unwrap() {}
        }
        let summary = server.finish();
        assert_eq!((summary.tally.flush.ios, summary.tally.errors), (3, 0));
        let mut kept = vec![0; data.len()];
        Store::open(&path, GEOMETRY).unwrap().read(0, &mut kept).unwrap();
        assert!(kept == data);
    }
}

#[test]
fn data_equal_to_the_tag_is_reread_with_another() {
    for timing in [false, true] {
        check_tag_collision(timing);
    }
}

fn check_tag_collision(timing: bool) {
    let server = serve("collision", &[""], timing, Wait::Spin);
    let mut queue = server.queue(0);
    let tags = ArrivalTagSource::random(TagWidth::Bits32, 5);
    let mut data = random_bytes(4, 2 * CHUNK_BYTES);
    data[CHUNK_BYTES - 4..CHUNK_BYTES].copy_from_slice(&(tags.current().unwrap() as u32).to_le_bytes());
    queue.write(0, &data).unwrap();
    queue.replace_tags(tags);
    let mut found = vec![0; 2 * CHUNK_BYTES];
    queue.read(0, &mut found).unwrap();
    assert_eq!(queue.collisions(), 1);
    assert!(found == data);
    queue.read(0, &mut found).unwrap();
    assert_eq!(queue.collisions(), 1, "the new tag stays");
}

#[test]
fn buffer_used_by_a_write_is_tagged_again() {
    let server = serve("marks", &[""], false, Wait::Spin);
    let mut queue = server.queue(0);
    let blocks = [1, 2, 3].map(|seed| random_bytes(seed, 512));
    queue.write(0, &blocks[0]).unwrap();
    queue.write(512, &blocks[1]).unwrap();
    let mut found = vec![0; 512];
    for turn in 0..100 {
        queue.read(0, &mut found).unwrap();
        assert!(found == blocks[0], "turn {turn}");
        queue.write(1024, &blocks[2]).unwrap();
        queue.read(512, &mut found).unwrap();
        assert!(found == blocks[1], "turn {turn}: what was in the buffer, or anything else but the data");
    }
    server.finish();
}

#[test]
fn shm_read_takes_exactly_its_modelled_time() {
    let (shipped, slow) = (shipped::find("dc-express").unwrap(), KeyOverride::parse("media.read_ns=2000000").unwrap());
    let drive = Drive::from_toml(shipped.file, shipped.text, &[slow]).unwrap();
    let store = Store::in_memory(GEOMETRY).unwrap();
    let server = serve_drive("slow", &[""], true, Wait::Spin, store, drive);
    let mut queue = server.queue(0);
    for bytes in [512, 8192] {
        let asked = Instant::now();
        queue.read(0, &mut vec![0; bytes]).unwrap();
        assert!(asked.elapsed() >= Duration::from_millis(2), "{bytes} bytes after {:?}", asked.elapsed());
    }
    let summary = server.finish();
    assert!(summary.tally.read.latency.max() >= Span::from_ms(2));
}

#[test]
fn clients_access_only_their_range() {
    let server = serve("ranges", &[",size=512k", ",offset=512k", ",readonly"], false, Wait::Spin);
    let (mut first, mut second) = (server.queue(0), server.queue(1));
    exercise_range(&mut first, HALF as usize, 20, 1);
    exercise_range(&mut second, HALF as usize, 20, 2);
    let refused = Client::connect(&server.paths[2], &Options::default()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    let mut client = server.client(2, &Options { writes: false, ..Options::default() });
    assert!(client.capacity_bytes() == 1 << 20);
    let mut whole = client.take_queue().unwrap();
    assert_eq!(whole.write(0, &[1; 512]).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    let (mut all, mut part) = (vec![0; 1 << 20], vec![0; HALF as usize]);
    whole.read(0, &mut all).unwrap();
    first.read(0, &mut part).unwrap();
    assert!(all[..HALF as usize] == part);
    second.read(0, &mut part).unwrap();
    assert!(all[HALF as usize..] == part);
    for offset in [HALF, HALF - 512, u64::MAX - 511, 1] {
        let error = first.read(offset, &mut [0; 1024]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{offset}");
        assert_eq!(first.write(offset, &[7; 1024]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    second.read(0, &mut part).unwrap();
    assert!(all[HALF as usize..] == part, "nothing has reached the neighbour");
}

#[test]
fn two_clients_with_two_threads_do_not_interfere() {
    let server = serve("two", &[",size=256k", ",offset=256k,size=256k"], false, Wait::Spin);
    thread::scope(|scope| {
        for share in 0..2 {
            let mut client = server.client(share, &Options { queues: 2, ..Options::default() });
            let (mut writer, mut reader) = (client.take_queue().unwrap(), client.take_queue().unwrap());
            assert!(client.take_queue().is_none());
            scope.spawn(move || exercise_range(&mut writer, 128 << 10, 60, share as u64));
            scope.spawn(move || (0..200).for_each(|_| reader.read(128 << 10, &mut [0; 4096]).unwrap()));
        }
    });
}

/// A connection without a client library: memory to be filled with anything.
fn connect_raw(path: &Path, layout: Layout) -> (UnixStream, Memory) {
    let socket = UnixStream::connect(path).unwrap();
    let hello = Hello { version: VERSION, layout, writes: true };
    socket::send(socket.as_fd(), &hello.encode(), None).unwrap();
    let mut message = [0; WELCOME_BYTES];
    let (bytes, fd) = socket::receive(socket.as_fd(), &mut message).unwrap();
    assert_eq!(ServerWelcomeMessage::decode(&message[..bytes]).unwrap().layout, layout);
    let memory = Memory::open(&fd.unwrap(), layout.memory_bytes()).unwrap();
    (socket, memory)
}

#[test]
fn garbage_in_client_memory_harms_only_that_client() {
    for timing in [false, true] {
        let server = serve("garbage", &[",size=512k", ",offset=512k"], timing, Wait::Spin);
        let mut neighbour = server.queue(0);
        let layout = Layout { queues: 2, entries: 8, transfer_bytes: 1024 };
        for round in 0..if timing { 2 } else { 6 } {
            let (socket, memory) = connect_raw(&server.paths[1], layout);
            for (place, word) in (0..).zip(memory.words(0, layout.memory_bytes() as usize / 8)) {
                let draw = mix(round << 32 | place);
                // Values close to valid operations, passes and slots find more bugs than random ones do.
                let value = if draw & 3 == 0 { draw } else { draw & 0x0000_0c00_0007_0007 | 0x0100 };
                word.store(value, Ordering::Relaxed);
            }
            exercise_range(&mut neighbour, 64 << 10, 10, round);
            drop(socket);
        }
        exercise_range(&mut server.queue(1), 64 << 10, 10, 1);
        assert!(server.finish().tally.errors > 0);
    }
}

#[test]
fn any_wrong_command_byte_leaves_the_next_command_served() {
    for timing in [false, true] {
        check_random_bytes(timing);
    }
}

fn check_random_bytes(timing: bool) {
    use phaselink_client::chunk;
    use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
    let server = serve("bytes", &[",size=512k"], timing, Wait::Spin);
    let layout = Layout { queues: 1, entries: 4, transfer_bytes: 512 };
    let (_socket, memory) = connect_raw(&server.paths[0], layout);
    let (mut index, mut pass) = (0, FIRST_PASS);
    let mut attempt = 0u8;
    for place in (0..64).filter(|place| *place != 1) {
        for wrong in [0, 1, 0x80, 0xff] {
            for is_wrong in [true, false] {
                attempt = attempt.wrapping_add(1);
                let buffer = layout.places(0).buffer(0);
                let command = Command {
                    operation: Operation::Write,
                    pass,
                    slot: 0,
                    attempt,
                    offset: 0,
                    bytes: 512,
                    buffer,
                    tag: 0,
                };
                let mut bytes = command.encode();
                if is_wrong {
                    bytes[place] = wrong;
                }
                chunk::publish(memory.words(layout.places(0).entry(index), 8), &bytes);
                (index, pass) = next_entry(index, pass, 4);
                // A refusal may name another slot or attempt, or be missing if the command is invalid. The valid
                // command gets a completion.
                let status = memory.word(layout.places(0).status(0));
                while !is_wrong && status.load(Ordering::Acquire) >> 8 != u64::from(attempt) {
                    thread::yield_now();
                }
            }
        }
    }
}

#[test]
fn invalid_greetings_are_refused() {
    let server = serve("greeting", &[""], false, Wait::Spin);
    let silent = UnixStream::connect(&server.paths[0]).unwrap();
    for message in [&[0; 32][..], b"x", &[0xff; 500]] {
        let socket = UnixStream::connect(&server.paths[0]).unwrap();
        socket::send(socket.as_fd(), message, None).unwrap();
        let mut answer = [0; 64];
        // The server closes the connection, with a reset if it has left bytes unread.
        assert!(socket::receive(socket.as_fd(), &mut answer).map_or(0, |(bytes, _)| bytes) == 0);
    }
    for options in [Options { depth: u32::MAX, ..Options::default() }, Options { queues: 17, ..Options::default() }] {
        let refused = Client::connect(&server.paths[0], &options).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
    exercise_range(&mut server.queue(0), 64 << 10, 5, 1);
    drop(silent);
}

#[test]
fn client_is_told_when_its_device_ends() {
    let server = serve("end", &[""], false, Wait::Spin);
    let mut queue = server.queue(0);
    server.finish();
    assert_eq!(queue.read(0, &mut [0; 512]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

/// Not a test of its own: the other process of the next one.
#[test]
fn client_process_until_killed() {
    let Some(path) = env::var_os("SHM_VICTIM") else { return };
    let mut queue = Client::connect(path.as_ref(), &Options::default()).unwrap().take_queue().unwrap();
    for round in 0.. {
        queue.write(HALF, &random_bytes(round, 4096)).unwrap();
        queue.read(HALF, &mut [0; 4096]).unwrap();
        if round == 10 {
            fs::write(env::var_os("SHM_READY").unwrap(), "").unwrap();
        }
    }
}

#[test]
fn killed_client_is_removed_without_harm() {
    let server = serve("killed", &[""], false, Wait::Spin);
    let mut queue = server.queue(0);
    let ready = Path::new(env!("CARGO_TARGET_TMPDIR")).join("victim.ready");
    for round in 0..3 {
        let _ = fs::remove_file(&ready);
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["client_process_until_killed", "--exact"])
            .envs([("SHM_VICTIM", &server.paths[0]), ("SHM_READY", &ready)])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !ready.exists() {
            thread::sleep(Duration::from_millis(2));
        }
        exercise_range(&mut queue, 64 << 10, 10, round);
        victim.kill().unwrap();
        victim.wait().unwrap();
        exercise_range(&mut queue, 64 << 10, 10, round);
    }
}

#[test]
fn c_program_reads_back_through_the_c_header() {
    let server = serve("c", &[""], false, Wait::Spin);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roundtrip");
    let libraries = env::current_exe().unwrap().parent().unwrap().to_owned();
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(client.join("tests/roundtrip.c"))
        .arg("-I")
        .arg(client.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lphaselink_client")
        .status();
    let Ok(compiled) = compiled else { return println!("there is no C compiler here") };
    assert!(compiled.success());
    let ran = Command::new(&program).arg(&server.paths[0]).env("LD_LIBRARY_PATH", &libraries).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn python_program_reads_back_with_and_without_timing() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/python");
    let library = env::current_exe().unwrap().parent().unwrap().join("libphaselink_client.so");
    for timing in [false, true] {
        let server = serve("python", &[""], timing, Wait::Spin);
        let mut program = Command::new("python3");
        program.arg(python.join("test_roundtrip.py")).arg(&server.paths[0]);
        let ran = program.env("PHASELINK_CLIENT", &library).env("PYTHONDONTWRITEBYTECODE", "1").output();
        if ran.is_err() && env::var_os("CI").is_none() {
            return println!("skipped: there is no python3 here");
        }
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}
