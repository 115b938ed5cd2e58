//! How a command ended. The status stands in a word of its slot and is stored behind everything the command did.
//!
//! Writes and flushes are complete when it is there. Reads are complete when their tags are gone; their host looks at the
//! status only when that takes too long: the read was refused, or its data ends in the tag, or it is still under way.

use std::io;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Fine = 1,
    /// No such operation, or not these bytes.
    Invalid = 2,
    ReadOnly = 3,
    NoSpace = 4,
    /// The disk behind the device has failed.
    Failed = 5,
}

impl Status {
    /// The word that says so of this attempt at using the slot.
    #[inline]
    pub fn word(self, attempt: u8) -> u64 {
        u64::from(attempt) << 8 | self as u64
    }

    /// What a word says of this attempt; none if it speaks of another one, or of none.
    #[inline]
    pub fn of(word: u64, attempt: u8) -> Option<Status> {
        let all = [Status::Fine, Status::Invalid, Status::ReadOnly, Status::NoSpace, Status::Failed];
        all.into_iter().find(|status| status.word(attempt) == word)
    }

    /// What an error of the store is.
    pub fn of_error(error: &io::Error) -> Status {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::NoSpace,
            _ => Status::Failed,
        }
    }

    /// The same for programs.
    ///
    /// # Errors
    /// Unless it is fine.
    pub fn result(self) -> io::Result<()> {
        Err(match self {
            Status::Fine => return Ok(()),
            Status::Invalid => io::Error::new(io::ErrorKind::InvalidInput, "the device does not take this command"),
            Status::ReadOnly => io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the device lets nobody write here"),
            Status::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "the disk behind the device is full"),
            Status::Failed => io::Error::other("the disk behind the device has failed"),
        })
    }
}
