//! Log pages (Base Specification 2.0, section 5.16).

use super::command::{CommandRow, IO_COMMANDS};
use super::features::{FEATURES, Features};
use super::journal::Journal;
use super::limits::{ERROR_LOG_ENTRIES, TEMPERATURE_KELVIN};
use phaselink_core::protocol::nvme::spec::Status;

/// Identifier of the log page Error Information (figure 202).
pub const ERRORS: u8 = 0x01;
/// Identifier of the log page SMART / Health Information (figure 202).
pub const HEALTH: u8 = 0x02;

/// Length in bytes of an entry of the error log (figure 206).
const ERROR_ENTRY_BYTES: usize = 64;
/// Bytes of a data unit of the health log: a thousand times 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// State of the controller that log pages report.
#[derive(Clone, Copy, Debug)]
pub struct LogSources<'a> {
    /// Counts and failures of all queues.
    pub journal: &'a Journal,
    /// Values of the features.
    pub features: &'a Features,
    /// Admin commands that the controller executes.
    pub admin_commands: &'a [CommandRow],
}

/// Row of the table of log pages: identifier (figure 202), and the function that fills the page.
type LogPageRow = (u8, fn(&LogSources<'_>) -> Vec<u8>);

/// Log pages that the controller supports.
const LOG_PAGES: &[LogPageRow] = &[
    (0x00, |_| supported_log_pages()),
    (ERRORS, |sources| error_information(sources.journal)),
    (HEALTH, |sources| health_information(sources)),
    (0x03, |_| firmware_slots()),
    (0x05, |sources| command_effects(sources.admin_commands)),
    (0x12, |_| feature_effects()),
];

/// Returns the whole of a log page.
///
/// # Errors
/// Invalid Log Page if the controller does not support the page.
pub fn log_page(id: u8, sources: &LogSources<'_>) -> Result<Vec<u8>, Status> {
    let row = LOG_PAGES.iter().find(|(known, _)| *known == id);
    row.map(|(_, fill)| fill(sources)).ok_or(Status::INVALID_LOG_PAGE)
}

/// Returns Supported Log Pages: LSUPP for each page (figure 204).
fn supported_log_pages() -> Vec<u8> {
    let mut page = vec![0; 1024];
    LOG_PAGES.iter().for_each(|(id, _)| page[usize::from(*id) * 4] = 1);
    page
}

/// Returns Error Information, the newest entry first (figure 206). Unused entries are zeros.
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

/// Returns SMART / Health Information (figure 207). The memory does not wear and has all its spare.
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

/// Returns Firmware Slot Information: slot 1 is active and holds the version of the program (figure 209).
fn firmware_slots() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[0] = 1;
    page[8..16].fill(b' ');
    let revision = env!("CARGO_PKG_VERSION").as_bytes();
    page[8..16].iter_mut().zip(revision).for_each(|(place, byte)| *place = *byte);
    page
}

/// Returns Commands Supported and Effects: CSUPP for each command, and LBCC for those that change logical blocks (figure 211).
fn command_effects(admin_commands: &[CommandRow]) -> Vec<u8> {
    let mut page = vec![0; 4096];
    for (first, rows) in [(0, admin_commands), (1024, IO_COMMANDS)] {
        for row in rows {
            page[first + usize::from(row.opcode) * 4] = 1 | u8::from(row.changes_blocks) << 1;
        }
    }
    page
}

/// Returns Feature Identifiers Supported and Effects: FSUPP for each feature, all with the scope of the controller (figure 256).
fn feature_effects() -> Vec<u8> {
    let mut page = vec![0; 1024];
    for feature in FEATURES {
        put(&mut page, usize::from(feature.id) * 4, (1_u32 | 1 << 21).to_le_bytes());
    }
    page
}

fn put<const N: usize>(page: &mut [u8], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}
