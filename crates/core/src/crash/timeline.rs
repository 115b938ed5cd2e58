//! Durability of each request at every cut: it must be on the drive, may be on it, or cannot be on it yet.
//!
//! A *cut* is the number of events that had happened when the power failed. A request that had not arrived is absent. A
//! request that had arrived is *open*, that is, present, missing or present in part, until an event makes it *durable*.
//! That event is the completion of a flush that arrived after the request's own completion. It is the request's own
//! completion if it has force unit access, or if the drive's buffer survives a power loss. In a zone, an event that
//! makes a request durable makes all before it durable, since the write pointer is behind all of them. A reset or a
//! finish of a zone is durable once it has completed.

use crate::number::real;
use std::collections::BTreeMap;

use super::recording::{Durability, RecordedEventKind, RecordedOp, Recording};

/// Positions in a recording's list of events at which each request arrived, completed and became durable.
#[derive(Clone, Debug)]
pub struct CutTimeline {
    requests: Vec<RequestInstants>,
    /// Number of events before a power failure from which on a request and all changes before it are durable, for each
    /// request.
    settled_at: Vec<usize>,
    epochs: Vec<DurabilityEpoch>,
}

/// Positions of a recorded request in the sequence of events: its arrival and its completion.
#[derive(Clone, Copy, Debug)]
struct RequestInstants {
    arrived: usize,
    completed: Option<usize>,
    /// First cut (number of events before the power failure) at which the request must be on the drive. Never for a
    /// request that no flush covers.
    durable: usize,
}

/// Range of power cuts within which no further request becomes durable. At its last cut, where most requests have
/// arrived, all states of the drive that belong to the range are possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurabilityEpoch {
    /// Last cut of the epoch, as the number of events that happened before the power failed.
    pub last_cut: usize,
    /// Number of states of the drive that the requests open at this power cut may leave.
    pub states: OpenStateCount,
    /// Number of states at the last power cut of an epoch that the next epoch shares: those that contain every request
    /// that becomes durable at the end of the epoch.
    pub states_left: OpenStateCount,
}

/// Number of states of the drive that open requests may leave. Each piece of a request is present or not; in a zone,
/// only the first pieces are present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenStateCount {
    /// Binary logarithm of the number of states that a power failure may leave on the drive.
    pub bits: f64,
    /// Exact number of states that a power failure may leave on the drive. `None` if it is above 2 to the power of 48.
    pub exact: Option<u64>,
}

/// Number of pieces of open requests: those outside zones, each of which is present or not by itself, and those of each
/// zone.
#[derive(Clone, Debug, Default)]
struct OpenPieces {
    free: u64,
    zones: BTreeMap<u32, u64>,
}

/// Binary logarithm of the largest number of states of the drive that is computed exactly.
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

    fn states(&self) -> OpenStateCount {
        let bits = self.zones.values().fold(real(self.free), |bits, pieces| bits + libm::log2(real(pieces + 1)));
        let count = || self.zones.values().fold(1 << self.free, |count: u64, pieces| count * (pieces + 1));
        OpenStateCount { bits, exact: (bits <= EXACT_BITS).then(count) }
    }
}

/// Cut that is later than every other, for requests that never become durable.
const NEVER: usize = usize::MAX;

impl CutTimeline {
    /// Computes at which cuts each request of a recording arrived, completed and became durable.
    pub fn new(recording: &Recording) -> CutTimeline {
        let mut requests = request_instants(recording);
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
        make_zone_prefixes_durable(recording, &mut requests);
        let settled_at = settled(recording, &requests);
        let mut timeline = CutTimeline { requests, settled_at, epochs: Vec::new() };
        timeline.epochs = timeline.find_epochs(recording);
        timeline
    }

    /// True if the drive had received a request before this power cut.
    pub fn has_arrived(&self, request: usize, cut: usize) -> bool {
        self.requests[request].arrived < cut
    }

    /// True if a request had completed before this power cut.
    pub fn had_completed(&self, request: usize, cut: usize) -> bool {
        self.requests[request].completed.is_some_and(|completed| completed < cut)
    }

    /// True if a request must be on the drive after this power cut.
    pub fn is_durable(&self, request: usize, cut: usize) -> bool {
        self.requests[request].durable <= cut
    }

    /// True if a request may be on the drive or be missing after this power cut: it was received, but is not durable
    /// yet.
    pub fn is_open(&self, request: usize, cut: usize) -> bool {
        self.has_arrived(request, cut) && !self.is_durable(request, cut)
    }

    /// Returns the first and the last power cut at which a request is open: received, but not durable yet. `None` if
    /// there is none, or the request is a flush.
    pub fn cuts_while_open(&self, request: usize, recording: &Recording) -> Option<(usize, usize)> {
        let RequestInstants { arrived, durable, .. } = self.requests[request];
        let first = (arrived + 1).max(recording.prepared);
        let last = durable.saturating_sub(1).min(recording.events.len());
        (recording.requests[request].is_change() && first <= last).then_some((first, last))
    }

    /// Returns the number of settled requests at this power cut: the longest run of first requests in which all changes
    /// are durable.
    pub fn settled(&self, cut: usize) -> usize {
        let settled = self.settled_at.partition_point(|&at| at <= cut);
        settled.min(self.arrived(cut))
    }

    /// Returns the number of requests that the drive had received before this power cut.
    pub fn arrived(&self, cut: usize) -> usize {
        self.requests.partition_point(|request| request.arrived < cut)
    }

    /// Returns the requests that are open at a cut (received but not durable), in the order of arrival.
    pub fn open(&self, recording: &Recording, cut: usize) -> Vec<usize> {
        let unsettled = self.settled(cut)..self.arrived(cut);
        unsettled.filter(|&place| recording.requests[place].is_change() && self.is_open(place, cut)).collect()
    }

    /// Returns all epochs of the recording in order. An epoch is a range of power cuts in which no request becomes
    /// durable; the last one ends with the recording.
    pub fn epochs(&self) -> &[DurabilityEpoch] {
        &self.epochs
    }

    fn find_epochs(&self, recording: &Recording) -> Vec<DurabilityEpoch> {
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
            epochs.push(DurabilityEpoch { last_cut: cut, states, states_left: open.states() });
        }
        let cut = recording.events.len();
        advance(cut, &mut open);
        epochs.push(DurabilityEpoch {
            last_cut: cut,
            states: open.states(),
            states_left: OpenPieces::default().states(),
        });
        epochs
    }
}

/// Returns the instants at which each request arrived, completed and became durable, as indices of recorded events.
fn request_instants(recording: &Recording) -> Vec<RequestInstants> {
    let mut requests =
        vec![RequestInstants { arrived: NEVER, completed: None, durable: NEVER }; recording.requests.len()];
    for (at, event) in recording.events.iter().enumerate() {
        match *event {
            RecordedEventKind::Arrived(request) => requests[request].arrived = at,
            RecordedEventKind::Completed(request) => requests[request].completed = Some(at),
            RecordedEventKind::Printed(_) => {}
        }
    }
    requests
}

/// Applies each completed flush: all requests that had completed when the flush arrived become durable at its
/// completion.
fn flush(recording: &Recording, requests: &mut [RequestInstants]) {
    // `answered`: changes in the order of completion. `found`: for each flush, how many changes had completed when it
    // arrived. `durable`: number of changes that a completed flush has made durable.
    let (mut answered, mut found, mut durable) = (Vec::new(), vec![0; requests.len()], 0);
    for (at, event) in recording.events.iter().enumerate() {
        match *event {
            RecordedEventKind::Arrived(request) => found[request] = answered.len(),
            RecordedEventKind::Completed(request) if recording.requests[request].is_flush() => {
                for &change in answered.get(durable..found[request]).unwrap_or_default() {
                    let change: &mut RequestInstants = &mut requests[change];
                    change.durable = at + 1;
                }
                durable = durable.max(found[request]);
            }
            RecordedEventKind::Completed(request) => answered.push(request),
            RecordedEventKind::Printed(_) => {}
        }
    }
}

/// Makes durable all requests before a durable request of their zone, because a zone is written in order.
fn make_zone_prefixes_durable(recording: &Recording, requests: &mut [RequestInstants]) {
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
