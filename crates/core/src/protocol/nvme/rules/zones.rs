//! Zone management commands: fields, statuses and data structures (Zoned Namespace Command Set Specification 1.1).

use crate::drive::Drive;
use crate::media::zones::{ZoneAction, ZoneLayout, ZoneReportEntry, ZoneRequestRefusal, ZoneState, Zones};
use crate::number::{index, length, low_u8, short_length};
use crate::protocol::nvme::spec::fields::zones as fields;
use crate::protocol::nvme::spec::identify::{IdentifyZonedController, IdentifyZonedNamespace, ZoneFormat};
use crate::protocol::nvme::spec::layout::Layout;
use crate::protocol::nvme::spec::logs::{ZoneDescriptor, ZoneReport};
use crate::protocol::nvme::spec::{PAGE_BYTES, Status, SubmissionEntry};

/// Command Set Identifier (CSI) of the Zoned Namespace Command Set.
pub const COMMAND_SET: u8 = 2;
/// Size in bytes of the header of a zone report.
const REPORT_HEAD_BYTES: u32 = short_length(ZoneReport::BYTES);
/// Size in bytes of each zone descriptor in a zone report.
const DESCRIPTION_BYTES: u32 = short_length(ZoneDescriptor::BYTES);
/// Zone type Sequential Write Required (ZT) in a zone descriptor.
const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;
/// Value reported as write pointer of a zone that has none, such as a full zone (assumed: the specification leaves it
/// open).
const NO_POINTER: u64 = u64::MAX;
/// Value 04h of Zone Send Action (ZSA) in dword 13 of Zone Management Send: Reset Zone.
pub(in crate::protocol::nvme) const RESET: u32 = 4;

/// Limits of the zones of a namespace and of Zone Append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceZoneLimits {
    /// Number and size of the zones, and maximum numbers of open and active zones.
    pub layout: ZoneLayout,
    /// Maximum number of bytes that one Zone Append transfers (ZASL).
    pub append_bytes_max: u32,
}

impl NamespaceZoneLimits {
    /// Returns the zone limits of a drive; none if the drive has no zones.
    pub fn of(drive: &Drive) -> Option<NamespaceZoneLimits> {
        let append_kib = drive.zones.append_max_kib;
        let append_kib = if append_kib > 0 { append_kib } else { drive.nvme.max_transfer_kib };
        drive.zone_layout().map(|layout| NamespaceZoneLimits { layout, append_bytes_max: append_kib * 1024 })
    }

    /// Fills the Identify Controller page of the zoned command set. ZASL stays 0 if Zone Append has the limit of all
    /// transfers.
    pub fn identify_controller(&self, transfer_bytes_max: u32, page: &mut [u8]) {
        if self.append_bytes_max < transfer_bytes_max {
            let shift = low_u8((u64::from(self.append_bytes_max) / PAGE_BYTES).trailing_zeros());
            IdentifyZonedController::over(page).set(IdentifyZonedController::APPEND_MAX, shift);
        }
    }

    /// Fills the Identify Namespace page of the zoned command set. All formats have zones of the same size, without
    /// zone descriptor extensions. Reads across the end of a zone are refused.
    pub fn identify_namespace(&self, page: &mut [u8]) {
        let ZoneLayout { zone_blocks, active_max, open_max, .. } = self.layout;
        let mut page = IdentifyZonedNamespace::over(page);
        // The fields are 0-based, and no limit is stored as all ones: 0 - 1 wraps to that.
        page.set(IdentifyZonedNamespace::ACTIVE_MAX, active_max.wrapping_sub(1));
        page.set(IdentifyZonedNamespace::OPEN_MAX, open_max.wrapping_sub(1));
        page.field_structure_mut(IdentifyZonedNamespace::FORMATS.element(0)).set(ZoneFormat::BLOCKS, zone_blocks);
    }
}

/// Zone Management Send: an action on the zone whose first logical block the command names, or on all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSend {
    /// Change of state that the command asks for.
    pub action: ZoneAction,
    /// True if the action is on every zone whose state it applies to (Select All).
    pub all: bool,
}

impl ZoneSend {
    /// Returns the action that dword 13 of a Zone Management Send entry encodes.
    ///
    /// # Errors
    /// Invalid Field for an action that is reserved or not supported.
    pub(in crate::protocol::nvme) fn of(entry: &SubmissionEntry) -> Result<ZoneSend, Status> {
        let action = match entry.get(fields::ACTION) {
            0x01 => ZoneAction::Close,
            0x02 => ZoneAction::Finish,
            0x03 => ZoneAction::Open,
            RESET => ZoneAction::Reset,
            0x05 => ZoneAction::TakeOffline,
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(ZoneSend { action, all: entry.has(fields::SELECT_ALL) })
    }

    /// True if the new zone states must be durable when the command completes, since data may be discarded or become
    /// read-only. Open and Close need not be.
    pub fn must_last(&self) -> bool {
        !matches!(self.action, ZoneAction::Open | ZoneAction::Close)
    }
}

/// Zone Management Receive: a report of zones, beginning with the zone that holds the command's logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReceive {
    /// State of the zones to be reported; none reports zones in every state.
    pub state: Option<ZoneState>,
    /// True if the number in the report's header counts only the zones in the report. Otherwise it counts all matching
    /// zones from the first one on.
    pub is_partial: bool,
    /// Length of the report in bytes, header included.
    pub bytes: u32,
}

impl ZoneReceive {
    /// Returns the zone report that dwords 12 and 13 of a Zone Management Receive entry ask for. A length of 2^32 bytes
    /// or more becomes 2^32 - 1.
    ///
    /// # Errors
    /// Invalid Field for an action or a zone state filter that is reserved or not supported; extended reports are not.
    pub(in crate::protocol::nvme) fn of(entry: &SubmissionEntry) -> Result<ZoneReceive, Status> {
        let state = match entry.get(fields::STATE) {
            0 => None,
            1 => Some(ZoneState::Empty),
            2 => Some(ZoneState::ImplicitlyOpen),
            3 => Some(ZoneState::ExplicitlyOpen),
            4 => Some(ZoneState::Closed),
            5 => Some(ZoneState::Full),
            6 => Some(ZoneState::ReadOnly),
            7 => Some(ZoneState::Offline),
            _ => return Err(Status::INVALID_FIELD),
        };
        if entry.has(fields::ACTION) {
            return Err(Status::INVALID_FIELD);
        }
        let bytes = entry.get(fields::DWORDS).saturating_add(1).saturating_mul(4);
        Ok(ZoneReceive { state, is_partial: entry.has(fields::PARTIAL), bytes })
    }

    /// Returns the zone report, beginning with the zone that holds logical block `block`, with as many zone descriptors
    /// as fit its length.
    ///
    /// # Errors
    /// LBA Out of Range if no zone holds `block`.
    pub fn report(&self, zones: &Zones, block: u64) -> Result<Vec<u8>, Status> {
        let room = index(self.bytes.saturating_sub(REPORT_HEAD_BYTES) / DESCRIPTION_BYTES);
        let is_meant = |zone: &ZoneReportEntry| self.state.is_none_or(|state| state == zone.state);
        let meant = zones.report(block).map_err(status)?.filter(is_meant);
        let mut report = vec![0; index(REPORT_HEAD_BYTES)];
        for zone in meant.clone().take(room) {
            report.extend(description(&zone));
        }
        let reported = short_length(report.len()) / DESCRIPTION_BYTES - 1;
        let number = if self.is_partial { reported.into() } else { length(meant.count()) };
        ZoneReport::over(&mut report[..]).set(ZoneReport::ZONES, number);
        // The host's buffer may be shorter than the report's header.
        report.resize(index(self.bytes), 0);
        Ok(report)
    }
}

/// Returns the Zone Descriptor of a zone: type, state, capacity, start and write pointer.
fn description(zone: &ZoneReportEntry) -> [u8; ZoneDescriptor::BYTES] {
    ZoneDescriptor::zeros()
        .with(ZoneDescriptor::TYPE, SEQUENTIAL_WRITE_REQUIRED)
        .with(ZoneDescriptor::STATE, zone_state_code(zone.state))
        .with(ZoneDescriptor::CAPACITY, zone.capacity_blocks)
        .with(ZoneDescriptor::FIRST, zone.start)
        .with(ZoneDescriptor::POINTER, zone.write_pointer.unwrap_or(NO_POINTER))
        .into_bytes()
}

/// Returns the code of a zone state in a Zone Descriptor (ZS).
fn zone_state_code(state: ZoneState) -> u8 {
    match state {
        ZoneState::Empty => 0x1,
        ZoneState::ImplicitlyOpen => 0x2,
        ZoneState::ExplicitlyOpen => 0x3,
        ZoneState::Closed => 0x4,
        ZoneState::ReadOnly => 0xd,
        ZoneState::Full => 0xe,
        ZoneState::Offline => 0xf,
    }
}

/// Returns the status of a command that is refused by the state or the bounds of its zone.
#[cold]
pub fn status(refusal: ZoneRequestRefusal) -> Status {
    match refusal {
        ZoneRequestRefusal::OutOfRange => Status::LBA_OUT_OF_RANGE,
        ZoneRequestRefusal::NoZoneStart => Status::INVALID_FIELD,
        ZoneRequestRefusal::Boundary => Status::ZONE_BOUNDARY_ERROR,
        ZoneRequestRefusal::Full => Status::ZONE_IS_FULL,
        ZoneRequestRefusal::ReadOnly => Status::ZONE_IS_READ_ONLY,
        ZoneRequestRefusal::Offline => Status::ZONE_IS_OFFLINE,
        ZoneRequestRefusal::InvalidWrite => Status::ZONE_INVALID_WRITE,
        ZoneRequestRefusal::TooManyActive => Status::TOO_MANY_ACTIVE_ZONES,
        ZoneRequestRefusal::TooManyOpen => Status::TOO_MANY_OPEN_ZONES,
        ZoneRequestRefusal::InvalidTransition => Status::INVALID_ZONE_STATE_TRANSITION,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, NamespaceKind};
    use super::*;
    use crate::protocol::nvme::commands::{Action, Command, opcode};

    const LAYOUT: ZoneLayout =
        ZoneLayout { zones: 4, zone_blocks: 512, capacity_blocks: 500, active_max: 3, open_max: 0 };
    const LIMITS: Limits = Limits {
        kind: NamespaceKind::Zoned(NamespaceZoneLimits { layout: LAYOUT, append_bytes_max: 32 << 10 }),
        ..Limits::SMALL
    };

    fn entry(opcode: u8, slba: u64, dwords: [u32; 2]) -> SubmissionEntry {
        let dwords = [slba as u32, (slba >> 32) as u32, dwords[0], dwords[1], 0, 0];
        SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, dwords, ..SubmissionEntry::default() }
    }

    #[test]
    fn wrong_zone_command_fields_have_their_statuses() {
        let (append, send, receive) =
            (opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND, opcode::ZONE_MANAGEMENT_RECEIVE);
        for (entry, expected) in [
            (entry(append, 0, [64, 0]), Status::INVALID_FIELD),
            (entry(append, 2048, [0, 0]), Status::LBA_OUT_OF_RANGE),
            (entry(send, 0, [0, 0]), Status::INVALID_FIELD),
            (entry(send, 0, [0, 0x10]), Status::INVALID_FIELD),
            (entry(send, 2048, [0, 4]), Status::LBA_OUT_OF_RANGE),
            (entry(receive, 0, [1023, 1]), Status::INVALID_FIELD),
            (entry(receive, 0, [1023, 8 << 8]), Status::INVALID_FIELD),
            (entry(receive, 0, [u32::MAX, 0]), Status::INVALID_FIELD),
            (entry(receive, 2048, [1023, 0]), Status::LBA_OUT_OF_RANGE),
        ] {
            assert_eq!(Command::check(&entry, &LIMITS), Err(expected), "{entry:?}");
            let plain = Limits { kind: NamespaceKind::PLAIN, ..LIMITS };
            assert_eq!(Command::check(&entry, &plain), Err(Status::INVALID_OPCODE), "{entry:?}");
        }
        let all = Command::check(&entry(send, 1 << 40, [0, 4 | fields::SELECT_ALL.mask()]), &LIMITS).unwrap();
        assert_eq!(all.action, Action::SendZones(ZoneSend { action: ZoneAction::Reset, all: true }));
    }

    #[test]
    fn zone_report_lists_as_many_zones_as_fit_and_counts_all() {
        let mut zones = Zones::new(LAYOUT);
        zones.write(512, 7).unwrap();
        zones.act(ZoneAction::Finish, 1024).unwrap();
        let report = |dwords: [u32; 2], block| {
            let receive = ZoneReceive::of(&entry(opcode::ZONE_MANAGEMENT_RECEIVE, 0, dwords)).unwrap();
            let report = receive.report(&zones, block).unwrap();
            assert_eq!(report.len(), receive.bytes as usize);
            let number = u64::from_le_bytes(*report.first_chunk().unwrap());
            let zones: Vec<(u8, u64, u64)> = report[64..]
                .chunks_exact(64)
                .filter(|zone| zone[0] == 2)
                .map(|zone| {
                    let long = |at: usize| u64::from_le_bytes(zone[at..at + 8].try_into().unwrap());
                    assert_eq!(long(8), 500);
                    (zone[1], long(16), long(24))
                })
                .collect();
            (number, zones)
        };
        let all = vec![(0x10, 0, 0), (0x20, 512, 519), (0xe0, 1024, u64::MAX), (0x10, 1536, 1536)];
        assert_eq!(report([1023, 0], 0), (4, all.clone()));
        assert_eq!(report([1023, 0], 700), (3, all[1..].to_vec()));
        assert_eq!(report([47, 0], 0), (4, all[..2].to_vec()), "room for two of four");
        assert_eq!(report([47, fields::PARTIAL.mask()], 0), (2, all[..2].to_vec()));
        assert_eq!(report([1023, 1 << 8], 0), (2, vec![all[0], all[3]]), "empty ones");
    }

    #[test]
    fn zone_identify_encodes_absent_limits() {
        let limits = NamespaceZoneLimits { layout: LAYOUT, append_bytes_max: 32 << 10 };
        let mut page = vec![0; 4096];
        limits.identify_namespace(&mut page);
        assert_eq!(page[4..12], [2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(page[2816..2825], [0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let field = |transfer_bytes_max| {
            let mut page = vec![0; 4096];
            limits.identify_controller(transfer_bytes_max, &mut page);
            page[0]
        };
        assert_eq!((field(64 << 10), field(32 << 10)), (3, 0));
    }
}
