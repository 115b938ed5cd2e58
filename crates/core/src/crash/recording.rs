//! Recording of the requests that a drive received, their completions, and the lines that an application printed, in
//! order.
//!
//! A recording has no clock: the position of an event in the list is its only time. A served or an embedded drive makes
//! recordings. From one of them, [`crash`](super) derives every state that a power failure may leave behind.

use std::ops::Range;

use crate::drive::Drive;
use crate::media::zones::ZoneLayout;
use crate::number::{low_u32, wide_index};

/// Event from which on a completed write survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Volatile write cache: a write survives once a later flush has completed.
    OnFlush,
    /// Power-loss protection: a write survives once its own completion has been sent.
    OnAcknowledgement,
}

impl Durability {
    /// Returns the durability that a drive's configuration promises: on completion if its buffer survives a power loss,
    /// else on flush.
    pub fn of(drive: &Drive) -> Durability {
        if drive.keeps_acknowledged() { Durability::OnAcknowledgement } else { Durability::OnFlush }
    }
}

/// Guarantees of a drive for its data when the power fails: atomicity and durability of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurabilityRules {
    /// Bytes of a logical block. A power failure leaves each block either all old or all new.
    pub block_bytes: u32,
    /// Bytes of the longest write that is never torn, a multiple of the block (NVMe: AWUPF).
    pub atomic_bytes: u32,
    /// Event from which on a completed write survives a power failure: a flush, or its own completion.
    pub durability: Durability,
}

/// Request in a recording that changes the data of the drive, or makes earlier changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCommand {
    /// Operation of the request, with the data if it is a write.
    pub kind: RecordedOp,
    /// Byte offset on the drive at which the request starts, a multiple of the block.
    pub offset: u64,
    /// Number of bytes that the request changes, a multiple of the block; 0 for a flush.
    pub bytes: u32,
    /// True if the change is durable as soon as the request has completed (force unit access).
    pub durable: bool,
}

/// Operation of a recorded request, with the data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOp {
    /// Write of the given bytes.
    Write(Box<[u8]>),
    /// Write of zeros to all blocks of the request (write zeroes).
    Zero,
    /// Deallocation of blocks, which read as zeros afterwards.
    Trim,
    /// Reset of the zone that the request's byte range covers: the zone becomes empty and reads as zeros.
    Reset,
    /// Finish of the zone that the request's byte range covers: the zone becomes full, and keeps its data.
    Finish,
    /// Flush of the volatile write cache.
    Flush,
}

/// Event of a recording. Its number is the index of the request or line in the recording's list of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEventKind {
    /// Drive received this request. Requests are listed in the order of their arrival.
    Arrived(usize),
    /// Drive is about to send the completion of this request.
    Completed(usize),
    /// Application printed this line.
    Printed(usize),
}

/// Recording of all requests, completions and printed lines of a drive that held only zeros at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
    /// Guarantees of the drive for its data when the power fails.
    pub rules: DurabilityRules,
    /// Number and size of the drive's zones, all of which are empty at first. `None` if it has no zones.
    pub zones: Option<ZoneLayout>,
    /// All requests that the drive received, in the order of their arrival.
    pub requests: Vec<RecordedCommand>,
    /// Lines that the application printed during the recording, each with its newline.
    pub lines: Vec<Vec<u8>>,
    /// Arrivals, completions and printed lines in the order in which they happened.
    pub events: Vec<RecordedEventKind>,
    /// Number of leading events that prepared the drive. All changes in them are durable, and no cut is before their
    /// end.
    pub prepared: usize,
}

impl Recording {
    /// Returns the recording of a drive without zones that has not received a request yet.
    pub fn empty(capacity_bytes: u64, rules: DurabilityRules) -> Recording {
        let (requests, lines, events) = (Vec::new(), Vec::new(), Vec::new());
        Recording { capacity_bytes, rules, zones: None, requests, lines, events, prepared: 0 }
    }

    /// Returns the range of possible cuts. A cut is the number of events that happened before the power failed.
    pub fn cuts(&self) -> Range<usize> {
        self.prepared..self.events.len() + 1
    }

    /// Returns the number of logical blocks of the drive.
    pub fn blocks(&self) -> usize {
        wide_index(self.capacity_bytes / u64::from(self.rules.block_bytes))
    }

    /// Returns the number of pieces into which a power failure may tear a request: 1 for an atomic change, 0 for a
    /// flush, otherwise one per block.
    pub fn pieces(&self, request: usize) -> u32 {
        let RecordedCommand { ref kind, bytes, .. } = self.requests[request];
        match kind {
            RecordedOp::Flush => 0,
            RecordedOp::Reset | RecordedOp::Finish => 1,
            _ if bytes <= self.rules.atomic_bytes => 1,
            _ => bytes / self.rules.block_bytes,
        }
    }

    /// Returns the zone whose state a request changes. A power failure loses only the latest such changes of a zone,
    /// since a zone is written in order. `None` without zones, and for deallocations and flushes, which change no
    /// zone's state.
    pub fn zone(&self, request: usize) -> Option<u32> {
        let RecordedCommand { ref kind, offset, .. } = self.requests[request];
        let zone_bytes = self.zones?.zone_blocks * u64::from(self.rules.block_bytes);
        let has_order = !matches!(kind, RecordedOp::Trim | RecordedOp::Flush);
        has_order.then(|| low_u32(offset / zone_bytes))
    }

    /// Returns the lines that the application had printed before this power cut.
    pub fn printed(&self, cut: usize) -> impl Iterator<Item = &[u8]> {
        let printed = |event: &RecordedEventKind| match *event {
            RecordedEventKind::Printed(line) => Some(&self.lines[line][..]),
            RecordedEventKind::Arrived(_) | RecordedEventKind::Completed(_) => None,
        };
        self.events[..cut].iter().filter_map(printed)
    }
}

impl RecordedCommand {
    /// True if the request changes data of the drive; false for a flush.
    pub fn is_change(&self) -> bool {
        self.kind != RecordedOp::Flush
    }

    /// True if the request is a flush of the volatile write cache.
    pub fn is_flush(&self) -> bool {
        self.kind == RecordedOp::Flush
    }
}
