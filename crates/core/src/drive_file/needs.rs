//! Keys that need a part of a drive or another key, as their rows say: refused if the user gives them without it.
//!
//! A value that a preset or another drive gives is accepted, so that a user can take a part away from a shipped drive
//! without resetting each key of that part.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::config::TranslationPolicyName;
use crate::config::origin::ValueOrigin;
use crate::config::part::Part;
use crate::config::section::{KeyConditions, Section, full_key_name};
use crate::config::value::readable;
use crate::drive::Drive;
use crate::problem::BrokenCondition;

/// Conditions on which a drive has a part, and the words for a drive that lacks it.
pub(super) struct DrivePartRow {
    /// Function that is true for a drive that has the part.
    is_there: fn(&Drive) -> bool,
    /// Full names of the keys that decide whether a drive has the part.
    keys: &'static [&'static str],
    /// Words after "media.planes is given" that describe a drive without the part.
    pub(super) without: &'static str,
    /// Values of keys that give a drive the part.
    pub(super) allowed: &'static str,
}

macro_rules! parts {
    ($($part:ident: $is_there:expr, $keys:expr, $without:literal, $allowed:literal;)+) => {
        /// Returns the description of a part of a drive.
        fn row(part: Part) -> DrivePartRow {
            match part {
                $(Part::$part => DrivePartRow { is_there: $is_there, keys: &$keys, without: $without, allowed: $allowed },)+
            }
        }
    };
}

parts! {
    Switch: |drive| drive.switch.direction().is_some(), ["switch.drives", "switch.hosts"],
        "without a switch", "switch.drives or switch.hosts above 0";
    DmaTurns: |drive| drive.dma.serves_in_turn(), ["dma.piece_ns", "dma.from_host_ns", "dma.to_host_ns"],
        "for a DMA engine that no transfer occupies", "dma.piece_ns, dma.from_host_ns or dma.to_host_ns above 0";
    Engines: |drive| drive.stack.has_engines(), ["stack.engines"],
        "in a stack without stack.engines", "a stack with stack.engines, as in docs/hosts.md";
    SoftwareAlone: |drive| !drive.stack.has_engines(), ["stack.engines"],
        "in a stack with stack.engines", "a stack without stack.engines";
    Translation: |drive| drive.is_flash(), ["translation.mapping"],
        "with translation.mapping \"none\"", "translation.mapping = \"page\"";
    Flash: |drive| drive.is_flash() || drive.media.is_nand(), ["translation.mapping"],
        "with translation.mapping \"none\"", "translation.mapping = \"page\"";
    SecondBit: |drive| has_bits_per_cell(drive, 2), ["media.program_bytes", "media.stripe_bytes"],
        "for cells of one bit", "media.program_bytes of as many stripes as a cell has bits";
    ThirdBit: |drive| has_bits_per_cell(drive, 3), ["media.program_bytes", "media.stripe_bytes"],
        "for cells of one or two bits", "media.program_bytes of as many stripes as a cell has bits";
    RandomChoices: |drive| drive.translation.policy == TranslationPolicyName::DChoices, ["translation.policy"],
        "with a translation.policy that does not use it", "translation.policy = \"d-choices\"";
    SlcCache: |drive| !drive.is_flash() || drive.translation.has_slc_cache(), ["translation.slc_cache_mib"],
        "with translation.slc_cache_mib 0", "translation.slc_cache_mib above 0";
    CommandCores: |drive| !drive.controller.read_core.is_zero() || !drive.controller.write_core.is_zero(),
        ["controller.read_core_ns", "controller.write_core_ns"],
        "for a drive on which no command takes processor time",
        "controller.read_core_ns or controller.write_core_ns above 0";
    EarlyAcknowledge: |drive| drive.is_flash() || drive.media.acknowledges_early(),
        ["media.acknowledge", "translation.mapping"],
        "with media.acknowledge \"late\"", "media.acknowledge = \"early\", or translation.mapping = \"page\"";
    OperationRate: |drive| drive.volume.has_operation_rate(), ["volume.rate_iops", "volume.iops_per_gib"],
        "without a rate of operations", "volume.rate_iops or volume.iops_per_gib above 0";
    Bandwidth: |drive| drive.volume.has_bandwidth(), ["volume.rate_mib_per_s", "volume.mib_per_s_per_gib"],
        "without a bandwidth", "volume.rate_mib_per_s or volume.mib_per_s_per_gib above 0";
    VolumeRate: |drive| drive.volume.has_any_limit(drive.media.capacity_mib),
        ["volume.rate_iops", "volume.iops_per_gib", "volume.rate_mib_per_s", "volume.mib_per_s_per_gib"],
        "without a rate", "volume.rate_iops, volume.rate_mib_per_s or a rate for each GiB above 0";
    SizedOperations: |drive| drive.volume.counts_operations_by_size(),
        ["volume.rate_iops", "volume.iops_per_gib", "volume.counts_whole_operations"],
        "without a limit of operations", "volume.rate_iops or volume.iops_per_gib above 0";
    Credits: |drive| drive.volume.has_burst_credits(),
        ["volume.credit_operations", "volume.credit_mib", "volume.credit_mib_per_gib"],
        "without a bucket of credits",
        "volume.credit_operations, volume.credit_mib or volume.credit_mib_per_gib above 0";
}

/// True if each flash cell of the drive holds at least this number of bits. Only with a translation layer do the bits
/// follow from the program unit.
fn has_bits_per_cell(drive: &Drive, bits: u32) -> bool {
    !drive.is_flash() || drive.media.bits_per_cell() >= bits
}

/// Returns a broken condition for each part or key that the drive lacks although the user gives a key that needs it;
/// names the first such key. A drive file that was printed by the program has all keys, so that keys with their defaults
/// do not count.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    static BLANK: OnceLock<Drive> = OnceLock::new();
    let mut found: Vec<BrokenCondition> = Vec::new();
    for (section, blank) in drive.sections().into_iter().zip(BLANK.get_or_init(Drive::blank).sections()) {
        let given: Vec<&KeyConditions> =
            section.needs().iter().filter(|needs| is_given_by_user(drive, needs)).collect();
        if given.is_empty() {
            continue;
        }
        let changed = section.values().into_iter().zip(blank.values()).filter(|(value, usual)| value != usual);
        let changed: BTreeSet<String> = changed.map(|((key, _), _)| full_key_name(section.path(), key)).collect();
        for needs in given.into_iter().filter(|needs| changed.contains(needs.key)) {
            let lack = missing_part_condition(drive, needs).or_else(|| missing_key_condition(blank, &changed, needs));
            let is_new = |lack: &BrokenCondition| found.iter().all(|known| known.keys[1..] != lack.keys[1..]);
            found.extend(lack.filter(is_new));
        }
    }
    found
}

/// True if the user has given a key that needs something, in a file or an override.
fn is_given_by_user(drive: &Drive, needs: &KeyConditions) -> bool {
    let has_needs = !needs.parts.is_empty() || !needs.with.is_empty();
    has_needs && matches!(drive.sources.of(needs.key), ValueOrigin::File | ValueOrigin::Set)
}

/// Returns the broken condition of a key that needs a part which the drive lacks.
fn missing_part_condition(drive: &Drive, needs: &KeyConditions) -> Option<BrokenCondition> {
    missing_part(drive, needs).map(|row| ineffective_key_condition(needs.key, row.keys, row.without, row.allowed))
}

/// Returns the first part that a key needs and the drive lacks.
pub(super) fn missing_part(drive: &Drive, needs: &KeyConditions) -> Option<DrivePartRow> {
    needs.parts.iter().map(|part| row(*part)).find(|row| !(row.is_there)(drive))
}

/// Returns the broken condition of a key that needs another key of its section, if that key is not among the `changed`
/// ones. `blank` is the section with all defaults.
fn missing_key_condition(
    blank: &dyn Section,
    changed: &BTreeSet<String>,
    needs: &KeyConditions,
) -> Option<BrokenCondition> {
    let key = needs.with.iter().find(|key| !changed.contains(**key))?;
    let (value, allowed) = non_default_condition(blank, key)?;
    Some(ineffective_key_condition(needs.key, &[*key], &format!("with {key} {value}"), &allowed))
}

/// Returns the default of a key of a section, and the words for any other value. `blank` is the section with all
/// defaults.
fn non_default_condition(blank: &dyn Section, key: &str) -> Option<(String, String)> {
    let (_, value) = blank.values().into_iter().find(|(name, _)| full_key_name(blank.path(), name) == key)?;
    let (other, value) = (if value.is_number() { "above" } else { "other than" }, readable(&value));
    Some((value.clone(), format!("{key} {other} {value}")))
}

/// Returns what each key of a section needs to have an effect, in words; none for keys that always have one. `blank` is
/// the section with all defaults.
pub(super) fn descriptions(blank: &dyn Section) -> impl Iterator<Item = Option<String>> {
    blank.needs().iter().map(|needs| {
        let parts = needs.parts.iter().map(|part| String::from(row(*part).allowed));
        let keys = needs.with.iter().filter_map(|key| Some(non_default_condition(blank, key)?.1));
        let all: Vec<String> = parts.chain(keys).collect();
        (!all.is_empty()).then(|| all.join("; "))
    })
}

/// Returns the broken condition of a key that has no effect: the words `without` tell why, and `allowed` which values
/// of `others` would give it an effect.
fn ineffective_key_condition(
    key: &'static str,
    others: &[&'static str],
    without: &str,
    allowed: &str,
) -> BrokenCondition {
    BrokenCondition {
        keys: [&[key], others].concat(),
        found: format!("{key} is given {without}, where it has no effect"),
        allowed: format!("{allowed}, or no {key}"),
    }
}
