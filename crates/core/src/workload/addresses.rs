//! Random block numbers: uniform, Zipf, Pareto and normal, each in constant time and memory.
//!
//! fio scatters the ranks of its skewed distributions over the region, so that hot blocks are not neighbours.
//! [`BlockNumberSource`] does so too, by a permutation instead of fio's hash, so that no two ranks share a block. The normal
//! distribution is not scattered: it is a hot spot in the middle.

use super::Distribution;
use crate::number::{real, whole};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Source of random block numbers from 0 to below a bound, of one distribution.
#[derive(Clone, Debug)]
pub(super) enum BlockNumberSource {
    Uniform { blocks: u64 },
    Zipf { zipf: Zipf, scatter: BlockPermutation },
    Pareto { blocks: u64, power: f64, scatter: BlockPermutation },
    Normal { blocks: u64, deviation: f64 },
}

impl BlockNumberSource {
    /// Makes a source of block numbers below `blocks`, which is at least 1. `key` selects the permutation that spreads
    /// the hot blocks of a skewed distribution.
    pub(super) fn new(distribution: Distribution, blocks: u64, key: u64) -> BlockNumberSource {
        assert!(blocks > 0, "a region holds at least one block");
        let scatter = BlockPermutation::new(blocks, key);
        match distribution {
            Distribution::Uniform => BlockNumberSource::Uniform { blocks },
            Distribution::Zipf(theta) => BlockNumberSource::Zipf { zipf: Zipf::new(theta, blocks), scatter },
            Distribution::Pareto(h) => BlockNumberSource::Pareto { blocks, power: pareto_exponent(h), scatter },
            Distribution::Normal(percent) => {
                BlockNumberSource::Normal { blocks, deviation: percent / 100.0 * real(blocks) }
            }
        }
    }

    /// Draws the next block number from the distribution.
    pub(super) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            BlockNumberSource::Uniform { blocks } => random_number_below(*blocks, random),
            _ => self.draw_non_uniform(random),
        }
    }

    #[inline(never)]
    fn draw_non_uniform(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            BlockNumberSource::Uniform { blocks } => random_number_below(*blocks, random),
            BlockNumberSource::Zipf { zipf, scatter } => scatter.place(zipf.draw(random) - 1),
            BlockNumberSource::Pareto { blocks, power, scatter } => {
                scatter.place(draw_pareto_rank(*blocks, *power, random))
            }
            BlockNumberSource::Normal { blocks, deviation } => draw_normal_block(*blocks, *deviation, random),
        }
    }
}

/// Draws a number from 0 to below `bound` by multiply and shift. Numbers differ in probability by at most `bound` /
/// 2^64, which no run is long enough to show.
fn random_number_below(bound: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Draws a uniform number from [0, 1) with 53 random bits.
pub(super) fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    real(random.next_u64() >> 11) * (1.0 / real(1u64 << 53))
}

/// Returns the exponent of fio's Pareto distribution, with which a share h of the blocks gets a share 1 - h of the
/// requests (fio documentation, `random_distribution`; h = 0.2 is the 80/20 rule).
fn pareto_exponent(h: f64) -> f64 {
    libm::log(h) / libm::log1p(-h)
}

/// Draws a rank below `blocks` whose cumulative distribution is (rank / blocks)^(1 / power).
fn draw_pareto_rank(blocks: u64, power: f64, random: &mut Xoshiro256PlusPlus) -> u64 {
    let rank = whole(real(blocks) * libm::pow(unit(random), power));
    rank.min(blocks - 1)
}

/// Draws a block number from a normal distribution around the middle of the region, cut off at the region's ends. Box
/// and Muller, "A note on the generation of random normal deviates", 1958.
fn draw_normal_block(blocks: u64, deviation: f64, random: &mut Xoshiro256PlusPlus) -> u64 {
    loop {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(random)));
        let standard = radius * libm::cos(std::f64::consts::TAU * unit(random));
        let block = real(blocks) / 2.0 + deviation * standard;
        if block >= 0.0 && block < real(blocks) {
            return (block as u64).min(blocks - 1);
        }
    }
}

/// Zipf distribution over ranks 1 to n: the probability is proportional to rank^-theta. Ranks are drawn by
/// rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6(3), 1996, section 3. Letters are the paper's. Expected draws for one rank: below 1.3.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    theta: f64,
    ranks: u64,
    /// Start H(3/2) - h(1) of the interval of uniform numbers to which the inverse of H is applied; `high` is its end
    /// H(n + 1/2).
    low: f64,
    high: f64,
    /// Largest distance of a rank above the inverted number x at which the rank is accepted without evaluating H.
    certain: f64,
}

impl Zipf {
    fn new(theta: f64, ranks: u64) -> Zipf {
        let mut zipf = Zipf { theta, ranks, low: 0.0, high: 0.0, certain: 0.0 };
        zipf.low = zipf.zipf_integral(1.5) - 1.0;
        zipf.high = zipf.zipf_integral(real(ranks) + 0.5);
        zipf.certain = 2.0 - zipf.inverse_zipf_integral(zipf.zipf_integral(2.5) - zipf.zipf_density(2.0));
        zipf
    }

    /// Draws a rank from 1 to the number of ranks.
    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let u = self.high + unit(random) * (self.low - self.high);
            let x = self.inverse_zipf_integral(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks);
            let k = real(rank);
            if k - x <= self.certain || u >= self.zipf_integral(k + 0.5) - self.zipf_density(k) {
                return rank;
            }
        }
    }

    /// Returns the density h(x) = x^-theta.
    fn zipf_density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Returns the integral H(x) = (x^(1 - theta) - 1) / (1 - theta) of the density, which is ln x for theta = 1.
    fn zipf_integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let exponent = (1.0 - self.theta) * log;
        if exponent.abs() > 1e-8 { libm::expm1(exponent) / exponent * log } else { log * (1.0 + exponent / 2.0) }
    }

    /// Returns the x for which the integral H(x) of the density is y.
    fn inverse_zipf_integral(&self, y: f64) -> f64 {
        // Rounding can make y slightly smaller than the infimum -1 / |1 - theta| of H, where the logarithm is not
        // defined, so clamp the product.
        let product = ((1.0 - self.theta) * y).max(-1.0);
        let log = if product.abs() > 1e-8 { libm::log1p(product) / product * y } else { y * (1.0 - product / 2.0) };
        libm::exp(log)
    }
}

/// Permutation of the numbers below a bound.
///
/// Multiplication by an odd number and exclusive-or with a right shift are both invertible on words of w bits, hence so
/// is their composition. A result that is not below the bound goes through again ("cycle walking"), which must end, as
/// the cycle of a number below the bound returns to that number. With the smallest w that fits, fewer than two passes
/// are needed in the mean.
#[derive(Clone, Debug)]
pub(super) struct BlockPermutation {
    bound: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl BlockPermutation {
    pub(super) fn new(bound: u64, key: u64) -> BlockPermutation {
        let bits = (64 - (bound - 1).leading_zeros()).max(1);
        BlockPermutation { bound, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), key }
    }

    /// Returns the block number to which a rank below the bound is mapped.
    pub(super) fn place(&self, rank: u64) -> u64 {
        let mut word = self.permute_word_bits(rank);
        while word >= self.bound {
            word = self.permute_word_bits(word);
        }
        word
    }

    /// Permutes the words of w bits. The constants are those of the finalizer of SplitMix64 (Steele, Lea and Flood,
    /// OOPSLA 2014).
    fn permute_word_bits(&self, word: u64) -> u64 {
        let mut word = (word ^ self.key) & self.mask;
        for odd in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            word = word.wrapping_mul(odd) & self.mask;
            word ^= word >> self.shift;
        }
        word.wrapping_add(self.key >> 32) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    /// Returns the share of each of `ranks` ranks, counted from 0, among `draws` draws.
    fn shares(ranks: u64, draws: u32, mut draw: impl FnMut() -> u64) -> Vec<f64> {
        let mut counts = vec![0u32; ranks as usize];
        for _ in 0..draws {
            counts[draw() as usize] += 1;
        }
        counts.iter().map(|&count| f64::from(count) / f64::from(draws)).collect()
    }

    /// Asserts that a share lies within five standard deviations of its expected probability, for this number of draws.
    fn assert_expected_share(share: f64, probability: f64, draws: u32) {
        let deviation = (probability * (1.0 - probability) / f64::from(draws)).sqrt();
        assert!((share - probability).abs() < 5.0 * deviation + 1e-9, "{share} is not {probability}");
    }

    #[test]
    fn zipf_ranks_have_closed_form_probabilities() {
        let (ranks, draws) = (100, 200_000);
        for theta in [0.4, 0.99, 1.0, 1.2, 3.0] {
            let zeta: f64 = (1..=ranks).map(|k| libm::pow(k as f64, -theta)).sum();
            let (zipf, mut random) = (Zipf::new(theta, ranks), random());
            let shares = shares(ranks, draws, || zipf.draw(&mut random) - 1);
            for (k, &share) in shares.iter().enumerate() {
                assert_expected_share(share, libm::pow(k as f64 + 1.0, -theta) / zeta, draws);
            }
        }
    }

    #[test]
    fn zipf_stays_in_range_for_extreme_parameters() {
        let mut random = random();
        for theta in [1e-9, 0.5, 1.0, 1.0 + 1e-12, 2.0, 100.0] {
            for ranks in [1, 2, 3, 1 << 33, 1 << 52] {
                let zipf = Zipf::new(theta, ranks);
                assert!(
                    (0..200).all(|_| (1..=ranks).contains(&zipf.draw(&mut random))),
                    "theta {theta}, {ranks} ranks"
                );
            }
        }
    }

    #[test]
    fn zipf_over_8_gi_blocks_draws_its_first_rank_as_expected() {
        // For large n, zeta(n, 1) = ln n + 0.5772 (Euler's constant).
        let (ranks, draws) = (1u64 << 33, 200_000);
        let (zipf, mut random) = (Zipf::new(1.0, ranks), random());
        let firsts = (0..draws).filter(|_| zipf.draw(&mut random) == 1).count();
        let zeta = libm::log(ranks as f64) + 0.577_215_664_9;
        assert_expected_share(firsts as f64 / f64::from(draws), 1.0 / zeta, draws);
    }

    #[test]
    fn pareto_gives_h_of_the_blocks_the_rest_of_the_requests() {
        let (blocks, draws) = (1000, 100_000);
        for h in [0.1, 0.2, 0.5] {
            let (power, mut random) = (pareto_exponent(h), random());
            let hot = (h * blocks as f64).round() as u64;
            let hits = (0..draws).filter(|_| draw_pareto_rank(blocks, power, &mut random) < hot).count();
            assert_expected_share(hits as f64 / f64::from(draws), 1.0 - h, draws);
        }
    }

    #[test]
    fn normal_block_numbers_have_their_quantiles() {
        // Expected shares: Phi(1) - Phi(-1) = 0.682689 and Phi(2) - Phi(-2) = 0.954500. With a deviation of 5 %, the
        // region's ends cut off almost nothing.
        let (blocks, draws) = (1_000_000u64, 100_000);
        let (addresses, mut random) = (BlockNumberSource::new(Distribution::Normal(5.0), blocks, 0), random());
        let distances: Vec<u64> = (0..draws).map(|_| addresses.draw(&mut random).abs_diff(blocks / 2)).collect();
        for (deviations, probability) in [(1, 0.682_689), (2, 0.954_500)] {
            let inside = distances.iter().filter(|&&distance| distance < deviations * 50_000).count();
            assert_expected_share(inside as f64 / f64::from(draws), probability, draws);
        }
    }

    #[test]
    fn uniform_block_numbers_are_equally_likely() {
        let (blocks, draws) = (37, 200_000);
        let (addresses, mut random) = (BlockNumberSource::new(Distribution::Uniform, blocks, 0), random());
        for share in shares(blocks, draws, || addresses.draw(&mut random)) {
            assert_expected_share(share, 1.0 / blocks as f64, draws);
        }
    }

    #[test]
    fn block_scattering_is_a_permutation() {
        for bound in (1..200).chain([1000, 1023, 1024, 1025]) {
            for key in [0, 1, 0xdead_beef_0bad_cafe] {
                let scatter = BlockPermutation::new(bound, key);
                let mut places: Vec<u64> = (0..bound).map(|rank| scatter.place(rank)).collect();
                places.sort_unstable();
                assert!(places.into_iter().eq(0..bound), "bound {bound}, key {key}");
            }
        }
    }

    #[test]
    fn hot_blocks_are_scattered() {
        let scatter = BlockPermutation::new(1 << 20, 12345);
        let places: Vec<u64> = (0..100).map(|rank| scatter.place(rank)).collect();
        assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 16), "{places:?}");
    }
}
