//! Conditions between keys of a drive's processors, buffer and translation layer. Keys of a component that the drive
//! does not have would change nothing, and are refused if the user has given them.

use crate::config::origin::Origin;
use crate::config::{Acknowledge, DataPattern, Mapping, PolicyName, Technology, WearLevelling};
use crate::drive::Drive;
use crate::media::flash::{MAP_ENTRY_BYTES, layout::FlashLayout, placed_shape, shape};
use crate::media::translation::TranslationShape;
use crate::media::translation::policy::Policy;
use crate::problem::BrokenCondition;

/// Largest number of mapping units of a drive: units are numbered in 32 bits, and one number stands for "none".
const UNITS_MAX: u64 = u32::MAX as u64 - 1;
/// Keys of a write cache in flash cells that hold one bit each (SLC cache).
const SLC_KEYS: &[&str] = &[
    "translation.slc_cache_mib",
    "translation.idle_us",
    "media.slc_program_ns",
    "media.slc_read_ns",
    "media.program_bytes",
];
/// Keys that control garbage collection in idle time.
const IDLE_KEYS: &[&str] = &["translation.idle_us", "translation.idle_blocks", "translation.over_provisioning"];
/// Smallest number of pages of the mapping table that the drive's memory can hold.
const MAP_PAGES_MIN: u64 = 16;
/// Largest number of flash dies of a drive.
const DIES_MAX: u32 = 1 << 16;

/// Keys that change nothing on a drive without a translation layer.
const TRANSLATION_KEYS: &[&str] = &[
    "translation.unit_bytes",
    "translation.over_provisioning",
    "translation.policy",
    "translation.choices",
    "translation.collection_reads",
    "translation.map_cache_kib",
    "translation.slc_cache_mib",
    "translation.idle_us",
    "translation.idle_blocks",
    "translation.wear_gap_erases",
    "translation.precondition",
    "buffer.capacity_kib",
    "buffer.command_ns",
    "buffer.page_ns",
    "buffer.read_ahead_kib",
    "media.planes",
    "media.plane_reads",
    "media.command_bus",
    "media.block_pages",
    "media.read_centre_ns",
    "media.read_upper_ns",
    "media.erase_ns",
    "media.suspend_ns",
    "media.slc_program_ns",
    "media.slc_read_ns",
];

/// Returns all conditions that the drive's processors, buffer and translation layer break.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let general = [processors(drive), nothing_mapped(drive), nothing_buffered(drive)];
    let is_mapped = drive.translation.mapping == Mapping::Page;
    let of_flash = [
        technology,
        banks_alone,
        rows,
        planes,
        block,
        choices,
        pages_of_a_cell,
        units,
        map_cache,
        spare,
        idle,
        slc,
        room,
    ];
    // The checks of flash assume that the checks above have passed, so report only the first that fails.
    let flash = of_flash.iter().filter(|_| is_mapped).find_map(|check| check(drive));
    general.into_iter().chain([flash]).flatten().collect()
}

/// True if the user has given a key, in a file or an override, a value other than its default. A drive file that was
/// printed by the program has all keys, so that the presence of a key alone says nothing.
fn is_written(drive: &Drive, key: &str) -> bool {
    let is_given = matches!(drive.sources.of(key), Origin::File | Origin::Set);
    is_given && drive.value_of(key) != Drive::blank().value_of(key)
}

/// Checks that the number of the drive's processor cores is given only if commands take processor time.
fn processors(drive: &Drive) -> Option<BrokenCondition> {
    let takes_core = !drive.controller.read_core.is_zero() || !drive.controller.write_core.is_zero();
    BrokenCondition::when(
        !takes_core && is_written(drive, "controller.cores"),
        &["controller.cores", "controller.read_core_ns", "controller.write_core_ns"],
        format!("controller.cores is {}, but no command takes processor time of the drive", drive.controller.cores),
        String::from("controller.cores with controller.read_core_ns or controller.write_core_ns above 0"),
    )
}

/// Checks that keys of the translation layer are given only if there is one.
fn nothing_mapped(drive: &Drive) -> Option<BrokenCondition> {
    let is_mapped = drive.translation.mapping == Mapping::Page;
    // A flash drive may set media keys before a translation layer is added, so do not reject those.
    let is_flash = drive.media.technology == Technology::Nand;
    let is_inert = |key: &&&str| is_written(drive, key) && !(is_flash && key.starts_with("media."));
    let key = TRANSLATION_KEYS.iter().find(is_inert)?;
    BrokenCondition::when(
        !is_mapped,
        TRANSLATION_KEYS,
        format!("{key} is given with translation.mapping \"none\", where it has no effect"),
        String::from("translation.mapping = \"page\""),
    )
}

/// Checks that power-loss protection is given only if writes are acknowledged before they are in the memory cells.
fn nothing_buffered(drive: &Drive) -> Option<BrokenCondition> {
    let is_inert = drive.translation.mapping == Mapping::None && drive.media.acknowledge == Acknowledge::Late;
    BrokenCondition::when(
        is_inert && is_written(drive, "buffer.power_loss_protection"),
        &["buffer.power_loss_protection", "media.acknowledge"],
        String::from("buffer.power_loss_protection is given with media.acknowledge \"late\", where it has no effect"),
        String::from("media.acknowledge = \"early\", or translation.mapping = \"page\""),
    )
}

/// Checks that a drive with a translation layer has flash.
fn technology(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.media.technology != Technology::Nand,
        &["translation.mapping", "media.technology"],
        String::from("translation.mapping is \"page\" with a memory that is overwritten in place"),
        String::from("translation.mapping = \"none\", or media.technology = \"nand\""),
    )
}

/// Checks that keys of memory that is overwritten in place are not given together with a translation layer.
fn banks_alone(drive: &Drive) -> Option<BrokenCondition> {
    let media = &drive.media;
    let keys = [
        ("media.chip_bytes", media.chip_bytes > 0),
        ("media.data_pattern", media.data_pattern != DataPattern::Typical),
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
fn rows(drive: &Drive) -> Option<BrokenCondition> {
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
fn block(drive: &Drive) -> Option<BrokenCondition> {
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

/// Checks that the number of candidate blocks is given only for the victim policy that uses it.
fn choices(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        is_written(drive, "translation.choices") && drive.translation.policy != PolicyName::DChoices,
        &["translation.choices", "translation.policy"],
        String::from("translation.choices is given with a translation.policy that does not use it"),
        String::from("translation.policy = \"d-choices\""),
    )
}

/// Checks that read times of further pages of a word line are given only for flash cells with as many bits.
fn pages_of_a_cell(drive: &Drive) -> Option<BrokenCondition> {
    let bits = drive.media.program_bytes / drive.media.stripe_bytes;
    let beyond = [(2, "media.read_centre_ns"), (3, "media.read_upper_ns")];
    let (_, key) = beyond.into_iter().find(|(bit, key)| bits < *bit && is_written(drive, key))?;
    BrokenCondition::when(
        true,
        &["media.read_centre_ns", "media.read_upper_ns", "media.program_bytes", "media.stripe_bytes"],
        format!("{key} is given for cells of {bits} bits"),
        String::from("media.program_bytes of as many stripes as a cell has bits"),
    )
}

/// Checks that the numbers of mapping units and of dies are within the limits of the model.
fn units(drive: &Drive) -> Option<BrokenCondition> {
    let dies = u32::from(drive.media.channels) * u32::from(drive.media.banks_per_channel);
    let units = shape(&drive.media, &drive.translation).all_units();
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
    let shape = placed_shape(&drive.media, &drive.translation, &drive.placement);
    let (TranslationShape { units, block_units, blocks, .. }, blocks_min) = (shape, shape.blocks_min());
    let (given, needed) = (drive.translation.over_provisioning, f64::from(blocks_min) * f64::from(block_units));
    if blocks >= blocks_min {
        return None;
    }
    let fewer =
        fewer_dies(drive).map_or(String::new(), |dies| format!("; or {dies}, so that a block of all dies is smaller"));
    BrokenCondition::when(
        true,
        &["translation.over_provisioning", "media.capacity_mib", "media.block_pages"],
        format!("translation.over_provisioning is {given}, which gives {blocks} blocks in all dies together"),
        match needed / units as f64 - 1.0 {
            share if share * 1.0001 <= OVER_PROVISIONING_MAX => format!(
                "at least {:.4}: {blocks_min} blocks, for user data, blocks being written and garbage collection{fewer}",
                share * 1.0001
            ),
            _ => format!("a larger media.capacity_mib, as the drive has hardly one block of all dies{fewer}"),
        },
    )
}

/// Checks that garbage collection in idle time has a time at which it starts, and frees no more blocks than are spare.
fn idle(drive: &Drive) -> Option<BrokenCondition> {
    let (idle_blocks, is_idle) = (drive.translation.idle_blocks, !drive.translation.idle.is_zero());
    let shape = placed_shape(&drive.media, &drive.translation, &drive.placement);
    let spare = shape.blocks - shape.blocks_min();
    BrokenCondition::when(
        !is_idle && is_written(drive, "translation.idle_blocks"),
        IDLE_KEYS,
        format!("translation.idle_blocks is {idle_blocks}, but nothing is collected in idle time"),
        String::from("translation.idle_blocks with translation.idle_us above 0"),
    )
    .or_else(|| {
        BrokenCondition::when(
            is_idle && idle_blocks > spare,
            IDLE_KEYS,
            format!("translation.idle_blocks is {idle_blocks}, and {spare} blocks are spare beside the reserve"),
            match spare {
                0 => String::from("more translation.over_provisioning, or translation.idle_us = 0"),
                _ => format!("at most {spare}"),
            },
        )
    })
}

/// Checks that a cache of one bit a cell (SLC cache) is given only for cells of several bits, with a program time of
/// its own, and with idle time in which its data are moved out.
fn slc(drive: &Drive) -> Option<BrokenCondition> {
    let (media, translation) = (&drive.media, &drive.translation);
    let has_slc = translation.slc_cache_mib > 0;
    let needs = |is_broken: bool, found: &str, allowed: &str| {
        BrokenCondition::when(is_broken, SLC_KEYS, String::from(found), String::from(allowed))
    };
    let is_given = is_written(drive, "media.slc_program_ns") || is_written(drive, "media.slc_read_ns");
    needs(
        !has_slc && is_given,
        "a time of blocks with one bit a cell is given, but translation.slc_cache_mib is 0",
        "translation.slc_cache_mib above 0",
    )
    .or_else(|| {
        needs(
            has_slc && (media.program_bytes == media.stripe_bytes || media.slc_program.is_zero()),
            "translation.slc_cache_mib is given for cells of one bit, or without media.slc_program_ns",
            "media.program_bytes of two or three stripes, and media.slc_program_ns above 0",
        )
    })
    .or_else(|| {
        needs(
            has_slc && translation.idle.is_zero(),
            "translation.slc_cache_mib is given, but nothing empties the cache",
            "translation.idle_us above 0",
        )
    })
}

/// Returns keys with values that leave garbage collection enough blocks at the given over-provisioning, as text; none
/// if nothing helps. Banks and channels are halved as often as needed, then the pages of a block.
fn fewer_dies(drive: &Drive) -> Option<String> {
    let mut media = drive.media.clone();
    let bits = media.program_bytes / media.stripe_bytes.max(1);
    loop {
        match (media.banks_per_channel, media.channels, media.block_pages / bits.max(1)) {
            (banks @ 2.., ..) => media.banks_per_channel = banks / 2,
            (_, channels @ 2.., _) => media.channels = channels / 2,
            (.., lines @ 2..) => media.block_pages = lines / 2 * bits,
            _ => return None,
        }
        let shape = placed_shape(&media, &drive.translation, &drive.placement);
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
    let layout = FlashLayout::of(&drive.media, &drive.translation);
    let line_kib = (u64::from(layout.line_units()) * u64::from(layout.unit_bytes)) >> 10;
    let (streams, _) = Policy::streams(drive.translation.policy);
    let has_slc = drive.translation.slc_cache_mib > 0;
    let (room, lines) = (drive.buffer.capacity_kib, 1 + u64::from(streams) + u64::from(has_slc));
    BrokenCondition::when(
        room < lines * line_kib.max(1),
        &["buffer.capacity_kib", "media.channels", "media.program_bytes"],
        format!("buffer.capacity_kib is {room}, and all channels together program {line_kib} KiB at once"),
        format!("at least {} KiB", lines * line_kib.max(1)),
    )
}
