//! The event queue: the next events in a short sorted list, the others in a heap behind it.
//!
//! Most events are asked for a few hundred nanoseconds ahead and with few others pending, where inserting into a short
//! list is cheaper than a heap. The heap takes what the list has no room for, so that any number may be pending.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Entries kept in the list; beyond that the later half moves to the heap.
const NEAR_MAX: usize = 64;
/// Later than whatever is asked for.
const BEYOND: Time = Time::from_ps(u64::MAX);

/// Events by instant; those of one instant come out in the order in which they went in.
#[derive(Clone, Debug)]
pub(super) struct Queue<E> {
    /// The soonest events, latest first, behind an entry that is never due, and how many they are.
    near: [(Time, E); 1 + NEAR_MAX],
    near_count: usize,
    /// All events later than those, and at the same instant those that went in later.
    far: BinaryHeap<Entry<E>>,
    /// Instant of the heap's first event.
    far_from: Time,
    sequence: u64,
}

/// An event in the heap, with its number in the order of going there.
#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E: Copy + Default> Default for Queue<E> {
    fn default() -> Queue<E> {
        let near = [(BEYOND, E::default()); 1 + NEAR_MAX];
        Queue { near, near_count: 0, far: BinaryHeap::new(), far_from: Time::NEVER, sequence: 0 }
    }
}

impl<E: Copy> Queue<E> {
    /// Add an event.
    #[inline]
    pub(super) fn push(&mut self, at: Time, event: E) {
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

    /// The same with a full list. By itself, so that the usual push knows of its place that it is there.
    #[cold]
    #[inline(never)]
    fn push_beyond(&mut self, at: Time, event: E) {
        self.spill();
        self.push(at, event);
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, at: Time, event: E) {
        self.sequence += 1;
        self.far.push(Entry { at, sequence: self.sequence, event });
    }

    /// Instant of the next event.
    pub(super) fn next_at(&self) -> Option<Time> {
        match self.near_count {
            0 => self.far.peek().map(|entry| entry.at),
            count => Some(self.near[count].0),
        }
    }

    /// Whether there is a next event, and it comes no later than `until`.
    #[inline]
    pub(super) fn is_due(&mut self, until: Time) -> bool {
        self.near[self.near_count].0 <= until || self.near_count == 0 && self.is_far_due(until)
    }

    /// The same with an empty list.
    #[cold]
    fn is_far_due(&mut self, until: Time) -> bool {
        self.refill();
        self.near[self.near_count].0 <= until
    }

    /// The next event, which [is due](Self::is_due).
    #[inline]
    pub(super) fn take(&mut self) -> (Time, E) {
        let next = self.near[self.near_count];
        self.near_count -= 1;
        next
    }

    /// Move the later half of the list to the heap.
    #[cold]
    fn spill(&mut self) {
        // All of them come before what the heap holds; among themselves they go in order.
        for place in (1..=NEAR_MAX / 2).rev() {
            let (at, event) = self.near[place];
            self.push_far(at, event);
        }
        self.near.copy_within(1 + NEAR_MAX / 2.., 1);
        self.near_count = NEAR_MAX / 2;
        self.far_from = self.far.peek().map_or(Time::NEVER, |first| first.at);
    }

    /// Fill the empty list from the heap.
    fn refill(&mut self) {
        let count = self.far.len().min(NEAR_MAX / 2);
        for place in (1..=count).rev() {
            let first = self.far.pop().expect("the heap holds as many");
            self.near[place] = (first.at, first.event);
        }
        self.near_count = count;
        self.far_from = self.far.peek().map_or(Time::NEVER, |first| first.at);
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Entry<E>) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_out_by_instant_and_then_in_order_of_asking(
            actions in prop::collection::vec(prop::option::weighted(0.6, 0_u64..50), 0..1000)
        ) {
            let mut queue = Queue::default();
            let mut model: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, action) in actions.into_iter().enumerate() {
                match action {
                    Some(ahead) => {
                        queue.push(Time::from_ps(now + ahead), number);
                        model.push((now + ahead, number));
                    }
                    None => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        let found = queue.is_due(Time::NEVER).then(|| queue.take());
                        let found = found.map(|(at, event)| (at.as_ps(), event));
                        prop_assert_eq!(found, expected);
                        now = expected.map_or(now, |(at, _)| at);
                    }
                }
            }
        }
    }

    #[test]
    fn an_event_is_held_back_until_its_instant() {
        let mut queue = Queue::default();
        queue.push(Time::from_ps(10), ());
        assert!(!queue.is_due(Time::from_ps(9)));
        assert_eq!(queue.next_at(), Some(Time::from_ps(10)));
        assert!(queue.is_due(Time::from_ps(10)));
        assert_eq!(queue.take(), (Time::from_ps(10), ()));
        assert!(!queue.is_due(Time::NEVER));
    }
}
