//! Flow-control credits of one class in one direction.
//!
//! A receiver drains its packets in order and at a known pace, so the instant at which each credit returns is
//! known when its packet is sent: returns are kept as runs of equally spaced instants, and a train takes one run.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// Data credits are counted in units of 16 bytes (PCI Express Base Specification 6.0, section 2.6.1).
const DATA_CREDIT_BYTES: u32 = 16;

/// Packets whose credits come back one by one, `every` apart, from the first to the last.
#[derive(Clone, Copy, Debug)]
struct Run {
    first_at: Time,
    last_at: Time,
    every: Span,
    packets: u32,
    data_each: u32,
}

/// What a sender may still send, and when it may send more.
#[derive(Clone, Debug)]
pub struct Credits {
    headers_free: u32,
    data_free: u32,
    returning: VecDeque<Run>,
    /// When the sender last asked. Credits that have returned by then are its own, even if they have not been needed
    /// and so not been counted yet.
    asked_at: Time,
}

/// Data credits that a payload takes.
pub fn data_credits(payload_bytes: u32) -> u32 {
    payload_bytes.div_ceil(DATA_CREDIT_BYTES)
}

impl Credits {
    /// A receiver's initial advertisement.
    pub fn new(headers: u32, data: u32) -> Credits {
        Credits { headers_free: headers, data_free: data, returning: VecDeque::new(), asked_at: Time::ZERO }
    }

    /// Take back what has returned by `now`. Left until credits run short, as most packets do not need it.
    #[inline(never)]
    fn refresh(&mut self, now: Time) {
        while let Some(run) = self.returning.front_mut() {
            if run.first_at > now {
                return;
            }
            let all = run.last_at <= now;
            let back = if all { run.packets } else { returned_by(run, now) };
            self.headers_free += back;
            self.data_free += back * run.data_each;
            if !all {
                run.packets -= back;
                run.first_at += run.every * u64::from(back);
                return;
            }
            self.returning.pop_front();
        }
    }

    /// How many of `packets`, sent back to back from `now` on and `every` apart, find their credits in time.
    #[inline]
    pub fn sendable(&mut self, now: Time, packets: u32, data_each: u32, every: Span) -> u32 {
        self.asked_at = now;
        if self.suffice(packets, data_each) {
            return packets;
        }
        self.refresh(now);
        if self.suffice(packets, data_each) {
            return packets;
        }
        self.sendable_in_time(now, packets, data_each, every)
    }

    fn suffice(&self, packets: u32, data_each: u32) -> bool {
        self.headers_free >= packets && self.data_free >= packets * data_each
    }

    /// The same, counting on credits that return while the train is on the wire.
    #[cold]
    fn sendable_in_time(&self, now: Time, packets: u32, data_each: u32, every: Span) -> u32 {
        let (mut headers, mut data) = (self.headers_free, self.data_free);
        let mut returning = self.returning.clone();
        for sent in 0..packets {
            let at = now + every * u64::from(sent);
            while let Some(run) = returning.front_mut().filter(|run| run.first_at <= at) {
                headers += 1;
                data += run.data_each;
                run.first_at += run.every;
                run.packets -= 1;
                if run.packets == 0 {
                    returning.pop_front();
                }
            }
            if headers == 0 || data < data_each {
                return sent;
            }
            headers -= 1;
            data -= data_each;
        }
        packets
    }

    /// When the next credit returns, if any is on its way.
    pub fn next_return(&self) -> Option<Time> {
        self.returning.front().map(|run| run.first_at)
    }

    /// Spend credits on packets whose credits will return from `first_return` on, `every` apart.
    ///
    /// # Panics
    /// If more is spent than [`sendable`](Self::sendable) has granted.
    #[inline]
    pub fn spend(&mut self, packets: u32, data_each: u32, first_return: Time, every: Span) {
        let mut last_at = first_return;
        if packets > 1 {
            last_at += every * u64::from(packets - 1);
        }
        self.returning.push_back(Run { first_at: first_return, last_at, every, packets, data_each });
        self.take(packets, data_each);
    }

    /// Credits of a train may be granted against returns that are still on their way; those are settled first.
    #[inline]
    fn take(&mut self, packets: u32, data_each: u32) {
        if !self.suffice(packets, data_each) {
            self.take_in_advance(packets, data_each);
        }
        self.headers_free -= packets;
        self.data_free -= packets * data_each;
    }

    /// Count returns that are still on their way.
    #[cold]
    fn take_in_advance(&mut self, packets: u32, data_each: u32) {
        while !self.suffice(packets, data_each) {
            let run = self.returning.front_mut().expect("credits spent that were never granted");
            self.headers_free += 1;
            self.data_free += run.data_each;
            run.first_at += run.every;
            run.packets -= 1;
            if run.packets == 0 {
                self.returning.pop_front();
            }
        }
    }

    /// Undo the tail of the last [`spend`](Self::spend): its train was cut short after all but `packets` of its packets.
    pub fn unspend(&mut self, packets: u32) {
        let run = self.returning.back_mut().expect("a train in flight has a run of returns");
        run.packets -= packets;
        run.last_at = run.last_at - run.every * u64::from(packets);
        self.headers_free += packets;
        self.data_free += packets * run.data_each;
        if run.packets == 0 {
            self.returning.pop_back();
        }
    }

    /// The receiver holds everything that arrived from the packet whose credit was due at `from` on; nothing of it
    /// returns before `until` (strict ordering behind a delayed write, DC Express section 3).
    pub fn hold(&mut self, from: Time, until: Time) {
        self.refresh(self.asked_at);
        for run in self.returning.iter_mut() {
            if run.last_at >= from && run.first_at < until {
                (run.first_at, run.last_at) = (until, until);
                run.every = Span::ZERO;
            }
        }
    }
}

/// Packets of a run whose credits are back at `now`, when the first one's are and the last one's are not.
fn returned_by(run: &Run, now: Time) -> u32 {
    (now.since(run.first_at).as_ps() / run.every.as_ps() + 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn a_credit_is_back_at_its_instant_and_not_before() {
        let mut credits = Credits::new(1, 8);
        assert_eq!(credits.sendable(at(0), 1, 8, Span::from_ns(76)), 1);
        credits.spend(1, 8, at(500), Span::from_ns(76));
        assert_eq!(credits.sendable(at(499), 1, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.next_return(), Some(at(500)));
        assert_eq!(credits.sendable(at(500), 1, 8, Span::from_ns(76)), 1);
    }

    #[test]
    fn a_train_counts_on_credits_that_return_while_it_is_on_the_wire() {
        let mut credits = Credits::new(2, 16);
        credits.spend(2, 8, at(100), Span::from_ns(50));
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(50)), 2);
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(40)), 1);
    }

    #[test]
    fn data_credits_limit_as_header_credits_do() {
        let mut credits = Credits::new(64, 20);
        assert_eq!(credits.sendable(at(0), 4, 8, Span::from_ns(76)), 2);
    }

    #[test]
    fn a_cut_train_gives_back_what_it_has_not_used() {
        let mut credits = Credits::new(8, 64);
        credits.spend(8, 8, at(500), Span::from_ns(76));
        credits.unspend(5);
        assert_eq!(credits.sendable(at(0), 8, 8, Span::from_ns(76)), 5);
    }

    #[test]
    fn a_held_receiver_returns_nothing_before_it_lets_go() {
        let mut credits = Credits::new(4, 32);
        credits.spend(4, 8, at(500), Span::from_ns(76));
        credits.hold(at(600), at(2_000));
        assert_eq!(credits.sendable(at(1_999), 4, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.sendable(at(2_000), 4, 8, Span::from_ns(76)), 4);
    }
}
