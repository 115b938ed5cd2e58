//! Fixed, invertible shuffle of line numbers, which separates lines with adjacent addresses from each other in the
//! memory.
//!
//! The shuffle is a Feistel network of three stages over numbers of an even count of bits (Qureshi et al., "Enhancing
//! lifetime and security of PCM-based main memory with Start-Gap wear leveling", MICRO 2009, section 4.2). If the count
//! of lines is no power of four, a number outside the range is sent through the network again until it falls inside.
//! This keeps the shuffle a bijection and takes four rounds on average at most.

use crate::number::length;
use crate::random::mix;

const STAGES: usize = 3;

/// Pseudorandom permutation of the numbers below `lines`, which a key selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRandomiser {
    lines: u64,
    half_bits: u32,
    keys: [u64; STAGES],
}

impl LineRandomiser {
    /// Creates the permutation of the numbers below `lines` (at least 1, at most 2^62) that `key` selects.
    pub fn new(lines: u64, key: u64) -> LineRandomiser {
        assert!((1..=1 << 62).contains(&lines), "a shuffle of {lines} lines");
        let bits = u64::BITS - (lines - 1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let keys = std::array::from_fn(|stage| mix(key.wrapping_add(length(stage))));
        LineRandomiser { lines, half_bits, keys }
    }

    /// Returns the number to which the permutation maps `line`, which must be below the number of lines.
    pub fn forward(&self, line: u64) -> u64 {
        self.walk_into_range(line, |number| {
            let (left, right) = self.halves(number);
            let (left, right) = self.keys.iter().fold((left, right), |(l, r), key| (r, l ^ self.scramble(r, *key)));
            self.join_halves(left, right)
        })
    }

    /// Returns the number that the permutation maps to `line`: the inverse of [`LineRandomiser::forward`].
    pub fn invert(&self, line: u64) -> u64 {
        self.walk_into_range(line, |number| {
            let (left, right) = self.halves(number);
            let stages = self.keys.iter().rev();
            let (left, right) = stages.fold((left, right), |(l, r), key| (r ^ self.scramble(l, *key), l));
            self.join_halves(left, right)
        })
    }

    fn walk_into_range(&self, line: u64, step: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(line < self.lines);
        let mut number = step(line);
        while number >= self.lines {
            number = step(number);
        }
        number
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }

    fn halves(&self, number: u64) -> (u64, u64) {
        (number >> self.half_bits, number & self.mask())
    }

    fn join_halves(&self, left: u64, right: u64) -> u64 {
        left << self.half_bits | right
    }

    fn scramble(&self, half: u64, key: u64) -> u64 {
        mix(half ^ key) & self.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn line_permutation_is_a_bijection(lines in 1u64..3000, key: u64) {
            let shuffle = LineRandomiser::new(lines, key);
            let mut met = vec![false; lines as usize];
            for line in 0..lines {
                let to = shuffle.forward(line);
                prop_assert!(to < lines && !met[to as usize]);
                met[to as usize] = true;
                prop_assert_eq!(shuffle.invert(to), line);
            }
        }

        #[test]
        fn large_line_permutations_are_invertible(lines in 1u64..=1 << 62, line: u64, key: u64) {
            let shuffle = LineRandomiser::new(lines, key);
            prop_assert_eq!(shuffle.invert(shuffle.forward(line % lines)), line % lines);
        }
    }

    #[test]
    fn line_permutation_separates_neighbours() {
        let shuffle = LineRandomiser::new(1 << 16, 7);
        let near = (0..1000).filter(|&line| shuffle.forward(line).abs_diff(shuffle.forward(line + 1)) < 1000).count();
        assert!(near < 80, "{near} of 1000 neighbours are still within 1000 lines, where chance gives 30");
    }
}
