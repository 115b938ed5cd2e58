//! DC Express in shared memory beside what two threads can do at all, in one run: half a second for each line.
//!
//! The bare exchange is a request line, data copied from a 64 MiB store into the client's lines, and the client reading
//! it once its last word has changed: no ring, no tags, no checks. Both sides spin; two processors are needed.

use std::hint::{black_box, spin_loop};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_client::chunk;
use phaselink_client::{Client, Options};
use phaselink_core::config::Drive;
use phaselink_core::random::mix;
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::server::{Server, Summary};
use phaselink_serve::shm::{Served, Share};
use phaselink_serve::store::{Geometry, Store};
use phaselink_serve::wall::Wait;

const STORE_BYTES: u64 = 64 << 20;
const RUN: Duration = Duration::from_millis(500);
const SIZES: [usize; 2] = [512, 4096];

/// Requests and their latencies in ns.
struct Measured {
    iops: f64,
    latencies: Vec<u64>,
}

impl Measured {
    fn median_ns(&mut self) -> u64 {
        self.latencies.sort_unstable();
        self.latencies.get(self.latencies.len() / 2).copied().unwrap_or(0)
    }
}

fn offset(number: u64, bytes: usize) -> u64 {
    mix(number) % (STORE_BYTES / bytes as u64) * bytes as u64
}

/// One request at a time for half a second.
fn one_by_one(mut request: impl FnMut(u64)) -> Measured {
    let (start, mut latencies) = (Instant::now(), Vec::new());
    while start.elapsed() < RUN {
        let asked = Instant::now();
        request(latencies.len() as u64);
        latencies.push(asked.elapsed().as_nanos() as u64);
    }
    Measured { iops: latencies.len() as f64 / start.elapsed().as_secs_f64(), latencies }
}

fn bare(bytes: usize) -> Measured {
    let line = AtomicU64::new(0);
    let buffer: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let store: Vec<u8> = (0..STORE_BYTES / 8).flat_map(|word| mix(word).to_le_bytes()).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let asked = line.load(Ordering::Acquire);
                if asked == last {
                    spin_loop();
                    continue;
                }
                last = asked;
                let at = offset(asked - 1, bytes) as usize;
                chunk::copy_in(&buffer[..bytes / 8 - 1], &store[at..at + bytes - 8]);
                buffer[bytes / 8 - 1].store(asked, Ordering::Release);
            }
        });
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

/// Serve while `work` has a client.
fn served(timing: bool, work: impl FnOnce(Client)) -> io::Result<Summary> {
    let geometry = Geometry { capacity_bytes: STORE_BYTES, block_bytes: 512 };
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.sock", std::process::id()));
    let share = Share { path: path.clone(), start: 0, bytes: None, writes: true };
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(Drive::shipped("dc-express").expect("a shipped drive")),
        store: Arc::new(Store::in_memory(geometry).map_err(problem)?),
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
        let server = scope.spawn(|| server.run());
        let options = Options { depth: 32, transfer_bytes: 4096, ..Options::default() };
        let ended = Client::connect(&path, &options).map(|client| {
            fill(client);
            Client::connect(&path, &options).map(work)
        });
        stop.request();
        ended.and_then(|inner| inner)?;
        server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))
    })
}

/// Every page of the store exists, and is not zero.
fn fill(mut client: Client) {
    let Some(mut queue) = client.take_queue() else { return };
    let data: Vec<u8> = (0..512).flat_map(|word| mix(word).to_le_bytes()).collect();
    for page in 0..STORE_BYTES / 4096 {
        queue.write(page * 4096, &data).expect("the device takes writes");
    }
}

fn alone(mut client: Client, bytes: usize) -> Measured {
    let mut queue = client.take_queue().expect("one was asked for");
    let mut into = vec![0; bytes];
    one_by_one(|number| queue.read(offset(number, bytes), &mut into).expect("a read"))
}

/// As many at once as slots, each followed by the next when it is complete.
fn deep(mut client: Client, bytes: usize) -> f64 {
    let mut queue = client.take_queue().expect("one was asked for");
    let (mut into, mut done, start) = (vec![0; bytes], 0u64, Instant::now());
    let mut slots: Vec<_> =
        (0..32).filter_map(|n| queue.submit_read(offset(n, bytes), bytes as u32).unwrap()).collect();
    while start.elapsed() < RUN {
        for slot in &mut slots {
            while !queue.complete(*slot, &mut into).expect("a read") {
                spin_loop();
            }
            done += 1;
            *slot = queue.submit_read(offset(done + 32, bytes), bytes as u32).unwrap().expect("a slot is free");
        }
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn main() -> io::Result<()> {
    for bytes in SIZES {
        let mut base = bare(bytes);
        let (mut one, mut many) = (None, 0.0);
        served(false, |client| one = Some(alone(client, bytes)))?;
        served(false, |client| many = deep(client, bytes))?;
        let mut one = one.expect("it was measured");
        let (bare_ns, shm_ns) = (base.median_ns(), one.median_ns());
        println!("{bytes:>5} B  bare exchange  QD1   p50 {bare_ns:>6} ns  {:>10.0} IOPS", base.iops);
        let ratio = shm_ns as f64 / bare_ns as f64;
        println!("{bytes:>5} B  shared memory  QD1   p50 {shm_ns:>6} ns  {:>10.0} IOPS  {ratio:.2}x", one.iops);
        println!("{bytes:>5} B  shared memory  QD32                 {many:>10.0} IOPS");
    }
    for (bytes, model_ns) in SIZES.into_iter().zip([1400.0, 3663.0]) {
        let mut timed = None;
        let summary = served(true, |client| timed = Some(alone(client, bytes)))?;
        let (ns, lag) = (timed.expect("it was measured").median_ns(), summary.tally.lag.percentile(50.0).as_ns());
        let ratio = ns as f64 / model_ns;
        println!(
            "{bytes:>5} B  timing on      QD1   p50 {ns:>6} ns  model {model_ns} ns  {ratio:.3}x  lag p50 {lag:.0} ns"
        );
    }
    Ok(())
}
