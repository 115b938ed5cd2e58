//! Rings: which entry is next, when a queue is full, which doorbell values it can have (sections 3.3.1.2 and 3.3.1.5).

/// A doorbell value that its queue cannot have (Invalid Doorbell Write Value, figure 148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDoorbell;

/// A submission queue: the host's to fill up to its tail, the controller's to empty from its head on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionRing {
    entries: u32,
    head: u32,
    tail: u32,
}

/// A completion queue: the controller's to fill, the host's to read, which tells new entries by their phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionRing {
    entries: u32,
    head: u32,
    tail: u32,
    phase: bool,
}

impl SubmissionRing {
    /// An empty one.
    pub fn new(entries: u32) -> SubmissionRing {
        SubmissionRing { entries, head: 0, tail: 0 }
    }

    /// The host's tail is `value`.
    ///
    /// # Errors
    /// If there is no such entry; the ring is then as before.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries {
            return Err(InvalidDoorbell);
        }
        self.tail = value;
        Ok(())
    }

    /// Take the entries that are next, up to `count_max` of them and none beyond the end of the ring: the first, and how
    /// many. Nothing if there are none.
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

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Entries in all.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The next entry to be taken: what completion entries report (SQHD).
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The host's tail.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }
}

impl CompletionRing {
    /// An empty one.
    pub fn new(entries: u32) -> CompletionRing {
        CompletionRing { entries, head: 0, tail: 0, phase: true }
    }

    /// The host's head is `value`.
    ///
    /// # Errors
    /// If no entry from the head on up to the tail is that one; the ring is then as before.
    #[inline]
    pub fn ring(&mut self, value: u32) -> Result<(), InvalidDoorbell> {
        if value >= self.entries || self.ahead(value) > self.ahead(self.tail) {
            return Err(InvalidDoorbell);
        }
        self.head = value;
        Ok(())
    }

    /// How far `place` lies ahead of the head.
    #[inline]
    fn ahead(&self, place: u32) -> u32 {
        wrapped(place + self.entries - self.head, self.entries)
    }

    /// The next entry to be written and its phase; whoever minds what the host has not read asks [`CompletionRing::is_full`]
    /// before.
    #[inline]
    pub fn post(&mut self) -> (u32, bool) {
        let next = (self.tail, self.phase);
        self.tail = wrapped(self.tail + 1, self.entries);
        self.phase ^= self.tail == 0;
        next
    }

    /// Entries in all.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Whether another entry would overwrite one that the host has not read.
    #[inline]
    pub fn is_full(&self) -> bool {
        wrapped(self.tail + 1, self.entries) == self.head
    }

    /// Whether the host has not yet read everything.
    pub fn has_unread(&self) -> bool {
        self.head != self.tail
    }

    /// The host's head.
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// The entry behind the last of a ring is the first.
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
