//! Data structures of flexible data placement: log pages, features and the parameters of directives (Base Specification 2.1, sections
//! 5.1.12.1.28 to 5.1.12.1.31, 5.1.25.1.20, 5.1.25.1.21 and 8.1.8.2).

use super::PlacementLimits;
use crate::config::Isolation;
use crate::media::translation::PlacedStatistics;
use crate::protocol::nvme::spec::Status;

/// Identifier of the only endurance group (ENDGID).
pub const ENDURANCE_GROUP: u16 = 1;
/// Most events of each kind that the log keeps: as many as one page has.
pub const EVENTS_MAX: usize = 63;
/// Bytes of an event, and of the head of the page.
const EVENT_BYTES: usize = 64;

/// Type of an event (FDP Event Type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlacementEventKind {
    /// The host has had a reclaim unit renewed that was not written to its capacity.
    NotFullyWritten = 0x00,
    /// A write has named a placement identifier that there is not.
    InvalidIdentifier = 0x03,
    /// The controller has moved data to another reclaim unit.
    MediaReallocated = 0x80,
}

impl PlacementEventKind {
    /// All types that the controller knows, by their numbers.
    pub const ALL: [PlacementEventKind; 3] = [
        PlacementEventKind::NotFullyWritten,
        PlacementEventKind::InvalidIdentifier,
        PlacementEventKind::MediaReallocated,
    ];

    /// Returns the type of a number.
    pub fn of(number: u8) -> Option<PlacementEventKind> {
        PlacementEventKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// True if the event is one of the host's doing.
    pub fn is_of_host(self) -> bool {
        (self as u8) < 0x80
    }

    /// Returns the bit of the type in a set of types.
    pub fn bit(self) -> u8 {
        match self {
            PlacementEventKind::NotFullyWritten => 1,
            PlacementEventKind::InvalidIdentifier => 2,
            PlacementEventKind::MediaReallocated => 4,
        }
    }
}

/// Event of flexible data placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementEvent {
    /// Type.
    pub kind: PlacementEventKind,
    /// Placement identifier of the command, if there is one (PID).
    pub identifier: Option<u16>,
    /// Namespace, if there is one (NSID).
    pub namespace: Option<u32>,
    /// Reclaim group and reclaim unit handle, if they are known (RGID, RUHID).
    pub location: Option<(u8, u8)>,
    /// Time, as the feature Timestamp has it.
    pub timestamp: [u8; 8],
    /// Number of logical blocks that were moved, of Media Reallocated (NLBAM).
    pub blocks_moved: u64,
}

impl PlacementEvent {
    fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[0] = self.kind as u8;
        let flags = [self.identifier.is_some(), self.namespace.is_some(), self.location.is_some()];
        bytes[1] = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
        bytes[2..4].copy_from_slice(&self.identifier.unwrap_or(0).to_le_bytes());
        bytes[4..12].copy_from_slice(&self.timestamp);
        bytes[12..16].copy_from_slice(&self.namespace.unwrap_or(0).to_le_bytes());
        if self.kind == PlacementEventKind::MediaReallocated {
            let blocks = self.blocks_moved.min(u16::MAX.into()) as u16;
            bytes[18..20].copy_from_slice(&blocks.to_le_bytes());
        }
        if let Some((group, handle)) = self.location {
            bytes[32..34].copy_from_slice(&u16::from(group).to_le_bytes());
            bytes[34..36].copy_from_slice(&u16::from(handle).to_le_bytes());
        }
        bytes
    }
}

/// Returns the log page FDP Configurations: the only configuration, with as many reclaim unit handles as the drive has. `namespaces` is
/// the most of these, and `unit_bytes` the size of a reclaim unit.
pub fn configurations(limits: &PlacementLimits, namespaces: u32, unit_bytes: u64) -> Vec<u8> {
    let (handles, groups) = (limits.shape_handles(), limits.groups);
    let mut configuration = vec![0; 64];
    // Valid, with a volatile write cache, and with so many bits for the reclaim group (FDPA).
    configuration[2] = 1 << 7 | 1 << 4 | limits.group_bits() as u8;
    configuration[4..8].copy_from_slice(&u32::from(groups).to_le_bytes());
    configuration[8..10].copy_from_slice(&u16::from(handles).to_le_bytes());
    configuration[10..12].copy_from_slice(&(limits.identifiers_max - 1).to_le_bytes());
    configuration[12..16].copy_from_slice(&namespaces.to_le_bytes());
    configuration[16..24].copy_from_slice(&unit_bytes.to_le_bytes());
    let kind = match limits.isolation() {
        Isolation::Initial => 1,
        Isolation::Persistent => 2,
    };
    configuration.extend((0..handles).flat_map(|_| [kind, 0, 0, 0]));
    configuration.resize(configuration.len().next_multiple_of(8), 0);
    let bytes = configuration.len() as u16;
    configuration[..2].copy_from_slice(&bytes.to_le_bytes());
    let mut page = vec![0; 16];
    page[4..8].copy_from_slice(&(u32::from(bytes) + 16).to_le_bytes());
    page.extend(configuration);
    page
}

/// Use of a reclaim unit handle by namespaces (RUHA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandleUse {
    /// No namespace has it.
    #[default]
    Unused = 0,
    /// A host has chosen it for a namespace.
    OfHost = 1,
    /// The controller has chosen it for a namespace.
    OfController = 2,
}

/// Returns the log page Reclaim Unit Handle Usage.
pub fn usage(uses: &[HandleUse]) -> Vec<u8> {
    let mut page = vec![0; 8];
    page[..2].copy_from_slice(&(uses.len() as u16).to_le_bytes());
    page.extend(uses.iter().flat_map(|it| [*it as u8, 0, 0, 0, 0, 0, 0, 0]));
    page
}

/// Returns the log page FDP Statistics.
pub fn statistics(statistics: &PlacedStatistics) -> Vec<u8> {
    let PlacedStatistics { host_bytes, media_bytes, erased_bytes } = *statistics;
    [host_bytes, media_bytes, erased_bytes, 0].into_iter().flat_map(u128::to_le_bytes).collect()
}

/// Returns the log page FDP Events with these events, the oldest one first.
pub fn events<'e>(events: impl ExactSizeIterator<Item = &'e PlacementEvent>) -> Vec<u8> {
    let mut page = vec![0; EVENT_BYTES];
    page[..4].copy_from_slice(&(events.len() as u32).to_le_bytes());
    page.extend(events.flat_map(PlacementEvent::encode));
    page.resize(EVENT_BYTES * (1 + EVENTS_MAX), 0);
    page
}

/// Returns the data structure of the feature FDP Events: each type with a bit that is set if it is enabled.
pub fn event_types(enabled: u8) -> Vec<u8> {
    let is_enabled = |kind: PlacementEventKind| u8::from(enabled & kind.bit() != 0);
    PlacementEventKind::ALL.into_iter().flat_map(|kind| [kind as u8, is_enabled(kind)]).collect()
}

/// Returns the set of the types that a host lists to enable or disable them.
///
/// # Errors
/// Invalid Field for a type that the controller does not know.
pub fn listed_types(list: &[u8]) -> Result<u8, Status> {
    let bit = |number: &u8| PlacementEventKind::of(*number).map(PlacementEventKind::bit).ok_or(Status::INVALID_FIELD);
    list.iter().try_fold(0, |bits, number| Ok(bits | bit(number)?))
}

/// Returns the parameters of the Identify directive: types that are supported, those that are enabled, and those that stay so across
/// resets. Data placement is supported in a namespace where the endurance group has it enabled.
pub fn directives(limits: &PlacementLimits) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let bits = |has_placement: bool| 1 | u8::from(has_placement) << super::placement::DATA_PLACEMENT;
    page[0] = bits(limits.is_enabled);
    page[32] = bits(limits.is_enabled && limits.is_directed);
    page[64] = u8::from(limits.is_enabled) << super::placement::DATA_PLACEMENT;
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_says_which_of_its_fields_count() {
        let event = PlacementEvent {
            kind: PlacementEventKind::InvalidIdentifier,
            identifier: Some(0x8007),
            namespace: Some(3),
            location: None,
            timestamp: [9; 8],
            blocks_moved: 70_000,
        };
        let bytes = event.encode();
        assert_eq!(bytes[..20], [3, 0b011, 7, 0x80, 9, 9, 9, 9, 9, 9, 9, 9, 3, 0, 0, 0, 0, 0, 0, 0]);
        let moved = PlacementEvent {
            kind: PlacementEventKind::MediaReallocated,
            identifier: None,
            namespace: None,
            location: Some((2, 5)),
            ..event
        };
        let bytes = moved.encode();
        assert_eq!((bytes[..4].to_vec(), bytes[18..20].to_vec()), (vec![0x80, 0b100, 0, 0], vec![0xff, 0xff]));
        assert_eq!(bytes[32..36], [2, 0, 5, 0]);
    }

    #[test]
    fn listed_event_types_are_those_that_the_controller_reports() {
        let all = event_types(0);
        let numbers: Vec<u8> = all.chunks(2).map(|it| it[0]).collect();
        assert_eq!(listed_types(&numbers), Ok(7));
        assert_eq!(event_types(7).chunks(2).map(|it| it[1]).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(listed_types(&[0, 1]), Err(Status::INVALID_FIELD), "no unit has a time limit");
    }
}
