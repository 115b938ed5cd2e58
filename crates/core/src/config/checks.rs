//! Conditions between keys, which the bounds of single keys cannot express.
//!
//! Other conditions hold for every value within bounds and need no check: the smallest `max_read_request_bytes`
//! is the largest `read_completion_boundary_bytes`, and no size within bounds comes near 2^64 bytes.

use super::drive::Drive;
use super::schema::{Interface, Stage, Wait};
use crate::report::stage::STACK_STAGES_MAX;

/// A condition that does not hold.
pub(super) struct Broken {
    /// Full names of the keys involved.
    pub keys: &'static [&'static str],
    pub found: String,
    pub allowed: String,
}

/// All conditions that `drive` breaks.
pub(super) fn broken(drive: &Drive) -> Vec<Broken> {
    let checks = [
        wait,
        moneta_wait,
        zero_copy,
        stages,
        held,
        clocks,
        volts,
        stripe,
        data_credits,
        nvme_fetch,
        dc_express_fetch,
        dc_express_polls,
    ];
    checks.iter().filter_map(|check| check(drive)).collect()
}

fn broken_if(is_broken: bool, keys: &'static [&'static str], found: String, allowed: String) -> Option<Broken> {
    is_broken.then_some(Broken { keys, found, allowed })
}

/// A thread that sleeps is woken by an interrupt, which DC Express never sends.
fn wait(drive: &Drive) -> Option<Broken> {
    let (interrupts, cause) = match drive.interface {
        Interface::Nvme => (drive.nvme.interrupts, "nvme.interrupts is false"),
        Interface::DcExpress => (false, "interface is \"dc-express\", which has no interrupts"),
        Interface::Moneta => (true, ""),
    };
    broken_if(
        drive.host.wait == Wait::Sleep && !interrupts,
        &["host.wait", "nvme.interrupts", "interface"],
        format!("host.wait is \"sleep\" but {cause}"),
        String::from("host.wait = \"spin\" or \"hybrid\", or interface = \"nvme\" with nvme.interrupts = true"),
    )
}

/// Moneta's driver learns of completions from its interrupt handler alone; whether a thread spins until then depends
/// on the size of its request.
fn moneta_wait(drive: &Drive) -> Option<Broken> {
    broken_if(
        drive.interface == Interface::Moneta && drive.host.wait != Wait::Sleep,
        &["host.wait", "interface"],
        String::from("interface is \"moneta\" with a host.wait that is not \"sleep\""),
        String::from("host.wait = \"sleep\", with moneta.spin_up_to_bytes for the requests that spin"),
    )
}

/// The address of an application's buffer has to reach the device with the request, and nothing is copied.
fn zero_copy(drive: &Drive) -> Option<Broken> {
    let (words, copy) = (drive.moneta.request_words, drive.stack.copy_bytes_per_ns);
    broken_if(
        drive.moneta.zero_copy && (words == 1 || copy > 0.0),
        &["moneta.zero_copy", "moneta.request_words", "stack.copy_bytes_per_ns"],
        format!("moneta.zero_copy is true with moneta.request_words {words} and stack.copy_bytes_per_ns {copy}"),
        String::from("moneta.request_words = 2 or 3, and stack.copy_bytes_per_ns = 0"),
    )
}

fn stages(drive: &Drive) -> Option<Broken> {
    let count = crate::protocol::stages(drive).len();
    let found = format!("stack.stages has {count} stages");
    broken_if(count > STACK_STAGES_MAX, &["stack.stages"], found, format!("at most {STACK_STAGES_MAX}"))
}

/// What a stage does under its lock is a part of what it does.
fn held(drive: &Drive) -> Option<Broken> {
    let is_broken = |stage: &&Stage| stage.submit_held > stage.submit || stage.complete_held > stage.complete;
    let stage = drive.stack.stages.iter().find(is_broken)?;
    broken_if(
        true,
        &["stack.stages"],
        format!("stack.stages \"{}\" holds its lock for longer than it runs", stage.name),
        String::from("submit_held_ns up to submit_ns, and complete_held_ns up to complete_ns"),
    )
}

/// Voltage rises from one clock to the other, so there must be room between them.
fn clocks(drive: &Drive) -> Option<Broken> {
    let (low, high) = (drive.power.volts_min_ghz, drive.host.nominal_ghz);
    broken_if(
        low >= high,
        &["power.volts_min_ghz", "host.nominal_ghz"],
        format!("power.volts_min_ghz is {low} with host.nominal_ghz {high}"),
        String::from("power.volts_min_ghz below host.nominal_ghz"),
    )
}

fn volts(drive: &Drive) -> Option<Broken> {
    let (low, high) = (drive.power.volts_min, drive.power.volts_max);
    broken_if(
        low > high,
        &["power.volts_min", "power.volts_max"],
        format!("power.volts_min is {low} with power.volts_max {high}"),
        String::from("power.volts_min up to power.volts_max"),
    )
}

fn stripe(drive: &Drive) -> Option<Broken> {
    let (stripe, capacity) = (drive.media.stripe_bytes, drive.media.capacity_mib);
    broken_if(
        u64::from(stripe) > capacity << 20,
        &["media.stripe_bytes", "media.capacity_mib"],
        format!("media.stripe_bytes is {stripe} with media.capacity_mib {capacity}"),
        String::from("a stripe no larger than the capacity"),
    )
}

/// A receiver advertises credits for a packet of the largest payload at least (PCI Express Base Specification 6.0,
/// section 2.6.1); with fewer, such a packet would wait for ever.
fn data_credits(drive: &Drive) -> Option<Broken> {
    let (credits, payload) = (drive.link.posted_data_credits, drive.link.max_payload_bytes);
    broken_if(
        u32::from(credits) * 16 < payload,
        &["link.posted_data_credits", "link.max_payload_bytes"],
        format!("link.posted_data_credits is {credits} with link.max_payload_bytes {payload}"),
        format!("at least {} credits of 16 bytes", payload / 16),
    )
}

fn nvme_fetch(drive: &Drive) -> Option<Broken> {
    let (fetch, queue) = (drive.nvme.fetch_entries, drive.nvme.queue_entries);
    broken_if(
        u32::from(fetch) > queue,
        &["nvme.fetch_entries", "nvme.queue_entries"],
        format!("nvme.fetch_entries is {fetch} with nvme.queue_entries {queue}"),
        String::from("nvme.fetch_entries up to nvme.queue_entries"),
    )
}

fn dc_express_fetch(drive: &Drive) -> Option<Broken> {
    let (fetch, queue) = (drive.dc_express.fetch_entries, drive.dc_express.queue_entries);
    broken_if(
        u32::from(fetch) > queue,
        &["dc_express.fetch_entries", "dc_express.queue_entries"],
        format!("dc_express.fetch_entries is {fetch} with dc_express.queue_entries {queue}"),
        String::from("dc_express.fetch_entries up to dc_express.queue_entries"),
    )
}

fn dc_express_polls(drive: &Drive) -> Option<Broken> {
    let (polls, queue) = (drive.dc_express.polls_in_flight, drive.dc_express.queue_entries);
    broken_if(
        u32::from(polls) > queue,
        &["dc_express.polls_in_flight", "dc_express.queue_entries"],
        format!("dc_express.polls_in_flight is {polls} with dc_express.queue_entries {queue}"),
        String::from("dc_express.polls_in_flight up to dc_express.queue_entries"),
    )
}
