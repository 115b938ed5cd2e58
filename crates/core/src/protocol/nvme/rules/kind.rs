//! Kinds of namespaces: logical blocks, logical blocks in zones, and values under keys. The kind says which commands a
//! namespace has, and holds the limits that these need.

use super::key_value::KeyValueLimits;
use super::placement::{PlacementLimits, WriteReclaimPlacement};
use super::protection::{BlockMetadataFormat, CommandBlockMetadata, CommandMetadataUse};
use super::zones::NamespaceZoneLimits;
use crate::drive::Drive;
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Kind of a namespace, with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Logical blocks (NVM command set).
    Blocks(BlockNamespaceParts),
    /// Logical blocks in zones (Zoned Namespace command set).
    Zoned(NamespaceZoneLimits),
    /// Values under keys, without logical blocks (Key Value command set).
    Keyed(KeyValueLimits),
}

/// Optional parts of a namespace with logical blocks and without zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockNamespaceParts {
    /// Limits of flexible data placement; none if the drive does not have it.
    pub placement: Option<PlacementLimits>,
    /// Format of the metadata of logical blocks; none if they have no metadata.
    pub metadata: Option<BlockMetadataFormat>,
}

impl BlockNamespaceParts {
    /// Parts of a namespace with logical blocks alone.
    pub const NONE: BlockNamespaceParts = BlockNamespaceParts { placement: None, metadata: None };

    /// Returns placement and metadata of a command.
    ///
    /// # Errors
    /// The status of the first field of the entry that is invalid.
    #[inline]
    fn placement_and_metadata_of(
        &self,
        entry: &SubmissionEntry,
        (is_write, metadata_use): (bool, CommandMetadataUse),
        block_shift: u32,
    ) -> Result<(WriteReclaimPlacement, Option<Box<CommandBlockMetadata>>), Status> {
        let placement = match &self.placement {
            Some(limits) => limits.place(entry, is_write)?,
            None => WriteReclaimPlacement::default(),
        };
        let metadata = match self.metadata {
            Some(format) => CommandBlockMetadata::of(entry, metadata_use, format, block_shift)?,
            None => None,
        };
        Ok((placement, metadata))
    }
}

impl NamespaceKind {
    /// Logical blocks without data placement and metadata.
    pub const PLAIN: NamespaceKind = NamespaceKind::Blocks(BlockNamespaceParts::NONE);

    /// Returns the kind of a drive's namespaces.
    pub fn of(drive: &Drive) -> NamespaceKind {
        let zoned = NamespaceZoneLimits::of(drive).map(NamespaceKind::Zoned);
        let keyed = || KeyValueLimits::of(drive).map(NamespaceKind::Keyed);
        let (placement, metadata) = (PlacementLimits::of(drive), BlockMetadataFormat::of_drive(&drive.nvme));
        zoned.or_else(keyed).unwrap_or(NamespaceKind::Blocks(BlockNamespaceParts { placement, metadata }))
    }

    /// Returns the limits of flexible data placement, for a command that only namespaces with it have.
    ///
    /// # Errors
    /// Invalid Command Opcode if the namespace does not have it.
    #[inline]
    pub fn placement(&self) -> Result<&PlacementLimits, Status> {
        match self {
            NamespaceKind::Blocks(BlockNamespaceParts { placement: Some(placement), .. }) => Ok(placement),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// Returns the limits of keys and values, for a command that only namespaces with them have.
    ///
    /// # Errors
    /// Invalid Command Opcode if the namespace has logical blocks.
    #[inline]
    pub fn keys(&self) -> Result<&KeyValueLimits, Status> {
        if let NamespaceKind::Keyed(keys) = self { Ok(keys) } else { Err(Status::INVALID_OPCODE) }
    }

    /// Returns the format of the metadata of logical blocks; none if they have no metadata.
    pub fn metadata(&self) -> Option<BlockMetadataFormat> {
        if let NamespaceKind::Blocks(parts) = self { parts.metadata } else { None }
    }

    /// Returns this kind with other parts of logical blocks. Zones and keys have no such parts, and stay as they are.
    #[must_use]
    pub fn with_parts(self, parts: BlockNamespaceParts) -> NamespaceKind {
        if let NamespaceKind::Blocks(_) = self { NamespaceKind::Blocks(parts) } else { self }
    }

    /// Returns placement and metadata of a command, which only logical blocks outside zones have.
    ///
    /// # Errors
    /// The status of the first field of the entry that is invalid.
    #[inline]
    pub(in crate::protocol::nvme) fn parts_used_by_command(
        &self,
        entry: &SubmissionEntry,
        (is_write, metadata_use): (bool, CommandMetadataUse),
        block_shift: u32,
    ) -> Result<(WriteReclaimPlacement, Option<Box<CommandBlockMetadata>>), Status> {
        match self {
            NamespaceKind::Blocks(parts) => {
                parts.placement_and_metadata_of(entry, (is_write, metadata_use), block_shift)
            }
            _ => Ok((WriteReclaimPlacement::default(), None)),
        }
    }

    /// Fills the Identify Controller page of the namespaces' command set. Only that of zones defines limits for a
    /// controller.
    pub fn identify_controller(&self, transfer_bytes_max: u32, page: &mut [u8]) {
        if let NamespaceKind::Zoned(zones) = self {
            zones.identify_controller(transfer_bytes_max, page);
        }
    }

    /// Fills the Identify Namespace page of the namespaces' command set. `used_bytes` are the bytes of keys and values.
    pub fn identify_namespace(&self, used_bytes: u64, page: &mut [u8]) {
        match self {
            NamespaceKind::Blocks(_) => {}
            NamespaceKind::Zoned(zones) => zones.identify_namespace(page),
            NamespaceKind::Keyed(keys) => keys.identify_namespace(used_bytes, page),
        }
    }

    /// Returns the maximum number of bytes that one write at a write pointer transfers: a Zone Append, or a Write with
    /// the limit of all commands.
    #[inline]
    pub fn append_bytes_max(&self, transfer_bytes_max: u32) -> u32 {
        if let NamespaceKind::Zoned(zones) = self { zones.append_bytes_max } else { transfer_bytes_max }
    }
}
