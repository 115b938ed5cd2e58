//! Summary of a trace: number, sizes, alignment and end of its requests.

use crate::request::{Io, Op};
use crate::time::Time;
use std::collections::BTreeMap;

/// Number of request sizes that are counted one by one; further sizes count as the next power of two, so that memory
/// stays bounded.
const SIZES_MAX: usize = 1 << 14;

/// Sums over all requests of a trace: counts, sizes, end and alignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of reads and writes, without flushes.
    pub count: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Arrival time of the last request.
    pub ends_at: Time,
    /// Number of requests of each size in bytes; the key is true for writes.
    pub sizes: BTreeMap<(bool, u32), u64>,
    /// Size of the largest request in bytes.
    pub largest_bytes: u32,
    /// Smallest capacity in bytes of a drive that can hold all requests: the end of the one that reaches furthest.
    pub end_bytes: u64,
    /// Greatest common divisor of all offsets and sizes in bytes; zero without any request.
    pub granule_bytes: u64,
    /// Greatest common divisor of all offsets and sizes of writes in bytes; zero without any write.
    pub write_granule_bytes: u64,
    last: Option<(bool, u32)>,
    of_last: u64,
}

impl Summary {
    /// Adds a request to the sums.
    pub(super) fn add(&mut self, io: Io) {
        if io.op == Op::Flush {
            self.flushes += 1;
            return;
        }
        let key = (io.op == Op::Write, io.bytes);
        self.count += 1;
        if self.last == Some(key) {
            self.of_last += 1;
        } else {
            self.settle();
            (self.last, self.of_last) = (Some(key), 1);
        }
        self.largest_bytes = self.largest_bytes.max(io.bytes);
        self.end_bytes = self.end_bytes.max(io.offset.saturating_add(io.bytes.into()));
        for amount in [io.offset, io.bytes.into()] {
            self.granule_bytes = common_divisor(self.granule_bytes, amount);
            if io.op == Op::Write {
                self.write_granule_bytes = common_divisor(self.write_granule_bytes, amount);
            }
        }
    }

    /// Adds the last run of requests of equal size, which are counted apart, to the counts of sizes. Call this after
    /// the last request.
    pub(super) fn settle(&mut self) {
        let Some((writes, bytes)) = self.last.take() else { return };
        let is_known = self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&(writes, bytes));
        let bytes = if is_known { bytes } else { bytes.checked_next_power_of_two().unwrap_or(u32::MAX) };
        *self.sizes.entry((writes, bytes)).or_default() += std::mem::take(&mut self.of_last);
    }

    /// Returns the number of all requests: reads, writes and flushes.
    pub fn request_count_with_flushes(&self) -> u64 {
        self.count + self.flushes
    }

    /// True if any request of the trace is a write.
    pub fn has_writes(&self) -> bool {
        self.sizes.keys().any(|(writes, _)| *writes)
    }
}

/// Returns the greatest common divisor of two numbers; if one of them is zero, returns the other.
fn common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}
