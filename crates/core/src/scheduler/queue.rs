//! Queue of events: the next events in a short sorted list, the others in a heap behind it.
//!
//! Most events are scheduled a few hundred nanoseconds ahead and with few others pending, where inserting into a short
//! list is cheaper than a heap. The heap takes what the list has no room for, so that any number may be pending.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Event;
use crate::number::low_u8;
use crate::time::Time;

/// Largest number of events in the sorted list; beyond that, the later half moves to the heap.
const NEAR_MAX: usize = 64;
/// Number of low bits of an event's rank that hold the order of entering the heap; the event's source is above them.
const SEQUENCE_BITS: u32 = 56;
/// First sequence number in the heap, in the middle of the range: numbers go up for new events, and down for those
/// moved from the list.
const FIRST_SEQUENCE: u64 = 1 << (SEQUENCE_BITS - 1);
/// Instant later than any that an event can be scheduled for.
const BEYOND: Time = Time::from_ps(u64::MAX);

/// Queue of events by instant. Events of one instant come out in the order of insertion, or, where sources are ranked,
/// by source first.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Sorted list of the soonest events, the latest first, behind an entry that is never due; `near_count` is their
    /// number.
    near: [(Time, Event); 1 + NEAR_MAX],
    near_count: usize,
    /// Source (device, switch or host) of each event in the sorted list; used only where sources are ranked.
    near_sources: [u8; 1 + NEAR_MAX],
    /// Heap of all later events, which come out after those in the list.
    far: BinaryHeap<QueueEntry>,
    /// Instant of the heap's first event, from which on new events go to the heap. Where sources are ranked,
    /// `Time::ZERO`, so that each insertion compares the sources.
    far_from: Time,
    /// Sequence number of the event that entered the heap last; `first_sequence` is that of the event moved there from
    /// the list last. Moved events get lower numbers, as they come out before events of their instant in the heap.
    last_sequence: u64,
    first_sequence: u64,
    is_ranked: bool,
    /// Source (device, switch or host) of the events that are being scheduled.
    source: u8,
}

/// Event in the heap, with its rank among the events of its instant: by source, then by the order of entering the heap.
#[derive(Clone, Copy, Debug)]
struct QueueEntry {
    at: Time,
    rank: u64,
    event: Event,
}

/// Returns the rank of an event among those of its instant: by source, then by sequence number.
fn rank(source: u8, sequence: u64) -> u64 {
    u64::from(source) << SEQUENCE_BITS | sequence
}

impl QueueEntry {
    fn source(&self) -> u8 {
        low_u8(self.rank >> SEQUENCE_BITS)
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
    /// Ranks the events of one instant by their source from now on; the queue must be empty.
    pub(super) fn rank_event_sources(&mut self) {
        assert!(self.next_at().is_none(), "sources have ranks from the beginning");
        (self.is_ranked, self.far_from) = (true, Time::ZERO);
    }

    /// Returns the source (number of a device, [`SWITCHES`](super::SWITCHES), or 0 for the host) of the event taken
    /// last. Valid until another event is added.
    pub(super) fn source(&self) -> u8 {
        self.near_sources[self.near_count + 1]
    }

    /// Sets the source of the events that are added from now on: the number of a device, or
    /// [`SWITCHES`](super::SWITCHES).
    #[inline]
    pub(super) fn set_source(&mut self, source: u8) {
        self.source = source;
    }

    /// Adds an event that happens at the instant `at`.
    #[inline]
    pub(super) fn push(&mut self, at: Time, event: Event) {
        if self.near_count >= NEAR_MAX {
            return self.push_after_spill(at, event);
        }
        if at >= self.far_from {
            return self.push_behind_list(at, event);
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

    /// Adds an event while the list is full, by moving half of the list to the heap first. Not inlined, so that the
    /// usual path needs no bounds check.
    #[cold]
    #[inline(never)]
    fn push_after_spill(&mut self, at: Time, event: Event) {
        self.spill_later_half();
        self.push(at, event);
    }

    #[cold]
    #[inline(never)]
    fn push_behind_list(&mut self, at: Time, event: Event) {
        match self.is_ranked {
            true => self.push_by_source_rank(at, event),
            false => self.push_to_heap(at, event, 0),
        }
    }

    fn push_to_heap(&mut self, at: Time, event: Event, source: u8) {
        self.last_sequence += 1;
        self.far.push(QueueEntry { at, rank: rank(source, self.last_sequence), event });
    }

    /// Adds an event where sources are ranked: to the heap, or to its place in the sorted list.
    fn push_by_source_rank(&mut self, at: Time, event: Event) {
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

    /// Returns the instant of the next event; `None` if the queue is empty.
    pub(super) fn next_at(&self) -> Option<Time> {
        match self.near_count {
            0 => self.far.peek().map(|entry| entry.at),
            count => Some(self.near[count].0),
        }
    }

    /// True if an event is pending that happens no later than `until`.
    #[inline]
    pub(super) fn is_due(&mut self, until: Time) -> bool {
        self.near[self.near_count].0 <= until || self.near_count == 0 && self.is_far_due(until)
    }

    /// Fills the empty list from the heap. True if its next event comes no later than `until`.
    #[cold]
    fn is_far_due(&mut self, until: Time) -> bool {
        self.refill_from_heap();
        self.near[self.near_count].0 <= until
    }

    /// Removes and returns the next event, which [is due](Self::is_due), with its instant.
    #[inline]
    pub(super) fn take(&mut self) -> (Time, Event) {
        let next = self.near[self.near_count];
        self.near_count -= 1;
        next
    }

    /// Moves the later half of the sorted list to the heap.
    #[cold]
    fn spill_later_half(&mut self) {
        // These events must precede equal instants in the heap, so number them downward, from the latest to the
        // soonest.
        for place in 1..=NEAR_MAX / 2 {
            let (at, event) = self.near[place];
            self.first_sequence -= 1;
            self.far.push(QueueEntry { at, rank: rank(self.near_sources[place], self.first_sequence), event });
        }
        self.near.copy_within(1 + NEAR_MAX / 2.., 1);
        self.near_sources.copy_within(1 + NEAR_MAX / 2.., 1);
        self.near_count = NEAR_MAX / 2;
        self.update_heap_bound();
    }

    /// Updates the instant from which on new events go to the heap.
    fn update_heap_bound(&mut self) {
        if !self.is_ranked {
            self.far_from = self.far.peek().map_or(Time::NEVER, |first| first.at);
        }
    }

    /// Fills the empty list with the first events of the heap.
    fn refill_from_heap(&mut self) {
        let count = self.far.len().min(NEAR_MAX / 2);
        for place in (1..=count).rev() {
            let first = self.far.pop().expect("the heap holds as many");
            (self.near[place], self.near_sources[place]) = ((first.at, first.event), first.source());
        }
        self.near_count = count;
        self.update_heap_bound();
    }
}

impl Ord for QueueEntry {
    /// Orders events so that the heap, which returns its greatest entry, returns the earliest event.
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

    /// Returns an event of a device, or of the host, with a number.
    fn event(number: u32, is_of_host: bool) -> Event {
        if is_of_host { Event::Fault(number) } else { Event::Arrive(number) }
    }

    proptest! {
        #[test]
        fn events_are_ordered_by_instant_source_and_scheduling(
            is_ranked: bool,
            actions in prop::collection::vec(prop::option::weighted(0.6, (0_u64..50, 0_u8..4, any::<bool>())), 0..1000)
        ) {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_event_sources();
            }
            let mut model: Vec<(u64, u8, u32)> = Vec::new();
            let mut now = 0;
            for (number, action) in (0..).zip(actions) {
                match action {
                    Some((ahead, source, is_of_host)) => {
                        queue.set_source(source);
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
    fn events_of_one_instant_keep_their_order_through_the_heap() {
        for is_ranked in [false, true] {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_event_sources();
            }
            let late = Time::from_ps(1000);
            let mut push = |at, numbers: std::ops::Range<u32>| numbers.for_each(|it| queue.push(at, Event::Fault(it)));
            // The list overflows twice: first its later half moves to the heap, then the next half behind it, and
            // finally the first half.
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
    fn event_is_taken_at_its_instant() {
        for is_ranked in [false, true] {
            let mut queue = Queue::default();
            if is_ranked {
                queue.rank_event_sources();
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
