//! Counts of one thread that serves, in memory of its own, which it shows to others from time to time.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Device;
use super::tally::{Tally, locked};

/// Requests of which one has its latency measured while the model is off: two readings of the clock cost a good part of what a
/// short request does.
const MEASURED_EVERY: u64 = 64;
/// Requests after which the counts are shown to others.
const SHOWN_EVERY: u64 = 1 << 16;

/// Counts of one thread.
#[derive(Debug)]
pub struct Counter<'a> {
    device: &'a Device,
    counts: Tally,
    /// True if there are counts that others have not seen.
    has_news: bool,
    requests: u64,
    measured_every: u64,
    shown: Arc<Mutex<Tally>>,
}

impl Counter<'_> {
    /// Opens the counts of the calling thread, which measures the latency of one request in 64.
    pub fn open(device: &Device) -> Counter<'_> {
        Counter::measuring(device, MEASURED_EVERY)
    }

    /// Opens the counts of the calling thread, which measures the latency of every request.
    pub fn measuring_all(device: &Device) -> Counter<'_> {
        Counter::measuring(device, 1)
    }

    fn measuring(device: &Device, measured_every: u64) -> Counter<'_> {
        let shown = device.tallies.open();
        Counter { device, counts: Tally::default(), has_news: false, requests: 0, measured_every, shown }
    }

    /// Returns the counts, to add to them.
    #[inline]
    pub fn counts(&mut self) -> &mut Tally {
        self.has_news = true;
        &mut self.counts
    }

    /// Counts a fetched request; returns the present instant if its latency is to be measured.
    #[inline]
    pub fn fetched(&mut self) -> Option<Instant> {
        let is_measured = self.requests.is_multiple_of(self.measured_every);
        self.requests += 1;
        if self.requests.is_multiple_of(SHOWN_EVERY) {
            self.show();
        }
        is_measured.then(Instant::now)
    }

    /// Shows the counts to others.
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
