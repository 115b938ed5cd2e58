//! Bit errors, of which the link throws packets away, and packets that injected faults corrupt.

use crate::config::{Fault, FaultDirection, FaultSubject};
use crate::faults::Rule;
use crate::random::Random;
use crate::time::Time;
use crate::tlp::Direction;

/// Bit errors as a Poisson process over the bits sent in one direction.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    rate: f64,
    bits_left: f64,
    random: Random,
    faults: Vec<Rule>,
    /// Whether there is either.
    is_on: bool,
}

impl Errors {
    pub fn new(rate: f64, mut random: Random) -> Errors {
        let bits_left = if rate > 0.0 { random.exponential() / rate } else { f64::INFINITY };
        Errors { rate, bits_left, random, faults: Vec::new(), is_on: rate > 0.0 }
    }

    /// Corrupt packets of `direction` as well: whether any will be.
    pub fn add_faults(&mut self, direction: Direction, faults: &[Fault], seed: u64) -> bool {
        self.faults = Rule::about(FaultSubject::Packet, faults, seed);
        self.faults.retain(|rule| match rule.fault.direction {
            FaultDirection::ToHost => direction == Direction::Up,
            FaultDirection::ToDevice => direction == Direction::Down,
        });
        self.is_on |= !self.faults.is_empty();
        !self.faults.is_empty()
    }

    /// How often each fault has happened.
    pub fn fault_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.faults.iter().map(Rule::count)
    }

    /// How many of `packets` that leave from `now` on arrive intact, and whether the one behind them does not.
    #[inline]
    pub fn intact(&mut self, now: Time, packets: u32, bits: u64) -> (u32, bool) {
        match self.is_on {
            true => self.before_either(now, packets, bits),
            false => (packets, false),
        }
    }

    #[cold]
    fn before_either(&mut self, now: Time, packets: u32, bits: u64) -> (u32, bool) {
        let faulty = (0..packets).find(|_| self.faults.iter_mut().any(|rule| rule.meets(now)));
        let left = faulty.unwrap_or(packets);
        match self.rate > 0.0 {
            true => {
                let (intact, is_hit) = self.before_error(left, bits);
                (intact, is_hit || faulty.is_some())
            }
            false => (left, faulty.is_some()),
        }
    }

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
        self.faults.iter_mut().for_each(|rule| rule.forget(packets));
    }
}
