//! Conditions between keys of zones.

use super::checks_sections;
use crate::config::Precondition;
use crate::drive::Drive;
use crate::media::flash::zoned::ZoneDieStripe;
use crate::number::real;
use crate::problem::BrokenCondition;

/// Largest number of zones of a drive: their states are kept beside the data of a served drive (assumed).
const ZONES_MAX: u64 = 100_000;

/// Returns all conditions that the zones of the drive break.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [
        interface,
        check_whole_zones,
        number,
        append,
        dies,
        check_zone_dies_on_flash,
        check_erase_blocks_for_zones,
        used,
        refuse_unused_translation_keys,
    ];
    checks.iter().filter(|_| drive.zones.is_there()).filter_map(|check| check(drive)).collect()
}

/// Checks that the drive's protocol has commands for zones.
fn interface(drive: &Drive) -> Option<BrokenCondition> {
    let keys = &["interface", "zones.size_mib"];
    checks_sections::interface(drive, "[zones]", keys, |drive| drive.protocol().knows_zones(), "which knows no zones")
}

/// Checks that the drive consists of whole zones.
fn check_whole_zones(drive: &Drive) -> Option<BrokenCondition> {
    let (size_mib, drive_mib) = (drive.zones.size_mib, drive.media.capacity_mib);
    let below = drive_mib / size_mib * size_mib;
    let nearest = if below == 0 { size_mib } else { below };
    BrokenCondition::when(
        !drive_mib.is_multiple_of(size_mib),
        &["zones.size_mib", "media.capacity_mib"],
        format!("zones.size_mib is {size_mib} with media.capacity_mib {drive_mib}, which is no whole number of zones"),
        format!("media.capacity_mib a multiple of zones.size_mib, such as {nearest}"),
    )
}

/// Checks that the drive has no more zones than the states that can be kept.
fn number(drive: &Drive) -> Option<BrokenCondition> {
    let (size_mib, drive_mib) = (drive.zones.size_mib, drive.media.capacity_mib);
    let zones = drive_mib / size_mib;
    BrokenCondition::when(
        zones > ZONES_MAX,
        &["zones.size_mib", "media.capacity_mib"],
        format!("zones.size_mib is {size_mib} with media.capacity_mib {drive_mib}, which makes {zones} zones"),
        format!("at most {ZONES_MAX} zones: zones.size_mib of {} or more", drive_mib.div_ceil(ZONES_MAX)),
    )
}

/// Checks that the largest zone append is no larger than the drive's largest transfer.
fn append(drive: &Drive) -> Option<BrokenCondition> {
    let (append_kib, transfer_kib) = (drive.zones.append_max_kib, drive.limits().transfer_bytes / 1024);
    BrokenCondition::when(
        append_kib > transfer_kib,
        &["zones.append_max_kib"],
        format!("zones.append_max_kib is {append_kib}, and the largest transfer of the drive is {transfer_kib} KiB"),
        format!("zones.append_max_kib up to {transfer_kib}, or 0"),
    )
}

/// Checks that zones with dies of their own are on flash behind a translation layer.
fn check_zone_dies_on_flash(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.zones.dies > 0 && !drive.is_flash(),
        &["zones.dies", "translation.mapping"],
        format!("zones.dies is {} on memory that is no flash behind a translation layer", drive.zones.dies),
        String::from("translation.mapping \"page\", or zones.dies 0"),
    )
}

/// Checks that the dies of zones divide the drive's dies into equal groups, over as many channels as possible.
fn dies(drive: &Drive) -> Option<BrokenCondition> {
    let (dies, channels) = (drive.zones.dies, u32::from(drive.media.channels));
    let all = drive.media.banks();
    let divides = |dies: &u32| {
        let is_even = if *dies < channels { channels.is_multiple_of(*dies) } else { dies.is_multiple_of(channels) };
        is_even && all.is_multiple_of(*dies)
    };
    if dies == 0 || divides(&dies) {
        return None;
    }
    let allowed: Vec<String> = (1..=all.min(1 << 16)).filter(divides).map(|dies| dies.to_string()).collect();
    BrokenCondition::when(
        true,
        &["zones.dies", "media.channels", "media.banks_per_channel"],
        format!("zones.dies is {dies} with {channels} channels of {} dies", drive.media.banks_per_channel),
        format!("zones.dies {}; or 0", allowed.join(", ")),
    )
}

/// Checks that the drive has enough erase blocks for all zones, each of which takes whole ones.
fn check_erase_blocks_for_zones(drive: &Drive) -> Option<BrokenCondition> {
    if dies(drive).is_some() || check_zone_dies_on_flash(drive).is_some() {
        return None;
    }
    let stripe = ZoneDieStripe::of(&drive.media, &drive.translation, &drive.zones)?;
    let unit_bytes = u64::from(drive.translation.unit_bytes);
    let set_mib = real(u64::from(stripe.units_per_block_set()) * unit_bytes) / f64::from(1 << 20);
    let sets = (real(drive.zones.writable_mib()) / set_mib).ceil();
    let zones = drive.media.capacity_mib / drive.zones.size_mib;
    let has_mib = real(drive.media.capacity_mib) * (1.0 + drive.translation.spare_share(&drive.media));
    let needs_mib = sets * set_mib * real(zones);
    BrokenCondition::when(
        needs_mib > has_mib,
        &["zones.size_mib", "zones.dies", "translation.over_provisioning"],
        format!(
            "{zones} zones of {} MiB take {needs_mib:.0} MiB of whole erase blocks of {set_mib:.1} MiB on {} dies, and the drive has \
             {has_mib:.0} MiB",
            drive.zones.writable_mib(),
            drive.zones.dies
        ),
        format!(
            "zones that fill whole erase blocks, of {set_mib:.1} MiB or a multiple, less of zones.dies, or more of \
             translation.over_provisioning"
        ),
    )
}

/// Checks that the whole of a drive with zones is in use, because zones are full when a run begins.
fn used(drive: &Drive) -> Option<BrokenCondition> {
    let used = drive.translation.used;
    BrokenCondition::when(
        drive.is_flash() && used < 1.0,
        &["translation.used", "zones.size_mib"],
        format!("translation.used is {used} with zones, all of which are full when a run begins"),
        String::from("translation.used = 1, and jobs with offset and size in zones, such as size=4z"),
    )
}

/// Refuses keys of the translation layer that change nothing if zones have dies of their own, because nothing is mapped
/// or collected then.
fn refuse_unused_translation_keys(drive: &Drive) -> Option<BrokenCondition> {
    let translation = &drive.translation;
    let given = [
        ("translation.slc_cache_mib", translation.slc_cache_mib > 0),
        ("translation.map_cache_kib", translation.map_cache_kib > 0),
        ("translation.idle_us", !translation.idle.is_zero()),
        ("translation.precondition \"random\"", translation.precondition == Precondition::Random),
    ];
    let (key, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
    BrokenCondition::when(
        drive.zones.dies > 0,
        &["zones.dies"],
        format!("{key} is given with zones.dies, where nothing is mapped or collected"),
        format!("no {key}, or zones.dies 0"),
    )
}
