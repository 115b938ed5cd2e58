//! NVMe over vfio-user: random reads by a client that polls, as SPDK's does, beside a bare copy of the same bytes between the
//! same threads, and beside the same drive in shared memory; with timing on, beside what the model says.
//!
//! Server and client spin, each on a processor of its own. The client rings through the doorbells' page, once for all that
//! it has found, and looks for the phase of the next completion entry; what it has read, it does not touch. The lines are
//! measured in turn, [`ROUNDS`] times, and each shows its median round.

#[allow(dead_code)]
mod common;
// The tests use the rest of it.
#[allow(dead_code)]
#[path = "../tests/common/vfio_client.rs"]
mod vfio_client;

use std::hint::spin_loop;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::{
    DEPTH, GEOMETRY, PROCESSORS, alone, bare, bare_deep, offset, one_by_one, pin, rate_of_blocks, served, store,
};
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::spec::{SubmissionEntry, opcode};
use phaselink_ring::chunk;
use phaselink_ring::shared::memory::Memory;
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};
use vfio_client::{Client, Driver, ENTRIES, PAGE, RAM, RAM_BYTES, Rings};

const ROUNDS: usize = 15;
const SIZES: [usize; 2] = [512, 4096];

/// The queue of a driver, as its hot path has it.
struct Queue<'a> {
    page: &'a Memory,
    ram: &'a Memory,
    tail: u32,
    head: u32,
    phase: u64,
}

impl Queue<'_> {
    /// A random read into one of the data pages, of which the device does not hear yet.
    fn submit(&mut self, number: u64, bytes: usize, place: u64) {
        let entry = SubmissionEntry {
            opcode: opcode::READ,
            command_id: place as u16,
            namespace_id: 1,
            prp1: RAM + (16 + place) * PAGE,
            ..SubmissionEntry::default()
        };
        let entry = entry.of_blocks(offset(number, bytes) / 512, bytes as u32 / 512);
        chunk::copy_in(self.ram.words(3 * PAGE + u64::from(self.tail) * 64, 8), &entry.encode());
        self.tail = (self.tail + 1) % ENTRIES;
    }

    fn ring(&self) {
        let both = u64::from(self.tail) | u64::from(self.head) << 32;
        self.page.word(0x1008).store(both, Ordering::Release);
    }

    fn entry(&self) -> &AtomicU64 {
        self.ram.word(4 * PAGE + u64::from(self.head) * 16 + 8)
    }

    /// The place that the next completion is for, if that has come.
    fn look(&mut self) -> Option<u64> {
        let word = self.entry().load(Ordering::Acquire);
        if word >> 48 & 1 != self.phase {
            return None;
        }
        assert_eq!(word >> 49, 0, "a read has failed");
        self.head = (self.head + 1) % ENTRIES;
        self.phase ^= u64::from(self.head == 0);
        Some(word >> 32 & 0xffff)
    }

    fn wait(&mut self) -> u64 {
        loop {
            match self.look() {
                Some(place) => return place,
                None => spin_loop(),
            }
        }
    }
}

fn lone(queue: &mut Queue, bytes: usize) -> f64 {
    let measured = one_by_one(|number| {
        queue.submit(number, bytes, 0);
        queue.ring();
        queue.wait();
    });
    measured.percentile_ns(50.0)
}

/// Thirty-two at once, each followed by the next when it is complete: requests a second.
fn deep(queue: &mut Queue, bytes: usize) -> f64 {
    (0..DEPTH).for_each(|place| queue.submit(place, bytes, place));
    queue.ring();
    let iops = rate_of_blocks(|mut done, until| {
        while done < until {
            let before = done;
            // As many as stand in two lines, before the device hears of them.
            while done < until.min(before + 8) {
                let Some(place) = queue.look() else { break };
                queue.submit(done + DEPTH, bytes, place);
                done += 1;
            }
            if done > before { queue.ring() } else { spin_loop() }
        }
    });
    (0..DEPTH).for_each(|_| assert!(queue.wait() < DEPTH));
    queue.ring();
    iops
}

/// Serve while `work` has a queue.
fn over_vfio_user<T>(timing: bool, work: impl FnOnce(&mut Queue) -> T) -> io::Result<(T, Summary)> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.vfio", std::process::id()));
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(Drive::shipped("nvme").expect("a shipped drive")),
        store: Arc::new(store()?),
        tallies: Arc::default(),
        record: None,
        history: None,
        stop: Arc::new(Stop::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let socket = ControllerSocket::bind(&path, &device.drive, GEOMETRY, 0).map_err(problem)?;
    let fronts: Vec<Box<dyn phaselink_serve::front::Front>> = vec![Box::new(VfioUser(vec![socket]))];
    let server = Server { device, timing, wait: Wait::Spin, seed: 1, fronts, metrics: None };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let client = Client::connect(&path);
        client.agree("");
        let (_, fds) = client.region_info(0, 128);
        let page = Memory::open(&fds[0], 0x2000).expect("the doorbells");
        client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).expect("memory");
        let mut driver = Driver::start(client, RAM, Rings::Page(page));
        driver.bring_up(0);
        let Rings::Page(page) = &driver.rings else { return Err(io::Error::other("no page of doorbells")) };
        let worked = work(&mut Queue { page, ram: &driver.client.ram_words, tail: 0, head: 0, phase: 1 });
        stop.request();
        let summary = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok((worked, summary))
    })
}

/// Median nanoseconds of a lone request, and requests a second at depth: bare, over vfio-user, in shared memory.
type Round = [(f64, f64); 3];

fn round(store: &phaselink_serve::device::store::Store, bytes: usize) -> io::Result<Round> {
    let bare = (bare(store, bytes)?.percentile_ns(50.0), bare_deep(store, bytes)?);
    let over = over_vfio_user(false, |queue| (lone(queue, bytes), deep(queue, bytes)))?.0;
    let shared = served(false, |queue| alone(queue, bytes))?.0.percentile_ns(50.0);
    Ok([bare, over, (shared, served(false, |queue| common::deep(queue, bytes))?.0)])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// With the model: what the client sees of lone requests beside what the model says.
fn timing_on() -> io::Result<()> {
    for bytes in SIZES {
        let (mut seen, mut said, mut lag) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (ns, summary) = over_vfio_user(true, |queue| lone(queue, bytes))?;
            seen.push(ns);
            said.push(summary.tally.read.latency.percentile(50.0).as_ns());
            lag.push(summary.tally.lag.percentile(99.0).as_ns());
        }
        let [seen, said, lag] = [seen, said, lag].map(|values| median(values.into_iter()));
        println!("{bytes:>5} B  timing on      QD1 p50 {seen:>6.0} ns, the model {said:.0} ns, lag p99 {lag:.0} ns");
    }
    Ok(())
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store = store()?;
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (bytes, rounds) in SIZES.into_iter().zip(&mut rounds) {
            rounds.push(round(&store, bytes)?);
        }
    }
    let mut lone_ns = [[0.0; 2]; 3];
    for (size, bytes) in SIZES.into_iter().enumerate() {
        for (place, name) in ["bare exchange", "vfio-user", "shared memory"].into_iter().enumerate() {
            let ns = median(rounds[size].iter().map(|round| round[place].0));
            let iops = median(rounds[size].iter().map(|round| round[place].1));
            let share = median(rounds[size].iter().map(|round| round[place].1 / round[2].1));
            lone_ns[place][size] = ns;
            println!(
                "{bytes:>5} B  {name:<14} QD1 p50 {ns:>6.0} ns   QD32 {iops:>10.0} IOPS, {share:.2}x shared memory"
            );
        }
    }
    let [bare, over, shared] = lone_ns.map(|[sector, page]| page - sector);
    println!(
        "a page costs more than a sector: bare {bare:.0} ns, vfio-user {over:.0} ns, shared memory {shared:.0} ns"
    );
    timing_on()
}
