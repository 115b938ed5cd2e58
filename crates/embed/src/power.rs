//! Power cuts: the states that a drive may be in afterwards, the bytes of each, and why it is legal.

use std::collections::BTreeSet;
use std::sync::Arc;

use phaselink_core::crash::explain::{ImageState, LossRules};
use phaselink_core::crash::recording::Recording;
use phaselink_core::crash::{CutTimeline, Image, format, sample};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::time::Time;

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
    pub(crate) rules: LossRules,
    pub(crate) origin: ImageOrigin,
}

/// Place that images come from.
#[derive(Clone, Debug)]
pub(crate) enum ImageOrigin {
    /// An open drive of this seed at this instant.
    Drive { seed: u64, now: Time },
    /// A recording in a file.
    Recording { file: String },
}

impl ImageOrigin {
    /// Returns a sentence that says how to get an image again.
    fn replay(&self, image: &str) -> String {
        match self {
            ImageOrigin::Drive { seed, now } => format!(
                "To replay it, open the same drive with seed {seed}, make the same calls (operations, faults and power cuts) until \
                 {} ps, and ask for the image {image}.",
                now.as_ps()
            ),
            ImageOrigin::Recording { file } => {
                format!("To replay it, run: phaselink crash --replay {file} --image {image}")
            }
        }
    }
}

impl CutState {
    /// Returns up to `wanted` images of this state: all, if there are no more.
    pub(crate) fn images(self, wanted: usize, seed: u64) -> Vec<LegalImage> {
        let state = Arc::new(self);
        let images = sample::images_of_last_cut(&state.recording, &state.timeline, wanted, seed);
        images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect()
    }

    /// Returns the image that a power cut draws from `seed`.
    pub(crate) fn drawn(self, seed: u64) -> LegalImage {
        let image = sample::drawn(&self.recording, &self.timeline, self.recording.events.len(), seed);
        LegalImage { image, state: Arc::new(self) }
    }

    /// Returns what is known of a recording, whose drive was all zeros at first.
    fn of_recording(file: &str, bytes: &[u8]) -> Result<Arc<CutState>, Problems> {
        let recording = format::decode(bytes)
            .map_err(|found| Problem::new(file, None, found, "a recording that `phaselink crash --record` made"))?;
        let timeline = CutTimeline::new(&recording);
        Ok(Arc::new(CutState {
            instant: 0,
            base: Store::default(),
            rules: LossRules::of_recording(&recording),
            origin: ImageOrigin::Recording { file: file.into() },
            recording,
            timeline,
            failed: BTreeSet::new(),
        }))
    }

    /// Returns the image of a name.
    ///
    /// # Errors
    /// If this state has no such image.
    pub(crate) fn image(self, name: &str) -> Result<LegalImage, Misuse> {
        let image = Image::parse(name, &self.recording, &self.timeline);
        let image = image.map_err(|problem| Misuse::NoSuchImage(problem.found))?;
        let is_now = image.cut == self.recording.events.len();
        let state = Arc::new(self);
        is_now.then_some(LegalImage { image, state }).ok_or_else(|| {
            Misuse::NoSuchImage(format!(
                "{name} is an image of another instant; take the operations to the instant of its explanation"
            ))
        })
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
        self.bytes().read(offset, into);
        Ok(())
    }

    /// Returns the name of the state, as in `cut=12,missing=3,torn=4:0-1`, with numbers of the drive's record; `cut` is the number of
    /// events that had happened. [`Drive::image`](crate::Drive::image) finds the state again by its name.
    pub fn name(&self) -> String {
        self.image.name(&self.state.recording, &self.state.timeline)
    }

    /// Returns a sentence for each write in which this state differs from what reads returned: one that is missing or torn, or one
    /// that failed and is there all the same, with the rule that allows it. The last sentence says how to replay the state.
    pub fn explanation(&self) -> Vec<String> {
        let CutState { recording, timeline, rules, failed, origin, .. } = &*self.state;
        let mut lines = rules.explanation(&ImageState { recording, timeline, image: &self.image, failed });
        if !lines.is_empty() {
            lines.push(origin.replay(&self.name()));
        }
        lines
    }

    /// Returns the bytes of the drive in this state.
    pub(crate) fn bytes(&self) -> Store {
        let mut bytes = self.state.base.clone();
        lay_all(&self.state.recording, &self.image, &mut bytes);
        bytes
    }

    /// Returns up to `wanted` states that a power cut may leave at any event of a recording, which `phaselink crash --record` made:
    /// all, if there are no more. Otherwise states of every kind are drawn in turn, from `seed`. `file` is the name of the
    /// recording in messages. No drive is opened; [`Drive::load_image`](crate::Drive::load_image) puts such a state on one, and
    /// its name is one for `phaselink crash --image`, too.
    ///
    /// # Errors
    /// If the bytes are no recording.
    pub fn of_recording(file: &str, bytes: &[u8], wanted: usize, seed: u64) -> Result<Vec<LegalImage>, Problems> {
        let state = CutState::of_recording(file, bytes)?;
        let images = sample::images(&state.recording, &state.timeline, wanted, seed);
        Ok(images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect())
    }

    /// Returns the state of a recording that has this [name](LegalImage::name), which is also what `phaselink crash` calls it.
    ///
    /// # Errors
    /// If the bytes are no recording, or the recording has no such state.
    pub fn named_of_recording(file: &str, bytes: &[u8], name: &str) -> Result<LegalImage, Problems> {
        let state = CutState::of_recording(file, bytes)?;
        let image = Image::parse(name, &state.recording, &state.timeline)
            .map_err(|problem| Problem::new(file, None, problem.found, problem.allowed))?;
        Ok(LegalImage { image, state })
    }
}
