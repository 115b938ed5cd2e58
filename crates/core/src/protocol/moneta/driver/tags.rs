//! Pool of the Moneta driver's tags, with the processor that last used each tag.

use crate::number::{low_u8, short_length};
use std::collections::VecDeque;

/// Pool of free tags, and queue of the requests that wait for a tag.
#[derive(Clone, Debug)]
pub(super) struct Tags<T> {
    /// Bit mask of free tags: bit t is set while tag t is free.
    free: u64,
    /// Processor that last used a tag, indexed by tag.
    last_core: Vec<u16>,
    /// Tag at which the search for a free tag starts if no processor hint is used: the one after the last that was
    /// taken.
    next: u32,
    waiting: VecDeque<T>,
}

impl<T> Tags<T> {
    /// Returns a pool of `count` free tags, up to 64. Tag i counts as last used by processor i modulo `cores`.
    pub(super) fn new(count: u8, cores: u16) -> Tags<T> {
        Tags {
            free: u64::MAX >> (64 - count),
            last_core: (0..u16::from(count)).map(|tag| tag % cores).collect(),
            next: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Returns the free tag that a thread on `core` would get, without taking it; none if all tags are in use. With
    /// `hint`, tags that this processor used last come first. Without, the next tag in turn is used, regardless of its
    /// last processor.
    pub(super) fn peek(&self, core: u16, hint: bool) -> Option<u8> {
        let own = (0..self.last_core.len()).find(|&tag| hint && self.is_tag_free(tag) && self.last_core[tag] == core);
        let tag = own.map(|tag| tag as u32).unwrap_or_else(|| {
            let start = if hint { u32::from(core) % short_length(self.last_core.len()) } else { self.next };
            (start + self.free.rotate_right(start).trailing_zeros()) % 64
        });
        (self.free != 0).then_some(low_u8(tag))
    }

    /// Takes the free tag that [`peek`](Self::peek) returns for `core`, and notes the processor as its last user.
    /// Returns none if all tags are in use.
    pub(super) fn take(&mut self, core: u16, hint: bool) -> Option<u8> {
        let tag = self.peek(core, hint)?;
        self.free &= !(1 << tag);
        self.last_core[usize::from(tag)] = core;
        self.next = (u32::from(tag) + 1) % 64;
        Some(tag)
    }

    /// True if the tag was last used by another processor than `core`.
    pub(super) fn was_used_elsewhere(&self, tag: u8, core: u16) -> bool {
        self.last_core[usize::from(tag)] != core
    }

    /// Puts a tag back into the pool of free tags.
    pub(super) fn release(&mut self, tag: u8) {
        self.free |= 1 << tag;
    }

    /// Adds a request to the end of the queue that waits for a free tag.
    pub(super) fn wait(&mut self, waiting: T) {
        self.waiting.push_back(waiting);
    }

    /// Removes and returns the request that has waited longest for a tag; none if no tag is free or no request waits.
    pub(super) fn next_waiting_request(&mut self) -> Option<T> {
        if self.free == 0 { None } else { self.waiting.pop_front() }
    }

    /// True if a tag is in the pool of free tags.
    fn is_tag_free(&self, tag: usize) -> bool {
        self.free >> tag & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hinted_tag_pool_returns_a_processors_last_tag() {
        let mut tags = Tags::<()>::new(64, 8);
        for _ in 0..100 {
            let tag = tags.take(3, true).unwrap();
            assert_eq!(tag, 3);
            assert!(!tags.was_used_elsewhere(tag, 3));
            tags.release(tag);
        }
    }

    #[test]
    fn unhinted_tags_rotate_between_processors() {
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
    fn tag_pool_has_the_configured_size() {
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
