//! Tests of injected damage, and of measured rates against formulas. `make ecc` runs many more trials.

use std::sync::LazyLock;

use crate::media::ecc::{DecodeOutcomeCounts, SectorCodec, SectorDamage, inject, rates};

/// Returns the codec that all tests share, because its tables take a moment to set up.
pub(super) fn codec() -> &'static SectorCodec {
    static CODEC: LazyLock<SectorCodec> = LazyLock::new(SectorCodec::new);
    &CODEC
}

#[test]
fn damage_within_the_codes_capability_is_corrected() {
    for fault in SectorDamage::ALL.into_iter().filter(|fault| fault.is_within_power()) {
        let counts = inject(codec(), fault, 12_000, 1);
        assert_eq!(
            counts,
            DecodeOutcomeCounts { corrected: 12_000, ..DecodeOutcomeCounts::default() },
            "{}",
            fault.description()
        );
    }
}

#[test]
fn damage_beyond_the_codes_capability_is_detected() {
    for fault in [SectorDamage::TooManyBits, SectorDamage::UnnoticedFailedChip, SectorDamage::OtherAddress] {
        let counts = inject(codec(), fault, 4_000, 1);
        assert_eq!(
            counts,
            DecodeOutcomeCounts { reported: 4_000, ..DecodeOutcomeCounts::default() },
            "{}",
            fault.description()
        );
    }
}

#[test]
fn damage_beside_a_restored_chip_is_undetected_and_counted() {
    for fault in [SectorDamage::FailedChipAndBits, SectorDamage::SecondFailedChip] {
        let counts = inject(codec(), fault, 1_000, 1);
        assert_eq!(
            counts,
            DecodeOutcomeCounts { miscorrected: 1_000, ..DecodeOutcomeCounts::default() },
            "{}",
            fault.description()
        );
    }
}

#[test]
fn outcome_counts_of_parts_add_up() {
    let counts = |corrected, reported, miscorrected| DecodeOutcomeCounts { corrected, reported, miscorrected };
    let all: DecodeOutcomeCounts = [counts(1, 2, 3), counts(40, 50, 60)].into_iter().sum();
    assert_eq!((all, all.total()), (counts(41, 52, 63), 156));
}

#[test]
fn equal_seeds_damage_sectors_equally() {
    let rate = |seed| rates::sample(codec(), 2e-3, 200, seed);
    assert_eq!(rate(7), rate(7));
    assert_ne!(rate(7), rate(8));
}

#[test]
fn sampled_decoder_rates_agree_with_the_formula() {
    for raw in [1e-4, 2e-3, 5e-3, 8e-3, 2e-2] {
        let (exact, sampled) = (rates::uncorrectable_sector_probability(raw), rates::sample(codec(), raw, 1_500, 3));
        let estimate = sampled.uncorrectable;
        // Allow five standard errors: 2.5 times the distance from the mean to the 95 % limit, or three sectors if the
        // estimate has no spread.
        let margin = 2.5 * (estimate.high - estimate.mean).max(exact / 1_500.0);
        assert!((estimate.mean - exact).abs() <= margin, "{raw}: {estimate:?} is not {exact}");
        assert_eq!((sampled.miscorrected.mean, sampled.miscorrected.low), (0.0, 0.0));
        assert!(sampled.miscorrected.high >= rates::miscorrection_probability(raw));
    }
}

#[test]
fn binomial_tails_agree_with_closed_forms() {
    assert!((rates::probability_more_wrong(2, 0.5, 0) - 0.75).abs() < 1e-12);
    assert!((rates::probability_more_wrong(2, 0.5, 1) - 0.25).abs() < 1e-12);
    assert_eq!(rates::probability_more_wrong(10, 0.3, 10), 0.0);
    assert_eq!(rates::probability_more_wrong(10, 0.0, 0), 0.0);
    assert!((rates::probability_more_wrong(10, 1.0, 3) - 1.0).abs() < 1e-12);
    assert!((rates::probability_more_wrong(4608, 1e-9, 0) - 4608e-9).abs() < 2e-11);
}

#[test]
fn tolerated_raw_rate_gives_the_target_uncorrectable_rate() {
    let raw = rates::raw_error_rate_for_target(1e-16);
    assert!((rates::uncorrectable_bit_error_rate(raw) / 1e-16 - 1.0).abs() < 1e-6);
    assert!((raw - 2.1e-3).abs() < 2e-4, "{raw}");
}

/// The table of alternatives in docs/ecc.md: raw bit error rates at which each gives 10^-16.
#[test]
fn alternative_codes_tolerate_less_or_restore_no_chip() {
    let tolerated = |failed: &dyn Fn(f64) -> f64| {
        libm::exp(crate::media::ecc::find_crossing(-35.0, -1.0, 1e-16, |log| failed(libm::exp(log)) / 4096.0))
    };
    let byte = |raw: f64| 1.0 - (1.0 - raw).powi(8);
    let reed_solomon = tolerated(&|raw| 8.0 * rates::probability_more_wrong(72, byte(raw), 4));
    let in_each_chip = tolerated(&|raw| 8.0 * rates::probability_more_wrong(512 + 60, raw, 6));
    let with_metadata = tolerated(&|raw| rates::probability_more_wrong(4608, raw, 34));
    let chosen = rates::raw_error_rate_for_target(1e-16);
    let shown = format!("{reed_solomon:.1e} {in_each_chip:.1e} {with_metadata:.1e} {chosen:.1e}");
    assert_eq!(shown, "1.0e-5 7.5e-5 1.7e-3 2.1e-3");
}
