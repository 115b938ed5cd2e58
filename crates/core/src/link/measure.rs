//! What a burst takes on the wire: packets, bytes, time, credits, acknowledgements.
//!
//! The same few sizes are sent by the million, so what has been measured once is remembered.

use super::credits::data_credits;
use super::overhead::{DLLP_BYTES, Overhead};
use super::rate::{Rate, ack_factor};
use crate::config::{self, LinkAcknowledge};
use crate::time::Span;
use crate::tlp::{Direction, Kind, Packet};

/// Largest packet: Max_Payload_Size goes up to 4096 bytes, and a description may give it 64 of header and framing.
const PACKET_BYTES_MAX: u32 = 4096 + 64;

/// Measures that are remembered, a power of two.
const REMEMBERED: usize = 64;

/// What a burst's packets take, each of them and all together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    /// Packets in the burst.
    pub count: u32,
    /// Data credits of each packet; the last one takes as many.
    pub data_credits: u32,
    /// Payload of each packet but the last, and of the last; header and framing of each.
    pub payload_each: u32,
    pub payload_last: u32,
    pub header: u32,
    /// Wire time of each packet but the last, and of the last.
    pub each: Span,
    pub last: Span,
    /// All packets together.
    pub whole: Load,
}

/// What packets put on the wires.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub payload: u32,
    /// Headers and framing.
    pub header: u32,
    pub time: Span,
    /// Wire time that the other direction owes for acknowledgements and credits.
    pub owed: Span,
    /// The same, and ACKs for which packets keep the wire themselves (none on a real link).
    pub acknowledging: Span,
}

/// The bursts of a link.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Wire time of every size of packet.
    wire_times: Vec<Span>,
    overhead: Overhead,
    /// Wire time of the acknowledgements and flow-control updates for one packet, by kind.
    acknowledge: [Span; 3],
    accounting: Accounting,
    remembered: [(Key, Measure); REMEMBERED],
}

/// All that a measure depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    bytes: u32,
    chunk_bytes: u32,
    /// Direction, kind and whether it is user data, counted from 1.
    sort: u32,
}

impl Key {
    #[inline(always)]
    fn of(packet: &Packet) -> Key {
        let sort = 1 + packet.kind as u32 + 4 * (packet.direction as u32) + 8 * u32::from(packet.user_data);
        Key { bytes: packet.bytes, chunk_bytes: packet.chunk_bytes, sort }
    }

    /// Where its measure is remembered. What follows waits for it, so that few and short steps count.
    #[inline(always)]
    fn place(self) -> usize {
        ((self.bytes >> 2) ^ (self.bytes >> 8) ^ (self.sort << 2)) as usize % REMEMBERED
    }

    /// Whether both are the same. One by one, as they have just been written: read together, the processor would wait until
    /// both writes are in its cache.
    #[inline(always)]
    fn is(self, other: Key) -> bool {
        self.bytes == other.bytes && self.chunk_bytes == other.chunk_bytes && self.sort == other.sort
    }
}

/// What models of a link leave out of the wire or add to it. A real link has none of it.
#[derive(Clone, Copy, Debug)]
struct Accounting {
    command_payload: bool,
    data_requests: bool,
    /// For how long a packet without user data keeps the wire for its own ACK.
    awaited: Span,
}

impl Measures {
    /// The bursts of this link.
    pub(super) fn new(config: &config::Link, rate: &Rate) -> Measures {
        let acknowledged = config.dllps && config.generation < 6 && config.acknowledge == LinkAcknowledge::Pipelined;
        let awaits = config.dllps && config.acknowledge == LinkAcknowledge::Awaited;
        let dllp_ps = rate.time(DLLP_BYTES).as_ps() as f64 / ack_factor(config.lanes, config.max_payload_bytes);
        let dllp = if acknowledged { Span::from_ps(dllp_ps.round() as u64) } else { Span::ZERO };
        Measures {
            wire_times: (0..=PACKET_BYTES_MAX).map(|bytes| rate.time(bytes)).collect(),
            overhead: Overhead::new(config),
            acknowledge: acknowledgements(dllp),
            accounting: Accounting {
                command_payload: config.command_payload,
                data_requests: config.data_requests,
                awaited: if awaits { rate.time(DLLP_BYTES) } else { Span::ZERO },
            },
            remembered: [Default::default(); REMEMBERED],
        }
    }

    /// What packets of this kind cost the wire that carries their acknowledgements and credits, each.
    pub(super) fn acknowledgement(&self, kind: Kind) -> Span {
        self.acknowledge[kind as usize]
    }

    /// Wire time of one of the device's packets with this payload of user data.
    pub(super) fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.wire_times[(payload_bytes + self.overhead.of(Direction::Up, kind)) as usize]
    }

    /// What this burst takes.
    #[inline(always)] // Every burst is measured when it is sent.
    pub(super) fn of(&mut self, packet: &Packet) -> Measure {
        let key = Key::of(packet);
        let place = key.place();
        if !self.remembered[place].0.is(key) {
            self.remember(place, key, packet);
        }
        self.remembered[place].1
    }

    #[cold]
    fn remember(&mut self, place: usize, key: Key, packet: &Packet) {
        self.remembered[place] = (key, self.measure(packet));
    }

    /// The same, measured anew.
    pub(super) fn measure(&self, packet: &Packet) -> Measure {
        let header = self.overhead.of(packet.direction, packet.kind);
        let (count, payload_each) = (packet.count(), packet.chunk_payload_bytes());
        let payload_last = packet.payload_bytes() - payload_each * (count - 1);
        let time = |payload: u32| self.wire_times[(payload + header) as usize];
        let real = Measure {
            count,
            data_credits: data_credits(payload_each),
            payload_each,
            payload_last,
            header,
            each: time(payload_each),
            last: time(payload_last),
            whole: Load::default(),
        };
        let measure = self.as_model(packet, real);
        let owed = self.acknowledgement(packet.kind) * u64::from(count);
        let whole = Load {
            payload: measure.payload_each * (count - 1) + measure.payload_last,
            header: measure.header * count,
            time: measure.each * u64::from(count - 1) + measure.last,
            owed,
            acknowledging: owed + self.awaited(packet) * u64::from(count),
        };
        Measure { whole, ..measure }
    }

    /// For how long each packet keeps the wire for its own ACK.
    fn awaited(&self, packet: &Packet) -> Span {
        if packet.user_data { Span::ZERO } else { self.accounting.awaited }
    }

    /// What the packets of a burst take on the wire of a model.
    fn as_model(&self, packet: &Packet, mut measure: Measure) -> Measure {
        let Packet { user_data, kind, .. } = *packet;
        if user_data && kind == Kind::MemoryRead && !self.accounting.data_requests {
            (measure.header, measure.each, measure.last) = (0, Span::ZERO, Span::ZERO);
        }
        if !user_data && !self.accounting.command_payload {
            (measure.payload_each, measure.payload_last) = (0, 0);
            measure.each = self.wire_times[measure.header as usize];
            measure.last = measure.each;
        }
        measure.each += self.awaited(packet);
        measure.last += self.awaited(packet);
        measure
    }
}

impl Measure {
    /// One packet of several, packet by packet.
    pub(super) fn one(&self, is_last: bool) -> Load {
        let count = u64::from(self.count);
        let (payload, time) = if is_last { (self.payload_last, self.last) } else { (self.payload_each, self.each) };
        let Load { owed, acknowledging, .. } = self.whole;
        Load { payload, header: self.header, time, owed: owed / count, acknowledging: acknowledging / count }
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
