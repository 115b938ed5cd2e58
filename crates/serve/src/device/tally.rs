//! Counters of a server, written by the threads that serve and read by those that show them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use phaselink_core::ledger::{DirectionOutcome, Latency};
use phaselink_core::request::Op;
use phaselink_core::time::Span;

/// Counts of the requests of one operation.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Number of requests.
    pub ios: u64,
    /// Bytes that they moved, discarded or filled with zeros.
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
    pub flush: Direction,
    /// Discards.
    pub discard: Direction,
    /// Writes of zeros without data.
    pub zeroes: Direction,
    /// Requests that were refused, or failed.
    pub errors: u64,
    /// Time by which completions came later than modelled; empty with timing off.
    pub lag: Latency,
    /// Completions that hosts have taken from NVMe queues for I/O.
    pub taken: CompletionsTaken,
    /// Behaviour of hosts that their standard leaves undefined, and how often it was seen, where that is looked for.
    pub undefined: Vec<(&'static UndefinedBehaviour, u64)>,
}

/// Counts of completion queue entries that a host has taken: its head doorbell has passed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletionsTaken {
    /// Entries that were taken after an interrupt had been sent for them.
    pub after_interrupt: u64,
    /// Entries that were taken without an interrupt: the host has polled the queue.
    pub polled: u64,
    /// Entries that were taken while a fault kept their first double word back.
    pub torn: u64,
    /// Entries that were taken while a fault kept their phase tag back.
    pub stale: u64,
}

impl CompletionsTaken {
    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &CompletionsTaken) {
        self.after_interrupt += other.after_interrupt;
        self.polled += other.polled;
        self.torn += other.torn;
        self.stale += other.stale;
    }

    /// Returns the counts that are no faults, with the names of a run's counters.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [("polled_completions", self.polled), ("interrupt_completions", self.after_interrupt)]
    }
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
    /// Kinds of undefined behaviour that have been told on standard error.
    told: Mutex<Vec<&'static str>>,
}

impl Direction {
    /// Counts a request with its latency.
    pub fn count(&mut self, bytes: u64, latency: Span) {
        self.ios += 1;
        self.bytes += bytes;
        self.latency.record(latency);
    }

    /// Counts a request whose latency was not measured.
    #[inline]
    pub fn count_unmeasured(&mut self, bytes: u64) {
        self.ios += 1;
        self.bytes += bytes;
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
    /// Returns the counts of the requests of an operation.
    #[inline]
    pub fn direction(&mut self, op: Op) -> &mut Direction {
        match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Flush => &mut self.flush,
            Op::Discard => &mut self.discard,
            Op::WriteZeroes => &mut self.zeroes,
        }
    }

    /// Returns the counts of all operations, with the names that programs know them by.
    pub fn directions(&self) -> [(&'static str, &Direction); 5] {
        let Tally { read, write, flush, discard, zeroes, .. } = self;
        [("read", read), ("write", write), ("flush", flush), ("discard", discard), ("write_zeroes", zeroes)]
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.flush.merge(&other.flush);
        self.discard.merge(&other.discard);
        self.zeroes.merge(&other.zeroes);
        self.errors += other.errors;
        self.lag.merge(&other.lag);
        self.taken.merge(&other.taken);
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

    /// Tells on standard error of a behaviour of hosts that is seen for the first time.
    pub fn tell_undefined(&self, behaviour: &UndefinedBehaviour) {
        let UndefinedBehaviour { kind, what, section } = behaviour;
        let mut told = locked(&self.told);
        if !told.contains(kind) {
            told.push(kind);
            // If standard error is closed, the counts tell it.
            let _ = writeln!(io::stderr(), "strict: {what} ({section}); counted as {kind}");
        }
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
    fn each_operation_is_counted_apart_and_stays_apart_when_counts_are_merged() {
        let (mut tally, mut sum) = (Tally::default(), Tally::default());
        for (count, op) in (1..).zip(Op::ALL) {
            (0..count).for_each(|_| tally.direction(op).count(512, Span::from_us(1)));
        }
        sum.merge(&tally);
        assert_eq!(sum.directions().map(|(_, of)| (of.ios, of.latency.count())), [1, 2, 3, 4, 5].map(|n| (n, n)));
    }
}
