//! Host whose memory is an array, which notes what the served controller reads and writes.

use std::ops::Range;

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_serve::nvme::registers::ControllerRegisters;
use phaselink_serve::nvme::{AdminHost, Host, UnreachableMemory};

use super::{MEMORY_BYTES, NOWHERE, RINGS, RINGS_BYTES};

/// Consecutive memory, and what has been done to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TouchedMemory {
    pub(super) read: Vec<Range<u64>>,
    pub(super) written: Vec<Range<u64>>,
}

impl TouchedMemory {
    /// In order, with neighbours as one: however it was cut into pieces.
    pub(super) fn merged(mut self) -> TouchedMemory {
        for ranges in [&mut self.read, &mut self.written] {
            ranges.sort_by_key(|range| (range.start, range.end));
            let mut merged: Vec<Range<u64>> = Vec::new();
            for range in ranges.drain(..) {
                match merged.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => merged.push(range),
                }
            }
            *ranges = merged;
        }
        self
    }
}

/// A host as an array, which notes what is done to its memory.
pub(super) struct ArrayHostMachine {
    pub(super) memory: Vec<u8>,
    rings: Vec<u8>,
    pub(super) doorbells: [(u32, u32); 2],
    pub(super) registers: ControllerRegisters,
    pub(super) touched: TouchedMemory,
    /// Bytes that the served controller has read outside the queues, in its order.
    pub(super) bytes_read: Vec<u8>,
    pub(super) posted: Vec<[u8; 16]>,
}

impl ArrayHostMachine {
    pub(super) fn new(limits: &Limits) -> ArrayHostMachine {
        ArrayHostMachine {
            memory: vec![0; MEMORY_BYTES as usize],
            rings: vec![0; RINGS_BYTES],
            doorbells: [(0, 0); 2],
            registers: ControllerRegisters::new(limits),
            touched: TouchedMemory::default(),
            bytes_read: Vec::new(),
            posted: Vec::new(),
        }
    }

    pub(super) fn at(&mut self, address: u64) -> Result<&mut u8, UnreachableMemory> {
        match address {
            NOWHERE.. => Err(UnreachableMemory),
            RINGS.. => self.rings.get_mut((address - RINGS) as usize).ok_or(UnreachableMemory),
            _ => Ok(&mut self.memory[(address % MEMORY_BYTES) as usize]),
        }
    }

    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            if let Ok(place) = self.at(at) {
                *place = *byte;
            }
        }
    }
}

impl Host for ArrayHostMachine {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        if !(RINGS..NOWHERE).contains(&address) {
            self.touched.read.push(address..address + into.len() as u64);
        }
        for (at, byte) in (address..).zip(into.iter_mut()) {
            *byte = *self.at(at)?;
        }
        if !(RINGS..NOWHERE).contains(&address) {
            self.bytes_read.extend_from_slice(into);
        }
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        self.touched.written.push(address..address + from.len() as u64);
        self.put(address, from);
        Ok(())
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory> {
        self.posted.push(*entry);
        self.put(address, entry);
        Ok(())
    }

    fn peek(&mut self, _: u64) -> Option<u32> {
        None
    }

    fn poke(&mut self, _: u64, _: u32) {}

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.doorbells[usize::from(queue)]
    }

    fn interrupt(&mut self, _: u16) {}
}

impl AdminHost for ArrayHostMachine {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        if let Some(pair) = self.doorbells.get_mut(usize::from(queue)) {
            *pair = (if tail { 0 } else { pair.0 }, if head { 0 } else { pair.1 });
        }
    }

    fn now_ms(&self) -> u64 {
        0
    }

    fn registers(&mut self) -> &mut ControllerRegisters {
        &mut self.registers
    }
}
