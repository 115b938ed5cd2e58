//! Runs with data on: real bytes on the device and in the host's buffers, and a check of every read.
//!
//! Bytes move once, through host memory, at the instant at which the packets that carry them arrive: a read's when they
//! settle in memory, a write's when they reach the device. This module owes the rest of the core that a run without
//! data costs nothing but a look at [`crate::shared::Shared::data`], and that a wrong byte is counted and described, never a
//! panic.

pub mod check;
pub mod durable;
pub mod persistence;

use std::collections::BTreeSet;

use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::request::Op;
use crate::request::{Request, RequestId};
use crate::time::Time;
use crate::tlp::{Packet, Token};
use check::Checker;
use durable::Durable;
use persistence::PersistenceStep;

/// Byte that fills a receive buffer before its data comes, so that missing data is detected.
pub const STALE: u8 = 0xdb;

/// Descriptions of wrong reads that are kept.
const PROBLEMS_MAX: usize = 10;

/// The bytes of a run.
#[derive(Clone, Debug)]
pub struct Data {
    /// Bytes that the device holds; a fresh device holds zeros.
    pub contents: SparseBytes,
    checker: Checker,
    /// Bytes that survive a power cut, if that is followed, and the drive's guarantee for acknowledged writes.
    durable: Option<Durable>,
    keeps_acknowledged: bool,
    /// Bytes on their way from one memory to the other.
    moving: Vec<u8>,
    /// Number of reads that returned allowed data; parts of a large request count by themselves.
    pub verified_reads: u64,
    /// Number of reads that returned wrong data.
    pub data_errors: u64,
    problems: Vec<String>,
    first_wrong: Option<u64>,
    /// Numbers of the requests that are expected to fail.
    doubted: BTreeSet<u64>,
}

impl Data {
    /// A fresh device. What writes write follows from `seed`; `packet_bytes` is the payload of one packet.
    pub fn new(seed: u64, packet_bytes: u32) -> Data {
        Data {
            contents: SparseBytes::default(),
            checker: Checker::new(seed, packet_bytes),
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

    /// Power may fail from now on, which leaves units of so many bytes whole; whether the device owes the host what it has
    /// acknowledged.
    pub fn follow_power(&mut self, seed: u64, atomic_bytes: u32, keeps_acknowledged: bool) {
        self.checker.follow_power(atomic_bytes);
        self.durable = Some(Durable::new(atomic_bytes, seed));
        self.keeps_acknowledged = keeps_acknowledged;
    }

    /// Returns the bytes that survive a power cut, if that is followed.
    pub fn durable_mut(&mut self) -> Option<&mut Durable> {
        self.durable.as_mut()
    }

    /// Units whose newest bytes were lost in power cuts, if there may be any.
    pub fn lost_units(&self) -> Option<u64> {
        self.durable.as_ref().map(|durable| durable.lost_units)
    }

    /// The device forgets what it was doing: what it was handed is handed to it again, if ever.
    pub fn on_reset(&mut self) {
        self.checker.on_reset();
    }

    /// Its power fails, after the memory has gone these last steps.
    pub fn cut_power(&mut self, now: Time, steps: Vec<PersistenceStep>) {
        let Some(durable) = &mut self.durable else { return };
        durable.follow(now, steps);
        durable.cut_power(now, &mut self.contents);
        self.checker.on_power_cut(self.keeps_acknowledged);
    }

    /// The first wrong reads, described.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Number of the first of them.
    pub fn first_wrong(&self) -> Option<u64> {
        self.first_wrong
    }

    /// Prepares the buffer of a request that is about to be submitted: fills a write's, and fills a read's with [`STALE`].
    pub fn on_submit(&mut self, id: RequestId, request: &Request, memory: &mut HostMemory) {
        self.moving.clear();
        self.moving.resize(request.io.bytes as usize, STALE);
        match request.io.op {
            Op::Read => self.checker.on_read(id, &request.io),
            Op::Write => self.checker.on_write(&request.io, &mut self.moving),
            Op::WriteZeroes => return self.checker.on_write_zeroes(&request.io),
            Op::Flush => return self.on_flush(id),
            // A block that has been deallocated keeps its bytes here, which the NVMe specification allows.
            Op::Discard => return,
        }
        memory.write(request.buffer, &self.moving);
    }

    /// A flush is about to be submitted, which is nothing to runs in which power never fails.
    fn on_flush(&mut self, id: RequestId) {
        if self.durable.is_some() {
            self.checker.on_flush(id);
        }
    }

    /// A request goes on under another number.
    pub fn rename(&mut self, from: RequestId, to: RequestId) {
        self.checker.rename(from, to);
    }

    /// A request is going to fail: its write may be there or not.
    pub fn doubt(&mut self, number: u64) {
        self.doubted.insert(number);
    }

    /// A request that has failed is over.
    pub fn end_doubt(&mut self, number: u64) {
        self.doubted.remove(&number);
    }

    /// The driver has found a request complete: check what a read has found.
    pub fn on_complete(&mut self, id: RequestId, request: &Request, memory: &HostMemory) {
        let is_doubted = self.doubted.contains(&request.number);
        match request.io.op {
            Op::Read if is_doubted => self.checker.on_read_failed(id),
            Op::Read => self.check_read(id, request, memory),
            Op::Write | Op::WriteZeroes if is_doubted => self.checker.on_write_failed(&request.io),
            Op::Write | Op::WriteZeroes => self.checker.on_written(&request.io),
            Op::Flush => self.checker.on_flushed(id),
            Op::Discard => {}
        }
    }

    fn check_read(&mut self, id: RequestId, request: &Request, memory: &HostMemory) {
        self.moving.resize(request.io.bytes as usize, 0);
        memory.read(request.buffer, &mut self.moving);
        match self.checker.on_read_complete(id, &request.io, &self.moving) {
            Ok(()) => self.verified_reads += 1,
            Err(problem) => self.report(request, &problem),
        }
    }

    fn report(&mut self, request: &Request, problem: &str) {
        self.data_errors += 1;
        self.first_wrong.get_or_insert(request.number);
        if self.problems.len() < PROBLEMS_MAX {
            let Request { number, io, .. } = request;
            self.problems.push(format!("request {number}, read of {} bytes at {}: {problem}", io.bytes, io.offset));
        }
    }

    /// Packets `first..first + count` of a read's data settle in host memory.
    pub fn to_host(&mut self, packet: &Packet, first: u32, count: u32, memory: &mut HostMemory) {
        let start = first * packet.chunk_bytes;
        let end = packet.bytes.min(start + count * packet.chunk_bytes);
        self.moving.resize((end - start) as usize, 0);
        self.contents.read(packet.device_offset + u64::from(start), &mut self.moving);
        memory.write(packet.address + u64::from(start), &self.moving);
    }

    /// Carries a write's data from host memory to the device, which [stores](Self::store) it.
    pub fn carry(&mut self, packet: &Packet, memory: &HostMemory) -> Vec<u8> {
        let mut moving = std::mem::take(&mut self.moving);
        moving.resize(packet.bytes as usize, 0);
        memory.read(packet.address, &mut moving);
        moving
    }

    /// Stores a write's data that has just been [carried](Self::carry) here.
    pub fn store(&mut self, packet: &Packet, carried: Vec<u8>) {
        self.moving = carried;
        self.contents.write(packet.device_offset, &self.moving);
        if let Some(durable) = &mut self.durable {
            durable.on_arrival(packet.token, packet.device_offset, &self.moving);
        }
    }

    /// Fills bytes of the device with zeros, as the command of this token asks.
    pub fn zero(&mut self, token: Token, offset: u64, bytes: u32) {
        self.moving.clear();
        self.moving.resize(bytes as usize, 0);
        self.contents.write(offset, &self.moving);
        if let Some(durable) = &mut self.durable {
            durable.on_arrival(token, offset, &self.moving);
        }
    }
}
