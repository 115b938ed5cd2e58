//! Contents of log pages, as bytes (Base Specification 2.0, section 5.16).

use std::collections::BTreeSet;

use super::features::{FEATURES, Features};
use super::journal::Journal;
use super::kinds::KindRow;
pub use super::kinds::{
    BLOCK_STATUS, PLACEMENT_CONFIGURATIONS, PLACEMENT_EVENTS, PLACEMENT_STATISTICS, PLACEMENT_USAGE,
};
use super::limits::{ERROR_LOG_ENTRIES, TEMPERATURE_KELVIN};
use super::subsystem::{Sanitize, SanitizeState};
use phaselink_core::protocol::nvme::commands::{CommandRow, CommandSet, rows_of};
use phaselink_core::protocol::nvme::spec::Status;

/// Identifier of the log page Error Information (figure 202).
pub const ERRORS: u8 = 0x01;
/// Identifier of the log page SMART / Health Information (figure 202).
pub const HEALTH: u8 = 0x02;
/// Identifier of the log page Changed Namespace List (figure 202).
pub const CHANGED_NAMESPACES: u8 = 0x04;
/// Identifier of the log page Commands Supported and Effects, of which there is one for each command set (figure 202).
pub const EFFECTS: u8 = 0x05;
/// Identifier of the log page Telemetry Host-Initiated (figure 202).
pub const TELEMETRY: u8 = 0x07;
/// Identifier of the log page Persistent Event Log (figure 202).
pub const PERSISTENT_EVENTS: u8 = 0x0d;
/// Identifiers of the log pages of data placement.
pub(super) const PLACEMENT_LOGS: [u8; 4] =
    [PLACEMENT_CONFIGURATIONS, PLACEMENT_USAGE, PLACEMENT_STATISTICS, PLACEMENT_EVENTS];
/// Identifier of the log page Sanitize Status (figure 202).
pub const SANITIZE_STATUS: u8 = 0x81;

/// Bits of a command's effects in the Commands Supported and Effects log page (figure 212).
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
const TELEMETRY_BLOCK_BYTES: usize = 512;

/// Length in bytes of an entry of the error log (figure 206).
const ERROR_ENTRY_BYTES: usize = 64;
/// Number of bytes in a data unit of SMART / Health Information: a thousand times 512.
const DATA_UNIT_BYTES: u64 = 512_000;

/// State of the controller that log pages report.
#[derive(Clone, Copy, Debug)]
pub struct LogSources<'a> {
    /// Numbers of commands and bytes since power-on, and the latest failed commands, over all queues of the controller.
    pub journal: &'a Journal,
    /// Current values of the features.
    pub features: &'a Features,
    /// Identifiers of the namespaces that have changed since the host read the log page Changed Namespace List.
    pub changed_namespaces: &'a BTreeSet<u32>,
    /// Latest sanitize operation.
    pub sanitize: Sanitize,
    /// Telemetry data that the host captured last, and the number of captures.
    pub telemetry: (&'a [u8], u8),
    /// Row of the namespaces' kind, with the features and log pages that not every controller has.
    pub kind: &'static KindRow,
    /// Persistent event log of the reporting context that the host has established; empty if there is none.
    pub persistent_events: &'a [u8],
}

/// Row of the table of log pages: identifier (figure 202), and the function that fills the page.
type LogPageRow = (u8, fn(&LogSources<'_>) -> Vec<u8>);

/// Log pages that every controller supports.
const LOG_PAGES: &[LogPageRow] = &[
    (0x00, |sources| supported_log_pages(sources.kind.logs)),
    (ERRORS, |sources| error_information(sources.journal)),
    (HEALTH, |sources| health_information(sources)),
    (0x03, |_| firmware_slots()),
    (CHANGED_NAMESPACES, |sources| changed_namespaces(sources.changed_namespaces)),
    (EFFECTS, |_| command_effects([], &rows_of(&[CommandSet::Every, CommandSet::Blocks]))),
    (TELEMETRY, |sources| telemetry(TELEMETRY, sources.telemetry)),
    (0x08, |_| telemetry(0x08, (&[], 0))),
    (PERSISTENT_EVENTS, |sources| sources.persistent_events.to_vec()),
    (0x12, |sources| feature_effects(sources.kind.features)),
    (SANITIZE_STATUS, |sources| sanitize_status(sources.sanitize)),
];

/// Returns the whole content of the log page with an identifier.
///
/// # Errors
/// Invalid Log Page if the controller does not support the page.
pub fn log_page(id: u8, sources: &LogSources<'_>) -> Result<Vec<u8>, Status> {
    let row = LOG_PAGES.iter().find(|(known, _)| *known == id);
    row.map(|(_, fill)| fill(sources)).ok_or(Status::INVALID_LOG_PAGE)
}

/// Returns the log page Supported Log Pages: LSUPP for each page (figure 204). `further` are identifiers beyond those
/// of every controller.
fn supported_log_pages(further: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    further.iter().for_each(|id| page[usize::from(*id) * 4] = 1);
    LOG_PAGES.iter().for_each(|(id, _)| page[usize::from(*id) * 4] = 1);
    page
}

/// Returns the log page Error Information, the newest entry first (figure 206). Unused entries are zeros.
fn error_information(journal: &Journal) -> Vec<u8> {
    let mut page = vec![0; ERROR_LOG_ENTRIES * ERROR_ENTRY_BYTES];
    for (entry, failure) in page.chunks_mut(ERROR_ENTRY_BYTES).zip(&journal.failures) {
        put(entry, 0, failure.number.to_le_bytes());
        put(entry, 8, failure.queue.to_le_bytes());
        put(entry, 10, failure.command_id.to_le_bytes());
        put(entry, 12, (failure.status.0 << 1).to_le_bytes());
        // Parameter Error Location: not reported.
        put(entry, 14, [0xff; 2]);
        put(entry, 16, failure.slba.to_le_bytes());
        put(entry, 24, failure.namespace.to_le_bytes());
    }
    page
}

/// Returns the log page SMART / Health Information (figure 207). The modelled media does not wear, and has all its
/// spare.
fn health_information(sources: &LogSources<'_>) -> Vec<u8> {
    let (journal, mut page) = (sources.journal, vec![0; 512]);
    page[0] = u8::from(sources.features.is_temperature_critical()) << 1;
    put(&mut page, 1, TEMPERATURE_KELVIN.to_le_bytes());
    // Available Spare and its threshold, in percent.
    page[3] = 100;
    page[4] = 10;
    let units = [journal.read_bytes, journal.written_bytes].map(|bytes| bytes.div_ceil(DATA_UNIT_BYTES));
    for (at, count) in [(32, units[0]), (48, units[1]), (64, journal.reads), (80, journal.writes)] {
        put(&mut page, at, count.to_le_bytes());
    }
    // Power Cycles, and Number of Error Information Log Entries.
    put(&mut page, 112, 1_u64.to_le_bytes());
    put(&mut page, 176, journal.failures_since_power_on.to_le_bytes());
    page
}

/// Returns the log page Firmware Slot Information (figure 209): slot 1 is active and holds the version of the program.
fn firmware_slots() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[0] = 1;
    page[8..16].fill(b' ');
    let revision = env!("CARGO_PKG_VERSION").as_bytes();
    page[8..16].iter_mut().zip(revision).for_each(|(place, byte)| *place = *byte);
    page
}

/// Returns the log page Commands Supported and Effects: CSUPP for each command, and its effects (figure 211).
/// Admin commands are pairs of opcode and effects.
pub(super) fn command_effects(
    admin_commands: impl IntoIterator<Item = (u8, u8)>,
    io_commands: &[&CommandRow],
) -> Vec<u8> {
    let of_io = |row: &&CommandRow| (row.opcode, if row.changes_content() { effect::BLOCKS } else { effect::NONE });
    let mut page = vec![0; 4096];
    for (opcode, effects) in admin_commands {
        page[usize::from(opcode) * 4] = 1 | effects;
    }
    for (opcode, effects) in io_commands.iter().map(of_io) {
        page[1024 + usize::from(opcode) * 4] = 1 | effects;
    }
    page
}

/// Returns the log page Changed Namespace List (section 5.16.1.5): the identifiers of changed namespaces, in ascending
/// order.
fn changed_namespaces(changed: &BTreeSet<u32>) -> Vec<u8> {
    let mut page: Vec<u8> = changed.iter().flat_map(|id| id.to_le_bytes()).collect();
    page.resize(4096, 0);
    page
}

/// Returns a telemetry log page (figures 210 and 211). All data is in data area 1, and areas 2 and 3 end where it ends.
fn telemetry(id: u8, (data, generation): (&[u8], u8)) -> Vec<u8> {
    let mut page = vec![0; TELEMETRY_BLOCK_BYTES];
    page[0] = id;
    let blocks = data.len().div_ceil(TELEMETRY_BLOCK_BYTES) as u16;
    for at in [8, 10, 12] {
        put(&mut page, at, blocks.to_le_bytes());
    }
    page[381] = generation;
    page.extend(data);
    page.resize(TELEMETRY_BLOCK_BYTES * (1 + usize::from(blocks)), b' ');
    page
}

/// Returns the log page Sanitize Status (figure 263). Times are not estimated.
fn sanitize_status(sanitize: Sanitize) -> Vec<u8> {
    let mut page = vec![0; 512];
    let progress = if sanitize.state == SanitizeState::Running { 0 } else { u16::MAX };
    put(&mut page, 0, progress.to_le_bytes());
    page[2] = sanitize.state as u8;
    put(&mut page, 4, sanitize.dword10.to_le_bytes());
    page[8..32].fill(0xff);
    page
}

/// Returns the controller's counters and settings as text, for telemetry.
pub(super) fn telemetry_text(journal: &Journal, features: &Features) -> Vec<u8> {
    format!("phaselink {}\n{journal:#?}\n{features:#?}\n", env!("CARGO_PKG_VERSION")).into_bytes()
}

/// Returns the log page Feature Identifiers Supported and Effects (figure 256): FSUPP and scope of each feature.
/// Features of every controller have the scope of the controller. Those of `further` have the scope of their bit's
/// number.
fn feature_effects(further: &[(u8, u32)]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for (id, scope) in further {
        put(&mut page, usize::from(*id) * 4, (1_u32 | 1 << scope).to_le_bytes());
    }
    for feature in FEATURES {
        put(&mut page, usize::from(feature.id) * 4, (1_u32 | 1 << 21).to_le_bytes());
    }
    page
}

fn put<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}
