//! DC Express endpoint of the simulation: polls the command queues with reads, and sends the data.
//!
//! [`super::queue_reads`] determines the times of the queue reads; this file handles their results.

use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};

use super::predict::{Predictor, SizeClass};
use super::queue_reads::{Poll, PollName};
use super::trailers::Trailers;
use super::window::{ReadWindow, take};
use super::{ReadName, Role, doorbell_queue};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::protocol::halves::{self, Looking};
use crate::protocol::nvme::controller::Controller as NvmeController;
use crate::protocol::ports::{Ports, start_read};
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Payload, packets};

/// Timers of the endpoint; the numbers below belong to the NVMe controller.
pub(super) mod timer {
    pub(crate) const FIRST: u8 = 16;
    pub(crate) const READ_QUEUE: u8 = FIRST;
    pub(crate) const DATA_READY: u8 = FIRST + 1;
}

/// Number of reads without a command after which the endpoint takes the queue to be at depth 1 again.
const OVERLAP_MISSES: u8 = 8;

/// Number of commands over which the load is measured.
const LOAD_WINDOW: usize = 16;

/// Way in which the endpoint learns of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The endpoint reads the queue without being told.
    Poll,
    /// The host has been told to write doorbells; one more empty read proves that no command was enqueued before it
    /// knew.
    Drain,
    /// The endpoint reads the queue after a doorbell.
    Doorbell,
}

/// Command queue, and the endpoint's knowledge of it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) base: u64,
    mode_word: u64,
    pub(super) entries: u32,
    pub(super) head: u32,
    pass: u8,
    /// Queue reads in flight; further below, `issued` is the time of the last of them.
    pub(super) in_flight: Vec<Poll>,
    pub(super) serial: u16,
    pub(super) issued: Time,
    /// Time for which the timer of the next queue read is set; a timer that fires at another time is stale.
    pub(super) read_at: Option<Time>,
    /// The window's count of changes when the timer was set.
    pub(super) planned: u32,
    /// Arrival of the last queue read, if it brought no command.
    pub(super) idle_since: Option<Time>,
    /// Time from the last command's arrival to the start of its data, and the time that the data takes on the link.
    pub(super) lead: Span,
    pub(super) service: Span,
    /// True if more commands have been found than were expected, so that more are likely to follow them.
    pub(super) backlog: bool,
    /// Above zero while commands overlap: one was found before the data of another had left, or right behind it.
    /// Decremented by every read that finds nothing.
    pub(super) overlap: u8,
    /// True if an expected command was not found, and the queue has not been read again for it.
    pub(super) retry: bool,
    /// Issue time of the last read that saw the next command's entry empty.
    missed: Option<Time>,
    pub(super) round_trip: Span,
    pub(super) predictor: Predictor,
    pub(super) mode: Mode,
    /// Time at which the host was last told to write doorbells, and true if it has written one since the last queue
    /// read was issued.
    told: Time,
    pub(super) rung: bool,
    arrivals: [Time; LOAD_WINDOW],
    arrived: usize,
}

/// Read command between its arrival and its data.
#[derive(Clone, Copy, Debug)]
struct Read {
    command: Command,
    queue: u16,
    request: Option<RequestId>,
}

impl Queue {
    /// Removes a queue read that has completed from those in flight.
    fn land(&mut self, now: Time, name: PollName) -> Poll {
        let place = self.in_flight.iter().position(|poll| poll.name == name).expect("a read in flight");
        let poll = take(&mut self.in_flight, place);
        self.round_trip = now.since(poll.issued);
        poll
    }

    /// Returns the next command, if a queue read has brought it. Where queue reads overlap, another read has brought
    /// the entries before it; a command behind all entries of this read comes with a later one.
    #[inline(always)]
    fn next_command(&self, poll: Poll, payload: &Payload) -> Option<Command> {
        let place = self.distance(poll.index);
        if place >= poll.count {
            return None;
        }
        let command = Command::decode(payload.bytes().as_chunks().0.get(place as usize)?)?;
        (command.operation == Operation::Read && command.pass == self.pass).then_some(command)
    }

    /// Teaches the predictor the time from the data of a read to the next command. The queue read issued at
    /// `poll.issued` found that command, and the last one that came back short did not.
    fn learn(&mut self, poll: Poll, window: &mut ReadWindow) {
        // Data and queue read take the same path. The read may leave before the data has left, but by no more than its
        // time in the host's memory, the smaller part of a round trip (assumed: a quarter at most).
        let latest = poll.issued + self.round_trip / 4;
        let Some(sent) = window.answer(poll.name.queue, latest) else { return };
        let missed = self.missed.filter(|&missed| missed < poll.issued);
        self.predictor.observe(sent.size, sent.end, missed, poll.issued);
    }

    /// Compares the `found` commands of a queue read with the expected ones, and notes missed commands, backlog and
    /// overlap.
    fn judge(&mut self, poll: Poll, found: u32, window: &mut ReadWindow) {
        let was_empty = self.missed.is_some();
        // If it saw an entry without a command, none lies behind that.
        let is_short = self.distance(poll.index) < poll.count;
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

    /// Returns how many entries the next command lies behind `index`.
    fn distance(&self, index: u32) -> u32 {
        if self.head >= index { self.head - index } else { self.head + self.entries - index }
    }

    /// Returns the entry for an index that may be past the last one. A comparison is faster than the remainder, which
    /// takes longer than the rest of a queue read.
    pub(super) fn wrapped(&self, index: u32) -> u32 {
        if index < self.entries { index } else { index - self.entries }
    }

    /// Returns the number of consecutive commands that the reads in flight are expected to bring. Commands behind a
    /// gap, left by a read that brought less than expected, do not count.
    #[inline(always)]
    pub(super) fn awaited(&self) -> u32 {
        match &self.in_flight[..] {
            [] => 0,
            // At depth 1.
            [only] if only.expected == 0 || only.index == self.head && only.expected == 1 => {
                debug_assert_eq!(only.expected, self.awaited_of_several(), "both ways say the same");
                only.expected
            }
            _ => self.awaited_of_several(),
        }
    }

    #[inline(never)]
    fn awaited_of_several(&self) -> u32 {
        let ahead = |index: u32| match self.distance(index) {
            0 => 0,
            distance => self.entries - distance,
        };
        // Reads of which no command is expected change nothing.
        self.in_flight.iter().filter(|poll| poll.through != poll.index).fold(0, |awaited, poll| {
            let (first, behind) = (ahead(poll.index), ahead(poll.through));
            let joins = first <= awaited || first > self.entries / 2;
            if joins && behind <= self.entries / 2 { awaited.max(behind) } else { awaited }
        })
    }
}

/// DC Express endpoint of the simulation: its own queues, and an NVMe controller for writes.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Controller that executes writes.
    pub nvme: NvmeController,
    pub(super) queues: Vec<Queue>,
    reads: Table<Read>,
    pub(super) window: ReadWindow,
    parser_free_at: Time,
    parse: Span,
    pub(super) turnaround: Span,
    /// Time of a queue read request on the wire.
    pub(super) request_time: Span,
    pub(super) fetch_entries: u32,
    pub(super) polls_in_flight: usize,
    pub(super) predict: bool,
    doorbell_below_iops: u64,
    capacity_bytes: u64,
    max_payload_bytes: u32,
    /// First number of this protocol's queues in the table that binds queue entries to requests.
    first_binding: usize,
    /// Last bytes of each chunk, in runs with data where the choice of the tag depends on them.
    pub(super) trailers: Option<Box<Trailers>>,
    /// Counters.
    pub counts: Counts,
}

/// Counters of the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of queue reads.
    pub queue_reads: u64,
    /// Number of queue reads that brought no command.
    pub queue_reads_wasted: u64,
    /// Number of commands accepted.
    pub commands: u64,
    /// Number of changes between polling and doorbells.
    pub mode_switches: u64,
    /// Number of commands refused.
    pub refused: u64,
}

impl Endpoint {
    /// Returns an endpoint without queues.
    pub fn new(drive: &Drive, nvme: NvmeController) -> Endpoint {
        let config = &drive.dc_express;
        Endpoint {
            nvme,
            queues: Vec::new(),
            reads: Table::default(),
            window: ReadWindow::default(),
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
            first_binding: drive.nvme.queue_pairs as usize,
            trailers: None,
            counts: Counts::default(),
        }
    }

    /// Adds a command queue, and starts reading it.
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
            predictor: Predictor::default(),
            mode: Mode::Poll,
            told: Time::ZERO,
            rung: false,
            arrivals: [Time::ZERO; LOAD_WINDOW],
            arrived: 0,
        });
        // A device that has been reset starts later than the run.
        let begin = shared.scheduler.now();
        self.queues[usize::from(number)].read_at = Some(begin);
        shared.scheduler.at(begin, Event::Controller { kind: timer::READ_QUEUE, context: number.into() });
    }

    /// Returns the addresses of the words, one for each queue, in which the endpoint tells the host its mode.
    pub(super) fn mode_words(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().map(|queue| queue.mode_word)
    }

    /// Accepts the new commands of a queue read, and returns their number.
    fn take_commands(&mut self, now: Time, poll: Poll, sampled: Time, payload: &Payload, ports: &mut Ports) -> u32 {
        let mut found = 0;
        loop {
            let queue = &mut self.queues[usize::from(poll.name.queue)];
            let Some(command) = queue.next_command(poll, payload) else { return found };
            queue.learn(poll, &mut self.window);
            self.accept(now, poll.name.queue, command, sampled, ports);
            found += 1;
        }
    }

    /// Accepts one command, which waits for its turn in the parser.
    #[inline(never)] // So that reads which have found nothing stay short.
    fn accept(&mut self, now: Time, number: u16, command: Command, sampled: Time, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        let request = ports.slots.bound(self.first_binding + usize::from(number), queue.head as usize);
        ports.shared.requests.charge_all(request, [(Stage::PollWait, sampled), (Stage::Fetch, now)]);
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
        if self.window.until_of(number) > now {
            queue.overlap = OVERLAP_MISSES;
        }
        self.window.accept(number, SizeClass::of(packets), start, service);
    }

    /// Evaluates a queue read that has brought `found` commands. Returns false if no more reads are to follow.
    fn judge(&mut self, now: Time, poll: Poll, found: u32, ports: &mut Ports) -> bool {
        let number = usize::from(poll.name.queue);
        let queue = &mut self.queues[number];
        queue.judge(poll, found, &mut self.window);
        if found > 0 {
            queue.idle_since = None;
            if queue.mode == Mode::Doorbell {
                self.leave_doorbell_mode(now, number, ports);
            }
            return true;
        }
        self.counts.queue_reads_wasted += 1;
        queue.idle_since = Some(now);
        // The queue was empty, or another read has already brought these entries.
        let saw_empty = queue.missed == Some(poll.issued);
        let may_change = queue.mode != Mode::Poll || self.doorbell_below_iops > 0;
        let is_over = saw_empty && may_change && self.settle_mode(now, number, poll.issued, ports);
        if is_over {
            self.queues[number].read_at = None;
        }
        !is_over
    }

    /// Starts the media access of a valid command as of `parsed`, the end of its parsing. The parser works in order, so
    /// the read can be given to the media now with that later time. Returns the time at which its data starts to flow.
    fn start(&mut self, parsed: Time, read: Read, ports: &mut Ports) -> Time {
        let Read { command, request, .. } = read;
        ports.shared.requests.charge(request, Stage::Parse, parsed);
        // The paper's device cuts data by packets, not by blocks.
        if !command.is_within(self.capacity_bytes, 1) {
            // The protocol has no way to refuse a read: the host notices by its time-out.
            self.counts.refused += 1;
            return parsed;
        }
        let (offset, bytes) = (command.offset, command.bytes);
        let start = start_read(parsed, offset, bytes, self.max_payload_bytes, request, ports);
        let context = self.reads.insert(read);
        ports.shared.scheduler.at(start, Event::Controller { kind: timer::DATA_READY, context });
        start
    }

    /// Sends the data of a read. No order is demanded: the host checks every packet.
    fn send_data(&mut self, id: u32, ports: &mut Ports) {
        let Read { command, queue, request } = self.reads.take(id);
        let name = ReadName { queue, slot: command.slot, attempt: command.attempt };
        let token = Role::DATA.token(name.pack());
        let packet = Packet::write(Direction::Up, command.buffer, command.bytes, self.max_payload_bytes, token);
        ports.link.send(Packet { relaxed: true, ..packet }.user_data(command.offset, request), ports.shared);
        let now = ports.shared.scheduler.now();
        self.window.hand_over(now, ports.link.drained_at(now, Direction::Up));
    }

    /// Decides after an empty read whether the load is so low that the host should write doorbells (section 4.1).
    /// Returns true if no more reads are to follow.
    #[inline(never)]
    fn settle_mode(&mut self, now: Time, number: usize, issued: Time, ports: &mut Ports) -> bool {
        let threshold_iops = self.doorbell_below_iops as f64;
        let low = threshold_iops > 0.0 && self.load_iops(now, number) < threshold_iops;
        let queue = &mut self.queues[number];
        match queue.mode {
            Mode::Poll if low => {
                queue.mode = Mode::Drain;
                queue.told = now;
                self.tell_mode(number, MODE_DOORBELL, ports);
                false
            }
            Mode::Poll => false,
            Mode::Drain if queue.in_flight.is_empty() && issued > queue.told => {
                queue.mode = Mode::Doorbell;
                !queue.rung
            }
            Mode::Drain => false,
            // A doorbell during the read may announce a command behind the entries that it saw.
            Mode::Doorbell => !queue.rung || !queue.in_flight.is_empty(),
        }
    }

    /// Returns to polling once doorbells are as frequent as polling is worth; the limit is above the threshold by a
    /// quarter, so that the mode does not flap.
    #[inline(never)]
    fn leave_doorbell_mode(&mut self, now: Time, number: usize, ports: &mut Ports) {
        if self.load_iops(now, number) > self.doorbell_below_iops as f64 * 1.25 {
            self.queues[number].mode = Mode::Poll;
            self.tell_mode(number, MODE_POLL, ports);
        }
    }

    /// Returns the commands per second over the last [`LOAD_WINDOW`] commands.
    fn load_iops(&self, now: Time, number: usize) -> f64 {
        let queue = &self.queues[number];
        let oldest = queue.arrivals[queue.arrived % LOAD_WINDOW];
        LOAD_WINDOW as f64 / now.since(oldest).as_s()
    }

    /// Writes the new mode into host memory.
    fn tell_mode(&mut self, number: usize, mode: u8, ports: &mut Ports) {
        self.counts.mode_switches += 1;
        let token = Role::MODE.token(number as u32);
        ports.link.write(Direction::Up, self.queues[number].mode_word, &[mode], token, ports.shared);
    }
}

impl halves::Controller for Endpoint {
    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        match doorbell_queue(address) {
            None => self.nvme.on_register_write(now, address, value, ports),
            Some(number) => {
                let Some(queue) = self.queues.get_mut(number as usize) else { return };
                queue.rung = true;
                if queue.mode == Mode::Doorbell && queue.in_flight.is_empty() {
                    self.poll(now, number as u16, ports);
                }
            }
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::READ_QUEUE => {
                let number = timer.context as u16;
                if self.queues[usize::from(number)].read_at == Some(now) {
                    self.read_queue(now, number, ports);
                }
            }
            timer::DATA_READY => self.send_data(timer.context, ports),
            _ => self.nvme.on_timer(now, timer, ports),
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        if Role::of(packet) != Role::POLL {
            return self.nvme.on_answer(now, packet, payload, ports);
        }
        self.nvme.reads.answered(packet.bytes, ports.link, ports.shared);
        let name = PollName::unpack(packet.token.context);
        let poll = self.queues[usize::from(name.queue)].land(now, name);
        let found = self.take_commands(now, poll, packet.sampled_at, payload, ports);
        if self.judge(now, poll, found, ports) {
            self.plan(now, name.queue, ports);
        }
    }

    fn on_user_data(&mut self, packet: &Packet, arrived: &[u8], ports: &mut Ports) {
        self.learn_trailers(packet, arrived, ports);
    }

    fn keep_data(&mut self, drive: &Drive, seed: u64, held: &SparseBytes, memory: &mut HostMemory) {
        self.keep_trailers(drive, seed, held, memory);
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or_else(|| self.nvme.packet_name(packet))
    }

    fn looking(&self, packet: &Packet) -> Option<Looking> {
        match Role::of(packet) {
            Role::POLL => Some(Looking { read: "queue read", empty: Some("empty answer") }),
            _ => self.nvme.looking(packet),
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
        counters.extend(self.tag_changes().map(|changes| ("tag_changes", changes)));
        counters
    }
}
