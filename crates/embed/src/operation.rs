//! Operations that a drive is asked for, and their completions.

use std::fmt;

use phaselink_core::ledger::StageTimes;
use phaselink_core::request::Op;
use phaselink_core::time::{Span, Time};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// Moves data from the drive to the host.
    Read,
    /// Moves data from the host to the drive.
    Write,
    /// Makes all writes durable that were completed before.
    Flush,
    /// Tells the drive that a range is no longer needed; it reads as zeros afterwards.
    Discard,
    /// Fills a range with zeros, without moving data.
    WriteZeroes,
}

impl OperationKind {
    /// All kinds of operations.
    pub const ALL: [OperationKind; 5] = [
        OperationKind::Read,
        OperationKind::Write,
        OperationKind::Flush,
        OperationKind::Discard,
        OperationKind::WriteZeroes,
    ];

    /// Returns the name of the operation in messages.
    pub fn name(self) -> &'static str {
        self.op().name()
    }

    /// True if operations of this kind change bytes.
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

/// Operation on a drive: kind, place, length, and the data of a write.
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

    /// Read of `bytes` bytes from byte `offset` of the drive on, both multiples of the drive's block.
    pub fn read(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Read, offset, bytes.into())
    }

    /// Write of `data` at byte `offset` of the drive; both are multiples of the drive's block.
    pub fn write(offset: u64, data: &'a [u8]) -> Operation<'a> {
        Operation { data: Some(data), ..Operation::new(OperationKind::Write, offset, data.len() as u64) }
    }

    /// Write of `bytes` bytes for a drive that keeps no data, whose time alone is asked for.
    pub fn write_without_data(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Write, offset, bytes.into())
    }

    /// Flush, which has neither place nor length.
    pub fn flush() -> Operation<'static> {
        Operation::new(OperationKind::Flush, 0, 0)
    }

    /// Discard (trim, deallocate) of a range.
    pub fn discard(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::Discard, offset, bytes.into())
    }

    /// Write of zeros to a range, without moving data.
    pub fn write_zeroes(offset: u64, bytes: u32) -> Operation<'static> {
        Operation::new(OperationKind::WriteZeroes, offset, bytes.into())
    }

    /// The operation with force unit access (FUA): what it changes is durable when it completes. A drive with a volatile buffer
    /// flushes behind it.
    pub fn durable(self) -> Operation<'a> {
        Operation { is_durable: true, ..self }
    }

    /// Returns the kind of the operation.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }
}

/// Name of a submitted operation, until its completion has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// Returns the ticket as a number, for interfaces of other languages.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the ticket of a [number](Ticket::number).
    pub fn from_number(number: u64) -> Ticket {
        Ticket(number)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.0)
    }
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The operation succeeded.
    Success,
    /// The drive reported an error, which an injected fault has caused.
    MediaError,
    /// The host gave the operation up after its time-out.
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

    /// Returns the number of the status for interfaces of other languages: 0 for success, and never given to another status.
    pub fn code(self) -> u8 {
        match self {
            Status::Success => 0,
            Status::MediaError => 1,
            Status::TimedOut => 2,
            Status::Removed => 3,
            Status::PowerLost => 4,
        }
    }

    /// Returns the status of an operation with this error number of Linux, if any.
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

/// Completion of an operation. The data of a read is lent until the next call of the drive.
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

    /// Returns the data of a successful read; empty for every other operation, and on a drive without data.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the stages of the operation's life in which any time was spent, in order, which sum to its latency. There are none
    /// unless the drive was opened with [`with_stages`](crate::Description::with_stages), and none of an operation whose power
    /// was cut.
    pub fn stages(&self) -> impl Iterator<Item = (&'a str, Span)> + use<'a> {
        let stack = self.stack;
        self.stages.into_iter().flat_map(move |stages| stages.named(stack))
    }
}
