//! Rate limits of a volume: every access passes a queue that lets operations and bytes through at the volume's rates.
//!
//! Operations and bytes each have a limit of one or two token buckets. The first bucket paces accesses: it is refilled
//! at the burst rate, and holds no more than what passes in `volume.window_ms`. If the volume has bursts, a second
//! bucket holds the credits and is refilled at the sustained rate. An access passes when all buckets hold its tokens,
//! and not before the access that came before it. The instant is therefore known when the access comes:
//!
//! ```text
//!   requests ──▶ queue ──▶ [pace: burst rate] and [credits: rate that lasts] ──▶ network, storage servers
//! ```
//!
//! Buckets count in whole numbers: an instant of passing is the first picosecond at which the tokens are there.

use std::collections::VecDeque;

use crate::config;
use crate::config::StartCredits;
use crate::ledger::CreditState;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Number of parts in a token. A rate is stored in thousandths of a token per second and time in picoseconds, so that
/// their product counts in parts.
const SCALE: u128 = 1_000_000_000_000 * PER_UNIT;
/// Number of units of a stored rate in one token per second: rates are stored in thousandths.
const PER_UNIT: u128 = 1000;

/// Rate limits of a volume, with the state of their token buckets, and the latency of its network.
#[derive(Clone, Debug)]
pub struct VolumeLimits {
    state: VolumeLimitState,
    /// Accesses that wait for the limits, in order: the instant at which each passes, and the state of the limits
    /// before it. A loss of power restores that state.
    queue: VecDeque<(Time, VolumeLimitState)>,
    /// Number of bytes that count as one operation; 0 if every access counts as one.
    operation_bytes: u64,
    merges: bool,
    counts_whole_operations: bool,
    latencies: [Span; 2],
    starts_full: bool,
}

/// State of a volume's rate limits after an access: token buckets, sequential run, time of passing and counters.
#[derive(Clone, Copy, Debug)]
struct VolumeLimitState {
    operations: Option<Limit>,
    bytes: Option<Limit>,
    /// Run of sequential accesses that ends with the last access; the next access may continue it.
    last: SequentialAccessRun,
    /// Instant at which the last access passes the limits, and before which no later access passes.
    passed: Time,
    counts: VolumeCounters,
}

/// Counters of a volume: operations, accesses that had to wait, and the time at which credits first ran out.
#[derive(Clone, Copy, Debug, Default)]
struct VolumeCounters {
    operations: u64,
    waits: u64,
    /// Instant at which the first access that had to wait for credits passed the limits; `None` as long as credits have
    /// sufficed.
    used_up: Option<Time>,
}

/// Run of accesses whose addresses follow each other, in one direction. If the volume merges sequential accesses, they
/// share operations of `operation_kib`.
#[derive(Clone, Copy, Debug)]
struct SequentialAccessRun {
    direction: DataDirection,
    /// Device address of the first byte after the run.
    end: u64,
    /// Number of bytes that the sequential run has used of the operation that was counted last.
    filled: u64,
}

/// Rate limit of operations or of bytes: a token bucket that paces, and one of credits if the volume has bursts.
#[derive(Clone, Copy, Debug)]
struct Limit {
    pace: TokenBucket,
    credits: Option<TokenBucket>,
}

/// Token bucket, stored as the virtual instant at which it will be full: the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    /// Rate at which the bucket is refilled, in thousandths of a token per second.
    rate: u128,
    /// Number of tokens in the full bucket, in parts of a token (`SCALE` parts each).
    size: u128,
    /// Instant at which the bucket will be full if no access takes tokens, in picoseconds times `rate`.
    full_at: u128,
    /// Number of tokens that the last access took, in parts of a token.
    last: u128,
    /// Number of tokens that all accesses so far have taken, in parts of a token.
    taken: u128,
}

impl VolumeLimits {
    /// Creates the rate limits of a volume configuration; `None` if the drive is not such a volume. Rates may depend on
    /// the capacity.
    pub fn of(volume: &config::Volume, capacity_mib: u64) -> Option<VolumeLimits> {
        if !volume.is_there() {
            return None;
        }
        let starts_full = volume.credits != StartCredits::Used;
        let limit = |limit: config::VolumeLimit| Limit::new(limit, volume.window, starts_full);
        let state = VolumeLimitState {
            operations: volume.operations(capacity_mib).map(limit),
            bytes: volume.bytes(capacity_mib).map(limit),
            last: SequentialAccessRun { direction: DataDirection::Read, end: u64::MAX, filled: 0 },
            passed: Time::ZERO,
            counts: VolumeCounters::default(),
        };
        Some(VolumeLimits {
            state,
            queue: VecDeque::new(),
            operation_bytes: u64::from(volume.operation_kib) << 10,
            merges: volume.merges_sequential,
            counts_whole_operations: volume.counts_whole_operations,
            latencies: [volume.read, volume.write],
            starts_full,
        })
    }

    /// Creates the rate limits of a fault rule that throttles requests: operations and bytes per second, without bursts
    /// or latency.
    pub fn throttle(fault: &config::Fault) -> VolumeLimits {
        let config::Fault { rate_iops, rate_mib_per_s, .. } = *fault;
        let volume = config::Volume { rate_iops, rate_mib_per_s, ..config::Volume::default() };
        VolumeLimits::of(&volume, 0).expect("a throttle has a rate")
    }

    /// Passes an access through the limits: takes its operations and bytes from the token buckets. Returns the instant,
    /// not before `now`, at which the access passes.
    pub fn pass(&mut self, now: Time, direction: DataDirection, offset: u64, bytes: u32) -> Time {
        if !self.starts_full && self.state.counts.operations == 0 {
            self.empty_credits_at_start(now);
        }
        while self.queue.front().is_some_and(|(at, _)| *at <= now) {
            self.queue.pop_front();
        }
        let before = self.state;
        let operations = self.count(direction, offset, bytes.into());
        let taken_bytes = if self.counts_whole_operations { operations * self.operation_bytes } else { bytes.into() };
        let costs = [(&mut self.state.operations, operations), (&mut self.state.bytes, taken_bytes)];
        let (mut at, mut with_credits) = (now.max(self.state.passed), Time::ZERO);
        for (limit, cost) in costs.iter().filter_map(|(limit, cost)| Some((limit.as_ref()?, *cost))) {
            at = at.max(limit.pace.time_with_tokens(cost));
            with_credits = with_credits.max(limit.credits.map_or(Time::ZERO, |credits| credits.time_with_tokens(cost)));
        }
        if with_credits > at {
            at = with_credits;
            self.state.counts.used_up.get_or_insert(at);
        }
        for (limit, cost) in costs {
            let limit = limit.iter_mut().flat_map(|limit| [Some(&mut limit.pace), limit.credits.as_mut()]);
            limit.flatten().for_each(|bucket| bucket.take(at, cost));
        }
        self.state.counts.operations += operations;
        self.state.counts.waits += u64::from(at > now);
        self.state.passed = at;
        if at > now {
            self.queue.push_back((at, before));
        }
        at
    }

    /// Removes the accesses that have not passed the limits by `now`, as a loss of power does, and returns their tokens
    /// to the buckets.
    pub fn cut_power(&mut self, now: Time) {
        if let Some((_, before)) = self.queue.drain(..).find(|(at, _)| *at > now) {
            self.state = before;
        }
    }

    /// Empties the buckets of credits at the first access, for a volume that begins without credits. A job that begins
    /// late then has no credits for the time before it.
    fn empty_credits_at_start(&mut self, now: Time) {
        let limits = [&mut self.state.operations, &mut self.state.bytes].into_iter().flatten();
        for credits in limits.filter_map(|limit| limit.credits.as_mut()) {
            credits.full_at += u128::from(now.as_ps()) * credits.rate;
        }
    }

    /// Returns the latency of an access in the network and the storage servers, without the time that it waits for the
    /// limits.
    pub fn latency(&self, direction: DataDirection) -> Span {
        self.latencies[usize::from(direction == DataDirection::Write)]
    }

    /// Returns the number of operations that an access counts as, and records it in the sequential run. Returns 0 if
    /// the access fits into the operation that the access before it began.
    fn count(&mut self, direction: DataDirection, offset: u64, bytes: u64) -> u64 {
        if self.operation_bytes == 0 {
            return 1;
        }
        let continues = self.merges && self.state.last.direction == direction && self.state.last.end == offset;
        let (begun, filled) = if continues { (1, self.state.last.filled) } else { (0, 0) };
        let count = (filled + bytes).div_ceil(self.operation_bytes).max(1);
        self.state.last = SequentialAccessRun {
            direction,
            end: offset.saturating_add(bytes),
            filled: filled + bytes - (count - 1) * self.operation_bytes,
        };
        count - begun
    }

    /// Returns the state of the burst credits at `now`, the earliest instant at which the run may have ended; `None`
    /// for a volume without bursts.
    pub fn credit_state(&self, now: Time) -> Option<CreditState> {
        let buckets =
            [&self.state.operations, &self.state.bytes].into_iter().flatten().filter_map(|limit| limit.credits);
        let now = now.max(self.state.passed);
        // Of both credit buckets, the one that empties first limits the volume.
        let lasts = buckets.map(|credits| credits.seconds_until_empty(now)).min_by(f64::total_cmp)?;
        Some(match self.state.counts.used_up {
            _ if !self.starts_full => CreditState::Used,
            Some(at) => CreditState::UsedUpAfter(at.since(Time::ZERO)),
            None if lasts.is_infinite() => CreditState::Kept,
            None => CreditState::Last(Span::from_ns_f64(lasts * 1e9)),
        })
    }

    /// Returns the name and the value of each counter of the volume: operations, accesses that waited, and credits that
    /// are left.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters =
            vec![("volume_operations", self.state.counts.operations), ("volume_waits", self.state.counts.waits)];
        let left = |limit: &Option<Limit>| limit.as_ref()?.credits.map(|credits| credits.left(self.state.passed));
        counters.extend(left(&self.state.operations).map(|left| ("volume_credit_operations", left)));
        counters.extend(left(&self.state.bytes).map(|left| ("volume_credit_mib", left >> 20)));
        counters
    }
}

impl Limit {
    fn new(limit: config::VolumeLimit, window: Span, starts_full: bool) -> Limit {
        let config::VolumeLimit { base_per_s, peak_per_s, credits } = limit;
        let pace = TokenBucket::new(peak_per_s, peak_per_s * window.as_s(), true);
        let credits = (credits > 0.0).then(|| TokenBucket::new(base_per_s, credits, starts_full));
        Limit { pace, credits }
    }
}

impl TokenBucket {
    /// Creates a full or empty bucket of `size` tokens that is refilled with `per_s` tokens a second.
    fn new(per_s: f64, size: f64, is_full: bool) -> TokenBucket {
        let rate = ((per_s * PER_UNIT as f64).round() as u128).max(1);
        let size = size.floor() as u128 * SCALE;
        TokenBucket { rate, size, full_at: if is_full { 0 } else { size }, last: 0, taken: 0 }
    }

    /// Returns the first instant at which the bucket holds `cost` tokens. A cost above the bucket's size is granted as
    /// soon as the bucket is full; a cost of 0 at once.
    fn time_with_tokens(&self, cost: u64) -> Time {
        if cost == 0 {
            return Time::ZERO;
        }
        let spare = self.size.saturating_sub(u128::from(cost) * SCALE);
        let ps = self.full_at.saturating_sub(spare).div_ceil(self.rate);
        Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX).min(Time::NEVER.as_ps()))
    }

    /// Takes `cost` tokens out of the bucket at instant `at`.
    fn take(&mut self, at: Time, cost: u64) {
        if cost == 0 {
            return;
        }
        self.last = u128::from(cost) * SCALE;
        self.taken += self.last;
        let at = u128::from(at.as_ps()) * self.rate;
        // Instants are rounded up to picoseconds. Forget tokens only if the bucket has been full for longer than one
        // token's time, so that the rounded fraction is kept.
        if self.full_at + self.rate <= at {
            self.full_at = at;
        }
        self.full_at += self.last;
    }

    /// Returns the number of tokens by which the bucket is not full at instant `at`, in parts of a token.
    fn tokens_below_full(&self, at: Time) -> u128 {
        self.full_at.saturating_sub(u128::from(at.as_ps()) * self.rate)
    }

    /// Returns the number of whole tokens in the bucket at instant `at`.
    fn left(&self, at: Time) -> u64 {
        (self.size.saturating_sub(self.tokens_below_full(at)) / SCALE) as u64
    }

    /// Returns the number of seconds for which a full bucket lasts at the mean rate at which it has been emptied until
    /// `now`. Infinite if it has been refilled as fast, not counting the tokens of the last access.
    fn seconds_until_empty(&self, now: Time) -> f64 {
        let refilled = u128::from(now.as_ps()) * self.rate;
        let seconds = now.as_ns() / 1e9;
        match self.taken - self.last > refilled && seconds > 0.0 {
            true => self.size as f64 / (self.taken - refilled) as f64 * seconds,
            false => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests;
