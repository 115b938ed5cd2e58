use super::policy::TranslationPolicySettings;
use super::*;
use crate::config::PlacementIsolation;

/// Shape of a drive of 200 blocks of 64 mapping units with 15 % of spare space and host-selected streams.
fn shape(handles: u8, groups: u8, isolation: PlacementIsolation) -> TranslationShape {
    let (blocks, block_units) = (200, 64);
    TranslationShape {
        units: 11_130,
        used_units: 11_130,
        block_units,
        blocks,
        line_units: 4,
        policy: TranslationPolicyName::Greedy,
        settings: TranslationPolicySettings { choices: 2 },
        map: None,
        slc: None,
        wear_gap: 0,
        placement: Some(HostStreams { handles, groups, isolation }),
    }
}

fn write(layer: &mut TranslationLayer, unit: u32, stream: u8) -> (Vec<MovedUnitRun>, Vec<u32>) {
    let (mut moved, mut erased) = (Vec::new(), Vec::new());
    let open = layer.stream_of_open_unit(stream);
    layer.collect_for_stream(open, 1, &mut moved, &mut erased);
    layer.write_unit_of_handle(unit, stream, layer.stream_of_open_unit(stream));
    (moved, erased)
}

/// Fills a drive, and then overwrites it: half of the writes go to a random tenth of its mapping units, half in order
/// to the others. Hot writes go to stream `hot`, cold ones to stream `cold`. Returns the drive and the write
/// amplification after the fill.
fn run(shape: TranslationShape, hot: u8, cold: u8) -> (TranslationLayer, f64) {
    let mut layer = TranslationLayer::new(shape, 1);
    let mut random = Random::stream(3, "hot units");
    let (units, hot_units) = (shape.units as u32, shape.units as u32 / 10);
    for unit in 0..units {
        write(&mut layer, unit, if unit < hot_units { hot } else { cold });
    }
    let mut next = hot_units;
    let mut turn = |layer: &mut TranslationLayer| {
        write(layer, (random.unit() * f64::from(hot_units)) as u32, hot);
        write(layer, next, cold);
        next = if next + 1 == units { hot_units } else { next + 1 };
    };
    (0..40_000).for_each(|_| turn(&mut layer));
    let before = layer.counts();
    (0..60_000).for_each(|_| turn(&mut layer));
    let after = layer.counts();
    let moved = after.moved - before.moved;
    let amplification = 1.0 + moved as f64 / (after.written - before.written) as f64;
    (layer, amplification)
}

#[test]
fn separating_hot_and_cold_streams_moves_less() {
    for isolation in [PlacementIsolation::Initial, PlacementIsolation::Persistent] {
        let shape = shape(2, 1, isolation);
        let (mixed, in_one) = run(shape, 0, 0);
        let (parted, in_two) = run(shape, 0, 1);
        assert!(in_one > 1.2 && in_two < 1.0 + (in_one - 1.0) / 2.0, "{isolation:?}: {in_one} {in_two}");
        for layer in [mixed, parted] {
            assert_eq!(layer.inconsistency(), None);
            let (_, counts) = layer.placed().unwrap();
            let all = layer.counts();
            let sums = counts.iter().fold((0, 0), |sum, it| (sum.0 + it.written, sum.1 + it.moved));
            assert_eq!(sums, (all.written, all.moved), "counts of the streams add up to those of the layer");
        }
    }
}

/// Returns, for each block with valid mapping units, the set of streams that these units belong to.
fn streams_by_block(layer: &TranslationLayer, stream_of: impl Fn(u32) -> u8) -> Vec<BTreeSet<u8>> {
    let mut blocks = vec![BTreeSet::new(); layer.blocks.all.len()];
    for unit in 0..layer.shape().units as u32 {
        let place = layer.location(unit);
        if place != FlashUnitLocation::NONE {
            blocks[index(place.block)].insert(stream_of(unit));
        }
    }
    blocks
}

#[test]
fn collection_mixes_handles_only_if_initially_isolated() {
    for isolation in [PlacementIsolation::Initial, PlacementIsolation::Persistent] {
        let shape = TranslationShape { units: 9_000, ..shape(3, 2, isolation) };
        let mut layer = TranslationLayer::new(shape, 1);
        let mut random = Random::stream(5, "units");
        let mut stream_of = vec![0; shape.units as usize];
        for turn in 0..100_000_u32 {
            let unit = if turn < 9_000 { turn } else { (random.unit() * 9_000.0) as u32 };
            let stream = (random.unit() * 6.0) as u8;
            stream_of[index(unit)] = stream;
            write(&mut layer, unit, stream);
        }
        assert!(layer.counts().moved > 10_000, "{:?}", layer.counts());
        let blocks = streams_by_block(&layer, |unit| stream_of[index(unit)]);
        let groups = |streams: &BTreeSet<u8>| streams.iter().map(|stream| stream / 3).collect::<BTreeSet<u8>>().len();
        assert!(blocks.iter().all(|streams| groups(streams) <= 1), "{isolation:?}: data of two groups shares a block");
        let most = blocks.iter().map(BTreeSet::len).max();
        assert_eq!(most, Some(if isolation == PlacementIsolation::Initial { 3 } else { 1 }), "{isolation:?}");
    }
}

#[test]
fn unwritten_stream_keeps_no_reserved_block() {
    let moved = |handles| {
        let shape = shape(handles, 1, PlacementIsolation::Initial);
        let (layer, amplification) = run(TranslationShape { blocks: 210, ..shape }, 0, 0);
        (layer.counts(), amplification)
    };
    assert_eq!(moved(1), moved(8));
}

#[test]
fn closed_unit_takes_no_more_data() {
    let mut layer = TranslationLayer::new(shape(2, 1, PlacementIsolation::Initial), 1);
    assert_eq!((layer.room_in_reclaim_unit(1), layer.close(1)), (64, 0), "it has not been begun");
    (0..10).for_each(|unit| drop(write(&mut layer, unit, 1)));
    let before = layer.location(9).block;
    assert_eq!((layer.room_in_reclaim_unit(1), layer.close(1), layer.room_in_reclaim_unit(1)), (54, 54, 64));
    write(&mut layer, 10, 1);
    assert_ne!(layer.location(10).block, before);
    assert_eq!((layer.counts().skipped, layer.inconsistency()), (0, None));
}

#[test]
fn overwritten_drive_starts_like_one_without_placement() {
    for precondition in [TranslationLayer::overwritten_at_random, TranslationLayer::written_in_order] {
        let placed = shape(4, 2, PlacementIsolation::Persistent);
        let placed = TranslationShape { blocks: 230, ..placed };
        let run = |shape: TranslationShape| {
            let mut layer = precondition(shape, 7);
            let mut random = Random::stream(5, "units");
            for _ in 0..30_000 {
                write(&mut layer, (random.unit() * 11_130.0) as u32, 0);
            }
            assert_eq!(layer.inconsistency(), None);
            layer.counts()
        };
        assert_eq!(run(placed), run(TranslationShape { placement: None, ..placed }));
    }
}

/// Overwrites a drive of 63 blocks, of which nine tenants have equal parts, `times` times: each turn replaces an object
/// of 16 units of a tenant. The tenant of number t is written `(t + 1)` to the power `rates` times less often than the
/// first one. With `is_log`, a tenant replaces its objects in order, else at random. Returns the drive and the write
/// amplification of the second half of the writes.
fn overwrite_by_tenants(tenants: u32, is_apart: bool, is_log: bool, rates: i32, times: u64) -> (TranslationLayer, f64) {
    let (block_units, object) = (256, 16);
    let units = 58 * block_units + 48;
    let own = units / tenants / object;
    let shape = TranslationShape {
        units: units.into(),
        used_units: units.into(),
        block_units,
        blocks: 63,
        ..shape(tenants as u8, 1, PlacementIsolation::Initial)
    };
    let mut layer = TranslationLayer::new(shape, 1);
    let mut random = Random::stream(9, "objects");
    let weights: Vec<f64> = (0..tenants).map(|tenant| 1.0 / f64::from(tenant + 1).powi(rates)).collect();
    let all: f64 = weights.iter().sum();
    let mut next = vec![0; index(tenants)];
    let stream = |tenant: u32| if is_apart { tenant as u8 } else { 0 };
    for tenant in 0..tenants {
        (0..own * object).for_each(|unit| drop(write(&mut layer, tenant * own * object + unit, stream(tenant))));
    }
    let mut counts = layer.counts();
    for turn in 0..u64::from(units / object) * times {
        if turn == u64::from(units / object) * times / 2 {
            counts = layer.counts();
        }
        let mut drawn = random.unit() * all;
        let tenant = weights
            .iter()
            .position(|weight| {
                drawn -= weight;
                drawn < 0.0
            })
            .unwrap_or(0) as u32;
        let place = if is_log { next[index(tenant)] } else { (random.unit() * f64::from(own)) as u32 };
        next[index(tenant)] = (place + 1) % own;
        let first = (tenant * own + place) * object;
        (first..first + object).for_each(|unit| drop(write(&mut layer, unit, stream(tenant))));
    }
    let moved = layer.counts().moved - counts.moved;
    let amplification = 1.0 + moved as f64 / (layer.counts().written - counts.written) as f64;
    (layer, amplification)
}

#[test]
fn nine_handles_share_spare_blocks_and_move_less_at_unequal_rates() {
    for (is_log, rates) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
        let [one, nine] = [false, true].map(|is_apart| overwrite_by_tenants(9, is_apart, is_log, rates, 16));
        println!("log {is_log}, rates {rates}: {} in one, {} in nine", one.1, nine.1);
        assert_eq!((one.0.inconsistency(), nine.0.inconsistency()), (None, None));
        // Separating handles gains nothing unless their write rates differ by at least a factor of 10.
        let most = if rates == 1 { 1.03 } else { 0.9 };
        assert!(nine.1 < most * one.1, "log {is_log}, rates {rates}: {} in one, {} in nine", one.1, nine.1);
    }
}

#[test]
fn handles_sharing_a_reserve_need_no_more_than_one() {
    let (one, _) = overwrite_by_tenants(9, false, false, 1, 2);
    let (nine, _) = overwrite_by_tenants(9, true, false, 1, 2);
    assert_eq!((one.kept_streams, nine.kept_streams), (2, 2));
    let (one, nine) = (one.reserve(), nine.reserve());
    assert!(nine - one < 9 * 4, "lines that handles have begun at most: {one} {nine}");
}

#[test]
fn handle_keeps_its_unit_if_closing_would_take_the_reserve() {
    let (mut layer, _) = overwrite_by_tenants(9, true, false, 1, 2);
    for turn in 0..200_u32 {
        (0..9).for_each(|stream| {
            layer.close(layer.stream_of_open_unit(stream));
        });
        (0..9).for_each(|stream| drop(write(&mut layer, turn * 9 + u32::from(stream), stream)));
    }
    assert_eq!(layer.inconsistency(), None);
}
