//! Answer of `ecc` in words: text with tables of error rates, damage and endurance.

use phaselink_core::media::ecc::rates;
use phaselink_core::media::ecc::{STORED_BITS, endurance::Endurance};

use super::{EccAnswer, SampledProbability};
use crate::report::{Answer, Prose, Table};
use crate::results::units::grouped;

impl Answer for EccAnswer {
    const VERB: &'static str = "ecc";

    fn text(&self) -> Prose {
        let sampled = format!(
            "Bits wrong independently. Sampled: {} sectors a row by importance sampling, 95 % limits. Miscorrected:\nthe \
             upper limit that the trials leave; a share of 2^{:.0} of heavily damaged words is within reach of a\ncodeword. \
             UBER: uncorrectable sectors for each bit read.",
            grouped(self.trials),
            rates::log2_decodable_share(),
        );
        let injected =
            format!("{} sectors of random bytes a row, compared with the truth.", grouped(self.injected_each));
        let spreads = format!(
            "UBER reaches 10^-16 at a raw bit error rate of {:.2e}. Assumed: cells wear out independently, a worn \
             cell\nkeeps one value and is right half of the time. The spread is what each statement takes; sigma is\nthat \
             of the natural logarithm of the endurance.",
            self.raw_bit_error_rate_tolerated,
        );
        let prose = Prose::default().lines(SECTOR).gap().table(self.rate_table()).gap().lines(sampled).gap();
        let prose = prose.table(self.fault_table()).gap().lines(injected).gap();
        prose.table(self.spread_table()).gap().lines(spreads).gap().table(self.cycle_table())
    }
}

/// First line of the text.
const SECTOR: &str = "A sector of 512 B in nine chips of 64 B; 39 wrong bits or one known failed chip are corrected.";

impl EccAnswer {
    fn rate_table(&self) -> Table {
        let mut table = Table::new().right("raw BER").right("corrected").right("uncorrectable").right("UBER");
        table = table.left("sampled uncorrectable").right("miscorrected").right("decoding ns");
        for row in &self.rates {
            let damaged = rates::probability_more_wrong(STORED_BITS, row.raw_bit_error_rate, 0);
            table.row([
                format!("{:.0e}", row.raw_bit_error_rate),
                format!("{:.3e}", damaged - row.uncorrectable_sector_rate),
                format!("{:.2e}", row.uncorrectable_sector_rate),
                format!("{:.1e}", row.uncorrectable_bit_error_rate),
                limits(&row.uncorrectable_sector_rate_sampled),
                format!("< {:.0e}", row.miscorrected_sector_rate_sampled.high),
                format!("{:.0}", row.decode_ns_mean),
            ]);
        }
        table
    }

    fn fault_table(&self) -> Table {
        let mut table = Table::new().left("injected").right("corrected").right("reported").right("miscorrected");
        for (place, group) in self.injected.chunk_by(|one, other| one.within_power == other.within_power).enumerate() {
            if place > 0 {
                table.group();
            }
            for row in group {
                let counts = [row.corrected, row.reported, row.miscorrected].map(grouped);
                table.row([vec![row.fault.clone()], counts.to_vec()].concat());
            }
        }
        table
    }

    /// Returns a table with the spread of cell endurance that each statement of the PSS paper requires.
    fn spread_table(&self) -> Table {
        let mut table = Table::new().left("cycles to the first error, and to UBER 10^-16").left("first error of");
        table = table.right("lognormal sigma").right("Weibull shape");
        let number = |value: Option<f64>| value.map_or_else(|| String::from("none"), |value| format!("{value:.2}"));
        for group in self.endurance.chunk_by(|one, other| one.claim == other.claim) {
            for (place, row) in group.iter().enumerate() {
                table.row([
                    if place == 0 { row.claim.clone() } else { String::new() },
                    row.first_error_of.clone(),
                    number(row.lognormal_sigma_needed),
                    number(row.weibull_shape_needed),
                ]);
            }
        }
        table
    }

    /// Returns a table of error rates over write cycles, for the lognormal endurance of a chip that agrees with each
    /// statement.
    fn cycle_table(&self) -> Table {
        let of_chips = self.endurance.chunk_by(|one, other| one.claim == other.claim).filter_map(|rows| rows.first());
        let known = of_chips.filter_map(|row| Some((row.lognormal_sigma_needed?, row.lognormal_endurance()?)));
        let endurances: Vec<(f64, Endurance)> = known.collect();
        let mut table = Table::new().right("cycles");
        for (sigma, _) in &endurances {
            table = table.right(format!("raw BER, sigma {sigma:.2}")).right("UBER");
        }
        for cycles in [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9] {
            let rates = endurances.iter().flat_map(|(_, endurance)| {
                let uber = endurance.uncorrectable_bit_error_rate(cycles);
                [scientific_text(endurance.raw_bit_error_rate(cycles)), scientific_text(uber)]
            });
            table.row(std::iter::once(format!("{cycles:.0e}")).chain(rates));
        }
        table
    }
}

fn limits(estimate: &SampledProbability) -> String {
    format!("{:.2e} ({:.2e} .. {:.2e})", estimate.mean, estimate.low, estimate.high)
}

/// Formats a rate in scientific notation. A rate below 1e-99 is 0.
fn scientific_text(rate: f64) -> String {
    if rate < 1e-99 { String::from("0") } else { format!("{rate:.1e}") }
}
