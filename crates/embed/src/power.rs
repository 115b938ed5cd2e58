//! Power cuts: the states that a drive may be in afterwards, the bytes of each, and why it is legal.

use std::collections::BTreeSet;
use std::sync::Arc;

use phaselink_core::crash::recording::{Durability, RecordedCommand, RecordedOp, Recording};
use phaselink_core::crash::{CutTimeline, Image, Loss, sample};

use crate::misuse::Misuse;
use crate::store::Store;
use crate::tracker::lay_all;

/// State that a power cut leaves the drive in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Survival<'a> {
    /// Everything that had been submitted survives, except for what failed.
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
    pub(crate) image: Image,
    pub(crate) state: Arc<CutState>,
}

/// Everything that is known of a drive at the instant of a power cut.
#[derive(Debug)]
pub(crate) struct CutState {
    /// Number of events and power cuts before it.
    pub(crate) instant: u64,
    /// Bytes before the first request of the recording.
    pub(crate) base: Store,
    pub(crate) recording: Recording,
    pub(crate) timeline: CutTimeline,
    /// Places of the requests that failed.
    pub(crate) failed: BTreeSet<usize>,
}

impl CutState {
    /// Returns up to `wanted` images of this state: all, if there are no more.
    pub(crate) fn images(self, wanted: usize, seed: u64) -> Vec<LegalImage> {
        let state = Arc::new(self);
        let images = sample::images_of_last_cut(&state.recording, &state.timeline, wanted, seed);
        images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect()
    }
}

impl LegalImage {
    /// Reads bytes of the drive in this state, from byte `offset` on.
    ///
    /// # Errors
    /// If the range ends beyond the drive.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Misuse> {
        let capacity_bytes = self.state.recording.capacity_bytes;
        Misuse::check_range(offset, into.len() as u64, capacity_bytes)?;
        let mut bytes = self.state.base.clone();
        lay_all(&self.state.recording, &self.image, &mut bytes);
        bytes.read(offset, into);
        Ok(())
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
                rule(recording, self.state.failed.contains(&place), timeline.is_answered(place, cut), loss)
            )
        };
        self.image.lost.iter().map(explain).collect()
    }
}

/// Returns the rule by which a drive may lose a request.
fn rule(recording: &Recording, has_failed: bool, is_completed: bool, loss: &Loss) -> String {
    let flush = "NVM Express Base Specification 2.0, Flush command: only what was completed before a flush was submitted is durable \
                 when that completes";
    let lost = match (is_completed, recording.rules.durability) {
        _ if has_failed => String::from("It had failed, and a drive may have the old or the new data then."),
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
