//! Data link layer of both directions: arbitration for each wire, flow control, acknowledgements and replay.
//!
//! A burst that finds its wire idle and its credits free goes out as one *train* of packets; nearly every burst does
//! ([`send_whole_train`](DataLink::send_whole_train)). Any other waits in the queue of its class. A packet that is queued cuts the train on
//! the wire at the next packet boundary; from then on the classes take turns packet by packet, as far as credits allow.
//! A corrupted packet blocks its wire until the NAK is back; it and everything behind it leave then.
//!
//! ```text
//!     send -> idle wire? --yes--> credits? --yes--> train on the wire -> propagation -> Arrival
//!                | no                | no                  ^    |
//!                v                   v                     |    v  cut by another class
//!              queue of its class (posted, non-posted, completion), served in turns
//! ```

use super::Arrival;
use super::burst::PacketBurst;
use super::bursts::BurstTable;
use super::credits::{CreditReturnDelays, Credits, data_credits};
use super::delivery::Delivery;
use super::errors::PacketCorruption;
use super::measure::{BurstMeasureCache, WireLoad};
use super::overhead::DLLP_BYTES;
use super::rate::WireRate;
use super::wire::{FlowControlClass, Wire, WireSegment};
use crate::config::{self, Duplex, Fault, FaultSubject, LinkEventGranularity};
use crate::faults::Rule;
use crate::ledger::{Stage, WireUse};
use crate::number::whole;
use crate::random::Random;
use crate::request::Requests;
use crate::scheduler::{Event, Scheduler};
use crate::time::{Span, Time};
use crate::tlp::{BurstId, Direction, Kind, Packet, packets};

/// Number of flow-control classes that credits limit: posted and non-posted, the first two of all classes.
const LIMITED_CLASSES: usize = 2;

/// Both wires of a link, with their queues, credits, errors and counters.
#[derive(Clone, Debug)]
pub struct DataLink {
    wires: [Wire; 2],
    /// True if both directions of the link share one wire.
    shared: bool,
    /// True if every packet is sent by itself (packet granularity).
    per_packet: bool,
    /// True if a burst that has the wire to itself is sent as one train: always, except with packet granularity, bit
    /// errors or packet faults.
    whole: bool,
    rate: WireRate,
    measures: BurstMeasureCache,
    delivery: Delivery,
    /// Round-trip time of the link, including the wire time of the ACK or UpdateFC packet.
    round_trip: Span,
    /// Wire time of an ACK or UpdateFC packet when the link was first trained. It is kept after a retraining, because
    /// credits are identified by their return times.
    dllp: Span,
    /// Time for which the receiver of each direction is busy with a posted packet before it returns the packet's
    /// credits.
    accept: [Span; 2],
    /// Number of header credits and of data credits that a receiver of posted packets advertises.
    posted_credits: (u32, u32),
    /// Max_Payload_Size in bytes, and the number of posted packets of that size for which the advertised credits
    /// suffice.
    largest: (u32, u32),
    /// Credits of the senders, by direction and flow-control class. Completions have none: both ends reserve room for
    /// them (section 2.6.1).
    credits: [[Credits; LIMITED_CLASSES]; 2],
    errors: [PacketCorruption; 2],
    /// Bytes, packets and busy time of each direction of the link so far.
    used: [WireUse; 2],
    /// Wire time of the ACK and UpdateFC packets of each direction so far.
    acknowledging: [Span; 2],
    /// Number of bursts sent over the link so far.
    serial: u64,
}

impl DataLink {
    /// Creates a link whose root complex accepts a posted write every `root_accept`, and has each in memory `settle`
    /// after its arrival.
    pub fn new(config: &config::Link, root_accept: Span, settle: Span, seed: u64) -> DataLink {
        let rate = WireRate::new(config);
        let posted_credits = (config.posted_header_credits.into(), config.posted_data_credits.into());
        let one_way = config.one_way_packet_time();
        let round_trip = one_way * 2 + rate.time(DLLP_BYTES);
        let measures = BurstMeasureCache::new(config, &rate);
        let whole = config.granularity != LinkEventGranularity::Packet && config.bit_error_rate == 0.0;
        let used = WireUse { bytes_per_ns: rate.bytes_per_ns(), ..WireUse::default() };
        let errors = |stream| PacketCorruption::new(config.bit_error_rate, Random::stream(seed, stream));
        DataLink {
            wires: [Wire::idle_with_capacity(), Wire::idle_with_capacity()],
            shared: config.duplex == Duplex::Shared,
            per_packet: config.granularity == LinkEventGranularity::Packet,
            whole,
            measures,
            dllp: rate.time(DLLP_BYTES),
            rate,
            delivery: Delivery { one_way, settle, posted_until: Time::ZERO, posted_before: Time::ZERO },
            round_trip,
            accept: [root_accept, Span::ZERO],
            posted_credits,
            largest: (config.max_payload_bytes, credit_window_packets(posted_credits, config.max_payload_bytes)),
            credits: [root_accept, Span::ZERO].map(|accept| {
                let returns = |in_turn| CreditReturnDelays { accept, round_trip, in_turn };
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

    /// Returns this link with those of the fault rules that corrupt packets.
    pub fn with_faults(mut self, faults: &[Fault], seed: u64) -> DataLink {
        self.add_faults(&Rule::about(FaultSubject::Packet, faults, seed));
        self
    }

    /// Returns this link with its one-way delay longer by `way`, but with the old round trip of credits. The added path
    /// lies beyond the port that returns them.
    pub fn with_longer_path(mut self, way: Span) -> DataLink {
        self.delivery.one_way += way;
        self
    }

    /// Adds fault rules that corrupt packets from now on.
    pub fn add_faults(&mut self, rules: &[Rule]) {
        for direction in [Direction::Up, Direction::Down] {
            self.whole &= !self.errors[direction as usize].add_faults(direction, rules);
        }
    }

    /// Removes the rule of a packet fault that has ended.
    pub fn remove_fault(&mut self, fault: &Fault) {
        self.errors.iter_mut().for_each(|errors| errors.remove_fault(fault));
    }

    /// Returns a pair for each packet fault rule: the name of its counter and the number of injections so far.
    pub fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        self.errors.iter().flat_map(PacketCorruption::fault_counts).collect()
    }

    /// Stops receivers of packets in `direction` from returning credits before `until`. Credits that had returned by
    /// `now` stay free.
    pub fn starve(&mut self, now: Time, direction: Direction, until: Time) {
        self.credits[direction as usize].iter_mut().for_each(|credits| credits.starve(now, until));
    }

    /// Drops every packet on the wires and in the queues, and makes all credits free, as after a loss of power.
    pub fn clear(&mut self, now: Time) {
        self.wires = [Wire::idle_with_capacity(), Wire::idle_with_capacity()];
        self.wires.iter_mut().for_each(|wire| wire.block(now));
        self.credits.as_flattened_mut().iter_mut().for_each(|credits| credits.restore(now));
        (self.delivery.posted_until, self.delivery.posted_before) = (Time::ZERO, Time::ZERO);
    }

    /// Retrains the link to the width and rate of `config`. The link is down for `outage`; packets on the wire still
    /// arrive. Bursts that have been sent in part keep their old packet times.
    pub fn retrain(&mut self, now: Time, config: &config::Link, outage: Span, bursts: &mut BurstTable) {
        for (used, acknowledging) in self.used.iter_mut().zip(&mut self.acknowledging) {
            used.dllp_bytes += dllp_bytes(std::mem::take(acknowledging), &self.rate);
        }
        self.rate = WireRate::new(config);
        self.measures = BurstMeasureCache::new(config, &self.rate);
        for (wire, used) in self.wires.iter_mut().zip(&mut self.used) {
            used.bytes_per_ns = self.rate.bytes_per_ns();
            wire.block(wire.free_at().max(now) + outage);
            for id in wire.waiting_bursts().filter(|id| bursts[*id].sent == 0).collect::<Vec<_>>() {
                bursts[id].measure = self.measures.measure(&bursts[id].packet);
            }
        }
    }

    /// Returns the time from the last symbol of a packet leaving one end to the packet being usable at the other.
    pub fn one_way(&self) -> Span {
        self.delivery.one_way
    }

    /// Returns the time from the arrival of a packet to its delivery: for a device's write the time to reach memory,
    /// otherwise zero.
    pub fn settle_delay_of(&self, packet: &Packet) -> Span {
        match (packet.direction, packet.kind) {
            (Direction::Up, Kind::MemoryWrite) => self.delivery.settle,
            _ => Span::ZERO,
        }
    }

    /// Returns the shortest time from the start of a posted packet to the return of its credits: wire time `each`,
    /// acceptance by the receiver, and round trip.
    pub fn posted_credit_round_trip(&self, direction: Direction, each: Span) -> Span {
        each + self.accept[direction as usize] + self.round_trip
    }

    /// Returns the time for which the receiver of packets in `direction` is busy with one posted packet.
    pub fn receiver_accept_time(&self, direction: Direction) -> Span {
        self.accept[direction as usize]
    }

    /// Returns the wire time of the ACK and UpdateFC packets that one packet of this kind causes in the other
    /// direction.
    pub fn acknowledgement_time(&self, kind: Kind) -> Span {
        self.measures.acknowledgement_time(kind)
    }

    /// Returns the wire time of one packet from the device of this kind, with `payload_bytes` of user data.
    pub fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.measures.packet_time(kind, payload_bytes)
    }

    /// Returns two wire times of a burst: that of each packet but the last, and that of the last.
    pub fn burst_packet_times(&self, packet: &Packet) -> (Span, Span) {
        let measure = self.measures.compute_burst_measure(packet);
        (measure.each, measure.last)
    }

    /// Returns the wire time of `count` packets of a burst, starting with packet number `first` (counted from 0).
    pub fn partial_burst_time(&self, packet: &Packet, first: u32, count: u32) -> Span {
        let (each, last) = self.burst_packet_times(packet);
        let has_last = first + count == packet.count();
        each * u64::from(count - 1) + if has_last { last } else { each }
    }

    /// Returns the earliest start of a train of posted data at which the train never waits for data. `first_at` is when
    /// the data of the first packet is ready, `last_at` when all data is. The last packet leaves as early as if each
    /// packet left as soon as its data, the wire and its credits allow. If the wire is faster than the credits, packets
    /// in between leave too early by at most one round of credits.
    #[inline]
    pub fn earliest_stream_start(&self, bytes: u32, chunk_bytes: u32, first_at: Time, last_at: Time) -> Time {
        if bytes <= chunk_bytes {
            return first_at.max(last_at);
        }
        let before_last = packets(bytes, chunk_bytes) - 1;
        first_at.max(last_at - self.offset_of_stream_packet(before_last, chunk_bytes.min(bytes)))
    }

    /// Returns the time from the start of a train of posted data to the start of its packet number `packet` (from 0).
    /// All credits are free at the start.
    #[inline(always)]
    pub fn offset_of_stream_packet(&self, packet: u32, chunk_bytes: u32) -> Span {
        let each = self.packet_time(Kind::MemoryWrite, chunk_bytes);
        let window = match self.largest {
            (bytes, window) if bytes == chunk_bytes => window,
            _ => credit_window_packets(self.posted_credits, chunk_bytes),
        };
        if packet < window {
            return each * u64::from(packet);
        }
        let drained = each.max(self.accept[Direction::Up as usize]) * u64::from(window);
        let round = drained.max(self.posted_credit_round_trip(Direction::Up, each));
        round * u64::from(packet / window) + each * u64::from(packet % window)
    }

    /// Returns the bytes and packets that one direction of the link has carried so far, and its busy time.
    pub fn usage(&self, direction: Direction) -> WireUse {
        let dllps = self.acknowledging[direction as usize];
        let used = self.used[direction as usize];
        WireUse { dllp_bytes: used.dllp_bytes + dllp_bytes(dllps, &self.rate), ..used }
    }

    /// Sends a burst from the table of bursts over its wire now, or queues it if the wire is busy or credits are
    /// missing.
    pub fn send_on(&mut self, now: Time, id: BurstId, bursts: &mut BurstTable, scheduler: &mut Scheduler) {
        let flight = &mut bursts[id];
        self.initialise_burst(flight);
        let wire = self.wire_of(flight.packet.direction);
        if !self.wires[wire].idle(now) {
            return self.queue_burst(now, wire, id, bursts, scheduler);
        }
        if !self.send_whole_train(now, wire, id, flight, scheduler) {
            self.start_or_queue_up(now, wire, id, bursts, scheduler);
        }
    }

    /// Sends as many packets of a burst as credits allow over a free wire, or queues the burst if they allow none.
    // Not inlined: credits rarely run out, and few runs simulate single packets.
    #[inline(never)]
    fn start_or_queue_up(
        &mut self,
        now: Time,
        wire: usize,
        id: BurstId,
        bursts: &mut BurstTable,
        scheduler: &mut Scheduler,
    ) {
        match self.sendable_packets(now, &bursts[id]) {
            0 => self.queue_burst(now, wire, id, bursts, scheduler),
            granted => self.start(now, id, granted, bursts, scheduler),
        }
    }

    /// Queues a burst that waits for the wire or for credits. Cuts a train of another class, and sets the timer of the
    /// wire.
    fn queue_burst(&mut self, now: Time, wire: usize, id: BurstId, bursts: &mut BurstTable, scheduler: &mut Scheduler) {
        let queue = bursts[id].queue;
        self.wires[wire].push(queue, id);
        self.cut_train_of_other_class(now, wire, queue, bursts);
        self.schedule_wire_timer(wire, self.wires[wire].free_at().max(now), scheduler);
    }

    /// Handles the timer of a wire: serves its queues if the wire is free.
    #[inline(always)]
    pub fn on_wire(&mut self, now: Time, wire: usize, bursts: &mut BurstTable, scheduler: &mut Scheduler) {
        if !self.wires[wire].is_valid_timer(now) {
            return;
        }
        match self.wires[wire].free_at() {
            free_at if free_at > now => self.schedule_wire_timer(wire, free_at, scheduler),
            _ => self.serve(now, wire, bursts, scheduler),
        }
    }

    /// Handles the arrival event of a burst. Returns the packets that have arrived; `None` if the burst was cut and
    /// arrives later.
    #[inline(always)]
    pub fn on_arrival(
        &mut self,
        now: Time,
        id: BurstId,
        bursts: &mut BurstTable,
        scheduler: &mut Scheduler,
        requests: &mut Requests,
    ) -> Option<Arrival> {
        let flight = &mut bursts[id];
        assert!(flight.arrived < flight.measure.count, "more packets of burst {id} arrive than were sent");
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
        self.count_arrived_packets(arrival, flight);
        if flight.packet.user_data && flight.arrived == flight.measure.count {
            self.charge_data_transfer(now, flight, requests);
        }
        Some(arrival)
    }

    /// Makes the receiver of packets in `direction` hold the posted packets that arrive from `arrived` on until
    /// `until`. Their credits return no earlier.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        let update = self.delivery.one_way + self.dllp;
        let accept = self.accept[direction as usize];
        self.credits[direction as usize][FlowControlClass::Posted as usize]
            .hold(arrived + accept + update, until + accept + update);
    }

    /// Returns when the wire of `direction` will have sent all bursts that are queued for it, if credits do not delay
    /// them.
    pub fn drained_at(&self, now: Time, direction: Direction, bursts: &BurstTable) -> Time {
        let wire = &self.wires[self.wire_of(direction)];
        if !wire.has_waiting_bursts() {
            return wire.free_at().max(now);
        }
        wire.free_at().max(now) + waiting_wire_time(wire, bursts)
    }

    fn wire_of(&self, direction: Direction) -> usize {
        if self.shared { 0 } else { direction as usize }
    }

    /// Initialises a burst that is sent: sets its number, its flow-control class, and its sizes and times on the wire.
    #[inline]
    fn initialise_burst(&mut self, flight: &mut PacketBurst) {
        self.serial += 1;
        flight.serial = self.serial;
        flight.class = credit_class_of(flight.packet.kind);
        flight.queue = if flight.packet.behind_writes { FlowControlClass::Posted } else { flight.class };
        flight.measure = self.measures.measure(&flight.packet);
        (flight.sent, flight.arrived, flight.settled) = (0, 0, 0);
        (flight.arrives_at, flight.first_arrival) = (Time::NEVER, Time::NEVER);
        flight.watched = false;
    }

    #[inline]
    fn schedule_wire_timer(&mut self, wire: usize, at: Time, scheduler: &mut Scheduler) {
        if let Some(at) = self.wires[wire].wake(at) {
            scheduler.at(at, Event::Wire(u8::from(wire != 0)));
        }
    }

    /// Cuts the train on a wire at the next packet boundary, if it is of another class than `class`. Queues the rest of
    /// the train, and gives back its credits.
    fn cut_train_of_other_class(&mut self, now: Time, wire: usize, class: FlowControlClass, bursts: &mut BurstTable) {
        let Some((segment, behind)) = self.wires[wire].cut(now, class) else { return };
        let flight = &mut bursts[segment.packet];
        let direction = flight.packet.direction;
        if flight.sent == flight.measure.count {
            self.wires[wire].push_front(segment.class, segment.packet);
            if flight.class == FlowControlClass::Posted && !flight.packet.relaxed {
                self.delivery.posted_until = self.delivery.posted_before;
            }
        }
        flight.sent -= behind;
        flight.arrives_at = Time::NEVER;
        self.errors[direction as usize].give_back(behind, full_packet_bits(flight));
        let (class, each, data) = (flight.class, flight.measure.each, flight.measure.data_credits);
        if let Some(credits) = self.credits(direction, class) {
            credits.unspend(behind, data, each);
        }
    }

    /// Puts the next segment on a free wire, from the flow-control class whose turn it is and whose credits suffice.
    #[inline(always)]
    fn serve(&mut self, now: Time, wire: usize, bursts: &mut BurstTable, scheduler: &mut Scheduler) {
        match self.wires[wire].sole_waiting_head() {
            Some(id) => {
                if let Err(next_credit) = self.send_class_head(now, wire, id, bursts, scheduler) {
                    self.wait_for_next_credit(wire, next_credit, scheduler);
                }
            }
            None => self.send_from_classes_in_turn(now, wire, bursts, scheduler),
        }
    }

    /// Sends from the queues of a wire for which several classes wait, in round-robin order. Does nothing if no burst
    /// waits.
    // Not inlined: in most cases only one class has waiting bursts.
    #[inline(never)]
    fn send_from_classes_in_turn(
        &mut self,
        now: Time,
        wire: usize,
        bursts: &mut BurstTable,
        scheduler: &mut Scheduler,
    ) {
        let mut next_credit = Time::NEVER;
        for class in self.wires[wire].turns() {
            let Some(id) = self.wires[wire].head(class) else { continue };
            match self.send_class_head(now, wire, id, bursts, scheduler) {
                Ok(()) => return,
                Err(returns_at) => next_credit = next_credit.min(returns_at),
            }
        }
        if self.wires[wire].has_waiting_bursts() {
            self.wait_for_next_credit(wire, next_credit, scheduler);
        }
    }

    /// Sends as many packets of a burst, the first of its class, as credits allow over a free wire.
    ///
    /// # Errors
    /// If credits allow no packet, returns the time at which the next credit returns.
    #[inline(always)]
    fn send_class_head(
        &mut self,
        now: Time,
        wire: usize,
        id: BurstId,
        bursts: &mut BurstTable,
        scheduler: &mut Scheduler,
    ) -> Result<(), Time> {
        let flight = &mut bursts[id];
        let queue = flight.queue;
        // Classes take turns packet by packet. A burst that has no competitor is sent as one train.
        let alone = flight.measure.count == 1 || !self.wires[wire].has_others(queue);
        if alone && self.send_whole_train(now, wire, id, flight, scheduler) {
            self.wires[wire].take(queue);
            self.schedule_next_look(wire, scheduler);
            return Ok(());
        }
        let granted = self.sendable_packets(now, flight);
        if granted > 0 {
            self.wires[wire].take(queue);
            self.start(now, id, granted, bursts, scheduler);
            return Ok(());
        }
        let credits = self
            .credits(flight.packet.direction, flight.class)
            .expect("the packets of a class without credits are never held back");
        Err(credits.next_return_time().unwrap_or(Time::NEVER))
    }

    /// Sets the timer of a wire, whose bursts lack credits, to the return of the next credit.
    #[cold]
    fn wait_for_next_credit(&mut self, wire: usize, next_credit: Time, scheduler: &mut Scheduler) {
        assert!(next_credit != Time::NEVER, "packets wait for credits although none is returning");
        self.schedule_wire_timer(wire, next_credit, scheduler);
    }

    /// Sets the timer of a wire to the time at which it is free, if bursts are queued for it.
    #[inline]
    fn schedule_next_look(&mut self, wire: usize, scheduler: &mut Scheduler) {
        if self.wires[wire].has_waiting_bursts() {
            self.schedule_wire_timer(wire, self.wires[wire].free_at(), scheduler);
        }
    }

    /// Returns how many of the unsent packets of a burst credits allow to go now.
    #[inline]
    fn sendable_packets(&mut self, now: Time, flight: &PacketBurst) -> u32 {
        let left = flight.measure.count - flight.sent;
        match self.credits(flight.packet.direction, flight.class) {
            Some(credits) => credits.sendable(now, left, flight.measure.data_credits, flight.measure.each),
            None => left,
        }
    }

    /// Sends all remaining packets of a burst as one train over a free wire: the path of nearly every burst. Returns
    /// false if credits do not suffice, or if packet granularity, bit errors or packet faults forbid trains.
    // Inlined at both call sites, which hold the values that it reads in registers.
    #[inline(always)]
    fn send_whole_train(
        &mut self,
        now: Time,
        wire: usize,
        id: BurstId,
        flight: &mut PacketBurst,
        scheduler: &mut Scheduler,
    ) -> bool {
        let DataLink { delivery, credits, wires, whole, .. } = self;
        let wire = &mut wires[wire];
        let (packet, measure) = (&flight.packet, &flight.measure);
        let count = measure.count - flight.sent;
        let mut credits = credits[packet.direction as usize].get_mut(flight.class as usize);
        let allow = |credits: &mut &mut Credits| credits.allow(now, count, measure.data_credits);
        if !*whole || !credits.as_mut().is_none_or(allow) {
            return false;
        }
        let started = wire.start_time(now);
        let mut end = started + measure.whole.time;
        if flight.sent == 0 {
            (flight.started, flight.posted_until) = (started, delivery.posted_until);
        } else {
            end = end - measure.each * u64::from(flight.sent);
        }
        flight.sent = measure.count;
        flight.arrives_at = delivery.delivery_time(packet, end);
        if let Some(credits) = credits {
            credits.spend(count, measure.data_credits, started, measure.each);
        }
        match count {
            1 => wire.occupy_single(flight.queue, end),
            _ => wire.occupy(WireSegment { packet: id, class: flight.queue, count, each: measure.each, started, end }),
        }
        if !std::mem::replace(&mut flight.watched, true) {
            scheduler.at(flight.arrives_at, Event::Arrive(id));
        }
        true
    }

    /// Sends up to `granted` packets of a burst as one segment over a free wire: one if another class waits, fewer if a
    /// packet is corrupted.
    fn start(&mut self, now: Time, id: BurstId, granted: u32, bursts: &mut BurstTable, scheduler: &mut Scheduler) {
        let flight = &mut bursts[id];
        let wire = self.wire_of(flight.packet.direction);
        // Classes take turns packet by packet. A burst that has no competitor is sent as one train.
        let limit = if self.per_packet || self.wires[wire].has_others(flight.queue) { 1 } else { granted };
        let (direction, class, queue, each) =
            (flight.packet.direction, flight.class, flight.queue, flight.measure.each);
        let (count, corrupted) =
            self.errors[direction as usize].intact_packet_count(now, limit, full_packet_bits(flight));
        let started = self.wires[wire].start_time(now);
        let ends_burst = flight.sent + count == flight.measure.count;
        let end = match ends_burst {
            true => started + each * u64::from(count - 1) + flight.measure.last,
            false => started + each * u64::from(count),
        };
        if flight.sent == 0 {
            (flight.started, flight.posted_until) = (started, self.delivery.posted_until);
        }
        flight.sent += count;
        let data = flight.measure.data_credits;
        if self.per_packet || ends_burst {
            let arrives_at = self.delivery.delivery_time(&flight.packet, end);
            flight.arrives_at = arrives_at;
            if !flight.watched && count > 0 {
                flight.watched = !self.per_packet;
                scheduler.at(arrives_at, Event::Arrive(id));
            }
        }
        if let Some(credits) = self.credits(direction, class).filter(|_| count > 0) {
            credits.spend_returning_credits(count, data, started, each);
        }
        self.wires[wire].occupy(WireSegment { packet: id, class: queue, count, each, started, end });
        if !ends_burst {
            self.wires[wire].push_front(queue, id);
        }
        if corrupted {
            self.replay(wire, direction, end, each);
        }
        self.schedule_next_look(wire, scheduler);
    }

    /// Blocks the wire after a corrupted packet that leaves at `from`: everything sent until its NAK is back is
    /// discarded (section 3.6.2.1).
    #[cold]
    fn replay(&mut self, wire: usize, direction: Direction, from: Time, each: Span) {
        let lost = each + self.round_trip;
        self.used[direction as usize].replays += lost.as_ps().div_ceil(each.as_ps().max(1));
        self.wires[wire].block(from + lost);
    }

    #[inline]
    fn credits(&mut self, direction: Direction, class: FlowControlClass) -> Option<&mut Credits> {
        self.credits[direction as usize].get_mut(class as usize)
    }

    /// Adds packets that have arrived to the counters of their direction, and their ACK and UpdateFC packets to the
    /// opposite wire.
    #[inline]
    fn count_arrived_packets(&mut self, arrival: Arrival, flight: &PacketBurst) {
        let PacketBurst { packet, measure, .. } = flight;
        match arrival.count == measure.count {
            true => self.count(packet, arrival.count, &measure.whole),
            false => self.count_single_packet(arrival, flight),
        }
    }

    /// Adds one arrived packet to the counters of its direction, where the packets of a burst arrive one by one.
    #[inline(never)]
    fn count_single_packet(&mut self, arrival: Arrival, flight: &PacketBurst) {
        let is_last = arrival.first + arrival.count == flight.measure.count;
        self.count(&flight.packet, arrival.count, &flight.measure.packet_load(is_last));
    }

    #[inline(always)]
    fn count(&mut self, packet: &Packet, packets: u32, load: &WireLoad) {
        let opposite = packet.direction.opposite();
        let wire = self.wire_of(opposite);
        self.wires[wire].add_ack_time(load.owed);
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

    /// Charges the transfer of user data that has arrived to its request: waiting (or the host's read), then wire time,
    /// then propagation.
    #[inline(always)]
    fn charge_data_transfer(&self, now: Time, flight: &PacketBurst, requests: &mut Requests) {
        let Some(request) = flight.packet.request else { return };
        let wire_time = flight.wire_time();
        let ledger = &mut requests[request].ledger;
        let before = if flight.packet.kind == Kind::Completion { Stage::HostRead } else { Stage::LinkWait };
        let arrived = now - self.settle_delay_of(&flight.packet);
        ledger.until(before, arrived - self.delivery.one_way - wire_time);
        ledger.spend(Stage::Transfer, wire_time);
        ledger.until(Stage::Propagation, arrived);
    }
}

/// Returns the wire time of all packets that wait for a wire.
#[inline(never)]
fn waiting_wire_time(wire: &Wire, bursts: &BurstTable) -> Span {
    wire.waiting_bursts().map(|id| bursts[id].time_left()).sum()
}

/// Returns the number of packets of posted data, with `chunk_bytes` each, for which these header and data credits
/// suffice at once.
fn credit_window_packets((headers, data): (u32, u32), chunk_bytes: u32) -> u32 {
    headers.min(data / data_credits(chunk_bytes).max(1)).max(1)
}

/// Returns the number of bytes of ACK and UpdateFC packets that take the time `acknowledging` on the wire.
fn dllp_bytes(acknowledging: Span, rate: &WireRate) -> u64 {
    whole((acknowledging.as_ns() * rate.bytes_per_ns()).round())
}

/// Returns the size in bits of one full packet of a burst, with header and framing.
fn full_packet_bits(flight: &PacketBurst) -> u64 {
    u64::from(flight.measure.payload_each + flight.measure.header) * 8
}

fn credit_class_of(kind: Kind) -> FlowControlClass {
    match kind {
        Kind::MemoryWrite => FlowControlClass::Posted,
        Kind::MemoryRead => FlowControlClass::NonPosted,
        Kind::Completion => FlowControlClass::Completion,
    }
}
