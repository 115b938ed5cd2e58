//! Conditions between keys of data placement.

use super::checks_sections;
use crate::drive::Drive;
use crate::media::translation::policy::Policy;
use crate::problem::BrokenCondition;

/// Largest number of reclaim unit handles of all groups together, because each is a stream of the translation layer.
const STREAMS_MAX: u32 = 127;

/// Returns all conditions that the data placement of the drive breaks.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [interface, check_placement_needs_translation, streams, policy, check_placement_without_caches, zones];
    checks.iter().filter(|_| drive.placement.is_there()).filter_map(|check| check(drive)).collect()
}

/// Checks that commands of the drive's protocol can name a placement.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let keys = &["interface", "placement.handles"];
    checks_sections::interface(
        drive,
        "[placement]",
        keys,
        |drive| drive.protocol().knows_placement(),
        "which knows no placement",
    )
}

/// Checks that a drive with data placement is flash with a translation layer, whose blocks are the reclaim units.
fn check_placement_needs_translation(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        !drive.is_flash(),
        &["placement.handles", "translation.mapping"],
        String::from("[placement] is given for a memory without a translation layer, which has no reclaim units"),
        String::from("translation.mapping = \"page\", or no key of [placement]"),
    )
}

/// Checks that the placement handles of all groups are no more than the streams of the translation layer.
fn streams(drive: &Drive) -> Option<BrokenCondition> {
    let (handles, groups) = (u32::from(drive.placement.handles), u32::from(drive.placement.groups));
    BrokenCondition::when(
        handles * groups > STREAMS_MAX,
        &["placement.handles", "placement.groups"],
        format!("placement.handles is {handles} in each of {groups} groups"),
        format!("at most {STREAMS_MAX} handles in all groups together"),
    )
}

/// Checks that the policy of garbage collection does not separate data itself, because hosts do so by placement.
fn policy(drive: &Drive) -> Option<BrokenCondition> {
    let policy = drive.translation.policy;
    BrokenCondition::when(
        Policy::streams(policy) != (1, 1),
        &["placement.handles", "translation.policy"],
        format!("translation.policy is \"{}\", which separates data itself, beside [placement]", policy.name()),
        String::from("a policy that leaves this to hosts, such as \"greedy\", or no key of [placement]"),
    )
}

/// Checks that a drive with data placement has neither an SLC cache nor a cached mapping table, whose blocks would mix
/// the data of different handles.
fn check_placement_without_caches(drive: &Drive) -> Option<BrokenCondition> {
    let given = [
        ("translation.slc_cache_mib", drive.translation.slc_cache_mib),
        ("translation.map_cache_kib", drive.translation.map_cache_kib),
    ];
    let (key, value) = given.into_iter().find(|(_, value)| *value > 0)?;
    BrokenCondition::when(
        true,
        &["placement.handles", "translation.slc_cache_mib", "translation.map_cache_kib"],
        format!("{key} is {value} beside [placement]: its blocks would mix the data of all handles"),
        format!("{key} = 0, or no key of [placement]"),
    )
}

/// Checks that a drive has either data placement or zones, because zones already determine where data goes.
fn zones(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.zones.is_there(),
        &["placement.handles", "zones.size_mib"],
        String::from("[placement] is given for a drive with zones, which say themselves where data goes"),
        String::from("[zones] or [placement]"),
    )
}
