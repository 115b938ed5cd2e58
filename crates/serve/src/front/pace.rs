//! What the loops of all front-ends share: how long they look, rest and sleep, and how seldom they count.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use phaselink_core::request::Op;

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
