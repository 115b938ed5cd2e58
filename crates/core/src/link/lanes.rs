//! Both directions of the link: what is on each wire and what waits for it, credits, acknowledgements and replay.

use super::Arrival;
use super::arrivals::Arrivals;
use super::bursts::Bursts;
use super::credits::{Credits, Returns, data_credits};
use super::errors::Errors;
use super::flight::InFlight;
use super::measure::{Load, Measures};
use super::overhead::DLLP_BYTES;
use super::rate::Rate;
use super::wire::{Class, Segment, Wire};
use crate::config::{self, Duplex, Fault, FaultSubject, Granularity};
use crate::faults::Rule;
use crate::ledger::{Stage, WireUse};
use crate::random::Random;
use crate::request::Requests;
use crate::scheduler::{Event, Scheduler};
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, PacketId, packets};

/// Classes that credits limit: posted and non-posted, which come first.
const LIMITED_CLASSES: usize = 2;

/// Both directions of the link.
#[derive(Clone, Debug)]
pub struct Lanes {
    wires: [Wire; 2],
    shared: bool,
    per_packet: bool,
    /// Whether a burst that has the wire to itself goes out whole, as it does but for packet granularity and bit errors.
    whole: bool,
    rate: Rate,
    measures: Measures,
    arrivals: Arrivals,
    /// There and back, with the packet that answers.
    round_trip: Span,
    /// Time of that packet, as the link was trained first: credits are known by the instants of their return.
    dllp: Span,
    /// Time for which each receiver holds a posted packet's credits, by direction.
    accept: [Span; 2],
    /// Headers and data that a receiver of posted packets advertises, and how many of the largest packets both suffice for.
    posted_credits: (u32, u32),
    largest: (u32, u32),
    /// By direction and class; none for completions, for which both ends keep room (section 2.6.1).
    credits: [[Credits; LIMITED_CLASSES]; 2],
    errors: [Errors; 2],
    used: [WireUse; 2],
    /// Wire time of ACK and flow-control packets so far.
    acknowledging: [Span; 2],
    serial: u64,
}

impl Lanes {
    /// A link whose root complex accepts posted writes at one every `root_accept`, and has each in memory `settle` after
    /// its arrival.
    pub fn new(config: &config::Link, root_accept: Span, settle: Span, seed: u64) -> Lanes {
        let rate = Rate::new(config);
        let posted_credits = (config.posted_header_credits.into(), config.posted_data_credits.into());
        let one_way = config.one_way + config.hop * u64::from(config.hops);
        let round_trip = one_way * 2 + rate.time(DLLP_BYTES);
        let measures = Measures::new(config, &rate);
        let whole = config.granularity != Granularity::Packet && config.bit_error_rate == 0.0;
        let used = WireUse { bytes_per_ns: rate.bytes_per_ns(), ..WireUse::default() };
        let errors = |stream| Errors::new(config.bit_error_rate, Random::stream(seed, stream));
        Lanes {
            wires: [Wire::default(), Wire::default()],
            shared: config.duplex == Duplex::Shared,
            per_packet: config.granularity == Granularity::Packet,
            whole,
            measures,
            dllp: rate.time(DLLP_BYTES),
            rate,
            arrivals: Arrivals { one_way, settle, posted_until: Time::ZERO, posted_before: Time::ZERO },
            round_trip,
            accept: [root_accept, Span::ZERO],
            posted_credits,
            largest: (config.max_payload_bytes, stream_window(posted_credits, config.max_payload_bytes)),
            credits: [root_accept, Span::ZERO].map(|accept| {
                let returns = |in_turn| Returns { accept, round_trip, in_turn };
                let (headers, data) = posted_credits;
                let posted = Credits::new(headers, data, returns(true));
                [posted, Credits::new(config.non_posted_header_credits.into(), 0, returns(false))]
            }),
            errors: [errors("link up"), errors("link down")],
            used: [used; 2],
            acknowledging: [Span::ZERO; 2],
            serial: 0,
        }
    }

    /// The same with packets that faults corrupt.
    pub fn with_faults(mut self, faults: &[Fault], seed: u64) -> Lanes {
        self.add_faults(&Rule::about(FaultSubject::Packet, faults, seed));
        self
    }

    /// The same with memory so much farther away than the port that gives credits back.
    pub fn farther(mut self, way: Span) -> Lanes {
        self.arrivals.one_way += way;
        self
    }

    /// Faults corrupt packets from now on.
    pub fn add_faults(&mut self, rules: &[Rule]) {
        for direction in [Direction::Up, Direction::Down] {
            self.whole &= !self.errors[direction as usize].add_faults(direction, rules);
        }
    }

    /// A fault of packets is over.
    pub fn remove_fault(&mut self, fault: &Fault) {
        self.errors.iter_mut().for_each(|errors| errors.remove_fault(fault));
    }

    /// How often faults have happened to packets.
    pub fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        self.errors.iter().flat_map(Errors::fault_counts).collect()
    }

    /// Receivers of one direction give no credits back before `until`. What has been given goes on.
    pub fn starve(&mut self, now: Time, direction: Direction, until: Time) {
        self.credits[direction as usize].iter_mut().for_each(|credits| credits.starve(now, until));
    }

    /// Everything that is on the wires or waits for them is gone, and all credits are back.
    pub fn clear(&mut self, now: Time) {
        self.wires = [Wire::default(), Wire::default()];
        self.wires.iter_mut().for_each(|wire| wire.block(now));
        self.credits.as_flattened_mut().iter_mut().for_each(|credits| credits.restore(now));
        (self.arrivals.posted_until, self.arrivals.posted_before) = (Time::ZERO, Time::ZERO);
    }

    /// The link is trained anew, and has the width and the rate of `config` when it is up again after `outage`. What is on
    /// the wire passes, and a burst of which a part has passed goes on at its old pace.
    pub fn retrain(&mut self, now: Time, config: &config::Link, outage: Span, bursts: &mut Bursts) {
        for (used, acknowledging) in self.used.iter_mut().zip(&mut self.acknowledging) {
            used.dllp_bytes += dllp_bytes(std::mem::take(acknowledging), &self.rate);
        }
        self.rate = Rate::new(config);
        self.measures = Measures::new(config, &self.rate);
        for (wire, used) in self.wires.iter_mut().zip(&mut self.used) {
            used.bytes_per_ns = self.rate.bytes_per_ns();
            wire.block(wire.free_at().max(now) + outage);
            for id in wire.waiting().filter(|id| bursts[*id].sent == 0).collect::<Vec<_>>() {
                bursts[id].measure = self.measures.of(&bursts[id].packet);
            }
        }
    }

    /// Time from the last symbol of a packet leaving one end to the packet being usable at the other.
    pub fn one_way(&self) -> Span {
        self.arrivals.one_way
    }

    /// How long after its arrival a packet is handed over.
    pub fn settling(&self, packet: &Packet) -> Span {
        match (packet.direction, packet.kind) {
            (Direction::Up, Kind::MemoryWrite) => self.arrivals.settle,
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
        self.measures.acknowledgement(kind)
    }

    /// Wire time of one of the device's packets with this payload of user data.
    pub fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.measures.packet_time(kind, payload_bytes)
    }

    /// Wire time of each packet of a burst but the last, and of the last.
    pub fn packet_times(&self, packet: &Packet) -> (Span, Span) {
        let measure = self.measures.measure(packet);
        (measure.each, measure.last)
    }

    /// Wire time of so many packets of a burst, from the one of number `first` on.
    pub fn time_of(&self, packet: &Packet, first: u32, count: u32) -> Span {
        let (each, last) = self.packet_times(packet);
        let has_last = first + count == packet.count();
        each * u64::from(count - 1) + if has_last { last } else { each }
    }

    /// When a train of posted data may start, so that its last packet leaves as early as if each packet left as soon as it
    /// could, be it data, the wire or credits that it waits for: `first_at` is when the data of the first packet is there,
    /// `last_at` when all of it is. A wire that is faster than the credits carries packets in between a little too early,
    /// by no more than a round of credits.
    #[inline]
    pub fn stream_start(&self, bytes: u32, chunk_bytes: u32, first_at: Time, last_at: Time) -> Time {
        if bytes <= chunk_bytes {
            return first_at.max(last_at);
        }
        let before_last = packets(bytes, chunk_bytes) - 1;
        first_at.max(last_at - self.stream_until(before_last, chunk_bytes.min(bytes)))
    }

    /// From the start of a train of posted data that finds all credits there to the start of this packet, counted from 0.
    #[inline(always)]
    pub fn stream_until(&self, packet: u32, chunk_bytes: u32) -> Span {
        let each = self.packet_time(Kind::MemoryWrite, chunk_bytes);
        let window = match self.largest {
            (bytes, window) if bytes == chunk_bytes => window,
            _ => stream_window(self.posted_credits, chunk_bytes),
        };
        if packet < window {
            return each * u64::from(packet);
        }
        let drained = each.max(self.accept[Direction::Up as usize]) * u64::from(window);
        let round = drained.max(self.credits_away(Direction::Up, each));
        round * u64::from(packet / window) + each * u64::from(packet % window)
    }

    /// Use of one direction so far.
    pub fn used(&self, direction: Direction) -> WireUse {
        let dllps = self.acknowledging[direction as usize];
        let used = self.used[direction as usize];
        WireUse { dllp_bytes: used.dllp_bytes + dllp_bytes(dllps, &self.rate), ..used }
    }

    /// Send a burst that is in the table already.
    pub fn send_on(&mut self, now: Time, id: PacketId, bursts: &mut Bursts, scheduler: &mut Scheduler) {
        let flight = &mut bursts[id];
        self.register(flight);
        let wire = self.wire_of(flight.packet.direction);
        if !self.wires[wire].idle(now) {
            return self.queue_up(now, wire, id, bursts, scheduler);
        }
        if !self.launch(now, wire, id, bursts, scheduler) {
            self.start_or_queue_up(now, wire, id, bursts, scheduler);
        }
    }

    /// Start as many packets of a burst as credits allow on a wire that is free.
    #[inline(never)] // Credits seldom run short, and packets are looked at one by one in few runs.
    fn start_or_queue_up(
        &mut self,
        now: Time,
        wire: usize,
        id: PacketId,
        bursts: &mut Bursts,
        scheduler: &mut Scheduler,
    ) {
        match self.granted(now, &bursts[id]) {
            0 => self.queue_up(now, wire, id, bursts, scheduler),
            granted => self.start(now, wire, id, granted, bursts, scheduler),
        }
    }

    /// Wait for the wire or for credits.
    fn queue_up(&mut self, now: Time, wire: usize, id: PacketId, bursts: &mut Bursts, scheduler: &mut Scheduler) {
        let queue = bursts[id].queue;
        self.wires[wire].push(queue, id);
        self.cut_in(now, wire, queue, bursts);
        self.wake(wire, self.wires[wire].free_at().max(now), scheduler);
    }

    /// The timer of a wire has fired.
    pub fn on_wire(&mut self, now: Time, wire: usize, bursts: &mut Bursts, scheduler: &mut Scheduler) {
        if !self.wires[wire].woken(now) {
            return;
        }
        match self.wires[wire].free_at() {
            free_at if free_at > now => self.wake(wire, free_at, scheduler),
            _ => self.serve(now, wire, bursts, scheduler),
        }
    }

    /// A burst, or a packet of it, may have arrived; nothing if it was cut and arrives later.
    #[inline]
    pub fn on_arrival(
        &mut self,
        now: Time,
        id: PacketId,
        bursts: &mut Bursts,
        scheduler: &mut Scheduler,
        requests: &mut Requests,
    ) -> Option<Arrival> {
        let flight = &mut bursts[id];
        let arrival = if self.per_packet {
            flight.arrived += 1;
            Arrival { packet: id, first: flight.arrived - 1, count: 1 }
        } else if flight.arrives_at == now {
            flight.arrived = flight.measure.count;
            Arrival { packet: id, first: 0, count: flight.measure.count }
        } else {
            flight.watched = flight.arrives_at != Time::NEVER;
            if flight.watched {
                let later = flight.arrives_at;
                scheduler.at(later, Event::Arrive(id));
            }
            return None;
        };
        self.account(arrival, flight);
        if flight.packet.user_data && flight.arrived == flight.measure.count {
            self.charge(now, flight, requests);
        }
        Some(arrival)
    }

    /// The receiver of `direction` holds the posted packets that arrived from `arrived` on, and with them their credits,
    /// until `until`.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        let update = self.arrivals.one_way + self.dllp;
        let accept = self.accept[direction as usize];
        self.credits[direction as usize][Class::Posted as usize]
            .hold(arrived + accept + update, until + accept + update);
    }

    /// When all bursts that one direction has been given so far will have left, if nothing else delays them.
    pub fn drained_at(&self, now: Time, direction: Direction, bursts: &Bursts) -> Time {
        let wire = &self.wires[self.wire_of(direction)];
        if !wire.has_waiting() {
            return wire.free_at().max(now);
        }
        wire.free_at().max(now) + time_left(wire, bursts)
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
        flight.measure = self.measures.of(&flight.packet);
        (flight.sent, flight.arrived, flight.settled) = (0, 0, 0);
        (flight.arrives_at, flight.first_arrival) = (Time::NEVER, Time::NEVER);
        flight.watched = false;
    }

    #[inline]
    fn wake(&mut self, wire: usize, at: Time, scheduler: &mut Scheduler) {
        if let Some(at) = self.wires[wire].wake(at) {
            scheduler.at(at, Event::Wire(wire as u8));
        }
    }

    /// Cut the train on the wire for a packet of `class`, if that is possible.
    fn cut_in(&mut self, now: Time, wire: usize, class: Class, bursts: &mut Bursts) {
        let Some((segment, behind)) = self.wires[wire].cut(now, class) else { return };
        let flight = &mut bursts[segment.packet];
        let direction = flight.packet.direction;
        if flight.sent == flight.measure.count {
            self.wires[wire].push_front(segment.class, segment.packet);
            if flight.class == Class::Posted && !flight.packet.relaxed {
                self.arrivals.posted_until = self.arrivals.posted_before;
            }
        }
        flight.sent -= behind;
        flight.arrives_at = Time::NEVER;
        self.errors[direction as usize].give_back(behind, packet_bits(flight));
        let (class, each) = (flight.class, flight.measure.each);
        if let Some(credits) = self.credits(direction, class) {
            credits.unspend(behind, each);
        }
    }

    /// Put the next segment on a free wire.
    fn serve(&mut self, now: Time, wire: usize, bursts: &mut Bursts, scheduler: &mut Scheduler) {
        let mut next_credit = Time::NEVER;
        for class in self.wires[wire].turns() {
            let Some(id) = self.wires[wire].head(class) else { continue };
            let flight = &mut bursts[id];
            // While something else waits, packets take turns; a train goes out whole when it is alone.
            let alone = flight.measure.count == 1 || !self.wires[wire].has_others(flight.queue);
            if alone && self.launch(now, wire, id, bursts, scheduler) {
                self.wires[wire].take(class);
                return self.follow(wire, scheduler);
            }
            let flight = &mut bursts[id];
            let granted = self.granted(now, flight);
            if granted > 0 {
                self.wires[wire].take(class);
                return self.start(now, wire, id, granted, bursts, scheduler);
            }
            let credits = self.credits(flight.packet.direction, flight.class).expect("only credits hold packets back");
            next_credit = next_credit.min(credits.next_return().unwrap_or(Time::NEVER));
        }
        if self.wires[wire].has_waiting() {
            assert!(next_credit != Time::NEVER, "packets wait for credits that nobody returns");
            self.wake(wire, next_credit, scheduler);
        }
    }

    /// What waits behind a segment looks at the wire again when that is free.
    #[inline]
    fn follow(&mut self, wire: usize, scheduler: &mut Scheduler) {
        if self.wires[wire].has_waiting() {
            self.wake(wire, self.wires[wire].free_at(), scheduler);
        }
    }

    /// How many of a burst's packets may go now, for all that credits say.
    #[inline]
    fn granted(&mut self, now: Time, flight: &InFlight) -> u32 {
        let left = flight.measure.count - flight.sent;
        match self.credits(flight.packet.direction, flight.class) {
            Some(credits) => credits.sendable(now, left, flight.measure.data_credits, flight.measure.each),
            None => left,
        }
    }

    /// Put all that is left of a burst on the wire, which is free: what happens to nearly every burst. False if credits do
    /// not let it go, or if its packets have to be looked at one by one.
    #[inline(always)] // Where a burst is sent, and where it is served, all that this asks for is at hand.
    fn launch(&mut self, now: Time, wire: usize, id: PacketId, bursts: &mut Bursts, scheduler: &mut Scheduler) -> bool {
        let Lanes { arrivals, credits, wires, whole, .. } = self;
        let (flight, wire) = (&mut bursts[id], &mut wires[wire]);
        let (packet, measure) = (&flight.packet, &flight.measure);
        let count = measure.count - flight.sent;
        let mut credits = credits[packet.direction as usize].get_mut(flight.class as usize);
        let allow = |credits: &mut &mut Credits| credits.allow(now, count, measure.data_credits);
        if !*whole || !credits.as_mut().is_none_or(allow) {
            return false;
        }
        let started = wire.start_at(now);
        let mut end = started + measure.whole.time;
        if flight.sent == 0 {
            (flight.started, flight.posted_until) = (started, arrivals.posted_until);
        } else {
            end = end - measure.each * u64::from(flight.sent);
        }
        flight.sent = measure.count;
        flight.arrives_at = arrivals.of(packet, end);
        if let Some(credits) = credits {
            credits.spend(count, measure.data_credits, started, measure.each);
        }
        match count {
            1 => wire.occupy_single(flight.queue, end),
            _ => wire.occupy(Segment { packet: id, class: flight.queue, count, each: measure.each, started, end }),
        }
        if !std::mem::replace(&mut flight.watched, true) {
            scheduler.at(flight.arrives_at, Event::Arrive(id));
        }
        true
    }

    /// Start a segment of `granted` packets, or fewer if a corrupted one ends it.
    fn start(
        &mut self,
        now: Time,
        wire: usize,
        id: PacketId,
        granted: u32,
        bursts: &mut Bursts,
        scheduler: &mut Scheduler,
    ) {
        let flight = &mut bursts[id];
        // While something else waits, packets take turns; a train goes out whole when it is alone.
        let limit = if self.per_packet || self.wires[wire].has_others(flight.queue) { 1 } else { granted };
        let (direction, class, queue, each) =
            (flight.packet.direction, flight.class, flight.queue, flight.measure.each);
        let (count, corrupted) = self.errors[direction as usize].intact(now, limit, packet_bits(flight));
        let started = self.wires[wire].start_at(now);
        let ends_burst = flight.sent + count == flight.measure.count;
        let end = match ends_burst {
            true => started + each * u64::from(count - 1) + flight.measure.last,
            false => started + each * u64::from(count),
        };
        if flight.sent == 0 {
            (flight.started, flight.posted_until) = (started, self.arrivals.posted_until);
        }
        flight.sent += count;
        let data = flight.measure.data_credits;
        if self.per_packet || ends_burst {
            let arrives_at = self.arrivals.of(&flight.packet, end);
            flight.arrives_at = arrives_at;
            if !flight.watched && count > 0 {
                flight.watched = !self.per_packet;
                scheduler.at(arrives_at, Event::Arrive(id));
            }
        }
        if let Some(credits) = self.credits(direction, class).filter(|_| count > 0) {
            credits.spend_in_advance(count, data, started, each);
        }
        self.wires[wire].occupy(Segment { packet: id, class: queue, count, each, started, end });
        if !ends_burst {
            self.wires[wire].push_front(queue, id);
        }
        if corrupted {
            self.replay(wire, direction, end, each);
        }
        self.follow(wire, scheduler);
    }

    /// A corrupted packet leaves at `from`: until its NAK is back, everything sent is thrown away (section 3.6.2.1).
    #[cold]
    fn replay(&mut self, wire: usize, direction: Direction, from: Time, each: Span) {
        let lost = each + self.round_trip;
        self.used[direction as usize].replays += lost.as_ps().div_ceil(each.as_ps().max(1));
        self.wires[wire].block(from + lost);
    }

    #[inline]
    fn credits(&mut self, direction: Direction, class: Class) -> Option<&mut Credits> {
        self.credits[direction as usize].get_mut(class as usize)
    }

    /// Count what has arrived, and owe the other wire its acknowledgements.
    #[inline]
    fn account(&mut self, arrival: Arrival, flight: &InFlight) {
        let InFlight { packet, measure, .. } = flight;
        match arrival.count == measure.count {
            true => self.count(packet, arrival.count, &measure.whole),
            false => self.count_one(arrival, flight),
        }
    }

    /// The same, packet by packet.
    #[inline(never)]
    fn count_one(&mut self, arrival: Arrival, flight: &InFlight) {
        let is_last = arrival.first + arrival.count == flight.measure.count;
        self.count(&flight.packet, arrival.count, &flight.measure.one(is_last));
    }

    #[inline(always)]
    fn count(&mut self, packet: &Packet, packets: u32, load: &Load) {
        let opposite = packet.direction.opposite();
        let wire = self.wire_of(opposite);
        self.wires[wire].owe(load.owed);
        self.acknowledging[opposite as usize] += load.acknowledging;
        let used = &mut self.used[packet.direction as usize];
        match packet.user_data {
            true => used.data_bytes += u64::from(load.payload),
            false => used.command_bytes += u64::from(load.payload),
        }
        used.header_bytes += u64::from(load.header);
        used.packets += u64::from(packets);
        used.busy += load.time;
    }

    /// Charge a data burst's journey, which is over, to its request: its own packets on the wire, the way, and the rest as waiting.
    fn charge(&self, now: Time, flight: &InFlight, requests: &mut Requests) {
        let Some(request) = flight.packet.request else { return };
        let wire_time = flight.wire_time();
        let ledger = &mut requests[request].ledger;
        let before = if flight.packet.kind == Kind::Completion { Stage::HostRead } else { Stage::LinkWait };
        let arrived = now - self.settling(&flight.packet);
        ledger.until(before, arrived - self.arrivals.one_way - wire_time);
        ledger.spend(Stage::Transfer, wire_time);
        ledger.until(Stage::Propagation, arrived);
    }
}

/// Time that all bursts which wait for a wire will take.
#[inline(never)]
fn time_left(wire: &Wire, bursts: &Bursts) -> Span {
    wire.waiting().map(|id| bursts[id].time_left()).sum()
}

/// Packets of posted data for which these credits, of headers and of data, suffice at once.
fn stream_window((headers, data): (u32, u32), chunk_bytes: u32) -> u32 {
    headers.min(data / data_credits(chunk_bytes).max(1)).max(1)
}

/// Bytes of ACK and flow-control packets that take so long.
fn dllp_bytes(acknowledging: Span, rate: &Rate) -> u64 {
    (acknowledging.as_ns() * rate.bytes_per_ns()).round() as u64
}

/// Bits of one of a burst's packets.
fn packet_bits(flight: &InFlight) -> u64 {
    u64::from(flight.measure.payload_each + flight.measure.header) * 8
}

fn class_of(kind: Kind) -> Class {
    match kind {
        Kind::MemoryWrite => Class::Posted,
        Kind::MemoryRead => Class::NonPosted,
        Kind::Completion => Class::Completion,
    }
}
