//! Requests: what an application asks for, and what is known of each request in flight.

use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::table::Table;
use crate::time::{Span, Time};

/// Index of a request in [`Requests`].
pub type RequestId = u32;

/// Operation of a request. A protocol says in [`Protocol::supports`](crate::protocol::halves::Protocol::supports) which of them
/// it has.
// As wide as the length that stands beside it in a request, so that both are copied in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[repr(u32)]
pub enum Op {
    /// Moves data from the device to the host.
    Read,
    /// Moves data from the host to the device.
    Write,
    /// Makes all acknowledged writes durable. A flush has neither place nor length.
    Flush,
    /// Tells the device that the data of a range is no longer needed (trim, deallocate).
    Discard,
    /// Fills a range with zeros, without moving data.
    WriteZeroes,
}

/// Direction in which a request moves data, for parts that know reads and writes alone: media, software, closed forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataDirection {
    /// From the device to the host.
    Read,
    /// From the host to the device.
    Write,
}

impl Op {
    /// All operations.
    pub const ALL: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes];

    /// Name of the operation in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write zeroes",
        }
    }

    /// Direction as the block layer of Linux sees it: whatever is no read is handled like a write (`op_is_write`).
    #[inline(always)]
    pub const fn direction(self) -> DataDirection {
        match self {
            Op::Read => DataDirection::Read,
            _ => DataDirection::Write,
        }
    }

    /// True if requests of this operation have a data buffer in the host.
    #[inline(always)]
    pub const fn has_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

impl From<DataDirection> for Op {
    fn from(direction: DataDirection) -> Op {
        match direction {
            DataDirection::Read => Op::Read,
            DataDirection::Write => Op::Write,
        }
    }
}

/// Operation of a request: kind, place and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Io {
    /// Operation of the request.
    pub op: Op,
    /// First byte on the device; 0 in a flush. Random requests start at multiples of `bytes` from the job's first byte.
    pub offset: u64,
    /// Length in bytes, at least 1; 0 in a flush.
    pub bytes: u32,
}

impl Io {
    /// A flush, which has neither place nor length.
    pub const fn flush() -> Io {
        Io { op: Op::Flush, offset: 0, bytes: 0 }
    }

    /// Bytes that move between host and device.
    #[inline(always)]
    pub const fn data_bytes(&self) -> u32 {
        if self.op.has_data() { self.bytes } else { 0 }
    }
}

/// Next request of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Operation, place and length.
    pub io: Io,
    /// Instant at which the application wants it. A request that is due later is issued then. One that was due earlier (an
    /// open loop that has fallen behind) is issued at once, and its latency counts from here.
    pub due: Time,
    /// Drive that it is for, where there are several.
    pub drive: u16,
    /// True if its completion ends a commit: it is a flush, or the last request before one that the drive does not need.
    pub ends_commit: bool,
    /// Place of its placement identifier in the drive's list of them, if it is a write that names one.
    pub placement: Option<u16>,
}

/// Request of an application that is in flight.
#[derive(Clone, Debug)]
pub struct Request {
    /// Operation, place and length.
    pub io: Io,
    /// Thread that has issued it.
    pub thread: u16,
    /// Drive that it is for, where there are several.
    pub drive: u16,
    /// True if its completion ends a commit (see [`Next::ends_commit`]).
    pub ends_commit: bool,
    /// Place of its placement identifier in the drive's list of them (see [`Next::placement`]).
    pub placement: Option<u16>,
    /// Name that its sender has given it, if it came from outside.
    pub token: Option<u32>,
    /// Bus address of its data buffer.
    pub buffer: u64,
    /// Instant at which the application issued it.
    pub issued: Time,
    /// Instant at which the driver had handed it to the device.
    pub submitted: Time,
    /// Instant at which its completion became visible, once it has one.
    pub visible: Time,
    /// Request that it is a part of, if that moves more data than one command.
    pub parent: Option<RequestId>,
    /// Number of the request in the order of issue.
    pub number: u64,
    /// Number of its parts in flight, if it has any.
    pub parts_left: u32,
    /// Stages of its life, and the time that each took.
    pub ledger: Ledger,
}

impl Default for Request {
    /// Empty place for a request, to be [opened](Request::open).
    fn default() -> Request {
        Request {
            io: Io { op: Op::Read, offset: 0, bytes: 0 },
            thread: 0,
            drive: 0,
            ends_commit: false,
            placement: None,
            token: None,
            buffer: 0,
            issued: Time::ZERO,
            submitted: Time::ZERO,
            visible: Time::NEVER,
            parent: None,
            number: 0,
            parts_left: 0,
            ledger: Ledger::default(),
        }
    }
}

impl Request {
    /// Opens a new request in this place: number `number`, issued at `now` by a thread.
    pub fn open(&mut self, number: u64, next: Next, now: Time, thread: u16, token: Option<u32>) {
        (self.number, self.io, self.thread, self.drive, self.token) = (number, next.io, thread, next.drive, token);
        (self.ends_commit, self.placement) = (next.ends_commit, next.placement);
        (self.issued, self.submitted, self.visible) = (now, now, Time::NEVER);
        (self.buffer, self.parent, self.parts_left) = (0, None, 0);
        self.ledger.open(next.due);
    }

    /// Charges it for so long a wait for its thread's core, which does something else.
    pub fn wait_for_core(&mut self, time: Span) {
        self.ledger.until(Stage::CoreWait, self.ledger.cursor() + time);
    }

    /// Moves its issue to a later instant than was planned.
    pub fn postpone(&mut self, delay: Span) {
        self.issued += delay;
        self.ledger.postpone(delay);
    }
}

/// All requests in flight.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    table: Table<Request>,
    /// Requests whose completion the driver has just found.
    pub completed: Vec<RequestId>,
    /// Completed requests whose commands the controller has refused.
    pub refused: Vec<RequestId>,
    /// Commands of real hosts that are completed: names of their senders, and the requests that they were counted as.
    pub answered: VecDeque<(u32, Option<RequestId>)>,
    /// Room for the parts of a request that is split, empty in between.
    pub split: Vec<RequestId>,
    /// Number of the request that was issued last.
    pub issued: u64,
    /// The request whose command the device has just accepted.
    pub accepted: Option<RequestId>,
}

impl Index<RequestId> for Requests {
    type Output = Request;
    #[inline(always)]
    fn index(&self, id: RequestId) -> &Request {
        &self.table[id as usize]
    }
}

impl IndexMut<RequestId> for Requests {
    #[inline(always)]
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.table[id as usize]
    }
}

impl Requests {
    /// Adds a request. Returns its place until that is vacated.
    #[inline]
    pub fn insert(&mut self, request: Request) -> RequestId {
        self.table.insert(request)
    }

    /// Takes a place for a request, to be [opened](Request::open).
    #[inline]
    pub fn occupy(&mut self) -> RequestId {
        self.table.occupy()
    }

    /// Number of places that are or have been in use.
    #[cfg(test)]
    pub(crate) fn places(&self) -> RequestId {
        self.table.places()
    }

    /// Frees the place of a request that is over.
    #[inline]
    pub fn vacate(&mut self, id: RequestId) {
        self.table.vacate(id);
    }

    /// Forgets all requests in flight, whose device has lost them with its power.
    pub fn forget_all(&mut self) {
        *self = Requests { issued: self.issued, ..Requests::default() };
    }

    /// Charges the time up to `until` to a stage of a request, if there is one.
    #[inline]
    pub fn charge(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            self[request].ledger.until(stage, until);
        }
    }

    /// Charges stages that follow each other, each up to its instant, to a request, if there is one.
    #[inline]
    pub fn charge_all<const STAGES: usize>(&mut self, request: Option<RequestId>, stages: [(Stage, Time); STAGES]) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            stages.into_iter().for_each(|(stage, until)| ledger.until(stage, until));
        }
    }

    /// Charges an access to the memory to a request: until the drive's own processors are through with it, until bank and
    /// bus are free for it, and until it is over.
    #[inline(always)]
    pub fn charge_memory(&mut self, request: Option<RequestId>, [admitted, started, until]: [Time; 3]) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            if admitted > ledger.cursor() {
                ledger.until(Stage::Firmware, admitted);
            }
            ledger.until(Stage::MediaWait, started);
            ledger.until(Stage::Media, until);
        }
    }

    /// Charges the time up to `until` for something that costs nothing if it has happened while the request was busy
    /// elsewhere.
    pub fn charge_late(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            ledger.until(stage, until.max(ledger.cursor()));
        }
    }
}
