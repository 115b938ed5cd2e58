//! Cuts at which each request must be on the drive, may be on it, or cannot be on it yet.
//!
//! A *cut* is the number of events that had happened when the power failed. A request that had not arrived is not
//! there. One that had arrived is *open*, that is, present, missing or present in part, until an event makes it
//! *durable*: the completion of a flush that arrived after the request's own completion; its own completion if it has
//! force unit access; or its own completion where the drive's buffer survives a power loss. In a zone, whatever makes a request durable
//! makes those before it durable, since the write pointer is behind all of them; and a reset or a finish of a zone is durable once it has
//! completed.

use std::collections::BTreeMap;

use super::recording::{Durability, RecordedEvent, RecordedOp, Recording};

/// Events at which each request arrived, completed and became durable.
#[derive(Clone, Debug)]
pub struct CutTimeline {
    requests: Vec<RequestInstants>,
    /// For each request, the first cut at which it and all changes before it are durable.
    settled_at: Vec<usize>,
    epochs: Vec<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct RequestInstants {
    arrived: usize,
    completed: Option<usize>,
    /// First cut at which it must be there; never for a request that no flush covers.
    durable: usize,
}

/// Range of cuts between which nothing becomes durable. Every image of an epoch can be made at its last cut, where most
/// has arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Last cut of the epoch.
    pub cut: usize,
    /// States that the requests leave which are open at this cut.
    pub states: StateCount,
    /// States among them in which everything is there that the event at the end of the epoch makes durable.
    pub states_left: StateCount,
}

/// Number of states that open requests may leave: each piece is there or not, except in a zone, where the first ones are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateCount {
    /// Binary logarithm of the number.
    pub bits: f64,
    /// Number, if it is below 2 to the power of 48.
    pub exact: Option<u64>,
}

/// Number of open pieces: those that are there or not whatever others are, and those of each zone.
#[derive(Clone, Debug, Default)]
struct OpenPieces {
    free: u64,
    zones: BTreeMap<u32, u64>,
}

/// Binary logarithm of the largest number of states that is counted exactly.
const EXACT_BITS: f64 = 48.0;

impl OpenPieces {
    fn of(&mut self, recording: &Recording, place: usize) -> &mut u64 {
        match recording.zone(place) {
            None => &mut self.free,
            Some(zone) => self.zones.entry(zone).or_default(),
        }
    }

    fn add(&mut self, recording: &Recording, place: usize) {
        *self.of(recording, place) += u64::from(recording.pieces(place));
    }

    fn remove(&mut self, recording: &Recording, place: usize) {
        *self.of(recording, place) -= u64::from(recording.pieces(place));
        self.zones.retain(|_, pieces| *pieces > 0);
    }

    fn states(&self) -> StateCount {
        let bits = self.zones.values().fold(self.free as f64, |bits, pieces| bits + libm::log2((pieces + 1) as f64));
        let count = || self.zones.values().fold(1 << self.free, |count: u64, pieces| count * (pieces + 1));
        StateCount { bits, exact: (bits <= EXACT_BITS).then(count) }
    }
}

/// Later than every cut.
const NEVER: usize = usize::MAX;

impl CutTimeline {
    /// Returns the timeline of a recording.
    pub fn new(recording: &Recording) -> CutTimeline {
        let mut requests = instants(recording);
        flush(recording, &mut requests);
        for (place, request) in requests.iter_mut().enumerate() {
            let asked = &recording.requests[place];
            let is_action = matches!(asked.kind, RecordedOp::Reset | RecordedOp::Finish);
            let is_kept = asked.durable || is_action || recording.rules.durability == Durability::OnAcknowledgement;
            if let (true, Some(completed)) = (is_kept, request.completed) {
                request.durable = request.durable.min(completed + 1);
            }
            if request.arrived < recording.prepared {
                request.durable = recording.prepared;
            }
        }
        make_prefixes_durable(recording, &mut requests);
        let settled_at = settled(recording, &requests);
        let mut timeline = CutTimeline { requests, settled_at, epochs: Vec::new() };
        timeline.epochs = timeline.find_epochs(recording);
        timeline
    }

    /// True if a request had arrived at this cut.
    pub fn has_arrived(&self, request: usize, cut: usize) -> bool {
        self.requests[request].arrived < cut
    }

    /// True if a request had completed at this cut.
    pub fn is_answered(&self, request: usize, cut: usize) -> bool {
        self.requests[request].completed.is_some_and(|completed| completed < cut)
    }

    /// True if a request must be there at this cut.
    pub fn is_durable(&self, request: usize, cut: usize) -> bool {
        self.requests[request].durable <= cut
    }

    /// True if a request may be there or be missing at this cut.
    pub fn is_open(&self, request: usize, cut: usize) -> bool {
        self.has_arrived(request, cut) && !self.is_durable(request, cut)
    }

    /// Returns the first and the last cut at which a request is open, if there is any.
    pub fn open_cuts(&self, request: usize, recording: &Recording) -> Option<(usize, usize)> {
        let RequestInstants { arrived, durable, .. } = self.requests[request];
        let first = (arrived + 1).max(recording.prepared);
        let last = durable.saturating_sub(1).min(recording.events.len());
        (recording.requests[request].is_change() && first <= last).then_some((first, last))
    }

    /// Returns the number of settled requests, counted from the first: all changes among them are durable.
    pub fn settled(&self, cut: usize) -> usize {
        let settled = self.settled_at.partition_point(|&at| at <= cut);
        settled.min(self.arrived(cut))
    }

    /// Returns the number of requests that had arrived.
    pub fn arrived(&self, cut: usize) -> usize {
        self.requests.partition_point(|request| request.arrived < cut)
    }

    /// Returns the requests that are open at a cut, in the order of their arrival.
    pub fn open(&self, recording: &Recording, cut: usize) -> Vec<usize> {
        let unsettled = self.settled(cut)..self.arrived(cut);
        unsettled.filter(|&place| recording.requests[place].is_change() && self.is_open(place, cut)).collect()
    }

    /// Returns all epochs, the last of which ends with the recording.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    fn find_epochs(&self, recording: &Recording) -> Vec<Epoch> {
        let changes = || (0..self.requests.len()).filter(|&place| recording.requests[place].is_change());
        let mut ends: Vec<(usize, usize)> = changes()
            .map(|place| (self.requests[place].durable, place))
            .filter(|(durable, _)| (recording.prepared + 1..NEVER).contains(durable))
            .collect();
        ends.sort_unstable();
        let mut arrivals = changes().filter(|&place| self.requests[place].arrived >= recording.prepared).peekable();
        let (mut epochs, mut open) = (Vec::new(), OpenPieces::default());
        let mut advance = |cut: usize, open: &mut OpenPieces| {
            while let Some(place) = arrivals.next_if(|&place| self.has_arrived(place, cut)) {
                open.add(recording, place);
            }
        };
        for end in ends.chunk_by(|one, other| one.0 == other.0) {
            let cut = end[0].0 - 1;
            advance(cut, &mut open);
            let states = open.states();
            end.iter().for_each(|&(_, place)| open.remove(recording, place));
            epochs.push(Epoch { cut, states, states_left: open.states() });
        }
        let cut = recording.events.len();
        advance(cut, &mut open);
        epochs.push(Epoch { cut, states: open.states(), states_left: OpenPieces::default().states() });
        epochs
    }
}

fn instants(recording: &Recording) -> Vec<RequestInstants> {
    let mut requests =
        vec![RequestInstants { arrived: NEVER, completed: None, durable: NEVER }; recording.requests.len()];
    for (at, event) in recording.events.iter().enumerate() {
        match *event {
            RecordedEvent::Arrived(request) => requests[request].arrived = at,
            RecordedEvent::Completed(request) => requests[request].completed = Some(at),
            RecordedEvent::Printed(_) => {}
        }
    }
    requests
}

/// Applies each completed flush, which makes durable what had completed when the flush arrived.
fn flush(recording: &Recording, requests: &mut [RequestInstants]) {
    // Changes in the order of their completion; for each flush the number of them when it arrived; and the number of
    // durable ones.
    let (mut answered, mut found, mut durable) = (Vec::new(), vec![0; requests.len()], 0);
    for (at, event) in recording.events.iter().enumerate() {
        match *event {
            RecordedEvent::Arrived(request) => found[request] = answered.len(),
            RecordedEvent::Completed(request) if recording.requests[request].is_flush() => {
                for &change in answered.get(durable..found[request]).unwrap_or_default() {
                    let change: &mut RequestInstants = &mut requests[change];
                    change.durable = at + 1;
                }
                durable = durable.max(found[request]);
            }
            RecordedEvent::Completed(request) => answered.push(request),
            RecordedEvent::Printed(_) => {}
        }
    }
}

/// Makes durable in each zone what comes before a durable request.
fn make_prefixes_durable(recording: &Recording, requests: &mut [RequestInstants]) {
    let mut durable_by_zone: BTreeMap<u32, usize> = BTreeMap::new();
    for (place, request) in requests.iter_mut().enumerate().rev() {
        let Some(zone) = recording.zone(place) else { continue };
        let durable = durable_by_zone.entry(zone).or_insert(NEVER);
        *durable = request.durable.min(*durable);
        request.durable = *durable;
    }
}

fn settled(recording: &Recording, requests: &[RequestInstants]) -> Vec<usize> {
    let mut latest = 0;
    let settled = |(place, request): (usize, &RequestInstants)| {
        if recording.requests[place].is_change() {
            latest = latest.max(request.durable);
        }
        latest
    };
    requests.iter().enumerate().map(settled).collect()
}
