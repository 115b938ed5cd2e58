//! Cuts at which each request must be on the drive, may be on it, or cannot be on it yet.
//!
//! A *cut* is the number of events that had happened when the power failed. A request that had not arrived is not
//! there. One that had arrived is *open*, that is, present, missing or present in part, until an event makes it
//! *durable*: the completion of a flush that arrived after the request's own completion; its own completion if it has
//! force unit access; or its own completion where the drive's buffer survives a power loss.

use super::recording::{Durability, RecordedEvent, Recording};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Last cut of the epoch.
    pub cut: usize,
    /// Number of pieces of requests that are open at this cut.
    pub pieces: u64,
    /// Number of these pieces that are still open after the event that ends the epoch.
    pub pieces_left: u64,
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
            let is_kept = asked.durable || recording.rules.durability == Durability::OnAcknowledgement;
            if let (true, Some(completed)) = (is_kept, request.completed) {
                request.durable = request.durable.min(completed + 1);
            }
            if request.arrived < recording.prepared {
                request.durable = recording.prepared;
            }
        }
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
        let mut ends: Vec<(usize, u64)> = changes()
            .map(|place| (self.requests[place].durable, u64::from(recording.pieces(place))))
            .filter(|(durable, _)| (recording.prepared + 1..NEVER).contains(durable))
            .collect();
        ends.sort_unstable();
        let mut arrivals = changes().filter(|&place| self.requests[place].arrived >= recording.prepared).peekable();
        let (mut epochs, mut open) = (Vec::new(), 0);
        let mut advance = |cut: usize, open: &mut u64| {
            while let Some(place) = arrivals.next_if(|&place| self.has_arrived(place, cut)) {
                *open += u64::from(recording.pieces(place));
            }
        };
        for end in ends.chunk_by(|one, other| one.0 == other.0) {
            let cut = end[0].0 - 1;
            advance(cut, &mut open);
            let pieces = open;
            open -= end.iter().map(|(_, pieces)| pieces).sum::<u64>();
            epochs.push(Epoch { cut, pieces, pieces_left: open });
        }
        let cut = recording.events.len();
        advance(cut, &mut open);
        epochs.push(Epoch { cut, pieces: open, pieces_left: 0 });
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
