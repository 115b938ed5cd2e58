//! Switches between the links of several drives and the root ports: arbitration for the uplinks that drives share.
//!
//! If a peer device is attached to the switch, data in the peer's memory goes through the peer's port, which all drives
//! share too.
//!
//! Hosts that share one device use the same model upside down: hosts take the place of the drives, and the link of the
//! device that of the uplink. In this file alone, "up" then means from a host to the device.
//!
//! Guarantees to callers: every packet takes uplink time with its header; the packets of each drive stay in order;
//! drives that have packets to send take turns. Packets are cut through where possible. From a slower link, the end of
//! a packet leaves as it arrives; from a faster one, its beginning does.
//!
//! A burst is known here when its last packet has arrived; its earlier packets may have left by then. An uplink
//! therefore records up to when its time is used, which may be an instant in the past. A burst may use uplink time that
//! was idle since its own beginning. Packets that find the uplink busy wait in a queue of their drive. Queues take
//! turns packet by packet, and a train that has the uplink to itself is cut when another drive has packets. No queue
//! reserves uplink time in advance.

use std::collections::VecDeque;

use super::Arrival;
use super::measure::BurstMeasureCache;
use super::rate::WireRate;
use crate::config::{self, LinkEventGranularity};
use crate::number::{index, length, low_u16, low_u32, real};
use crate::scheduler::{Event, Scheduler};
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet};

/// Packets of one burst that have arrived at a switch from a drive, or that are about to leave the root port for the
/// switch.
#[derive(Clone, Copy, Debug)]
pub struct SwitchArrival {
    /// Number of the drive, or of the host where hosts share a device, counted from 0.
    pub drive: u16,
    /// Packets of one burst, which pass the switch together.
    pub packets: Arrival,
    /// Direction of the packets: up to the root port (or to the device that hosts share), or down to a drive (or to a
    /// host).
    pub direction: Direction,
    /// Wire time of the packets on the link between the switch and the drive (or host).
    pub beside: Span,
}

/// Packets of one burst on their way through a switch.
#[derive(Clone, Copy, Debug)]
struct PassingPackets {
    coming: SwitchArrival,
    way: usize,
    /// Number of packets that have not left the switch yet. `each` is the uplink time of each but the last, `last` that
    /// of the last.
    left: u32,
    each: Span,
    last: Span,
    /// Time by which the last packet keeps the uplink longer than its wire time, because the far end accepts it slowly.
    beyond_wire: Span,
    /// Time at which the last packet leaves the switch; `there_at` is when it reaches the far end. `Time::NEVER` until
    /// they are known.
    left_at: Time,
    there_at: Time,
}

/// Packets that have passed a switch and are at the far end: the root port, or the port of their drive.
#[derive(Clone, Copy, Debug)]
pub struct SwitchDeparture {
    /// Packets as they arrived at the switch.
    pub coming: SwitchArrival,
    /// Time at which the last packet had finished its wait for the uplink; the switch's own delay comes after it.
    pub left_at: Time,
}

/// One direction of a shared link at a switch (an uplink, or the link of a peer), with its queues and timer.
#[derive(Clone, Debug)]
struct SharedSwitchLink {
    direction: Direction,
    /// Queues of the bursts that wait for this link, one per drive. `waiting` is the number of these bursts, `queued`
    /// their wire time.
    queues: Vec<VecDeque<u32>>,
    waiting: usize,
    queued: Span,
    /// Train on the wire, for as long as it might be cut.
    sending: Option<Train>,
    /// Time up to which the wire is in use.
    used_until: Time,
    wake_at: Option<Time>,
    /// Drive whose packets were sent last.
    last: usize,
    /// Wire time of ACK and flow-control packets that have not found a gap on the link yet.
    owed: Span,
    busy: Span,
}

/// Packets of one burst that go over a shared link back to back.
#[derive(Clone, Copy, Debug)]
struct Train {
    passing: u32,
    count: u32,
    each: Span,
    started: Time,
    end: Time,
}

/// All switches of a machine, with the packets on their way through them.
#[derive(Clone, Debug)]
pub struct Switches {
    /// Shared links, two entries (up, down) for each switch. The last two are the link of the peer device (such as a
    /// GPU), if any.
    ways: Vec<SharedSwitchLink>,
    passing: Table<PassingPackets>,
    uplink: SwitchPort,
    /// Peer device at the switch, and the data that its memory holds; `peer` is its port.
    holds: config::Peer,
    peer: SwitchPort,
    /// Upstream packets of each drive, kept in order where they leave by different links.
    in_order: Vec<OrderedUpstream>,
    /// Number of drives behind each switch.
    sharing: u16,
    pass: Span,
    per_packet: bool,
}

/// Upstream packets of one drive, which leave the switch in order although they take different links.
#[derive(Clone, Debug, Default)]
struct OrderedUpstream {
    /// Packets that may not have left the switch yet, as indices into the table of passing packets.
    passing: Vec<u32>,
    /// Packets that wait until earlier ones of the drive have left by the other link.
    held: VecDeque<(SwitchArrival, Packet)>,
}

/// Port of a switch, with the wire times of packets on its link.
#[derive(Clone, Debug)]
struct SwitchPort {
    measures: BurstMeasureCache,
    /// Time for which the far end of the port's link is busy with one posted packet.
    accept: Span,
}

impl Switches {
    /// Creates the switches that `config` describes for `drives` drives, with the peer device (such as a GPU) attached
    /// to them; `None` without a switch. A root port accepts one posted packet every `accept`; a peer accepts them
    /// without delay.
    pub fn of(
        config: &config::Switch,
        peer: &config::Peer,
        link: &config::Link,
        accept: Span,
        drives: u16,
    ) -> Option<Switches> {
        if config.has_hosts() {
            return Some(Switches::of_shared_device(config, link));
        }
        let sharing = config.drives_per_uplink(drives);
        let switches = || Switches {
            ways: (0..2 * (drives.div_ceil(sharing) + 1)).map(|place| SharedSwitchLink::new(place, sharing)).collect(),
            passing: Table::default(),
            uplink: SwitchPort::new(&config.uplink(link), accept),
            holds: peer.clone(),
            peer: SwitchPort::new(&peer.port(link), Span::ZERO),
            in_order: vec![OrderedUpstream::default(); drives.into()],
            sharing,
            pass: config.pass,
            per_packet: link.granularity == LinkEventGranularity::Packet,
        };
        config.is_there().then(switches)
    }

    /// Creates the switch of hosts that share one device, whose link is as `link`.
    fn of_shared_device(config: &config::Switch, link: &config::Link) -> Switches {
        let hosts = config.host_count();
        Switches {
            ways: (0..4).map(|place| SharedSwitchLink::new(place, hosts)).collect(),
            passing: Table::default(),
            uplink: SwitchPort::new(link, Span::ZERO),
            holds: config::Peer::default(),
            peer: SwitchPort::new(link, Span::ZERO),
            in_order: vec![OrderedUpstream::default(); hosts.into()],
            sharing: hosts,
            pass: config.pass,
            per_packet: link.granularity == LinkEventGranularity::Packet,
        }
    }

    /// Takes packets of a burst that have arrived at the switch. If they are posted and have to queue, returns until
    /// when their drive misses their credits: until everything queued before them, and they themselves, have left.
    pub fn enter(
        &mut self,
        now: Time,
        coming: SwitchArrival,
        packet: &Packet,
        scheduler: &mut Scheduler,
    ) -> Option<Time> {
        if self.must_wait_for_earlier_packets(now, coming, packet, scheduler) {
            self.in_order[usize::from(coming.drive)].held.push_back((coming, *packet));
            return None;
        }
        self.start(now, coming, packet, scheduler)
    }

    /// Sends packets over their shared link, or queues them if it is busy. Returns until when the sender misses the
    /// credits of posted packets that are queued.
    fn start(&mut self, now: Time, coming: SwitchArrival, packet: &Packet, scheduler: &mut Scheduler) -> Option<Time> {
        let id = self.add_arrival(coming, packet);
        let way = self.passing[index(id)].way;
        if self.ways[way].is_free(now) {
            self.send_over_shared_link(now, id, scheduler);
            return None;
        }
        self.queue_for_shared_link(now, id, scheduler);
        is_posted_up(coming.direction, packet).then(|| self.ways[way].link_drained_at(now))
    }

    /// Handles an event of the switches. Returns packets that have reached the far end now, if any.
    pub fn on_event(&mut self, now: Time, event: Event, scheduler: &mut Scheduler) -> Option<SwitchDeparture> {
        match event {
            Event::Wire(way) => self.on_wire(now, way.into(), scheduler),
            Event::Recheck(drive) => self.release(now, low_u16(drive), scheduler),
            Event::Arrive(id) => return self.finish_passing(now, id),
            other => unreachable!("{other:?} happens elsewhere"),
        }
        None
    }

    /// Returns the mean utilisation of the uplinks in one direction up to `now`, from 0 to 1.
    pub fn busy_share(&self, now: Time, direction: Direction) -> f64 {
        let uplinks = self.ways.len() - 2;
        let ways = self.ways[..uplinks].iter().filter(|way| way.direction == direction);
        let busy: Span = ways.clone().map(|way| way.busy).sum();
        let all = now.since(Time::ZERO) * length(ways.count());
        if all.is_zero() { 0.0 } else { real(busy.as_ps()) / real(all.as_ps()) }
    }

    /// True if packets of a drive leave the switch by different links: some to the peer device (such as a GPU), the
    /// others by the uplink to the host.
    fn has_several_ways(&self) -> bool {
        self.holds.has(true) != self.holds.has(false)
    }

    /// True if packets must wait until earlier ones of the same drive have left by another link, so that a completion
    /// does not overtake its data. Schedules a later check if the time is known.
    fn must_wait_for_earlier_packets(
        &mut self,
        now: Time,
        coming: SwitchArrival,
        packet: &Packet,
        scheduler: &mut Scheduler,
    ) -> bool {
        if coming.direction == Direction::Down || !self.has_several_ways() {
            return false;
        }
        let [way, _] = self.shared_links_of_drive(coming.drive, self.holds.has(packet.user_data));
        let OrderedUpstream { passing, held } = &mut self.in_order[usize::from(coming.drive)];
        passing.retain(|id| self.passing[index(*id)].left_at > now);
        let others = passing.iter().map(|id| self.passing[index(*id)]).filter(|other| other.way != way);
        let left_at = others.map(|other| other.left_at).max();
        if let Some(at) = left_at.filter(|at| *at != Time::NEVER) {
            scheduler.at(at, Event::Recheck(coming.drive.into()));
        }
        left_at.is_some() || !held.is_empty()
    }

    /// Sends the packets of a drive that waited for earlier ones to leave by another link.
    fn release(&mut self, now: Time, drive: u16, scheduler: &mut Scheduler) {
        let mut held = std::mem::take(&mut self.in_order[usize::from(drive)].held);
        while let Some((coming, packet)) = held.front().copied()
            && !self.must_wait_for_earlier_packets(now, coming, &packet, scheduler)
        {
            held.pop_front();
            self.start(now, coming, &packet, scheduler);
        }
        self.in_order[usize::from(drive)].held = held;
    }

    /// Returns the indices (up, down) of the shared link that a drive's packets take: the peer device's link, or the
    /// drive's uplink to the host.
    fn shared_links_of_drive(&self, drive: u16, to_peer: bool) -> [usize; 2] {
        let up = if to_peer { self.ways.len() - 2 } else { usize::from(drive / self.sharing) * 2 };
        [up, up + 1]
    }

    fn add_arrival(&mut self, coming: SwitchArrival, packet: &Packet) -> u32 {
        let to_peer = self.holds.has(packet.user_data);
        let ways = self.shared_links_of_drive(coming.drive, to_peer);
        let port = if to_peer { &mut self.peer } else { &mut self.uplink };
        let measure = port.measures.compute_burst_measure(packet);
        let Arrival { first, count, .. } = coming.packets;
        let has_last = first + count == measure.count;
        let last_on_wire = if has_last { measure.last } else { measure.each };
        let kept = |on_wire| port.link_occupancy(coming.direction, packet, on_wire);
        let (each, last) = (kept(measure.each), kept(last_on_wire));
        self.ways[ways[coming.direction.opposite() as usize]].owed +=
            measure.whole.owed / u64::from(measure.count) * u64::from(count);
        let id = self.passing.insert(PassingPackets {
            coming,
            way: ways[coming.direction as usize],
            left: count,
            each,
            last,
            beyond_wire: last - last_on_wire,
            left_at: Time::NEVER,
            there_at: Time::NEVER,
        });
        if coming.direction == Direction::Up && self.has_several_ways() {
            self.in_order[usize::from(coming.drive)].passing.push(id);
        }
        id
    }

    /// Sends packets over a shared link that is free. Packets that arrived before the last one take link time that was
    /// idle in the past.
    fn send_over_shared_link(&mut self, now: Time, id: u32, scheduler: &mut Scheduler) {
        let passing = &mut self.passing[index(id)];
        let way = &mut self.ways[passing.way];
        let came_from = match passing.coming.direction {
            Direction::Up => now - passing.coming.beside,
            Direction::Down => now,
        };
        let started = way.link_start_time(came_from);
        let count = std::mem::take(&mut passing.left);
        way.send(id, count, passing, started, now);
        self.schedule_switch_departure(now, id, started, scheduler);
    }

    /// Queues packets for their shared link, cuts the train of another drive on it, and sets its timer.
    fn queue_for_shared_link(&mut self, now: Time, id: u32, scheduler: &mut Scheduler) {
        let passing = self.passing[index(id)];
        let place = self.ways[passing.way].queue_of_passing(&passing);
        self.cut_train_of_other_drive(now, passing.way, place);
        let way = &mut self.ways[passing.way];
        way.queues[place].push_back(id);
        way.waiting += 1;
        way.queued += passing.time_left();
        let at = way.used_until.max(now);
        self.wake(passing.way, at, scheduler);
    }

    /// Cuts the train on a shared link at the next packet boundary for another drive, and queues the rest of the train
    /// again.
    fn cut_train_of_other_drive(&mut self, now: Time, way: usize, place: usize) {
        let Some(train) = self.ways[way].sending.filter(|train| train.end > now) else { return };
        let passing = &mut self.passing[index(train.passing)];
        let own_place = self.ways[way].queue_of_passing(passing);
        let gone = now.since(train.started).as_ps() / train.each.as_ps().max(1) + 1;
        if own_place == place || gone >= u64::from(train.count) {
            return;
        }
        let behind = train.count - low_u32(gone);
        (passing.left, passing.left_at, passing.there_at) = (behind, Time::NEVER, Time::NEVER);
        let way = &mut self.ways[way];
        way.sending = None;
        let until = train.started + train.each * gone;
        way.busy -= way.used_until.since(until);
        way.used_until = until;
        way.queues[own_place].push_front(train.passing);
        way.waiting += 1;
        way.queued += passing.time_left();
    }

    /// Handles the timer of a shared link: serves its queues if the link is free.
    fn on_wire(&mut self, now: Time, place: usize, scheduler: &mut Scheduler) {
        let way = &mut self.ways[place];
        if way.wake_at != Some(now) {
            return;
        }
        way.wake_at = None;
        match way.used_until {
            until if until > now => self.wake(place, until, scheduler),
            _ => self.serve(now, place, scheduler),
        }
    }

    /// Sends the next packet of the drive whose turn it is, or the rest of its burst if no other drive waits.
    fn serve(&mut self, now: Time, place: usize, scheduler: &mut Scheduler) {
        let way = &mut self.ways[place];
        let Some(drive) = way.next_drive_in_turn() else { return };
        let id = way.queues[drive].pop_front().expect("it has something to send");
        let is_alone = way.queues[drive].len() + 1 == way.waiting;
        let passing = &mut self.passing[index(id)];
        way.waiting -= 1;
        way.queued -= passing.time_left();
        let count = if is_alone && !self.per_packet { passing.left } else { 1 };
        passing.left -= count;
        let started = way.link_start_time(now);
        way.send(id, count, passing, started, now);
        match passing.left {
            0 => self.schedule_switch_departure(now, id, started, scheduler),
            _ => {
                way.queues[drive].push_front(id);
                way.waiting += 1;
                way.queued += passing.time_left();
            }
        }
        let way = &self.ways[place];
        if way.waiting > 0 {
            self.wake(place, way.used_until, scheduler);
        }
    }

    /// Computes when the last packets of a burst, which are now on the shared link, reach its far end. Schedules that
    /// arrival.
    fn schedule_switch_departure(&mut self, now: Time, id: u32, started: Time, scheduler: &mut Scheduler) {
        let passing = &mut self.passing[index(id)];
        let end = (self.ways[passing.way].used_until - passing.beyond_wire).max(now);
        let passed = match passing.coming.direction {
            Direction::Up => end,
            // Downstream packets leave while the rest of the train still arrives, but the first one only once the wire
            // to the drive can be used without a gap.
            Direction::Down => started.max(end - passing.coming.beside).max(now),
        };
        (passing.left_at, passing.there_at) = (passed, passed + self.pass);
        let (drive, there_at) = (passing.coming.drive, passing.there_at);
        // Schedule the arrival before other events of the same instant, because bursts that leave later must arrive
        // after this one.
        scheduler.at(there_at, Event::Arrive(id));
        if !self.in_order[usize::from(drive)].held.is_empty() {
            scheduler.at(passed, Event::Recheck(drive.into()));
        }
    }

    fn finish_passing(&mut self, now: Time, id: u32) -> Option<SwitchDeparture> {
        let passing = &mut self.passing[index(id)];
        // The train has been cut since this event was scheduled, or its table entry now holds another burst.
        if passing.there_at != now {
            return None;
        }
        passing.there_at = Time::NEVER;
        let PassingPackets { coming, left_at, way, .. } = *passing;
        self.passing.vacate(id);
        if self.has_several_ways() {
            self.in_order[usize::from(coming.drive)].passing.retain(|passing| *passing != id);
        }
        // The drive's wire has taken over this train, so it can no longer be cut.
        self.ways[way].sending = self.ways[way].sending.filter(|train| train.passing != id);
        Some(SwitchDeparture { coming, left_at })
    }

    fn wake(&mut self, place: usize, at: Time, scheduler: &mut Scheduler) {
        let way = &mut self.ways[place];
        if way.wake_at.is_none_or(|set| set > at) {
            way.wake_at = Some(at);
            scheduler.at(at, Event::Wire(place as u8));
        }
    }
}

impl SwitchPort {
    fn new(link: &config::Link, accept: Span) -> SwitchPort {
        SwitchPort { measures: BurstMeasureCache::new(link, &WireRate::new(link)), accept }
    }

    /// Returns how long a packet keeps the link: its wire time, or the far end's time to accept a posted packet if that
    /// is longer. Credits hold back the packets behind it.
    fn link_occupancy(&self, direction: Direction, packet: &Packet, on_wire: Span) -> Span {
        if is_posted_up(direction, packet) { on_wire.max(self.accept) } else { on_wire }
    }
}

/// True for a posted write towards the root complex, whose credits a drive (or a host) may run short of.
fn is_posted_up(direction: Direction, packet: &Packet) -> bool {
    direction == Direction::Up && packet.kind == Kind::MemoryWrite
}

impl PassingPackets {
    fn time_left(&self) -> Span {
        match self.left {
            0 => Span::ZERO,
            left => self.each * u64::from(left - 1) + self.last,
        }
    }
}

impl SharedSwitchLink {
    fn new(place: u16, sharing: u16) -> SharedSwitchLink {
        SharedSwitchLink {
            direction: if place.is_multiple_of(2) { Direction::Up } else { Direction::Down },
            queues: vec![VecDeque::new(); sharing.into()],
            waiting: 0,
            queued: Span::ZERO,
            sending: None,
            used_until: Time::ZERO,
            wake_at: None,
            last: 0,
            owed: Span::ZERO,
            busy: Span::ZERO,
        }
    }

    fn is_free(&self, now: Time) -> bool {
        self.waiting == 0 && self.used_until <= now
    }

    /// Returns when everything that is queued for this link will have left, if nothing else arrives.
    fn link_drained_at(&self, now: Time) -> Time {
        self.used_until.max(now) + self.queued
    }

    /// Returns when packets that are ready at `ready` can start on this link: ACK and flow-control packets that found
    /// no gap go first.
    fn link_start_time(&mut self, ready: Time) -> Time {
        let gap = ready.since(self.used_until);
        let owed = std::mem::take(&mut self.owed).saturating_sub(gap);
        self.used_until.max(ready) + owed
    }

    /// Puts `count` packets of a burst on this link from `started` on. The caller has subtracted them from the packets
    /// left.
    fn send(&mut self, id: u32, count: u32, of: &PassingPackets, started: Time, now: Time) {
        let last = if of.left == 0 { of.last } else { of.each };
        let end = started + of.each * u64::from(count - 1) + last;
        let train = Train { passing: id, count, each: of.each, started, end };
        self.sending = (count > 1 && end > now).then_some(train);
        self.busy += end.since(started);
        self.used_until = end;
        self.last = self.queue_of_passing(of);
    }

    fn queue_of_passing(&self, of: &PassingPackets) -> usize {
        usize::from(of.coming.drive) % self.queues.len()
    }

    /// Returns the next drive, in round-robin order after the one served last, that has packets queued; `None` if none
    /// has.
    fn next_drive_in_turn(&self) -> Option<usize> {
        let drives = self.queues.len();
        (1..=drives).map(|step| (self.last + step) % drives).find(|drive| !self.queues[*drive].is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlp::Token;

    const PASS_NS: u64 = 100;

    /// Switches with a scheduler of their own, for tests.
    struct ClockedSwitches {
        switches: Switches,
        scheduler: Scheduler,
    }

    /// Returns switches for two drives, with links of 4 B/ns and uplinks of `lanes` lanes at 1 B/ns, without skip
    /// ordered sets and DLLPs.
    fn switches(lanes: u8, per_packet: bool, accept: Span) -> ClockedSwitches {
        switches_with(&config::Peer::default(), lanes, per_packet, accept)
    }

    fn switches_with(peer: &config::Peer, lanes: u8, per_packet: bool, accept: Span) -> ClockedSwitches {
        let granularity = if per_packet { LinkEventGranularity::Packet } else { LinkEventGranularity::Train };
        let link = config::Link {
            generation: 1,
            lanes,
            skip_ordered_sets: false,
            dllps: false,
            granularity,
            ..config::Link::default()
        };
        let pass = Span::from_ns(PASS_NS);
        let config = config::Switch { drives: 2, generation: 1, lanes, pass, ..config::Switch::default() };
        let switches = Switches::of(&config, peer, &link, accept, 2).expect("there is one");
        ClockedSwitches { switches, scheduler: Scheduler::default() }
    }

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// Returns a write of `packets` packets of 128 bytes, 152 bytes each on the wire.
    fn write(packets: u32) -> Packet {
        Packet::write(Direction::Up, 0, 128 * packets, 128, Token::default())
    }

    /// Lets packets of a drive reach the switch at `now` ns, after `beside` ns on the drive's link. Returns until when
    /// the drive misses their credits.
    fn receive_from_drive(
        clocked: &mut ClockedSwitches,
        now: u64,
        drive: u16,
        packets: u32,
        beside: u64,
    ) -> Option<Time> {
        let arrival = Arrival { packet: drive.into(), first: 0, count: packets };
        let coming = SwitchArrival { drive, packets: arrival, direction: Direction::Up, beside: Span::from_ns(beside) };
        clocked.scheduler.advance(at(now));
        clocked.switches.enter(at(now), coming, &write(packets), &mut clocked.scheduler)
    }

    /// Runs the switches until no event is left. Returns the drive of each burst that passed, and its time in ns
    /// without the switch's delay.
    fn passed(clocked: &mut ClockedSwitches) -> Vec<(u16, u64)> {
        let mut all = Vec::new();
        while clocked.scheduler.is_due(Time::NEVER) {
            let (now, event) = clocked.scheduler.take();
            if let Some(passed) = clocked.switches.on_event(now, event, &mut clocked.scheduler) {
                all.push((passed.coming.drive, now.since(Time::ZERO).as_ps() / 1000 - PASS_NS));
            }
        }
        all
    }

    #[test]
    fn packet_passes_at_the_slower_of_its_wire_and_the_uplink() {
        // Eight packets at 76 ns each on eight lanes of 0.25 bytes/ns.
        for (beside, left_at) in [(800, 1000), (608, 1000), (200, 1000 - 200 + 608)] {
            let mut switches = switches(8, false, Span::ZERO);
            assert_eq!(receive_from_drive(&mut switches, 1000, 0, 8, beside), None);
            assert_eq!(passed(&mut switches), [(0, left_at)], "{beside} ns on the link");
        }
    }

    #[test]
    fn simultaneous_trains_share_the_uplink_without_overlap() {
        let mut switches = switches(8, false, Span::ZERO);
        // Both trains arrive from 392 to 1000 ns and need 608 ns of the shared uplink, so the second waits for the
        // first.
        receive_from_drive(&mut switches, 1000, 0, 8, 608);
        receive_from_drive(&mut switches, 1000, 1, 8, 608);
        assert_eq!(passed(&mut switches), [(0, 1000), (1, 1608)]);
        assert_eq!(switches.switches.busy_share(at(1216), Direction::Up), 1.0);
    }

    #[test]
    fn drives_take_turns_by_packet_on_the_uplink() {
        let mut switches = switches(8, false, Span::ZERO);
        // The drive's own link takes no time here, so the uplink needs all its 608 ns after the arrival.
        receive_from_drive(&mut switches, 0, 0, 8, 0);
        receive_from_drive(&mut switches, 0, 0, 8, 0);
        receive_from_drive(&mut switches, 100, 1, 1, 0);
        // At 100 ns, the second packet is on the uplink, which it occupies until 152 ns.
        assert_eq!(passed(&mut switches), [(1, 228), (0, 684), (0, 1292)]);
    }

    #[test]
    fn turns_are_equal_packet_by_packet() {
        let [trains, packets] = [false, true].map(|per_packet| {
            let mut switches = switches(8, per_packet, Span::ZERO);
            receive_from_drive(&mut switches, 0, 1, 1, 0);
            receive_from_drive(&mut switches, 10, 0, 8, 0);
            receive_from_drive(&mut switches, 20, 1, 4, 0);
            passed(&mut switches)
        });
        assert_eq!(trains, packets);
        // The first packet of drive 1 goes alone. Then drives 0 and 1 alternate, so the fourth packet of drive 1 is the
        // ninth in total.
        assert_eq!(trains, [(1, 76), (1, 76 * 9), (0, 76 * 13)]);
    }

    #[test]
    fn slow_root_port_delays_the_next_packet() {
        let mut switches = switches(8, false, Span::from_ns(100));
        receive_from_drive(&mut switches, 1000, 0, 1, 76);
        receive_from_drive(&mut switches, 1000, 1, 1, 76);
        assert_eq!(passed(&mut switches), [(0, 1000), (1, 1024 + 76)]);
    }

    #[test]
    fn packets_of_a_drive_leave_in_order_across_ports() {
        let peer = config::Peer {
            holds: config::PeerMemoryContents::Data,
            lanes: 8,
            generation: 1,
            ..config::Peer::default()
        };
        let mut switches = switches_with(&peer, 8, false, Span::ZERO);
        let data = write(8).user_data(0, None);
        for (drive, packet, count) in [(0, data, 8), (1, data, 8), (1, write(1), 1), (0, write(1), 1)] {
            let packets = Arrival { packet: count, first: 0, count };
            let coming = SwitchArrival { drive, packets, direction: Direction::Up, beside: Span::ZERO };
            switches.switches.enter(at(0), coming, &packet, &mut switches.scheduler);
        }
        let left = passed(&mut switches);
        let of = |drive| left.iter().filter(|(of, _)| *of == drive).map(|(_, at)| *at).collect::<Vec<_>>();
        // The data packets of both drives alternate on the port of the peer, so the last one of drive 0 is number 15.
        // The uplink to the host stays free.
        assert_eq!((of(0), of(1)), (vec![76 * 15, 76 * 16], vec![76 * 16, 76 * 17]));
    }

    #[test]
    fn drive_lacks_credits_until_its_queued_packets_have_left() {
        let mut switches = switches(8, false, Span::ZERO);
        assert_eq!(receive_from_drive(&mut switches, 0, 0, 8, 0), None);
        assert_eq!(receive_from_drive(&mut switches, 50, 1, 2, 0), Some(at(608 + 152)));
    }
}
