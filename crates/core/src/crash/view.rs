//! Contents of the drive's blocks in one crash image (state after a power cut) after another.
//!
//! Settled requests are applied once. Open requests are applied on top and removed again, so that the cost of an image
//! depends only on the requests open at its cut. Data stays in the recording: each block refers to the request that its
//! bytes come from, so that images are compared by a few bytes per block.

use crate::number::{index, length, wide_index};
use std::ops::Range;

use super::image::{Image, RequestLoss};
use super::recording::{RecordedOp, Recording};
use super::timeline::CutTimeline;

/// Zeros to compare with the data of blocks that were never written.
const ZEROS: [u8; 4096] = [0; 4096];

/// Source of a block's bytes: the write request in the recording, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockContents(u32);

impl BlockContents {
    /// Source of a block of zeros: never written, or deallocated or zeroed since.
    pub const ZEROS: BlockContents = BlockContents(0);

    /// Returns the block source for request `place` of the recording: the request itself if it is a write, otherwise
    /// zeros.
    fn of(recording: &Recording, place: usize) -> BlockContents {
        match recording.requests[place].kind {
            RecordedOp::Write(_) => {
                BlockContents(u32::try_from(place + 1).expect("a recording has fewer requests than bytes"))
            }
            RecordedOp::Zero | RecordedOp::Trim | RecordedOp::Reset | RecordedOp::Finish | RecordedOp::Flush => {
                BlockContents::ZEROS
            }
        }
    }

    /// Returns the bytes that this block source (a recorded write, or zeros) holds for a byte range of the drive.
    /// `None` if they are zeros.
    fn bytes(self, recording: &Recording, range: Range<u64>) -> Option<&[u8]> {
        let place = self.0.checked_sub(1)?;
        let request = &recording.requests[index(place)];
        let RecordedOp::Write(data) = &request.kind else { return None };
        Some(&data[wide_index(range.start - request.offset)..wide_index(range.end - request.offset)])
    }
}

/// Contents of the drive in one crash image at a time. Images are cheapest in the order of their cuts.
#[derive(Debug)]
pub struct ImageView<'a> {
    recording: &'a Recording,
    timeline: &'a CutTimeline,
    /// Number of first requests that are applied to `base` because they are settled: nothing before them can be lost.
    settled: usize,
    base: Vec<BlockContents>,
    /// Source of each block in the shown crash image: `base` with the open requests applied on top.
    shown: Vec<BlockContents>,
    laid: Vec<Range<usize>>,
}

/// Contents of all blocks of the drive in one crash image, as references into the recording.
#[derive(Clone, Copy, Debug)]
pub struct ImageBlocks<'a> {
    /// Recording of the drive's requests, which holds the data of the writes.
    pub recording: &'a Recording,
    /// Source of the bytes of each block of the drive: a write request, or zeros.
    pub sources: &'a [BlockContents],
}

impl<'a> ImageView<'a> {
    /// Returns a view of crash images, which shows a drive of zeros at first.
    pub fn new(recording: &'a Recording, timeline: &'a CutTimeline) -> ImageView<'a> {
        let zeros = || vec![BlockContents::ZEROS; recording.blocks()];
        ImageView { recording, timeline, settled: 0, base: zeros(), shown: zeros(), laid: Vec::new() }
    }

    /// Returns the contents of the drive's blocks in this crash image.
    pub fn show(&mut self, image: &Image) -> ImageBlocks<'_> {
        for range in self.laid.drain(..) {
            self.shown[range.clone()].copy_from_slice(&self.base[range]);
        }
        let settled = self.timeline.settled(image.cut);
        if settled < self.settled {
            // The new cut is earlier than the previous one. Overwritten requests cannot be undone one by one, so start
            // again from zeros.
            for range in ranges(self.recording, 0..self.settled) {
                self.base[range.clone()].fill(BlockContents::ZEROS);
                self.shown[range].fill(BlockContents::ZEROS);
            }
            self.settled = 0;
        }
        for place in self.settled..settled {
            apply_surviving_pieces(self.recording, place, None, &mut self.base);
            apply_surviving_pieces(self.recording, place, None, &mut self.shown);
        }
        self.settled = settled;
        let mut lost = image.lost.range(settled..).peekable();
        for place in settled..self.timeline.arrived(image.cut) {
            let lost = lost.next_if(|(lost, _)| **lost == place).map(|(_, lost)| lost);
            if lost != Some(&RequestLoss::All) {
                apply_surviving_pieces(self.recording, place, lost, &mut self.shown);
                self.laid.extend(range(self.recording, place));
            }
        }
        ImageBlocks { recording: self.recording, sources: &self.shown }
    }
}

impl ImageBlocks<'_> {
    /// Appends the bytes that the crash image has in a byte range of the drive to `bytes`.
    pub fn append(&self, range: Range<u64>, bytes: &mut Vec<u8>) {
        for (length, data) in self.parts(range) {
            match data {
                Some(data) => bytes.extend_from_slice(data),
                None => bytes.resize(bytes.len() + length, 0),
            }
        }
    }

    /// True if the crash image has exactly these bytes on the drive from byte `start` on.
    pub fn has_bytes(&self, start: u64, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        self.parts(start..start + length(bytes.len())).all(|(length, data)| {
            let (found, others) = rest.split_at(length);
            rest = others;
            match data {
                Some(data) => found == data,
                None => found.chunks(ZEROS.len()).all(|found| found == &ZEROS[..found.len()]),
            }
        })
    }

    /// Splits a byte range of the drive into parts, each with bytes of one recorded write or zeros. Returns the length
    /// of each part and its bytes; `None` for zeros.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (usize, Option<&[u8]>)> {
        let (block_bytes, mut at) = (u64::from(self.recording.rules.block_bytes), range.start);
        std::iter::from_fn(move || {
            if at == range.end {
                return None;
            }
            let rest = &self.sources[wide_index(at / block_bytes)..wide_index(range.end.div_ceil(block_bytes))];
            let source = rest[0];
            let blocks = length(rest.iter().take_while(|other| **other == source).count());
            let end = range.end.min((at / block_bytes + blocks) * block_bytes);
            let part = (wide_index(end - at), source.bytes(self.recording, at..end));
            at = end;
            Some(part)
        })
    }

    /// Returns ranges of at most `longest` blocks within `footprint` whose sources differ from those in `held`. Up to
    /// `gap` equal blocks between two differing ones join their range: writing them again costs less than another call.
    pub fn differences(
        &self,
        held: &[BlockContents],
        footprint: &[Range<usize>],
        gap: usize,
        longest: usize,
    ) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for block in footprint.iter().cloned().flatten() {
            if held[block] == self.sources[block] {
                continue;
            }
            match found.last_mut() {
                Some(last) if block - last.end <= gap && block - last.start < longest => last.end = block + 1,
                _ => found.push(block..block + 1),
            }
        }
        found
    }
}

/// Returns the blocks that any write of the recording covers, as ascending ranges with gaps between them. All other
/// blocks are always zeros.
pub fn footprint(recording: &Recording) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = ranges(recording, 0..recording.requests.len()).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the block range of each write among the requests at these indices of the recording.
fn ranges(recording: &Recording, places: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let writes = places.filter(|&place| matches!(recording.requests[place].kind, RecordedOp::Write(_)));
    writes.filter_map(|place| range(recording, place))
}

/// Returns the blocks whose data a request changes. `None` for a flush or a zone finish.
fn range(recording: &Recording, place: usize) -> Option<Range<usize>> {
    let (request, block) = (&recording.requests[place], recording.rules.block_bytes);
    let start = wide_index(request.offset / u64::from(block));
    let changes_bytes = request.is_change() && request.kind != RecordedOp::Finish;
    changes_bytes.then(|| start..start + index(request.bytes / block))
}

/// Applies a recorded request to the sources of the drive's blocks, except for the pieces that are lost.
fn apply_surviving_pieces(
    recording: &Recording,
    place: usize,
    lost: Option<&RequestLoss>,
    sources: &mut [BlockContents],
) {
    let Some(range) = range(recording, place) else { return };
    let source = BlockContents::of(recording, place);
    match lost {
        None => sources[range].fill(source),
        Some(RequestLoss::All) => {}
        Some(RequestLoss::AllBut(there)) => {
            for &(first, last) in there {
                sources[range.start + index(first)..=range.start + index(last)].fill(source);
            }
        }
    }
}
