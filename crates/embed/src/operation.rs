//! Operations that a program submits to a drive, and their completions.

use std::fmt;

use phaselink_core::ledger::StageTimes;
use phaselink_core::number::length;
use phaselink_core::request::Op;
use phaselink_core::time::{Span, Time};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// Transfers data from the drive to the host.
    Read,
    /// Transfers data from the host to the drive.
    Write,
    /// Makes all writes durable that have completed before.
    Flush,
    /// Tells the drive that a range is no longer needed; it reads as zeros afterwards.
    Discard,
    /// Fills a range with zeros, without transferring data.
    WriteZeroes,
}

impl OperationKind {
    /// All kinds of operations, in a fixed order.
    pub const ALL: [OperationKind; 5] = [
        OperationKind::Read,
        OperationKind::Write,
        OperationKind::Flush,
        OperationKind::Discard,
        OperationKind::WriteZeroes,
    ];

    /// Returns the name of the kind, as messages use it.
    pub fn name(self) -> &'static str {
        self.op().name()
    }

    /// True if operations of this kind change data.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, OperationKind::Read | OperationKind::Flush)
    }

    pub(crate) fn op(self) -> Op {
        match self {
            OperationKind::Read => Op::Read,
            OperationKind::Write => Op::Write,
            OperationKind::Flush => Op::Flush,
            OperationKind::Discard => Op::Discard,
            OperationKind::WriteZeroes => Op::WriteZeroes,
        }
    }
}

/// Operation on a drive: kind, offset, length, durability, and the data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_durable: bool,
    pub(crate) data: Option<&'a [u8]>,
}

impl<'a> Operation<'a> {
    fn new(kind: OperationKind, offset: u64, bytes: u64) -> Operation<'a> {
        Operation { kind, offset, bytes, is_durable: false, data: None }
    }

    /// Returns a read of `bytes` bytes from offset `offset` of the drive on. Both must be multiples of the drive's
    /// block size.
    pub fn read(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Read, offset, bytes.into())
    }

    /// Returns a write of `data` at offset `offset` of the drive. Offset and length must be multiples of the drive's
    /// block size.
    pub fn write(offset: u64, data: &'a [u8]) -> Operation<'a> {
        Operation { data: Some(data), ..Operation::new(OperationKind::Write, offset, length(data.len())) }
    }

    /// Returns a write of `bytes` bytes for a drive without data, of which only the timing is modelled.
    pub fn write_without_data(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Write, offset, bytes.into())
    }

    /// Returns a flush, which makes all completed writes durable.
    pub fn flush() -> Operation<'static> {
        Operation::new(OperationKind::Flush, 0, 0)
    }

    /// Returns a discard (trim, deallocate) of `bytes` bytes from offset `offset` on.
    pub fn discard(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Discard, offset, bytes.into())
    }

    /// Returns a write of zeros to `bytes` bytes from offset `offset` on, which transfers no data.
    pub fn write_zeroes(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::WriteZeroes, offset, bytes.into())
    }

    /// Returns the operation with force unit access (FUA): its changes are durable when it completes. A drive with a
    /// volatile buffer executes a flush after it.
    pub fn durable(self) -> Operation<'a> {
        Operation { is_durable: true, ..self }
    }

    /// Returns the kind of the operation.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }
}

/// Identifier of a submitted operation, valid until its completion has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// Returns the ticket's number, for other languages.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the ticket with this [number](Ticket::number).
    pub fn from_number(number: u64) -> Ticket {
        Ticket(number)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.0)
    }
}

/// Result of a completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The operation succeeded.
    Success,
    /// The drive reported an error, which an injected fault has caused.
    MediaError,
    /// The host aborted the operation after its time-out.
    TimedOut,
    /// The drive has been removed.
    Removed,
    /// The drive lost its power while the operation was in flight.
    PowerLost,
}

impl Status {
    /// True if the operation succeeded.
    pub fn is_success(self) -> bool {
        self == Status::Success
    }

    /// Returns a stable number of the status for other languages: 0 for success, and never reused for another status.
    pub fn code(self) -> u8 {
        match self {
            Status::Success => 0,
            Status::MediaError => 1,
            Status::TimedOut => 2,
            Status::Removed => 3,
            Status::PowerLost => 4,
        }
    }

    /// Returns the status for a Linux error number, or for success if there is none.
    pub(crate) fn of(error: Option<u32>) -> Status {
        match error {
            None => Status::Success,
            Some(19) => Status::Removed,
            Some(110) => Status::TimedOut,
            Some(_) => Status::MediaError,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::MediaError => "media error",
            Status::TimedOut => "timed out",
            Status::Removed => "drive removed",
            Status::PowerLost => "power lost",
        })
    }
}

/// Completion of an operation. It borrows the data of a read from the drive until the drive's next call.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) submitted: Time,
    pub(crate) at: Time,
    pub(crate) status: Status,
    pub(crate) data: &'a [u8],
    pub(crate) stages: Option<&'a StageTimes>,
    pub(crate) stack: &'a [String],
}

impl<'a> Completion<'a> {
    /// Returns the ticket of the operation.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the instant of the operation's submission.
    pub fn submitted(&self) -> Time {
        self.submitted
    }

    /// Returns the instant at which the operation completed.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Returns the time from submission to completion.
    pub fn latency(&self) -> Span {
        self.at.since(self.submitted)
    }

    /// Returns the result of the operation.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the data of a successful read. Empty for every other operation, and on a drive without data.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the stages of the operation in which it spent any time, in order, with their times, whose sum is its
    /// latency. Empty unless the drive was opened with [`with_stages`](crate::Description::with_stages), and after a
    /// power cut.
    pub fn stages(&self) -> impl Iterator<Item = (&'a str, Span)> + use<'a> {
        let stack = self.stack;
        self.stages.into_iter().flat_map(move |stages| stages.named(stack))
    }
}
