//! Recorded history of a served drive: all changes by hosts, with their data, in the order of arrival and completion.
//! [`crash`](phaselink_core::crash) derives from it the states of the drive after a power cut.
//!
//! A change is made to the store while the history is locked, so that both have one order. A request counts as
//! completed just before its completion is sent, so no client has seen a completion that the history lacks. A flush
//! that arrives with a write covers no more than the protocol says.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock};

use crate::device::StopRequest;
use crate::device::store::Store;
use crate::device::tally::locked;
use phaselink_core::crash::recording::{DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording};
use phaselink_core::media::zones::ZoneLayout;
use phaselink_core::number::{length, low_u32, wide_index};

/// Maximum length in bytes of a deallocation that is recorded as one request. A longer one is recorded in parts.
const TRIM_BYTES_MAX: u64 = 1 << 30;

/// History that is being recorded, and its limit in bytes.
#[derive(Debug)]
pub struct History {
    recording: Mutex<Recording>,
    bytes_max: u64,
    /// Request to stop the server, made when the history is full or a request has made a change that recordings cannot
    /// hold.
    stop: Arc<StopRequest>,
    bytes: Mutex<u64>,
    /// First change by a client that a recording cannot hold, in words such as `format the drive`; unset if there was
    /// none.
    unsupported: OnceLock<&'static str>,
}

/// Reason why the recorded history of a served drive yields no recording for crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingUnavailable {
    /// More bytes were recorded than the limit allows.
    TooLong,
    /// A client's request made a change that a recording for crash tests cannot hold. The text names the change in
    /// words such as `format the drive`.
    Unsupported(&'static str),
}

/// Change that a request has made to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreChange {
    /// Kind of change to the store.
    pub kind: StoreChangeKind,
    /// True if the change is durable once the request has completed.
    pub durable: bool,
    /// Offset on the drive of the first changed byte.
    pub offset: u64,
    /// Number of changed bytes.
    pub bytes: u64,
}

/// Kind of change that a request makes to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreChangeKind {
    /// Data is written.
    Write,
    /// Zeros are written.
    Zero,
    /// Bytes are discarded.
    Trim,
    /// A zone is reset.
    Reset,
    /// A zone is finished.
    Finish,
    /// The write cache is flushed.
    Flush,
}

/// Recorded request that has not completed; its completion is recorded by [`History::record_completions`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

impl History {
    /// Returns the empty history of a drive that begins with zeros. When the recorded requests exceed `bytes_max`
    /// bytes, it requests a stop of the server.
    pub fn new(capacity_bytes: u64, rules: DurabilityRules, bytes_max: u64, stop: Arc<StopRequest>) -> History {
        let recording = Mutex::new(Recording::empty(capacity_bytes, rules));
        History { recording, bytes_max, stop, bytes: Mutex::new(0), unsupported: OnceLock::new() }
    }

    /// Sets the zones of the recorded drive, all of which are empty at first; none for a drive without zones.
    pub fn with_zone_layout(self, zones: Option<ZoneLayout>) -> History {
        locked(&self.recording).zones = zones;
        self
    }

    /// Records the arrival of a request while `change` makes its change to the store. Returns the result of `change`,
    /// and the request's ticket.
    ///
    /// Bytes that are no whole blocks are recorded with the rest of their blocks, as a host's cache would write them.
    pub fn note<T>(
        &self,
        (kind, durable): (StoreChangeKind, bool),
        (offset, bytes): (u64, u32),
        store: &Store,
        change: impl FnOnce() -> T,
    ) -> (T, Ticket) {
        let mut recording = locked(&self.recording);
        let changed = change();
        let made = StoreChange { kind, durable, offset, bytes: bytes.into() };
        (changed, self.push(&mut recording, made, store))
    }

    /// Records the arrival of a request while `change` makes its changes to the store and returns them. Each change is
    /// recorded as a request of its own. Returns the result of `change`, and a ticket for each record.
    pub fn note_all<T>(&self, store: &Store, change: impl FnOnce() -> (T, Vec<StoreChange>)) -> (T, Vec<Ticket>) {
        let mut recording = locked(&self.recording);
        let (result, made) = change();
        let tickets = made.into_iter().flat_map(parts).map(|made| self.push(&mut recording, made, store)).collect();
        (result, tickets)
    }

    fn push(&self, recording: &mut Recording, made: StoreChange, store: &Store) -> Ticket {
        let StoreChange { kind, durable, offset, bytes } = made;
        let block = u64::from(recording.rules.block_bytes);
        let (start, end) = (offset / block * block, (offset + bytes).next_multiple_of(block));
        let is_whole = (start, end) == (offset, offset + bytes);
        let kind = match kind {
            StoreChangeKind::Flush => RecordedOp::Flush,
            StoreChangeKind::Reset => RecordedOp::Reset,
            StoreChangeKind::Finish => RecordedOp::Finish,
            StoreChangeKind::Zero if is_whole => RecordedOp::Zero,
            StoreChangeKind::Trim if is_whole => RecordedOp::Trim,
            StoreChangeKind::Write | StoreChangeKind::Zero | StoreChangeKind::Trim => {
                RecordedOp::Write(copy_stored_bytes(store, start, end))
            }
        };
        let place = recording.requests.len();
        self.count_recorded_bytes(if let RecordedOp::Write(data) = &kind { data.len() } else { 0 });
        recording.requests.push(RecordedCommand { kind, offset: start, bytes: low_u32(end - start), durable });
        recording.events.push(RecordedEventKind::Arrived(place));
        Ticket(place)
    }

    /// Stops the server because a client's request has made a change that a recording for crash tests cannot hold.
    /// `what` names the change in words such as `format the drive`.
    #[cold]
    pub fn give_up(&self, what: &'static str) {
        // `set` keeps the first reason, which is the one to report.
        let _ = self.unsupported.set(what);
        self.stop.request();
    }

    /// Records the completion of requests, just before their completions are sent.
    pub fn record_completions(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let events = tickets.into_iter().map(|Ticket(place)| RecordedEventKind::Completed(place));
        locked(&self.recording).events.extend(events);
    }

    /// Records a flush that belongs to no request, such as that of a shutdown, as arrived and completed.
    pub fn flushed(&self, store: &Store) {
        let flush = StoreChange { kind: StoreChangeKind::Flush, durable: false, offset: 0, bytes: 0 };
        let ((), tickets) = self.note_all(store, || ((), vec![flush]));
        self.record_completions(tickets);
    }

    /// Records a line that the application has printed.
    pub fn printed(&self, line: Vec<u8>) {
        self.count_recorded_bytes(line.len());
        let mut recording = locked(&self.recording);
        recording.lines.push(line);
        let place = recording.lines.len() - 1;
        recording.events.push(RecordedEventKind::Printed(place));
    }

    /// Marks everything recorded so far as preparation, after which the examined part begins.
    pub fn prepared(&self) {
        let mut recording = locked(&self.recording);
        recording.prepared = recording.events.len();
    }

    /// Returns the recording of all requests so far for crash tests, and leaves the history empty.
    ///
    /// # Errors
    ///
    /// If the recording exceeded its limit, or a request made a change that recordings cannot hold.
    pub fn finish(&self) -> Result<Recording, RecordingUnavailable> {
        if let Some(what) = self.unsupported.get() {
            return Err(RecordingUnavailable::Unsupported(what));
        }
        let mut recording = locked(&self.recording);
        let (requests, lines) = (mem::take(&mut recording.requests), mem::take(&mut recording.lines));
        let recording = Recording { requests, lines, events: mem::take(&mut recording.events), ..*recording };
        (*locked(&self.bytes) <= self.bytes_max).then_some(recording).ok_or(RecordingUnavailable::TooLong)
    }

    fn count_recorded_bytes(&self, bytes: usize) {
        // Besides the data, an entry for the request and its two events needs about 128 bytes.
        let mut sum = locked(&self.bytes);
        *sum += length(bytes) + 128;
        if *sum > self.bytes_max {
            self.stop.request();
        }
    }
}

/// Splits a change into the parts that are recorded. Only a long deallocation has several.
fn parts(made: StoreChange) -> impl Iterator<Item = StoreChange> {
    let most = if made.kind == StoreChangeKind::Trim { TRIM_BYTES_MAX } else { made.bytes.max(1) };
    let starts = (0..made.bytes.max(1)).step_by(wide_index(most));
    starts.map(move |start| StoreChange { offset: made.offset + start, bytes: (made.bytes - start).min(most), ..made })
}

/// Returns the bytes of the store from `start` to `end`.
fn copy_stored_bytes(store: &Store, start: u64, end: u64) -> Box<[u8]> {
    let mut bytes = vec![0; wide_index(end - start)];
    // A read from a store in memory cannot fail.
    let _ = store.read(start, &mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::store::Geometry;
    use phaselink_core::crash::recording::Durability;

    fn drive(bytes_max: u64) -> (Store, History, Arc<StopRequest>) {
        let store = Store::in_memory(Geometry { capacity_bytes: 4096, block_bytes: 512 }).unwrap();
        let rules = DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush };
        let stop = Arc::new(StopRequest::new().unwrap());
        let history = History::new(4096, rules, bytes_max, Arc::clone(&stop));
        (store, history, stop)
    }

    #[test]
    fn change_of_partial_blocks_is_recorded_as_whole_blocks() {
        let (store, history, _) = drive(1 << 20);
        let note = |kind, offset, bytes: &[u8]| {
            let place = (offset, bytes.len() as u32);
            history.note((kind, false), place, &store, || store.write(offset, bytes).unwrap()).1
        };
        let first = note(StoreChangeKind::Write, 0, &[1; 512]);
        let second = note(StoreChangeKind::Write, 500, &[2; 20]);
        history.record_completions([second, first]);
        note(StoreChangeKind::Zero, 100, &[0; 10]);
        note(StoreChangeKind::Zero, 1024, &[0; 512]);
        let recording = history.finish().unwrap();
        let [_, merged, zeroed, whole] = &recording.requests[..] else { panic!("four requests") };
        let mut bytes = [[1; 512], [0; 512]].concat();
        bytes[500..520].fill(2);
        assert_eq!((merged.offset, &merged.kind), (0, &RecordedOp::Write(bytes.clone().into())));
        bytes[100..110].fill(0);
        assert_eq!((zeroed.offset, &zeroed.kind), (0, &RecordedOp::Write(bytes[..512].into())));
        assert_eq!((whole.offset, whole.bytes, &whole.kind), (1024, 512, &RecordedOp::Zero));
        assert_eq!(recording.events[2..4], [RecordedEventKind::Completed(1), RecordedEventKind::Completed(0)]);
    }

    #[test]
    fn history_that_exceeds_its_limit_stops_the_server() {
        let (store, history, stop) = drive(2000);
        for write in 0..4 {
            assert!(!stop.is_requested(), "{write} writes fit");
            history.note((StoreChangeKind::Write, false), (0, 512), &store, || ());
        }
        assert!(stop.is_requested() && history.finish() == Err(RecordingUnavailable::TooLong));
    }

    #[test]
    fn each_change_of_a_request_and_each_part_of_a_long_deallocation_is_recorded() {
        let (store, history, stop) = drive(1 << 20);
        let trim = |offset, bytes| StoreChange { kind: StoreChangeKind::Trim, durable: false, offset, bytes };
        let (done, tickets) = history.note_all(&store, || (7, vec![trim(0, 512), trim(1024, (2 << 30) + 512)]));
        assert_eq!((done, tickets.len()), (7, 4));
        let flush = StoreChange { kind: StoreChangeKind::Flush, durable: false, offset: 0, bytes: 0 };
        assert_eq!(history.note_all(&store, || ((), vec![flush])).1.len(), 1);
        let requests = history.finish().unwrap().requests;
        let last = |place: usize| (requests[place].offset, requests[place].bytes);
        assert_eq!((last(2), last(3), last(4)), ((1024 + (1 << 30), 1 << 30), (1024 + (2 << 30), 512), (0, 0)));
        history.give_up("format the drive");
        assert_eq!(history.finish(), Err(RecordingUnavailable::Unsupported("format the drive")));
        assert!(stop.is_requested());
    }
}
