//! From write cycles to raw bit errors: how the endurance of cells spreads.
//!
//! A cell wears out after a number of cycles of its own and then keeps one value. Half of the bits written there read
//! right by chance, so the raw bit error rate is half the share of worn cells. Cells wear out independently. How their
//! endurance spreads is not in the PSS paper; both usual distributions are here, and each statement of the paper is
//! turned into the spread that it takes.

use super::crossing;
use super::rates;

/// Cells of a chip: 16 MiB of single-level cells (90 nm P5Q: 128 Mbit).
pub const CELLS_OF_A_CHIP: f64 = (1u64 << 27) as f64;

/// How the logarithm of the endurance is distributed over cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Normally, with this standard deviation of the natural logarithm.
    Lognormal { deviation: f64 },
    /// As the weakest of many parts: 1 - exp(-(n / scale)^shape) of the cells are worn after n cycles.
    Weibull { shape: f64 },
}

/// A family of [`Spread`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Lognormal,
    Weibull,
}

/// Cells that wear out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Cells of which, on average, one is worn after `first_cycles`.
    pub cells: f64,
    pub first_cycles: f64,
    pub spread: Spread,
}

impl Endurance {
    /// The share of cells that are worn after so many cycles.
    pub fn worn(&self, cycles: f64) -> f64 {
        let log_ratio = libm::log(cycles / self.first_cycles);
        let first = 1.0 / self.cells;
        match self.spread {
            Spread::Lognormal { deviation } => normal(normal_quantile(first) + log_ratio / deviation),
            Spread::Weibull { shape } => -libm::expm1(-hazard(first) * libm::exp(shape * log_ratio)),
        }
    }

    /// The raw bit error rate after so many cycles.
    pub fn raw_bit_error_rate(&self, cycles: f64) -> f64 {
        0.5 * self.worn(cycles)
    }

    /// The rate of uncorrectable bit errors after so many cycles.
    pub fn uncorrectable_bit_error_rate(&self, cycles: f64) -> f64 {
        rates::uncorrectable_bit_error_rate(self.raw_bit_error_rate(cycles))
    }

    /// Cycles after which the rate of uncorrectable bit errors reaches `target`.
    pub fn cycles_until(&self, target: f64) -> f64 {
        let worn = worn_at(target);
        let first = 1.0 / self.cells;
        let log_ratio = match self.spread {
            Spread::Lognormal { deviation } => deviation * (normal_quantile(worn) - normal_quantile(first)),
            Spread::Weibull { shape } => libm::log(hazard(worn) / hazard(first)) / shape,
        };
        self.first_cycles * libm::exp(log_ratio)
    }
}

/// The least spread with which the code stretches the life of a memory by `stretch`: from the first worn of `cells`
/// until uncorrectable bit errors reach `target`. `None` if so few cells wear out that the first is too many.
pub fn spread_needed(family: Family, cells: f64, stretch: f64, target: f64) -> Option<Spread> {
    let (first, worn) = (1.0 / cells, worn_at(target));
    if first >= worn || stretch <= 1.0 {
        return None;
    }
    Some(match family {
        Family::Lognormal => {
            Spread::Lognormal { deviation: libm::log(stretch) / (normal_quantile(worn) - normal_quantile(first)) }
        }
        Family::Weibull => Spread::Weibull { shape: libm::log(hazard(worn) / hazard(first)) / libm::log(stretch) },
    })
}

/// The share of worn cells at which uncorrectable bit errors reach `target`.
fn worn_at(target: f64) -> f64 {
    (2.0 * rates::tolerated_raw_bit_error_rate(target)).min(1.0)
}

/// Wear so far: minus the logarithm of the share that is left.
fn hazard(worn: f64) -> f64 {
    -libm::log1p(-worn)
}

/// The share of a normal distribution below `deviations` from its mean.
fn normal(deviations: f64) -> f64 {
    0.5 * libm::erfc(-deviations / std::f64::consts::SQRT_2)
}

/// The deviations below which this share lies.
fn normal_quantile(share: f64) -> f64 {
    // A double holds no share below 38 deviations.
    crossing(-38.0, 38.0, share, normal)
}
