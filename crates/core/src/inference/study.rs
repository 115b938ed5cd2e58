//! Answers about a cache on one drive: exact totals of all requests, and times from the windows in which the drive is simulated.

use super::model::Accelerators;
use super::source::{PromptSource, PromptSums};
use super::tiers::{CachePlan, CacheTotals, RequestParts, Tiers};
use super::windows::{SampledWindow, StripedDrives, WindowRequest, WindowTimes, WindowWork, add_pieces};
use crate::drive::Drive;
use crate::predict::lifetime::{WrittenPattern, flash_lifetime};
use crate::problem::{Problem, Problems};
use crate::request::Op;
use crate::time::Span;

/// Seconds and days.
const DAY_S: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
/// Normal quantile for 97.5 %: half of the 5 % lies on either side of an interval.
const NORMAL: f64 = 1.959_964;
/// Largest write whose amplification is computed; larger ones fill whole blocks of the flash as these do.
const WRITE_BYTES_MAX: u64 = 1 << 24;

/// Totals of a trace, and the work in its windows.
#[derive(Clone, Debug)]
pub struct CacheWalk {
    /// Exact totals of all requests.
    pub totals: CacheTotals,
    /// Work in each window.
    pub windows: Vec<WindowWork>,
}

/// Serves all requests of a trace from the tiers, and keeps what reaches the first drive in the windows.
///
/// # Errors
/// A file that has changed since it was checked.
pub fn walk(
    source: &PromptSource,
    plan: &CachePlan,
    windows: &[SampledWindow],
    drives: StripedDrives,
) -> Result<CacheWalk, Problem> {
    let mut tiers = Tiers::new(plan.clone());
    let mut works = vec![WindowWork::default(); windows.len()];
    let (mut place, mut start_ns) = (0, 0);
    for (number, request) in (0u64..).zip(source.requests()) {
        let request = request?;
        while windows.get(place).is_some_and(|window| number >= window.end()) {
            place += 1;
        }
        let window = windows.get(place).filter(|window| number >= window.first);
        let Some(window) = window else {
            tiers.serve(&request, &mut |_| ());
            continue;
        };
        if number == window.first {
            start_ns = request.at_ns;
        }
        let work = &mut works[place];
        let parts = tiers.serve(&request, &mut |access| add_pieces(work, drives, &access));
        let counts = number >= window.first + window.lead_in;
        work.requests.push(WindowRequest { at: Span::from_ns(request.at_ns - start_ns), counts, parts });
    }
    Ok(CacheWalk { totals: tiers.totals().clone(), windows: works })
}

/// A mean over windows with its interval (95 %), and percentiles over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampledTime {
    /// Mean in seconds.
    pub mean_s: f64,
    /// Ends of the interval of the mean, in seconds.
    pub interval_s: [f64; 2],
    /// Median in seconds.
    pub p50_s: f64,
    /// 99th percentile in seconds.
    pub p99_s: f64,
}

impl SampledTime {
    /// Sums up the times of each window; none if no window has any.
    fn of(windows: &[Vec<f64>]) -> Option<SampledTime> {
        let means: Vec<f64> = windows.iter().filter(|times| !times.is_empty()).map(|times| mean(times)).collect();
        let mut all: Vec<f64> = windows.concat();
        if all.is_empty() {
            return None;
        }
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[((share * all.len() as f64) as usize).min(all.len() - 1)];
        let (middle, half) = (mean(&means), half_width(&means));
        Some(SampledTime {
            mean_s: middle,
            interval_s: [(middle - half).max(0.0), middle + half],
            p50_s: at(0.5),
            p99_s: at(0.99),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half of the interval around the mean of independent values, with Student's t by its expansion in one over the degrees of freedom
/// (Abramowitz and Stegun 26.7.5); 0 of a single one.
fn half_width(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle) * (value - middle)).sum();
    let (free, z) = (values.len() as f64 - 1.0, NORMAL);
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    let student = z + (z3 + z) / (4.0 * free) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * free * free);
    student * libm::sqrt(squares / free / values.len() as f64)
}

/// How long the cells of a drive last under the writes of a cache.
#[derive(Clone, Debug, PartialEq)]
pub enum CacheLifetime {
    /// Lifetime of one drive.
    Known(CellLifetime),
    /// What is missing for an answer.
    Missing(String),
    /// Nothing is written.
    NoWrites,
}

/// Lifetime of a drive's cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellLifetime {
    /// Bytes programmed for each byte written, with blocks of all ages side by side; 1 for memory that is written in place.
    pub write_amplification: f64,
    /// Years until the cells have taken their cycles.
    pub years: f64,
    /// Years if garbage collection never moved a block, which placement by lifetime (FDP) comes near to; none for memory that has no
    /// garbage collection.
    pub placed_years: Option<f64>,
    /// Drive writes a day that the cells would endure for five years.
    pub rated_writes_per_day: f64,
}

/// Answers about one drive.
#[derive(Clone, Debug)]
pub struct CacheAnswer {
    /// Exact totals of all requests.
    pub totals: CacheTotals,
    /// Seconds of the trace.
    pub duration_s: f64,
    /// Bytes that all drives read a second.
    pub read_bytes_per_s: f64,
    /// Bytes that all drives write a second.
    pub written_bytes_per_s: f64,
    /// Most bytes a second that all drives do of this mix, as far as windows tell.
    pub most_bytes_per_s: Option<f64>,
    /// Longest wait of a request for its reads, over the requests that read.
    pub read_wait: Option<SampledTime>,
    /// Time to the first token.
    pub first_token: SampledTime,
    /// Time to the first token if blocks of the drive are computed instead.
    pub without_drive: SampledTime,
    /// Time to the first token if everything is computed.
    pub recomputed: SampledTime,
    /// Share of a second for which the accelerators compute prompts, with the cache, without the drive, and without any.
    pub prefill_shares: [f64; 3],
    /// Writes of the whole drive a day.
    pub drive_writes_per_day: f64,
    /// Lifetime of the cells.
    pub lifetime: CacheLifetime,
    /// Requests that were simulated and count.
    pub sampled_requests: u64,
}

impl CacheAnswer {
    /// Share of the drives' rate that is asked for; above 1, they fall behind.
    pub fn utilisation(&self) -> Option<f64> {
        Some((self.read_bytes_per_s + self.written_bytes_per_s) / self.most_bytes_per_s?)
    }
}

/// What an answer is made of.
#[derive(Clone, Debug)]
pub struct CacheMeasurement<'a> {
    /// The drive.
    pub drive: &'a Drive,
    /// Drives of the tier.
    pub drives: StripedDrives,
    /// Sums of the trace.
    pub sums: PromptSums,
    /// The cache.
    pub plan: &'a CachePlan,
    /// Accelerators that compute prompts.
    pub accelerators: Accelerators,
    /// Totals and windows.
    pub walk: &'a CacheWalk,
    /// Times of each window at the requests' own times.
    pub open: Vec<WindowTimes>,
    /// Times of some windows at full rate.
    pub closed: Vec<WindowTimes>,
}

/// Seconds of a request.
struct RequestTimes {
    read_wait_s: Option<f64>,
    /// Times to the first token: with the cache, without the drive, without any cache.
    first_token_s: [f64; 3],
    /// Times of the computation, likewise.
    prefill_s: [f64; 3],
}

impl CacheMeasurement<'_> {
    /// Makes the answer.
    pub fn answer(&self) -> CacheAnswer {
        let windows: Vec<Vec<RequestTimes>> =
            self.walk.windows.iter().zip(&self.open).map(|it| self.times(it)).collect();
        let all = |time: &dyn Fn(&RequestTimes) -> Option<f64>| -> Vec<Vec<f64>> {
            windows.iter().map(|window| window.iter().filter_map(time).collect()).collect()
        };
        let first_token = |place: usize| SampledTime::of(&all(&|it| Some(it.first_token_s[place]))).unwrap_or_default();
        let duration_s = (self.sums.duration_ns as f64 / 1e9).max(1e-9);
        let per_s = self.sums.requests as f64 / duration_s;
        let share = |place: usize| mean(&all(&|it| Some(it.prefill_s[place])).concat()) * per_s;
        let totals = self.walk.totals.clone();
        let written_bytes_per_s = totals.written.bytes as f64 / duration_s;
        let capacity_bytes = self.drive.limits().capacity_bytes as f64 * self.drives.count as f64;
        CacheAnswer {
            duration_s,
            read_bytes_per_s: totals.hits[2].bytes as f64 / duration_s,
            written_bytes_per_s,
            most_bytes_per_s: self.most_bytes_per_s(),
            read_wait: SampledTime::of(&all(&|it| it.read_wait_s)),
            first_token: first_token(0),
            without_drive: first_token(1),
            recomputed: first_token(2),
            prefill_shares: [share(0), share(1), share(2)],
            drive_writes_per_day: written_bytes_per_s * DAY_S / capacity_bytes,
            lifetime: self.lifetime(written_bytes_per_s * DAY_S / self.drives.count as f64),
            sampled_requests: windows.iter().map(|window| window.len() as u64).sum(),
            totals,
        }
    }

    fn most_bytes_per_s(&self) -> Option<f64> {
        let bytes: u64 = self.closed.iter().map(|times| times.bytes).sum();
        let busy_s: f64 = self.closed.iter().map(|times| times.busy.as_s()).sum();
        (bytes > 0).then(|| bytes as f64 / busy_s * self.drives.count as f64)
    }

    fn times(&self, (work, times): (&WindowWork, &WindowTimes)) -> Vec<RequestTimes> {
        let pairs = work.requests.iter().zip(&times.read_waits).filter(|(request, _)| request.counts);
        pairs.map(|(request, wait)| self.times_of(&request.parts, wait.map(Span::as_s))).collect()
    }

    fn times_of(&self, parts: &RequestParts, read_wait_s: Option<f64>) -> RequestTimes {
        let token_bytes = self.plan.model.token_bytes();
        // Objects have bytes alone.
        let tokens = |count: &super::tiers::BlockCount| count.tokens.max(count.bytes.div_ceil(token_bytes));
        let hits = parts.hits.each_ref().map(tokens);
        let computed = tokens(&parts.computed);
        let cached = [hits.iter().sum::<u64>(), hits[0] + hits[1], 0];
        let all = cached[0] + computed;
        let prefill_s = cached.map(|cached| self.accelerators.prefill_s(&self.plan.model, cached, all - cached));
        let copy_s = parts.hits[1].bytes as f64 / self.accelerators.host_bytes_per_s;
        let waits_s = [read_wait_s.unwrap_or(0.0) + copy_s, copy_s, 0.0];
        RequestTimes {
            read_wait_s,
            first_token_s: std::array::from_fn(|place| prefill_s[place] + waits_s[place]),
            prefill_s,
        }
    }

    /// Lifetime of a drive to which so many bytes are written a day.
    fn lifetime(&self, bytes_per_day: f64) -> CacheLifetime {
        let (drive, media) = (self.drive, &self.drive.media);
        if bytes_per_day == 0.0 {
            return CacheLifetime::NoWrites;
        }
        if media.endurance_cycles == 0 {
            let found = "media.endurance_cycles is 0, which is unknown: --set media.endurance_cycles=N says how many";
            return CacheLifetime::Missing(String::from(found));
        }
        if !drive.is_flash() {
            let capacity_bytes = drive.limits().capacity_bytes as f64;
            let bytes = capacity_bytes * media.endurance_cycles as f64;
            return CacheLifetime::Known(CellLifetime {
                write_amplification: 1.0,
                years: bytes / bytes_per_day / YEAR_DAYS,
                placed_years: None,
                rated_writes_per_day: media.endurance_cycles as f64 / (5.0 * YEAR_DAYS),
            });
        }
        let write_bytes = self.plan.block_room_bytes().min(WRITE_BYTES_MAX) as u32;
        match flash_lifetimes(drive, write_bytes) {
            Ok([mixed, placed]) => CacheLifetime::Known(CellLifetime {
                write_amplification: mixed.write_amplification,
                years: mixed.years_at(bytes_per_day),
                placed_years: Some(placed.years_at(bytes_per_day)),
                rated_writes_per_day: mixed.drive_writes_per_day,
            }),
            Err(problems) => CacheLifetime::Missing(problems.to_string()),
        }
    }
}

fn flash_lifetimes(drive: &Drive, bytes: u32) -> Result<[crate::predict::lifetime::FlashLifetime; 2], Problems> {
    Ok([
        flash_lifetime(drive, WrittenPattern::Random, bytes)?,
        flash_lifetime(drive, WrittenPattern::Sequential, bytes)?,
    ])
}

/// True if any window has a write.
pub fn has_writes(windows: &[WindowWork]) -> bool {
    windows.iter().flat_map(|work| &work.pieces).any(|piece| piece.io.op == Op::Write)
}
