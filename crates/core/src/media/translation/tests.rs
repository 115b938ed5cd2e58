use super::stationary::VictimPolicy;
use super::*;

/// Number of blocks beside those for the user's mapping units and the over-provisioning: open blocks, which are about
/// half full, and one erased block.
pub(super) const OPEN_BLOCKS: u32 = 2;

impl TranslationLayer {
    /// Plants a fault in a test: drops the location of one written mapping unit, if garbage collection has moved any
    /// unit. Returns true if a location was dropped.
    pub(crate) fn lose_location_of_moved_unit(&mut self) -> bool {
        let lost =
            (0..narrow::<u32, u64>(self.shape.units)).find(|unit| self.location(*unit) != FlashUnitLocation::NONE);
        let Some(unit) = lost.filter(|_| self.counts.moved > 0) else { return false };
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.leave(number),
            None => self.overlay.set(unit, FlashUnitLocation::NONE),
        }
        true
    }
}

pub(super) struct RandomUnitWriter {
    pub drive: TranslationLayer,
    pub random: Random,
    moved: Vec<MovedUnitRun>,
    erased: Vec<u32>,
}

impl RandomUnitWriter {
    pub(super) fn new(drive: TranslationLayer) -> RandomUnitWriter {
        RandomUnitWriter { drive, random: Random::stream(7, "writer"), moved: Vec::new(), erased: Vec::new() }
    }

    pub(super) fn write(&mut self, unit: u32) -> FlashUnitLocation {
        self.look_up(unit, true);
        self.moved.clear();
        self.drive.make_room(1, &mut self.moved, &mut self.erased);
        self.drive.write(unit)
    }

    /// Looks a mapping unit up in the mapping table, and writes the changed page that leaves the cache for it.
    pub(super) fn look_up(&mut self, unit: u32, changes: bool) {
        if let Some(page) = self.drive.look_up(unit, changes).and_then(|access| access.written) {
            self.drive.make_room(1, &mut self.moved, &mut self.erased);
            self.drive.write_map_page(page);
        }
    }

    /// Overwrites random mapping units, `times` as many as the drive has. Returns the write amplification of these
    /// writes.
    pub(super) fn overwrite(&mut self, times: f64) -> f64 {
        let units = self.drive.shape.units;
        let before = self.drive.counts();
        for _ in 0..(units as f64 * times) as u64 {
            let unit = (self.random.unit() * units as f64) as u32;
            self.write(unit);
        }
        let after = self.drive.counts();
        let written = after.written - before.written;
        let moved = after.moved - before.moved + after.map_writes - before.map_writes;
        1.0 + moved as f64 / written as f64
    }
}

fn shape(victim_policy: VictimPolicy, blocks: u32, block_units: u32, spare: f64) -> TranslationShape {
    let units = (f64::from(blocks) * f64::from(block_units) / (1.0 + spare)) as u64;
    let (policy, settings) = policy_with_closed_form(victim_policy);
    TranslationShape {
        units,
        used_units: units,
        block_units,
        blocks: blocks + OPEN_BLOCKS,
        line_units: 1,
        policy,
        settings,
        map: None,
        slc: None,
        wear_gap: 0,
        placement: None,
    }
}

/// Returns a policy, with its settings, that has this closed form.
fn policy_with_closed_form(form: VictimPolicy) -> (TranslationPolicyName, TranslationPolicySettings) {
    match form {
        VictimPolicy::Oldest => (TranslationPolicyName::Fifo, TranslationPolicySettings { choices: 1 }),
        VictimPolicy::Emptiest => (TranslationPolicyName::Greedy, TranslationPolicySettings { choices: 1 }),
        VictimPolicy::EmptiestOf(choices) => (TranslationPolicyName::DChoices, TranslationPolicySettings { choices }),
    }
}

/// Creates a writer on a drive that begins in the steady state of random writes.
fn writer_in_steady_state(victim_policy: VictimPolicy, blocks: u32, block_units: u32, spare: f64) -> RandomUnitWriter {
    RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape(victim_policy, blocks, block_units, spare), 1))
}

/// Asserts that no two mapping units share a location, and that blocks know how many valid units they hold.
pub(super) fn assert_consistent_mapping(drive: &TranslationLayer) {
    assert_eq!(drive.inconsistency(), None);
}

#[test]
fn consistency_check_finds_lost_and_duplicate_units() {
    let mut writer =
        RandomUnitWriter::new(TranslationLayer::written_in_order(shape(VictimPolicy::Emptiest, 20, 32, 0.2), 1));
    writer.overwrite(2.0);
    assert_consistent_mapping(&writer.drive);
    let mut forgetful = writer.drive.clone();
    assert!(forgetful.lose_location_of_moved_unit());
    assert!(forgetful.inconsistency().is_some_and(|what| what.contains("wrong count")));
    let place = writer.drive.location(3);
    writer.write(4);
    writer.drive.overlay.set(4, place);
    assert!(writer.drive.inconsistency().is_some());
}

#[test]
#[should_panic(expected = "leaves its cohort twice")]
fn removing_a_unit_twice_from_its_cohort_panics() {
    let mut drive = TranslationLayer::written_in_order(shape(VictimPolicy::Emptiest, 20, 32, 0.2), 1);
    drive.cohorts.leave(3);
    drive.cohorts.leave(3);
}

#[test]
#[should_panic(expected = "no valid unit")]
fn overwriting_in_a_block_without_valid_units_panics() {
    let mut drive = TranslationLayer::written_in_order(shape(VictimPolicy::Emptiest, 20, 32, 0.2), 1);
    drive.blocks.all[0].valid = 0;
    drive.write(3);
}

#[test]
fn oldest_first_collection_writes_as_its_closed_form() {
    for (spare, expected) in [(0.15, 4.018), (0.28, 2.481), (0.5, 1.716)] {
        let found = writer_in_steady_state(VictimPolicy::Oldest, 1000, 128, spare).overwrite(1.5);
        assert!((found / expected - 1.0).abs() < 0.01, "{spare}: {found}, not {expected}");
    }
}

#[test]
#[ignore = "half a minute: make flash"]
fn write_amplification_of_2000_blocks_of_256_units_is_as_published() {
    let published = [(0.07, 7.82), (0.10, 5.68), (0.15, 4.02), (0.25, 2.69), (0.28, 2.48), (0.5, 1.72), (1.0, 1.26)];
    for (spare, expected) in published {
        let mut writer = writer_in_steady_state(VictimPolicy::Oldest, 2000, 256, spare);
        writer.overwrite(1.0);
        let found = writer.overwrite(3.0);
        println!("{spare}: {found:.3}, closed form {expected}");
        assert!((found / expected - 1.0).abs() < 0.01, "{spare}: {found}, not {expected}");
    }
}

#[test]
fn greedy_collection_writes_least_and_less_with_smaller_blocks() {
    let emptiest = [16, 64, 256]
        .map(|units| writer_in_steady_state(VictimPolicy::Emptiest, 128_000 / units, units, 0.15).overwrite(2.0));
    let oldest = writer_in_steady_state(VictimPolicy::Oldest, 500, 256, 0.15).overwrite(2.0);
    let order = [emptiest[0], emptiest[1], emptiest[2], oldest];
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]), "{order:?}");
    let of_ten = writer_in_steady_state(VictimPolicy::EmptiestOf(10), 2000, 64, 0.15).overwrite(2.0);
    assert!(of_ten < emptiest[1] * 1.05, "{of_ten} beside {order:?}");
}

#[test]
fn d_choices_collection_writes_as_the_mean_field_equation() {
    for victim_policy in [VictimPolicy::EmptiestOf(2), VictimPolicy::EmptiestOf(10), VictimPolicy::Emptiest] {
        let found = writer_in_steady_state(victim_policy, 2000, 32, 0.25).overwrite(2.0);
        let expected = stationary::write_amplification(victim_policy, 32, 0.25);
        assert!((found / expected - 1.0).abs() < 0.015, "{victim_policy:?}: {found}, not {expected}");
    }
}

/// Returns the largest distance between two empirical distribution functions (Kolmogorov and Smirnov).
fn largest_distribution_distance(left: &mut [u32], right: &mut [u32]) -> f64 {
    left.sort_unstable();
    right.sort_unstable();
    let share = |counts: &[u32], most: u32| counts.partition_point(|count| *count <= most) as f64 / counts.len() as f64;
    let all = left.iter().chain(right.iter());
    all.map(|count| (share(left, *count) - share(right, *count)).abs()).fold(0.0, f64::max)
}

#[test]
fn drive_created_steady_equals_one_overwritten_three_times() {
    for victim_policy in [VictimPolicy::Oldest, VictimPolicy::EmptiestOf(10), VictimPolicy::Emptiest] {
        let shape = shape(victim_policy, 800, 128, 0.28);
        let mut written = RandomUnitWriter::new(TranslationLayer::written_in_order(shape, 2));
        written.overwrite(3.0);
        let mut at_once = RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape, 3));
        let apart = largest_distribution_distance(&mut written.drive.valid_units(), &mut at_once.drive.valid_units());
        // With 800 samples each, the distance exceeds 0.068 in one case of twenty.
        assert!(apart < 0.068, "{victim_policy:?}: {apart}");
        let (written, at_once) = (written.overwrite(1.0), at_once.overwrite(1.0));
        assert!((at_once / written - 1.0).abs() < 0.015, "{victim_policy:?}: {at_once} at once, {written} after three");
    }
}

#[test]
fn units_keep_locations_during_writes_moves_and_deallocations() {
    for drive in [
        TranslationLayer::new(shape(VictimPolicy::Emptiest, 40, 64, 0.2), 1),
        TranslationLayer::written_in_order(shape(VictimPolicy::EmptiestOf(3), 40, 64, 0.2), 1),
        TranslationLayer::overwritten_at_random(shape(VictimPolicy::Oldest, 40, 64, 0.2), 1),
    ] {
        let mut writer = RandomUnitWriter::new(drive);
        for step in 0..6000_u32 {
            let unit = (writer.random.unit() * writer.drive.shape.units as f64) as u32;
            match step % 7 {
                0 => {
                    writer.drive.discard(unit);
                    assert_eq!(writer.drive.location(unit), FlashUnitLocation::NONE);
                }
                1 => writer.drive.skip(FlashWriteStream::User(0), 3),
                _ => assert_eq!(writer.write(unit), writer.drive.location(unit)),
            }
            if step % 500 == 0 {
                assert_consistent_mapping(&writer.drive);
            }
        }
        assert_consistent_mapping(&writer.drive);
    }
}

#[test]
fn drive_written_once_has_no_invalid_units() {
    let written = TranslationLayer::written_in_order(shape(VictimPolicy::Emptiest, 20, 32, 0.25), 1);
    assert_eq!(written.valid_units(), [32; 16]);
}

#[test]
fn idle_collection_frees_the_wanted_blocks_and_stops() {
    let mut writer = writer_in_steady_state(VictimPolicy::Emptiest, 200, 64, 0.2);
    let (before, mut steps) = (writer.drive.free.len(), 0);
    while writer.drive.collect_ahead(16, 5, &mut writer.moved, &mut writer.erased) {
        steps += 1;
    }
    assert!(writer.drive.free.len() >= before + 4, "{} free, {before} before", writer.drive.free.len());
    let moved: u32 = writer.moved.iter().map(|moved| moved.units).sum();
    assert!(moved.div_ceil(16) <= steps && steps < moved, "{steps} steps for {moved} units");
    assert_consistent_mapping(&writer.drive);
    // Writes of up to five blocks need no collection now.
    let counts = writer.drive.counts();
    (0..4 * 64).for_each(|unit| _ = writer.write(unit));
    assert_eq!(writer.drive.counts().moved, counts.moved);
}

/// Creates a writer on a drive of 100 blocks of 48 mapping units, with an SLC cache of four blocks of 16 units.
fn writer_with_slc_cache() -> RandomUnitWriter {
    let slc = Some(SlcCacheShape { blocks: 4, block_units: 16 });
    let shape = TranslationShape { slc, ..shape(VictimPolicy::Emptiest, 100, 48, 0.3) };
    RandomUnitWriter::new(TranslationLayer::written_in_order(shape, 1))
}

/// Writes a mapping unit to the stream that is chosen for it, and returns the number of its block.
fn write_to_chosen_stream(writer: &mut RandomUnitWriter, unit: u32) -> u32 {
    let stream = writer.drive.stream_of(unit);
    writer.drive.make_room(1, &mut writer.moved, &mut writer.erased);
    writer.drive.write_to(unit, stream).block
}

#[test]
fn writes_go_to_slc_blocks_until_these_are_full() {
    let mut writer = writer_with_slc_cache();
    let blocks: Vec<u32> = (0..70).map(|unit| write_to_chosen_stream(&mut writer, unit * 3)).collect();
    assert!(blocks[..64].iter().all(|block| *block >= 102) && blocks[64..].iter().all(|block| *block < 102));
    assert!(writer.drive.is_slc_used_up());
    assert_eq!(writer.drive.counts().slc_written, 64);
    assert_consistent_mapping(&writer.drive);
}

#[test]
fn folding_moves_valid_units_and_frees_the_cache() {
    let mut writer = writer_with_slc_cache();
    // Overwrite twenty units in the cache.
    (0..64).map(|write| write % 44).for_each(|unit| _ = write_to_chosen_stream(&mut writer, unit));
    writer.moved.clear();
    while writer.drive.fold(5, &mut writer.moved, &mut writer.erased) {
        assert_consistent_mapping(&writer.drive);
    }
    let moved: u32 = writer.moved.iter().map(|moved| moved.units).sum();
    assert_eq!((moved, writer.drive.is_slc_used_up()), (44, false));
    assert!((0..44).all(|unit| writer.drive.location(unit).block < 102));
    // Continue with many writes and folds.
    for round in 0..200_u32 {
        (0..40).for_each(|write| _ = write_to_chosen_stream(&mut writer, (round * 977 + write * 31) % 3600));
        while round % 3 == 0 && writer.drive.fold(7, &mut writer.moved, &mut writer.erased) {}
    }
    assert_consistent_mapping(&writer.drive);
}

#[test]
fn room_of_an_open_block_is_its_unwritten_rest() {
    let mut drive = TranslationLayer::new(shape(VictimPolicy::Emptiest, 20, 32, 0.25), 1);
    assert_eq!(drive.room(FlashWriteStream::User(0)), 0);
    let rooms: Vec<u32> = (0..33)
        .map(|unit| {
            drive.write(unit);
            drive.room(FlashWriteStream::User(0))
        })
        .collect();
    assert_eq!((rooms[0], rooms[4], rooms[30], rooms[31], rooms[32]), (31, 27, 1, 0, 31));
}

#[test]
fn units_moved_together_make_one_move() {
    let shape = TranslationShape {
        units: 16,
        used_units: 16,
        block_units: 8,
        blocks: 6,
        line_units: 1,
        policy: TranslationPolicyName::Fifo,
        settings: TranslationPolicySettings { choices: 1 },
        map: None,
        slc: None,
        wear_gap: 0,
        placement: None,
    };
    let mut drive = TranslationLayer::new(shape, 1);
    // Overwrite all units of the first block except 3 to 7.
    let again = [0, 1, 2, 8, 9, 10, 11, 12];
    (0..16).chain(again).chain(again).for_each(|unit| _ = drive.write(unit));
    let (from, mut moved) = (drive.location(3), Vec::new());
    drive.make_room(8, &mut moved, &mut Vec::new());
    assert_eq!(moved, [MovedUnitRun { from, positions: 5, units: 5, to: drive.location(3) }]);
    assert_eq!(drive.location(7), FlashUnitLocation { position: 4, ..drive.location(3) });
}

#[test]
fn deallocation_reduces_write_amplification() {
    let mut writer = writer_in_steady_state(VictimPolicy::Emptiest, 200, 64, 0.1);
    let half = writer.drive.shape.units as u32 / 2;
    let before = writer.overwrite(1.0);
    (0..half).for_each(|unit| writer.drive.discard(unit));
    let mut moved = 0;
    for write in 0..u64::from(half) * 3 {
        writer.write(half + (write.wrapping_mul(7919) % u64::from(half)) as u32);
        moved += writer.moved.iter().map(|moved| u64::from(moved.units)).sum::<u64>();
    }
    let after = 1.0 + moved as f64 / (f64::from(half) * 3.0);
    assert!(after < 1.3 && before > 3.0, "{before} before, {after} after");
}

#[test]
fn wear_gap_makes_static_blocks_share_the_wear() {
    let spread = |wear_gap| {
        let shape = TranslationShape { wear_gap, ..shape(VictimPolicy::Emptiest, 100, 64, 0.1) };
        let mut writer = RandomUnitWriter::new(TranslationLayer::written_in_order(shape, 1));
        // One tenth of the units gets all writes.
        let hot = shape.units / 10;
        for _ in 0..shape.units * 8 {
            let unit = (writer.random.unit() * hot as f64) as u32;
            writer.write(unit);
        }
        let erases = writer.drive.blocks.all.iter().map(|block| block.erases);
        erases.clone().max().unwrap() - erases.min().unwrap()
    };
    let (alone, levelled) = (spread(0), spread(5));
    assert!(levelled <= 8 && alone > 3 * levelled, "{alone} alone, {levelled} levelled");
}

#[test]
fn drive_of_8_tb_starts_steady_within_a_second() {
    let began = std::time::Instant::now();
    // Nearly 2^31 units of 4 KiB, in blocks that span all 256 dies.
    let shape = TranslationShape { units: 1_953_125_000, ..shape(VictimPolicy::Emptiest, 460, 4_718_592, 0.1) };
    let mut writer = RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape, 1));
    writer.write(1_234_567_890);
    assert!(began.elapsed().as_secs() < 1, "{:?}", began.elapsed());
}
