//! Trace of a run, recorded on request: activities and packets, each with its beginning and end.
//!
//! The writers (`ladder`, `perfetto`) accept records in any order. A full trace
//! costs one comparison for each push, and nothing is lost silently: [`Trace::dropped`] counts the records after the
//! limit.

use std::borrow::Cow;

use crate::time::Time;

/// Name of an activity or of packets in a trace; borrowed if it is known at compile time.
pub type Name = Cow<'static, str>;

/// Activity or packets that a trace record of a simulation describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Activity of the host, by its name.
    Host(Name),
    /// Activity of the device's controller, by its name.
    Device(Name),
    /// Activity of the device's memory, by its name.
    Media(Name),
    /// Packets from device to host: what they carry, how many they are, and all their bytes on the wire.
    ///
    /// A name that begins with `empty` marks an answer without a new command; the writers show it dimmed.
    Up {
        /// Name of the data that the packets carry.
        what: Name,
        /// Number of packets from device to host.
        packets: u32,
        /// Bytes of the packets on the wire, headers and framing included.
        wire_bytes: u32,
    },
    /// Packets from host to device: what they carry, how many they are, and all their bytes on the wire.
    Down {
        /// Name of the data that the packets carry.
        what: Name,
        /// Number of packets from host to device.
        packets: u32,
        /// Bytes of the packets on the wire, headers and framing included.
        wire_bytes: u32,
    },
}

/// Record of one activity or of packets in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the request that the trace record belongs to; `None` for activities of no request, such as a queue
    /// read that looks for work.
    pub request: Option<u64>,
    /// Start of the activity; for packets, the instant at which the first symbol enters the wire.
    pub from: Time,
    /// End of the activity, which equals `from` for an instant; for packets, the instant at which the last one is
    /// usable at the other end.
    pub to: Time,
    /// Activity or packets that this trace record describes.
    pub step: Step,
    /// For packets, their address in host memory or in the host's address space, and the number of bytes from there on.
    pub memory: Option<(u64, u32)>,
}

/// Records of the activities and packets of a run, up to a limit.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    records: Vec<Record>,
    limit: usize,
    dropped: u64,
}

impl Step {
    /// Returns the name of the activity, or of the data that the packets carry.
    pub fn name(&self) -> &str {
        match self {
            Step::Host(what) | Step::Device(what) | Step::Media(what) => what,
            Step::Up { what, .. } | Step::Down { what, .. } => what,
        }
    }

    /// True if these packets answer a read of the queue without a new command: their name begins with `empty`.
    pub fn is_empty_answer(&self) -> bool {
        matches!(self, Step::Up { .. } | Step::Down { .. }) && self.name().starts_with("empty")
    }
}

impl Trace {
    /// Creates a trace that keeps the first `limit` records; the default keeps none.
    pub fn new(limit: usize) -> Trace {
        Trace { limit, ..Trace::default() }
    }

    /// Adds a record (packets or activity with its times) to the trace if there is room, or else counts it as dropped.
    pub fn push(&mut self, record: Record) {
        if self.records.len() < self.limit {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
    }

    /// True if the trace keeps any records at all.
    pub fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Assigns the packets named `name` that were recorded last to `request`, unless they arrived before `from`.
    pub fn assign(&mut self, name: &str, from: Time, request: u64) {
        let last = self.records.iter_mut().rev();
        if let Some(record) = last.take_while(|r| r.to >= from).find(|r| r.step.name() == name) {
            record.request = Some(request);
        }
    }

    /// True if the trace has reached its limit, so that callers need not make further records.
    pub fn is_full(&self) -> bool {
        self.records.len() >= self.limit
    }

    /// Returns the trace's records in the order in which they were added.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the number of packet and activity records that were dropped because the trace was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the trace's records sorted by start time; those with equal starts are in the order of being added.
    pub fn in_order(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = self.records.iter().collect();
        records.sort_by_key(|record| record.from);
        records
    }

    /// Returns the trace of one request: its records, and those of no request that overlap its life.
    pub fn of_request(&self, request: u64) -> Trace {
        let own = || self.records.iter().filter(|record| record.request == Some(request));
        let from = own().map(|record| record.from).min().unwrap_or(Time::NEVER);
        let to = own().map(|record| record.to).max().unwrap_or(Time::ZERO);
        let belongs = |record: &&Record| match record.request {
            Some(owner) => owner == request,
            None => record.from <= to && record.to >= from,
        };
        let records: Vec<Record> = self.records.iter().filter(belongs).cloned().collect();
        Trace { limit: records.len(), records, dropped: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(request: Option<u64>, from_ps: u64, to_ps: u64, name: &'static str) -> Record {
        let (from, to) = (Time::from_ps(from_ps), Time::from_ps(to_ps));
        Record { request, from, to, step: Step::Host(name.into()), memory: None }
    }

    fn trace_of(records: Vec<Record>) -> Trace {
        let mut trace = Trace::new(records.len());
        records.into_iter().for_each(|record| trace.push(record));
        trace
    }

    #[test]
    fn full_trace_counts_dropped_records() {
        let mut trace = Trace::new(1);
        trace.push(record(None, 0, 0, "kept"));
        assert!(trace.is_full());
        trace.push(record(None, 1, 1, "lost"));
        assert_eq!((trace.records().len(), trace.dropped()), (1, 1));
        assert!(Trace::default().is_full());
    }

    #[test]
    fn trace_of_a_request_keeps_only_queue_reads_of_its_lifetime() {
        let trace = trace_of(vec![
            record(None, 0, 90, "queue read before"),
            record(None, 80, 120, "queue read at its start"),
            record(Some(7), 100, 300, "enqueue"),
            record(None, 200, 250, "queue read meanwhile"),
            record(Some(8), 390, 395, "another"),
            record(Some(7), 300, 500, "data"),
            record(None, 600, 700, "queue read after"),
        ]);
        let names = |request| -> Vec<String> {
            trace.of_request(request).records().iter().map(|record| record.step.name().to_string()).collect()
        };
        assert_eq!(names(7), ["queue read at its start", "enqueue", "queue read meanwhile", "data"]);
        assert_eq!(names(8), ["another"]);
        assert!(names(9).is_empty());
    }

    #[test]
    fn trace_records_are_sorted_by_time() {
        let trace = trace_of(vec![record(None, 5, 6, "b"), record(None, 1, 9, "a"), record(None, 5, 5, "c")]);
        let names: Vec<&str> = trace.in_order().iter().map(|record| record.step.name()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
