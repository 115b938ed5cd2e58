//! One modelled drive over NBD and in shared memory at once: both kinds of clients share its bytes and its time.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use phaselink_client::{Client, Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::random::mix;
use phaselink_core::time::Span;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use phaselink_serve::front::nbd::{self, ExportSocket, Nbd};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const WAITS: [Wait; 2] = [Wait::Spin, Wait::Block];

/// A server that runs until this goes.
struct Running {
    socket: PathBuf,
    uri: Uri,
    server: BackgroundServer,
}

/// Serve DC Express with its reads taking so long, from one bank, at one address of each kind.
fn serve(test: &str, read: Duration, wait: Wait) -> Running {
    let alone = alone();
    let settings = [format!("media.read_ns={}", read.as_nanos()), String::from("media.banks_per_channel=1")];
    let settings = settings.map(|text| KeyOverride::parse(&text).unwrap());
    let drive = shipped::find("dc-express").unwrap();
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.sock"));
    let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
    let uri = listener.uri();
    let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: true };
    let device =
        device(Drive::from_toml(drive.file, drive.text, &settings).unwrap(), Store::in_memory(GEOMETRY).unwrap());
    let share = ShareSocket::bind(&Share::parse(&socket.display().to_string()).unwrap(), GEOMETRY).unwrap();
    let server = Server {
        device,
        timing: true,
        wait,
        seed: 1,
        fronts: vec![Box::new(Nbd(vec![ExportSocket { listener, export }])), Box::new(ShmFrontEnd(vec![share]))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    Running { socket, uri, server: BackgroundServer::start(server, alone) }
}

impl Running {
    fn queue(&self) -> Queue {
        Client::connect(&self.socket, &Options::default()).unwrap().take_queue().unwrap()
    }

    fn connection(&self) -> Connection {
        Connection { client: nbd::client::Client::connect(&self.uri).unwrap() }
    }

    fn finish(self) -> Summary {
        self.server.finish()
    }
}

/// An NBD client.
struct Connection {
    client: nbd::client::Client,
}

impl Connection {
    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) {
        self.client.ask(&Request { flags: 0, command, cookie: offset, offset, length }, data);
        self.client.send().unwrap();
    }

    /// The data of the next answer, which is to have so many bytes.
    fn answer(&mut self, bytes: usize) -> Vec<u8> {
        loop {
            if let Some((data, answer)) = self.client.take_reply_with_data(|_| bytes).unwrap() {
                assert_eq!(answer.error, 0);
                return data;
            }
            self.client.sleep(None).unwrap();
            self.client.receive().unwrap();
        }
    }

    fn read(&mut self, offset: u64, bytes: u32) -> Vec<u8> {
        self.ask(command::READ, offset, bytes, b"");
        self.answer(bytes as usize)
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(command::WRITE, offset, data.len() as u32, data);
        self.answer(0);
    }
}

fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| mix(seed << 32 | word).to_le_bytes()).collect()
}

#[test]
fn nbd_and_shm_clients_share_data_and_model() {
    for wait in WAITS {
        let server = serve("bytes", Duration::from_nanos(300), wait);
        let (mut queue, mut connection) = (server.queue(), server.connection());
        for round in 0..20 {
            let (offset, data) = (mix(round) % 200 * 4096, random_bytes(round, 4096));
            let mut found = vec![0; 4096];
            queue.write(offset, &data).unwrap();
            assert!(connection.read(offset, 4096) == data, "round {round}");
            connection.write(offset + 4096, &data);
            queue.read(offset + 4096, &mut found).unwrap();
            assert!(found == data, "round {round}");
        }
        // Let all threads fall asleep, so that this read has to wake them.
        drop(queue);
        thread::sleep(Duration::from_millis(5));
        connection.read(0, 512);
        let Summary { outcome, tally, exchanges } = server.finish();
        assert_eq!((tally.read.ios, tally.write.ios, tally.errors), (41, 40, 0));
        assert_eq!((outcome.ios(), tally.lag.count()), (81, 81));
        // The summary reports measured exchange times of the clients of both front-ends.
        let fronts: BTreeSet<&str> = exchanges.iter().map(|exchange| exchange.front).collect();
        assert_eq!(fronts, BTreeSet::from(["nbd", "shm"]));
        assert!(exchanges.iter().any(|exchange| exchange.takes.is_some()));
    }
}

#[test]
fn responses_to_both_client_kinds_follow_the_model() {
    let read = Duration::from_millis(2);
    for wait in WAITS {
        let server = serve("slow", read, wait);
        let (mut queue, mut connection) = (server.queue(), server.connection());
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5 {
                    let asked = Instant::now();
                    queue.read(0, &mut [0; 512]).unwrap();
                    assert!(asked.elapsed() >= read, "shared memory after {:?}", asked.elapsed());
                }
            });
            for _ in 0..5 {
                let asked = Instant::now();
                connection.read(4096, 512);
                assert!(asked.elapsed() >= read, "NBD after {:?}", asked.elapsed());
            }
        });
        assert!(server.finish().tally.read.latency.max() >= Span::from_ms(2));
    }
}

#[test]
fn requests_of_both_client_kinds_share_a_bank() {
    // 20 ms is long compared to delays that other programs on the machine may cause between the first and the last
    // request.
    let read = Duration::from_millis(20);
    for wait in WAITS {
        let server = serve("bank", read, wait);
        let (mut queue, mut connection) = (server.queue(), server.connection());
        let start = Instant::now();
        (0..4).for_each(|block| connection.ask(command::READ, block << 14, 512, b""));
        queue.read(512 << 10, &mut [0; 512]).unwrap();
        (0..4).for_each(|_| drop(connection.answer(512)));
        assert!(start.elapsed() >= read * 5, "five reads after {:?}", start.elapsed());
        let latency_max = server.finish().tally.read.latency.max();
        assert!(latency_max > Span::from_ms(60), "the last waits for four others: {latency_max:?}");
    }
}

#[test]
fn stopping_server_releases_clients_of_both_kinds() {
    for wait in WAITS {
        let server = serve("stop", Duration::from_millis(200), wait);
        let (mut queue, mut connection) = (server.queue(), server.connection());
        (0..8).for_each(|block| connection.ask(command::READ, block << 14, 512, b""));
        (0..3).for_each(|block| assert!(queue.submit_read(block << 14, 512).unwrap().is_some()));
        thread::sleep(Duration::from_millis(5));
        let asked = Instant::now();
        let summary = server.finish();
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        assert_eq!(summary.tally.read.ios, 0);
        assert_eq!(queue.read(0, &mut [0; 512]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(connection.client.receive().is_err());
    }
}

#[test]
fn vanishing_nbd_client_harms_nobody() {
    for wait in WAITS {
        let server = serve("gone", Duration::from_millis(1), wait);
        let mut queue = server.queue();
        for round in 0..3 {
            let mut connection = server.connection();
            (0..6).for_each(|block| connection.ask(command::READ, block << 14, 512, b""));
            connection.ask(command::WRITE, 0, 512, &[round; 512]);
            drop(connection);
            let mut found = [0; 512];
            queue.read(4096, &mut found).unwrap();
            assert_eq!(server.connection().read(4096, 512), found);
        }
        // The client whose requests were served last disconnects with a request in flight.
        drop(queue);
        server.connection().ask(command::READ, 0, 512, b"");
        thread::sleep(Duration::from_millis(20));
        let tally = server.finish().tally;
        assert_eq!(tally.errors, 0);
        assert!((6..=28).contains(&tally.read.ios), "{}", tally.read.ios);
    }
}
