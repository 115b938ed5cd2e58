//! Flow-control credits of one class in one direction.
//!
//! A receiver drains its packets in order and at a known pace, so the instant at which each credit returns is
//! known when its packet is sent: returns are kept as runs of equally spaced instants, and a train takes one run.

use crate::time::{Span, Time};

/// Data credits are counted in units of 16 bytes (PCI Express Base Specification 6.0, section 2.6.1).
const DATA_CREDIT_BYTES: u32 = 16;

/// Places for runs, a power of two; a receiver advertises fewer headers than that, and every run holds one at least.
const RUNS: usize = 128;

/// Packets whose credits come back one by one, `every` apart, from the first to the last.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first_at: Time,
    last_at: Time,
    every: Span,
    packets: u32,
    data_each: u32,
}

impl Run {
    /// The packets whose credits return before `at`, and the others.
    fn split(self, at: Time) -> (Run, Run) {
        let before = match self {
            _ if self.last_at < at => self.packets,
            _ if self.first_at >= at => 0,
            _ => at.since(self.first_at).as_ps().div_ceil(self.every.as_ps()) as u32,
        };
        let first_behind = self.first_at + self.every * u64::from(before);
        let last_before = self.first_at + self.every * u64::from(before.saturating_sub(1));
        let behind = self.packets - before;
        (Run { packets: before, last_at: last_before, ..self }, Run { packets: behind, first_at: first_behind, ..self })
    }
}

/// Runs in the order in which they return.
#[derive(Clone, Debug)]
struct Runs {
    places: [Run; RUNS],
    /// Runs that have been taken off the front, and put at the back.
    taken: usize,
    put: usize,
}

impl Runs {
    fn new() -> Runs {
        Runs { places: [Run::default(); RUNS], taken: 0, put: 0 }
    }

    #[inline]
    fn front(&mut self) -> Option<&mut Run> {
        (self.taken != self.put).then(|| &mut self.places[self.taken % RUNS])
    }

    fn first(&self) -> Option<&Run> {
        (self.taken != self.put).then(|| &self.places[self.taken % RUNS])
    }

    fn back(&mut self) -> Option<&mut Run> {
        (self.taken != self.put).then(|| &mut self.places[(self.put - 1) % RUNS])
    }

    fn pop(&mut self) -> Option<Run> {
        let run = self.front().copied();
        self.taken += usize::from(run.is_some());
        run
    }

    #[inline]
    fn push(&mut self, run: Run) {
        self.places[self.put % RUNS] = run;
        self.put += 1;
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        let (taken, put) = (self.taken, self.put);
        self.places
            .iter_mut()
            .enumerate()
            .filter(move |(place, _)| (place.wrapping_sub(taken)) % RUNS < put - taken)
            .map(|(_, run)| run)
    }
}

/// How a receiver gives credits back.
#[derive(Clone, Copy, Debug)]
pub struct Returns {
    /// Time for which the receiver is busy with one packet.
    pub accept: Span,
    /// There and back, with the packet that brings the update.
    pub round_trip: Span,
    /// Whether it takes packets out of its buffer one after the other, however long each takes.
    pub in_turn: bool,
}

/// What a sender may still send, and when it may send more.
#[derive(Clone, Debug)]
pub struct Credits {
    headers_free: u32,
    data_free: u32,
    returning: Runs,
    returns: Returns,
    /// Before that no further credit returns, as the receiver is busy with what came before.
    next_turn: Time,
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
    pub fn new(headers: u32, data: u32, returns: Returns) -> Credits {
        Credits {
            headers_free: headers,
            data_free: data,
            returning: Runs::new(),
            returns,
            next_turn: Time::ZERO,
            asked_at: Time::ZERO,
        }
    }

    /// Take back what has returned by `now`. Left until credits run short, as most packets do not need it.
    #[inline(never)]
    fn refresh(&mut self, now: Time) {
        let Credits { headers_free, data_free, returning, .. } = self;
        while let Some(run) = returning.front() {
            if run.last_at <= now {
                *headers_free += run.packets;
                *data_free += run.packets * run.data_each;
                returning.taken += 1;
                continue;
            }
            if run.first_at <= now {
                let back = returned_by(run, now);
                *headers_free += back;
                *data_free += back * run.data_each;
                run.packets -= back;
                run.first_at += run.every * u64::from(back);
            }
            return;
        }
    }

    /// Whether `packets` may all go now.
    #[inline]
    pub fn allow(&mut self, now: Time, packets: u32, data_each: u32) -> bool {
        self.asked_at = now;
        self.suffice(packets, data_each) || {
            self.refresh(now);
            self.suffice(packets, data_each)
        }
    }

    /// How many of `packets`, sent back to back from `now` on and `every` apart, find their credits in time.
    pub fn sendable(&mut self, now: Time, packets: u32, data_each: u32, every: Span) -> u32 {
        if self.allow(now, packets, data_each) {
            return packets;
        }
        self.sendable_in_time(now, packets, data_each, every)
    }

    #[inline]
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
            while let Some(run) = returning.front().filter(|run| run.first_at <= at) {
                headers += 1;
                data += run.data_each;
                run.first_at += run.every;
                run.packets -= 1;
                if run.packets == 0 {
                    returning.taken += 1;
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
        self.returning.first().map(|run| run.first_at)
    }

    /// No credit that has not come back by `now` does so before `until`.
    pub fn starve(&mut self, now: Time, until: Time) {
        self.refresh(now);
        self.next_turn = self.next_turn.max(until);
        for run in self.returning.iter_mut() {
            let later = until.since(run.first_at);
            run.first_at += later;
            run.last_at += later;
        }
    }

    /// All credits are there: the receiver begins anew.
    pub fn restore(&mut self, now: Time) {
        self.refresh(Time::NEVER);
        self.next_turn = now;
    }

    /// Spend credits on packets that go on the wire one after the other, `each` long, the first at `started`, as far as
    /// [`allow`](Self::allow) has granted them.
    #[inline]
    pub fn spend(&mut self, packets: u32, data_each: u32, started: Time, each: Span) {
        let Returns { accept, round_trip, in_turn } = self.returns;
        let every = each.max(accept);
        let first_at = (started + each + accept + round_trip).max(self.next_turn);
        let last_at = if packets == 1 { first_at } else { first_at + every * u64::from(packets - 1) };
        if in_turn {
            self.next_turn = last_at + accept;
        }
        self.returning.push(Run { first_at, last_at, every, packets, data_each });
        self.headers_free -= packets;
        self.data_free -= packets * data_each;
    }

    /// The same on packets whose credits [`sendable`](Self::sendable) has counted on: returns that are still on their way
    /// are settled first.
    ///
    /// # Panics
    /// If more is spent than it has granted.
    pub fn spend_in_advance(&mut self, packets: u32, data_each: u32, started: Time, each: Span) {
        while !self.suffice(packets, data_each) {
            let run = self.returning.front().expect("credits spent that were never granted");
            self.headers_free += 1;
            self.data_free += run.data_each;
            run.first_at += run.every;
            run.packets -= 1;
            if run.packets == 0 {
                self.returning.taken += 1;
            }
        }
        self.spend(packets, data_each, started, each);
    }

    /// Undo the tail of the last [`spend`](Self::spend): its train was cut short after all but `packets` of its packets.
    pub fn unspend(&mut self, packets: u32, each: Span) {
        let mut left = packets;
        while left > 0 {
            let run = self.returning.back().expect("a train in flight has a run of returns, or several if it was held");
            let cut = left.min(run.packets);
            run.packets -= cut;
            run.last_at = run.last_at - run.every * u64::from(cut);
            self.headers_free += cut;
            self.data_free += cut * run.data_each;
            if run.packets == 0 {
                self.returning.put -= 1;
            }
            left -= cut;
        }
        if self.returns.in_turn {
            self.next_turn = self.next_turn - each.max(self.returns.accept) * u64::from(packets);
        }
    }

    /// The receiver holds everything that arrived from the packet whose credit was due at `from` on; nothing of it
    /// returns before `until` (strict ordering behind a delayed write, DC Express section 3). What was due earlier or later
    /// stays so.
    pub fn hold(&mut self, from: Time, until: Time) {
        self.refresh(self.asked_at);
        let mut returning = std::mem::replace(&mut self.returning, Runs::new());
        while let Some(run) = returning.pop() {
            let (before, rest) = run.split(from);
            let (held, after) = rest.split(until);
            let held = Run { first_at: until, last_at: until, every: Span::ZERO, ..held };
            [before, held, after].into_iter().filter(|run| run.packets > 0).for_each(|run| self.returning.push(run));
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

    /// Credits that return `away` nanoseconds after the end of their packet.
    fn credits(headers: u32, data: u32, away: u64) -> Credits {
        let returns = Returns { accept: Span::ZERO, round_trip: Span::from_ns(away), in_turn: true };
        Credits::new(headers, data, returns)
    }

    #[test]
    fn a_credit_is_back_at_its_instant_and_not_before() {
        let mut credits = credits(1, 8, 424);
        assert_eq!(credits.sendable(at(0), 1, 8, Span::from_ns(76)), 1);
        credits.spend(1, 8, at(0), Span::from_ns(76));
        assert_eq!(credits.sendable(at(499), 1, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.next_return(), Some(at(500)));
        assert_eq!(credits.sendable(at(500), 1, 8, Span::from_ns(76)), 1);
    }

    #[test]
    fn a_train_counts_on_credits_that_return_while_it_is_on_the_wire() {
        let mut credits = credits(2, 16, 50);
        credits.spend(2, 8, at(0), Span::from_ns(50));
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(50)), 2);
        assert_eq!(credits.sendable(at(100), 4, 8, Span::from_ns(40)), 1);
    }

    #[test]
    fn data_credits_limit_as_header_credits_do() {
        let mut credits = credits(64, 20, 0);
        assert_eq!(credits.sendable(at(0), 4, 8, Span::from_ns(76)), 2);
    }

    #[test]
    fn a_cut_train_gives_back_what_it_has_not_used() {
        let mut credits = credits(8, 64, 424);
        credits.spend(8, 8, at(0), Span::from_ns(76));
        credits.unspend(5, Span::from_ns(76));
        assert_eq!(credits.sendable(at(0), 8, 8, Span::from_ns(76)), 5);
    }

    #[test]
    fn a_held_receiver_returns_nothing_before_it_lets_go() {
        let mut credits = credits(4, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        credits.hold(at(500), at(2_000));
        assert_eq!(credits.sendable(at(1_999), 4, 8, Span::from_ns(76)), 0);
        assert_eq!(credits.sendable(at(2_000), 4, 8, Span::from_ns(76)), 4);
    }

    #[test]
    fn a_receiver_that_takes_its_time_gives_credits_back_one_after_the_other() {
        let returns = Returns { accept: Span::from_ns(100), round_trip: Span::from_ns(400), in_turn: true };
        let mut credits = Credits::new(2, 16, returns);
        credits.spend(1, 8, at(0), Span::from_ns(10));
        credits.spend(1, 8, at(10), Span::from_ns(10));
        assert_eq!(credits.sendable(at(510), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(609), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(610), 2, 8, Span::ZERO), 2);
    }

    #[test]
    fn part_of_a_train_that_is_back_brings_its_own_data_credits_back_and_no_others() {
        let mut credits = credits(64, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        assert_eq!(credits.sendable(at(576), 4, 8, Span::ZERO), 2);
        credits.spend(2, 8, at(576), Span::ZERO);
        assert_eq!(credits.sendable(at(651), 4, 8, Span::ZERO), 0);
        assert_eq!(credits.sendable(at(652), 4, 8, Span::ZERO), 1);
    }

    #[test]
    fn a_receiver_that_lets_go_when_the_first_credit_is_due_delays_none_and_hurries_none() {
        let mut credits = credits(2, 16, 424);
        credits.spend(2, 8, at(0), Span::from_ns(76));
        credits.hold(at(0), at(500));
        assert_eq!(credits.sendable(at(575), 2, 8, Span::ZERO), 1);
        assert_eq!(credits.sendable(at(576), 2, 8, Span::ZERO), 2);
    }

    #[test]
    fn what_returns_before_a_receiver_holds_back_or_after_it_has_let_go_stays_as_it_was() {
        let mut credits = credits(4, 32, 424);
        credits.spend(4, 8, at(0), Span::from_ns(76));
        // Due at 500, 576, 652 and 728.
        credits.hold(at(576), at(700));
        for (now, there) in [(500, 1), (576, 1), (652, 1), (699, 1), (700, 3), (727, 3), (728, 4)] {
            assert_eq!(credits.clone().sendable(at(now), 4, 8, Span::ZERO), there, "at {now} ns");
        }
    }

    /// The same receiver, each packet by itself.
    #[derive(Clone, Debug)]
    struct OneByOne {
        headers: u32,
        data: u32,
        /// When each credit returns, and how much data it stands for.
        returning: Vec<(Time, u32)>,
        returns: Returns,
        next_turn: Time,
    }

    impl OneByOne {
        fn new(headers: u32, data: u32, returns: Returns) -> OneByOne {
            OneByOne { headers, data, returning: Vec::new(), returns, next_turn: Time::ZERO }
        }

        /// Headers and data that are there: a receiver gives them back in turn.
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
            let Returns { accept, round_trip, .. } = self.returns;
            for packet in 0..u64::from(packets) {
                let drained = started + each * (packet + 1) + accept;
                let at = (drained + round_trip).max(self.next_turn);
                self.next_turn = at + each.max(accept);
                self.returning.push((at, data_each));
            }
            // The receiver is free again once it has drained the last.
            self.next_turn = self.next_turn - each.max(accept) + accept;
        }

        fn unspend(&mut self, packets: u32, each: Span) {
            self.returning.truncate(self.returning.len() - packets as usize);
            self.next_turn = self.next_turn - each.max(self.returns.accept) * u64::from(packets);
        }

        /// What had returned when the sender asked last is its own.
        fn hold(&mut self, asked_at: Time, from: Time, until: Time) {
            for (at, _) in self.returning.iter_mut().filter(|(at, _)| *at > asked_at && *at >= from) {
                *at = until.max(*at);
            }
        }
    }

    /// What may happen to credits, at a time that has gone on by so many nanoseconds.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Spend {
            packets: u32,
            data_each: u32,
            after_ns: u64,
        },
        Hold {
            from_ns: u64,
            until_ns: u64,
        },
        /// The last train loses all but one of its packets, unless it has lost them already.
        Cut,
    }

    /// Credits beside their model, through the steps of one history.
    struct History {
        number: usize,
        credits: Credits,
        model: OneByOne,
        now: Time,
        asked_at: Time,
        train: u32,
    }

    impl History {
        const EACH: Span = Span::from_ns(40);

        fn new(number: usize, returns: Returns) -> History {
            let (credits, model) = (Credits::new(4, 24, returns), OneByOne::new(4, 24, returns));
            History { number, credits, model, now: Time::ZERO, asked_at: Time::ZERO, train: 1 }
        }

        fn check(&mut self, now: Time, packets: u32, data_each: u32) -> bool {
            let is_granted = self.model.sendable(now, packets, data_each) == packets;
            assert_eq!(self.credits.allow(now, packets, data_each), is_granted, "{} at {now}", self.number);
            is_granted
        }

        fn apply(&mut self, step: Step) {
            match step {
                Step::Spend { packets, data_each, after_ns } => {
                    self.now += Span::from_ns(after_ns);
                    (self.asked_at, self.train) = (self.now, 1);
                    if self.check(self.now, packets, data_each) {
                        self.credits.spend(packets, data_each, self.now, Self::EACH);
                        self.model.spend(packets, data_each, self.now, Self::EACH);
                        self.now += Self::EACH * u64::from(packets);
                        self.train = packets;
                    }
                }
                Step::Cut => {
                    self.credits.unspend(self.train - 1, Self::EACH);
                    self.model.unspend(self.train - 1, Self::EACH);
                    self.train = 1;
                }
                Step::Hold { from_ns, until_ns } => {
                    let (from, until) = (self.now + Span::from_ns(from_ns), self.now + Span::from_ns(until_ns));
                    self.credits.hold(from, until);
                    self.model.hold(self.asked_at, from, until);
                }
            }
        }
    }

    #[test]
    fn all_short_runs_grant_what_each_packet_by_itself_would() {
        const STEPS: [Step; 8] = [
            Step::Spend { packets: 1, data_each: 8, after_ns: 0 },
            Step::Spend { packets: 1, data_each: 1, after_ns: 90 },
            Step::Spend { packets: 2, data_each: 8, after_ns: 30 },
            Step::Spend { packets: 3, data_each: 4, after_ns: 400 },
            Step::Hold { from_ns: 0, until_ns: 120 },
            Step::Hold { from_ns: 90, until_ns: 500 },
            Step::Hold { from_ns: 200, until_ns: 230 },
            Step::Cut,
        ];
        const LENGTH: u32 = 5;
        for accept in [0, 25, 60] {
            let returns = Returns { accept: Span::from_ns(accept), round_trip: Span::from_ns(150), in_turn: true };
            for number in 0..STEPS.len().pow(LENGTH) {
                let mut history = History::new(number, returns);
                let steps = (0..LENGTH).map(|place| STEPS[number / STEPS.len().pow(place) % STEPS.len()]);
                steps.for_each(|step| history.apply(step));
                for later in 0..12 {
                    let now = history.now + Span::from_ns(later * 60);
                    history.check(now, 4, 6);
                    history.check(now, 1, 1);
                }
            }
        }
    }
}
