//! Tests that reading returns, whatever the text.

use proptest::prelude::*;

use super::super::{Drive, KeyOverride, shipped};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
}

/// Asserts that problems of the file come before all others, in the order of its lines.
fn assert_in_file_order(result: &Result<Drive, super::Problems>) {
    let Err(problems) = result else { return };
    assert!(!problems.0.is_empty());
    let lines: Vec<_> = problems.0.iter().filter(|problem| problem.file == "t").map(|problem| problem.line).collect();
    assert!(lines.is_sorted(), "{problems}");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_text_is_read_or_refused_without_panic(text in "\\PC*|([a-z_]{1,9}( = |\\.|\n|\\[|\\]|'|\"|[0-9e.-]{1,5}|\\{|\\}|,){0,3}){0,30}") {
        assert_in_file_order(&Drive::from_toml("t", &text, &[]));
    }

    #[test]
    fn random_override_is_read_or_refused_without_panic(text in "\\PC*|[a-z_.]{0,12}=\\PC{0,12}") {
        if let Ok(given) = KeyOverride::parse(&text) {
            assert_in_file_order(&Drive::from_toml("t", "preset = 'nvme'", &[given]));
        }
    }

    #[test]
    fn damaged_drive_file_is_read_or_refused_without_panic(
        which in 0..shipped::all().len(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}=.,'\"#\n0-9a-z_-]?"), 1..6),
    ) {
        let mut characters: Vec<char> = shipped::all().nth(which).expect("a drive").text.chars().collect();
        for (place, damage) in damages {
            let place = place.index(characters.len());
            characters.splice(place..=place, damage.chars());
        }
        let text: String = characters.into_iter().collect();
        assert_in_file_order(&Drive::from_toml("t", &text, &[]));
    }

    #[test]
    fn random_number_is_accepted_or_refused_without_overflow(
        key in prop::sample::select(vec![
            "media.read_ns", "dc_express.max_latency_us", "power.package_sleep_us", "media.capacity_mib",
            "nvme.queue_entries", "link.bit_error_rate", "media.bus_bytes_per_ns", "link.lanes",
        ]),
        number in prop_oneof![any::<i64>().prop_map(|n| n.to_string()), any::<f64>().prop_map(|x| format!("{x:e}"))],
    ) {
        let Ok(given) = KeyOverride::parse(&format!("{key}={number}")) else { return Ok(()) };
        if let Ok(drive) = Drive::from_toml("t", "preset = 'nvme'", &[given]) {
            let again = Drive::from_toml("t", &drive.to_toml(), &[]).unwrap();
            prop_assert_eq!(again, drive);
        }
    }
}
