use super::*;
use phaselink_core::drive_file::shipped;

fn drive(text: &str) -> Drive {
    Drive::from_toml("drive.toml", text, &[]).unwrap()
}

/// Returns a drive with two uncertain constants of its own, besides those of its presets.
fn nvme() -> Drive {
    drive("preset = 'nvme'\n[[assumed]]\nkey = 'nvme.parse_ns'\nlow = 16\nhigh = 64\nwhy = 'a test'\n")
}

#[test]
fn stratified_draws_hit_each_part_of_a_range_once() {
    let drawn = levels("media.read_ns", 20, 7);
    let mut parts: Vec<usize> = drawn.iter().map(|level| (level * 20.0) as usize).collect();
    parts.sort_unstable();
    assert_eq!(parts, (0..20).collect::<Vec<_>>());
    assert_eq!(drawn, levels("media.read_ns", 20, 7), "the same seed gives the same draws");
    assert_ne!(drawn, levels("media.read_ns", 20, 8));
    assert_ne!(drawn, levels("link.one_way_ns", 20, 7));
}

#[test]
fn half_of_the_draws_lie_below_the_nominal_value() {
    let values: Vec<f64> =
        (0..100).map(|part| value_at_quantile((f64::from(part) + 0.5) / 100.0, 16.0, 32.0, 64.0)).collect();
    assert_eq!(values.iter().filter(|value| **value < 32.0).count(), 50);
    assert!(values[0] > 16.0 && values[0] < 16.5 && values[99] > 63.0 && values[99] < 64.0);
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn draw_sets_each_uncertain_constant_within_its_range() {
    let drive = nvme();
    let draws = ConstantDraws::of([&drive], 10, 1);
    let parse_ns: Vec<f64> = (0..10)
        .map(|draw| {
            let drawn = Drive::from_toml("d", "preset = 'nvme'\n", &draws.overrides(&drive, draw)).unwrap();
            drawn.value_of("nvme.parse_ns").unwrap().as_f64().unwrap()
        })
        .collect();
    assert!(parse_ns.iter().all(|ns| (16.0..=64.0).contains(ns)), "{parse_ns:?}");
    assert_eq!(parse_ns.iter().filter(|ns| **ns < 32.0).count(), 5);
}

#[test]
fn interval_names_the_constant_that_moves_it_and_contains_the_central_value() {
    let drive = nvme();
    let draws = ConstantDraws::of([&drive], 40, 1);
    let value = |draw: usize| {
        draws.value(
            &drive,
            &drive.relevant_uncertain_constants().iter().find(|(_, d)| d.key == "nvme.parse_ns")?.1.clone(),
            draw,
        )
    };
    let drawn: Vec<Option<f64>> = (0..40).map(|draw| value(draw).map(|ns| 1000.0 + ns)).collect();
    let interval = draws.interval(1032.0, &drawn).unwrap();
    assert!((1016.0..1020.0).contains(&interval.low) && (1058.0..1064.0).contains(&interval.high), "{interval:?}");
    assert_eq!(interval.contributions[0].key, "nvme.parse_ns");
    assert!(interval.contributions[0].correlation > 0.999);
    assert_eq!(interval.draws, 40);
}

#[test]
fn weak_constant_is_named_but_a_merely_correlated_one_is_not() {
    let drive = Drive::shipped("nvme").unwrap();
    for seed in 0..10 {
        let draws = ConstantDraws::of([&drive], 40, seed);
        let keys: Vec<&str> = draws.keys.iter().map(String::as_str).collect();
        let (strong, weak) = (&draws.levels[3], &draws.levels[8]);
        let drawn: Vec<Option<f64>> = (0..40).map(|draw| Some(strong[draw] + 0.35 * weak[draw])).collect();
        let interval = draws.interval(0.7, &drawn).unwrap();
        let named: Vec<&str> = interval.contributions.iter().map(|part| part.key.as_str()).collect();
        assert_eq!(named[..2], [keys[3], keys[8]], "seed {seed}");
        assert!(named.len() <= 3, "seed {seed}: {named:?}");
    }
}

#[test]
fn interval_contains_the_central_value_and_needs_two_draws() {
    let drive = nvme();
    let draws = ConstantDraws::of([&drive], 4, 1);
    let interval = draws.interval(5.0, &[Some(1.0), Some(2.0), None, Some(3.0)]).unwrap();
    assert_eq!((interval.low, interval.high, interval.draws), (1.0, 5.0, 3));
    assert_eq!(draws.interval(5.0, &[Some(1.0), None, None, None]), None);
    let constant = draws.interval(5.0, &[Some(5.0); 4]).unwrap();
    assert!(constant.contributions.is_empty(), "{constant:?}");
}

#[test]
fn all_draws_of_shipped_drives_and_hosts_are_valid_drives() {
    let hosts = ["zen4-9654p", "haswell-ep-e5-2699v3", "skylake-sp-8180", "ice-lake-sp-8380", "sapphire-rapids-6442y"];
    let texts = shipped::names().map(|name| format!("preset = '{name}'\n"));
    let on_hosts = hosts.iter().map(|host| format!("preset = 'dram-card'\n[host]\npreset = '{host}'\n"));
    for text in texts.chain(on_hosts) {
        let drive = drive(&text);
        let draws = ConstantDraws::of([&drive], 20, 1);
        for draw in 0..draws.count() {
            let drawn = Drive::from_toml("d", &text, &draws.overrides(&drive, draw));
            assert!(drawn.is_ok(), "{text}: {}", drawn.unwrap_err());
        }
    }
}
