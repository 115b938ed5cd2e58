//! Every change that hosts have asked for, with its bytes, in the order of arrival and of answers: what
//! [`crash`](crate::crash) makes images of.
//!
//! A change is made to the store while the history is held, so that both have the same order. A request counts as answered
//! just before its answer is sent: nobody has seen an answer that the history does not know of, and a flush that came
//! in one piece with a write covers it no more than the protocol says.

use std::mem;
use std::sync::{Arc, Mutex};

use crate::crash::recording::{Event, Kind, Recording, Request, Rules};
use crate::device::Stop;
use crate::device::store::Store;
use crate::device::tally::locked;

/// A history under way.
#[derive(Debug)]
pub struct History {
    recording: Mutex<Recording>,
    bytes_max: u64,
    /// Told when there is no more room.
    stop: Arc<Stop>,
    bytes: Mutex<u64>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Write,
    Zero,
    Trim,
    Flush,
}

/// A request that is to be [answered](History::answered).
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

impl History {
    /// The history of a drive of zeros, up to so many bytes of changes; beyond, the server is told to stop.
    pub fn new(capacity_bytes: u64, rules: Rules, bytes_max: u64, stop: Arc<Stop>) -> History {
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
            Asked::Flush => Kind::Flush,
            Asked::Zero if is_whole => Kind::Zero,
            Asked::Trim if is_whole => Kind::Trim,
            Asked::Write | Asked::Zero | Asked::Trim => Kind::Write(held(store, start, end)),
        };
        let place = recording.requests.len();
        self.count(if let Kind::Write(data) = &kind { data.len() } else { 0 });
        recording.requests.push(Request { kind, offset: start, bytes: (end - start) as u32, durable });
        recording.events.push(Event::Arrived(place));
        (changed, Ticket(place))
    }

    /// Requests are going to be answered.
    pub fn answered(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let events = tickets.into_iter().map(|Ticket(place)| Event::Completed(place));
        locked(&self.recording).events.extend(events);
    }

    /// The application has printed a line.
    pub fn printed(&self, line: Vec<u8>) {
        self.count(line.len());
        let mut recording = locked(&self.recording);
        recording.lines.push(line);
        let place = recording.lines.len() - 1;
        recording.events.push(Event::Printed(place));
    }

    /// Everything so far was preparation.
    pub fn prepared(&self) {
        let mut recording = locked(&self.recording);
        recording.prepared = recording.events.len();
    }

    /// What has been recorded, or none if it did not fit.
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

/// What the store holds there.
fn held(store: &Store, start: u64, end: u64) -> Box<[u8]> {
    let mut bytes = vec![0; (end - start) as usize];
    // A store in memory gives all that it has.
    let _ = store.read(start, &mut bytes);
    bytes.into()
}
