//! Tags of the driver, and the processor that last used each of them.

use std::collections::VecDeque;

/// Free tags and the requests that wait for one.
#[derive(Clone, Debug)]
pub(super) struct Tags<T> {
    /// Bit `tag` is set while the tag is free.
    free: u64,
    /// Processor that used each tag last.
    last_core: Vec<u16>,
    /// Tag that is tried first without a hint, so that all tags take turns.
    next: u32,
    waiting: VecDeque<T>,
}

impl<T> Tags<T> {
    /// Returns `count` free tags, up to 64; tag i counts as used last by processor i modulo `cores`.
    pub(super) fn new(count: u8, cores: u16) -> Tags<T> {
        Tags {
            free: u64::MAX >> (64 - count),
            last_core: (0..u16::from(count)).map(|tag| tag % cores).collect(),
            next: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Returns the tag that a thread on `core` would get. With `hint`, tags that this processor used last come first;
    /// without, the next one of the pool, regardless of its last processor.
    pub(super) fn peek(&self, core: u16, hint: bool) -> Option<u8> {
        let own = (0..self.last_core.len()).find(|&tag| hint && self.is_free(tag) && self.last_core[tag] == core);
        let tag = own.map(|tag| tag as u32).unwrap_or_else(|| {
            let start = if hint { u32::from(core) % self.last_core.len() as u32 } else { self.next };
            (start + self.free.rotate_right(start).trailing_zeros()) % 64
        });
        (self.free != 0).then_some(tag as u8)
    }

    /// Takes the tag that [`peek`](Self::peek) shows.
    pub(super) fn take(&mut self, core: u16, hint: bool) -> Option<u8> {
        let tag = self.peek(core, hint)?;
        self.free &= !(1 << tag);
        self.last_core[usize::from(tag)] = core;
        self.next = (u32::from(tag) + 1) % 64;
        Some(tag)
    }

    /// True if another processor than `core` used the tag last.
    pub(super) fn is_foreign(&self, tag: u8, core: u16) -> bool {
        self.last_core[usize::from(tag)] != core
    }

    /// Releases a tag.
    pub(super) fn release(&mut self, tag: u8) {
        self.free |= 1 << tag;
    }

    /// Adds a request that waits for a tag.
    pub(super) fn wait(&mut self, waiting: T) {
        self.waiting.push_back(waiting);
    }

    /// Removes the request that has waited longest, if a tag is free for it.
    pub(super) fn next_waiting(&mut self) -> Option<T> {
        if self.free == 0 { None } else { self.waiting.pop_front() }
    }

    /// True if the tag is free.
    fn is_free(&self, tag: usize) -> bool {
        self.free >> tag & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_hint_a_processor_gets_the_tag_that_it_had() {
        let mut tags = Tags::<()>::new(64, 8);
        for _ in 0..100 {
            let tag = tags.take(3, true).unwrap();
            assert_eq!(tag, 3);
            assert!(!tags.is_foreign(tag, 3));
            tags.release(tag);
        }
    }

    #[test]
    fn without_it_tags_take_turns_and_come_from_other_processors() {
        let mut tags = Tags::<()>::new(4, 4);
        let taken: Vec<u8> = (0..6)
            .map(|_| {
                let tag = tags.take(1, false).unwrap();
                tags.release(tag);
                tag
            })
            .collect();
        assert_eq!(taken, [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn there_are_as_many_as_were_asked_for() {
        for hint in [false, true] {
            let mut tags = Tags::<()>::new(5, 2);
            let mut taken: Vec<u8> = (0..5).map(|_| tags.take(1, hint).unwrap()).collect();
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2, 3, 4]);
            assert_eq!(tags.take(1, hint), None);
            tags.release(2);
            assert_eq!(tags.take(0, hint), Some(2));
        }
    }
}
