//! Status registers, and the interrupts that announce them.

use crate::protocol::moneta::Role;
use crate::protocol::ports::Ports;

/// One register a vector, cleared when it is read.
#[derive(Clone, Debug)]
pub(super) struct Status {
    done: Vec<u64>,
    /// Vectors whose interrupt the host has yet to answer by reading the register.
    raised: u64,
    pub interrupts_sent: u64,
}

impl Status {
    /// Registers for `vectors` vectors, up to 64.
    pub(super) fn new(vectors: u8) -> Status {
        Status { done: vec![0; vectors.into()], raised: 0, interrupts_sent: 0 }
    }

    /// The request with `tag` is done. The host hears of it, unless it is about to look anyway.
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

    /// The host reads the register of `vector`: tags that are done.
    pub(super) fn read(&mut self, vector: u8) -> u64 {
        self.raised &= !(1 << vector);
        self.done.get_mut(usize::from(vector)).map_or(0, std::mem::take)
    }
}
