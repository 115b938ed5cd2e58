//! Requests of applications: operation, range and drive, and the state of each request in flight.

use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::number::index;
use crate::table::Table;
use crate::time::{Span, Time};

/// Index of a request in [`Requests`].
pub type RequestId = u32;

/// Operation of a request. A protocol says in [`Protocol::supports`](crate::protocol::halves::Protocol::supports) which
/// of them it has.
// `u32` is the width of the length field next to it in a request, so the compiler copies both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[repr(u32)]
pub enum Op {
    /// Moves data from the device to the host.
    Read,
    /// Moves data from the host to the device.
    Write,
    /// Makes all acknowledged writes durable. A flush has neither offset nor length.
    Flush,
    /// Tells the device that the data of a range is no longer needed (trim, deallocate).
    Discard,
    /// Fills a range with zeros, without moving data.
    WriteZeroes,
}

/// Direction in which a request moves data, for models that tell apart only reads and writes: media, software, closed
/// forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataDirection {
    /// From the device to the host.
    Read,
    /// From the host to the device.
    Write,
}

impl Op {
    /// All operations that a request may have.
    pub const ALL: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes];

    /// Returns the name of the operation in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write zeroes",
        }
    }

    /// Returns the direction of the operation as the block layer of Linux sees it: whatever is no read is handled like
    /// a write (`op_is_write`).
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

/// Operation of a request with its range on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Io {
    /// Operation of the request: read, write, flush and so on.
    pub op: Op,
    /// Offset in bytes of the first byte on the device; 0 in a flush. Random requests start at multiples of `bytes`
    /// from the job's first byte.
    pub offset: u64,
    /// Length of the request in bytes, at least 1; 0 in a flush.
    pub bytes: u32,
}

impl Io {
    /// Returns a flush, which has neither offset nor length.
    pub const fn flush() -> Io {
        Io { op: Op::Flush, offset: 0, bytes: 0 }
    }

    /// Returns the number of bytes that move between host and device; zero for operations without data.
    #[inline(always)]
    pub const fn data_bytes(&self) -> u32 {
        if self.op.has_data() { self.bytes } else { 0 }
    }
}

/// Place that a write names in its command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamedWritePlace {
    /// The write names none: an ordinary write, and an append in a zone.
    #[default]
    Any,
    /// Placement identifier, as an index into the drive's list of them.
    Handle(u16),
    /// Write pointer of a zone: the write is no append, so that the host submits it after the writes before it.
    WritePointer,
}

/// Request that a thread will issue next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRequest {
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Instant at which the application wants to issue the request. A request whose instant is still to come is issued
    /// then. One whose instant has passed (an open loop that has fallen behind) is issued at once, and its latency
    /// counts from here.
    pub due: Time,
    /// Number of the drive that the request is for, where there are several.
    pub drive: u16,
    /// True if the request's completion ends a commit: it is a flush, or the last request before a flush that the drive
    /// does not need.
    pub ends_commit: bool,
    /// Place that the request names, if it is a write.
    pub target: NamedWritePlace,
}

/// Request of an application that is in flight.
#[derive(Clone, Debug)]
pub struct Request {
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Number of the thread that has issued the request.
    pub thread: u16,
    /// Number of the drive that the request is for, where there are several.
    pub drive: u16,
    /// True if the request's completion ends a commit (see [`NextRequest::ends_commit`]).
    pub ends_commit: bool,
    /// Place that the request names, if it is a write.
    pub target: NamedWritePlace,
    /// Number by which a sender from outside the simulation knows the request; `None` for a request of a simulated
    /// application.
    pub token: Option<u32>,
    /// Bus address of the request's data buffer in the host.
    pub buffer: u64,
    /// Instant at which the application issued the request.
    pub issued: Time,
    /// Instant at which the driver had submitted the request to the device.
    pub submitted: Time,
    /// Instant at which the request's completion became visible to the host; `Time::NEVER` before.
    pub visible: Time,
    /// Request that this one is a part of, if that moves more data than one command may; otherwise `None`.
    pub parent: Option<RequestId>,
    /// Number of the request in the order of issue, from 1.
    pub number: u64,
    /// Number of this request's parts in flight; 0 if it is not split.
    pub parts_left: u32,
    /// Time that each stage of the request's life has taken so far.
    pub ledger: Ledger,
}

impl Default for Request {
    /// Returns an empty entry for a request, to be [opened](Request::open).
    fn default() -> Request {
        Request {
            io: Io { op: Op::Read, offset: 0, bytes: 0 },
            thread: 0,
            drive: 0,
            ends_commit: false,
            target: NamedWritePlace::Any,
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
    /// Turns this entry into a new request: number `number`, issued at `now` by a thread, with an empty ledger.
    pub fn open(&mut self, number: u64, next: NextRequest, now: Time, thread: u16, token: Option<u32>) {
        (self.number, self.io, self.thread, self.drive, self.token) = (number, next.io, thread, next.drive, token);
        (self.ends_commit, self.target) = (next.ends_commit, next.target);
        (self.issued, self.submitted, self.visible) = (now, now, Time::NEVER);
        (self.buffer, self.parent, self.parts_left) = (0, None, 0);
        self.ledger.open(next.due);
    }

    /// Charges `time` to this request as a wait for its thread's core, which is busy with other work.
    pub fn charge_core_wait(&mut self, time: Span) {
        self.ledger.until(Stage::CoreWait, self.ledger.cursor() + time);
    }

    /// Delays the issue of the request by `delay`, and everything charged since then.
    pub fn postpone(&mut self, delay: Span) {
        self.issued += delay;
        self.ledger.postpone(delay);
    }
}

/// All requests in flight.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    table: Table<Request>,
    /// Requests whose completions the driver has just found, to be handed to their threads.
    pub completed: Vec<RequestId>,
    /// Completed requests of which the controller has refused a command.
    pub refused: Vec<RequestId>,
    /// Completed commands of real hosts: the number by which the sender knows each, and the request that it was counted
    /// as.
    pub answered: VecDeque<(u32, Option<RequestId>)>,
    /// Buffer for the parts of a request while it is being split; empty otherwise.
    pub split: Vec<RequestId>,
    /// Number of the request that was issued last.
    pub issued: u64,
    /// Request whose command the device has just accepted.
    pub accepted: Option<RequestId>,
}

impl Index<RequestId> for Requests {
    type Output = Request;
    #[inline(always)]
    fn index(&self, id: RequestId) -> &Request {
        &self.table[index(id)]
    }
}

impl IndexMut<RequestId> for Requests {
    #[inline(always)]
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.table[index(id)]
    }
}

impl Requests {
    /// Adds a request, and returns its index, which is valid until it is vacated.
    #[inline]
    pub fn insert(&mut self, request: Request) -> RequestId {
        self.table.insert(request)
    }

    /// Reserves an entry for a request, to be [opened](Request::open), and returns its index.
    #[inline]
    pub fn occupy(&mut self) -> RequestId {
        self.table.occupy()
    }

    /// Returns the number of entries that are or have been in use.
    #[cfg(test)]
    pub(crate) fn places(&self) -> RequestId {
        self.table.places()
    }

    /// Frees the entry of a request that is over.
    #[inline]
    pub fn vacate(&mut self, id: RequestId) {
        self.table.vacate(id);
    }

    /// Forgets all requests in flight, which the device has lost with its power.
    pub fn forget_requests_in_flight(&mut self) {
        *self = Requests { issued: self.issued, ..Requests::default() };
    }

    /// Charges the time since the last charge up to `until` to a stage of a request; does nothing without a request.
    #[inline]
    pub fn charge(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            self[request].ledger.until(stage, until);
        }
    }

    /// Charges consecutive stages of a request, each up to its instant; does nothing without a request.
    #[inline]
    pub fn charge_stages<const STAGES: usize>(&mut self, request: Option<RequestId>, stages: [(Stage, Time); STAGES]) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            stages.into_iter().for_each(|(stage, until)| ledger.until(stage, until));
        }
    }

    /// Charges a media access to a request, if there is one: waiting for firmware up to `dispatched`, firmware up to
    /// `admitted`, waiting for bank and bus up to `started`, and media up to `until`.
    #[inline(always)]
    pub fn charge_media_access(
        &mut self,
        request: Option<RequestId>,
        [dispatched, admitted, started, until]: [Time; 4],
    ) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            if admitted > ledger.cursor() {
                ledger.until(Stage::FirmwareWait, dispatched.max(ledger.cursor()));
                ledger.until(Stage::Firmware, admitted);
            }
            ledger.until(Stage::MediaWait, started);
            ledger.until(Stage::Media, until);
        }
    }

    /// Charges the time up to `until` to a stage of a request, unless the request has been charged for that time
    /// already.
    pub fn charge_stage_until(&mut self, request: Option<RequestId>, stage: Stage, until: Time) {
        if let Some(request) = request {
            let ledger = &mut self[request].ledger;
            ledger.until(stage, until.max(ledger.cursor()));
        }
    }
}
