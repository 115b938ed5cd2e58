//! Data structures of flexible data placement (FDP): log pages, features and directive parameters (Base Specification
//! 2.1, sections 5.1.12.1.28 to 5.1.12.1.31, 5.1.25.1.20, 5.1.25.1.21 and 8.1.8.2).

use super::PlacementLimits;
use crate::config::PlacementIsolation;
use crate::media::translation::PlacedStatistics;
use crate::number::{low_u8, low_u16, short_length};
use crate::protocol::nvme::spec::Status;
use crate::protocol::nvme::spec::layout::Layout;
use crate::protocol::nvme::spec::logs::{
    Directives, HandleUsage, HandleUsageEntry, PlacementConfiguration, PlacementConfigurations, PlacementEventEntry,
    PlacementEventType, PlacementEvents, PlacementStatistics, UnitHandle,
};

/// Identifier of the only endurance group (ENDGID).
pub const ENDURANCE_GROUP: u16 = 1;
/// Maximum number of FDP events of each kind that the log keeps: as many as one 4 KiB log page holds.
pub const EVENTS_MAX: usize = 63;

/// Type of an event of flexible data placement (FDP Event Type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlacementEventKind {
    /// Event: the host has let a handle refer to a new reclaim unit, although the old unit was not fully written
    /// (Reclaim Unit Not Fully Written To Capacity).
    NotFullyWritten = 0x00,
    /// Event: a write has named a placement identifier that does not exist (Invalid Placement Identifier).
    InvalidIdentifier = 0x03,
    /// Event: the controller has moved data to another reclaim unit (Media Reallocated).
    MediaReallocated = 0x80,
}

impl PlacementEventKind {
    /// All FDP event types that the controller reports, in the order of their numbers.
    pub const ALL: [PlacementEventKind; 3] = [
        PlacementEventKind::NotFullyWritten,
        PlacementEventKind::InvalidIdentifier,
        PlacementEventKind::MediaReallocated,
    ];

    /// Returns the FDP event type with this number; none if the controller does not report it.
    pub fn of(number: u8) -> Option<PlacementEventKind> {
        PlacementEventKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// True if the FDP event is a host event, false if it is a controller event.
    pub fn is_of_host(self) -> bool {
        (self as u8) < 0x80
    }

    /// Returns the bit that stands for this FDP event type in a set of types.
    pub fn bit(self) -> u8 {
        match self {
            PlacementEventKind::NotFullyWritten => 1,
            PlacementEventKind::InvalidIdentifier => 2,
            PlacementEventKind::MediaReallocated => 4,
        }
    }
}

/// Event of flexible data placement, as log page FDP Events reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementEvent {
    /// Type of the FDP event.
    pub kind: PlacementEventKind,
    /// Placement identifier of the command that caused the event (PID); none if the event has none.
    pub identifier: Option<u16>,
    /// Identifier of the namespace that the event concerns (NSID); none if the event has none.
    pub namespace: Option<u32>,
    /// Reclaim group and reclaim unit handle that the event concerns (RGID, RUHID); none if they are unknown.
    pub location: Option<(u8, u8)>,
    /// Time of the event, in the format of feature Timestamp.
    pub timestamp: [u8; 8],
    /// Number of logical blocks that the controller has moved (NLBAM); reported for Media Reallocated only.
    pub blocks_moved: u64,
}

impl PlacementEvent {
    fn encode(&self) -> [u8; PlacementEventEntry::BYTES] {
        let (group, handle) = self.location.unwrap_or_default();
        let mut entry = PlacementEventEntry::zeros()
            .with(PlacementEventEntry::TYPE, self.kind as u8)
            .with(PlacementEventEntry::HAS_IDENTIFIER, self.identifier.is_some())
            .with(PlacementEventEntry::HAS_NAMESPACE, self.namespace.is_some())
            .with(PlacementEventEntry::HAS_LOCATION, self.location.is_some())
            .with(PlacementEventEntry::IDENTIFIER, self.identifier.unwrap_or(0))
            .with(PlacementEventEntry::TIMESTAMP, self.timestamp)
            .with(PlacementEventEntry::NAMESPACE, self.namespace.unwrap_or(0))
            .with(PlacementEventEntry::GROUP, group.into())
            .with(PlacementEventEntry::HANDLE, handle.into());
        if self.kind == PlacementEventKind::MediaReallocated {
            entry.set(PlacementEventEntry::BLOCKS_MOVED, low_u16(self.blocks_moved.min(u16::MAX.into())));
        }
        entry.into_bytes()
    }
}

/// Returns log page FDP Configurations with one configuration, which has all reclaim unit handles of the drive.
/// `namespaces` is the maximum number of namespaces, and `unit_bytes` the size of a reclaim unit.
pub fn configurations(limits: &PlacementLimits, namespaces: u32, unit_bytes: u64) -> Vec<u8> {
    let (handles, groups) = (limits.streams.handles, limits.groups);
    let head = PlacementConfiguration::zeros()
        .with(PlacementConfiguration::IS_VALID, true)
        .with(PlacementConfiguration::WRITE_CACHE, true)
        .with(PlacementConfiguration::GROUP_BITS, low_u8(limits.reclaim_group_bits()))
        .with(PlacementConfiguration::GROUPS, groups.into())
        .with(PlacementConfiguration::HANDLES, handles.into())
        .with(PlacementConfiguration::IDENTIFIERS_MAX, limits.identifiers_max - 1)
        .with(PlacementConfiguration::NAMESPACES, namespaces)
        .with(PlacementConfiguration::UNIT_BYTES, unit_bytes);
    let kind = match limits.streams.isolation {
        PlacementIsolation::Initial => 1,
        PlacementIsolation::Persistent => 2,
    };
    let unit_handle = UnitHandle::zeros().with(UnitHandle::TYPE, kind).into_bytes();
    let bytes = (PlacementConfiguration::BYTES + usize::from(handles) * UnitHandle::BYTES).next_multiple_of(8);
    let page_bytes = PlacementConfigurations::BYTES + bytes;
    let page = PlacementConfigurations::zeros().with(PlacementConfigurations::LENGTH, short_length(page_bytes));
    let mut page = page.into_bytes().to_vec();
    page.extend(head.with(PlacementConfiguration::LENGTH, low_u16(short_length(bytes))).into_bytes());
    page.extend((0..handles).flat_map(|_| unit_handle));
    page.resize(page_bytes, 0);
    page
}

/// Use of a reclaim unit handle by namespaces (RUHA in log page Reclaim Unit Handle Usage).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimHandleUse {
    /// No namespace uses the reclaim unit handle.
    #[default]
    Unused = 0,
    /// A host has specified the reclaim unit handle for a namespace.
    OfHost = 1,
    /// The controller has selected the reclaim unit handle for a namespace.
    OfController = 2,
}

/// Returns log page Reclaim Unit Handle Usage; `uses` has one element for each reclaim unit handle.
pub fn usage(uses: &[ReclaimHandleUse]) -> Vec<u8> {
    let page = HandleUsage::zeros().with(HandleUsage::HANDLES, low_u16(short_length(uses.len())));
    let mut page = page.into_bytes().to_vec();
    let entry = |it: &ReclaimHandleUse| HandleUsageEntry::zeros().with(HandleUsageEntry::USE, *it as u8).into_bytes();
    page.extend(uses.iter().flat_map(entry));
    page
}

/// Returns log page FDP Statistics: bytes written by the host, bytes written to the media, and bytes erased.
pub fn statistics(statistics: &PlacedStatistics) -> Vec<u8> {
    let PlacedStatistics { host_bytes, media_bytes, erased_bytes } = *statistics;
    let page = PlacementStatistics::zeros()
        .with(PlacementStatistics::HOST_BYTES, host_bytes)
        .with(PlacementStatistics::MEDIA_BYTES, media_bytes)
        .with(PlacementStatistics::ERASED_BYTES, erased_bytes);
    page.into_bytes().to_vec()
}

/// Returns log page FDP Events with these events, the oldest event first.
pub fn events<'e>(events: impl ExactSizeIterator<Item = &'e PlacementEvent>) -> Vec<u8> {
    let head = PlacementEvents::zeros().with(PlacementEvents::EVENTS, short_length(events.len()));
    let mut page = head.into_bytes().to_vec();
    page.extend(events.flat_map(PlacementEvent::encode));
    page.resize(PlacementEvents::BYTES + PlacementEventEntry::BYTES * EVENTS_MAX, 0);
    page
}

/// Returns the data of feature FDP Events: for each event type its number, and 1 if its bit is set in `enabled`, else
/// 0.
pub fn event_types(enabled: u8) -> Vec<u8> {
    let entry = |kind: PlacementEventKind| {
        let entry = PlacementEventType::zeros().with(PlacementEventType::TYPE, kind as u8);
        entry.with(PlacementEventType::IS_ENABLED, enabled & kind.bit() != 0).into_bytes()
    };
    PlacementEventKind::ALL.into_iter().flat_map(entry).collect()
}

/// Returns the set of FDP event types, as bits, that a host lists by their numbers to enable or disable them.
///
/// # Errors
/// Invalid Field for an event type that the controller does not report.
pub fn event_types_of_list(list: &[u8]) -> Result<u8, Status> {
    let bit = |number: &u8| PlacementEventKind::of(*number).map(PlacementEventKind::bit).ok_or(Status::INVALID_FIELD);
    list.iter().try_fold(0, |bits, number| Ok(bits | bit(number)?))
}

/// Returns the parameters of the Identify directive: the directive types that are supported, those that are enabled,
/// and those that stay enabled across resets. Data Placement is supported if the endurance group has it enabled.
pub fn directive_parameters(limits: &PlacementLimits) -> Vec<u8> {
    let placement = |has_placement: bool| u8::from(has_placement) << super::placement::DATA_PLACEMENT;
    let page = Directives::zeros()
        .with(Directives::SUPPORTED, 1 | placement(limits.is_enabled))
        .with(Directives::ENABLED, 1 | placement(limits.is_enabled && limits.is_directed))
        .with(Directives::PERSISTENT, placement(limits.is_enabled));
    page.into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_event_flags_its_valid_fields() {
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
    fn accepted_event_types_are_the_reported_ones() {
        let all = event_types(0);
        let numbers: Vec<u8> = all.chunks(2).map(|it| it[0]).collect();
        assert_eq!(event_types_of_list(&numbers), Ok(7));
        assert_eq!(event_types(7).chunks(2).map(|it| it[1]).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(event_types_of_list(&[0, 1]), Err(Status::INVALID_FIELD), "no unit has a time limit");
    }
}
