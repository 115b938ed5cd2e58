//! Tests of the memory as a whole: boundaries at t-1 and t, closed forms, and properties.

use super::*;
use crate::config::{Fault, FaultAction};
use proptest::prelude::*;

const fn at(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

const fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

const PS: Span = Span::from_ps(1);

fn geometry(channels: u16, banks_per_channel: u16, stripe_bytes: u32, timing: Timing) -> Geometry {
    Geometry { channels, banks_per_channel, stripe_bytes, timing }
}

/// Creates the phase-change memory of the DC Express paper, with one channel.
fn pcm_of_dc_express(banks: u16, stripe_bytes: u32) -> Media {
    Media::new(&geometry(1, banks, stripe_bytes, Timing::default()))
}

fn technologies() -> [Timing; 3] {
    let dram = Timing {
        command: ns(10),
        read: ns(50),
        bus: BusTransferRate::from_bytes_per_ns(12.8),
        program: Span::ZERO,
        program_bytes: 64,
        acknowledge: Acknowledge::Late,
    };
    let nand = Timing {
        command: ns(200),
        read: Span::from_us(30),
        bus: BusTransferRate::from_bytes_per_ns(0.4),
        program: Span::from_us(200),
        program_bytes: 4096,
        acknowledge: Acknowledge::Early,
    };
    [Timing::default(), dram, nand]
}

#[test]
fn idle_read_of_128_bytes_takes_the_published_368_ns() {
    let read = pcm_of_dc_express(4, 4096).read(at(7), 0, 128, 128);
    assert_eq!(read.started, at(7));
    assert_eq!(read.first_at, at(7) + ns(194 + 110 + 64));
    assert_eq!(read.last_at, read.first_at);
}

#[test]
fn first_bytes_of_a_4_kib_read_arrive_as_early_as_a_small_read() {
    let read = pcm_of_dc_express(4, 4096).read(at(0), 4096, 4096, 128);
    assert_eq!(read.first_at, at(368));
    assert_eq!(read.last_at, at(304 + 2048));
}

#[test]
fn bank_starts_its_next_read_at_the_transfer_end() {
    let free_at = at(304 + 64);
    for (now, wait) in [(free_at - PS, PS), (free_at, Span::ZERO)] {
        let mut media = pcm_of_dc_express(1, 4096);
        media.read(at(0), 0, 128, 128);
        let read = media.read(now, 128, 128, 128);
        assert_eq!(read.started.since(now), wait);
        assert_eq!(read.first_at, read.started + ns(368));
    }
}

#[test]
fn bank_starts_no_access_during_its_program() {
    let programmed_at = at(194 + 2048 + 120_000);
    for (now, wait) in [(programmed_at - PS, PS), (programmed_at, Span::ZERO)] {
        let mut media = pcm_of_dc_express(1, 4096);
        let write = media.write(at(0), 0, 4096);
        assert_eq!(write.buffered_at, at(194 + 2048));
        assert_eq!(write.programmed_at, programmed_at);
        assert_eq!(media.clone().read(now, 0, 1, 1).started.since(now), wait);
        assert_eq!(media.write(now, 0, 1).started.since(now), wait);
    }
}

#[test]
fn arrays_of_two_banks_overlap_and_their_transfers_share_the_bus() {
    let mut media = pcm_of_dc_express(2, 4096);
    let first = media.read(at(0), 0, 128, 128);
    let second = media.read(at(0), 4096, 128, 128);
    assert_eq!(first.last_at, at(368));
    assert_eq!(second.last_at, at(368 + 64));
    assert_eq!(second.started, at(64), "the wait for the bus counts as waiting");
}

#[test]
fn channels_work_in_parallel() {
    let mut media = Media::new(&geometry(2, 1, 512, Timing::default()));
    let read = media.read(at(0), 0, 1024, 128);
    assert_eq!(read.first_at, at(368));
    assert_eq!(read.last_at, at(304 + 256), "both pieces at the same time");
}

#[test]
fn first_bytes_wait_for_all_pieces_that_contain_them() {
    let mut media = pcm_of_dc_express(2, 64);
    media.write(at(0), 64, 64);
    let programmed_at = at(194 + 32 + 120_000);
    let read = media.clone().read(at(1000), 0, 128, 64);
    assert_eq!(read.first_at, at(1000 + 304 + 32), "the free bank holds them");
    assert_eq!(read.last_at, programmed_at + ns(304 + 32));
    let read = media.read(at(1000), 0, 128, 65);
    assert_eq!(read.started, programmed_at, "the second piece is critical");
    assert_eq!(read.first_at, programmed_at + ns(304) + Span::from_ps(500));
}

#[test]
fn read_behind_a_program_leaves_the_bus_to_other_banks() {
    let mut media = pcm_of_dc_express(2, 4096);
    media.write(at(0), 0, 4096);
    media.read(at(0), 0, 128, 128);
    assert_eq!(media.read(at(3000), 4096, 128, 128).last_at, at(3368));
}

#[test]
fn acknowledgement_before_and_after_programming_differs_by_it() {
    let acknowledged = |acknowledge| {
        let timing = Timing { acknowledge, ..Timing::default() };
        let mut media = Media::new(&geometry(1, 1, 4096, timing));
        (media.write(at(0), 0, 4096), media.write(at(0), 4096, 4096))
    };
    let (early, early_next) = acknowledged(Acknowledge::Early);
    let (late, late_next) = acknowledged(Acknowledge::Late);
    assert_eq!(early.acknowledged_at, at(194 + 2048));
    assert_eq!(late.acknowledged_at, early.acknowledged_at + Span::from_us(120));
    assert_eq!(early_next.started, late.programmed_at, "one row buffer a bank");
    assert_eq!(late_next.started, late.programmed_at);
    assert_eq!(late_next.programmed_at, early_next.programmed_at);
}

/// Returns the time at which the cells of all writes `(time, offset)` are programmed, on one bank with units of 4 KiB.
fn program_end_times(writes: &[(u64, u64)], acknowledge: Acknowledge) -> Time {
    let mut media = Media::new(&geometry(1, 1, 4096, Timing { acknowledge, ..Timing::default() }));
    let ends = writes.iter().map(|&(now, offset)| media.write(at(now), offset, 512).programmed_at);
    ends.max().unwrap()
}

#[test]
fn pieces_in_one_program_unit_are_programmed_once() {
    for stripe_bytes in [64, 256, 4096] {
        let write = pcm_of_dc_express(4, stripe_bytes).write(at(0), 0, 16_384);
        assert!(write.programmed_at < at(120_000 + 194 + 8192 + 200), "{stripe_bytes}: {}", write.programmed_at);
    }
}

#[test]
fn piece_joins_its_unit_until_programming_begins() {
    let first_at = 194 + 256;
    let joined = program_end_times(&[(0, 0), (first_at - 1, 512)], Acknowledge::Late);
    assert_eq!(joined, at(first_at - 1 + first_at + 120_000), "its own command and transfer, then one program");
    let apart = program_end_times(&[(0, 0), (first_at, 512)], Acknowledge::Late);
    assert_eq!(apart, at(2 * (first_at + 120_000)));
    assert_eq!(program_end_times(&[(0, 0), (1, 4096)], Acknowledge::Late), apart, "another unit");
}

#[test]
fn pieces_waiting_for_a_busy_bank_share_a_program() {
    let writes: Vec<(u64, u64)> = (0..9).map(|i| (i, if i == 0 { 8192 } else { (i - 1) * 512 })).collect();
    assert_eq!(program_end_times(&writes, Acknowledge::Late), at(2 * (194 + 256 + 120_000) + 7 * 256));
}

#[test]
fn incomplete_unit_is_kept_for_one_program_time() {
    let buffered = 194 + 256;
    let alone = program_end_times(&[(0, 0)], Acknowledge::Early);
    assert_eq!(alone, at(buffered + 120_000 + 120_000));
    let whole: Vec<(u64, u64)> = (0..8).map(|i| (i * 10_000, i * 512)).collect();
    let mut media = Media::new(&geometry(1, 1, 4096, Timing { acknowledge: Acknowledge::Early, ..Timing::default() }));
    let last = whole.iter().map(|&(now, offset)| media.write(at(now), offset, 512)).last().unwrap();
    assert_eq!(last.programmed_at, at(70_000 + buffered + 120_000), "it is whole");
    assert_eq!(media.activity().banks_busy, ns(8 * buffered + 120_000));
}

#[test]
fn incomplete_unit_is_programmed_before_another_unit() {
    let timing = Timing { acknowledge: Acknowledge::Early, ..Timing::default() };
    let mut media = Media::new(&geometry(1, 1, 4096, timing));
    media.write(at(0), 0, 512);
    let read = media.read(at(1000), 8192, 128, 128);
    assert_eq!(read.last_at, at(1368));
    let other = media.write(at(2000), 4096, 512);
    assert_eq!(other.buffered_at, at(2000 + 120_000 + 194 + 256));
    let accesses = 194 + 256 + 368 + 194 + 256;
    assert_eq!(media.activity().banks_busy, ns(accesses + 120_000), "the program that made room counts");
    let deadline = 120_000 + 194 + 256 + 120_000;
    let late = media.clone().read(at(2000 + deadline), 8192, 128, 128);
    assert_eq!(late.started, at(2000 + deadline + 120_000), "its program began as it had waited long enough");
}

#[test]
fn flush_programs_incomplete_units_and_waits() {
    let mut media = pcm_of_dc_express(4, 4096);
    media.write_without_waiting(at(0), 0, 512);
    media.write_without_waiting(at(0), 4096, 4096);
    assert_eq!(media.flush(at(1000), 0, 512), at(121_000));
    assert_eq!(media.flush(at(1000), 4096, 512), at(194 + 256 + 2048 + 120_000), "it was whole");
    assert_eq!(media.flush(at(500_000), 0, 8192), at(500_000));
}

#[test]
fn open_row_is_read_in_parts_with_one_activation() {
    let mut media = pcm_of_dc_express(1, 4096);
    let ends: Vec<Time> = (0..4).map(|i| media.read_part_of_row(at(i), i * 256, 256).last_at).collect();
    assert_eq!(ends, [at(304 + 128), at(304 + 256), at(304 + 384), at(304 + 512)]);
    assert_eq!(media.read_part_of_row(at(5000), 1024, 256).last_at, at(5000 + 128), "the row is still open");
    assert_eq!(media.read_part_of_row(at(6000), 4096, 256).last_at, at(6000 + 304 + 128), "another row");
    media.write(at(7000), 8192, 256);
    let read_at = media.read_part_of_row(at(200_000), 4096, 256).last_at;
    assert_eq!(read_at, at(200_000 + 304 + 128), "what is written takes the buffer");
}

#[test]
fn requests_of_zero_bytes_complete_at_once() {
    let mut media = pcm_of_dc_express(1, 4096);
    assert_eq!(media.read(at(5), 0, 0, 128).last_at, at(5));
    assert_eq!(media.write(at(5), 0, 0).programmed_at, at(5));
}

#[test]
fn largest_requests_and_addresses_do_not_overflow() {
    let mut media = Media::new(&geometry(3, 5, 1 << 20, Timing::default()));
    let read = media.read(at(0), u64::MAX, u32::MAX, u32::MAX);
    assert_eq!(read.first_at, read.last_at);
    media.write(at(1), u64::MAX - 1, u32::MAX);
    let read = media.read(Time::NEVER, 0, 512, 128);
    assert!(read.started >= Time::NEVER && read.last_at > read.started);
    assert!(media.write(Time::NEVER, 0, 512).started > read.started);
}

/// Returns the bandwidth in bytes per nanosecond of `reads` sequential reads of `bytes` bytes each, all requested at
/// time 0.
fn saturated_bytes_per_ns(geometry: &Geometry, reads: u64, bytes: u32) -> f64 {
    let mut media = Media::new(geometry);
    let end = (0..reads).map(|i| media.read(Time::ZERO, i * u64::from(bytes), bytes, 1).last_at).max();
    (reads * u64::from(bytes)) as f64 / end.unwrap().as_ns()
}

#[test]
fn saturated_bandwidth_is_the_lower_of_bus_and_bank_limits() {
    let mut bus_bound = 0;
    for timing in technologies() {
        for (channels, banks) in [(1, 1), (1, 4), (8, 2), (3, 64)] {
            for bytes in [64, 512, 4096] {
                let limits = geometry(channels, banks, bytes, timing);
                let buses = f64::from(channels) / timing.bus.transfer_time(1000).as_ns() * 1000.0;
                let cycle = (timing.read_access_time() + timing.bus.transfer_time(bytes)).as_ns();
                let all_banks = f64::from(channels) * f64::from(banks);
                let expected = buses.min(all_banks * f64::from(bytes) / cycle);
                let reads = 4000 * u64::from(channels) * u64::from(banks);
                let measured = saturated_bytes_per_ns(&limits, reads, bytes);
                assert!((measured / expected - 1.0).abs() < 1e-3, "{measured} {limits:?}");
                bus_bound += u32::from(expected == buses);
            }
        }
    }
    assert!((6..30).contains(&bus_bound), "both limits are exercised: {bus_bound}");
}

#[test]
fn saturated_writes_are_limited_by_bank_program_time() {
    let mut media = Media::new(&geometry(8, 2, 4096, Timing::default()));
    let writes = 16_000;
    let end = (0..writes).map(|i| media.write(Time::ZERO, i * 4096, 4096).programmed_at).max();
    let cycle = (ns(194 + 2048) + Span::from_us(120)).as_ns();
    let measured = end.unwrap().as_ns() / writes as f64;
    assert!((measured / (cycle / 16.0) - 1.0).abs() < 1e-3, "{measured}");
}

#[test]
fn activity_counts_requests_bytes_and_busy_time() {
    let mut media = pcm_of_dc_express(2, 4096);
    media.read(at(0), 0, 128, 128);
    media.read(at(0), 4096, 128, 128);
    media.write(at(1000), 0, 512);
    let expected = MemoryActivity {
        reads: 2,
        writes: 1,
        read_bytes: 256,
        written_bytes: 512,
        unwritten_read_bytes: 0,
        gap_moves: 0,
        banks_busy: ns(368 + 432 + 194 + 256 + 120_000),
        buses_busy: ns(64 + 64 + 256),
    };
    assert_eq!(media.activity(), expected);
}

#[test]
fn bank_fault_delays_a_read_at_its_bank() {
    let own = Timing::default().command + Timing::default().read;
    let slow = Fault { action: FaultAction::SlowBank, factor: 10.0, ..Fault::default() };
    let mut media = pcm_of_dc_express(1, 4096).with_faults(&[slow], 1);
    let read = media.read(at(100), 0, 128, 128);
    assert_eq!((read.admitted, read.started), (at(100), at(100) + own * 9));
    assert_eq!(read.last_at, read.started + ns(368));
}

fn assert_disjoint(mut spans: Vec<(u32, Time, Time)>) -> Result<(), TestCaseError> {
    spans.retain(|(_, from, until)| from < until);
    spans.sort();
    for pair in spans.windows(2) {
        prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn accesses_never_share_a_bank_or_bus(
        technology in 0usize..3, channels in 1u16..4, banks in 1u16..4,
        calls in prop::collection::vec((0u64..2000, 0u64..40, 1u32..512, any::<bool>()), 1..60),
    ) {
        let mut media = Media::new(&geometry(channels, banks, 512, technologies()[technology]));
        let (mut on_banks, mut on_buses) = (Vec::new(), Vec::new());
        let mut now = Time::ZERO;
        for (pause_ns, stripe, bytes, is_read) in calls {
            now += ns(pause_ns);
            let piece = media.interleave.pieces(stripe * 512, bytes).next().unwrap();
            let access = match is_read {
                true => media.read_piece(now, piece, 1, false).access,
                false => media.write_piece(now, piece, media.program_unit_of_piece(piece), BankProgramPolicy::AtOnce).0.access,
            };
            prop_assert!(access.bank_from >= now);
            on_banks.push((piece.bank, access.bank_from, access.bank_until));
            let channel = media.interleave.channel(piece.bank);
            on_buses.push((channel, access.bus_from, access.bus_until));
        }
        assert_disjoint(on_banks)?;
        assert_disjoint(on_buses)?;
    }

    #[test]
    fn read_stages_are_ordered_and_never_faster_than_idle(
        technology in 0usize..3, channels in 1u16..4, banks in 1u16..4, stripe_bytes in 1u32..2000,
        calls in prop::collection::vec((0u64..2000, 0u64..100_000, 1u32..9000, 0u32..9000), 1..40),
    ) {
        let timing = technologies()[technology];
        let mut media = Media::new(&geometry(channels, banks, stripe_bytes, timing));
        let mut now = Time::ZERO;
        for (i, (pause_ns, offset, bytes, first_bytes)) in calls.into_iter().enumerate() {
            now += ns(pause_ns);
            let pieces = media.interleave.pieces(offset, bytes);
            let largest = pieces.map(|piece| timing.bus.transfer_time(piece.bytes)).max().unwrap();
            if i % 3 == 0 {
                let write = media.write(now, offset, bytes);
                prop_assert!(now <= write.started && write.started <= write.buffered_at);
                prop_assert!(write.buffered_at <= write.acknowledged_at);
                prop_assert!(write.acknowledged_at <= write.programmed_at);
                prop_assert!(write.buffered_at >= now + timing.command + largest);
                prop_assert!(write.programmed_at >= write.buffered_at + timing.program);
            } else {
                let read = media.read(now, offset, bytes, first_bytes);
                prop_assert!(now <= read.started && read.started <= read.first_at);
                prop_assert!(read.first_at <= read.last_at);
                prop_assert!(read.last_at >= now + timing.read_access_time() + largest);
                prop_assert!(read.first_at >= now + timing.read_access_time() + timing.bus.transfer_time(1));
            }
        }
    }

    #[test]
    fn single_piece_request_is_never_faster_than_on_idle_memory(
        technology in 0usize..3, banks in 1u16..4,
        calls in prop::collection::vec((0u64..2000, 0u64..12, 1u32..=512, any::<bool>()), 1..40),
    ) {
        let layout = geometry(2, banks, 512, technologies()[technology]);
        let mut media = Media::new(&layout);
        let mut now = Time::ZERO;
        for (pause_ns, stripe, bytes, is_read) in calls {
            now += ns(pause_ns);
            let mut idle = Media::new(&layout);
            if is_read {
                let read = media.read(now, stripe * 512, bytes, 128);
                let best = idle.read(now, stripe * 512, bytes, 128);
                prop_assert_eq!(best.started, now);
                prop_assert_eq!(read.first_at.since(read.started), best.first_at.since(now));
                prop_assert_eq!(read.last_at.since(read.started), best.last_at.since(now));
            } else {
                let write = media.write(now, stripe * 512, bytes);
                let best = idle.write(now, stripe * 512, bytes);
                prop_assert_eq!(best.started, now);
                let service = write.programmed_at.since(write.buffered_at);
                prop_assert!(service >= layout.timing.program);
                prop_assert!(service <= best.programmed_at.since(best.buffered_at));
                prop_assert!(write.acknowledged_at.since(now) >= best.acknowledged_at.since(now));
            }
        }
    }
}
