//! DC Express in shared memory beside what two threads can do at all, in one run.
//!
//! The bare exchange is a request line, data copied from a 64 MiB store into the client's lines, and the client reading
//! it once its last word has changed: no ring, no tags, no checks. Both sides spin, each on a processor of its own. The
//! lines of a table are measured in turn, [`ROUNDS`] times, and each shows its best round: what else runs on the machine
//! only ever adds.

use std::hint::{black_box, spin_loop};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::chunk;
use phaselink_client::{Client, Options, Queue};
use phaselink_core::config::Drive;
use phaselink_core::random::mix;
use phaselink_core::report::Latency;
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::server::{Server, Summary};
use phaselink_serve::shm::{Served, Share};
use phaselink_serve::store::{Geometry, Store};
use phaselink_serve::wall::{Wait, span};
use rustix::thread::{CpuSet, sched_setaffinity};

const STORE_BYTES: u64 = 64 << 20;
const RUN: Duration = Duration::from_millis(250);
const ROUNDS: usize = 5;
/// Of the device and of its client.
const PROCESSORS: [usize; 2] = [0, 1];

/// Requests of one round.
struct Measured {
    iops: f64,
    latency: Latency,
}

impl Measured {
    fn percentile_ns(&self, percent: f64) -> f64 {
        self.latency.percentile(percent).as_ns()
    }
}

/// The round with the least median.
fn best(rounds: Vec<Measured>) -> Measured {
    let median = |measured: &Measured| measured.percentile_ns(50.0);
    rounds.into_iter().min_by(|one, other| median(one).total_cmp(&median(other))).expect("there is a round")
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    // With one processor the figures are worthless, and say so themselves.
    let _ = sched_setaffinity(None, &set);
}

fn offset(number: u64, bytes: usize) -> u64 {
    mix(number) % (STORE_BYTES / bytes as u64) * bytes as u64
}

/// One request at a time.
fn one_by_one(mut request: impl FnMut(u64)) -> Measured {
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

fn bare(store: &[u8], bytes: usize) -> Measured {
    let line = AtomicU64::new(0);
    let buffer: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| answer_bare(&line, &buffer, store, &stop));
        let mut into = vec![0; bytes];
        let measured = one_by_one(|number| {
            line.store(number + 1, Ordering::Release);
            while buffer[bytes / 8 - 1].load(Ordering::Acquire) != number + 1 {
                spin_loop();
            }
            chunk::copy_out(&buffer, &mut into);
            black_box(&into);
        });
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

fn answer_bare(line: &AtomicU64, buffer: &[AtomicU64], store: &[u8], stop: &AtomicBool) {
    pin(PROCESSORS[0]);
    let (mut last, tail) = (0, buffer.len() - 1);
    while !stop.load(Ordering::Relaxed) {
        let asked = line.load(Ordering::Acquire);
        if asked == last {
            spin_loop();
            continue;
        }
        last = asked;
        let at = offset(asked - 1, 8 * buffer.len()) as usize;
        chunk::copy_in(&buffer[..tail], &store[at..at + 8 * tail]);
        buffer[tail].store(asked, Ordering::Release);
    }
}

/// Serve while `work` has a queue.
fn served<T>(timing: bool, work: impl FnOnce(Queue) -> T) -> io::Result<(T, Summary)> {
    let geometry = Geometry { capacity_bytes: STORE_BYTES, block_bytes: 512 };
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.sock", std::process::id()));
    let share = Share { path: path.clone(), start: 0, bytes: None, writes: true };
    let problem = |problem| io::Error::other(format!("{problem}"));
    let store = Store::in_memory(geometry).map_err(problem)?;
    fill(&store);
    let device = Device {
        drive: Arc::new(Drive::shipped("dc-express").expect("a shipped drive")),
        store: Arc::new(store),
        tallies: Arc::default(),
        record: None,
        stop: Arc::new(Stop::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let shm = vec![Served::bind(&share, geometry).map_err(problem)?];
    let server = Server {
        device,
        timing,
        wait: Wait::Spin,
        seed: 1,
        nbd: Vec::new(),
        shm,
        vfio_user: Vec::new(),
        metrics: None,
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let options = Options { depth: 32, transfer_bytes: 4096, ..Options::default() };
        let queue = Client::connect(&path, &options).map(|mut client| client.take_queue().expect("one was asked for"));
        let worked = queue.map(work);
        stop.request();
        let summary = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok((worked?, summary))
    })
}

/// Every page of the store exists, and is not zero.
fn fill(store: &Store) {
    let data: Vec<u8> = (0..512).flat_map(|word| mix(word).to_le_bytes()).collect();
    for page in 0..STORE_BYTES / 4096 {
        store.write(page * 4096, &data).expect("memory takes writes");
    }
}

fn alone(mut queue: Queue, bytes: usize) -> Measured {
    let mut into = vec![0; bytes];
    one_by_one(|number| queue.read(offset(number, bytes), &mut into).expect("a read"))
}

/// As many at once as slots, each followed by the next when it is complete: the rate of the median block of requests,
/// so that a processor taken away for some milliseconds does not count.
fn deep(mut queue: Queue, bytes: usize) -> f64 {
    const BLOCK: u64 = 32 * 32;
    let (mut into, mut done, start) = (vec![0; bytes], 0u64, Instant::now());
    let ask = |queue: &mut Queue, number| {
        queue.submit_read(offset(number, bytes), bytes as u32).expect("a read").expect("a slot is free")
    };
    let mut slots: Vec<_> = (0..32).map(|number| ask(&mut queue, number)).collect();
    let (mut blocks, mut since) = (Latency::default(), start);
    while since - start < RUN {
        for slot in &mut slots {
            while !queue.complete(*slot, &mut into).expect("a read") {
                spin_loop();
            }
            done += 1;
            *slot = ask(&mut queue, done + 32);
        }
        if done.is_multiple_of(BLOCK) {
            let now = Instant::now();
            blocks.record(span(now - since));
            since = now;
        }
    }
    BLOCK as f64 / blocks.percentile(50.0).as_ns() * 1e9
}

fn line(bytes: usize, what: &str, measured: &Measured, note: &str) {
    let [median, tail] = [50.0, 99.9].map(|percent| measured.percentile_ns(percent));
    let (iops, kind) = (measured.iops, format!("{bytes:>5} B  {what:<20}"));
    println!("{kind}  p50 {median:>6.0} ns  p99.9 {tail:>7.0} ns  {iops:>10.0} IOPS  {note}");
}

fn timing_off(store: &[u8], bytes: usize) -> io::Result<()> {
    let (mut base, mut one, mut many_iops) = (Vec::new(), Vec::new(), 0.0_f64);
    for _ in 0..ROUNDS {
        base.push(bare(store, bytes));
        one.push(served(false, |queue| alone(queue, bytes))?.0);
        many_iops = many_iops.max(served(false, |queue| deep(queue, bytes))?.0);
    }
    let (base, one) = (best(base), best(one));
    let ratio = one.percentile_ns(50.0) / base.percentile_ns(50.0);
    line(bytes, "bare exchange QD1", &base, "");
    line(bytes, "shared memory QD1", &one, &format!("{ratio:.2}x the bare exchange"));
    println!("{bytes:>5} B  shared memory QD32                                       {many_iops:>10.0} IOPS");
    Ok(())
}

/// Each round beside the model's account of the same requests. It differs between rounds: when the endpoint polls next
/// depends on when commands have come before.
fn timing_on(bytes: usize) -> io::Result<()> {
    for _ in 0..ROUNDS {
        let (measured, summary) = served(true, |queue| alone(queue, bytes))?;
        let model_ns = summary.tally.read.latency.percentile(50.0).as_ns();
        let [median, high, tail] = [50.0, 99.0, 99.9].map(|percent| summary.tally.lag.percentile(percent).as_ns());
        let ratio = measured.percentile_ns(50.0) / model_ns;
        let lag = format!("lag p50 {median:.0} p99 {high:.0} p99.9 {tail:.0} ns");
        line(bytes, "timing on QD1", &measured, &format!("{ratio:.3}x the model's {model_ns:.0} ns, {lag}"));
    }
    Ok(())
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store: Vec<u8> = (0..STORE_BYTES / 8).flat_map(|word| mix(word).to_le_bytes()).collect();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |word: &str| wanted.is_empty() || wanted.iter().any(|one| one == word);
    for bytes in [512, 4096].into_iter().filter(|_| wants("off")) {
        timing_off(&store, bytes)?;
    }
    for bytes in [512, 4096].into_iter().filter(|_| wants("on")) {
        timing_on(bytes)?;
    }
    Ok(())
}
