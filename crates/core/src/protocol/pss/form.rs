//! Closed form (prediction without simulation) of a request to the PSS card, step by step as in the ladder of
//! [`crate::protocol::pss`].
//!
//! The pages of a lone write contend only with each other. Wires serve them in order, and so does each lane (the group
//! of banks that store a page).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::closed_form::Parts;
use crate::closed_form::data_reads::DataReadPipeline;
use crate::closed_form::demand::ServiceDemands;
use crate::closed_form::form::{Certainty, ClosedForm, Latency, first_inexactness_reason};
use crate::closed_form::split::{CommandSplit, OVERLAP};
use crate::closed_form::workload::{Class, Workload};
use crate::config::{LinkEventGranularity, Wait};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::link::credits::data_credits;
use crate::media::Media;
use crate::number::{real, real_length};
use crate::protocol::pss::config::ChipReadMode;
use crate::protocol::pss::controller::lanes::{BankLanes, LaneWrite};
use crate::protocol::pss::controller::pages;
use crate::protocol::pss::spec::{DESCRIPTOR_BYTES, METADATA_BYTES, PAGE_BYTES, RECORD_BYTES, SECTOR_BYTES};
use crate::request::DataDirection;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Payload in bytes of a write to the doorbell register, and of an interrupt message.
const REGISTER_BYTES: u32 = 4;

/// Returns the closed form of a class of requests to the PSS card: latency of a lone request, and demands on all
/// resources.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    ClosedForm { latency: Some(latency(parts, workload, class)), demands: demands(parts, workload, class) }
}

fn split(parts: &Parts, class: &Class) -> CommandSplit {
    CommandSplit::new(class.bytes, parts.drive.pss.max_transfer_kib)
}

fn record(parts: &Parts) -> Packet {
    parts.write(Direction::Up, RECORD_BYTES as u32)
}

fn message(parts: &Parts) -> Packet {
    parts.write(Direction::Up, REGISTER_BYTES)
}

/// Returns the packets with the metadata of a read's sectors, which follow the data; none for writes, and none unless
/// reads pass through uncorrected.
fn metadata(parts: &Parts, class: &Class) -> Option<Packet> {
    let each_bytes = METADATA_BYTES as u32;
    let bytes = class.bytes / SECTOR_BYTES * each_bytes;
    let is_sent = class.direction == DataDirection::Read && parts.drive.pss.read_mode == ChipReadMode::Passthrough;
    is_sent.then(|| Packet { chunk_bytes: each_bytes, ..parts.write(Direction::Up, bytes) })
}

/// Returns the sizes in bytes of the pieces of up to a page in which the card reads a write's data from the host.
fn write_read_sizes(bytes: u32) -> impl Iterator<Item = u32> {
    (0..bytes.div_ceil(PAGE_BYTES)).map(move |piece| PAGE_BYTES.min(bytes - piece * PAGE_BYTES))
}

/// Returns the demands of a request on all resources. Shared costs count as little as possible. Descriptors fill the
/// packets that carry them, the cache holds as much of the job's region as fits, and one interrupt announces all
/// records.
fn demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let pss = &parts.drive.pss;
    let mut demands = ServiceDemands::default();
    let mut ledger = parts.descend(class.direction, class.bytes);
    ledger.spend(Stage::Driver, parts.drive.host.register_write_time());
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    parts.add_core_demands(&mut demands, workload, ledger.cursor().since(ledger.start()), true);
    let mut media = ServiceDemands::default();
    parts.add_media_demands(&mut media, workload, class);
    let uncached = (1.0 - cache_share_of_region(parts, workload).min(1.0)) / workload.requests_sharing_a_piece();
    demands.add_weighted_demands(&media, uncached);
    if class.direction == DataDirection::Write {
        // A write of less than a page occupies the banks of its page for a whole program operation.
        let lanes = real_length(BankLanes::new(&parts.drive.media).count());
        let pages = f64::from(class.bytes.div_ceil(PAGE_BYTES));
        demands.add("lanes of pages", lanes, parts.least_program_time(), pages * uncached);
    }
    let commands = f64::from(split(parts, class).commands);
    demands.add("firmware", pss.firmware_cores.into(), pss.firmware, commands);
    for packet in [parts.write(Direction::Down, REGISTER_BYTES), record(parts), message(parts)] {
        parts.add_burst_demands(&mut demands, &packet, commands);
    }
    let completion_bytes = parts.drive.link.completion_bytes_max();
    let share = f64::from(DESCRIPTOR_BYTES as u32) / f64::from(completion_bytes);
    parts.add_burst_demands(&mut demands, &parts.completions(completion_bytes), commands * share);
    add_data_demands(parts, &mut demands, class);
    demands
}

fn add_data_demands(parts: &Parts, demands: &mut ServiceDemands, class: &Class) {
    match class.direction {
        DataDirection::Read => parts.add_burst_demands(demands, &parts.data(class.bytes), 1.0),
        DataDirection::Write => write_read_sizes(class.bytes)
            .for_each(|bytes| parts.add_read_demands(demands, &parts.write_data_read_requests(bytes), 1.0)),
    }
    if let Some(packet) = metadata(parts, class) {
        parts.add_burst_demands(demands, &packet, 1.0);
    }
}

/// Returns the size of the card's cache as a fraction of the job's region, the largest share of the region that can be
/// cached. Exceeds 1 if the cache is larger.
fn cache_share_of_region(parts: &Parts, workload: &Workload) -> f64 {
    f64::from(parts.drive.pss.cache_pages) * f64::from(PAGE_BYTES) / real(workload.region_bytes.max(1))
}

fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let (certainty, by_chips) = certainty(parts, workload, class);
    let is_told = by_chips && has_equal_page_parts(workload, class) && !split(parts, class).needs_several_commands();
    let offsets = parts.places(workload, class).filter(|_| is_told);
    parts.latency_over_offsets(offsets.map(|offsets| offsets.collect()), certainty, |offset| {
        let mut ledger = parts.descend(class.direction, class.bytes);
        if offset.is_some() {
            parts.hand_over(&mut ledger);
        }
        ledger.spend(Stage::Driver, parts.drive.host.register_write_time());
        let submitted = ledger.cursor();
        ledger.spend(Stage::Doorbell, parts.sent(&parts.write(Direction::Down, REGISTER_BYTES)));
        ledger.spend(Stage::Fetch, parts.round_trip(DESCRIPTOR_BYTES as u32));
        ledger.spend(Stage::Firmware, parts.drive.pss.firmware);
        match (class.direction, offset) {
            (DataDirection::Read, Some(offset)) => read(parts, offset, class.bytes, &mut ledger),
            (DataDirection::Write, Some(offset)) => write(parts, offset, class.bytes, &mut ledger),
            (_, None) => charge_least_chip_time(parts, class, &mut ledger),
        }
        if class.direction == DataDirection::Read {
            send(parts, class, &mut ledger);
        } else {
            let sent = parts.sent(&record(parts));
            ledger.spend(Stage::CompletionEntry, sent + parts.root_complex.least_write_latency());
        }
        complete(parts, class, submitted, &mut ledger);
        parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
        ledger
    })
}

/// Charges a read's time in the chips: until all data is corrected, or in passthrough until the data can be sent
/// without a gap.
fn read(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) {
    let (now, mut media) = (ledger.cursor(), parts.media.clone());
    let (started, ready) = match parts.drive.pss.read_mode {
        ChipReadMode::Validate => {
            let timing = media.read(now, offset, bytes, bytes);
            (timing.started, timing.last_at)
        }
        ChipReadMode::Passthrough => {
            let chunk_bytes = parts.drive.link.max_payload_bytes;
            let timing = media.read_without_ecc(now, offset, bytes, bytes.min(chunk_bytes));
            (timing.started, parts.link.earliest_stream_start(bytes, chunk_bytes, timing.first_at, timing.last_at))
        }
    };
    ledger.until(Stage::MediaWait, started);
    ledger.until(Stage::Media, ready);
}

/// Charges the time to send a read's data to the host, and behind it the metadata and the completion record.
fn send(parts: &Parts, class: &Class, ledger: &mut Ledger) {
    ledger.spend(Stage::Transfer, parts.on_wire(&parts.data(class.bytes)));
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
    let metadata = metadata(parts, class).map_or(Span::ZERO, |packet| parts.on_wire(&packet));
    ledger.spend(Stage::CompletionEntry, metadata + parts.on_wire(&record(parts)));
}

/// Charges the time of a write: its data comes from the host page by page, and the chips are written once all of it has
/// arrived.
fn write(parts: &Parts, offset: u64, bytes: u32, ledger: &mut Ledger) {
    let mut reads = DataReadPipeline::new(parts);
    write_read_sizes(bytes).for_each(|bytes| reads.issue(ledger.cursor(), bytes));
    if let Some(last) = std::iter::from_fn(|| reads.complete_oldest_read()).last() {
        last.charge(parts, ledger);
    }
    let mut chips = Chips::new(parts);
    chips.store(ledger.cursor(), offset, bytes);
    ledger.until(Stage::MediaWait, chips.started.max(ledger.cursor()));
    ledger.until(Stage::Media, chips.acknowledged.max(ledger.cursor()));
}

/// Chips of an idle card that store the pages of one write. Each lane (the group of banks for a page) stores one page
/// after the other.
struct Chips {
    lanes: BankLanes,
    media: Media,
    /// Lanes that are programming, ordered by the time at which they finish, then by the order in which they began.
    programming: BinaryHeap<Reverse<(Time, u32, u32)>>,
    begun: u32,
    /// Latest start of a program operation so far.
    started: Time,
    /// Latest acknowledgement of a program operation so far.
    acknowledged: Time,
}

impl Chips {
    fn new(parts: &Parts) -> Chips {
        Chips {
            lanes: BankLanes::new(&parts.drive.media),
            media: parts.media.clone(),
            programming: BinaryHeap::new(),
            begun: 0,
            started: Time::ZERO,
            acknowledged: Time::ZERO,
        }
    }

    fn store(&mut self, now: Time, offset: u64, bytes: u32) {
        for (page, range) in pages(offset, bytes) {
            let offset = page * u64::from(PAGE_BYTES) + u64::from(range.start);
            let job = LaneWrite { page, offset, bytes: range.end - range.start, command: None };
            if let Some(lane) = self.lanes.push(job) {
                self.program(now, lane);
            }
        }
        while let Some(Reverse((done, _, lane))) = self.programming.pop() {
            self.lanes.end(lane);
            self.program(done, lane);
        }
    }

    fn program(&mut self, now: Time, lane: u32) {
        let Some(job) = self.lanes.start(lane) else { return };
        let timing = self.media.program(now, job.offset, job.bytes);
        self.started = self.started.max(timing.started);
        self.acknowledged = self.acknowledged.max(timing.acknowledged_at);
        self.programming.push(Reverse((timing.programmed_at, self.begun, lane)));
        self.begun += 1;
    }
}

/// Charges the shortest time of a request between firmware and link. It has no time in the chips if the cache may serve
/// it. A split request counts as its shortest command.
fn charge_least_chip_time(parts: &Parts, class: &Class, ledger: &mut Ledger) {
    if class.direction == DataDirection::Write {
        let answers =
            write_read_sizes(class.bytes).map(|bytes| parts.on_wire(&parts.write_data_completions(bytes))).sum();
        parts.charge_least_data_read_time(PAGE_BYTES.min(class.bytes), answers, ledger);
    }
    let decode = match (class.direction, parts.drive.pss.read_mode) {
        (DataDirection::Read, ChipReadMode::Passthrough) => parts.drive.media.ecc_decode,
        _ => Span::ZERO,
    };
    let is_spared =
        parts.drive.pss.cache_pages > 0 && (class.direction == DataDirection::Read || acknowledges_early(parts));
    let on_wire = |bytes| match class.direction {
        DataDirection::Read => parts.on_wire(&parts.data(bytes)),
        DataDirection::Write => {
            write_read_sizes(bytes).map(|bytes| parts.on_wire(&parts.write_data_completions(bytes))).sum()
        }
    };
    let in_all = parts.on_buses(class.direction, class.bytes);
    let media =
        || split(parts, class).least_media_time(in_all, |bytes| parts.least(class.direction, bytes) - decode, on_wire);
    ledger.spend(Stage::Media, if is_spared { Span::ZERO } else { media() });
}

fn acknowledges_early(parts: &Parts) -> bool {
    parts.drive.media.acknowledges_early()
}

/// Charges the time from the completion record's arrival in host memory until the thread sees it. For a split request,
/// the handler that an earlier command's interrupt has started may find the last record.
fn complete(parts: &Parts, class: &Class, submitted: Time, ledger: &mut Ledger) {
    match parts.drive.host.wait {
        Wait::Sleep if split(parts, class).needs_several_commands() => parts.charge_wake_up(ledger, ledger.cursor()),
        Wait::Sleep => {
            ledger.spend(Stage::Interrupt, parts.on_wire(&message(parts)));
            parts.wake(ledger, submitted);
        }
        Wait::Spin | Wait::Hybrid => parts.charge_poll_time(ledger),
    }
}

/// Effect of the card's DRAM cache on a request's latency: how often it replaces or delays accesses to the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheLatencyEffect {
    Never,
    /// Cache effects are so rare that the mean latency hardly changes, for this reason.
    Seldom(&'static str),
    /// Cache effects are so frequent that the chips do not determine the latency, for this reason.
    Often(&'static str),
}

/// Largest share of cached reads for which the chips still determine the latency (assumed: the mean changes by less).
const SELDOM_SHARE: f64 = 0.01;

fn cache_effect(parts: &Parts, workload: &Workload, class: &Class) -> CacheLatencyEffect {
    let pss = &parts.drive.pss;
    let ahead = pss.prefetch_pages > 0;
    let written = workload.classes.iter().any(|class| class.direction == DataDirection::Write);
    match class.direction {
        _ if pss.cache_pages == 0 => CacheLatencyEffect::Never,
        DataDirection::Write if acknowledges_early(parts) => {
            CacheLatencyEffect::Often("writes wait for room in the card's DRAM once the chips fall behind")
        }
        DataDirection::Write => CacheLatencyEffect::Never,
        DataDirection::Read if ahead && workload.sequential => {
            CacheLatencyEffect::Often("pages of a sequence may have been read ahead")
        }
        DataDirection::Read if !ahead && !written => CacheLatencyEffect::Never,
        DataDirection::Read if cache_share_of_region(parts, workload) > SELDOM_SHARE => {
            CacheLatencyEffect::Often("the card's DRAM may hold what is read")
        }
        DataDirection::Read => {
            CacheLatencyEffect::Seldom("the card's DRAM seldom holds what is read, or brings what nobody reads")
        }
    }
}

/// Returns the certainty of the latency, and true if the times of the chips determine it. They do not if the card's
/// DRAM often completes such requests alone.
fn certainty(parts: &Parts, workload: &Workload, class: &Class) -> (Certainty, bool) {
    match (cache_effect(parts, workload, class), doubt(parts, class)) {
        (CacheLatencyEffect::Often(reason), _) => (Certainty::AtLeast(reason), false),
        (CacheLatencyEffect::Seldom(_), Some(reason)) => (Certainty::AtLeast(reason), false),
        (CacheLatencyEffect::Seldom(reason), None) => (Certainty::Mean(reason), true),
        (CacheLatencyEffect::Never, Some(reason)) => (Certainty::AtLeast(reason), true),
        (CacheLatencyEffect::Never, None) => (Certainty::Exact, true),
    }
}

/// True if all writes of the class split into the same parts of pages, whatever their offset. Always true for reads.
fn has_equal_page_parts(workload: &Workload, class: &Class) -> bool {
    let (page_bytes, bytes) = (u64::from(PAGE_BYTES), u64::from(class.bytes));
    let fits = bytes.is_multiple_of(page_bytes) || page_bytes.is_multiple_of(bytes);
    class.direction == DataDirection::Read || fits && workload.offset.is_multiple_of(page_bytes.min(bytes))
}

fn doubt(parts: &Parts, class: &Class) -> Option<&'static str> {
    let link = &parts.drive.link;
    let in_gaps = link.dllps && link.granularity == LinkEventGranularity::Packet && class.bytes > PAGE_BYTES;
    let doubts = [
        (split(parts, class).needs_several_commands(), OVERLAP),
        (!flows(parts, class), "packets wait for flow-control credits"),
        (class.direction == DataDirection::Write && in_gaps, "acknowledgements share the wires"),
        (parts.may_wait_for_refresh(), "reads of host memory wait for its refresh"),
    ];
    let found = first_inexactness_reason(&doubts);
    found.or_else(|| parts.chance())
}

/// True if the packets of a lone request never wait for flow-control credits.
fn flows(parts: &Parts, class: &Class) -> bool {
    let data = parts.data(class.bytes);
    match (class.direction, metadata(parts, class)) {
        (DataDirection::Write, _) => parts.flows(&parts.write_data_read_requests(class.bytes), 0),
        (DataDirection::Read, None) => parts.flows(&data, 2),
        (DataDirection::Read, Some(metadata)) => {
            // Metadata is sent before the credits of the preceding data return, so the credits must suffice for both.
            let link = &parts.drive.link;
            let in_data =
                u32::from(link.posted_data_credits).checked_div(data_credits(data.full_packet_payload_bytes()));
            let credits = u32::from(link.posted_header_credits).min(in_data.unwrap_or(u32::MAX));
            let ((data_each, _), (each, _)) =
                (parts.link.burst_packet_times(&data), parts.link.burst_packet_times(&metadata));
            let in_time = each * credits.into() >= parts.link.posted_credit_round_trip(Direction::Up, data_each);
            let accepted = parts.link.receiver_accept_time(Direction::Up) <= each;
            data.count() + metadata.count() + 2 <= credits || accepted && in_time
        }
    }
}
