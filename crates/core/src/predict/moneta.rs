//! Moneta in closed form, in the order of the ladder in [`crate::protocol::moneta`].
//!
//! The pieces of a lone request meet only each other. Transfer buffers, ring and wires serve them in order, so that a
//! recurrence over the pieces gives the instant of each.

use super::Parts;
use super::data_reads::DataReads;
use super::demand::Demands;
use super::form::{Certainty, Form, Latency};
use super::workload::{Class, Workload};
use crate::config::Granularity;
use crate::link::packet::{Direction, Kind, Packet};
use crate::media::BusRate;
use crate::media::timing::Bus;
use crate::protocol::moneta::spec::WORD_BYTES;
use crate::protocol::stages;
use crate::report::Stage;
use crate::report::stage::Ledger;
use crate::time::{Span, Time};
use crate::workload::Op;

const REGISTER_BYTES: u32 = WORD_BYTES as u32;
/// An interrupt message (PCI Express Base Specification 6.0, section 6.1.4).
const MESSAGE_BYTES: u32 = 4;

/// A request over Moneta: its latency unless the driver splits it.
pub(super) fn form(parts: &Parts, workload: &Workload, class: &Class) -> Form {
    let is_whole = class.bytes <= parts.drive.moneta.max_transfer_kib * 1024;
    Form {
        latency: is_whole.then(|| latency(parts, workload, class)),
        demands: demands(parts, workload, class),
    }
}

/// The sizes of a request's pieces.
fn pieces(parts: &Parts, bytes: u32) -> impl Iterator<Item = u32> + use<> {
    let chunk_bytes = parts.drive.moneta.chunk_bytes;
    (0..bytes.div_ceil(chunk_bytes)).map(move |piece| chunk_bytes.min(bytes - piece * chunk_bytes))
}

fn first_bytes(parts: &Parts, bytes: u32) -> u32 {
    bytes.min(parts.drive.moneta.chunk_bytes)
}

fn last_bytes(parts: &Parts, bytes: u32) -> u32 {
    pieces(parts, bytes).last().unwrap_or(bytes)
}

/// Transfer buffers that a lone request finds.
fn buffers(parts: &Parts) -> usize {
    let each = usize::from(parts.drive.moneta.transfer_buffers);
    if parts.drive.moneta.split_queues { each } else { 2 * each }
}

fn over_ring(parts: &Parts, bytes: u32) -> Span {
    BusRate::from_bytes_per_ns(parts.drive.moneta.ring_bytes_per_ns).transfer(bytes)
}

fn word(parts: &Parts) -> Packet {
    parts.write(Direction::Down, REGISTER_BYTES)
}

fn message(parts: &Parts) -> Packet {
    parts.write(Direction::Up, MESSAGE_BYTES)
}

/// The handler's read of a status register, and its answer.
fn status_read(parts: &Parts) -> (Packet, Packet) {
    let read = Packet { direction: Direction::Down, ..parts.read(REGISTER_BYTES) };
    (read, Packet { kind: Kind::Completion, direction: Direction::Up, ..read })
}

/// Whether the thread sleeps over its request: a large one, or one that it has left to the kernel's worker.
fn sleeps(parts: &Parts, bytes: u32) -> bool {
    bytes > parts.drive.moneta.spin_up_to_bytes || stages(parts.drive).iter().any(|stage| stage.hand_over)
}

/// Interrupts are shared by the requests that are done meanwhile, and so are reads of the status.
fn demands(parts: &Parts, workload: &Workload, class: &Class) -> Demands {
    let slept = if class.bytes > parts.drive.moneta.spin_up_to_bytes { parts.drive.moneta.sleep } else { Span::ZERO };
    let mut demands = Form::shared(parts, workload, class, parts.at_clock(slept), false);
    let parts_of_it = class.bytes.div_ceil(parts.drive.moneta.max_transfer_kib * 1024);
    let words = f64::from(parts.drive.moneta.request_words) * f64::from(parts_of_it);
    parts.demand_burst(&mut demands, &word(parts), words);
    for bytes in pieces(parts, class.bytes) {
        demands.add("ring", 1.0, over_ring(parts, bytes), 1.0);
        match class.op {
            Op::Read => parts.demand_burst(&mut demands, &parts.data(bytes), 1.0),
            Op::Write => parts.demand_read(&mut demands, &parts.data_read(bytes), 1.0),
        }
        demand_buffers(parts, &mut demands, class.op, bytes);
    }
    demands
}

/// A read's piece holds its buffer from its turn until its data has been received, a write's until it is over the ring.
fn demand_buffers(parts: &Parts, demands: &mut Demands, op: Op, bytes: u32) {
    let held = over_ring(parts, bytes)
        + match op {
            Op::Read => parts.least(Op::Read, bytes) + parts.sent(&parts.data(bytes)),
            Op::Write => {
                let asked = parts.sent(&parts.data_read(bytes)) + parts.host_memory(bytes);
                asked + parts.sent(&parts.data_answer(bytes))
            }
        };
    let name = match (parts.drive.moneta.split_queues, op) {
        (false, _) => "transfer buffers",
        (true, Op::Read) => "transfer buffers of reads",
        (true, Op::Write) => "transfer buffers of writes",
    };
    demands.add(name, buffers(parts) as f64, held, 1.0);
}

fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let certainty = doubt(parts, workload, class).map_or(Certainty::Exact, Certainty::AtLeast);
    let offsets = parts.places(workload, class).map(|offsets| offsets.collect());
    parts.latency_at(offsets, certainty, |offset| {
        let mut ledger = parts.descend(class.op, class.bytes);
        if offset.is_some() {
            parts.hand_over(&mut ledger);
        }
        let submitted = ledger.cursor();
        let words = parts.on_wire(&word(parts)) * u64::from(parts.drive.moneta.request_words);
        ledger.spend(Stage::Doorbell, words + parts.link.one_way());
        ledger.spend(Stage::Parse, parts.drive.moneta.pipeline);
        let done = match (class.op, offset) {
            (Op::Read, Some(offset)) => read(parts, offset, class.bytes, &mut ledger),
            (Op::Write, Some(offset)) => write(parts, offset, class.bytes, &mut ledger),
            (_, None) => spend_least(parts, class, &mut ledger),
        };
        complete(parts, workload, class.bytes, submitted, done, &mut ledger);
        parts.ascend(&mut ledger, class.op, class.bytes);
        ledger
    })
}

/// Pieces out of the memory, over the ring, and to the host. When the last of them has left, and with it the interrupt
/// message can.
fn read(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) -> Time {
    let received = parts.link.one_way() + parts.root_complex.settle().unwrap_or_default();
    let (mut media, mut ring) = (parts.media.clone(), Bus::default());
    let mut left = Vec::new();
    let mut wire_free_at = ledger.cursor();
    let mut last = None;
    let mut at = offset;
    for (place, bytes) in pieces(parts, bytes).enumerate() {
        // The first ones find empty buffers, each other one that of a piece which has been received.
        let taken = place.checked_sub(buffers(parts)).map_or(ledger.cursor(), |earlier| left[earlier] + received);
        let timing = media.read(taken, at, bytes, bytes);
        let length = over_ring(parts, bytes);
        let buffered = ring.promise(taken, timing.last_at, length) + length;
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
        receive(parts, ledger);
    }
    wire_free_at
}

/// The last of the data has left: to the host, and into its memory.
fn receive(parts: &Parts, ledger: &mut Ledger) {
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.write_latency());
}

/// Pieces from the host, over the ring, and into the memory: when all are there.
fn write(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) -> Time {
    let (mut media, mut ring) = (parts.media.clone(), Bus::default());
    let mut reads = DataReads::new(parts);
    let mut sizes = pieces(parts, bytes);
    for bytes in sizes.by_ref().take(buffers(parts)) {
        reads.ask(ledger.cursor(), bytes);
    }
    let (mut at, mut done, mut last) = (offset, ledger.cursor(), None);
    while let Some(read) = reads.answer() {
        let length = over_ring(parts, read.bytes);
        let across = ring.promise(read.there, read.there, length) + length;
        let timing = media.write(across, at, read.bytes);
        at += u64::from(read.bytes);
        done = done.max(timing.acknowledged_at);
        if let Some(bytes) = sizes.next() {
            reads.ask(across, bytes);
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

/// The least that a request takes in the device, wherever it lies: its data follows itself on the wire.
fn spend_least(parts: &Parts, class: &Class, ledger: &mut Ledger) -> Time {
    let (first_bytes, last_bytes) = (first_bytes(parts, class.bytes), last_bytes(parts, class.bytes));
    if class.op == Op::Write {
        let answers = pieces(parts, class.bytes).map(|bytes| parts.on_wire(&parts.data_answer(bytes))).sum();
        parts.spend_data_reads_least(first_bytes, answers, ledger);
        ledger.spend(Stage::Ring, over_ring(parts, last_bytes));
        ledger.spend(Stage::Media, parts.least(Op::Write, last_bytes));
        return ledger.cursor();
    }
    ledger.spend(Stage::Media, parts.least(Op::Read, first_bytes));
    ledger.spend(Stage::Ring, over_ring(parts, first_bytes));
    ledger.spend(Stage::Transfer, pieces(parts, class.bytes).map(|bytes| parts.on_wire(&parts.data(bytes))).sum());
    let left = ledger.cursor();
    receive(parts, ledger);
    left
}

/// From the interrupt message, which leaves at `done`, to the thread being done with its request.
fn complete(parts: &Parts, workload: &Workload, bytes: u32, submitted: Time, done: Time, ledger: &mut Ledger) {
    let arrived = done + parts.sent(&message(parts)) + parts.root_complex.write_latency();
    let handled = parts.handled(arrived, sleeps(parts, bytes).then_some(submitted));
    let (read, answer) = status_read(parts);
    let found = handled + parts.sent(&read) + parts.sent(&answer);
    ledger.until(Stage::Interrupt, found);
    // For how long the handler counts on waiting for the answer.
    let back = parts.link.packet_time(Kind::Completion, REGISTER_BYTES);
    let stalled = handled + parts.link.packet_time(Kind::MemoryRead, 0) + back + parts.link.one_way() * 2;
    if sleeps(parts, bytes) {
        parts.rouse(ledger, stalled);
    } else {
        parts.see(ledger);
        let elsewhere = strays(parts, workload);
        ledger.until(Stage::CoreWait, if elsewhere { found } else { stalled }.max(ledger.cursor()));
    }
    if bytes > parts.drive.moneta.spin_up_to_bytes {
        ledger.spend(Stage::ContextSwitch, parts.at_clock(parts.drive.moneta.sleep));
    }
}

/// Whether interrupts may go to another core than their thread's: to one that idles.
fn strays(parts: &Parts, workload: &Workload) -> bool {
    let (moneta, host) = (&parts.drive.moneta, &parts.drive.host);
    let cores = if host.interrupt_cores == 0 { host.cores } else { host.interrupt_cores.min(host.cores) };
    let reached = cores.min(moneta.tags.into()).min(moneta.interrupt_vectors.into());
    let alone = reached == 1 && workload.threads == 1;
    let kept = moneta.tag_hint && workload.threads <= u32::from(reached);
    !alone && !kept
}

fn doubt(parts: &Parts, workload: &Workload, class: &Class) -> Option<&'static str> {
    let (moneta, link) = (&parts.drive.moneta, &parts.drive.link);
    let idle = !sleeps(parts, class.bytes) && !parts.drive.host.idle_exit.is_zero();
    let is_read = class.op == Op::Read;
    let cut = |packet: Packet| Packet { chunk_bytes: packet.chunk_bytes.min(moneta.chunk_bytes), ..packet };
    let at_once = (moneta.chunk_bytes * buffers(parts) as u32).min(class.bytes);
    let flows = match class.op {
        Op::Read => parts.flows(&cut(parts.data(class.bytes)), 1),
        Op::Write => parts.flows(&cut(parts.data_read(at_once)), 0),
    };
    let words = parts.flows(&word(parts), u32::from(moneta.request_words) - 1);
    let in_gaps = link.dllps && link.granularity == Granularity::Packet && class.bytes > moneta.chunk_bytes;
    let doubts = [
        (strays(parts, workload) && (idle || !link.command_payload), "interrupts go to cores that may idle"),
        (!flows || !words, "packets wait for flow-control credits"),
        (!is_read && in_gaps, "acknowledgements share the wires"),
        (!is_read && parts.refreshes(), "reads of host memory wait for its refresh"),
    ];
    let found = doubts.iter().find(|(holds, _)| *holds).map(|(_, reason)| *reason);
    found.or_else(|| parts.chance())
}
