//! The link by itself: what is sent at one end is there at the other at its instant, and not before.
//!
//! The wires of these tests carry 2 bytes a nanosecond and nothing but packets, so that 128 bytes of data take 76 ns,
//! a queue read 12 ns, and every instant can be checked by hand.

use std::collections::BTreeMap;

use phaselink_core::config;
use phaselink_core::ledger::WireUse;
use phaselink_core::link::{Arrival, Link};
use phaselink_core::scheduler::Event;
use phaselink_core::shared::Shared;
use phaselink_core::time::{Span, Time};
use phaselink_core::tlp::BurstId;
use phaselink_core::tlp::{Direction, Kind, Packet, Token};
use proptest::prelude::*;

/// Packet `first` and the `count - 1` after it of burst `name` arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenPackets {
    at: u64,
    name: u32,
    first: u32,
    count: u32,
}

/// A link with nobody at its ends.
struct Bench {
    link: Link,
    shared: Shared,
    seen: Vec<SeenPackets>,
    directions: BTreeMap<u32, Direction>,
}

/// Generation 2 x4 without skip ordered sets and DLLPs.
fn plain() -> config::Link {
    config::Link { skip_ordered_sets: false, dllps: false, one_way: Span::from_ns(200), ..config::Link::default() }
}

fn ns(ns: u64) -> Time {
    Time::ZERO + Span::from_ns(ns)
}

fn token(context: u32) -> Token {
    Token { role: 0, context }
}

/// Data of `packets` packets of 128 bytes.
fn data(name: u32, packets: u32) -> Packet {
    Packet::write(Direction::Up, 0, packets * 128, 128, token(name))
}

/// One read request.
fn read(name: u32) -> Packet {
    Packet::read(0, 64, 512, token(name))
}

impl Bench {
    fn new(config: &config::Link) -> Bench {
        Bench::with_accept(config, Span::ZERO)
    }

    fn with_accept(config: &config::Link, accept: Span) -> Bench {
        Bench {
            link: Link::new(config, accept, Span::ZERO, 1),
            shared: Shared::default(),
            seen: Vec::new(),
            directions: BTreeMap::new(),
        }
    }

    /// Send a burst at `at`, in nanoseconds.
    fn send(&mut self, at: u64, packet: Packet) {
        self.run_until(ns(at));
        self.shared.scheduler.advance(ns(at));
        self.directions.insert(packet.token.context, packet.direction);
        self.link.send(packet, &mut self.shared);
    }

    fn run_until(&mut self, until: Time) {
        while self.shared.scheduler.is_due(until) {
            let (now, event) = self.shared.scheduler.take();
            match event {
                Event::Wire(wire) => self.link.on_wire(now, wire.into(), &mut self.shared),
                Event::Arrive(packet) => self.on_arrive(now, packet),
                other => unreachable!("a link alone makes no {other:?}"),
            }
        }
    }

    fn on_arrive(&mut self, now: Time, packet: BurstId) {
        let Some(Arrival { packet, first, count }) = self.link.on_arrival(now, packet, &mut self.shared) else {
            return;
        };
        let flight = &self.link.bursts[packet];
        let (name, last) = (flight.packet.token.context, first + count == flight.count());
        self.seen.push(SeenPackets { at: now.as_ps(), name, first, count });
        if last {
            self.link.bursts.vacate(packet);
        }
    }

    /// All arrivals up to the end, as (nanoseconds, burst).
    fn finish(&mut self) -> Vec<(u64, u32)> {
        self.run_until(Time::NEVER);
        assert!(self.shared.scheduler.next_at().is_none());
        self.seen.iter().map(|seen| (seen.at / 1000, seen.name)).collect()
    }

    /// Instants, in nanoseconds, at which packets of a burst arrived.
    fn arrival_instants_ns(&self, name: u32) -> Vec<u64> {
        self.seen.iter().filter(|seen| seen.name == name).map(|seen| seen.at / 1000).collect()
    }
}

fn packets(config: config::Link) -> config::Link {
    config::Link { granularity: config::LinkEventGranularity::Packet, ..config }
}

#[test]
fn packet_arrives_exactly_at_its_time() {
    let mut bench = Bench::new(&plain());
    bench.send(10, data(1, 1));
    let at = ns(10 + 76 + 200);
    bench.run_until(at - Span::from_ps(1));
    assert_eq!(bench.seen, []);
    bench.run_until(at);
    assert_eq!(bench.seen, [SeenPackets { at: at.as_ps(), name: 1, first: 0, count: 1 }]);
}

#[test]
fn train_arrives_with_its_last_packet_or_one_by_one() {
    let mut trains = Bench::new(&plain());
    trains.send(0, data(1, 4));
    trains.finish();
    assert_eq!(trains.seen, [SeenPackets { at: (4 * 76 + 200) * 1000, name: 1, first: 0, count: 4 }]);
    let mut single = Bench::new(&packets(plain()));
    single.send(0, data(1, 4));
    assert_eq!(single.finish(), [(276, 1), (352, 1), (428, 1), (504, 1)]);
}

#[test]
fn last_packet_of_a_burst_takes_its_remaining_bytes() {
    let mut bench = Bench::new(&plain());
    bench.send(0, Packet::write(Direction::Up, 0, 300, 128, token(1)));
    // Packets of 128, 128 and 44 bytes of payload, with 24 bytes of overhead each.
    assert_eq!(bench.finish(), [(76 + 76 + 34 + 200, 1)]);
}

#[test]
fn packet_of_another_class_cuts_a_train_at_a_packet_boundary() {
    for (sent_at, boundary) in [(1, 76), (75, 76), (77, 152), (227, 228)] {
        let mut bench = Bench::new(&plain());
        bench.send(0, data(1, 4));
        bench.send(sent_at, read(2));
        assert_eq!(bench.finish(), [(boundary + 12 + 200, 2), (4 * 76 + 12 + 200, 1)], "sent at {sent_at}");
    }
}

#[test]
fn packet_during_the_last_of_a_train_waits_for_its_end() {
    let mut bench = Bench::new(&plain());
    bench.send(0, data(1, 4));
    bench.send(229, read(2));
    assert_eq!(bench.finish(), [(304 + 200, 1), (304 + 12 + 200, 2)]);
}

#[test]
fn train_can_be_cut_more_than_once() {
    let mut bench = Bench::new(&plain());
    bench.send(0, data(1, 8));
    bench.send(10, read(2));
    bench.send(100, read(3));
    // The second cut falls into the second packet, which is on the wire from 88 to 164 ns.
    assert_eq!(bench.finish(), [(76 + 12 + 200, 2), (164 + 12 + 200, 3), (8 * 76 + 24 + 200, 1)]);
}

#[test]
fn packet_of_the_same_class_waits_for_the_train() {
    let mut bench = Bench::new(&plain());
    bench.send(0, data(1, 4));
    bench.send(10, data(2, 1));
    assert_eq!(bench.finish(), [(304 + 200, 1), (380 + 200, 2)]);
}

#[test]
fn classes_alternate_in_packet_granularity() {
    let mut bench = Bench::new(&packets(plain()));
    bench.send(0, data(1, 4));
    bench.send(10, read(2));
    bench.send(10, read(3));
    bench.finish();
    assert_eq!(bench.arrival_instants_ns(2), [76 + 12 + 200]);
    assert_eq!(bench.arrival_instants_ns(3), [76 + 12 + 76 + 12 + 200]);
    assert_eq!(bench.arrival_instants_ns(1), [276, 364, 452, 528]);
}

#[test]
fn two_packets_waiting_for_a_train_both_cut_in() {
    let mut bench = Bench::new(&plain());
    bench.send(0, data(1, 8));
    bench.send(10, read(2));
    bench.send(10, read(3));
    assert_eq!(bench.finish(), [(76 + 12 + 200, 2), (164 + 12 + 200, 3), (8 * 76 + 24 + 200, 1)]);
}

#[test]
fn link_directions_are_independent() {
    let mut bench = Bench::new(&plain());
    bench.send(0, data(1, 4));
    bench.send(0, Packet::write(Direction::Down, 0, 4, 4, token(2)));
    assert_eq!(bench.finish(), [(14 + 200, 2), (304 + 200, 1)]);
}

#[test]
fn shared_wire_carries_one_packet_at_a_time() {
    let shared = config::Link { duplex: config::Duplex::Shared, ..plain() };
    for config in [shared.clone(), packets(shared)] {
        let mut bench = Bench::new(&config);
        bench.send(0, data(1, 1));
        bench.send(1, Packet::write(Direction::Down, 0, 4, 4, token(2)));
        bench.send(2, data(3, 1));
        assert_eq!(bench.finish(), [(76 + 200, 1), (76 + 14 + 200, 2), (76 + 14 + 76 + 200, 3)]);
    }
}

#[test]
fn each_link_hop_adds_its_time() {
    let hops = config::Link { hops: 3, hop: Span::from_ns(150), ..plain() };
    let mut bench = Bench::new(&hops);
    bench.send(0, data(1, 1));
    assert_eq!(bench.finish(), [(76 + 200 + 450, 1)]);
}

#[test]
fn sender_without_credits_waits_for_the_first_return() {
    // A credit returns after the packet's wire time (76 ns), acceptance (50 ns), two propagation delays (400 ns) and
    // the update's wire time (4 ns).
    let back = 76 + 50 + 400 + 4;
    for config in [plain(), packets(plain())] {
        let mut bench = Bench::with_accept(&config::Link { posted_header_credits: 1, ..config }, Span::from_ns(50));
        bench.send(0, data(1, 1));
        bench.send(1, data(2, 1));
        let at = ns(back + 76 + 200);
        bench.run_until(at - Span::from_ps(1));
        assert!(bench.arrival_instants_ns(2).is_empty());
        bench.run_until(at);
        assert_eq!(bench.arrival_instants_ns(2), [back + 76 + 200]);
    }
}

#[test]
fn packet_sent_at_its_credit_return_does_not_wait() {
    for (sent_at, starts_at) in [(479, 480), (480, 480), (481, 481)] {
        let mut bench = Bench::new(&config::Link { posted_header_credits: 1, ..plain() });
        bench.send(0, data(1, 1));
        bench.send(sent_at, data(2, 1));
        bench.finish();
        assert_eq!(bench.arrival_instants_ns(2), [starts_at + 76 + 200], "sent at {sent_at}");
    }
}

#[test]
fn data_credits_hold_packets_like_header_credits() {
    // A packet of 128 bytes needs eight data credits of 16 bytes.
    for config in [plain(), packets(plain())] {
        let mut bench = Bench::new(&config::Link { posted_data_credits: 8, ..config });
        bench.send(0, data(1, 3));
        bench.finish();
        assert_eq!(bench.arrival_instants_ns(1).last(), Some(&(2 * 480 + 76 + 200)));
    }
}

#[test]
fn writes_without_credits_do_not_delay_reads() {
    let mut bench = Bench::new(&config::Link { posted_header_credits: 1, ..plain() });
    bench.send(0, data(1, 2));
    bench.send(100, read(2));
    assert_eq!(bench.finish(), [(312, 2), (480 + 76 + 200, 1)]);
}

#[test]
fn completions_use_no_credits() {
    let mut bench = Bench::new(&config::Link {
        posted_header_credits: 1,
        posted_data_credits: 8,
        non_posted_header_credits: 1,
        ..plain()
    });
    let answer = Packet { kind: Kind::Completion, ..Packet::write(Direction::Down, 0, 640, 64, token(1)) };
    bench.send(0, answer);
    // Ten packets of 64 + 20 bytes without a gap.
    assert_eq!(bench.finish(), [(420 + 200, 1)]);
}

#[test]
fn ack_and_updatefc_follow_every_write() {
    let mut bench = Bench::new(&config::Link { dllps: true, ..plain() });
    bench.send(0, data(1, 14));
    bench.finish();
    // One ACK of 8 bytes for every 1.4 packets (AckFactor for x4 and 128 bytes), and as many flow-control updates.
    let used = bench.link.usage(Direction::Down);
    assert!((used.dllp_bytes as f64 - 2.0 * 8.0 * 14.0 / 1.4).abs() <= 1.0, "{}", used.dllp_bytes);
    assert_eq!(bench.link.usage(Direction::Up).dllp_bytes, 0);
}

#[test]
fn acknowledgements_delay_only_packets_without_a_gap() {
    let owing = |sent_at| {
        let mut bench = Bench::new(&config::Link { dllps: true, ..plain() });
        bench.send(0, Packet::write(Direction::Down, 0, 4, 4, token(1)));
        bench.send(sent_at, data(2, 1));
        bench.finish();
        bench.seen.last().expect("the data").at - sent_at * 1000 - 276_000
    };
    // The write arrives at 214 ns. Until then the upstream wire has been idle.
    assert_eq!(owing(214), 0);
    let mut bench = Bench::new(&config::Link { dllps: true, ..plain() });
    bench.send(0, data(1, 4));
    bench.send(0, Packet::write(Direction::Down, 0, 4, 4, token(2)));
    bench.send(250, data(3, 1));
    bench.finish();
    // Two DLLPs of 8 bytes for every 1.4 packets delay the data by 5714 ps.
    assert_eq!(
        bench.seen.last(),
        Some(&SeenPackets { at: (304 + 76 + 200) * 1000 + 5714, name: 3, first: 0, count: 1 })
    );
}

#[test]
fn corrupted_packet_costs_a_round_trip_and_replay() {
    let config = config::Link { bit_error_rate: 1e-4, ..plain() };
    for config in [config.clone(), packets(config)] {
        let mut bench = Bench::new(&config);
        bench.send(0, data(1, 40));
        bench.finish();
        // Each replay costs one lost packet (76 ns) and 404 ns until its NAK arrives, so every delay is a multiple.
        let late = bench.seen.last().expect("an arrival").at / 1000 - (40 * 76 + 200);
        assert!(late > 0 && late.is_multiple_of(76 + 404), "{late}");
        let used = bench.link.usage(Direction::Up);
        assert_eq!(used.replays, late / 480 * 480_u64.div_ceil(76));
        assert_eq!((used.packets, bench.seen.iter().map(|seen| seen.count).sum::<u32>()), (40, 40));
    }
}

/// What random traffic is made of: when, what, how many packets.
fn random_traffic() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
    prop::collection::vec((0..400u64, 0..4u8, 1..12u32), 1..40)
}

fn burst(name: u32, what: u8, packets: u32) -> Packet {
    match what {
        0 => data(name, packets),
        1 => Packet::read(0, packets * 512, 512, token(name)),
        2 => Packet { kind: Kind::Completion, ..Packet::write(Direction::Down, 0, packets * 64, 64, token(name)) },
        _ => Packet::write(Direction::Down, 0, 4, 4, token(name)),
    }
}

fn any_link() -> impl Strategy<Value = config::Link> {
    let credits = (1..5u16, 8..40u16, 1..4u16);
    (credits, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |((headers, data, reads), dllps, shared, single, errors)| config::Link {
            posted_header_credits: headers,
            posted_data_credits: data,
            non_posted_header_credits: reads,
            dllps,
            duplex: if shared { config::Duplex::Shared } else { config::Duplex::Full },
            granularity: if single {
                config::LinkEventGranularity::Packet
            } else {
                config::LinkEventGranularity::Train
            },
            bit_error_rate: if errors { 1e-5 } else { 0.0 },
            ..plain()
        },
    )
}

fn totals(used: [WireUse; 2]) -> (u64, u64) {
    (used.iter().map(|wire| wire.packets).sum(), used.iter().map(|wire| wire.data_bytes + wire.command_bytes).sum())
}

#[test]
fn partial_burst_times_include_a_shorter_last_packet() {
    let link = Bench::new(&plain()).link;
    // The packets have 128, 128 and 44 bytes.
    let burst = Packet::write(Direction::Up, 0, 300, 128, token(1));
    let times =
        [(0, 1), (0, 2), (1, 2), (2, 1), (0, 3)].map(|(first, count)| link.partial_burst_time(&burst, first, count));
    assert_eq!(times, [76, 152, 110, 34, 186].map(Span::from_ns));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_arrive_once_and_in_class_order(
        config in any_link(),
        accept in 0..100u64,
        random_traffic in random_traffic(),
    ) {
        let mut bench = Bench::with_accept(&config, Span::from_ns(accept));
        let (mut at, mut sent) = (0, (0, 0));
        let mut kinds = Vec::new();
        for (name, &(after, what, packets)) in random_traffic.iter().enumerate() {
            let packet = burst(name as u32, what, packets);
            sent = (sent.0 + u64::from(packet.count()), sent.1 + u64::from(packet.payload_bytes()));
            kinds.push((packet.kind, packet.direction, packet.count()));
            at += after;
            bench.send(at, packet);
        }
        // If a credit is spent twice or lost, the run panics or leaves packets behind.
        bench.finish();
        prop_assert_eq!(totals([Direction::Up, Direction::Down].map(|way| bench.link.usage(way))), sent);
        for (name, kind) in kinds.iter().enumerate() {
            let parts: Vec<_> = bench.seen.iter().filter(|seen| seen.name == name as u32).collect();
            let mut next = 0;
            for part in &parts {
                prop_assert_eq!(part.first, next);
                next += part.count;
            }
            prop_assert_eq!(next, kind.2);
        }
        for class in [Kind::MemoryWrite, Kind::MemoryRead, Kind::Completion] {
            for way in [Direction::Up, Direction::Down] {
                let order: Vec<u32> = bench.seen.iter().map(|seen| seen.name).collect();
                let own = order.into_iter().filter(|&name| (kinds[name as usize].0, kinds[name as usize].1) == (class, way));
                prop_assert!(own.is_sorted());
            }
        }
    }
}

#[test]
fn held_receiver_returns_earlier_credits_in_time() {
    let few = config::Link { posted_header_credits: 2, ..plain() };
    // The receiver takes 100 ns per packet, and a credit update needs 204 ns to return.
    let mut bench = Bench::with_accept(&few, Span::from_ns(100));
    bench.send(0, data(1, 1));
    bench.send(150, data(2, 1));
    bench.run_until(ns(430));
    bench.link.hold_posted(Direction::Up, ns(426), ns(5_000));
    bench.send(430, data(3, 1));
    bench.send(430, data(4, 1));
    // The first packet arrives at 276 ns, and its credit returns at 580 ns. The other credit returns when the receiver
    // releases its packet.
    assert_eq!(bench.finish(), [(276, 1), (426, 2), (580 + 276, 3), (5_304 + 276, 4)]);
}

#[test]
fn train_beyond_its_credits_is_predicted_exactly() {
    for accept in [0, 50] {
        let few = packets(config::Link { posted_header_credits: 4, ..plain() });
        let mut bench = Bench::with_accept(&few, Span::from_ns(accept));
        let foretold: Vec<u64> =
            (0..10).map(|packet| bench.link.offset_of_stream_packet(packet, 128).as_ps() / 1000 + 276).collect();
        bench.send(0, data(1, 10));
        bench.finish();
        assert_eq!(foretold, bench.arrival_instants_ns(1), "{accept}");
    }
}
