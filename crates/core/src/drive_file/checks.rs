//! Conditions between keys of different sections, which the bounds of single keys cannot express.
//!
//! Other conditions hold for every value within bounds and need no check: for example, no size within bounds comes near
//! 2^64 bytes.

use super::engines;
use crate::config::{DataPattern, Dma, StackStage, Wait};
use crate::drive::Drive;
use crate::ledger::stage::STACK_STAGES_MAX;
use crate::media::cells::Cells;
use crate::problem::BrokenCondition;

/// Returns all conditions between keys that the drive breaks.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let checks = [
        wait,
        stages,
        lock_times,
        engines::words,
        engines::interface,
        engines::conditions,
        engines::choices,
        engines::without_engines,
        engines::with_engines,
        engines::idle_states,
        engines::posted_register_writes,
        engines::ipc,
        clocks,
        volts,
        stripe,
        chips,
        chips_fill_stripe,
        spread_of_chips,
        pulses,
        pattern,
        housekeeping,
        wear_line,
        data_credits,
        lane_rate,
        completion_size,
        refresh,
        dma_pieces,
        dma_duplex,
        dma_requests,
    ];
    let between_sections = checks.iter().filter_map(|check| check(drive));
    let inside = super::checks_inside::broken(drive);
    let faults = super::checks_faults::broken(drive);
    let several = super::checks_several::broken(drive);
    let switches = super::checks_switch::broken(drive);
    let volume = super::checks_volume::broken(drive);
    let zones = super::checks_zones::broken(drive);
    let placement = super::checks_placement::broken(drive);
    let keys = super::checks_key_value::broken(drive);
    let around = faults.into_iter().chain(several).chain(switches).chain(volume).chain(zones).chain(placement);
    between_sections.chain(inside).chain(around).chain(keys).chain(drive.broken_protocols()).collect()
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
    let count = drive.stage_names().len();
    let found = format!("stack.stages has {count} stages");
    BrokenCondition::when(count > STACK_STAGES_MAX, &["stack.stages"], found, format!("at most {STACK_STAGES_MAX}"))
}

/// Checks that no stage of the software stack holds its lock for longer than it runs.
fn lock_times(drive: &Drive) -> Option<BrokenCondition> {
    let is_broken = |stage: &&StackStage| stage.submit_held > stage.submit || stage.complete_held > stage.complete;
    let stage = drive.stack.stages.iter().find(is_broken)?;
    BrokenCondition::when(
        true,
        &["stack.stages"],
        format!("stack.stages \"{}\" holds its lock for longer than it runs", stage.name),
        String::from("submit_held_ns no larger than submit_ns, and complete_held_ns no larger than complete_ns"),
    )
}

/// Checks that the clock at the lowest core voltage is below the host's nominal clock, because voltage rises between
/// the two.
fn clocks(drive: &Drive) -> Option<BrokenCondition> {
    let (low, high) = (drive.power.volts_min_ghz, drive.host.nominal_ghz);
    BrokenCondition::when(
        low >= high,
        &["power.volts_min_ghz", "host.nominal_ghz"],
        format!("power.volts_min_ghz is {low} with host.nominal_ghz {high}"),
        String::from("power.volts_min_ghz below host.nominal_ghz"),
    )
}

/// Checks that the lowest core voltage is no higher than the highest one.
fn volts(drive: &Drive) -> Option<BrokenCondition> {
    let (low, high) = (drive.power.volts_min, drive.power.volts_max);
    BrokenCondition::when(
        low > high,
        &["power.volts_min", "power.volts_max"],
        format!("power.volts_min is {low} with power.volts_max {high}"),
        String::from("power.volts_min no higher than power.volts_max"),
    )
}

/// Checks that a stripe of the memory is no larger than the memory's capacity.
fn stripe(drive: &Drive) -> Option<BrokenCondition> {
    let (stripe, capacity) = (drive.media.stripe_bytes, drive.media.capacity_mib);
    BrokenCondition::when(
        u64::from(stripe) > capacity << 20,
        &["media.stripe_bytes", "media.capacity_mib"],
        format!("media.stripe_bytes is {stripe} with media.capacity_mib {capacity}"),
        String::from("a stripe no larger than the capacity"),
    )
}

/// Checks that spare chips, several buses and clock cycles are given only for memory whose chips are modelled one by
/// one.
fn chips(drive: &Drive) -> Option<BrokenCondition> {
    let media = &drive.media;
    let keys = [
        ("spare_chips", u32::from(media.spare_chips)),
        ("buses_per_channel", u32::from(media.buses_per_channel) - 1),
        ("command_clocks", media.command_clocks.into()),
        ("dummy_clocks", media.dummy_clocks.into()),
    ];
    let key = keys.iter().find(|(_, beyond_none)| *beyond_none > 0).map(|(key, _)| *key)?;
    BrokenCondition::when(
        media.chip_bytes == 0,
        &[
            "media.chip_bytes",
            "media.spare_chips",
            "media.buses_per_channel",
            "media.command_clocks",
            "media.dummy_clocks",
        ],
        format!("media.{key} is given with media.chip_bytes 0"),
        String::from("media.chip_bytes above 0"),
    )
}

/// Checks that reads have no spread in time if memory chips are modelled one by one, because these read in step.
fn spread_of_chips(drive: &Drive) -> Option<BrokenCondition> {
    let media = &drive.media;
    let is_given = media.read_spread > 0.0 || media.read_retry_rate > 0.0;
    BrokenCondition::when(
        is_given && media.chip_bytes > 0,
        &["media.read_spread", "media.read_retry_rate", "media.chip_bytes"],
        String::from("a spread of reads is given with media.chip_bytes, whose chips read in step"),
        String::from("media.chip_bytes = 0, or media.read_spread = 0 and media.read_retry_rate = 0"),
    )
}

/// Checks that a stripe of the memory consists of whole chips.
fn chips_fill_stripe(drive: &Drive) -> Option<BrokenCondition> {
    let (chip, stripe) = (drive.media.chip_bytes, drive.media.stripe_bytes);
    BrokenCondition::when(
        chip > 0 && !stripe.is_multiple_of(chip),
        &["media.chip_bytes", "media.stripe_bytes"],
        format!("media.chip_bytes is {chip} with media.stripe_bytes {stripe}"),
        String::from("media.stripe_bytes that is a multiple of media.chip_bytes"),
    )
}

/// Checks that the programming pulses of typical data, half zeros and half ones, fit into `program_ns`.
fn pulses(drive: &Drive) -> Option<BrokenCondition> {
    let (shortest, program) = (Cells::of(&drive.media).typical_pulse_time(), drive.media.program);
    BrokenCondition::when(
        shortest > program,
        &["media.program_ns", "media.reset_ns", "media.set_ns", "media.program_group_cells"],
        format!("media.program_ns is {}, with programming pulses of {} ns in all", program.as_ns(), shortest.as_ns()),
        String::from("media.program_ns no shorter than the pulses together"),
    )
}

/// Checks that the durations of both programming pulses are given if the time of a write depends on its data.
fn pattern(drive: &Drive) -> Option<BrokenCondition> {
    let media = &drive.media;
    let data_matters = media.data_pattern != DataPattern::Typical || media.write_difference;
    BrokenCondition::when(
        data_matters && (media.reset.is_zero() || media.set.is_zero()),
        &["media.data_pattern", "media.write_difference", "media.reset_ns", "media.set_ns"],
        String::from("the time of a write depends on its data, but media.reset_ns or media.set_ns is 0"),
        String::from(
            "media.reset_ns and media.set_ns above 0, or media.data_pattern = \"typical\" and media.write_difference = false",
        ),
    )
}

/// Checks that a housekeeping pause of the memory is shorter than the interval between pauses.
fn housekeeping(drive: &Drive) -> Option<BrokenCondition> {
    let (pause, interval) = (drive.media.housekeeping, drive.media.housekeeping_interval);
    BrokenCondition::when(
        pause >= interval && !(pause.is_zero() && interval.is_zero()),
        &["media.housekeeping_us", "media.housekeeping_interval_us"],
        format!("media.housekeeping_us is {} with media.housekeeping_interval_us {}", pause.as_us(), interval.as_us()),
        String::from("a pause shorter than the interval"),
    )
}

/// Checks that a stripe of the memory consists of whole wear-levelling lines.
fn wear_line(drive: &Drive) -> Option<BrokenCondition> {
    let (line, stripe) = (drive.media.wear_line_bytes, drive.media.stripe_bytes);
    BrokenCondition::when(
        line > 0 && !stripe.is_multiple_of(line),
        &["media.wear_line_bytes", "media.stripe_bytes"],
        format!("media.wear_line_bytes is {line} with media.stripe_bytes {stripe}"),
        String::from("media.stripe_bytes that is a multiple of media.wear_line_bytes"),
    )
}

/// Checks that a receiver advertises credits for at least one packet of the largest payload (PCI Express Base
/// Specification 6.0, section 2.6.1); with fewer, such a packet would wait for ever.
fn data_credits(drive: &Drive) -> Option<BrokenCondition> {
    let (credits, payload) = (drive.link.posted_data_credits, drive.link.max_payload_bytes);
    BrokenCondition::when(
        u32::from(credits) * 16 < payload,
        &["link.posted_data_credits", "link.max_payload_bytes"],
        format!("link.posted_data_credits is {credits} with link.max_payload_bytes {payload}"),
        format!("at least {} credits of 16 bytes", payload / 16),
    )
}

/// Checks that a lane of the link is fast enough to keep the wire time of a packet far below 2^64 ps.
fn lane_rate(drive: &Drive) -> Option<BrokenCondition> {
    let rate = drive.link.lane_bytes_per_ns;
    BrokenCondition::when(
        rate > 0.0 && rate < 1e-3,
        &["link.lane_bytes_per_ns"],
        format!("link.lane_bytes_per_ns is {rate}"),
        String::from("0, or 0.001 and more"),
    )
}

/// Checks that a completion carries at most the largest payload, answers at most one read request, and can end at a
/// read completion boundary (section 2.3.1.1).
fn completion_size(drive: &Drive) -> Option<BrokenCondition> {
    let (size, boundary) = (drive.link.completion_bytes, drive.link.read_completion_boundary_bytes);
    let size_max = drive.link.max_payload_bytes.min(drive.link.max_read_request_bytes);
    BrokenCondition::when(
        size > 0 && !(boundary..=size_max).contains(&size),
        &["link.completion_bytes", "link.max_payload_bytes", "link.max_read_request_bytes"],
        format!("link.completion_bytes is {size}"),
        format!(
            "0, or link.read_completion_boundary_bytes ({boundary}) up to {size_max}, the smaller of \
             link.max_payload_bytes and link.max_read_request_bytes"
        ),
    )
}

/// Checks that a DRAM refresh is no longer than the interval between refreshes.
fn refresh(drive: &Drive) -> Option<BrokenCondition> {
    let (refresh, interval) = (drive.root_complex.refresh, drive.root_complex.refresh_interval);
    BrokenCondition::when(
        refresh > interval,
        &["root_complex.refresh_ns", "root_complex.refresh_interval_ns"],
        format!(
            "root_complex.refresh_ns is {} with root_complex.refresh_interval_ns {}",
            refresh.as_ns(),
            interval.as_ns()
        ),
        String::from("a refresh no longer than the interval"),
    )
}

/// Checks that sizes of the pieces and words of a DMA transfer are given only if pieces cost time.
fn dma_pieces(drive: &Drive) -> Option<BrokenCondition> {
    let (dma, usual) = (&drive.dma, Dma::default());
    let is_idle = dma.piece.is_zero() && (dma.piece_bytes != usual.piece_bytes || dma.word_bytes != usual.word_bytes);
    BrokenCondition::when(
        is_idle,
        &["dma.piece_ns", "dma.piece_bytes", "dma.word_bytes"],
        format!("dma.piece_bytes is {} and dma.word_bytes {} with dma.piece_ns 0", dma.piece_bytes, dma.word_bytes),
        String::from("dma.piece_ns above 0"),
    )
}

/// Checks that full duplex of the DMA engine is given only if transfers occupy the engine.
fn dma_duplex(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.dma.full_duplex && !drive.dma.takes_turns(),
        &["dma.full_duplex", "dma.piece_ns", "dma.from_host_ns", "dma.to_host_ns"],
        String::from("dma.full_duplex is true, but no transfer occupies the DMA engine"),
        String::from("dma.piece_ns, dma.from_host_ns or dma.to_host_ns above 0"),
    )
}

/// Checks that requests of the DMA engine are no longer than the link's largest read request.
fn dma_requests(drive: &Drive) -> Option<BrokenCondition> {
    let (bytes, bytes_max) = (drive.dma.request_bytes, drive.link.max_read_request_bytes);
    BrokenCondition::when(
        bytes > bytes_max,
        &["dma.request_bytes", "link.max_read_request_bytes"],
        format!("dma.request_bytes is {bytes} with link.max_read_request_bytes {bytes_max}"),
        format!("0, or up to {bytes_max}"),
    )
}
