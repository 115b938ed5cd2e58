//! Packets that arrive corrupted: by random bit errors, or by injected faults.

use crate::config::{Fault, FaultDirection};
use crate::faults::Rule;
use crate::number::real;
use crate::random::Random;
use crate::time::Time;
use crate::tlp::Direction;

/// Corruption of packets in one direction of a link: bit errors as a Poisson process over the bits sent, and fault
/// rules.
#[derive(Clone, Debug)]
pub(super) struct PacketCorruption {
    rate: f64,
    bits_left: f64,
    random: Random,
    faults: Vec<Rule>,
    /// True if bit errors or fault rules may corrupt a packet.
    is_on: bool,
}

impl PacketCorruption {
    pub(super) fn new(rate: f64, mut random: Random) -> PacketCorruption {
        let bits_left = if rate > 0.0 { random.exponential() / rate } else { f64::INFINITY };
        PacketCorruption { rate, bits_left, random, faults: Vec::new(), is_on: rate > 0.0 }
    }

    /// Adds fault rules that corrupt packets of `direction`. Returns true if any rule applies to that direction.
    pub(super) fn add_faults(&mut self, direction: Direction, rules: &[Rule]) -> bool {
        let is_own = |rule: &&Rule| match rule.fault.direction {
            FaultDirection::ToHost => direction == Direction::Up,
            FaultDirection::ToDevice => direction == Direction::Down,
        };
        self.faults.extend(rules.iter().filter(is_own).cloned());
        self.is_on |= !self.faults.is_empty();
        !self.faults.is_empty()
    }

    /// Removes the fault rule of a packet fault that has ended.
    pub(super) fn remove_fault(&mut self, fault: &Fault) {
        if let Some(place) = self.faults.iter().position(|rule| rule.is(fault)) {
            self.faults.remove(place);
        }
    }

    /// Returns a pair for each fault rule: the name of its counter and the number of packets corrupted so far.
    pub(super) fn fault_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.faults.iter().map(Rule::count)
    }

    /// Returns how many of `packets` packets of `bits` bits each, sent at `now`, arrive intact, and true if the packet
    /// behind these is corrupted.
    #[inline]
    pub(super) fn intact_packet_count(&mut self, now: Time, packets: u32, bits: u64) -> (u32, bool) {
        match self.is_on {
            true => self.packets_before_corruption(now, packets, bits),
            false => (packets, false),
        }
    }

    #[cold]
    fn packets_before_corruption(&mut self, now: Time, packets: u32, bits: u64) -> (u32, bool) {
        let faulty = (0..packets).find(|_| self.faults.iter_mut().any(|rule| rule.count_trigger_match(now)));
        let left = faulty.unwrap_or(packets);
        match self.rate > 0.0 {
            true => {
                let (intact, is_hit) = self.packets_before_bit_error(left, bits);
                (intact, is_hit || faulty.is_some())
            }
            false => (left, faulty.is_some()),
        }
    }

    fn packets_before_bit_error(&mut self, packets: u32, bits: u64) -> (u32, bool) {
        let whole = self.bits_left / real(bits);
        if whole >= f64::from(packets) {
            self.bits_left -= f64::from(packets) * real(bits);
            return (packets, false);
        }
        self.bits_left = self.random.exponential() / self.rate;
        // `whole` is below `packets`, so it fits in `u32`.
        (whole as u32, true)
    }

    /// Takes back the bits of `packets` packets that were cut off a train, so that packets that were not sent cause no
    /// errors.
    pub(super) fn give_back(&mut self, packets: u32, bits: u64) {
        self.bits_left += f64::from(packets) * real(bits);
        self.faults.iter_mut().for_each(|rule| rule.forget(packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FaultAction, FaultSubject};

    const BITS: u64 = 100;

    fn errors() -> PacketCorruption {
        PacketCorruption::new(1e-3, Random::stream(7, "errors"))
    }

    /// Returns the numbers of the corrupted packets, of `packets` packets that leave in trains of `train`.
    fn hit(errors: &mut PacketCorruption, packets: u32, train: u32) -> Vec<u32> {
        let (mut sent, mut hit) = (0, Vec::new());
        while sent < packets {
            let (intact, is_hit) = errors.intact_packet_count(Time::ZERO, train.min(packets - sent), BITS);
            sent += intact;
            if is_hit {
                hit.push(sent);
                sent += 1;
            }
        }
        hit
    }

    /// Packets of n bits are corrupted with probability 1 - exp(-rate n); 6 standard deviations are allowed.
    #[test]
    fn corrupted_packets_follow_the_bit_error_rate() {
        let packets = 200_000;
        let expected = f64::from(packets) * (1.0 - libm::exp(-0.1));
        let hits = hit(&mut errors(), packets, 1).len() as f64;
        assert!((hits - expected).abs() < 6.0 * libm::sqrt(expected), "{hits} of {expected}");
    }

    #[test]
    fn train_packets_are_corrupted_like_single_ones() {
        let alone = hit(&mut errors(), 10_000, 1);
        assert_eq!(hit(&mut errors(), 10_000, 64), alone);
    }

    #[test]
    fn cut_packets_consume_no_bit_errors() {
        let (mut steady, mut wavering) = (errors(), errors());
        for _ in 0..3 {
            assert_eq!(wavering.intact_packet_count(Time::ZERO, 1, BITS), (1, false));
            wavering.give_back(1, BITS);
        }
        assert_eq!(hit(&mut wavering, 1_000, 1), hit(&mut steady, 1_000, 1));
    }

    #[test]
    fn fault_rule_corrupts_packets_of_its_direction_until_removed() {
        let fault = Fault { action: FaultAction::CorruptPacket, every: 4, ..Fault::default() };
        let rules = Rule::about(FaultSubject::Packet, std::slice::from_ref(&fault), 1);
        let mut errors = PacketCorruption::new(0.0, Random::stream(7, "errors"));
        assert!(!errors.add_faults(Direction::Down, &rules), "they are about packets to the host");
        assert!(errors.add_faults(Direction::Up, &rules));
        assert_eq!(hit(&mut errors, 12, 64), [0, 4, 8]);
        errors.remove_fault(&fault);
        assert_eq!(hit(&mut errors, 12, 64), [0; 0]);
    }

    #[test]
    fn error_free_link_delivers_all_packets() {
        let mut errors = PacketCorruption::new(0.0, Random::stream(7, "errors"));
        assert_eq!(errors.intact_packet_count(Time::ZERO, 1 << 20, 1 << 20), (1 << 20, false));
    }
}
