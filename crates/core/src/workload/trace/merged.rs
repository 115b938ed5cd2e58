//! The events of all files of a trace, in order of time.
//!
//! blktrace writes a file for each processor. Within a file events are nearly in order, and so they come out of here: what
//! puts the requests in order for good is [`Sorted`].

use super::events::{Devices, Events, TraceEvent, TraceStep};
use super::file::File;
use super::format::Format;
use super::record::DeviceName;
use crate::problem::{Problem, Problems, all};
use crate::request::Io;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Events of several files, always the earliest that any of them has next.
pub(super) struct Merged {
    pub format: Format,
    files: Vec<Events>,
    /// Next event of each file.
    heads: Vec<Option<TraceEvent>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    problems: VecDeque<Problem>,
    /// Devices of all files, and their places by file and place there. A single file keeps its own.
    devices: Devices,
    places: Vec<Vec<u32>>,
}

impl Merged {
    /// Opens the files of a trace, which all have one format.
    ///
    /// # Errors
    /// If one of them cannot be opened, or has another format than the first.
    pub(super) fn open(files: &[File], format: Option<Format>) -> Result<Merged, Problems> {
        let opened = all(files.iter().map(|file| Events::open(file, format).map_err(Problems::from)))?;
        let format = opened.first().map_or(Format::Blktrace, |events| events.format);
        if let Some((file, other)) = files.iter().zip(&opened).find(|(_, events)| events.format != format) {
            let (found, allowed) = (format!("{} beside {format}", other.format), "files of one format");
            return Err(Problem::new(&file.name, None, found, allowed).into());
        }
        let count = opened.len();
        let mut merged = Merged {
            format,
            files: opened,
            heads: (0..count).map(|_| None).collect(),
            order: BinaryHeap::new(),
            problems: VecDeque::new(),
            devices: Devices::default(),
            places: vec![Vec::new(); count],
        };
        if count > 1 {
            (0..count).for_each(|file| merged.refill(file));
        }
        Ok(merged)
    }

    /// The next event, or what is wrong somewhere; none at the end.
    pub(super) fn next(&mut self) -> Option<Result<TraceEvent, Problem>> {
        if let [file] = &mut self.files[..] {
            return file.next();
        }
        if let Some(problem) = self.problems.pop_front() {
            return Some(Err(problem));
        }
        let Reverse((_, file)) = self.order.pop()?;
        let event = self.heads[file].take()?;
        self.refill(file);
        Some(Ok(event))
    }

    /// Names of the devices so far.
    pub(super) fn device_names(&self) -> &[String] {
        match &self.files[..] {
            [file] => &file.devices.names,
            _ => &self.devices.names,
        }
    }

    fn refill(&mut self, file: usize) {
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
        if matches!(event.step, TraceStep::Issued(Err(_))) {
            return Ok(0);
        }
        let here = event.device as usize;
        let names = &self.files[file].devices.names;
        let places = &mut self.places[file];
        for name in names.iter().take(here + 1).skip(places.len()) {
            let place = self.devices.place(DeviceName::Named(name)).map_err(|wrong| {
                let (found, allowed) = wrong.into_parts();
                Problem::new("trace", None, found, allowed)
            })?;
            places.push(place);
        }
        Ok(places[here])
    }
}

/// Measure of disorder: number of elements that have to be held back to sort a sequence as it comes.
#[derive(Debug)]
pub(super) struct Disorder {
    /// The largest element up to each of the last positions, at the position modulo the length.
    largest: Vec<u64>,
    count: usize,
    most: u64,
    /// Elements to hold back; none if more than can be.
    held_back: Option<usize>,
}

impl Disorder {
    /// Most elements that are held back.
    pub(super) const MAX: usize = 1 << 20;

    pub(super) fn new() -> Disorder {
        Disorder { largest: Vec::new(), count: 0, most: 0, held_back: Some(0) }
    }

    pub(super) fn add(&mut self, at: u64) {
        if at < self.most {
            self.late(at);
        }
        self.most = self.most.max(at);
        match self.largest.len() < Disorder::MAX {
            true => self.largest.push(self.most),
            false => self.largest[self.count % Disorder::MAX] = self.most,
        }
        self.count += 1;
    }

    /// Records how far back the first element is after which this one should have come.
    fn late(&mut self, at: u64) {
        let kept = self.largest.len();
        let oldest = self.count - kept;
        let largest = |place: usize| self.largest[(oldest + place) % Disorder::MAX];
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

    /// Number of elements that have to be held back; `None` if there are too many.
    pub(super) fn held_back(&self) -> Option<usize> {
        self.held_back
    }
}

/// Sorts requests by time as they come, stably, by holding back so many.
#[derive(Debug)]
pub(super) struct Sorted {
    held_back: usize,
    held: BinaryHeap<Reverse<(u64, u64, Held)>>,
    count: u64,
}

/// A request that is held back. It is never what decides the order: numbers are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held(Io);

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, _: &Held) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Sorted {
    pub(super) fn new(held_back: usize) -> Sorted {
        Sorted { held_back, held: BinaryHeap::new(), count: 0 }
    }

    /// Takes the next request of `more`, and gives the next in order.
    pub(super) fn next(&mut self, mut more: impl FnMut() -> Option<(u64, Io)>) -> Option<(u64, Io)> {
        if self.held_back == 0 {
            return more();
        }
        while self.held.len() <= self.held_back {
            let Some((at, io)) = more() else { break };
            self.held.push(Reverse((at, self.count, Held(io))));
            self.count += 1;
        }
        self.held.pop().map(|Reverse((at, _, Held(io)))| (at, io))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use proptest::prelude::*;

    fn sorted(times: &[u64], held_back: usize) -> Vec<(u64, u64)> {
        let mut sorted = Sorted::new(held_back);
        let io = |offset| Io { op: Op::Read, offset, bytes: 1 };
        let mut rest = times.iter().enumerate().map(|(place, at)| (*at, io(place as u64)));
        std::iter::from_fn(|| sorted.next(|| rest.next())).map(|(at, io)| (at, io.offset)).collect()
    }

    fn held_back(times: &[u64]) -> Option<usize> {
        let mut disorder = Disorder::new();
        times.iter().for_each(|at| disorder.add(*at));
        disorder.held_back()
    }

    #[test]
    fn disorder_is_how_many_have_to_be_held_back() {
        assert_eq!(held_back(&[1, 1, 2, 3]), Some(0));
        assert_eq!(held_back(&[1, 3, 2]), Some(1));
        assert_eq!(held_back(&[5, 6, 7, 5, 1]), Some(4));
    }

    #[test]
    fn more_disorder_than_can_be_held_back_is_known_as_such() {
        let mut times = vec![1; Disorder::MAX];
        times.insert(0, 2);
        assert_eq!(held_back(&times), Some(Disorder::MAX));
        times.insert(0, 2);
        assert_eq!(held_back(&times), None);
    }

    proptest! {
        #[test]
        fn holding_back_what_the_disorder_says_sorts_stably(times in prop::collection::vec(0u64..50, 0..200)) {
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
