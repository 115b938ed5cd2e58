//! What goes into a completion entry (section 3.3.3.2).

use crate::protocol::nvme::spec::{CompletionEntry, Status};

/// A command that is done: what is known of its entry before that has a place in its queue, which gives it its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub command_id: u16,
    /// Number of the submission queue that the command was in, and how far that has been read (SQHD).
    pub submission_queue: u16,
    pub submission_head: u16,
    /// What the command returns beside its status (dword 0).
    pub result: u32,
    pub status: Status,
}

impl Done {
    /// The entry in its place.
    #[inline]
    pub fn entry(self, phase: bool) -> CompletionEntry {
        let Done { command_id, submission_queue, submission_head, result, status } = self;
        CompletionEntry { result, submission_head, submission_queue, command_id, phase, status }
    }
}

/// The status of a command that is refused because of what it says: the same command would be refused again, which the host
/// is told (Do Not Retry).
#[inline]
pub fn refusal(status: Status) -> Status {
    status.for_good()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_which_command_and_how_far_its_queue_has_been_read() {
        let status = refusal(Status::INVALID_OPCODE);
        let done = Done { command_id: 7, submission_queue: 2, submission_head: 5, result: 9, status };
        let bytes = done.entry(true).encode();
        assert_eq!(bytes, [9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, 0, 7, 0, 0x03, 0x80]);
    }
}
