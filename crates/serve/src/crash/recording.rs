//! What a drive was asked for, what it has answered, and when: by order alone, without a clock.

use std::ops::Range;

use phaselink_core::drive::Drive;

/// What a drive promises when it has answered a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing: what was not flushed is in a cache that ends with the power.
    Flushed,
    /// That it is kept: in the cells, or in a buffer that outlives power.
    Acknowledged,
}

impl Promise {
    /// What this drive promises.
    pub fn of(drive: &Drive) -> Promise {
        if drive.keeps_acknowledged() { Promise::Acknowledged } else { Promise::Flushed }
    }
}

/// What holds for all writes of a drive when its power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The logical block: of each, either all is old or all is new.
    pub block_bytes: u32,
    /// Longest write that is all there or not at all, a multiple of the block (NVMe: AWUPF).
    pub atomic_bytes: u32,
    pub promise: Promise,
}

/// A request that changes what the drive holds, or what of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub kind: Kind,
    pub offset: u64,
    /// A multiple of the block, and zero for a flush.
    pub bytes: u32,
    /// Kept once it is answered (force unit access).
    pub durable: bool,
}

/// What kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Write(Box<[u8]>),
    Zero,
    Trim,
    Flush,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request of this place has arrived; requests stand in the order of their arrival.
    Arrived(usize),
    /// It is going to be answered.
    Completed(usize),
    /// The application has printed this line.
    Printed(usize),
}

/// All that happened to a drive of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub capacity_bytes: u64,
    pub rules: Rules,
    pub requests: Vec<Request>,
    /// What the application has printed, with ends of lines.
    pub lines: Vec<Vec<u8>>,
    pub events: Vec<Event>,
    /// Events before this one have prepared the drive: all that they asked for is kept.
    pub prepared: usize,
}

impl Recording {
    /// Cuts that are possible: how many events have happened when the power fails.
    pub fn cuts(&self) -> Range<usize> {
        self.prepared..self.events.len() + 1
    }

    /// Blocks of the drive.
    pub fn blocks(&self) -> usize {
        (self.capacity_bytes / u64::from(self.rules.block_bytes)) as usize
    }

    /// Pieces that a power failure may tear a request into: one if it is atomic, none if it changes nothing.
    pub fn pieces(&self, request: usize) -> u32 {
        let Request { ref kind, bytes, .. } = self.requests[request];
        match kind {
            Kind::Flush => 0,
            _ if bytes <= self.rules.atomic_bytes => 1,
            _ => bytes / self.rules.block_bytes,
        }
    }

    /// What has been printed before a cut.
    pub fn printed(&self, cut: usize) -> impl Iterator<Item = &[u8]> {
        let printed = |event: &Event| match *event {
            Event::Printed(line) => Some(&self.lines[line][..]),
            Event::Arrived(_) | Event::Completed(_) => None,
        };
        self.events[..cut].iter().filter_map(printed)
    }
}

impl Request {
    /// Whether it changes bytes.
    pub fn is_change(&self) -> bool {
        self.kind != Kind::Flush
    }

    /// Whether it is a flush.
    pub fn is_flush(&self) -> bool {
        self.kind == Kind::Flush
    }
}
