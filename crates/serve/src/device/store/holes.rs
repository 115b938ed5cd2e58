//! Locks on the bytes of a file: many threads copy, or one gives space back to the file system.
//!
//! Copying is what every request does, from any thread; so each thread has a lock, and a line, of its own to take for that,
//! and whoever gives space back takes them all.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks; threads beyond that many share them.
const LOCKS: usize = 32;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Lock(RwLock<()>);

/// The locks.
#[derive(Debug, Default)]
pub(super) struct Holes([Lock; LOCKS]);

thread_local! {
    /// Which lock is this thread's.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads that have one.
static THREADS: AtomicUsize = AtomicUsize::new(0);

impl Holes {
    /// To copy bytes: nobody finds them gone meanwhile.
    #[inline]
    pub(super) fn copying(&self) -> RwLockReadGuard<'_, ()> {
        self.0[own()].0.read().expect("no thread panics with the lock")
    }

    /// To give space back.
    pub(super) fn punching(&self) -> [RwLockWriteGuard<'_, ()>; LOCKS] {
        self.0.each_ref().map(|lock| lock.0.write().expect("no thread panics with the lock"))
    }
}

#[inline]
fn own() -> usize {
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
    fn threads_copy_on_lines_of_their_own_and_nobody_copies_while_space_is_given_back() {
        let holes = Holes::default();
        let [here, there] = [own(), thread::spawn(own).join().unwrap()];
        assert_ne!(here, there);
        let line = |lock: usize| &raw const holes.0[lock] as usize / 64;
        assert_ne!(line(here), line(there));
        let copying = holes.copying();
        assert!(thread::scope(|scope| scope.spawn(|| holes.0[here].0.try_write().is_err()).join().unwrap()));
        drop(copying);
        let punching = holes.punching();
        let is_held = || holes.0[own()].0.try_read().is_err();
        assert!(thread::scope(|scope| scope.spawn(is_held).join().unwrap()));
        drop(punching);
        drop(holes.copying());
    }
}
