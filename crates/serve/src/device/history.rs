//! Every change that hosts have asked for, with its bytes, in the order of arrival and of answers: what
//! [`crash`](phaselink_core::crash) makes images of.
//!
//! A change is made to the store while the history is held, so that both have the same order. A request counts as answered
//! just before its answer is sent: nobody has seen an answer that the history does not know of, and a flush that came
//! in one piece with a write covers it no more than the protocol says.

use std::mem;
use std::sync::{Arc, Mutex};

use crate::device::Stop;
use crate::device::store::Store;
use crate::device::tally::locked;
use phaselink_core::crash::recording::{DurabilityRules, RecordedCommand, RecordedEvent, RecordedOp, Recording};

/// A history under way.
#[derive(Debug)]
pub struct History {
    recording: Mutex<Recording>,
    bytes_max: u64,
    /// Told when there is no more room.
    stop: Arc<Stop>,
    bytes: Mutex<u64>,
}

/// Kind of change that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Write of data.
    Write,
    /// Write of zeros.
    Zero,
    /// Discard.
    Trim,
    /// Flush.
    Flush,
}

/// A request that is to be [answered](History::answered).
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

impl History {
    /// The history of a drive of zeros, up to so many bytes of changes; beyond, the server is told to stop.
    pub fn new(capacity_bytes: u64, rules: DurabilityRules, bytes_max: u64, stop: Arc<Stop>) -> History {
        let recording = Recording {
            capacity_bytes,
            rules,
            requests: Vec::new(),
            lines: Vec::new(),
            events: Vec::new(),
            prepared: 0,
        };
        History { recording: Mutex::new(recording), bytes_max, stop, bytes: Mutex::new(0) }
    }

    /// A request arrives, and `change` does to the store what it asks for.
    ///
    /// Bytes that are no whole blocks are recorded with the rest of their blocks, as a host's cache would write them.
    pub fn note<T>(
        &self,
        (asked, durable): (Asked, bool),
        (offset, bytes): (u64, u32),
        store: &Store,
        change: impl FnOnce() -> T,
    ) -> (T, Ticket) {
        let mut recording = locked(&self.recording);
        let changed = change();
        let block = u64::from(recording.rules.block_bytes);
        let (start, end) = (offset / block * block, (offset + u64::from(bytes)).next_multiple_of(block));
        let is_whole = (start, end) == (offset, offset + u64::from(bytes));
        let kind = match asked {
            Asked::Flush => RecordedOp::Flush,
            Asked::Zero if is_whole => RecordedOp::Zero,
            Asked::Trim if is_whole => RecordedOp::Trim,
            Asked::Write | Asked::Zero | Asked::Trim => RecordedOp::Write(held(store, start, end)),
        };
        let place = recording.requests.len();
        self.count(if let RecordedOp::Write(data) = &kind { data.len() } else { 0 });
        recording.requests.push(RecordedCommand { kind, offset: start, bytes: (end - start) as u32, durable });
        recording.events.push(RecordedEvent::Arrived(place));
        (changed, Ticket(place))
    }

    /// Requests are going to be answered.
    pub fn answered(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let events = tickets.into_iter().map(|Ticket(place)| RecordedEvent::Completed(place));
        locked(&self.recording).events.extend(events);
    }

    /// The application has printed a line.
    pub fn printed(&self, line: Vec<u8>) {
        self.count(line.len());
        let mut recording = locked(&self.recording);
        recording.lines.push(line);
        let place = recording.lines.len() - 1;
        recording.events.push(RecordedEvent::Printed(place));
    }

    /// Notes that everything so far was preparation.
    pub fn prepared(&self) {
        let mut recording = locked(&self.recording);
        recording.prepared = recording.events.len();
    }

    /// Returns the recording; nothing if it did not fit.
    pub fn finish(&self) -> Option<Recording> {
        let mut recording = locked(&self.recording);
        let (requests, lines) = (mem::take(&mut recording.requests), mem::take(&mut recording.lines));
        let recording = Recording { requests, lines, events: mem::take(&mut recording.events), ..*recording };
        (*locked(&self.bytes) <= self.bytes_max).then_some(recording)
    }

    fn count(&self, bytes: usize) {
        // Beside the bytes, some for the entry of the request and its two events.
        let mut sum = locked(&self.bytes);
        *sum += bytes as u64 + 128;
        if *sum > self.bytes_max {
            self.stop.request();
        }
    }
}

/// Returns the bytes that the store holds in a range.
fn held(store: &Store, start: u64, end: u64) -> Box<[u8]> {
    let mut bytes = vec![0; (end - start) as usize];
    // A store in memory gives all that it has.
    let _ = store.read(start, &mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::store::Geometry;
    use phaselink_core::crash::recording::Durability;

    fn drive(bytes_max: u64) -> (Store, History, Arc<Stop>) {
        let store = Store::in_memory(Geometry { capacity_bytes: 4096, block_bytes: 512 }).unwrap();
        let rules = DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush };
        let stop = Arc::new(Stop::new().unwrap());
        let history = History::new(4096, rules, bytes_max, Arc::clone(&stop));
        (store, history, stop)
    }

    #[test]
    fn what_is_no_whole_block_is_recorded_with_the_rest_of_its_blocks() {
        let (store, history, _) = drive(1 << 20);
        let note = |asked, offset, bytes: &[u8]| {
            let place = (offset, bytes.len() as u32);
            history.note((asked, false), place, &store, || store.write(offset, bytes).unwrap()).1
        };
        let first = note(Asked::Write, 0, &[1; 512]);
        let second = note(Asked::Write, 500, &[2; 20]);
        history.answered([second, first]);
        note(Asked::Zero, 100, &[0; 10]);
        note(Asked::Zero, 1024, &[0; 512]);
        let recording = history.finish().unwrap();
        let [_, merged, zeroed, whole] = &recording.requests[..] else { panic!("four requests") };
        let mut bytes = [[1; 512], [0; 512]].concat();
        bytes[500..520].fill(2);
        assert_eq!((merged.offset, &merged.kind), (0, &RecordedOp::Write(bytes.clone().into())));
        bytes[100..110].fill(0);
        assert_eq!((zeroed.offset, &zeroed.kind), (0, &RecordedOp::Write(bytes[..512].into())));
        assert_eq!((whole.offset, whole.bytes, &whole.kind), (1024, 512, &RecordedOp::Zero));
        assert_eq!(recording.events[2..4], [RecordedEvent::Completed(1), RecordedEvent::Completed(0)]);
    }

    #[test]
    fn a_history_that_grows_too_long_stops_the_server() {
        let (store, history, stop) = drive(2000);
        for write in 0..4 {
            assert!(!stop.is_requested(), "{write} writes fit");
            history.note((Asked::Write, false), (0, 512), &store, || ());
        }
        assert!(stop.is_requested() && history.finish().is_none());
    }
}
