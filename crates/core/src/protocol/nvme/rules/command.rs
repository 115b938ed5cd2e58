//! Validation and meaning of a command of an I/O submission queue (NVM Command Set Specification 1.0, section 3).

use super::key_value::KeyCommand;
use super::placement::{UnitReceive, UnitSend};
use super::zones::{ZoneReceive, ZoneSend};
use super::{BlockMetadata, Data, Limits, WritePlacement};
use crate::protocol::nvme::spec::{FLAGS, Status, SubmissionEntry, opcode};
use crate::request::Op;

/// Namespace identifier that the modelled driver uses in all commands.
pub const NAMESPACE: u32 = 1;
/// Namespace identifier FFFFFFFFh (broadcast), which means all namespaces in a command that allows it.
pub const ALL_NAMESPACES: u32 = u32::MAX;
/// Bit FUA in dword 12 of a write: the data must be durable when the command completes.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Bit DEAC in dword 12 of Write Zeroes: the controller may deallocate the blocks.
const DEALLOCATE: u32 = 1 << 25;
/// Bit AD in dword 11 of Dataset Management: the ranges are to be deallocated.
pub(in crate::protocol::nvme) const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;
/// Size in bytes of a range in the list of Dataset Management (NVM Command Set Specification, figure 39).
pub(in crate::protocol::nvme) const RANGE_BYTES: u32 = 16;
/// Size in bytes of a source range of Copy in format 0, the only accepted format (figure 30).
const SOURCE_BYTES: u32 = 32;
/// Bits of the source range format in dword 12 of Copy (DESFMT).
const SOURCE_FORMAT: u32 = 0xf << 8;
/// Maximum number of source ranges of a Copy, MSRC (assumed: one page of them).
pub const COPY_SOURCES_MAX: u32 = 128;

/// Operation of a valid command, with the parameters that are specific to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes all data written before durable (Flush).
    Flush,
    /// Transfers data from the device to the host (Read).
    Read,
    /// Transfers data from the host to the device (Write).
    Write {
        /// True if the data must be durable when the command completes (FUA).
        force: bool,
    },
    /// Compares data from the host with the data on the device (Compare).
    Compare,
    /// Reads data from the media without a transfer and reports whether that succeeded (Verify).
    Verify,
    /// Fills logical blocks with zeros (Write Zeroes).
    Zero {
        /// True if the zeroed blocks stay allocated (DEAC is 0).
        keep_space: bool,
        /// True if the zeros must be durable when the command completes (FUA).
        force: bool,
    },
    /// Marks logical blocks as unreadable until they are written (Write Uncorrectable).
    WriteUncorrectable,
    /// Deallocates the ranges in the command's list, or only accepts them as a hint if AD is 0 (Dataset Management).
    Deallocate {
        /// True if the command does not ask for deallocation (AD is 0); its other attributes are accepted and change
        /// nothing.
        is_hint: bool,
    },
    /// Writes at the write pointer of a zone (Zone Append); the command's place is the start of the zone.
    Append {
        /// True if the data must be durable when the command completes (FUA).
        force: bool,
    },
    /// Changes the state of a zone, or of all zones (Zone Management Send).
    SendZones(ZoneSend),
    /// Reports zones (Zone Management Receive); the command's data is the report.
    ReceiveZones(ZoneReceive),
    /// Reports reclaim unit handles (I/O Management Receive); the command's data is the report.
    ReceiveUnits(UnitReceive),
    /// Points placement handles to new reclaim units (I/O Management Send); the command's data is their list.
    SendUnits(UnitSend),
    /// Copies source ranges, in order, to one contiguous destination (Copy); the command's data is the list of source
    /// ranges.
    Copy {
        /// True if the copy must be durable when the command completes (FUA).
        force: bool,
    },
    /// Stores, retrieves, lists, deletes or looks for a key (Key Value command set); the command has no place on the
    /// drive.
    Key(KeyCommand),
}

/// Command whose fields are valid; ranges in its list and the data in host memory are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Operation that the command asks for, with its parameters.
    pub action: Action,
    /// Identifier of the command's namespace; a flush may name all namespaces.
    pub namespace: u32,
    /// Offset in bytes on the drive of the command's first byte; for a Copy, of the first byte written. 0 for a flush,
    /// a deallocation or a key.
    pub offset: u64,
    /// Length in bytes of the command's access to the drive; 0 for a flush or deallocation, and for a Copy until its
    /// list has been read. For a report or a key, the length of the report, of the value or of the host's buffer.
    pub bytes: u32,
    /// Host memory of the command's data, or of its list of ranges.
    pub data: Data,
    /// Reclaim group and placement handle of the data that the command writes; both 0 without data placement.
    pub placement: WritePlacement,
    /// Metadata of the command's logical blocks, with their protection information; none if the blocks have no
    /// metadata.
    pub metadata: Option<Box<BlockMetadata>>,
}

impl Command {
    /// Returns the command that a submission queue entry encodes, after all checks that its own fields allow.
    ///
    /// # Errors
    /// The status of the first invalid field, in the order of the checks: flags, opcode, namespace, placement,
    /// metadata, blocks, length, data pointer.
    #[inline]
    pub fn check(entry: &SubmissionEntry, limits: &Limits) -> Result<Command, Status> {
        check_flags(entry, limits.takes_segments)?;
        let action = Action::of(entry, limits)?;
        check_namespace(entry, action, limits)?;
        let placement = match &limits.placement {
            Some(limits) => limits.place(entry, action)?,
            None => WritePlacement::default(),
        };
        let metadata = match limits.metadata {
            Some(format) => BlockMetadata::of(entry, format, limits.block_shift)?,
            None => None,
        };
        let namespace = entry.namespace_id;
        match action {
            Action::Flush => {
                Ok(Command { action, namespace, offset: 0, bytes: 0, data: Data::none(), placement, metadata })
            }
            Action::Deallocate { .. } => {
                let list_bytes = ((entry.dwords[0] & 0xff) + 1) * RANGE_BYTES;
                Ok(Command {
                    action,
                    namespace,
                    offset: 0,
                    bytes: 0,
                    data: Data::of(entry, list_bytes)?,
                    placement,
                    metadata,
                })
            }
            Action::Copy { .. } => Ok(Command { placement, metadata, ..Command::of_copy(entry, action, limits)? }),
            Action::Zero { .. } | Action::Verify | Action::WriteUncorrectable => {
                let (offset, bytes) = extent(entry, limits)?;
                Ok(Command { action, namespace, offset, bytes, data: Data::none(), placement, metadata })
            }
            Action::Read | Action::Write { .. } | Action::Compare | Action::Append { .. } => {
                let (offset, bytes) = extent(entry, limits)?;
                if bytes > transfer_bytes_max(action, limits) {
                    return Err(Status::INVALID_FIELD);
                }
                Ok(Command { action, namespace, offset, bytes, data: Data::of(entry, bytes)?, placement, metadata })
            }
            Action::SendZones(_) | Action::ReceiveZones(_) => Command::of_zones(entry, action, limits),
            Action::ReceiveUnits(_) | Action::SendUnits(_) => Command::of_units(entry, action, limits),
            Action::Key(command) => Command::of_key(entry, command, limits),
        }
    }

    /// Returns the Copy command of a submission queue entry, still without placement and metadata. Its length is 0
    /// until the list of sources has been read.
    fn of_copy(entry: &SubmissionEntry, action: Action, limits: &Limits) -> Result<Command, Status> {
        if entry.dwords[2] & SOURCE_FORMAT != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let sources = (entry.dwords[2] & 0xff) + 1;
        if sources > COPY_SOURCES_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let (namespace, placement) = (entry.namespace_id, WritePlacement::default());
        let offset = limits.place(namespace, entry.slba(), 1)?;
        let data = Data::of(entry, sources * SOURCE_BYTES)?;
        Ok(Command { action, namespace, offset, bytes: 0, data, placement, metadata: None })
    }

    /// Returns the Zone Management command of a submission queue entry. The first logical block is ignored if the
    /// action is on all zones.
    fn of_zones(entry: &SubmissionEntry, action: Action, limits: &Limits) -> Result<Command, Status> {
        let (namespace, placement) = (entry.namespace_id, WritePlacement::default());
        let is_about_all = matches!(action, Action::SendZones(ZoneSend { all: true, .. }));
        let slba = if is_about_all { 0 } else { entry.slba() };
        let offset = limits.place(namespace, slba, 1)?;
        let Action::ReceiveZones(ZoneReceive { bytes, .. }) = action else {
            return Ok(Command { action, namespace, offset, bytes: 0, data: Data::none(), placement, metadata: None });
        };
        if bytes > limits.transfer_bytes_max {
            return Err(Status::INVALID_FIELD);
        }
        Ok(Command { action, namespace, offset, bytes, data: Data::of(entry, bytes)?, placement, metadata: None })
    }

    /// Returns the I/O Management command of a submission queue entry: a report of reclaim units, or a list of handles
    /// that are to get new ones.
    #[cold]
    fn of_units(entry: &SubmissionEntry, action: Action, limits: &Limits) -> Result<Command, Status> {
        let (bytes, list_bytes) = match action {
            Action::ReceiveUnits(receive) => (receive.bytes, 0),
            Action::SendUnits(send) => (0, send.bytes()),
            _ => (0, 0),
        };
        if bytes > limits.transfer_bytes_max {
            return Err(Status::INVALID_FIELD);
        }
        let data = if bytes + list_bytes > 0 { Data::of(entry, bytes + list_bytes)? } else { Data::none() };
        let (namespace, offset, placement) =
            (entry.namespace_id, limits.start(entry.namespace_id), WritePlacement::default());
        Ok(Command { action, namespace, offset, bytes, data, placement, metadata: None })
    }

    /// Returns the kind of request that counters file this command under, chosen by its access to the media. A command
    /// that changes only zones or reclaim units counts as a flush.
    pub fn op(&self) -> Op {
        match self.action {
            Action::Read | Action::Compare | Action::Verify | Action::ReceiveZones(_) | Action::ReceiveUnits(_) => {
                Op::Read
            }
            Action::Write { .. } | Action::Append { .. } | Action::Copy { .. } => Op::Write,
            Action::Zero { .. } | Action::WriteUncorrectable => Op::WriteZeroes,
            Action::Flush | Action::SendZones(_) | Action::SendUnits(_) => Op::Flush,
            Action::Deallocate { .. } => Op::Discard,
            Action::Key(command) => command.op(),
        }
    }

    /// Returns the Key Value command of a submission queue entry, with the host memory of its value or buffer.
    ///
    /// # Errors
    /// Invalid Field for a buffer that is larger than the maximum transfer, and the errors of the data pointer.
    #[cold]
    fn of_key(entry: &SubmissionEntry, command: KeyCommand, limits: &Limits) -> Result<Command, Status> {
        let bytes = command.data_bytes();
        if bytes > limits.transfer_bytes_max {
            return Err(Status::INVALID_FIELD);
        }
        let data = if bytes > 0 { Data::of(entry, bytes)? } else { Data::none() };
        let (action, placement) = (Action::Key(command), WritePlacement::default());
        Ok(Command { action, namespace: entry.namespace_id, offset: 0, bytes, data, placement, metadata: None })
    }
}

impl Action {
    /// True if the data that the command writes must be durable when it completes (FUA).
    pub fn is_forced(self) -> bool {
        match self {
            Action::Write { force }
            | Action::Zero { force, .. }
            | Action::Copy { force }
            | Action::Append { force } => force,
            Action::Flush
            | Action::Read
            | Action::Compare
            | Action::Verify
            | Action::WriteUncorrectable
            | Action::SendZones(_)
            | Action::ReceiveZones(_)
            | Action::ReceiveUnits(_)
            | Action::SendUnits(_)
            | Action::Key(_)
            | Action::Deallocate { .. } => false,
        }
    }

    /// True if the command only reports or changes zones, reclaim units or keys, and moves no blocks or values.
    #[inline]
    pub fn is_management(self) -> bool {
        match self {
            Action::SendZones(_) | Action::ReceiveZones(_) | Action::ReceiveUnits(_) | Action::SendUnits(_) => true,
            Action::Key(command) => !command.moves_value(),
            _ => false,
        }
    }

    /// True if the command transfers data to the host and none from the host.
    #[inline]
    pub fn brings_data(self) -> bool {
        match self {
            Action::Read | Action::ReceiveZones(_) | Action::ReceiveUnits(_) => true,
            Action::Key(command) => command.brings_data(),
            _ => false,
        }
    }

    /// Returns the operation that the opcode of a submission queue entry names, with its parameters. Key Value opcodes
    /// count only in a namespace with keys.
    #[inline]
    fn of(entry: &SubmissionEntry, limits: &Limits) -> Result<Action, Status> {
        let force = entry.dwords[2] & FORCE_UNIT_ACCESS != 0;
        match entry.opcode {
            opcode::FLUSH => Ok(Action::Flush),
            _ if let Some(keys) = &limits.key_value => KeyCommand::of(entry, keys).map(Action::Key),
            opcode::READ => Ok(Action::Read),
            opcode::WRITE => Ok(Action::Write { force }),
            opcode::COMPARE => Ok(Action::Compare),
            opcode::VERIFY => Ok(Action::Verify),
            opcode::WRITE_UNCORRECTABLE => Ok(Action::WriteUncorrectable),
            opcode::COPY => Ok(Action::Copy { force }),
            opcode::WRITE_ZEROES => Ok(Action::Zero { keep_space: entry.dwords[2] & DEALLOCATE == 0, force }),
            opcode::DATASET_MANAGEMENT => {
                Ok(Action::Deallocate { is_hint: entry.dwords[1] & ATTRIBUTE_DEALLOCATE == 0 })
            }
            opcode::ZONE_APPEND if limits.zones.is_some() => Ok(Action::Append { force }),
            opcode::ZONE_MANAGEMENT_SEND if limits.zones.is_some() => ZoneSend::of(entry).map(Action::SendZones),
            opcode::ZONE_MANAGEMENT_RECEIVE if limits.zones.is_some() => {
                ZoneReceive::of(entry).map(Action::ReceiveZones)
            }
            opcode::IO_MANAGEMENT_RECEIVE if let Some(placement) = &limits.placement => {
                UnitReceive::of(entry, placement).map(Action::ReceiveUnits)
            }
            opcode::IO_MANAGEMENT_SEND if let Some(placement) = &limits.placement => {
                UnitSend::of(entry, placement).map(Action::SendUnits)
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }
}

/// Checks the flags of a submission queue entry. Fused commands are never supported, and SGLs only if `takes_segments`
/// is set (figure 86).
///
/// # Errors
/// Invalid Field if the flags are not supported.
#[inline]
pub fn check_flags(entry: &SubmissionEntry, takes_segments: bool) -> Result<(), Status> {
    if entry.flags & FLAGS == 0 || takes_segments && entry.is_sgl() { Ok(()) } else { Err(Status::INVALID_FIELD) }
}

/// Checks that the command's namespace exists. Only a flush may name all namespaces (section 7.1 of the Base
/// Specification).
#[inline]
fn check_namespace(entry: &SubmissionEntry, action: Action, limits: &Limits) -> Result<(), Status> {
    let may_be_all = action == Action::Flush && entry.namespace_id == ALL_NAMESPACES;
    if limits.has_namespace(entry.namespace_id) || may_be_all { Ok(()) } else { Err(Status::INVALID_NAMESPACE) }
}

/// Returns the maximum number of bytes that a command with this action transfers: Zone Append has a limit of its own.
#[inline]
fn transfer_bytes_max(action: Action, limits: &Limits) -> u32 {
    match (action, &limits.zones) {
        (Action::Append { .. }, Some(zones)) => zones.append_bytes_max,
        _ => limits.transfer_bytes_max,
    }
}

/// Returns offset and length in bytes, on the drive, of a command's logical blocks.
#[inline]
fn extent(entry: &SubmissionEntry, limits: &Limits) -> Result<(u64, u32), Status> {
    let blocks = entry.blocks();
    let offset = limits.place(entry.namespace_id, entry.slba(), blocks)?;
    // 65,536 blocks of 64 KiB are 2^32 bytes, which do not fit in 32 bits.
    let bytes = u32::try_from(u64::from(blocks) << limits.block_shift).map_err(|_| Status::INVALID_FIELD)?;
    Ok((offset, bytes))
}

/// Returns one range of a Dataset Management list as the command stores it: context attributes 0, length in logical
/// blocks, first logical block (figure 39).
pub(in crate::protocol::nvme) fn encode_range(slba: u64, blocks: u32) -> [u8; RANGE_BYTES as usize] {
    let mut range = [0; RANGE_BYTES as usize];
    range[4..8].copy_from_slice(&blocks.to_le_bytes());
    range[8..].copy_from_slice(&slba.to_le_bytes());
    range
}

/// Returns offset and length in bytes on the drive of each range in a Dataset Management list (NVM Command Set
/// Specification, section 3.2.3).
///
/// # Errors
/// LBA Out of Range if any range ends beyond the namespace.
pub fn ranges(list: &[u8], namespace: u32, limits: &Limits) -> Result<Vec<(u64, u64)>, Status> {
    each_range(list, namespace, limits).collect()
}

/// Iterates over the ranges in a Dataset Management list: offset and length in bytes on the drive, or LBA Out of Range
/// if the range ends beyond the namespace.
pub fn each_range(list: &[u8], namespace: u32, limits: &Limits) -> impl Iterator<Item = Result<(u64, u64), Status>> {
    list.as_chunks().0.iter().map(move |range: &[u8; RANGE_BYTES as usize]| {
        let [_, blocks, low, high] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(range.as_chunks().0[word]));
        let offset = limits.place(namespace, u64::from(low) | u64::from(high) << 32, blocks)?;
        Ok((offset, u64::from(blocks) << limits.block_shift))
    })
}

/// Returns the source ranges in the list of a Copy, each as offset and length in bytes on the drive, and the bytes of
/// all ranges together. `offset` is the destination, in the same namespace (NVM Command Set Specification, section
/// 3.2.2).
///
/// # Errors
/// Command Size Limit Exceeded if a range or the whole copy has more blocks than the limits allow. LBA Out of Range if
/// a source or the destination ends beyond the namespace.
pub fn sources(list: &[u8], namespace: u32, offset: u64, limits: &Limits) -> Result<(Vec<(u64, u64)>, u32), Status> {
    let source = |source: &[u8; SOURCE_BYTES as usize]| {
        let [_, slba, blocks, _] = [0, 1, 2, 3].map(|word| u64::from_le_bytes(source.as_chunks().0[word]));
        (slba, (blocks as u32 & 0xffff) + 1)
    };
    let sources: Vec<(u64, u32)> = list.as_chunks().0.iter().map(source).collect();
    let blocks = sources.iter().map(|(_, blocks)| blocks).sum();
    let is_long = sources.iter().any(|(_, blocks)| *blocks > limits.copy_source_blocks_max());
    if is_long || blocks > limits.copy_blocks_max() {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
    }
    limits.place(namespace, (offset - limits.start(namespace)) >> limits.block_shift, blocks)?;
    let place = |&(slba, blocks)| Ok((limits.place(namespace, slba, blocks)?, u64::from(blocks) << limits.block_shift));
    Ok((sources.iter().map(place).collect::<Result<_, _>>()?, blocks << limits.block_shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits::SMALL;

    fn entry(opcode: u8, slba: u64, blocks: u32) -> SubmissionEntry {
        SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, ..SubmissionEntry::default() }.of_blocks(slba, blocks)
    }

    #[test]
    fn each_wrong_field_has_its_status() {
        let read = entry(opcode::READ, 0, 8);
        for (entry, expected) in [
            (SubmissionEntry { opcode: 0x77, ..read }, Status::INVALID_OPCODE),
            (SubmissionEntry { flags: 0x40, ..read }, Status::INVALID_FIELD),
            (SubmissionEntry { flags: 0x01, ..read }, Status::INVALID_FIELD),
            (SubmissionEntry { namespace_id: 0, ..read }, Status::INVALID_NAMESPACE),
            (SubmissionEntry { namespace_id: ALL_NAMESPACES, ..read }, Status::INVALID_NAMESPACE),
            (entry(opcode::READ, 2041, 8), Status::LBA_OUT_OF_RANGE),
            (entry(opcode::WRITE, 0, 129), Status::INVALID_FIELD),
            (SubmissionEntry { prp1: 2, ..read }, Status::INVALID_PRP_OFFSET),
        ] {
            assert_eq!(Command::check(&entry, &LIMITS), Err(expected), "{entry:?}");
        }
    }

    #[test]
    fn a_flush_may_name_all_namespaces_and_zeroes_may_be_many() {
        let flush = SubmissionEntry { namespace_id: ALL_NAMESPACES, ..entry(opcode::FLUSH, 0, 1) };
        assert_eq!(Command::check(&flush, &LIMITS).map(|command| command.action), Ok(Action::Flush));
        let zeroes = Command::check(&entry(opcode::WRITE_ZEROES, 0, 2048), &LIMITS).expect("it moves no data");
        assert_eq!((zeroes.bytes, &zeroes.data, zeroes.op()), (1 << 20, &Data::none(), Op::WriteZeroes));
    }

    /// NVM Command Set Specification 1.0, section 3.2.8: DEAC lets Write Zeroes deallocate, FUA makes the zeros
    /// durable.
    #[test]
    fn write_zeroes_deallocates_if_deac_is_set_and_is_durable_if_fua_is_set() {
        let (deallocate, force) = (1 << 25, 1 << 30);
        for (bits, keep_space, is_forced) in [(0, true, false), (deallocate, false, false), (force, true, true)] {
            let mut entry = entry(opcode::WRITE_ZEROES, 0, 8);
            entry.dwords[2] |= bits;
            let action = Command::check(&entry, &LIMITS).map(|command| command.action);
            assert_eq!(action, Ok(Action::Zero { keep_space, force: is_forced }), "{bits:x}");
        }
    }

    #[test]
    fn segments_are_taken_where_they_are_offered() {
        let limits = Limits { takes_segments: true, ..LIMITS };
        let entry = SubmissionEntry { flags: 0x40, prp2: 4096, ..entry(opcode::READ, 0, 8) };
        assert!(Command::check(&entry, &limits).is_ok());
        for (prp2, expected) in [(4095, Status::INVALID_SGL_LENGTH), (4096 | 4 << 60, Status::INVALID_SGL_TYPE)] {
            assert_eq!(Command::check(&SubmissionEntry { prp2, ..entry }, &limits), Err(expected));
        }
    }

    /// NVM Command Set Specification 1.0, figure 40: the access hints of Dataset Management may accompany the
    /// deallocate attribute (AD).
    #[test]
    fn ranges_are_deallocated_where_the_attribute_says_so_and_are_a_hint_elsewhere() {
        for (attributes, is_hint) in [(0, true), (0b011, true), (0b100, false), (0b111, false)] {
            let mut entry = entry(opcode::DATASET_MANAGEMENT, 0, 1);
            (entry.dwords[0], entry.dwords[1]) = (0, attributes);
            let action = Command::check(&entry, &LIMITS).map(|command| command.action);
            assert_eq!(action, Ok(Action::Deallocate { is_hint }), "{attributes:b}");
        }
    }

    #[test]
    fn a_namespace_is_a_part_of_the_drive_for_every_command() {
        let limits = LIMITS.divided(2);
        let second = 1024 * 512;
        let read = |namespace_id, slba| SubmissionEntry { namespace_id, ..entry(opcode::READ, slba, 8) };
        let offset = |namespace, slba| Command::check(&read(namespace, slba), &limits).map(|command| command.offset);
        assert_eq!((offset(1, 0), offset(2, 8)), (Ok(0), Ok(second + 4096)));
        assert_eq!((offset(1, 1017), offset(2, 1017)), (Err(Status::LBA_OUT_OF_RANGE), Err(Status::LBA_OUT_OF_RANGE)));
        assert_eq!((offset(0, 0), offset(3, 0)), (Err(Status::INVALID_NAMESPACE), Err(Status::INVALID_NAMESPACE)));
        let range = [[0; 4], 1_u32.to_le_bytes(), 7_u32.to_le_bytes(), [0; 4]].concat();
        assert_eq!(ranges(&range, 2, &limits), Ok(vec![(second + 7 * 512, 512)]));
        let source = [[0; 8], 1023_u64.to_le_bytes(), [0; 8], [0; 8]].concat();
        assert_eq!(sources(&source, 2, second, &limits), Ok((vec![(second + 1023 * 512, 512)], 512)));
    }

    #[test]
    fn ranges_lie_within_the_namespace() {
        let range = |blocks: u32, slba: u32| [[0; 4], blocks.to_le_bytes(), slba.to_le_bytes(), [0; 4]].concat();
        let list = [range(1, 10), range(2, 2046)].concat();
        assert_eq!(ranges(&list, 1, &LIMITS), Ok(vec![(5120, 512), (2046 * 512, 1024)]));
        assert_eq!(ranges(&range(3, 2046), 1, &LIMITS), Err(Status::LBA_OUT_OF_RANGE));
    }

    #[test]
    fn sources_of_a_copy_lie_within_the_namespace_and_its_limits() {
        let source =
            |slba: u64, blocks: u16| [[0; 8], slba.to_le_bytes(), u64::from(blocks - 1).to_le_bytes(), [0; 8]].concat();
        let list = [source(10, 1), source(2046, 2)].concat();
        assert_eq!(sources(&list, 1, 0, &LIMITS), Ok((vec![(5120, 512), (2046 * 512, 1024)], 1536)));
        assert_eq!(sources(&list, 1, 2046 * 512, &LIMITS), Err(Status::LBA_OUT_OF_RANGE), "no room behind it");
        assert_eq!(sources(&source(2047, 2), 1, 0, &LIMITS), Err(Status::LBA_OUT_OF_RANGE));
        assert_eq!(sources(&source(0, 129), 1, 0, &LIMITS), Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED));
        assert_eq!(sources(&source(0, 128).repeat(9), 1, 0, &LIMITS), Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED));
        let copy = entry(opcode::COPY, 0, 1);
        let with = |twelve| SubmissionEntry { dwords: [0, 0, twelve, 0, 0, 0], ..copy };
        assert_eq!(Command::check(&with(1 << 8), &LIMITS), Err(Status::INVALID_FIELD), "another format");
        assert_eq!(Command::check(&with(128), &LIMITS), Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED));
    }
}
