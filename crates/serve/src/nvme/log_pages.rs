//! Contents of log pages, as bytes (Base Specification 2.0, section 5.16).

use std::collections::BTreeSet;

use super::features::{FEATURES, FeatureValues};
use super::journal::CommandJournal;
pub use super::kinds::{
    BLOCK_STATUS, PLACEMENT_CONFIGURATIONS, PLACEMENT_EVENTS, PLACEMENT_STATISTICS, PLACEMENT_USAGE,
};
use super::kinds::{KindRow, RESERVATION_FEATURES};
use super::limits::{ERROR_LOG_ENTRIES, TEMPERATURE_KELVIN};
use super::subsystem::{Sanitize, SanitizeOperationState};
use phaselink_core::number::{low_u16, short_length};
use phaselink_core::protocol::nvme::commands::{CommandRow, CommandSet, rows_of};
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::protocol::nvme::spec::identify::NamespaceList;
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{
    CommandEffect, CommandEffects, ErrorEntry, FirmwareSlots, Health, SanitizeStatus, SupportedIds, TelemetryHeader,
};

/// Identifier of the log page Error Information.
pub const ERRORS: u8 = 0x01;
/// Identifier of the log page SMART / Health Information.
pub const HEALTH: u8 = 0x02;
/// Identifier of the log page Changed Namespace List.
pub const CHANGED_NAMESPACES: u8 = 0x04;
/// Identifier of the log page Commands Supported and Effects, of which there is one for each command set.
pub const EFFECTS: u8 = 0x05;
/// Identifier of the log page Telemetry Host-Initiated.
pub const TELEMETRY: u8 = 0x07;
/// Identifier of the log page Asymmetric Namespace Access.
pub const ACCESS: u8 = 0x0c;
/// Identifier of the log page Persistent Event Log.
pub const PERSISTENT_EVENTS: u8 = 0x0d;
/// Identifiers of the log pages of data placement.
pub(super) const PLACEMENT_LOGS: [u8; 4] =
    [PLACEMENT_CONFIGURATIONS, PLACEMENT_USAGE, PLACEMENT_STATISTICS, PLACEMENT_EVENTS];
/// Identifier of the log page Discovery.
pub const DISCOVERY: u8 = 0x70;
/// Identifier of the log page Reservation Notification.
pub const RESERVATION_NOTICES: u8 = 0x80;
/// Identifier of the log page Sanitize Status.
pub const SANITIZE_STATUS: u8 = 0x81;

/// Bits of a command's effects in the Commands Supported and Effects log page.
pub mod effect {
    /// Effect bits of a command that changes nothing on the drive that other commands see.
    pub const NONE: u8 = 0;
    /// Effect bit of a command that changes the content of logical blocks (LBCC).
    pub const BLOCKS: u8 = 1 << 1;
    /// Effect bit of a command that changes capabilities of a namespace (NCC).
    pub const NAMESPACE: u8 = 1 << 2;
    /// Effect bit of a command that creates, deletes, attaches or detaches namespaces (NIC).
    pub const INVENTORY: u8 = 1 << 3;
}

/// Length in bytes of a block of telemetry data, and of the header before the first block.
const TELEMETRY_BLOCK_BYTES: usize = TelemetryHeader::BYTES;
/// Number of bytes in a data unit of SMART / Health Information: a thousand times 512.
const DATA_UNIT_BYTES: u64 = 512_000;

/// State of the controller that log pages report.
#[derive(Clone, Copy, Debug)]
pub struct LogPageSources<'a> {
    /// Numbers of commands and bytes since power-on, and the latest failed commands, over all queues of the controller.
    pub journal: &'a CommandJournal,
    /// Current values of the features.
    pub features: &'a FeatureValues,
    /// Identifiers of the namespaces that have changed since the host read the log page Changed Namespace List.
    pub changed_namespaces: &'a BTreeSet<u32>,
    /// Latest sanitize operation.
    pub sanitize: Sanitize,
    /// Log page Asymmetric Namespace Access.
    pub access: &'a [u8],
    /// Log page Reservation Notification, with the oldest unread notice.
    pub reservation_notice: &'a [u8],
    /// Telemetry data that the host captured last, and the number of captures.
    pub telemetry: (&'a [u8], u8),
    /// Row of the namespaces' kind, with the features and log pages that not every controller has.
    pub kind: &'static KindRow,
    /// Persistent event log of the reporting context that the host has established; empty if there is none.
    pub persistent_events: &'a [u8],
}

/// Row of the table of log pages: identifier, and the function that fills the page.
type LogPageRow = (u8, fn(&LogPageSources<'_>) -> Vec<u8>);

/// Log pages that every controller supports.
const LOG_PAGES: &[LogPageRow] = &[
    (0x00, |sources| supported_pages_log(sources.kind.logs)),
    (ERRORS, |sources| error_information(sources.journal)),
    (HEALTH, |sources| health_information(sources)),
    (0x03, |_| firmware_slot_log()),
    (CHANGED_NAMESPACES, |sources| changed_namespaces(sources.changed_namespaces)),
    (EFFECTS, |_| command_effects_log([], &rows_of(&[CommandSet::Every, CommandSet::Blocks]))),
    (TELEMETRY, |sources| telemetry(TELEMETRY, sources.telemetry)),
    (0x08, |_| telemetry(0x08, (&[], 0))),
    (ACCESS, |sources| sources.access.to_vec()),
    (PERSISTENT_EVENTS, |sources| sources.persistent_events.to_vec()),
    (0x12, |sources| feature_effects_log(sources.kind.features)),
    (RESERVATION_NOTICES, |sources| sources.reservation_notice.to_vec()),
    (SANITIZE_STATUS, |sources| sanitize_status_log(sources.sanitize)),
];

/// Returns the whole content of the log page with an identifier.
///
/// # Errors
/// Invalid Log Page if the controller does not support the page.
pub fn log_page(id: u8, sources: &LogPageSources<'_>) -> Result<Vec<u8>, Status> {
    let row = LOG_PAGES.iter().find(|(known, _)| *known == id);
    row.map(|(_, fill)| fill(sources)).ok_or(Status::INVALID_LOG_PAGE)
}

/// Returns the log page Supported Log Pages: LSUPP for each page. `further` are identifiers beyond those of every
/// controller.
fn supported_pages_log(further: &[u8]) -> Vec<u8> {
    let mut page = SupportedIds::zeros();
    let own = LOG_PAGES.iter().map(|(id, _)| id);
    own.chain(further).for_each(|id| page.set(SupportedIds::IDS.element(usize::from(*id)), 1));
    page.into_bytes().to_vec()
}

/// Returns the log page Error Information, the newest entry first. Unused entries are zeros.
fn error_information(journal: &CommandJournal) -> Vec<u8> {
    let mut page = Vec::new();
    for failure in journal.failures.iter().take(ERROR_LOG_ENTRIES) {
        let entry = ErrorEntry::zeros()
            .with(ErrorEntry::NUMBER, failure.number)
            .with(ErrorEntry::QUEUE, failure.queue)
            .with(ErrorEntry::COMMAND_ID, failure.command_id)
            .with(ErrorEntry::STATUS, failure.status.0)
            .with(ErrorEntry::PARAMETER, u16::MAX)
            .with(ErrorEntry::BLOCK, failure.slba)
            .with(ErrorEntry::NAMESPACE, failure.namespace);
        page.extend(entry.into_bytes());
    }
    page.resize(ERROR_LOG_ENTRIES * ErrorEntry::BYTES, 0);
    page
}

/// Returns the log page SMART / Health Information. The modelled media does not wear, and has all its spare.
fn health_information(sources: &LogPageSources<'_>) -> Vec<u8> {
    let journal = sources.journal;
    let page = Health::zeros()
        .with(Health::TEMPERATURE_WARNING, sources.features.is_temperature_critical())
        .with(Health::TEMPERATURE, TEMPERATURE_KELVIN)
        .with(Health::SPARE, 100)
        .with(Health::SPARE_THRESHOLD, 10)
        .with(Health::UNITS_READ, journal.read_bytes.div_ceil(DATA_UNIT_BYTES).into())
        .with(Health::UNITS_WRITTEN, journal.written_bytes.div_ceil(DATA_UNIT_BYTES).into())
        .with(Health::READS, journal.reads.into())
        .with(Health::WRITES, journal.writes.into())
        .with(Health::POWER_CYCLES, 1)
        .with(Health::ERRORS, journal.failures_since_power_on.into());
    page.into_bytes().to_vec()
}

/// Returns the log page Firmware Slot Information: slot 1 is active and holds the version of the program.
fn firmware_slot_log() -> Vec<u8> {
    let mut page = FirmwareSlots::zeros().with(FirmwareSlots::ACTIVE, 1);
    page.set_padded_text(FirmwareSlots::REVISION, env!("CARGO_PKG_VERSION"));
    page.into_bytes().to_vec()
}

/// Returns the log page Commands Supported and Effects: CSUPP for each command, and its effects. Admin commands are
/// pairs of opcode and effects.
pub(super) fn command_effects_log(
    admin_commands: impl IntoIterator<Item = (u8, u8)>,
    io_commands: &[&CommandRow],
) -> Vec<u8> {
    let of_io =
        |row: &&CommandRow| (row.opcode, if row.changes_logical_content() { effect::BLOCKS } else { effect::NONE });
    let admin = admin_commands.into_iter().map(|command| (CommandEffects::ADMIN, command));
    let io = io_commands.iter().map(|row| (CommandEffects::IO, of_io(row)));
    let mut page = CommandEffects::zeros();
    for (effects_of, (opcode, effects)) in admin.chain(io) {
        page.field_structure_mut(effects_of.element(opcode.into())).set(CommandEffect::EFFECTS, 1 | effects);
    }
    page.into_bytes().to_vec()
}

/// Returns the log page Changed Namespace List (section 5.16.1.5): the identifiers of changed namespaces, in ascending
/// order.
fn changed_namespaces(changed: &BTreeSet<u32>) -> Vec<u8> {
    let mut page = NamespaceList::zeros();
    let listed = changed.iter().take(NamespaceList::IDS.count()).enumerate();
    listed.for_each(|(place, id)| page.set(NamespaceList::IDS.element(place), *id));
    page.into_bytes().to_vec()
}

/// Returns a telemetry log page. All data is in data area 1, and areas 2 and 3 end where it ends.
fn telemetry(id: u8, (data, generation): (&[u8], u8)) -> Vec<u8> {
    let blocks = low_u16(short_length(data.len().div_ceil(TELEMETRY_BLOCK_BYTES)));
    let header = TelemetryHeader::zeros()
        .with(TelemetryHeader::ID, id)
        .with(TelemetryHeader::FIRST_AREA_END, blocks)
        .with(TelemetryHeader::SECOND_AREA_END, blocks)
        .with(TelemetryHeader::THIRD_AREA_END, blocks)
        .with(TelemetryHeader::GENERATION, generation);
    let mut page = [&header.into_bytes()[..], data].concat();
    page.resize(TELEMETRY_BLOCK_BYTES * (1 + usize::from(blocks)), b' ');
    page
}

/// Returns the log page Sanitize Status. Times are not estimated.
fn sanitize_status_log(sanitize: Sanitize) -> Vec<u8> {
    let page = SanitizeStatus::zeros()
        .with(SanitizeStatus::PROGRESS, if sanitize.state == SanitizeOperationState::Running { 0 } else { u16::MAX })
        .with(SanitizeStatus::STATE, sanitize.state as u8)
        .with(SanitizeStatus::COMMAND, sanitize.dword10)
        .with(SanitizeStatus::ESTIMATES, [0xff; 24]);
    page.into_bytes().to_vec()
}

/// Returns the controller's counters and settings as text, for telemetry.
pub(super) fn telemetry_counters_text(journal: &CommandJournal, features: &FeatureValues) -> Vec<u8> {
    format!("phaselink {}\n{journal:#?}\n{features:#?}\n", env!("CARGO_PKG_VERSION")).into_bytes()
}

/// Returns the log page Feature Identifiers Supported and Effects: FSUPP and scope of each feature. Features of every
/// controller have the scope of the controller or, for reservations, of a namespace. Those of `further` have the scope of
/// their bit's number.
fn feature_effects_log(further: &[(u8, u32)]) -> Vec<u8> {
    let own = FEATURES.iter().map(|feature| (feature.id, 21));
    let mut page = SupportedIds::zeros();
    for (id, scope) in further.iter().copied().chain(own).chain(RESERVATION_FEATURES) {
        page.set(SupportedIds::IDS.element(id.into()), 1 | 1 << scope);
    }
    page.into_bytes().to_vec()
}
