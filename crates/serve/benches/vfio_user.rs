//! NVMe over vfio-user, timing off: random reads by a client that polls, as SPDK's does, half a second for each line.
//!
//! Server and client spin; two processors are needed. The client rings through the doorbells' page and looks for the
//! phase of the next completion entry; what it has read, it does not touch.

// The tests use the rest of it.
#[allow(dead_code)]
#[path = "../tests/common/vfio_client.rs"]
mod vfio_client;

use std::hint::spin_loop;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::spec::{SubmissionEntry, opcode};
use phaselink_core::random::mix;
use phaselink_ring::chunk;
use phaselink_ring::shared::memory::Memory;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;
use vfio_client::{Client, Driver, ENTRIES, PAGE, RAM, RAM_BYTES, Rings};

const STORE_BYTES: u64 = 64 << 20;
const RUN: Duration = Duration::from_millis(500);

/// The queue of a driver, as its hot path has it.
struct Queue<'a> {
    page: &'a Memory,
    ram: &'a Memory,
    tail: u32,
    head: u32,
    phase: u64,
}

impl Queue<'_> {
    /// A random read into one of the data pages; `ring` says whether the device is to hear of it now.
    fn submit(&mut self, number: u64, bytes: u32, place: u64, ring: bool) {
        let entry = SubmissionEntry {
            opcode: opcode::READ,
            command_id: place as u16,
            namespace_id: 1,
            prp1: RAM + (16 + place) * PAGE,
            ..SubmissionEntry::default()
        };
        let slba = mix(number) % (STORE_BYTES / u64::from(bytes)) * u64::from(bytes) / 512;
        let entry = entry.of_blocks(slba, bytes / 512);
        chunk::copy_in(self.ram.words(3 * PAGE + u64::from(self.tail) * 64, 8), &entry.encode());
        self.tail = (self.tail + 1) % ENTRIES;
        if ring {
            self.ring();
        }
    }

    fn ring(&self) {
        let both = u64::from(self.tail) | u64::from(self.head) << 32;
        self.page.word(0x1008).store(both, Ordering::Release);
    }

    /// Wait for the next completion: the place that it was for.
    fn wait(&mut self) -> u64 {
        let entry = self.ram.words(4 * PAGE + u64::from(self.head) * 16, 2);
        loop {
            let word = entry[1].load(Ordering::Acquire);
            if word >> 48 & 1 == self.phase {
                assert_eq!(word >> 49, 0, "a read has failed");
                self.head = (self.head + 1) % ENTRIES;
                self.phase ^= u64::from(self.head == 0);
                return word >> 32 & 0xffff;
            }
            spin_loop();
        }
    }
}

fn one_by_one(queue: &mut Queue, bytes: u32) -> (f64, u64) {
    let (start, mut latencies) = (Instant::now(), Vec::new());
    while start.elapsed() < RUN {
        let asked = Instant::now();
        queue.submit(latencies.len() as u64, bytes, 0, true);
        queue.wait();
        latencies.push(asked.elapsed().as_nanos() as u64);
    }
    let iops = latencies.len() as f64 / start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    (iops, latencies[latencies.len() / 2])
}

/// Thirty-two at once, each followed by the next when it is complete.
fn deep(queue: &mut Queue, bytes: u32) -> f64 {
    (0..32).for_each(|place| queue.submit(place, bytes, place, false));
    queue.ring();
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < RUN {
        for _ in 0..32 {
            let place = queue.wait();
            done += 1;
            queue.submit(done + 32, bytes, place, true);
        }
    }
    let iops = done as f64 / start.elapsed().as_secs_f64();
    (0..32).for_each(|_| assert!(queue.wait() < 32));
    queue.ring();
    iops
}

fn measure(path: &std::path::Path) {
    let client = Client::connect(path);
    client.agree("");
    let (_, fds) = client.region_info(0, 128);
    let page = Memory::open(&fds[0], 0x2000).expect("the doorbells");
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).expect("memory");
    let mut driver = Driver::start(client, RAM, Rings::Page(page));
    driver.bring_up(0);
    let Rings::Page(page) = &driver.rings else { return };
    let mut queue = Queue { page, ram: &driver.client.ram_words, tail: 0, head: 0, phase: 1 };
    for bytes in [512, 4096] {
        let (iops, median_ns) = one_by_one(&mut queue, bytes);
        println!("{bytes:>5} B  vfio-user  QD1   p50 {median_ns:>6} ns  {iops:>10.0} IOPS");
        println!("{bytes:>5} B  vfio-user  QD32                 {:>10.0} IOPS", deep(&mut queue, bytes));
    }
}

fn main() -> io::Result<()> {
    let geometry = Geometry { capacity_bytes: STORE_BYTES, block_bytes: 512 };
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.vfio", std::process::id()));
    let problem = |problem| io::Error::other(format!("{problem}"));
    let store = Store::in_memory(geometry).map_err(problem)?;
    // Every page of the store exists, and is not zero.
    (0..STORE_BYTES / 4096).try_for_each(|page| store.write(page * 4096, &[page as u8 | 1; 4096]))?;
    let device = Device {
        drive: Arc::new(Drive::shipped("nvme").expect("a shipped drive")),
        store: Arc::new(store),
        tallies: Arc::default(),
        record: None,
        stop: Arc::new(Stop::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let served = ControllerSocket::bind(&path, &device.drive, geometry, 0).map_err(problem)?;
    let server = Server {
        device,
        timing: false,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(VfioUser(vec![served]))],
        metrics: None,
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| server.run());
        measure(&path);
        stop.request();
        server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed"))).map(drop)
    })
}
