//! Sizes and times of bursts on the wire: packets, bytes, wire time, credits, acknowledgements.
//!
//! Millions of bursts have the same few sizes. So results are cached, and what has arrived is counted by sort of burst:
//! an arrival adds to two numbers, which are multiplied by the sizes of the sort when the traffic is read.

use std::collections::BTreeMap;

use super::credits::data_credits;
use super::overhead::{DLLP_BYTES, Overhead};
use super::rate::{WireRate, ack_factor};
use crate::config::{self, LinkAcknowledge};
use crate::ledger::WireUse;
use crate::number::{index, real, short_length, whole};
use crate::time::Span;
use crate::tlp::{Direction, Kind, Packet};

/// Size of the largest packet in bytes: Max_Payload_Size goes up to 4096, and a description may add 64 of header and
/// framing.
const PACKET_BYTES_MAX: u32 = 4096 + 64;

/// Number of entries in the cache of measures, a power of two.
const CACHED: usize = 64;

/// Sizes and wire times of a burst's packets, as far as the link needs them while the burst is in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    /// Number of packets in the burst.
    pub count: u32,
    /// Number of data credits of each packet; the last one takes as many.
    pub data_credits: u32,
    /// Bytes of each packet of the burst but the last, header and framing included.
    pub packet_bytes: u32,
    /// Number of the sort of this burst, by which its arrived packets are counted.
    sort: u32,
    /// Wire time of each packet of the burst but the last; `last` is the wire time of the last.
    pub each: Span,
    pub last: Span,
    /// Wire time of all packets of the burst together.
    pub time: Span,
}

/// All sizes and times of a sort of bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstSizes {
    pub measure: Measure,
    /// Payload bytes of each packet of the burst but the last; `payload_last` is for the last packet.
    payload_each: u32,
    payload_last: u32,
    /// Header and framing bytes of each packet.
    header: u32,
    /// Wire time of the ACK and UpdateFC packets that each packet causes in the opposite direction.
    pub owed: Span,
    /// Wire time of all acknowledgements of a packet: in the opposite direction, and while the packet keeps the wire for
    /// its own ACK (in models only, not on a real link).
    acknowledging: Span,
}

/// Bursts of one direction, kind and size, with the number of their packets that have arrived.
#[derive(Clone, Copy, Debug)]
struct BurstSort {
    direction: Direction,
    user_data: bool,
    sizes: BurstSizes,
    /// Number of packets that have arrived, without those that were the last of their burst; `lasts_arrived` counts
    /// these.
    others_arrived: u64,
    lasts_arrived: u64,
}

/// Calculator of the packet sizes and wire times of bursts ([`Measure`]), with a cache.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Wire time of a packet, indexed by its size in bytes.
    wire_times: Vec<Span>,
    overhead: Overhead,
    /// Wire time of the ACK and UpdateFC packets that one packet causes in the opposite direction, by kind of packet.
    acknowledge: [Span; 3],
    simplifications: ModelSimplifications,
    cached: [(MeasureKey, Measure); CACHED],
    /// Number of each sort of burst by its properties, since the link was trained last.
    known: BTreeMap<MeasureKey, u32>,
    /// Sorts of bursts that have been sent. Those from before a retraining keep their sizes.
    sorts: Vec<BurstSort>,
}

/// Properties of a burst on which its packet sizes and wire times depend: key of the cache of measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MeasureKey {
    bytes: u32,
    chunk_bytes: u32,
    /// Direction, kind and user-data flag of the burst as one number, counted from 1; 0 marks an empty cache entry.
    sort: u32,
}

impl MeasureKey {
    #[inline(always)]
    fn of(packet: &Packet) -> MeasureKey {
        let sort = 1 + packet.kind as u32 + 4 * (packet.direction as u32) + 8 * u32::from(packet.user_data);
        MeasureKey { bytes: packet.bytes, chunk_bytes: packet.chunk_bytes, sort }
    }

    /// Returns the index of the key's entry in the cache of measures. Sending waits for this hash, so that it is cheap.
    #[inline(always)]
    fn cache_index(self) -> usize {
        index((self.bytes >> 2) ^ (self.bytes >> 8) ^ (self.sort << 2)) % CACHED
    }

    /// True if two keys are equal. Compares field by field: one wide load would stall until the fields just written are
    /// in the cache.
    #[inline(always)]
    fn equals(self, other: MeasureKey) -> bool {
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

impl Measures {
    /// Creates the calculator of packet sizes and wire times for a link of this rate, with an empty cache.
    pub(super) fn new(config: &config::Link, rate: &WireRate) -> Measures {
        let acknowledged = config.dllps && config.generation < 6 && config.acknowledge == LinkAcknowledge::Pipelined;
        let awaits = config.dllps && config.acknowledge == LinkAcknowledge::Awaited;
        let dllp_ps = real(rate.time(DLLP_BYTES).as_ps()) / ack_factor(config.lanes, config.max_payload_bytes);
        let dllp = if acknowledged { Span::from_ps(whole(dllp_ps.round())) } else { Span::ZERO };
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
            known: BTreeMap::new(),
            sorts: Vec::new(),
        }
    }

    /// Returns the calculator for the link after it has been retrained to `config` and `rate`. It still counts the
    /// bursts that were sent before.
    pub(super) fn retrained(&mut self, config: &config::Link, rate: &WireRate) -> Measures {
        Measures { sorts: std::mem::take(&mut self.sorts), ..Measures::new(config, rate) }
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
        let sort = match self.known.get(&key) {
            Some(sort) => *sort,
            None => self.add_sort(key, packet),
        };
        self.cached[place] = (key, Measure { sort, ..self.sorts[index(sort)].sizes.measure });
    }

    fn add_sort(&mut self, key: MeasureKey, packet: &Packet) -> u32 {
        let (sort, sizes) = (short_length(self.sorts.len()), self.compute(packet));
        let Packet { direction, user_data, .. } = *packet;
        self.sorts.push(BurstSort { direction, user_data, sizes, others_arrived: 0, lasts_arrived: 0 });
        self.known.insert(key, sort);
        sort
    }

    /// Counts `packets` packets of a burst that have arrived; `has_last` is true if the burst's last packet is among
    /// them. Returns the wire time of the ACK and UpdateFC packets that they cause in the opposite direction.
    #[inline(always)]
    pub(super) fn count_arrived(&mut self, measure: &Measure, packets: u32, has_last: bool) -> Span {
        let sort = &mut self.sorts[index(measure.sort)];
        sort.others_arrived += u64::from(packets) - u64::from(has_last);
        sort.lasts_arrived += u64::from(has_last);
        sort.sizes.owed * u64::from(packets)
    }

    /// Adds the packets of `direction` that have arrived so far to `used`.
    pub(super) fn add_arrived(&self, direction: Direction, used: &mut WireUse) {
        for sort in self.sorts.iter().filter(|sort| sort.direction == direction) {
            let BurstSort { sizes, others_arrived: others, lasts_arrived: lasts, .. } = sort;
            let payload = u64::from(sizes.payload_each) * others + u64::from(sizes.payload_last) * lasts;
            match sort.user_data {
                true => used.data_bytes += payload,
                false => used.command_bytes += payload,
            }
            used.header_bytes += u64::from(sizes.header) * sort.arrived();
            used.packets += sort.arrived();
            used.busy += sizes.measure.each * *others + sizes.measure.last * *lasts;
        }
    }

    /// Returns the wire time of the acknowledgements in `direction` so far: of all packets that have arrived in the
    /// opposite direction.
    pub(super) fn acknowledging(&self, direction: Direction) -> Span {
        let opposite = self.sorts.iter().filter(|sort| sort.direction != direction);
        opposite.map(|sort| sort.sizes.acknowledging * sort.arrived()).sum()
    }

    /// Returns the bytes of a whole burst on the wire, headers and framing included.
    pub(super) fn wire_bytes(&self, measure: &Measure) -> u32 {
        let BurstSizes { payload_each, payload_last, header, .. } = self.sorts[index(measure.sort)].sizes;
        (payload_each + header) * (measure.count - 1) + payload_last + header
    }

    /// Computes the packet sizes and wire times of a burst without the cache.
    pub(super) fn compute(&self, packet: &Packet) -> BurstSizes {
        let header = self.overhead.of(packet.direction, packet.kind);
        let (count, payload_each) = (packet.count(), packet.chunk_payload_bytes());
        let payload_last = packet.payload_bytes() - payload_each * (count - 1);
        let time = |payload: u32| self.wire_times[index(payload + header)];
        let measure = Measure {
            count,
            data_credits: data_credits(payload_each),
            each: time(payload_each),
            last: time(payload_last),
            ..Measure::default()
        };
        let owed = self.acknowledgement_time(packet.kind);
        let acknowledging = owed + self.ack_wait(packet);
        let real = BurstSizes { measure, payload_each, payload_last, header, owed, acknowledging };
        let mut sizes = self.with_simplifications(packet, real);
        sizes.measure.packet_bytes = sizes.payload_each + sizes.header;
        sizes.measure.time = sizes.measure.each * u64::from(count - 1) + sizes.measure.last;
        sizes
    }

    /// Returns the time for which each packet of a burst keeps the wire for its own ACK; zero for user data.
    fn ack_wait(&self, packet: &Packet) -> Span {
        if packet.user_data { Span::ZERO } else { self.simplifications.ack_wait }
    }

    /// Returns the packet sizes and wire times of a burst with the simplifications that the configured link model
    /// makes.
    fn with_simplifications(&self, packet: &Packet, mut sizes: BurstSizes) -> BurstSizes {
        let Packet { user_data, kind, .. } = *packet;
        let measure = &mut sizes.measure;
        if user_data && kind == Kind::MemoryRead && !self.simplifications.data_requests {
            (sizes.header, measure.each, measure.last) = (0, Span::ZERO, Span::ZERO);
        }
        if !user_data && !self.simplifications.command_payload {
            (sizes.payload_each, sizes.payload_last) = (0, 0);
            measure.each = self.wire_times[index(sizes.header)];
            measure.last = measure.each;
        }
        measure.each += self.ack_wait(packet);
        measure.last += self.ack_wait(packet);
        sizes
    }
}

impl BurstSort {
    /// Returns the number of packets that have arrived.
    fn arrived(&self) -> u64 {
        self.others_arrived + self.lasts_arrived
    }
}

/// Returns the wire time of the packets that acknowledge one packet, by its kind: an ACK, and an UpdateFC unless
/// credits are infinite, as they are for completions.
fn acknowledgements(dllp: Span) -> [Span; 3] {
    [Kind::MemoryWrite, Kind::MemoryRead, Kind::Completion].map(|kind| match kind {
        Kind::MemoryWrite | Kind::MemoryRead => dllp * 2,
        Kind::Completion => dllp,
    })
}
