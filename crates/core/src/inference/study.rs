//! Answers about a cache on one drive: exact totals of all requests, and times from the windows in which the drive is simulated.

use super::model::Accelerators;
use super::source::{PromptSource, PromptSums};
use super::tiers::{BlockCount, CachePlan, CacheTotals, RequestParts, Tiers};
use super::windows::{FullRateTimes, SampledWindow, StripedDrives, WindowRequest, WindowTimes, WindowWork, add_pieces};
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
/// Requests that are kept for percentiles.
const KEPT_MAX: usize = 1 << 16;

/// Totals of a trace, and the work in its windows.
#[derive(Clone, Debug)]
pub struct CacheWalk {
    /// Exact totals of all requests.
    pub totals: CacheTotals,
    /// Times that do not depend on the drive, of all requests.
    pub prompts: PromptTimes,
    /// Work in each window.
    pub windows: Vec<WindowWork>,
}

/// Times of requests that follow from their cached and computed parts alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartTimes {
    /// Seconds of the computation: with the cache, without the drive, without any cache.
    pub prefill_s: [f64; 3],
    /// Seconds in which blocks of host memory are copied to the accelerators.
    pub copy_s: f64,
    /// Bytes that are read from all drives.
    pub drive_bytes: u64,
}

/// Sums of these times over all requests, and some requests one by one.
#[derive(Clone, Debug)]
pub struct PromptTimes {
    /// Number of requests.
    requests: u64,
    prefill_s: [f64; 3],
    copy_s: f64,
    /// Every `stride`-th request, for percentiles.
    kept: Vec<PartTimes>,
    stride: u64,
}

impl PromptTimes {
    fn new() -> PromptTimes {
        PromptTimes { requests: 0, prefill_s: [0.0; 3], copy_s: 0.0, kept: Vec::new(), stride: 1 }
    }

    fn add(&mut self, times: PartTimes) {
        if self.requests.is_multiple_of(self.stride) {
            if self.kept.len() == KEPT_MAX {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.stride *= 2;
            }
            if self.requests.is_multiple_of(self.stride) {
                self.kept.push(times);
            }
        }
        self.requests += 1;
        self.copy_s += times.copy_s;
        self.prefill_s.iter_mut().zip(times.prefill_s).for_each(|(sum, part)| *sum += part);
    }

    /// Mean seconds of the computation: with the cache, without the drive, without any cache.
    pub fn mean_prefill_s(&self) -> [f64; 3] {
        self.prefill_s.map(|sum| sum / self.requests.max(1) as f64)
    }

    /// Time to the first token, where waits add so many seconds for each byte of the drive, with the ends of their interval.
    fn first_token(&self, place: usize, drive_bytes: u64, wait: TimePerByte) -> SampledTime {
        let copies = if place < 2 { self.copy_s } else { 0.0 };
        let exact_s = (self.prefill_s[place] + copies) / self.requests.max(1) as f64;
        let bytes = if place == 0 { drive_bytes as f64 / self.requests.max(1) as f64 } else { 0.0 };
        let of_request = |times: &PartTimes| {
            let copy_s = if place < 2 { times.copy_s } else { 0.0 };
            let bytes = if place == 0 { times.drive_bytes as f64 } else { 0.0 };
            times.prefill_s[place] + copy_s + bytes * wait.s_per_byte
        };
        let mut kept: Vec<f64> = self.kept.iter().map(of_request).collect();
        kept.sort_by(f64::total_cmp);
        SampledTime {
            mean_s: exact_s + bytes * wait.s_per_byte,
            interval_s: wait.interval().map(|s_per_byte| exact_s + bytes * s_per_byte),
            p50_s: at(&kept, 0.5),
            p99_s: at(&kept, 0.99),
        }
    }
}

/// Seconds for each byte of the drive, with an interval (95 %).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TimePerByte {
    s_per_byte: f64,
    half_width: f64,
}

impl TimePerByte {
    /// Ratio of all times to all bytes, each summed up by window. The error of a ratio is that of its numerator less the ratio times
    /// its denominator (Cochran, "Sampling Techniques", 1977, chapter 6).
    fn of(windows: &[(f64, f64)]) -> TimePerByte {
        let (times, bytes) = windows.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if bytes == 0.0 {
            return TimePerByte::default();
        }
        let s_per_byte = times / bytes;
        let errors: Vec<f64> = windows.iter().map(|(time, bytes)| time - s_per_byte * bytes).collect();
        TimePerByte { s_per_byte, half_width: half_width(&errors) * windows.len() as f64 / bytes }
    }

    fn interval(&self) -> [f64; 2] {
        [(self.s_per_byte - self.half_width).max(0.0), self.s_per_byte + self.half_width]
    }
}

/// Value below which a share of sorted values lies; 0 of none.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Serves all requests of a trace from the tiers, and keeps what reaches the first drive in the windows.
///
/// # Errors
/// A file that has changed since it was checked.
pub fn walk(
    source: &PromptSource,
    plan: &CachePlan,
    accelerators: &Accelerators,
    windows: &[SampledWindow],
    drives: StripedDrives,
) -> Result<CacheWalk, Problem> {
    let mut tiers = Tiers::new(plan.clone());
    let mut prompts = PromptTimes::new();
    let mut works = vec![WindowWork::default(); windows.len()];
    let (mut place, mut start_ns) = (0, 0);
    for (number, request) in (0u64..).zip(source.requests()) {
        let request = request?;
        while windows.get(place).is_some_and(|window| number >= window.end()) {
            place += 1;
        }
        let window = windows.get(place).filter(|window| number >= window.first);
        let Some(window) = window else {
            let parts = tiers.serve(&request, &mut |_| ());
            prompts.add(part_times(plan, accelerators, &parts));
            continue;
        };
        if number == window.first {
            start_ns = request.at_ns;
        }
        let work = &mut works[place];
        let parts = tiers.serve(&request, &mut |access| add_pieces(work, drives, &access));
        prompts.add(part_times(plan, accelerators, &parts));
        let counts = number >= window.first + window.lead_in;
        work.requests.push(WindowRequest { at: Span::from_ns(request.at_ns - start_ns), counts, parts });
    }
    Ok(CacheWalk { totals: tiers.totals().clone(), prompts, windows: works })
}

fn part_times(plan: &CachePlan, accelerators: &Accelerators, parts: &RequestParts) -> PartTimes {
    let token_bytes = plan.model.token_bytes();
    // Objects have bytes alone.
    let tokens = |count: &BlockCount| count.tokens.max(count.bytes.div_ceil(token_bytes));
    let hits = parts.hits.each_ref().map(tokens);
    let cached = [hits.iter().sum::<u64>(), hits[0] + hits[1], 0];
    let all = cached[0] + tokens(&parts.computed);
    PartTimes {
        prefill_s: cached.map(|cached| accelerators.prefill_s(&plan.model, cached, all - cached)),
        copy_s: parts.hits[1].bytes as f64 / accelerators.host_bytes_per_s,
        drive_bytes: parts.hits[2].bytes,
    }
}

/// Share of what the drives do at full rate that the trace asks for; above 1, they fall behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheLoad {
    /// Most bytes a second that all drives do of this mix.
    pub most_bytes_per_s: f64,
    /// Bytes a second that are asked for, as a share of the most.
    pub share: f64,
    /// Ends of the interval of the share (95 %).
    pub interval: [f64; 2],
}

impl CacheLoad {
    /// Load by a trace, as far as windows at full rate tell; none if no window has an access.
    pub fn of(
        walk: &CacheWalk,
        sums: PromptSums,
        drives: StripedDrives,
        full_rate: &[FullRateTimes],
    ) -> Option<CacheLoad> {
        let windows: Vec<(f64, f64)> = full_rate.iter().map(|times| (times.busy.as_s(), times.bytes as f64)).collect();
        let busy = TimePerByte::of(&windows);
        let totals = &walk.totals;
        let asked_bytes_per_s = (totals.hits[2].bytes + totals.written.bytes) as f64 / duration_s(sums);
        let share = |s_per_byte: f64| asked_bytes_per_s * s_per_byte / drives.count as f64;
        (busy.s_per_byte > 0.0).then(|| CacheLoad {
            most_bytes_per_s: drives.count as f64 / busy.s_per_byte,
            share: share(busy.s_per_byte),
            interval: busy.interval().map(share),
        })
    }

    /// True if the drives fall behind for sure, so that waits grow as long as the load lasts and have no mean.
    pub fn is_too_much(&self) -> bool {
        self.interval[0] > 1.0
    }
}

fn duration_s(sums: PromptSums) -> f64 {
    (sums.duration_ns as f64 / 1e9).max(1e-9)
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
        let (middle, half) = (mean(&means), half_width(&means));
        Some(SampledTime {
            mean_s: middle,
            interval_s: [(middle - half).max(0.0), middle + half],
            p50_s: at(&all, 0.5),
            p99_s: at(&all, 0.99),
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

/// Time until the cells of a drive are worn out by the writes of a cache.
#[derive(Clone, Debug, PartialEq)]
pub enum CacheLifetime {
    /// Lifetime of one drive.
    Known(CellLifetime),
    /// The answer lacks a value of the drive, which the text names.
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
    /// Load of the drives, as far as windows tell.
    pub load: Option<CacheLoad>,
    /// Longest wait of a request for its reads, over the requests that read; none if no window has any, or the load is too much.
    pub read_wait: Option<SampledTime>,
    /// Time to the first token; none if the load is too much.
    pub first_token: Option<SampledTime>,
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
    /// True if the drives fall behind for sure.
    pub fn falls_behind(&self) -> bool {
        self.load.is_some_and(|load| load.is_too_much())
    }
}

/// Parts from which an answer is computed.
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
    /// Totals and windows.
    pub walk: &'a CacheWalk,
    /// Load of the drives.
    pub load: Option<CacheLoad>,
    /// Times of each window at the requests' own times; empty if the load is too much.
    pub open: Vec<WindowTimes>,
}

impl CacheMeasurement<'_> {
    /// Makes the answer.
    pub fn answer(&self) -> CacheAnswer {
        let windows: Vec<Vec<(f64, u64)>> = self.walk.windows.iter().zip(&self.open).map(waits).collect();
        let sums = windows.iter().map(|window| {
            window.iter().fold((0.0, 0.0), |sum, (wait_s, bytes)| (sum.0 + wait_s, sum.1 + *bytes as f64))
        });
        let rate = TimePerByte::of(&sums.collect::<Vec<_>>());
        let waits_s: Vec<Vec<f64>> =
            windows.iter().map(|window| window.iter().map(|(wait_s, _)| *wait_s).collect()).collect();
        let duration_s = duration_s(self.sums);
        let per_s = self.sums.requests as f64 / duration_s;
        let prompts = &self.walk.prompts;
        let first_token = |place: usize| prompts.first_token(place, self.walk.totals.hits[2].bytes, rate);
        let totals = self.walk.totals.clone();
        let written_bytes_per_s = totals.written.bytes as f64 / duration_s;
        let capacity_bytes = self.drive.limits().capacity_bytes as f64 * self.drives.count as f64;
        CacheAnswer {
            duration_s,
            read_bytes_per_s: totals.hits[2].bytes as f64 / duration_s,
            written_bytes_per_s,
            load: self.load,
            read_wait: SampledTime::of(&waits_s),
            first_token: self.load.is_none_or(|load| !load.is_too_much()).then(|| first_token(0)),
            without_drive: first_token(1),
            recomputed: first_token(2),
            prefill_shares: prompts.mean_prefill_s().map(|mean_s| mean_s * per_s),
            drive_writes_per_day: written_bytes_per_s * DAY_S / capacity_bytes,
            lifetime: self.lifetime(written_bytes_per_s * DAY_S / self.drives.count as f64),
            sampled_requests: self.sampled_requests(),
            totals,
        }
    }

    fn sampled_requests(&self) -> u64 {
        let simulated = self.walk.windows.iter().zip(&self.open);
        simulated.map(|(work, _)| work.requests.iter().filter(|it| it.counts).count() as u64).sum()
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

/// Waits of the requests of a window that count and read, in seconds, with the bytes that each read from all drives.
fn waits((work, times): (&WindowWork, &WindowTimes)) -> Vec<(f64, u64)> {
    let pairs = work.requests.iter().zip(&times.read_waits).filter(|(request, _)| request.counts);
    pairs.filter_map(|(request, wait)| Some((wait.as_ref()?.as_s(), request.parts.hits[2].bytes))).collect()
}

/// True if any window has a write.
pub fn has_writes(windows: &[WindowWork]) -> bool {
    windows.iter().flat_map(|work| &work.pieces).any(|piece| piece.io.op == Op::Write)
}
