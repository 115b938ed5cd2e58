//! The event queue: the next events in a short sorted list, the others in a heap behind it.
//!
//! Most events are asked for a few hundred nanoseconds ahead and with few others pending, where inserting into a short
//! list is cheaper than a heap. The heap takes what the list has no room for, so that any number may be pending.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Event;
use crate::time::Time;

/// Entries kept in the list; beyond that the later half moves to the heap.
const NEAR_MAX: usize = 64;
/// Bits of an event's rank that say in which order it went to the heap; its source stands above them.
const SEQUENCE_BITS: u32 = 56;
/// Number in the middle of those, from where they go up and down.
const FIRST_SEQUENCE: u64 = 1 << (SEQUENCE_BITS - 1);
/// Later than whatever is asked for.
const BEYOND: Time = Time::from_ps(u64::MAX);

/// Events by instant. Those of one instant come out in the order in which they went in, or, where sources have ranks, in that of
/// their sources first.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The soonest events, latest first, behind an entry that is never due, and how many they are.
    near: [(Time, Event); 1 + NEAR_MAX],
    near_count: usize,
    /// Sources of the events in the list, where sources have ranks.
    near_sources: [u8; 1 + NEAR_MAX],
    /// All events later than those, and at the same instant those that went in later.
    far: BinaryHeap<QueueEntry>,
    /// Instant of the heap's first event. Where sources have ranks, the beginning of time, so that no event goes to its place
    /// without a look at its source.
    far_from: Time,
    /// Numbers of the event that went to the heap last, and of the one that was moved there from the list last: every event in
    /// the list has come before those of its instant in the heap.
    last_sequence: u64,
    first_sequence: u64,
    is_ranked: bool,
    /// Source of the events that are being asked for.
    source: u8,
}

/// An event in the heap, with its rank among those of its instant: first by source, then by the order of going there.
#[derive(Clone, Copy, Debug)]
struct QueueEntry {
    at: Time,
    rank: u64,
    event: Event,
}

/// Rank of an event among those of its instant.
fn rank(source: u8, sequence: u64) -> u64 {
    u64::from(source) << SEQUENCE_BITS | sequence
}

impl QueueEntry {
    fn source(&self) -> u8 {
        (self.rank >> SEQUENCE_BITS) as u8
    }
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            near: [(BEYOND, Event::default()); 1 + NEAR_MAX],
            near_count: 0,
            near_sources: [0; 1 + NEAR_MAX],
            far: BinaryHeap::new(),
            far_from: Time::NEVER,
            last_sequence: FIRST_SEQUENCE,
            first_sequence: FIRST_SEQUENCE,
            is_ranked: false,
            source: 0,
        }
    }
}

impl Queue {
    /// Gives sources ranks, while there are no events.
    pub(super) fn rank_sources(&mut self) {
        assert!(self.next_at().is_none(), "sources have ranks from the beginning");
        (self.is_ranked, self.far_from) = (true, Time::ZERO);
    }

    /// Source of the event taken last, until another one is added.
    pub(super) fn source(&self) -> u8 {
        self.near_sources[self.near_count + 1]
    }

    /// Lets events be of this source from now on.
    #[inline]
    pub(super) fn ask_for(&mut self, source: u8) {
        self.source = source;
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, at: Time, event: Event) {
        if self.near_count >= NEAR_MAX {
            return self.push_beyond(at, event);
        }
        if at >= self.far_from {
            return self.push_far(at, event);
        }
        self.near_count += 1;
        let mut places = self.near[..=self.near_count].iter_mut().rev();
        let mut place = places.next().expect("the list has room");
        for later in places {
            if later.0 > at {
                break;
            }
            *place = *later;
            place = later;
        }
        *place = (at, event);
    }

    /// Adds an event while the list is full. By itself, so that the usual push knows of its place that it is there.
    #[cold]
    #[inline(never)]
    fn push_beyond(&mut self, at: Time, event: Event) {
        self.spill();
        self.push(at, event);
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, at: Time, event: Event) {
        match self.is_ranked {
            true => self.push_ranked(at, event),
            false => self.push_to_heap(at, event, 0),
        }
    }

    fn push_to_heap(&mut self, at: Time, event: Event, source: u8) {
        self.last_sequence += 1;
        self.far.push(QueueEntry { at, rank: rank(source, self.last_sequence), event });
    }

    /// Adds an event where sources have ranks.
    fn push_ranked(&mut self, at: Time, event: Event) {
        let source = if event.is_of_host() { 0 } else { self.source };
        if self.far.peek().is_some_and(|first| (at, source) >= (first.at, first.source())) {
            return self.push_to_heap(at, event, source);
        }
        let mut place = self.near_count;
        while place > 0 && (self.near[place].0, self.near_sources[place]) <= (at, source) {
            (self.near[place + 1], self.near_sources[place + 1]) = (self.near[place], self.near_sources[place]);
            place -= 1;
        }
        (self.near[place + 1], self.near_sources[place + 1]) = ((at, event), source);
        self.near_count += 1;
    }

    /// Instant of the next event.
    pub(super) fn next_at(&self) -> Option<Time> {
        match self.near_count {
            0 => self.far.peek().map(|entry| entry.at),
            count => Some(self.near[count].0),
        }
    }

    /// True if there is a next event, and it comes no later than `until`.
    #[inline]
    pub(super) fn is_due(&mut self, until: Time) -> bool {
        self.near[self.near_count].0 <= until || self.near_count == 0 && self.is_far_due(until)
    }

    /// True if the list is empty, and the heap has an event that comes no later than `until`.
    #[cold]
    fn is_far_due(&mut self, until: Time) -> bool {
        self.refill();
        self.near[self.near_count].0 <= until
    }

    /// Takes the next event, which [is due](Self::is_due).
    #[inline]
    pub(super) fn take(&mut self) -> (Time, Event) {
        let next = self.near[self.near_count];
        self.near_count -= 1;
        next
    }

    /// Moves the later half of the list to the heap.
    #[cold]
    fn spill(&mut self) {
        // All of them come before the events in the heap: numbers go down from the latest to the soonest.
        for place in 1..=NEAR_MAX / 2 {
            let (at, event) = self.near[place];
            self.first_sequence -= 1;
            self.far.push(QueueEntry { at, rank: rank(self.near_sources[place], self.first_sequence), event });
        }
        self.near.copy_within(1 + NEAR_MAX / 2.., 1);
        self.near_sources.copy_within(1 + NEAR_MAX / 2.., 1);
        self.near_count = NEAR_MAX / 2;
        self.look_far();
    }

    /// Notes the instant from which on events go to the heap.
    fn look_far(&mut self) {
        if !self.is_ranked {
            self.far_from = self.far.peek().map_or(Time::NEVER, |first| first.at);
        }
    }

    /// Fills the empty list from the heap.
    fn refill(&mut self) {
        let count = self.far.len().min(NEAR_MAX / 2);
        for place in (1..=count).rev() {
            let first = self.far.pop().expect("the heap holds as many");
            (self.near[place], self.near_sources[place]) = ((first.at, first.event), first.source());
        }
        self.near_count = count;
        self.look_far();
    }
}

impl Ord for QueueEntry {
    /// Orders events so that the heap, which gives its greatest, gives the earliest.
    fn cmp(&self, other: &QueueEntry) -> Ordering {
        (other.at, other.rank).cmp(&(self.at, self.rank))
    }
}

impl PartialOrd for QueueEntry {
    fn partial_cmp(&self, other: &QueueEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueueEntry {
    fn eq(&self, other: &QueueEntry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueueEntry {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Event of a device, or of the host, with a number.
    fn event(number: u32, is_of_host: bool) -> Event {
        if is_of_host { Event::Fault(number) } else { Event::Arrive(number) }
    }

    proptest! {
        #[test]
        fn events_come_out_by_instant_then_by_source_if_ranked_then_in_order_of_asking(
            is_ranked: bool,
            actions in prop::collection::vec(prop::option::weighted(0.6, (0_u64..50, 0_u8..4, any::<bool>())), 0..1000)
        ) {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_sources();
            }
            let mut model: Vec<(u64, u8, u32)> = Vec::new();
            let mut now = 0;
            for (number, action) in (0..).zip(actions) {
                match action {
                    Some((ahead, source, is_of_host)) => {
                        queue.ask_for(source);
                        queue.push(Time::from_ps(now + ahead), event(number, is_of_host));
                        model.push((now + ahead, if is_ranked && !is_of_host { source } else { 0 }, number));
                    }
                    None => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        let found = queue.is_due(Time::NEVER).then(|| queue.take());
                        let found = found.map(|(at, event)| match event {
                            Event::Fault(number) | Event::Arrive(number) => (at.as_ps(), number),
                            other => panic!("nobody has asked for {other:?}"),
                        });
                        prop_assert_eq!(found, expected.map(|(at, _, number)| (at, number)));
                        if let Some((at, source, _)) = expected {
                            now = at;
                            prop_assert!(!is_ranked || queue.source() == source);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn events_of_one_instant_keep_their_order_when_the_list_is_moved_to_the_heap_twice() {
        for is_ranked in [false, true] {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_sources();
            }
            let late = Time::from_ps(1000);
            let mut push = |at, numbers: std::ops::Range<u32>| numbers.for_each(|it| queue.push(at, Event::Fault(it)));
            // The second half of these is moved to the heap, and behind it the one after; then the first half is moved.
            push(late, 0..66);
            push(Time::from_ps(10), 100..200);
            let mut found = Vec::new();
            while queue.is_due(Time::NEVER) {
                if let (_, Event::Fault(number)) = queue.take() {
                    found.push(number);
                }
            }
            assert!(found.into_iter().eq((100..200).chain(0..66)), "{is_ranked}");
        }
    }

    #[test]
    fn an_event_is_held_back_until_its_instant() {
        for is_ranked in [false, true] {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_sources();
            }
            queue.push(Time::from_ps(10), Event::Driver);
            assert!(!queue.is_due(Time::from_ps(9)));
            assert_eq!(queue.next_at(), Some(Time::from_ps(10)));
            assert!(queue.is_due(Time::from_ps(10)));
            assert_eq!(queue.take(), (Time::from_ps(10), Event::Driver));
            assert!(!queue.is_due(Time::NEVER));
        }
    }
}
