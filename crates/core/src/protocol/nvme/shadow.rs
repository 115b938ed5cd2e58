//! Shadow doorbells (Doorbell Buffer Config, NVM Express Base Specification 2.0, section 5.8 and annex B).
//!
//! The host writes its queue pointers into a page of its own memory, the shadow doorbells, and rings the register only
//! if that passes the value in a second page, the event index, which the controller sets. The controller reads the
//! shadow for as long as it finds something new there; when it does not, it asks to be rung, and looks once more for
//! what the host may have added before it saw that. Reads of host memory do not pass the write before them, so that
//! nothing is lost between the two.

use super::spec::{completion_doorbell, submission_doorbell};
use crate::memory::HostMemory;

/// The two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub shadow: u64,
    pub event_index: u64,
}

/// What the controller is doing about a queue's shadow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Nothing: the host will ring.
    #[default]
    Rung,
    /// Reading the shadow while commands keep coming.
    Reading,
    /// The host has been asked to ring; one last look.
    Checking,
}

impl Pages {
    /// Pages in host memory for `queue_pairs` queue pairs; they are laid out as the registers are.
    pub fn allocate(queue_pairs: u32, memory: &mut HostMemory) -> Pages {
        let bytes = (u64::from(queue_pairs) + 1) * 8;
        Pages { shadow: memory.allocate(bytes), event_index: memory.allocate(bytes) }
    }

    /// Address of a submission queue's tail; queues count from 0 here.
    pub fn tail(&self, queue: u16) -> u64 {
        self.shadow + submission_doorbell(u32::from(queue) + 1) - submission_doorbell(0)
    }

    /// Address of a completion queue's head.
    pub fn head(&self, queue: u16) -> u64 {
        self.shadow + completion_doorbell(u32::from(queue) + 1) - submission_doorbell(0)
    }

    /// Address of the tail that the controller wants to be rung for.
    pub fn tail_event(&self, queue: u16) -> u64 {
        self.tail(queue) - self.shadow + self.event_index
    }

    /// Whether moving a tail from `old` to `new` passes the one that the controller wants to be rung for.
    pub fn needs_ring(&self, queue: u16, old: u32, new: u32, memory: &HostMemory) -> bool {
        let mut event = [0; 4];
        memory.read(self.tail_event(queue), &mut event);
        passes(u32::from_le_bytes(event) as u16, old as u16, new as u16)
    }
}

/// Whether `event` lies in `old..new`, all of them modulo 2^16.
fn passes(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_is_rung_when_the_tail_passes_the_event_index() {
        assert!(passes(5, 5, 6));
        assert!(passes(5, 4, 7));
        assert!(!passes(5, 6, 7));
        assert!(!passes(9, 5, 6));
    }

    #[test]
    fn a_tail_that_wraps_passes_the_last_entry() {
        assert!(passes(1023, 1023, 0));
        assert!(!passes(5, 1023, 0));
    }
}
