//! Counters of a server, written by the threads that serve and read by those that show them.

use std::sync::{Arc, Mutex, MutexGuard};

use phaselink_core::ledger::{DirectionOutcome, Latency};
use phaselink_core::request::{DataDirection, Op};
use phaselink_core::time::Span;

/// Counts of reads, or of writes.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Number of requests.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Latency from the fetch of a request to its completion.
    pub latency: Latency,
}

/// Counts of one thread. The structure fills cache lines of its own, since others are beside it.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Tally {
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Flushes.
    pub flushes: u64,
    /// Discards and writes of zeros.
    pub discards: u64,
    /// Requests that were refused, or failed.
    pub errors: u64,
    /// Time by which completions came later than modelled; empty with timing off.
    pub lag: Latency,
    /// Behaviour of hosts that their standard leaves undefined, and how often it was seen, where that is looked for.
    pub undefined: Vec<(&'static UndefinedBehaviour, u64)>,
}

/// Behaviour of hosts that a standard leaves undefined.
#[derive(Debug, PartialEq, Eq)]
pub struct UndefinedBehaviour {
    /// Name for programs.
    pub kind: &'static str,
    /// Description for people.
    pub what: &'static str,
    /// Section of the standard.
    pub section: &'static str,
}

/// Counts of all threads. Each thread has its own, and locks it once for many requests.
#[derive(Debug, Default)]
pub struct Tallies {
    open: Mutex<Vec<Arc<Mutex<Tally>>>>,
    closed: Mutex<Tally>,
}

impl Direction {
    /// Counts a request with its latency.
    pub fn count(&mut self, bytes: u32, latency: Span) {
        self.ios += 1;
        self.bytes += u64::from(bytes);
        self.latency.record(latency);
    }

    /// Counts a request whose latency was not measured.
    #[inline]
    pub fn count_unmeasured(&mut self, bytes: u32) {
        self.ios += 1;
        self.bytes += u64::from(bytes);
    }

    fn merge(&mut self, other: &Direction) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }

    /// Returns the counts as the result of a run that has taken `runtime`.
    pub fn outcome(&self, runtime: Span) -> DirectionOutcome {
        DirectionOutcome {
            ios: self.ios,
            bytes: self.bytes,
            runtime,
            completion: self.latency.clone(),
            total: self.latency.clone(),
            ..DirectionOutcome::default()
        }
    }
}

impl Tally {
    /// Returns the counts of reads or of writes.
    pub fn direction(&mut self, op: Op) -> &mut Direction {
        match op.direction() {
            DataDirection::Read => &mut self.read,
            DataDirection::Write => &mut self.write,
        }
    }

    /// Counts a flush that has completed.
    pub fn count_flush(&mut self, is_fine: bool) {
        self.flushes += 1;
        self.errors += u64::from(!is_fine);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.flushes += other.flushes;
        self.discards += other.discards;
        self.errors += other.errors;
        self.lag.merge(&other.lag);
        other.undefined.iter().for_each(|(behaviour, count)| self.note_undefined(behaviour, *count));
    }

    /// Adds to the count of a behaviour.
    pub fn note_undefined(&mut self, behaviour: &'static UndefinedBehaviour, count: u64) {
        match self.undefined.iter_mut().find(|(counted, _)| counted.kind == behaviour.kind) {
            Some((_, counted)) => *counted += count,
            None => self.undefined.push((behaviour, count)),
        }
    }
}

impl Tallies {
    /// Opens counts for the calling thread.
    pub fn open(&self) -> Arc<Mutex<Tally>> {
        let tally = Arc::default();
        locked(&self.open).push(Arc::clone(&tally));
        tally
    }

    /// Closes the counts of a thread that ends, which stay in the sum.
    pub fn close(&self, tally: &Arc<Mutex<Tally>>) {
        let mut open = locked(&self.open);
        open.retain(|other| !Arc::ptr_eq(other, tally));
        locked(&self.closed).merge(&locked(tally));
    }

    /// Returns the sum of all counts so far.
    pub fn sum(&self) -> Tally {
        let open = locked(&self.open);
        let mut sum = locked(&self.closed).clone();
        open.iter().for_each(|tally| sum.merge(&locked(tally)));
        sum
    }
}

/// Locks a mutex whose contents are right even if a thread has failed while it held the lock.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_counted_and_those_that_fail_are_errors_as_well() {
        let mut tally = Tally::default();
        [true, false, true].into_iter().for_each(|is_fine| tally.count_flush(is_fine));
        assert_eq!((tally.flushes, tally.errors), (3, 1));
    }
}
