//! Shadow doorbells (Doorbell Buffer Config, section 5.8 and annex B).
//!
//! The host writes its queue pointers into a page of its own memory, the shadow doorbells. It writes the doorbell
//! register only if the pointer passes the value in a second page, the event index, which the controller sets. The
//! controller reads the shadow doorbell for as long as it finds new entries. When it finds none, it sets the event
//! index and reads the shadow doorbell once more, for entries that the host has added before it saw the event index. A
//! read of host memory does not pass an earlier write, so no entry is lost between the two.
//!
//! Both pages have the layout of the doorbell registers: for each queue pair, counted from the admin queue 0, the
//! submission queue tail and then the completion queue head.

use crate::number::low_u16;
use crate::protocol::nvme::spec::{PAGE_BYTES, Status};

/// Host addresses of the two pages of shadow doorbells: the doorbells and the event indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowDoorbellPages {
    /// Host address of the page with the shadow doorbells.
    pub doorbells: u64,
    /// Host address of the page with the event indexes.
    pub event_index: u64,
}

impl ShadowDoorbellPages {
    /// Returns the shadow doorbell pages that a Doorbell Buffer Config command names by these addresses.
    ///
    /// # Errors
    /// PRP Offset Invalid if one of the addresses is not page-aligned.
    pub fn check(doorbells: u64, event_index: u64) -> Result<ShadowDoorbellPages, Status> {
        match doorbells.is_multiple_of(PAGE_BYTES) && event_index.is_multiple_of(PAGE_BYTES) {
            true => Ok(ShadowDoorbellPages { doorbells, event_index }),
            false => Err(Status::INVALID_PRP_OFFSET),
        }
    }

    /// Returns the size in bytes of a page of shadow doorbells (or event indexes) for this number of queue pairs,
    /// including the admin queue.
    pub fn bytes(queue_pairs: u32) -> u64 {
        u64::from(queue_pairs) * 8
    }

    /// Returns the host address of the shadow tail doorbell of submission queue `queue` (0 is the admin queue).
    #[inline]
    pub fn tail(&self, queue: u32) -> u64 {
        self.doorbells + u64::from(queue) * 8
    }

    /// Returns the host address of the shadow head doorbell of completion queue `queue` (0 is the admin queue).
    #[inline]
    pub fn head(&self, queue: u32) -> u64 {
        self.tail(queue) + 4
    }

    /// Returns the host address of the event index for the tail of submission queue `queue` (0 is the admin queue).
    #[inline]
    pub fn tail_event_index_address(&self, queue: u32) -> u64 {
        self.event_index + u64::from(queue) * 8
    }

    /// Returns the host address of the event index for the head of completion queue `queue` (0 is the admin queue).
    #[inline]
    pub fn head_event_index_address(&self, queue: u32) -> u64 {
        self.tail_event_index_address(queue) + 4
    }
}

/// True if a host that moves a queue pointer from `old` to `new` must also write the doorbell register. This is so if
/// the event index is in `old..new`, all modulo 2^16.
pub fn must_ring(event: u32, old: u32, new: u32) -> bool {
    let (event, old, new) = (low_u16(event), low_u16(old), low_u16(new));
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// True if a submission queue tail from the doorbell register is newer than the `known` tail from the shadow doorbell.
/// A tail more than half a queue ahead counts as old: the shadow may have been read after the register was written.
#[inline]
pub fn is_newer_tail(tail: u32, known: u32, entries: u32) -> bool {
    (tail + entries - known) % entries <= entries / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbell_is_written_when_the_tail_passes_the_event_index() {
        assert!(must_ring(5, 5, 6));
        assert!(must_ring(5, 4, 7));
        assert!(!must_ring(5, 6, 7));
        assert!(!must_ring(9, 5, 6));
    }

    #[test]
    fn wrapping_tail_passes_the_last_event_index() {
        assert!(must_ring(1023, 1023, 0));
        assert!(!must_ring(5, 1023, 0));
    }

    #[test]
    fn shadow_pages_have_the_register_layout() {
        let shadow = ShadowDoorbellPages::check(0x1000, 0x2000).unwrap();
        assert_eq!((shadow.tail(0), shadow.head(3)), (0x1000, 0x101c));
        assert_eq!((shadow.tail_event_index_address(3), shadow.head_event_index_address(3)), (0x2018, 0x201c));
        assert_eq!(ShadowDoorbellPages::check(0x1008, 0x2000), Err(Status::INVALID_PRP_OFFSET));
    }

    #[test]
    fn tail_behind_the_known_one_is_stale() {
        assert!(is_newer_tail(5, 3, 16) && is_newer_tail(1, 15, 16));
        assert!(!is_newer_tail(3, 5, 16));
    }
}
