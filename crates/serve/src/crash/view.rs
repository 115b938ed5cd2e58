//! The bytes of images, one after another. What is settled is laid down once, and what is open is laid over it and taken
//! away again, so that an image costs what is open at its cut.

use std::ops::Range;

use super::image::{Image, Lost};
use super::recording::{Kind, Recording};
use super::timeline::Timeline;

/// The bytes of one image at a time. Cheapest in the order of cuts.
#[derive(Debug)]
pub struct View<'a> {
    recording: &'a Recording,
    timeline: &'a Timeline,
    /// The first requests, as far as they are settled.
    settled: usize,
    base: Vec<u8>,
    /// The base with what is laid over it.
    shown: Vec<u8>,
    laid: Vec<Range<usize>>,
}

impl<'a> View<'a> {
    /// A drive of zeros.
    pub fn new(recording: &'a Recording, timeline: &'a Timeline) -> View<'a> {
        let zeros = || vec![0; recording.capacity_bytes as usize];
        View { recording, timeline, settled: 0, base: zeros(), shown: zeros(), laid: Vec::new() }
    }

    /// The bytes of this image.
    pub fn show(&mut self, image: &Image) -> &[u8] {
        for range in self.laid.drain(..) {
            self.shown[range.clone()].copy_from_slice(&self.base[range]);
        }
        let settled = self.timeline.settled(image.cut);
        if settled < self.settled {
            // Back in time: what has been settled since is not known apart from the rest.
            for range in ranges(self.recording, 0..self.settled) {
                self.base[range.clone()].fill(0);
                self.shown[range].fill(0);
            }
            self.settled = 0;
        }
        for place in self.settled..settled {
            lay(self.recording, place, None, &mut self.base);
            lay(self.recording, place, None, &mut self.shown);
        }
        self.settled = settled;
        for place in settled..self.timeline.arrived(image.cut) {
            let lost = image.lost.get(&place);
            if lost != Some(&Lost::All) {
                lay(self.recording, place, lost, &mut self.shown);
                self.laid.extend(range(self.recording, place));
            }
        }
        &self.shown
    }
}

/// Where a drive may hold anything but zeros after this recording: ranges in ascending order that do not touch.
pub fn footprint(recording: &Recording) -> Vec<Range<u64>> {
    let mut all: Vec<Range<usize>> = ranges(recording, 0..recording.requests.len()).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in all {
        let (start, end) = (range.start as u64, range.end as u64);
        match joined.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => joined.push(start..end),
        }
    }
    joined
}

/// Where these requests have put bytes.
fn ranges(recording: &Recording, places: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let writes = places.filter(|&place| matches!(recording.requests[place].kind, Kind::Write(_)));
    writes.filter_map(|place| range(recording, place))
}

/// What a request changes.
fn range(recording: &Recording, place: usize) -> Option<Range<usize>> {
    let request = &recording.requests[place];
    let start = request.offset as usize;
    request.is_change().then(|| start..start + request.bytes as usize)
}

/// Let a request change `bytes`, as far as it is there.
fn lay(recording: &Recording, place: usize, lost: Option<&Lost>, bytes: &mut [u8]) {
    let Some(range) = range(recording, place) else { return };
    let whole = range.clone();
    match lost {
        None => put(recording, place, whole.clone(), whole, bytes),
        Some(Lost::All) => {}
        Some(Lost::AllBut(there)) => {
            let block = recording.rules.block_bytes as usize;
            for &(first, last) in there {
                let part = whole.start + first as usize * block..whole.start + (last as usize + 1) * block;
                put(recording, place, whole.clone(), part, bytes);
            }
        }
    }
}

/// Let the bytes of `part` be what the request makes of them, all of which is `whole`.
fn put(recording: &Recording, place: usize, whole: Range<usize>, part: Range<usize>, bytes: &mut [u8]) {
    match &recording.requests[place].kind {
        Kind::Write(data) => {
            let from = &data[part.start - whole.start..part.end - whole.start];
            bytes[part].copy_from_slice(from);
        }
        Kind::Zero | Kind::Trim => bytes[part].fill(0),
        Kind::Flush => {}
    }
}
