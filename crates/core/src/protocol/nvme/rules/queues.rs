//! Pointers of submission and completion queues: next entry, full queue, allowed doorbell values (sections 3.3.1.2 and
//! 3.3.1.5).

/// Error: the host has written a doorbell value that the queue cannot have (Invalid Doorbell Write Value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDoorbell;

/// Head and tail of a submission queue: the host adds entries at the tail, the controller fetches them from the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionQueueRing {
    entries: u32,
    head: u32,
    tail: u32,
}

/// Head, tail and phase tag of a completion queue: the controller adds entries at the tail, and the host recognises new
/// ones by their phase tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionQueueRing {
    entries: u32,
    head: u32,
    tail: u32,
    phase: bool,
}

impl SubmissionQueueRing {
    /// Returns an empty submission queue with this number of entries.
    pub fn new(entries: u32) -> SubmissionQueueRing {
        SubmissionQueueRing { entries, head: 0, tail: 0 }
    }

    /// Sets the tail of a submission queue to the value that the host has written to the doorbell.
    ///
    /// # Errors
    /// If the value is not the index of an entry; the tail is then unchanged.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries {
            return Err(InvalidDoorbell);
        }
        self.tail = value;
        Ok(())
    }

    /// Takes entries from the head of a submission queue: at most `count_max`, and none beyond the end of the ring.
    /// Returns the index of the first entry and their number, or none if the queue is empty.
    #[inline]
    pub fn take(&mut self, count_max: u32) -> Option<(u32, u32)> {
        if self.head == self.tail {
            return None;
        }
        let first = self.head;
        let end = if self.tail > first { self.tail } else { self.entries };
        let count = (end - first).min(count_max);
        self.head = wrapped(first + count, self.entries);
        Some((first, count))
    }

    /// True if the submission queue has no entries that are still to be taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the number of entries of the submission queue, used or not.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the head of the submission queue: the index of the next entry to be taken, which completion queue
    /// entries report (SQHD).
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Returns the tail of the submission queue, as the host has last announced it.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }
}

impl CompletionQueueRing {
    /// Returns an empty completion queue with this number of entries.
    pub fn new(entries: u32) -> CompletionQueueRing {
        CompletionQueueRing { entries, head: 0, tail: 0, phase: true }
    }

    /// Sets the head of a completion queue to the value that the host has written to the doorbell.
    ///
    /// # Errors
    /// If the value is not between the old head and the tail; the head is then unchanged.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries || self.entries_ahead_of(value) > self.entries_ahead_of(self.tail) {
            return Err(InvalidDoorbell);
        }
        self.head = value;
        Ok(())
    }

    /// Returns the number of entries from the completion queue's head to index `place`, around the end of the ring.
    #[inline]
    fn entries_ahead_of(&self, place: u32) -> u32 {
        wrapped(place + self.entries - self.head, self.entries)
    }

    /// Takes the next slot of a completion queue; returns its index and phase tag. The queue may overflow: a caller
    /// that must not overwrite unread entries calls [`CompletionQueueRing::is_full`] first.
    #[inline]
    pub fn post(&mut self) -> (u32, bool) {
        let next = (self.tail, self.phase);
        self.tail = wrapped(self.tail + 1, self.entries);
        self.phase ^= self.tail == 0;
        next
    }

    /// Returns the number of entries of the completion queue, used or not.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// True if another completion queue entry would overwrite one that the host has not read.
    #[inline]
    pub fn is_full(&self) -> bool {
        wrapped(self.tail + 1, self.entries) == self.head
    }

    /// True if the completion queue has entries that the host has not read.
    pub fn has_unread(&self) -> bool {
        self.head != self.tail
    }

    /// Returns the number of completion queue entries that the host has not read.
    #[inline]
    pub fn unread(&self) -> u32 {
        self.entries_ahead_of(self.tail)
    }

    /// Returns the head of the completion queue, as the host has last announced it.
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// Returns `slot` modulo the number of entries of a ring, for a `slot` less than twice that number.
#[inline]
pub fn wrapped(slot: u32, entries: u32) -> u32 {
    if slot < entries { slot } else { slot - entries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submission_entries_are_taken_in_order_up_to_the_ring_end() {
        let mut ring = SubmissionQueueRing::new(8);
        assert_eq!((ring.ring(8), ring.take(4)), (Err(InvalidDoorbell), None));
        ring.ring(6).unwrap();
        assert_eq!((ring.take(4), ring.take(4), ring.take(4)), (Some((0, 4)), Some((4, 2)), None));
        ring.ring(3).unwrap();
        assert_eq!((ring.take(4), ring.take(4)), (Some((6, 2)), Some((0, 3))));
        assert!(ring.is_empty() && ring.head() == 3);
    }

    #[test]
    fn phase_toggles_each_round_with_one_entry_free() {
        let mut ring = CompletionQueueRing::new(3);
        assert_eq!((ring.post(), ring.is_full(), ring.post(), ring.is_full()), ((0, true), false, (1, true), true));
        ring.ring(2).unwrap();
        assert_eq!((ring.post(), ring.post()), ((2, true), (0, false)));
    }

    #[test]
    fn host_head_beyond_written_entries_is_refused() {
        let mut ring = CompletionQueueRing::new(4);
        assert_eq!(ring.ring(1), Err(InvalidDoorbell));
        ring.post();
        ring.post();
        assert_eq!((ring.ring(3), ring.ring(4), ring.ring(1)), (Err(InvalidDoorbell), Err(InvalidDoorbell), Ok(())));
        assert_eq!((ring.ring(0), ring.head(), ring.has_unread()), (Err(InvalidDoorbell), 1, true));
    }
}
