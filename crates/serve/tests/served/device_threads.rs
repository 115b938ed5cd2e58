//! Several device threads behind each front-end: the same bytes and the same model for all of them.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use phaselink_client::{Client, Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::random::mix;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::Front;
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use phaselink_serve::front::nbd::{self, ExportSocket, Nbd};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const THREADS: usize = 3;

/// A server that runs until this goes.
struct Running {
    socket: PathBuf,
    uri: Uri,
    server: BackgroundServer,
}

/// Serve DC Express, with its reads taking so long, in shared memory and over NBD.
fn serve(test: &str, timing: bool, wait: Wait, store: Store, read: Duration) -> Running {
    let alone = alone();
    let setting = KeyOverride::parse(&format!("media.read_ns={}", read.as_nanos())).unwrap();
    let shipped = shipped::find("dc-express").unwrap();
    let device = device(Drive::from_toml(shipped.file, shipped.text, &[setting]).unwrap(), store);
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.sock"));
    let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
    let uri = listener.uri();
    let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: true };
    let share = ShareSocket::bind(&Share::parse(&socket.display().to_string()).unwrap(), GEOMETRY).unwrap();
    let fronts: Vec<Box<dyn Front>> =
        vec![Box::new(Nbd(vec![ExportSocket { listener, export }])), Box::new(ShmFrontEnd(vec![share]))];
    let server =
        Server { device, timing, wait, seed: 1, fronts, metrics: None, control: None, device_threads: THREADS };
    Running { socket, uri, server: BackgroundServer::start(server, alone) }
}

fn serve_quick(test: &str, timing: bool, wait: Wait) -> Running {
    serve(test, timing, wait, Store::in_memory(GEOMETRY).unwrap(), Duration::from_nanos(300))
}

impl Running {
    fn client(&self, queues: u32) -> Client {
        Client::connect(&self.socket, &Options { queues, transfer_bytes: 4096, ..Options::default() }).unwrap()
    }

    fn connection(&self) -> Connection {
        Connection(nbd::client::Client::connect(&self.uri).unwrap())
    }
}

struct Connection(nbd::client::Client);

impl Connection {
    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) {
        self.0.ask(&Request { flags: 0, command, cookie: offset, offset, length }, data);
        self.0.send().unwrap();
    }

    fn answer(&mut self, bytes: usize) -> Vec<u8> {
        loop {
            if let Some((data, answer)) = self.0.take_reply_with_data(|_| bytes).unwrap() {
                assert_eq!(answer.error, 0);
                return data;
            }
            self.0.sleep(None).unwrap();
            self.0.receive().unwrap();
        }
    }
}

fn random_bytes(seed: u64) -> Vec<u8> {
    (0..512).flat_map(|word| mix(seed << 32 | word).to_le_bytes()).collect()
}

/// Pages that are this one's alone: written, and read back.
trait PrivatePages {
    fn write(&mut self, offset: u64, data: &[u8]);
    fn read(&mut self, offset: u64) -> Vec<u8>;

    fn exercise(&mut self, place: u64, rounds: u64) {
        for round in 0..rounds {
            let (offset, data) = ((place * 8 + mix(round) % 8) << 12, random_bytes(place << 16 | round));
            self.write(offset, &data);
            assert!(self.read(offset) == data, "{place}, round {round}");
        }
    }
}

impl PrivatePages for Queue {
    fn write(&mut self, offset: u64, data: &[u8]) {
        Queue::write(self, offset, data).unwrap();
    }

    fn read(&mut self, offset: u64) -> Vec<u8> {
        let mut found = vec![0; 4096];
        Queue::read(self, offset, &mut found).unwrap();
        found
    }
}

impl PrivatePages for Connection {
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(command::WRITE, offset, data.len() as u32, data);
        self.answer(0);
    }

    fn read(&mut self, offset: u64) -> Vec<u8> {
        self.ask(command::READ, offset, 4096, b"");
        self.answer(4096)
    }
}

#[test]
fn queues_and_connections_on_several_threads_keep_their_data() {
    const ROUNDS: u64 = 30;
    for (timing, wait) in [(false, Wait::Spin), (false, Wait::Adaptive), (true, Wait::Adaptive), (true, Wait::Block)] {
        let server = serve_quick("threads", timing, wait);
        let mut clients = [server.client(4), server.client(1)];
        thread::scope(|scope| {
            let queues = clients.iter_mut().flat_map(|client| std::iter::from_fn(|| client.take_queue()));
            for (place, mut queue) in (0..).zip(queues) {
                scope.spawn(move || queue.exercise(place, ROUNDS));
            }
            for place in 5..8 {
                let mut connection = server.connection();
                scope.spawn(move || connection.exercise(place, ROUNDS));
            }
        });
        let summary = server.server.finish();
        assert_eq!((summary.tally.read.ios, summary.tally.write.ios), (8 * ROUNDS, 8 * ROUNDS));
        assert_eq!((summary.tally.errors, summary.outcome.ios()), (0, 16 * ROUNDS), "one model has seen it all");
        assert_eq!(summary.tally.lag.count(), if timing { 16 * ROUNDS } else { 0 });
    }
}

#[test]
fn file_store_is_written_and_flushed_by_several_threads() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads.store");
    let _ = std::fs::remove_file(&path);
    let store = Store::open(&path, GEOMETRY).unwrap();
    let server = serve("threads-file", false, Wait::Adaptive, store, Duration::from_nanos(300));
    let mut client = server.client(3);
    thread::scope(|scope| {
        for (place, mut queue) in (0..).zip(std::iter::from_fn(|| client.take_queue())) {
            scope.spawn(move || {
                queue.exercise(place, 20);
                queue.flush().unwrap();
            });
        }
    });
    assert_eq!(server.server.finish().tally.flush.ios, 3);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn responses_of_several_threads_follow_one_model() {
    let read = Duration::from_millis(2);
    let store = Store::in_memory(GEOMETRY).unwrap();
    let server = serve("threads-slow", true, Wait::Adaptive, store, read);
    let mut client = server.client(THREADS as u32);
    let begun = Instant::now();
    thread::scope(|scope| {
        for mut queue in std::iter::from_fn(|| client.take_queue()) {
            scope.spawn(move || {
                let asked = Instant::now();
                queue.read(0, &mut [0; 512]).unwrap();
                assert!(asked.elapsed() >= read, "{:?}", asked.elapsed());
            });
        }
    });
    // All threads read the same bank, so their reads are served one after another.
    let all = begun.elapsed();
    assert!(all >= read * THREADS as u32, "{all:?}");
    assert_eq!(server.server.finish().tally.read.latency.count(), THREADS as u64);
}

#[test]
fn vanishing_clients_with_requests_in_flight_harm_nobody() {
    for timing in [false, true] {
        let server = serve_quick("threads-gone", timing, Wait::Adaptive);
        let mut client = server.client(2);
        let mut queues: Vec<Queue> = std::iter::from_fn(|| client.take_queue()).collect();
        for round in 0..3 {
            let mut victim = server.client(4);
            for mut queue in std::iter::from_fn(|| victim.take_queue()) {
                for block in 0..4 {
                    assert!(queue.submit_read(block << 12, 4096).unwrap().is_some());
                }
            }
            drop(victim);
            let mut connection = server.connection();
            (0..6).for_each(|block| connection.ask(command::READ, block << 14, 512, b""));
            drop(connection);
            queues.iter_mut().zip(10..).for_each(|(queue, place)| queue.exercise(place, 5 + round));
        }
        assert_eq!(server.server.finish().tally.errors, 0);
    }
}

#[test]
fn stopping_server_with_requests_in_flight_releases_clients() {
    for wait in [Wait::Adaptive, Wait::Spin, Wait::Block] {
        let store = Store::in_memory(GEOMETRY).unwrap();
        let server = serve("threads-stop", true, wait, store, Duration::from_millis(200));
        let mut client = server.client(3);
        let mut queues: Vec<Queue> = std::iter::from_fn(|| client.take_queue()).collect();
        let mut connection = server.connection();
        connection.ask(command::READ, 0, 512, b"");
        queues.iter_mut().for_each(|queue| assert!(queue.submit_read(0, 512).unwrap().is_some()));
        thread::sleep(Duration::from_millis(5));
        let asked = Instant::now();
        let summary = server.server.finish();
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        assert_eq!(summary.tally.read.ios, 0);
        assert_eq!(Queue::read(&mut queues[2], 0, &mut [0; 512]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
