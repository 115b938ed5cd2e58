use crate::media::ecc::endurance::{
    CELLS_OF_A_CHIP, CellEnduranceSpread, Endurance, EnduranceDistribution, least_endurance_spread,
};

const BOTH: [EnduranceDistribution; 2] = [EnduranceDistribution::Lognormal, EnduranceDistribution::Weibull];

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
}

#[test]
fn one_cell_is_worn_after_the_first_failure_cycles() {
    for spread in [CellEnduranceSpread::Lognormal { deviation: 0.7 }, CellEnduranceSpread::Weibull { shape: 2.0 }] {
        let endurance = Endurance { cells: CELLS_OF_A_CHIP, first_cycles: 1e6, spread };
        close(endurance.worn(1e6) * CELLS_OF_A_CHIP, 1.0);
        close(endurance.raw_bit_error_rate(1e6) * 2.0, endurance.worn(1e6));
    }
}

#[test]
fn least_spread_reaches_the_target_cycles() {
    for family in BOTH {
        for stretch in [10.0, 1000.0] {
            let spread = least_endurance_spread(family, CELLS_OF_A_CHIP, stretch, 1e-16).unwrap();
            let endurance = Endurance { cells: CELLS_OF_A_CHIP, first_cycles: 1e6, spread };
            close(endurance.cycles_until_error_rate(1e-16), 1e6 * stretch);
            close(endurance.uncorrectable_bit_error_rate(1e6 * stretch), 1e-16);
        }
    }
}

#[test]
fn weibull_shape_follows_from_two_shares() {
    let Some(CellEnduranceSpread::Weibull { shape }) =
        least_endurance_spread(EnduranceDistribution::Weibull, CELLS_OF_A_CHIP, 1000.0, 1e-16)
    else {
        panic!("there is a shape")
    };
    let worn = 2.0 * crate::media::ecc::rates::raw_error_rate_for_target(1e-16);
    close(shape, (worn * CELLS_OF_A_CHIP).ln() / 1000f64.ln());
}

#[test]
fn no_spread_suffices_if_the_first_worn_cell_fails_the_target() {
    for family in BOTH {
        assert_eq!(least_endurance_spread(family, 100.0, 10.0, 1e-16), None);
        assert_eq!(least_endurance_spread(family, CELLS_OF_A_CHIP, 1.0, 1e-16), None);
    }
}
