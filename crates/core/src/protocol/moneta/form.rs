//! Closed form (prediction without simulation) of a Moneta request, step by step as in the ladder of
//! [`crate::protocol::moneta`].
//!
//! The device moves a request in pieces, and the pieces of a lone request contend only with each other. Transfer
//! buffers, ring and wires serve them in order, so a recurrence over the pieces gives the time of each.

use crate::closed_form::Parts;
use crate::closed_form::data_reads::DataReadPipeline;
use crate::closed_form::demand::ServiceDemands;
use crate::closed_form::form::{Certainty, ClosedForm, Latency, first_inexactness_reason};
use crate::closed_form::split::{CommandSplit, OVERLAP};
use crate::closed_form::workload::{Class, Workload};
use crate::config::LinkEventGranularity;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::media::BusTransferRate;
use crate::media::timing::ChannelBus;
use crate::number::{length, real_length};
use crate::protocol::moneta::spec::WORD_BYTES;
use crate::request::DataDirection;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet};

const REGISTER_BYTES: u32 = WORD_BYTES as u32;
/// Payload of an interrupt message in bytes (PCI Express Base Specification 6.0, section 6.1.4).
const MESSAGE_BYTES: u32 = 4;

/// Returns the closed form of a class of requests over Moneta: latency of a lone request, and demands on all resources.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    ClosedForm { latency: Some(latency(parts, workload, class)), demands: demands(parts, workload, class) }
}

/// Returns the split of a request of this size into commands of at most `moneta.max_transfer_kib`.
fn split(parts: &Parts, bytes: u32) -> CommandSplit {
    CommandSplit::new(bytes, parts.drive.moneta.max_transfer_kib)
}

/// Returns the size in bytes of the largest piece that the device moves at once: `moneta.chunk_bytes`, but no more than
/// a command.
fn chunk_bytes(parts: &Parts) -> u32 {
    parts.drive.moneta.chunk_bytes.min(parts.drive.moneta.max_transfer_kib * 1024)
}

/// Returns the sizes in bytes of a request's pieces, in their order. Pieces and commands have sizes of powers of two,
/// so only the last piece may be shorter.
fn piece_sizes(parts: &Parts, bytes: u32) -> impl Iterator<Item = u32> + use<> {
    let chunk_bytes = chunk_bytes(parts);
    (0..bytes.div_ceil(chunk_bytes)).map(move |piece| chunk_bytes.min(bytes - piece * chunk_bytes))
}

/// Returns the size in bytes of a request's first piece.
fn first_bytes(parts: &Parts, bytes: u32) -> u32 {
    bytes.min(chunk_bytes(parts))
}

/// Returns the size in bytes of a request's last piece.
fn last_bytes(parts: &Parts, bytes: u32) -> u32 {
    piece_sizes(parts, bytes).last().unwrap_or(bytes)
}

/// Returns the number of transfer buffers that a lone request can use: those of its direction, or all if reads and
/// writes share a queue.
fn buffers(parts: &Parts) -> usize {
    let each = usize::from(parts.drive.moneta.transfer_buffers);
    if parts.drive.moneta.split_queues { each } else { 2 * each }
}

/// Returns the time that a piece of `bytes` takes on the ring between transfer buffer and memory controller.
fn ring_transfer_time(parts: &Parts, bytes: u32) -> Span {
    BusTransferRate::from_bytes_per_ns(parts.drive.moneta.ring_bytes_per_ns).transfer_time(bytes)
}

/// Returns the packet in which the host writes a word of a request to a register.
fn request_word_packet(parts: &Parts) -> Packet {
    parts.write(Direction::Down, REGISTER_BYTES)
}

/// Returns the packet of the interrupt message that the device sends to the host.
fn interrupt_message_packet(parts: &Parts) -> Packet {
    parts.write(Direction::Up, MESSAGE_BYTES)
}

/// Returns the handler's read of a status register, and the completion of that read.
fn status_read_packets(parts: &Parts) -> (Packet, Packet) {
    let read = Packet { direction: Direction::Down, ..parts.read(REGISTER_BYTES) };
    (read, Packet { kind: Kind::Completion, direction: Direction::Up, ..read })
}

/// True if a thread sleeps until its request of `bytes` completes: the request is too large to spin for, or a kernel
/// worker submits it.
fn does_thread_sleep(parts: &Parts, bytes: u32) -> bool {
    bytes > parts.drive.moneta.spin_up_to_bytes || parts.drive.stages().iter().any(|stage| stage.hand_over)
}

/// Returns the demands of a request on all resources. Interrupts and status reads are left out, as one of them can
/// serve any number of completed requests.
fn demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let slept = if class.bytes > parts.drive.moneta.spin_up_to_bytes { parts.drive.moneta.sleep } else { Span::ZERO };
    let mut demands = ClosedForm::shared(parts, workload, class, parts.at_core_clock(slept), false);
    let words = f64::from(parts.drive.moneta.request_words) * f64::from(split(parts, class.bytes).commands);
    parts.add_burst_demands(&mut demands, &request_word_packet(parts), words);
    for bytes in piece_sizes(parts, class.bytes) {
        demands.add("ring", 1.0, ring_transfer_time(parts, bytes), 1.0);
        match class.direction {
            DataDirection::Read => parts.add_burst_demands(&mut demands, &parts.data(bytes), 1.0),
            DataDirection::Write => parts.add_read_demands(&mut demands, &parts.write_data_read_requests(bytes), 1.0),
        }
        add_transfer_buffer_demands(parts, &mut demands, class.direction, bytes);
    }
    demands
}

/// Returns the shortest time for which a piece holds its transfer buffer. A read holds it until its data has been
/// received by the host; a write holds it from its read of host memory until its data has crossed the ring.
fn least_buffer_hold_time(parts: &Parts, direction: DataDirection, bytes: u32) -> Span {
    let filled = match direction {
        DataDirection::Read => parts.least(DataDirection::Read, bytes) + parts.sent(&parts.data(bytes)),
        DataDirection::Write => {
            let asked = parts.sent(&parts.write_data_read_requests(bytes)) + parts.host_memory_read_time(bytes);
            asked + parts.sent(&parts.write_data_completions(bytes))
        }
    };
    filled + ring_transfer_time(parts, bytes)
}

/// Adds a piece's demand on transfer buffers: their number, and the time for which the piece holds one.
fn add_transfer_buffer_demands(parts: &Parts, demands: &mut ServiceDemands, direction: DataDirection, bytes: u32) {
    let name = match (parts.drive.moneta.split_queues, direction) {
        (false, _) => "transfer buffers",
        (true, DataDirection::Read) => "transfer buffers of reads",
        (true, DataDirection::Write) => "transfer buffers of writes",
    };
    demands.add(name, real_length(buffers(parts)), least_buffer_hold_time(parts, direction, bytes), 1.0);
}

/// Returns the latency of a lone request of this class, with its certainty.
fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let held_up = held_up(parts, class).filter(|_| class.bytes > parts.drive.moneta.chunk_bytes);
    // Delayed pieces reach the memory at other times and may be served faster, so their times are not predicted.
    let is_told = held_up.is_none() && !split(parts, class.bytes).needs_several_commands();
    let offsets = parts.places(workload, class).filter(|_| is_told).map(|offsets| offsets.collect());
    let doubt = held_up.or_else(|| doubt(parts, workload, class));
    let certainty = doubt.map_or(Certainty::Exact, Certainty::AtLeast);
    parts.latency_over_offsets(offsets, certainty, |offset| {
        let mut ledger = parts.descend(class.direction, class.bytes);
        if offset.is_some() {
            parts.hand_over(&mut ledger);
        }
        let submitted = ledger.cursor();
        let words = parts.on_wire(&request_word_packet(parts)) * u64::from(parts.drive.moneta.request_words);
        ledger.spend(Stage::Doorbell, words + parts.link.one_way());
        ledger.spend(Stage::Parse, parts.drive.moneta.pipeline);
        let done = match (class.direction, offset) {
            (DataDirection::Read, Some(offset)) => read(parts, offset, class.bytes, &mut ledger),
            (DataDirection::Write, Some(offset)) => write(parts, offset, class.bytes, &mut ledger),
            (_, None) => charge_least_device_time(parts, class, &mut ledger),
        };
        complete(parts, workload, class.bytes, submitted, done, &mut ledger);
        parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
        ledger
    })
}

/// Charges the times of a read to its ledger: its pieces go from the memory over the ring to the host. Returns the time
/// at which the last piece has left the device, and the interrupt message can leave.
fn read(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) -> Time {
    let received = parts.link.one_way() + parts.root_complex.settle_time().unwrap_or_default();
    let (mut media, mut ring) = (parts.media.clone(), ChannelBus::default());
    let mut left = Vec::new();
    let mut wire_free_at = ledger.cursor();
    let mut last = None;
    let mut at = offset;
    for (place, bytes) in piece_sizes(parts, bytes).enumerate() {
        // The first pieces use free transfer buffers. Each later piece waits for the buffer of an earlier one, until
        // the host has received that one.
        let taken = place.checked_sub(buffers(parts)).map_or(ledger.cursor(), |earlier| left[earlier] + received);
        let timing = media.read(taken, at, bytes, bytes);
        let length = ring_transfer_time(parts, bytes);
        let buffered = ring.reserve(taken, timing.last_at, length) + length;
        let sent = buffered.max(wire_free_at);
        wire_free_at = sent + parts.on_wire(&parts.data(bytes));
        left.push(wire_free_at);
        at += u64::from(bytes);
        last = Some((taken, timing, buffered, sent));
    }
    if let Some((taken, timing, buffered, sent)) = last {
        ledger.until(Stage::RequestQueue, taken);
        ledger.until(Stage::MediaWait, timing.started);
        ledger.until(Stage::Media, timing.last_at);
        ledger.until(Stage::Ring, buffered);
        ledger.until(Stage::LinkWait, sent);
        ledger.until(Stage::Transfer, wire_free_at);
        charge_last_packet_reception(parts, ledger);
    }
    wire_free_at
}

/// Charges the time on the link and into host memory of the last packet of a read's data.
fn charge_last_packet_reception(parts: &Parts, ledger: &mut Ledger) {
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
}

/// Charges the times of a write to its ledger: its pieces go from the host over the ring into the memory. Returns the
/// time at which all pieces are stored.
fn write(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) -> Time {
    let (mut media, mut ring) = (parts.media.clone(), ChannelBus::default());
    let mut reads = DataReadPipeline::new(parts);
    let mut sizes = piece_sizes(parts, bytes);
    for bytes in sizes.by_ref().take(buffers(parts)) {
        reads.issue(ledger.cursor(), bytes);
    }
    let (mut at, mut done, mut last) = (offset, ledger.cursor(), None);
    while let Some(read) = reads.complete_oldest_read() {
        let length = ring_transfer_time(parts, read.bytes);
        let across = ring.reserve(read.there, read.there, length) + length;
        let timing = media.write(across, at, read.bytes);
        at += u64::from(read.bytes);
        done = done.max(timing.acknowledged_at);
        if let Some(bytes) = sizes.next() {
            reads.issue(across, bytes);
        }
        last = Some((read, across, timing));
    }
    if let Some((read, across, timing)) = last {
        ledger.until(Stage::RequestQueue, read.asked);
        read.charge(parts, ledger);
        ledger.until(Stage::Ring, across);
        ledger.until(Stage::MediaWait, timing.started);
        ledger.until(Stage::Media, done);
    }
    done
}

/// Charges the shortest time of a request in the device, whatever its offset and the delays of its pieces, and returns
/// the time at which it is done there. The bound is the larger of two: all data follows without a gap on the wire, or
/// the last piece waits for a transfer buffer. The last piece of a split request may be the first that gets a buffer.
fn charge_least_device_time(parts: &Parts, class: &Class, ledger: &mut Ledger) -> Time {
    let (first_bytes, last_bytes) = (first_bytes(parts, class.bytes), last_bytes(parts, class.bytes));
    let before_last = piece_sizes(parts, class.bytes).count().saturating_sub(1);
    let in_turn = least_buffer_hold_time(parts, class.direction, first_bytes) * length(before_last / buffers(parts));
    let lead = least_buffer_hold_time(parts, class.direction, first_bytes)
        - least_buffer_hold_time(parts, class.direction, last_bytes);
    let on_wire = |bytes| match class.direction {
        DataDirection::Read => parts.on_wire(&parts.data(bytes)),
        DataDirection::Write => parts.on_wire(&parts.write_data_completions(bytes)),
    };
    let behind = on_wire(first_bytes) * length(before_last.saturating_sub(1)) + on_wire(last_bytes);
    let data: Span = piece_sizes(parts, class.bytes).map(on_wire).sum();
    let waited = if before_last > 0 { in_turn - lead - behind } else { Span::ZERO };
    ledger.spend(Stage::RequestQueue, waited);
    let first_bytes = if split(parts, class.bytes).needs_several_commands() { last_bytes } else { first_bytes };
    if class.direction == DataDirection::Write {
        parts.charge_least_data_read_time(first_bytes, data, ledger);
        ledger.spend(Stage::Ring, ring_transfer_time(parts, last_bytes));
        ledger.spend(Stage::Media, parts.least(DataDirection::Write, last_bytes));
        return ledger.cursor();
    }
    ledger.spend(Stage::Media, parts.least(DataDirection::Read, first_bytes));
    ledger.spend(Stage::Ring, ring_transfer_time(parts, first_bytes));
    ledger.spend(Stage::Transfer, data);
    let left = ledger.cursor();
    charge_last_packet_reception(parts, ledger);
    left
}

/// Charges the time from the interrupt message, which leaves at `done`, until the thread has completed its request. Of
/// a split request, the last command's status may be read by the handler of an earlier command.
fn complete(parts: &Parts, workload: &Workload, bytes: u32, submitted: Time, done: Time, ledger: &mut Ledger) {
    if split(parts, bytes).needs_several_commands() {
        let found = done + parts.sent(&status_read_packets(parts).1);
        ledger.until(Stage::Interrupt, found.max(ledger.cursor()));
        return parts.charge_poll_time(ledger);
    }
    let arrived = done + parts.sent(&interrupt_message_packet(parts)) + parts.root_complex.least_write_latency();
    let handled = parts.handled(arrived, does_thread_sleep(parts, bytes).then_some(submitted));
    let (read, answer) = status_read_packets(parts);
    let found = handled + parts.sent(&read) + parts.sent(&answer);
    ledger.until(Stage::Interrupt, found);
    // Earliest end of the handler's wait for the completion of its register read.
    let back = parts.link.packet_time(Kind::Completion, REGISTER_BYTES);
    let stalled = handled + parts.link.packet_time(Kind::MemoryRead, 0) + back + parts.link.one_way() * 2;
    if does_thread_sleep(parts, bytes) {
        parts.charge_wake_up(ledger, stalled);
    } else {
        parts.charge_poll_time(ledger);
        let elsewhere = may_interrupt_idle_core(parts, workload);
        ledger.until(Stage::CoreWait, if elsewhere { found } else { stalled }.max(ledger.cursor()));
    }
    if bytes > parts.drive.moneta.spin_up_to_bytes {
        ledger.spend(Stage::ContextSwitch, parts.at_core_clock(parts.drive.moneta.sleep));
    }
}

/// True if a request's interrupt may go to another core than that of its thread, one that idles.
fn may_interrupt_idle_core(parts: &Parts, workload: &Workload) -> bool {
    let (moneta, host) = (&parts.drive.moneta, &parts.drive.host);
    let cores = if host.interrupt_cores == 0 { host.processors() } else { host.interrupt_cores.min(host.processors()) };
    let reached = cores.min(moneta.tags.into()).min(moneta.interrupt_vectors.into());
    let alone = reached == 1 && workload.threads == 1;
    let kept = moneta.tag_hint && workload.threads <= u32::from(reached);
    !alone && !kept
}

/// Returns a reason why a lone request may take longer than the closed form says, for example in the host; none if
/// there is none.
fn doubt(parts: &Parts, workload: &Workload, class: &Class) -> Option<&'static str> {
    let moneta = &parts.drive.moneta;
    let soonest =
        moneta.pipeline + parts.sent(&request_word_packet(parts)) + parts.sent(&interrupt_message_packet(parts));
    let own_idles =
        does_thread_sleep(parts, class.bytes) && parts.at_core_clock(parts.drive.host.context_switch) <= soonest;
    let idle = !own_idles && !parts.drive.host.idle_exit.is_zero();
    let strays = may_interrupt_idle_core(parts, workload) && (idle || !parts.drive.link.command_payload);
    let words = parts.flows(&request_word_packet(parts), u32::from(moneta.request_words) - 1);
    let doubts = [
        (split(parts, class.bytes).needs_several_commands(), OVERLAP),
        (strays, "interrupts go to cores that may idle"),
        (!words, "request words wait for flow-control credits"),
    ];
    let found = first_inexactness_reason(&doubts);
    found.or_else(|| held_up(parts, class))
}

/// Returns a reason why the data of a lone request may be delayed, such as missing credits or DRAM refresh; none if
/// there is none.
fn held_up(parts: &Parts, class: &Class) -> Option<&'static str> {
    let link = &parts.drive.link;
    let in_gaps =
        link.dllps && link.granularity == LinkEventGranularity::Packet && class.bytes > parts.drive.moneta.chunk_bytes;
    let doubts = [
        (!flows(parts, class), "data, or requests for it, wait for flow-control credits"),
        (class.direction == DataDirection::Write && in_gaps, "acknowledgements share the wires"),
        (
            class.direction == DataDirection::Write && parts.may_wait_for_refresh(),
            "reads of host memory wait for its refresh",
        ),
    ];
    let found = first_inexactness_reason(&doubts);
    found.or_else(|| parts.chance())
}

/// True if the data of a lone read, or the read requests of a lone write, never wait for flow-control credits.
fn flows(parts: &Parts, class: &Class) -> bool {
    let (chunk_bytes, buffers) = (parts.drive.moneta.chunk_bytes, buffers(parts) as u32);
    let cut = |packet: Packet| Packet { chunk_bytes: packet.chunk_bytes.min(chunk_bytes), ..packet };
    if class.direction == DataDirection::Read {
        return parts.flows(&cut(parts.data(class.bytes)), 1);
    }
    let piece_bytes = first_bytes(parts, class.bytes);
    let requests = parts.write_data_read_requests(piece_bytes);
    let (each, _) = parts.link.burst_packet_times(&requests);
    let every = each.max(parts.link.receiver_accept_time(Direction::Up));
    // The read requests of a piece return their credits before the piece leaves its buffer, which is when the next
    // piece's requests follow.
    let back = every * u64::from(requests.count()) + parts.link.posted_credit_round_trip(Direction::Up, each);
    let data = parts.host_memory_read_time(piece_bytes) + parts.sent(&parts.write_data_completions(piece_bytes));
    let in_time = back <= parts.sent(&requests) + data + ring_transfer_time(parts, piece_bytes);
    let at_once = (chunk_bytes * buffers).min(class.bytes);
    let all = parts.flows(&cut(parts.write_data_read_requests(class.bytes)), 0);
    all || parts.flows(&cut(parts.write_data_read_requests(at_once)), 0) && (in_time || at_once == class.bytes)
}
