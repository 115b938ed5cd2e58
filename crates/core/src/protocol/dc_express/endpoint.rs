//! The DC Express endpoint: reads the command queues unasked, and sends the data.
//!
//! Two kinds of queue read. *Anticipatory* ones go out before the data of earlier commands has been sent, timed with
//! the probed round trip so that the next command arrives just when the endpoint can serve it (figure 1c); while commands
//! overlap, several of them are in flight. When nothing more is known to be queued, the endpoint reads at
//! the moment at which it *expects* a command, or continuously if it expects none.

use phaselink_ring::command::{COMMAND_BYTES, Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::layout::{MODE_DOORBELL, MODE_POLL};

use super::predict::Predictor;
use super::trailers::Trailers;
use super::{ReadName, Role, doorbell_queue};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::protocol::halves::{self, Looking};
use crate::protocol::nvme::controller::Controller as NvmeController;
use crate::protocol::ports::{Ports, start_read};
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::shared::Shared;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Payload};

/// Timers of the endpoint; those of NVMe come before.
mod timer {
    pub const FIRST: u8 = 16;
    pub const ANTICIPATE: u8 = FIRST;
    pub const EXPECT: u8 = FIRST + 1;
    pub const DATA_READY: u8 = FIRST + 2;
}

/// Reads that may find nothing before the endpoint takes the queue to be at depth 1 again.
const OVERLAP_MISSES: u8 = 8;

/// One command, in the unit of the average that a queue read brings.
const BROUGHT_ONE: u64 = 256;

/// Load is measured over so many commands.
const LOAD_WINDOW: usize = 16;

/// How the endpoint learns of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Poll,
    /// The host has been told to ring; one more empty read proves that no command was enqueued before it knew.
    Drain,
    Doorbell,
}

/// A queue read in flight.
#[derive(Clone, Copy, Debug)]
struct Poll {
    queue: u16,
    index: u32,
    count: u32,
    issued: Time,
}

/// One command queue and what the endpoint knows of it.
#[derive(Clone, Debug)]
struct Queue {
    base: u64,
    mode_word: u64,
    entries: u32,
    head: u32,
    pass: u8,
    /// Entries that queue reads in flight ask for, and when the last of those was issued.
    in_flight: Vec<u32>,
    issued: Time,
    /// Above zero while commands overlap: one was found before the data of another had left, or right behind it. Counts
    /// down with every read that finds nothing.
    overlap: u8,
    /// Timers that are set; a timer that fires at another time is stale.
    anticipate_at: Option<Time>,
    expect_at: Option<Time>,
    /// When the data of all accepted commands will have left; from the last one's arrival to the start of its data; how
    /// long and how many packets that is.
    ready_at: Time,
    lead: Span,
    service: Span,
    packets: u32,
    /// The same before the commands that the present queue read has brought.
    ready_before: Time,
    packets_before: u32,
    /// Commands that a queue read has brought lately, on average, in units of 1 / [`BROUGHT_ONE`].
    brought: u64,
    /// Whether the last command was found right behind another, so that more are likely to stand behind it.
    backlog: bool,
    /// The last read that found the queue empty, since the last command.
    missed: Option<Time>,
    round_trip: Span,
    predictor: Predictor,
    mode: Mode,
    /// When the host was last told to ring, and whether it has rung since the last queue read was issued.
    told: Time,
    rung: bool,
    arrivals: [Time; LOAD_WINDOW],
    arrived: usize,
}

/// A read between its arrival and its data.
#[derive(Clone, Copy, Debug)]
struct Read {
    command: Command,
    queue: u16,
    request: Option<RequestId>,
}

/// The endpoint: its own queues, and an NVMe controller for writes.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub nvme: NvmeController,
    queues: Vec<Queue>,
    polls: Table<Poll>,
    reads: Table<Read>,
    parser_free_at: Time,
    parse: Span,
    turnaround: Span,
    fetch_entries: u32,
    polls_in_flight: usize,
    predict: bool,
    doorbell_below_iops: u64,
    capacity_bytes: u64,
    max_payload_bytes: u32,
    /// First binding of this protocol's queues.
    first_binding: usize,
    /// What chunks end in, in runs with data where that decides on the tag.
    pub(super) trailers: Option<Box<Trailers>>,
    pub counts: Counts,
}

/// What the endpoint has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub queue_reads: u64,
    pub queue_reads_wasted: u64,
    pub commands: u64,
    pub mode_switches: u64,
    pub refused: u64,
}

impl Endpoint {
    /// An endpoint without queues.
    pub fn new(drive: &Drive, nvme: NvmeController) -> Endpoint {
        let config = &drive.dc_express;
        Endpoint {
            nvme,
            queues: Vec::new(),
            polls: Table::default(),
            reads: Table::default(),
            parser_free_at: Time::ZERO,
            parse: config.parse,
            turnaround: config.turnaround,
            fetch_entries: config.fetch_entries.into(),
            polls_in_flight: config.polls_in_flight.into(),
            predict: config.predict,
            doorbell_below_iops: config.doorbell_below_iops,
            capacity_bytes: drive.media.capacity_mib << 20,
            max_payload_bytes: drive.link.max_payload_bytes,
            first_binding: drive.nvme.queue_pairs as usize,
            trailers: None,
            counts: Counts::default(),
        }
    }

    /// Tell the endpoint of a command queue, and start reading it.
    pub fn create_queue(&mut self, base: u64, mode_word: u64, entries: u32, shared: &mut Shared) {
        let number = self.queues.len() as u16;
        self.queues.push(Queue {
            base,
            mode_word,
            entries,
            head: 0,
            pass: FIRST_PASS,
            in_flight: Vec::new(),
            issued: Time::ZERO,
            overlap: 0,
            anticipate_at: None,
            expect_at: None,
            ready_at: Time::ZERO,
            lead: Span::ZERO,
            service: Span::ZERO,
            packets: 1,
            ready_before: Time::ZERO,
            packets_before: 1,
            brought: BROUGHT_ONE,
            backlog: false,
            missed: Some(Time::ZERO),
            round_trip: Span::ZERO,
            predictor: Predictor::default(),
            mode: Mode::Poll,
            told: Time::ZERO,
            rung: false,
            arrivals: [Time::ZERO; LOAD_WINDOW],
            arrived: 0,
        });
        self.expect(number, Time::ZERO, shared);
    }

    /// Where the host looks for what the endpoint tells it, queue by queue.
    pub(super) fn mode_words(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().map(|queue| queue.mode_word)
    }

    /// Accept the new commands that a queue read has brought; their number. Where reads overlap, entries that a sooner
    /// one has brought are passed over.
    fn take_commands(&mut self, now: Time, poll: Poll, sampled: Time, payload: &Payload, ports: &mut Ports) -> u32 {
        let mut found = 0;
        let entries = self.queues[usize::from(poll.queue)].entries;
        for (index, entry) in (poll.index..poll.index + poll.count).zip(payload.bytes().as_chunks().0) {
            let queue = &self.queues[usize::from(poll.queue)];
            let ahead = if index >= queue.head { index - queue.head } else { index + entries - queue.head };
            if ahead > entries / 2 {
                continue;
            }
            let reads = Command::decode(entry).filter(|command| command.operation == Operation::Read);
            let new = reads.filter(|command| ahead == 0 && command.pass == queue.pass);
            let Some(command) = new else { break };
            self.accept(now, poll.queue, command, sampled, ports);
            found += 1;
        }
        found
    }

    /// Take one command in: it goes through the parser in its turn.
    fn accept(&mut self, now: Time, number: u16, command: Command, sampled: Time, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        let request = ports.shared.requests.bound(self.first_binding + usize::from(number), queue.head as usize);
        ports.shared.requests.charge(request, Stage::PollWait, sampled);
        ports.shared.requests.charge(request, Stage::Fetch, now);
        ports.shared.requests.accepted = request;
        (queue.head, queue.pass) = next_entry(queue.head, queue.pass, queue.entries);
        queue.packets = command.bytes.div_ceil(self.max_payload_bytes).max(1);
        let chunk = command.bytes.min(self.max_payload_bytes);
        queue.service = ports.link.packet_time(Kind::MemoryWrite, chunk) * u64::from(queue.packets);
        queue.arrivals[queue.arrived % LOAD_WINDOW] = now;
        queue.arrived += 1;
        self.counts.commands += 1;
        self.parser_free_at = self.parser_free_at.max(now) + self.parse;
        let start = self.start(self.parser_free_at, Read { command, queue: number, request }, ports);
        let queue = &mut self.queues[usize::from(number)];
        queue.lead = start.since(now);
        queue.ready_at = queue.ready_at.max(start) + queue.service;
    }

    /// Commands were there: plan to be ready for the next ones.
    fn on_hit(&mut self, now: Time, poll: Poll, found: u32, ports: &mut Ports) {
        let number = usize::from(poll.queue);
        let queue = &mut self.queues[number];
        let was_empty = queue.missed.take();
        queue.backlog = found == poll.count && (was_empty.is_none() || found > 1);
        if was_empty.is_none() || found > 1 || queue.ready_before > now {
            queue.overlap = OVERLAP_MISSES;
        } else if let Some(missed) = was_empty {
            queue.predictor.observe(queue.packets_before, queue.ready_before, missed, poll.issued);
        }
        queue.expect_at = None;
        queue.anticipate_at = None;
        if queue.mode == Mode::Doorbell {
            self.leave_doorbell_mode(now, number, ports);
        }
        self.plan_anticipation(now, number, ports);
        // A queue that was empty may well be empty again: the next command is expected when this one is done.
        if let Some(at) = self.expected(now, number).filter(|_| was_empty.is_some()) {
            self.expect(number as u16, at, ports.shared);
        }
    }

    /// Set the timer for the next anticipatory read, unless it is set: when the endpoint will be ready for one more
    /// command. At depth 1 a single read is in flight; where commands overlap, several are, at the pace of the data.
    #[inline(always)]
    fn plan_anticipation(&mut self, now: Time, number: usize, ports: &mut Ports) {
        let queue = &mut self.queues[number];
        let allowed = if queue.overlap > 0 { self.polls_in_flight } else { 1 };
        if queue.in_flight.len() >= allowed || queue.anticipate_at.is_some() {
            return;
        }
        // Ready for one more when the data of the commands here and of those being read has left; reads bring as many as
        // they have lately.
        let expected = (queue.in_flight.len() as u64 * queue.brought).max(BROUGHT_ONE * queue.in_flight.len() as u64);
        let ready_at = queue.ready_at + queue.service * expected / BROUGHT_ONE;
        let paced = if queue.overlap > 0 { queue.issued + queue.service } else { now };
        let at = (ready_at - queue.round_trip - queue.lead).max(paced).max(now);
        if at == now {
            return self.anticipate(now, number, ports);
        }
        queue.anticipate_at = Some(at);
        ports.shared.scheduler.at(at, Event::Controller { kind: timer::ANTICIPATE, context: number as u32 });
    }

    /// When the next command is expected, if that is still to come.
    fn expected(&self, now: Time, number: usize) -> Option<Time> {
        let queue = &self.queues[number];
        let target = queue.predictor.target(queue.packets, queue.ready_at);
        target.filter(|&at| self.predict && queue.mode == Mode::Poll && at > now)
    }

    #[inline(always)]
    fn expect(&mut self, number: u16, at: Time, shared: &mut Shared) {
        if self.queues[usize::from(number)].expect_at.replace(at) == Some(at) {
            return;
        }
        shared.scheduler.at(at, Event::Controller { kind: timer::EXPECT, context: number.into() });
    }

    /// Read the first entry that is not being read yet, if the reads in flight are likely to find something; otherwise
    /// the one that they ask for once more.
    #[inline(always)]
    fn anticipate(&mut self, now: Time, number: usize, ports: &mut Ports) {
        let queue = &mut self.queues[number];
        queue.anticipate_at = None;
        let mut index = queue.head;
        while queue.backlog && queue.in_flight.contains(&index) {
            index = (index + self.fetch_entries) % queue.entries;
        }
        self.poll(now, number as u16, index, ports);
        if self.queues[number].overlap > 0 {
            self.plan_anticipation(now, number, ports);
        }
    }

    /// The queue was empty, or the read was for an entry that a sooner one has dealt with.
    fn on_miss(&mut self, now: Time, poll: Poll, ports: &mut Ports) {
        self.counts.queue_reads_wasted += 1;
        let number = usize::from(poll.queue);
        let queue = &mut self.queues[number];
        if poll.index == queue.head {
            queue.missed = Some(poll.issued);
            queue.backlog = false;
            queue.overlap = queue.overlap.saturating_sub(1);
            if self.settle_mode(now, number, poll.issued, ports) {
                return;
            }
        }
        match self.queues[number].overlap {
            0 => self.after_miss(now, number, ports),
            _ => self.plan_anticipation(now, number, ports),
        }
    }

    /// Nothing is on its way: read again at the expected time if that is near, otherwise after the turn-around.
    fn after_miss(&mut self, now: Time, number: usize, ports: &mut Ports) {
        let queue = &self.queues[number];
        if !queue.in_flight.is_empty() || queue.anticipate_at.is_some() {
            return;
        }
        let soon = now + queue.round_trip + self.turnaround;
        let at = self.expected(now, number).filter(|&at| at <= soon).unwrap_or(now + self.turnaround);
        self.expect(number as u16, at, ports.shared);
    }

    fn poll(&mut self, now: Time, number: u16, index: u32, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.in_flight.push(index);
        queue.issued = now;
        queue.rung = false;
        self.counts.queue_reads += 1;
        let wanted = if queue.overlap > 0 { self.fetch_entries } else { 1 };
        let count = wanted.min(queue.entries - index);
        let context = self.polls.insert(Poll { queue: number, index, count, issued: now });
        let address = queue.base + u64::from(index) * COMMAND_BYTES as u64;
        let token = Role::POLL.token(context);
        let bytes = count * COMMAND_BYTES as u32;
        let chunk_bytes = self.nvme.reads.request_bytes_max();
        // The read that proves the queue empty comes after the host has been told to ring.
        let behind_writes = queue.mode == Mode::Drain;
        let packet = Packet { behind_writes, ..Packet::read(address, bytes, chunk_bytes, token) };
        self.nvme.reads.request(packet, ports.link, ports.shared);
    }

    /// A command is understood at `parsed`: start the media, if it is one that can be served. The parser works in
    /// order, so the read can be given to the media now, as of then. When its data starts to flow.
    fn start(&mut self, parsed: Time, read: Read, ports: &mut Ports) -> Time {
        let Read { command, request, .. } = read;
        ports.shared.requests.charge(request, Stage::Parse, parsed);
        // The paper's device cuts data by packets, not by blocks.
        if !command.is_within(self.capacity_bytes, 1) {
            // The protocol has no way to refuse a read: the host's time-out will tell it.
            self.counts.refused += 1;
            return parsed;
        }
        let (offset, bytes) = (command.offset, command.bytes);
        let start = start_read(parsed, offset, bytes, self.max_payload_bytes, request, ports);
        let context = self.reads.insert(read);
        ports.shared.scheduler.at(start, Event::Controller { kind: timer::DATA_READY, context });
        start
    }

    /// The data starts to flow. No order is asked for: the host checks every packet.
    fn send_data(&mut self, id: u32, ports: &mut Ports) {
        let Read { command, queue, request } = self.reads.take(id);
        let name = ReadName { queue, slot: command.slot, attempt: command.attempt };
        let token = Role::DATA.token(name.pack());
        let packet = Packet::write(Direction::Up, command.buffer, command.bytes, self.max_payload_bytes, token);
        ports.link.send(Packet { relaxed: true, ..packet }.user_data(command.offset, request), ports.shared);
    }

    /// After an empty read: whether the load is so low that the host had better ring (section 4.1). True if no more
    /// reads are to follow.
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
            // A ring that came while the read was under way may stand for a command behind what it saw.
            Mode::Doorbell => !queue.rung || !queue.in_flight.is_empty(),
        }
    }

    /// Doorbells come as fast as polling would pay for: back to polling, well above the threshold so that the mode
    /// does not flap.
    fn leave_doorbell_mode(&mut self, now: Time, number: usize, ports: &mut Ports) {
        if self.load_iops(now, number) > self.doorbell_below_iops as f64 * 1.25 {
            self.queues[number].mode = Mode::Poll;
            self.tell_mode(number, MODE_POLL, ports);
        }
    }

    /// Commands per second over the last few.
    fn load_iops(&self, now: Time, number: usize) -> f64 {
        let queue = &self.queues[number];
        let oldest = queue.arrivals[queue.arrived % LOAD_WINDOW];
        LOAD_WINDOW as f64 / now.since(oldest).as_s()
    }

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
                    let index = queue.head;
                    self.poll(now, number as u16, index, ports);
                }
            }
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        let number = timer.context as usize;
        match timer.kind {
            timer::ANTICIPATE if self.queues[number].anticipate_at == Some(now) => self.anticipate(now, number, ports),
            timer::EXPECT if self.queues[number].expect_at == Some(now) => {
                self.queues[number].expect_at = None;
                let index = self.queues[number].head;
                self.poll(now, number as u16, index, ports);
            }
            timer::ANTICIPATE | timer::EXPECT => {}
            timer::DATA_READY => self.send_data(timer.context, ports),
            _ => self.nvme.on_timer(now, timer, ports),
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        if Role::of(packet) != Role::POLL {
            return self.nvme.on_answer(now, packet, payload, ports);
        }
        self.nvme.reads.answered(packet.bytes, ports.link, ports.shared);
        let poll = self.polls.take(packet.token.context);
        let queue = &mut self.queues[usize::from(poll.queue)];
        let place = queue.in_flight.iter().position(|&index| index == poll.index).expect("a read in flight");
        queue.in_flight.swap_remove(place);
        queue.round_trip = now.since(poll.issued);
        (queue.ready_before, queue.packets_before) = (queue.ready_at, queue.packets);
        let found = self.take_commands(now, poll, packet.sampled_at, payload, ports);
        let queue = &mut self.queues[usize::from(poll.queue)];
        queue.brought = (queue.brought * 7 + u64::from(found) * BROUGHT_ONE) / 8;
        match found {
            0 => self.on_miss(now, poll, ports),
            _ => self.on_hit(now, poll, found, ports),
        }
    }

    fn store(&mut self, packet: &Packet, ports: &mut Ports) {
        self.learn_trailers(packet, ports);
        ports.shared.store_user_data(packet);
    }

    fn keep_data(&mut self, drive: &Drive, seed: u64, shared: &mut Shared) {
        self.keep_trailers(drive, seed, shared);
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
