//! Conditions between keys of a rate-limited volume. Keys that would change nothing are refused.

use crate::config::Volume;
use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Keys that set the rate of operations of a volume.
const OPERATION_KEYS: &[&str] = &["volume.rate_iops", "volume.iops_per_gib"];
/// Keys that set the bandwidth of a volume.
const BYTE_KEYS: &[&str] = &["volume.rate_mib_per_s", "volume.mib_per_s_per_gib"];

/// Returns all conditions that the rate limits of a volume break; none for a drive that is no volume.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [interface, operations, bytes, bounds, credits, whole_operations, sizes_of_operations, window, start];
    checks.iter().filter(|_| drive.volume.is_there()).filter_map(|check| check(drive)).collect()
}

/// Checks that requests of the interface reach the memory as whole commands, which the limits of a volume can count.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let passes_whole_commands =
        |interface: &Interface| Drive { interface: *interface, ..drive.clone() }.protocol().passes_whole_commands();
    if passes_whole_commands(&drive.interface) {
        return None;
    }
    let others = Interface::ALL.iter().copied().filter(passes_whole_commands).map(Interface::name);
    BrokenCondition::when(
        true,
        &["interface"],
        format!(
            "[volume] is given with interface \"{}\", whose requests reach the memory in parts",
            drive.interface.name()
        ),
        format!("interface {}, or no key of [volume]", others.collect::<Vec<_>>().join(", ")),
    )
}

/// Checks that further keys of a volume's limit of operations are given only with a rate of operations.
fn operations(drive: &Drive) -> Option<BrokenCondition> {
    let Volume { min_iops, max_iops, burst_iops, credit_operations, .. } = drive.volume;
    let others = [
        ("volume.min_iops", min_iops > 0.0),
        ("volume.max_iops", max_iops > 0.0),
        ("volume.burst_iops", burst_iops > 0.0),
        ("volume.credit_operations", credit_operations > 0),
    ];
    refuse_limits_without_rate(drive.volume.rate_iops + drive.volume.iops_per_gib > 0.0, &others, OPERATION_KEYS)
}

/// Checks that further keys of a volume's limit of bandwidth are given only with a bandwidth.
fn bytes(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
    let others = [
        ("volume.min_mib_per_s", volume.min_mib_per_s > 0.0),
        ("volume.max_mib_per_s", volume.max_mib_per_s > 0.0),
        ("volume.burst_mib_per_s", volume.burst_mib_per_s > 0.0),
        ("volume.burst_mib_per_s_per_gib", volume.burst_mib_per_s_per_gib > 0.0),
        ("volume.credit_mib", volume.credit_mib > 0.0),
        ("volume.credit_mib_per_gib", volume.credit_mib_per_gib > 0.0),
    ];
    refuse_limits_without_rate(volume.rate_mib_per_s + volume.mib_per_s_per_gib > 0.0, &others, BYTE_KEYS)
}

/// Refuses the first key in `others` that is given if `has_rate` is false, because a volume's limit without a rate has
/// no effect. `rates` are the keys that set the rate.
fn refuse_limits_without_rate(
    has_rate: bool,
    others: &[(&'static str, bool)],
    rates: &'static [&'static str],
) -> Option<BrokenCondition> {
    let (key, _) = others.iter().find(|(_, is_given)| *is_given)?;
    BrokenCondition::when(
        !has_rate,
        rates,
        format!("{key} is given without a rate, where it has no effect"),
        format!("{} above 0, or no {key}", rates.join(" or ")),
    )
}

/// Checks that the smallest rate of a volume is no larger than its largest.
fn bounds(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
    let crossed = |least: f64, most: f64| most > 0.0 && least > most;
    BrokenCondition::when(
        crossed(volume.min_iops, volume.max_iops) || crossed(volume.min_mib_per_s, volume.max_mib_per_s),
        &["volume.min_iops", "volume.max_iops", "volume.min_mib_per_s", "volume.max_mib_per_s"],
        String::from("the least rate of the volume is above its largest rate"),
        String::from("volume.min_iops up to volume.max_iops, and volume.min_mib_per_s up to volume.max_mib_per_s"),
    )
}

/// Checks that a volume has both burst rates and credits for them, or neither, for operations and for bytes.
fn credits(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
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

/// Checks that options for the counting of a volume's operations are given only if operations have a size.
fn whole_operations(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
    BrokenCondition::when(
        volume.operation_kib == 0 && (volume.merges_sequential || volume.counts_whole_operations),
        &["volume.operation_kib", "volume.merges_sequential", "volume.counts_whole_operations"],
        String::from("volume.merges_sequential or volume.counts_whole_operations is true with volume.operation_kib 0"),
        String::from("volume.operation_kib above 0"),
    )
}

/// Checks that keys for the size of a volume's operations are given only if a limit counts operations by size.
fn sizes_of_operations(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
    let has_bytes = volume.rate_mib_per_s + volume.mib_per_s_per_gib > 0.0;
    let counts_in_bytes = volume.counts_whole_operations && has_bytes;
    let is_counted = volume.rate_iops + volume.iops_per_gib > 0.0 || counts_in_bytes;
    let key = match () {
        () if volume.counts_whole_operations && !has_bytes => "volume.counts_whole_operations",
        () if volume.merges_sequential && !is_counted => "volume.merges_sequential",
        () if volume.operation_kib > 0 && !is_counted => "volume.operation_kib",
        () => return None,
    };
    let (limit, rates) = match key {
        "volume.counts_whole_operations" => ("bytes", BYTE_KEYS),
        _ => ("operations", OPERATION_KEYS),
    };
    BrokenCondition::when(
        true,
        rates,
        format!("{key} is given without a limit of {limit}, where it has no effect"),
        format!("{} above 0, or no {key}", rates.join(" or ")),
    )
}

/// Checks that the window of a volume's limits is given only if there is a limit.
fn window(drive: &Drive) -> Option<BrokenCondition> {
    let capacity_mib = drive.media.capacity_mib;
    let is_unlimited = drive.volume.operations(capacity_mib).is_none() && drive.volume.bytes(capacity_mib).is_none();
    BrokenCondition::when(
        is_unlimited && !drive.volume.window.is_zero(),
        &["volume.window_ms"],
        String::from("volume.window_ms is given without a rate, where it has no effect"),
        String::from("volume.rate_iops, volume.rate_mib_per_s or a rate for each GiB, or volume.window_ms = 0"),
    )
}

/// Checks that the initial state of a volume's credits is given only if there are credits.
fn start(drive: &Drive) -> Option<BrokenCondition> {
    let volume = &drive.volume;
    let has_bucket = volume.credit_operations > 0 || volume.credit_mib + volume.credit_mib_per_gib > 0.0;
    BrokenCondition::when(
        volume.credits != Volume::default().credits && !has_bucket,
        &["volume.credits"],
        format!("volume.credits is \"{}\" without a bucket of credits", volume.credits.name()),
        String::from("volume.credit_operations, volume.credit_mib or volume.credit_mib_per_gib above 0"),
    )
}
