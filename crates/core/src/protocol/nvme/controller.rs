//! The NVMe controller: doorbell, fetch, parse, data, completion entry, interrupt.

use crate::drive::Drive;
use crate::protocol::halves::{self, Looking};
use std::collections::VecDeque;

use smallvec::SmallVec;

use super::Role;
use super::shadow::{Pages, Watch};
use super::spec::{
    self, COMPLETION_ENTRY_BYTES, CompletionEntry, PAGE_BYTES, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry, opcode,
};
use crate::ledger::Stage;
use crate::protocol::ports::{Ports, start_read};
use crate::protocol::reads::Reads;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet, Payload};

/// Timers of the controller.
mod timer {
    pub const DATA_READY: u8 = 0;
    pub const WRITE_PARSED: u8 = 1;
    pub const FINISHED: u8 = 2;
    pub const REFUSED: u8 = 3;
}

/// Data of a write is read from the host in pieces of this size, each with tags of its own.
pub const PAYLOAD_READ_BYTES: u32 = 4096;

/// One queue pair as the controller sees it.
#[derive(Clone, Debug)]
struct Queue {
    submission_base: u64,
    completion_base: u64,
    entries: u32,
    /// Entries below `tail` are the host's to give; below `fetched` they are on their way or here.
    tail: u32,
    fetched: u32,
    /// Read up to here, as reported in completion entries.
    head: u32,
    completion_tail: u32,
    completion_head: u32,
    phase: bool,
    /// Completion entries for which the queue has no room.
    held: VecDeque<CompletionEntry>,
    watch: Watch,
    /// The host has rung since the shadow was last asked for: what comes back may be older than that.
    overtaken: bool,
}

/// A command between its fetch and its completion entry.
#[derive(Clone, Debug)]
struct Command {
    entry: SubmissionEntry,
    queue: u16,
    request: Option<RequestId>,
    /// Pages of the data buffer, once known.
    pages: SmallVec<[u64; 2]>,
    /// What has to happen before data can move: media ready, list of pages read.
    waits: u8,
    /// Bytes of a write that are still on their way here.
    bytes_missing: u32,
}

/// A fetch under way: which entries of which queue.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    queue: u16,
    first: u32,
    count: u32,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    queues: Vec<Queue>,
    commands: Table<Command>,
    fetches: Table<Fetch>,
    pub reads: Reads,
    parser_free_at: Time,
    parse: Span,
    fetch_entries: u32,
    interrupts: bool,
    shadow: Option<Pages>,
    /// Whether the host reports how far it has read its completion queues.
    completion_doorbells: bool,
    block_bytes: u32,
    capacity_blocks: u64,
    max_payload_bytes: u32,
    max_transfer_bytes: u32,
    pub commands_done: u64,
    pub interrupts_sent: u64,
}

impl Controller {
    /// A controller with its registers set, as after initialisation, but without queues.
    pub fn new(drive: &Drive) -> Controller {
        Controller {
            queues: Vec::new(),
            commands: Table::default(),
            fetches: Table::default(),
            reads: Reads::new(drive.link.read_tags, drive.link.max_read_request_bytes),
            parser_free_at: Time::ZERO,
            parse: drive.nvme.parse,
            fetch_entries: drive.nvme.fetch_entries.into(),
            interrupts: drive.nvme.interrupts,
            shadow: None,
            completion_doorbells: drive.nvme.completion_doorbells,
            block_bytes: drive.nvme.block_bytes,
            capacity_blocks: drive.media.capacity_mib * (1 << 20) / u64::from(drive.nvme.block_bytes),
            max_payload_bytes: drive.link.max_payload_bytes,
            max_transfer_bytes: drive.nvme.max_transfer_kib * 1024,
            commands_done: 0,
            interrupts_sent: 0,
        }
    }

    /// Use shadow doorbells from now on, or not (Doorbell Buffer Config).
    pub fn set_shadow(&mut self, shadow: Option<Pages>) {
        self.shadow = shadow;
    }

    /// Create I/O queue pair number `queues so far + 1` (Create I/O Submission and Completion Queue).
    pub fn create_queue(&mut self, submission_base: u64, completion_base: u64, entries: u32) {
        self.queues.push(Queue {
            submission_base,
            completion_base,
            entries,
            tail: 0,
            fetched: 0,
            head: 0,
            completion_tail: 0,
            completion_head: 0,
            phase: true,
            held: VecDeque::new(),
            watch: Watch::Rung,
            overtaken: false,
        });
    }

    /// The host's tail stands at `tail`: fetch what is new.
    fn advance(&mut self, now: Time, queue: u16, tail: u32, ports: &mut Ports) {
        let this = &mut self.queues[usize::from(queue)];
        let mut slot = std::mem::replace(&mut this.tail, tail);
        while slot != tail {
            ports.shared.requests.charge(
                ports.shared.requests.bound(queue.into(), slot as usize),
                Stage::Doorbell,
                now,
            );
            slot = (slot + 1) % this.entries;
        }
        self.fetch(queue, ports);
    }

    /// Read a queue's shadow doorbell.
    fn watch(&mut self, queue: u16, watch: Watch, ports: &mut Ports) {
        let Some(pages) = self.shadow else { return };
        let this = &mut self.queues[usize::from(queue)];
        (this.watch, this.overtaken) = (watch, false);
        let token = Role::SHADOW.token(queue.into());
        let packet = Packet::read(pages.tail(queue), 8, self.reads.request_bytes_max(), token);
        let behind_writes = watch == Watch::Checking;
        self.reads.request(Packet { behind_writes, ..packet }, ports.link, ports.shared);
    }

    /// A shadow doorbell has been read: tail and, behind it, head of the completion queue.
    fn on_shadow(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let queue = packet.token.context as u16;
        let this = &mut self.queues[usize::from(queue)];
        let words = payload.bytes().as_chunks::<4>().0;
        let (tail, head) = (u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]));
        if tail >= this.entries || head >= this.entries {
            this.watch = Watch::Rung;
            return;
        }
        this.completion_head = head;
        let (moved, watch) = (tail != this.tail, this.watch);
        let overtaken = this.overtaken;
        self.release_held(queue, ports);
        if overtaken {
            return self.watch(queue, Watch::Reading, ports);
        }
        match (moved, watch) {
            (true, _) => {
                self.advance(now, queue, tail, ports);
                self.watch(queue, Watch::Reading, ports);
            }
            (false, Watch::Reading) => self.ask_to_be_rung(queue, tail, ports),
            // A queue that is held up by its completions has to see when the host reads them.
            (false, _) if !self.queues[usize::from(queue)].held.is_empty() => self.watch(queue, Watch::Checking, ports),
            (false, _) => self.queues[usize::from(queue)].watch = Watch::Rung,
        }
    }

    /// Ask the host to ring for the next entry, and look once more.
    fn ask_to_be_rung(&mut self, queue: u16, tail: u32, ports: &mut Ports) {
        let Some(pages) = self.shadow else { return };
        let token = Role::EVENT_INDEX.token(queue.into());
        ports.link.write(Direction::Up, pages.tail_event(queue), &tail.to_le_bytes(), token, ports.shared);
        self.watch(queue, Watch::Checking, ports);
    }

    /// Read the entries that the host has added.
    fn fetch(&mut self, queue: u16, ports: &mut Ports) {
        let this = &mut self.queues[usize::from(queue)];
        while this.fetched != this.tail {
            let end = if this.tail > this.fetched { this.tail } else { this.entries };
            let count = (end - this.fetched).min(self.fetch_entries);
            let first = this.fetched;
            this.fetched = wrapped(first + count, this.entries);
            let context = self.fetches.insert(Fetch { queue, first, count });
            let address = this.submission_base + u64::from(first) * SUBMISSION_ENTRY_BYTES as u64;
            let token = Role::FETCH.token(context);
            let bytes = count * SUBMISSION_ENTRY_BYTES as u32;
            self.reads.request(
                Packet::read(address, bytes, self.reads.request_bytes_max(), token),
                ports.link,
                ports.shared,
            );
        }
    }

    /// Entries have arrived: parse them one after the other.
    fn on_fetched(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let fetch = self.fetches.take(packet.token.context);
        let entries = self.queues[usize::from(fetch.queue)].entries;
        for place in 0..fetch.count {
            let slot = wrapped(fetch.first + place, entries);
            let request = ports.shared.requests.bound(fetch.queue.into(), slot as usize);
            ports.shared.requests.charge(request, Stage::Fetch, now);
            ports.shared.requests.accepted = request;
            let entry = SubmissionEntry::decode(&payload.bytes().as_chunks().0[place as usize]);
            self.accept(now, entry, fetch.queue, request, ports);
        }
        self.queues[usize::from(fetch.queue)].head = wrapped(fetch.first + fetch.count, entries);
    }

    /// Take a command in: it goes through the parser in its turn.
    fn accept(&mut self, now: Time, entry: SubmissionEntry, queue: u16, request: Option<RequestId>, ports: &mut Ports) {
        let command = Command { entry, queue, request, pages: SmallVec::new(), waits: 0, bytes_missing: 0 };
        let context = self.commands.insert(command);
        self.parser_free_at = self.parser_free_at.max(now) + self.parse;
        self.start(self.parser_free_at, context, ports);
    }

    /// A command is understood at `parsed`: start it, or refuse it. The parser works in order, so a read can be given
    /// to the media now, as of then.
    fn start(&mut self, parsed: Time, id: u32, ports: &mut Ports) {
        let command = &self.commands[id as usize];
        ports.shared.requests.charge(command.request, Stage::Parse, parsed);
        let kind = match (self.check(&command.entry), command.entry.opcode) {
            (Ok(()), opcode::READ) => return self.read(parsed, id, ports),
            (Ok(()), opcode::WRITE) => timer::WRITE_PARSED,
            (Ok(()), _) => timer::FINISHED,
            (Err(_), _) => timer::REFUSED,
        };
        ports.shared.scheduler.at(parsed, Event::Controller { kind, context: id });
    }

    fn refuse(&mut self, id: u32, ports: &mut Ports) {
        let status = self.check(&self.commands[id as usize].entry).err().unwrap_or(Status::SUCCESS);
        self.finish(id, status, ports);
    }

    /// Whether the fields of a command are in order (NVM Command Set Specification 1.0, sections 3.2.4 and 3.2.6).
    fn check(&self, entry: &SubmissionEntry) -> Result<(), Status> {
        match entry.opcode {
            opcode::FLUSH => return Ok(()),
            opcode::READ | opcode::WRITE => {}
            _ => return Err(Status::INVALID_OPCODE),
        }
        let end = entry.slba.checked_add(entry.blocks.into()).ok_or(Status::LBA_OUT_OF_RANGE)?;
        if end > self.capacity_blocks {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if u64::from(entry.blocks) * u64::from(self.block_bytes) > self.max_transfer_bytes.into() {
            return Err(Status::INVALID_FIELD);
        }
        if entry.sgl {
            return check_segment(entry, entry.blocks * self.block_bytes);
        }
        if !entry.prp1.is_multiple_of(4) {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        Ok(())
    }

    /// Start a read: the media and the list of pages side by side.
    fn read(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let command = &mut self.commands[id as usize];
        let (offset, bytes) = extent(&command.entry, self.block_bytes);
        let start = start_read(now, offset, bytes, self.max_payload_bytes, command.request, ports);
        ports.shared.scheduler.at(start, Event::Controller { kind: timer::DATA_READY, context: id });
        command.waits = 1;
        if !self.find_pages(id, ports) {
            self.commands[id as usize].waits += 1;
        }
    }

    /// Start a write: its data comes first.
    fn write(&mut self, id: u32, ports: &mut Ports) {
        if self.find_pages(id, ports) {
            self.read_payload(id, ports);
        } else {
            self.commands[id as usize].waits = 1;
        }
    }

    /// Learn the pages of a command's buffer (section 4.1.1: two in the entry, more in a list). False if the list must
    /// be read first.
    #[inline(always)]
    fn find_pages(&mut self, id: u32, ports: &mut Ports) -> bool {
        let command = &mut self.commands[id as usize];
        let (_, bytes) = extent(&command.entry, self.block_bytes);
        let SubmissionEntry { prp1, prp2, .. } = command.entry;
        command.pages.push(prp1);
        if command.entry.sgl {
            let first = prp1 - prp1 % PAGE_BYTES + PAGE_BYTES;
            command.pages.extend((first..prp1 + u64::from(bytes)).step_by(PAGE_BYTES as usize));
            return true;
        }
        let in_first = (PAGE_BYTES - prp1 % PAGE_BYTES) as u32;
        let others = bytes.saturating_sub(in_first).div_ceil(PAGE_BYTES as u32);
        if others <= 1 {
            command.pages.extend((others == 1).then_some(prp2));
            return true;
        }
        let token = Role::PAGE_LIST.token(id);
        self.reads.request(
            Packet::read(prp2, others * 8, self.reads.request_bytes_max(), token),
            ports.link,
            ports.shared,
        );
        false
    }

    fn on_page_list(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let id = packet.token.context;
        let command = &mut self.commands[id as usize];
        for entry in payload.bytes()[..packet.bytes as usize].as_chunks::<8>().0 {
            command.pages.push(u64::from_le_bytes(*entry));
        }
        match command.entry.opcode {
            opcode::READ => self.on_ready(now, id, ports),
            _ => self.read_payload(id, ports),
        }
    }

    /// Ask the host for a write's data.
    fn read_payload(&mut self, id: u32, ports: &mut Ports) {
        let command = &mut self.commands[id as usize];
        let (offset, bytes) = extent(&command.entry, self.block_bytes);
        command.bytes_missing = bytes;
        let token = Role::PAYLOAD.token(id);
        let mut asked = 0;
        for (address, run) in runs(&command.pages, bytes) {
            let mut done = 0;
            while done < run {
                let piece = PAYLOAD_READ_BYTES.min(run - done);
                asked += piece;
                // The last piece arrives last; the request's time is its time.
                let request = command.request.filter(|_| asked == bytes);
                let packet = Packet::read(address + u64::from(done), piece, self.reads.request_bytes_max(), token);
                self.reads.request(
                    packet.user_data(offset + u64::from(asked - piece), request),
                    ports.link,
                    ports.shared,
                );
                done += piece;
            }
        }
    }

    /// Data of a write has arrived; with the last of it, the media can be written.
    fn on_payload(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        let id = packet.token.context;
        let command = &mut self.commands[id as usize];
        command.bytes_missing -= packet.bytes;
        if command.bytes_missing > 0 {
            return;
        }
        let (offset, bytes) = extent(&command.entry, self.block_bytes);
        let timing = ports.media.write(now, offset, bytes);
        ports.shared.requests.charge(command.request, Stage::MediaWait, timing.started);
        ports.shared.requests.charge(command.request, Stage::Media, timing.acknowledged_at);
        ports.shared.scheduler.at(timing.acknowledged_at, Event::Controller { kind: timer::FINISHED, context: id });
    }

    /// One thing that a read waited for has happened; with the last, its data goes to the host, and its completion
    /// entry behind it.
    fn on_ready(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let command = &mut self.commands[id as usize];
        command.waits -= 1;
        if command.waits > 0 {
            return;
        }
        ports.shared.requests.charge_late(command.request, Stage::HostRead, now);
        let (offset, bytes) = extent(&command.entry, self.block_bytes);
        let mut sent = 0;
        for (address, run) in runs(&command.pages, bytes) {
            let token = Role::DATA.token(id);
            let packet = Packet::write(Direction::Up, address, run, self.max_payload_bytes, token);
            let request = command.request.filter(|_| sent + run == bytes);
            ports.link.send(packet.user_data(offset + u64::from(sent), request), ports.shared);
            sent += run;
        }
        self.finish(id, Status::SUCCESS, ports);
    }

    /// Post the completion entry. Strict ordering keeps it behind its data.
    #[inline(always)]
    fn finish(&mut self, id: u32, status: Status, ports: &mut Ports) {
        self.commands.vacate(id);
        let command = &self.commands[id as usize];
        self.commands_done += 1;
        let queue = &self.queues[usize::from(command.queue)];
        let entry = CompletionEntry {
            result: 0,
            submission_head: queue.head as u16,
            submission_queue: command.queue.wrapping_add(1),
            command_id: command.entry.command_id,
            phase: false,
            status,
        };
        let number = command.queue;
        match queue.full() && self.completion_doorbells {
            true => self.hold(number, entry, ports),
            false => self.post(number, entry, ports),
        }
    }

    #[inline(always)]
    fn post(&mut self, number: u16, entry: CompletionEntry, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        let address = queue.completion_base + u64::from(queue.completion_tail) * COMPLETION_ENTRY_BYTES as u64;
        let bytes = CompletionEntry { phase: queue.phase, ..entry }.encode();
        queue.completion_tail = wrapped(queue.completion_tail + 1, queue.entries);
        queue.phase ^= queue.completion_tail == 0;
        let token = Role::COMPLETION.token(number.into());
        ports.link.write(Direction::Up, address, &bytes, token, ports.shared);
        if self.interrupts {
            self.interrupts_sent += 1;
            ports.link.interrupt(Role::INTERRUPT.token(number.into()), ports.shared);
        }
    }

    /// Keep a completion entry until the host has made room for it.
    fn hold(&mut self, number: u16, entry: CompletionEntry, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.held.push_back(entry);
        if self.shadow.is_some() && queue.watch == Watch::Rung {
            self.watch(number, Watch::Checking, ports);
        }
    }

    fn release_held(&mut self, number: u16, ports: &mut Ports) {
        while !self.queues[usize::from(number)].full() {
            let Some(entry) = self.queues[usize::from(number)].held.pop_front() else { return };
            self.post(number, entry, ports);
        }
    }
}

impl halves::Controller for Controller {
    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        let Some((number, completion)) = spec::doorbell(address) else { return };
        let Some(queue) = number.checked_sub(1).filter(|&q| (q as usize) < self.queues.len()) else { return };
        let queue = queue as u16;
        let this = &mut self.queues[usize::from(queue)];
        if value >= this.entries {
            return;
        }
        if completion {
            this.completion_head = value;
            return self.release_held(queue, ports);
        }
        this.overtaken = true;
        // The shadow may have been read since this was sent; a tail that lies behind is an old one.
        let ahead = (value + this.entries - this.tail) % this.entries;
        if self.shadow.is_none() || ahead <= this.entries / 2 {
            self.advance(now, queue, value, ports);
        }
        match self.queues[usize::from(queue)].watch {
            Watch::Rung if self.shadow.is_none() => {}
            Watch::Rung => self.watch(queue, Watch::Reading, ports),
            // The event index has done its work: it must be set anew when the shadow has nothing more.
            _ => self.queues[usize::from(queue)].watch = Watch::Reading,
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        self.reads.answered(packet.bytes, ports.link, ports.shared);
        match Role::of(packet) {
            Role::FETCH => self.on_fetched(now, packet, payload, ports),
            Role::PAGE_LIST => self.on_page_list(now, packet, payload, ports),
            Role::PAYLOAD => self.on_payload(now, packet, ports),
            Role::SHADOW => self.on_shadow(now, packet, payload, ports),
            other => unreachable!("the controller has not read in the role {other:?}"),
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::DATA_READY => self.on_ready(now, timer.context, ports),
            timer::WRITE_PARSED => self.write(timer.context, ports),
            timer::FINISHED => self.finish(timer.context, Status::SUCCESS, ports),
            timer::REFUSED => self.refuse(timer.context, ports),
            other => unreachable!("the controller has no timer {other}"),
        }
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn looking(&self, packet: &Packet) -> Option<Looking> {
        (Role::of(packet) == Role::FETCH).then_some(Looking { read: "fetch command", empty: None })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("commands", self.commands_done), ("interrupts", self.interrupts_sent)]
    }
}

impl Queue {
    /// Whether another completion entry would overwrite one that the host has not read (section 3.3.1.2.2).
    fn full(&self) -> bool {
        wrapped(self.completion_tail + 1, self.entries) == self.completion_head
    }
}

/// The entry behind the last of a ring is the first.
fn wrapped(slot: u32, entries: u32) -> u32 {
    if slot < entries { slot } else { slot - entries }
}

/// First byte on the device, and length in bytes.
fn extent(entry: &SubmissionEntry, block_bytes: u32) -> (u64, u32) {
    (entry.slba * u64::from(block_bytes), entry.blocks * block_bytes)
}

/// Whether the one segment of a command is as long as its data: a data block descriptor, whose type is 0 (section
/// 4.1.2.1).
fn check_segment(entry: &SubmissionEntry, bytes: u32) -> Result<(), Status> {
    let in_range = entry.prp1.checked_add(PAGE_BYTES + u64::from(bytes)).is_some();
    if in_range && entry.prp2 == u64::from(bytes) { Ok(()) } else { Err(Status::INVALID_SGL_LENGTH) }
}

/// Runs of consecutive pages: bus address and length of each, `bytes` in all.
fn runs(pages: &[u64], bytes: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
    let mut place = 0;
    let mut left = bytes;
    std::iter::from_fn(move || {
        let start = *pages.get(place).filter(|_| left > 0)?;
        let mut length = left.min((PAGE_BYTES - start % PAGE_BYTES) as u32);
        left -= length;
        place += 1;
        while left > 0 && pages.get(place).is_some_and(|&page| page == start + u64::from(length)) {
            let page = left.min(PAGE_BYTES as u32);
            length += page;
            left -= page;
            place += 1;
        }
        Some((start, length))
    })
}
