//! Tests of the parts that only some memories have: chips on serial buses, data-dependent write times, pauses, wear
//! levelling.

use super::*;
use crate::config;
use crate::drive::Drive;
use crate::drive_file::KeyOverride;

const PS: Span = Span::from_ps(1);
const PROGRAM: Span = Span::from_us(120);

/// Returns the media configuration of a preset with overrides.
fn preset_media(preset: &str, set: &[&str]) -> config::Media {
    let set: Vec<_> = set.iter().map(|text| KeyOverride::parse(&format!("media.{text}")).unwrap()).collect();
    let text = format!("interface = 'nvme'\nmedia.preset = '{preset}'\n");
    Drive::from_toml("drive.toml", &text, &set).unwrap_or_else(|problems| panic!("{problems}")).media
}

fn memory(preset: &str, set: &[&str]) -> Media {
    Media::of(&preset_media(preset, set), 1)
}

/// Returns the time of `count` clocks of 66 MHz, to the nearest picosecond.
fn time_of_clocks_at_66_mhz(count: u64) -> Span {
    Span::from_ps((count * 1_000_000 + 33) / 66)
}

fn at(span: Span) -> Time {
    Time::ZERO + span
}

#[test]
fn single_chip_read_takes_296_clocks() {
    let read = memory("pcm-p5q-channel", &[]).read(Time::ZERO, 0, 128, 128);
    assert_eq!(time_of_clocks_at_66_mhz(296), Span::from_ps(4_484_848));
    assert_eq!(read.first_at, at(time_of_clocks_at_66_mhz(296)), "two chips and the spare one, on three buses");
    assert_eq!(read.last_at, read.first_at);
}

#[test]
fn sector_read_uses_its_buses_for_three_chips() {
    let mut card = memory("pcm-p5q-card", &[]);
    let read = card.read(Time::ZERO, 0, 512, 192);
    assert_eq!(read.first_at, at(time_of_clocks_at_66_mhz(296)), "the first chip of each bus");
    assert_eq!(read.last_at, at(time_of_clocks_at_66_mhz(3 * 296)));
    assert_eq!(card.activity().buses_busy, time_of_clocks_at_66_mhz(3 * 296) * 3);
    let read = memory("pcm-p5q-card", &[]).read(Time::ZERO, 0, 512, 193);
    assert_eq!(read.first_at, at(time_of_clocks_at_66_mhz(2 * 296)), "the second chip of the first bus");
}

#[test]
fn read_of_4_kib_reads_a_sector_per_channel_in_parallel() {
    let read = memory("pcm-p5q-card", &[]).read(Time::ZERO, 0, 4096, 4096);
    assert_eq!(
        (read.started, read.first_at, read.last_at),
        (Time::ZERO, read.last_at, at(time_of_clocks_at_66_mhz(3 * 296)))
    );
}

#[test]
fn partial_sector_uses_its_chips_and_the_spare() {
    // The requested bytes are in chips 2 and 3, on buses 2 and 0. The spare chip is on bus 2 too.
    let mut card = memory("pcm-p5q-card", &[]);
    let read = card.read(Time::ZERO, 128, 128, 128);
    assert_eq!(read.first_at, at(time_of_clocks_at_66_mhz(296)));
    assert_eq!(read.last_at, at(time_of_clocks_at_66_mhz(2 * 296)));
    assert_eq!(card.activity().buses_busy, time_of_clocks_at_66_mhz(296) + time_of_clocks_at_66_mhz(2 * 296));
}

#[test]
fn array_read_longer_than_dummy_clocks_holds_the_bus() {
    let last = |read_ns: &str| memory("pcm-p5q-card", &[read_ns]).read(Time::ZERO, 0, 512, 512).last_at;
    let dummy = Span::from_ps(121_212);
    assert_eq!(last("read_ns=121.212"), at(time_of_clocks_at_66_mhz(3 * 296)));
    assert_eq!(last("read_ns=1000"), at(time_of_clocks_at_66_mhz(3 * 296) + (Span::from_us(1) - dummy) * 3));
}

#[test]
fn early_write_ends_after_288_clocks_per_chip() {
    let write = memory("pcm-p5q-card", &[]).write(Time::ZERO, 0, 4096);
    assert_eq!(write.acknowledged_at, at(time_of_clocks_at_66_mhz(3 * 288)));
    assert_eq!(write.programmed_at, at(time_of_clocks_at_66_mhz(3 * 288) + PROGRAM));
    let late = memory("pcm-p5q-card", &["acknowledge=late"]).write(Time::ZERO, 0, 4096);
    assert_eq!(late.acknowledged_at, write.programmed_at);
    assert_eq!(late.started, Time::ZERO);
}

#[test]
fn bank_of_chips_is_free_exactly_at_its_program_end() {
    let free_at = at(time_of_clocks_at_66_mhz(3 * 288) + PROGRAM);
    for (now, wait) in [(free_at - PS, PS), (free_at, Span::ZERO)] {
        let mut card = memory("pcm-p5q-card", &[]);
        card.write(Time::ZERO, 0, 512);
        let read = card.read(now, 0, 512, 512);
        assert_eq!(read.started.since(now), wait);
        assert_eq!(read.last_at, free_at + time_of_clocks_at_66_mhz(3 * 296));
    }
}

#[test]
fn bank_reads_while_another_programs_but_waits_for_buses() {
    let mut card = memory("pcm-p5q-card", &[]);
    card.write(Time::ZERO, 0, 512);
    let read = card.read(Time::ZERO, 4096, 512, 512);
    assert_eq!(read.started, at(time_of_clocks_at_66_mhz(3 * 288)));
    assert_eq!(read.last_at, at(time_of_clocks_at_66_mhz(3 * 288) + time_of_clocks_at_66_mhz(3 * 296)));
}

#[test]
fn second_line_on_busy_buses_is_one_chip_access_later() {
    let mut channel = memory("pcm-p5q-channel", &[]);
    channel.read(Time::ZERO, 0, 128, 128);
    let other_row = channel.read(Time::ZERO, 128, 128, 128);
    assert_eq!(other_row.first_at, at(time_of_clocks_at_66_mhz(296) * 2));
    assert_eq!(other_row.started, at(time_of_clocks_at_66_mhz(296)));
}

/// Returns the requests of 4 KiB per second that a memory serves if all `requests` come at time 0.
fn saturated_iops(card: &mut Media, requests: u64, write: bool) -> f64 {
    let done = (0..requests).map(|request| match write {
        true => card.write(Time::ZERO, request * 4096, 4096).programmed_at,
        false => card.read(Time::ZERO, request * 4096, 4096, 4096).last_at,
    });
    requests as f64 / (done.max().unwrap().as_ns() * 1e-9)
}

#[test]
fn pcm_card_reads_74300_and_writes_15030_iops_of_4_kib() {
    let reads = saturated_iops(&mut memory("pcm-p5q-card", &[]), 2000, false);
    let expected = 66e6 / (3.0 * 296.0);
    assert!((reads / expected - 1.0).abs() < 1e-6, "{reads}");
    assert!((reads - 74_300.0).abs() < 50.0, "{reads}");
    let writes = saturated_iops(&mut memory("pcm-p5q-card", &[]), 2000, true);
    let expected = 2.0 / (3.0 * 288.0 / 66e6 + 120e-6);
    // The banks of a channel start at different times.
    assert!((writes / expected - 1.0).abs() < 2e-4, "{writes}");
    assert!((writes - 15_030.0).abs() < 10.0, "{writes}");
}

#[test]
fn next_generation_line_takes_450_ns_and_16_beats() {
    let read = memory("pcm-next-generation", &[]).read(Time::ZERO, 0, 128, 128);
    let beats = read.last_at.since(at(Span::from_ns(450)));
    assert!((beats.as_ns() - 12.0).abs() < 0.01, "{beats}");
}

#[test]
fn data_pattern_changes_the_program_time() {
    let program = |set: &[&str]| {
        let write = memory("pcm-p5q-card", set).write(Time::ZERO, 0, 4096);
        write.programmed_at.since(write.buffered_at)
    };
    assert_eq!(program(&[]), PROGRAM);
    assert_eq!(program(&["data_pattern=zeros"]), Span::from_ns(107_200));
    assert_eq!(program(&["data_pattern=ones"]), Span::from_ns(132_800));
    assert_eq!(program(&["write_difference=true"]), Span::from_ns(100 + 60_000));
    let random = program(&["data_pattern=random"]);
    assert!((Span::from_us(119)..Span::from_us(124)).contains(&random), "{random}");
}

#[test]
fn ecc_decoding_follows_the_transfer_without_delaying_others() {
    let mut card = memory("pcm-p5q-card", &["ecc_decode_ns=700"]);
    let (first, second) = (card.read(Time::ZERO, 0, 512, 64), card.read(Time::ZERO, 0, 512, 64));
    assert_eq!(first.last_at, at(time_of_clocks_at_66_mhz(3 * 296) + Span::from_ns(700)));
    assert_eq!(first.started, Time::ZERO);
    assert_eq!(second.last_at, first.last_at + time_of_clocks_at_66_mhz(3 * 296));
    assert_eq!(card.read(Time::ZERO, 0, 0, 1).last_at, Time::ZERO, "nothing to decode");
}

#[test]
fn access_in_a_pause_starts_at_its_end() {
    let set = ["housekeeping_interval_us=1000", "housekeeping_us=50"];
    let pause = Time::ZERO + Span::from_ms(1);
    for (now, wait) in [(pause - PS, Span::ZERO), (pause, Span::from_us(50)), (pause + Span::from_us(50), Span::ZERO)] {
        for preset in ["pcm-p5q-card", "pcm-lpddr2-nvm"] {
            let mut memory = memory(preset, &set);
            assert_eq!(memory.clone().read(now, 0, 512, 512).started.since(now), wait);
            assert_eq!(memory.write(now, 0, 512).started.since(now), wait);
        }
    }
}

#[test]
fn last_write_of_an_interval_delays_only_later_requests() {
    let mut card = memory("pcm-p5q-card", &["wear_levelling=start-gap", "gap_write_interval=2"]);
    let cycle = time_of_clocks_at_66_mhz(3 * 288) + PROGRAM;
    assert_eq!(card.write(Time::ZERO, 0, 512).programmed_at, at(cycle));
    assert_eq!(card.write(Time::ZERO, 0, 512).programmed_at, at(cycle * 2), "the write itself is not delayed");
    let after_move = at(cycle * 3 + time_of_clocks_at_66_mhz(3 * 296));
    assert_eq!(card.read(Time::ZERO, 0, 512, 512).started, after_move);
    assert_eq!(card.read(Time::ZERO, 512, 512, 512).started, Time::ZERO, "on another channel");
    assert_eq!(card.counters(), [("gap_moves", 1), ("line_writes_max", 2)]);
}

#[test]
fn line_write_counters_equal_writes_plus_gap_moves() {
    let set = ["wear_levelling=randomised-start-gap", "gap_write_interval=10", "wear_regions_per_bank=3"];
    let mut card = memory("pcm-p5q-card", &set);
    for write in 0..1000 {
        card.write(Time::ZERO, write * 512 % 65_536, 512);
    }
    let wear = card.wear().unwrap();
    let written: u64 = wear.line_writes.values().sum();
    assert_eq!(written, 1000 + card.activity().gap_moves);
    let pending: u64 = wear.regions.values().map(|region| u64::from(region.writes)).sum();
    assert_eq!(1000, card.activity().gap_moves * 10 + pending);
}

#[test]
fn hot_line_moves_evenly_through_all_slots() {
    let set = [
        "wear_levelling=start-gap",
        "gap_write_interval=4",
        "capacity_mib=1",
        "banks_per_channel=1",
        "stripe_bytes=65536",
    ];
    let mut memory = memory("pcm-lpddr2-nvm", &set);
    let (lines, moves) = (16, 16 * 17 * 5);
    (0..moves * 4).for_each(|_| {
        memory.write(Time::ZERO, 0, 8);
        assert_eq!(memory.wear().unwrap().inconsistency(), None);
    });
    let writes = &memory.wear().unwrap().line_writes;
    assert_eq!(writes.len(), lines + 1);
    let (least, most) = (writes.values().min().unwrap(), writes.values().max().unwrap());
    assert!(most - least <= 5, "five rounds over all slots: {least} to {most}");
}

#[test]
fn writes_beyond_capacity_wear_a_line_without_panic() {
    let mut card = memory("pcm-p5q-card", &["wear_levelling=randomised-start-gap"]);
    card.write(Time::ZERO, u64::MAX - 5, 4096);
    card.read(Time::ZERO, u64::MAX - 5, 4096, 1);
    assert_eq!(card.wear().unwrap().line_writes.len(), 9);
}
