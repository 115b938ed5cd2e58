//! Window of reads in flight. It holds the reads that the endpoint has accepted and that the host has not followed with
//! its next command, in the order in which their data leaves.
//!
//! The media gives the time at which data can start to flow, and the endpoint knows all data that it sends. So it knows
//! when the data of each read will have left. A host that runs in a loop sends one command after each of these times.

use super::predict::ReadSizeClass;
use crate::number::{index, short_length};
use crate::time::{Span, Time};

/// Largest number of a DC Express endpoint's reads in flight in its window: more than come and go within a round trip.
const READS_MAX: usize = 256;
/// Number of queue reads that fail to find the command after a read, until that command is no longer expected.
const MISSES_MAX: u8 = 3;

/// Read in the window: its data is about to leave, leaves or has left the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowRead {
    pub queue: u16,
    pub size: ReadSizeClass,
    /// Earliest time at which the read's data can flow.
    pub start: Time,
    /// Time that the read's data takes on the link.
    pub service: Span,
    /// Time at which the read's data has left, after data of earlier reads.
    pub end: Time,
    /// Number of queue reads that were expected to find the host's command after this read, and did not.
    pub misses: u8,
}

/// Window of all reads in flight, in the order of `start` (the earliest time at which their data can flow).
#[derive(Clone, Debug, Default)]
pub(super) struct InFlightReadWindow {
    sent: Vec<WindowRead>,
    /// Number of changes to the window of reads in flight since the start of the run. A plan for queue reads is stale
    /// once this number has changed.
    pub changes: u32,
}

impl InFlightReadWindow {
    /// Adds a read whose data can flow from `start` on and takes `service` on the link.
    pub(super) fn accept(&mut self, queue: u16, size: ReadSizeClass, start: Time, service: Span) {
        if self.sent.len() == READS_MAX {
            remove_at(&mut self.sent, 0);
        }
        self.changes = self.changes.wrapping_add(1);
        let end = start.max(self.until()) + service;
        match self.sent.last() {
            Some(last) if last.start > start => self.insert(queue, size, start, service),
            // Build the element in place. Copying a structure that was just written would stall the processor.
            _ => self.sent.push(WindowRead { queue, size, start, service, end, misses: 0 }),
        }
    }

    /// Inserts a read before those whose data starts later, and recomputes when the data of each leaves.
    #[inline(never)]
    fn insert(&mut self, queue: u16, size: ReadSizeClass, start: Time, service: Span) {
        let place = self.sent.partition_point(|other| other.start <= start);
        self.sent.insert(place, WindowRead { queue, size, start, service, end: start, misses: 0 });
        self.recompute_departures(place);
    }

    /// Delays the data that is on the wire at `now` by a packet of length `time` that is sent between its packets.
    pub(super) fn cut_in(&mut self, now: Time, time: Span) {
        if self.until() <= now {
            return;
        }
        let place = self.sent.partition_point(|sent| sent.end <= now);
        if let Some(sent) = self.sent.get_mut(place).filter(|sent| sent.start <= now) {
            sent.service += time;
            self.recompute_departures(place);
        }
    }

    /// Corrects the end of the newest read whose data could start by `now`: the link will have sent all data at `end`.
    pub(super) fn hand_over(&mut self, now: Time, end: Time) {
        let Some(place) = self.sent.iter().rposition(|sent| sent.start <= now) else { return };
        let free_at = place.checked_sub(1).map_or(Time::ZERO, |before| self.sent[before].end);
        let sent = &mut self.sent[place];
        sent.service = end.since(sent.start.max(free_at));
        self.recompute_departures(place);
    }

    /// Recomputes when the data of each read leaves, from position `from` on: data leaves in the order in which it can
    /// start.
    #[inline(never)]
    fn recompute_departures(&mut self, from: usize) {
        let mut free_at = from.checked_sub(1).map_or(Time::ZERO, |before| self.sent[before].end);
        for sent in &mut self.sent[from..] {
            let end = sent.start.max(free_at) + sent.service;
            self.changes = self.changes.wrapping_add(u32::from(end != sent.end));
            (sent.end, free_at) = (end, end);
        }
    }

    /// Returns the time at which the data of all reads in flight will have left the device.
    pub(super) fn until(&self) -> Time {
        self.sent.last().map_or(Time::ZERO, |sent| sent.end)
    }

    /// Removes and returns the oldest read of a queue, because the host's next command has been found. Returns none if
    /// the data of that read leaves later than `latest`, or if there is no read.
    pub(super) fn answer(&mut self, queue: u16, latest: Time) -> Option<WindowRead> {
        let place = self.sent.iter().position(|sent| sent.queue == queue)?;
        if self.sent[place].end > latest {
            return None;
        }
        self.changes = self.changes.wrapping_add(1);
        Some(take(&mut self.sent, place))
    }

    /// Counts a miss for the oldest `count` reads of a queue: the host's command after each should have been found by
    /// now. Removes and returns a read with too many misses, whose next command is no longer expected.
    #[inline(never)]
    pub(super) fn miss(&mut self, queue: u16, count: u32) -> Option<WindowRead> {
        for sent in self.sent.iter_mut().filter(|sent| sent.queue == queue).take(index(count)) {
            sent.misses += 1;
            self.changes = self.changes.wrapping_add(1);
        }
        let place = self.sent.iter().position(|sent| sent.misses >= MISSES_MAX)?;
        Some(take(&mut self.sent, place))
    }

    /// Returns the number of reads of a queue whose next command at least one queue read has failed to find.
    pub(super) fn missed(&self, queue: u16) -> u32 {
        match &self.sent[..] {
            [] => 0,
            [only] => u32::from(only.misses > 0 && only.queue == queue),
            _ => self.missed_of_several(queue),
        }
    }

    #[inline(never)]
    fn missed_of_several(&self, queue: u16) -> u32 {
        short_length(self.of(queue).filter(|sent| sent.misses > 0).count())
    }

    /// Returns the reads of a queue whose next command is expected and not overdue, oldest first, without the `passed`
    /// oldest.
    pub(super) fn expected(&self, queue: u16, passed: u32) -> impl Iterator<Item = &WindowRead> {
        self.of(queue).filter(|sent| sent.misses == 0).skip(index(passed))
    }

    /// Returns the first read that [`InFlightReadWindow::expected`] would return. At depth 1, the window holds at most one
    /// read, and no search is needed.
    #[inline(always)]
    pub(super) fn next_expected_read(&self, queue: u16, passed: u32) -> Option<&WindowRead> {
        match &self.sent[..] {
            [] => None,
            [only] => Some(only).filter(|only| passed == 0 && only.misses == 0 && only.queue == queue),
            _ => self.next_of_several(queue, passed),
        }
    }

    /// True if the window holds more than one read in flight.
    pub(super) fn has_several_reads(&self) -> bool {
        self.sent.len() > 1
    }

    #[inline(never)]
    fn next_of_several(&self, queue: u16, passed: u32) -> Option<&WindowRead> {
        self.expected(queue, passed).next()
    }

    /// Returns the time at which the data of all reads of a queue will have left.
    pub(super) fn data_departed_at(&self, queue: u16) -> Time {
        self.sent.iter().rev().find(|sent| sent.queue == queue).map_or(Time::ZERO, |sent| sent.end)
    }

    /// Returns all reads in flight of a queue, in the order of `start` (the earliest time at which their data can
    /// flow).
    fn of(&self, queue: u16) -> impl Iterator<Item = &WindowRead> {
        self.sent.iter().filter(move |sent| sent.queue == queue)
    }
}

/// Removes and returns the entry at `place` of a short list. Fast if it is the last entry, as nothing has to be moved.
#[inline]
pub(super) fn take<T>(list: &mut Vec<T>, place: usize) -> T {
    if place + 1 == list.len()
        && let Some(last) = list.pop()
    {
        return last;
    }
    remove_at(list, place)
}

#[cold]
#[inline(never)]
fn remove_at<T>(list: &mut Vec<T>, place: usize) -> T {
    list.remove(place)
}
