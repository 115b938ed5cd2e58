//! Power cuts: the data states that a drive may be in afterwards, and the reason why each is legal.

use std::collections::BTreeSet;
use std::sync::Arc;

use phaselink_core::crash::explain::{CrashState, DriveLossRules};
use phaselink_core::crash::recording::Recording;
use phaselink_core::crash::{CutTimeline, Image, format, sample};
use phaselink_core::number::length;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::time::Time;

use crate::misuse::Misuse;
use crate::store::Store;
use crate::tracker::lay_all;

/// Data state in which a power cut leaves the drive.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Survival<'a> {
    /// All submitted changes survive, except for failed ones.
    Everything,
    /// Only changes survive that are durable by then.
    DurableOnly,
    /// A state is drawn at random: each write that may be lost is whole, missing or torn.
    Drawn {
        /// Seed of the random draw.
        seed: u64,
    },
    /// The state is one of [`Drive::images`](crate::Drive::images) at this instant.
    Image(&'a LegalImage),
}

/// Data state that a power cut may leave: all durable changes, and some of the others.
#[derive(Clone, Debug)]
pub struct LegalImage {
    pub(crate) image: Image,
    pub(crate) state: Arc<CutState>,
}

/// Record of a drive at the instant of a power cut, from which its legal images follow.
#[derive(Debug)]
pub(crate) struct CutState {
    /// Number of events and power cuts before this instant.
    pub(crate) instant: u64,
    /// Data before the first request of the recording.
    pub(crate) base: Store,
    pub(crate) recording: Recording,
    pub(crate) timeline: CutTimeline,
    /// Indices in the recording of the requests that failed.
    pub(crate) failed: BTreeSet<usize>,
    pub(crate) rules: DriveLossRules,
    pub(crate) origin: ImageOrigin,
}

/// Source of images, by which a message says how to replay one.
#[derive(Clone, Debug)]
pub(crate) enum ImageOrigin {
    /// An open drive with this seed at this time.
    Drive { seed: u64, now: Time },
    /// A recording in the file of this name.
    Recording { file: String },
}

impl ImageOrigin {
    /// Returns a sentence that says how to replay an image.
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
    /// Returns up to `wanted` images of this state. If there are more, images of every kind are drawn in turn, by
    /// `seed`.
    pub(crate) fn images(self, wanted: usize, seed: u64) -> Vec<LegalImage> {
        let state = Arc::new(self);
        let images = sample::sample_images_of_last_cut(&state.recording, &state.timeline, wanted, seed);
        images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect()
    }

    /// Returns the image that a random power cut with `seed` leaves.
    pub(crate) fn drawn(self, seed: u64) -> LegalImage {
        let image = sample::random_image(&self.recording, &self.timeline, self.recording.events.len(), seed);
        LegalImage { image, state: Arc::new(self) }
    }

    /// Decodes a recording, whose drive held only zeros at first.
    fn of_recording(file: &str, bytes: &[u8]) -> Result<Arc<CutState>, Problems> {
        let recording = format::decode(bytes)
            .map_err(|found| Problem::new(file, None, found, "a recording that `phaselink crash --record` made"))?;
        let timeline = CutTimeline::new(&recording);
        Ok(Arc::new(CutState {
            instant: 0,
            base: Store::default(),
            rules: DriveLossRules::of_recording(&recording),
            origin: ImageOrigin::Recording { file: file.into() },
            recording,
            timeline,
            failed: BTreeSet::new(),
        }))
    }

    /// Returns the image with this name.
    ///
    /// # Errors
    ///
    /// If no power cut at this instant leaves such an image.
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
    /// Reads the drive's data in this state, from offset `offset` on.
    ///
    /// # Errors
    ///
    /// If the range ends beyond the drive.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Misuse> {
        let capacity_bytes = self.state.recording.capacity_bytes;
        Misuse::check_range(offset, length(into.len()), capacity_bytes)?;
        self.bytes().read(offset, into);
        Ok(())
    }

    /// Returns the name of the state, such as `cut=12,missing=3,torn=4:0-1`, with numbers of the drive's record. `cut`
    /// is the number of events that had happened. [`Drive::image`](crate::Drive::image) finds the state by its name.
    pub fn name(&self) -> String {
        self.image.name(&self.state.recording, &self.state.timeline)
    }

    /// Returns a sentence for each write in which this state differs from what reads returned: missing, torn, or
    /// present although it failed. Each names the rule that allows it, and the last sentence says how to replay the
    /// state.
    pub fn explanation(&self) -> Vec<String> {
        let CutState { recording, timeline, rules, failed, origin, .. } = &*self.state;
        let mut lines = rules.explanation(&CrashState { recording, timeline, image: &self.image, failed });
        if !lines.is_empty() {
            lines.push(origin.replay(&self.name()));
        }
        lines
    }

    /// Returns the drive's data in this state.
    pub(crate) fn bytes(&self) -> Store {
        let mut bytes = self.state.base.clone();
        lay_all(&self.state.recording, &self.image, &mut bytes);
        bytes
    }

    /// Returns up to `wanted` data states that a power cut may leave at any event of a recording made by `phaselink
    /// crash --record`. If there are more, states of every kind are drawn in turn, by `seed`. `file` is the recording's
    /// name in messages. No drive is opened; [`Drive::load_image`](crate::Drive::load_image) loads a state to one.
    /// `phaselink crash --image` knows a state by the same name.
    ///
    /// # Errors
    ///
    /// If `bytes` is no recording.
    pub fn of_recording(file: &str, bytes: &[u8], wanted: usize, seed: u64) -> Result<Vec<LegalImage>, Problems> {
        let state = CutState::of_recording(file, bytes)?;
        let images = sample::images(&state.recording, &state.timeline, wanted, seed);
        Ok(images.into_iter().map(|image| LegalImage { image, state: state.clone() }).collect())
    }

    /// Returns the data state of a recording with this [name](LegalImage::name), which `phaselink crash` also uses.
    ///
    /// # Errors
    ///
    /// If `bytes` is no recording, or the recording has no such state.
    pub fn named_of_recording(file: &str, bytes: &[u8], name: &str) -> Result<LegalImage, Problems> {
        let state = CutState::of_recording(file, bytes)?;
        let image = Image::parse(name, &state.recording, &state.timeline)
            .map_err(|problem| Problem::new(file, None, problem.found, problem.allowed))?;
        Ok(LegalImage { image, state })
    }
}
