//! Counters of a server, which its serving threads write and reports read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use phaselink_core::ledger::{DirectionOutcome, Latency};
use phaselink_core::request::Op;
use phaselink_core::time::Span;

/// Counters of the requests of one operation.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Number of requests that completed.
    pub ios: u64,
    /// Number of bytes that the requests moved, discarded or filled with zeros.
    pub bytes: u64,
    /// Distribution of the latency from the fetch of a request to its completion.
    pub latency: Latency,
}

/// Counters of one thread or the sum of several. The structure fills cache lines of its own, so that threads do not
/// share one.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Tally {
    /// Counters of reads.
    pub read: Direction,
    /// Counters of writes.
    pub write: Direction,
    /// Counters of flushes.
    pub flush: Direction,
    /// Counters of discards.
    pub discard: Direction,
    /// Counters of writes of zeros, which transfer no data.
    pub zeroes: Direction,
    /// Number of requests that were refused or failed.
    pub errors: u64,
    /// Distribution of the time by which completions came later than modelled; empty with timing off.
    pub lag: Latency,
    /// Distribution of the time from a completion after which nothing was in flight to the next request, with timing
    /// on. For a client with one request in flight, that is its transport, its wake-up and its own work.
    pub turnaround: Latency,
    /// Completions that hosts have consumed from NVMe I/O completion queues.
    pub taken: ConsumedCompletionCounts,
    /// Undefined behaviour of hosts with the number of its occurrences, if strict checks are on.
    pub undefined: Vec<(&'static UndefinedBehaviour, u64)>,
}

/// Counters of the completion queue entries that a host has consumed: its head doorbell has passed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumedCompletionCounts {
    /// Number of entries consumed after an interrupt had been sent for them.
    pub after_interrupt: u64,
    /// Number of entries consumed without an interrupt, since the host polls the queue.
    pub polled: u64,
    /// Number of entries consumed while a fault delayed their first dword.
    pub torn: u64,
    /// Number of entries consumed while a fault delayed their phase tag.
    pub stale: u64,
}

impl ConsumedCompletionCounts {
    /// Adds all counts of `other` to these.
    pub fn merge(&mut self, other: &ConsumedCompletionCounts) {
        self.after_interrupt += other.after_interrupt;
        self.polled += other.polled;
        self.torn += other.torn;
        self.stale += other.stale;
    }

    /// Returns the counts of polled and of interrupt completions, with the counter names of simulated runs.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [("polled_completions", self.polled), ("interrupt_completions", self.after_interrupt)]
    }
}

/// Kind of host behaviour that a standard leaves undefined.
#[derive(Debug, PartialEq, Eq)]
pub struct UndefinedBehaviour {
    /// Short identifier of the behaviour, for programs.
    pub kind: &'static str,
    /// Description of the behaviour, for people.
    pub what: &'static str,
    /// Section of the standard that leaves it undefined.
    pub section: &'static str,
}

/// Counters of all serving threads. Each thread publishes its own, under a lock that it takes once for many requests.
#[derive(Debug, Default)]
pub struct ServingThreadTallies {
    open: Mutex<Vec<Arc<Mutex<Tally>>>>,
    closed: Mutex<Tally>,
    /// Kinds of undefined behaviour that have been reported on standard error.
    told: Mutex<Vec<&'static str>>,
}

impl Direction {
    /// Counts a request of `bytes` bytes with its latency.
    pub fn count(&mut self, bytes: u64, latency: Span) {
        self.ios += 1;
        self.bytes += bytes;
        self.latency.record(latency);
    }

    /// Counts a request of `bytes` bytes whose latency was not measured.
    #[inline]
    pub fn count_without_latency(&mut self, bytes: u64) {
        self.ios += 1;
        self.bytes += bytes;
    }

    fn merge(&mut self, other: &Direction) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }

    /// Returns the counters as the result of a run that lasted `runtime`.
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
    /// Returns the counters of an operation.
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

    /// Returns the counters of all operations, with their names for programs.
    pub fn directions(&self) -> [(&'static str, &Direction); 5] {
        let Tally { read, write, flush, discard, zeroes, .. } = self;
        [("read", read), ("write", write), ("flush", flush), ("discard", discard), ("write_zeroes", zeroes)]
    }

    /// Adds all counts of `other` to these.
    pub fn merge(&mut self, other: &Tally) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.flush.merge(&other.flush);
        self.discard.merge(&other.discard);
        self.zeroes.merge(&other.zeroes);
        self.errors += other.errors;
        self.lag.merge(&other.lag);
        self.turnaround.merge(&other.turnaround);
        self.taken.merge(&other.taken);
        other.undefined.iter().for_each(|(behaviour, count)| self.count_undefined_behaviour(behaviour, *count));
    }

    /// Adds `count` occurrences to the count of an undefined behaviour.
    pub fn count_undefined_behaviour(&mut self, behaviour: &'static UndefinedBehaviour, count: u64) {
        match self.undefined.iter_mut().find(|(counted, _)| counted.kind == behaviour.kind) {
            Some((_, counted)) => *counted += count,
            None => self.undefined.push((behaviour, count)),
        }
    }
}

impl ServingThreadTallies {
    /// Returns new counters for the calling thread, which are part of the sum from now on.
    pub fn open(&self) -> Arc<Mutex<Tally>> {
        let tally = Arc::default();
        locked(&self.open).push(Arc::clone(&tally));
        tally
    }

    /// Removes the counters of a thread that ends, and keeps their counts in the sum.
    pub fn close(&self, tally: &Arc<Mutex<Tally>>) {
        let mut open = locked(&self.open);
        open.retain(|other| !Arc::ptr_eq(other, tally));
        locked(&self.closed).merge(&locked(tally));
    }

    /// Reports an undefined behaviour of hosts on standard error, if its kind occurs for the first time.
    pub fn report_first_undefined_behaviour(&self, behaviour: &UndefinedBehaviour) {
        let UndefinedBehaviour { kind, what, section } = behaviour;
        let mut told = locked(&self.told);
        if !told.contains(kind) {
            told.push(kind);
            // If standard error is closed, the counters still show the violation.
            let _ = writeln!(io::stderr(), "strict: {what} ({section}); counted as {kind}");
        }
    }

    /// Returns the sum of the counters of all threads, ended ones included.
    pub fn sum(&self) -> Tally {
        let open = locked(&self.open);
        let mut sum = locked(&self.closed).clone();
        open.iter().for_each(|tally| sum.merge(&locked(tally)));
        sum
    }
}

/// Locks a mutex, even if a thread has panicked while it held the lock, for contents that are valid then too.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_counts_stay_separate_when_tallies_are_merged() {
        let (mut tally, mut sum) = (Tally::default(), Tally::default());
        for (count, op) in (1..).zip(Op::ALL) {
            (0..count).for_each(|_| tally.direction(op).count(512, Span::from_us(1)));
        }
        sum.merge(&tally);
        assert_eq!(sum.directions().map(|(_, of)| (of.ios, of.latency.count())), [1, 2, 3, 4, 5].map(|n| (n, n)));
    }
}
