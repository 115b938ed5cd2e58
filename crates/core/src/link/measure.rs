//! Sizes and times of bursts on the wire: packets, bytes, wire time, credits, acknowledgements.
//!
//! Millions of bursts have the same few sizes, so results are cached.

use super::credits::data_credits;
use super::overhead::{DLLP_BYTES, PacketOverhead};
use super::rate::{WireRate, ack_factor};
use crate::config::{self, AcknowledgementTime};
use crate::number::{index, real, whole};
use crate::time::Span;
use crate::tlp::{Direction, Kind, Packet};

/// Size of the largest packet in bytes: Max_Payload_Size goes up to 4096, and a description may add 64 of header and
/// framing.
const PACKET_BYTES_MAX: u32 = 4096 + 64;

/// Number of entries in the cache of measures, a power of two.
const CACHED: usize = 64;

/// Sizes and wire times of a burst's packets, of each packet and of all together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstMeasure {
    /// Number of packets in the burst.
    pub count: u32,
    /// Number of data credits of each packet; the last one takes as many.
    pub data_credits: u32,
    /// Payload bytes of each packet of the burst but the last. `payload_last` is for the last packet, and `header` is
    /// the header and framing bytes of each.
    pub payload_each: u32,
    pub payload_last: u32,
    pub header: u32,
    /// Wire time of each packet of the burst but the last; `last` is the wire time of the last.
    pub each: Span,
    pub last: Span,
    /// Bytes and wire time of all packets of the burst together.
    pub whole: WireLoad,
}

/// Load that packets put on the wires: bytes, wire time, and the ACK and UpdateFC packets that they cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WireLoad {
    /// Payload bytes of the packets.
    pub payload: u32,
    /// Header and framing bytes of the packets.
    pub header: u32,
    /// Wire time of the packets.
    pub time: Span,
    /// Wire time of the ACK and UpdateFC packets that the packets cause in the opposite direction.
    pub owed: Span,
    /// Wire time of all acknowledgements: in the opposite direction, and while packets keep the wire for their own ACK
    /// (in models only, not on a real link).
    pub acknowledging: Span,
}

/// Calculator of the packet sizes and wire times of bursts ([`BurstMeasure`]), with a cache.
#[derive(Clone, Debug)]
pub(super) struct BurstMeasureCache {
    /// Wire time of a packet, indexed by its size in bytes.
    wire_times: Vec<Span>,
    overhead: PacketOverhead,
    /// Wire time of the ACK and UpdateFC packets that one packet causes in the opposite direction, by kind of packet.
    acknowledge: [Span; 3],
    simplifications: ModelSimplifications,
    cached: [(BurstMeasureKey, BurstMeasure); CACHED],
}

/// Properties of a burst on which its packet sizes and wire times depend: key of the cache of measures.
#[derive(Clone, Copy, Debug, Default)]
struct BurstMeasureKey {
    bytes: u32,
    chunk_bytes: u32,
    /// Direction, kind and user-data flag of the burst as one number, counted from 1; 0 marks an empty cache entry.
    sort: u32,
}

impl BurstMeasureKey {
    #[inline(always)]
    fn of(packet: &Packet) -> BurstMeasureKey {
        let sort = 1 + packet.kind as u32 + 4 * (packet.direction as u32) + 8 * u32::from(packet.user_data);
        BurstMeasureKey { bytes: packet.bytes, chunk_bytes: packet.chunk_bytes, sort }
    }

    /// Returns the index of the key's entry in the cache of measures. Sending waits for this hash, so that it is cheap.
    #[inline(always)]
    fn cache_index(self) -> usize {
        index((self.bytes >> 2) ^ (self.bytes >> 8) ^ (self.sort << 2)) % CACHED
    }

    /// True if two keys are equal. Compares field by field: one wide load would stall until the fields just written are
    /// in the cache.
    #[inline(always)]
    fn equals_key(self, other: BurstMeasureKey) -> bool {
        self.bytes == other.bytes && self.chunk_bytes == other.chunk_bytes && self.sort == other.sort
    }
}

/// Simplifications of link models in published papers: packets that take no wire time, and waits for ACKs. A real link
/// has none.
#[derive(Clone, Copy, Debug)]
struct ModelSimplifications {
    /// True if commands and completion entries take wire time for their payload.
    command_payload: bool,
    /// True if reads of user data take wire time.
    data_requests: bool,
    /// Time for which a packet without user data keeps the wire for its own ACK.
    ack_wait: Span,
}

impl BurstMeasureCache {
    /// Creates the calculator of packet sizes and wire times for a link of this rate, with an empty cache.
    pub(super) fn new(config: &config::Link, rate: &WireRate) -> BurstMeasureCache {
        let acknowledged =
            config.dllps && config.generation < 6 && config.acknowledge == AcknowledgementTime::Pipelined;
        let awaits = config.dllps && config.acknowledge == AcknowledgementTime::Awaited;
        let dllp_ps = real(rate.time(DLLP_BYTES).as_ps()) / ack_factor(config.lanes, config.max_payload_bytes);
        let dllp = if acknowledged { Span::from_ps(whole(dllp_ps.round())) } else { Span::ZERO };
        BurstMeasureCache {
            wire_times: (0..=PACKET_BYTES_MAX).map(|bytes| rate.time(bytes)).collect(),
            overhead: PacketOverhead::new(config),
            acknowledge: acknowledgement_times(dllp),
            simplifications: ModelSimplifications {
                command_payload: config.command_payload,
                data_requests: config.data_requests,
                ack_wait: if awaits { rate.time(DLLP_BYTES) } else { Span::ZERO },
            },
            cached: [Default::default(); CACHED],
        }
    }

    /// Returns the wire time of the ACK and UpdateFC packets that one packet of this kind causes in the opposite
    /// direction.
    pub(super) fn acknowledgement_time(&self, kind: Kind) -> Span {
        self.acknowledge[kind as usize]
    }

    /// Returns the wire time of one packet from the device of this kind, with `payload_bytes` of user data.
    pub(super) fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.wire_times[index(payload_bytes + self.overhead.of(Direction::Up, kind))]
    }

    /// Returns the packet sizes and wire times of a burst, from the cache if possible.
    // Inlined: called once for each burst.
    #[inline(always)]
    pub(super) fn measure(&mut self, packet: &Packet) -> BurstMeasure {
        let key = BurstMeasureKey::of(packet);
        let place = key.cache_index();
        if !self.cached[place].0.equals_key(key) {
            self.add_to_cache(place, key, packet);
        }
        self.cached[place].1
    }

    #[cold]
    fn add_to_cache(&mut self, place: usize, key: BurstMeasureKey, packet: &Packet) {
        self.cached[place] = (key, self.compute_burst_measure(packet));
    }

    /// Computes the packet sizes and wire times of a burst without the cache.
    pub(super) fn compute_burst_measure(&self, packet: &Packet) -> BurstMeasure {
        let header = self.overhead.of(packet.direction, packet.kind);
        let (count, payload_each) = (packet.count(), packet.full_packet_payload_bytes());
        let payload_last = packet.payload_bytes() - payload_each * (count - 1);
        let time = |payload: u32| self.wire_times[index(payload + header)];
        let real = BurstMeasure {
            count,
            data_credits: data_credits(payload_each),
            payload_each,
            payload_last,
            header,
            each: time(payload_each),
            last: time(payload_last),
            whole: WireLoad::default(),
        };
        let measure = self.simplified_measure(packet, real);
        let owed = self.acknowledgement_time(packet.kind) * u64::from(count);
        let whole = WireLoad {
            payload: measure.payload_each * (count - 1) + measure.payload_last,
            header: measure.header * count,
            time: measure.each * u64::from(count - 1) + measure.last,
            owed,
            acknowledging: owed + self.ack_wait(packet) * u64::from(count),
        };
        BurstMeasure { whole, ..measure }
    }

    /// Returns the time for which each packet of a burst keeps the wire for its own ACK; zero for user data.
    fn ack_wait(&self, packet: &Packet) -> Span {
        if packet.user_data { Span::ZERO } else { self.simplifications.ack_wait }
    }

    /// Returns the packet sizes and wire times of a burst with the simplifications that the configured link model
    /// makes.
    fn simplified_measure(&self, packet: &Packet, mut measure: BurstMeasure) -> BurstMeasure {
        let Packet { user_data, kind, .. } = *packet;
        if user_data && kind == Kind::MemoryRead && !self.simplifications.data_requests {
            (measure.header, measure.each, measure.last) = (0, Span::ZERO, Span::ZERO);
        }
        if !user_data && !self.simplifications.command_payload {
            (measure.payload_each, measure.payload_last) = (0, 0);
            measure.each = self.wire_times[index(measure.header)];
            measure.last = measure.each;
        }
        measure.each += self.ack_wait(packet);
        measure.last += self.ack_wait(packet);
        measure
    }
}

impl BurstMeasure {
    /// Returns the bytes and wire time of one packet of the burst: the last one, or any other.
    pub(super) fn packet_load(&self, is_last: bool) -> WireLoad {
        let count = u64::from(self.count);
        let (payload, time) = if is_last { (self.payload_last, self.last) } else { (self.payload_each, self.each) };
        let WireLoad { owed, acknowledging, .. } = self.whole;
        WireLoad { payload, header: self.header, time, owed: owed / count, acknowledging: acknowledging / count }
    }
}

/// Returns the wire time of the packets that acknowledge one packet, by its kind: an ACK, and an UpdateFC unless
/// credits are infinite, as they are for completions.
fn acknowledgement_times(dllp: Span) -> [Span; 3] {
    [Kind::MemoryWrite, Kind::MemoryRead, Kind::Completion].map(|kind| match kind {
        Kind::MemoryWrite | Kind::MemoryRead => dllp * 2,
        Kind::Completion => dllp,
    })
}
