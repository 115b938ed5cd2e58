//! Slots of a [session](super::session): each holds a command of the host with its data.

use phaselink_core::config::FaultDigest;
use phaselink_core::protocol::nvme::spec::SubmissionEntry;

use super::fabrics;

/// End of a chain of slots.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommandDataDirection {
    /// The command has no data.
    #[default]
    None,
    /// From the host to the controller.
    FromHost,
    /// From the controller to the host.
    ToHost,
}

impl CommandDataDirection {
    /// Returns the direction that the two lowest bits of an opcode name; for Fabrics commands, those of their type.
    pub(super) fn of(entry: &SubmissionEntry) -> CommandDataDirection {
        let opcode = if entry.opcode == fabrics::OPCODE { fabrics::fabrics_command_type(entry) } else { entry.opcode };
        match opcode & 0b11 {
            0b01 => CommandDataDirection::FromHost,
            0b10 => CommandDataDirection::ToHost,
            _ => CommandDataDirection::None,
        }
    }
}

/// State of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Without a command.
    #[default]
    Free,
    /// The command waits until there is room for its data.
    Waiting,
    /// The command waits for its data, for which an R2T has been sent.
    Receiving,
    /// The command and its data are there.
    Arrived,
    /// The command is in the controller's queue, or has been fetched from it.
    Submitted,
}

/// Command of a host with its data.
#[derive(Debug, Default)]
pub(super) struct CommandSlot {
    pub state: SlotState,
    /// Submission queue entry. Its data pointer names the data of this slot once the slot is submitted.
    pub entry: SubmissionEntry,
    pub flow: CommandDataDirection,
    /// Number of data bytes that the data pointer of the host names.
    pub bytes: u32,
    /// Number of bytes that count as buffered for the command.
    pub reserved: u32,
    pub data: Vec<u8>,
    /// Number of bytes that have arrived, or that the controller has written.
    pub filled: u32,
    /// True if a data digest was wrong.
    pub is_corrupt: bool,
    /// Digest of the response that a fault makes wrong.
    pub wrong_digest: Option<FaultDigest>,
    /// Next slot whose command identifier has the same place in the table of identifiers.
    pub next: u16,
}

/// Data of an H2CData PDU that is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub slot: u16,
    /// Offset in the slot's data at which the next byte goes.
    pub at: usize,
    /// Offset in the slot's data at which the PDU's data begins and ends.
    pub start: usize,
    pub end: usize,
    pub has_digest: bool,
    pub is_last: bool,
}
