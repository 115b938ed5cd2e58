//! Contents of a completion queue entry (section 3.3.3.2).

use crate::protocol::nvme::spec::{CompletionEntry, Status};

/// Completed command: all fields of its completion queue entry except the phase tag, which depends on the entry's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Identifier of the completed command (CID).
    pub command_id: u16,
    /// Number of the submission queue that the command was in (SQID).
    pub submission_queue: u16,
    /// Index of the next entry that the controller will read in that submission queue (SQHD).
    pub submission_head: u16,
    /// Value that the command returns beside its status (dwords 0 and 1 of the completion queue entry).
    pub result: u64,
    /// Status with which the command ended.
    pub status: Status,
}

impl Done {
    /// Returns the completion queue entry for a slot whose phase tag is `phase`.
    #[inline]
    pub fn entry(self, phase: bool) -> CompletionEntry {
        let Done { command_id, submission_queue, submission_head, result, status } = self;
        CompletionEntry { result, submission_head, submission_queue, command_id, phase, status }
    }
}

/// Returns this status with Do Not Retry set, for a command that is refused because of its content: the host would be
/// refused again.
#[inline]
pub fn refusal(status: Status) -> Status {
    status.with_do_not_retry()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_entry_names_command_and_queue_head() {
        let status = refusal(Status::INVALID_OPCODE);
        let done = Done { command_id: 7, submission_queue: 2, submission_head: 5, result: 9, status };
        let bytes = done.entry(true).encode();
        assert_eq!(bytes, [9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, 0, 7, 0, 0x03, 0x80]);
    }
}
