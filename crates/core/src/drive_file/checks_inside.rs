//! Conditions between keys of a drive's buffer and translation layer.

use crate::config::{WearLevelling, WrittenDataPattern};
use crate::drive::Drive;
use crate::media::flash::{MAP_ENTRY_BYTES, layout::FlashUnitLayout, shape, shape_with_placement};
use crate::media::translation::TranslationShape;
use crate::media::translation::policy::Policy;
use crate::number::real;
use crate::problem::BrokenCondition;

/// Largest number of mapping units of a drive: units are numbered in 32 bits, and one number stands for "none".
const UNITS_MAX: u64 = u32::MAX as u64 - 1;
/// Smallest number of pages of the mapping table that the drive's memory can hold.
const MAP_PAGES_MIN: u64 = 16;
/// Largest number of flash dies of a drive.
const DIES_MAX: u32 = 1 << 16;

/// Returns the condition that the buffer and translation layer of the drive break, if any. Each check of flash assumes
/// that those before it have passed, so that only the first one that fails is reported.
pub(super) fn broken(drive: &Drive) -> Option<BrokenCondition> {
    let of_flash = [
        check_flash_technology,
        check_in_place_keys,
        check_rows_of_stripe,
        planes,
        check_program_and_erase_units,
        check_translation_block_size,
        units,
        map_cache,
        used,
        spare,
        idle,
        check_slc_cache,
        room,
    ];
    of_flash.iter().filter(|_| drive.is_flash()).find_map(|check| check(drive))
}

/// Checks that a drive with a translation layer has flash.
fn check_flash_technology(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        !drive.media.is_nand(),
        &["translation.mapping", "media.technology"],
        String::from("translation.mapping is \"page\" with a memory that is overwritten in place"),
        String::from("translation.mapping = \"none\", or media.technology = \"nand\""),
    )
}

/// Checks that keys of memory that is overwritten in place are not given together with a translation layer.
fn check_in_place_keys(drive: &Drive) -> Option<BrokenCondition> {
    let media = &drive.media;
    let keys = [
        ("media.chip_bytes", media.chip_bytes > 0),
        ("media.data_pattern", media.data_pattern != WrittenDataPattern::Typical),
        ("media.write_difference", media.write_difference),
        ("media.housekeeping_us", !media.housekeeping.is_zero()),
        ("media.wear_levelling", media.wear_levelling != WearLevelling::None),
    ];
    let (key, _) = keys.iter().find(|(_, is_given)| *is_given)?;
    BrokenCondition::when(
        true,
        &[
            "translation.mapping",
            "media.chip_bytes",
            "media.data_pattern",
            "media.write_difference",
            "media.housekeeping_us",
            "media.wear_levelling",
        ],
        format!("{key} is given with translation.mapping \"page\""),
        format!("translation.mapping = \"none\", or {key} at its default"),
    )
}

/// Checks that a stripe of the memory, which is a page of all planes of a die, consists of whole mapping units.
fn check_rows_of_stripe(drive: &Drive) -> Option<BrokenCondition> {
    let (row, unit) = (drive.media.stripe_bytes, drive.translation.unit_bytes);
    BrokenCondition::when(
        !row.is_multiple_of(unit),
        &["media.stripe_bytes", "translation.unit_bytes"],
        format!("media.stripe_bytes is {row} with translation.unit_bytes {unit}"),
        String::from("media.stripe_bytes (one page of all planes) that is a multiple of translation.unit_bytes"),
    )
}

/// Checks that the planes of a die share a stripe of the memory evenly.
fn planes(drive: &Drive) -> Option<BrokenCondition> {
    let (row, planes) = (drive.media.stripe_bytes, u32::from(drive.media.planes));
    BrokenCondition::when(
        !row.is_multiple_of(planes),
        &["media.stripe_bytes", "media.planes"],
        format!("media.stripe_bytes is {row} with media.planes {planes}"),
        String::from("media.stripe_bytes that is a multiple of media.planes"),
    )
}

/// Checks that a program unit is one stripe for each bit of a flash cell (1 to 3), and that an erase block consists of
/// whole word lines.
fn check_program_and_erase_units(drive: &Drive) -> Option<BrokenCondition> {
    let (row, program, pages) = (drive.media.stripe_bytes, drive.media.program_bytes, drive.media.block_pages);
    let bits = program / row;
    let is_right = program.is_multiple_of(row) && (1..=3).contains(&bits) && pages.is_multiple_of(bits);
    BrokenCondition::when(
        !is_right,
        &["media.program_bytes", "media.stripe_bytes", "media.block_pages"],
        format!("media.program_bytes is {program} with media.stripe_bytes {row} and media.block_pages {pages}"),
        String::from(
            "program_bytes of one stripe for each bit of a cell (1 to 3), and block_pages that is a multiple of these bits",
        ),
    )
}

/// Checks that a block of the translation layer holds at least one line: a word line of one die of each channel.
fn check_translation_block_size(drive: &Drive) -> Option<BrokenCondition> {
    let layout = FlashUnitLayout::of(&drive.media, &drive.translation);
    let line_mib = (u64::from(layout.line_units()) * u64::from(layout.unit_bytes)).div_ceil(1 << 20);
    BrokenCondition::when(
        layout.block_units == 0,
        &["translation.block_mib", "media.channels", "media.program_bytes"],
        format!("translation.block_mib is {}", drive.translation.block_mib),
        format!("{line_mib} or more: a word line of one die of each channel, or 0 for one flash block of each die"),
    )
}

/// Checks that the mapping table is wholly in memory if only a part of the drive is in use.
fn used(drive: &Drive) -> Option<BrokenCondition> {
    let translation = &drive.translation;
    BrokenCondition::when(
        translation.used < 1.0 && translation.map_cache_kib > 0,
        &["translation.used", "translation.map_cache_kib"],
        format!("translation.used is {} with translation.map_cache_kib", translation.used),
        String::from("translation.used = 1, or translation.map_cache_kib = 0"),
    )
}

/// Checks that the numbers of mapping units and of dies are within the limits of the model.
fn units(drive: &Drive) -> Option<BrokenCondition> {
    let dies = drive.media.banks();
    let units = shape(&drive.media, &drive.translation).all_mapped_units();
    BrokenCondition::when(
        units > UNITS_MAX || dies > DIES_MAX,
        &["media.capacity_mib", "translation.unit_bytes", "media.channels", "media.banks_per_channel"],
        format!("{units} units on {dies} dies"),
        format!("at most {UNITS_MAX} units of translation.unit_bytes, and {DIES_MAX} dies"),
    )
}

/// Checks that the drive's memory holds only a part of the mapping table, but enough of its pages. The value 0 stands
/// for all of the table.
fn map_cache(drive: &Drive) -> Option<BrokenCondition> {
    let (cached, translation) = (drive.translation.map_cache_kib, &drive.translation);
    let units = (drive.media.capacity_mib << 20) / u64::from(translation.unit_bytes);
    let table = (units * u64::from(MAP_ENTRY_BYTES)) >> 10;
    let least = (MAP_PAGES_MIN * u64::from(translation.unit_bytes)) >> 10;
    BrokenCondition::when(
        cached > 0 && !(least..table).contains(&cached),
        &["translation.map_cache_kib", "media.capacity_mib", "translation.unit_bytes"],
        format!("translation.map_cache_kib is {cached}, and the mapping table has {table} KiB"),
        match least < table {
            true => format!("{least} to {} KiB, or 0 for all of the table", table - 1),
            false => String::from("0 for all of the table"),
        },
    )
}

/// Largest over-provisioning that a message proposes, as a share of the user capacity.
const OVER_PROVISIONING_MAX: f64 = 2.0;

/// Checks that over-provisioning leaves garbage collection enough blocks beyond those that hold the user's data.
fn spare(drive: &Drive) -> Option<BrokenCondition> {
    let shape = shape_with_placement(&drive.media, &drive.translation, &drive.placement);
    let (TranslationShape { units, block_units, blocks, .. }, blocks_min) = (shape, shape.blocks_min());
    let given = drive.translation.spare_share(&drive.media);
    let needed = f64::from(blocks_min) * f64::from(block_units);
    if blocks >= blocks_min {
        return None;
    }
    let fewer = sufficient_geometry_text(drive)
        .map_or(String::new(), |dies| format!("; or {dies}, so that a block of all dies is smaller"));
    BrokenCondition::when(
        true,
        &["translation.over_provisioning", "media.raw_mib", "media.capacity_mib", "media.block_pages"],
        match drive.media.raw_mib {
            0 => format!("translation.over_provisioning is {given}, which gives {blocks} blocks in all dies together"),
            raw => format!("media.raw_mib is {raw}, which gives {blocks} blocks in all dies together"),
        },
        match needed / real(units) - 1.0 {
            share if drive.media.raw_mib > 0 => format!(
                "at least {:.0}: {blocks_min} blocks, for user data, blocks being written and garbage collection{fewer}",
                (real(drive.media.capacity_mib) * (1.0 + share) * 1.0001).ceil()
            ),
            share if share * 1.0001 <= OVER_PROVISIONING_MAX => format!(
                "at least {:.4}: {blocks_min} blocks, for user data, blocks being written and garbage collection{fewer}",
                share * 1.0001
            ),
            _ => format!("a larger media.capacity_mib, as the drive has hardly one block of all dies{fewer}"),
        },
    )
}

/// Checks that garbage collection in idle time frees no more blocks than are spare.
fn idle(drive: &Drive) -> Option<BrokenCondition> {
    let idle_blocks = drive.translation.idle_blocks;
    let shape = shape_with_placement(&drive.media, &drive.translation, &drive.placement);
    let spare = shape.blocks - shape.blocks_min();
    BrokenCondition::when(
        !drive.translation.idle.is_zero() && idle_blocks > spare,
        &["translation.idle_us", "translation.idle_blocks", "translation.over_provisioning"],
        format!("translation.idle_blocks is {idle_blocks}, and {spare} blocks are spare beside the reserve"),
        match spare {
            0 => String::from("more translation.over_provisioning, or translation.idle_us = 0"),
            _ => format!("at most {spare}"),
        },
    )
}

/// Checks that a cache of one bit a cell (SLC cache) is given only for cells of several bits, with a program time of
/// its own, and with idle time in which its data are moved out.
fn check_slc_cache(drive: &Drive) -> Option<BrokenCondition> {
    let (media, translation) = (&drive.media, &drive.translation);
    if !translation.has_slc_cache() {
        return None;
    }
    let without_cells = media.program_bytes == media.stripe_bytes || media.slc_program.is_zero();
    let (found, allowed) = match without_cells {
        true => (
            "for cells of one bit, or without media.slc_program_ns",
            "media.program_bytes of two or three stripes, and media.slc_program_ns above 0",
        ),
        false => ("but nothing empties the cache", "translation.idle_us above 0"),
    };
    BrokenCondition::when(
        without_cells || translation.idle.is_zero(),
        &["translation.slc_cache_mib", "translation.idle_us", "media.slc_program_ns", "media.program_bytes"],
        format!("translation.slc_cache_mib is given {found}"),
        String::from(allowed),
    )
}

/// Returns keys with values that leave garbage collection enough blocks at the given over-provisioning, as text; none
/// if nothing helps. Banks and channels are halved as often as needed, then the pages of a block.
fn sufficient_geometry_text(drive: &Drive) -> Option<String> {
    let mut media = drive.media.clone();
    let bits = media.program_bytes / media.stripe_bytes.max(1);
    loop {
        match (media.banks_per_channel, media.channels, media.block_pages / bits.max(1)) {
            (banks @ 2.., ..) => media.banks_per_channel = banks / 2,
            (_, channels @ 2.., _) => media.channels = channels / 2,
            (.., lines @ 2..) => media.block_pages = lines / 2 * bits,
            _ => return None,
        }
        let shape = shape_with_placement(&media, &drive.translation, &drive.placement);
        if shape.blocks >= shape.blocks_min() {
            break;
        }
    }
    let keys = [
        ("channels", u32::from(drive.media.channels), media.channels.into()),
        ("banks_per_channel", drive.media.banks_per_channel.into(), media.banks_per_channel.into()),
        ("block_pages", drive.media.block_pages, media.block_pages),
    ];
    let changed = keys.iter().filter(|(_, before, after)| before != after);
    Some(changed.map(|(key, _, after)| format!("media.{key} = {after}")).collect::<Vec<_>>().join(" and "))
}

/// Checks that the write buffer holds a program unit of all channels for each stream of writes, and another one that is
/// being programmed.
fn room(drive: &Drive) -> Option<BrokenCondition> {
    let layout = FlashUnitLayout::of(&drive.media, &drive.translation);
    let line_kib = (u64::from(layout.line_units()) * u64::from(layout.unit_bytes)) >> 10;
    let (streams, _) = Policy::streams(shape(&drive.media, &drive.translation).policy);
    let has_slc = drive.translation.has_slc_cache();
    let (room, lines) = (drive.buffer.capacity_kib, 1 + u64::from(streams) + u64::from(has_slc));
    BrokenCondition::when(
        room < lines * line_kib.max(1),
        &["buffer.capacity_kib", "media.channels", "media.program_bytes"],
        format!("buffer.capacity_kib is {room}, and all channels together program {line_kib} KiB at once"),
        format!("at least {} KiB", lines * line_kib.max(1)),
    )
}
