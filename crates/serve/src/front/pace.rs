//! What the loops of all front-ends share: how long they look, rest and sleep, and how seldom they count.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::request::Op;
use phaselink_core::time::Span;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::device::Device;
use crate::device::tally::{Tally, locked};
use crate::model::wall::{Wait, span};

/// Longest sleep of a thread that nobody has anything for. A stop wakes it before, if it waits for descriptors.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Rounds in vain before a thread gives way for a moment, so that whoever shares its processor gets on too.
pub const ROUNDS_IN_VAIN_MAX: u32 = 1024;
/// Commands of one queue in a row; then it is the next one's turn.
pub const BATCH: u32 = 32;

/// How long a thread looks for the next request before it sleeps: longer than a client takes to follow an answer with
/// its next request, and short beside the pause of one that has none.
pub const LOOK_FOR: Duration = Duration::from_micros(200);

/// Since when a loop has found nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Something has been found.
    #[inline]
    pub fn renew(&mut self) {
        self.since = None;
    }

    /// Nothing has been found, again: whether a loop that waits like this may sleep by now. The first look in vain is when
    /// the clock is first asked, so that a busy loop never asks it.
    pub fn is_over(&mut self, wait: Wait) -> bool {
        match wait {
            Wait::Spin => false,
            Wait::Block => true,
            Wait::Adaptive => self.since.get_or_insert_with(Instant::now).elapsed() > LOOK_FOR,
        }
    }
}

/// When a loop last did what it does now and then, however fast it goes round: no sooner again than an idle loop wakes.
#[derive(Clone, Copy, Debug)]
pub struct Chores {
    done_at: Instant,
}

impl Chores {
    /// Done at this instant.
    pub fn new(done_at: Instant) -> Chores {
        Chores { done_at }
    }

    /// Whether they are due at `now`; they count as done then.
    pub fn are_due(&mut self, now: Instant) -> bool {
        let are_due = now.duration_since(self.done_at) > SLEEP_MAX;
        if are_due {
            self.done_at = now;
        }
        are_due
    }
}

/// Exchanges that are measured, and the most that one may take: more is another thread's turn on the processor.
const EXCHANGES: usize = 1000;
const EXCHANGE_MAX: Duration = Duration::from_micros(10);

/// What a word takes from one processor to another and back: the least that a client in shared memory sees of its own way,
/// whatever is between. The median of a thousand exchanges with a thread on any other processor, as clients are; nothing,
/// if two threads never run at once.
pub fn exchange_of_words() -> Span {
    let (there, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (here, until) = (sched_getcpu(), Instant::now() + EXCHANGE_MAX * EXCHANGES as u32);
    let answer = || {
        leave(here);
        while there.load(Ordering::Acquire) < EXCHANGES && Instant::now() < until {
            back.store(there.load(Ordering::Acquire), Ordering::Release);
        }
        back.store(usize::MAX, Ordering::Release);
    };
    let exchange = |number: usize| {
        let asked = Instant::now();
        there.store(number, Ordering::Release);
        while back.load(Ordering::Acquire) < number {
            hint::spin_loop();
        }
        asked.elapsed()
    };
    let is_open = |_: &Duration| back.load(Ordering::Acquire) != usize::MAX;
    let mut taken: Vec<Duration> = thread::scope(|scope| {
        scope.spawn(answer);
        let taken = (1..EXCHANGES).map(exchange).take_while(is_open).collect();
        there.store(EXCHANGES, Ordering::Release);
        taken
    });
    taken.sort_unstable();
    taken.get(taken.len() / 2).filter(|median| **median < EXCHANGE_MAX).map_or(Span::ZERO, |median| span(*median))
}

/// Let this thread run anywhere but there, even if the process is bound to that processor.
fn leave(processor: usize) {
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|other| *other != processor).for_each(|other| others.set(other));
    // Where there is no other, it stays.
    let _ = sched_setaffinity(None, &others);
}

/// One command in so many has its latency measured: looking at the clock costs a good part of what a command does.
const MEASURED_EVERY: u64 = 64;
/// Commands after which the counts are shown to others.
const SHOWN_EVERY: u64 = 1 << 16;

/// What a thread counts that answers as soon as it can: in memory of its own, which others see now and then.
#[derive(Debug)]
pub struct Counter<'a> {
    device: &'a Device,
    counts: Tally,
    commands: u64,
    shown: Arc<Mutex<Tally>>,
}

impl Counter<'_> {
    /// The counts of this thread.
    pub fn open(device: &Device) -> Counter<'_> {
        Counter { device, counts: Tally::default(), commands: 0, shown: device.tallies.open() }
    }

    /// What is counted, for all but reads and writes.
    #[inline]
    pub fn counts(&mut self) -> &mut Tally {
        &mut self.counts
    }

    /// A command begins; when, if its latency is to be measured.
    #[inline]
    pub fn begin(&self) -> Option<Instant> {
        self.commands.is_multiple_of(MEASURED_EVERY).then(Instant::now)
    }

    /// A read or write is over that began at `started`.
    #[inline]
    pub fn count(&mut self, op: Op, bytes: u32, started: Option<Instant>) {
        let direction = self.counts.direction(op);
        match started {
            Some(started) => direction.count(bytes, span(started.elapsed())),
            None => {
                direction.ios += 1;
                direction.bytes += u64::from(bytes);
            }
        }
    }

    /// A command that was begun has been executed.
    #[inline]
    pub fn executed(&mut self) {
        self.commands += 1;
        if self.commands.is_multiple_of(SHOWN_EVERY) {
            self.show();
        }
    }

    /// Let others see what has been counted.
    pub fn show(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        locked(&self.shown).merge(&counts);
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        self.show();
        self.device.tallies.close(&self.shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_back_soon_or_is_said_to_take_no_time() {
        let started = Instant::now();
        let taken = exchange_of_words();
        assert!(taken < Span::from_us(10), "{taken:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_loop_sleeps_at_once_never_or_after_a_moment_without_work() {
        let mut patience = Patience::default();
        assert!(!patience.is_over(Wait::Spin) && patience.is_over(Wait::Block));
        assert!(!patience.is_over(Wait::Adaptive));
        thread::sleep(LOOK_FOR * 2);
        assert!(patience.is_over(Wait::Adaptive));
        patience.renew();
        assert!(!patience.is_over(Wait::Adaptive));
    }

    #[test]
    fn chores_are_due_whenever_longer_than_a_sleep_has_gone_by() {
        let start = Instant::now();
        let mut chores = Chores::new(start);
        assert!(!chores.are_due(start + SLEEP_MAX));
        let due = start + SLEEP_MAX + Duration::from_nanos(1);
        assert!(chores.are_due(due) && !chores.are_due(due) && !chores.are_due(due + SLEEP_MAX));
        assert!(chores.are_due(due + 2 * SLEEP_MAX));
    }
}
