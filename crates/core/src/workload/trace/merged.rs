//! Events of all files of a trace, merged by time.
//!
//! blktrace writes a file for each processor. Within a file events are only nearly in order, and so is the merged
//! sequence; [`ArrivalSorter`] then sorts the requests.

use super::events::{Events, RecordedRequestStep, TraceDeviceNames, TraceEvent};
use super::file::File;
use super::format::Format;
use super::record::RecordedDevice;
use crate::number::index;
use crate::problem::{Problem, Problems, all};
use crate::request::Io;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Merger of the events of several files: always returns the earliest of the files' next events.
pub(super) struct TraceEventMerger {
    pub format: Format,
    files: Vec<Events>,
    /// Next event of each file; none for a file that has ended.
    heads: Vec<Option<TraceEvent>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    problems: VecDeque<Problem>,
    /// Devices of all files. `places` has, for each file, the index in `devices` of each of the file's own devices. A
    /// single file uses its own list.
    devices: TraceDeviceNames,
    places: Vec<Vec<u32>>,
}

impl TraceEventMerger {
    /// Opens the files of a trace, which must all have the same format.
    ///
    /// # Errors
    /// If one of the files cannot be opened, or has another format than the first.
    pub(super) fn open(files: &[File], format: Option<Format>) -> Result<TraceEventMerger, Problems> {
        let opened = all(files.iter().map(|file| Events::open(file, format).map_err(Problems::from)))?;
        let format = opened.first().map_or(Format::Blktrace, |events| events.format);
        if let Some((file, other)) = files.iter().zip(&opened).find(|(_, events)| events.format != format) {
            let (found, allowed) = (format!("{} beside {format}", other.format), "files of one format");
            return Err(Problem::new(&file.name, None, found, allowed).into());
        }
        let count = opened.len();
        let mut merged = TraceEventMerger {
            format,
            files: opened,
            heads: (0..count).map(|_| None).collect(),
            order: BinaryHeap::new(),
            problems: VecDeque::new(),
            devices: TraceDeviceNames::default(),
            places: vec![Vec::new(); count],
        };
        if count > 1 {
            (0..count).for_each(|file| merged.refill_from_file(file));
        }
        Ok(merged)
    }

    /// Returns the earliest next event of any file, or the next problem in a file; none at the end of all files.
    pub(super) fn next(&mut self) -> Option<Result<TraceEvent, Problem>> {
        if let [file] = &mut self.files[..] {
            return file.next();
        }
        if let Some(problem) = self.problems.pop_front() {
            return Some(Err(problem));
        }
        let Reverse((_, file)) = self.order.pop()?;
        let event = self.heads[file].take()?;
        self.refill_from_file(file);
        Some(Ok(event))
    }

    /// Returns the names of the devices that have occurred so far, in the order of their indices.
    pub(super) fn seen_device_names(&self) -> &[String] {
        match &self.files[..] {
            [file] => &file.devices.names,
            _ => &self.devices.names,
        }
    }

    fn refill_from_file(&mut self, file: usize) {
        loop {
            match self.files[file].next() {
                None => return,
                Some(Err(problem)) => self.problems.push_back(problem),
                Some(Ok(mut event)) => match self.place(file, &event) {
                    Err(problem) => self.problems.push_back(problem),
                    Ok(place) => {
                        event.device = place;
                        self.order.push(Reverse((event.at, file)));
                        self.heads[file] = Some(event);
                        return;
                    }
                },
            }
        }
    }

    fn place(&mut self, file: usize, event: &TraceEvent) -> Result<u32, Problem> {
        if matches!(event.step, RecordedRequestStep::Issued(Err(_))) {
            return Ok(0);
        }
        let here = index(event.device);
        let names = &self.files[file].devices.names;
        let places = &mut self.places[file];
        for name in names.iter().take(here + 1).skip(places.len()) {
            let place = self.devices.place(RecordedDevice::Named(name)).map_err(|wrong| {
                let (found, allowed) = wrong.into_parts();
                Problem::new("trace", None, found, allowed)
            })?;
            places.push(place);
        }
        Ok(places[here])
    }
}

/// Measure of disorder of a sequence of times: number of elements that a sorter must hold back to return them in order.
#[derive(Debug)]
pub(super) struct ArrivalDisorder {
    /// Largest element up to each of the last positions, stored at the position modulo the largest number of elements
    /// that can be held back.
    largest: Vec<u64>,
    count: usize,
    most: u64,
    /// Number of elements that a sorter must hold back so far; none if it is more than a sorter may hold back.
    held_back: Option<usize>,
}

impl ArrivalDisorder {
    /// Largest number of elements that a sorter may hold back.
    pub(super) const MAX: usize = 1 << 20;

    pub(super) fn new() -> ArrivalDisorder {
        ArrivalDisorder { largest: Vec::new(), count: 0, most: 0, held_back: Some(0) }
    }

    pub(super) fn add(&mut self, at: u64) {
        if at < self.most {
            self.count_late_element(at);
        }
        self.most = self.most.max(at);
        match self.largest.len() < ArrivalDisorder::MAX {
            true => self.largest.push(self.most),
            false => self.largest[self.count % ArrivalDisorder::MAX] = self.most,
        }
        self.count += 1;
    }

    /// Accounts for an element that comes late: finds how many positions ago the first larger element came.
    fn count_late_element(&mut self, at: u64) {
        let kept = self.largest.len();
        let oldest = self.count - kept;
        let largest = |place: usize| self.largest[(oldest + place) % ArrivalDisorder::MAX];
        let (mut low, mut high) = (0, kept);
        while low < high {
            let middle = (low + high) / 2;
            match largest(middle) > at {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let is_lost = low == 0 && oldest > 0;
        let behind = kept - low;
        self.held_back = self.held_back.filter(|_| !is_lost).map(|most| most.max(behind));
    }

    /// Returns the number of elements that a sorter must hold back; `None` if it is more than a sorter may hold back.
    pub(super) fn held_back(&self) -> Option<usize> {
        self.held_back
    }
}

/// Stable sorter of requests by time, which holds back a fixed number of requests while they come.
#[derive(Debug)]
pub(super) struct ArrivalSorter {
    held_back: usize,
    held: BinaryHeap<Reverse<(u64, u64, HeldTraceRequest)>>,
    count: u64,
}

/// Request that is held back for sorting. All requests compare as equal, because time and sequence number already
/// decide their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldTraceRequest(Io);

impl PartialOrd for HeldTraceRequest {
    fn partial_cmp(&self, other: &HeldTraceRequest) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeldTraceRequest {
    fn cmp(&self, _: &HeldTraceRequest) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl ArrivalSorter {
    pub(super) fn new(held_back: usize) -> ArrivalSorter {
        ArrivalSorter { held_back, held: BinaryHeap::new(), count: 0 }
    }

    /// Returns the next request in order of time, and takes as many further requests from `more` as are to be held
    /// back.
    pub(super) fn next(&mut self, mut more: impl FnMut() -> Option<(u64, Io)>) -> Option<(u64, Io)> {
        if self.held_back == 0 {
            return more();
        }
        while self.held.len() <= self.held_back {
            let Some((at, io)) = more() else { break };
            self.held.push(Reverse((at, self.count, HeldTraceRequest(io))));
            self.count += 1;
        }
        self.held.pop().map(|Reverse((at, _, HeldTraceRequest(io)))| (at, io))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use proptest::prelude::*;

    fn sorted(times: &[u64], held_back: usize) -> Vec<(u64, u64)> {
        let mut sorted = ArrivalSorter::new(held_back);
        let io = |offset| Io { op: Op::Read, offset, bytes: 1 };
        let mut rest = times.iter().enumerate().map(|(place, at)| (*at, io(place as u64)));
        std::iter::from_fn(|| sorted.next(|| rest.next())).map(|(at, io)| (at, io.offset)).collect()
    }

    fn held_back(times: &[u64]) -> Option<usize> {
        let mut disorder = ArrivalDisorder::new();
        times.iter().for_each(|at| disorder.add(*at));
        disorder.held_back()
    }

    #[test]
    fn disorder_equals_the_number_of_held_requests() {
        assert_eq!(held_back(&[1, 1, 2, 3]), Some(0));
        assert_eq!(held_back(&[1, 3, 2]), Some(1));
        assert_eq!(held_back(&[5, 6, 7, 5, 1]), Some(4));
    }

    #[test]
    fn disorder_beyond_the_limit_is_recognised() {
        let mut times = vec![1; ArrivalDisorder::MAX];
        times.insert(0, 2);
        assert_eq!(held_back(&times), Some(ArrivalDisorder::MAX));
        times.insert(0, 2);
        assert_eq!(held_back(&times), None);
    }

    proptest! {
        #[test]
        fn holding_the_measured_disorder_sorts_stably(times in prop::collection::vec(0u64..50, 0..200)) {
            let mut whole: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            whole.sort_by_key(|entry| entry.0);
            let needed = held_back(&times).expect("few");
            prop_assert_eq!(sorted(&times, needed), whole.clone());
            if needed > 0 {
                prop_assert_ne!(sorted(&times, 0), whole);
            }
        }
    }
}
