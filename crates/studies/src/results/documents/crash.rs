//! JSON document of `phaselink crash`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::words::{counted, size};
use phaselink_core::crash::CutTimeline;
use phaselink_core::crash::recording::{Durability, DurabilityRules, RecordedOp, Recording};
use phaselink_core::media::zones::ZoneLayout;

/// JSON document of `phaselink crash`: crash images on which the check of an application failed, out of those that the
/// drive may leave after a power cut.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrashDocument {
    /// Seed with which crash images were drawn where not all were tested.
    pub seed: u64,
    /// True if all drawn crash images were tested; false if the user stopped the test before.
    pub finished: bool,
    /// Recorded drive: its size, and the rules by which it keeps writes.
    pub drive: CrashDrive,
    /// Recording of the application's requests, from which crash images are computed.
    pub recording: RecordedRequests,
    /// Crash images: how many the recording allows, and how many passed or failed the check.
    pub images: CheckedImages,
    /// Failing crash image with the fewest lost writes; null if the check failed on none.
    pub smallest_failure: Option<SmallestCrash>,
}

/// Recorded drive of a crash test: its size, and the rules by which it keeps writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrashDrive {
    /// Capacity of the recorded drive in bytes.
    pub capacity_bytes: u64,
    /// Size of a logical block of the recorded drive in bytes; a power cut never tears a block.
    pub block_bytes: u32,
    /// Largest size of a write in bytes that a power cut leaves whole or not at all.
    pub atomic_write_bytes: u32,
    /// Number of zones of the recorded drive; null for a drive without zones.
    pub zones: Option<u32>,
    /// Event after which the recorded drive keeps a write through a power cut.
    pub kept_once: KeptOnce,
    /// Layout of the recorded drive's zones, for words.
    #[serde(skip)]
    layout: Option<ZoneLayout>,
}

/// Event after which a drive keeps a write through a power cut.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeptOnce {
    /// Flush that completes after the write.
    Flushed,
    /// Completion of the write.
    Answered,
}

/// Number of recorded requests of each kind in a crash test, and number of written bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RecordedRequests {
    /// Number of recorded writes.
    pub writes: u64,
    /// Number of bytes that the recorded writes transfer.
    pub written_bytes: u64,
    /// Number of recorded trims (discards).
    pub trims: u64,
    /// Number of recorded Write Zeroes requests.
    pub zeroings: u64,
    /// Number of recorded resets of zones.
    pub zone_resets: u64,
    /// Number of recorded requests that finish a zone.
    pub zone_finishes: u64,
    /// Number of recorded flushes.
    pub flushes: u64,
    /// Number of recorded writes, trims and Write Zeroes requests with force unit access.
    pub force_unit_access: u64,
    /// Number of lines that the application printed during the recording.
    pub lines_printed: usize,
    /// Number of epochs of the recording: ranges of power cuts within which no further write becomes durable.
    pub epochs: usize,
}

/// Crash images of a recording: how many are possible, and how many passed or failed the check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckedImages {
    /// Number of different crash images that the recording allows; null if there are too many to count.
    pub possible: Option<u64>,
    /// Decimal logarithm of the number of possible crash images, which is approximate where `possible` is null.
    pub possible_log10: f64,
    /// Number of crash images on which the check ran.
    pub tested: usize,
    /// Number of crash images on which the check failed.
    pub failed: usize,
    /// Number of crash images on which the check took longer than `--timeout` allows.
    pub timed_out: usize,
    /// Time in seconds that all checks took together on the wall clock.
    pub elapsed_s: f64,
    /// Names of failing crash images, which `--image` takes; at most 100.
    pub failing: Vec<String>,
}

/// Failing crash image with the fewest lost writes, and the output of its check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SmallestCrash {
    /// Name of the smallest failing crash image, which `--image` takes.
    pub image: String,
    /// Description of the smallest failing crash image in sentences: the power cut, and the lost writes.
    pub words: Vec<String>,
    /// Clauses of specifications and keys of the drive that allow the losses of the smallest failing crash image.
    pub rules: Vec<String>,
    /// Way in which the check of the smallest failing crash image ended, in words.
    pub check: String,
    /// Beginning of the output of the check on the smallest failing crash image.
    pub said: String,
    /// Command line that checks the smallest failing crash image again.
    pub command: String,
}

impl CrashDrive {
    /// Returns the size and the durability rules of the drive of a recording.
    pub fn of(recording: &Recording) -> CrashDrive {
        let DurabilityRules { block_bytes, atomic_bytes, durability } = recording.rules;
        CrashDrive {
            capacity_bytes: recording.capacity_bytes,
            block_bytes,
            atomic_write_bytes: atomic_bytes,
            zones: recording.zones.map(|layout| layout.zones),
            kept_once: match durability {
                Durability::OnFlush => KeptOnce::Flushed,
                Durability::OnAcknowledgement => KeptOnce::Answered,
            },
            layout: recording.zones,
        }
    }

    /// Returns a sentence on the size and the durability rules of the drive.
    pub fn sentence(&self) -> String {
        let block = size(self.block_bytes.into());
        let kept = match self.kept_once {
            KeptOnce::Flushed => "flushed",
            KeptOnce::Answered => "answered",
        };
        let whole = match self.atomic_write_bytes {
            bytes if bytes == self.block_bytes => format!("blocks of {block} are whole"),
            bytes => format!("writes of up to {} are whole, longer ones in blocks of {block}", size(bytes.into())),
        };
        let zones = self.layout.map_or_else(String::new, |ZoneLayout { zones, zone_blocks, .. }| {
            let each = size(zone_blocks * u64::from(self.block_bytes));
            let zones = counted(zones.into(), "zone");
            format!(" It has {zones} of {each}: what survives of a zone are its first blocks.")
        });
        format!("A drive of {}: a write is kept once it is {kept}, and {whole}.{zones}", size(self.capacity_bytes))
    }
}

impl RecordedRequests {
    /// Counts the requests of a recording, and the bytes that they write.
    pub fn of(recording: &Recording, timeline: &CutTimeline) -> RecordedRequests {
        let is_action = |kind: &RecordedOp| matches!(kind, RecordedOp::Reset | RecordedOp::Finish);
        let mut counts = RecordedRequests {
            lines_printed: recording.lines.len(),
            epochs: timeline.epochs().len(),
            ..RecordedRequests::default()
        };
        for request in &recording.requests {
            *match request.kind {
                RecordedOp::Write(_) => &mut counts.writes,
                RecordedOp::Trim => &mut counts.trims,
                RecordedOp::Zero => &mut counts.zeroings,
                RecordedOp::Reset => &mut counts.zone_resets,
                RecordedOp::Finish => &mut counts.zone_finishes,
                RecordedOp::Flush => &mut counts.flushes,
            } += 1;
            if matches!(request.kind, RecordedOp::Write(_)) {
                counts.written_bytes += u64::from(request.bytes);
            }
            counts.force_unit_access += u64::from(request.durable && !is_action(&request.kind));
        }
        counts
    }
}
