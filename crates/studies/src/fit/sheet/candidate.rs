//! Values of a drive's keys that a data sheet decides, and the drive file that they make.

use std::fmt::Write;

use super::input::DataSheet;
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problems;

/// Number of bytes of a page of one plane.
const PAGE_BYTES: u32 = 16_384;
/// Number of planes of a die.
const PLANES: u32 = 4;
/// Number of pages of a word line: bits of a cell.
const PAGES: u32 = 3;
/// Processor cores of the drive, as in the preset.
const CORES: f64 = 2.0;

/// Drive that a data sheet may mean.
#[derive(Clone, Debug)]
pub struct Candidate {
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

impl Candidate {
    /// Bytes that one die programs at once.
    pub fn program_bytes() -> u32 {
        PAGE_BYTES * PLANES * PAGES
    }

    /// Largest spare share that the cells allow.
    pub fn spare_max(&self) -> f64 {
        (f64::from(self.sheet.raw_gib()) / self.sheet.user_gib() - 1.0).min(2.0)
    }

    /// Returns each key that the sheet decides, with its value.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let ns = |us: f64| format!("{:.0}", us * 1e3);
        let sheet = &self.sheet;
        let dies = sheet.dies() / u32::from(sheet.channels());
        let mut keys = vec![
            ("link.preset", format!("\"gen{}-x4\"", sheet.pcie_generation)),
            ("link.lanes", sheet.lanes.to_string()),
            ("host.preset", toml::Value::from(sheet.host.as_str()).to_string()),
            ("stack.preset", toml::Value::from(sheet.stack.as_str()).to_string()),
            ("nvme.interrupts", sheet.sleeps().to_string()),
            ("media.capacity_mib", format!("{:.0}", (sheet.user_gib() * 1024.0).floor())),
            ("media.channels", sheet.channels().to_string()),
            ("media.banks_per_channel", dies.to_string()),
            ("media.planes", PLANES.to_string()),
            ("media.stripe_bytes", (PAGE_BYTES * PLANES).to_string()),
            ("media.program_bytes", Candidate::program_bytes().to_string()),
            ("media.transfer_pages", (PLANES * PAGES).to_string()),
            ("media.read_ns", ns(self.reads_us[0])),
            ("media.read_centre_ns", ns(self.reads_us[1])),
            ("media.read_upper_ns", ns(self.reads_us[2])),
            ("media.program_ns", ns(self.program_us)),
            ("media.suspend_ns", ns(self.suspend_us)),
            ("media.erase_ns", ns(self.erase_us)),
            ("media.erase_pulse_ns", ns(self.erase_pulse_us)),
            ("media.bus_bytes_per_ns", format!("{:.3}", self.bus_bytes_per_ns)),
            ("controller.read_core_ns", format!("{:.0}", CORES * 1e9 / sheet.random_read_iops)),
            ("controller.read_pipeline_ns", ns(self.pipeline_us)),
            ("controller.write_core_ns", String::from("1000")),
            ("controller.pipeline_tail_ns", ns(self.tail_us)),
            ("buffer.command_ns", ns(self.write_us)),
            ("translation.over_provisioning", format!("{:.4}", self.over_provisioning)),
            ("translation.collection_reads", String::from("\"first\"")),
            ("translation.collection_rows", PAGES.to_string()),
        ];
        let [journal_us, interval_us] = self.journal_us;
        if interval_us > 0.0 {
            keys.push(("buffer.journal_us", format!("{journal_us:.1}")));
            keys.push(("buffer.journal_interval_us", format!("{interval_us:.0}")));
        }
        if self.collection_lines > 1 {
            let line_kib = Candidate::program_bytes() * u32::from(sheet.channels()) / 1024;
            keys.push(("translation.collection_lines", self.collection_lines.to_string()));
            keys.push(("buffer.capacity_kib", (2 * line_kib).to_string()));
        }
        keys
    }

    /// Returns the drive file; `remark` gives the comment behind each key.
    pub fn drive_file(&self, remark: impl Fn(&str) -> Option<String>) -> String {
        let mut text = String::from("preset = \"tlc-gen5\"\n");
        let _ = writeln!(text, "name = {}", toml::Value::from(self.sheet.name.as_str()));
        let _ = writeln!(text, "summary = \"From its data sheet\"");
        let keys = self.keys();
        for section in ["link", "host", "stack", "media", "controller", "buffer", "translation", "nvme"] {
            let _ = writeln!(text, "\n[{section}]");
            for (key, value) in &keys {
                let Some(name) = key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) else { continue };
                match remark(key) {
                    Some(remark) => writeln!(text, "{name} = {value} # {remark}"),
                    None => writeln!(text, "{name} = {value}"),
                }
                .ok();
            }
        }
        text
    }

    /// Returns the drive.
    ///
    /// # Errors
    /// Values that no drive can have, and names of a host or stack that do not exist.
    pub fn drive(&self) -> Result<Drive, Problems> {
        Drive::from_toml(&self.sheet.name, &self.drive_file(|_| None), &[])
    }
}
