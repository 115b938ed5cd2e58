//! Submission and completion queues: next entry, full queue, allowed doorbell values (sections 3.3.1.2 and 3.3.1.5).

/// Doorbell value that its queue cannot have (Invalid Doorbell Write Value, figure 148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDoorbell;

/// Submission queue: the host adds entries at the tail, the controller takes them from the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionRing {
    entries: u32,
    head: u32,
    tail: u32,
}

/// Completion queue: the controller adds entries, and the host recognises new ones by their phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionRing {
    entries: u32,
    head: u32,
    tail: u32,
    phase: bool,
}

impl SubmissionRing {
    /// Returns an empty submission queue.
    pub fn new(entries: u32) -> SubmissionRing {
        SubmissionRing { entries, head: 0, tail: 0 }
    }

    /// Sets the host's tail.
    ///
    /// # Errors
    /// If there is no such entry; the queue is then unchanged.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries {
            return Err(InvalidDoorbell);
        }
        self.tail = value;
        Ok(())
    }

    /// Takes the next entries, up to `count_max` and none beyond the end of the ring. Returns the first and their
    /// number, or none if the queue is empty.
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

    /// True if the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the number of entries of the queue.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the next entry to be taken, which completion entries report (SQHD).
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Returns the host's tail.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }
}

impl CompletionRing {
    /// Returns an empty completion queue.
    pub fn new(entries: u32) -> CompletionRing {
        CompletionRing { entries, head: 0, tail: 0, phase: true }
    }

    /// Sets the host's head.
    ///
    /// # Errors
    /// If the value is not between the old head and the tail; the queue is then unchanged.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries || self.ahead(value) > self.ahead(self.tail) {
            return Err(InvalidDoorbell);
        }
        self.head = value;
        Ok(())
    }

    /// Returns how many entries `place` lies ahead of the head.
    #[inline]
    fn ahead(&self, place: u32) -> u32 {
        wrapped(place + self.entries - self.head, self.entries)
    }

    /// Takes the next free entry; returns it and its phase. The queue may overflow: a caller that must not overwrite
    /// unread entries checks [`CompletionRing::is_full`] before.
    #[inline]
    pub fn post(&mut self) -> (u32, bool) {
        let next = (self.tail, self.phase);
        self.tail = wrapped(self.tail + 1, self.entries);
        self.phase ^= self.tail == 0;
        next
    }

    /// Returns the number of entries of the queue.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// True if another entry would overwrite one that the host has not read.
    #[inline]
    pub fn is_full(&self) -> bool {
        wrapped(self.tail + 1, self.entries) == self.head
    }

    /// True if the host has not read all entries yet.
    pub fn has_unread(&self) -> bool {
        self.head != self.tail
    }

    /// Returns the number of entries that the host has not read yet.
    #[inline]
    pub fn unread(&self) -> u32 {
        self.ahead(self.tail)
    }

    /// Returns the host's head.
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// Returns the entry that `slot` stands for: the one behind the last of a ring is the first.
#[inline]
pub fn wrapped(slot: u32, entries: u32) -> u32 {
    if slot < entries { slot } else { slot - entries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_in_order_and_not_across_the_end() {
        let mut ring = SubmissionRing::new(8);
        assert_eq!((ring.ring(8), ring.take(4)), (Err(InvalidDoorbell), None));
        ring.ring(6).unwrap();
        assert_eq!((ring.take(4), ring.take(4), ring.take(4)), (Some((0, 4)), Some((4, 2)), None));
        ring.ring(3).unwrap();
        assert_eq!((ring.take(4), ring.take(4)), (Some((6, 2)), Some((0, 3))));
        assert!(ring.is_empty() && ring.head() == 3);
    }

    #[test]
    fn the_phase_changes_each_time_round_and_one_entry_stays_free() {
        let mut ring = CompletionRing::new(3);
        assert_eq!((ring.post(), ring.is_full(), ring.post(), ring.is_full()), ((0, true), false, (1, true), true));
        ring.ring(2).unwrap();
        assert_eq!((ring.post(), ring.post()), ((2, true), (0, false)));
    }

    #[test]
    fn the_host_can_have_read_no_more_than_was_written() {
        let mut ring = CompletionRing::new(4);
        assert_eq!(ring.ring(1), Err(InvalidDoorbell));
        ring.post();
        ring.post();
        assert_eq!((ring.ring(3), ring.ring(4), ring.ring(1)), (Err(InvalidDoorbell), Err(InvalidDoorbell), Ok(())));
        assert_eq!((ring.ring(0), ring.head(), ring.has_unread()), (Err(InvalidDoorbell), 1, true));
    }
}
