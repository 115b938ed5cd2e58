//! Status of a command, which the device stores in the status word of the slot after all effects of the command.
//!
//! A write or a flush is complete once its status has been stored. A read is complete once its tags are overwritten.
//! The host reads the status of a read only after a time-out: to learn if the read was refused, its data ends in the
//! tag, or it is still in flight.

use std::io;

/// Result of a command, which the device stores in the slot's status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The command was executed.
    Success = 1,
    /// The operation is unknown, or the range does not lie in whole blocks within the device.
    Invalid = 2,
    /// The client may not write.
    ReadOnly = 3,
    /// The file behind the device cannot grow.
    NoSpace = 4,
    /// The file behind the device could not be read or written.
    Failed = 5,
}

impl Status {
    /// Encodes the status word for this use of the slot.
    #[inline]
    pub fn word(self, attempt: u8) -> u64 {
        u64::from(attempt) << 8 | self as u64
    }

    /// Decodes a status word, or returns none if it belongs to another use of the slot.
    #[inline]
    pub fn from_word(word: u64, attempt: u8) -> Option<Status> {
        let all = [Status::Success, Status::Invalid, Status::ReadOnly, Status::NoSpace, Status::Failed];
        all.into_iter().find(|status| status.word(attempt) == word)
    }

    /// Returns the status for an I/O error of the file behind the device.
    pub fn from_error(error: &io::Error) -> Status {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::NoSpace,
            _ => Status::Failed,
        }
    }

    /// Converts the status to a result.
    ///
    /// # Errors
    ///
    /// If the command failed.
    pub fn result(self) -> io::Result<()> {
        Err(match self {
            Status::Success => return Ok(()),
            Status::Invalid => io::Error::new(
                io::ErrorKind::InvalidInput,
                "the device refuses the command: its operation, offset or length",
            ),
            Status::ReadOnly => io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the device is read-only"),
            Status::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "the file system behind the device is full"),
            Status::Failed => io::Error::other("the file behind the device cannot be read or written"),
        })
    }
}
