//! Keys of a drive file that describe a rate-limited volume, as of cloud providers, and the limits that follow from its
//! size.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::number::real;
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Limits of a rate-limited volume, such as a block volume of a cloud provider: rates of operations and bytes by
    /// its size, burst credits, and latency of network and storage servers. By default the drive is no such volume.
    pub struct Volume ("volume") {
        /// Sustained rate of a cloud volume in operations a second, before the part that depends on its size
        rate_iops => rate_iops: f64 = 0.0, 0.0..=1e9;
        /// Sustained rate of a cloud volume in operations a second for each GiB of `media.capacity_mib`, in addition to
        /// `volume.rate_iops`
        iops_per_gib => iops_per_gib: f64 = 0.0, 0.0..=1e9;
        /// Lower bound of a cloud volume's sustained rate, in operations a second, whatever its size
        min_iops => min_iops: f64 = 0.0, 0.0..=1e9, needs OperationRate;
        /// Upper bound of a cloud volume's sustained rate, in operations a second, without burst credits; 0: no bound
        max_iops => max_iops: f64 = 0.0, 0.0..=1e9, needs OperationRate;
        /// Rate of a cloud volume while burst credits last, in operations a second; 0, or no more than the sustained
        /// rate: no bursts
        burst_iops => burst_iops: f64 = 0.0, 0.0..=1e9, needs OperationRate;
        /// Size of a cloud volume's bucket of burst credits for operations. An operation takes one credit, and the
        /// bucket is refilled at the sustained rate of operations
        credit_operations => credit_operations: u64 = 0, 0..=1 << 40, needs OperationRate;
        /// Number of KiB that a cloud volume counts as one operation: a larger request counts as several; 0: every
        /// request counts as one
        operation_kib => operation_kib: u32 = 0, 0..=1 << 20, needs SizedOperations;
        /// True if a cloud volume counts requests that continue the previous request's addresses as one operation, up
        /// to `volume.operation_kib`
        merges_sequential => merges_sequential: bool = false, any(), needs SizedOperations, with operation_kib;
        /// Sustained bandwidth of a cloud volume, in MiB/s, before the part that depends on its size
        rate_mib_per_s => rate_mib_per_s: f64 = 0.0, 0.0..=1e6;
        /// Sustained bandwidth of a cloud volume, in MiB/s, for each GiB of `media.capacity_mib`, in addition to
        /// `volume.rate_mib_per_s`
        mib_per_s_per_gib => mib_per_s_per_gib: f64 = 0.0, 0.0..=1e6;
        /// Lower bound of a cloud volume's sustained bandwidth, in MiB/s, whatever its size
        min_mib_per_s => min_mib_per_s: f64 = 0.0, 0.0..=1e6, needs Bandwidth;
        /// Upper bound of a cloud volume's bandwidth, in MiB/s, sustained and in bursts, whatever its size; 0: no bound
        max_mib_per_s => max_mib_per_s: f64 = 0.0, 0.0..=1e6, needs Bandwidth;
        /// Bandwidth of a cloud volume while burst credits last, in MiB/s, before the part that depends on its size; 0,
        /// or no more than the sustained bandwidth: no bursts
        burst_mib_per_s => burst_mib_per_s: f64 = 0.0, 0.0..=1e6, needs Bandwidth;
        /// Bandwidth of a cloud volume in bursts, in MiB/s, for each GiB of `media.capacity_mib`, in addition to
        /// `volume.burst_mib_per_s`
        burst_mib_per_s_per_gib => burst_mib_per_s_per_gib: f64 = 0.0, 0.0..=1e6, needs Bandwidth;
        /// Size of a cloud volume's bucket of burst credits for bytes, in MiB; the bucket is refilled at the sustained
        /// bandwidth
        credit_mib => credit_mib: f64 = 0.0, 0.0..=1e12, needs Bandwidth;
        /// Burst credits of a cloud volume for bytes, in MiB, for each GiB of `media.capacity_mib`, in addition to
        /// `volume.credit_mib`
        credit_mib_per_gib => credit_mib_per_gib: f64 = 0.0, 0.0..=1e9, needs Bandwidth;
        /// True if a request to a cloud volume counts against the bandwidth limit with `volume.operation_kib` for each
        /// of its operations, however short the request is
        counts_whole_operations => counts_whole_operations: bool = false, any(), needs Bandwidth, with operation_kib;
        /// Time of a cloud volume's limits that may pass at once after a pause: the operations and bytes that the burst
        /// rate (or sustained rate) allows in this time; 0: one request at a time
        window_ms => window: Span = ZERO, ZERO..=LONGEST, needs VolumeRate;
        /// Burst credits of a cloud volume at the start of a run: `full`, `used` (none are left) or `auto` (`used` for
        /// jobs that are measured in the steady state, otherwise `full`)
        credits => credits: StartCredits = StartCredits::Auto, any(), needs Credits;
        /// Latency of network and storage servers for a read of a cloud volume, without waiting for a rate limit
        read_latency_us => read: Span = ZERO, ZERO..=LONGEST;
        /// Latency of network and storage servers for a write to a cloud volume, without waiting for a rate limit
        write_latency_us => write: Span = ZERO, ZERO..=LONGEST;
    }
    conditions [Volume::check_bounds, Volume::check_credits]
}

impl Volume {
    /// Checks that the smallest rate of a volume is no larger than its largest.
    fn check_bounds(&self) -> Option<BrokenCondition> {
        let volume = self;
        let crossed = |least: f64, most: f64| most > 0.0 && least > most;
        BrokenCondition::when(
            crossed(volume.min_iops, volume.max_iops) || crossed(volume.min_mib_per_s, volume.max_mib_per_s),
            &["volume.min_iops", "volume.max_iops", "volume.min_mib_per_s", "volume.max_mib_per_s"],
            String::from("the least rate of the volume is above its largest rate"),
            String::from("volume.min_iops up to volume.max_iops, and volume.min_mib_per_s up to volume.max_mib_per_s"),
        )
    }

    /// Checks that a volume has both burst rates and credits for them, or neither, for operations and for bytes.
    fn check_credits(&self) -> Option<BrokenCondition> {
        let volume = self;
        let burst_bytes = volume.burst_mib_per_s + volume.burst_mib_per_s_per_gib > 0.0;
        let credit_bytes = volume.credit_mib + volume.credit_mib_per_gib > 0.0;
        let is_unlike = (volume.burst_iops > 0.0) != (volume.credit_operations > 0) || burst_bytes != credit_bytes;
        BrokenCondition::when(
            is_unlike,
            &["volume.burst_iops", "volume.credit_operations", "volume.burst_mib_per_s", "volume.credit_mib"],
            String::from("the volume has a rate of bursts without credits, or credits without a rate of bursts"),
            String::from(
                "volume.burst_iops with volume.credit_operations, and volume.burst_mib_per_s with volume.credit_mib, or neither",
            ),
        )
    }
}

/// Burst credits of a volume at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCredits {
    /// Jobs of the run decide: none for measurements in the steady state, otherwise all. A volume without jobs has all
    /// its credits.
    Auto,
    /// Volume starts with all credits that the bucket holds.
    Full,
    /// Volume starts without credits, as after a long time under load.
    Used,
}

names! { StartCredits { "auto" => Auto, "full" => Full, "used" => Used } }

/// Rate limit of a volume of a given size, for operations or for bytes, with credits for bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeLimit {
    /// Sustained rate in operations or bytes per second, without credits.
    pub base_per_s: f64,
    /// Rate per second while credits last; equal to `base_per_s` without bursts.
    pub peak_per_s: f64,
    /// Size of the bucket of credits, in operations or bytes; 0 without bursts.
    pub credits: f64,
}

impl Volume {
    /// True if the drive is a rate-limited volume.
    pub fn is_there(&self) -> bool {
        *self != Volume::default()
    }

    /// True if the volume has a sustained rate of operations.
    pub fn has_operation_rate(&self) -> bool {
        self.rate_iops + self.iops_per_gib > 0.0
    }

    /// True if the volume has a sustained bandwidth.
    pub fn has_bandwidth(&self) -> bool {
        self.rate_mib_per_s + self.mib_per_s_per_gib > 0.0
    }

    /// True if a limit of the volume counts operations by their size, if an operation has one.
    pub fn counts_operations_by_size(&self) -> bool {
        self.has_operation_rate() || (self.counts_whole_operations && self.has_bandwidth())
    }

    /// True if the volume has burst credits, of operations or bytes.
    pub fn has_burst_credits(&self) -> bool {
        self.credit_operations > 0 || self.credit_mib + self.credit_mib_per_gib > 0.0
    }

    /// True if a volume of this capacity has a limit, of operations or bytes.
    pub fn has_any_limit(&self, capacity_mib: u64) -> bool {
        self.operations(capacity_mib).is_some() || self.bytes(capacity_mib).is_some()
    }

    /// Returns the limit in operations per second of a volume of this capacity, or `None` if it has no such limit.
    pub fn operations(&self, capacity_mib: u64) -> Option<VolumeLimit> {
        let gib = gib(capacity_mib);
        let base = limit_rate(self.rate_iops + self.iops_per_gib * gib, self.min_iops, self.max_iops);
        VolumeLimit::of(base, self.burst_iops, real(self.credit_operations))
    }

    /// Returns the limit in bytes per second of a volume of this capacity, or `None` if it has no such limit.
    pub fn bytes(&self, capacity_mib: u64) -> Option<VolumeLimit> {
        const MIB: f64 = (1 << 20) as f64;
        let gib = gib(capacity_mib);
        let base =
            limit_rate(self.rate_mib_per_s + self.mib_per_s_per_gib * gib, self.min_mib_per_s, self.max_mib_per_s);
        let burst = limit_rate(self.burst_mib_per_s + self.burst_mib_per_s_per_gib * gib, 0.0, self.max_mib_per_s);
        let credits = self.credit_mib + self.credit_mib_per_gib * gib;
        VolumeLimit::of(base * MIB, burst * MIB, credits * MIB)
    }

    /// True if a volume of this capacity has bursts that end when its credits run out.
    pub fn has_credits(&self, capacity_mib: u64) -> bool {
        [self.operations(capacity_mib), self.bytes(capacity_mib)].iter().flatten().any(|limit| limit.credits > 0.0)
    }
}

impl VolumeLimit {
    /// Returns the limit with these rates; `None` without a rate. A burst that is no faster than the sustained rate
    /// needs no credits.
    fn of(base_per_s: f64, burst_per_s: f64, credits: f64) -> Option<VolumeLimit> {
        let has_bursts = burst_per_s > base_per_s && credits > 0.0;
        let (peak_per_s, credits) = if has_bursts { (burst_per_s, credits) } else { (base_per_s, 0.0) };
        (base_per_s > 0.0).then_some(VolumeLimit { base_per_s, peak_per_s, credits })
    }
}

fn gib(capacity_mib: u64) -> f64 {
    real(capacity_mib) / 1024.0
}

/// Limits a rate to the range from `least` to `most`; `most` = 0 means no upper limit.
fn limit_rate(rate: f64, least: f64, most: f64) -> f64 {
    let rate = rate.max(least);
    if most > 0.0 { rate.min(most) } else { rate }
}
