//! Timing of one access: the costs of a memory technology, and the bus that the banks of a channel share. The bus is
//! held for transfers alone: commands and array operations of different banks overlap.

use std::collections::VecDeque;

use crate::config::Acknowledge;
use crate::number::{real, whole};
use crate::time::{Span, Time};

/// Costs of one access to a memory technology: command, array read, bus rate and program time. For DRAM, `program` is
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time of the bus commands and the row overhead of one access.
    pub command: Span,
    /// Time of an array read, which moves cells into the row buffer.
    pub read: Span,
    /// Transfer rate of the bus of one channel.
    pub bus: BusTransferRate,
    /// Time of an array write, which programs one program unit.
    pub program: Span,
    /// Number of bytes in a program unit, which one array write programs at once. Units are aligned in their bank.
    pub program_bytes: u32,
    /// Stage at which a write is acknowledged: in the buffer or in the cells.
    pub acknowledge: Acknowledge,
}

impl Default for Timing {
    /// Times of the prototype of the DC Express paper. 110 ns is its array read; the rest of the 0.368 us of its Table
    /// 5, 194 + 64 ns, is command overhead and 128 bytes at a bus rate of at least the link's (128 B / 76 ns). The
    /// program time is the 120 us of 64 bytes in the PSS paper.
    fn default() -> Timing {
        Timing {
            command: Span::from_ns(194),
            read: Span::from_ns(110),
            bus: BusTransferRate::from_bytes_per_ns(2.0),
            program: Span::from_us(120),
            program_bytes: 4096,
            acknowledge: Acknowledge::Late,
        }
    }
}

impl Timing {
    /// Returns the time to program `bytes` bytes from address `bank_offset` of a bank on: one program time for each
    /// unit that they touch. `program_bytes` must not be zero.
    pub fn program_time(&self, bank_offset: u64, bytes: u32) -> Span {
        if self.program.is_zero() {
            return Span::ZERO;
        }
        let unit = u64::from(self.program_bytes);
        let touched = bank_offset % unit + u64::from(bytes);
        self.program * touched.div_ceil(unit)
    }

    /// Returns the time from the start of a read on an idle memory to its first byte on the bus: command and array
    /// read.
    pub fn read_access_time(&self) -> Span {
        self.command + self.read
    }
}

/// Transfer rate of a bus, stored as the time of one byte in 2^-32 ps. Every access computes a transfer time, and an
/// integer multiplication costs a fraction of a floating-point division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusTransferRate {
    byte_ps_q32: u64,
}

impl BusTransferRate {
    /// Creates a bus rate from bytes per nanosecond, which must be positive. Transfer times are right to the nearest
    /// picosecond for up to 2^31 bytes.
    pub fn from_bytes_per_ns(bytes_per_ns: f64) -> BusTransferRate {
        assert!(bytes_per_ns > 0.0, "a bus moves more than 0 bytes per nanosecond, not {bytes_per_ns}");
        let byte_ps = 1e3 / bytes_per_ns;
        BusTransferRate { byte_ps_q32: whole((byte_ps * real(1u64 << 32)).round()) }
    }

    /// Returns the time to transfer `bytes` over the bus, to the nearest picosecond.
    pub fn transfer_time(&self, bytes: u32) -> Span {
        let ps_q32 = u128::from(bytes) * u128::from(self.byte_ps_q32) + (1 << 31);
        Span::from_ps((ps_q32 >> 32) as u64)
    }

    /// Returns the time to transfer `bits` over the bus, to the nearest picosecond for up to 2^34 bits.
    pub fn bits_transfer_time(&self, bits: u64) -> Span {
        let ps_q35 = u128::from(bits) * u128::from(self.byte_ps_q32) + (1 << 34);
        Span::from_ps((ps_q35 >> 35) as u64)
    }
}

/// Periods for which one access holds its bank and its bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankBusHold {
    /// Time at which the access starts to hold its bank.
    pub bank_from: Time,
    /// Time at which the access starts its transfer on the bus.
    pub bus_from: Time,
    /// Time at which the access ends its transfer on the bus.
    pub bus_until: Time,
    /// Time at which the access ceases to hold its bank: for a write, after the programming.
    pub bank_until: Time,
}

impl BankBusHold {
    /// Asserts that the bank serves no other access meanwhile. `free_before` is the time at which the bank was free
    /// when this access was planned, `free_after` the time at which it is free since.
    #[inline(always)]
    pub(super) fn assert_exclusive(&self, free_before: Time, free_after: Time) {
        let is_alone = free_before <= self.bank_from && self.bank_until <= free_after;
        assert!(is_alone, "a bank serves two accesses at once: {self:?} in a bank that is free at {free_before}");
    }
}

/// Time at which an access is handed over to a bank, and the earliest time at which it may start. The start is later if
/// the drive's processors or a housekeeping pause delay the access.
#[derive(Clone, Copy, Debug)]
pub struct BankAccessStart {
    /// Time at which the access is handed over to the bank.
    pub now: Time,
    /// Earliest time at which the bank may start the access, if it is free.
    pub earliest: Time,
}

/// Times of one piece of a request: when it uses its bank and buses, and when its bytes arrive.
#[derive(Clone, Copy, Debug)]
pub struct PieceTiming {
    /// Periods for which the piece holds its bank and its bus. With several buses, the bus period lasts from the first
    /// start to the last end.
    pub access: BankBusHold,
    /// Time at which the needed first bytes of a read are in the controller, or all bytes of a write in the row
    /// buffers.
    pub first_at: Time,
    /// Time on an idle memory from the start of the access until its needed first bytes are in the controller, or for a
    /// write, until all bytes are in the row buffers.
    pub service: Span,
    /// Latest time at which the cells of a write are programmed, as far as is known yet.
    pub programmed_at: Time,
    /// Time of the piece's transfers, summed over the buses that it uses.
    pub bus_time: Span,
}

/// Bus of one channel, with the transfers that it has reserved.
///
/// A transfer takes the first gap that holds it whole. A plain `free_at` would be wrong here: a transfer reserved
/// behind a program of 120 us would keep the bus from every other bank until then. Reservations are never moved. A gap
/// shorter than a transfer is therefore lost, where a real arbiter would start the transfer and delay the reserved one
/// by the difference.
#[derive(Debug, Default)]
pub struct ChannelBus {
    /// Reserved intervals whose end has not passed, in time order. Adjacent intervals are merged, so that a saturated
    /// bus has a single one.
    reservations: VecDeque<BusReservation>,
    /// Intervals of transfers that have gone before others, in time order. They are among the reservations, too.
    first: VecDeque<BusReservation>,
}

/// Number of reserved intervals for which a flash bus allocates memory when it is created.
const ROOM_TRANSFERS: usize = 16;

/// Interval for which a flash bus is reserved.
#[derive(Clone, Copy, Debug)]
struct BusReservation {
    from: Time,
    until: Time,
}

impl Clone for ChannelBus {
    /// Returns a copy of the bus with as much memory allocated for reservations as the original has. The derived
    /// `clone` would drop spare memory, and a copied drive would then allocate during a run.
    fn clone(&self) -> ChannelBus {
        let mut reservations = VecDeque::with_capacity(self.reservations.capacity());
        reservations.extend(self.reservations.iter().copied());
        let mut first = VecDeque::with_capacity(self.first.capacity());
        first.extend(self.first.iter().copied());
        ChannelBus { reservations, first }
    }
}

impl ChannelBus {
    /// Returns an idle bus that has memory allocated for its first reservations.
    pub fn with_room() -> ChannelBus {
        ChannelBus {
            reservations: VecDeque::with_capacity(ROOM_TRANSFERS),
            first: VecDeque::with_capacity(ROOM_TRANSFERS),
        }
    }

    /// Drops all reservations of the bus, and keeps the memory allocated for them.
    pub fn clear(&mut self) {
        self.reservations.clear();
        self.first.clear();
    }

    /// Reserves the bus for a transfer of `length` in the first gap at or after `ready`, and returns the start of the
    /// transfer. Calls come in the order of `now`, and `ready` is not before `now`. Reservations that have ended by
    /// `now` are dropped.
    #[inline(always)]
    pub fn reserve(&mut self, now: Time, ready: Time, length: Span) -> Time {
        self.forget_before(now);
        match self.reservations.back_mut() {
            // Nearly all transfers start after all reservations or extend the last one, so check that one first.
            Some(last) if (last.from..=last.until).contains(&ready) => {
                let from = last.until;
                last.until += length;
                return from;
            }
            Some(last) if ready < last.from => {}
            _ => {
                self.reservations.push_back(BusReservation { from: ready, until: ready + length });
                return ready;
            }
        }
        let (position, from) = self.first_fitting_gap(ready, length);
        let until = from + length;
        self.insert_reservation(position, BusReservation { from, until });
        from
    }

    /// Reserves the bus for a transfer of `length` that goes before all transfers that have not begun, at or after
    /// `ready`: it waits only for the end of the page of `page` that is on the bus, and for earlier transfers of this
    /// kind. Transfers behind it come later by its length. Returns the start of the transfer.
    pub fn reserve_before_pending(&mut self, now: Time, ready: Time, length: Span, page: Span) -> Time {
        self.forget_before(now);
        while self.first.front().is_some_and(|busy| busy.until <= now) {
            self.first.pop_front();
        }
        let mut from = self.next_page_boundary(ready, page);
        let mut place = self.first.partition_point(|busy| busy.until <= from);
        while let Some(busy) = self.first.get(place)
            && from + length > busy.from
        {
            from = from.max(busy.until);
            place += 1;
        }
        self.first.insert(place, BusReservation { from, until: from + length });
        self.postpone_transfers_from(from, length);
        from
    }

    /// Returns the first time from `ready` on at which no page is half on the bus. Pages end where the next transfer
    /// that goes first begins, or at the end of all that is reserved without a gap.
    fn next_page_boundary(&self, ready: Time, page: Span) -> Time {
        let position = self.reservations.partition_point(|busy| busy.until <= ready);
        let Some(busy) = self.reservations.get(position).filter(|busy| busy.from < ready) else { return ready };
        let next = self.first.get(self.first.partition_point(|busy| busy.until <= ready));
        match next.filter(|next| next.from <= busy.until) {
            Some(next) if next.from <= ready => next.until,
            Some(next) => ready + next.from.since(ready) % page,
            None => ready + busy.until.since(ready) % page,
        }
    }

    /// Moves the transfers from `from` on to later, so that one of `length` fits in.
    fn postpone_transfers_from(&mut self, from: Time, length: Span) {
        let position = self.reservations.partition_point(|busy| busy.until <= from);
        let mut until = from + length;
        if let Some(busy) = self.reservations.get_mut(position)
            && busy.from <= from
        {
            busy.until += length;
            until = busy.until;
        } else {
            self.reservations.insert(position, BusReservation { from, until });
        }
        let mut next = position + 1;
        while let Some(busy) = self.reservations.get_mut(next)
            && busy.from < until
        {
            let shift = until.since(busy.from);
            busy.from += shift;
            busy.until += shift;
            until = busy.until;
            next += 1;
        }
    }

    /// Returns the time for which the bus is reserved after `now`, summed over all reservations.
    pub fn reserved_time_after(&self, now: Time) -> Span {
        self.reservations.iter().map(|busy| busy.until.since(busy.from.max(now).min(busy.until))).sum()
    }

    fn forget_before(&mut self, now: Time) {
        while self.reservations.front().is_some_and(|busy| busy.until <= now) {
            self.reservations.pop_front();
        }
    }

    /// Returns a pair for a new transfer of `length`: the list index at which its reservation belongs, and its earliest
    /// start from `ready` on.
    fn first_fitting_gap(&self, ready: Time, length: Span) -> (usize, Time) {
        let mut position = self.reservations.partition_point(|busy| busy.until <= ready);
        let mut from = ready;
        while let Some(busy) = self.reservations.get(position)
            && from + length > busy.from
        {
            from = busy.until;
            position += 1;
        }
        (position, from)
    }

    fn insert_reservation(&mut self, position: usize, mut new: BusReservation) {
        let overlaps = |busy: &BusReservation| busy.from < new.until && new.from < busy.until;
        let before = position.checked_sub(1).and_then(|before| self.reservations.get(before));
        let is_free = !before.is_some_and(overlaps) && !self.reservations.get(position).is_some_and(overlaps);
        assert!(is_free, "a bus is reserved for two transfers at once: {new:?}");
        if let Some(next) = self.reservations.get(position)
            && next.from == new.until
        {
            new.until = next.until;
            self.reservations.remove(position);
        }
        match self.reservations.get_mut(position.wrapping_sub(1)) {
            Some(previous) if previous.until == new.from => previous.until = new.until,
            _ => self.reservations.insert(position, new),
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
    fn transfer_uses_a_gap_of_at_least_its_length() {
        for (length, from) in [(ns(50), at(10)), (Span::from_ps(50_001), at(100))] {
            let mut bus = ChannelBus::default();
            assert_eq!(bus.reserve(at(0), at(0), ns(10)), at(0));
            assert_eq!(bus.reserve(at(0), at(60), ns(40)), at(60));
            assert_eq!(bus.reserve(at(0), at(5), length), from);
        }
    }

    #[test]
    fn future_reservation_leaves_the_bus_free_before_it() {
        let mut bus = ChannelBus::default();
        assert_eq!(bus.reserve(at(0), at(120_000), ns(64)), at(120_000));
        assert_eq!(bus.reserve(at(1), at(305), ns(64)), at(305));
    }

    #[test]
    fn saturated_bus_stores_one_reservation() {
        let mut bus = ChannelBus::default();
        for transfer in [4, 1, 3, 0, 2] {
            bus.reserve(at(0), at(transfer * 10), ns(10));
        }
        assert_eq!(bus.reservations.len(), 1);
        assert_eq!(bus.reserve(at(0), at(0), ns(10)), at(50));
    }

    #[test]
    fn partial_program_unit_takes_a_whole_program_time() {
        let timing = Timing { program_bytes: 64, ..Timing::default() };
        assert_eq!(timing.program_time(0, 1), timing.program);
        assert_eq!(timing.program_time(0, 64), timing.program);
        assert_eq!(timing.program_time(0, 65), timing.program * 2);
        assert_eq!(timing.program_time(63, 2), timing.program * 2);
        assert_eq!(timing.program_time(u64::MAX, 64), timing.program * 2);
    }

    #[test]
    fn p5q_dual_data_bus_moves_64_bytes_in_256_clocks() {
        let p5q = BusTransferRate::from_bytes_per_ns(0.066 * 2.0 / 8.0);
        assert_eq!(p5q.transfer_time(64), Span::from_ps(3_878_788));
    }

    #[test]
    fn slowest_bus_and_longest_transfer_do_not_overflow() {
        let slowest = BusTransferRate::from_bytes_per_ns(f64::MIN_POSITIVE);
        assert!(slowest.transfer_time(u32::MAX) > Span::from_s(4_000_000));
        let fastest = BusTransferRate::from_bytes_per_ns(f64::INFINITY);
        assert_eq!(fastest.transfer_time(u32::MAX), Span::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn transfer_time_is_bytes_over_rate(
            bytes in 0u32..1 << 26, bytes_per_ns in 1e-6..1e4f64,
        ) {
            let exact_ps = f64::from(bytes) * 1e3 / bytes_per_ns;
            let transfer = BusTransferRate::from_bytes_per_ns(bytes_per_ns).transfer_time(bytes);
            // Above 2^53 ps, a double is coarser than one picosecond.
            prop_assert!((transfer.as_ps() as f64 - exact_ps).abs() <= 0.51 + exact_ps * 1e-15);
        }

        #[test]
        fn bus_transfers_never_overlap_or_start_early(
            calls in prop::collection::vec((0u64..30, 0u64..200, 0u64..40), 1..60),
        ) {
            let mut bus = ChannelBus::default();
            let mut transfers = Vec::new();
            let mut now = 0;
            for (pause, delay, length) in calls {
                now += pause;
                let from = bus.reserve(at(now), at(now + delay), ns(length));
                prop_assert!(from >= at(now + delay));
                transfers.push((from, from + ns(length)));
            }
            transfers.retain(|(from, until)| from < until);
            transfers.sort();
            prop_assert!(transfers.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let listed: Vec<_> = bus.reservations.iter().collect();
            prop_assert!(listed.windows(2).all(|pair| pair[0].until < pair[1].from));
        }
    }

    #[test]
    fn prioritised_transfer_waits_for_one_page() {
        let mut bus = ChannelBus::with_room();
        // Four pages of 10 ns from 0 on, and another transfer at 50 ns.
        assert_eq!(bus.reserve(at(0), at(0), ns(40)), at(0));
        assert_eq!(bus.reserve(at(0), at(50), ns(10)), at(50));
        assert_eq!(bus.reserve_before_pending(at(12), at(12), ns(5), ns(10)), at(20));
        // The new transfer follows the prioritised one and all pages, which now end 5 ns later.
        assert_eq!(bus.reserve_before_pending(at(12), at(12), ns(5), ns(10)), at(25));
        assert_eq!(bus.reserve(at(12), at(30), ns(10)), at(60));
        // First on an idle bus, then directly after another prioritised transfer.
        assert_eq!(bus.reserve_before_pending(at(100), at(100), ns(5), ns(10)), at(100));
        assert_eq!(bus.reserve_before_pending(at(100), at(101), ns(5), ns(10)), at(105));
    }
}
