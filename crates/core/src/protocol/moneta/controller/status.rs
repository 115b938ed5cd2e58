//! Status registers, and the interrupts that announce them.

use crate::protocol::moneta::Role;
use crate::protocol::ports::Ports;

/// Status registers, one for each vector, cleared when they are read.
#[derive(Clone, Debug)]
pub(super) struct Status {
    done: Vec<u64>,
    /// Bits of the vectors whose interrupt the host has not answered by reading the register yet.
    raised: u64,
    /// Number of interrupts sent.
    pub interrupts_sent: u64,
}

impl Status {
    /// Returns the registers for `vectors` vectors, up to 64.
    pub(super) fn new(vectors: u8) -> Status {
        Status { done: vec![0; vectors.into()], raised: 0, interrupts_sent: 0 }
    }

    /// Sets the status bit of a completed request. An interrupt announces it, unless the host is about to read the
    /// register anyway.
    pub(super) fn set(&mut self, tag: u8, ports: &mut Ports) {
        let vector = usize::from(tag) % self.done.len();
        self.done[vector] |= 1 << tag;
        if self.raised >> vector & 1 == 1 {
            return;
        }
        self.raised |= 1 << vector;
        self.interrupts_sent += 1;
        ports.link.interrupt(Role::INTERRUPT.token(vector as u32), ports.shared);
    }

    /// Reads and clears the register of `vector`: the tags that are done.
    pub(super) fn read(&mut self, vector: u8) -> u64 {
        self.raised &= !(1 << vector);
        self.done.get_mut(usize::from(vector)).map_or(0, std::mem::take)
    }
}
