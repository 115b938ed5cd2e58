//! Contents of a completion entry (section 3.3.3.2).

use crate::protocol::nvme::spec::{CompletionEntry, Status};

/// Completed command: the fields of its completion entry that are known before the entry has a place in its queue,
/// which determines the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Identifier of the command (CID).
    pub command_id: u16,
    /// Number of the submission queue that the command was in (SQID).
    pub submission_queue: u16,
    /// Next entry that the controller will read in that submission queue (SQHD).
    pub submission_head: u16,
    /// Value that the command returns beside its status (dwords 0 and 1).
    pub result: u64,
    /// Status of the command.
    pub status: Status,
}

impl Done {
    /// Returns the completion entry for a place with this phase.
    #[inline]
    pub fn entry(self, phase: bool) -> CompletionEntry {
        let Done { command_id, submission_queue, submission_head, result, status } = self;
        CompletionEntry { result, submission_head, submission_queue, command_id, phase, status }
    }
}

/// Returns the status of a command that is refused because of its content. Do Not Retry tells the host that the command
/// would be refused again.
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
