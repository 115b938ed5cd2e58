//! Counters of one serving thread, in memory of its own. The thread adds them to a tally that other threads read, from
//! time to time.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Device;
use super::tally::{Tally, locked};

/// One request in this number has its latency measured, unless the thread measures all. Two readings of the clock take
/// much of the time of a short request.
const MEASURED_EVERY: u64 = 64;
/// Number of requests after which a thread publishes its counters to other threads.
const SHOWN_EVERY: u64 = 1 << 16;

/// Counters of one serving thread, private to it until it publishes them.
#[derive(Debug)]
pub struct Counter<'a> {
    device: &'a Device,
    counts: Tally,
    /// True if there are counts that have not been published.
    has_news: bool,
    requests: u64,
    measured_every: u64,
    /// Number of requests until the next one whose latency is measured.
    until_measured: u64,
    shown: Arc<Mutex<Tally>>,
}

impl Counter<'_> {
    /// Opens counters for the calling thread, which measures the latency of one request in 64.
    pub fn open(device: &Device) -> Counter<'_> {
        Counter::with_measuring_interval(device, MEASURED_EVERY)
    }

    /// Opens counters for the calling thread, which measures the latency of every request.
    pub fn measuring_all(device: &Device) -> Counter<'_> {
        Counter::with_measuring_interval(device, 1)
    }

    /// Opens counters for the calling thread, which measures the latency of one request in `measured_every`.
    fn with_measuring_interval(device: &Device, measured_every: u64) -> Counter<'_> {
        let shown = device.tallies.open();
        Counter {
            device,
            counts: Tally::default(),
            has_news: false,
            requests: 0,
            measured_every,
            until_measured: 0,
            shown,
        }
    }

    /// Returns the thread's unpublished counts, for adding to them.
    #[inline]
    pub fn counts(&mut self) -> &mut Tally {
        self.has_news = true;
        &mut self.counts
    }

    /// Counts a fetched request. Returns the current instant if the request's latency is to be measured.
    #[inline]
    pub fn fetched(&mut self) -> Option<Instant> {
        self.requests += 1;
        if self.requests.is_multiple_of(SHOWN_EVERY) {
            self.show();
        }
        if self.until_measured > 0 {
            self.until_measured -= 1;
            return None;
        }
        self.until_measured = self.measured_every - 1;
        Some(Instant::now())
    }

    /// Publishes the thread's counts to other threads, and resets them.
    pub fn show(&mut self) {
        if std::mem::take(&mut self.has_news) {
            let counts = std::mem::take(&mut self.counts);
            locked(&self.shown).merge(&counts);
        }
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        self.show();
        self.device.tallies.close(&self.shown);
    }
}
