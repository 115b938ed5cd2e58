use super::run_in::RunInState;
use super::tests::{OPEN_BLOCKS, Writer, assert_consistent};
use super::*;

const SETTINGS: PolicySettings = PolicySettings { choices: 10 };

fn shape(policy: PolicyName, blocks: u32, block_units: u32, spare: f64) -> TranslationShape {
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
fn written(policy: PolicyName, blocks: u32, block_units: u32, spare: f64) -> Writer {
    Writer::new(TranslationLayer::written_in_order(shape(policy, blocks, block_units, spare), 2))
}

fn without_a_form() -> impl Iterator<Item = PolicyName> {
    PolicyName::ALL.iter().copied().filter(|policy| Policy::closed_form(*policy, &SETTINGS).is_none())
}

/// Asserts that the write amplification of a small drive that is run in differs from the policy's closed form by at
/// most 1 %.
fn assert_run_in_has_its_closed_form(policy: PolicyName, spare: f64) {
    let form = Policy::closed_form(policy, &SETTINGS).expect("a policy with a closed form");
    let drawn = stationary::write_amplification(form, 256, spare);
    let run_in = RunInState::of(&shape(policy, 1, 256, spare), spare).amplification;
    println!("{:9} {spare:4}: run in {run_in:.3}, drawn {drawn:.3}", policy.name());
    assert!((run_in / drawn - 1.0).abs() < 0.01, "{policy:?} at {spare}: {run_in}, not {drawn}");
}

#[test]
fn drive_that_is_run_in_writes_as_much_as_a_drawn_one() {
    for policy in [PolicyName::Fifo, PolicyName::Greedy, PolicyName::DChoices] {
        assert_run_in_has_its_closed_form(policy, 0.5);
    }
}

#[test]
#[ignore = "ten seconds: make flash"]
fn drives_that_are_run_in_write_as_much_as_drawn_ones_at_all_spares() {
    for policy in [PolicyName::Fifo, PolicyName::Greedy, PolicyName::DChoices] {
        [0.07, 0.15, 0.28, 0.5].into_iter().for_each(|spare| assert_run_in_has_its_closed_form(policy, spare));
    }
}

/// Asserts equal write amplification of a drive that takes over the state of a small drive, of a drive that was itself
/// overwritten, and of the small drive.
fn assert_carried_state_is_steady(policy: PolicyName, spare: f64, blocks: u32) {
    let shape = shape(policy, blocks, 256, spare);
    let mut overwritten = written(policy, blocks, 256, spare);
    overwritten.overwrite(4.0);
    let full = overwritten.overwrite(2.0);
    let carried = Writer::new(TranslationLayer::overwritten_at_random(shape, 3)).overwrite(2.0);
    let stated = shape.steady_amplification(shape.units, 1);
    println!("{:12} {spare:4}: overwritten {full:.3}, carried over {carried:.3}, stated {stated:.3}", policy.name());
    for found in [carried, stated] {
        assert!((found / full - 1.0).abs() < 0.01, "{policy:?} at {spare}: {found}, not {full}");
    }
}

#[test]
fn state_of_a_small_drive_is_steady_on_another_one() {
    without_a_form().for_each(|policy| assert_carried_state_is_steady(policy, 0.5, 500));
}

#[test]
#[ignore = "a minute: make flash"]
fn states_of_small_drives_are_steady_on_others_at_all_spares() {
    for policy in without_a_form() {
        [0.07, 0.15, 0.28, 0.5].into_iter().for_each(|spare| assert_carried_state_is_steady(policy, spare, 1500));
    }
}

#[test]
#[ignore = "seconds on an idle machine: make flash"]
fn terabyte_drives_with_a_closed_form_are_in_their_steady_state_within_two_seconds() {
    for policy in PolicyName::ALL {
        let began = std::time::Instant::now();
        // 10^12 bytes in units of 4 KiB, blocks across 32 dies, 9 % over-provisioning.
        let shape = TranslationShape { units: 244_140_625, ..shape(*policy, 451, 589_824, 0.09) };
        let mut writer = Writer::new(TranslationLayer::overwritten_at_random(shape, 1));
        writer.write(123_456_789);
        println!("{:12} {:?}", policy.name(), began.elapsed());
        // Policies without a closed form simulate a small drive first, which takes longer.
        let has_form = Policy::closed_form(*policy, &SETTINGS).is_some();
        assert!(!has_form || began.elapsed().as_secs() < 2, "{policy:?}: {:?}", began.elapsed());
    }
}

/// Writes as many mapping units as the drive has, nine of ten to the first tenth of its units. Returns the write
/// amplification.
fn overwrite_unevenly(writer: &mut Writer) -> f64 {
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
fn policies_that_know_hot_from_cold_write_less_under_uneven_writes() {
    // Figures from docs/adding-a-policy.md.
    let figures = [
        (PolicyName::Greedy, 4.4),
        (PolicyName::Fifo, 5.0),
        (PolicyName::CostBenefit, 2.7),
        (PolicyName::WearAware, 2.8),
        (PolicyName::HotCold, 2.6),
    ];
    let found = figures.map(|(policy, _)| {
        let mut writer = written(policy, 300, 128, 0.15);
        (0..5).for_each(|_| _ = overwrite_unevenly(&mut writer));
        overwrite_unevenly(&mut writer)
    });
    let is_told = figures.iter().zip(found).all(|((_, told), found)| (found - told).abs() < 0.05);
    assert!(is_told, "{found:?}, told as {figures:?}");
}

#[test]
fn wear_aware_policy_spreads_erases_more_evenly_than_one_that_ignores_them() {
    let [greedy, cost_benefit, aware] =
        [PolicyName::Greedy, PolicyName::CostBenefit, PolicyName::WearAware].map(|policy| {
            let mut writer = written(policy, 200, 128, 0.15);
            (0..12).for_each(|_| _ = overwrite_unevenly(&mut writer));
            let erases = writer.drive.blocks.all.iter().map(|block| block.erases);
            erases.clone().max().unwrap() - erases.min().unwrap()
        });
    assert!(aware < cost_benefit && 2 * aware < greedy, "{aware}, {cost_benefit} by cost and benefit, {greedy} greedy");
}

#[test]
fn every_policy_keeps_the_mapping_whole_and_its_streams_apart() {
    for policy in PolicyName::ALL {
        let shape = TranslationShape { line_units: 4, ..shape(*policy, 60, 64, 0.25) };
        for drive in [TranslationLayer::written_in_order(shape, 1), TranslationLayer::overwritten_at_random(shape, 1)] {
            let mut writer = Writer::new(drive);
            for step in 0..12_000_u32 {
                let unit = (writer.random.unit() * writer.random.unit() * shape.units as f64) as u32;
                match step % 11 {
                    0 => writer.drive.discard(unit),
                    1 => (0..Policy::streams(*policy).0).for_each(|it| writer.drive.skip(WriteStream::User(it), 3)),
                    _ => assert_eq!(writer.write(unit), writer.drive.location(unit)),
                }
            }
            assert_consistent(&writer.drive);
            let used = writer.drive.blocks.full().map(|block| writer.drive.blocks.stream(block));
            let used: BTreeSet<u8> = used.collect();
            assert!(
                used.len() >= 2 && used.iter().all(|it| usize::from(*it) < shape.streams()),
                "{policy:?}: {used:?}"
            );
        }
    }
}
