//! Durability of bytes that a memory has been handed: they are in its cells, or in buffers with power-loss protection.
//!
//! The memory model knows when bytes are durable, but holds none. It notes each step, and [`super::durable`], which
//! holds the bytes of a run, takes these notes. Nothing is noted in runs without data, or in which power never fails.

use crate::time::Time;

/// Step of bytes on their way into the cells, in the order in which the memory model has decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurabilityStep {
    /// Bytes were handed to the memory, to be programmed between two instants.
    Handed {
        /// Offset of the first of these bytes on the device.
        offset: u64,
        /// Number of bytes that were handed over.
        bytes: u32,
        /// Instant at which the bytes begin to change the cells.
        from: Time,
        /// Instant at which the bytes are in the cells.
        until: Time,
    },
    /// All bytes of a range that were handed over so far are programmed earlier than was noted.
    Programmed {
        /// Offset of the first byte of the range on the device.
        offset: u64,
        /// Length of the range in bytes.
        bytes: u64,
        /// Instant at which the bytes begin to change the cells.
        from: Time,
        /// Instant at which the bytes are in the cells.
        until: Time,
    },
}

/// Notes of a memory model about bytes that become durable, until they are taken.
#[derive(Clone, Debug)]
pub struct DurabilityNotes {
    /// True if the buffers in front of the cells have power-loss protection.
    is_protected: bool,
    steps: Vec<DurabilityStep>,
}

impl DurabilityNotes {
    /// Creates empty notes of a memory whose buffers have power-loss protection or not.
    pub fn new(is_protected: bool) -> DurabilityNotes {
        DurabilityNotes { is_protected, steps: Vec::new() }
    }

    /// Notes bytes that a buffer in front of the cells has taken at `at`: they are durable if the buffer is protected.
    pub fn hold(&mut self, at: Time, offset: u64, bytes: u32) {
        if self.is_protected {
            self.steps.push(DurabilityStep::Handed { offset, bytes, from: at, until: at });
        }
    }

    /// Notes bytes that were handed to the memory at `at`, to be programmed between `from` and `until`. With protected
    /// buffers they are durable at `at`.
    pub fn hand(&mut self, at: Time, offset: u64, bytes: u32, from: Time, until: Time) {
        let (from, until) = if self.is_protected { (at, at) } else { (from, until) };
        self.steps.push(DurabilityStep::Handed { offset, bytes, from, until });
    }

    /// Notes that a range of bytes is programmed between `from` and `until`, whatever was noted before.
    pub fn program(&mut self, offset: u64, bytes: u64, from: Time, until: Time) {
        self.steps.push(DurabilityStep::Programmed { offset, bytes, from, until });
    }

    /// Removes and returns the notes made since they were taken last.
    pub fn take(&mut self) -> Vec<DurabilityStep> {
        std::mem::take(&mut self.steps)
    }

    /// Plants a fault for tests: the protection of buffers against power loss is only claimed.
    #[cfg(test)]
    pub(crate) fn drop_power_loss_protection(&mut self) {
        self.is_protected = false;
    }
}
