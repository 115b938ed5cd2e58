//! Conditions between keys of a drive that stores values by key.

use super::checks_sections;
use crate::config::KeyValues;
use crate::drive::Drive;
use crate::problem::BrokenCondition;

/// Returns all conditions that the key-value section of the drive breaks.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [interface, value, room, check_key_index_cache_size, check_key_value_without_zones];
    checks.iter().filter(|_| drive.key_value.is_there()).filter_map(|check| check(drive)).collect()
}

/// Checks that the drive's protocol has commands for values that are stored by key.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let keys = &["interface", "key_value.value_max_kib"];
    checks_sections::interface(
        drive,
        "[key_value]",
        keys,
        |drive| drive.protocol().knows_keys(),
        "which has no commands for keys",
    )
}

/// Checks that one command can move the largest value.
fn value(drive: &Drive) -> Option<BrokenCondition> {
    let (value_kib, transfer_kib) = (drive.key_value.value_max_kib, drive.limits().transfer_bytes / 1024);
    BrokenCondition::when(
        value_kib > transfer_kib,
        &["key_value.value_max_kib"],
        format!("key_value.value_max_kib is {value_kib}, and the largest transfer of a command is {transfer_kib} KiB"),
        format!("key_value.value_max_kib up to {transfer_kib}, or larger transfers"),
    )
}

/// Checks that, beside the index, there is room for two of the largest values, as one replaces the other.
fn room(drive: &Drive) -> Option<BrokenCondition> {
    let (value_bytes, room_bytes) = (u64::from(drive.key_value.value_max_bytes()), drive.value_media_bytes());
    BrokenCondition::when(
        room_bytes < 2 * value_bytes,
        &["key_value.value_max_kib", "key_value.keys_max", "media.capacity_mib"],
        format!(
            "key_value.value_max_kib is {} with {room_bytes} bytes for values beside the index",
            drive.key_value.value_max_kib
        ),
        String::from(
            "room for two of the largest values: a larger media.capacity_mib, or a smaller key_value.keys_max",
        ),
    )
}

/// Checks that the part of the index that the drive's memory holds is smaller than the whole index.
fn check_key_index_cache_size(drive: &Drive) -> Option<BrokenCondition> {
    let KeyValues { index_cache_kib, keys_max, .. } = drive.key_value;
    let index_kib = drive.index_bytes() / 1024;
    BrokenCondition::when(
        index_cache_kib > 0 && index_cache_kib >= index_kib,
        &["key_value.index_cache_kib", "key_value.keys_max"],
        format!("key_value.index_cache_kib is {index_cache_kib}, and the index of {keys_max} keys has {index_kib} KiB"),
        format!("key_value.index_cache_kib below {index_kib}, or 0: all of the index is in memory"),
    )
}

/// Checks that a drive that stores values by key has neither zones nor data placement, which divide logical blocks.
fn check_key_value_without_zones(drive: &Drive) -> Option<BrokenCondition> {
    let given = [
        ("[zones]", drive.zones.is_there(), "no key of [zones]: values have no write pointer"),
        (
            "[placement]",
            drive.placement.is_there(),
            "no key of [placement]: a store names no placement identifier here",
        ),
    ];
    let (found, _, allowed) = given.into_iter().find(|(_, is_given, _)| *is_given)?;
    BrokenCondition::when(
        true,
        &["key_value.value_max_kib", "zones.size_mib", "placement.handles"],
        format!("{found} is given for a drive that stores values by their keys"),
        format!("{allowed}; or no key of [key_value]"),
    )
}
