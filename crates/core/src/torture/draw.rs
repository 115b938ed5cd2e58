//! Random choices for torture cases: changed keys of drives, jobs and faults.

use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::config::section::{KeyDescription, full_key_name};
use crate::config::{Fault, FaultAction, PowerCutMoment};
use crate::drive::{Drive, Interface};
use crate::drive_file::{presets, shipped};
use crate::number::{length, wide_index};
use crate::random::Random;

/// Candidate changes of keys that describe link, DMA engine and root complex. A drive may refuse some of them.
pub(super) const LINK_DETAILS: &[&str] = &[
    "link.lanes=1",
    "link.lanes=2",
    "link.lanes=16",
    "link.generation=1",
    "link.generation=5",
    "link.max_payload_bytes=128",
    "link.max_payload_bytes=512",
    "link.max_payload_bytes=4096",
    "link.max_read_request_bytes=128",
    "link.max_read_request_bytes=4096",
    "link.completion_bytes=64",
    "link.duplex=shared",
    "link.granularity=packet",
    "link.hops=2",
    "link.one_way_ns=5",
    "link.posted_header_credits=2",
    "link.posted_header_credits=1",
    "link.posted_data_credits=32",
    "link.non_posted_header_credits=1",
    "link.read_tags=1",
    "link.read_tags=2",
    "link.bit_error_rate=1e-6",
    "link.dllps=false",
    "link.acknowledge=awaited",
    "dma.piece_ns=20",
    "dma.requests=1",
    "dma.request_bytes=64",
    "root_complex.late_write_ratio=0.2",
    "root_complex.placement=remote-dram",
    "root_complex.preset=sandy-bridge",
];
/// Candidate changes of keys that describe the memory, the drive's processors and its flash translation. A drive may
/// refuse some of them.
pub(super) const MEDIA_DETAILS: &[&str] = &[
    "media.capacity_mib=4",
    "media.capacity_mib=64",
    "media.channels=1",
    "media.channels=3",
    "media.banks_per_channel=1",
    "media.banks_per_channel=16",
    "media.stripe_bytes=4096",
    "media.program_ns=500",
    "media.program_bytes=64",
    "media.read_ns=0",
    "media.wear_levelling=start-gap",
    "media.gap_write_interval=3",
    "media.housekeeping_interval_us=50",
    "media.housekeeping_us=10",
    "media.data_pattern=random",
    "media.ecc_decode_ns=400",
    "controller.read_core_ns=1500",
    "controller.write_core_ns=900",
    "controller.cores=2",
    "translation.policy=fifo",
    "translation.over_provisioning=0.3",
    "translation.precondition=random",
    "buffer.capacity_kib=64",
    "buffer.read_ahead_kib=64",
];
/// Candidate changes of keys that describe the host and its software stack.
pub(super) const HOST_DETAILS: &[&str] = &[
    "host.wait=spin",
    "host.wait=sleep",
    "host.wait=hybrid",
    "host.cores=1",
    "host.cores=2",
    "host.threads_per_core=2",
    "host.interrupt_cores=1",
    "host.wake_ns=300",
    "host.variation=0",
    "host.variation=0.25",
    "stack.preset=linux-3.5-read-fio",
    "stack.preset=linux-6",
    "stack.preset=spdk",
    "stack.copy_bytes_per_ns=4",
];
/// Candidate changes that decide if acknowledged writes survive a power cut. In half of the cases, they do so only
/// after a flush.
const PROMISES: &[&[&str]] = &[
    &["media.acknowledge=early", "buffer.power_loss_protection=false"],
    &["media.acknowledge=early", "buffer.power_loss_protection=false"],
    &["media.acknowledge=early", "buffer.power_loss_protection=true"],
    &["media.acknowledge=late"],
];
/// Fault actions that are drawn with equal probability: all before [power cuts](power). The rest are drawn elsewhere:
/// power cuts, and events of a fault timeline.
const ACTIONS: &[FaultAction] = FaultAction::ALL.split_at(20).0;
/// Name endings of keys that have a unit, and so do not count things.
const UNITS: &[&str] = &["_ns", "_us", "_bytes", "_kib", "_iops"];
/// Changes that make a flash drive so small that a short run needs garbage collection.
pub(super) const SMALL_FLASH: &[&str] = &[
    "media.channels=2",
    "media.banks_per_channel=1",
    "media.block_pages=96",
    "translation.precondition=random",
    "media.capacity_mib=256",
];

/// Draws a shipped drive: in half of the cases from all drives, otherwise from those of one randomly chosen protocol.
pub(super) fn drive(random: &mut Random) -> &'static Drive {
    static DRIVES: OnceLock<Vec<Drive>> = OnceLock::new();
    let drives = DRIVES.get_or_init(|| shipped::names().filter_map(Drive::shipped).collect());
    let interface = draw_optional(random, Interface::ALL);
    let of_it: Vec<&Drive> =
        drives.iter().filter(|drive| interface.is_none_or(|interface| drive.interface == interface)).collect();
    one_of(random, &of_it)
}

/// Draws a preset for a section of the drive in one case of four; otherwise returns `None`.
pub(super) fn preset(random: &mut Random, section: &str) -> Option<String> {
    let names: Vec<&str> = presets::rows(section).iter().map(|row| row.key.as_str()).collect();
    let name = one_of(random, &names);
    random.bits().is_multiple_of(4).then(|| format!("{section}.preset={name}"))
}

/// Draws changes that give a flash drive data placement, in half of the cases.
pub(super) fn placement(random: &mut Random, own: &Drive) -> Vec<String> {
    if !own.is_flash() || random.bits().is_multiple_of(2) {
        return Vec::new();
    }
    let handles = one_of(random, &[1, 2, 3, 8]);
    let groups = one_of(random, &[1, 1, 2]);
    let isolation = one_of(random, &["initial", "persistent"]);
    let keys = [format!("handles={handles}"), format!("groups={groups}"), format!("isolation={isolation}")];
    keys.into_iter().map(|key| format!("placement.{key}")).collect()
}

/// Text parts of changes that a drive with zones refuses, at least if zones have dies of their own.
pub(super) const NOT_WITH_ZONES: [&str; 7] = [
    "placement.",
    ".namespaces=",
    ".protection",
    "translation.precondition=",
    "translation.slc_cache_mib=",
    "translation.map_cache_kib=",
    "translation.idle_us=",
];

/// Draws zones for a drive whose protocol supports them, in a third of the cases. Returns the bytes of a zone, and the
/// changed keys. Zones are so small that a test case fills some of them. The drive is small as well, since it has a
/// largest number of zones.
pub(super) fn zones(random: &mut Random, own: &Drive, threads: u64) -> Option<(u64, Vec<String>)> {
    if !own.protocol().knows_zones() || !random.bits().is_multiple_of(3) {
        return None;
    }
    let size_mib = one_of(random, &[1, 1, 2, 4]);
    let capacity_mib = (size_mib - one_of(random, &[0, 0, 1])).max(1);
    let open = one_of(random, &[1, 2, 8]).max(threads);
    let active = open + one_of(random, &[0, 1, 4]);
    let append_kib = one_of(random, &[8, 16, 128]);
    let keys = [
        format!("zones.size_mib={size_mib}"),
        format!("zones.capacity_mib={capacity_mib}"),
        format!("zones.open_max={open}"),
        format!("zones.active_max={active}"),
        format!("zones.append_max_kib={append_kib}"),
    ];
    let dies = one_of(random, &[0, 1, 2, 8]);
    let further = match own.is_flash() {
        // Make erase blocks as small as zones, and have many of them.
        true => {
            let small = ["media.capacity_mib=1024", "media.block_pages=12", "translation.over_provisioning=2"];
            [vec![format!("zones.dies={dies}")], small.map(String::from).to_vec()].concat()
        }
        false => vec![String::from("media.capacity_mib=256")],
    };
    Some((size_mib << 20, keys.into_iter().chain(further).collect()))
}

/// Draws one of the given values, each with equal probability.
pub fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[wide_index(random.bits() % length(of.len()))]
}

/// Draws one of the given values in half of the cases; otherwise returns `None`.
pub fn draw_optional<T: Copy>(random: &mut Random, others: &[T]) -> Option<T> {
    let other = one_of(random, others);
    random.bits().is_multiple_of(2).then_some(other)
}

/// Draws up to `most` of the given values, a few more often than many. A value may be drawn twice.
pub(super) fn draw_some_of<'a>(random: &mut Random, most: u64, of: &[&'a str]) -> Vec<&'a str> {
    let count = (random.bits() % (most + 1)).min(random.bits() % (most + 1));
    (0..count).map(|_| one_of(random, of)).collect()
}

/// Draws a change to a key of the drive's protocol, or of a protocol that it builds on.
pub(super) fn draw_protocol_change(random: &mut Random, drive: &Drive) -> Option<String> {
    let keys = protocol_key_paths(drive);
    // In half of the cases, draw a key of the protocol itself instead of one of the protocol that it builds on.
    let own = drive.interface.name().replace('-', "_");
    let is_own = random.bits().is_multiple_of(2);
    let keys: Vec<_> = keys.into_iter().filter(|(path, _)| !is_own || *path == own).collect();
    if keys.is_empty() {
        return None;
    }
    let (path, key) = &keys[wide_index(random.bits() % length(keys.len()))];
    Some(format!("{}={}", full_key_name(path, key.name), value(random, key)))
}

/// Draws changes that make rare conditions frequent, to find bugs that only these show. In one case of three, some
/// writes to host memory are late, so that others overtake them. In one of three, the protocol has the minimum of some
/// resources, so that queues wrap, slots run out and tags are reused.
pub(super) fn rarities(random: &mut Random, drive: &Drive) -> Vec<String> {
    let mut set = Vec::new();
    if random.bits().is_multiple_of(3) {
        set.push(String::from("root_complex.late_write_ratio=0.2"));
    }
    if random.bits().is_multiple_of(3) {
        let least =
            protocol_key_paths(drive).into_iter().filter_map(|(path, key)| Some((path, least_count_value(&key)?, key)));
        let taken: Vec<_> = least.filter(|_| random.bits().is_multiple_of(2)).collect();
        set.extend(taken.iter().map(|(path, least, key)| format!("{}={least}", full_key_name(path, key.name))));
    }
    set
}

/// Returns the smallest value of a key that counts something, such as queue entries, slots or the bits of a tag. `None`
/// for other keys.
fn least_count_value(key: &KeyDescription) -> Option<u64> {
    let has_unit = UNITS.iter().any(|unit| key.name.ends_with(unit));
    least(key).filter(|_| key.default.is_u64() && !has_unit)
}

fn least(key: &KeyDescription) -> Option<u64> {
    key.allowed.split([' ', ',']).next()?.parse().ok()
}

/// Returns a change that sets the maximum transfer size of the protocol's commands to its minimum. `None` if the
/// protocol has no such key.
pub(super) fn least_transfer_change(drive: &Drive) -> Option<String> {
    let (path, key) = protocol_key_paths(drive).into_iter().find(|(_, key)| key.name == "max_transfer_kib")?;
    Some(format!("{}={}", full_key_name(path, key.name), least(&key)?))
}

/// Returns the keys of the drive's protocol and of the protocol that it builds on, each with the path of its section.
fn protocol_key_paths(drive: &Drive) -> Vec<(&'static str, KeyDescription)> {
    let is_protocol = |path: &str| Interface::ALL.iter().any(|interface| interface.name().replace('-', "_") == path);
    let sections = drive.sections().into_iter().map(|section| (section.path(), section.keys()));
    let spoken = sections.filter(|(path, _)| is_protocol(path) && drive.has_part_in(path));
    spoken.flat_map(|(path, keys)| keys.into_iter().map(move |key| (path, key))).collect()
}

/// Draws a value for a key as text; the key may not allow it.
fn value(random: &mut Random, key: &KeyDescription) -> String {
    // If a key allows only certain values, draw one of those.
    let listed: Vec<&str> = key.allowed.split(", ").filter(|value| !value.contains(' ')).collect();
    match &key.default {
        Json::Number(_) if listed.len() > 1 => String::from(one_of(random, &listed)),
        Json::Bool(_) => String::from(one_of(random, &["true", "false"])),
        // A default of 0 means that the feature is off, so draw values that turn it on.
        Json::Number(usual) if usual.as_f64() == Some(0.0) => {
            let values: &[&str] =
                if usual.is_f64() { &["0", "0.02", "0.25", "1"] } else { &["0", "1", "2", "1000", "100000"] };
            String::from(one_of(random, values))
        }
        Json::Number(usual) => {
            let factor = one_of(random, &[0.0, 0.125, 0.5, 2.0, 16.0]);
            let number = usual.as_f64().unwrap_or(0.0) * factor;
            let least = one_of(random, &[0.0, 1.0, 2.0]);
            if usual.is_f64() { number.to_string() } else { number.max(least).floor().to_string() }
        }
        _ => {
            let names: Vec<&str> = key.allowed.split(", ").collect();
            String::from(one_of(random, &names))
        }
    }
}

/// Draws power cuts as fault rules of a drive file, and changes of the drive's durability, in one case of three.
/// Otherwise both are empty.
pub(super) fn power(random: &mut Random) -> (Vec<String>, Vec<String>) {
    if !random.bits().is_multiple_of(3) {
        return (Vec::new(), Vec::new());
    }
    let cuts = (0..1 + random.bits() % 2).map(|_| power_cut(random)).collect();
    let promise = one_of(random, PROMISES).iter().copied().map(String::from).collect();
    (cuts, promise)
}

fn power_cut(random: &mut Random) -> String {
    let moment = one_of(random, &[PowerCutMoment::Time, PowerCutMoment::Event, PowerCutMoment::Request]);
    let fault = Fault { action: FaultAction::PowerCut, at: moment, ..Fault::default() };
    let first: &[&str] = match moment {
        PowerCutMoment::Event => &["40", "400", "2500", "15000"],
        _ => &["1", "7", "40", "150"],
    };
    let drawn: [(&str, &[&str]); 8] = [
        ("operation", &["\"write\"", "\"write\"", "\"any\""]),
        ("thread", &["0", "0", "1"]),
        ("first", first),
        ("every", &["3", "50", "900"]),
        ("times", &["1", "1", "3"]),
        ("from_us", if moment == PowerCutMoment::Time { &["10", "60", "300", "1500"] } else { &["0", "0", "100"] }),
        ("delay_us", &["0", "0.2", "1.5", "6", "40"]),
        ("outage_us", &["0", "5", "200", "2000"]),
    ];
    let taken = drawn.into_iter().filter(|(key, _)| fault.takes(key));
    let keys: String = taken.map(|(key, values)| format!(", {key} = {}", one_of(random, values))).collect();
    format!("{{ action = \"power-cut\", at = \"{}\"{keys} }}", moment.name())
}

/// Draws a stall, slow-down or throttle as a fault rule of a drive file, in one case of four. Otherwise returns `None`.
pub(super) fn draw_timeline_fault(random: &mut Random) -> Option<String> {
    if !random.bits().is_multiple_of(4) {
        return None;
    }
    let action = one_of(random, &[FaultAction::Stall, FaultAction::SlowDown, FaultAction::Throttle]);
    let mut keys = vec![format!("action = \"{}\"", action.name())];
    let drawn: [(&str, &[&str]); 7] = [
        ("operation", &["\"any\"", "\"any\"", "\"read\"", "\"write\""]),
        ("thread", &["0", "0", "0", "1"]),
        ("first", &["1", "1", "7", "40"]),
        ("times", &["0", "0", "2", "20"]),
        ("from_us", &["0", "0", "10", "100"]),
        ("factor", &["1.5", "4", "20"]),
        ("rate_iops", &["200000", "1000000"]),
    ];
    let fault = Fault { action, ..Fault::default() };
    keys.extend(
        drawn
            .into_iter()
            .filter(|(key, _)| fault.takes(key))
            .map(|(key, values)| format!("{key} = {}", one_of(random, values))),
    );
    let length = one_of(random, &["until_us = 150", "until_us = 2000", "for_us = 3", "for_us = 300"]);
    Some(format!("{{ {}, {length} }}", keys.join(", ")))
}

/// Draws a fault as a rule of a drive file.
pub(super) fn fault(random: &mut Random) -> String {
    let fault = Fault { action: one_of(random, ACTIONS), ..Fault::default() };
    let mut keys = vec![format!("action = \"{}\"", fault.action.name())];
    let drawn: [(&str, &[&str]); 16] = [
        ("operation", &["\"any\"", "\"read\"", "\"write\""]),
        ("thread", &["0", "0", "0", "1", "2"]),
        ("first", &["1", "2", "7", "40"]),
        ("every", &["2", "3", "10", "50"]),
        ("times", &["1", "2", "0"]),
        ("probability", &["1", "0.5", "0.05"]),
        ("from_us", &["0", "0", "10", "100", "500"]),
        ("until_us", &["1000", "3000"]),
        ("delay_us", &["0.1", "2", "30", "400"]),
        ("timeout_us", &["1", "20", "300", "3000"]),
        ("bank", &["0", "0", "1", "3"]),
        ("factor", &["1.5", "10", "50"]),
        ("direction", &["\"to-host\"", "\"to-device\""]),
        ("bits", &["1", "39", "40", "300"]),
        ("chip", &["0", "5", "8"]),
        ("outage_us", &["0", "5", "200"]),
    ];
    for (key, values) in drawn {
        if fault.takes(key) {
            keys.push(format!("{key} = {}", one_of(random, values)));
        }
    }
    if fault.takes("lanes") {
        keys.push(one_of(random, &["lanes = 1", "generation = 1", "lanes = 2", "lanes = 1, generation = 2"]).into());
    }
    format!("{{ {} }}", keys.join(", "))
}
