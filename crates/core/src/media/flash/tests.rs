use super::*;
use crate::config::{
    Acknowledge, Buffer as BufferKeys, CollectionReadPriority, CommandBusSharing, Mapping, Media as MediaKeys,
    Technology, Translation as TranslationKeys,
};

const UNIT: u64 = 4096;

/// Returns a flash configuration of two channels of two dies with two planes of 8 KiB and two bits a cell: a line has
/// 64 KiB, a block 512 KiB.
fn media() -> MediaKeys {
    MediaKeys {
        technology: Technology::Nand,
        capacity_mib: 16,
        channels: 2,
        banks_per_channel: 2,
        stripe_bytes: 16384,
        program_bytes: 32768,
        planes: 2,
        block_pages: 16,
        command: Span::from_us(1),
        read: Span::from_us(20),
        read_centre: Span::from_us(30),
        program: Span::from_us(500),
        erase: Span::from_us(300),
        suspend: Span::from_us(4),
        bus_bytes_per_ns: 1.024,
        acknowledge: Acknowledge::Early,
        ecc_decode: Span::from_us(2),
        ..MediaKeys::default()
    }
}

fn buffer_keys() -> BufferKeys {
    BufferKeys { capacity_kib: 256, command: Span::from_us(5), page: Span::from_us(1), ..BufferKeys::default() }
}

fn translation_keys(precondition: Precondition) -> TranslationKeys {
    TranslationKeys { mapping: Mapping::Page, over_provisioning: 0.5, precondition, ..TranslationKeys::default() }
}

fn flash(precondition: Precondition) -> Flash {
    Flash::new(&media(), &buffer_keys(), &translation_keys(precondition), 1)
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Writes mapping units one after the other, each when the write before it is acknowledged. Returns the time at which
/// the last write is acknowledged.
fn write_units_in_sequence(flash: &mut Flash, from: Time, units: impl Iterator<Item = u64>) -> Time {
    units.fold(from, |now, unit| flash.write(now, now, unit * UNIT, UNIT as u32).acknowledged_at)
}

#[test]
fn flash_read_is_command_array_transfer_and_ecc_time() {
    let mut flash = flash(Precondition::Sequential);
    // Rows of four units alternate between the two channels. After all dies, the second page of the word lines follows.
    for (unit, array_us) in [(0, 20), (7, 20), (8, 30), (15, 30), (16, 20)] {
        let now = at(unit * 1000);
        let read = flash.read(now, now, unit * UNIT, 4096, 4096);
        assert_eq!(read.started, now, "{unit}");
        assert_eq!(read.last_at, now + Span::from_us(1 + array_us + 4 + 2), "{unit}");
    }
}

#[test]
fn units_of_a_row_share_an_array_read_and_channels_are_parallel() {
    let mut flash = flash(Precondition::Sequential);
    let read = flash.read(at(0), at(0), 0, 8 * 4096, 256);
    assert_eq!(read.last_at, at(1 + 20 + 16 + 2));
    assert_eq!(read.first_at, at(0) + Span::from_us(23) + Span::from_ns(250));
}

#[test]
fn wait_of_a_later_row_counts_as_waiting_not_media_time() {
    let mut flash = flash(Precondition::Sequential);
    // Another read occupies the die of the second row until its page has been transferred.
    flash.read(at(0), at(0), 4 * UNIT, 4096, 4096);
    let read = flash.read(at(0), at(0), 0, 8 * 4096, 256);
    let (alone, busy) = (Span::from_us(1 + 20 + 16 + 2), Span::from_us(1 + 20 + 4));
    assert_eq!((read.started, read.last_started, read.last_at), (at(0), at(0) + busy, at(0) + busy + alone));
    // All packets but the last take 10 us on the link, so the data flow could start 10 us before its last byte is
    // ready.
    let flow_start = |first_at: Time, last_at: Time| first_at.max(last_at - Span::from_us(10));
    let start = flow_start(read.first_at, read.last_at);
    assert_eq!(read.stages_with_data_flow(start, flow_start), [at(0), at(0), at(0) + busy, at(54)]);
    // A slow link hides the wait, as far as it is still busy with earlier packets.
    let slow_link = |first_at: Time, last_at: Time| first_at.max(last_at - Span::from_us(30));
    let start = slow_link(read.first_at, read.last_at);
    assert_eq!((start, read.stages_with_data_flow(start, slow_link)[2]), (at(34), at(34) - read.first_at.since(at(0))));
}

#[test]
fn rows_of_a_lone_read_do_not_wait_for_each_other() {
    let mut flash = flash(Precondition::Sequential);
    // Four dies read eight rows of 16 KiB, two rows each.
    let read = flash.read(at(0), at(0), 0, 32 * 4096, 256);
    assert_eq!((read.started, read.last_started), (at(0), at(0)));
    assert!(read.last_at > at(1 + 20 + 16 + 2), "{}", read.last_at);
}

#[test]
fn unwritten_and_deallocated_units_need_no_cell_reads() {
    let mut fresh = flash(Precondition::None);
    assert_eq!(fresh.read(at(0), at(0), 0, 4096, 4096).last_at, at(1));
    let mut written = flash(Precondition::Sequential);
    written.discard(0, 8192);
    assert_eq!(written.read(at(0), at(0), 4096, 4096, 4096).last_at, at(1));
    assert_eq!(written.read(at(0), at(0), 8192, 4096, 4096).last_at, at(27));
}

#[test]
fn counters_report_the_share_of_unwritten_reads() {
    let mut flash = flash(Precondition::Sequential);
    let count = |flash: &Flash, name: &str| flash.counters().iter().find(|(known, _)| *known == name).map(|it| it.1);
    let counts = |flash: &Flash| ["unwritten_read_bytes", "unwritten_read_percent"].map(|name| count(flash, name));
    flash.read(at(0), at(0), 8192, 4096, 4096);
    assert_eq!(counts(&flash), [None, None]);
    flash.discard(0, 8192);
    flash.read(at(100), at(100), 4096, 8192, 4096);
    assert_eq!(counts(&flash), [Some(4096), Some(34)]);
}

#[test]
fn buffered_write_is_acknowledged_and_read_until_programmed() {
    let mut flash = flash(Precondition::Sequential);
    let write = flash.write(at(0), at(0), 0, 4096);
    assert_eq!(write.acknowledged_at, at(6));
    assert_eq!(flash.read(at(10), at(10), 0, 4096, 4096).last_at, at(11));
    let done = write_units_in_sequence(&mut flash, at(100), 1..16);
    assert_eq!(flash.read(done, done, 0, 4096, 4096).last_at, done + Span::from_us(1));
    let later = done + Span::from_us(2000);
    assert_eq!(flash.read(later, later, 0, 4096, 4096).last_at, later + Span::from_us(27));
}

#[test]
fn units_rewritten_in_an_open_line_use_no_more_cells() {
    let mut flash = flash(Precondition::Sequential);
    let once = write_units_in_sequence(&mut flash, at(0), (0..15).chain(0..15).chain(0..15));
    assert_eq!(flash.translation.counts().written, 15);
    write_units_in_sequence(&mut flash, once, 15..16);
    assert_eq!(flash.programming.len(), 1);
}

#[test]
fn missing_parts_of_a_unit_are_read_from_the_cells() {
    let counted = |parts: u32| {
        let mut flash = flash(Precondition::Sequential);
        let now = write_units_in_sequence(&mut flash, at(0), 0..15);
        let before = flash.activity.banks_busy;
        // Write fifteen of the line's sixteen units, one of them again in parts. The first part of unit 20 then
        // completes the line.
        (0..parts).fold(now, |now, part| flash.write(now, now, 14 * UNIT + u64::from(part) * 512, 512).acknowledged_at);
        flash.write(now, now, 20 * UNIT, 512);
        (flash.activity.banks_busy - before).as_us()
    };
    // Two dies program for 500 us each (1,000 us). The rest of unit 20 is read from the first page of its row (21 us).
    assert_eq!(counted(8), 1000.0 + 21.0);
}

#[test]
fn counters_report_write_amplification_and_over_provisioning() {
    let mut flash = flash(Precondition::None);
    let count =
        |flash: &Flash, name| flash.counters().iter().find(|(other, _)| *other == name).map(|(_, count)| *count);
    assert_eq!([count(&flash, "spare_percent"), count(&flash, "write_amplification_percent")], [Some(50), None]);
    let now = write_units_in_sequence(&mut flash, at(0), 0..16);
    assert_eq!(count(&flash, "write_amplification_percent"), Some(100));
    // Half a unit is programmed as a whole unit.
    flash.write(now, now, 20 * UNIT, 2048);
    assert_eq!(count(&flash, "write_amplification_percent"), Some(100 * 17 * 2 / 33));
}

#[test]
fn garbage_collection_reads_whole_rows() {
    // A row has four units. The second row is on the other channel, and the third is the next page of the same word
    // line.
    for (position, positions, array_us) in [(4, 4, &[20][..]), (4, 5, &[20, 30]), (7, 1, &[20]), (7, 2, &[20, 30])] {
        let mut flash = flash(Precondition::Sequential);
        let (from, to) = (FlashUnitLocation { block: 0, position }, FlashUnitLocation { block: 40, position: 0 });
        flash.relocate_valid_units(at(0), MovedUnitRun { from, positions, units: positions, to });
        let expected: u64 = array_us.iter().map(|array_us| 1 + array_us).sum();
        assert_eq!(flash.activity.banks_busy, Span::from_us(expected), "{positions} from {position}");
    }
}

#[test]
fn flush_waits_for_cells_without_power_loss_protection() {
    let (mut safe, keys) = (flash(Precondition::Sequential), buffer_keys());
    safe.write(at(0), at(0), 0, 4096);
    assert_eq!(safe.flush(at(10)), at(10));
    let unsafe_keys = BufferKeys { power_loss_protection: false, ..keys };
    let mut flash = Flash::new(&media(), &unsafe_keys, &translation_keys(Precondition::Sequential), 1);
    flash.write(at(0), at(0), 0, 4096);
    let flushed = flash.flush(at(10));
    // Four pages of 8 KiB cross the bus with gaps of one page time (7 x 8 us), then the die programs for 500 us.
    assert_eq!(flushed, at(10) + Span::from_us(8 * 7 + 500));
    assert_eq!(flash.flush(flushed), flushed, "nothing is left");
    assert_eq!(flash.translation.counts().skipped, 15);
}

#[test]
fn late_acknowledged_write_completes_after_its_program() {
    let late = MediaKeys { acknowledge: Acknowledge::Late, ..media() };
    let mut flash = Flash::new(&late, &buffer_keys(), &translation_keys(Precondition::None), 1);
    let write = flash.write(at(0), at(0), 0, 4096);
    assert_eq!(write.acknowledged_at, at(6 + 8 * 7 + 500));
    assert_eq!(write.programmed_at, write.acknowledged_at);
}

#[test]
fn full_buffer_accepts_writes_at_the_cells_rate() {
    let mut flash = flash(Precondition::Sequential);
    let start = write_units_in_sequence(&mut flash, at(0), 0..400);
    let end = write_units_in_sequence(&mut flash, start, 400..1200);
    // Four dies program 32 KiB each in 500 us. Over-provisioning is so large that nothing is collected.
    let rate: f64 = 800.0 * 4096.0 / end.since(start).as_us();
    let cells = 4.0 * 32768.0 / 500.0;
    assert!((rate / cells - 1.0).abs() < 0.05, "{rate} bytes a us, not {cells}");
    assert_eq!(flash.translation.counts().moved, 0);
}

#[test]
fn steady_state_writes_slow_down_by_the_write_amplification() {
    let mut flash = flash(Precondition::Random);
    let units = flash.translation.shape().units;
    let mut random = crate::random::Random::stream(1, "writes");
    let mut draw = |flash: &mut Flash, now, count| {
        (0..count).fold(now, |now, _| {
            let unit = (random.unit() * units as f64) as u64;
            flash.write(now, now, unit * UNIT, UNIT as u32).acknowledged_at
        })
    };
    let start = draw(&mut flash, at(0), units);
    let before = flash.translation.counts();
    let end = draw(&mut flash, start, 2 * units);
    let after = flash.translation.counts();
    let amplification = 1.0 + (after.moved - before.moved) as f64 / (after.written - before.written) as f64;
    let rate = (after.written - before.written) as f64 * 4096.0 / end.since(start).as_us();
    let cells = 4.0 * 32768.0 / 500.0 / amplification;
    // Besides programs, the dies spend time on reads of moved units and on erases.
    assert!(rate < cells && rate > 0.5 * cells, "{rate} bytes a us, not {cells}");
    assert!(amplification > 1.5 && amplification < 2.2, "{amplification}");
}

#[test]
fn writes_after_a_pause_find_collected_blocks() {
    let keys = |idle_us| TranslationKeys {
        idle: Span::from_us(idle_us),
        idle_blocks: 6,
        ..translation_keys(Precondition::Random)
    };
    let [busy, idle] = [0, 1000].map(|idle_us| {
        let mut flash = Flash::new(&media(), &buffer_keys(), &keys(idle_us), 1);
        let now = at(2_000_000);
        // Write four blocks of 128 units.
        let end = write_units_in_sequence(&mut flash, now, (0..512).map(|write| write * 7 % 4096));
        let moved = flash.translation.counts().moved;
        assert_eq!(flash.translation.inconsistency(), None);
        // Ten seconds of idle time later, garbage collection has freed as much space as these writes used.
        flash.read(end + Span::from_us(10_000_000), end + Span::from_us(10_000_000), 0, 4096, 4096);
        let later = flash.translation.counts().moved;
        (end.since(now), moved, later - moved)
    });
    assert!(idle.0 * 5 < busy.0 * 4, "{:?} after a pause, {:?} without collection in it", idle.0, busy.0);
    assert!(busy.1 > 0 && busy.2 == 0 && idle.2 > 0, "{busy:?} {idle:?}");
}

#[test]
fn slc_cache_is_fast_until_full_and_folded_when_idle() {
    let media = MediaKeys { slc_program: Span::from_us(100), slc_read: Span::from_us(10), ..media() };
    // The cache has two blocks of 128 units. A line has two rows of 4 units each.
    let keys =
        TranslationKeys { slc_cache_mib: 1, idle: Span::from_us(1000), ..translation_keys(Precondition::Sequential) };
    let mut flash = Flash::new(&media, &buffer_keys(), &keys, 1);
    assert_eq!(
        flash.translation.shape().slc,
        Some(crate::media::translation::SlcCacheShape { blocks: 2, block_units: 128 })
    );
    let mut end = write_units_in_sequence(&mut flash, at(0), 0..256);
    assert_eq!(flash.activity.banks_busy, Span::from_us(256 / 8 * 2 * 100));
    assert!(flash.translation.is_slc_used_up());
    end = write_units_in_sequence(&mut flash, end, 256..272);
    assert_eq!(flash.activity.banks_busy, Span::from_us(256 / 8 * 2 * 100 + 2 * 500), "then as without the cache");
    let read = |flash: &mut Flash, now: Time| flash.read(now, now, 0, 4096, 4096).last_at.since(now);
    let late = end + Span::from_us(900);
    assert_eq!(read(&mut flash, late), Span::from_us(1 + 10 + 4 + 2));
    // Half a second later, all 256 units have been moved out of the cache.
    let later = late + Span::from_us(500_000);
    assert!(read(&mut flash, later) >= Span::from_us(27));
    assert_eq!(flash.translation.counts().moved, 256);
    assert!(!flash.translation.is_slc_used_up());
    assert_eq!(flash.translation.inconsistency(), None);
}

#[test]
fn reads_precede_waiting_programs_and_suspend_the_running_one() {
    let mut flash = flash(Precondition::Sequential);
    let now = write_units_in_sequence(&mut flash, at(0), 256..512);
    let read = flash.read(now, now, 0, 4096, 4096);
    // The read may wait for one page of a program that is on the bus (9 us) and for one reserved page (8 us).
    assert!(read.last_at.since(now) <= Span::from_us(27 + 4 + 17), "{}", read.last_at.since(now));
}

#[test]
fn sequential_reads_find_prefetched_data() {
    let ahead = BufferKeys { read_ahead_kib: 128, ..buffer_keys() };
    let mut flash = Flash::new(&media(), &ahead, &translation_keys(Precondition::Sequential), 1);
    let mut now = at(0);
    let mut slow = 0;
    for unit in 0..100 {
        let done = flash.read(now, now, unit * UNIT, 4096, 4096).last_at;
        slow += u32::from(done.since(now) > Span::from_us(20));
        now = done + Span::from_us(20);
    }
    assert!(slow <= 4, "{slow} of 100 waited for the array");
}

#[test]
fn read_with_an_uncached_map_page_reads_that_page_first() {
    // The mapping table has four pages of 1024 entries, and the cache holds one of them.
    let keys = TranslationKeys { map_cache_kib: 4, ..translation_keys(Precondition::Sequential) };
    let mut flash = Flash::new(&media(), &buffer_keys(), &keys, 1);
    for (ms, unit, us) in [(0, 0, 27), (1, 2048, 27 + 27), (2, 2049, 27), (3, 16, 27 + 27)] {
        let now = at(ms * 1000);
        let read = flash.read(now, now, unit * UNIT, 4096, 4096);
        assert_eq!(read.last_at, now + Span::from_us(us), "{unit}");
    }
    let count =
        |flash: &Flash, name| flash.counters().iter().find(|(other, _)| *other == name).map(|(_, count)| *count);
    assert_eq!([count(&flash, "map_reads"), count(&flash, "map_writes")], [Some(2), Some(0)]);
}

#[test]
fn dirty_map_pages_are_programmed_by_line_and_counted() {
    let keys = TranslationKeys { map_cache_kib: 4, ..translation_keys(Precondition::Sequential) };
    let mut flash = Flash::new(&media(), &buffer_keys(), &keys, 1);
    // The writes alternate between two pages of the mapping table, so each write has to load its page.
    let end = write_units_in_sequence(&mut flash, at(0), (0..40).map(|write| write % 2 * 2048 + write));
    assert_eq!(flash.translation.counts().map_writes, 39);
    // The dies program two lines of sixteen user units and two of map pages, and read map pages that are not cached.
    assert!(flash.activity.banks_busy >= Span::from_us(4 * 2 * 500), "{}", flash.activity.banks_busy);
    assert_eq!(flash.translation.inconsistency(), None);
    let read = flash.read(end, end, 3000 * UNIT, 4096, 4096);
    assert!(read.last_at > end);
    flash.cut_power();
    assert_eq!(flash.translation.room(FlashWriteStream::Map) % 16, 0, "an incomplete line is left unused");
}

/// Creates flash whose commands travel on the given wires, with planes that read independently.
fn with_command_bus(command_bus: CommandBusSharing) -> Flash {
    let media = MediaKeys { command_bus, plane_reads: ReadablePages::Independent, ..media() };
    Flash::new(&media, &buffer_keys(), &translation_keys(Precondition::Sequential), 1)
}

#[test]
fn commands_of_two_dies_serialise_only_on_their_channels_bus() {
    // Units 0 and 16 lie on two dies of channel 0.
    let last_at = |command_bus| {
        let mut flash = with_command_bus(command_bus);
        [0, 16].map(|unit| flash.read(at(0), at(0), unit * UNIT, 4096, 4096).last_at)
    };
    // 1 us for the command, 20 us for the array read, 4 us on the bus and 2 us in the decoder. The second transfer
    // waits for the first.
    assert_eq!(last_at(CommandBusSharing::Unlimited), [at(27), at(31)]);
    assert_eq!(last_at(CommandBusSharing::Separate), [at(27), at(31)]);
    assert_eq!(last_at(CommandBusSharing::Shared), [at(27), at(31)]);
    // The command of a second read arrives while the first transfer occupies the channel.
    let later = |command_bus| {
        let mut flash = with_command_bus(command_bus);
        flash.read(at(0), at(0), 0, 4096, 4096);
        flash.read(at(22), at(22), 16 * UNIT, 4096, 4096).last_at
    };
    assert_eq!(later(CommandBusSharing::Separate), at(22 + 27));
    assert_eq!(later(CommandBusSharing::Shared), at(25 + 27));
}

#[test]
fn command_bus_usage_is_counted_only_with_a_command_bus() {
    let names = |command_bus| {
        let mut flash = with_command_bus(command_bus);
        flash.read(at(0), at(0), 0, 4096, 4096);
        let uses = flash.uses(at(100));
        uses.iter().map(|part| (part.resource, part.busy)).collect::<Vec<_>>()
    };
    assert_eq!(names(CommandBusSharing::Unlimited).len(), 3);
    assert_eq!(names(CommandBusSharing::Separate)[2], ("flash command buses", Span::from_us(1)));
    assert_eq!(names(CommandBusSharing::Shared)[1], ("flash channels", Span::from_us(5)));
}

#[test]
fn prioritised_collection_reads_let_writes_proceed_sooner() {
    let time = |collection_reads| {
        let translation = TranslationKeys { collection_reads, ..translation_keys(Precondition::Random) };
        let mut flash = Flash::new(&media(), &buffer_keys(), &translation, 1);
        let units = (0..4096u64).map(|number| number * 7919 % 4096);
        write_units_in_sequence(&mut flash, at(0), units)
    };
    let (queued, first) = (time(CollectionReadPriority::Queued), time(CollectionReadPriority::First));
    assert!(first < queued, "{first:?} {queued:?}");
}

#[test]
fn rows_of_a_word_line_are_collected_together_if_configured() {
    // The rows at positions 0 and 8 are the two pages of one word line: 20 and 30 us, with 4 units of 4 us each.
    let reads = |collection_rows| {
        let mut flash = Flash::new(
            &media(),
            &buffer_keys(),
            &TranslationKeys { collection_rows, ..translation_keys(Precondition::Sequential) },
            1,
        );
        let (from, to) = (FlashUnitLocation { block: 0, position: 0 }, FlashUnitLocation { block: 40, position: 0 });
        let there_at = flash.read_units_to_move(at(0), MovedUnitRun { from, positions: 12, units: 12, to });
        (there_at, flash.activity.banks_busy)
    };
    // Row by row, the second array read overlaps the transfer of the first row. As one operation, it starts after that
    // transfer.
    assert_eq!(reads(1), (at(21 + 31 + 16), Span::from_us(21 + 31 + 21)));
    assert_eq!(reads(2), (at(21 + 16 + 31 + 16), Span::from_us(21 + 16 + 31 + 21)));
}
