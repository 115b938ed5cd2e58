//! Host whose memory is a byte array. It drives a controller in one process, in tests and under a fuzzer.

use std::ops::Range;

use phaselink_core::number::wide_index;
use phaselink_core::protocol::nvme::rules::Limits;

use super::host::{AdminHost, Host, UnreachableMemory};
use super::limits::QUEUE_PAIRS_MAX;
use super::registers::ControllerRegisters;

/// Number of reads of host memory after which a controller is assumed to be in an endless loop.
const READS_MAX: u32 = 1 << 22;

/// Host of one controller: memory from address 0 on, doorbells, controller registers, and a list of the interrupts
/// received.
#[derive(Debug)]
pub struct ArrayHost {
    /// Bytes of the host's memory; the index is the address.
    pub memory: Vec<u8>,
    /// Doorbell registers of each queue pair, by its identifier: submission tail and completion head.
    pub doorbells: [(u32, u32); QUEUE_PAIRS_MAX + 1],
    /// Registers of the controller.
    pub registers: ControllerRegisters,
    /// Vectors of the interrupts, in the order in which they arrived.
    pub interrupts: Vec<u16>,
    /// Time of the host's clock, in milliseconds.
    pub now_ms: u64,
    reads: u32,
}

impl ArrayHost {
    /// Returns a host with zeroed memory, and the registers of a controller with these limits after power-on.
    pub fn new(memory_bytes: usize, limits: &Limits) -> ArrayHost {
        ArrayHost {
            memory: vec![0; memory_bytes],
            doorbells: [(0, 0); QUEUE_PAIRS_MAX + 1],
            registers: ControllerRegisters::new(limits),
            interrupts: Vec::new(),
            now_ms: 0,
            reads: 0,
        }
    }

    /// Returns the little-endian 32-bit word at a memory address.
    ///
    /// # Panics
    ///
    /// If the memory ends before the word's end.
    pub fn word(&self, address: u64) -> u32 {
        let bytes = self.memory[wide_index(address)..].first_chunk();
        u32::from_le_bytes(*bytes.expect("the word lies in the memory"))
    }

    fn range(&self, address: u64, bytes: usize) -> Result<Range<usize>, UnreachableMemory> {
        let start = usize::try_from(address).map_err(|_| UnreachableMemory)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.memory.len()).ok_or(UnreachableMemory)?;
        Ok(start..end)
    }
}

impl Host for ArrayHost {
    /// # Panics
    ///
    /// If the controller has read host memory `READS_MAX` times, which only an endless loop explains.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        self.reads += 1;
        assert!(self.reads < READS_MAX, "the controller has read host memory {READS_MAX} times, now at {address:#x}");
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        let range = self.range(address, from.len())?;
        self.memory[range].copy_from_slice(from);
        Ok(())
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory> {
        self.write(address, entry)
    }

    fn peek(&mut self, address: u64) -> Option<u32> {
        self.range(address, 4).ok().map(|_| self.word(address))
    }

    fn poke(&mut self, address: u64, value: u32) {
        // A write outside the memory has no effect.
        let _ = self.write(address, &value.to_le_bytes());
    }

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.doorbells[usize::from(queue)]
    }

    fn interrupt(&mut self, vector: u16) {
        self.interrupts.push(vector);
    }
}

impl AdminHost for ArrayHost {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        let pair = &mut self.doorbells[usize::from(queue)];
        *pair = (if tail { 0 } else { pair.0 }, if head { 0 } else { pair.1 });
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn registers(&mut self) -> &mut ControllerRegisters {
        &mut self.registers
    }
}
