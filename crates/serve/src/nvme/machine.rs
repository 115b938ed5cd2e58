//! A host that is an array, for whoever drives a controller without one: tests, fuzzing, experiments.

use std::ops::Range;

use phaselink_core::protocol::nvme::rules::Limits;

use super::QUEUE_PAIRS_MAX;
use super::host::{AdminHost, Host, Unreachable};
use super::registers::Registers;

/// Looks at the memory after which a controller is taken to go round in circles: far more than any one test needs.
const READS_MAX: u32 = 1 << 22;

/// Memory from address 0 on, doorbells, registers, and the interrupts that have come.
#[derive(Debug)]
pub struct Machine {
    pub memory: Vec<u8>,
    /// Submission tail and completion head of each queue pair.
    pub doorbells: [(u32, u32); QUEUE_PAIRS_MAX + 1],
    pub registers: Registers,
    /// Vectors, in the order in which they came.
    pub interrupts: Vec<u16>,
    /// What its clock shows.
    pub now_ms: u64,
    reads: u32,
}

impl Machine {
    /// A host with so many bytes of memory, all zero, just switched on, whose controller has these limits.
    pub fn new(memory_bytes: usize, limits: &Limits) -> Machine {
        Machine {
            memory: vec![0; memory_bytes],
            doorbells: [(0, 0); QUEUE_PAIRS_MAX + 1],
            registers: Registers::new(limits),
            interrupts: Vec::new(),
            now_ms: 0,
            reads: 0,
        }
    }

    /// The word at `address`.
    ///
    /// # Panics
    /// If the memory ends before that.
    pub fn word(&self, address: u64) -> u32 {
        let bytes = self.memory[address as usize..].first_chunk();
        u32::from_le_bytes(*bytes.expect("a word of the memory"))
    }

    fn range(&self, address: u64, bytes: usize) -> Result<Range<usize>, Unreachable> {
        let start = usize::try_from(address).map_err(|_| Unreachable)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.memory.len()).ok_or(Unreachable)?;
        Ok(start..end)
    }
}

impl Host for Machine {
    /// # Panics
    /// If this is called so often that only an endless loop can be the reason.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        self.reads += 1;
        assert!(self.reads < READS_MAX, "the controller reads memory without end, at {address:#x}");
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let range = self.range(address, from.len())?;
        self.memory[range].copy_from_slice(from);
        Ok(())
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable> {
        self.write(address, entry)
    }

    fn peek(&mut self, address: u64) -> Option<u32> {
        self.range(address, 4).ok().map(|_| self.word(address))
    }

    fn poke(&mut self, address: u64, value: u32) {
        // A word that is not there is as good as set.
        let _ = self.write(address, &value.to_le_bytes());
    }

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.doorbells[usize::from(queue)]
    }

    fn interrupt(&mut self, vector: u16) {
        self.interrupts.push(vector);
    }
}

impl AdminHost for Machine {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        let pair = &mut self.doorbells[usize::from(queue)];
        *pair = (if tail { 0 } else { pair.0 }, if head { 0 } else { pair.1 });
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }
}
