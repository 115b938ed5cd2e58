//! The PCI Express link: packets in, the same packets out at the other end when they have arrived there.
//!
//! The link owes its callers: every byte of every packet on the wire (headers, framing, acknowledgements, flow
//! control, skip ordered sets), first-in first-out order within a class, credits that never go negative, and one
//! arrival for each burst (for each packet in packet granularity). It knows nothing of protocols.

pub mod credits;
pub mod packet;
pub mod rate;
pub mod wire;

use crate::config::{self, Duplex, Granularity, LinkAcknowledge};
use crate::random::Random;
use crate::report::{Stage, WireUse};
use crate::sink::{Event, PacketId, Sink};
use crate::time::{Span, Time};
use credits::{Credits, data_credits};
use packet::{DLLP_BYTES, Direction, Kind, Overhead, Packet, Token};
use rate::{Rate, ack_factor};
use wire::{Class, Segment, Wire};

/// Largest packet: Max_Payload_Size goes up to 4096 bytes, and a description may give it 64 of header and framing.
const PACKET_BYTES_MAX: u32 = 4096 + 64;

/// A burst between its sender and its receiver.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    pub packet: Packet,
    /// Number of this burst in the order of sending.
    serial: u64,
    class: Class,
    /// The queue in which it waits for the wire.
    queue: Class,
    /// Packets in the burst, put on the wire so far, and handed to the receiver.
    count: u32,
    sent: u32,
    arrived: u32,
    /// Payload of each packet but the last, and of the last; header and framing of each.
    payload_each: u32,
    payload_last: u32,
    header: u32,
    /// Data credits of each packet; the last one takes as many.
    data_credits: u32,
    /// Wire time likewise.
    each: Span,
    last: Span,
    /// When the last packet arrives, once that is known, and whether an event will look.
    arrives_at: Time,
    watched: bool,
    /// For the receiver's use: a read's first packet's arrival, or packets settled so far.
    pub first_arrival: Time,
    pub settled: u32,
    /// When its first packet went on the wire, and when the device's writes that had left by then will be in memory.
    started: Time,
    posted_until: Time,
}

impl InFlight {
    /// Number of this burst in the order of sending.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Packets in the burst.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// When its first packet went on the wire.
    pub fn started(&self) -> Time {
        self.started
    }

    /// When the device's strictly ordered writes that left before it will be in memory.
    pub fn posted_until(&self) -> Time {
        self.posted_until
    }

    /// Wire time of each packet but the last.
    pub fn each(&self) -> Span {
        self.each
    }

    /// Bytes of the burst on the wire, headers and framing included.
    pub fn wire_bytes(&self) -> u32 {
        self.payload_each * (self.count - 1) + self.payload_last + self.header * self.count
    }

    /// Time that the burst's own packets spend on the wire.
    pub fn wire_time(&self) -> Span {
        self.each * u64::from(self.count - 1) + self.last
    }
}

/// Packets that have reached the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub packet: PacketId,
    /// The first of them in its burst, and how many.
    pub first: u32,
    pub count: u32,
}

/// What models of a link leave out of the wire or add to it. A real link has none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accounting {
    command_payload: bool,
    data_requests: bool,
    /// For how long a packet without user data keeps the wire for its own ACK.
    awaited: Span,
}

impl Accounting {
    const REAL: Accounting = Accounting { command_payload: true, data_requests: true, awaited: Span::ZERO };

    fn new(config: &config::Link, dllp: Span) -> Accounting {
        let awaits = config.dllps && config.acknowledge == LinkAcknowledge::Awaited;
        Accounting {
            command_payload: config.command_payload,
            data_requests: config.data_requests,
            awaited: if awaits { dllp } else { Span::ZERO },
        }
    }
}

/// Both directions of the link.
#[derive(Clone, Debug)]
pub struct Link {
    wires: [Wire; 2],
    shared: bool,
    per_packet: bool,
    rate: Rate,
    /// Wire time of every size of packet.
    wire_times: Vec<Span>,
    overhead: Overhead,
    accounting: Accounting,
    /// Whether that is a real link's.
    real: bool,
    one_way: Span,
    /// From the arrival of the device's posted writes to their being in memory. Bursts are handed over then, so that one
    /// event stands for both instants.
    settle: Span,
    /// When the device's strictly ordered writes that have left so far will be in memory, and the same without the last.
    posted_until: Time,
    posted_before: Time,
    /// There and back, with the packet that answers.
    round_trip: Span,
    /// Wire time of the acknowledgements and flow-control updates for one packet, by kind.
    acknowledge: [Span; 3],
    /// Time for which each receiver holds a posted packet's credits, by direction.
    accept: [Span; 2],
    posted: [Credits; 2],
    /// When the last posted packet's credits return.
    last_return: [Time; 2],
    non_posted: [Credits; 2],
    errors: [Errors; 2],
    used: [WireUse; 2],
    /// Wire time of ACK and flow-control packets so far.
    acknowledging: [Span; 2],
    serial: u64,
}

impl Link {
    /// A link whose root complex accepts posted writes at one every `root_accept`, and has each in memory `settle` after
    /// its arrival.
    pub fn new(config: &config::Link, root_accept: Span, settle: Span, seed: u64) -> Link {
        let rate = Rate::new(config);
        let posted = Credits::new(config.posted_header_credits.into(), config.posted_data_credits.into());
        let non_posted = Credits::new(config.non_posted_header_credits.into(), 0);
        let one_way = config.one_way + config.hop * u64::from(config.hops);
        let acknowledged = config.dllps && config.generation < 6 && config.acknowledge == LinkAcknowledge::Pipelined;
        let dllp_ps = rate.time(DLLP_BYTES).as_ps() as f64 / ack_factor(config.lanes, config.max_payload_bytes);
        let used = WireUse { bytes_per_ns: rate.bytes_per_ns(), ..WireUse::default() };
        let accounting = Accounting::new(config, rate.time(DLLP_BYTES));
        let errors = |stream| Errors::new(config.bit_error_rate, Random::stream(seed, stream));
        Link {
            wires: [Wire::default(), Wire::default()],
            shared: config.duplex == Duplex::Shared,
            per_packet: config.granularity == Granularity::Packet,
            rate,
            wire_times: (0..=PACKET_BYTES_MAX).map(|bytes| rate.time(bytes)).collect(),
            overhead: Overhead::new(config),
            accounting,
            real: accounting == Accounting::REAL,
            one_way,
            settle,
            posted_until: Time::ZERO,
            posted_before: Time::ZERO,
            round_trip: one_way * 2 + rate.time(DLLP_BYTES),
            acknowledge: acknowledgements(if acknowledged {
                Span::from_ps(dllp_ps.round() as u64)
            } else {
                Span::ZERO
            }),
            accept: [root_accept, Span::ZERO],
            posted: [posted.clone(), posted],
            last_return: [Time::ZERO; 2],
            non_posted: [non_posted.clone(), non_posted],
            errors: [errors("link up"), errors("link down")],
            used: [used; 2],
            acknowledging: [Span::ZERO; 2],
            serial: 0,
        }
    }

    /// Time from the last symbol of a packet leaving one end to the packet being usable at the other.
    pub fn one_way(&self) -> Span {
        self.one_way
    }

    /// How long after its arrival a packet is handed over.
    pub fn settling(&self, packet: &Packet) -> Span {
        match (packet.direction, packet.kind) {
            (Direction::Up, Kind::MemoryWrite) => self.settle,
            _ => Span::ZERO,
        }
    }

    /// Shortest time for which the sender of a packet misses the credits that it has spent: the receiver's own time,
    /// and the way there and back.
    pub fn credits_away(&self, direction: Direction, each: Span) -> Span {
        each + self.accept[direction as usize] + self.round_trip
    }

    /// Time for which the receiver of `direction` is busy with one posted packet.
    pub fn accept(&self, direction: Direction) -> Span {
        self.accept[direction as usize]
    }

    /// What packets of this kind cost the wire that carries their acknowledgements and credits, each.
    pub fn acknowledgement(&self, kind: Kind) -> Span {
        self.acknowledge[kind as usize]
    }

    /// Wire time of one of the device's packets with this payload of user data.
    pub fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.wire_times[(payload_bytes + self.overhead.of(Direction::Up, kind)) as usize]
    }

    /// Wire time of each packet of a burst but the last, and of the last.
    pub fn packet_times(&self, packet: &Packet) -> (Span, Span) {
        let mut flight = InFlight { packet: *packet, ..InFlight::default() };
        self.measure(&mut flight);
        (flight.each, flight.last)
    }

    /// When a train of posted data may start, so that it never waits for its own data: `first_at` is when the data of
    /// its first packet is there, `last_at` when all of it is. The last packet leaves as early as if each packet left
    /// as soon as it could.
    pub fn stream_start(&self, bytes: u32, chunk_bytes: u32, first_at: Time, last_at: Time) -> Time {
        let before_last = bytes.div_ceil(chunk_bytes).max(1) - 1;
        let each = self.packet_time(Kind::MemoryWrite, chunk_bytes.min(bytes));
        first_at.max(last_at - each * u64::from(before_last))
    }

    /// Use of one direction so far.
    pub fn used(&self, direction: Direction) -> WireUse {
        let dllps = self.acknowledging[direction as usize];
        WireUse {
            dllp_bytes: (dllps.as_ns() * self.rate.bytes_per_ns()).round() as u64,
            ..self.used[direction as usize]
        }
    }

    /// Send a burst, now.
    pub fn send(&mut self, packet: Packet, sink: &mut Sink) {
        let id = sink.packets.occupy();
        sink.packets[id as usize].packet = packet;
        self.send_on(sink.now(), id, sink);
    }

    /// Send a posted write of a few bytes, now.
    pub fn write(&mut self, direction: Direction, address: u64, payload: &[u8], token: Token, sink: &mut Sink) {
        let bytes = payload.len() as u32;
        self.send_with(Packet::write(direction, address, bytes, bytes, token), payload, sink);
    }

    /// Send a packet with these few bytes, now.
    pub fn send_with(&mut self, packet: Packet, payload: &[u8], sink: &mut Sink) {
        let id = sink.packets.occupy();
        sink.packets[id as usize].packet = packet;
        sink.payload(id).room(payload.len()).copy_from_slice(payload);
        self.send_on(sink.now(), id, sink);
    }

    /// Send a burst that is in the table already.
    pub fn send_on(&mut self, now: Time, id: PacketId, sink: &mut Sink) {
        let flight = &mut sink.packets[id as usize];
        self.register(flight);
        let wire = self.wire_of(flight.packet.direction);
        if self.wires[wire].idle(now) {
            if flight.count == 1
                && let Some(at) = self.start_single(now, wire, flight)
            {
                return sink.at(at, Event::Arrive(id));
            }
            let granted = self.granted(now, flight);
            if granted > 0 {
                let arrival = self.start(now, wire, id, granted, flight);
                return self.follow(wire, id, arrival, sink);
            }
        }
        let queue = flight.queue;
        self.queue_up(now, wire, queue, id, sink);
    }

    /// Wait for the wire or for credits.
    fn queue_up(&mut self, now: Time, wire: usize, queue: Class, id: PacketId, sink: &mut Sink) {
        self.wires[wire].push(queue, id);
        self.cut_in(now, wire, queue, sink);
        self.wake(wire, self.wires[wire].free_at().max(now), sink);
    }

    /// The timer of a wire has fired.
    pub fn on_wire(&mut self, now: Time, wire: usize, sink: &mut Sink) {
        if !self.wires[wire].woken(now) {
            return;
        }
        match self.wires[wire].free_at() {
            free_at if free_at > now => self.wake(wire, free_at, sink),
            _ => self.serve(now, wire, sink),
        }
    }

    /// A burst, or a packet of it, may have arrived; nothing if it was cut and arrives later.
    #[inline]
    pub fn on_arrival(&mut self, now: Time, id: PacketId, sink: &mut Sink) -> Option<Arrival> {
        let flight = &mut sink.packets[id as usize];
        let arrival = if self.per_packet {
            flight.arrived += 1;
            Arrival { packet: id, first: flight.arrived - 1, count: 1 }
        } else if flight.arrives_at == now {
            flight.arrived = flight.count;
            Arrival { packet: id, first: 0, count: flight.count }
        } else {
            flight.watched = flight.arrives_at != Time::NEVER;
            if flight.watched {
                let later = flight.arrives_at;
                sink.at(later, Event::Arrive(id));
            }
            return None;
        };
        self.account(arrival, flight);
        if flight.packet.user_data && flight.arrived == flight.count {
            self.charge(now, id, sink);
        }
        Some(arrival)
    }

    /// The receiver of `direction` holds the posted packets that arrived from `arrived` on, and with them their credits,
    /// until `until`.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        let update = self.one_way + self.rate.time(DLLP_BYTES);
        let accept = self.accept[direction as usize];
        self.posted[direction as usize].hold(arrived + accept + update, until + accept + update);
    }

    fn wire_of(&self, direction: Direction) -> usize {
        if self.shared { 0 } else { direction as usize }
    }

    /// Number a burst, and find what its packets take on the wire.
    #[inline]
    fn register(&mut self, flight: &mut InFlight) {
        self.serial += 1;
        flight.serial = self.serial;
        flight.class = class_of(flight.packet.kind);
        flight.queue = if flight.packet.behind_writes { Class::Posted } else { flight.class };
        self.measure(flight);
        flight.data_credits = data_credits(flight.payload_each);
        (flight.sent, flight.arrived, flight.settled) = (0, 0, 0);
        (flight.arrives_at, flight.first_arrival) = (Time::NEVER, Time::NEVER);
        flight.watched = false;
    }

    /// Find what the packets of a burst take on the wire.
    #[inline(always)] // Every burst is measured when it is sent.
    fn measure(&self, flight: &mut InFlight) {
        let overhead = self.overhead.of(flight.packet.direction, flight.packet.kind);
        flight.count = flight.packet.count();
        flight.payload_each = flight.packet.chunk_payload_bytes();
        flight.header = overhead;
        flight.each = self.wire_times[(flight.payload_each + overhead) as usize];
        (flight.payload_last, flight.last) = (flight.payload_each, flight.each);
        if flight.count > 1 {
            flight.payload_last = flight.packet.payload_bytes() - flight.payload_each * (flight.count - 1);
            flight.last = self.wire_times[(flight.payload_last + overhead) as usize];
        }
        if !self.real {
            self.account_as_model(flight);
        }
    }

    /// What the packets of a burst take on the wire of a model.
    #[cold]
    fn account_as_model(&self, flight: &mut InFlight) {
        let Packet { user_data, kind, .. } = flight.packet;
        if user_data && kind == Kind::MemoryRead && !self.accounting.data_requests {
            (flight.header, flight.each, flight.last) = (0, Span::ZERO, Span::ZERO);
        }
        if !user_data && !self.accounting.command_payload {
            (flight.payload_each, flight.payload_last) = (0, 0);
            flight.each = self.wire_times[flight.header as usize];
            flight.last = flight.each;
        }
        if !user_data {
            flight.each += self.accounting.awaited;
            flight.last += self.accounting.awaited;
        }
    }

    #[inline]
    fn wake(&mut self, wire: usize, at: Time, sink: &mut Sink) {
        if let Some(at) = self.wires[wire].wake(at) {
            sink.at(at, Event::Wire(wire as u8));
        }
    }

    /// Cut the train on the wire for a packet of `class`, if that is possible.
    fn cut_in(&mut self, now: Time, wire: usize, class: Class, sink: &mut Sink) {
        let Some((segment, behind)) = self.wires[wire].cut(now, class) else { return };
        let flight = &mut sink.packets[segment.packet as usize];
        let direction = flight.packet.direction;
        if flight.sent == flight.count {
            self.wires[wire].push_front(segment.class, segment.packet);
            if flight.class == Class::Posted && !flight.packet.relaxed {
                self.posted_until = self.posted_before;
            }
        }
        flight.sent -= behind;
        flight.arrives_at = Time::NEVER;
        self.errors[direction as usize].give_back(behind, packet_bits(flight));
        let (class, every) = (flight.class, flight.each.max(self.accept[direction as usize]));
        if class == Class::Posted {
            self.last_return[direction as usize] = self.last_return[direction as usize] - every * u64::from(behind);
        }
        if let Some(credits) = self.credits(direction, class) {
            credits.unspend(behind);
        }
    }

    /// Put the next segment on a free wire.
    fn serve(&mut self, now: Time, wire: usize, sink: &mut Sink) {
        let mut next_credit = Time::NEVER;
        for class in self.wires[wire].turns() {
            let Some(id) = self.wires[wire].head(class) else { continue };
            let flight = &mut sink.packets[id as usize];
            if flight.count == 1
                && let Some(at) = self.start_single(now, wire, flight)
            {
                self.wires[wire].take(class);
                return self.follow(wire, id, Some(at), sink);
            }
            let granted = self.granted(now, flight);
            if granted > 0 {
                self.wires[wire].take(class);
                let arrival = self.start(now, wire, id, granted, flight);
                return self.follow(wire, id, arrival, sink);
            }
            let credits = self.credits(flight.packet.direction, flight.class).expect("only credits hold packets back");
            next_credit = next_credit.min(credits.next_return().unwrap_or(Time::NEVER));
        }
        if self.wires[wire].has_waiting() {
            assert!(next_credit != Time::NEVER, "packets wait for credits that nobody returns");
            self.wake(wire, next_credit, sink);
        }
    }

    /// How many of a burst's packets may go now, for all that credits say.
    #[inline]
    fn granted(&mut self, now: Time, flight: &InFlight) -> u32 {
        let left = flight.count - flight.sent;
        match self.credits(flight.packet.direction, flight.class) {
            Some(credits) => credits.sendable(now, left, flight.data_credits, flight.each),
            None => left,
        }
    }

    /// Start a segment of `granted` packets, or fewer if a corrupted one ends it. When it arrives, if no event looks
    /// at that instant yet.
    #[inline(always)] // Nearly every burst starts when it is sent, where all that `start` asks for is at hand.
    fn start(&mut self, now: Time, wire: usize, id: PacketId, granted: u32, flight: &mut InFlight) -> Option<Time> {
        // While something else waits, packets take turns; a train goes out whole when it is alone.
        let limit = if self.per_packet || self.wires[wire].has_others(flight.queue) { 1 } else { granted };
        let (direction, class, queue, each) = (flight.packet.direction, flight.class, flight.queue, flight.each);
        let (count, corrupted) = self.errors[direction as usize].intact(limit, packet_bits(flight));
        let started = self.wires[wire].start_at(now);
        let ends_burst = flight.sent + count == flight.count;
        let end = match ends_burst {
            true => started + each * u64::from(count - 1) + flight.last,
            false => started + each * u64::from(count),
        };
        if flight.sent == 0 {
            (flight.started, flight.posted_until) = (started, self.posted_until);
        }
        flight.sent += count;
        let data = flight.data_credits;
        let mut arrival = None;
        if self.per_packet || ends_burst {
            flight.arrives_at = self.arrival(&flight.packet, end);
            if !flight.watched && count > 0 {
                flight.watched = !self.per_packet;
                arrival = Some(flight.arrives_at);
            }
        }
        self.spend(direction, class, count, data, started, each);
        self.wires[wire].occupy(Segment { packet: id, class: queue, count, each, started, end });
        if !ends_burst {
            self.wires[wire].push_front(queue, id);
        }
        if corrupted {
            self.replay(wire, direction, end, each);
        }
        arrival
    }

    /// The same for a burst of one packet, which nothing can cut: what nearly all commands, answers and completion
    /// entries are. When it arrives; nothing if it has to wait for credits.
    #[inline(always)] // Where a burst is sent, and where it is served, all that this asks for is at hand.
    fn start_single(&mut self, now: Time, wire: usize, flight: &mut InFlight) -> Option<Time> {
        let (direction, class, time) = (flight.packet.direction, flight.class, flight.last);
        if self.errors[direction as usize].possible() || self.granted(now, flight) == 0 {
            return None;
        }
        let started = self.wires[wire].start_at(now);
        (flight.started, flight.posted_until) = (started, self.posted_until);
        (flight.sent, flight.watched) = (1, !self.per_packet);
        flight.arrives_at = self.arrival(&flight.packet, started + time);
        self.spend(direction, class, 1, flight.data_credits, started, time);
        self.wires[wire].occupy_single(flight.queue, started + time);
        Some(flight.arrives_at)
    }

    /// When a burst whose last packet leaves the wire at `end` is handed over: on arrival, or once in memory.
    #[inline]
    fn arrival(&mut self, packet: &Packet, end: Time) -> Time {
        let at = end + self.one_way;
        if packet.direction == Direction::Down || packet.kind != Kind::MemoryWrite {
            return at;
        }
        if !packet.relaxed {
            self.posted_before = self.posted_until;
            self.posted_until = at + self.settle;
        }
        at + self.settle
    }

    /// Spend the credits of `count` packets, the first of which goes on the wire at `started`.
    #[inline]
    fn spend(&mut self, direction: Direction, class: Class, count: u32, data: u32, started: Time, each: Span) {
        if class == Class::Completion || count == 0 {
            return;
        }
        let accept = self.accept[direction as usize];
        let mut first_return = started + self.credits_away(direction, each);
        if class == Class::Posted {
            // The receiver takes packets out of its buffer one after the other.
            let last_return = &mut self.last_return[direction as usize];
            first_return = first_return.max(*last_return + accept);
            *last_return = first_return;
            if count > 1 {
                *last_return += each.max(accept) * u64::from(count - 1);
            }
        }
        if let Some(credits) = self.credits(direction, class) {
            credits.spend(count, data, first_return, each.max(accept));
        }
    }

    /// What follows a segment: its arrival, and the next one.
    #[inline]
    fn follow(&mut self, wire: usize, id: PacketId, arrival: Option<Time>, sink: &mut Sink) {
        if let Some(at) = arrival {
            sink.at(at, Event::Arrive(id));
        }
        if self.wires[wire].has_waiting() {
            self.wake(wire, self.wires[wire].free_at(), sink);
        }
    }

    /// A corrupted packet leaves at `from`: until its NAK is back, everything sent is thrown away (section 3.6.2.1).
    #[cold]
    fn replay(&mut self, wire: usize, direction: Direction, from: Time, each: Span) {
        let lost = each + self.round_trip;
        self.used[direction as usize].replays += lost.as_ps().div_ceil(each.as_ps().max(1));
        self.wires[wire].block(from + lost);
    }

    /// Credits of a class; none for completions, for which both ends keep room (section 2.6.1).
    fn credits(&mut self, direction: Direction, class: Class) -> Option<&mut Credits> {
        match class {
            Class::Posted => Some(&mut self.posted[direction as usize]),
            Class::NonPosted => Some(&mut self.non_posted[direction as usize]),
            Class::Completion => None,
        }
    }

    /// Count what has arrived, and owe the other wire its acknowledgements.
    #[inline]
    fn account(&mut self, arrival: Arrival, flight: &InFlight) {
        let packet = &flight.packet;
        let (mut payload, mut time) = match arrival.first + arrival.count == flight.count {
            true => (flight.payload_last, flight.last),
            false => (flight.payload_each, flight.each),
        };
        let mut owed = self.acknowledgement(packet.kind);
        if arrival.count > 1 {
            payload += flight.payload_each * (arrival.count - 1);
            time += flight.each * u64::from(arrival.count - 1);
            owed = owed * u64::from(arrival.count);
        }
        let opposite = packet.direction.opposite();
        let wire = self.wire_of(opposite);
        self.wires[wire].owe(owed);
        self.acknowledging[opposite as usize] += owed;
        if !self.real && !packet.user_data {
            self.acknowledging[opposite as usize] += self.accounting.awaited * u64::from(arrival.count);
        }
        let used = &mut self.used[packet.direction as usize];
        match packet.user_data {
            true => used.data_bytes += u64::from(payload),
            false => used.command_bytes += u64::from(payload),
        }
        used.header_bytes += u64::from(flight.header * arrival.count);
        used.packets += u64::from(arrival.count);
        used.busy += time;
    }

    /// Charge a data burst's journey, which is over, to its request: its own packets on the wire, the way, and the rest as waiting.
    fn charge(&mut self, now: Time, id: PacketId, sink: &mut Sink) {
        let flight = &sink.packets[id as usize];
        let Some(request) = flight.packet.request else { return };
        let wire_time = flight.wire_time();
        let ledger = &mut sink.requests[request as usize].ledger;
        let before = if flight.packet.kind == Kind::Completion { Stage::HostRead } else { Stage::LinkWait };
        let arrived = now - self.settling(&flight.packet);
        ledger.until(before, arrived - self.one_way - wire_time);
        ledger.spend(Stage::Transfer, wire_time);
        ledger.until(Stage::Propagation, arrived);
    }
}

/// What a packet of each kind is answered with: an acknowledgement, and a flow-control update unless credits are
/// infinite, as they are for completions.
fn acknowledgements(dllp: Span) -> [Span; 3] {
    [Kind::MemoryWrite, Kind::MemoryRead, Kind::Completion].map(|kind| match kind {
        Kind::MemoryWrite | Kind::MemoryRead => dllp * 2,
        Kind::Completion => dllp,
    })
}

/// Bits of one of a burst's packets.
fn packet_bits(flight: &InFlight) -> u64 {
    u64::from(flight.payload_each + flight.header) * 8
}

fn class_of(kind: Kind) -> Class {
    match kind {
        Kind::MemoryWrite => Class::Posted,
        Kind::MemoryRead => Class::NonPosted,
        Kind::Completion => Class::Completion,
    }
}

/// Bit errors as a Poisson process over the bits sent in one direction.
#[derive(Clone, Debug)]
struct Errors {
    rate: f64,
    bits_left: f64,
    random: Random,
}

impl Errors {
    fn new(rate: f64, mut random: Random) -> Errors {
        let bits_left = if rate > 0.0 { random.exponential() / rate } else { f64::INFINITY };
        Errors { rate, bits_left, random }
    }

    /// Whether there can be any.
    fn possible(&self) -> bool {
        self.rate > 0.0
    }

    /// How many of `packets` arrive intact, and whether the one behind them does not.
    #[inline]
    fn intact(&mut self, packets: u32, bits: u64) -> (u32, bool) {
        match self.rate > 0.0 {
            true => self.before_error(packets, bits),
            false => (packets, false),
        }
    }

    #[cold]
    fn before_error(&mut self, packets: u32, bits: u64) -> (u32, bool) {
        let whole = self.bits_left / bits as f64;
        if whole >= f64::from(packets) {
            self.bits_left -= f64::from(packets) * bits as f64;
            return (packets, false);
        }
        self.bits_left = self.random.exponential() / self.rate;
        (whole as u32, true)
    }

    /// Packets that were cut off a train have not been sent after all.
    fn give_back(&mut self, packets: u32, bits: u64) {
        self.bits_left += f64::from(packets) * bits as f64;
    }
}
