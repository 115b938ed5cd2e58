use super::run_in::RunInState;
use super::tests::{OPEN_BLOCKS, RandomUnitWriter, assert_consistent_mapping};
use super::*;

const SETTINGS: TranslationPolicySettings = TranslationPolicySettings { choices: 10 };

fn shape(policy: TranslationPolicyName, blocks: u32, block_units: u32, spare: f64) -> TranslationShape {
    let units = (f64::from(blocks) * f64::from(block_units) / (1.0 + spare)) as u64;
    let (blocks, settings) = (blocks + OPEN_BLOCKS, SETTINGS);
    TranslationShape {
        units,
        used_units: units,
        block_units,
        blocks,
        line_units: 1,
        policy,
        settings,
        map: None,
        slc: None,
        wear_gap: 0,
        placement: None,
    }
}

/// Creates a writer on a drive that was written in order.
fn written(policy: TranslationPolicyName, blocks: u32, block_units: u32, spare: f64) -> RandomUnitWriter {
    RandomUnitWriter::new(TranslationLayer::written_in_order(shape(policy, blocks, block_units, spare), 2))
}

fn policies_without_closed_form() -> impl Iterator<Item = TranslationPolicyName> {
    TranslationPolicyName::ALL.iter().copied().filter(|policy| Policy::closed_form(*policy, &SETTINGS).is_none())
}

/// Asserts that the write amplification of a small drive that is run in differs from the policy's closed form by at
/// most 1 %.
fn assert_run_in_has_its_closed_form(policy: TranslationPolicyName, spare: f64) {
    let form = Policy::closed_form(policy, &SETTINGS).expect("a policy with a closed form");
    let drawn = stationary::write_amplification(form, 256, spare);
    let run_in = RunInState::of(&shape(policy, 1, 256, spare), spare).amplification;
    println!("{:9} {spare:4}: run in {run_in:.3}, drawn {drawn:.3}", policy.name());
    assert!((run_in / drawn - 1.0).abs() < 0.01, "{policy:?} at {spare}: {run_in}, not {drawn}");
}

#[test]
fn run_in_drive_has_the_amplification_of_a_drawn_one() {
    for policy in [TranslationPolicyName::Fifo, TranslationPolicyName::Greedy, TranslationPolicyName::DChoices] {
        assert_run_in_has_its_closed_form(policy, 0.5);
    }
}

#[test]
#[ignore = "ten seconds: make flash"]
fn run_in_drives_match_drawn_ones_at_all_spares() {
    for policy in [TranslationPolicyName::Fifo, TranslationPolicyName::Greedy, TranslationPolicyName::DChoices] {
        [0.07, 0.15, 0.28, 0.5].into_iter().for_each(|spare| assert_run_in_has_its_closed_form(policy, spare));
    }
}

/// Asserts equal write amplification of a drive that takes over the state of a small drive, of a drive that was itself
/// overwritten, and of the small drive.
fn assert_carried_state_is_steady(policy: TranslationPolicyName, spare: f64, blocks: u32) {
    let shape = shape(policy, blocks, 256, spare);
    let mut overwritten = written(policy, blocks, 256, spare);
    overwritten.overwrite(4.0);
    let full = overwritten.overwrite(2.0);
    let carried = RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape, 3)).overwrite(2.0);
    let stated = shape.steady_write_amplification(shape.units, 1);
    println!("{:12} {spare:4}: overwritten {full:.3}, carried over {carried:.3}, stated {stated:.3}", policy.name());
    for found in [carried, stated] {
        assert!((found / full - 1.0).abs() < 0.01, "{policy:?} at {spare}: {found}, not {full}");
    }
}

#[test]
fn state_of_a_small_drive_is_steady_on_a_larger_one() {
    policies_without_closed_form().for_each(|policy| assert_carried_state_is_steady(policy, 0.5, 500));
}

#[test]
#[ignore = "a minute: make flash"]
fn states_of_small_drives_are_steady_on_others_at_all_spares_too() {
    for policy in policies_without_closed_form() {
        [0.07, 0.15, 0.28, 0.5].into_iter().for_each(|spare| assert_carried_state_is_steady(policy, spare, 1500));
    }
}

#[test]
#[ignore = "seconds on an idle machine: make flash"]
fn terabyte_drives_reach_their_steady_state_in_two_seconds() {
    for policy in TranslationPolicyName::ALL {
        let began = std::time::Instant::now();
        // 10^12 bytes in units of 4 KiB, blocks across 32 dies, 9 % over-provisioning.
        let shape = TranslationShape { units: 244_140_625, ..shape(*policy, 451, 589_824, 0.09) };
        let mut writer = RandomUnitWriter::new(TranslationLayer::overwritten_at_random(shape, 1));
        writer.write(123_456_789);
        println!("{:12} {:?}", policy.name(), began.elapsed());
        // Policies without a closed form simulate a small drive first, which takes longer.
        let has_form = Policy::closed_form(*policy, &SETTINGS).is_some();
        assert!(!has_form || began.elapsed().as_secs() < 2, "{policy:?}: {:?}", began.elapsed());
    }
}

/// Writes as many mapping units as the drive has, nine of ten to the first tenth of its units. Returns the write
/// amplification.
fn overwrite_hot_tenth(writer: &mut RandomUnitWriter) -> f64 {
    let (units, before) = (writer.drive.shape.units, writer.drive.counts());
    for _ in 0..units {
        let (is_hot, place) = (writer.random.unit() < 0.9, writer.random.unit());
        let share = if is_hot { 0.1 * place } else { 0.1 + 0.9 * place };
        writer.write((share * units as f64) as u32);
    }
    let after = writer.drive.counts();
    1.0 + (after.moved - before.moved) as f64 / (after.written - before.written) as f64
}

#[test]
fn hot_cold_policies_write_less_under_skewed_writes() {
    // Figures from docs/adding-a-policy.md.
    let figures = [
        (TranslationPolicyName::Greedy, 4.4),
        (TranslationPolicyName::Fifo, 5.0),
        (TranslationPolicyName::CostBenefit, 2.7),
        (TranslationPolicyName::WearAware, 2.8),
        (TranslationPolicyName::HotCold, 2.6),
    ];
    let found = figures.map(|(policy, _)| {
        let mut writer = written(policy, 300, 128, 0.15);
        (0..5).for_each(|_| _ = overwrite_hot_tenth(&mut writer));
        overwrite_hot_tenth(&mut writer)
    });
    let is_told = figures.iter().zip(found).all(|((_, told), found)| (found - told).abs() < 0.05);
    assert!(is_told, "{found:?}, told as {figures:?}");
}

#[test]
fn wear_aware_policy_spreads_erases_more_evenly() {
    let [greedy, cost_benefit, aware] =
        [TranslationPolicyName::Greedy, TranslationPolicyName::CostBenefit, TranslationPolicyName::WearAware].map(
            |policy| {
                let mut writer = written(policy, 200, 128, 0.15);
                (0..12).for_each(|_| _ = overwrite_hot_tenth(&mut writer));
                let erases = writer.drive.blocks.all.iter().map(|block| block.erases);
                erases.clone().max().unwrap() - erases.min().unwrap()
            },
        );
    assert!(aware < cost_benefit && 2 * aware < greedy, "{aware}, {cost_benefit} by cost and benefit, {greedy} greedy");
}

#[test]
fn policies_keep_the_mapping_consistent_and_streams_separate() {
    for policy in TranslationPolicyName::ALL {
        let shape = TranslationShape { line_units: 4, ..shape(*policy, 60, 64, 0.25) };
        for drive in [TranslationLayer::written_in_order(shape, 1), TranslationLayer::overwritten_at_random(shape, 1)] {
            let mut writer = RandomUnitWriter::new(drive);
            for step in 0..12_000_u32 {
                let unit = (writer.random.unit() * writer.random.unit() * shape.units as f64) as u32;
                match step % 11 {
                    0 => writer.drive.discard(unit),
                    1 => {
                        (0..Policy::streams(*policy).0).for_each(|it| writer.drive.skip(FlashWriteStream::User(it), 3))
                    }
                    _ => assert_eq!(writer.write(unit), writer.drive.location(unit)),
                }
            }
            assert_consistent_mapping(&writer.drive);
            let used = writer.drive.blocks.full().map(|block| writer.drive.blocks.stream(block));
            let used: BTreeSet<u8> = used.collect();
            assert!(
                used.len() >= 2 && used.iter().all(|it| usize::from(*it) < shape.streams()),
                "{policy:?}: {used:?}"
            );
        }
    }
}
