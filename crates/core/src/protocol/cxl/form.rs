//! Closed form (prediction without simulation) of a CXL.mem request, step by step as in the ladder of
//! [`crate::protocol::cxl`].
//!
//! A lone request contends only with itself: its lines follow each other on the wires and contend in the memory. As
//! each wire serves lines in order, a recurrence over the lines gives the times of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::closed_form::Parts;
use crate::closed_form::demand::ServiceDemands;
use crate::closed_form::form::{Certainty, ClosedForm, Latency};
use crate::closed_form::workload::{Class, Workload};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::media::Media;
use crate::number::{index, real};
use crate::protocol::cxl::fetched::LineInstants;
use crate::protocol::cxl::{Buffer, LINE_BYTES};
use crate::request::DataDirection;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet};

/// Returns the closed form of a class of requests over CXL.mem: latency of a lone request, and demands on all
/// resources.
pub(crate) fn form(parts: &Parts, workload: &Workload, class: &Class) -> ClosedForm {
    ClosedForm { latency: Some(latency(parts, workload, class)), demands: demands(parts, workload, class) }
}

/// Returns the number of lines of 64 bytes of a request of `bytes` bytes.
fn lines(bytes: u32) -> u32 {
    bytes / LINE_BYTES
}

/// Returns the processor time to issue those of a request's lines that fit the core's fill buffers.
fn issue(parts: &Parts, bytes: u32) -> Span {
    let cxl = &parts.drive.cxl;
    parts.at_core_clock(cxl.issue) * u64::from(lines(bytes).min(cxl.fill_buffers.into()))
}

/// Returns the message from the host that requests a line (load) or carries one (store).
fn request_packet(parts: &Parts, direction: DataDirection) -> Packet {
    let message = parts.write(Direction::Down, LINE_BYTES);
    match direction {
        DataDirection::Read => Packet { kind: Kind::MemoryRead, ..message },
        DataDirection::Write => message.user_data(0, None),
    }
}

/// Returns the device's response to a load (its line) or a store (its completion).
fn response_packet(parts: &Parts, direction: DataDirection) -> Packet {
    match direction {
        DataDirection::Read => parts.data(LINE_BYTES),
        DataDirection::Write => parts.write(Direction::Up, 0),
    }
}

fn demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let mut demands = ServiceDemands::default();
    let mut ledger = parts.descend(class.direction, class.bytes);
    ledger.spend(Stage::Driver, issue(parts, class.bytes));
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    parts.add_core_demands(&mut demands, workload, ledger.cursor().since(ledger.start()), false);
    let times = f64::from(lines(class.bytes));
    parts.add_burst_demands(&mut demands, &request_packet(parts, class.direction), times);
    parts.add_burst_demands(&mut demands, &response_packet(parts, class.direction), times);
    let at_once = parts.drive.cxl.most_lines_in_flight(class.direction, lines(class.bytes));
    let cores = workload.threads.min(parts.drive.host.cores.into()) * at_once;
    demands.add_host_resource_uses("fill buffers", f64::from(cores), least_line_time(parts, class.direction), times);
    match parts.drive.cxl.has_cache() {
        true => cached::add_miss_demands(parts, workload, class, &mut demands),
        false => demands.add_weighted_demands(&media_demands(parts, workload, class), 1.0),
    }
    demands
}

/// Returns the demand of a request on the memory, as its share of the units that it touches: other requests may find
/// the rest of a unit in the buffer. Stores to units that are still in the buffer demand nothing.
fn media_demands(parts: &Parts, workload: &Workload, class: &Class) -> ServiceDemands {
    let cxl = &parts.drive.cxl;
    let mut unit = ServiceDemands::default();
    // Units of a request in one row, or in one program unit, are read or written together.
    let bytes = class.bytes.max(cxl.unit_bytes);
    parts.add_media_demands(&mut unit, workload, &Class { bytes, ..*class });
    // Loads of a sequential stream find the rows of their units open, so they need no bank time.
    if class.direction == DataDirection::Read && workload.sequential {
        unit = unit.without("media banks");
    }
    let held = f64::from(cxl.unit_bytes) * f64::from(cxl.buffer_units) / real(workload.region_bytes.max(1));
    let reach = match class.direction {
        DataDirection::Write if !covers_whole_units(parts, class) => (1.0 - held).max(0.0),
        DataDirection::Read => 1.0 - open_row_share(parts, workload),
        DataDirection::Write => 1.0,
    };
    let mut demands = ServiceDemands::default();
    demands.add_weighted_demands(&unit, reach * f64::from(class.bytes) / f64::from(bytes));
    demands
}

/// Share of a job's region that lies in open rows, up to which the closed form ignores them.
const OPEN_SHARE: f64 = 0.001;

/// Returns the share of a job's region that lies in open rows, one row in each bank; 0 if the share is negligible.
fn open_row_share(parts: &Parts, workload: &Workload) -> f64 {
    let media = &parts.drive.media;
    let banks = u64::from(media.banks());
    let open_bytes = banks * u64::from(media.stripe_bytes);
    let share = (real(open_bytes) / real(workload.region_bytes.max(1))).min(1.0);
    if share > OPEN_SHARE { share } else { 0.0 }
}

/// True if every request covers whole units (`cxl.unit_bytes`) of the memory.
fn covers_whole_units(parts: &Parts, class: &Class) -> bool {
    class.aligned && class.bytes.is_multiple_of(parts.drive.cxl.unit_bytes)
}

/// Returns the shortest time for which a line is in flight: the line is in the device's buffer or DRAM cache.
fn least_line_time(parts: &Parts, direction: DataDirection) -> Span {
    parts.sent(&request_packet(parts, direction))
        + parts.drive.cxl.controller
        + cached::access(parts, direction)
        + parts.sent(&response_packet(parts, direction))
        + parts.root_complex.least_write_latency()
}

fn latency(parts: &Parts, workload: &Workload, class: &Class) -> Latency {
    let found = cached::cached_pages(parts, workload, class);
    let doubt = match parts.drive.cxl.has_cache() {
        true => cached::doubt(parts, class, found),
        false => doubt(parts, workload, class),
    };
    let mut ledger = parts.descend(class.direction, class.bytes);
    ledger.spend(Stage::Driver, issue(parts, class.bytes));
    let before = ledger.cursor().since(ledger.start());
    match doubt {
        Some(InexactnessReason::Held) => {
            charge_least_time(parts, class, &mut ledger);
            // The unit of the last line is programmed no earlier than that line has arrived.
            let stored = ledger.cursor() - done(parts);
            charge_deep_flush(parts, class.direction, &mut ledger, |_| stored + parts.least_program_time());
        }
        _ => {
            let memory = match parts.drive.cxl.has_cache() {
                true => IdleDeviceMemory::Cache(cached::IdleDramCache::new(parts, found)),
                false => IdleDeviceMemory::Buffer(Box::new((Buffer::new(&parts.drive.cxl), parts.media.clone()))),
            };
            let lines = Lines::new(parts, class.direction, ledger.cursor(), memory);
            lines.run(workload.offset, class.bytes, &mut ledger);
        }
    }
    let below = ledger.cursor();
    parts.charge_completion_path(&mut ledger, class.direction, class.bytes);
    let least = before + least_line_time(parts, class.direction) + ledger.cursor().since(below);
    let stages = ledger.close(ledger.cursor()).clone();
    Latency {
        least: least.min(stages.total()),
        stages,
        certainty: doubt.map_or(Certainty::Exact, InexactnessReason::certainty),
    }
}

/// Reason why a lone request may take another time than the recurrence over its lines gives.
#[derive(Clone, Copy, Debug)]
enum InexactnessReason {
    /// Cache lines of the request may be in the device's buffer already, or lie differently in their units, so that
    /// only a lower bound is known.
    Held,
    Longer(&'static str),
    Shorter(&'static str),
}

impl InexactnessReason {
    fn certainty(self) -> Certainty {
        match self {
            InexactnessReason::Held => {
                Certainty::AtLeast("lines may be in the buffer already, in an open row, or elsewhere in theirs")
            }
            InexactnessReason::Longer(why) => Certainty::AtLeast(why),
            InexactnessReason::Shorter(why) => Certainty::Mean(why),
        }
    }
}

fn doubt(parts: &Parts, workload: &Workload, class: &Class) -> Option<InexactnessReason> {
    let access = parts.access(workload, class);
    let lines = lines(class.bytes);
    let at_once = lines.min(parts.drive.cxl.most_lines_in_flight(class.direction, lines)) * LINE_BYTES;
    let starved = may_lack_credits(parts, class.direction, at_once);
    let units = class.bytes.div_ceil(parts.drive.cxl.unit_bytes) + 1;
    match class.direction {
        DataDirection::Read if !access.regular || workload.sequential || open_row_share(parts, workload) > 0.0 => {
            Some(InexactnessReason::Held)
        }
        DataDirection::Write if units > parts.drive.cxl.buffer_units => Some(InexactnessReason::Held),
        _ if parts.drive.link.dllps => Some(InexactnessReason::Longer("acknowledgements share the wires")),
        _ if starved => Some(InexactnessReason::Longer("stores wait for flow-control credits")),
        DataDirection::Write => {
            Some(InexactnessReason::Longer("stores wait for room in the buffer once the memory falls behind"))
        }
        _ => parts.doubt(access, at_once, 0).map(InexactnessReason::Longer).or_else(|| {
            let again =
                InexactnessReason::Shorter("a load whose unit has been read for another finds it in the buffer");
            (!covers_whole_units(parts, class)).then_some(again)
        }),
    }
}

/// True if stores of `at_once` bytes in flight may wait for flow-control credits; false for loads.
fn may_lack_credits(parts: &Parts, direction: DataDirection, at_once: u32) -> bool {
    let stores = Packet { chunk_bytes: LINE_BYTES, ..parts.write(Direction::Down, at_once) };
    direction == DataDirection::Write && !parts.flows(&stores, 0)
}

/// Charges the shortest time of a request: all lines are in the device's buffer and follow each other on the wire.
fn charge_least_time(parts: &Parts, class: &Class, ledger: &mut Ledger) {
    let burst = match class.direction {
        DataDirection::Read => response_packet(parts, DataDirection::Read),
        DataDirection::Write => request_packet(parts, DataDirection::Write),
    };
    ledger.spend(Stage::LinkWait, parts.on_wire(&burst) * u64::from(lines(class.bytes) - 1));
    match class.direction {
        DataDirection::Read => {
            ledger.spend(Stage::LineRequest, parts.sent(&request_packet(parts, DataDirection::Read)))
        }
        DataDirection::Write => {}
    }
    ledger.spend(Stage::Transfer, parts.on_wire(&burst));
    ledger.spend(Stage::Propagation, parts.link.one_way());
    ledger.spend(Stage::Parse, parts.drive.cxl.controller);
    match class.direction {
        DataDirection::Read => ledger.spend(Stage::Settle, parts.root_complex.least_write_latency()),
        DataDirection::Write => {
            ledger.spend(Stage::CompletionEntry, done(parts));
        }
    }
}

/// Returns the time of the completion of a store or a flush, from the device into the host.
fn done(parts: &Parts) -> Span {
    parts.sent(&response_packet(parts, DataDirection::Write)) + parts.root_complex.least_write_latency()
}

/// Charges the deep flush that follows the last line of a write, if only data in the cells counts as written. `flushed`
/// gives the end of a flush by the time at which it arrives.
fn charge_deep_flush(parts: &Parts, direction: DataDirection, ledger: &mut Ledger, flushed: impl FnOnce(Time) -> Time) {
    if direction == DataDirection::Read || parts.drive.media.acknowledges_early() {
        return;
    }
    ledger.spend(Stage::Doorbell, parts.sent(&parts.write(Direction::Down, LINE_BYTES)));
    ledger.spend(Stage::Parse, parts.drive.cxl.controller);
    let at = ledger.cursor();
    ledger.until(Stage::Media, flushed(at).max(at));
    ledger.spend(Stage::CompletionEntry, done(parts));
}

/// Instants of a line that has been sent to the device: it was issued, went on the wire, and arrived there.
#[derive(Clone, Copy, Debug)]
struct Line {
    issued: Time,
    sent: Time,
    arrived: Time,
    /// Instants at which the cache line reaches each stage of the device. For a store, they hold its wait for buffer or
    /// cache.
    fetched: LineInstants,
}

/// Memory of an idle device, which serves the lines of one request: buffer and media, or DRAM cache.
enum IdleDeviceMemory {
    Buffer(Box<(Buffer, Media)>),
    Cache(cached::IdleDramCache),
}

impl IdleDeviceMemory {
    /// Returns the instants at which a load or store of the cache line at `offset` reaches each stage; it passes the
    /// controller at `at`.
    fn serve(&mut self, direction: DataDirection, at: Time, offset: u64) -> LineInstants {
        match (self, direction) {
            (IdleDeviceMemory::Buffer(parts), DataDirection::Read) => parts.0.read(at, offset, &mut parts.1),
            (IdleDeviceMemory::Buffer(parts), DataDirection::Write) => {
                let (buffer, media) = &mut **parts;
                let admitted = buffer.write(at, offset, media);
                LineInstants { started: admitted, ..LineInstants::within(at, admitted) }
            }
            (IdleDeviceMemory::Cache(cache), DataDirection::Read) => cache.read(at, offset),
            (IdleDeviceMemory::Cache(_), DataDirection::Write) => LineInstants::within(at, at),
        }
    }

    /// Returns the time at which a flush of `bytes` bytes from `offset` ends that arrives at `at`.
    fn flush(&mut self, at: Time, offset: u64, bytes: u32) -> Time {
        match self {
            IdleDeviceMemory::Buffer(parts) => parts.0.flush(at, offset, bytes, &mut parts.1),
            IdleDeviceMemory::Cache(_) => at,
        }
    }
}

/// Recurrence over the lines of one request through an idle device: wires, memory, and lines sent so far.
struct Lines<'a> {
    parts: &'a Parts<'a>,
    direction: DataDirection,
    down: Span,
    up: Span,
    down_free_at: Time,
    up_free_at: Time,
    memory: IdleDeviceMemory,
    lines: Vec<Line>,
    /// Numbers of lines that await their response, ordered by the time at which the response is ready.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
}

impl<'a> Lines<'a> {
    fn new(parts: &'a Parts, direction: DataDirection, start: Time, memory: IdleDeviceMemory) -> Lines<'a> {
        Lines {
            parts,
            direction,
            down: parts.on_wire(&request_packet(parts, direction)),
            up: parts.on_wire(&response_packet(parts, direction)),
            down_free_at: start,
            up_free_at: start,
            memory,
            lines: Vec::new(),
            ready: BinaryHeap::new(),
        }
    }

    /// Sends all lines of the `bytes` bytes from `offset`, and charges the times of the line that completes last.
    fn run(mut self, offset: u64, bytes: u32, ledger: &mut Ledger) {
        let mut offsets = (0..u64::from(lines(bytes))).map(|line| offset + line * u64::from(LINE_BYTES));
        let at_once = self.parts.drive.cxl.most_lines_in_flight(self.direction, lines(bytes));
        for offset in offsets.by_ref().take(index(at_once)) {
            self.send(ledger.cursor(), offset);
        }
        while let Some(Reverse((ready_at, place))) = self.ready.pop() {
            let left = ready_at.max(self.up_free_at);
            self.up_free_at = left + self.up;
            let settled = self.up_free_at + self.parts.link.one_way() + self.parts.root_complex.least_write_latency();
            if let Some(offset) = offsets.next() {
                self.send(settled, offset);
            }
            if self.ready.is_empty() {
                self.charge_line(place, ready_at, left, ledger);
                let Lines { parts, direction, memory, .. } = &mut self;
                return charge_deep_flush(parts, *direction, ledger, |at| memory.flush(at, offset, bytes));
            }
        }
    }

    /// Sends the cache line at `offset` at `now`, or as soon as the wire is free, and notes when it reaches each stage
    /// of the device.
    fn send(&mut self, now: Time, offset: u64) {
        let sent = now.max(self.down_free_at);
        self.down_free_at = sent + self.down;
        let arrived = self.down_free_at + self.parts.link.one_way();
        let at = arrived + self.parts.drive.cxl.controller;
        let fetched = self.memory.serve(self.direction, at, offset);
        self.ready.push(Reverse((fetched.ready_at, self.lines.len())));
        self.lines.push(Line { issued: now, sent, arrived, fetched });
    }

    fn charge_line(&self, place: usize, ready_at: Time, left: Time, ledger: &mut Ledger) {
        let (line, parts) = (self.lines[place], self.parts);
        ledger.until(Stage::FillBuffer, line.issued);
        match self.direction {
            DataDirection::Read => ledger.until(Stage::LineRequest, line.arrived),
            DataDirection::Write => {
                ledger.until(Stage::LinkWait, line.sent);
                ledger.spend(Stage::Transfer, self.down);
                ledger.spend(Stage::Propagation, parts.link.one_way());
            }
        }
        ledger.spend(Stage::Parse, parts.drive.cxl.controller);
        ledger.until(Stage::FirmwareWait, line.fetched.dispatched);
        ledger.until(Stage::Firmware, line.fetched.admitted);
        ledger.until(Stage::MediaWait, line.fetched.started);
        ledger.until(Stage::Media, line.fetched.read_at);
        ledger.until(Stage::DeviceCache, ready_at);
        match self.direction {
            DataDirection::Read => {
                ledger.until(Stage::LinkWait, left);
                ledger.spend(Stage::Transfer, self.up);
                ledger.spend(Stage::Propagation, parts.link.one_way());
                ledger.spend(Stage::Settle, parts.root_complex.least_write_latency());
            }
            DataDirection::Write => {
                let way = self.up + parts.link.one_way() + parts.root_complex.least_write_latency();
                ledger.until(Stage::CompletionEntry, left + way);
            }
        }
    }
}

mod cached {
    //! Closed form of a device's DRAM cache: the share of loads that find their page in it, and the time that misses
    //! add.
    //!
    //! Let all pages of a region of R bytes be equally likely. A cache of C bytes then holds a given page with
    //! probability C / R, whatever its policy, as no page is better than another. The cache starts with the first C
    //! bytes of the device. If the region begins there too, this holds from the first request on. For other regions,
    //! orders and distributions, only bounds are known.

    use super::{InexactnessReason, lines, may_lack_credits};
    use crate::closed_form::Parts;
    use crate::closed_form::demand::ServiceDemands;
    use crate::closed_form::workload::{Class, Workload};
    use crate::protocol::cxl::LINE_BYTES;
    use crate::protocol::cxl::config::CacheStart;
    use crate::protocol::cxl::fetched::LineInstants;
    use crate::request::DataDirection;
    use crate::time::{Span, Time};

    /// Share of a job's pages that is in the device's DRAM cache.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) enum CachedPageShare {
        /// All of the job's pages are in the device's DRAM cache.
        All,
        /// A share of the job's pages below 1 is in the cache. The second value is true if all missing pages take the
        /// same time.
        Share(f64, bool),
        /// The share of the job's pages that is in the cache is unknown.
        Unknown,
    }

    /// Returns the time of a load in the DRAM of the cache. Zero for stores, which do not wait for it, and without a
    /// cache.
    pub(super) fn access(parts: &Parts, direction: DataDirection) -> Span {
        let cxl = &parts.drive.cxl;
        if cxl.has_cache() && direction == DataDirection::Read { cxl.cache } else { Span::ZERO }
    }

    /// Returns the share of a job's pages that is in the device's DRAM cache, if it is known.
    pub(super) fn cached_pages(parts: &Parts, workload: &Workload, class: &Class) -> CachedPageShare {
        let cxl = &parts.drive.cxl;
        let cached_bytes = u64::from(cxl.cache_pages()) * u64::from(cxl.unit_bytes);
        let page_bytes = u64::from(cxl.unit_bytes);
        if cxl.cache_start == CacheStart::Empty {
            return CachedPageShare::Unknown;
        }
        if workload.offset.saturating_add(workload.region_bytes) <= cached_bytes {
            return CachedPageShare::All;
        }
        let in_one_page =
            class.aligned && class.bytes <= cxl.unit_bytes && page_bytes.is_multiple_of(class.bytes.into());
        match workload.uniform && workload.offset == 0 && in_one_page {
            true => {
                let page = page_class_of(parts, class);
                let is_regular = parts.access(workload, &page).regular;
                CachedPageShare::Share(cached_bytes as f64 / workload.region_bytes.max(1) as f64, is_regular)
            }
            false => CachedPageShare::Unknown,
        }
    }

    /// Returns the class of requests that read the whole page of a request of `class`.
    fn page_class_of(parts: &Parts, class: &Class) -> Class {
        Class { direction: DataDirection::Read, bytes: parts.drive.cxl.unit_bytes, aligned: true, ..*class }
    }

    /// Adds the demands on processors and memory of the pages that a request misses in the cache. Nothing is added for
    /// stores to a cache that begins clean, which may demand nothing, or for stores beside loads.
    pub(super) fn add_miss_demands(parts: &Parts, workload: &Workload, class: &Class, demands: &mut ServiceDemands) {
        let CachedPageShare::Share(share, _) = cached_pages(parts, workload, class) else { return };
        let is_alone = workload.classes.iter().all(|other| other.direction == class.direction);
        let is_dirty = parts.drive.cxl.cache_start == CacheStart::Dirty;
        let page = Class { direction: class.direction, ..page_class_of(parts, class) };
        let mut missed = ServiceDemands::default();
        match class.direction {
            DataDirection::Write if !is_dirty || !is_alone => return,
            _ => {
                parts.add_firmware_demands(&mut missed, &page);
                parts.add_media_demands(&mut missed, workload, &page);
            }
        }
        demands.add_weighted_demands(&missed, 1.0 - share);
    }

    /// Returns the reason why a request to a device with a cache may take another time than the recurrence gives; none
    /// if there is none.
    pub(super) fn doubt(parts: &Parts, class: &Class, found: CachedPageShare) -> Option<InexactnessReason> {
        let lines = lines(class.bytes);
        let at_once = lines.min(parts.drive.cxl.most_lines_in_flight(class.direction, lines)) * LINE_BYTES;
        match (class.direction, found) {
            _ if parts.drive.link.dllps => Some(InexactnessReason::Longer("acknowledgements share the wires")),
            (direction, _) if may_lack_credits(parts, direction, at_once) => {
                Some(InexactnessReason::Longer("stores wait for flow-control credits"))
            }
            (DataDirection::Write, _) => {
                Some(InexactnessReason::Longer("stores wait once replaced pages take all places of write-backs"))
            }
            (_, CachedPageShare::Unknown) => {
                Some(InexactnessReason::Longer("how many loads miss the device's cache depends on their order"))
            }
            (_, CachedPageShare::Share(_, false)) => {
                Some(InexactnessReason::Longer("pages that are missing take different times"))
            }
            (_, CachedPageShare::Share(_, true)) => Some(InexactnessReason::Shorter(
                "a load that finds its page in the device's cache takes less, another one more",
            )),
            (_, CachedPageShare::All) => parts.chance().map(InexactnessReason::Longer),
        }
    }

    /// DRAM cache of an idle device, which serves the lines of one request. Times of misses count by their probability.
    pub(super) struct IdleDramCache {
        access: Span,
        /// Mean time of a page in the device's processors, over cached and missing pages.
        firmware: Span,
        /// Mean time of a page in the memory, over cached and missing pages.
        memory: Span,
        page_bytes: u64,
        /// Page that was read last, and the time at which it is in the cache.
        page: Option<(u64, Time)>,
    }

    impl IdleDramCache {
        /// Returns the cache of an idle device that holds the share `found` of the job's pages. An unknown share counts
        /// as all.
        pub(super) fn new(parts: &Parts, found: CachedPageShare) -> IdleDramCache {
            let missing = match found {
                CachedPageShare::Share(share, _) => 1.0 - share,
                CachedPageShare::All | CachedPageShare::Unknown => 0.0,
            };
            let cxl = &parts.drive.cxl;
            let memory = match parts.is_mapped() {
                true => parts.lone_flash_read_time(cxl.unit_bytes),
                false => {
                    let timing = parts.media.clone().read(Time::ZERO, 0, cxl.unit_bytes, cxl.unit_bytes);
                    timing.last_at.since(Time::ZERO)
                }
            };
            IdleDramCache {
                access: cxl.cache,
                firmware: parts.firmware(DataDirection::Read).scale(missing),
                memory: memory.scale(missing),
                page_bytes: cxl.unit_bytes.into(),
                page: None,
            }
        }

        /// Returns the times of a load of the line at `offset` that passes the controller at `at`. A line of the page
        /// read last waits only for that page. Any other line takes the mean time of a page in the processors and the
        /// memory, and its page then replaces the last one. Both add the access to the cache's DRAM.
        pub(super) fn read(&mut self, at: Time, offset: u64) -> LineInstants {
            let page = offset / self.page_bytes;
            if let Some((_, there_at)) = self.page.filter(|(other, _)| *other == page) {
                return LineInstants::within(at, there_at.max(at)).through(self.access);
            }
            let admitted = at + self.firmware;
            let there_at = admitted + self.memory;
            self.page = Some((page, there_at));
            LineInstants { admitted, started: admitted, ..LineInstants::within(at, there_at) }.through(self.access)
        }
    }
}
