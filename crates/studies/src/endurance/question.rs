//! Question of `endurance`: write patterns, and the sizes or the seed that a kind of memory needs.

use phaselink_core::drive::Drive;
use phaselink_core::media::lifetime::{WearWorkload, lifetimes};
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{EnduranceAnswer, FlashLifetimeRow, LifetimeRows, LineLifetimeRow};
use crate::predict::lifetime::{WrittenPattern, flash_lifetime};
use crate::report::block_sizes;

/// Sizes in bytes of sequential and of random writes to flash, if a question gives none.
const SEQUENTIAL: &[u32] = &[131_072];
const RANDOM: &[u32] = &[4096];
/// Seed of a question that gives none.
const SEED: u64 = 1;

/// Question of `endurance`: how long does the memory of a drive last?
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnduranceQuestion {
    /// Names of write patterns: `sequential`, `random` (flash); `uniform`, `hot-range`, `zipf`, `hammer` (other
    /// memories). Empty for all of them.
    pub workload: Vec<String>,
    /// Sizes of writes to flash in bytes. Empty for 128 KiB of sequential and 4 KiB of random writes.
    #[serde(deserialize_with = "block_sizes")]
    pub bs: Vec<u32>,
    /// Number of bytes written to flash a day, for which the lifetime is computed, too.
    #[serde(deserialize_with = "daily_bytes")]
    pub per_day: Option<u64>,
    /// Seed of the random order of lines in randomised Start-Gap wear levelling, 1 if it is left out; not for flash.
    pub seed: Option<u64>,
}

/// Parses a number of bytes a day, such as `500g`; none for a text that is not a size, or for 0.
pub fn bytes_per_day(text: &str) -> Option<u64> {
    workload::bytes(text).filter(|bytes| *bytes > 0)
}

fn daily_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || D::Error::custom(format!("size `{text}`; allowed: a number of bytes, or a size as in 500g"));
    bytes_per_day(&text).ok_or_else(wrong).map(Some)
}

impl EnduranceQuestion {
    /// Returns the lifetime of a drive's memory for each write pattern, and for each size or kind of wear levelling.
    ///
    /// # Errors
    /// Unknown patterns, values that have no effect on this kind of memory, and a memory without an endurance.
    pub fn answer(&self, drive: &Drive) -> Result<EnduranceAnswer, Problems> {
        let (seed, rows) = match drive.is_flash() {
            true => (None, self.flash(drive)?),
            false => (Some(self.seed.unwrap_or(SEED)), self.lines(drive)?),
        };
        Ok(EnduranceAnswer::new(drive, seed, self.per_day, rows))
    }

    fn flash(&self, drive: &Drive) -> Result<LifetimeRows, Problems> {
        if self.seed.is_some() {
            let found = format!("--seed has no effect on {}, of whose flash nothing is drawn", drive.name);
            return Err(Problem::new("command line", None, found, "a drive without a translation layer").into());
        }
        let of_flash = " for flash behind a translation layer, which spreads all writes";
        let patterns = self.patterns(WrittenPattern::ALL, WrittenPattern::name, WrittenPattern::named, of_flash)?;
        let points = patterns.into_iter().flat_map(|pattern| {
            let usual = if pattern == WrittenPattern::Sequential { SEQUENTIAL } else { RANDOM };
            let sizes = if self.bs.is_empty() { usual } else { &self.bs };
            sizes.iter().map(move |bytes| (pattern, *bytes))
        });
        let row = |(pattern, bytes)| Ok(FlashLifetimeRow::new(flash_lifetime(drive, pattern, bytes)?, self.per_day));
        Ok(LifetimeRows::Flash(all(points.map(row))?))
    }

    fn lines(&self, drive: &Drive) -> Result<LifetimeRows, Problems> {
        for (flag, is_given) in [("--bs", !self.bs.is_empty()), ("--per-day", self.per_day.is_some())] {
            if is_given {
                let found = format!("{flag} has no effect on {}, whose memory has no translation layer", drive.name);
                return Err(Problem::new("command line", None, found, "a drive of flash").into());
            }
        }
        let workloads = self.patterns(WearWorkload::ALL, WearWorkload::name, WearWorkload::named, "")?;
        let seed = self.seed.unwrap_or(SEED);
        let groups = all(workloads
            .into_iter()
            .map(|workload| lifetimes(&drive.name, &drive.media, workload, seed).map_err(Problems::from)))?;
        Ok(LifetimeRows::Lines(groups.iter().flatten().map(LineLifetimeRow::from).collect()))
    }

    /// Returns the write patterns that the question names, out of `known` ones; `place` ends the message about others.
    fn patterns<P: Copy, const N: usize>(
        &self,
        known: [P; N],
        name: fn(P) -> &'static str,
        named: fn(&str) -> Option<P>,
        place: &str,
    ) -> Result<Vec<P>, Problems> {
        if self.workload.is_empty() {
            return Ok(known.into());
        }
        let allowed = known.map(name).join(", ");
        all(self.workload.iter().map(|wanted| {
            let found = || format!("there is no workload `{wanted}`{place}");
            named(wanted).ok_or_else(|| Problem::new("command line", None, found(), &allowed).into())
        }))
    }
}
