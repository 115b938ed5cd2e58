//! Values of a drive's keys that a data sheet decides, and the drive file that they make.

use std::fmt::Write;

use super::input::DataSheet;
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problems;

/// Number of bytes of a page of one plane.
pub(super) const PAGE_BYTES: u32 = 16_384;
/// Number of planes of a die.
pub(super) const PLANES: u32 = 4;
/// Number of pages of a word line: bits of a cell.
pub(super) const PAGES: u32 = 3;

/// Drive that a data sheet may mean.
#[derive(Clone, Debug)]
pub struct SheetDriveCandidate {
    /// Sheet that gives sizes and names.
    pub sheet: DataSheet,
    /// Array read times of a word line's pages, in microseconds, rising.
    pub reads_us: [f64; 3],
    /// Time to program a word line, in microseconds.
    pub program_us: f64,
    /// Spare cells as a share of the user's capacity.
    pub over_provisioning: f64,
    /// Time to suspend a program, in microseconds.
    pub suspend_us: f64,
    /// Time to erase a block, in microseconds.
    pub erase_us: f64,
    /// Length of the pulses of an erase, in microseconds.
    pub erase_pulse_us: f64,
    /// Rate of a channel, in bytes a nanosecond.
    pub bus_bytes_per_ns: f64,
    /// Time of a write in the buffer, in microseconds.
    pub write_us: f64,
    /// Latency that the hardwired logic adds to a read, in microseconds.
    pub pipeline_us: f64,
    /// Mean of the firmware's random latency, in microseconds.
    pub tail_us: f64,
    /// Time of one write of the mapping's journal and from one to the next, in microseconds; zero if none is seen.
    pub journal_us: [f64; 2],
    /// Number of lines for which collection makes room at once.
    pub collection_lines: u32,
}

impl SheetDriveCandidate {
    /// Bytes that one die programs at once.
    pub fn program_bytes() -> u32 {
        PAGE_BYTES * PLANES * PAGES
    }

    /// Largest spare share that the cells allow.
    pub fn largest_spare_share(&self) -> f64 {
        (f64::from(self.sheet.raw_gib()) / self.sheet.user_capacity_gib() - 1.0).min(2.0)
    }

    /// Returns the drive file, with the origin of each key as its comment and the ranges of the assumed ones.
    pub fn drive_file(&self) -> String {
        let (keys, mut sections) = (self.keys(), Vec::new());
        let mut text = String::from("preset = \"tlc-gen5\"\n");
        let _ = writeln!(text, "name = {}", toml::Value::from(self.sheet.name.as_str()));
        let _ = writeln!(text, "summary = \"From its data sheet\"");
        for section in keys.iter().filter_map(|it| Some(it.key.split_once('.')?.0)) {
            if sections.contains(&section) {
                continue;
            }
            sections.push(section);
            let _ = writeln!(text, "\n[{section}]");
            for it in &keys {
                if let Some((of, name)) = it.key.split_once('.')
                    && of == section
                {
                    let _ = writeln!(text, "{name} = {} # {}", it.value, it.from);
                }
            }
        }
        for it in &keys {
            if let (Some(low), Some(high)) = (it.low, it.high) {
                let why = it.from.trim_start_matches("assumed: ");
                let _ =
                    writeln!(text, "\n[[assumed]]\nkey = \"{}\"\nlow = {low}\nhigh = {high}\nwhy = \"{why}\"", it.key);
            }
        }
        text
    }

    /// Returns the drive.
    ///
    /// # Errors
    /// Values that no drive can have, and names of a host or stack that do not exist.
    pub fn drive(&self) -> Result<Drive, Problems> {
        Drive::from_toml(&self.sheet.name, &self.drive_file(), &[])
    }
}
