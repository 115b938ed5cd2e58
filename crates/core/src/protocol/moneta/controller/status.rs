//! Status registers of the Moneta device, and the interrupts that announce completed requests.

use crate::protocol::moneta::Role;
use crate::protocol::ports::Ports;

/// Status registers, one for each interrupt vector. A bit is set for each completed tag, and a read clears the
/// register.
#[derive(Clone, Debug)]
pub(super) struct Status {
    done: Vec<u64>,
    /// Bit mask of the interrupt vectors whose last interrupt the host has not followed up with a read of the status
    /// register yet.
    raised: u64,
    /// Number of interrupts that the Moneta device has sent to the host.
    pub interrupts_sent: u64,
}

impl Status {
    /// Returns cleared status registers for `vectors` interrupt vectors, up to 64.
    pub(super) fn new(vectors: u8) -> Status {
        Status { done: vec![0; vectors.into()], raised: 0, interrupts_sent: 0 }
    }

    /// Sets the status bit of a completed request. Sends an interrupt, unless one was sent since the host last read the
    /// register.
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

    /// Returns and clears the status register of a vector: one bit for each completed tag. Lets the vector's next
    /// interrupt pass.
    pub(super) fn read(&mut self, vector: u8) -> u64 {
        self.raised &= !(1 << vector);
        self.done.get_mut(usize::from(vector)).map_or(0, std::mem::take)
    }
}
