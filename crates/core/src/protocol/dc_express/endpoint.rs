//! Simulated DC Express endpoint (the controller): polls the host's command queues by reads, executes read commands,
//! and sends their data.
//!
//! The module [`super::queue_reads`] determines when the queue reads are sent; this file handles their results.

use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};

use super::predict::{ArrivalPredictor, ReadSizeClass};
use super::queue_reads::{Poll, QueueReadIdentity};
use super::trailers::ChunkTrailers;
use super::window::{InFlightReadWindow, take};
use super::{ReadIdentity, Role, queue_of_doorbell};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::number::{index, low_u16, real, real_length};
use crate::protocol::halves::{self, PollNames};
use crate::protocol::nvme::controller::Controller as NvmeController;
use crate::protocol::ports::{Ports, begin_media_read};
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Payload, packets};

/// Kinds of the endpoint's timers. Numbers below the first belong to the NVMe controller.
pub(super) mod timer {
    pub(crate) const FIRST: u8 = 16;
    pub(crate) const READ_QUEUE: u8 = FIRST;
    pub(crate) const DATA_READY: u8 = FIRST + 1;
}

/// Number of queue reads without a command after which the endpoint assumes that the host has only one command in
/// flight again.
const OVERLAP_MISSES: u8 = 8;

/// Number of recent commands over which a queue's load in commands per second is measured.
const LOAD_WINDOW: usize = 16;

/// Method by which the endpoint learns of new commands in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePollMode {
    /// The endpoint polls: it reads the queue again and again without doorbells.
    Poll,
    /// The endpoint has told the host to write doorbells, and still polls. One more empty queue read must prove that no
    /// command was enqueued before the host knew.
    Drain,
    /// The endpoint reads the command queue only after a doorbell.
    Doorbell,
}

/// Command queue in host memory as the endpoint knows it: position, queue reads in flight, and predictions of the next
/// command.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) base: u64,
    mode_word: u64,
    pub(super) entries: u32,
    pub(super) head: u32,
    pass: u8,
    /// Queue reads in flight.
    pub(super) in_flight: Vec<Poll>,
    /// Serial number of the last queue read.
    pub(super) serial: u16,
    /// Time at which the last queue read was sent.
    pub(super) issued: Time,
    /// Time for which the timer of the next queue read is set. A timer that expires at another time is stale.
    pub(super) read_at: Option<Time>,
    /// Number of changes to the window of reads when the timer was set.
    pub(super) planned: u32,
    /// Time at which the last queue read returned without a command; none if it returned with one.
    pub(super) idle_since: Option<Time>,
    /// Time from the last command's arrival to the start of its data.
    pub(super) lead: Span,
    /// Time that the last command's data takes on the link.
    pub(super) service: Span,
    /// True if a queue read brought more commands than expected and none has found an empty entry since, so that more
    /// commands are likely to wait in the queue.
    pub(super) backlog: bool,
    /// Above zero while commands overlap: one was found before the data of another had left, or immediately after.
    /// Every queue read that finds nothing decrements this count.
    pub(super) overlap: u8,
    /// True if a queue read did not find an expected command, and no other queue read has been sent for it yet.
    pub(super) retry: bool,
    /// Time at which the last queue read was sent that found the next command's entry empty.
    missed: Option<Time>,
    pub(super) round_trip: Span,
    pub(super) predictor: ArrivalPredictor,
    pub(super) mode: QueuePollMode,
    /// Time at which the host was last told to write doorbells.
    told: Time,
    /// True if the host has written a doorbell since the last queue read was sent.
    pub(super) rung: bool,
    arrivals: [Time; LOAD_WINDOW],
    arrived: usize,
}

/// Read command that has arrived and whose data has not been sent.
#[derive(Clone, Copy, Debug)]
struct Read {
    command: Command,
    queue: u16,
    request: Option<RequestId>,
}

impl Queue {
    /// Removes a completed queue read from those in flight, returns it, and measures its round trip.
    fn end_completed_queue_read(&mut self, now: Time, name: QueueReadIdentity) -> Poll {
        let place = self.in_flight.iter().position(|poll| poll.name == name).expect("a read in flight");
        let poll = take(&mut self.in_flight, place);
        self.round_trip = now.since(poll.issued);
        poll
    }

    /// Returns the next command of the queue if this queue read has brought it. If queue reads overlap, the next
    /// command's entry may belong to an earlier or a later one; none is then returned.
    #[inline(always)]
    fn take_fetched_command(&self, poll: Poll, payload: &Payload) -> Option<Command> {
        let place = self.entries_until(poll.index);
        if place >= poll.count {
            return None;
        }
        let command = Command::decode(payload.bytes().as_chunks().0.get(index(place))?)?;
        (command.operation == Operation::Read && command.pass == self.pass).then_some(command)
    }

    /// Teaches the predictor the time from the end of a read's data to the host's next command. The queue read issued
    /// at `poll.issued` found that command, and the last one that came back short did not.
    fn train_arrival_predictor(&mut self, poll: Poll, window: &mut InFlightReadWindow) {
        // Data and queue read take the same path. The queue read may leave before the data has left, but only by its
        // time in host memory, which is at most a quarter of a round trip (assumed).
        let latest = poll.issued + self.round_trip / 4;
        let Some(sent) = window.answer(poll.name.queue, latest) else { return };
        let missed = self.missed.filter(|&missed| missed < poll.issued);
        self.predictor.observe(sent.size, sent.end, missed, poll.issued);
    }

    /// Compares the number of commands that a queue read has found with the expected number. Updates the record of
    /// missed commands, backlog and overlap.
    fn judge(&mut self, poll: Poll, found: u32, window: &mut InFlightReadWindow) {
        let was_empty = self.missed.is_some();
        // If the queue read saw an entry without a command, no later entry has one.
        let is_short = self.entries_until(poll.index) < poll.count;
        if is_short {
            self.missed = Some(poll.issued);
            self.backlog = false;
            self.overlap = self.overlap.saturating_sub(u8::from(found == 0));
            let late = poll.expected.saturating_sub(found);
            self.retry |= late > 0;
            let missed = window.missed(poll.name.queue) + late;
            if missed > 0
                && let Some(sent) = window.miss(poll.name.queue, missed)
            {
                self.predictor.doubt(sent.size);
            }
        } else if found > 0 {
            self.missed = None;
            self.backlog |= found > poll.expected && poll.count > 1;
            if !was_empty {
                self.overlap = OVERLAP_MISSES;
            }
        }
    }

    /// Returns the number of entries from `index` to the next command's entry, around the end of the queue.
    fn entries_until(&self, index: u32) -> u32 {
        if self.head >= index { self.head - index } else { self.head + self.entries - index }
    }

    /// Returns the queue entry for an index that may be past the last entry by less than the queue's size. A comparison
    /// is used, as a remainder would take longer than the rest of a queue read.
    pub(super) fn wrapped(&self, index: u32) -> u32 {
        if index < self.entries { index } else { index - self.entries }
    }

    /// Returns the number of consecutive commands that the queue reads in flight are expected to bring. Commands behind
    /// a gap, which a queue read with fewer commands than expected leaves, do not count.
    #[inline(always)]
    pub(super) fn awaited(&self) -> u32 {
        match &self.in_flight[..] {
            [] => 0,
            // Fast path for queue depth 1.
            [only] if only.expected == 0 || only.index == self.head && only.expected == 1 => {
                debug_assert_eq!(only.expected, self.awaited_of_several(), "both ways say the same");
                only.expected
            }
            _ => self.awaited_of_several(),
        }
    }

    #[inline(never)]
    fn awaited_of_several(&self) -> u32 {
        let ahead = |index: u32| match self.entries_until(index) {
            0 => 0,
            entries_until => self.entries - entries_until,
        };
        // Ignore queue reads that are not expected to bring a command.
        self.in_flight.iter().filter(|poll| poll.through != poll.index).fold(0, |awaited, poll| {
            let (first, behind) = (ahead(poll.index), ahead(poll.through));
            let joins = first <= awaited || first > self.entries / 2;
            if joins && behind <= self.entries / 2 { awaited.max(behind) } else { awaited }
        })
    }
}

/// Simulated DC Express endpoint: its command queues for reads, and an NVMe controller for writes.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// NVMe controller that executes writes.
    pub nvme: NvmeController,
    pub(super) queues: Vec<Queue>,
    reads: Table<Read>,
    pub(super) window: InFlightReadWindow,
    parser_free_at: Time,
    parse: Span,
    pub(super) turnaround: Span,
    /// Time on the wire of the request packet by which the endpoint reads a command queue.
    pub(super) request_time: Span,
    pub(super) fetch_entries: u32,
    pub(super) polls_in_flight: usize,
    pub(super) predict: bool,
    doorbell_below_iops: u64,
    capacity_bytes: u64,
    max_payload_bytes: u32,
    /// Number of this protocol's first queue in the table from queue entries to requests. Lower numbers belong to NVMe.
    first_binding: usize,
    /// Last bytes of each chunk (data of one packet) on the device; none unless the run has data and the choice of the
    /// tag depends on them.
    pub(super) trailers: Option<Box<ChunkTrailers>>,
    /// Counters of the DC Express endpoint since the start of the run.
    pub counts: Counts,
}

/// Counters of the DC Express endpoint: queue reads, commands, changes of mode and refusals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of reads of the host's command queues that the endpoint has sent.
    pub queue_reads: u64,
    /// Number of reads of the host's command queues that brought no new command.
    pub queue_reads_wasted: u64,
    /// Number of read commands that the endpoint has accepted, including those that it then refused.
    pub commands: u64,
    /// Number of times that a queue has changed between polling and doorbells.
    pub mode_switches: u64,
    /// Number of read commands refused because their range is not within the device.
    pub refused: u64,
}

impl Endpoint {
    /// Returns an endpoint without command queues for reads; `nvme` executes its writes.
    pub fn new(drive: &Drive, nvme: NvmeController) -> Endpoint {
        let config = &drive.dc_express;
        Endpoint {
            nvme,
            queues: Vec::new(),
            reads: Table::default(),
            window: InFlightReadWindow::default(),
            parser_free_at: Time::ZERO,
            parse: config.parse,
            turnaround: config.turnaround,
            request_time: Span::ZERO,
            fetch_entries: config.fetch_entries.into(),
            polls_in_flight: config.polls_in_flight.into(),
            predict: config.predict,
            doorbell_below_iops: config.doorbell_below_iops,
            capacity_bytes: drive.media.capacity_bytes(),
            max_payload_bytes: drive.link.max_payload_bytes,
            first_binding: index(drive.nvme.queue_pairs),
            trailers: None,
            counts: Counts::default(),
        }
    }

    /// Adds a command queue of `entries` entries at bus address `base`, and schedules its first queue read. The
    /// endpoint announces its mode to the host at `mode_word`.
    pub fn create_queue(&mut self, base: u64, mode_word: u64, entries: u32, shared: &mut Shared) {
        let number = self.queues.len() as u16;
        self.queues.push(Queue {
            base,
            mode_word,
            entries,
            head: 0,
            pass: FIRST_PASS,
            in_flight: Vec::new(),
            serial: 0,
            issued: Time::ZERO,
            read_at: None,
            planned: u32::MAX,
            idle_since: Some(Time::ZERO),
            lead: Span::ZERO,
            service: Span::ZERO,
            backlog: false,
            overlap: 0,
            retry: false,
            missed: None,
            round_trip: Span::ZERO,
            predictor: ArrivalPredictor::default(),
            mode: QueuePollMode::Poll,
            told: Time::ZERO,
            rung: false,
            arrivals: [Time::ZERO; LOAD_WINDOW],
            arrived: 0,
        });
        // After a reset the device starts in the middle of a run, so begin at the current time.
        let begin = shared.scheduler.now();
        self.queues[usize::from(number)].read_at = Some(begin);
        shared.scheduler.at(begin, Event::Controller { kind: timer::READ_QUEUE, context: number.into() });
    }

    /// Returns the bus addresses of the mode words, one for each queue, by which the endpoint tells the host to write
    /// doorbells or not.
    pub(super) fn mode_word_addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().map(|queue| queue.mode_word)
    }

    /// Accepts the new commands that a queue read has brought, and returns their number. `sampled` is the time at which
    /// host memory was read.
    fn accept_new_commands(
        &mut self,
        now: Time,
        poll: Poll,
        sampled: Time,
        payload: &Payload,
        ports: &mut Ports,
    ) -> u32 {
        let mut found = 0;
        loop {
            let queue = &mut self.queues[usize::from(poll.name.queue)];
            let Some(command) = queue.take_fetched_command(poll, payload) else { return found };
            queue.train_arrival_predictor(poll, &mut self.window);
            self.accept(now, poll.name.queue, command, sampled, ports);
            found += 1;
        }
    }

    /// Accepts one command of queue `number`, which waits for its turn in the parser, and adds it to the window of
    /// reads in flight.
    // Not inlined, so that the frequent path (a queue read without a command) stays short.
    #[inline(never)]
    fn accept(&mut self, now: Time, number: u16, command: Command, sampled: Time, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        let request = ports.slots.bound(self.first_binding + usize::from(number), index(queue.head));
        ports.shared.requests.charge_stages(request, [(Stage::PollWait, sampled), (Stage::Fetch, now)]);
        ports.shared.requests.accepted = request;
        (queue.head, queue.pass) = next_entry(queue.head, queue.pass, queue.entries);
        let packets = packets(command.bytes, self.max_payload_bytes).max(1);
        let chunk = command.bytes.min(self.max_payload_bytes);
        let service = ports.link.packet_time(Kind::MemoryWrite, chunk) * u64::from(packets);
        queue.arrivals[queue.arrived % LOAD_WINDOW] = now;
        queue.arrived += 1;
        self.counts.commands += 1;
        self.parser_free_at = self.parser_free_at.max(now) + self.parse;
        let start = self.start(self.parser_free_at, Read { command, queue: number, request }, ports);
        let queue = &mut self.queues[usize::from(number)];
        (queue.lead, queue.service) = (start.since(now), service);
        if self.window.data_departed_at(number) > now {
            queue.overlap = OVERLAP_MISSES;
        }
        self.window.accept(number, ReadSizeClass::of(packets), start, service);
    }

    /// Evaluates a queue read that has brought `found` commands, and decides on polling or doorbells. Returns false if
    /// no queue read is to follow until a doorbell.
    fn judge(&mut self, now: Time, poll: Poll, found: u32, ports: &mut Ports) -> bool {
        let number = usize::from(poll.name.queue);
        let queue = &mut self.queues[number];
        queue.judge(poll, found, &mut self.window);
        if found > 0 {
            queue.idle_since = None;
            if queue.mode == QueuePollMode::Doorbell {
                self.resume_polling(now, number, ports);
            }
            return true;
        }
        self.counts.queue_reads_wasted += 1;
        queue.idle_since = Some(now);
        // The queue read saw an empty queue, or only entries that another queue read had brought already.
        let saw_empty = queue.missed == Some(poll.issued);
        let may_change = queue.mode != QueuePollMode::Poll || self.doorbell_below_iops > 0;
        let is_over = saw_empty && may_change && self.decide_polling_mode(now, number, poll.issued, ports);
        if is_over {
            self.queues[number].read_at = None;
        }
        !is_over
    }

    /// Starts the media access of a read command at `parsed`, the end of its parsing, and returns the time at which its
    /// data can flow. As the parser works in order, the media gets the read now with that later time. A command beyond
    /// the device is counted as refused and gets no data.
    fn start(&mut self, parsed: Time, read: Read, ports: &mut Ports) -> Time {
        let Read { command, request, .. } = read;
        ports.shared.requests.charge(request, Stage::Parse, parsed);
        // A length may be any number of bytes, because the device of the paper divides data into packets and not into
        // blocks.
        if !command.is_within(self.capacity_bytes, 1) {
            // The host notices a refused read only by its time-out, as the protocol has no status for it.
            self.counts.refused += 1;
            return parsed;
        }
        let (offset, bytes) = (command.offset, command.bytes);
        let start = begin_media_read(parsed, offset, bytes, self.max_payload_bytes, request, ports);
        let context = self.reads.insert(read);
        ports.shared.scheduler.at(start, Event::Controller { kind: timer::DATA_READY, context });
        start
    }

    /// Sends the data of a read. Its packets may become visible in any order, as the host checks the tag of every
    /// packet.
    fn send_read_data(&mut self, id: u32, ports: &mut Ports) {
        let Read { command, queue, request } = self.reads.take(id);
        let name = ReadIdentity { queue, slot: command.slot, attempt: command.attempt };
        let token = Role::DATA.token(name.pack());
        let packet = Packet::write(Direction::Up, command.buffer, command.bytes, self.max_payload_bytes, token);
        ports.link.send(Packet { relaxed: true, ..packet }.user_data(command.offset, request), ports.shared);
        let now = ports.shared.scheduler.now();
        self.window.hand_over(now, ports.link.drained_at(now, Direction::Up));
    }

    /// Decides after an empty queue read whether the load is so low that the host should write doorbells (section 4.1).
    /// Returns true if no queue read is to follow until a doorbell.
    #[inline(never)]
    fn decide_polling_mode(&mut self, now: Time, number: usize, issued: Time, ports: &mut Ports) -> bool {
        let threshold_iops = real(self.doorbell_below_iops);
        let low = threshold_iops > 0.0 && self.queue_load_iops(now, number) < threshold_iops;
        let queue = &mut self.queues[number];
        match queue.mode {
            QueuePollMode::Poll if low => {
                queue.mode = QueuePollMode::Drain;
                queue.told = now;
                self.write_mode_word(number, MODE_DOORBELL, ports);
                false
            }
            QueuePollMode::Poll => false,
            QueuePollMode::Drain if queue.in_flight.is_empty() && issued > queue.told => {
                queue.mode = QueuePollMode::Doorbell;
                !queue.rung
            }
            QueuePollMode::Drain => false,
            // A doorbell during the queue read may announce a command after the entries that the read saw.
            QueuePollMode::Doorbell => !queue.rung || !queue.in_flight.is_empty(),
        }
    }

    /// Switches a queue back to polling once its load makes polling worthwhile. The limit is a quarter above the
    /// threshold for doorbells, so that the mode does not change back and forth.
    #[inline(never)]
    fn resume_polling(&mut self, now: Time, number: usize, ports: &mut Ports) {
        if self.queue_load_iops(now, number) > real(self.doorbell_below_iops) * 1.25 {
            self.queues[number].mode = QueuePollMode::Poll;
            self.write_mode_word(number, MODE_POLL, ports);
        }
    }

    /// Returns the load of a queue in commands per second, over its last [`LOAD_WINDOW`] commands.
    fn queue_load_iops(&self, now: Time, number: usize) -> f64 {
        let queue = &self.queues[number];
        let oldest = queue.arrivals[queue.arrived % LOAD_WINDOW];
        real_length(LOAD_WINDOW) / now.since(oldest).as_s()
    }

    /// Writes the new mode of a queue (poll or doorbell) into host memory.
    fn write_mode_word(&mut self, number: usize, mode: u8, ports: &mut Ports) {
        self.counts.mode_switches += 1;
        let token = Role::MODE.token(number as u32);
        ports.link.write(Direction::Up, self.queues[number].mode_word, &[mode], token, ports.shared);
    }
}

impl halves::Controller for Endpoint {
    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        match queue_of_doorbell(address) {
            None => self.nvme.on_register_write(now, address, value, ports),
            Some(number) => {
                let Some(queue) = self.queues.get_mut(index(number)) else { return };
                queue.rung = true;
                if queue.mode == QueuePollMode::Doorbell && queue.in_flight.is_empty() {
                    self.poll(now, low_u16(number), ports);
                }
            }
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::READ_QUEUE => {
                let number = low_u16(timer.context);
                if self.queues[usize::from(number)].read_at == Some(now) {
                    self.send_queue_read(now, number, ports);
                }
            }
            timer::DATA_READY => self.send_read_data(timer.context, ports),
            _ => self.nvme.on_timer(now, timer, ports),
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        if Role::of(packet) != Role::POLL {
            return self.nvme.on_answer(now, packet, payload, ports);
        }
        self.nvme.reads.answered(packet.bytes, ports.link, ports.shared);
        let name = QueueReadIdentity::unpack(packet.token.context);
        let poll = self.queues[usize::from(name.queue)].end_completed_queue_read(now, name);
        let found = self.accept_new_commands(now, poll, packet.sampled_at, payload, ports);
        if self.judge(now, poll, found, ports) {
            self.send_due_reads(now, name.queue, ports);
        }
    }

    fn on_user_data(&mut self, packet: &Packet, arrived: &[u8], ports: &mut Ports) {
        self.record_written_trailers(packet, arrived, ports);
    }

    fn keep_data(&mut self, drive: &Drive, seed: u64, held: &SparseBytes, memory: &mut HostMemory) {
        self.keep_trailers(drive, seed, held, memory);
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or_else(|| self.nvme.packet_name(packet))
    }

    fn poll_names(&self, packet: &Packet) -> Option<PollNames> {
        match Role::of(packet) {
            Role::POLL => Some(PollNames { read: "queue read", empty: Some("empty answer") }),
            _ => self.nvme.poll_names(packet),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts { commands, queue_reads, queue_reads_wasted, mode_switches, refused } = self.counts;
        let mut counters = vec![
            ("commands", self.nvme.commands_done + commands),
            ("interrupts", self.nvme.interrupts_sent),
            ("queue_reads", queue_reads),
            ("queue_reads_wasted", queue_reads_wasted),
            ("mode_switches", mode_switches),
            ("refused_reads", refused),
        ];
        counters.extend(self.count_tag_changes().map(|changes| ("tag_changes", changes)));
        counters
    }
}
