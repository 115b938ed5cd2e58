//! Every change that hosts have asked for, with its bytes, in the order of arrival and of answers: what
//! [`crash`](phaselink_core::crash) makes images of.
//!
//! A change is made to the store while the history is held, so that both have the same order. A request counts as answered
//! just before its answer is sent: nobody has seen an answer that the history does not know of, and a flush that came
//! in one piece with a write covers it no more than the protocol says.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock};

use crate::device::Stop;
use crate::device::store::Store;
use crate::device::tally::locked;
use phaselink_core::crash::recording::{DurabilityRules, RecordedCommand, RecordedEvent, RecordedOp, Recording};
use phaselink_core::media::zones::ZoneLayout;

/// Most bytes of a deallocation that is recorded as one request; a longer one is recorded in parts.
const TRIM_BYTES_MAX: u64 = 1 << 30;

/// A history under way.
#[derive(Debug)]
pub struct History {
    recording: Mutex<Recording>,
    bytes_max: u64,
    /// Told when there is no more room, or when a request has made a change that recordings cannot hold.
    stop: Arc<Stop>,
    bytes: Mutex<u64>,
    /// Words for the first change that recordings cannot hold, if a request has made one.
    unsupported: OnceLock<&'static str>,
}

/// Reason for which there is no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecording {
    /// More bytes were written than a history may have.
    TooLong,
    /// Words for a change that recordings cannot hold, as in `format the drive`.
    Unsupported(&'static str),
}

/// Change that a request has made to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeChange {
    /// Kind of the change.
    pub asked: Asked,
    /// True if the change is durable once the request has completed.
    pub durable: bool,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
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
    /// Reset of a zone.
    Reset,
    /// Finish of a zone.
    Finish,
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
            zones: None,
            requests: Vec::new(),
            lines: Vec::new(),
            events: Vec::new(),
            prepared: 0,
        };
        let (bytes, unsupported) = (Mutex::new(0), OnceLock::new());
        History { recording: Mutex::new(recording), bytes_max, stop, bytes, unsupported }
    }

    /// Returns the history of a drive with these zones, all of which are empty; none if it has no zones.
    pub fn of_zones(self, zones: Option<ZoneLayout>) -> History {
        locked(&self.recording).zones = zones;
        self
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
        let made = MadeChange { asked, durable, offset, bytes: bytes.into() };
        (changed, self.push(&mut recording, made, store))
    }

    /// A request arrives, and `change` does to the store what it asks for. It returns its result and all changes that were made, each of
    /// which is recorded as a request of its own.
    pub fn note_all<T>(&self, store: &Store, change: impl FnOnce() -> (T, Vec<MadeChange>)) -> (T, Vec<Ticket>) {
        let mut recording = locked(&self.recording);
        let (result, made) = change();
        let tickets = made.into_iter().flat_map(parts).map(|made| self.push(&mut recording, made, store)).collect();
        (result, tickets)
    }

    fn push(&self, recording: &mut Recording, made: MadeChange, store: &Store) -> Ticket {
        let MadeChange { asked, durable, offset, bytes } = made;
        let block = u64::from(recording.rules.block_bytes);
        let (start, end) = (offset / block * block, (offset + bytes).next_multiple_of(block));
        let is_whole = (start, end) == (offset, offset + bytes);
        let kind = match asked {
            Asked::Flush => RecordedOp::Flush,
            Asked::Reset => RecordedOp::Reset,
            Asked::Finish => RecordedOp::Finish,
            Asked::Zero if is_whole => RecordedOp::Zero,
            Asked::Trim if is_whole => RecordedOp::Trim,
            Asked::Write | Asked::Zero | Asked::Trim => RecordedOp::Write(held(store, start, end)),
        };
        let place = recording.requests.len();
        self.count(if let RecordedOp::Write(data) = &kind { data.len() } else { 0 });
        recording.requests.push(RecordedCommand { kind, offset: start, bytes: (end - start) as u32, durable });
        recording.events.push(RecordedEvent::Arrived(place));
        Ticket(place)
    }

    /// Notes that a request has made a change that recordings cannot hold, and stops the server. `what` continues a sentence about the
    /// client, as in `format the drive`.
    #[cold]
    pub fn give_up(&self, what: &'static str) {
        // The first reason is the one that is told.
        let _ = self.unsupported.set(what);
        self.stop.request();
    }

    /// Requests are going to be answered.
    pub fn answered(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let events = tickets.into_iter().map(|Ticket(place)| RecordedEvent::Completed(place));
        locked(&self.recording).events.extend(events);
    }

    /// A flush arrives that no request has asked for, as of a shutdown, and completes.
    pub fn flushed(&self, store: &Store) {
        let flush = MadeChange { asked: Asked::Flush, durable: false, offset: 0, bytes: 0 };
        let ((), tickets) = self.note_all(store, || ((), vec![flush]));
        self.answered(tickets);
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

    /// Returns the recording.
    ///
    /// # Errors
    /// If it did not fit, or a request had no place in it.
    pub fn finish(&self) -> Result<Recording, NoRecording> {
        if let Some(what) = self.unsupported.get() {
            return Err(NoRecording::Unsupported(what));
        }
        let mut recording = locked(&self.recording);
        let (requests, lines) = (mem::take(&mut recording.requests), mem::take(&mut recording.lines));
        let recording = Recording { requests, lines, events: mem::take(&mut recording.events), ..*recording };
        (*locked(&self.bytes) <= self.bytes_max).then_some(recording).ok_or(NoRecording::TooLong)
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

/// Returns the parts of a change as which it is recorded: several of a long deallocation.
fn parts(made: MadeChange) -> impl Iterator<Item = MadeChange> {
    let most = if made.asked == Asked::Trim { TRIM_BYTES_MAX } else { made.bytes.max(1) };
    let starts = (0..made.bytes.max(1)).step_by(most as usize);
    starts.map(move |start| MadeChange { offset: made.offset + start, bytes: (made.bytes - start).min(most), ..made })
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
        assert!(stop.is_requested() && history.finish() == Err(NoRecording::TooLong));
    }

    #[test]
    fn a_request_with_several_changes_is_one_for_each_and_long_deallocations_are_parts() {
        let (store, history, stop) = drive(1 << 20);
        let trim = |offset, bytes| MadeChange { asked: Asked::Trim, durable: false, offset, bytes };
        let (done, tickets) = history.note_all(&store, || (7, vec![trim(0, 512), trim(1024, (2 << 30) + 512)]));
        assert_eq!((done, tickets.len()), (7, 4));
        let flush = MadeChange { asked: Asked::Flush, durable: false, offset: 0, bytes: 0 };
        assert_eq!(history.note_all(&store, || ((), vec![flush])).1.len(), 1);
        let requests = history.finish().unwrap().requests;
        let last = |place: usize| (requests[place].offset, requests[place].bytes);
        assert_eq!((last(2), last(3), last(4)), ((1024 + (1 << 30), 1 << 30), (1024 + (2 << 30), 512), (0, 0)));
        history.give_up("format the drive");
        assert_eq!(history.finish(), Err(NoRecording::Unsupported("format the drive")));
        assert!(stop.is_requested());
    }
}
