//! Durability of the bytes that a memory has been handed: they are in its cells, or in buffers that are protected.
//!
//! The memory knows when that is so, and nothing of bytes. It notes each step, and whoever holds the bytes of a run takes
//! these notes ([`super::durable`]). Nothing is noted in runs without data, or in which power never fails.

use crate::time::Time;

/// Step of bytes on their way into the cells, in the order in which the memory has decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistenceStep {
    /// Bytes were handed over.
    Handed {
        /// First byte on the device.
        offset: u64,
        /// Length in bytes.
        bytes: u32,
        /// Instant at which they begin to change the cells.
        from: Time,
        /// Instant at which they have changed the cells.
        until: Time,
    },
    /// All that was handed over of a range so far changes the cells earlier than was said.
    Programmed {
        /// First byte on the device.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
        /// Instant at which it begins to change the cells.
        from: Time,
        /// Instant at which it has changed the cells.
        until: Time,
    },
}

/// Notes of a memory about what becomes durable.
#[derive(Clone, Debug)]
pub struct Notes {
    /// True if buffers outlive power.
    is_protected: bool,
    steps: Vec<PersistenceStep>,
}

impl Notes {
    /// Empty notes of a memory whose buffers outlive power or not.
    pub fn new(is_protected: bool) -> Notes {
        Notes { is_protected, steps: Vec::new() }
    }

    /// Notes bytes that a buffer in front of the cells has taken at `at`.
    pub fn hold(&mut self, at: Time, offset: u64, bytes: u32) {
        if self.is_protected {
            self.steps.push(PersistenceStep::Handed { offset, bytes, from: at, until: at });
        }
    }

    /// Notes bytes that were handed over at `at`, to be programmed between `from` and `until`.
    pub fn hand(&mut self, at: Time, offset: u64, bytes: u32, from: Time, until: Time) {
        let (from, until) = if self.is_protected { (at, at) } else { (from, until) };
        self.steps.push(PersistenceStep::Handed { offset, bytes, from, until });
    }

    /// Notes that all of these bytes are programmed between `from` and `until`, whatever was known before.
    pub fn program(&mut self, offset: u64, bytes: u64, from: Time, until: Time) {
        self.steps.push(PersistenceStep::Programmed { offset, bytes, from, until });
    }

    /// Takes the notes that nobody has taken yet.
    pub fn take(&mut self) -> Vec<PersistenceStep> {
        std::mem::take(&mut self.steps)
    }

    /// Plants a fault: protection that is only claimed.
    #[cfg(test)]
    pub(crate) fn lose_protection(&mut self) {
        self.is_protected = false;
    }
}
