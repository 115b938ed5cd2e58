use super::tests::{OPEN_BLOCKS, RandomUnitWriter, assert_consistent_mapping};
use super::*;

/// Shape of a drive of 800 blocks, with `cached_pages` pages of its mapping table in memory; each page holds 64 mapping
/// units.
fn shape(policy: TranslationPolicyName, cached_pages: u32) -> TranslationShape {
    let (blocks, block_units) = (800, 128);
    let units = (f64::from(blocks * block_units) / 1.3) as u64;
    let map = Some(MapTableShape { page_units: 64, cached_pages });
    let settings = TranslationPolicySettings { choices: 10 };
    TranslationShape {
        units,
        used_units: units,
        block_units,
        blocks: blocks + OPEN_BLOCKS,
        line_units: 1,
        policy,
        settings,
        map,
        slc: None,
        wear_gap: 0,
        placement: None,
    }
}

fn pages(shape: &TranslationShape) -> u32 {
    map_cache::pages(shape.units, 64)
}

#[test]
fn uniform_reads_miss_the_uncached_share_of_map_pages() {
    let shape = shape(TranslationPolicyName::Greedy, 300);
    let mut writer = RandomUnitWriter::new(TranslationLayer::written_in_order(shape, 1));
    let misses = (0..200_000).filter(|_| {
        let unit = (writer.random.unit() * shape.units as f64) as u32;
        writer.drive.look_up(unit, false).is_some()
    });
    let (found, expected) = (misses.count() as f64 / 200_000.0, 1.0 - 300.0 / f64::from(pages(&shape)));
    assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
    assert_eq!(writer.drive.counts().map_writes, 0, "reads change no page");
}

#[test]
fn working_set_that_fits_the_map_cache_misses_once() {
    let mut drive = TranslationLayer::written_in_order(shape(TranslationPolicyName::Greedy, 20), 1);
    let misses = (0..10).map(|_| (0..20).filter(|page| drive.look_up(page * 64 + 7, false).is_some()).count());
    // One of the twenty pages is in the cache at the start, so 19 of the first accesses miss.
    assert_eq!(misses.collect::<Vec<_>>(), [19, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let misses = (0..21).filter(|page| drive.look_up(page * 64, false).is_some()).count();
    assert_eq!(misses, 1, "one page more replaces the one that was used least recently");
    assert!(drive.look_up(0, false).is_some());
}

#[test]
fn dirty_map_page_is_written_on_eviction() {
    let mut writer =
        RandomUnitWriter::new(TranslationLayer::written_in_order(shape(TranslationPolicyName::Greedy, 8), 1));
    writer.drive.look_up(64 * 100, true);
    let written: Vec<u32> =
        (101..109).filter_map(|page| writer.drive.look_up(64 * page, false)).filter_map(|miss| miss.written).collect();
    assert_eq!(written, [100]);
    let place = writer.drive.write_map_page(100);
    assert_eq!(writer.drive.look_up(64 * 100, false).map(|miss| miss.read), Some(place));
    assert_consistent_mapping(&writer.drive);
}

#[test]
fn map_pages_add_to_write_amplification() {
    for policy in [TranslationPolicyName::Greedy, TranslationPolicyName::HotCold] {
        let whole = TranslationShape { map: None, ..shape(policy, 1) };
        let shape = shape(policy, 300);
        let mut overwritten = RandomUnitWriter::new(TranslationLayer::written_in_order(shape, 1));
        overwritten.overwrite(4.0);
        let full = overwritten.overwrite(2.0);
        let carried = RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape, 3)).overwrite(2.0);
        let stated = shape.steady_write_amplification(shape.units, 1);
        println!("{policy:?}: overwritten {full:.3}, carried over {carried:.3}, stated {stated:.3}");
        for found in [carried, stated] {
            assert!((found / full - 1.0).abs() < 0.01, "{policy:?}: {found}, not {full}");
        }
        assert!(full > 1.3 * whole.steady_write_amplification(whole.units, 1), "{full}");
        assert_consistent_mapping(&overwritten.drive);
    }
}

#[test]
fn wear_aware_policy_evicts_clean_map_pages_first() {
    let map_writes = |policy| {
        let mut writer = RandomUnitWriter::new(TranslationLayer::written_in_order(shape(policy, 100), 1));
        let units = writer.drive.shape.units as f64;
        for step in 0..30_000 {
            let place = writer.random.unit() * units;
            // Three reads of any unit for each write to the first tenth.
            match step % 4 {
                0 => _ = writer.write((0.1 * place) as u32),
                _ => writer.look_up(place as u32, false),
            }
        }
        writer.drive.counts().map_writes
    };
    let (greedy, aware) = (map_writes(TranslationPolicyName::Greedy), map_writes(TranslationPolicyName::WearAware));
    assert!(aware * 100 < greedy * 97, "{aware}, {greedy} by least recent use alone");
}
