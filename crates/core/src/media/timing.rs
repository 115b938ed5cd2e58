//! How long one access takes: the costs of a technology, and the bus that the banks of a channel share. The bus is held
//! for transfers alone; commands and array work of different banks overlap.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// When a write is reported done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// Data in the row buffers.
    Early,
    /// Cells programmed.
    #[default]
    Late,
}

/// The costs of one access: a row of numbers for each technology. DRAM is a row whose `program` is
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Bus commands and row overhead of one access.
    pub command: Span,
    /// Array read: cells into the row buffer.
    pub read: Span,
    /// Transfer rate of one channel's bus.
    pub bus: BusRate,
    /// Array write of one program unit.
    pub program: Span,
    /// Bytes that one array write programs in a bank at once; units are aligned in the bank.
    pub program_bytes: u32,
    pub acknowledge: Acknowledge,
}

impl Default for Timing {
    /// The prototype of the DC Express paper. 110 ns is its array read; the rest of the 0.368 us of
    /// its Table 5, 194 + 64 ns, is command overhead and 128 bytes at a bus rate of at least the
    /// link's (128 B / 76 ns). The program time is the 120 us of 64 bytes in the PSS paper.
    fn default() -> Timing {
        Timing {
            command: Span::from_ns(194),
            read: Span::from_ns(110),
            bus: BusRate::from_bytes_per_ns(2.0),
            program: Span::from_us(120),
            program_bytes: 4096,
            acknowledge: Acknowledge::Late,
        }
    }
}

impl Timing {
    /// Time to program `bytes` from `bank_offset` on, one program unit after the other.
    /// `program_bytes` must not be zero.
    pub fn program(&self, bank_offset: u64, bytes: u32) -> Span {
        if self.program.is_zero() {
            return Span::ZERO;
        }
        let unit = u64::from(self.program_bytes);
        let touched = bank_offset % unit + u64::from(bytes);
        self.program * touched.div_ceil(unit)
    }

    /// From the start of an unhindered read to its first byte on the bus.
    pub fn read_access(&self) -> Span {
        self.command + self.read
    }
}

/// The rate of a bus, kept as the time of one byte in 2^-32 ps: transfers are charged on every
/// access, and an integer multiplication costs a fraction of a floating-point division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusRate {
    byte_ps_q32: u64,
}

impl BusRate {
    /// A rate in bytes a nanosecond, which must be positive. Times are right to the nearest
    /// picosecond for transfers up to 2^31 bytes.
    pub fn from_bytes_per_ns(bytes_per_ns: f64) -> BusRate {
        assert!(bytes_per_ns > 0.0, "a bus needs a rate");
        let byte_ps = 1e3 / bytes_per_ns;
        BusRate { byte_ps_q32: (byte_ps * (1u64 << 32) as f64).round() as u64 }
    }

    /// Time of `bytes` on the bus.
    pub fn transfer(&self, bytes: u32) -> Span {
        let ps_q32 = u128::from(bytes) * u128::from(self.byte_ps_q32) + (1 << 31);
        Span::from_ps((ps_q32 >> 32) as u64)
    }

    /// Time of `bits` on the bus, to the nearest picosecond for up to 2^34 of them.
    pub fn transfer_bits(&self, bits: u64) -> Span {
        let ps_q35 = u128::from(bits) * u128::from(self.byte_ps_q32) + (1 << 34);
        Span::from_ps((ps_q35 >> 35) as u64)
    }
}

/// One access, as a bank and its bus will carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub bank_from: Time,
    pub bus_from: Time,
    pub bus_until: Time,
    pub bank_until: Time,
}

/// When an access is handed over, and from when on it may start: later, if the memory pauses.
#[derive(Clone, Copy, Debug)]
pub struct When {
    pub now: Time,
    pub earliest: Time,
}

/// A piece of a request, as its bank and its buses will carry it out.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// On several buses, from the first start to the last end.
    pub access: Access,
    /// The bytes that were asked for first are there; of a write, all bytes are in the row buffers.
    pub first_at: Time,
    /// What that takes on an idle memory.
    pub service: Span,
    /// Of a write, the latest instant at which its cells are programmed, as far as is known yet.
    pub programmed_at: Time,
    /// Time of transfers, summed over the buses.
    pub bus_time: Span,
}

/// The bus of one channel.
///
/// A transfer takes the first gap that holds it whole. A plain `free_at` would be wrong here: a
/// transfer promised behind a program of 120 us would keep the bus from every other bank until
/// then. What was promised stands, so a gap shorter than a transfer is lost where a real arbiter
/// would let the transfer start and delay the promised one by the difference.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    /// Busy intervals that have not ended, in time order; those that touch are merged, so that a
    /// saturated bus has one.
    promised: VecDeque<Interval>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    from: Time,
    until: Time,
}

impl Bus {
    /// Reserves `length` at or after `ready` and returns its start. Calls come in the order of
    /// `now`, and `ready` is not before it.
    #[inline(always)]
    pub fn promise(&mut self, now: Time, ready: Time, length: Span) -> Time {
        self.forget_before(now);
        match self.promised.back_mut() {
            // Nearly always it comes behind all that was promised, or continues the last of it.
            Some(last) if (last.from..=last.until).contains(&ready) => {
                let from = last.until;
                last.until += length;
                return from;
            }
            Some(last) if ready < last.from => {}
            _ => {
                self.promised.push_back(Interval { from: ready, until: ready + length });
                return ready;
            }
        }
        let (position, from) = self.first_gap(ready, length);
        let until = from + length;
        self.occupy(position, Interval { from, until });
        from
    }

    fn forget_before(&mut self, now: Time) {
        while self.promised.front().is_some_and(|busy| busy.until <= now) {
            self.promised.pop_front();
        }
    }

    /// Where in the list the first gap of `length` is, and the earliest start in it.
    fn first_gap(&self, ready: Time, length: Span) -> (usize, Time) {
        let mut position = self.promised.partition_point(|busy| busy.until <= ready);
        let mut from = ready;
        while let Some(busy) = self.promised.get(position)
            && from + length > busy.from
        {
            from = busy.until;
            position += 1;
        }
        (position, from)
    }

    fn occupy(&mut self, position: usize, mut new: Interval) {
        if let Some(next) = self.promised.get(position)
            && next.from == new.until
        {
            new.until = next.until;
            self.promised.remove(position);
        }
        match self.promised.get_mut(position.wrapping_sub(1)) {
            Some(previous) if previous.until == new.from => previous.until = new.until,
            _ => self.promised.insert(position, new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(ns: u64) -> Time {
        Time::from_ps(ns * 1000)
    }
    const fn ns(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    #[test]
    fn a_transfer_takes_a_gap_of_its_length_and_not_one_that_is_a_picosecond_short() {
        for (length, from) in [(ns(50), at(10)), (Span::from_ps(50_001), at(100))] {
            let mut bus = Bus::default();
            assert_eq!(bus.promise(at(0), at(0), ns(10)), at(0));
            assert_eq!(bus.promise(at(0), at(60), ns(40)), at(60));
            assert_eq!(bus.promise(at(0), at(5), length), from);
        }
    }

    #[test]
    fn a_transfer_far_ahead_does_not_keep_the_bus_from_others() {
        let mut bus = Bus::default();
        assert_eq!(bus.promise(at(0), at(120_000), ns(64)), at(120_000));
        assert_eq!(bus.promise(at(1), at(305), ns(64)), at(305));
    }

    #[test]
    fn a_saturated_bus_remembers_one_interval() {
        let mut bus = Bus::default();
        for transfer in [4, 1, 3, 0, 2] {
            bus.promise(at(0), at(transfer * 10), ns(10));
        }
        assert_eq!(bus.promised.len(), 1);
        assert_eq!(bus.promise(at(0), at(0), ns(10)), at(50));
    }

    #[test]
    fn a_program_unit_counts_once_however_little_of_it_is_written() {
        let timing = Timing { program_bytes: 64, ..Timing::default() };
        assert_eq!(timing.program(0, 1), timing.program);
        assert_eq!(timing.program(0, 64), timing.program);
        assert_eq!(timing.program(0, 65), timing.program * 2);
        assert_eq!(timing.program(63, 2), timing.program * 2);
        assert_eq!(timing.program(u64::MAX, 64), timing.program * 2);
    }

    #[test]
    fn the_66_mhz_dual_data_bus_of_p5q_chips_moves_64_bytes_in_256_clocks() {
        let p5q = BusRate::from_bytes_per_ns(0.066 * 2.0 / 8.0);
        assert_eq!(p5q.transfer(64), Span::from_ps(3_878_788));
    }

    #[test]
    fn the_slowest_bus_and_the_largest_transfer_do_not_overflow() {
        let slowest = BusRate::from_bytes_per_ns(f64::MIN_POSITIVE);
        assert!(slowest.transfer(u32::MAX) > Span::from_s(4_000_000));
        let fastest = BusRate::from_bytes_per_ns(f64::INFINITY);
        assert_eq!(fastest.transfer(u32::MAX), Span::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn transfer_times_are_bytes_over_rate_to_the_nearest_picosecond(
            bytes in 0u32..1 << 26, bytes_per_ns in 1e-6..1e4f64,
        ) {
            let exact_ps = f64::from(bytes) * 1e3 / bytes_per_ns;
            let transfer = BusRate::from_bytes_per_ns(bytes_per_ns).transfer(bytes);
            // Beyond 2^53 ps a double is coarser than a picosecond.
            prop_assert!((transfer.as_ps() as f64 - exact_ps).abs() <= 0.51 + exact_ps * 1e-15);
        }

        #[test]
        fn transfers_never_overlap_nor_start_before_they_are_ready(
            calls in prop::collection::vec((0u64..30, 0u64..200, 0u64..40), 1..60),
        ) {
            let mut bus = Bus::default();
            let mut transfers = Vec::new();
            let mut now = 0;
            for (pause, delay, length) in calls {
                now += pause;
                let from = bus.promise(at(now), at(now + delay), ns(length));
                prop_assert!(from >= at(now + delay));
                transfers.push((from, from + ns(length)));
            }
            transfers.retain(|(from, until)| from < until);
            transfers.sort();
            prop_assert!(transfers.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let listed: Vec<_> = bus.promised.iter().collect();
            prop_assert!(listed.windows(2).all(|pair| pair[0].until < pair[1].from));
        }
    }
}
