//! Requests without data while timing is on: they take modelled time and change the modelled drive, as its interface has them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::background::{BackgroundServer, alone, device};
use phaselink_client::{Client, Options};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::JobOutcome;
use phaselink_core::time::Span;
use phaselink_serve::device::record::Record;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command, flag};
use phaselink_serve::front::nbd::{self, ExportSocket, Nbd};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 4096 };
/// The shortest program of a page of the drives' cells.
const PROGRAM: Span = Span::from_us(300);

/// A server that runs until this goes.
struct Running {
    uri: Uri,
    socket: PathBuf,
    server: BackgroundServer,
}

/// Serves a drive over NBD and in shared memory, with timing on.
fn serve(test: &str, drive: &str, device_threads: usize, record: Option<Record>) -> Running {
    let alone = alone();
    let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
    let uri = listener.uri();
    let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: true };
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.sock"));
    let share = ShareSocket::bind(&Share::parse(&socket.display().to_string()).unwrap(), GEOMETRY).unwrap();
    let mut device = device(Drive::shipped(drive).unwrap(), Store::in_memory(GEOMETRY).unwrap());
    device.record = record.map(Arc::new);
    let server = Server {
        device,
        timing: true,
        wait: Wait::Block,
        seed: 1,
        fronts: vec![Box::new(Nbd(vec![ExportSocket { listener, export }])), Box::new(ShmFrontEnd(vec![share]))],
        metrics: None,
        device_threads,
        control: None,
    };
    Running { uri, socket, server: BackgroundServer::start(server, alone) }
}

impl Running {
    /// Lets an NBD client make requests one after the other.
    fn ask(&self, requests: &[Request]) {
        let mut client = nbd::client::Client::connect(&self.uri).unwrap();
        for request in requests {
            let data = vec![7; if request.command == command::WRITE { request.length as usize } else { 0 }];
            client.ask(request, &data);
            client.send().unwrap();
            let answer = loop {
                client.sleep(None).unwrap();
                client.receive().unwrap();
                if let Some(answer) = client.answer(|_| 0).unwrap() {
                    break answer;
                }
            };
            assert_eq!((answer.cookie, answer.error), (request.cookie, 0));
        }
    }

    fn finish(self) -> Summary {
        self.server.finish()
    }
}

fn request(command: u16, offset: u64, length: u32) -> Request {
    Request { flags: 0, command, cookie: offset, offset, length }
}

const FLUSH: Request = Request { flags: 0, command: command::FLUSH, cookie: 5, offset: 0, length: 0 };

/// A write, a flush of it, a discard and a write of zeros.
fn one_request_of_each_kind() -> [Request; 4] {
    [
        request(command::WRITE, 4096, 4096),
        FLUSH,
        request(command::TRIM, 8192, 4096),
        request(command::WRITE_ZEROES, 0, 32 << 10),
    ]
}

fn modelled(summary: &Summary) -> &JobOutcome {
    summary.outcome.jobs.iter().find(|job| job.write.ios > 0).unwrap()
}

#[test]
fn nbd_operations_take_modelled_time_and_count_separately() {
    for device_threads in [1, 2] {
        let running = serve("nbd-each", "tlc-gen4", device_threads, None);
        running.ask(&one_request_of_each_kind());
        let summary = running.finish();
        let job = modelled(&summary);
        assert_eq!([&job.write, &job.flush, &job.discard, &job.zeroes].map(|kind| kind.ios), [1; 4]);
        let latencies = summary.tally.directions().map(|(_, direction)| direction.latency.max());
        let [read, write, flush, discard, zeroes] = latencies;
        assert!(read == Span::ZERO && write < PROGRAM && flush > PROGRAM, "{latencies:?}");
        assert!(discard > Span::from_us(1) && zeroes > discard, "{latencies:?}");
        assert_eq!((flush, zeroes), (job.flush.total.max(), job.zeroes.total.max()));
        assert_eq!((summary.tally.discard.bytes, summary.tally.zeroes.bytes), (4096, 32 << 10));
    }
}

#[test]
fn fua_write_takes_the_time_of_write_and_flush() {
    let write = Request { flags: flag::FUA, ..request(command::WRITE, 4096, 4096) };
    for (drive, is_slow) in [("tlc-gen4", true), ("tlc-gen5", false)] {
        let running = serve("nbd-fua", drive, 1, None);
        running.ask(&[write]);
        let summary = running.finish();
        let job = modelled(&summary);
        assert_eq!((job.write.ios, job.flush.ios), (1, u64::from(is_slow)), "{drive}");
        assert_eq!(summary.tally.write.latency.max(), job.write.total.max() + job.flush.total.max(), "{drive}");
        assert_eq!((summary.tally.write.latency.max() > PROGRAM, summary.tally.flush.ios), (is_slow, 0), "{drive}");
    }
}

#[test]
fn unneeded_operation_takes_no_modelled_time() {
    // A buffer with power-loss protection needs no flush. Moneta's interface has only reads and writes.
    for (drive, discards, zeroes) in [("tlc-gen5", 1, 1), ("moneta", 0, 0)] {
        let running = serve("nbd-none", drive, 1, None);
        running.ask(&one_request_of_each_kind());
        let summary = running.finish();
        let job = modelled(&summary);
        assert_eq!((job.flush.ios, job.discard.ios, job.zeroes.ios), (0, discards, zeroes), "{drive}");
        assert_eq!(job.write.ios, 2 - zeroes, "{drive}: zeros without a command are data");
        let tally = &summary.tally;
        assert_eq!((tally.flush.ios, tally.flush.latency.count()), (1, 0), "{drive}");
        assert_eq!((tally.discard.ios, tally.discard.latency.count()), (1, discards), "{drive}");
        assert_eq!((tally.zeroes.ios, tally.errors), (1, 0), "{drive}");
    }
}

#[test]
fn shm_flush_takes_its_modelled_time() {
    let running = serve("shm-flush", "tlc-gen4", 1, None);
    let mut queue = Client::connect(&running.socket, &Options::default()).unwrap().take_queue().unwrap();
    queue.write(4096, &[7; 4096]).unwrap();
    let started = std::time::Instant::now();
    queue.flush().unwrap();
    let (waited, summary) = (started.elapsed(), running.finish());
    let flush = &summary.tally.flush;
    assert_eq!((flush.ios, modelled(&summary).flush.ios), (1, 1));
    assert!(flush.latency.max() > PROGRAM, "{}", flush.latency.max());
    assert!(waited.as_nanos() as f64 >= flush.latency.max().as_ns(), "{waited:?} {}", flush.latency.max());
}

#[test]
fn recording_contains_flushes_as_syncs() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flushes.log");
    let record = Record::new(File::create(&path).unwrap()).unwrap();
    let running = serve("record", "tlc-gen4", 1, Some(record));
    running.ask(&one_request_of_each_kind());
    running.ask(&[Request { flags: flag::FUA, ..request(command::WRITE, 4096, 4096) }]);
    let mut queue = Client::connect(&running.socket, &Options::default()).unwrap().take_queue().unwrap();
    queue.flush().unwrap();
    running.finish();
    let log = fs::read_to_string(&path).unwrap();
    let without_times = log.lines().filter_map(|line| line.split_once(" phaselink ").map(|(_, rest)| rest));
    let expected =
        ["write 4096 4096", "sync 0 0", "trim 8192 4096", "write 0 32768", "write 4096 4096", "sync 0 0", "sync 0 0"];
    let requests: Vec<&str> = without_times.filter(|line| line.contains(' ')).collect();
    assert_eq!(requests, expected);
}
