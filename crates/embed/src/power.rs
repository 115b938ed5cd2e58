//! Power cuts: a record of what the drive was asked to change, the states that it may be in afterwards, and the bytes of each.
//!
//! The rules are those of [`phaselink_core::crash`]: a completed write is durable once a flush that arrived after its completion
//! has completed, once it has completed itself if it was durable (FUA), or if the drive's buffer outlives power.

use std::sync::Arc;

use phaselink_core::crash::recording::{
    Durability, DurabilityRules, RecordedCommand, RecordedEvent, RecordedOp, Recording,
};
use phaselink_core::crash::{CutTimeline, Image, Loss, sample};
use phaselink_core::drive::Drive;

use crate::operation::{Operation, OperationKind};
use crate::store::Store;

/// Number of events after which changes that are durable for good are taken out of the record.
const EVENTS_KEPT: usize = 256;

/// State that a power cut leaves the drive in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Survival<'a> {
    /// Everything that had been submitted survives.
    Everything,
    /// Only what had to survive does.
    DurableOnly,
    /// A state is drawn: each write that may be lost is there, missing or torn.
    Drawn {
        /// Seed of the draw.
        seed: u64,
    },
    /// The state is one of [`Drive::images`](crate::Drive::images) of this instant.
    Image(&'a LegalImage),
}

/// State that a power cut may leave: what had to survive, and some of what might.
#[derive(Clone, Debug)]
pub struct LegalImage {
    image: Image,
    state: Arc<CutState>,
}

/// Everything that is known of a drive at the instant of a power cut.
#[derive(Debug)]
struct CutState {
    number: u64,
    base: Store,
    recording: Recording,
    timeline: CutTimeline,
}

/// Record of the changes of a drive since the last state that is durable as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    /// Bytes before the first request of the record.
    base: Store,
    recording: Recording,
    /// Number of requests that have left the record.
    first: usize,
    /// Number of events at which the record is next shortened.
    shorten_at: usize,
    /// Number of events and power cuts so far, by which states are told apart.
    number: u64,
}

impl Tracker {
    pub(crate) fn new(drive: &Drive) -> Tracker {
        let limits = drive.limits();
        let block_bytes = limits.write_block_bytes.max(limits.block_bytes);
        let atomic_bytes = drive.protocol().atomic_bytes(drive).max(block_bytes) / block_bytes * block_bytes;
        let rules = DurabilityRules { block_bytes, atomic_bytes, durability: Durability::of(drive) };
        Tracker {
            base: Store::default(),
            recording: Recording {
                capacity_bytes: limits.capacity_bytes,
                rules,
                requests: Vec::new(),
                lines: Vec::new(),
                events: Vec::new(),
                prepared: 0,
            },
            first: 0,
            shorten_at: EVENTS_KEPT,
            number: 0,
        }
    }

    /// Notes that an operation arrives, and returns its number in the record. Reads change nothing.
    pub(crate) fn on_arrival(&mut self, operation: &Operation) -> usize {
        let kind = match operation.kind {
            OperationKind::Read => return usize::MAX,
            OperationKind::Write => RecordedOp::Write(operation.data.unwrap_or_default().into()),
            OperationKind::Flush => RecordedOp::Flush,
            OperationKind::Discard => RecordedOp::Trim,
            OperationKind::WriteZeroes => RecordedOp::Zero,
        };
        let Operation { offset, bytes, is_durable, .. } = *operation;
        let place = self.recording.requests.len();
        self.recording.requests.push(RecordedCommand { kind, offset, bytes: bytes as u32, durable: is_durable });
        self.note(RecordedEvent::Arrived(place));
        self.first + place
    }

    /// Notes that the operation of this number has completed.
    pub(crate) fn on_completion(&mut self, number: usize) {
        let Some(place) = number.checked_sub(self.first).filter(|place| *place < self.recording.requests.len()) else {
            return;
        };
        self.note(RecordedEvent::Completed(place));
        if self.recording.events.len() >= self.shorten_at {
            self.shorten();
        }
    }

    fn note(&mut self, event: RecordedEvent) {
        self.recording.events.push(event);
        self.number += 1;
    }

    /// Takes requests out of the record whose changes, and all before them, are durable.
    #[cold]
    fn shorten(&mut self) {
        let settled = CutTimeline::new(&self.recording).settled(self.recording.events.len());
        for request in self.recording.requests.drain(..settled) {
            lay(&request, &self.recording.rules, None, &mut self.base);
        }
        self.first += settled;
        let moved = |place: usize| place.checked_sub(settled);
        let events = std::mem::take(&mut self.recording.events);
        self.recording.events.extend(events.into_iter().filter_map(|event| match event {
            RecordedEvent::Arrived(place) => moved(place).map(RecordedEvent::Arrived),
            RecordedEvent::Completed(place) => moved(place).map(RecordedEvent::Completed),
            RecordedEvent::Printed(_) => None,
        }));
        self.shorten_at = EVENTS_KEPT.max(2 * self.recording.events.len());
    }

    /// Returns up to `wanted` states that a power cut may leave now: all, if there are no more.
    pub(crate) fn images(&self, wanted: usize, seed: u64) -> Vec<LegalImage> {
        let timeline = CutTimeline::new(&self.recording);
        let state =
            CutState { number: self.number, base: self.base.clone(), recording: self.recording.clone(), timeline };
        let state = Arc::new(state);
        let images = sample::images_of_last_cut(&state.recording, &state.timeline, wanted, seed);
        images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect()
    }

    /// True if a state was taken from this record at this instant.
    fn has_state(&self, state: &CutState) -> bool {
        state.number == self.number && state.recording == self.recording
    }

    /// Returns the bytes after a power cut, with which the record begins anew; none if the state is not one of this instant.
    pub(crate) fn cut(&mut self, survival: Survival) -> Option<Store> {
        let cut = self.recording.events.len();
        let image = match survival {
            Survival::Everything => Image::whole(cut),
            Survival::DurableOnly => sample::least(&self.recording, &CutTimeline::new(&self.recording), cut),
            Survival::Drawn { seed } => sample::drawn(&self.recording, &CutTimeline::new(&self.recording), cut, seed),
            Survival::Image(legal) if self.has_state(&legal.state) => legal.image.clone(),
            Survival::Image(_) => return None,
        };
        lay_all(&self.recording, &image, &mut self.base);
        self.first += self.recording.requests.len();
        self.recording.requests.clear();
        self.recording.events.clear();
        self.number += 1;
        Some(self.base.clone())
    }
}

impl LegalImage {
    /// Reads bytes of the drive in this state, from byte `offset` on.
    ///
    /// # Panics
    /// If the range reaches beyond 2^64.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut bytes = self.state.base.clone();
        lay_all(&self.state.recording, &self.image, &mut bytes);
        bytes.read(offset, into);
    }

    /// Returns a sentence for each write that is missing or torn in this state: which, and the rule by which the drive was
    /// allowed to lose it.
    pub fn explanation(&self) -> Vec<String> {
        let CutState { recording, timeline, .. } = &*self.state;
        let cut = self.image.cut;
        let explain = |(&place, loss): (&usize, &Loss)| {
            let RecordedCommand { kind, offset, bytes, .. } = &recording.requests[place];
            let name = match kind {
                RecordedOp::Write(_) => "write",
                RecordedOp::Zero => "write zeroes",
                RecordedOp::Trim => "discard",
                RecordedOp::Flush => "flush",
            };
            let lost = match loss {
                Loss::All => String::from("is missing"),
                Loss::AllBut(there) => {
                    let blocks = there.iter().map(|(first, last)| last - first + 1).sum::<u32>();
                    format!("is torn: {blocks} of its {} blocks are there", recording.pieces(place))
                }
            };
            format!(
                "The {name} of {bytes} bytes at {offset} {lost}. {}",
                rule(recording, timeline.is_answered(place, cut), loss)
            )
        };
        self.image.lost.iter().map(explain).collect()
    }
}

/// Returns the rule by which a drive may lose a request.
fn rule(recording: &Recording, is_completed: bool, loss: &Loss) -> String {
    let flush = "NVM Express Base Specification 2.0, Flush command: only what was completed before a flush was submitted is durable \
                 when that completes";
    let lost = match (is_completed, recording.rules.durability) {
        (false, _) => String::from("It was in flight, and nothing is promised of a command without a completion."),
        (true, Durability::OnFlush) => {
            format!("It had completed into a volatile buffer, and no later flush had completed ({flush}).")
        }
        (true, Durability::OnAcknowledgement) => String::from("It had completed."),
    };
    match loss {
        Loss::All => lost,
        Loss::AllBut(_) => format!(
            "{lost} A write of more than {} bytes may be torn (NVM Command Set Specification 1.0, section 2.1.4: AWUPF).",
            recording.rules.atomic_bytes
        ),
    }
}

/// Applies all requests of a record, as far as they are in the image, in the order of their arrival.
fn lay_all(recording: &Recording, image: &Image, bytes: &mut Store) {
    for (place, request) in recording.requests.iter().enumerate() {
        lay(request, &recording.rules, image.lost.get(&place), bytes);
    }
}

/// Applies a request, as far as it is there.
fn lay(request: &RecordedCommand, rules: &DurabilityRules, loss: Option<&Loss>, bytes: &mut Store) {
    let block_bytes = rules.block_bytes as usize;
    let mut apply = |first: usize, end: usize| {
        let offset = request.offset + first as u64;
        match &request.kind {
            RecordedOp::Write(data) => bytes.write(offset, &data[first..end]),
            RecordedOp::Zero | RecordedOp::Trim => bytes.zero(offset, (end - first) as u64),
            RecordedOp::Flush => {}
        }
    };
    match loss {
        None => apply(0, request.bytes as usize),
        Some(Loss::All) => {}
        Some(Loss::AllBut(there)) => {
            there
                .iter()
                .for_each(|&(first, last)| apply(first as usize * block_bytes, (last as usize + 1) * block_bytes));
        }
    }
}
