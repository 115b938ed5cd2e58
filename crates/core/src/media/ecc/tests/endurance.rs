use crate::media::ecc::endurance::{CELLS_OF_A_CHIP, Endurance, EnduranceSpread, SpreadFamily, spread_needed};

const BOTH: [SpreadFamily; 2] = [SpreadFamily::Lognormal, SpreadFamily::Weibull];

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
}

#[test]
fn one_cell_is_worn_after_the_first_cycles() {
    for spread in [EnduranceSpread::Lognormal { deviation: 0.7 }, EnduranceSpread::Weibull { shape: 2.0 }] {
        let endurance = Endurance { cells: CELLS_OF_A_CHIP, first_cycles: 1e6, spread };
        close(endurance.worn(1e6) * CELLS_OF_A_CHIP, 1.0);
        close(endurance.raw_bit_error_rate(1e6) * 2.0, endurance.worn(1e6));
    }
}

#[test]
fn needed_spread_reaches_the_target_after_that_many_cycles() {
    for family in BOTH {
        for stretch in [10.0, 1000.0] {
            let spread = spread_needed(family, CELLS_OF_A_CHIP, stretch, 1e-16).unwrap();
            let endurance = Endurance { cells: CELLS_OF_A_CHIP, first_cycles: 1e6, spread };
            close(endurance.cycles_until(1e-16), 1e6 * stretch);
            close(endurance.uncorrectable_bit_error_rate(1e6 * stretch), 1e-16);
        }
    }
}

#[test]
fn weibull_shape_equals_its_closed_form_from_two_shares() {
    let Some(EnduranceSpread::Weibull { shape }) = spread_needed(SpreadFamily::Weibull, CELLS_OF_A_CHIP, 1000.0, 1e-16)
    else {
        panic!("there is a shape")
    };
    let worn = 2.0 * crate::media::ecc::rates::tolerated_raw_bit_error_rate(1e-16);
    close(shape, (worn * CELLS_OF_A_CHIP).ln() / 1000f64.ln());
}

#[test]
fn no_spread_suffices_if_the_first_worn_cell_is_too_many() {
    for family in BOTH {
        assert_eq!(spread_needed(family, 100.0, 10.0, 1e-16), None);
        assert_eq!(spread_needed(family, CELLS_OF_A_CHIP, 1.0, 1e-16), None);
    }
}
