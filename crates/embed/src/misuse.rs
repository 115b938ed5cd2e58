//! Errors of calls that a drive cannot carry out. The drive is unchanged afterwards, except after a wait that does not
//! end: that has advanced the drive past all other completions.

use std::error::Error;
use std::fmt;

use phaselink_core::time::Time;

use crate::operation::{OperationKind, Ticket};

/// Reason why a drive has refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// The call's instant lies before the drive's time, which never runs backwards.
    TimeBackwards {
        /// Instant of the call.
        at: Time,
        /// Time that the drive has reached.
        now: Time,
    },
    /// The call's instant lies beyond the last one that a drive can reach, 106 days after its start.
    TimeTooLate {
        /// Instant of the call.
        at: Time,
    },
    /// The drive has no queue of this number.
    NoSuchQueue {
        /// Number of the queue in the call.
        queue: u16,
        /// Number of queues of the drive.
        queues: u16,
    },
    /// The machine has no drive of this number.
    NoSuchDrive {
        /// Number of the drive in the call.
        drive: u16,
        /// Number of drives of the machine.
        drives: u16,
    },
    /// The drive has no command for the operation.
    Unsupported {
        /// Kind of the operation.
        kind: OperationKind,
        /// Sentence that tells which operations the drive supports.
        reason: String,
    },
    /// Offset or length is no multiple of the drive's block size, or the length is zero.
    Unaligned {
        /// Offset on the drive of the operation's first byte.
        offset: u64,
        /// Length of the operation in bytes.
        bytes: u64,
        /// Block size of the drive in bytes.
        block_bytes: u32,
    },
    /// The range of the operation ends beyond the drive.
    BeyondEnd {
        /// Offset on the drive of the operation's first byte.
        offset: u64,
        /// Length of the operation in bytes.
        bytes: u64,
        /// Capacity of the drive in bytes.
        capacity_bytes: u64,
    },
    /// The operation is longer than one operation can be.
    TooLong {
        /// Length of the operation in bytes.
        bytes: u64,
        /// Maximum length of an operation in bytes.
        bytes_max: u64,
    },
    /// The drive holds data, and the write has none.
    NoData,
    /// The ticket names no operation: its completion has been taken, or it was never given out.
    UnknownTicket(Ticket),
    /// The operation with this ticket has not completed.
    NotComplete(Ticket),
    /// The operation with this ticket never completes, because an injected fault has lost its completion.
    NeverCompletes(Ticket),
    /// The drive was not opened with power cuts, so the data states after one are unknown.
    PowerNotFollowed,
    /// The image does not belong to the present state of the drive.
    ForeignImage,
    /// The drive has no image of this name at its present time, for the reason in the text.
    NoSuchImage(String),
    /// The snapshot's drive was opened from another description, or with another seed or other options.
    ForeignSnapshot {
        /// Name of the drive in the snapshot.
        snapshot: String,
        /// Name of the drive to be restored.
        drive: String,
    },
    /// A fault rule cannot be added to a machine with several drives.
    SeveralDrives,
    /// The fault rule cannot be applied, for the reason in the text.
    Fault(String),
    /// The image cannot be loaded to the drive, for the reason in the text.
    CannotLoad(String),
}

impl Misuse {
    /// Returns a stable number of the reason for other languages: from 1 on, and never reused for another reason.
    pub fn code(&self) -> i32 {
        match self {
            Misuse::TimeBackwards { .. } => 1,
            Misuse::TimeTooLate { .. } => 2,
            Misuse::NoSuchQueue { .. } => 3,
            Misuse::Unsupported { .. } => 4,
            Misuse::Unaligned { .. } => 5,
            Misuse::BeyondEnd { .. } => 6,
            Misuse::TooLong { .. } => 7,
            Misuse::NoData => 8,
            Misuse::UnknownTicket(_) => 9,
            Misuse::NotComplete(_) => 10,
            Misuse::NeverCompletes(_) => 11,
            Misuse::PowerNotFollowed => 12,
            Misuse::ForeignImage => 13,
            Misuse::SeveralDrives => 14,
            Misuse::Fault(_) => 15,
            Misuse::ForeignSnapshot { .. } => 16,
            Misuse::NoSuchDrive { .. } => 17,
            Misuse::NoSuchImage(_) => 18,
            Misuse::CannotLoad(_) => 19,
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::TimeBackwards { at, now } => {
                let (at, now) = (at.as_ps(), now.as_ps());
                write!(f, "the call is at {at} ps, but the drive has reached {now} ps; time never runs backwards")
            }
            Misuse::TimeTooLate { at } => {
                let (at, last) = (at.as_ps(), Time::NEVER.as_ps());
                write!(f, "{at} ps is too late: a drive runs for less than {last} ps (106 days)")
            }
            Misuse::NoSuchQueue { queue, queues } => {
                write!(f, "there is no queue {queue}: the drive has queues 0 to {}", queues.saturating_sub(1))
            }
            Misuse::NoSuchDrive { drive, drives } => {
                write!(f, "there is no drive {drive}: the machine has drives 0 to {}", drives.saturating_sub(1))
            }
            Misuse::ForeignSnapshot { snapshot, drive } => write!(
                f,
                "the snapshot is one of {snapshot}; this is {drive}, which was opened with another description, seed or options; \
                 restore a snapshot to a drive that was opened in the same way"
            ),
            Misuse::Unaligned { offset, bytes, block_bytes } => write!(
                f,
                "offset {offset} and length {bytes} have to be multiples of the drive's block of {block_bytes} bytes, and the \
                 length at least one block"
            ),
            Misuse::BeyondEnd { offset, bytes, capacity_bytes } => {
                write!(f, "{bytes} bytes at {offset} end beyond the drive, which has {capacity_bytes} bytes")
            }
            Misuse::TooLong { bytes, bytes_max } => {
                write!(f, "{bytes} bytes are too long for one operation, which has at most {bytes_max}; submit several")
            }
            Misuse::UnknownTicket(ticket) => {
                write!(f, "{ticket} names no operation: its completion has been taken, or it was never given out")
            }
            Misuse::NotComplete(ticket) => {
                write!(f, "the operation of {ticket} has not completed; advance the drive, or wait for it")
            }
            Misuse::NeverCompletes(ticket) => write!(f, "the operation of {ticket} never completes"),
            _ => f.write_str(self.reason()),
        }
    }
}

impl Misuse {
    /// Checks that a range ends within a drive.
    pub(crate) fn check_range(offset: u64, bytes: u64, capacity_bytes: u64) -> Result<(), Misuse> {
        let is_within = offset.checked_add(bytes).is_some_and(|end| end <= capacity_bytes);
        if is_within { Ok(()) } else { Err(Misuse::BeyondEnd { offset, bytes, capacity_bytes }) }
    }

    /// Returns the message of a misuse whose sentence contains no numbers.
    fn reason(&self) -> &str {
        match self {
            Misuse::Unsupported { reason, .. }
            | Misuse::Fault(reason)
            | Misuse::NoSuchImage(reason)
            | Misuse::CannotLoad(reason) => reason,
            Misuse::NoData => {
                "a drive that keeps data needs the data of a write; open it without data to ask for times alone"
            }
            Misuse::PowerNotFollowed => "the drive does not follow what a power cut leaves; open it with power cuts",
            Misuse::ForeignImage => "the image belongs to another state of the drive; ask for the images of this one",
            Misuse::SeveralDrives => "faults need a machine with one drive; open each drive by itself",
            _ => "",
        }
    }
}

impl Error for Misuse {}
