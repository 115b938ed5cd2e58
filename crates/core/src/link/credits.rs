//! Flow-control credits of one class of packets in one direction (posted or non-posted).
//!
//! A receiver drains its packets in order and at a known pace, so the return time of each credit is known when its
//! packet is sent. Returns are therefore kept as *runs* of equally spaced instants, and a whole train of packets adds
//! one run. A credit is free, or in a run; asking for credits moves the runs whose time has come back to the free ones.
//!
//! ```text
//!     spend 3 packets          run: | first_at   first_at + every   last_at |      spend 1 packet
//!     headers_free 4 -> 1           +1           +1                 +1             headers_free 4 -> 3
//!     ------------------------------^------------^------------------^------------------------> time
//!                                   UpdateFC of each packet reaches the sender
//! ```

use crate::number::{index, narrow};
use crate::time::{Span, Time};

/// Number of bytes of one data credit (PCI Express Base Specification 6.0, section 2.6.1).
const DATA_CREDIT_BYTES: u32 = 16;

/// Smallest capacity of the ring of credit-return runs, a power of two. Without scaled flow control, a receiver has at
/// most 127 header credits outstanding.
const RUNS_MIN: usize = 128;

/// Packets whose credits are returning: equal packets at intervals of `every` from `first_at` to `last_at`, or packets
/// of any sizes all at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct CreditReturnRun {
    first_at: Time,
    last_at: Time,
    every: Span,
    packets: u32,
    /// Number of data credits that return with all packets of this run together.
    data: u32,
}

impl CreditReturnRun {
    /// Splits a run of returning credits into those that return before `at`, and the rest.
    fn split_at_time(self, at: Time) -> (CreditReturnRun, CreditReturnRun) {
        let before = match self {
            _ if self.last_at < at => self.packets,
            _ if self.first_at >= at => 0,
            _ => at
                .since(self.first_at)
                .as_ps()
                .div_ceil(self.every.as_ps())
                .try_into()
                .expect("a run is no longer than its packets"),
        };
        if before == 0 || before == self.packets {
            let none = CreditReturnRun::default();
            return if before == 0 { (none, self) } else { (self, none) };
        }
        let first_behind = self.first_at + self.every * u64::from(before);
        let data = self.data / self.packets * before;
        (
            CreditReturnRun { packets: before, data, last_at: first_behind - self.every, ..self },
            CreditReturnRun { packets: self.packets - before, data: self.data - data, first_at: first_behind, ..self },
        )
    }

    /// Returns this run with the return of all its credits moved to the instant `until`.
    fn delayed_until(self, until: Time) -> CreditReturnRun {
        CreditReturnRun { first_at: until, last_at: until, every: Span::ZERO, ..self }
    }

    /// Removes the first `packets` packets from this run of returning credits, and returns the number of their data
    /// credits.
    fn take(&mut self, packets: u32) -> u32 {
        let data = self.data.div_ceil(self.packets) * packets;
        let data = data.min(self.data);
        self.packets -= packets;
        self.data -= data;
        self.first_at += self.every * u64::from(packets);
        data
    }
}

/// Ring of credit-return runs in order of time. Its capacity, a power of two, exceeds the number of header credits, of
/// which every run holds at least one.
#[derive(Clone, Debug)]
struct CreditReturnRing {
    places: Box<[CreditReturnRun]>,
    /// Number of runs ever removed at the front of the ring; `put` counts those added at the back. Both are used modulo
    /// the capacity.
    taken: usize,
    put: usize,
}

impl CreditReturnRing {
    fn new(headers: u32) -> CreditReturnRing {
        let capacity = (index(headers) + 1).next_power_of_two().max(RUNS_MIN);
        CreditReturnRing { places: vec![CreditReturnRun::default(); capacity].into(), taken: 0, put: 0 }
    }

    /// Returns the index in the ring of the run with this number.
    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & (self.places.len() - 1)
    }

    #[inline]
    fn front(&mut self) -> Option<&mut CreditReturnRun> {
        let place = self.place(self.taken);
        (self.taken != self.put).then(|| &mut self.places[place])
    }

    fn first(&self) -> Option<&CreditReturnRun> {
        (self.taken != self.put).then(|| &self.places[self.place(self.taken)])
    }

    #[inline(always)]
    fn back(&mut self) -> Option<&mut CreditReturnRun> {
        let place = self.place(self.put.wrapping_sub(1));
        (self.taken != self.put).then(|| &mut self.places[place])
    }

    #[inline]
    fn push(&mut self, run: CreditReturnRun) {
        let is_room = self.put - self.taken < self.places.len();
        assert!(is_room, "more runs of returning credits than the receiver advertised headers");
        let place = self.place(self.put);
        self.places[place] = run;
        self.put += 1;
    }

    /// Appends a run of returning credits. Merges it into the last run if all credits of both return at one instant, as
    /// after a hold.
    #[inline(always)]
    fn append(&mut self, run: CreditReturnRun) {
        // No run ends before it begins, so these two equalities imply that all four instants are equal.
        let is_joined = |last: &&mut CreditReturnRun| last.first_at == run.last_at && last.last_at == run.first_at;
        match self.back().filter(is_joined) {
            Some(last) => {
                let (packets, data) = (last.packets + run.packets, last.data + run.data);
                *last = CreditReturnRun { packets, data, every: Span::ZERO, ..*last };
            }
            None => self.push(run),
        }
    }

    /// Delays the credits that would return within `from..until`: they return at `until`.
    fn delay_returns_within(&mut self, from: Time, until: Time) {
        let returns_within = |run: &CreditReturnRun| run.last_at >= from && run.first_at < until;
        let end = self.put;
        let Some(first) = (self.taken..end).find(|number| returns_within(&self.places[self.place(*number)])) else {
            return;
        };
        // In most cases a run is delayed as a whole, so handle that case in place, without a copy.
        let is_parted = |run: &CreditReturnRun| returns_within(run) && (run.first_at < from || run.last_at >= until);
        if (first..end).any(|number| is_parted(&self.places[self.place(number)])) {
            let later: Vec<CreditReturnRun> = (first..end).map(|number| self.places[self.place(number)]).collect();
            self.put = first;
            for run in later {
                let (before, rest) = run.split_at_time(from);
                let (within, after) = rest.split_at_time(until);
                let parts = [before, within.delayed_until(until), after];
                parts.into_iter().filter(|run| run.packets > 0).for_each(|run| self.append(run));
            }
            return;
        }
        self.put = first;
        for number in first..end {
            let run = self.places[self.place(number)];
            self.append(if returns_within(&run) { run.delayed_until(until) } else { run });
        }
    }

    /// Returns the runs of returning credits, the earliest first.
    fn iter(&self) -> impl DoubleEndedIterator<Item = CreditReturnRun> {
        (self.taken..self.put).map(|number| self.places[self.place(number)])
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut CreditReturnRun> {
        let (taken, put, mask) = (self.taken, self.put, self.places.len() - 1);
        self.places
            .iter_mut()
            .enumerate()
            .filter(move |(place, _)| (place.wrapping_sub(taken)) & mask < put - taken)
            .map(|(_, run)| run)
    }
}

/// Delays with which a receiver of packets returns their flow-control credits.
#[derive(Clone, Copy, Debug)]
pub struct CreditReturnDelays {
    /// Time for which the receiver is busy with one packet before it returns the packet's credits.
    pub accept: Span,
    /// Time from the last symbol of a packet on the wire to the return of its credits, including the UpdateFC packet,
    /// without the receiver's own time.
    pub round_trip: Span,
    /// True if the receiver drains its buffer in order, so that a slow packet delays the credits of those behind it.
    pub in_turn: bool,
}

/// Sender's account of its flow-control credits: those that are free now, and the times at which the others return.
#[derive(Clone, Debug)]
pub struct Credits {
    /// Number of header credits and of data credits that the receiver has advertised.
    advertised: (u32, u32),
    headers_free: u32,
    data_free: u32,
    returning: CreditReturnRing,
    returns: CreditReturnDelays,
    /// Earliest return time of further credits: until then the receiver is busy with earlier packets.
    next_turn: Time,
    /// Time of the last request for credits. Credits that had returned by then belong to the sender, even if the lazy
    /// account has not yet added them.
    asked_at: Time,
}

/// Returns the number of data credits that a payload of `payload_bytes` needs.
pub fn data_credits(payload_bytes: u32) -> u32 {
    payload_bytes.div_ceil(DATA_CREDIT_BYTES)
}

impl Credits {
    /// Creates a sender's account in which all header and data credits that the receiver advertises are free.
    pub fn new(headers: u32, data: u32, returns: CreditReturnDelays) -> Credits {
        Credits {
            advertised: (headers, data),
            headers_free: headers,
            data_free: data,
            returning: CreditReturnRing::new(headers),
            returns,
            next_turn: Time::ZERO,
            asked_at: Time::ZERO,
        }
    }

    /// Adds the credits that have returned by `now` to the free ones. Called only when credits run short, which is
    /// rare.
    #[inline(never)]
    fn collect_returned_credits(&mut self, now: Time) {
        let Credits { headers_free, data_free, returning, .. } = self;
        while let Some(run) = returning.front() {
            if run.last_at <= now {
                *headers_free += run.packets;
                *data_free += run.data;
                returning.taken += 1;
                continue;
            }
            if run.first_at <= now {
                let back = returned_packet_count(run, now);
                *headers_free += back;
                *data_free += run.take(back);
            }
            return;
        }
    }

    /// True if the free credits suffice to send `packets` packets now, each of which needs `data_each` data credits.
    #[inline]
    pub fn allow(&mut self, now: Time, packets: u32, data_each: u32) -> bool {
        self.asked_at = now;
        self.suffice_for(packets, data_each) || {
            self.collect_returned_credits(now);
            self.suffice_for(packets, data_each)
        }
    }

    /// Returns how many of `packets` packets can be sent back to back from `now` on, `every` apart, without waiting for
    /// credits.
    pub fn sendable(&mut self, now: Time, packets: u32, data_each: u32, every: Span) -> u32 {
        if self.allow(now, packets, data_each) {
            return packets;
        }
        self.count_sendable_back_to_back(now, packets, data_each, every)
    }

    #[inline]
    fn suffice_for(&self, packets: u32, data_each: u32) -> bool {
        self.headers_free >= packets && self.data_free >= packets * data_each
    }

    /// Counts the packets that can be sent back to back, using also credits that return while earlier packets are on
    /// the wire.
    #[cold]
    fn count_sendable_back_to_back(&self, now: Time, packets: u32, data_each: u32, every: Span) -> u32 {
        let (mut headers, mut data) = (self.headers_free, self.data_free);
        let mut returning = self.returning.iter();
        let mut next = returning.next();
        for sent in 0..packets {
            let at = now + every * u64::from(sent);
            while let Some(run) = next.as_mut().filter(|run| run.first_at <= at) {
                headers += 1;
                data += run.take(1);
                if run.packets == 0 {
                    next = returning.next();
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

    /// Returns when the next credit returns; `None` if no credits are returning.
    pub fn next_return_time(&self) -> Option<Time> {
        self.returning.first().map(|run| run.first_at)
    }

    /// Delays the return of all credits that are still missing at `now` to `until` or later (an injected fault).
    pub fn starve(&mut self, now: Time, until: Time) {
        self.collect_returned_credits(now);
        self.next_turn = self.next_turn.max(until);
        for run in self.returning.iter_mut() {
            let later = until.since(run.first_at);
            run.first_at += later;
            run.last_at += later;
        }
    }

    /// Makes all credits free again, as after a reset of the receiver.
    pub fn restore(&mut self, now: Time) {
        self.collect_returned_credits(Time::NEVER);
        let free = (self.headers_free, self.data_free);
        assert_eq!(
            free, self.advertised,
            "the free header and data credits are not those advertised, with none returning"
        );
        self.next_turn = now;
    }

    /// Spends the credits of `packets` packets that are sent back to back from `started` on, each with wire time
    /// `each`. The caller has checked [`allow`](Self::allow) before.
    ///
    /// # Panics
    /// If fewer credits are free.
    #[inline]
    pub fn spend(&mut self, packets: u32, data_each: u32, started: Time, each: Span) {
        let CreditReturnDelays { accept, round_trip, in_turn } = self.returns;
        let every = each.max(accept);
        let first_at = (started + each + accept + round_trip).max(self.next_turn);
        let last_at = if packets == 1 { first_at } else { first_at + every * u64::from(packets - 1) };
        if in_turn {
            self.next_turn = last_at + accept;
        }
        self.returning.push(CreditReturnRun { first_at, last_at, every, packets, data: packets * data_each });
        assert!(self.suffice_for(packets, data_each), "a sender takes no more credits than are free");
        self.headers_free -= packets;
        self.data_free -= packets * data_each;
    }

    /// Spends credits that [`sendable`](Self::sendable) has granted, although some of them are still returning. Adds
    /// those to the free credits first.
    ///
    /// # Panics
    /// If more credits are spent than were granted.
    pub fn spend_returning_credits(&mut self, packets: u32, data_each: u32, started: Time, each: Span) {
        while !self.suffice_for(packets, data_each) {
            let run = self.returning.front().expect("more credits are taken than were granted");
            self.headers_free += 1;
            self.data_free += run.take(1);
            if run.packets == 0 {
                self.returning.taken += 1;
            }
        }
        self.spend(packets, data_each, started, each);
    }

    /// Gives back the credits of the last `packets` packets of a train, which was cut before they left. Each of them
    /// had `data_each` data credits.
    pub fn unspend(&mut self, packets: u32, data_each: u32, each: Span) {
        let mut left = packets;
        while left > 0 {
            let run = self.returning.back().expect("the credits of a train in flight are returning");
            let cut = left.min(run.packets);
            run.packets -= cut;
            run.data -= cut * data_each;
            run.last_at = run.last_at - run.every * u64::from(cut);
            self.headers_free += cut;
            self.data_free += cut * data_each;
            if run.packets == 0 {
                self.returning.put -= 1;
            }
            left -= cut;
        }
        if self.returns.in_turn {
            self.next_turn = self.next_turn - each.max(self.returns.accept) * u64::from(packets);
        }
    }

    /// Delays credits that would return in `from..until` to `until`: strict ordering behind a delayed write makes the
    /// receiver hold everything that arrives meanwhile (DC Express, section 3). Other credits keep their times.
    pub fn hold(&mut self, from: Time, until: Time) {
        self.collect_returned_credits(self.asked_at);
        self.returning.delay_returns_within(from, until);
    }
}

/// Returns the number of packets of a run whose credits have returned by `now`. The first one's must have returned, and
/// the last one's not.
fn returned_packet_count(run: &CreditReturnRun, now: Time) -> u32 {
    narrow::<u32, u64>(now.since(run.first_at).as_ps() / run.every.as_ps()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// Returns an account whose credits return `away` nanoseconds after the end of their packet.
    fn credits(headers: u32, data: u32, away: u64) -> Credits {
        let returns = CreditReturnDelays { accept: Span::ZERO, round_trip: Span::from_ns(away), in_turn: true };
        Credits::new(headers, data, returns)
    }

    #[test]
    fn credit_is_free_exactly_at_its_return_time() {
        let mut credits = credits(1, 8, 424);
        assert_eq!(credits.sendable(at(0), 1, 8, Span::from_ns(76)), 1);
        credits.spend(1, 8, at(0), Span::from_ns(76));
        assert_eq!(credits.sendable(at(499), 1, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.next_return_time(), Some(at(500)));
        assert_eq!(credits.sendable(at(500), 1, 8, Span::from_ns(76)), 1);
    }

    #[test]
    #[should_panic(expected = "more credits than are free")]
    fn spending_missing_credits_panics() {
        let mut credits = credits(2, 8, 424);
        credits.spend(1, 8, at(0), Span::from_ns(76));
        credits.spend(1, 8, at(76), Span::from_ns(76));
    }

    #[test]
    fn restored_credit_account_has_all_advertised_credits() {
        let mut credits = credits(4, 32, 424);
        credits.spend(3, 8, at(0), Span::from_ns(76));
        credits.unspend(1, 8, Span::from_ns(76));
        credits.hold(at(500), at(2_000));
        credits.restore(at(100));
        assert_eq!(credits.sendable(at(100), 4, 8, Span::ZERO), 4);
        assert_eq!(credits.next_return_time(), None);
    }

    #[test]
    fn train_uses_credits_that_return_during_its_transmission() {
        let mut credits = credits(2, 16, 50);
        credits.spend(2, 8, at(0), Span::from_ns(50));
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(50)), 2);
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(40)), 1);
    }

    #[test]
    fn data_credits_limit_packets_despite_free_header_credits() {
        let mut credits = credits(64, 20, 0);
        assert_eq!(credits.sendable(at(0), 4, 8, Span::from_ns(76)), 2);
    }

    #[test]
    fn cut_train_gets_back_credits_of_unsent_packets() {
        let mut credits = credits(8, 64, 424);
        credits.spend(8, 8, at(0), Span::from_ns(76));
        credits.unspend(5, 8, Span::from_ns(76));
        assert_eq!(credits.sendable(at(0), 8, 8, Span::from_ns(76)), 5);
    }

    #[test]
    fn held_receiver_returns_no_credit_before_the_hold_ends() {
        let mut credits = credits(4, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        credits.hold(at(500), at(2_000));
        assert_eq!(credits.sendable(at(1_999), 4, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.sendable(at(2_000), 4, 8, Span::from_ns(76)), 4);
    }

    #[test]
    fn slow_receiver_returns_credits_sequentially() {
        let returns = CreditReturnDelays { accept: Span::from_ns(100), round_trip: Span::from_ns(400), in_turn: true };
        let mut credits = Credits::new(2, 16, returns);
        credits.spend(1, 8, at(0), Span::from_ns(10));
        credits.spend(1, 8, at(10), Span::from_ns(10));
        assert_eq!(credits.sendable(at(510), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(609), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(610), 2, 8, Span::ZERO), 2);
    }

    #[test]
    fn partly_returned_train_returns_data_credits_of_those_packets() {
        let mut credits = credits(64, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        assert_eq!(credits.sendable(at(576), 4, 8, Span::ZERO), 2);
        credits.spend(2, 8, at(576), Span::ZERO);
        assert_eq!(credits.sendable(at(651), 4, 8, Span::ZERO), 0);
        assert_eq!(credits.sendable(at(652), 4, 8, Span::ZERO), 1);
    }

    #[test]
    fn hold_ending_at_the_first_return_changes_nothing() {
        let mut credits = credits(2, 16, 424);
        credits.spend(2, 8, at(0), Span::from_ns(76));
        credits.hold(at(0), at(500));
        assert_eq!(credits.sendable(at(575), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(576), 2, 8, Span::ZERO), 2);
    }

    #[test]
    fn hold_delays_only_credits_due_within_it() {
        let mut credits = credits(4, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        // Without the hold, the four credits would return at 500, 576, 652 and 728 ns.
        credits.hold(at(576), at(700));
        for (now, there) in [(500, 1), (576, 1), (652, 1), (699, 1), (700, 3), (727, 3), (728, 4)] {
            assert_eq!(credits.clone().sendable(at(now), 4, 8, Span::ZERO), there, "at {now} ns");
        }
    }

    /// Reference model of a credit account, in which every packet has its own return time.
    #[derive(Clone, Debug)]
    struct OneByOne {
        headers: u32,
        data: u32,
        /// Return time of each packet's header credit, with the number of its data credits.
        returning: Vec<(Time, u32)>,
        returns: CreditReturnDelays,
        next_turn: Time,
    }

    impl OneByOne {
        fn new(headers: u32, data: u32, returns: CreditReturnDelays) -> OneByOne {
            OneByOne { headers, data, returning: Vec::new(), returns, next_turn: Time::ZERO }
        }

        /// Returns the free header and data credits at `now`; credits return in the order of their packets.
        fn free(&self, now: Time) -> (u32, u32) {
            let missing = self.returning.iter().skip_while(|(at, _)| *at <= now);
            let data = missing.clone().map(|(_, data)| data).sum::<u32>();
            (self.headers - missing.count() as u32, self.data - data)
        }

        fn sendable(&self, now: Time, packets: u32, data_each: u32) -> u32 {
            let (headers, data) = self.free(now);
            packets.min(headers).min(data / data_each)
        }

        fn spend(&mut self, packets: u32, data_each: u32, started: Time, each: Span) {
            let CreditReturnDelays { accept, round_trip, .. } = self.returns;
            for packet in 0..u64::from(packets) {
                let drained = started + each * (packet + 1) + accept;
                let at = (drained + round_trip).max(self.next_turn);
                self.next_turn = at + each.max(accept);
                self.returning.push((at, data_each));
            }
            // The receiver can accept the next packet once it has drained the last one.
            self.next_turn = self.next_turn - each.max(accept) + accept;
        }

        fn unspend(&mut self, packets: u32, each: Span) {
            self.returning.truncate(self.returning.len() - packets as usize);
            self.next_turn = self.next_turn - each.max(self.returns.accept) * u64::from(packets);
        }

        /// Delays the returns that fall within `from..until` to `until`, except those before the sender's last request
        /// at `asked_at`.
        fn hold(&mut self, asked_at: Time, from: Time, until: Time) {
            for (at, _) in self.returning.iter_mut().filter(|(at, _)| *at > asked_at && *at >= from) {
                *at = until.max(*at);
            }
        }
    }

    /// Operation that a test applies to a credit account and to its reference model.
    #[derive(Clone, Copy, Debug)]
    enum CreditOperation {
        Spend {
            packets: u32,
            data_each: u32,
            after_ns: u64,
        },
        Hold {
            from_ns: u64,
            until_ns: u64,
        },
        /// Cuts the train sent last down to one packet, unless that has been done already.
        Cut,
    }

    /// Credit account and its reference model, to both of which a test applies the operations of one history.
    struct History {
        number: usize,
        credits: Credits,
        model: OneByOne,
        now: Time,
        asked_at: Time,
        /// Number of packets in the train sent last, and the data credits of each.
        train: (u32, u32),
    }

    impl History {
        const EACH: Span = Span::from_ns(40);

        fn new(number: usize, returns: CreditReturnDelays) -> History {
            let (credits, model) = (Credits::new(4, 24, returns), OneByOne::new(4, 24, returns));
            History { number, credits, model, now: Time::ZERO, asked_at: Time::ZERO, train: (1, 0) }
        }

        fn check(&mut self, now: Time, packets: u32, data_each: u32) -> bool {
            let is_granted = self.model.sendable(now, packets, data_each) == packets;
            assert_eq!(self.credits.allow(now, packets, data_each), is_granted, "{} at {now}", self.number);
            is_granted
        }

        fn apply_to_account(&mut self, operation: CreditOperation) {
            match operation {
                CreditOperation::Spend { packets, data_each, after_ns } => {
                    self.now += Span::from_ns(after_ns);
                    (self.asked_at, self.train) = (self.now, (1, data_each));
                    if self.check(self.now, packets, data_each) {
                        self.credits.spend(packets, data_each, self.now, Self::EACH);
                        self.model.spend(packets, data_each, self.now, Self::EACH);
                        self.now += Self::EACH * u64::from(packets);
                        self.train.0 = packets;
                    }
                }
                CreditOperation::Cut => {
                    let (packets, data_each) = self.train;
                    self.credits.unspend(packets - 1, data_each, Self::EACH);
                    self.model.unspend(packets - 1, Self::EACH);
                    self.train.0 = 1;
                }
                CreditOperation::Hold { from_ns, until_ns } => {
                    let (from, until) = (self.now + Span::from_ns(from_ns), self.now + Span::from_ns(until_ns));
                    self.credits.hold(from, until);
                    self.model.hold(self.asked_at, from, until);
                }
            }
        }
    }

    #[test]
    fn all_short_credit_histories_equal_the_reference_model() {
        const OPERATIONS: [CreditOperation; 8] = [
            CreditOperation::Spend { packets: 1, data_each: 8, after_ns: 0 },
            CreditOperation::Spend { packets: 1, data_each: 1, after_ns: 90 },
            CreditOperation::Spend { packets: 2, data_each: 8, after_ns: 30 },
            CreditOperation::Spend { packets: 3, data_each: 4, after_ns: 400 },
            CreditOperation::Hold { from_ns: 0, until_ns: 120 },
            CreditOperation::Hold { from_ns: 90, until_ns: 500 },
            CreditOperation::Hold { from_ns: 200, until_ns: 230 },
            CreditOperation::Cut,
        ];
        const LENGTH: u32 = 5;
        for accept in [0, 25, 60] {
            let returns =
                CreditReturnDelays { accept: Span::from_ns(accept), round_trip: Span::from_ns(150), in_turn: true };
            for number in 0..OPERATIONS.len().pow(LENGTH) {
                let mut history = History::new(number, returns);
                let operations =
                    (0..LENGTH).map(|place| OPERATIONS[number / OPERATIONS.len().pow(place) % OPERATIONS.len()]);
                operations.for_each(|operation| history.apply_to_account(operation));
                for later in 0..12 {
                    let now = history.now + Span::from_ns(later * 60);
                    history.check(now, 4, 6);
                    history.check(now, 1, 1);
                }
            }
        }
    }

    #[test]
    fn scaled_credits_return_one_by_one() {
        let mut credits = credits(2032, 32_752, 424);
        for packet in 0..2032 {
            assert!(credits.allow(at(packet), 1, 8));
            credits.spend(1, 8, at(packet), Span::from_ps(500));
        }
        assert!(credits.allow(at(2032), 1, 8), "the first are back");
        credits.restore(at(10_000));
        assert_eq!(credits.sendable(at(10_000), 2032, 8, Span::ZERO), 2032);
    }
}
