//! Runs with data on: real bytes on the device and in the host's buffers, and a check of every read.
//!
//! Bytes move once, through host memory, at the instant at which the packets that carry them arrive: a read's when they
//! settle in memory, a write's when they reach the device. A run without data costs nothing but a check that its device
//! has no [`Data`]. A wrong byte is counted and described, and never a panic.

pub mod check;
pub mod durable;
pub mod persistence;

use std::collections::BTreeSet;

use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::number::index;
use crate::request::Op;
use crate::request::{Request, RequestId};
use crate::time::Time;
use crate::tlp::{Packet, Token};
use check::ReadChecker;
use durable::DurableCells;
use persistence::DurabilityStep;

/// Byte that fills a receive buffer before its data comes, so that missing data is detected.
pub const STALE: u8 = 0xdb;

/// Largest number of wrong reads whose descriptions are kept.
const PROBLEMS_MAX: usize = 10;

/// Real bytes of a run: the contents of the device, and the checker of every read.
#[derive(Clone, Debug)]
pub struct Data {
    /// Bytes that the device holds; a fresh device holds zeros.
    pub contents: SparseBytes,
    checker: ReadChecker,
    /// Bytes that survive a power cut; `None` in a run in which power never fails. `keeps_acknowledged` is true if the
    /// drive guarantees acknowledged writes.
    durable: Option<DurableCells>,
    keeps_acknowledged: bool,
    /// Buffer for bytes that are being copied between host memory and device.
    moving: Vec<u8>,
    /// Number of reads that returned allowed data; parts of a large request count separately.
    pub verified_reads: u64,
    /// Number of reads that returned data that the device cannot hold.
    pub data_errors: u64,
    problems: Vec<String>,
    first_wrong: Option<u64>,
    /// Numbers of the requests that are expected to fail, so that their data is not checked.
    doubted: BTreeSet<u64>,
}

impl Data {
    /// Creates the bytes of a fresh device, all zeros. `seed` determines the bytes that writes write; `packet_bytes` is
    /// the payload of one packet.
    pub fn new(seed: u64, packet_bytes: u32) -> Data {
        Data {
            contents: SparseBytes::default(),
            checker: ReadChecker::new(seed, packet_bytes),
            durable: None,
            keeps_acknowledged: true,
            moving: Vec::new(),
            verified_reads: 0,
            data_errors: 0,
            problems: Vec::new(),
            first_wrong: None,
            doubted: BTreeSet::new(),
        }
    }

    /// Prepares for power cuts that leave units of `atomic_bytes` whole. `keeps_acknowledged` is true if the drive
    /// guarantees acknowledged writes.
    pub fn follow_power(&mut self, seed: u64, atomic_bytes: u32, keeps_acknowledged: bool) {
        self.checker.follow_power(atomic_bytes);
        self.durable = Some(DurableCells::new(atomic_bytes, seed));
        self.keeps_acknowledged = keeps_acknowledged;
    }

    /// Returns the bytes that survive a power cut; `None` in a run in which power never fails.
    pub fn durable_cells_mut(&mut self) -> Option<&mut DurableCells> {
        self.durable.as_mut()
    }

    /// Returns the number of atomic units whose newest bytes were lost in power cuts; `None` if power never fails.
    pub fn lost_units(&self) -> Option<u64> {
        self.durable.as_ref().map(|durable| durable.lost_units)
    }

    /// Handles a reset of the device: commands in flight are lost, and may be submitted again.
    pub fn on_reset(&mut self) {
        self.checker.on_reset();
    }

    /// Cuts the power of the device at `now`, after the memory's last persistence steps.
    pub fn cut_power(&mut self, now: Time, steps: Vec<DurabilityStep>) {
        let Some(durable) = &mut self.durable else { return };
        durable.follow(now, steps);
        durable.cut_power(now, &mut self.contents);
        self.checker.on_power_cut(self.keeps_acknowledged);
    }

    /// Returns descriptions of the first reads that returned wrong data.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the number of the first request that returned wrong data; `None` if there was none.
    pub fn first_wrong(&self) -> Option<u64> {
        self.first_wrong
    }

    /// Prepares the buffer of a request that is about to be submitted: a write's gets the data to write, a read's is
    /// filled with [`STALE`].
    pub fn on_submit(&mut self, id: RequestId, request: &Request, memory: &mut HostMemory) {
        self.moving.clear();
        self.moving.resize(index(request.io.bytes), STALE);
        match request.io.op {
            Op::Read => self.checker.on_read(id, &request.io),
            Op::Write => self.checker.on_write(&request.io, &mut self.moving),
            Op::WriteZeroes => return self.checker.on_write_zeroes(&request.io),
            Op::Flush => return self.on_flush(id),
            // The NVMe specification allows a deallocated block to keep its data, so leave it unchanged.
            Op::Discard => return,
        }
        memory.write(request.buffer, &self.moving);
    }

    /// Handles the submission of a flush; does nothing in a run in which power never fails.
    fn on_flush(&mut self, id: RequestId) {
        if self.durable.is_some() {
            self.checker.on_flush(id);
        }
    }

    /// Moves the checker's state of a read or flush in flight to another request index.
    pub fn rename(&mut self, from: RequestId, to: RequestId) {
        self.checker.rename(from, to);
    }

    /// Marks a request that is going to fail: its write may take effect or not.
    pub fn expect_failure(&mut self, number: u64) {
        self.doubted.insert(number);
    }

    /// Removes the mark of a request that was going to fail, once it is over.
    pub fn clear_expected_failure(&mut self, number: u64) {
        self.doubted.remove(&number);
    }

    /// Handles a request that the driver has found complete: checks the data of a read, and notes which versions later
    /// reads may return.
    pub fn on_complete(&mut self, id: RequestId, request: &Request, memory: &HostMemory) {
        let is_doubted = self.doubted.contains(&request.number);
        match request.io.op {
            Op::Read if is_doubted => self.checker.on_read_failed(id),
            Op::Read => self.check_completed_read(id, request, memory),
            Op::Write | Op::WriteZeroes if is_doubted => self.checker.on_write_failed(&request.io),
            Op::Write | Op::WriteZeroes => self.checker.on_write_completed(&request.io),
            Op::Flush => self.checker.on_flushed(id),
            Op::Discard => {}
        }
    }

    fn check_completed_read(&mut self, id: RequestId, request: &Request, memory: &HostMemory) {
        self.moving.resize(index(request.io.bytes), 0);
        memory.read(request.buffer, &mut self.moving);
        match self.checker.on_read_complete(id, &request.io, &self.moving) {
            Ok(()) => self.verified_reads += 1,
            Err(problem) => self.report_data_error(request, &problem),
        }
    }

    fn report_data_error(&mut self, request: &Request, problem: &str) {
        self.data_errors += 1;
        self.first_wrong.get_or_insert(request.number);
        if self.problems.len() < PROBLEMS_MAX {
            let Request { number, io, .. } = request;
            self.problems.push(format!("request {number}, read of {} bytes at {}: {problem}", io.bytes, io.offset));
        }
    }

    /// Copies the data of packets `first..first + count` of a read from the device to host memory, where they settle
    /// now.
    pub fn to_host(&mut self, packet: &Packet, first: u32, count: u32, memory: &mut HostMemory) {
        let start = first * packet.chunk_bytes;
        let end = packet.bytes.min(start + count * packet.chunk_bytes);
        self.moving.resize(index(end - start), 0);
        self.contents.read(packet.device_offset + u64::from(start), &mut self.moving);
        memory.write(packet.address + u64::from(start), &self.moving);
    }

    /// Returns a write's data, read from host memory, for the device to [store](Self::store).
    pub fn read_write_data(&mut self, packet: &Packet, memory: &HostMemory) -> Vec<u8> {
        let mut moving = std::mem::take(&mut self.moving);
        moving.resize(index(packet.bytes), 0);
        memory.read(packet.address, &mut moving);
        moving
    }

    /// Stores a write's data in the device; [`read_write_data`](Self::read_write_data) has read it from host memory.
    pub fn store(&mut self, packet: &Packet, carried: Vec<u8>) {
        self.moving = carried;
        self.contents.write(packet.device_offset, &self.moving);
        if let Some(durable) = &mut self.durable {
            durable.on_arrival(packet.token, packet.device_offset, &self.moving);
        }
    }

    /// Fills a range of the device with zeros, as the command with this token asks.
    pub fn zero(&mut self, token: Token, offset: u64, bytes: u32) {
        self.moving.clear();
        self.moving.resize(index(bytes), 0);
        self.contents.write(offset, &self.moving);
        if let Some(durable) = &mut self.durable {
            durable.on_arrival(token, offset, &self.moving);
        }
    }
}
