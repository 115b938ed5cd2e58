//! What cores contend for: cache lines that one core after the other writes, spinlocks, and locks held for a request.
//!
//! Owes its callers: first come, first served, and a cost that follows from who touched a line last and from who else
//! waits. Whoever calls has reached the line or lock at that very instant, so that callers come in order of time.

use std::collections::VecDeque;

use crate::config;
use crate::report::Stage;
use crate::time::{Span, Time};

/// How long a modified cache line takes from one core to another.
#[derive(Clone, Copy, Debug)]
pub struct Distances {
    cores_per_socket: usize,
    near: Span,
    far: Span,
}

impl Distances {
    /// The distances between the cores of this host.
    pub fn new(host: &config::Host) -> Distances {
        Distances {
            cores_per_socket: usize::from(host.cores.div_ceil(host.sockets)).max(1),
            near: host.cache_line_transfer,
            far: host.remote_line_transfer,
        }
    }

    /// Time for `to` to have a line that `from` has written.
    pub fn transfer(&self, from: usize, to: usize) -> Span {
        if from == to {
            Span::ZERO
        } else if from / self.cores_per_socket == to / self.cores_per_socket {
            self.near
        } else {
            self.far
        }
    }
}

/// A cache line that any core may write without a lock: a counter, a word of a bitmap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    owner: Option<usize>,
    free_at: Time,
}

impl Line {
    /// `core` writes the line: when it has it, after all who asked before.
    pub fn write(&mut self, now: Time, core: usize, distances: &Distances) -> Time {
        let transfer = self.owner.map_or(Span::ZERO, |owner| distances.transfer(owner, core));
        self.owner = Some(core);
        self.free_at = self.free_at.max(now) + transfer;
        self.free_at
    }
}

/// A thread that spins for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinner {
    pub thread: u16,
    pub core: usize,
    /// How long it will hold the lock, and the stage that it is in.
    pub hold: Span,
    pub stage: Stage,
}

/// A spinlock that serves in order of arrival and whose waiters all watch one line (the ticket lock of Linux 2.6.25
/// and later).
#[derive(Clone, Debug, Default)]
pub struct SpinLock {
    owner: Option<usize>,
    free_at: Time,
    spinners: VecDeque<Spinner>,
}

impl SpinLock {
    /// `core` takes the lock for `hold` if nobody has it: when it has it.
    pub fn take(&mut self, now: Time, core: usize, hold: Span, distances: &Distances) -> Option<Time> {
        if self.free_at > now || !self.spinners.is_empty() {
            return None;
        }
        let start = now + self.owner.map_or(Span::ZERO, |owner| distances.transfer(owner, core));
        self.keep(start, core, hold);
        Some(start)
    }

    /// Stand in line. The first in line asks for the instant of the release.
    pub fn wait(&mut self, spinner: Spinner) -> Option<Time> {
        self.spinners.push_back(spinner);
        (self.spinners.len() == 1).then_some(self.free_at)
    }

    /// The holder lets go: who is next, and when it has seen so.
    ///
    /// The holder's write first invalidates the copies of all spinners, which takes as long as the farthest of them.
    /// Then all read the line again, one after the other, and the next in line finds itself in the middle of them on
    /// average. So a hand-over takes longer the more wait (Boyd-Wickizer et al., "Non-scalable locks are dangerous",
    /// Linux Symposium 2012).
    pub fn release(&mut self, now: Time, distances: &Distances) -> Option<(Spinner, Time)> {
        let owner = self.owner?;
        let transfers = self.spinners.iter().map(|spinner| distances.transfer(owner, spinner.core));
        let (farthest, all) = (transfers.clone().max()?, transfers.sum::<Span>());
        let next = self.spinners.pop_front()?;
        let own = distances.transfer(owner, next.core);
        Some((next, now + farthest + (own + all) / 2))
    }

    /// `core` has the lock from `start` on; the release of which somebody has to be told, if anybody waits.
    pub fn keep(&mut self, start: Time, core: usize, hold: Span) -> Option<Time> {
        self.owner = Some(core);
        self.free_at = start + hold;
        (!self.spinners.is_empty()).then_some(self.free_at)
    }
}

/// A lock that a request keeps until it is back: a mutex, whose waiters sleep. `W` is what waits.
#[derive(Clone, Debug)]
pub struct RequestLock<W> {
    taken: bool,
    line: Line,
    waiting: VecDeque<W>,
}

impl<W> Default for RequestLock<W> {
    fn default() -> RequestLock<W> {
        RequestLock { taken: false, line: Line::default(), waiting: VecDeque::new() }
    }
}

impl<W> RequestLock<W> {
    /// `core` takes the lock, if it is free: when it has it.
    pub fn take(&mut self, now: Time, core: usize, distances: &Distances) -> Option<Time> {
        (!std::mem::replace(&mut self.taken, true)).then(|| self.line.write(now, core, distances))
    }

    /// Stand in line.
    pub fn wait(&mut self, waiter: W) {
        self.waiting.push_back(waiter);
    }

    /// The holder lets go: the first in line has the lock now, if there is any.
    pub fn release(&mut self) -> Option<W> {
        let next = self.waiting.pop_front();
        self.taken = next.is_some();
        next
    }
}
