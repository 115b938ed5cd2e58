//! Results of a key-value cache on one drive: exact hit counts of all requests, and times from the simulated windows.

use schemars::JsonSchema;
use serde::Serialize;

use super::model::Accelerators;
use super::source::{PromptSource, PromptTotals};
use super::tiers::{BlockCount, CachePlan, CacheTotals, RequestBlockParts, Tiers};
use super::windows::{
    FullRateResult, SampledWindow, StripedDrives, WindowRequest, WindowTimes, WindowWork, add_first_drive_pieces,
};
use crate::predict::lifetime::{WrittenPattern, flash_lifetime};
use phaselink_core::drive::Drive;
use phaselink_core::number::{length, real, real_length, whole, wide_index};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::request::Op;
use phaselink_core::time::Span;

/// Seconds of a day. The next constant is the number of days of a year.
const DAY_S: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
/// Quantile of the normal distribution for 97.5 %, for two-sided confidence intervals of 95 %.
const NORMAL: f64 = 1.959_964;
/// Largest write in bytes for which write amplification is computed. Larger ones fill whole flash blocks just as this
/// one does.
const WRITE_BYTES_MAX: u64 = 1 << 24;
/// Largest number of requests whose times are stored for percentiles.
const KEPT_MAX: usize = 1 << 16;

/// Result of serving a whole trace from the tiers: exact totals, times of the prompts, and the drive's work in each
/// window.
#[derive(Clone, Debug)]
pub struct CacheWalkResult {
    /// Exact totals of the cache over all requests of the trace.
    pub totals: CacheTotals,
    /// Times to compute and copy prompts, summed over all requests of the trace; they do not depend on the drive.
    pub prompts: PromptTimeSums,
    /// Requests and drive accesses in each sampled window (a range of the trace in which the drive is simulated).
    pub windows: Vec<WindowWork>,
}

/// Times of one request that follow from its cached and computed blocks alone, without the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestBaseTimes {
    /// Seconds to compute the prompt: with the whole cache, without its drive, without any cache.
    pub prefill_s: [f64; 3],
    /// Seconds to copy the request's blocks from host memory to the accelerators.
    pub copy_s: f64,
    /// Bytes of cached blocks that the request reads from all drives.
    pub drive_bytes: u64,
}

/// Sums of the computation and copy times over all requests, with a sample of requests for percentiles.
#[derive(Clone, Debug)]
pub struct PromptTimeSums {
    /// Number of requests whose computation and copy times are summed up.
    requests: u64,
    prefill_s: [f64; 3],
    copy_s: f64,
    /// Computation and copy times of every `stride`-th request, for percentiles.
    kept: Vec<RequestBaseTimes>,
    stride: u64,
}

impl PromptTimeSums {
    fn new() -> PromptTimeSums {
        PromptTimeSums { requests: 0, prefill_s: [0.0; 3], copy_s: 0.0, kept: Vec::new(), stride: 1 }
    }

    fn add(&mut self, times: RequestBaseTimes) {
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

    /// Returns the mean seconds to compute a prompt: with the whole cache, without its drive, without any cache.
    pub fn mean_prefill_s(&self) -> [f64; 3] {
        self.prefill_s.map(|sum| sum / real(self.requests.max(1)))
    }

    /// Returns the time to the first token, with an interval of its mean. `place` 0 is with the whole cache, 1 without
    /// its drive, 2 without any cache. `wait` is the time that each byte from the drive adds.
    fn first_token(&self, place: usize, drive_bytes: u64, wait: TimePerByte) -> SampledTime {
        let copies = if place < 2 { self.copy_s } else { 0.0 };
        let exact_s = (self.prefill_s[place] + copies) / real(self.requests.max(1));
        let bytes = if place == 0 { real(drive_bytes) / real(self.requests.max(1)) } else { 0.0 };
        let of_request = |times: &RequestBaseTimes| {
            let copy_s = if place < 2 { times.copy_s } else { 0.0 };
            let bytes = if place == 0 { real(times.drive_bytes) } else { 0.0 };
            times.prefill_s[place] + copy_s + bytes * wait.s_per_byte
        };
        let mut kept: Vec<f64> = self.kept.iter().map(of_request).collect();
        kept.sort_by(f64::total_cmp);
        let [low_s, high_s] = wait.interval().map(|s_per_byte| exact_s + bytes * s_per_byte);
        SampledTime {
            mean_s: exact_s + bytes * wait.s_per_byte,
            low_s,
            high_s,
            p50_s: at(&kept, 0.5),
            p99_s: at(&kept, 0.99),
        }
    }
}

/// Mean seconds for each byte that the drive transfers, with half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TimePerByte {
    s_per_byte: f64,
    half_width: f64,
}

impl TimePerByte {
    /// Returns the ratio of total time to total bytes over `windows`, each a pair of seconds and bytes. The error of a
    /// ratio is that of its numerator less the ratio times its denominator (Cochran, "Sampling Techniques", 1977,
    /// chapter 6).
    fn of(windows: &[(f64, f64)]) -> TimePerByte {
        let (times, bytes) = windows.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if bytes == 0.0 {
            return TimePerByte::default();
        }
        let s_per_byte = times / bytes;
        let errors: Vec<f64> = windows.iter().map(|(time, bytes)| time - s_per_byte * bytes).collect();
        TimePerByte { s_per_byte, half_width: half_width(&errors) * real_length(windows.len()) / bytes }
    }

    fn interval(&self) -> [f64; 2] {
        [(self.s_per_byte - self.half_width).max(0.0), self.s_per_byte + self.half_width]
    }
}

/// Returns the quantile `share` (0 to 1) of sorted values, or 0 if there are none.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = wide_index(whole(share * real_length(sorted.len())));
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Serves all requests of a trace from a tiered cache. Records the accesses to the first drive that fall into the
/// windows.
///
/// # Errors
/// If the trace file cannot be read, or has become invalid since it was checked.
pub fn walk(
    source: &PromptSource,
    plan: &CachePlan,
    accelerators: &Accelerators,
    windows: &[SampledWindow],
    drives: StripedDrives,
) -> Result<CacheWalkResult, Problem> {
    let mut tiers = Tiers::new(plan.clone());
    let mut prompts = PromptTimeSums::new();
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
            prompts.add(request_base_times(plan, accelerators, &parts));
            continue;
        };
        if number == window.first {
            start_ns = request.at_ns;
        }
        let work = &mut works[place];
        let parts = tiers.serve(&request, &mut |access| add_first_drive_pieces(work, drives, &access));
        prompts.add(request_base_times(plan, accelerators, &parts));
        let counts = number >= window.first + window.lead_in;
        work.requests.push(WindowRequest { at: Span::from_ns(request.at_ns - start_ns), counts, parts });
    }
    Ok(CacheWalkResult { totals: tiers.totals().clone(), prompts, windows: works })
}

fn request_base_times(plan: &CachePlan, accelerators: &Accelerators, parts: &RequestBlockParts) -> RequestBaseTimes {
    let token_bytes = plan.model.token_bytes();
    // A block of an object trace has a size in bytes and no tokens, so convert bytes to tokens.
    let tokens = |count: &BlockCount| count.tokens.max(count.bytes.div_ceil(token_bytes));
    let hits = parts.hits.each_ref().map(tokens);
    let cached = [hits.iter().sum::<u64>(), hits[0] + hits[1], 0];
    let all = cached[0] + tokens(&parts.computed);
    RequestBaseTimes {
        prefill_s: cached.map(|cached| accelerators.prefill_s(&plan.model, cached, all - cached)),
        copy_s: real(parts.hits[1].bytes) / accelerators.host_bytes_per_s,
        drive_bytes: parts.hits[2].bytes,
    }
}

/// Load that the cache puts on its drives, relative to their maximum bandwidth. Above 1, queues grow without bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheLoad {
    /// Maximum bandwidth of all drives for the cache's mix of reads and writes, in bytes per second.
    pub most_bytes_per_s: f64,
    /// Bytes per second that the cache reads and writes, as a fraction of the drives' maximum.
    pub share: f64,
    /// Ends of the 95 % confidence interval of the drives' load, as a fraction of their maximum bandwidth.
    pub interval: [f64; 2],
}

impl CacheLoad {
    /// Returns the load of a trace on the drives, from windows simulated at full rate. `None` if no window has an
    /// access.
    pub fn of(
        walk: &CacheWalkResult,
        sums: PromptTotals,
        drives: StripedDrives,
        full_rate: &[FullRateResult],
    ) -> Option<CacheLoad> {
        let windows: Vec<(f64, f64)> = full_rate.iter().map(|times| (times.busy.as_s(), real(times.bytes))).collect();
        let busy = TimePerByte::of(&windows);
        let totals = &walk.totals;
        let asked_bytes_per_s = real(totals.hits[2].bytes + totals.written.bytes) / duration_s(sums);
        let share = |s_per_byte: f64| asked_bytes_per_s * s_per_byte / real(drives.count);
        (busy.s_per_byte > 0.0).then(|| CacheLoad {
            most_bytes_per_s: real(drives.count) / busy.s_per_byte,
            share: share(busy.s_per_byte),
            interval: busy.interval().map(share),
        })
    }

    /// True if the whole confidence interval of the load is above 1. Waits then grow as long as the load lasts and have
    /// no mean.
    pub fn exceeds_bandwidth(&self) -> bool {
        self.interval[0] > 1.0
    }
}

fn duration_s(sums: PromptTotals) -> f64 {
    (real(sums.duration_ns) / 1e9).max(1e-9)
}

/// Time that a request takes, sampled in windows of the trace: mean with a 95 % confidence interval, and percentiles
/// over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SampledTime {
    /// Mean of the sampled time over the requests, in seconds.
    pub mean_s: f64,
    /// Lower end of the 95 % confidence interval of the mean time, in seconds.
    pub low_s: f64,
    /// Upper end of the 95 % confidence interval of the mean time, in seconds.
    pub high_s: f64,
    /// Median of the sampled time over the requests, in seconds.
    pub p50_s: f64,
    /// 99th percentile of the sampled time over the requests, in seconds.
    pub p99_s: f64,
}

impl SampledTime {
    /// Summarises the simulated times of all sampled windows; the mean gives each window equal weight. `None` if no
    /// window has a time.
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
            low_s: (middle - half).max(0.0),
            high_s: middle + half,
            p50_s: at(&all, 0.5),
            p99_s: at(&all, 0.99),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real_length(values.len().max(1))
}

/// Returns half the width of the 95 % confidence interval of the mean of independent values, or 0 for a single value.
/// Student's t is expanded in powers of one over the degrees of freedom (Abramowitz and Stegun 26.7.5).
fn half_width(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle) * (value - middle)).sum();
    let (free, z) = (real_length(values.len()) - 1.0, NORMAL);
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    let student = z + (z3 + z) / (4.0 * free) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * free * free);
    student * libm::sqrt(squares / free / real_length(values.len()))
}

/// Time until the writes of a cache wear out the memory cells of one drive, or the reason why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheLifetime {
    /// Lifetime of one drive's cells under the writes of the cache.
    Known(CellLifetime),
    /// Lifetime is unknown, because the drive lacks a value.
    Missing {
        /// Value of the drive without which the lifetime is unknown.
        missing: String,
    },
    /// Cache writes nothing to the drive, so that its cells do not wear.
    NoWrites,
}

/// Lifetime of a drive's memory cells under the writes of a cache, with the write amplification behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellLifetime {
    /// Years until the cells reach their rated program/erase cycles.
    pub years: f64,
    /// Write amplification: bytes programmed per byte written, if data of all ages shares flash blocks. 1 for memory
    /// that is written in place.
    pub write_amplification: f64,
    /// Years until the cells wear out if garbage collection never moves data. Placement by lifetime (FDP) comes near to
    /// that. `None` for memory without garbage collection.
    pub placed_years: Option<f64>,
    /// Drive writes per day (DWPD) that wear out the cells in five years.
    pub rated_writes_per_day: f64,
}

/// Results of a cache on one type of drive: hits, load, times to the first token, and lifetime.
#[derive(Clone, Debug)]
pub struct CacheAnswer {
    /// Exact totals of the cache over all requests of the trace.
    pub totals: CacheTotals,
    /// Duration of the trace in seconds, from the first request to the last.
    pub duration_s: f64,
    /// Bytes per second that the cache reads from all drives together.
    pub read_bytes_per_s: f64,
    /// Bytes per second that the cache writes to all drives together.
    pub written_bytes_per_s: f64,
    /// Load of the drives relative to their maximum bandwidth. `None` if no window has an access.
    pub load: Option<CacheLoad>,
    /// Wait of a request until its slowest drive read is done, over the requests that read. `None` if no window has
    /// any, or the drives are overloaded.
    pub read_wait: Option<SampledTime>,
    /// Time to the first token with the whole cache. `None` if the drives are overloaded.
    pub first_token: Option<SampledTime>,
    /// Time to the first token without the drive tier: its blocks are computed instead.
    pub without_drive: SampledTime,
    /// Time to the first token without any cache: every prompt is computed in full.
    pub recomputed: SampledTime,
    /// Utilisation of the accelerators by computing prompts: with the whole cache, without its drive, without any
    /// cache.
    pub prefill_shares: [f64; 3],
    /// Drive writes per day (DWPD): bytes written in a day, as a multiple of the drives' capacity.
    pub drive_writes_per_day: f64,
    /// Lifetime of one drive's cells under the writes of the cache.
    pub lifetime: CacheLifetime,
    /// Number of requests in the sampled windows of the trace from which the simulated times are computed, without
    /// warm-up.
    pub sampled_requests: u64,
}

impl CacheAnswer {
    /// True if the drives are overloaded for certain: their load is above 1 within its whole confidence interval.
    pub fn falls_behind(&self) -> bool {
        self.load.is_some_and(|load| load.exceeds_bandwidth())
    }
}

/// Inputs from which the results of a cache on a drive are computed: counts, window times, and the drive.
#[derive(Clone, Debug)]
pub struct CacheMeasurement<'a> {
    /// Configuration of the drive that stores the cache's drive tier.
    pub drive: &'a Drive,
    /// Number of drives in the tier, and the chunk size by which data is striped over them.
    pub drives: StripedDrives,
    /// Totals over all requests of the trace, such as its duration.
    pub sums: PromptTotals,
    /// Configuration of the tiered key-value cache: model, tier sizes, replacement and write rule.
    pub plan: &'a CachePlan,
    /// Exact totals of the cache, and the drive accesses in each simulated window of the trace.
    pub walk: &'a CacheWalkResult,
    /// Load of the drives relative to their maximum bandwidth. `None` if no window has an access.
    pub load: Option<CacheLoad>,
    /// Waits for drive reads in each sampled window, simulated at the arrival times of the trace; empty if the drives
    /// are overloaded.
    pub open: Vec<WindowTimes>,
}

impl CacheMeasurement<'_> {
    /// Computes the results of the cache on the drive: load, times to the first token, lifetime.
    pub fn answer(&self) -> CacheAnswer {
        let windows: Vec<Vec<(f64, u64)>> =
            self.walk.windows.iter().zip(&self.open).map(read_waits_with_bytes).collect();
        let sums = windows.iter().map(|window| {
            window.iter().fold((0.0, 0.0), |sum, (wait_s, bytes)| (sum.0 + wait_s, sum.1 + real(*bytes)))
        });
        let rate = TimePerByte::of(&sums.collect::<Vec<_>>());
        let waits_s: Vec<Vec<f64>> =
            windows.iter().map(|window| window.iter().map(|(wait_s, _)| *wait_s).collect()).collect();
        let duration_s = duration_s(self.sums);
        let per_s = real(self.sums.requests) / duration_s;
        let prompts = &self.walk.prompts;
        let first_token = |place: usize| prompts.first_token(place, self.walk.totals.hits[2].bytes, rate);
        let totals = self.walk.totals.clone();
        let written_bytes_per_s = real(totals.written.bytes) / duration_s;
        let capacity_bytes = real(self.drive.limits().capacity_bytes) * real(self.drives.count);
        CacheAnswer {
            duration_s,
            read_bytes_per_s: real(totals.hits[2].bytes) / duration_s,
            written_bytes_per_s,
            load: self.load,
            read_wait: SampledTime::of(&waits_s),
            first_token: self.load.is_none_or(|load| !load.exceeds_bandwidth()).then(|| first_token(0)),
            without_drive: first_token(1),
            recomputed: first_token(2),
            prefill_shares: prompts.mean_prefill_s().map(|mean_s| mean_s * per_s),
            drive_writes_per_day: written_bytes_per_s * DAY_S / capacity_bytes,
            lifetime: self.lifetime(written_bytes_per_s * DAY_S / real(self.drives.count)),
            sampled_requests: self.sampled_requests(),
            totals,
        }
    }

    fn sampled_requests(&self) -> u64 {
        let simulated = self.walk.windows.iter().zip(&self.open);
        simulated.map(|(work, _)| length(work.requests.iter().filter(|it| it.counts).count())).sum()
    }

    /// Returns the lifetime of one drive's cells if `bytes_per_day` bytes are written to the drive each day.
    fn lifetime(&self, bytes_per_day: f64) -> CacheLifetime {
        let (drive, media) = (self.drive, &self.drive.media);
        if bytes_per_day == 0.0 {
            return CacheLifetime::NoWrites;
        }
        if media.endurance_cycles == 0 {
            let found = "media.endurance_cycles is 0, which is unknown: --set media.endurance_cycles=N says how many";
            return CacheLifetime::Missing { missing: String::from(found) };
        }
        if !drive.is_flash() {
            let capacity_bytes = real(drive.limits().capacity_bytes);
            let bytes = capacity_bytes * real(media.endurance_cycles);
            return CacheLifetime::Known(CellLifetime {
                write_amplification: 1.0,
                years: bytes / bytes_per_day / YEAR_DAYS,
                placed_years: None,
                rated_writes_per_day: real(media.endurance_cycles) / (5.0 * YEAR_DAYS),
            });
        }
        let write_bytes = self.plan.block_padded_bytes().min(WRITE_BYTES_MAX) as u32;
        match flash_lifetimes_of_cache(drive, write_bytes) {
            Ok([mixed, placed]) => CacheLifetime::Known(CellLifetime {
                write_amplification: mixed.write_amplification,
                years: mixed.years_at(bytes_per_day),
                placed_years: Some(placed.years_at(bytes_per_day)),
                rated_writes_per_day: mixed.drive_writes_per_day,
            }),
            Err(problems) => CacheLifetime::Missing { missing: problems.to_string() },
        }
    }
}

fn flash_lifetimes_of_cache(
    drive: &Drive,
    bytes: u32,
) -> Result<[crate::predict::lifetime::FlashLifetime; 2], Problems> {
    Ok([
        flash_lifetime(drive, WrittenPattern::Random, bytes)?,
        flash_lifetime(drive, WrittenPattern::Sequential, bytes)?,
    ])
}

/// Returns, for each counted request of a window that read, its wait in seconds and the bytes that it read from all
/// drives.
fn read_waits_with_bytes((work, times): (&WindowWork, &WindowTimes)) -> Vec<(f64, u64)> {
    let pairs = work.requests.iter().zip(&times.read_waits).filter(|(request, _)| request.counts);
    pairs.filter_map(|(request, wait)| Some((wait.as_ref()?.as_s(), request.parts.hits[2].bytes))).collect()
}

/// True if the cache writes to the drive in any sampled window of the trace.
pub fn has_writes(windows: &[WindowWork]) -> bool {
    windows.iter().flat_map(|work| &work.pieces).any(|piece| piece.io.op == Op::Write)
}
