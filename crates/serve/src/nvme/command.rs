//! A submission queue entry, decoded whole from the controller's own copy.

use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};

/// The bytes of an entry.
pub type Bytes = [u8; SUBMISSION_ENTRY_BYTES];

/// A command as it was sent; every bit pattern is some command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The fields that reads and writes have.
    pub entry: SubmissionEntry,
    /// FUSE and PSDT (figure 86): zero in everything that is supported here.
    flags: u8,
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
}

impl Command {
    /// The command that these bytes hold.
    pub fn decode(bytes: &Bytes) -> Command {
        let words = &bytes.as_chunks::<4>().0[10..];
        Command {
            entry: SubmissionEntry::decode(bytes),
            flags: bytes[1],
            dwords: std::array::from_fn(|place| u32::from_le_bytes(words[place])),
        }
    }

    /// Neither fused nor with scatter-gather lists, which Identify does not offer (SGLS, FUSES).
    ///
    /// # Errors
    /// Invalid Field, as for any field that has a value which is not supported.
    pub fn check_flags(&self) -> Result<(), Status> {
        if self.flags & 0b1100_0011 == 0 { Ok(()) } else { Err(Status::INVALID_FIELD) }
    }
}
