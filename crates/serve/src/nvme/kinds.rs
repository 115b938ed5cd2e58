//! Rows of the kinds of namespaces: everything that Identify, log pages, features, registers and the table of admin
//! commands say about a kind.

use phaselink_core::protocol::nvme::commands::CommandSet;
use phaselink_core::protocol::nvme::rules::placement_logs::ENDURANCE_GROUP;
use phaselink_core::protocol::nvme::rules::{BlockNamespaceParts, NamespaceKind, key_value, zones};

/// Bit 0 of CAP.CSS: support for the NVM command set, the one of logical blocks.
pub const BLOCK_COMMAND_SET: u64 = 1 << 37;
/// Bit 6 of CAP.CSS: support for further I/O command sets.
pub const FURTHER_COMMAND_SETS: u64 = 1 << 43;

/// Identifier of the log page LBA Status Information.
pub const BLOCK_STATUS: u8 = 0x0e;
/// Identifier of the log page FDP Configurations.
pub const PLACEMENT_CONFIGURATIONS: u8 = 0x20;
/// Identifier of the log page Reclaim Unit Handle Usage.
pub const PLACEMENT_USAGE: u8 = 0x21;
/// Identifier of the log page FDP Statistics.
pub const PLACEMENT_STATISTICS: u8 = 0x22;
/// Identifier of the log page FDP Events.
pub const PLACEMENT_EVENTS: u8 = 0x23;

/// Identifier of the feature Flexible Data Placement, whose scope is an endurance group.
pub const PLACEMENT_FEATURE: u8 = 0x1d;
/// Identifier of the feature FDP Events, whose scope is a namespace.
pub const EVENTS_FEATURE: u8 = 0x1e;
/// Identifier of the feature Key Value Configuration, whose scope is a namespace.
pub const KEY_VALUE_FEATURE: u8 = 0x20;

/// Identifier of the feature Host Identifier.
pub const HOST_IDENTIFIER: u8 = 0x81;
/// Identifier of the feature Reservation Notification Mask, whose scope is a namespace.
pub const NOTICE_MASK: u8 = 0x82;
/// Identifier of the feature Reservation Persistence, whose scope is a namespace.
pub const PERSISTENCE: u8 = 0x83;

/// Numbers of the bits that tell the scope of a feature: a namespace, a controller, an endurance group.
const NAMESPACE_SCOPE: u32 = 20;
const CONTROLLER_SCOPE: u32 = 21;
const GROUP_SCOPE: u32 = 23;

/// Identifiers of the features of reservations, each with the number of the bit that tells its scope: the controller, a
/// namespace.
pub const RESERVATION_FEATURES: [(u8, u32); 3] =
    [(HOST_IDENTIFIER, CONTROLLER_SCOPE), (NOTICE_MASK, NAMESPACE_SCOPE), (PERSISTENCE, NAMESPACE_SCOPE)];
/// Drives whose controllers have an admin command. Others refuse it with Invalid Command Opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAvailability {
    /// All drives.
    Always,
    /// Drives whose capacity can be divided into namespaces: neither with zones nor with keys and values.
    Divisible,
    /// Drives with logical blocks.
    WithBlocks,
    /// Drives with data placement.
    WithPlacement,
}

/// Row of a kind of namespaces.
#[derive(Debug)]
pub struct KindRow {
    /// Command sets of the I/O commands by Command Set Identifier (CSI); the last one is that of the namespaces.
    pub command_sets: &'static [(u8, &'static [CommandSet])],
    /// Bits of CAP that announce the command sets (CAP.CSS).
    pub capabilities: u64,
    /// Admin commands of the controller.
    pub admin: &'static [AdminAvailability],
    /// Formats of the sources that Copy takes (OCFS).
    pub copy_formats: u8,
    /// Attributes of the controller (CTRATT).
    pub attributes: u32,
    /// Identifiers of the endurance groups.
    pub endurance_groups: &'static [u16],
    /// Identifiers of the features beside those of every controller, each with the number of the bit that tells its
    /// scope.
    pub features: &'static [(u8, u32)],
    /// Identifiers of the log pages beside those of every controller.
    pub logs: &'static [u8],
    /// Binary logarithms of the block sizes in bytes that a namespace can be formatted with, besides the drive's own.
    pub format_shifts: &'static [u32],
}

/// Logical blocks.
const BLOCKS: KindRow = KindRow {
    command_sets: &[(0, &[CommandSet::Every, CommandSet::Blocks])],
    capabilities: BLOCK_COMMAND_SET,
    admin: &[AdminAvailability::Always, AdminAvailability::Divisible, AdminAvailability::WithBlocks],
    copy_formats: 1,
    attributes: 0,
    endurance_groups: &[],
    features: &[],
    logs: &[BLOCK_STATUS],
    format_shifts: &[9, 12],
};

/// Logical blocks that hosts place: endurance groups and flexible data placement (CTRATT).
const PLACED: KindRow = KindRow {
    command_sets: &[(0, &[CommandSet::Every, CommandSet::Blocks, CommandSet::Placement])],
    admin: &[
        AdminAvailability::Always,
        AdminAvailability::Divisible,
        AdminAvailability::WithBlocks,
        AdminAvailability::WithPlacement,
    ],
    attributes: 1 << 4 | 1 << 19,
    endurance_groups: &[ENDURANCE_GROUP],
    features: &[(PLACEMENT_FEATURE, GROUP_SCOPE), (EVENTS_FEATURE, NAMESPACE_SCOPE)],
    logs: &[BLOCK_STATUS, PLACEMENT_CONFIGURATIONS, PLACEMENT_USAGE, PLACEMENT_STATISTICS, PLACEMENT_EVENTS],
    ..BLOCKS
};

/// Logical blocks in zones, which are multiples of the block size, so that other formats are not possible.
const ZONED: KindRow = KindRow {
    command_sets: &[
        (0, &[CommandSet::Every, CommandSet::Blocks]),
        (zones::COMMAND_SET, &[CommandSet::Every, CommandSet::Blocks, CommandSet::Zones]),
    ],
    capabilities: BLOCK_COMMAND_SET | FURTHER_COMMAND_SETS,
    admin: &[AdminAvailability::Always, AdminAvailability::WithBlocks],
    format_shifts: &[],
    ..BLOCKS
};

/// Values under keys.
const KEYED: KindRow = KindRow {
    command_sets: &[(key_value::COMMAND_SET, &[CommandSet::Every, CommandSet::Keys])],
    capabilities: FURTHER_COMMAND_SETS,
    admin: &[AdminAvailability::Always],
    copy_formats: 0,
    features: &[(KEY_VALUE_FEATURE, NAMESPACE_SCOPE)],
    logs: &[],
    format_shifts: &[],
    ..BLOCKS
};

impl KindRow {
    /// Returns the row of a kind.
    pub fn of(kind: &NamespaceKind) -> &'static KindRow {
        match kind {
            NamespaceKind::Blocks(BlockNamespaceParts { placement: Some(_), .. }) => &PLACED,
            NamespaceKind::Blocks(_) => &BLOCKS,
            NamespaceKind::Zoned(_) => &ZONED,
            NamespaceKind::Keyed(_) => &KEYED,
        }
    }

    /// Returns the command set (CSI) of the namespaces: zones, keys and values, or else NVM (0).
    pub fn command_set(&self) -> u8 {
        self.command_sets.last().map_or(0, |(set, _)| *set)
    }

    /// Returns the command sets whose commands belong to a Command Set Identifier, or none if the controller does not
    /// support that.
    pub fn commands_of(&self, command_set: u8) -> Option<&'static [CommandSet]> {
        let found = self.command_sets.iter().find(|(set, _)| *set == command_set);
        found.map(|(_, commands)| *commands)
    }

    /// Returns the identifier of the endurance group of all namespaces (ENDGID), or 0 if there is none.
    pub fn endurance_group(&self) -> u16 {
        self.endurance_groups.first().copied().unwrap_or(0)
    }
}
