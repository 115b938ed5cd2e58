//! Row of the table of I/O commands: everything that controllers, strict checks, log pages and fuzz targets ask about a
//! command, apart from the parameters of one submission queue entry.

use super::Action;
use crate::number::short_length;
use crate::protocol::nvme::rules::NamespaceKind;
use crate::protocol::nvme::rules::protection::CommandMetadataUse;
use crate::protocol::nvme::rules::reservation::NamespaceAccess;
use crate::protocol::nvme::spec::fields::{copy, ranges};
use crate::protocol::nvme::spec::layout::{Layout, ReservedDwordBits};
use crate::protocol::nvme::spec::lists::{RangeEntry, SourceEntry};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};
use crate::request::Op;

/// Size in bytes of a range in the list of Dataset Management.
pub(in crate::protocol::nvme) const RANGE_BYTES: u32 = short_length(RangeEntry::BYTES);
/// Size in bytes of a source range of Copy in format 0, the only accepted format.
const SOURCE_BYTES: u32 = short_length(SourceEntry::BYTES);
/// Maximum number of source ranges of a Copy, MSRC (assumed: one page of them).
pub const COPY_SOURCES_MAX: u32 = 128;

/// Row of the table of I/O commands.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandRow {
    /// Name of the command in its specification.
    pub name: &'static str,
    /// Opcode of the command.
    pub opcode: u8,
    /// Command set that a namespace needs for the command.
    pub set: CommandSet,
    /// True if the command may be about all namespaces, with the identifier FFFFFFFFh (section 7.1 of the Base
    /// Specification).
    pub takes_all_namespaces: bool,
    /// Part of the namespace that the fields of the entry name.
    pub extent: Extent,
    /// Direction and content of the transfer between host memory and controller.
    pub data: DataPointerUse,
    /// Access to the media, which takes time there.
    pub media: MediaUse,
    /// Metadata of logical blocks that the command uses.
    pub metadata: CommandMetadataUse,
    /// Condition under which the command's completion promises that its changes are durable.
    pub durability: CompletionDurability,
    /// Kind of request that counters file the command under. A command that only manages zones or reclaim units counts
    /// as a flush.
    pub counts: Op,
    /// State of the drive that the command changes.
    pub changes: ChangedState,
    /// Value that blocks or a key give for dwords 0 and 1 of the completion queue entry.
    pub returns: CompletionValueKind,
    /// Bit of ONCS that announces the command, or none if no bit does.
    pub optional_bit: Option<u16>,
    /// Reserved bits of command dwords 10 to 15; none are checked if all masks are 0.
    pub reserved: ReservedDwordBits,
}

impl CommandRow {
    /// Row of a command that transfers nothing and changes nothing; the rows of the table say what differs.
    pub(super) const PLAIN: CommandRow = CommandRow {
        name: "",
        opcode: 0,
        set: CommandSet::Every,
        takes_all_namespaces: false,
        extent: Extent::None,
        data: DataPointerUse::None,
        media: MediaUse::None,
        metadata: CommandMetadataUse::None,
        durability: CompletionDurability::None,
        counts: Op::Flush,
        changes: ChangedState::Nothing,
        returns: CompletionValueKind::None,
        optional_bit: None,
        reserved: [0; 6],
    };

    /// True if the command transfers data to the host and none from the host.
    #[inline]
    pub fn transfers_only_to_host(&self) -> bool {
        self.data == DataPointerUse::ToHost
    }

    /// True if the command is one of those that transfer blocks or values with their metadata: Read and Write, which are
    /// nearly all commands of a host.
    pub(super) const fn is_transfer(&self) -> bool {
        matches!(self.metadata, CommandMetadataUse::Transferred)
    }

    /// True if the command only reports or changes zones, reclaim units or keys: it moves no blocks or values, and no
    /// data on the media becomes durable or deallocated.
    #[inline]
    pub fn is_management(&self) -> bool {
        self.media == MediaUse::None
    }

    /// True if the command writes blocks or a value that the media stores.
    #[inline]
    pub fn writes_media(&self) -> bool {
        self.media == MediaUse::Write
    }

    /// True if the command changes the content of the drive (effect LBCC of the log page of command effects).
    pub fn changes_logical_content(&self) -> bool {
        !matches!(self.changes, ChangedState::Nothing | ChangedState::Flushed)
    }

    /// Returns the access to the namespace that the command needs, which a reservation may refuse.
    #[inline]
    pub fn access(&self) -> NamespaceAccess {
        match (self.changes, self.counts) {
            (ChangedState::Nothing, Op::Read) => NamespaceAccess::Read,
            (ChangedState::Nothing, _) if self.set != CommandSet::Placement => NamespaceAccess::None,
            _ => NamespaceAccess::Write,
        }
    }

    /// Returns the list that the command's data pointer describes; none if it describes other data.
    #[inline]
    pub fn list(&self) -> Option<CommandListKind> {
        if let DataPointerUse::List(kind) = self.data { Some(kind) } else { None }
    }
}

/// Command set that a command belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSet {
    /// All command sets (Base Specification).
    Every,
    /// NVM command set: logical blocks, with or without zones.
    Blocks,
    /// Zoned Namespace command set.
    Zones,
    /// Key Value command set, which replaces the commands for logical blocks.
    Keys,
    /// Commands of flexible data placement (Base Specification 2.1).
    Placement,
}

impl NamespaceKind {
    /// True if the namespace has the commands of a set.
    #[inline]
    pub fn offers(&self, set: CommandSet) -> bool {
        match self {
            NamespaceKind::Blocks(_) if set == CommandSet::Placement => self.placement().is_ok(),
            NamespaceKind::Blocks(_) => matches!(set, CommandSet::Every | CommandSet::Blocks),
            NamespaceKind::Zoned(_) => {
                matches!(set, CommandSet::Every | CommandSet::Blocks | CommandSet::Zones)
            }
            NamespaceKind::Keyed(_) => matches!(set, CommandSet::Every | CommandSet::Keys),
        }
    }
}

/// Part of a namespace that the fields of a submission queue entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// No part: the whole namespace, ranges of a list, or a key.
    None,
    /// Logical blocks: the first one (SLBA) and their number (NLB).
    Blocks,
    /// First logical block (SLBA) of a zone, or of a destination whose length follows from a list.
    FirstBlock,
    /// Start of the namespace.
    Namespace,
}

/// Transfer between host memory and controller that a command's data pointer describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointerUse {
    /// No transfer.
    None,
    /// Blocks, a value or a report, from the device to the host.
    ToHost,
    /// Blocks or a value, from the host to the device.
    FromHost,
    /// List of parameters, from the host to the device.
    List(CommandListKind),
}

/// Content of a list that a command reads from host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandListKind {
    /// Ranges of Dataset Management.
    Ranges,
    /// Source ranges of Copy.
    Sources,
    /// Placement identifiers of I/O Management Send.
    Identifiers,
    /// Keys of a reservation command.
    ReservationKeys,
}

impl CommandListKind {
    /// Returns the length in bytes of the list that a submission queue entry announces. `named_bytes` is the length
    /// that the command's parameters give.
    ///
    /// # Errors
    /// Invalid Field for a format of source ranges other than 0, Command Size Limit Exceeded for more than
    /// [`COPY_SOURCES_MAX`] source ranges.
    #[inline]
    pub(in crate::protocol::nvme) fn bytes(self, entry: &SubmissionEntry, named_bytes: u32) -> Result<u32, Status> {
        match self {
            CommandListKind::Ranges => Ok((entry.get(ranges::COUNT) + 1) * RANGE_BYTES),
            CommandListKind::Identifiers | CommandListKind::ReservationKeys => Ok(named_bytes),
            CommandListKind::Sources if entry.has(copy::FORMAT) => Err(Status::INVALID_FIELD),
            CommandListKind::Sources => match entry.get(copy::SOURCES) + 1 {
                sources if sources > COPY_SOURCES_MAX => Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED),
                sources => Ok(sources * SOURCE_BYTES),
            },
        }
    }
}

/// Access of a command to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaUse {
    /// No access: tables of the controller hold everything that the command reads or changes.
    None,
    /// Reads blocks or a value.
    Read,
    /// Writes blocks or a value.
    Write,
    /// Writes the content of volatile write buffers to the media.
    Flush,
    /// Gives space back.
    Discard,
}

/// Condition under which a command's completion promises that its changes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionDurability {
    /// Never.
    None,
    /// If bit FUA of the entry is set, or the volatile write cache is disabled.
    ForcedOrUncached,
    /// If the volatile write cache is disabled.
    Uncached,
    /// If the action on a zone discards data or makes data read-only.
    ByZoneAction,
    /// Always.
    Always,
}

/// State of the drive that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedState {
    /// None that another command or a power cut could show.
    Nothing,
    /// Data written before becomes durable.
    Flushed,
    /// Blocks hold new data.
    Written,
    /// Blocks read as zeros.
    Zeroed,
    /// Blocks are marked as unreadable.
    MadeUnreadable,
    /// Ranges are deallocated.
    Deallocated,
    /// Zones change their states.
    Zones,
    /// Keys or values change.
    Keys,
}

/// Value in dwords 0 and 1 of the completion queue entry of a successful command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionValueKind {
    /// No value: both dwords are 0.
    None,
    /// First logical block of the data: the write pointer at which the command was placed.
    FirstBlock,
    /// Length in bytes of the value that the command's key has on the drive.
    ValueBytes,
}

/// Returns the rows of the command sets in `sets`, in the order of the table.
pub fn rows_of(sets: &[CommandSet]) -> Vec<&'static CommandRow> {
    Action::ROWS.iter().copied().filter(|row| sets.contains(&row.set)).collect()
}
