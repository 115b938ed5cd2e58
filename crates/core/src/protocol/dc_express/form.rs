//! Closed form (prediction without simulation) of a DC Express request, step by step as in the ladder of
//! [`crate::protocol::dc_express`]. Writes take the NVMe path.

use crate::closed_form::Parts;
use crate::closed_form::demand::ServiceDemands;
use crate::closed_form::form::{Certainty, ClosedForm, Latency, first_inexactness_reason};
use crate::closed_form::media::MemoryAccessTime;
use crate::closed_form::split::{CommandSplit, OVERLAP};
use crate::closed_form::workload::{ArrivalProcess, Class, Workload};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::protocol::nvme::form;
use crate::request::DataDirection;
use crate::time::{Span, Time};
use phaselink_ring::command::COMMAND_BYTES;

const ENTRY_BYTES: u32 = COMMAND_BYTES as u32;

/// Returns the closed form of a class of requests over DC Express: latency of a lone request, and demands on all
/// resources.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    match class.direction {
        DataDirection::Read => {
            ClosedForm { latency: Some(latency(parts, workload, class)), demands: demands(parts, workload, class) }
        }
        DataDirection::Write => write_beside_queue_reads(form::form(parts, workload, class)),
    }
}

/// Returns the closed form of a write with its latency marked as a lower bound. The write shares the link with the
/// queue reads by which the endpoint polls.
fn write_beside_queue_reads(mut form: ClosedForm) -> ClosedForm {
    if let Some(latency) = form.latency.as_mut().filter(|latency| latency.certainty == Certainty::Exact) {
        latency.certainty = Certainty::AtLeast("queue reads share the link");
    }
    form
}

/// Returns the processor time to write all tags of a read of `bytes` bytes, which is also the time to check them.
fn tag_write_time(parts: &Parts, bytes: u32) -> Span {
    let chunks = bytes.div_ceil(parts.drive.link.max_payload_bytes);
    parts.at_core_clock(parts.drive.dc_express.tag) * u64::from(chunks)
}

/// Returns the demands of a read on all resources. At depth 1, each queue read brings one command. If commands overlap,
/// each brings at best as many as it asks for.
fn demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let split = CommandSplit::new(class.bytes, parts.drive.nvme.max_transfer_kib);
    let commands_written = parts.at_core_clock(parts.drive.dc_express.command) * u64::from(split.commands);
    let software = tag_write_time(parts, class.bytes) * 2 + commands_written;
    let mut demands = ClosedForm::shared(parts, workload, class, software, false);
    let commands = f64::from(split.commands);
    demands.add("parser of reads", 1.0, parts.drive.dc_express.parse, commands);
    let together = match workload.outstanding * u64::from(split.commands) {
        1 => 1,
        _ => u32::from(parts.drive.dc_express.fetch_entries),
    };
    parts.add_read_demands(&mut demands, &parts.read(ENTRY_BYTES * together), commands / f64::from(together));
    for bytes in split.sizes() {
        parts.add_burst_demands(&mut demands, &parts.data(bytes), 1.0);
    }
    demands
}

/// Returns the latency of a lone DC Express read, stage by stage, with its certainty.
fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let split = CommandSplit::new(class.bytes, parts.drive.nvme.max_transfer_kib);
    let mut ledger = parts.descend(class.direction, class.bytes);
    parts.hand_over(&mut ledger);
    ledger.spend(Stage::Mark, tag_write_time(parts, class.bytes));
    if workload.arrivals == ArrivalProcess::Random {
        // A command that arrives at a random time waits for half the time between two queue reads on average.
        ledger.spend(Stage::PollWait, idle_queue_read_period(parts) / 2);
    }
    ledger.spend(Stage::Fetch, parts.round_trip(ENTRY_BYTES) - parts.sent(&parts.read(ENTRY_BYTES)));
    let fetched = ledger.cursor();
    ledger.spend(Stage::Parse, parts.drive.dc_express.parse);
    let access = parts.access_in_commands(workload, class, split.commands);
    data(parts, &mut ledger, fetched, split, access);
    parts.charge_poll_time(&mut ledger);
    ledger.spend(Stage::Check, tag_write_time(parts, class.bytes));
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    Latency::new(&ledger, access, certainty(parts, workload, split, access))
}

/// Returns the time between two queue reads of an endpoint that finds and expects no command.
fn idle_queue_read_period(parts: &Parts) -> Span {
    parts.round_trip(ENTRY_BYTES) + parts.drive.dc_express.turnaround
}

/// Charges the time of a read's data from the media to host memory. In a split request, the data of the last command
/// follows that of the others.
fn data(parts: &Parts, ledger: &mut Ledger, fetched: Time, split: CommandSplit, access: MemoryAccessTime) {
    ledger.spend(Stage::MediaWait, access.waited);
    ledger.spend(Stage::Media, access.idle - access.waited);
    let lead = ledger.cursor().since(fetched);
    let on_wire = |bytes| parts.on_wire(&parts.data(bytes));
    let (each, last) = (on_wire(split.each_bytes), on_wire(split.last_bytes));
    ledger
        .spend(Stage::LinkWait, each * u64::from(split.commands - 1) + queue_read_delay(parts, lead, split.last_bytes));
    ledger.spend(Stage::Transfer, last);
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
}

/// Returns the delay of a read's data by the queue read for the next command. The endpoint sends that queue read early:
/// it must be back, and its command at the media, when all data has left. If data is in flight by then, the queue read
/// passes between two packets (figure 1c), except in the last packet.
fn queue_read_delay(parts: &Parts, lead: Span, bytes: u32) -> Span {
    let data = parts.data(bytes);
    let (_, last) = parts.link.burst_packet_times(&data);
    let before_end = parts.round_trip(ENTRY_BYTES) + lead;
    match (last..parts.on_wire(&data) - last).contains(&before_end) {
        true => parts.on_wire(&parts.read(ENTRY_BYTES)),
        false => Span::ZERO,
    }
}

/// Returns the certainty of the latency of a read: exact, mean or lower bound, with the reason.
fn certainty(parts: &Parts, workload: &Workload, split: CommandSplit, access: MemoryAccessTime) -> Certainty {
    let config = &parts.drive.dc_express;
    let doubts = [
        (split.needs_several_commands(), OVERLAP),
        (config.doorbell_below_iops > 0, "at low load commands wait for a doorbell"),
        (config.tag_bits < 32, "short tags collide"),
    ];
    let found = first_inexactness_reason(&doubts);
    match (found.or_else(|| parts.doubt(access, split.each_bytes, 0)), workload.arrivals) {
        (Some(reason), _) => Certainty::AtLeast(reason),
        (None, ArrivalProcess::Random) => {
            Certainty::Mean("a command meets a queue read after half a period, on average")
        }
        (None, ArrivalProcess::Regular) if config.predict => {
            Certainty::AtLeast("queue reads meet the commands of a steady loop up to 4 ns late")
        }
        (None, ArrivalProcess::Regular) => Certainty::AtLeast("a command waits for the next queue read"),
    }
}
