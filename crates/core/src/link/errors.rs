//! Bit errors, of which the link throws packets away.

use crate::random::Random;

/// Bit errors as a Poisson process over the bits sent in one direction.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    rate: f64,
    bits_left: f64,
    random: Random,
}

impl Errors {
    pub fn new(rate: f64, mut random: Random) -> Errors {
        let bits_left = if rate > 0.0 { random.exponential() / rate } else { f64::INFINITY };
        Errors { rate, bits_left, random }
    }

    /// How many of `packets` arrive intact, and whether the one behind them does not.
    #[inline]
    pub fn intact(&mut self, packets: u32, bits: u64) -> (u32, bool) {
        match self.rate > 0.0 {
            true => self.before_error(packets, bits),
            false => (packets, false),
        }
    }

    #[cold]
    fn before_error(&mut self, packets: u32, bits: u64) -> (u32, bool) {
        let whole = self.bits_left / bits as f64;
        if whole >= f64::from(packets) {
            self.bits_left -= f64::from(packets) * bits as f64;
            return (packets, false);
        }
        self.bits_left = self.random.exponential() / self.rate;
        (whole as u32, true)
    }

    /// Packets that were cut off a train have not been sent after all.
    pub fn give_back(&mut self, packets: u32, bits: u64) {
        self.bits_left += f64::from(packets) * bits as f64;
    }
}
