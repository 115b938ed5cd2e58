//! Way of packets through the network: DMA of both NICs, links, and the port of a switch.
//!
//! ```text
//!   memory ─ DMA ─ NIC ══ link ══ switch ─ port ══ link ══ NIC ─ DMA ─ memory
//! ```
//!
//! Each of the four is a server of packets in order. A message's packets pass from one to the next as they are ready
//! (cut-through between packets, store and forward of each packet).

use super::pdu::{Packets, TransportFraming};
use crate::drive::Drive;
use crate::link::overhead::PacketOverhead;
use crate::link::rate::WireRate;
use crate::link::root_complex::RootComplex;
use crate::number::whole;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind};

/// Direction of a message in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkDirection {
    /// From an initiator to the target.
    ToTarget,
    /// From the target to an initiator.
    ToInitiator,
}

/// Server that passes packets in the order in which messages come: a link, a port or a DMA path.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    free_at: Time,
    busy: Span,
}

/// Packets of a message between two servers: the instants at which the first, the last but one and the last are ready for the
/// next server. All but the last have equal lengths, so that these three follow from those before.
#[derive(Clone, Copy, Debug)]
struct PacketTrain {
    first: Time,
    previous: Time,
    last: Time,
}

impl PacketTrain {
    fn at(now: Time) -> PacketTrain {
        PacketTrain { first: now, previous: now, last: now }
    }

    fn delayed_by(self, span: Span) -> PacketTrain {
        PacketTrain { first: self.first + span, previous: self.previous + span, last: self.last + span }
    }
}

impl Server {
    /// Passes the packets of a message, each but the last in the time `full`, and the last in `last`.
    fn pass(&mut self, train: PacketTrain, count: u32, [full, last]: [Span; 2]) -> PacketTrain {
        let start = self.free_at.max(train.first);
        self.busy += full * u64::from(count - 1) + last;
        if count == 1 {
            self.free_at = start + last;
            return PacketTrain::at(self.free_at);
        }
        let previous = (start + full * u64::from(count - 1)).max(train.previous + full);
        self.free_at = previous.max(train.last) + last;
        PacketTrain { first: start + full, previous, last: self.free_at }
    }
}

/// One side's servers: DMA from and to its memory, its link to the network, and the switch port towards it.
#[derive(Clone, Copy, Debug, Default)]
struct NetworkStation {
    fetch: Server,
    store: Server,
    link: Server,
    port: Server,
}

/// Instants of a message on the network.
#[derive(Clone, Copy, Debug)]
pub struct MessageInstants {
    /// Instant at which the first packet enters the sender's link.
    pub sent: Time,
    /// Instant at which the last packet is in the receiver's memory.
    pub arrived: Time,
    /// Time that the message takes on an idle network.
    pub idle: Span,
}

/// Times of packets on the servers of the network, which are the same for all stations.
#[derive(Clone, Copy, Debug)]
struct NetworkPacketTimes {
    /// From the doorbell of a NIC until the first packet of a message leaves memory.
    fetch: Span,
    /// From the end of a packet on a NIC's PCI Express link until it is in memory.
    store: Span,
    nic: Span,
    propagation: Span,
    /// Time through the switch; `None` without a switch.
    switch: Option<Span>,
    byte_ps: f64,
    overhead_bytes: u32,
    nic_rate: WireRate,
    nic_payload_bytes: u32,
    /// Header and framing bytes of a packet on a NIC's PCI Express link: those of a write, for completions as well.
    nic_overhead_bytes: u32,
    /// Buffer of a switch port, as the time in which its link empties it; `None` if it never fills.
    buffer: Option<Span>,
    is_lossless: bool,
    retransmit: Span,
}

/// Network of a target and its initiators.
#[derive(Clone, Debug)]
pub struct Network {
    times: NetworkPacketTimes,
    target: NetworkStation,
    initiators: Vec<NetworkStation>,
    /// Number of messages that a full port of the switch has dropped.
    pub dropped: u64,
    /// Number of messages whose sender a full port of the switch has paused.
    pub pauses: u64,
}

impl NetworkPacketTimes {
    fn new(drive: &Drive) -> NetworkPacketTimes {
        let config = &drive.fabric;
        let root_complex = RootComplex::new(&drive.root_complex, &drive.link, &drive.host, &drive.power, 0);
        let one_way = drive.link.one_way_packet_time();
        let nic_link = config.nic_link(&drive.link);
        let byte_ps = 8e3 / config.link_gbit_per_s;
        let buffer_bytes = f64::from(config.switch_buffer_kib) * 1024.0;
        NetworkPacketTimes {
            // Three one-way delays (doorbell, read request, first completion) and the read of host memory.
            fetch: one_way * 3 + root_complex.data_read_latency(),
            store: one_way + root_complex.least_write_latency(),
            nic: config.nic,
            propagation: config.propagation,
            switch: Some(config.switch).filter(|switch| !switch.is_zero()),
            byte_ps,
            overhead_bytes: TransportFraming::new(config).overhead_bytes,
            nic_rate: WireRate::new(&nic_link),
            nic_payload_bytes: drive.data_payload_bytes(),
            nic_overhead_bytes: PacketOverhead::new(&nic_link).of(Direction::Up, Kind::MemoryWrite),
            buffer: (buffer_bytes > 0.0).then(|| Span::from_ps(whole(buffer_bytes * byte_ps))),
            is_lossless: config.lossless,
            retransmit: config.retransmit,
        }
    }

    /// Returns the times on a network link of full packets and of the last.
    fn on_wire(&self, packets: &Packets) -> [Span; 2] {
        [packets.full_bytes, packets.last_bytes]
            .map(|bytes| Span::from_ps(whole((f64::from(bytes + self.overhead_bytes) * self.byte_ps).round())))
    }

    /// Returns the times on a NIC's PCI Express link of full packets and of the last.
    fn on_nic(&self, packets: &Packets) -> [Span; 2] {
        let tlps = |bytes: u32| bytes.div_ceil(self.nic_payload_bytes) * self.nic_overhead_bytes;
        [packets.full_bytes, packets.last_bytes].map(|bytes| self.nic_rate.time(bytes + tlps(bytes)))
    }

    /// Passes a message from one station to another, and returns when it enters the sender's link and when its last
    /// packet is in the receiver's memory.
    fn pass(&self, now: Time, from: &mut NetworkStation, to: &mut NetworkStation, packets: &Packets) -> (Time, Time) {
        let (on_wire, on_nic) = (self.on_wire(packets), self.on_nic(packets));
        let fetched = from.fetch.pass(PacketTrain::at(now + self.fetch), packets.count, on_nic).delayed_by(self.nic);
        let sent = from.link.free_at.max(fetched.first);
        let mut train = from.link.pass(fetched, packets.count, on_wire).delayed_by(self.propagation);
        if let Some(switch) = self.switch {
            train = to.port.pass(train.delayed_by(switch), packets.count, on_wire).delayed_by(self.propagation);
        }
        let stored = to.store.pass(train.delayed_by(self.nic), packets.count, on_nic);
        (sent, stored.last + self.store)
    }
}

impl Network {
    /// Returns the idle network of a drive with one.
    pub fn new(drive: &Drive) -> Network {
        let initiators = vec![NetworkStation::default(); usize::from(drive.fabric.initiators)];
        Network {
            times: NetworkPacketTimes::new(drive),
            target: NetworkStation::default(),
            initiators,
            dropped: 0,
            pauses: 0,
        }
    }

    /// Sends a message between the target and an initiator, from the doorbell of the sender's NIC at `now`.
    pub fn send(
        &mut self,
        now: Time,
        direction: NetworkDirection,
        initiator: usize,
        packets: Packets,
    ) -> MessageInstants {
        let idle = self.idle(packets);
        let delay = self.full_port_wait(now, direction, initiator, &packets);
        let (target, initiator) = (&mut self.target, &mut self.initiators[initiator]);
        let (from, to) = match direction {
            NetworkDirection::ToTarget => (initiator, target),
            NetworkDirection::ToInitiator => (target, initiator),
        };
        let (sent, arrived) = self.times.pass(now + delay, from, to, &packets);
        MessageInstants { sent, arrived, idle }
    }

    /// Returns the time for which a message is held back because the port of the switch has no room for it: until it has
    /// room if the switch pauses the sender, until the sender tries again if the switch drops packets.
    fn full_port_wait(&mut self, now: Time, direction: NetworkDirection, initiator: usize, packets: &Packets) -> Span {
        let Some(buffer) = self.times.buffer else { return Span::ZERO };
        let port = match direction {
            NetworkDirection::ToTarget => &self.target.port,
            NetworkDirection::ToInitiator => &self.initiators[initiator].port,
        };
        let [full, last] = self.times.on_wire(packets);
        let queued = port.free_at.max(now).since(now) + full * u64::from(packets.count - 1) + last;
        let over = queued.saturating_sub(buffer);
        match (over.is_zero() || port.free_at <= now, self.times.is_lossless) {
            (true, _) => Span::ZERO,
            (false, true) => {
                self.pauses += 1;
                over
            }
            (false, false) => {
                self.dropped += 1;
                self.times.retransmit
            }
        }
    }

    /// Returns the time of a message on an idle network, from the doorbell of the sender's NIC until its last packet is
    /// in the receiver's memory.
    pub fn idle(&self, packets: Packets) -> Span {
        let (mut from, mut to) = (NetworkStation::default(), NetworkStation::default());
        self.times.pass(Time::ZERO, &mut from, &mut to, &packets).1.since(Time::ZERO)
    }

    /// Returns the time of a message's packets on one network link.
    pub fn wire_time(&self, packets: Packets) -> Span {
        let [full, last] = self.times.on_wire(&packets);
        full * u64::from(packets.count - 1) + last
    }

    /// Returns the busy time of the target's link, or of the way to it, in one direction: all messages pass there.
    pub fn busy(&self, direction: NetworkDirection) -> Span {
        match (direction, self.times.switch) {
            (NetworkDirection::ToInitiator, _) => self.target.link.busy,
            (NetworkDirection::ToTarget, Some(_)) => self.target.port.busy,
            (NetworkDirection::ToTarget, None) => self.initiators.iter().map(|station| station.link.busy).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Span = Span::from_ns(100);
    const LAST: Span = Span::from_ns(40);

    #[test]
    fn packets_spread_on_a_fast_server_and_queue_on_a_slow_one() {
        let mut slow = Server::default();
        let train = slow.pass(PacketTrain::at(Time::ZERO), 3, [FULL, LAST]);
        assert_eq!([train.first, train.previous, train.last].map(Time::as_ps), [100_000, 200_000, 240_000]);
        let fast = Server::default().pass(train, 3, [Span::from_ns(10), Span::from_ns(4)]);
        assert_eq!([fast.first, fast.previous, fast.last].map(Time::as_ps), [110_000, 210_000, 244_000]);
        let slower = Server::default().pass(train, 3, [Span::from_ns(150), Span::from_ns(60)]);
        assert_eq!(slower.last.as_ps(), 100_000 + 2 * 150_000 + 60_000);
    }

    #[test]
    fn message_waits_for_its_predecessor() {
        let mut server = Server::default();
        server.pass(PacketTrain::at(Time::ZERO), 2, [FULL, LAST]);
        assert_eq!(server.pass(PacketTrain::at(Time::ZERO), 1, [FULL, LAST]).last.as_ps(), 180_000);
        assert_eq!(server.busy, FULL + LAST + LAST);
    }
}
