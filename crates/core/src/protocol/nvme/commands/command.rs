//! Validation and meaning of a command of an I/O submission queue (NVM Command Set Specification 1.0, section 3).

use smallvec::SmallVec;

use super::{Action, CommandListKind, CommandRow, CommandSet, CompletionDurability, DataPointerUse, Extent};
use crate::protocol::nvme::rules::reservation::ReservationKeys;
use crate::protocol::nvme::rules::zones::ZoneSend;
use crate::protocol::nvme::rules::{CommandBlockMetadata, Data, Limits, WriteReclaimPlacement};
use crate::protocol::nvme::spec::fields::blocks;
use crate::protocol::nvme::spec::layout::{Layout, LayoutBytes};
use crate::protocol::nvme::spec::lists::{RangeEntry, SourceEntry};
use crate::protocol::nvme::spec::{FLAGS, Status, SubmissionEntry};
use crate::request::Op;

/// Namespace identifier that the modelled driver uses in all commands.
pub const NAMESPACE: u32 = 1;
/// Namespace identifier FFFFFFFFh (broadcast), which means all namespaces in a command that allows it.
pub const ALL_NAMESPACES: u32 = u32::MAX;

/// Command whose fields are valid; ranges in its list and the data in host memory are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Row of the command in the table of I/O commands.
    pub row: &'static CommandRow,
    /// Operation that the command asks for, with its parameters.
    pub action: Action,
    /// True if bit FUA is set: the data that the command writes must be durable when it completes.
    pub is_forced: bool,
    /// Identifier of the command's namespace; a flush may name all namespaces.
    pub namespace: u32,
    /// Offset in bytes on the drive of the command's first byte; for a Copy, of the first byte written. 0 if the row's
    /// extent is none.
    pub offset: u64,
    /// Length in bytes of the command's access to the drive; 0 for a flush or deallocation, and for a Copy until its
    /// list has been read. For a report or a key, the length of the report, of the value or of the host's buffer.
    pub bytes: u32,
    /// Host memory of the command's data, or of its list of ranges.
    pub data: Data,
    /// Reclaim group and placement handle of the data that the command writes; both 0 without data placement.
    pub placement: WriteReclaimPlacement,
    /// Metadata of the command's logical blocks, with their protection information; none if the blocks have no
    /// metadata.
    pub metadata: Option<Box<CommandBlockMetadata>>,
}

/// Ranges of the drive, each with its offset and length in bytes. A few need no memory of their own.
pub type ByteRanges = SmallVec<[(u64, u64); 4]>;

/// Content of the list of parameters that a command's data pointer describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterListContent {
    /// Ranges of Dataset Management: offset and length in bytes on the drive.
    Ranges(ByteRanges),
    /// Source ranges of Copy.
    Sources {
        /// Offset and length in bytes on the drive of each source range.
        ranges: Vec<(u64, u64)>,
        /// Length in bytes of all source ranges together.
        bytes: u32,
    },
    /// Pairs of reclaim group and placement handle of I/O Management Send.
    Identifiers(Vec<(u8, u8)>),
    /// Keys of a reservation command.
    Keys(ReservationKeys),
}

impl ParameterListContent {
    /// Returns offset and length in bytes on the drive of each range in the list; a list of identifiers has none.
    pub fn ranges(&self) -> &[(u64, u64)] {
        match self {
            ParameterListContent::Ranges(ranges) => ranges,
            ParameterListContent::Sources { ranges, .. } => ranges,
            ParameterListContent::Identifiers(_) | ParameterListContent::Keys(_) => &[],
        }
    }
}

impl Command {
    /// Returns the command that a submission queue entry encodes, after all checks that its own fields allow.
    ///
    /// # Errors
    /// The status of the first invalid field, in the order of the checks: flags, opcode, namespace, placement,
    /// metadata, blocks, length, data pointer.
    #[inline]
    pub fn check(entry: &SubmissionEntry, limits: &Limits) -> Result<Command, Status> {
        check_entry_flags(entry, limits.takes_segments)?;
        super::check_by_row(entry, limits)
    }

    /// Returns a command with an operation that few requests ask for: see [`Command::of_operation`].
    #[inline(never)]
    pub(super) fn of_rare_operation(
        entry: &SubmissionEntry,
        limits: &Limits,
        action: Action,
        row: &'static CommandRow,
    ) -> Result<Command, Status> {
        Command::of_operation(entry, limits, action, row)
    }

    /// Returns the command with this operation and row that a submission queue entry encodes.
    ///
    /// # Errors
    /// The status of the first invalid field from the namespace on, in the order of [`Command::check`].
    #[inline(always)]
    pub(super) fn of_operation(
        entry: &SubmissionEntry,
        limits: &Limits,
        action: Action,
        row: &'static CommandRow,
    ) -> Result<Command, Status> {
        check_namespace(entry, row, limits)?;
        let (placement, metadata) =
            limits.kind.parts_used_by_command(entry, (row.writes_media(), row.metadata), limits.block_shift)?;
        let named_bytes = action.named_bytes();
        let list_bytes = match row.list() {
            Some(list) => list.bytes(entry, named_bytes)?,
            None => 0,
        };
        let (offset, bytes) = match row.extent {
            Extent::Blocks => block_range_bytes(entry, limits)?,
            extent => (
                start_offset_without_blocks(extent, entry, action, limits)?,
                if list_bytes > 0 { 0 } else { named_bytes },
            ),
        };
        let transferred = match row.data {
            DataPointerUse::None => 0,
            DataPointerUse::List(_) => list_bytes,
            DataPointerUse::ToHost | DataPointerUse::FromHost if bytes > transfer_bytes_max(row, limits) => {
                return Err(Status::INVALID_FIELD);
            }
            DataPointerUse::ToHost | DataPointerUse::FromHost => bytes,
        };
        let data = if transferred > 0 { Data::of(entry, transferred)? } else { Data::none() };
        let is_forced =
            row.durability == CompletionDurability::ForcedOrUncached && entry.has(blocks::FORCE_UNIT_ACCESS);
        Ok(Command { row, action, is_forced, namespace: entry.namespace_id, offset, bytes, data, placement, metadata })
    }

    /// Returns host address and length in bytes of the metadata that the command transfers; none if it transfers none.
    #[inline]
    pub fn metadata_transfer_range(&self) -> Option<(u64, u32)> {
        self.metadata.as_ref().and_then(|metadata| metadata.transfer(self.bytes))
    }

    /// Returns the content of the command's list. The list of a Copy also sets the command's length and metadata.
    ///
    /// # Errors
    /// As [`ranges`] and [`sources`], the status of a source whose metadata is invalid, or Invalid Field for a placement
    /// identifier that does not exist.
    pub fn take_list(&mut self, list: &[u8], limits: &Limits) -> Result<ParameterListContent, Status> {
        match self.row.list() {
            Some(CommandListKind::Sources) => {
                let ranges = self.take_sources(list, limits)?;
                Ok(ParameterListContent::Sources { ranges, bytes: self.bytes })
            }
            Some(CommandListKind::Identifiers) => {
                limits.kind.placement()?.listed(list).map(ParameterListContent::Identifiers)
            }
            Some(CommandListKind::ReservationKeys) => Ok(ParameterListContent::Keys(ReservationKeys::of(list))),
            Some(CommandListKind::Ranges) | None => {
                ranges(list, self.namespace, limits).map(ParameterListContent::Ranges)
            }
        }
    }

    /// Sets length and metadata of a Copy from the list of its sources. Returns offset and length in bytes on the drive
    /// of each.
    fn take_sources(&mut self, list: &[u8], limits: &Limits) -> Result<Vec<(u64, u64)>, Status> {
        let (found, bytes) = sources(list, self.namespace, self.offset, limits)?;
        self.bytes = bytes;
        if let Some(metadata) = &mut self.metadata {
            metadata.take_sources(list)?;
        }
        Ok(found)
    }

    /// Returns the kind of request that counters file this command under, chosen by its access to the media.
    #[inline]
    pub fn op(&self) -> Op {
        self.row.counts
    }

    /// True if the command's completion promises that its changes are durable, so that write buffers are flushed before
    /// it is posted. `write_cache` is true if the volatile write cache is enabled.
    #[inline]
    pub fn must_be_durable(&self, write_cache: bool) -> bool {
        match self.row.durability {
            CompletionDurability::None => false,
            CompletionDurability::ForcedOrUncached => self.is_forced || !write_cache,
            CompletionDurability::Uncached => !write_cache,
            CompletionDurability::ByZoneAction => matches!(self.action, Action::SendZones(send) if send.must_last()),
            CompletionDurability::Always => true,
        }
    }
}

/// Checks the flags of a submission queue entry. Fused commands are never supported, and SGLs only if `takes_segments`
/// is set.
///
/// # Errors
/// Invalid Field if the flags are not supported.
#[inline]
pub fn check_entry_flags(entry: &SubmissionEntry, takes_segments: bool) -> Result<(), Status> {
    if entry.flags & FLAGS == 0 || takes_segments && entry.has_sgl_pointer() {
        Ok(())
    } else {
        Err(Status::INVALID_FIELD)
    }
}

/// Checks that the command's namespace exists, or that the command may name all of them.
#[inline]
fn check_namespace(entry: &SubmissionEntry, row: &CommandRow, limits: &Limits) -> Result<(), Status> {
    let may_be_all = row.takes_all_namespaces && entry.namespace_id == ALL_NAMESPACES;
    if limits.has_namespace(entry.namespace_id) || may_be_all { Ok(()) } else { Err(Status::INVALID_NAMESPACE) }
}

/// Returns the maximum number of bytes that a command transfers: Zone Append has a limit of its own.
#[inline]
fn transfer_bytes_max(row: &CommandRow, limits: &Limits) -> u32 {
    let is_append = row.set == CommandSet::Zones && row.writes_media();
    if is_append { limits.kind.append_bytes_max(limits.transfer_bytes_max) } else { limits.transfer_bytes_max }
}

/// Returns the offset in bytes on the drive at which a command that names no range of blocks begins. The first logical
/// block is ignored if the action is on all zones.
#[inline]
fn start_offset_without_blocks(
    extent: Extent,
    entry: &SubmissionEntry,
    action: Action,
    limits: &Limits,
) -> Result<u64, Status> {
    let is_about_all = matches!(action, Action::SendZones(ZoneSend { all: true, .. }));
    match extent {
        Extent::None | Extent::Blocks => Ok(0),
        Extent::FirstBlock => limits.place(entry.namespace_id, if is_about_all { 0 } else { entry.slba() }, 1),
        Extent::Namespace => Ok(limits.start(entry.namespace_id)),
    }
}

/// Returns offset and length in bytes, on the drive, of a command's logical blocks.
#[inline]
fn block_range_bytes(entry: &SubmissionEntry, limits: &Limits) -> Result<(u64, u32), Status> {
    let blocks = entry.blocks();
    let offset = limits.place(entry.namespace_id, entry.slba(), blocks)?;
    // Up to 65,536 blocks of up to 64 KiB can be one byte more than 32 bits hold.
    let bytes = u32::try_from(u64::from(blocks) << limits.block_shift).map_err(|_| Status::INVALID_FIELD)?;
    Ok((offset, bytes))
}

/// Returns one range of a Dataset Management list as the command stores it: context attributes 0, length in logical
/// blocks, first logical block.
pub(in crate::protocol::nvme) fn encode_dataset_range(slba: u64, blocks: u32) -> [u8; RangeEntry::BYTES] {
    RangeEntry::zeros().with(RangeEntry::COUNT, blocks).with(RangeEntry::FIRST, slba).into_bytes()
}

/// Returns offset and length in bytes on the drive of each range in a Dataset Management list (NVM Command Set
/// Specification, section 3.2.3).
///
/// # Errors
/// LBA Out of Range if any range ends beyond the namespace.
fn ranges(list: &[u8], namespace: u32, limits: &Limits) -> Result<ByteRanges, Status> {
    let place = |range: LayoutBytes<RangeEntry, &[u8]>| {
        let blocks = range.get(RangeEntry::COUNT);
        let offset = limits.place(namespace, range.get(RangeEntry::FIRST), blocks)?;
        Ok((offset, u64::from(blocks) << limits.block_shift))
    };
    RangeEntry::iter_structures(list).map(place).collect()
}

/// Returns the source ranges in the list of a Copy, each as offset and length in bytes on the drive, and the bytes of
/// all ranges together. `offset` is the destination, in the same namespace (NVM Command Set Specification, section
/// 3.2.2).
///
/// # Errors
/// Command Size Limit Exceeded if a range or the whole copy has more blocks than the limits allow. LBA Out of Range if
/// a source or the destination ends beyond the namespace.
fn sources(list: &[u8], namespace: u32, offset: u64, limits: &Limits) -> Result<(Vec<(u64, u64)>, u32), Status> {
    let extent =
        |source: LayoutBytes<_, _>| (source.get(SourceEntry::FIRST), u32::from(source.get(SourceEntry::COUNT)) + 1);
    let sources: Vec<(u64, u32)> = SourceEntry::iter_structures(list).map(extent).collect();
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
    use smallvec::smallvec;

    use super::*;
    use crate::protocol::nvme::commands::opcode;

    const LIMITS: Limits = Limits::SMALL;

    fn entry(opcode: u8, slba: u64, blocks: u32) -> SubmissionEntry {
        SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, ..SubmissionEntry::default() }.of_blocks(slba, blocks)
    }

    #[test]
    fn wrong_command_fields_have_their_statuses() {
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
    fn flush_may_name_all_namespaces_and_write_zeroes_be_long() {
        let flush = SubmissionEntry { namespace_id: ALL_NAMESPACES, ..entry(opcode::FLUSH, 0, 1) };
        assert_eq!(Command::check(&flush, &LIMITS).map(|command| command.action), Ok(Action::Flush));
        let zeroes = Command::check(&entry(opcode::WRITE_ZEROES, 0, 2048), &LIMITS).expect("it moves no data");
        assert_eq!((zeroes.bytes, &zeroes.data, zeroes.op()), (1 << 20, &Data::none(), Op::WriteZeroes));
    }

    /// NVM Command Set Specification 1.0, section 3.2.8: DEAC lets Write Zeroes deallocate, FUA makes the zeros
    /// durable.
    #[test]
    fn write_zeroes_obeys_deac_and_fua() {
        let (deallocate, force) = (1 << 25, 1 << 30);
        for (bits, keep_space, is_forced) in [(0, true, false), (deallocate, false, false), (force, true, true)] {
            let mut entry = entry(opcode::WRITE_ZEROES, 0, 8);
            entry.dwords[2] |= bits;
            let found = Command::check(&entry, &LIMITS).map(|command| (command.action, command.is_forced));
            assert_eq!(found, Ok((Action::Zero { keep_space }, is_forced)), "{bits:x}");
        }
    }

    #[test]
    fn sgl_segments_are_accepted_only_if_supported() {
        let limits = Limits { takes_segments: true, ..LIMITS };
        let entry = SubmissionEntry { flags: 0x40, prp2: 4096, ..entry(opcode::READ, 0, 8) };
        assert!(Command::check(&entry, &limits).is_ok());
        for (prp2, expected) in [(4095, Status::INVALID_SGL_LENGTH), (4096 | 4 << 60, Status::INVALID_SGL_TYPE)] {
            assert_eq!(Command::check(&SubmissionEntry { prp2, ..entry }, &limits), Err(expected));
        }
    }

    /// NVM Command Set Specification 1.0, Dataset Management: access hints may accompany the deallocate attribute (AD).
    #[test]
    fn only_ranges_with_the_deallocate_attribute_are_deallocated() {
        for (attributes, is_hint) in [(0, true), (0b011, true), (0b100, false), (0b111, false)] {
            let mut entry = entry(opcode::DATASET_MANAGEMENT, 0, 1);
            (entry.dwords[0], entry.dwords[1]) = (0, attributes);
            let action = Command::check(&entry, &LIMITS).map(|command| command.action);
            assert_eq!(action, Ok(Action::Deallocate { is_hint }), "{attributes:b}");
        }
    }

    #[test]
    fn namespace_offset_applies_to_all_commands() {
        let limits = LIMITS.divided(2);
        let second = 1024 * 512;
        let read = |namespace_id, slba| SubmissionEntry { namespace_id, ..entry(opcode::READ, slba, 8) };
        let offset = |namespace, slba| Command::check(&read(namespace, slba), &limits).map(|command| command.offset);
        assert_eq!((offset(1, 0), offset(2, 8)), (Ok(0), Ok(second + 4096)));
        assert_eq!((offset(1, 1017), offset(2, 1017)), (Err(Status::LBA_OUT_OF_RANGE), Err(Status::LBA_OUT_OF_RANGE)));
        assert_eq!((offset(0, 0), offset(3, 0)), (Err(Status::INVALID_NAMESPACE), Err(Status::INVALID_NAMESPACE)));
        let range = [[0; 4], 1_u32.to_le_bytes(), 7_u32.to_le_bytes(), [0; 4]].concat();
        assert_eq!(ranges(&range, 2, &limits), Ok(smallvec![(second + 7 * 512, 512)]));
        let source = [[0; 8], 1023_u64.to_le_bytes(), [0; 8], [0; 8]].concat();
        assert_eq!(sources(&source, 2, second, &limits), Ok((vec![(second + 1023 * 512, 512)], 512)));
    }

    #[test]
    fn dataset_ranges_must_lie_within_the_namespace() {
        let range = |blocks: u32, slba: u32| [[0; 4], blocks.to_le_bytes(), slba.to_le_bytes(), [0; 4]].concat();
        let list = [range(1, 10), range(2, 2046)].concat();
        assert_eq!(ranges(&list, 1, &LIMITS), Ok(smallvec![(5120, 512), (2046 * 512, 1024)]));
        assert_eq!(ranges(&range(3, 2046), 1, &LIMITS), Err(Status::LBA_OUT_OF_RANGE));
    }

    #[test]
    fn copy_sources_must_lie_within_namespace_and_limits() {
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
