//! Closed form (latency and demands without simulation) of NVMe requests, in the order of the diagram in
//! [`crate::protocol::nvme`].

use crate::closed_form::Parts;
use crate::closed_form::demand::ServiceDemands;
use crate::closed_form::form::{Certainty, ClosedForm, Latency, first_inexactness_reason};
use crate::closed_form::media::MemoryAccessTime;
use crate::closed_form::split::{CommandSplit, OVERLAP};
use crate::closed_form::workload::{Class, Workload};
use crate::fabric::LoneRemoteTimes;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::number::low_u32;
use crate::protocol::nvme::config::DataPointerFormat;
use crate::protocol::nvme::controller::PAYLOAD_READ_BYTES;
use crate::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, PAGE_BYTES, SUBMISSION_ENTRY_BYTES};
use crate::request::DataDirection;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Size in bytes of a doorbell register write and of an interrupt message (NVMe over PCIe Transport Specification 1.0,
/// section 3.1.2; PCI Express Base Specification 6.0, section 6.1.4).
const REGISTER_BYTES: u32 = 4;
const COMMAND_BYTES: u32 = SUBMISSION_ENTRY_BYTES as u32;
const ENTRY_BYTES: u32 = COMPLETION_ENTRY_BYTES as u32;

/// Returns latency and resource demands of a request over NVMe, calculated without simulation.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    ClosedForm { latency: Some(latency(parts, workload, class)), demands: demands(parts, workload, class) }
}

/// Returns the host's processor time of a doorbell register write; zero with shadow doorbells, since a request may then
/// need none, and behind a network, where the target's core writes the doorbell.
fn doorbell_cpu_time(parts: &Parts) -> Span {
    match parts.drive.nvme.shadow_doorbells || parts.drive.fabric.is_there() {
        true => Span::ZERO,
        false => parts.drive.host.register_write_time(),
    }
}

/// Returns the processor time of the completion queue head doorbell after a completion; zero if the driver does not
/// write one.
fn completion_doorbell_cpu_time(parts: &Parts) -> Span {
    if parts.drive.nvme.completion_doorbells { doorbell_cpu_time(parts) } else { Span::ZERO }
}

/// Returns the time to look up a key in the drive's in-memory index; zero on a drive with logical blocks.
fn index_lookup_time(parts: &Parts) -> Span {
    let keys = &parts.drive.key_value;
    if keys.is_there() { keys.lookup } else { Span::ZERO }
}

/// Returns the packet of a doorbell write, from the host to the device.
fn doorbell_packet(parts: &Parts) -> Packet {
    parts.write(Direction::Down, REGISTER_BYTES)
}

/// Returns the packet of a completion queue entry, from the device to the host.
fn completion_entry_packet(parts: &Parts) -> Packet {
    parts.write(Direction::Up, ENTRY_BYTES)
}

/// Returns the packet of an interrupt message, from the device to the host.
fn msi_packet(parts: &Parts) -> Packet {
    parts.write(Direction::Up, REGISTER_BYTES)
}

/// Returns the size in bytes of the PRP list for a buffer of `bytes` bytes. Returns 0 if the two PRP entries in the
/// command suffice (section 4.1.1) or the data pointer is an SGL.
fn prp_list_bytes(parts: &Parts, bytes: u32) -> u32 {
    if parts.drive.nvme.data_pointer == DataPointerFormat::Sgl {
        return 0;
    }
    let others = bytes.div_ceil(low_u32(PAGE_BYTES)) - 1;
    if others <= 1 { 0 } else { others * 8 }
}

/// Returns the sizes in bytes of the reads by which the device gets a write's data from host memory: pieces of
/// [`PAYLOAD_READ_BYTES`], the last one shorter.
fn payload_read_sizes(bytes: u32) -> impl Iterator<Item = u32> {
    (0..bytes.div_ceil(PAYLOAD_READ_BYTES)).map(move |piece| PAYLOAD_READ_BYTES.min(bytes - piece * PAYLOAD_READ_BYTES))
}

/// Returns the number of doorbell register writes of a command, on average. One tail doorbell serves a batch of
/// submissions, and one completion queue head doorbell serves the completions that are collected together.
fn mean_doorbell_writes(parts: &Parts, workload: &Workload) -> f64 {
    let (submitted, collected) = parts.sharing(workload);
    match (parts.drive.nvme.shadow_doorbells, parts.drive.nvme.completion_doorbells) {
        (true, _) => 0.0,
        (false, true) => 1.0 / submitted + 1.0 / collected,
        (false, false) => 1.0 / submitted,
    }
}

/// Returns the demands of a request of this class on processors, command parser, link, media and all other resources.
fn demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let nvme = &parts.drive.nvme;
    let (submitted, collected) = parts.sharing(workload);
    let driver =
        doorbell_cpu_time(parts).scale(1.0 / submitted) + completion_doorbell_cpu_time(parts).scale(1.0 / collected);
    let interrupts = nvme.interrupts || parts.drive.fabric.is_there();
    let mut demands = ClosedForm::shared(parts, workload, class, driver, interrupts);
    parts.add_network_demands(&mut demands, workload, class);
    parts.add_posted_write_demands(&mut demands, workload, mean_doorbell_writes(parts, workload));
    let split = CommandSplit::new(class.bytes, parts.drive.nvme.max_transfer_kib);
    let commands = f64::from(split.commands);
    demands.add("command parser", 1.0, nvme.parse, commands);
    add_command_demands(parts, workload, &mut demands, commands);
    parts.add_burst_demands(&mut demands, &completion_entry_packet(parts), commands);
    if nvme.interrupts && (parts.engaged.is_none() || parts.sleeps()) {
        parts.add_burst_demands(&mut demands, &msi_packet(parts), commands / f64::from(nvme.coalescing_entries));
    }
    for bytes in split.sizes() {
        add_data_demands(parts, &mut demands, class.direction, bytes);
    }
    demands
}

/// Adds the demands of doorbell writes and command fetches. Without shadow doorbells, each batch of submissions has its
/// own doorbell and fetch. With them, one read of a shadow doorbell may find as many commands as a fetch can bring.
fn add_command_demands(parts: &Parts, workload: &Workload, demands: &mut ServiceDemands, commands: f64) {
    let (submitted, _) = parts.sharing(workload);
    let fetched = u32::from(parts.drive.nvme.fetch_entries);
    parts.add_burst_demands(demands, &doorbell_packet(parts), mean_doorbell_writes(parts, workload) * commands);
    let together = match parts.drive.nvme.shadow_doorbells {
        true => fetched,
        false => fetched.min(submitted.ceil() as u32 * commands as u32),
    };
    parts.add_read_demands(demands, &parts.read(COMMAND_BYTES * together), commands / f64::from(together));
}

/// Adds the demands on link and host memory of a command's PRP list, data and metadata, for `bytes` of data.
fn add_data_demands(parts: &Parts, demands: &mut ServiceDemands, direction: DataDirection, bytes: u32) {
    if prp_list_bytes(parts, bytes) > 0 {
        parts.add_read_demands(demands, &parts.read(prp_list_bytes(parts, bytes)), 1.0);
    }
    match direction {
        DataDirection::Read => parts.add_burst_demands(demands, &parts.data(bytes), 1.0),
        DataDirection::Write => payload_read_sizes(bytes)
            .for_each(|piece| parts.add_read_demands(demands, &parts.write_data_read_requests(piece), 1.0)),
    }
    let metadata_bytes = parts.drive.nvme.metadata_bytes(bytes);
    match direction {
        _ if metadata_bytes == 0 => {}
        DataDirection::Read => parts.add_burst_demands(demands, &parts.write(Direction::Up, metadata_bytes), 1.0),
        DataDirection::Write => payload_read_sizes(metadata_bytes)
            .for_each(|piece| parts.add_read_demands(demands, &parts.read(piece), 1.0)),
    }
}

/// Returns the latency of a request of this class on an idle system, by stages, with the reason if it is only a lower
/// bound.
fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let split = CommandSplit::new(class.bytes, parts.drive.nvme.max_transfer_kib);
    let access = parts.access_in_commands(workload, class, split.commands);
    let remote = parts.remote(class);
    let mut ledger = lone_request_ledger(parts, class, split, access, remote.as_ref().map(|times| (times, false)));
    if let Some(times) = &remote {
        // The target's core has been idle since it sent the response to the previous request.
        let at_target = [Stage::TargetWake, Stage::Target, Stage::WriteData].map(|stage| ledger.times().get(stage));
        let idle = ledger.cursor().since(ledger.start()) - remote_drive_time(&ledger) - at_target.into_iter().sum();
        if idle > parts.drive.fabric.target_poll {
            ledger = lone_request_ledger(parts, class, split, access, Some((times, true)));
        }
    }
    let certainty = doubt(parts, class, split, access).map_or(Certainty::Exact, Certainty::AtLeast);
    let mut latency = Latency::new(&ledger, access, certainty);
    latency.least -= parts.spared_wait_call_time();
    latency
}

/// Returns the time that a request over a network spends between the target's submission and the drive's completion.
fn remote_drive_time(ledger: &Ledger) -> Span {
    const IN_DRIVE: [Stage; 12] = [
        Stage::Doorbell,
        Stage::Fetch,
        Stage::Parse,
        Stage::Firmware,
        Stage::MediaWait,
        Stage::Media,
        Stage::HostRead,
        Stage::LinkWait,
        Stage::Transfer,
        Stage::Propagation,
        Stage::Settle,
        Stage::CompletionEntry,
    ];
    IN_DRIVE.iter().map(|stage| ledger.times().get(*stage)).sum()
}

/// Returns the complete ledger of a lone request. `remote` holds its times on a network, and whether the target's core
/// sleeps when the command arrives; `None` if the drive is in its host.
fn lone_request_ledger(
    parts: &Parts,
    class: &Class,
    split: CommandSplit,
    access: MemoryAccessTime,
    remote: Option<(&LoneRemoteTimes, bool)>,
) -> Ledger {
    let mut ledger = parts.descend(class.direction, class.bytes);
    parts.hand_over(&mut ledger);
    ledger.spend(Stage::Driver, doorbell_cpu_time(parts));
    let submitted = ledger.cursor();
    if let Some((times, is_woken)) = remote {
        parts.charge_command_path(&mut ledger, times, is_woken, submitted);
    }
    ledger.spend(Stage::Doorbell, parts.sent(&doorbell_packet(parts)));
    ledger.spend(Stage::Fetch, parts.round_trip(COMMAND_BYTES));
    let fetched = ledger.cursor();
    ledger.spend(Stage::Parse, parts.drive.nvme.parse + index_lookup_time(parts));
    // The page list of a value is read after the key lookup, and that of a block command at once.
    let listed = if parts.drive.key_value.is_there() { ledger.cursor() } else { fetched };
    match class.direction {
        DataDirection::Read => {
            ledger.spend(Stage::Firmware, parts.firmware(DataDirection::Read));
            read(parts, &mut ledger, listed, split, access);
        }
        DataDirection::Write => write(parts, &mut ledger, split, access),
    }
    match remote {
        Some((times, _)) => parts.charge_response_path(&mut ledger, times, submitted),
        None => complete(parts, &mut ledger, submitted, class.direction, split),
    }
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    ledger
}

/// Charges the stages of a read: media access and read of the PRP list in parallel, then the data transfer. The data of
/// a split request's last command follows the data of its other commands.
fn read(parts: &Parts, ledger: &mut Ledger, fetched: Time, split: CommandSplit, access: MemoryAccessTime) {
    ledger.spend(Stage::MediaWait, access.waited);
    ledger.spend(Stage::Media, access.idle - access.waited);
    let listed = match prp_list_bytes(parts, split.each_bytes) {
        0 => fetched,
        bytes => fetched + parts.round_trip(bytes),
    };
    ledger.until(Stage::HostRead, listed.max(ledger.cursor()));
    let before = parts.on_wire(&parts.data(split.each_bytes));
    ledger.spend(Stage::LinkWait, before * u64::from(split.commands - 1));
    ledger.spend(Stage::Transfer, parts.on_wire(&parts.data(split.last_bytes)));
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
    // Metadata and completion entry follow the data, so they add only their own wire time.
    let metadata_bytes = parts.drive.nvme.metadata_bytes(split.last_bytes);
    if metadata_bytes > 0 {
        ledger.spend(Stage::CompletionEntry, parts.on_wire(&parts.write(Direction::Up, metadata_bytes)));
    }
    ledger.spend(Stage::CompletionEntry, parts.on_wire(&completion_entry_packet(parts)));
}

/// Returns the time on the wire of the read completions that bring `bytes` of a write's data to the device.
fn read_completions_wire_time(parts: &Parts, bytes: u32) -> Span {
    payload_read_sizes(bytes).map(|piece| parts.on_wire(&parts.write_data_completions(piece))).sum()
}

/// Charges the stages of a write: the read of the PRP list, then the data in pieces one after the other, then the media
/// access.
fn write(parts: &Parts, ledger: &mut Ledger, split: CommandSplit, access: MemoryAccessTime) {
    // The last command may need no page list, or must read one first.
    if prp_list_bytes(parts, split.last_bytes) > 0 {
        ledger.spend(Stage::HostRead, parts.round_trip(prp_list_bytes(parts, split.last_bytes)));
    }
    let wire_time = |bytes| read_completions_wire_time(parts, bytes);
    let all_bytes = split.each_bytes * (split.commands - 1) + split.last_bytes;
    let first = parts.write_data_read_requests(PAYLOAD_READ_BYTES.min(all_bytes));
    let last_bytes = payload_read_sizes(split.last_bytes).last().unwrap_or(0);
    let last = parts.on_wire(&parts.write_data_completions(last_bytes));
    ledger.spend(Stage::Transfer, parts.on_wire(&first));
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::HostRead, parts.host_memory_read_time(first.bytes) + wire_time(all_bytes) - last);
    ledger.spend(Stage::Transfer, last);
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Firmware, parts.firmware(DataDirection::Write));
    ledger.spend(Stage::MediaWait, access.waited);
    let least = |bytes| parts.least(DataDirection::Write, bytes);
    let media = match split.needs_several_commands() {
        false => access.idle - access.waited,
        // The memory stores the shortest command while data of the other commands is still arriving.
        true => {
            let others = wire_time(all_bytes) - wire_time(split.last_bytes);
            split.least_media_time(Span::ZERO, least, wire_time).max(access.idle.saturating_sub(others))
        }
    };
    ledger.spend(Stage::Media, media);
    ledger.spend(
        Stage::CompletionEntry,
        parts.sent(&completion_entry_packet(parts)) + parts.root_complex.least_write_latency(),
    );
}

/// Charges the time from the arrival of the completion queue entry in host memory until the driver has completed the
/// request.
fn complete(parts: &Parts, ledger: &mut Ledger, submitted: Time, direction: DataDirection, split: CommandSplit) {
    if !parts.sleeps() {
        parts.charge_polling_completion(ledger, submitted);
        return ledger.spend(Stage::Driver, completion_doorbell_cpu_time(parts));
    }
    if split.needs_several_commands() {
        let found = earliest_seen_completion(parts, ledger.cursor(), submitted, direction, split);
        ledger.until(Stage::Interrupt, found);
        return parts.charge_wake_up(ledger, found);
    }
    ledger.spend(Stage::Interrupt, parts.on_wire(&msi_packet(parts)));
    match parts.engaged {
        // A poll thread's processor never sleeps, so there is no wake-up.
        Some(_) if parts.has_poller() => {
            let handled = parts.handled(ledger.cursor(), None) + completion_doorbell_cpu_time(parts);
            ledger.until(Stage::Interrupt, handled);
        }
        // The handler itself writes the completion queue head doorbell.
        Some(_) => parts.charge_interrupt_wake_up(ledger, submitted, completion_doorbell_cpu_time(parts)),
        None => {
            parts.wake(ledger, submitted);
            ledger.spend(Stage::Driver, completion_doorbell_cpu_time(parts));
        }
    }
}

/// Returns the earliest time at which the driver sees the last completion queue entry of a split request; the entry is
/// in host memory at `now`. The entry's own interrupt handler sees it if the previous entry came early enough;
/// otherwise the previous entry's handler may see it.
fn earliest_seen_completion(
    parts: &Parts,
    now: Time,
    submitted: Time,
    direction: DataDirection,
    split: CommandSplit,
) -> Time {
    let handled = parts.handled(now + parts.on_wire(&msi_packet(parts)), Some(submitted));
    let data = |bytes| match direction {
        DataDirection::Read => parts.on_wire(&parts.data(bytes)),
        DataDirection::Write => read_completions_wire_time(parts, bytes),
    };
    // The commands' data arrives in sequence. A memory that keeps up finishes one command before it has the data of the
    // next.
    let lag = match direction {
        DataDirection::Read => Span::ZERO,
        DataDirection::Write => {
            parts.least(direction, split.each_bytes).saturating_sub(parts.least(direction, split.last_bytes))
        }
    };
    if data(split.last_bytes).saturating_sub(lag) >= handled.since(now) {
        return handled;
    }
    let of_entry_before = handled - data(split.each_bytes) - lag;
    of_entry_before.max(now)
}

/// Returns the reason why the latency is only a lower bound, or none if it is exact.
fn doubt(parts: &Parts, class: &Class, split: CommandSplit, access: MemoryAccessTime) -> Option<&'static str> {
    let read_ahead = class.direction == DataDirection::Write && class.bytes > PAYLOAD_READ_BYTES;
    let data_bytes = if class.direction == DataDirection::Read { split.each_bytes } else { ENTRY_BYTES };
    let payload = parts.write_data_read_requests(class.bytes.min(PAYLOAD_READ_BYTES));
    let starved = class.direction == DataDirection::Write && !parts.flows(&payload, 0);
    let sends_metadata = class.direction == DataDirection::Write && parts.drive.nvme.metadata_bytes(class.bytes) > 0;
    let asks = parts.remote(class).is_some_and(|times| times.write_data.is_some());
    let asks_asleep = asks && parts.sleeps();
    let doubts = [
        (parts.drive.key_value.index_cache_kib > 0, "a page of the index may have to be read first"),
        (parts.drive.fabric.loss_ratio > 0.0, "the network loses packets by chance"),
        (asks_asleep, "the initiator's core idles twice before a write's data is asked for and sent"),
        (split.needs_several_commands(), OVERLAP),
        (read_ahead, "the reads of a write's data overlap"),
        (starved, "reads of a write's data wait for flow-control credits"),
        (sends_metadata, "the read of a write's metadata overlaps those of its data"),
        (parts.drive.nvme.coalescing_entries > 1, "an interrupt waits for other completions"),
        (parts.drive.nvme.shadow_doorbells, "commands may have to wait for a look at the shadow doorbell"),
    ];
    let found = first_inexactness_reason(&doubts);
    found.or_else(|| parts.doubt(access, data_bytes, 2))
}
