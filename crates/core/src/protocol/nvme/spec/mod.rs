//! Layouts of queue entries and data structures, register offsets, opcodes and status codes of the NVM Express
//! specifications, as far as phaselink uses them. No behaviour.

pub mod fields;
pub mod identify;
pub mod layout;
pub mod lists;
pub mod logs;

use crate::number::low_u32;
use fields::blocks;

/// Size of a submission queue entry in bytes (Base Specification 2.0, section 3.3.3.1).
pub const SUBMISSION_ENTRY_BYTES: usize = 64;
/// Size of a completion queue entry in bytes (Base Specification 2.0, section 3.3.3.2).
pub const COMPLETION_ENTRY_BYTES: usize = 16;
/// Memory page size in bytes that CC.MPS selects; PRP entries address such pages (section 4.1.1).
pub const PAGE_BYTES: u64 = 4096;
/// Offset of the first doorbell in the controller's registers, in bytes (NVMe over PCIe Transport Specification 1.0,
/// section 3.1.2).
const DOORBELL_OFFSET: u64 = 0x1000;
/// Bus address at which the simulated host maps the controller's registers (BAR0).
pub const REGISTERS: u64 = 0xe000_0000;

/// Opcodes of the admin command set (Base Specification 2.0).
pub mod admin {
    /// Opcode of the Delete I/O Submission Queue command.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    /// Opcode of the Create I/O Submission Queue command.
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    /// Opcode of the Get Log Page command.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Opcode of the Delete I/O Completion Queue command.
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    /// Opcode of the Create I/O Completion Queue command.
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    /// Opcode of the Identify command.
    pub const IDENTIFY: u8 = 0x06;
    /// Opcode of the Abort command.
    pub const ABORT: u8 = 0x08;
    /// Opcode of the Set Features command.
    pub const SET_FEATURES: u8 = 0x09;
    /// Opcode of the Get Features command.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Opcode of the Asynchronous Event Request command.
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Opcode of the Keep Alive command.
    pub const KEEP_ALIVE: u8 = 0x18;
    /// Opcode of the Directive Send command, which enables and disables directives.
    pub const DIRECTIVE_SEND: u8 = 0x19;
    /// Opcode of the Directive Receive command, which returns the supported and enabled directives.
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    /// Opcode of the Doorbell Buffer Config command, which tells the controller where the shadow doorbells are.
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
    /// Opcode of the Format NVM command (an I/O command set specific admin command).
    pub const FORMAT_NVM: u8 = 0x80;
    /// Opcode of the Sanitize command, which removes all user data for good.
    pub const SANITIZE: u8 = 0x84;
    /// Opcode of the Get LBA Status command, which reports blocks that cannot be read.
    pub const GET_LBA_STATUS: u8 = 0x86;
    /// Opcode of the Namespace Management command, which creates and deletes namespaces.
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Opcode of the Namespace Attachment command, which attaches namespaces to controllers and detaches them.
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
}

/// Status of a command: status code type in the high byte, status code in the low byte (Base Specification 2.0, section
/// 3.3.3.2.1). The bits above the type are Do Not Retry ([`Status::DO_NOT_RETRY`]) and others of the status field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// Successful Completion (generic, 00h): the command ended without an error.
    pub const SUCCESS: Status = Status(0x0000);
    /// Invalid Command Opcode (generic, 01h): the controller does not support the opcode of the command.
    pub const INVALID_OPCODE: Status = Status(0x0001);
    /// Invalid Field in Command (generic, 02h): a field has a value that is reserved or not supported.
    pub const INVALID_FIELD: Status = Status(0x0002);
    /// Data Transfer Error (generic, 04h): data or metadata could not be transferred to or from host memory.
    pub const DATA_TRANSFER_ERROR: Status = Status(0x0004);
    /// Internal Error (generic, 06h): the controller failed to execute the command.
    pub const INTERNAL_ERROR: Status = Status(0x0006);
    /// Command Abort Requested (generic, 07h): an Abort command ended the command.
    pub const ABORT_REQUESTED: Status = Status(0x0007);
    /// Invalid Namespace or Format (generic, 0Bh): no namespace has the identifier, or its format does not suit the
    /// command.
    pub const INVALID_NAMESPACE: Status = Status(0x000b);
    /// Command Sequence Error (generic, 0Ch): the command breaks the order that a sequence of commands must have.
    pub const COMMAND_SEQUENCE_ERROR: Status = Status(0x000c);
    /// Invalid SGL Segment Descriptor (generic, 0Dh): an SGL segment descriptor is not at the end of its segment, or
    /// its length or address is invalid.
    pub const INVALID_SGL_SEGMENT: Status = Status(0x000d);
    /// Invalid Number of SGL Descriptors (generic, 0Eh): the SGL has more descriptors than the controller accepts.
    pub const INVALID_SGL_COUNT: Status = Status(0x000e);
    /// Data SGL Length Invalid (generic, 0Fh): the SGL describes fewer or more bytes than the command transfers.
    pub const INVALID_SGL_LENGTH: Status = Status(0x000f);
    /// SGL Descriptor Type Invalid (generic, 11h): the controller does not support the type of an SGL descriptor.
    pub const INVALID_SGL_TYPE: Status = Status(0x0011);
    /// PRP Offset Invalid (generic, 13h): a PRP entry has an offset in its page that is not allowed, or is not aligned.
    pub const INVALID_PRP_OFFSET: Status = Status(0x0013);
    /// Host Identifier Inconsistent Format (generic, 18h): the command has host identifiers of another length than the
    /// host has set.
    pub const HOST_IDENTIFIER_INCONSISTENT: Status = Status(0x0018);
    /// Command Aborted due to Preempt and Abort (generic, 1Bh): another host has unregistered the host and aborted its
    /// commands.
    pub const PREEMPTED: Status = Status(0x001b);
    /// Sanitize Failed (generic, 1Ch): the latest sanitize operation failed, and no recovery has been done.
    pub const SANITIZE_FAILED: Status = Status(0x001c);
    /// Sanitize In Progress (generic, 1Dh): the command is not allowed while a sanitize operation runs.
    pub const SANITIZE_IN_PROGRESS: Status = Status(0x001d);
    /// FDP Disabled (generic, 29h): the command needs flexible data placement (FDP), which is disabled in the endurance
    /// group.
    pub const PLACEMENT_DISABLED: Status = Status(0x0029);
    /// Invalid Placement Handle List (generic, 2Ah): the command that creates a namespace lists a reclaim unit handle
    /// twice, or one that does not exist.
    pub const INVALID_PLACEMENT_HANDLES: Status = Status(0x002a);
    /// LBA Out of Range (generic, 80h): the range ends beyond the last logical block of the namespace.
    pub const LBA_OUT_OF_RANGE: Status = Status(0x0080);
    /// Capacity Exceeded (generic, 81h): the namespace has no space left for the data.
    pub const CAPACITY_EXCEEDED: Status = Status(0x0081);
    /// Reservation Conflict (generic, 83h): a reservation does not leave the access to the host, or the host is not
    /// registered with this key.
    pub const RESERVATION_CONFLICT: Status = Status(0x0083);
    /// Format In Progress (generic, 84h): the namespace is being formatted.
    pub const FORMAT_IN_PROGRESS: Status = Status(0x0084);
    /// Invalid Value Size (generic, 85h): the namespace does not allow values of this length.
    pub const INVALID_VALUE_SIZE: Status = Status(0x0085);
    /// Invalid Key Size (generic, 86h): the namespace does not allow keys of this length.
    pub const INVALID_KEY_SIZE: Status = Status(0x0086);
    /// KV Key Does Not Exist (generic, 87h): no value is stored under the key of the command.
    pub const KEY_DOES_NOT_EXIST: Status = Status(0x0087);
    /// Key Exists (generic, 89h): the command stores a value only if its key does not exist, but the key exists.
    pub const KEY_EXISTS: Status = Status(0x0089);
    /// Completion Queue Invalid (command specific, 00h): a submission queue names a completion queue that does not
    /// exist.
    pub const COMPLETION_QUEUE_INVALID: Status = Status(0x0100);
    /// Invalid Queue Identifier (command specific, 01h): the queue identifier is in use, does not exist, or is out of
    /// range.
    pub const INVALID_QUEUE_ID: Status = Status(0x0101);
    /// Invalid Queue Size (command specific, 02h): fewer than two entries, or more than CAP.MQES allows.
    pub const INVALID_QUEUE_SIZE: Status = Status(0x0102);
    /// Asynchronous Event Request Limit Exceeded (command specific, 05h): too many Asynchronous Event Requests are in
    /// flight.
    pub const ASYNC_EVENT_LIMIT_EXCEEDED: Status = Status(0x0105);
    /// Invalid Interrupt Vector (command specific, 08h): the controller does not have the interrupt vector.
    pub const INVALID_INTERRUPT_VECTOR: Status = Status(0x0108);
    /// Invalid Log Page (command specific, 09h): the controller does not have the log page.
    pub const INVALID_LOG_PAGE: Status = Status(0x0109);
    /// Invalid Format (command specific, 0Ah): Format NVM names a format that the namespace does not have.
    pub const INVALID_FORMAT: Status = Status(0x010a);
    /// Invalid Queue Deletion (command specific, 0Ch): a submission queue still uses the completion queue.
    pub const INVALID_QUEUE_DELETION: Status = Status(0x010c);
    /// Feature Identifier Not Saveable (command specific, 0Dh): Set Features asks to save a feature that cannot be
    /// saved.
    pub const FEATURE_NOT_SAVEABLE: Status = Status(0x010d);
    /// Feature Not Namespace Specific (command specific, 0Fh): the command names a namespace, but the feature is the
    /// controller's.
    pub const FEATURE_NOT_OF_NAMESPACE: Status = Status(0x010f);
    /// Namespace Insufficient Capacity (command specific, 15h): a new namespace is larger than the unallocated
    /// capacity.
    pub const NAMESPACE_INSUFFICIENT_CAPACITY: Status = Status(0x0115);
    /// Namespace Identifier Unavailable (command specific, 16h): the maximum number of namespaces exists already.
    pub const NAMESPACE_ID_UNAVAILABLE: Status = Status(0x0116);
    /// Namespace Already Attached (command specific, 18h): the controller has the namespace already.
    pub const NAMESPACE_ALREADY_ATTACHED: Status = Status(0x0118);
    /// Namespace Not Attached (command specific, 1Ah): the controller to be detached does not have the namespace.
    pub const NAMESPACE_NOT_ATTACHED: Status = Status(0x011a);
    /// Thin Provisioning Not Supported (command specific, 1Bh): the capacity of a new namespace differs from its size.
    pub const THIN_PROVISIONING_NOT_SUPPORTED: Status = Status(0x011b);
    /// Controller List Invalid (command specific, 1Ch): the controller list is empty or names a controller that does
    /// not exist.
    pub const CONTROLLER_LIST_INVALID: Status = Status(0x011c);
    /// Invalid Protection Information (command specific, 81h): the command's protection information action, checks or
    /// first reference tag do not suit the protection type of the namespace.
    pub const INVALID_PROTECTION_INFORMATION: Status = Status(0x0181);
    /// Command Size Limit Exceeded (command specific, 83h): the source ranges of a Copy exceed a limit of the
    /// controller.
    pub const COMMAND_SIZE_LIMIT_EXCEEDED: Status = Status(0x0183);
    /// Zone Boundary Error (command specific, B8h): the blocks cross the end of a zone or its capacity.
    pub const ZONE_BOUNDARY_ERROR: Status = Status(0x01b8);
    /// Zone Is Full (command specific, B9h): the command writes to a zone in state Full.
    pub const ZONE_IS_FULL: Status = Status(0x01b9);
    /// Zone Is Read Only (command specific, BAh): the command writes to a zone in state Read Only.
    pub const ZONE_IS_READ_ONLY: Status = Status(0x01ba);
    /// Zone Is Offline (command specific, BBh): the command accesses a zone in state Offline.
    pub const ZONE_IS_OFFLINE: Status = Status(0x01bb);
    /// Zone Invalid Write (command specific, BCh): a write does not begin at the write pointer of its zone.
    pub const ZONE_INVALID_WRITE: Status = Status(0x01bc);
    /// Too Many Active Zones (command specific, BDh): the command would exceed the maximum number of active zones.
    pub const TOO_MANY_ACTIVE_ZONES: Status = Status(0x01bd);
    /// Too Many Open Zones (command specific, BEh): the command would exceed the maximum number of open zones.
    pub const TOO_MANY_OPEN_ZONES: Status = Status(0x01be);
    /// Invalid Zone State Transition (command specific, BFh): the zone's state does not allow the requested change.
    pub const INVALID_ZONE_STATE_TRANSITION: Status = Status(0x01bf);
    /// Asymmetric Access Persistent Loss (path related, 01h): the path to the namespace is gone for good.
    pub const ACCESS_LOST: Status = Status(0x0301);
    /// Asymmetric Access Inaccessible (path related, 02h): the path to the namespace has no access now.
    pub const INACCESSIBLE: Status = Status(0x0302);
    /// Asymmetric Access Transition (path related, 03h): the path to the namespace is changing.
    pub const ACCESS_CHANGES: Status = Status(0x0303);
    /// Write Fault (media and data integrity, 80h): the media failed to store the data.
    pub const WRITE_FAULT: Status = Status(0x0280);
    /// Unrecovered Read Error (media and data integrity, 81h): the data could not be read from the media.
    pub const UNRECOVERED_READ_ERROR: Status = Status(0x0281);
    /// End-to-end Guard Check Error (media and data integrity, 82h): the guard (CRC) of a logical block does not match
    /// its data.
    pub const GUARD_CHECK_ERROR: Status = Status(0x0282);
    /// End-to-end Application Tag Check Error (media and data integrity, 83h): the application tag of a logical block
    /// is not the expected one.
    pub const APPLICATION_TAG_CHECK_ERROR: Status = Status(0x0283);
    /// End-to-end Reference Tag Check Error (media and data integrity, 84h): the reference tag of a logical block is
    /// not the expected one.
    pub const REFERENCE_TAG_CHECK_ERROR: Status = Status(0x0284);
    /// Compare Failure (media and data integrity, 85h): the data on the media differs from the data of the Compare
    /// command.
    pub const COMPARE_FAILURE: Status = Status(0x0285);

    /// Do Not Retry bit (DNR) of a [`Status`]: the command would fail again if it were repeated.
    pub const DO_NOT_RETRY: u16 = 1 << 14;

    /// True if the status is about the path to the namespace, so that another path may work.
    pub const fn is_of_path(self) -> bool {
        self.0 >> 8 & 7 == 3
    }

    /// Returns this status with the Do Not Retry bit set.
    pub const fn with_do_not_retry(self) -> Status {
        Status(self.0 | Status::DO_NOT_RETRY)
    }

    /// Returns the status code and its type, without Do Not Retry and the other bits of the status field.
    pub const fn kind(self) -> Status {
        Status(self.0 & 0x07ff)
    }
}

/// Bits of the second byte of a submission queue entry that are not reserved: FUSE and PSDT of dword 0.
pub const FLAGS: u8 = 0b1100_0011;
/// Value of PSDT in the second byte of a submission queue entry that says: the data pointer is an SGL descriptor, the
/// first of a scatter-gather list.
pub const PSDT_SGL: u8 = 0b01 << 6;

/// Submission queue entry: a command as the host submits it (Base Specification 2.0, section 3.3.3.1). Every bit
/// pattern decodes to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmissionEntry {
    /// Opcode of the command (byte 0 of the submission queue entry).
    pub opcode: u8,
    /// Second byte of the submission queue entry: fused operation (FUSE) and format of the data pointer (PSDT).
    /// [`FLAGS`] masks the bits that are not reserved.
    pub flags: u8,
    /// Command identifier (CID), which the completion queue entry repeats.
    pub command_id: u16,
    /// Identifier of the namespace that the command addresses (NSID).
    pub namespace_id: u32,
    /// Command dwords 2 (low half) and 3 (high half): a part of the key in commands of the Key Value command set.
    pub dwords_2_3: u64,
    /// Host address of the command's metadata buffer (MPTR), if metadata is transferred in a buffer of its own.
    pub metadata: u64,
    /// First PRP entry (PRP1) or, with an SGL, the low 8 bytes of the SGL descriptor in the command.
    pub prp1: u64,
    /// Second PRP entry (PRP2) or, with an SGL, the high 8 bytes of the SGL descriptor in the command.
    pub prp2: u64,
    /// Command dwords 10 to 15, whose meaning depends on the opcode.
    pub dwords: [u32; 6],
}

impl SubmissionEntry {
    /// Returns the 64 bytes of this command as a submission queue stores them.
    #[inline]
    pub fn encode(&self) -> [u8; SUBMISSION_ENTRY_BYTES] {
        let [opcode, flags] = [self.opcode, self.flags].map(u64::from);
        let first = opcode | flags << 8 | u64::from(self.command_id) << 16 | u64::from(self.namespace_id) << 32;
        let pair = |place: usize| u64::from(self.dwords[place]) | u64::from(self.dwords[place + 1]) << 32;
        let words = [first, self.dwords_2_3, self.metadata, self.prp1, self.prp2, pair(0), pair(2), pair(4)];
        let mut bytes = [0; SUBMISSION_ENTRY_BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Returns the command that the 64 bytes of a submission queue entry encode.
    #[inline]
    pub fn decode(bytes: &[u8; SUBMISSION_ENTRY_BYTES]) -> SubmissionEntry {
        let words = bytes.as_chunks::<8>().0;
        let u64_at = |at: usize| u64::from_le_bytes(words[at / 8]);
        let dwords = &bytes.as_chunks::<4>().0[10..];
        SubmissionEntry {
            opcode: bytes[0],
            flags: bytes[1],
            command_id: u16::from_le_bytes([bytes[2], bytes[3]]),
            namespace_id: low_u32(u64_at(0) >> 32),
            dwords_2_3: u64_at(8),
            metadata: u64_at(16),
            prp1: u64_at(24),
            prp2: u64_at(32),
            dwords: std::array::from_fn(|place| u32::from_le_bytes(dwords[place])),
        }
    }

    /// Returns this command with its extent set to `blocks` logical blocks from `slba` (fields SLBA and NLB). NLB holds
    /// up to 65,536 blocks.
    #[inline]
    pub fn of_blocks(self, slba: u64, blocks: u32) -> SubmissionEntry {
        self.at_first_block(slba).with(blocks::COUNT, blocks.wrapping_sub(1))
    }

    /// Returns this command with its first logical block set (SLBA).
    #[inline]
    pub fn at_first_block(self, slba: u64) -> SubmissionEntry {
        self.with(blocks::FIRST_LOW, low_u32(slba)).with(blocks::FIRST_HIGH, low_u32(slba >> 32))
    }

    /// Returns the number of the first logical block of this command (SLBA; NVM Command Set Specification 1.0, section
    /// 3.2.4).
    #[inline]
    pub fn slba(&self) -> u64 {
        self.joined_u64([blocks::FIRST_LOW, blocks::FIRST_HIGH])
    }

    /// Returns the number of logical blocks of this command (NLB, which the field counts from 0).
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.get(blocks::COUNT) + 1
    }

    /// True if the data pointer of this command is an SGL descriptor and the command is not fused.
    #[inline]
    pub fn has_sgl_pointer(&self) -> bool {
        self.flags & FLAGS == PSDT_SGL
    }
}

/// Completion queue entry, which tells the host that a command has ended and with which status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionEntry {
    /// Value that the command returns beside its status (dwords 0 and 1 of the completion queue entry).
    pub result: u64,
    /// Index of the next submission queue entry that the controller will read (SQHD).
    pub submission_head: u16,
    /// Number of the submission queue that held the command (SQID).
    pub submission_queue: u16,
    /// Identifier of the completed command (CID).
    pub command_id: u16,
    /// Phase tag of the completion queue entry, inverted each time the queue wraps, so that the host recognises a new
    /// entry.
    pub phase: bool,
    /// Status with which the command ended.
    pub status: Status,
}

impl CompletionEntry {
    /// Returns the 16 bytes of this completion as a completion queue stores them.
    pub fn encode(&self) -> [u8; COMPLETION_ENTRY_BYTES] {
        let status = self.status.0 << 1 | u16::from(self.phase);
        let [head, queue, command, status] =
            [self.submission_head, self.submission_queue, self.command_id, status].map(u64::from);
        let entry = u128::from(self.result) | u128::from(head | queue << 16 | command << 32 | status << 48) << 64;
        entry.to_le_bytes()
    }

    /// Returns the completion that the 16 bytes of a completion queue entry encode.
    pub fn decode(bytes: &[u8; COMPLETION_ENTRY_BYTES]) -> CompletionEntry {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        CompletionEntry {
            result: u64::from_le_bytes(bytes.as_chunks().0[0]),
            submission_head: u16_at(8),
            submission_queue: u16_at(10),
            command_id: u16_at(12),
            phase: bytes[14] & 1 == 1,
            status: Status(u16_at(14) >> 1),
        }
    }
}

/// Returns the bus address of the tail doorbell of submission queue `queue` (I/O queues are counted from 1; doorbell
/// stride 0).
pub fn submission_doorbell(queue: u32) -> u64 {
    REGISTERS + DOORBELL_OFFSET + u64::from(queue) * 8
}

/// Returns the bus address of the head doorbell of completion queue `queue` (I/O queues are counted from 1).
pub fn completion_doorbell(queue: u32) -> u64 {
    submission_doorbell(queue) + 4
}

/// Returns the number of the queue whose doorbell has this bus address, and true if the doorbell is that of a
/// completion queue. Returns none if the address is not that of a doorbell.
pub fn doorbell(address: u64) -> Option<(u32, bool)> {
    let offset = address.checked_sub(REGISTERS + DOORBELL_OFFSET)?;
    let queue = u32::try_from(offset / 8).ok()?;
    (offset % 4 == 0).then_some((queue, offset % 8 == 4))
}

#[cfg(test)]
mod tests {
    use super::super::commands::opcode;
    use super::*;

    #[test]
    fn submission_entry_has_the_specified_layout() {
        let entry = SubmissionEntry {
            opcode: opcode::READ,
            flags: PSDT_SGL,
            command_id: 0x1234,
            namespace_id: 1,
            dwords_2_3: 0x0807_0605_0403_0201,
            metadata: 0x1817_1615_1413_1211,
            prp1: 0x1000,
            prp2: 0x2000,
            dwords: [0, 0, 0x4000_0000, 13, 14, 15],
        }
        .of_blocks(0x0102_0304_0506, 8);
        let bytes = entry.encode();
        assert_eq!(bytes[0..2], [2, 0x40]);
        assert_eq!(&bytes[2..8], &[0x34, 0x12, 1, 0, 0, 0]);
        assert_eq!(&bytes[8..18], &[1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12]);
        assert_eq!(&bytes[40..48], &[6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(&bytes[48..56], &[7, 0, 0, 0x40, 13, 0, 0, 0]);
        assert_eq!(SubmissionEntry::decode(&bytes), entry);
        assert_eq!((entry.slba(), entry.blocks(), entry.has_sgl_pointer()), (0x0102_0304_0506, 8, true));
    }

    #[test]
    fn completion_entry_has_phase_below_status() {
        let entry = CompletionEntry {
            result: 0x0102_0304,
            submission_head: 3,
            submission_queue: 1,
            command_id: 7,
            phase: true,
            status: Status::LBA_OUT_OF_RANGE,
        };
        let bytes = entry.encode();
        assert_eq!(&bytes[..4], &[4, 3, 2, 1]);
        assert_eq!(&bytes[14..16], &[0x01, 0x01]);
        assert_eq!(CompletionEntry::decode(&bytes), entry);
    }

    #[test]
    fn doorbell_addresses_identify_their_queue() {
        assert_eq!(doorbell(submission_doorbell(3)), Some((3, false)));
        assert_eq!(doorbell(completion_doorbell(3)), Some((3, true)));
        assert_eq!(doorbell(REGISTERS), None);
    }
}
