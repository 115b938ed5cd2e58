//! Queue of items from other threads to one thread, which polls it at the cost of one load while it is empty.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::tally::locked;

/// Items that threads leave for another thread, in order. The structure fills cache lines of its own, so that no writer
/// of adjacent memory slows the polling thread.
#[derive(Debug)]
#[repr(align(64))]
pub struct Mailbox<T> {
    things: Mutex<Vec<T>>,
    any: AtomicBool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { things: Mutex::default(), any: AtomicBool::new(false) }
    }
}

impl<T> Mailbox<T> {
    /// Adds an item. If the receiving thread sleeps, it must be woken afterwards.
    pub fn put(&self, thing: T) {
        locked(&self.things).push(thing);
        self.any.store(true, Ordering::Release);
    }

    /// Returns true if the mailbox has an item.
    pub fn has_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Removes and returns all items, in order.
    #[inline]
    pub fn take(&self) -> Vec<T> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Clear the flag before taking the items. An item that is added in between is either taken now, so that the
        // flag announces nothing, or found by the next call.
        self.any.store(false, Ordering::Relaxed);
        mem::take(&mut locked(&self.things))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn items_from_several_threads_are_taken_once_and_in_order() {
        const EACH: u64 = 2000;
        let mailbox = Mailbox::default();
        let mut taken = [const { Vec::new() }; 2];
        thread::scope(|scope| {
            for thread in 0..2 {
                let mailbox = &mailbox;
                scope.spawn(move || (0..EACH).for_each(|thing| mailbox.put((thread, thing))));
            }
            while taken.iter().any(|taken: &Vec<u64>| taken.len() < EACH as usize) {
                mailbox.take().into_iter().for_each(|(thread, thing): (usize, u64)| taken[thread].push(thing));
                thread::yield_now();
            }
        });
        assert!(taken.iter().all(|taken| taken.iter().copied().eq(0..EACH)));
        assert!(mailbox.take().is_empty());
    }
}
