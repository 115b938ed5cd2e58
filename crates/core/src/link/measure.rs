//! Sizes and times of bursts on the wire: packets, bytes, wire time, credits, acknowledgements.
//!
//! Millions of bursts have the same few sizes, so results are cached.

use super::credits::data_credits;
use super::overhead::{DLLP_BYTES, Overhead};
use super::rate::{WireRate, ack_factor};
use crate::config::{self, LinkAcknowledge};
use crate::number::index;
use crate::time::Span;
use crate::tlp::{Direction, Kind, Packet};

/// Size of the largest packet in bytes: Max_Payload_Size goes up to 4096, and a description may add 64 of header and
/// framing.
const PACKET_BYTES_MAX: u32 = 4096 + 64;

/// Number of cached measures, a power of two.
const CACHED: usize = 64;

/// Sizes and times of a burst's packets, of each and of all together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    /// Number of packets in the burst.
    pub count: u32,
    /// Data credits of each packet; the last one takes as many.
    pub data_credits: u32,
    /// Payload bytes of each packet but the last, payload bytes of the last, and header and framing bytes of each.
    pub payload_each: u32,
    pub payload_last: u32,
    pub header: u32,
    /// Wire time of each packet but the last, and of the last.
    pub each: Span,
    pub last: Span,
    /// Sum over all packets.
    pub whole: WireLoad,
}

/// Load that packets put on the wires.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WireLoad {
    /// Payload in bytes.
    pub payload: u32,
    /// Headers and framing in bytes.
    pub header: u32,
    /// Wire time of the packets.
    pub time: Span,
    /// Wire time of ACK and UpdateFC packets that the other direction owes for them.
    pub owed: Span,
    /// Wire time of all acknowledging packets: those owed, and the ACKs for which packets keep the wire themselves
    /// (none on a real link).
    pub acknowledging: Span,
}

/// Computes and caches the [`Measure`] of bursts.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Wire time of a packet, by its size in bytes.
    wire_times: Vec<Span>,
    overhead: Overhead,
    /// Wire time of the ACK and UpdateFC packets that one packet causes, by kind.
    acknowledge: [Span; 3],
    simplifications: ModelSimplifications,
    cached: [(MeasureKey, Measure); CACHED],
}

/// Properties of a burst that its measure depends on.
#[derive(Clone, Copy, Debug, Default)]
struct MeasureKey {
    bytes: u32,
    chunk_bytes: u32,
    /// Direction, kind and "is user data" as one number, counted from 1.
    sort: u32,
}

impl MeasureKey {
    #[inline(always)]
    fn of(packet: &Packet) -> MeasureKey {
        let sort = 1 + packet.kind as u32 + 4 * (packet.direction as u32) + 8 * u32::from(packet.user_data);
        MeasureKey { bytes: packet.bytes, chunk_bytes: packet.chunk_bytes, sort }
    }

    /// Returns the index of the cache entry. Sending waits for it, so that it takes few and short steps.
    #[inline(always)]
    fn cache_index(self) -> usize {
        ((self.bytes >> 2) ^ (self.bytes >> 8) ^ (self.sort << 2)) as usize % CACHED
    }

    /// Compares two keys. Field by field, as they have just been written: if they were read together, the processor
    /// would wait until both writes are in its cache.
    #[inline(always)]
    fn equals(self, other: MeasureKey) -> bool {
        self.bytes == other.bytes && self.chunk_bytes == other.chunk_bytes && self.sort == other.sort
    }
}

/// Simplifications of link models in published papers: what they leave out of the wire or add to it. A real link has
/// none.
#[derive(Clone, Copy, Debug)]
struct ModelSimplifications {
    /// True if commands and completion entries take wire time for their payload.
    command_payload: bool,
    /// True if reads of user data take wire time.
    data_requests: bool,
    /// Time for which a packet without user data keeps the wire for its own ACK.
    ack_wait: Span,
}

impl Measures {
    /// Creates the measures of this link.
    pub(super) fn new(config: &config::Link, rate: &WireRate) -> Measures {
        let acknowledged = config.dllps && config.generation < 6 && config.acknowledge == LinkAcknowledge::Pipelined;
        let awaits = config.dllps && config.acknowledge == LinkAcknowledge::Awaited;
        let dllp_ps = rate.time(DLLP_BYTES).as_ps() as f64 / ack_factor(config.lanes, config.max_payload_bytes);
        let dllp = if acknowledged { Span::from_ps(dllp_ps.round() as u64) } else { Span::ZERO };
        Measures {
            wire_times: (0..=PACKET_BYTES_MAX).map(|bytes| rate.time(bytes)).collect(),
            overhead: Overhead::new(config),
            acknowledge: acknowledgements(dllp),
            simplifications: ModelSimplifications {
                command_payload: config.command_payload,
                data_requests: config.data_requests,
                ack_wait: if awaits { rate.time(DLLP_BYTES) } else { Span::ZERO },
            },
            cached: [Default::default(); CACHED],
        }
    }

    /// Returns the wire time of the ACK and UpdateFC packets that one packet of this kind causes in the other
    /// direction.
    pub(super) fn acknowledgement_time(&self, kind: Kind) -> Span {
        self.acknowledge[kind as usize]
    }

    /// Returns the wire time of one of the device's packets with this payload of user data.
    pub(super) fn packet_time(&self, kind: Kind, payload_bytes: u32) -> Span {
        self.wire_times[index(payload_bytes + self.overhead.of(Direction::Up, kind))]
    }

    /// Returns the measure of a burst, from the cache if possible.
    #[inline(always)] // Every burst is measured when it is sent.
    pub(super) fn measure(&mut self, packet: &Packet) -> Measure {
        let key = MeasureKey::of(packet);
        let place = key.cache_index();
        if !self.cached[place].0.equals(key) {
            self.add_to_cache(place, key, packet);
        }
        self.cached[place].1
    }

    #[cold]
    fn add_to_cache(&mut self, place: usize, key: MeasureKey, packet: &Packet) {
        self.cached[place] = (key, self.compute(packet));
    }

    /// Computes the measure of a burst without the cache.
    pub(super) fn compute(&self, packet: &Packet) -> Measure {
        let header = self.overhead.of(packet.direction, packet.kind);
        let (count, payload_each) = (packet.count(), packet.chunk_payload_bytes());
        let payload_last = packet.payload_bytes() - payload_each * (count - 1);
        let time = |payload: u32| self.wire_times[index(payload + header)];
        let real = Measure {
            count,
            data_credits: data_credits(payload_each),
            payload_each,
            payload_last,
            header,
            each: time(payload_each),
            last: time(payload_last),
            whole: WireLoad::default(),
        };
        let measure = self.with_simplifications(packet, real);
        let owed = self.acknowledgement_time(packet.kind) * u64::from(count);
        let whole = WireLoad {
            payload: measure.payload_each * (count - 1) + measure.payload_last,
            header: measure.header * count,
            time: measure.each * u64::from(count - 1) + measure.last,
            owed,
            acknowledging: owed + self.ack_wait(packet) * u64::from(count),
        };
        Measure { whole, ..measure }
    }

    /// Returns the time for which each packet of a burst keeps the wire for its own ACK.
    fn ack_wait(&self, packet: &Packet) -> Span {
        if packet.user_data { Span::ZERO } else { self.simplifications.ack_wait }
    }

    /// Applies the simplifications of the link's model to a measure.
    fn with_simplifications(&self, packet: &Packet, mut measure: Measure) -> Measure {
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

impl Measure {
    /// Returns the load of one packet of a burst whose packets arrive one by one.
    pub(super) fn packet_load(&self, is_last: bool) -> WireLoad {
        let count = u64::from(self.count);
        let (payload, time) = if is_last { (self.payload_last, self.last) } else { (self.payload_each, self.each) };
        let WireLoad { owed, acknowledging, .. } = self.whole;
        WireLoad { payload, header: self.header, time, owed: owed / count, acknowledging: acknowledging / count }
    }
}

/// Returns the wire time of the packets that acknowledge a packet, by kind: an ACK, and an UpdateFC unless credits are
/// infinite, as they are for completions.
fn acknowledgements(dllp: Span) -> [Span; 3] {
    [Kind::MemoryWrite, Kind::MemoryRead, Kind::Completion].map(|kind| match kind {
        Kind::MemoryWrite | Kind::MemoryRead => dllp * 2,
        Kind::Completion => dllp,
    })
}
