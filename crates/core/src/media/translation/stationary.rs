//! Steady state of a translation layer under uniform random writes: the number of valid units in its blocks, and its
//! write amplification.
//!
//! **Oldest block first.** Between the writing of a block and its collection each unit is overwritten with equal
//! probability. A block that has passed a share `r` of that time still has a share `exp(-(1 + a)(1 - u) r)` of valid
//! units, and `u` at the end: `u = exp(-(1 + a)(1 - u))` (Desnoyers, "Analytic modeling of SSD write performance",
//! SYSTOR 2012; Xiang and Kurkoski, arXiv 1110.4245). `a` is the over-provisioning as a share of the user's units.
//! Collecting blocks of which a share `u` is valid gives a write amplification of `1 / (1 - u)`.
//!
//! **Emptiest of `d` blocks** (Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives", SIGMETRICS 2013). A share `m_i` of the blocks holds `i` valid units of `b`, and a
//! share `s_i` holds `i` or more. Blocks fall below `i` valid units as often as a block with fewer than `i` is
//! collected: `c i m_i = 1 - s_i^d`, where `c` is such that the mean number of valid units is right. For the emptiest
//! of all blocks, the limit of large `d`, this is `c i m_i = 1` down to the level at which no blocks are left. A
//! collection makes room for `c b / (1 + a)` user writes.

use crate::number::{index, length, narrow, real, real_length, whole, wide_index};
use crate::random::Random;

/// Largest number of levels in the distribution of valid mapping units. Blocks with more units are modelled more
/// coarsely, because their relative deviation is smaller.
const LEVELS_MAX: u32 = 1024;
/// Number of bisection steps in the search for a root: enough for all digits of a double.
const HALVINGS: usize = 60;

/// Choice of the victim block of garbage collection, for the equations of the steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimPolicy {
    /// Victim choice: the block that was filled up first.
    Oldest,
    /// Victim choice: the block with the fewest valid mapping units out of this number of randomly drawn full blocks.
    EmptiestOf(u32),
    /// Victim choice: the block with the fewest valid mapping units of all full blocks.
    Emptiest,
}

/// Returns the write amplification in the steady state of uniform random writes: writes to the cells for each user
/// write. `spare` is the over-provisioning as a share of the user's mapping units.
pub fn write_amplification(choice: VictimPolicy, block_units: u32, spare: f64) -> f64 {
    match choice {
        VictimPolicy::Oldest => 1.0 / (1.0 - oldest_block_valid_share(spare)),
        _ => ValidDistribution::solve(choice, block_units, spare).write_amplification(spare),
    }
}

/// Returns the share of mapping units, from 0 to 1, that are still valid in the oldest block when it is collected.
/// `spare` is the over-provisioning as a share of the user's units.
pub fn oldest_block_valid_share(spare: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0 / (1.0 + spare));
    // Besides the trivial root 1, the equation has one root, below 1 / (1 + a).
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match libm::exp(-(1.0 + spare) * (1.0 - middle)) > middle {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// Draws the number of valid mapping units for each of `blocks` full blocks that hold `units` in all. The oldest block
/// comes first if the victim choice depends on age; otherwise the order is random.
pub fn valid_units(choice: VictimPolicy, blocks: u32, block_units: u32, units: u64, random: &mut Random) -> Vec<u32> {
    let spare = f64::from(blocks) * f64::from(block_units) / real(units) - 1.0;
    let mut valid = match choice {
        VictimPolicy::Oldest => draw_valid_counts_by_age(blocks, block_units, spare, random),
        _ => ValidDistribution::solve(choice, block_units, spare).valid_units(blocks, block_units),
    };
    if choice != VictimPolicy::Oldest {
        shuffle(&mut valid, random);
    }
    adjust_counts_to_sum(&mut valid, block_units, units);
    valid
}

/// Draws the number of valid mapping units of each block under oldest-first collection, the oldest block first. The
/// deviation is that of units which are overwritten independently.
fn draw_valid_counts_by_age(blocks: u32, block_units: u32, spare: f64, random: &mut Random) -> Vec<u32> {
    let decay = (1.0 + spare) * (1.0 - oldest_block_valid_share(spare));
    let valid = (0..blocks).rev().map(|younger| {
        let left = libm::exp(-decay * (f64::from(younger) + 0.5) / f64::from(blocks));
        let deviation = (f64::from(block_units) * left * (1.0 - left)).sqrt();
        // The sum of twelve uniform numbers has a standard deviation of 1.
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        (f64::from(block_units) * left + deviation * normal).round().clamp(0.0, block_units.into()) as u32
    });
    valid.collect()
}

/// Changes the counts of valid mapping units as little as possible so that their sum is `units`; each stays within 0
/// and `block_units`.
pub(super) fn adjust_counts_to_sum(valid: &mut [u32], block_units: u32, units: u64) {
    let sum: u64 = valid.iter().map(|valid| u64::from(*valid)).sum();
    let is_short = sum < units;
    let mut missing = sum.abs_diff(units);
    while missing > 0 {
        let each = narrow::<u32, u64>(missing.div_ceil(length(valid.len())).min(block_units.into()));
        for valid in valid.iter_mut() {
            let room = if is_short { block_units - *valid } else { *valid };
            let change = u64::from(each.min(room)).min(missing);
            missing -= change;
            *valid = if is_short { *valid + narrow::<u32, u64>(change) } else { *valid - narrow::<u32, u64>(change) };
        }
    }
}

fn shuffle(valid: &mut [u32], random: &mut Random) {
    for last in (1..valid.len()).rev() {
        valid.swap(last, wide_index(whole(random.unit() * real_length(last + 1))));
    }
}

/// Distribution of valid mapping units over blocks: the share of blocks at each level, from no unit valid to all units
/// valid.
struct ValidDistribution {
    shares: Vec<f64>,
    collections: f64,
}

impl ValidDistribution {
    fn solve(choice: VictimPolicy, block_units: u32, spare: f64) -> ValidDistribution {
        let top = block_units.min(LEVELS_MAX);
        let mean = f64::from(top) / (1.0 + spare);
        let at = |collections| ValidDistribution::with(choice, top, collections);
        // More collections leave fewer valid units. Zero collections are too few, and one for each written unit is more
        // than enough. With much over-provisioning, victims are empty and each collection frees a whole block.
        let (mut few, mut many) = (0.0, (1.0 + 1.0 / spare.min(1.0)).max(1.0 + spare));
        for _ in 0..HALVINGS {
            let middle = (few + many) / 2.0;
            match at(middle).mean() > mean {
                true => few = middle,
                false => many = middle,
            }
        }
        at(few)
    }

    /// Computes the share of blocks at each level from the top level down; `collections` is `c` of the module's
    /// equations.
    fn with(choice: VictimPolicy, top: u32, collections: f64) -> ValidDistribution {
        let mut shares = vec![0.0; index(top) + 1];
        let mut above = 0.0;
        for level in (1..=index(top)).rev() {
            let rate = collections * real_length(level);
            shares[level] = match choice {
                VictimPolicy::EmptiestOf(choices) => solve_level_share(rate, above, choices),
                _ => (1.0 / rate).min(1.0 - above),
            };
            above += shares[level];
        }
        shares[0] = (1.0 - above).max(0.0);
        ValidDistribution { shares, collections }
    }

    fn mean(&self) -> f64 {
        self.shares.iter().enumerate().map(|(level, share)| real_length(level) * share).sum()
    }

    fn write_amplification(&self, spare: f64) -> f64 {
        (1.0 + spare) / self.collections
    }

    /// Returns the number of valid mapping units in each of `blocks` blocks, in ascending order, so that they follow
    /// this distribution as closely as they can.
    fn valid_units(&self, blocks: u32, block_units: u32) -> Vec<u32> {
        let scale = f64::from(block_units) / real_length(self.shares.len() - 1);
        let (mut level, mut below) = (0, 0.0);
        let valid = (0..blocks).map(|block| {
            let quantile = (f64::from(block) + 0.5) / f64::from(blocks);
            while level + 1 < self.shares.len() && below + self.shares[level] < quantile {
                below += self.shares[level];
                level += 1;
            }
            // A level may stand for several counts, so spread its blocks over these counts.
            let inside = ((quantile - below) / self.shares[level].max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) - 0.5;
            let spread = if scale > 1.0 { inside } else { 0.0 };
            ((level as f64 + spread) * scale).round().clamp(0.0, block_units.into()) as u32
        });
        valid.collect()
    }
}

/// Returns the root `m` of `rate m + (above + m)^choices = 1`, by Newton's method from above, since the left side is
/// convex.
fn solve_level_share(rate: f64, above: f64, choices: u32) -> f64 {
    let mut share = ((1.0 - libm::pow(above, choices.into())) / rate).min(1.0 - above);
    for _ in 0..HALVINGS {
        let power = libm::pow(above + share, f64::from(choices) - 1.0);
        let beyond = rate * share + power * (above + share) - 1.0;
        let step = beyond / (rate + f64::from(choices) * power);
        share -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    share.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_first_collection_has_the_published_amplification() {
        let published =
            [(0.07, 7.82), (0.10, 5.68), (0.15, 4.02), (0.25, 2.69), (0.28, 2.48), (0.5, 1.72), (1.0, 1.26)];
        for (spare, expected) in published {
            let found = write_amplification(VictimPolicy::Oldest, 256, spare);
            assert!((found - expected).abs() < 0.006, "{spare}: {found}, not {expected}");
        }
    }

    #[test]
    fn greedy_collection_writes_less_than_oldest_first() {
        let of = |choice, units| write_amplification(choice, units, 0.15);
        let rising = [
            of(VictimPolicy::Emptiest, 16),
            of(VictimPolicy::Emptiest, 64),
            of(VictimPolicy::Emptiest, 256),
            of(VictimPolicy::Oldest, 1),
        ];
        assert!(rising.windows(2).all(|pair| pair[0] < pair[1]), "{rising:?}");
        let falling = [1, 2, 10, 100].map(|choices| of(VictimPolicy::EmptiestOf(choices), 64));
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1]), "{falling:?}");
        assert!(
            falling[2] < of(VictimPolicy::Emptiest, 64) * 1.05 && falling[3] > of(VictimPolicy::Emptiest, 64),
            "{falling:?}"
        );
    }

    #[test]
    fn steady_state_blocks_contain_exactly_the_users_units() {
        for choice in [VictimPolicy::Oldest, VictimPolicy::EmptiestOf(10), VictimPolicy::Emptiest] {
            for (blocks, block_units, units) in [(100, 256, 20_000), (300, 1_000_000, 270_000_000), (7, 16, 100)] {
                let valid = valid_units(choice, blocks, block_units, units, &mut Random::stream(1, "test"));
                assert_eq!(valid.iter().map(|valid| u64::from(*valid)).sum::<u64>(), units);
                assert!(valid.iter().all(|valid| *valid <= block_units));
            }
        }
    }
}
