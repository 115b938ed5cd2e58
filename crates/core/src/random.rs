//! Seeded random numbers: one independent stream for each purpose, equal on every machine.

use crate::number::real;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Stream of pseudo-random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Creates the stream of random numbers called `name` of a run with this seed.
    pub fn stream(seed: u64, name: &str) -> Random {
        let mut key = mix(seed);
        for byte in name.bytes() {
            key = mix(key ^ u64::from(byte));
        }
        Random(Xoshiro256PlusPlus::seed_from_u64(key))
    }

    /// Draws 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number uniformly from [0, 1).
    pub fn unit(&mut self) -> f64 {
        real(self.bits() >> 11) / real(1u64 << 53)
    }

    /// Draws from the exponential distribution with mean 1. The logarithm is a portable one, so that all machines draw
    /// equal numbers.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }
}

/// Mixes a number into all 64 bits (the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
