//! What the benchmarks of served drives share: two pinned threads, what they can do at all, and a drive in shared memory.

use std::hint::{black_box, spin_loop};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::{Client, Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Latency;
use phaselink_core::random::mix;
use phaselink_ring::chunk::{self, Word};
use phaselink_ring::shared::memory::Memory;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::front::shm::{Share, ShareSocket, Shm};
use phaselink_serve::model::wall::{Wait, span};
use phaselink_serve::server::{Server, Summary};
use rustix::thread::{CpuSet, sched_setaffinity};

pub(crate) const STORE_BYTES: u64 = 64 << 20;
pub(crate) const GEOMETRY: Geometry = Geometry { capacity_bytes: STORE_BYTES, block_bytes: 512 };
/// Short, and many: a machine is quick or slow for some seconds, and both sides of a ratio need rounds in a quick phase.
pub(crate) const RUN: Duration = Duration::from_millis(100);
pub(crate) const ROUNDS: usize = 30;
pub(crate) const LINE_BYTES: u64 = 64;
/// Requests under way at depth.
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
    // With one processor the figures are worthless, and say so themselves.
    let _ = sched_setaffinity(None, &set);
}

/// Where a request of so many bytes, a power of two, begins.
pub(crate) fn offset(number: u64, bytes: usize) -> u64 {
    (mix(number) % STORE_BYTES) & !(bytes as u64 - 1)
}

/// One request at a time.
pub(crate) fn one_by_one(mut request: impl FnMut(u64)) -> Measured {
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

/// What the two sides of a bare exchange share: request lines, and a buffer for each request under way.
pub(crate) struct Bare<'a> {
    pub memory: Memory,
    pub depth: u64,
    pub bytes: usize,
    pub store: &'a Store,
    pub stop: AtomicBool,
}

impl Bare<'_> {
    /// For a `depth` and a number of bytes that are powers of two.
    pub(crate) fn new(store: &Store, depth: u64, bytes: usize) -> io::Result<Bare<'_>> {
        let (memory, _) = Memory::create(2 * depth * LINE_BYTES + depth * Bare::stride_bytes(bytes))?;
        Ok(Bare { memory, depth, bytes, store, stop: AtomicBool::new(false) })
    }

    /// As the served drive's, so that the first lines of buffers do not compete for the same places of a cache.
    pub(crate) fn stride_bytes(bytes: usize) -> u64 {
        bytes as u64 + 640
    }

    pub(crate) fn line(&self, number: u64) -> &AtomicU64 {
        self.memory.word((number & (2 * self.depth - 1)) * LINE_BYTES)
    }

    /// The buffer of a request, without its last word; and that word.
    pub(crate) fn buffer(&self, number: u64) -> (&[AtomicU64], &AtomicU64) {
        let first = 2 * self.depth * LINE_BYTES + (number & (self.depth - 1)) * Bare::stride_bytes(self.bytes);
        let (tail, body) = self.memory.words(first, self.bytes / 8).split_last().expect("no buffer is empty");
        (body, tail)
    }

    pub(crate) fn ask(&self, number: u64) {
        self.line(number).store(number + 1, Ordering::Release);
    }

    pub(crate) fn await_data(&self, number: u64, into: &mut [u8]) {
        let (body, tail) = self.buffer(number);
        while tail.load(Ordering::Acquire) != number + 1 {
            spin_loop();
        }
        chunk::copy_out(body, into);
        black_box(into);
    }

    /// The device: takes up to `ahead` requests, fetching what they need, before it answers the first of them.
    pub(crate) fn answer(&self, ahead: u64) {
        pin(PROCESSORS[0]);
        let (mut seen, mut done) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            while seen < done + ahead && self.line(seen).load(Ordering::Acquire) == seen + 1 {
                if ahead > 1 {
                    self.store.prefetch(offset(seen, self.bytes), self.bytes.min(chunk::AHEAD_BYTES) as u32);
                    chunk::prefetch_to_write(self.buffer(seen).0);
                    self.line(seen + 4).prefetch();
                }
                seen += 1;
            }
            if done == seen {
                spin_loop();
                continue;
            }
            let words = self.store.words(offset(done, self.bytes), self.bytes as u32).expect("a store in memory");
            let (body, tail) = self.buffer(done);
            AtomicU64::copy_all(words, body);
            done += 1;
            tail.store(done, Ordering::Release);
        }
    }

    pub(crate) fn run<T>(&self, ahead: u64, client: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            scope.spawn(|| self.answer(ahead));
            let measured = client();
            self.stop.store(true, Ordering::Relaxed);
            measured
        })
    }
}

pub(crate) fn bare(store: &Store, bytes: usize) -> io::Result<Measured> {
    let (bare, mut into) = (Bare::new(store, 1, bytes)?, vec![0; bytes]);
    let exchange = |number| {
        bare.ask(number);
        bare.await_data(number, &mut into);
    };
    Ok(bare.run(1, || one_by_one(exchange)))
}

pub(crate) fn bare_deep(store: &Store, bytes: usize) -> io::Result<f64> {
    let (bare, mut into) = (Bare::new(store, DEPTH, bytes)?, vec![0; bytes]);
    (0..DEPTH).for_each(|number| bare.ask(number));
    let exchange = |number| {
        bare.await_data(number, &mut into);
        bare.ask(number + DEPTH);
    };
    Ok(bare.run(8, || rate(exchange)))
}

/// Serve while `work` has a queue.
pub(crate) fn served<T>(timing: bool, work: impl FnOnce(Queue) -> T) -> io::Result<(T, Summary)> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.sock", std::process::id()));
    let share = Share { path: path.clone(), start: 0, bytes: None, writes: true };
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(Drive::shipped("dc-express").expect("a shipped drive")),
        store: Arc::new(store()?),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(Stop::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let shm = vec![ShareSocket::bind(&share, GEOMETRY).map_err(problem)?];
    let server = Server {
        device,
        timing,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(Shm(shm))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let options = Options { depth: DEPTH as u32, transfer_bytes: 4096, ..Options::default() };
        let queue = Client::connect(&path, &options).map(|mut client| client.take_queue().expect("one was asked for"));
        let worked = queue.map(work);
        stop.request();
        let summary = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok((worked?, summary))
    })
}

/// A store of which every page exists, and is not zero.
pub(crate) fn store() -> io::Result<Store> {
    let store = Store::in_memory(GEOMETRY).map_err(|problem| io::Error::other(problem.to_string()))?;
    let data: Vec<u8> = (0..512).flat_map(|word| mix(word).to_le_bytes()).collect();
    for page in 0..STORE_BYTES / 4096 {
        store.write(page * 4096, &data)?;
    }
    Ok(store)
}

pub(crate) fn alone(mut queue: Queue, bytes: usize) -> Measured {
    let mut into = vec![0; bytes];
    one_by_one(|number| queue.read(offset(number, bytes), &mut into).expect("a read"))
}

/// Requests a second, of those of the median block: a processor taken away for some milliseconds does not count.
pub(crate) fn rate(mut request: impl FnMut(u64)) -> f64 {
    rate_of_blocks(|from, to| (from..to).for_each(&mut request))
}

/// The same for requests that are made many at a time: from a number up to another.
pub(crate) fn rate_of_blocks(mut requests: impl FnMut(u64, u64)) -> f64 {
    const BLOCK: u64 = 1024;
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

/// As many at once as slots, each followed by the next when it is complete.
pub(crate) fn deep(mut queue: Queue, bytes: usize) -> f64 {
    let ask = |queue: &mut Queue, number| {
        queue.submit_read(offset(number, bytes), bytes as u32).expect("a read").expect("a slot is free")
    };
    let mut slots: Vec<_> = (0..DEPTH).map(|number| ask(&mut queue, number)).collect();
    let mut into = vec![0; bytes];
    rate(|number| {
        let slot = &mut slots[(number % DEPTH) as usize];
        while !queue.complete(*slot, &mut into).expect("a read") {
            spin_loop();
        }
        *slot = ask(&mut queue, number + DEPTH);
    })
}

pub(crate) fn line(bytes: usize, what: &str, measured: &Measured, note: &str) {
    let [median, tail] = [50.0, 99.9].map(|percent| measured.percentile_ns(percent));
    let (iops, kind) = (measured.iops, format!("{bytes:>5} B  {what:<20}"));
    println!("{kind}  p50 {median:>6.0} ns  p99.9 {tail:>7.0} ns  {iops:>10.0} IOPS  {note}");
}

pub(crate) fn deep_line(bytes: usize, what: &str, iops: f64, note: &str) {
    println!("{:<66}{iops:>10.0} IOPS  {note}", format!("{bytes:>5} B  {what}"));
}
