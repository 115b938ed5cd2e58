//! Raw bit error rate as a function of write cycles, from the spread of the cells' endurance.
//!
//! A cell wears out after a number of cycles of its own and then keeps one value. Half of the bits written there read
//! right by chance, so the raw bit error rate is half the share of worn cells. Cells wear out independently. The PSS
//! paper does not say how their endurance spreads; both usual distributions are here, and each statement of the paper
//! is turned into the spread that it takes.

use super::find_crossing;
use super::rates;
use crate::number::real;

/// Number of cells in a chip: 16 MiB of single-level cells (90 nm P5Q: 128 Mbit).
pub const CELLS_OF_A_CHIP: f64 = real(1u64 << 27);

/// Distribution of the endurance of cells, in write cycles, with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellEnduranceSpread {
    /// Lognormal distribution: the logarithm of the endurance is normally distributed.
    Lognormal {
        /// Standard deviation of the natural logarithm of the cells' endurance.
        deviation: f64,
    },
    /// Weibull distribution, the distribution of the weakest of many parts. After n cycles 1 - exp(-(n / scale)^shape)
    /// of the cells are worn.
    Weibull {
        /// Shape parameter of the Weibull distribution: the larger, the smaller the spread of the endurance.
        shape: f64,
    },
}

/// Kind of distribution of cell endurance, without its spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnduranceDistribution {
    /// Lognormal distribution: the logarithm of the endurance is normally distributed.
    Lognormal,
    /// Weibull distribution: the distribution of the weakest of many parts.
    Weibull,
}

/// Endurance of memory cells: its distribution, fixed by the number of cycles after which the first of `cells` is worn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Number of cells of which, on average, one is worn after `first_cycles` write cycles.
    pub cells: f64,
    /// Number of write cycles after which, on average, one of `cells` cells is worn.
    pub first_cycles: f64,
    /// Distribution of the endurance over cells, with its spread.
    pub spread: CellEnduranceSpread,
}

impl Endurance {
    /// Returns the share of cells, from 0 to 1, that are worn after `cycles` write cycles.
    pub fn worn(&self, cycles: f64) -> f64 {
        let log_ratio = libm::log(cycles / self.first_cycles);
        let first = 1.0 / self.cells;
        match self.spread {
            CellEnduranceSpread::Lognormal { deviation } => {
                normal_share_below(normal_quantile(first) + log_ratio / deviation)
            }
            CellEnduranceSpread::Weibull { shape } => {
                -libm::expm1(-cumulative_hazard(first) * libm::exp(shape * log_ratio))
            }
        }
    }

    /// Returns the raw bit error rate after `cycles` write cycles: half the share of worn cells.
    pub fn raw_bit_error_rate(&self, cycles: f64) -> f64 {
        0.5 * self.worn(cycles)
    }

    /// Returns the uncorrectable bit error rate (UBER) of the sector code after `cycles` write cycles.
    pub fn uncorrectable_bit_error_rate(&self, cycles: f64) -> f64 {
        rates::uncorrectable_bit_error_rate(self.raw_bit_error_rate(cycles))
    }

    /// Returns the number of write cycles after which the uncorrectable bit error rate reaches `target`.
    pub fn cycles_until_error_rate(&self, target: f64) -> f64 {
        let worn = worn_share_at_target(target);
        let first = 1.0 / self.cells;
        let log_ratio = match self.spread {
            CellEnduranceSpread::Lognormal { deviation } => {
                deviation * (normal_quantile(worn) - normal_quantile(first))
            }
            CellEnduranceSpread::Weibull { shape } => {
                libm::log(cumulative_hazard(worn) / cumulative_hazard(first)) / shape
            }
        };
        self.first_cycles * libm::exp(log_ratio)
    }
}

/// Returns the least spread of cell endurance with which the sector code extends the life of a memory by the factor
/// `stretch`. Life ends without the code at the first worn of `cells`, and with the code at an uncorrectable bit error
/// rate of `target`. `None` if the first worn cell already exceeds `target`, or if `stretch` is at most 1.
pub fn least_endurance_spread(
    family: EnduranceDistribution,
    cells: f64,
    stretch: f64,
    target: f64,
) -> Option<CellEnduranceSpread> {
    let (first, worn) = (1.0 / cells, worn_share_at_target(target));
    if first >= worn || stretch <= 1.0 {
        return None;
    }
    Some(match family {
        EnduranceDistribution::Lognormal => CellEnduranceSpread::Lognormal {
            deviation: libm::log(stretch) / (normal_quantile(worn) - normal_quantile(first)),
        },
        EnduranceDistribution::Weibull => CellEnduranceSpread::Weibull {
            shape: libm::log(cumulative_hazard(worn) / cumulative_hazard(first)) / libm::log(stretch),
        },
    })
}

/// Returns the share of worn cells at which the uncorrectable bit error rate reaches `target`; at most 1.
fn worn_share_at_target(target: f64) -> f64 {
    (2.0 * rates::raw_error_rate_for_target(target)).min(1.0)
}

/// Returns the cumulative hazard for a share `worn` of worn cells: minus the logarithm of the share that is not worn.
fn cumulative_hazard(worn: f64) -> f64 {
    -libm::log1p(-worn)
}

/// Returns the share of a normal distribution that lies below its mean plus `deviations` standard deviations.
fn normal_share_below(deviations: f64) -> f64 {
    0.5 * libm::erfc(-deviations / std::f64::consts::SQRT_2)
}

/// Returns the number of standard deviations from the mean below which this share of a normal distribution lies.
fn normal_quantile(share: f64) -> f64 {
    // Below -38 deviations, the share is smaller than the smallest double.
    find_crossing(-38.0, 38.0, share, normal_share_below)
}
