//! A driver of NVMe over vfio-user that polls, as SPDK's does: it rings through the page of the doorbells, once for all that it
//! has found, and looks for the phase of the next completion entry; what it has read, it does not touch.

use std::hint::spin_loop;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::spec::{SubmissionEntry, opcode};
use phaselink_ring::chunk;
use phaselink_ring::shared::memory::Memory;
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};

use crate::common::{DEPTH, GEOMETRY, PROCESSORS, offset, one_by_one, pin, rate_of_blocks, store};
use crate::vfio_client::{Client, Driver, ENTRIES, PAGE, RAM, RAM_BYTES, Rings};

/// Sizes that are measured.
pub(crate) const SIZES: [usize; 2] = [512, 4096];

/// The drive that is served.
pub(crate) fn drive() -> Drive {
    Drive::shipped("nvme").expect("a shipped drive")
}

/// The queue of a driver, as its hot path has it.
pub(crate) struct Queue<'a> {
    page: &'a Memory,
    ram: &'a Memory,
    tail: u32,
    head: u32,
    phase: u64,
}

impl Queue<'_> {
    /// A random read into one of the data pages, of which the device does not hear yet.
    pub(crate) fn submit(&mut self, number: u64, bytes: usize, place: u64) {
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

    pub(crate) fn ring(&self) {
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

    pub(crate) fn wait(&mut self) -> u64 {
        loop {
            match self.look() {
                Some(place) => return place,
                None => spin_loop(),
            }
        }
    }
}

pub(crate) fn lone(queue: &mut Queue, bytes: usize) -> f64 {
    let measured = one_by_one(|number| {
        queue.submit(number, bytes, 0);
        queue.ring();
        queue.wait();
    });
    measured.percentile_ns(50.0)
}

/// Thirty-two at once, each followed by the next when it is complete: requests a second.
pub(crate) fn deep(queue: &mut Queue, bytes: usize) -> f64 {
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

/// Serve a drive while `work` has a queue.
pub(crate) fn over_vfio_user<T>(
    drive: Drive,
    timing: bool,
    work: impl FnOnce(&mut Queue) -> T,
) -> io::Result<(T, Summary)> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.vfio", std::process::id()));
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(drive),
        store: Arc::new(store()?),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(Stop::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let socket = ControllerSocket::bind(&path, &device.drive, GEOMETRY, 0).map_err(problem)?;
    let fronts: Vec<Box<dyn phaselink_serve::front::Front>> = vec![Box::new(VfioUser(vec![socket]))];
    let server =
        Server { device, timing, wait: Wait::Spin, seed: 1, fronts, metrics: None, control: None, device_threads: 1 };
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

/// The value in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
