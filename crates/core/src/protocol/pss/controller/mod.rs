//! Simulated PSS controller: fetches descriptors, runs firmware for each, and moves pages between host, cache and
//! chips.
//!
//! Every descriptor is fetched in its turn and completed exactly once. The completion record of a read stays behind its
//! data. The record of a write says that the data is in the chips' buffers or the cache (Early Completion), or in the
//! cells (Late Completion).

mod cache;
mod firmware;
pub mod lanes;

use crate::drive::Drive;
use crate::number::{index, length, low_u32, short_length};
use crate::protocol::halves::{self, PollNames};
use crate::table::Table;
use std::collections::VecDeque;
use std::ops::Range;

use super::Role;
use super::spec::{
    CompletionRecord, DESCRIPTOR_BYTES, Descriptor, METADATA_BYTES, PAGE_BYTES, SECTOR_BYTES, SharedRingArea, Status,
    TAIL_REGISTER,
};
use crate::ledger::Stage;
use crate::protocol::ports::Ports;
use crate::protocol::pss::config::ChipReadMode;
use crate::protocol::reads::Reads;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::time::Time;
use crate::tlp::{Direction, Packet, Payload};
use cache::Cache;
use firmware::Firmware;
use lanes::{BankLanes, LaneWrite};

/// Kinds of timers of the PSS controller: steps of commands, and ends of program operations.
mod timer {
    /// Timer that expires when the firmware has processed a command (next constants: its read data can be sent, and the
    /// chips have acknowledged one of its pages).
    pub(super) const DECODED: u8 = 0;
    pub(super) const READY: u8 = 1;
    pub(super) const ACKNOWLEDGED: u8 = 2;
    /// Timer that expires when a lane (the group of banks for a page) has programmed its page. Its context is the
    /// lane's number.
    pub(super) const PROGRAMMED: u8 = 3;
}

/// Command that the card has fetched and not completed: from its descriptor until its completion record.
#[derive(Clone, Copy, Debug)]
struct Command {
    descriptor: Descriptor,
    request: Option<RequestId>,
    /// Number of bytes of a write that have not arrived from the host yet.
    bytes_missing: u32,
    /// Number of pages of a write that the chips have not acknowledged yet.
    pages_missing: u32,
}

/// Counters of the PSS card: commands, interrupts, descriptor fetches and uses of the DRAM cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of commands that the card has completed, including refused ones.
    pub commands: u64,
    /// Number of interrupts that the card has sent, one for each completed command.
    pub interrupts: u64,
    /// Number of reads by which the card has fetched descriptors, each of one or several.
    pub exchanges: u64,
    /// Number of commands that the card refused, whose status was [`Status::REFUSED`].
    pub refused: u64,
    /// Number of writes that were acknowledged as soon as the DRAM cache held them.
    pub cached_writes: u64,
    /// Number of pages that replaced their former content in the cache before it was programmed.
    pub absorbed_pages: u64,
    /// Number of reads whose data came from the DRAM cache.
    pub cache_hits: u64,
    /// Number of pages that the card has read ahead from the chips into its DRAM cache.
    pub prefetched_pages: u64,
}

impl Counts {
    /// Returns the counters of the card as pairs of name and count.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("commands", self.commands),
            ("interrupts", self.interrupts),
            ("exchanges", self.exchanges),
            ("refused", self.refused),
            ("cached_writes", self.cached_writes),
            ("absorbed_pages", self.absorbed_pages),
            ("cache_hits", self.cache_hits),
            ("prefetched_pages", self.prefetched_pages),
        ]
    }
}

/// Simulated PSS controller: its commands in flight, firmware, cache, chips and counters.
#[derive(Clone, Debug)]
pub struct Controller {
    area: SharedRingArea,
    /// Number of descriptors that the host has added since the start, modulo 2^32.
    tail: u32,
    /// Number of descriptors that the card has requested since the start, modulo 2^32.
    asked: u32,
    /// True while a fetch of descriptors is in flight.
    exchanging: bool,
    exchange_descriptors: u32,
    commands_max: usize,
    commands: Table<Command>,
    /// Commands that wait, in their order, because the cache has no room for the first of them, a write.
    held: VecDeque<u32>,
    firmware: Firmware,
    cache: Cache,
    lanes: BankLanes,
    /// Reads of host memory by the first DMA engine, for descriptors.
    descriptor_reads: Reads,
    /// Reads of host memory by the second DMA engine, for pages.
    page_reads: Reads,
    read_mode: ChipReadMode,
    late: bool,
    prefetch_pages: u32,
    /// Device offset in bytes of the end of the last read. A read that starts there is sequential.
    sequential_at: u64,
    records: u32,
    capacity_bytes: u64,
    max_transfer_bytes: u32,
    max_payload_bytes: u32,
    /// Counters of the PSS card since the start of the run.
    pub counts: Counts,
}

impl Controller {
    /// Returns an idle controller. `area` holds the addresses of the descriptors and completion records in host memory.
    pub fn new(drive: &Drive, area: SharedRingArea) -> Controller {
        let (pss, link) = (&drive.pss, &drive.link);
        let reads = Reads::at(link);
        Controller {
            area,
            tail: 0,
            asked: 0,
            exchanging: false,
            exchange_descriptors: pss.exchange_descriptors.into(),
            commands_max: pss.commands.into(),
            commands: Table::default(),
            held: VecDeque::new(),
            firmware: Firmware::new(pss.firmware_cores, pss.firmware),
            cache: Cache::new(pss.cache_pages),
            lanes: BankLanes::new(&drive.media),
            descriptor_reads: reads.clone(),
            page_reads: reads,
            read_mode: pss.read_mode,
            late: !drive.media.acknowledges_early(),
            prefetch_pages: pss.prefetch_pages,
            sequential_at: u64::MAX,
            records: 0,
            capacity_bytes: drive.media.capacity_bytes(),
            max_transfer_bytes: pss.max_transfer_kib * 1024,
            max_payload_bytes: link.max_payload_bytes,
            counts: Counts::default(),
        }
    }

    fn request_of(&self, number: u32, ports: &Ports) -> Option<RequestId> {
        ports.slots.bound(0, index(number % self.area.entries))
    }

    /// Fetches as many descriptors as the card can accept, unless a fetch is in flight. The number follows from pending
    /// commands of the user, of the channels and of the write cache (PSS, section 2).
    fn fetch_next_descriptors(&mut self, now: Time, ports: &mut Ports) {
        let count = self.exchange_size();
        if count == 0 {
            return;
        }
        for number in (0..count).map(|place| self.asked.wrapping_add(place)) {
            ports.shared.requests.charge(self.request_of(number, ports), Stage::PollWait, now);
        }
        self.exchanging = true;
        self.counts.exchanges += 1;
        let token = Role::DESCRIPTORS.token(self.asked);
        let bytes = count * DESCRIPTOR_BYTES as u32;
        let packet =
            Packet::read(self.area.descriptor(self.asked), bytes, self.descriptor_reads.request_bytes_max(), token);
        self.asked = self.asked.wrapping_add(count);
        self.descriptor_reads.request(packet, ports.link, ports.shared);
    }

    fn exchange_size(&self) -> u32 {
        if self.exchanging || !self.held.is_empty() {
            return 0;
        }
        let pending = self.tail.wrapping_sub(self.asked);
        let to_end = self.area.entries - self.asked % self.area.entries;
        let room = self.commands_max.saturating_sub(self.commands.len()) as u32;
        // Even if the cache is full, accept one command, because it may be a read.
        let cache_room = self.cache.room().max(1);
        pending.min(to_end).min(self.exchange_descriptors).min(room).min(cache_room)
    }

    fn on_descriptors(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        self.exchanging = false;
        let bytes = &payload.bytes()[..index(packet.bytes)];
        for (place, bytes) in bytes.as_chunks::<DESCRIPTOR_BYTES>().0.iter().enumerate() {
            let request = self.request_of(packet.token.context.wrapping_add(place as u32), ports);
            ports.shared.requests.charge(request, Stage::Fetch, now);
            ports.shared.requests.accepted = request;
            let descriptor = Descriptor::decode(bytes);
            let id = self.commands.insert(Command { descriptor, request, bytes_missing: 0, pages_missing: 0 });
            let [dispatched, decoded] = self.firmware.work(now);
            let stages = [(Stage::FirmwareWait, dispatched), (Stage::Firmware, decoded)];
            ports.shared.requests.charge_stages(request, stages);
            ports.shared.scheduler.at(decoded, Event::Controller { kind: timer::DECODED, context: id });
        }
        self.fetch_next_descriptors(now, ports);
    }

    /// Handles a command that the firmware has processed. Refuses it if it is invalid. Starts it if it fits the cache
    /// and no earlier command waits; otherwise the command waits.
    fn on_command_processed(&mut self, now: Time, id: u32, ports: &mut Ports) {
        if !self.is_in_order(&self.commands[index(id)].descriptor) {
            self.counts.refused += 1;
            return self.finish(now, id, Status::REFUSED, ports);
        }
        if !self.held.is_empty() || !self.start(now, id, ports) {
            self.held.push_back(id);
        }
    }

    fn is_in_order(&self, descriptor: &Descriptor) -> bool {
        let bytes = u64::from(descriptor.sectors) * u64::from(SECTOR_BYTES);
        let end = descriptor.sector.checked_mul(u64::from(SECTOR_BYTES)).and_then(|start| start.checked_add(bytes));
        let in_memory = descriptor.buffer.checked_add(bytes).is_some();
        (1..=u64::from(self.max_transfer_bytes)).contains(&bytes)
            && end.is_some_and(|end| end <= self.capacity_bytes)
            && in_memory
            && descriptor.metadata.checked_add(bytes).is_some()
    }

    /// Starts a valid command. Returns false, and changes nothing, if it is a write for which the cache has no room.
    fn start(&mut self, now: Time, id: u32, ports: &mut Ports) -> bool {
        let Command { descriptor, request, .. } = self.commands[index(id)];
        let (offset, bytes) = descriptor.extent();
        if !descriptor.write {
            ports.shared.requests.charge(request, Stage::MediaWait, now);
            self.read(now, id, ports);
            return true;
        }
        let fits = self.cache.reserve(short_length(pages(offset, bytes).count()));
        if fits {
            ports.shared.requests.charge(request, Stage::MediaWait, now);
            self.request_page_data(id, ports);
        }
        fits
    }

    /// Starts waiting commands in their order as far as the cache has room, and fetches more descriptors.
    fn start_waiting_commands(&mut self, now: Time, ports: &mut Ports) {
        while let Some(&id) = self.held.front()
            && self.start(now, id, ports)
        {
            self.held.pop_front();
        }
        self.fetch_next_descriptors(now, ports);
    }

    /// Reads the data of a command from the cache or from the chips. After a sequential read, reads the next pages
    /// ahead.
    fn read(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let Command { descriptor, request, .. } = self.commands[index(id)];
        let (offset, bytes) = descriptor.extent();
        let ready = match self.all_cached_time(offset, bytes) {
            Some(ready) => {
                self.counts.cache_hits += 1;
                ports.shared.requests.charge(request, Stage::Media, ready.max(now));
                ready
            }
            None => self.read_from_chips(now, offset, bytes, request, ports),
        };
        ports.shared.scheduler.at(ready, Event::Controller { kind: timer::READY, context: id });
        if std::mem::replace(&mut self.sequential_at, offset + u64::from(bytes)) == offset {
            self.prefetch(now, ports);
        }
    }

    /// Returns the time at which all data of a read is in the cache; none if any of it is not cached.
    fn all_cached_time(&self, offset: u64, bytes: u32) -> Option<Time> {
        let mut ready = Time::ZERO;
        for (page, range) in pages(offset, bytes) {
            ready = ready.max(self.cache.find(page, &range)?);
        }
        Some(ready)
    }

    /// Reads data from the chips, and returns the earliest time at which it can go to the host. In passthrough, data is
    /// sent uncorrected while it arrives; otherwise it is first corrected as a whole.
    fn read_from_chips(
        &mut self,
        now: Time,
        offset: u64,
        bytes: u32,
        request: Option<RequestId>,
        ports: &mut Ports,
    ) -> Time {
        let chunk_bytes = self.max_payload_bytes;
        let (started, ready) = match self.read_mode {
            ChipReadMode::Passthrough => {
                let timing = ports.media.read_without_ecc(now, offset, bytes, bytes.min(chunk_bytes));
                let start = ports.link.earliest_stream_start(bytes, chunk_bytes, timing.first_at, timing.last_at);
                (timing.started, start)
            }
            ChipReadMode::Validate => {
                let timing = ports.media.read(now, offset, bytes, bytes);
                (timing.started, timing.last_at)
            }
        };
        ports.shared.requests.charge(request, Stage::MediaWait, started);
        ports.shared.requests.charge(request, Stage::Media, ready);
        ready
    }

    /// Reads the next pages of a sequential stream into the cache, if this is the only command on the card.
    fn prefetch(&mut self, now: Time, ports: &mut Ports) {
        if !self.cache.is_on() || self.commands.len() > 1 {
            return;
        }
        let first = self.sequential_at.div_ceil(u64::from(PAGE_BYTES));
        let pages_max = self.capacity_bytes / u64::from(PAGE_BYTES);
        for page in first..pages_max.min(first + u64::from(self.prefetch_pages)) {
            if !self.cache.holds(page) {
                let timing = ports.media.read(now, page * u64::from(PAGE_BYTES), PAGE_BYTES, PAGE_BYTES);
                self.cache.prefetch(page, timing.last_at);
                self.counts.prefetched_pages += 1;
            }
        }
    }

    /// Sends the data of a read to the host, in passthrough its metadata, and behind them its completion record.
    fn send(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let Command { descriptor, request, .. } = self.commands[index(id)];
        let (offset, bytes) = descriptor.extent();
        let token = Role::DATA.token(id);
        let packet = Packet::write(Direction::Up, descriptor.buffer, bytes, self.max_payload_bytes, token);
        ports.link.send(packet.user_data(offset, request), ports.shared);
        if self.read_mode == ChipReadMode::Passthrough {
            let token = Role::METADATA.token(id);
            for sector in 0..u64::from(descriptor.sectors) {
                let address = descriptor.metadata + sector * length(METADATA_BYTES);
                ports.link.write(Direction::Up, address, &[0; METADATA_BYTES], token, ports.shared);
            }
        }
        self.finish(now, id, Status::SUCCESS, ports);
    }

    /// Sends reads of host memory for a write's data, page by page.
    fn request_page_data(&mut self, id: u32, ports: &mut Ports) {
        let command = &mut self.commands[index(id)];
        let (offset, bytes) = command.descriptor.extent();
        command.bytes_missing = bytes;
        let (buffer, request) = (command.descriptor.buffer, command.request);
        let token = Role::READ_DATA.token(id);
        let mut asked = 0;
        while asked < bytes {
            let piece = PAGE_BYTES.min(bytes - asked);
            let packet = Packet::read(buffer + u64::from(asked), piece, self.page_reads.request_bytes_max(), token);
            // The last piece arrives last, so its travel time is charged to the request.
            let request = request.filter(|_| asked + piece == bytes);
            let packet = packet.user_data(offset + u64::from(asked), request);
            self.page_reads.request(packet, ports.link, ports.shared);
            asked += piece;
        }
    }

    /// Handles data of a write that has arrived from the host, and stores the write's pages once all of its data is
    /// there. With a cache and Early Completion, the write is completed at once, as the cache is as safe as the chips'
    /// buffers. Otherwise it completes when the chips acknowledge its pages.
    fn on_write_data(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        let id = packet.token.context;
        let command = &mut self.commands[index(id)];
        let left = command.bytes_missing.checked_sub(packet.bytes);
        command.bytes_missing = left.expect("no more data of a command arrives than was asked for");
        if command.bytes_missing > 0 {
            return;
        }
        let (offset, bytes) = command.descriptor.extent();
        let cached = self.cache.is_on() && !self.late;
        match cached {
            true => ports.media.hold(now, offset, bytes),
            false => command.pages_missing = short_length(pages(offset, bytes).count()),
        }
        for (page, range) in pages(offset, bytes) {
            self.store(now, page, range, (!cached).then_some(id), ports);
        }
        if cached {
            self.counts.cached_writes += 1;
            self.finish(now, id, Status::SUCCESS, ports);
        }
    }

    /// Queues a part of a page for the chips, unless it replaces an older version that still waits in the cache.
    /// `command` is the command that the chips must acknowledge; none if the cache already has.
    fn store(&mut self, now: Time, page: u64, range: Range<u32>, command: Option<u32>, ports: &mut Ports) {
        let offset = page * u64::from(PAGE_BYTES) + u64::from(range.start);
        let bytes = range.end - range.start;
        if !self.cache.write(now, page, range, command.is_none()) {
            self.counts.absorbed_pages += 1;
            return;
        }
        if let Some(lane) = self.lanes.push(LaneWrite { page, offset, bytes, command }) {
            self.program(now, lane, ports);
        }
    }

    /// Starts the next program operation of a lane, if a page waits for the lane.
    fn program(&mut self, now: Time, lane: u32, ports: &mut Ports) {
        let Some(job) = self.lanes.start(lane) else { return };
        self.cache.note_program_start(job.page);
        let timing = ports.media.program(now, job.offset, job.bytes);
        if let Some(id) = job.command {
            ports.shared.requests.charge_stage_until(
                self.commands[index(id)].request,
                Stage::MediaWait,
                timing.started,
            );
            ports
                .shared
                .scheduler
                .at(timing.acknowledged_at, Event::Controller { kind: timer::ACKNOWLEDGED, context: id });
        }
        ports.shared.scheduler.at(timing.programmed_at, Event::Controller { kind: timer::PROGRAMMED, context: lane });
    }

    /// Handles the chips' acknowledgement of a command's page. The last page completes the command.
    fn on_page_acknowledged(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let command = &mut self.commands[index(id)];
        command.pages_missing -= 1;
        if command.pages_missing == 0 {
            ports.shared.requests.charge_stage_until(command.request, Stage::Media, now);
            self.finish(now, id, Status::SUCCESS, ports);
        }
    }

    fn on_programmed(&mut self, now: Time, lane: u32, ports: &mut Ports) {
        let job = self.lanes.end(lane).expect("a lane ends what it has started");
        self.cache.on_programmed(job.page);
        self.program(now, lane, ports);
        self.start_waiting_commands(now, ports);
    }

    /// Completes a command: writes its completion record to host memory, sends an interrupt, and fetches more
    /// descriptors.
    fn finish(&mut self, now: Time, id: u32, status: Status, ports: &mut Ports) {
        let command = self.commands.take(id);
        let address = self.area.record(self.records);
        self.records = self.records.wrapping_add(1);
        self.counts.commands += 1;
        self.counts.interrupts += 1;
        let record = CompletionRecord { sequence: self.records, id: command.descriptor.id, status };
        let token = Role::RECORD.token(id);
        ports.link.write(Direction::Up, address, &record.encode(), token, ports.shared);
        ports.link.interrupt(Role::INTERRUPT.token(0), ports.shared);
        self.fetch_next_descriptors(now, ports);
    }
}

impl halves::Controller for Controller {
    fn on_register_write(&mut self, now: Time, address: u64, tail: u32, ports: &mut Ports) {
        if address != TAIL_REGISTER || tail.wrapping_sub(self.asked) > self.area.entries {
            return;
        }
        let mut number = std::mem::replace(&mut self.tail, tail);
        while number != tail {
            ports.shared.requests.charge(self.request_of(number, ports), Stage::Doorbell, now);
            number = number.wrapping_add(1);
        }
        self.fetch_next_descriptors(now, ports);
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match Role::of(packet) {
            Role::DESCRIPTORS => {
                self.descriptor_reads.answered(packet.bytes, ports.link, ports.shared);
                self.on_descriptors(now, packet, payload, ports);
            }
            Role::READ_DATA => {
                self.page_reads.answered(packet.bytes, ports.link, ports.shared);
                self.on_write_data(now, packet, ports);
            }
            other => unreachable!("the card has not read in the role {other:?}"),
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::DECODED => self.on_command_processed(now, timer.context, ports),
            timer::READY => self.send(now, timer.context, ports),
            timer::ACKNOWLEDGED => self.on_page_acknowledged(now, timer.context, ports),
            timer::PROGRAMMED => self.on_programmed(now, timer.context, ports),
            other => unreachable!("the controller has no timer {other}"),
        }
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn poll_names(&self, packet: &Packet) -> Option<PollNames> {
        (Role::of(packet) == Role::DESCRIPTORS).then_some(PollNames { read: "read descriptors", empty: None })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counts.named().to_vec()
    }
}

impl Descriptor {
    /// Returns the command's first byte on the device and its length in bytes.
    fn extent(&self) -> (u64, u32) {
        (self.sector * u64::from(SECTOR_BYTES), self.sectors * SECTOR_BYTES)
    }
}

/// Returns for each page that a command covers its number and the range of bytes within the page.
pub fn pages(offset: u64, bytes: u32) -> impl Iterator<Item = (u64, Range<u32>)> {
    let page_bytes = u64::from(PAGE_BYTES);
    let end = offset + u64::from(bytes);
    (offset / page_bytes..end.div_ceil(page_bytes)).map(move |page| {
        let first = page * page_bytes;
        let from = offset.max(first) - first;
        let to = end.min(first + page_bytes) - first;
        (page, low_u32(from)..low_u32(to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_pss_descriptors_are_refused() {
        let drive = Drive::shipped("pss").unwrap();
        let controller = Controller::new(&drive, SharedRingArea { descriptors: 0x1000, records: 0x2000, entries: 16 });
        let last = drive.media.capacity_bytes() / u64::from(SECTOR_BYTES) - 1;
        let most = drive.pss.max_transfer_kib * 1024 / SECTOR_BYTES;
        let one = Descriptor { write: false, id: 0, sectors: 1, sector: last, buffer: 0x10_0000, metadata: 0x20_0000 };
        let whole = Descriptor { sectors: most, sector: 0, ..one };
        for good in [one, whole] {
            assert!(controller.is_in_order(&good), "{good:?}");
        }
        let nowhere = u64::MAX - 511;
        for wrong in [
            Descriptor { sectors: 0, ..one },
            Descriptor { sectors: most + 1, ..whole },
            Descriptor { sectors: 2, ..one },
            Descriptor { sector: u64::MAX, ..one },
            Descriptor { buffer: nowhere, ..one },
            Descriptor { metadata: nowhere, ..one },
        ] {
            assert!(!controller.is_in_order(&wrong), "{wrong:?}");
        }
    }
}
