//! Conditions between keys, which the bounds of single keys cannot express.
//!
//! Other conditions hold for every value within bounds and need no check: no size within bounds comes near 2^64 bytes.

use super::engines;
use crate::config::{DataPattern, Dma, Stage, Wait};
use crate::drive::Drive;
use crate::ledger::stage::STACK_STAGES_MAX;
use crate::media::cells::Cells;
use crate::problem::Broken;

/// All conditions that `drive` breaks.
pub(super) fn broken(drive: &Drive) -> Vec<Broken> {
    let checks = [
        wait,
        stages,
        held,
        engines::words,
        engines::interface,
        engines::conditions,
        engines::choices,
        engines::alike,
        engines::apart,
        engines::idle,
        engines::posted,
        engines::ipc,
        clocks,
        volts,
        stripe,
        chips,
        chips_fill_stripe,
        pulses,
        pattern,
        housekeeping,
        wear_line,
        data_credits,
        lane_rate,
        completion_size,
        refresh,
        pieces,
        turns,
        dma_requests,
    ];
    let between_sections = checks.iter().filter_map(|check| check(drive));
    let inside = super::checks_inside::broken(drive);
    let faults = super::checks_faults::broken(drive);
    let several = super::checks_several::broken(drive);
    let switches = super::checks_switch::broken(drive);
    let around = faults.into_iter().chain(several).chain(switches);
    between_sections.chain(inside).chain(around).chain(drive.broken_protocols()).collect()
}

/// A thread that sleeps is woken by an interrupt, which some protocols never send.
fn wait(drive: &Drive) -> Option<Broken> {
    let cause = drive.protocol().no_interrupts()?;
    Broken::when(
        drive.host.wait == Wait::Sleep,
        &["host.wait", "interface"],
        format!("host.wait is \"sleep\" but {cause}"),
        String::from("host.wait = \"spin\" or \"hybrid\", or an interface with interrupts"),
    )
}

fn stages(drive: &Drive) -> Option<Broken> {
    let count = drive.stage_names().len();
    let found = format!("stack.stages has {count} stages");
    Broken::when(count > STACK_STAGES_MAX, &["stack.stages"], found, format!("at most {STACK_STAGES_MAX}"))
}

/// What a stage does under its lock is a part of what it does.
fn held(drive: &Drive) -> Option<Broken> {
    let is_broken = |stage: &&Stage| stage.submit_held > stage.submit || stage.complete_held > stage.complete;
    let stage = drive.stack.stages.iter().find(is_broken)?;
    Broken::when(
        true,
        &["stack.stages"],
        format!("stack.stages \"{}\" holds its lock for longer than it runs", stage.name),
        String::from("submit_held_ns up to submit_ns, and complete_held_ns up to complete_ns"),
    )
}

/// Voltage rises from one clock to the other, so there must be room between them.
fn clocks(drive: &Drive) -> Option<Broken> {
    let (low, high) = (drive.power.volts_min_ghz, drive.host.nominal_ghz);
    Broken::when(
        low >= high,
        &["power.volts_min_ghz", "host.nominal_ghz"],
        format!("power.volts_min_ghz is {low} with host.nominal_ghz {high}"),
        String::from("power.volts_min_ghz below host.nominal_ghz"),
    )
}

fn volts(drive: &Drive) -> Option<Broken> {
    let (low, high) = (drive.power.volts_min, drive.power.volts_max);
    Broken::when(
        low > high,
        &["power.volts_min", "power.volts_max"],
        format!("power.volts_min is {low} with power.volts_max {high}"),
        String::from("power.volts_min up to power.volts_max"),
    )
}

fn stripe(drive: &Drive) -> Option<Broken> {
    let (stripe, capacity) = (drive.media.stripe_bytes, drive.media.capacity_mib);
    Broken::when(
        u64::from(stripe) > capacity << 20,
        &["media.stripe_bytes", "media.capacity_mib"],
        format!("media.stripe_bytes is {stripe} with media.capacity_mib {capacity}"),
        String::from("a stripe no larger than the capacity"),
    )
}

/// Spare chips, several buses and clocks belong to chips that are told apart.
fn chips(drive: &Drive) -> Option<Broken> {
    let media = &drive.media;
    let keys = [
        ("spare_chips", u32::from(media.spare_chips)),
        ("buses_per_channel", u32::from(media.buses_per_channel) - 1),
        ("command_clocks", media.command_clocks.into()),
        ("dummy_clocks", media.dummy_clocks.into()),
    ];
    let key = keys.iter().find(|(_, beyond_none)| *beyond_none > 0).map(|(key, _)| *key)?;
    Broken::when(
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

fn chips_fill_stripe(drive: &Drive) -> Option<Broken> {
    let (chip, stripe) = (drive.media.chip_bytes, drive.media.stripe_bytes);
    Broken::when(
        chip > 0 && !stripe.is_multiple_of(chip),
        &["media.chip_bytes", "media.stripe_bytes"],
        format!("media.chip_bytes is {chip} with media.stripe_bytes {stripe}"),
        String::from("a stripe of whole chips"),
    )
}

/// The pulses of typical data, half zeros and half ones, fit into the time that typical data takes.
fn pulses(drive: &Drive) -> Option<Broken> {
    let (shortest, program) = (Cells::of(&drive.media).typical_pulse_time(), drive.media.program);
    Broken::when(
        shortest > program,
        &["media.program_ns", "media.reset_ns", "media.set_ns", "media.program_group_cells"],
        format!("media.program_ns is {} with pulses of {} in all", program.as_ns(), shortest.as_ns()),
        String::from("media.program_ns no shorter than its pulses"),
    )
}

fn pattern(drive: &Drive) -> Option<Broken> {
    let media = &drive.media;
    let data_matters = media.data_pattern != DataPattern::Typical || media.write_difference;
    Broken::when(
        data_matters && (media.reset.is_zero() || media.set.is_zero()),
        &["media.data_pattern", "media.write_difference", "media.reset_ns", "media.set_ns"],
        String::from("the time of a write depends on its data, but media.reset_ns or media.set_ns is 0"),
        String::from("both pulses, or media.data_pattern = \"typical\" and media.write_difference = false"),
    )
}

/// Something has to fit between two pauses.
fn housekeeping(drive: &Drive) -> Option<Broken> {
    let (pause, interval) = (drive.media.housekeeping, drive.media.housekeeping_interval);
    Broken::when(
        pause >= interval && !(pause.is_zero() && interval.is_zero()),
        &["media.housekeeping_us", "media.housekeeping_interval_us"],
        format!("media.housekeeping_us is {} with media.housekeeping_interval_us {}", pause.as_us(), interval.as_us()),
        String::from("a pause shorter than the interval"),
    )
}

fn wear_line(drive: &Drive) -> Option<Broken> {
    let (line, stripe) = (drive.media.wear_line_bytes, drive.media.stripe_bytes);
    Broken::when(
        line > 0 && !stripe.is_multiple_of(line),
        &["media.wear_line_bytes", "media.stripe_bytes"],
        format!("media.wear_line_bytes is {line} with media.stripe_bytes {stripe}"),
        String::from("a stripe of whole lines"),
    )
}

/// A receiver advertises credits for a packet of the largest payload at least (PCI Express Base Specification 6.0,
/// section 2.6.1); with fewer, such a packet would wait for ever.
fn data_credits(drive: &Drive) -> Option<Broken> {
    let (credits, payload) = (drive.link.posted_data_credits, drive.link.max_payload_bytes);
    Broken::when(
        u32::from(credits) * 16 < payload,
        &["link.posted_data_credits", "link.max_payload_bytes"],
        format!("link.posted_data_credits is {credits} with link.max_payload_bytes {payload}"),
        format!("at least {} credits of 16 bytes", payload / 16),
    )
}

/// Slower lanes would bring a packet's wire time near 2^64 ps.
fn lane_rate(drive: &Drive) -> Option<Broken> {
    let rate = drive.link.lane_bytes_per_ns;
    Broken::when(
        rate > 0.0 && rate < 1e-3,
        &["link.lane_bytes_per_ns"],
        format!("link.lane_bytes_per_ns is {rate}"),
        String::from("0, or 0.001 and more"),
    )
}

/// A completion carries no more than a packet may, answers no more than one request, and ends at a boundary (section
/// 2.3.1.1).
fn completion_size(drive: &Drive) -> Option<Broken> {
    let (size, boundary) = (drive.link.completion_bytes, drive.link.read_completion_boundary_bytes);
    let size_max = drive.link.max_payload_bytes.min(drive.link.max_read_request_bytes);
    Broken::when(
        size > 0 && !(boundary..=size_max).contains(&size),
        &["link.completion_bytes", "link.max_payload_bytes", "link.max_read_request_bytes"],
        format!("link.completion_bytes is {size}"),
        format!(
            "0, or link.read_completion_boundary_bytes ({boundary}) up to {size_max}, the smaller of \
             link.max_payload_bytes and link.max_read_request_bytes"
        ),
    )
}

fn refresh(drive: &Drive) -> Option<Broken> {
    let (refresh, interval) = (drive.root_complex.refresh, drive.root_complex.refresh_interval);
    Broken::when(
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

/// What pieces are matters where they cost something.
fn pieces(drive: &Drive) -> Option<Broken> {
    let (dma, usual) = (&drive.dma, Dma::default());
    let is_idle = dma.piece.is_zero() && (dma.piece_bytes != usual.piece_bytes || dma.word_bytes != usual.word_bytes);
    Broken::when(
        is_idle,
        &["dma.piece_ns", "dma.piece_bytes", "dma.word_bytes"],
        format!("dma.piece_bytes is {} and dma.word_bytes {} with dma.piece_ns 0", dma.piece_bytes, dma.word_bytes),
        String::from("dma.piece_ns above 0"),
    )
}

/// What costs nothing needs no turns.
fn turns(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.dma.full_duplex && !drive.dma.takes_turns(),
        &["dma.full_duplex", "dma.piece_ns", "dma.from_host_ns", "dma.to_host_ns"],
        String::from("dma.full_duplex is true where nothing is moved in turns"),
        String::from("dma.piece_ns, dma.from_host_ns or dma.to_host_ns above 0"),
    )
}

/// The link cuts requests that are longer than it allows.
fn dma_requests(drive: &Drive) -> Option<Broken> {
    let (bytes, bytes_max) = (drive.dma.request_bytes, drive.link.max_read_request_bytes);
    Broken::when(
        bytes > bytes_max,
        &["dma.request_bytes", "link.max_read_request_bytes"],
        format!("dma.request_bytes is {bytes} with link.max_read_request_bytes {bytes_max}"),
        format!("0, or up to {bytes_max}"),
    )
}
