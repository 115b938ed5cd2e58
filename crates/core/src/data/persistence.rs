//! What outlives power of the bytes that a memory has been handed: they are in its cells, or in buffers that are protected.
//!
//! The memory knows when that is so, and nothing of bytes. It notes each step, and whoever holds the bytes of a run takes
//! these notes ([`super::durable`]). Nothing is noted in runs without data, or in which power never fails.

use crate::time::Time;

/// Something that has happened to bytes of the device, in the order in which the memory has decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// They were handed over. They begin to change the cells at `from`, and have changed them at `until`.
    Handed { offset: u64, bytes: u32, from: Time, until: Time },
    /// What was handed over of them so far has changed the cells at `until` already, and began at `from`.
    Programmed { offset: u64, bytes: u64, from: Time, until: Time },
}

/// The notes of a memory.
#[derive(Clone, Debug)]
pub struct Notes {
    /// Whether buffers outlive power.
    is_protected: bool,
    steps: Vec<Step>,
}

impl Notes {
    /// None so far.
    pub fn new(is_protected: bool) -> Notes {
        Notes { is_protected, steps: Vec::new() }
    }

    /// A buffer in front of the cells has taken bytes at `at`.
    pub fn hold(&mut self, at: Time, offset: u64, bytes: u32) {
        if self.is_protected {
            self.steps.push(Step::Handed { offset, bytes, from: at, until: at });
        }
    }

    /// Bytes were handed over at `at`, to be programmed between `from` and `until`.
    pub fn hand(&mut self, at: Time, offset: u64, bytes: u32, from: Time, until: Time) {
        let (from, until) = if self.is_protected { (at, at) } else { (from, until) };
        self.steps.push(Step::Handed { offset, bytes, from, until });
    }

    /// All of these bytes are programmed between `from` and `until`, whatever was known before.
    pub fn program(&mut self, offset: u64, bytes: u64, from: Time, until: Time) {
        self.steps.push(Step::Programmed { offset, bytes, from, until });
    }

    /// Those that nobody has taken yet.
    pub fn take(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Plant a fault: protection that is only claimed.
    #[cfg(test)]
    pub(crate) fn lose_protection(&mut self) {
        self.is_protected = false;
    }
}
