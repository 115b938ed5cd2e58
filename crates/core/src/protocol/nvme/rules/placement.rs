//! Flexible data placement (FDP): placement identifiers of writes, and the commands that report reclaim units and let
//! handles refer to new ones (Base Specification 2.1, sections 7.3, 7.4 and 8.1.10; NVM Command Set Specification 1.1,
//! section 3.2.1).
//!
//! A placement identifier has the reclaim group in its upper bits (RGIF is their number) and the placement handle in
//! the lower bits. The namespace maps placement handles to reclaim unit handles.

use crate::drive::Drive;
use crate::media::flash::shape_with_placement;
use crate::media::translation::{HostStreams, TranslationShape};
use crate::number::{index, low_u8, low_u16, short_length};
use crate::protocol::nvme::spec::fields::{blocks, units};
use crate::protocol::nvme::spec::layout::Layout;
use crate::protocol::nvme::spec::lists::IdentifierEntry;
use crate::protocol::nvme::spec::logs::{UnitDescriptor, UnitReport};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Directive Type of the Data Placement directive (DTYPE).
pub const DATA_PLACEMENT: u32 = 2;
/// Management Operation (MO) 1 of both I/O Management commands: Receive reports reclaim unit handles, Send lets
/// placement handles refer to new reclaim units. Operation 0 does nothing.
const UNITS: u32 = 1;

/// Flexible data placement of a namespace: number of handles and groups, reclaim units, and what is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementLimits {
    /// Number of placement handles of the namespace (NPHNDLS).
    pub handles: u8,
    /// Number of reclaim groups (NRG).
    pub groups: u8,
    /// Maximum number of placement identifiers in one I/O Management Send (MAXPIDS plus 1, since that field counts from
    /// 0).
    pub identifiers_max: u16,
    /// Reclaim unit handles and groups of the drive, of which a namespace may have fewer placement handles.
    pub streams: HostStreams,
    /// Shape of the drive's translation layer, whose blocks are the reclaim units.
    pub shape: TranslationShape,
    /// Size in bytes of a mapping unit of the translation layer.
    pub unit_bytes: u32,
    /// True if flexible data placement is enabled in the endurance group (FDPE).
    pub is_enabled: bool,
    /// True if the Data Placement directive is enabled in the namespace, so that writes can name placement identifiers.
    pub is_directed: bool,
}

/// Reclaim group and placement handle at which the controller places the data of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReclaimPlacement {
    /// Number of the reclaim group.
    pub group: u8,
    /// Number of the placement handle.
    pub handle: u8,
    /// True if the command names a placement identifier that does not exist, so that the controller has chosen group
    /// and handle.
    pub is_invalid: bool,
}

/// I/O Management Receive: a report of the reclaim units that placement handles refer to, or no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitReceive {
    /// Length of the report in bytes; 0 for no action.
    pub bytes: u32,
}

/// I/O Management Send: a list of placement identifiers whose handles are to refer to new reclaim units, or no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSend {
    /// Number of placement identifiers in the list; 0 for no action.
    pub identifiers: u32,
}

impl PlacementLimits {
    /// Returns the data placement of a drive as one namespace with all handles and groups; none if hosts cannot place
    /// data.
    pub fn of(drive: &Drive) -> Option<PlacementLimits> {
        drive.placed_streams().map(|streams| PlacementLimits {
            handles: streams.handles,
            groups: streams.groups,
            identifiers_max: u16::from(streams.handles) * u16::from(streams.groups),
            streams,
            shape: shape_with_placement(&drive.media, &drive.translation, &drive.placement),
            unit_bytes: drive.translation.unit_bytes,
            is_enabled: true,
            is_directed: true,
        })
    }

    /// Returns RGIF, the number of upper bits of a placement identifier that hold the reclaim group; 0 with one group.
    pub fn reclaim_group_bits(&self) -> u32 {
        u8::BITS - (self.groups - 1).leading_zeros()
    }

    /// Returns the placement identifier of a placement handle in a reclaim group.
    pub fn identifier(&self, group: u8, handle: u8) -> u16 {
        // If the identifier has no bits for groups, there is only group 0.
        u16::from(group).checked_shl(u16::BITS - self.reclaim_group_bits()).unwrap_or(0) | u16::from(handle)
    }

    /// Returns the placement identifier at index `place` of a Reclaim Unit Handle Status report: all groups of the
    /// first handle, then those of the next.
    pub fn placement_identifier_at(&self, place: u16) -> u16 {
        let groups = u16::from(self.groups);
        self.identifier(low_u8(place % groups), low_u8(place / groups))
    }

    /// Returns the reclaim group and placement handle of a placement identifier; none if either does not exist.
    pub fn find(&self, identifier: u16) -> Option<(u8, u8)> {
        let handle_bits = u16::BITS - self.reclaim_group_bits();
        let group = identifier.checked_shr(handle_bits).unwrap_or(0);
        let handle = u32::from(identifier) & ((1 << handle_bits) - 1);
        let is_there = group < u16::from(self.groups) && handle < u32::from(self.handles);
        is_there.then_some((low_u8(group), low_u8(handle)))
    }

    /// Returns the reclaim group and placement handle of a write: the ones that its Data Placement directive names, or
    /// else the first ones. A placement identifier that does not exist does not refuse the write.
    ///
    /// # Errors
    /// Invalid Field for a directive type that is not enabled (section 8.1.8).
    pub(in crate::protocol::nvme) fn place(
        &self,
        entry: &SubmissionEntry,
        is_write: bool,
    ) -> Result<WriteReclaimPlacement, Status> {
        let (kind, identifier) = (entry.get(blocks::DIRECTIVE), low_u16(entry.get(blocks::PLACEMENT)));
        match kind {
            _ if !is_write || !self.is_enabled || !self.is_directed => Ok(WriteReclaimPlacement::default()),
            0 => Ok(WriteReclaimPlacement::default()),
            DATA_PLACEMENT => Ok(match self.find(identifier) {
                Some((group, handle)) => WriteReclaimPlacement { group, handle, is_invalid: false },
                None => WriteReclaimPlacement { is_invalid: true, ..WriteReclaimPlacement::default() },
            }),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns reclaim group and placement handle of each placement identifier in the list of I/O Management Send.
    ///
    /// # Errors
    /// Invalid Field if one of the placement identifiers does not exist.
    pub fn listed(&self, list: &[u8]) -> Result<Vec<(u8, u8)>, Status> {
        let found =
            IdentifierEntry::iter_structures(list).map(|entry| self.find(entry.get(IdentifierEntry::IDENTIFIER)));
        found.collect::<Option<_>>().ok_or(Status::INVALID_FIELD)
    }

    /// Checks that flexible data placement is enabled in the endurance group.
    ///
    /// # Errors
    /// FDP Disabled if it is not enabled.
    fn check_placement_enabled(&self) -> Result<(), Status> {
        if self.is_enabled { Ok(()) } else { Err(Status::PLACEMENT_DISABLED) }
    }
}

impl UnitReceive {
    /// Returns the length of the report that dwords 10 and 11 of an I/O Management Receive entry ask for, in bytes; 0
    /// for no action. A length of 2^32 bytes or more becomes 2^32 - 1.
    ///
    /// # Errors
    /// Invalid Field for a reserved management operation; FDP Disabled if data placement is disabled.
    pub(in crate::protocol::nvme) fn of(
        entry: &SubmissionEntry,
        limits: &PlacementLimits,
    ) -> Result<UnitReceive, Status> {
        match entry.get(units::OPERATION) {
            0 => Ok(UnitReceive { bytes: 0 }),
            UNITS => {
                limits.check_placement_enabled()?;
                Ok(UnitReceive { bytes: entry.get(units::DWORDS).saturating_add(1).saturating_mul(4) })
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the Reclaim Unit Handle Status report, with one descriptor for each placement handle in each group. A
    /// descriptor has the reclaim unit handle that `unit_handles` gives, and the free logical blocks of its reclaim
    /// unit. `room` returns these for a group and a reclaim unit handle.
    pub fn report(&self, limits: &PlacementLimits, unit_handles: &[u8], room: impl Fn(u8, u8) -> u64) -> Vec<u8> {
        let count = u16::from(limits.handles) * u16::from(limits.groups);
        let mut report = UnitReport::zeros().with(UnitReport::DESCRIPTORS, count).into_bytes().to_vec();
        for place in 0..count {
            let (group, handle) = (low_u8(place % u16::from(limits.groups)), low_u8(place / u16::from(limits.groups)));
            let unit_handle = unit_handles.get(usize::from(handle)).copied().unwrap_or(handle);
            let descriptor = UnitDescriptor::zeros()
                .with(UnitDescriptor::IDENTIFIER, limits.identifier(group, handle))
                .with(UnitDescriptor::HANDLE, unit_handle.into())
                .with(UnitDescriptor::ROOM, room(group, unit_handle));
            report.extend(descriptor.into_bytes());
        }
        report.resize(index(self.bytes), 0);
        report
    }
}

impl UnitSend {
    /// Returns the number of placement identifiers that dword 10 of an I/O Management Send entry announces; 0 for no
    /// action.
    ///
    /// # Errors
    /// Invalid Field for a reserved management operation or too many placement identifiers; FDP Disabled if data
    /// placement is disabled.
    pub(in crate::protocol::nvme) fn of(entry: &SubmissionEntry, limits: &PlacementLimits) -> Result<UnitSend, Status> {
        match entry.get(units::OPERATION) {
            0 => Ok(UnitSend { identifiers: 0 }),
            UNITS => {
                limits.check_placement_enabled()?;
                let identifiers = entry.get(units::IDENTIFIERS) + 1;
                let is_long = identifiers > limits.identifiers_max.into();
                if is_long { Err(Status::INVALID_FIELD) } else { Ok(UnitSend { identifiers }) }
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the length in bytes of the list of placement identifiers.
    pub fn bytes(&self) -> u32 {
        self.identifiers * short_length(IdentifierEntry::BYTES)
    }
}

/// Returns a write with the Data Placement directive set. The placement identifier is at index `place` of the drive's
/// list of identifiers.
pub(in crate::protocol::nvme) fn directed_write(
    entry: SubmissionEntry,
    limits: &PlacementLimits,
    place: u16,
) -> SubmissionEntry {
    entry.with(blocks::DIRECTIVE, DATA_PLACEMENT).with(blocks::PLACEMENT, limits.placement_identifier_at(place).into())
}

#[cfg(test)]
mod tests {
    use super::super::{BlockNamespaceParts, Limits, NamespaceKind};
    use super::*;
    use crate::config::{PlacementIsolation, TranslationPolicyName};
    use crate::media::translation::policy::TranslationPolicySettings;
    use crate::protocol::nvme::commands::{Command, opcode};
    use crate::random::Random;

    const PLACEMENT: PlacementLimits = PlacementLimits {
        handles: 3,
        groups: 4,
        identifiers_max: 12,
        streams: STREAMS,
        shape: SHAPE,
        unit_bytes: 4096,
        is_enabled: true,
        is_directed: true,
    };
    const SHAPE: TranslationShape = TranslationShape {
        units: 256,
        used_units: 256,
        block_units: 16,
        blocks: 64,
        line_units: 4,
        policy: TranslationPolicyName::Greedy,
        settings: TranslationPolicySettings { choices: 2 },
        map: None,
        slc: None,
        wear_gap: 0,
        placement: Some(STREAMS),
    };
    const STREAMS: HostStreams = HostStreams { handles: 3, groups: 4, isolation: PlacementIsolation::Initial };
    const LIMITS: Limits = placed(Some(PLACEMENT));

    const fn placed(placement: Option<PlacementLimits>) -> Limits {
        Limits { kind: NamespaceKind::Blocks(BlockNamespaceParts { placement, metadata: None }), ..Limits::SMALL }
    }

    fn entry(opcode: u8, dwords: [u32; 4]) -> SubmissionEntry {
        let dwords = [dwords[0], dwords[1], dwords[2], dwords[3], 0, 0];
        SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, dwords, ..SubmissionEntry::default() }
    }

    fn write(kind: u32, identifier: u32) -> SubmissionEntry {
        entry(opcode::WRITE, [0, 0, 7 | kind << 20, identifier << 16])
    }

    /// Example of the Base Specification 2.1: with four reclaim groups, the upper two bits of a placement identifier
    /// are the group.
    #[test]
    fn placement_identifier_has_the_group_in_its_upper_bits() {
        assert_eq!((PLACEMENT.reclaim_group_bits(), PLACEMENT.identifier(2, 1)), (2, 0x8001));
        assert_eq!(PLACEMENT.find(0x8001), Some((2, 1)));
        let one = PlacementLimits { groups: 1, ..PLACEMENT };
        assert_eq!(
            (one.reclaim_group_bits(), one.identifier(0, 2), one.find(2), one.find(0x8001)),
            (0, 2, Some((0, 2)), None)
        );
        let list: Vec<u16> = (0..5).map(|place| PLACEMENT.placement_identifier_at(place)).collect();
        assert_eq!(list, [0, 0x4000, 0x8000, 0xc000, 1]);
    }

    /// Compares with a second model, which goes through all placement identifiers.
    #[test]
    fn exactly_the_valid_placement_identifiers_are_accepted() {
        let mut random = Random::stream(7, "identifiers");
        for _ in 0..200 {
            let number = |random: &mut Random, most: f64| (random.unit() * most) as u8 + 1;
            let (handles, groups) = (number(&mut random, 64.0), number(&mut random, 127.0));
            let limits = PlacementLimits { handles, groups, ..PLACEMENT };
            let mut bits = 0;
            while 1_u32 << bits < u32::from(groups) {
                bits += 1;
            }
            let weight = 1_u32 << (16 - bits);
            for identifier in 0..=u16::MAX {
                let (group, handle) = (u32::from(identifier) / weight, u32::from(identifier) % weight);
                let is_there = group < u32::from(groups) && handle < u32::from(handles);
                let found = limits.find(identifier).map(|(group, handle)| (u32::from(group), u32::from(handle)));
                assert_eq!(found, is_there.then_some((group, handle)), "{limits:?} {identifier:x}");
            }
        }
    }

    #[test]
    fn write_goes_to_its_directives_handle_or_the_first() {
        let place = |entry: &SubmissionEntry, limits: &Limits| Command::check(entry, limits).map(|it| it.placement);
        let at = |group, handle| Ok(WriteReclaimPlacement { group, handle, is_invalid: false });
        let chosen_for_it = Ok(WriteReclaimPlacement { is_invalid: true, ..WriteReclaimPlacement::default() });
        assert_eq!(place(&write(2, 0x8001), &LIMITS), at(2, 1));
        assert_eq!(place(&write(0, 0x8001), &LIMITS), at(0, 0), "no directive");
        assert_eq!(place(&write(2, 3), &LIMITS), chosen_for_it, "no such handle");
        for kind in [1, 3, 15] {
            assert_eq!(place(&write(kind, 0), &LIMITS), Err(Status::INVALID_FIELD), "{kind}");
        }
        for placement in [
            None,
            Some(PlacementLimits { is_enabled: false, ..PLACEMENT }),
            Some(PlacementLimits { is_directed: false, ..PLACEMENT }),
        ] {
            // If the directive is disabled, its fields are ignored.
            assert_eq!(place(&write(15, 0x8001), &placed(placement)), at(0, 0));
        }
        let read = SubmissionEntry { opcode: opcode::READ, ..write(15, 0) };
        assert_eq!(place(&read, &LIMITS), at(0, 0), "a read has no directive");
    }

    #[test]
    fn wrong_io_management_fields_have_their_statuses() {
        let (receive, send) = (opcode::IO_MANAGEMENT_RECEIVE, opcode::IO_MANAGEMENT_SEND);
        let none = placed(None);
        let disabled = placed(Some(PlacementLimits { is_enabled: false, ..PLACEMENT }));
        for (entry, limits, expected) in [
            (entry(receive, [1, 3, 0, 0]), &LIMITS, Ok(16)),
            (entry(receive, [0, 3, 0, 0]), &LIMITS, Ok(0)),
            (entry(receive, [2, 3, 0, 0]), &LIMITS, Err(Status::INVALID_FIELD)),
            (entry(receive, [1, u32::MAX, 0, 0]), &LIMITS, Err(Status::INVALID_FIELD)),
            (entry(receive, [1, 3, 0, 0]), &disabled, Err(Status::PLACEMENT_DISABLED)),
            (entry(receive, [1, 3, 0, 0]), &none, Err(Status::INVALID_OPCODE)),
            (
                SubmissionEntry { namespace_id: u32::MAX, ..entry(receive, [1, 3, 0, 0]) },
                &LIMITS,
                Err(Status::INVALID_NAMESPACE),
            ),
            (entry(send, [1 | 11 << 16, 0, 0, 0]), &LIMITS, Ok(0)),
            (entry(send, [0, 0, 0, 0]), &LIMITS, Ok(0)),
            (entry(send, [1 | 12 << 16, 0, 0, 0]), &LIMITS, Err(Status::INVALID_FIELD)),
            (entry(send, [255, 0, 0, 0]), &LIMITS, Err(Status::INVALID_FIELD)),
            (entry(send, [1, 0, 0, 0]), &disabled, Err(Status::PLACEMENT_DISABLED)),
            (entry(send, [1, 0, 0, 0]), &none, Err(Status::INVALID_OPCODE)),
        ] {
            assert_eq!(Command::check(&entry, limits).map(|command| command.bytes), expected, "{entry:?}");
        }
        let list = |identifiers: [u16; 2]| identifiers.map(u16::to_le_bytes).concat();
        assert_eq!(PLACEMENT.listed(&list([0x8001, 2])), Ok(vec![(2, 1), (0, 2)]));
        assert_eq!(PLACEMENT.listed(&list([0x8001, 3])), Err(Status::INVALID_FIELD));
    }

    #[test]
    fn reclaim_unit_report_lists_each_handle_of_each_group() {
        let limits = PlacementLimits { handles: 2, groups: 2, ..PLACEMENT };
        let room = |group: u8, handle: u8| u64::from(group) * 100 + u64::from(handle);
        let report = UnitReceive { bytes: 160 }.report(&limits, &[1, 5], room);
        assert_eq!((report.len(), u16::from_le_bytes([report[14], report[15]])), (160, 4));
        let descriptors: Vec<(u16, u8, u8)> =
            report[16..144].chunks_exact(32).map(|it| (u16::from_le_bytes([it[0], it[1]]), it[2], it[8])).collect();
        assert_eq!(descriptors, [(0, 1, 1), (0x8000, 1, 101), (1, 5, 5), (0x8001, 5, 105)]);
        assert_eq!(UnitReceive { bytes: 20 }.report(&limits, &[1, 5], room), report[..20]);
    }
}
