//! A recording of the requests that a drive received, their completions and the lines that an application printed, in order.
//!
//! A recording has no clock: the place of an event in the list is its only time. A served or an
//! embedded drive makes recordings, and [`crash`](super) derives from one every state that a power failure may leave behind.

use std::ops::Range;

use crate::drive::Drive;
use crate::media::zones::ZoneLayout;

/// The point from which on a drive keeps a write across a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Volatile write cache: a write is kept once a later flush has completed.
    OnFlush,
    /// Power-loss protection: a write is kept once its own completion has been sent.
    OnAcknowledgement,
}

impl Durability {
    /// Returns the durability that the description of a drive promises.
    pub fn of(drive: &Drive) -> Durability {
        if drive.keeps_acknowledged() { Durability::OnAcknowledgement } else { Durability::OnFlush }
    }
}

/// Guarantees that a drive gives for all its writes when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurabilityRules {
    /// Bytes of a logical block. A power failure leaves each block either all old or all new.
    pub block_bytes: u32,
    /// Bytes of the longest write that is never torn, a multiple of the block (NVMe: AWUPF).
    pub atomic_bytes: u32,
    /// Point from which on a write is kept.
    pub durability: Durability,
}

/// Request that changes the bytes of the drive, or makes earlier changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCommand {
    /// Operation, with the data of a write.
    pub kind: RecordedOp,
    /// First byte on the drive, a multiple of the block.
    pub offset: u64,
    /// Bytes that change: a multiple of the block, and zero for a flush.
    pub bytes: u32,
    /// True if the change is durable once it has completed (force unit access).
    pub durable: bool,
}

/// Operation of a recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOp {
    /// Write of these bytes.
    Write(Box<[u8]>),
    /// Write of zeros.
    Zero,
    /// Deallocation; the blocks read as zeros afterwards.
    Trim,
    /// Reset of one zone, whose bytes are the place of the request: the zone is empty, and reads as zeros.
    Reset,
    /// Finish of one zone, whose bytes are the place of the request: the zone is full, and its bytes stay.
    Finish,
    /// Flush of the volatile write cache.
    Flush,
}

/// Event of a recording; numbers are indices into the recording's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEvent {
    /// The drive received this request. Requests are listed in the order of their arrival.
    Arrived(usize),
    /// The completion of this request is about to be sent.
    Completed(usize),
    /// The application printed this line.
    Printed(usize),
}

/// Everything that happened to a drive that was all zeros at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    /// Guarantees of the drive for power failures.
    pub rules: DurabilityRules,
    /// Number and size of the zones, if the drive has any. All of them are empty at first.
    pub zones: Option<ZoneLayout>,
    /// Requests in the order of their arrival.
    pub requests: Vec<RecordedCommand>,
    /// Lines that the application printed, each with its line end.
    pub lines: Vec<Vec<u8>>,
    /// Events in the order in which they happened.
    pub events: Vec<RecordedEvent>,
    /// Number of leading events that prepared the drive; all changes among them are durable.
    pub prepared: usize,
}

impl Recording {
    /// Returns the possible cuts. A cut is the number of events that happened before power failed.
    pub fn cuts(&self) -> Range<usize> {
        self.prepared..self.events.len() + 1
    }

    /// Returns the number of blocks of the drive.
    pub fn blocks(&self) -> usize {
        (self.capacity_bytes / u64::from(self.rules.block_bytes)) as usize
    }

    /// Returns the number of pieces that a power failure may tear a request into: 1 for an atomic change, 0 for a flush.
    pub fn pieces(&self, request: usize) -> u32 {
        let RecordedCommand { ref kind, bytes, .. } = self.requests[request];
        match kind {
            RecordedOp::Flush => 0,
            RecordedOp::Reset | RecordedOp::Finish => 1,
            _ if bytes <= self.rules.atomic_bytes => 1,
            _ => bytes / self.rules.block_bytes,
        }
    }

    /// Returns the zone whose state a request changes. What a power failure takes of such changes of a zone are the latest ones, since a
    /// zone is written in order. Deallocations change no state.
    pub fn zone(&self, request: usize) -> Option<u32> {
        let RecordedCommand { ref kind, offset, .. } = self.requests[request];
        let zone_bytes = self.zones?.zone_blocks * u64::from(self.rules.block_bytes);
        let has_order = !matches!(kind, RecordedOp::Trim | RecordedOp::Flush);
        has_order.then(|| (offset / zone_bytes) as u32)
    }

    /// Returns the lines that the application printed before a cut.
    pub fn printed(&self, cut: usize) -> impl Iterator<Item = &[u8]> {
        let printed = |event: &RecordedEvent| match *event {
            RecordedEvent::Printed(line) => Some(&self.lines[line][..]),
            RecordedEvent::Arrived(_) | RecordedEvent::Completed(_) => None,
        };
        self.events[..cut].iter().filter_map(printed)
    }
}

impl RecordedCommand {
    /// Returns true if the request changes bytes of the drive.
    pub fn is_change(&self) -> bool {
        self.kind != RecordedOp::Flush
    }

    /// Returns true if the request is a flush.
    pub fn is_flush(&self) -> bool {
        self.kind == RecordedOp::Flush
    }
}
