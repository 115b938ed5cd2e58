//! Conditions between keys of different sections, which the bounds of single keys cannot express.
//!
//! Other conditions hold for every value within bounds and need no check: for example, no size within bounds comes near
//! 2^64 bytes.

use super::{checks_sections, engines, needs};
use crate::config::Wait;
use crate::drive::Drive;
use crate::ledger::stage::STACK_STAGES_MAX;
use crate::media::cells::Cells;
use crate::problem::BrokenCondition;

/// Returns all conditions between keys that the drive breaks.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [
        wait,
        stages,
        engines::words,
        engines::interface,
        engines::conditions,
        engines::choices,
        engines::copies,
        engines::stages,
        engines::idle_states,
        engines::check_posted_register_writes,
        check_clocks,
        check_program_pulses,
        check_dma_request_size,
        volume,
        super::checks_fabric::interface,
    ];
    let sections = drive.sections();
    let alone = sections.iter().flat_map(|section| section.broken_conditions());
    let between_sections = checks.iter().filter_map(|check| check(drive));
    let inside = super::checks_inside::broken(drive);
    let faults = super::checks_faults::broken(drive);
    let several = super::checks_several::broken(drive);
    let switches = super::checks_switch::broken(drive);
    let zones = super::checks_zones::broken(drive);
    let placement = super::checks_placement::broken(drive);
    let keys = super::checks_key_value::broken(drive);
    let inert = needs::broken(drive);
    let around = faults.into_iter().chain(several).chain(switches).chain(zones).chain(placement);
    alone
        .chain(between_sections)
        .chain(inert)
        .chain(inside)
        .chain(around)
        .chain(keys)
        .chain(drive.broken_protocol_conditions())
        .collect()
}

/// Checks that threads sleep for completions only if the protocol sends interrupts to wake them.
fn wait(drive: &Drive) -> Option<BrokenCondition> {
    let cause = drive.protocol().no_interrupts()?;
    BrokenCondition::when(
        drive.host.wait == Wait::Sleep,
        &["host.wait", "interface"],
        format!("host.wait is \"sleep\" but {cause}"),
        String::from("host.wait = \"spin\" or \"hybrid\", or an interface that sends interrupts"),
    )
}

/// Checks that the software stack has no more stages than results have columns for.
fn stages(drive: &Drive) -> Option<BrokenCondition> {
    let count = drive.software_stage_names().len();
    let found = format!("stack.stages has {count} stages");
    BrokenCondition::when(count > STACK_STAGES_MAX, &["stack.stages"], found, format!("at most {STACK_STAGES_MAX}"))
}

/// Checks that the clock at the lowest core voltage is below the host's nominal clock, because voltage rises between
/// the two.
fn check_clocks(drive: &Drive) -> Option<BrokenCondition> {
    let (low, high) = (drive.power.volts_min_ghz, drive.host.nominal_ghz);
    BrokenCondition::when(
        low >= high,
        &["power.volts_min_ghz", "host.nominal_ghz"],
        format!("power.volts_min_ghz is {low} with host.nominal_ghz {high}"),
        String::from("power.volts_min_ghz below host.nominal_ghz"),
    )
}

/// Checks that the programming pulses of the memory fit into its program time.
fn check_program_pulses(drive: &Drive) -> Option<BrokenCondition> {
    Cells::check_pulse_times(&drive.media)
}

/// Checks that requests of the DMA engine are no longer than the link's largest read request.
fn check_dma_request_size(drive: &Drive) -> Option<BrokenCondition> {
    let (bytes, bytes_max) = (drive.dma.request_bytes, drive.link.max_read_request_bytes);
    BrokenCondition::when(
        bytes > bytes_max,
        &["dma.request_bytes", "link.max_read_request_bytes"],
        format!("dma.request_bytes is {bytes} with link.max_read_request_bytes {bytes_max}"),
        format!("0, or up to {bytes_max}"),
    )
}

/// Checks that requests of the interface reach the memory as whole commands, which the limits of a volume can count.
fn volume(drive: &Drive) -> Option<BrokenCondition> {
    let passes_whole_commands = |drive: &Drive| drive.protocol().passes_whole_commands();
    let lacks = "whose requests reach the memory in parts";
    let broken = checks_sections::interface(drive, "[volume]", &["interface"], passes_whole_commands, lacks);
    broken.filter(|_| drive.volume.is_there())
}
