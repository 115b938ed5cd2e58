//! Results of `phaselink ecc` as tables and as a JSON document.

use phaselink_core::media::ecc::endurance::{CELLS_OF_A_CHIP, Endurance, EnduranceSpread, SpreadFamily, spread_needed};
use phaselink_core::media::ecc::rates::{self, ProbabilityEstimate};
use phaselink_core::media::ecc::{CORRECTED_BITS, latency};
use phaselink_studies::report::Table;
use phaselink_studies::results::units::grouped;
use serde_json::{Value, json};

use super::{Arguments, EccFindings};

/// Uncorrectable bit error rate that a drive must stay below: "better than 10^-16", section 1 of the paper on the PSS
/// prototype drive.
const UBER: f64 = 1e-16;

/// Statement of a paper on the write cycles of a chip before the first error, and those that the code makes it endure.
struct PaperStatement {
    words: &'static str,
    first_cycles: f64,
    until_cycles: f64,
}

/// Statements on write cycles in sections 1 and 3 a of the PSS paper. "Several million" and "tens of millions" are read
/// as 3 and 30 million.
const STATEMENTS: [PaperStatement; 2] = [
    PaperStatement { words: "NVMW 2014, section 1: 10^6, with correction 10^9", first_cycles: 1e6, until_cycles: 1e9 },
    PaperStatement { words: "NVMW 2014, section 3: measured, 3 and 30 million", first_cycles: 3e6, until_cycles: 3e7 },
];

/// Numbers of cells in which the first worn-out cell is observed. A part of a chip has its first error later than the
/// whole chip.
const WATCHED: [(&str, f64); 3] =
    [("a chip", CELLS_OF_A_CHIP), ("1024 sectors", 1024.0 * 4608.0), ("a sector", 4608.0)];

/// Returns the text of `phaselink ecc`: error rates, and outcomes of decoding damaged sectors.
pub(super) fn text(arguments: &Arguments, findings: &EccFindings) -> String {
    let tolerated = rates::tolerated_raw_bit_error_rate(UBER);
    format!(
        "A sector of 512 B in nine chips of 64 B; 39 wrong bits or one known failed chip are corrected.\n\n\
         {}\nBits wrong independently. Sampled: {} sectors a row by importance sampling, 95 % limits. Miscorrected:\nthe \
         upper limit that the trials leave; a share of 2^{:.0} of heavily damaged words is within reach of a\ncodeword. \
         UBER: uncorrectable sectors for each bit read.\n\n\
         {}\n{} sectors of random bytes a row, compared with the truth.\n\n\
         {}\nUBER reaches 10^-16 at a raw bit error rate of {tolerated:.2e}. Assumed: cells wear out independently, a worn \
         cell\nkeeps one value and is right half of the time. The spread is what each statement takes; sigma is\nthat of \
         the natural logarithm of the endurance.\n\n{}",
        rate_table(findings),
        grouped(arguments.trials),
        rates::log2_share_within_reach(),
        fault_table(findings),
        grouped(arguments.inject),
        spread_table(),
        cycle_table(),
    )
}

fn rate_table(findings: &EccFindings) -> Table {
    let mut table = Table::new().right("raw BER").right("corrected").right("uncorrectable").right("UBER");
    table = table.left("sampled uncorrectable").right("miscorrected").right("decoding ns");
    for (raw, sampled) in &findings.rates {
        let damaged = rates::probability_above(phaselink_core::media::ecc::STORED_BITS, *raw, 0);
        let uncorrectable = rates::uncorrectable_probability(*raw);
        table.row([
            format!("{raw:.0e}"),
            format!("{:.3e}", damaged - uncorrectable),
            format!("{uncorrectable:.2e}"),
            format!("{:.1e}", rates::uncorrectable_bit_error_rate(*raw)),
            limits(&sampled.uncorrectable),
            format!("< {:.0e}", sampled.miscorrected.high),
            format!("{:.0}", latency::mean_nanoseconds(*raw)),
        ]);
    }
    table
}

fn limits(estimate: &ProbabilityEstimate) -> String {
    format!("{:.2e} ({:.2e} .. {:.2e})", estimate.mean, estimate.low, estimate.high)
}

fn fault_table(findings: &EccFindings) -> Table {
    let mut table = Table::new().left("injected").right("corrected").right("reported").right("miscorrected");
    let mut was_within = None;
    for (fault, counts) in &findings.faults {
        if was_within.is_some_and(|within| within != fault.is_within_power()) {
            table.group();
        }
        was_within = Some(fault.is_within_power());
        let numbers = [counts.corrected, counts.reported, counts.miscorrected].map(grouped);
        table.row([vec![fault.description().to_string()], numbers.to_vec()].concat());
    }
    table
}

/// Returns a table with the spread of cell endurance that each statement of the PSS paper requires.
fn spread_table() -> Table {
    let mut table = Table::new().left("cycles to the first error, and to UBER 10^-16").left("first error of");
    table = table.right("lognormal sigma").right("Weibull shape");
    for claim in &STATEMENTS {
        for (place, (watched, cells)) in WATCHED.iter().enumerate() {
            let spread = |family| claim.spread(family, *cells).map_or_else(|| "none".into(), |spread| number(&spread));
            let words = if place == 0 { claim.words } else { "" };
            let (lognormal, weibull) = (spread(SpreadFamily::Lognormal), spread(SpreadFamily::Weibull));
            table.row([words, watched, &lognormal, &weibull]);
        }
    }
    table
}

/// Returns a table of error rates over write cycles, for the lognormal endurance of a chip that agrees with each
/// statement.
fn cycle_table() -> Table {
    let mut table = Table::new().right("cycles");
    let endurances: Vec<Endurance> = STATEMENTS.iter().filter_map(PaperStatement::endurance).collect();
    for endurance in &endurances {
        let sigma = number(&endurance.spread);
        table = table.right(format!("raw BER, sigma {sigma}")).right("UBER");
    }
    for cycles in [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9] {
        let rates = endurances.iter().flat_map(|endurance| {
            let uber = endurance.uncorrectable_bit_error_rate(cycles);
            [scientific(endurance.raw_bit_error_rate(cycles)), scientific(uber)]
        });
        table.row(std::iter::once(format!("{cycles:.0e}")).chain(rates));
    }
    table
}

impl PaperStatement {
    fn spread(&self, family: SpreadFamily, cells: f64) -> Option<EnduranceSpread> {
        spread_needed(family, cells, self.until_cycles / self.first_cycles, UBER)
    }

    /// Returns the lognormal endurance of a chip's cells that agrees with the statement, or none if there is none.
    fn endurance(&self) -> Option<Endurance> {
        let spread = self.spread(SpreadFamily::Lognormal, CELLS_OF_A_CHIP)?;
        Some(Endurance { cells: CELLS_OF_A_CHIP, first_cycles: self.first_cycles, spread })
    }
}

fn number(spread: &EnduranceSpread) -> String {
    match spread {
        EnduranceSpread::Lognormal { deviation } => format!("{deviation:.2}"),
        EnduranceSpread::Weibull { shape } => format!("{shape:.2}"),
    }
}

/// Formats a rate in scientific notation. A rate below 1e-99 is 0.
fn scientific(rate: f64) -> String {
    if rate < 1e-99 { String::from("0") } else { format!("{rate:.1e}") }
}

/// Returns the JSON document of `phaselink ecc`: error rates, and outcomes of decoding damaged sectors.
pub(super) fn document(arguments: &Arguments, findings: &EccFindings) -> Value {
    let rows = findings.rates.iter().map(|(raw, sampled)| {
        json!({
            "raw_bit_error_rate": raw,
            "uncorrectable_sector_rate": rates::uncorrectable_probability(*raw),
            "uncorrectable_bit_error_rate": rates::uncorrectable_bit_error_rate(*raw),
            "uncorrectable_sector_rate_sampled": interval(&sampled.uncorrectable),
            "miscorrected_sector_rate": rates::miscorrected_probability(*raw),
            "miscorrected_sector_rate_sampled": interval(&sampled.miscorrected),
            "decode_ns_mean": latency::mean_nanoseconds(*raw),
        })
    });
    let faults = findings.faults.iter().map(|(fault, counts)| {
        json!({
            "fault": fault.description(),
            "within_power": fault.is_within_power(),
            "corrected": counts.corrected,
            "reported": counts.reported,
            "miscorrected": counts.miscorrected,
        })
    });
    json!({
        "corrected_bits": CORRECTED_BITS,
        "trials": arguments.trials,
        "seed": arguments.seed,
        "rates": rows.collect::<Vec<_>>(),
        "injected": faults.collect::<Vec<_>>(),
        "raw_bit_error_rate_tolerated": rates::tolerated_raw_bit_error_rate(UBER),
        "uncorrectable_bit_error_rate_target": UBER,
        "endurance": STATEMENTS.iter().flat_map(claim_objects).collect::<Vec<_>>(),
    })
}

fn interval(estimate: &ProbabilityEstimate) -> Value {
    json!({ "mean": estimate.mean, "low": estimate.low, "high": estimate.high })
}

fn claim_objects(claim: &PaperStatement) -> impl Iterator<Item = Value> {
    WATCHED.iter().map(move |(watched, cells)| {
        let sigma = claim.spread(SpreadFamily::Lognormal, *cells).map(|spread| value(&spread));
        let shape = claim.spread(SpreadFamily::Weibull, *cells).map(|spread| value(&spread));
        json!({
            "claim": claim.words,
            "first_error_cycles": claim.first_cycles,
            "corrected_until_cycles": claim.until_cycles,
            "first_error_of": watched,
            "cells": cells,
            "lognormal_sigma_needed": sigma,
            "weibull_shape_needed": shape,
        })
    })
}

fn value(spread: &EnduranceSpread) -> f64 {
    match *spread {
        EnduranceSpread::Lognormal { deviation } => deviation,
        EnduranceSpread::Weibull { shape } => shape,
    }
}
