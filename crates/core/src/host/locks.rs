//! Shared resources that cores contend for: cache lines, spinlocks, and locks held for a request.
//!
//! Guarantees to callers: first come, first served, and a cost that follows from the core that touched a line last and
//! from the waiters. A caller has reached the line or lock at that very instant, so that calls come in order of time.

use std::collections::VecDeque;

use crate::config;
use crate::ledger::Stage;
use crate::time::{Span, Time};

/// Times that a modified cache line takes from one core to another, within a socket and between sockets.
#[derive(Clone, Copy, Debug)]
pub struct CacheLineDistances {
    cores: usize,
    cores_per_socket: usize,
    near: Span,
    far: Span,
}

impl CacheLineDistances {
    /// Creates the transfer times of cache lines between the cores of this host.
    pub fn new(host: &config::Host) -> CacheLineDistances {
        CacheLineDistances {
            cores: host.cores.into(),
            cores_per_socket: usize::from(host.cores.div_ceil(host.sockets)).max(1),
            near: host.cache_line_transfer,
            far: host.remote_line_transfer,
        }
    }

    /// Returns the time until processor `to` has a line that `from` has written; zero between hardware threads of one
    /// core, which share its caches.
    pub fn transfer_time(&self, from: usize, to: usize) -> Span {
        let (from, to) = (from % self.cores, to % self.cores);
        if from == to {
            Span::ZERO
        } else if from / self.cores_per_socket == to / self.cores_per_socket {
            self.near
        } else {
            self.far
        }
    }
}

/// Cache line that any core may write without a lock: a counter, or a word of a bitmap.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedCacheLine {
    owner: Option<usize>,
    free_at: Time,
}

impl SharedCacheLine {
    /// Writes the shared cache line from `core`. Returns the time at which that core has the line, after all cores that
    /// asked for it before.
    pub fn write(&mut self, now: Time, core: usize, distances: &CacheLineDistances) -> Time {
        let transfer = self.owner.map_or(Span::ZERO, |owner| distances.transfer_time(owner, core));
        self.owner = Some(core);
        self.free_at = self.free_at.max(now) + transfer;
        self.free_at
    }
}

/// Thread that spins for a spinlock, with what it will do under the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpinner {
    /// Number of the thread that spins.
    pub thread: u16,
    /// Processor that the thread spins on.
    pub core: usize,
    /// Time for which the thread will hold the lock.
    pub hold: Span,
    /// Number of cache lines that the thread will write under the lock.
    pub lines: u8,
    /// Stage that the thread's request is in.
    pub stage: Stage,
}

/// Spinlock that serves in order of arrival and whose waiters all watch one line (the ticket lock of Linux 2.6.25
/// and later).
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    owner: Option<usize>,
    free_at: Time,
    spinners: VecDeque<LockSpinner>,
}

impl SpinLock {
    /// Returns the time that `core` takes to fetch `lines` cache lines that the last holder of the lock has written.
    pub fn lock_line_fetch_time(&self, core: usize, lines: u8, distances: &CacheLineDistances) -> Span {
        self.owner.map_or(Span::ZERO, |owner| distances.transfer_time(owner, core)) * u64::from(lines)
    }

    /// Takes the lock for `hold`, if nobody holds it or spins for it. Returns when `core` has it; `None` if the lock is
    /// not free.
    pub fn take(&mut self, now: Time, core: usize, hold: Span, distances: &CacheLineDistances) -> Option<Time> {
        if self.free_at > now || !self.spinners.is_empty() {
            return None;
        }
        let start = now + self.owner.map_or(Span::ZERO, |owner| distances.transfer_time(owner, core));
        self.keep(start, core, hold);
        Some(start)
    }

    /// Adds a thread to the end of the queue of threads that spin for this lock. Returns the instant of the lock's
    /// release if the thread is the first.
    pub fn add_waiter(&mut self, spinner: LockSpinner) -> Option<Time> {
        self.spinners.push_back(spinner);
        (self.spinners.len() == 1).then_some(self.free_at)
    }

    /// Releases the lock. Returns the next spinner, and when that thread has seen the release; `None` if nobody spins.
    ///
    /// The holder's write first invalidates the copies of all spinners, which takes as long as the farthest of them.
    /// Then all read the line again, one after the other, and the next in line finds itself in the middle of them on
    /// average. So a hand-over takes longer the more wait (Boyd-Wickizer et al., "Non-scalable locks are dangerous",
    /// Linux Symposium 2012).
    pub fn release(&mut self, now: Time, distances: &CacheLineDistances) -> Option<(LockSpinner, Time)> {
        let owner = self.owner?;
        let transfers = self.spinners.iter().map(|spinner| distances.transfer_time(owner, spinner.core));
        let (farthest, all) = (transfers.clone().max()?, transfers.sum::<Span>());
        let next = self.spinners.pop_front()?;
        let own = distances.transfer_time(owner, next.core);
        Some((next, now + farthest + (own + all) / 2))
    }

    /// Gives the lock to `core` from `start` on, for `hold`. Returns the instant of its release if anybody spins for
    /// it.
    pub fn keep(&mut self, start: Time, core: usize, hold: Span) -> Option<Time> {
        self.owner = Some(core);
        self.free_at = start + hold;
        (!self.spinners.is_empty()).then_some(self.free_at)
    }
}

/// Mutex that a request keeps until it is back, and whose waiters sleep. `W` is the type of a waiter.
#[derive(Clone, Debug)]
pub struct SleepingLock<W> {
    taken: bool,
    line: SharedCacheLine,
    waiting: VecDeque<W>,
}

impl<W> Default for SleepingLock<W> {
    fn default() -> SleepingLock<W> {
        SleepingLock { taken: false, line: SharedCacheLine::default(), waiting: VecDeque::new() }
    }
}

impl<W> SleepingLock<W> {
    /// Takes the mutex if it is free. Returns when `core` has it; `None` if another request keeps it.
    pub fn take(&mut self, now: Time, core: usize, distances: &CacheLineDistances) -> Option<Time> {
        (!std::mem::replace(&mut self.taken, true)).then(|| self.line.write(now, core, distances))
    }

    /// Adds a request to the end of the queue of requests that wait for this lock.
    pub fn add_waiter(&mut self, waiter: W) {
        self.waiting.push_back(waiter);
    }

    /// Releases the mutex. Returns the first waiter in line, which has the mutex now; `None` if there is none.
    pub fn release(&mut self) -> Option<W> {
        let next = self.waiting.pop_front();
        self.taken = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line transfer times of two sockets of two cores: 30 ns within one, 110 ns between them.
    fn distances() -> CacheLineDistances {
        let (near, far) = (Span::from_ns(30), Span::from_ns(110));
        CacheLineDistances { cores: 4, cores_per_socket: 2, near, far }
    }

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    fn spinner(core: usize) -> LockSpinner {
        LockSpinner { thread: core as u16, core, hold: Span::from_ns(100), lines: 0, stage: Stage::stack(0) }
    }

    #[test]
    fn cache_line_costs_only_a_transfer_to_another_core() {
        let mut line = SharedCacheLine::default();
        let mut write = |now, core| line.write(at(now), core, &distances());
        assert_eq!(write(0, 0), at(0));
        assert_eq!(write(10, 0), at(10));
        assert_eq!(write(20, 1), at(50));
        assert_eq!(write(60, 2), at(170));
        // The line is still being transferred to core 2, so this write waits until it has arrived.
        assert_eq!(write(61, 3), at(200));
    }

    #[test]
    fn lock_is_acquired_exactly_at_its_release() {
        let mut lock = SpinLock::default();
        let hold = Span::from_ns(100);
        assert_eq!(lock.take(at(0), 0, hold, &distances()), Some(at(0)));
        assert_eq!(lock.take(at(100) - Span::from_ps(1), 0, hold, &distances()), None);
        assert_eq!(lock.take(at(100), 0, hold, &distances()), Some(at(100)));
        assert_eq!(lock.take(at(300), 1, hold, &distances()), Some(at(330)));
        assert_eq!(lock.take(at(430) - Span::from_ps(1), 1, hold, &distances()), None);
    }

    #[test]
    fn lock_transfer_takes_longer_with_more_spinners() {
        let handed = |cores: &[usize]| {
            let mut lock = SpinLock::default();
            lock.take(at(0), 0, Span::from_ns(100), &distances());
            for &core in cores {
                lock.add_waiter(spinner(core));
            }
            let (next, seen) = lock.release(at(100), &distances()).unwrap();
            assert_eq!(next, spinner(cores[0]));
            seen.since(at(100))
        };
        // 30 ns to invalidate the other core's copy and 30 ns to read the line.
        assert_eq!(handed(&[1]), Span::from_ns(60));
        assert_eq!(handed(&[2]), Span::from_ns(220));
        // 110 ns to invalidate all copies. Reads of 30, 110 and 110 ns are queued, and this thread's read of 30 ns has
        // the mean position among them.
        assert_eq!(handed(&[1, 2, 3]), Span::from_ns(110 + (30 + 250) / 2));
        // The next thread runs on the same core, which already holds the line.
        assert_eq!(handed(&[0]), Span::ZERO);
    }

    #[test]
    fn spinners_acquire_the_lock_in_arrival_order() {
        let mut lock = SpinLock::default();
        lock.take(at(0), 0, Span::from_ns(100), &distances());
        assert_eq!(lock.add_waiter(spinner(1)), Some(at(100)));
        assert_eq!(lock.add_waiter(spinner(2)), None);
        assert_eq!(lock.take(at(100), 3, Span::from_ns(100), &distances()), None);
        let (first, start) = lock.release(at(100), &distances()).unwrap();
        assert_eq!(first.core, 1);
        assert_eq!(lock.keep(start, 1, first.hold), Some(start + first.hold));
        let (second, start) = lock.release(start + first.hold, &distances()).unwrap();
        assert_eq!(second.core, 2);
        assert_eq!(lock.keep(start, 2, second.hold), None);
        assert_eq!(lock.release(start + second.hold, &distances()), None);
    }

    #[test]
    fn sleeping_lock_goes_to_the_first_waiter() {
        let mut lock = SleepingLock::default();
        assert_eq!(lock.take(at(5), 0, &distances()), Some(at(5)));
        assert_eq!(lock.take(at(6), 1, &distances()), None);
        lock.add_waiter('a');
        lock.add_waiter('b');
        assert_eq!((lock.release(), lock.release(), lock.release()), (Some('a'), Some('b'), None));
        assert_eq!(lock.take(at(7), 1, &distances()), Some(at(37)));
    }
}
