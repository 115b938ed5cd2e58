//! What has been served so far, counted by the threads that serve and read by those that show it.

use std::sync::{Arc, Mutex, MutexGuard};

use phaselink_core::ledger::{DirectionOutcome, Latency};
use phaselink_core::request::{DataDirection, Op};
use phaselink_core::time::Span;

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    pub ios: u64,
    pub bytes: u64,
    /// From the arrival of the request at the server to its answer.
    pub latency: Latency,
}

/// What one thread has served; on lines of its own, since others are beside it.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Tally {
    pub read: Direction,
    pub write: Direction,
    pub flushes: u64,
    /// Trims and zeroings.
    pub discards: u64,
    /// Requests that were refused or failed.
    pub errors: u64,
    /// How much later than modelled answers were given; empty with timing off.
    pub lag: Latency,
    /// What hosts have done that their standard leaves undefined, and how often; where that is looked for.
    pub undefined: Vec<(&'static Undefined, u64)>,
}

/// A behaviour of hosts that a standard leaves undefined.
#[derive(Debug, PartialEq, Eq)]
pub struct Undefined {
    /// Its name, for programs.
    pub kind: &'static str,
    /// The same for people.
    pub what: &'static str,
    /// Where the standard says so.
    pub section: &'static str,
}

/// The tallies of all threads: each has its own, and locks it once for a batch of requests.
#[derive(Debug, Default)]
pub struct Tallies {
    open: Mutex<Vec<Arc<Mutex<Tally>>>>,
    closed: Mutex<Tally>,
}

impl Direction {
    /// Count a request.
    pub fn count(&mut self, bytes: u32, latency: Span) {
        self.ios += 1;
        self.bytes += u64::from(bytes);
        self.latency.record(latency);
    }

    fn merge(&mut self, other: &Direction) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }

    /// The same as the result of a run that has taken `runtime`.
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
    /// Requests of a kind.
    pub fn direction(&mut self, op: Op) -> &mut Direction {
        match op.direction() {
            DataDirection::Read => &mut self.read,
            DataDirection::Write => &mut self.write,
        }
    }

    /// Count a flush that has been answered.
    pub fn count_flush(&mut self, is_fine: bool) {
        self.flushes += 1;
        self.errors += u64::from(!is_fine);
    }

    /// Count everything that `other` has counted.
    pub fn merge(&mut self, other: &Tally) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.flushes += other.flushes;
        self.discards += other.discards;
        self.errors += other.errors;
        self.lag.merge(&other.lag);
        other.undefined.iter().for_each(|(behaviour, count)| self.note_undefined(behaviour, *count));
    }

    /// Hosts have done this so often.
    pub fn note_undefined(&mut self, behaviour: &'static Undefined, count: u64) {
        match self.undefined.iter_mut().find(|(counted, _)| counted.kind == behaviour.kind) {
            Some((_, counted)) => *counted += count,
            None => self.undefined.push((behaviour, count)),
        }
    }
}

impl Tallies {
    /// A new tally for the calling thread.
    pub fn open(&self) -> Arc<Mutex<Tally>> {
        let tally = Arc::default();
        locked(&self.open).push(Arc::clone(&tally));
        tally
    }

    /// A thread has finished: its tally is kept in the sum.
    pub fn close(&self, tally: &Arc<Mutex<Tally>>) {
        let mut open = locked(&self.open);
        open.retain(|other| !Arc::ptr_eq(other, tally));
        locked(&self.closed).merge(&locked(tally));
    }

    /// Everything so far.
    pub fn sum(&self) -> Tally {
        let open = locked(&self.open);
        let mut sum = locked(&self.closed).clone();
        open.iter().for_each(|tally| sum.merge(&locked(tally)));
        sum
    }
}

/// A lock on counts, which are right whatever has become of the thread that had it.
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
