//! Answer of `endurance` as one type: the JSON document, from which the text is made.

use phaselink_core::drive::Drive;
use phaselink_core::media::lifetime::MemoryLifetime;
use phaselink_core::number::real;
use schemars::JsonSchema;
use serde::Serialize;

use crate::predict::lifetime::FlashLifetime;
use crate::results::documents::Description;

/// JSON document of `phaselink endurance`: lifetimes of the memory of a drive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EnduranceAnswer {
    /// Seed of the random order of lines in randomised Start-Gap wear levelling; absent for flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Name of the drive whose memory wears out.
    pub drive: String,
    /// Lifetimes of the memory: of flash, a row for each write pattern and size; of other memories, a row for each
    /// write pattern and kind of wear levelling.
    pub lifetimes: LifetimeRows,
    /// Description of the drive, with every key resolved.
    pub description: Description,
    /// Number of bytes written a day for which the text shows the lifetime of flash.
    #[serde(skip)]
    pub(super) per_day: Option<u64>,
    /// Drive whose constants the text states.
    #[serde(skip)]
    pub(super) constants: Drive,
}

/// Rows of lifetimes of one kind of memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LifetimeRows {
    /// Lifetimes of flash behind a translation layer.
    Flash(Vec<FlashLifetimeRow>),
    /// Lifetimes of a memory without a translation layer.
    Lines(Vec<LineLifetimeRow>),
}

/// Lifetime of the flash of a drive under one write pattern with one size of writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlashLifetimeRow {
    /// Lifetime of the flash, with the figures of data sheets.
    #[serde(flatten)]
    pub lifetime: FlashLifetime,
    /// Number of bytes written a day, for which `years_at_bytes_per_day` is the lifetime; null if none is given.
    pub bytes_per_day: Option<u64>,
    /// Lifetime in years if `bytes_per_day` bytes are written each day; null if no number is given.
    pub years_at_bytes_per_day: Option<f64>,
}

/// Lifetime of a memory without a translation layer, under one write pattern with one kind of wear levelling.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LineLifetimeRow {
    /// Distribution of writes over the lines of the memory: `uniform`, `hot-range`, `zipf` or `hammer`.
    pub workload: String,
    /// Wear levelling of the memory: `none`, `start-gap` or `randomised-start-gap`.
    #[serde(rename = "wear_levelling")]
    pub levelling: String,
    /// Number of line writes to the whole memory until the first line is worn out.
    pub line_writes: f64,
    /// Share that `line_writes` are of the endurance of all lines together.
    pub ideal_share: f64,
    /// Number of line writes a second that the saturated memory sustains, with the load of moved gaps.
    pub line_writes_per_s: f64,
    /// Lifetime in years if the memory is written without a pause at `line_writes_per_s`.
    pub years: f64,
}

impl EnduranceAnswer {
    /// Collects the answer for a drive from its rows.
    pub(super) fn new(
        drive: &Drive,
        seed: Option<u64>,
        per_day: Option<u64>,
        lifetimes: LifetimeRows,
    ) -> EnduranceAnswer {
        EnduranceAnswer {
            seed,
            drive: drive.name.clone(),
            lifetimes,
            description: Description(drive.resolved()),
            per_day,
            constants: drive.clone(),
        }
    }
}

impl FlashLifetimeRow {
    /// Makes a row of a lifetime, with the years that the flash lasts at `per_day` bytes written a day.
    pub(super) fn new(lifetime: FlashLifetime, per_day: Option<u64>) -> FlashLifetimeRow {
        let years_at_bytes_per_day = per_day.map(|bytes| lifetime.years_at(real(bytes)));
        FlashLifetimeRow { lifetime, bytes_per_day: per_day, years_at_bytes_per_day }
    }
}

impl From<&MemoryLifetime> for LineLifetimeRow {
    fn from(lifetime: &MemoryLifetime) -> LineLifetimeRow {
        LineLifetimeRow {
            workload: lifetime.workload.name().into(),
            levelling: lifetime.wear_levelling.name().into(),
            line_writes: lifetime.line_writes,
            ideal_share: lifetime.ideal_share,
            line_writes_per_s: lifetime.line_writes_per_s,
            years: lifetime.years,
        }
    }
}
