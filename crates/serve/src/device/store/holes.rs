//! Locks between copies of a store's bytes, by many threads at once, and the giving back of space to the file system.
//!
//! Every request copies, on any thread. So each thread has a lock in a cache line of its own for copying. A thread that
//! gives space back takes all locks.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Number of locks. Further threads share them.
const LOCKS: usize = 32;

/// Lock in a cache line of its own, so that threads that take different locks do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CacheLineLock(RwLock<()>);

/// Locks of a store's file, of which each copying thread takes one for reading.
#[derive(Debug, Default)]
pub(super) struct HolePunchLocks([CacheLineLock; LOCKS]);

thread_local! {
    /// Index of this thread's lock, once it has one.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Number of threads that have been assigned a lock.
static THREADS: AtomicUsize = AtomicUsize::new(0);

impl HolePunchLocks {
    /// Locks for copying bytes: until the guard is dropped, no space is given back.
    #[inline]
    pub(super) fn copying(&self) -> RwLockReadGuard<'_, ()> {
        self.0[calling_thread_lock_index()].0.read().expect("no thread panics with the lock")
    }

    /// Locks for giving space back: until the guards are dropped, no thread copies.
    pub(super) fn lock_all_for_punching(&self) -> [RwLockWriteGuard<'_, ()>; LOCKS] {
        self.0.each_ref().map(|lock| lock.0.write().expect("no thread panics with the lock"))
    }
}

/// Returns the number of the lock that the calling thread uses for reading.
#[inline]
fn calling_thread_lock_index() -> usize {
    OWN.get().unwrap_or_else(|| {
        let own = THREADS.fetch_add(1, Ordering::Relaxed) % LOCKS;
        OWN.set(Some(own));
        own
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn copying_threads_lock_separate_cache_lines_and_punching_excludes_them() {
        let holes = HolePunchLocks::default();
        let [here, there] = [calling_thread_lock_index(), thread::spawn(calling_thread_lock_index).join().unwrap()];
        assert_ne!(here, there);
        let line = |lock: usize| &raw const holes.0[lock] as usize / 64;
        assert_ne!(line(here), line(there));
        let copying = holes.copying();
        assert!(thread::scope(|scope| scope.spawn(|| holes.0[here].0.try_write().is_err()).join().unwrap()));
        drop(copying);
        let punching = holes.lock_all_for_punching();
        let is_held = || holes.0[calling_thread_lock_index()].0.try_read().is_err();
        assert!(thread::scope(|scope| scope.spawn(is_held).join().unwrap()));
        drop(punching);
        drop(holes.copying());
    }
}
