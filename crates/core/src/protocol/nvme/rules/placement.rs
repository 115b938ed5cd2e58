//! Flexible data placement: placement identifiers of writes, and the commands that report and renew reclaim units (Base Specification
//! 2.1, sections 7.3, 7.4 and 8.1.10; NVM Command Set Specification 1.1, section 3.2.1).
//!
//! A placement identifier has the reclaim group in its upper bits, as many as the configuration says (RGIF), and the placement handle in
//! the others. The namespace maps placement handles to reclaim unit handles.

use super::Action;
use crate::config::Isolation;
use crate::drive::Drive;
use crate::media::flash::placed_shape;
use crate::media::translation::TranslationShape;
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Directive Type of data placement (DTYPE).
pub const DATA_PLACEMENT: u32 = 2;
/// DTYPE, in dword 12 of writes.
const TYPE_SHIFT: u32 = 20;
/// Management Operation (MO) that reports reclaim unit handles, of I/O Management Receive, and that renews them, of I/O Management
/// Send. 0 is no action.
const UNITS: u32 = 1;
/// Bytes of the head of the report, and of each descriptor in it.
const REPORT_HEAD_BYTES: usize = 16;
const DESCRIPTOR_BYTES: usize = 32;
/// Bytes of a placement identifier in the list of I/O Management Send.
const IDENTIFIER_BYTES: u32 = 2;

/// Limits of the data placement of a namespace: handles, groups, identifiers of a command, and reclaim units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementLimits {
    /// Number of placement handles of the namespace (NPHNDLS).
    pub handles: u8,
    /// Number of reclaim groups (NRG).
    pub groups: u8,
    /// Number of identifiers that one I/O Management Send may name (MAXPIDS, which counts from 0).
    pub identifiers_max: u16,
    /// Translation layer of the drive, whose blocks are the reclaim units, and the bytes of its units.
    pub shape: TranslationShape,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// True if data placement is enabled in the endurance group (FDPE).
    pub is_enabled: bool,
    /// True if the Data Placement directive is enabled, so that writes can name placement identifiers.
    pub is_directed: bool,
}

/// Reclaim group and placement handle of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritePlacement {
    /// Reclaim group.
    pub group: u8,
    /// Placement handle.
    pub handle: u8,
    /// True if the command names an identifier that there is not, so that the controller has chosen this place.
    pub is_invalid: bool,
}

/// I/O Management Receive: a report of the reclaim units that handles refer to, or no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitReceive {
    /// Length of the report; 0 for no action.
    pub bytes: u32,
}

/// I/O Management Send: a list of placement identifiers whose handles are to refer to other reclaim units, or no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSend {
    /// Number of identifiers; 0 for no action.
    pub identifiers: u32,
}

impl PlacementLimits {
    /// Returns what the namespace of a drive has, if hosts can place data: all handles.
    pub fn of(drive: &Drive) -> Option<PlacementLimits> {
        let (handles, groups) = (drive.placement.handles, drive.placement.groups);
        drive.placement.is_there().then(|| PlacementLimits {
            handles,
            groups,
            identifiers_max: u16::from(handles) * u16::from(groups),
            shape: placed_shape(&drive.media, &drive.translation, &drive.placement),
            unit_bytes: drive.translation.unit_bytes,
            is_enabled: true,
            is_directed: true,
        })
    }

    /// Returns the number of reclaim unit handles of the drive, of which a namespace may have fewer.
    pub fn shape_handles(&self) -> u8 {
        self.shape.placement.map_or(self.handles, |streams| streams.handles)
    }

    /// Returns the isolation of reclaim unit handles.
    pub fn isolation(&self) -> Isolation {
        self.shape.placement.map_or(Isolation::Initial, |streams| streams.isolation)
    }

    /// Number of bits of a placement identifier that hold the reclaim group (RGIF): none if there is one group.
    pub fn group_bits(&self) -> u32 {
        u8::BITS - (self.groups - 1).leading_zeros()
    }

    /// Returns the placement identifier of a handle in a group.
    pub fn identifier(&self, group: u8, handle: u8) -> u16 {
        // Without bits for groups, there is only group 0.
        u16::from(group).checked_shl(u16::BITS - self.group_bits()).unwrap_or(0) | u16::from(handle)
    }

    /// Returns the placement identifier at a place of the list of a report: groups of the first handle, then those of the next.
    pub fn identifier_at(&self, place: u16) -> u16 {
        let groups = u16::from(self.groups);
        self.identifier((place % groups) as u8, (place / groups) as u8)
    }

    /// Returns group and handle of a placement identifier, if there are such.
    pub fn find(&self, identifier: u16) -> Option<(u8, u8)> {
        let handle_bits = u16::BITS - self.group_bits();
        let group = identifier.checked_shr(handle_bits).unwrap_or(0);
        let handle = u32::from(identifier) & ((1 << handle_bits) - 1);
        let is_there = group < u16::from(self.groups) && handle < u32::from(self.handles);
        is_there.then_some((group as u8, handle as u8))
    }

    /// Returns where a command writes: where its directive says, and otherwise the first handle. An identifier that there is not
    /// does not refuse the write.
    ///
    /// # Errors
    /// Invalid Field for a type of directive that is not enabled (section 8.1.8).
    pub(super) fn place(&self, entry: &SubmissionEntry, action: Action) -> Result<WritePlacement, Status> {
        let writes = matches!(action, Action::Write { .. } | Action::Zero { .. } | Action::Copy { .. } | Action::Spoil);
        let (kind, identifier) = (entry.dwords[2] >> TYPE_SHIFT & 0xf, (entry.dwords[3] >> 16) as u16);
        match kind {
            _ if !writes || !self.is_enabled || !self.is_directed => Ok(WritePlacement::default()),
            0 => Ok(WritePlacement::default()),
            DATA_PLACEMENT => Ok(match self.find(identifier) {
                Some((group, handle)) => WritePlacement { group, handle, is_invalid: false },
                None => WritePlacement { is_invalid: true, ..WritePlacement::default() },
            }),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the groups and handles of the identifiers in the list of I/O Management Send.
    ///
    /// # Errors
    /// Invalid Field if there is no such identifier. No handle is renewed then.
    pub fn listed(&self, list: &[u8]) -> Result<Vec<(u8, u8)>, Status> {
        let found = list.as_chunks().0.iter().map(|bytes| self.find(u16::from_le_bytes(*bytes)));
        found.collect::<Option<_>>().ok_or(Status::INVALID_FIELD)
    }

    /// Checks that data placement is enabled.
    ///
    /// # Errors
    /// FDP Disabled.
    fn check_enabled(&self) -> Result<(), Status> {
        if self.is_enabled { Ok(()) } else { Err(Status::PLACEMENT_DISABLED) }
    }
}

impl UnitReceive {
    /// Returns what dwords 10 and 11 ask for. A report longer than dwords of 32 bits count is as long as they do.
    ///
    /// # Errors
    /// Invalid Field for an operation that is reserved; FDP Disabled.
    pub(super) fn of(entry: &SubmissionEntry, limits: &PlacementLimits) -> Result<UnitReceive, Status> {
        match entry.dwords[0] & 0xff {
            0 => Ok(UnitReceive { bytes: 0 }),
            UNITS => {
                limits.check_enabled()?;
                Ok(UnitReceive { bytes: entry.dwords[1].saturating_add(1).saturating_mul(4) })
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the report (Reclaim Unit Handle Status): for each placement handle in each group, the reclaim unit handle that the
    /// namespace maps it to, and the logical blocks that its reclaim unit still has room for, as `room` tells.
    pub fn report(&self, limits: &PlacementLimits, unit_handles: &[u8], room: impl Fn(u8, u8) -> u64) -> Vec<u8> {
        let count = u16::from(limits.handles) * u16::from(limits.groups);
        let mut report = vec![0; REPORT_HEAD_BYTES];
        report[14..16].copy_from_slice(&count.to_le_bytes());
        for place in 0..count {
            let (group, handle) = ((place % u16::from(limits.groups)) as u8, (place / u16::from(limits.groups)) as u8);
            let unit_handle = unit_handles.get(usize::from(handle)).copied().unwrap_or(handle);
            let mut descriptor = [0; DESCRIPTOR_BYTES];
            descriptor[..2].copy_from_slice(&limits.identifier(group, handle).to_le_bytes());
            descriptor[2] = unit_handle;
            descriptor[8..16].copy_from_slice(&room(group, unit_handle).to_le_bytes());
            report.extend(descriptor);
        }
        report.resize(self.bytes as usize, 0);
        report
    }
}

impl UnitSend {
    /// Returns what dword 10 asks for.
    ///
    /// # Errors
    /// Invalid Field for an operation that is reserved, or more identifiers than are allowed; FDP Disabled.
    pub(super) fn of(entry: &SubmissionEntry, limits: &PlacementLimits) -> Result<UnitSend, Status> {
        match entry.dwords[0] & 0xff {
            0 => Ok(UnitSend { identifiers: 0 }),
            UNITS => {
                limits.check_enabled()?;
                let identifiers = (entry.dwords[0] >> 16) + 1;
                let is_long = identifiers > limits.identifiers_max.into();
                if is_long { Err(Status::INVALID_FIELD) } else { Ok(UnitSend { identifiers }) }
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the bytes of the list.
    pub fn bytes(&self) -> u32 {
        self.identifiers * IDENTIFIER_BYTES
    }
}

/// Returns the dwords of a write with the placement identifier at a place of the drive's list.
pub(in crate::protocol::nvme) fn directed(dwords: [u32; 6], limits: &PlacementLimits, place: u16) -> [u32; 6] {
    directed_to(dwords, limits.identifier_at(place))
}

/// Returns the dwords of a write with a placement identifier.
pub fn directed_to(dwords: [u32; 6], identifier: u16) -> [u32; 6] {
    let [ten, eleven, twelve, thirteen, fourteen, fifteen] = dwords;
    let twelve = twelve & !(0xf << TYPE_SHIFT) | DATA_PLACEMENT << TYPE_SHIFT;
    [ten, eleven, twelve, thirteen & 0xffff | u32::from(identifier) << 16, fourteen, fifteen]
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Limits};
    use super::*;
    use crate::config::PolicyName;
    use crate::media::translation::PlacedStreams;
    use crate::media::translation::policy::PolicySettings;
    use crate::protocol::nvme::spec::opcode;
    use crate::random::Random;

    const PLACEMENT: PlacementLimits = PlacementLimits {
        handles: 3,
        groups: 4,
        identifiers_max: 12,
        shape: SHAPE,
        unit_bytes: 4096,
        is_enabled: true,
        is_directed: true,
    };
    const SHAPE: TranslationShape = TranslationShape {
        units: 256,
        block_units: 16,
        blocks: 64,
        line_units: 4,
        policy: PolicyName::Greedy,
        settings: PolicySettings { choices: 2 },
        map: None,
        slc: None,
        wear_gap: 0,
        placement: Some(PlacedStreams { handles: 3, groups: 4, isolation: Isolation::Initial }),
    };
    const LIMITS: Limits = Limits { placement: Some(PLACEMENT), ..Limits::SMALL };

    fn entry(opcode: u8, dwords: [u32; 4]) -> SubmissionEntry {
        let dwords = [dwords[0], dwords[1], dwords[2], dwords[3], 0, 0];
        SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, dwords, ..SubmissionEntry::default() }
    }

    fn write(kind: u32, identifier: u32) -> SubmissionEntry {
        entry(opcode::WRITE, [0, 0, 7 | kind << 20, identifier << 16])
    }

    /// The example of Base Specification 2.1, figures 275 and 276: two bits of four groups are the upper ones.
    #[test]
    fn identifier_has_the_group_in_its_upper_bits() {
        assert_eq!((PLACEMENT.group_bits(), PLACEMENT.identifier(2, 1)), (2, 0x8001));
        assert_eq!(PLACEMENT.find(0x8001), Some((2, 1)));
        let one = PlacementLimits { groups: 1, ..PLACEMENT };
        assert_eq!((one.group_bits(), one.identifier(0, 2), one.find(2), one.find(0x8001)), (0, 2, Some((0, 2)), None));
        let list: Vec<u16> = (0..5).map(|place| PLACEMENT.identifier_at(place)).collect();
        assert_eq!(list, [0, 0x4000, 0x8000, 0xc000, 1]);
    }

    /// A second model, which goes through all identifiers that there are.
    #[test]
    fn every_identifier_is_found_that_a_list_of_all_has_and_no_other() {
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
    fn write_goes_where_its_directive_says_and_otherwise_to_the_first_handle() {
        let place = |entry: &SubmissionEntry, limits: &Limits| Command::check(entry, limits).map(|it| it.placement);
        let at = |group, handle| Ok(WritePlacement { group, handle, is_invalid: false });
        let chosen_for_it = Ok(WritePlacement { is_invalid: true, ..WritePlacement::default() });
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
            // Without an enabled directive, the fields are ignored.
            assert_eq!(place(&write(15, 0x8001), &Limits { placement, ..LIMITS }), at(0, 0));
        }
        let read = SubmissionEntry { opcode: opcode::READ, ..write(15, 0) };
        assert_eq!(place(&read, &LIMITS), at(0, 0), "a read has no directive");
    }

    #[test]
    fn each_wrong_field_of_a_management_command_has_its_status() {
        let (receive, send) = (opcode::IO_MANAGEMENT_RECEIVE, opcode::IO_MANAGEMENT_SEND);
        let none = Limits { placement: None, ..LIMITS };
        let disabled = Limits { placement: Some(PlacementLimits { is_enabled: false, ..PLACEMENT }), ..LIMITS };
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
    fn report_has_each_handle_in_each_group_and_zeros_behind_them() {
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
