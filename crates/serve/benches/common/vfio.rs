//! A driver of NVMe over vfio-user that polls, as user-space drivers do: it writes doorbells in shared memory, once for all
//! completions that it has found, and polls the phase tag of the next completion entry. It does not touch the data.

use std::hint::spin_loop;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use phaselink_client::chunk;
use phaselink_client::shared::memory::Memory;
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::SubmissionEntry;
use phaselink_core::request::Op;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};

use crate::common::{
    DEPTH, GEOMETRY, PROCESSORS, Transfer, measure_requests_one_by_one, median_block_request_rate, pin,
};
use crate::vfio_client::{Client, DoorbellMethod, Driver, ENTRIES, PAGE, RAM, RAM_BYTES};

/// Sizes that are measured with timing on.
pub(crate) const SIZES: [usize; 2] = [512, 4096];
/// Longest transfer.
const TRANSFER_BYTES_MAX: u64 = 128 << 10;
/// Address of the buffers for the device, and behind them a page for the list of pages of each.
const DATA: u64 = 0x8000_0000;
const LISTS: u64 = DATA + DEPTH * TRANSFER_BYTES_MAX;
const DATA_BYTES: u64 = DEPTH * (TRANSFER_BYTES_MAX + PAGE);

/// Returns the drive that is served.
pub(crate) fn drive() -> Drive {
    Drive::shipped("nvme").expect("a shipped drive")
}

/// Queue of a driver, with the state of its hot path.
pub(crate) struct Queue<'a> {
    page: &'a Memory,
    ram: &'a Memory,
    data: &'a Memory,
    transfer: Transfer,
    tail: u32,
    head: u32,
    phase: u64,
}

impl Queue<'_> {
    /// Chooses the requests that follow: writes lists of pages, and data into all buffers.
    pub(crate) fn prepare(&mut self, transfer: Transfer) {
        self.transfer = transfer;
        for place in 0..DEPTH {
            let pages = (1..transfer.bytes as u64 / PAGE).map(|page| self.slot_buffer_address(place) + page * PAGE);
            let list: Vec<u8> = pages.flat_map(u64::to_le_bytes).collect();
            chunk::copy_in(self.data.words(LISTS - DATA + place * PAGE, list.len() / 8), &list);
            let words = self.data.words(self.slot_buffer_address(place) - DATA, transfer.bytes / 8);
            chunk::copy_in(words, &vec![1; transfer.bytes]);
        }
    }

    fn slot_buffer_address(&self, place: u64) -> u64 {
        DATA + place * (self.transfer.bytes as u64).max(PAGE)
    }

    /// Writes a request at a random place into the queue, of which the device does not hear yet.
    pub(crate) fn submit(&mut self, number: u64, place: u64) {
        let Transfer { op, bytes } = self.transfer;
        let entry = SubmissionEntry {
            opcode: if op == Op::Read { opcode::READ } else { opcode::WRITE },
            command_id: place as u16,
            namespace_id: 1,
            prp1: self.slot_buffer_address(place),
            prp2: if bytes as u64 > PAGE { LISTS + place * PAGE } else { 0 },
            ..SubmissionEntry::default()
        };
        let entry = entry.of_blocks(self.transfer.offset(number) / 512, bytes as u32 / 512);
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
    fn poll_completed_slot(&mut self) -> Option<u64> {
        let word = self.entry().load(Ordering::Acquire);
        if word >> 48 & 1 != self.phase {
            return None;
        }
        assert_eq!(word >> 49, 0, "a request has failed");
        self.head = (self.head + 1) % ENTRIES;
        self.phase ^= u64::from(self.head == 0);
        Some(word >> 32 & 0xffff)
    }

    pub(crate) fn wait(&mut self) -> u64 {
        loop {
            match self.poll_completed_slot() {
                Some(place) => return place,
                None => spin_loop(),
            }
        }
    }
}

/// One request after the other: the median in nanoseconds.
pub(crate) fn lone(queue: &mut Queue, transfer: Transfer) -> f64 {
    queue.prepare(transfer);
    let measured = measure_requests_one_by_one(|number| {
        queue.submit(number, 0);
        queue.ring();
        queue.wait();
    });
    measured.percentile_ns(50.0)
}

/// As many requests at once as the depth, each followed by the next when it is complete: requests a second.
pub(crate) fn deep(queue: &mut Queue, transfer: Transfer) -> f64 {
    queue.prepare(transfer);
    (0..DEPTH).for_each(|place| queue.submit(place, place));
    queue.ring();
    let iops = median_block_request_rate(|mut done, until| {
        while done < until {
            let before = done;
            // Handle up to eight completions (two cache lines) before the next doorbell.
            while done < until.min(before + 8) {
                let Some(place) = queue.poll_completed_slot() else { break };
                queue.submit(done + DEPTH, place);
                done += 1;
            }
            if done > before { queue.ring() } else { spin_loop() }
        }
    });
    (0..DEPTH).for_each(|_| assert!(queue.wait() < DEPTH));
    queue.ring();
    iops
}

/// Serves a drive with the bytes of `store` over vfio-user while `work` has a queue.
pub(crate) fn over_vfio_user<T>(
    drive: Drive,
    store: &Arc<Store>,
    timing: bool,
    work: impl FnOnce(&mut Queue) -> T,
) -> io::Result<(T, Summary)> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-bench-{}.vfio", std::process::id()));
    let problem = |problem| io::Error::other(format!("{problem}"));
    let device = Device {
        drive: Arc::new(drive),
        store: Arc::clone(store),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(StopRequest::new()?),
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
        let (data, fd) = Memory::create(DATA_BYTES)?;
        client.map(DATA, 0, DATA_BYTES, Some(fd.as_fd())).expect("memory");
        let mut driver = Driver::start(client, RAM, DoorbellMethod::Page(page));
        driver.bring_up_like_linux(0);
        let DoorbellMethod::Page(page) = &driver.rings else { return Err(io::Error::other("no page of doorbells")) };
        let (ram, transfer) = (&driver.client.ram_words, Transfer::read(512));
        let worked = work(&mut Queue { page, ram, data: &data, transfer, tail: 0, head: 0, phase: 1 });
        stop.request();
        let summary = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok((worked, summary))
    })
}
