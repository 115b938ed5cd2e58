//! Tests of injected damage, and of measured rates against formulas. `make ecc` runs many more trials.

use std::sync::LazyLock;

use crate::media::ecc::{OutcomeCounts, SectorCodec, SectorDamage, inject, rates};

/// Returns the codec that all tests share, because its tables take a moment to set up.
pub(super) fn codec() -> &'static SectorCodec {
    static CODEC: LazyLock<SectorCodec> = LazyLock::new(SectorCodec::new);
    &CODEC
}

#[test]
fn damage_within_the_power_of_the_code_is_corrected() {
    for fault in SectorDamage::ALL.into_iter().filter(|fault| fault.is_within_power()) {
        let counts = inject(codec(), fault, 12_000, 1);
        assert_eq!(counts, OutcomeCounts { corrected: 12_000, ..OutcomeCounts::default() }, "{}", fault.description());
    }
}

#[test]
fn damage_beyond_the_power_of_the_code_is_reported_unless_a_chip_is_restored() {
    for fault in [SectorDamage::TooManyBits, SectorDamage::UnnoticedFailedChip, SectorDamage::OtherAddress] {
        let counts = inject(codec(), fault, 4_000, 1);
        assert_eq!(counts, OutcomeCounts { reported: 4_000, ..OutcomeCounts::default() }, "{}", fault.description());
    }
}

#[test]
fn further_damage_beside_a_restored_chip_is_silent_and_is_counted() {
    for fault in [SectorDamage::FailedChipAndBits, SectorDamage::SecondFailedChip] {
        let counts = inject(codec(), fault, 1_000, 1);
        assert_eq!(
            counts,
            OutcomeCounts { miscorrected: 1_000, ..OutcomeCounts::default() },
            "{}",
            fault.description()
        );
    }
}

#[test]
fn counts_of_parts_add_up_to_the_total() {
    let counts = |corrected, reported, miscorrected| OutcomeCounts { corrected, reported, miscorrected };
    let all: OutcomeCounts = [counts(1, 2, 3), counts(40, 50, 60)].into_iter().sum();
    assert_eq!((all, all.total()), (counts(41, 52, 63), 156));
}

#[test]
fn equal_seeds_damage_equal_sectors() {
    let rate = |seed| rates::sample(codec(), 2e-3, 200, seed);
    assert_eq!(rate(7), rate(7));
    assert_ne!(rate(7), rate(8));
}

#[test]
fn trials_with_real_bytes_agree_with_the_formula() {
    for raw in [1e-4, 2e-3, 5e-3, 8e-3, 2e-2] {
        let (exact, sampled) = (rates::uncorrectable_probability(raw), rates::sample(codec(), raw, 1_500, 3));
        let estimate = sampled.uncorrectable;
        // Allow five standard errors, which is 2.5 times the distance to the 95 % limit, or three sectors if the
        // estimate has no spread.
        let margin = 2.5 * (estimate.high - estimate.mean).max(exact / 1_500.0);
        assert!((estimate.mean - exact).abs() <= margin, "{raw}: {estimate:?} is not {exact}");
        assert_eq!((sampled.miscorrected.mean, sampled.miscorrected.low), (0.0, 0.0));
        assert!(sampled.miscorrected.high >= rates::miscorrected_probability(raw));
    }
}

#[test]
fn tail_probabilities_of_the_binomial_agree_with_closed_forms() {
    assert!((rates::probability_above(2, 0.5, 0) - 0.75).abs() < 1e-12);
    assert!((rates::probability_above(2, 0.5, 1) - 0.25).abs() < 1e-12);
    assert_eq!(rates::probability_above(10, 0.3, 10), 0.0);
    assert_eq!(rates::probability_above(10, 0.0, 0), 0.0);
    assert!((rates::probability_above(10, 1.0, 3) - 1.0).abs() < 1e-12);
    assert!((rates::probability_above(4608, 1e-9, 0) - 4608e-9).abs() < 2e-11);
}

#[test]
fn tolerated_raw_error_rate_gives_the_requested_uncorrectable_rate() {
    let raw = rates::tolerated_raw_bit_error_rate(1e-16);
    assert!((rates::uncorrectable_bit_error_rate(raw) / 1e-16 - 1.0).abs() < 1e-6);
    assert!((raw - 2.1e-3).abs() < 2e-4, "{raw}");
}

/// The table of alternatives in docs/ecc.md: raw bit error rates at which each gives 10^-16.
#[test]
fn codes_that_were_not_chosen_tolerate_less_or_restore_no_chip() {
    let tolerated = |failed: &dyn Fn(f64) -> f64| {
        libm::exp(crate::media::ecc::crossing(-35.0, -1.0, 1e-16, |log| failed(libm::exp(log)) / 4096.0))
    };
    let byte = |raw: f64| 1.0 - (1.0 - raw).powi(8);
    let reed_solomon = tolerated(&|raw| 8.0 * rates::probability_above(72, byte(raw), 4));
    let in_each_chip = tolerated(&|raw| 8.0 * rates::probability_above(512 + 60, raw, 6));
    let with_metadata = tolerated(&|raw| rates::probability_above(4608, raw, 34));
    let chosen = rates::tolerated_raw_bit_error_rate(1e-16);
    let shown = format!("{reed_solomon:.1e} {in_each_chip:.1e} {with_metadata:.1e} {chosen:.1e}");
    assert_eq!(shown, "1.0e-5 7.5e-5 1.7e-3 2.1e-3");
}
