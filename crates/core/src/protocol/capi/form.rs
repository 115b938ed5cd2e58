//! Closed form (prediction without simulation) of a CAPI request, step by step as in the ladder of
//! [`crate::protocol::capi`].

use crate::closed_form::Parts;
use crate::closed_form::form::{Certainty, ClosedForm, Latency, first_inexactness_reason};
use crate::closed_form::media::MemoryAccessTime;
use crate::closed_form::split::{CommandSplit, OVERLAP};
use crate::closed_form::workload::{Class, Workload};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::protocol::capi::afu::CLAIM_BYTES;
use crate::protocol::capi::spec::{LINE_BYTES, STATUS_BYTES};
use crate::request::DataDirection;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Payload in bytes of the host's write to the AFU's doorbell register.
const DOORBELL_BYTES: u32 = 4;

/// Returns the closed form of a class of requests over CAPI: latency of a lone request, and demands on all resources.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    let mut form = ClosedForm::of_data_path(parts, workload, class);
    let capi = &parts.drive.capi;
    let commands = CommandSplit::new(class.bytes, capi.max_transfer_kib).commands;
    let cores = workload.threads.min(parts.drive.host.cores.into());
    let software = parts.at_core_clock(capi.fill) + parts.at_core_clock(capi.command) * u64::from(commands);
    form.demands.add_host_resource_uses("cores", f64::from(cores), software, 1.0);
    ClosedForm { latency: Some(latency(parts, workload, class)), ..form }
}

fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let capi = &parts.drive.capi;
    let split = CommandSplit::new(class.bytes, capi.max_transfer_kib);
    let access = access(parts, workload, class, split);
    let ring = parts.drive.host.register_write_time();
    let mut ledger = parts.descend(class.direction, class.bytes);
    ledger.spend(Stage::Driver, parts.at_core_clock(capi.fill) + ring);
    ledger.spend(Stage::Doorbell, parts.sent(&parts.write(Direction::Down, DOORBELL_BYTES)));
    ledger.spend(Stage::Psl, capi.psl);
    ledger.spend(Stage::Fetch, parts.round_trip(LINE_BYTES));
    ledger.spend(Stage::Parse, capi.parse);
    match class.direction {
        DataDirection::Read => read(parts, &mut ledger, split, access),
        DataDirection::Write => write(parts, &mut ledger, split, access),
    }
    parts.charge_poll_time(&mut ledger);
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    let certainty = doubt(parts, class, split, access).map_or(Certainty::Exact, Certainty::AtLeast);
    let latency = Latency::new(&ledger, access, certainty);
    // Several commands of a work element share one doorbell write, so a command's least latency excludes the write.
    Latency { least: latency.least.saturating_sub(ring), ..latency }
}

/// Returns the time that a lone request spends in the media. Lines leave the media one by one, whatever the link's
/// largest payload. A write takes no time there unless it must reach the cells. A split request counts as its shortest
/// command.
fn access(parts: &Parts, workload: &Workload, class: &Class, split: CommandSplit) -> MemoryAccessTime {
    let access = parts.access(workload, class);
    if class.direction == DataDirection::Write && parts.drive.media.acknowledges_early() {
        return MemoryAccessTime { idle: Span::ZERO, waited: Span::ZERO, least: Span::ZERO, ..access };
    }
    if split.needs_several_commands() {
        let (direction, in_all) = (class.direction, parts.on_buses(class.direction, class.bytes));
        let least = split.least_media_time(
            in_all,
            |bytes| parts.least(direction, bytes),
            |bytes| on_wire(parts, direction, bytes),
        );
        return MemoryAccessTime { idle: least, waited: Span::ZERO, least, ..access };
    }
    if class.direction == DataDirection::Write {
        return access;
    }
    if !access.regular {
        return MemoryAccessTime { idle: access.least, ..access };
    }
    let timing = parts.media.clone().read(Time::ZERO, workload.offset, class.bytes, LINE_BYTES.min(class.bytes));
    let start = parts.link.earliest_stream_start(class.bytes, LINE_BYTES, timing.first_at, timing.last_at);
    let (idle, waited) = (start.since(Time::ZERO), timing.started.since(Time::ZERO));
    MemoryAccessTime { idle, waited, least: access.least.min(idle), ..access }
}

/// Returns the time that the lines of `bytes` bytes of data take on the wire, to or from the host.
fn on_wire(parts: &Parts, direction: DataDirection, bytes: u32) -> Span {
    match direction {
        DataDirection::Read => parts.on_wire(&Packet { chunk_bytes: LINE_BYTES, ..parts.data(bytes) }),
        DataDirection::Write => parts.on_wire(&parts.completions(bytes)),
    }
}

/// Returns the read requests for `bytes` bytes of host memory, each for `each_bytes`, and the completions with the
/// data.
fn host_read_packets(parts: &Parts, bytes: u32, each_bytes: u32) -> (Packet, Packet) {
    (Packet { chunk_bytes: each_bytes, ..parts.read(bytes) }, parts.completions(bytes))
}

/// Returns the time from the arrival of the last read request at the host until the completions start. Host memory is
/// read from the arrival of the first request on.
fn host_access_time(parts: &Parts, requests: &Packet) -> Span {
    let (each, _) = parts.link.burst_packet_times(requests);
    let latency = match requests.user_data {
        true => parts.root_complex.data_read_latency(),
        false => parts.root_complex.queue_read_latency(),
    };
    latency.saturating_sub(parts.on_wire(requests) - each)
}

/// Charges the stages of a read: media, claim of the host's cache lines, lines on the link, and status behind them. The
/// lines of a split request follow those of its shortest command, which may be the first.
fn read(parts: &Parts, ledger: &mut Ledger, split: CommandSplit, access: MemoryAccessTime) {
    let capi = &parts.drive.capi;
    ledger.spend(Stage::MediaWait, access.waited);
    ledger.spend(Stage::Media, access.idle - access.waited);
    ledger.spend(Stage::Psl, capi.psl);
    if capi.claim_lines {
        let (claim, claimed) = host_read_packets(parts, split.last_bytes / LINE_BYTES * CLAIM_BYTES, CLAIM_BYTES);
        ledger.spend(Stage::Claim, parts.sent(&claim) + host_access_time(parts, &claim) + parts.sent(&claimed));
        ledger.spend(Stage::Psl, capi.psl);
    }
    let lines = on_wire(parts, DataDirection::Read, split.last_bytes);
    let all: Span = split.sizes().map(|bytes| on_wire(parts, DataDirection::Read, bytes)).sum();
    ledger.spend(Stage::LinkWait, all - lines);
    ledger.spend(Stage::Transfer, lines);
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
    // The status passes the PSL while the data lines are on the wire, and then follows them.
    ledger.spend(Stage::CompletionEntry, capi.psl.max(lines) - lines + parts.on_wire(&status(parts)));
}

/// Charges the stages of a write: cache lines from the host, media if the write must reach the cells, and status. The
/// lines of a split request arrive while its other commands still request theirs.
fn write(parts: &Parts, ledger: &mut Ledger, split: CommandSplit, access: MemoryAccessTime) {
    let psl = parts.drive.capi.psl;
    let (requests, _) = host_read_packets(parts, split.last_bytes, LINE_BYTES);
    let lines = split.sizes().map(|bytes| on_wire(parts, DataDirection::Write, bytes)).sum();
    ledger.spend(Stage::Psl, psl);
    ledger.spend(Stage::Transfer, parts.on_wire(&requests));
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::HostRead, host_access_time(parts, &requests.user_data(0, None)));
    ledger.spend(Stage::Transfer, lines);
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::MediaWait, access.waited);
    ledger.spend(Stage::Media, access.idle - access.waited);
    ledger.spend(Stage::Psl, psl);
    ledger.spend(Stage::CompletionEntry, parts.sent(&status(parts)) + parts.root_complex.least_write_latency());
}

fn status(parts: &Parts) -> Packet {
    parts.write(Direction::Up, STATUS_BYTES as u32)
}

fn doubt(parts: &Parts, class: &Class, split: CommandSplit, access: MemoryAccessTime) -> Option<&'static str> {
    let capi = &parts.drive.capi;
    let requests = Packet { chunk_bytes: LINE_BYTES, ..parts.read(class.bytes) };
    let doubts = [
        (split.needs_several_commands(), OVERLAP),
        (capi.translation_miss_ratio > 0.0, "addresses that the PSL cannot translate come by chance"),
        (parts.may_wait_for_refresh(), "reads of host memory wait for its refresh"),
        (
            class.direction == DataDirection::Write,
            "writes wait for room in the AFU's buffer once the memory falls behind",
        ),
        (!parts.flows(&requests, 0), "lines wait for flow-control credits"),
    ];
    let found = first_inexactness_reason(&doubts);
    found.or_else(|| parts.doubt(access, class.bytes, 1))
}
