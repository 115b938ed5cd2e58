//! Parts that the benchmarks of served drives share: two pinned threads, a store that has been written, and a drive in shared
//! memory.

use std::hint::spin_loop;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::{Client, Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Latency;
use phaselink_core::random::mix;
use phaselink_core::request::Op;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::model::wall::{Wait, span};
use phaselink_serve::server::{Server, Summary};
use rustix::thread::{CpuSet, sched_setaffinity};

pub(crate) mod bare;
pub(crate) mod speed;

/// Size of the store: several times that of a last-level cache.
pub(crate) const STORE_BYTES: u64 = 256 << 20;
pub(crate) const GEOMETRY: Geometry = Geometry { capacity_bytes: STORE_BYTES, block_bytes: 512 };
/// Short, and many: a machine is quick or slow for some seconds, and both sides of a ratio need rounds in a quick phase.
pub(crate) const RUN: Duration = Duration::from_millis(60);
pub(crate) const ROUNDS: usize = 30;
/// Number of requests in flight at depth.
pub(crate) const DEPTH: u64 = 32;
/// Of the device and of its client.
pub(crate) const PROCESSORS: [usize; 2] = [0, 1];

/// Requests of one round.
pub(crate) struct Measured {
    pub iops: f64,
    pub latency: Latency,
}

impl Measured {
    pub(crate) fn percentile_ns(&self, percent: f64) -> f64 {
        self.latency.percentile(percent).as_ns()
    }
}

/// The round with the least median.
pub(crate) fn best(rounds: Vec<Measured>) -> Measured {
    let median = |measured: &Measured| measured.percentile_ns(50.0);
    rounds.into_iter().min_by(|one, other| median(one).total_cmp(&median(other))).expect("there is a round")
}

pub(crate) fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    // On a machine with one processor this call fails. The figures of such a machine are useless in any case.
    let _ = sched_setaffinity(None, &set);
}

/// Where a request of so many bytes, a power of two, begins.
pub(crate) fn offset(number: u64, bytes: usize) -> u64 {
    (mix(number) % STORE_BYTES) & !(bytes as u64 - 1)
}

/// One request at a time.
pub(crate) fn measure_requests_one_by_one(mut request: impl FnMut(u64)) -> Measured {
    let (start, mut latency, mut number) = (Instant::now(), Latency::default(), 0);
    let mut asked = start;
    while asked - start < RUN {
        request(number);
        let done = Instant::now();
        latency.record(span(done - asked));
        asked = Instant::now();
        number += 1;
    }
    Measured { iops: number as f64 / start.elapsed().as_secs_f64(), latency }
}

/// Requests of a benchmark, at random places of the store: operation and length, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub op: Op,
    pub bytes: usize,
}

impl Transfer {
    pub(crate) fn read(bytes: usize) -> Transfer {
        Transfer { op: Op::Read, bytes }
    }

    pub(crate) fn write(bytes: usize) -> Transfer {
        Transfer { op: Op::Write, bytes }
    }

    pub(crate) fn offset(self, number: u64) -> u64 {
        offset(number, self.bytes)
    }
}

/// Serves `store` in shared memory while `work` has a queue for transfers of so many bytes.
pub(crate) fn served<T>(
    store: &Arc<Store>,
    timing: bool,
    transfer_bytes: usize,
    work: impl FnOnce(Queue) -> T,
) -> io::Result<(T, Summary)> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.sock", std::process::id()));
    let share = Share { path: path.clone(), start: 0, bytes: None, writes: true };
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(Drive::shipped("dc-express").expect("a shipped drive")),
        store: Arc::clone(store),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(StopRequest::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let shm = vec![ShareSocket::bind(&share, GEOMETRY).map_err(problem)?];
    let server = Server {
        device,
        timing,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(ShmFrontEnd(shm))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let options = Options { depth: DEPTH as u32, transfer_bytes: transfer_bytes as u32, ..Options::default() };
        let queue = Client::connect(&path, &options).map(|mut client| client.take_queue().expect("one was asked for"));
        let worked = queue.map(work);
        stop.request();
        let summary = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok((worked?, summary))
    })
}

/// Makes a store without a written block.
pub(crate) fn create_empty_store() -> io::Result<Arc<Store>> {
    Store::in_memory(GEOMETRY).map(Arc::new).map_err(|problem| io::Error::other(problem.to_string()))
}

/// Makes a store of which every block has been written.
pub(crate) fn store() -> io::Result<Arc<Store>> {
    let store = create_empty_store()?;
    let data: Vec<u8> = (0..512).flat_map(|word| mix(word).to_le_bytes()).collect();
    for page in 0..STORE_BYTES / 4096 {
        store.write(page * 4096, &data)?;
    }
    Ok(store)
}

/// One request after the other.
pub(crate) fn alone(mut queue: Queue, Transfer { op, bytes }: Transfer) -> Measured {
    let mut data = vec![1; bytes];
    measure_requests_one_by_one(|number| match op {
        Op::Write => queue.write(offset(number, bytes), &data).expect("a write"),
        _ => queue.read(offset(number, bytes), &mut data).expect("a read"),
    })
}

/// Requests a second, of those of the median block: a processor taken away for some milliseconds does not count.
pub(crate) fn rate(mut request: impl FnMut(u64)) -> f64 {
    median_block_request_rate(|from, to| (from..to).for_each(&mut request))
}

/// Requests a second that are made many at a time, from a number up to another, in the median block.
pub(crate) fn median_block_request_rate(mut requests: impl FnMut(u64, u64)) -> f64 {
    const BLOCK: u64 = 256;
    let (mut blocks, start, mut done) = (Latency::default(), Instant::now(), 0);
    let mut since = start;
    while since - start < RUN {
        requests(done, done + BLOCK);
        done += BLOCK;
        let now = Instant::now();
        blocks.record(span(now - since));
        since = now;
    }
    BLOCK as f64 / blocks.percentile(50.0).as_ns() * 1e9
}

/// As many requests at once as slots, each followed by the next when it is complete.
pub(crate) fn deep(mut queue: Queue, Transfer { op, bytes }: Transfer) -> f64 {
    let mut data = vec![1; bytes];
    let ask = |queue: &mut Queue, number, data: &[u8]| {
        let submitted = match op {
            Op::Write => queue.submit_write(offset(number, bytes), data),
            _ => queue.submit_read(offset(number, bytes), bytes as u32),
        };
        submitted.expect("a request").expect("a slot is free")
    };
    let mut slots: Vec<_> = (0..DEPTH).map(|number| ask(&mut queue, number, &data)).collect();
    rate(|number| {
        let slot = &mut slots[(number % DEPTH) as usize];
        while !queue.complete(*slot, &mut data).expect("a request") {
            spin_loop();
        }
        *slot = ask(&mut queue, number + DEPTH, &data);
    })
}

/// Returns the value in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn line(bytes: usize, what: &str, measured: &Measured, note: &str) {
    let [median, tail] = [50.0, 99.9].map(|percent| measured.percentile_ns(percent));
    let (iops, kind) = (measured.iops, format!("{bytes:>5} B  {what:<20}"));
    println!("{kind}  p50 {median:>6.0} ns  p99.9 {tail:>7.0} ns  {iops:>10.0} IOPS  {note}");
}

pub(crate) fn print_rate_at_depth(bytes: usize, what: &str, iops: f64, note: &str) {
    println!("{:<66}{iops:>10.0} IOPS  {note}", format!("{bytes:>5} B  {what}"));
}
