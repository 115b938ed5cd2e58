//! Keys of a drive that its data sheet decides, each with its value and what it comes from.

use super::answer::SheetKey;
use super::drive::{PAGE_BYTES, PAGES, PLANES, SheetDriveCandidate};
use super::solve::{BUS_BYTES_PER_NS, ERASE_PULSE_US, ERASE_US, Known, SUSPEND_US};
use phaselink_core::drive::Drive;

/// Number of processor cores of the drive, as in the preset.
const CORES: f64 = 2.0;
const WORD_LINE: &str = "assumed: a word line in one go";
const DIE: &str = "assumed: four planes with pages of 16 KiB, three bits a cell";
const MACHINE: &str = "given: machine of the latencies";
const LITTLE: &str = "assumed: little; the cells have the rest";
const STOPS: &str = "assumed: collection stops writes, whose p99.99 is 500 us beyond p50; from one measured drive";
const JOURNAL: &str = "derived: p99.9 of writes, and the largest percentile, as waits for the end of a pause";

fn key(name: &str, value: impl ToString, from: &str) -> SheetKey {
    SheetKey { key: String::from(name), value: value.to_string(), from: String::from(from), low: None, high: None }
}

fn nanoseconds_text(us: f64) -> String {
    format!("{:.0}", us * 1e3)
}

fn text(value: &str) -> String {
    toml::Value::from(value).to_string()
}

impl SheetDriveCandidate {
    /// Returns each key that the sheet decides, with its value and what it comes from.
    pub fn keys(&self) -> Vec<SheetKey> {
        [
            self.machine_key_rows(),
            self.cell_key_rows(),
            self.read_wait_key_rows(),
            self.controller_key_rows(),
            self.collection_key_rows(),
        ]
        .concat()
    }

    fn machine_key_rows(&self) -> Vec<SheetKey> {
        let sheet = &self.sheet;
        let mut keys = vec![
            key("link.preset", text(&format!("gen{}-x4", sheet.pcie_generation)), "given: generation"),
            key("link.lanes", sheet.lanes, "given: lanes"),
            key("host.preset", text(&sheet.host), MACHINE),
            key("stack.preset", text(&sheet.stack), MACHINE),
        ];
        let interrupts = Drive::shipped("tlc-gen5").and_then(|drive| drive.protocol().interrupts_key());
        keys.extend(interrupts.map(|name| key(name, sheet.sleeps(), MACHINE)));
        keys
    }

    fn cell_key_rows(&self) -> Vec<SheetKey> {
        let (sheet, reads) = (&self.sheet, self.sheet.reads());
        let dies = sheet.dies() / u32::from(sheet.channels());
        let page = |quantile: f64, solved: &'static str| match reads.at(quantile) {
            Some(_) => solved,
            None => "derived: the median of reads, in the ratios of FEMU",
        };
        let channels = key("media.channels", sheet.channels(), "assumed: 8 channels for up to 32 dies, 16 for more");
        vec![
            key(
                "media.capacity_mib",
                format!("{:.0}", (sheet.user_capacity_gib() * 1024.0).floor()),
                "given: capacity",
            ),
            match sheet.channels {
                Some(_) => SheetKey { from: String::from("given: channels"), ..channels },
                None => SheetKey { low: Some(4.0), high: Some(16.0), ..channels },
            },
            key("media.banks_per_channel", dies, "derived: all cells in dies of die_gib"),
            key("media.planes", PLANES, DIE),
            key("media.stripe_bytes", PAGE_BYTES * PLANES, DIE),
            key("media.program_bytes", SheetDriveCandidate::program_bytes(), DIE),
            key("media.transfer_pages", PLANES * PAGES, WORD_LINE),
            key("media.read_ns", nanoseconds_text(self.reads_us[0]), page(0.16, "solved: p10 to p25 of idle reads")),
            key("media.read_centre_ns", nanoseconds_text(self.reads_us[1]), "solved: the median of idle reads"),
            key("media.read_upper_ns", nanoseconds_text(self.reads_us[2]), page(0.75, "solved: p75 of idle reads")),
            key("media.program_ns", nanoseconds_text(self.program_us), "solved: sequential writes"),
        ]
    }

    /// Returns the keys of what reads wait for. Each is solved if the sheet has its percentile.
    fn read_wait_key_rows(&self) -> Vec<SheetKey> {
        let reads = self.sheet.reads();
        let wait = |name: &str, value: String, (quantile, from): (f64, &str), known: Known, unit: f64| {
            if reads.at(quantile).is_some() {
                return key(name, value, &format!("solved: {from} of idle reads"));
            }
            let median = key(name, value, "assumed: the median of seven measured drives");
            SheetKey { low: Some(known.low * unit), high: Some(known.high * unit), ..median }
        };
        let bus = format!("{:.3}", self.bus_bytes_per_ns);
        vec![
            wait("media.suspend_ns", nanoseconds_text(self.suspend_us), (0.95, "p90 and p95"), SUSPEND_US, 1e3),
            wait("media.erase_ns", nanoseconds_text(self.erase_us), (0.9999, "p99.99"), ERASE_US, 1e3),
            wait(
                "media.erase_pulse_ns",
                nanoseconds_text(self.erase_pulse_us),
                (0.999_99, "p99.999"),
                ERASE_PULSE_US,
                1e3,
            ),
            wait("media.bus_bytes_per_ns", bus, (0.99, "p99"), BUS_BYTES_PER_NS, 1.0),
        ]
    }

    fn controller_key_rows(&self) -> Vec<SheetKey> {
        let read_core_ns = format!("{:.0}", CORES * 1e9 / self.sheet.random_read_iops);
        let tail = "derived: p99.99 less p50 of writes are 8.5 means, p99 less p50 are 3.9";
        let mut keys = vec![
            key("controller.read_core_ns", read_core_ns, "derived: random reads a second on two cores"),
            key("controller.read_pipeline_ns", nanoseconds_text(self.pipeline_us), LITTLE),
            key("controller.write_core_ns", 1000, LITTLE),
            key("controller.pipeline_tail_ns", nanoseconds_text(self.tail_us), tail),
            key("buffer.command_ns", nanoseconds_text(self.write_us), "solved: the median of writes"),
            key("buffer.command_servers", 16, "assumed: cells or cores are the limit"),
        ];
        let [journal_us, interval_us] = self.journal_us;
        if interval_us > 0.0 {
            keys.push(key("buffer.journal_us", format!("{journal_us:.1}"), JOURNAL));
            keys.push(key("buffer.journal_interval_us", format!("{interval_us:.0}"), JOURNAL));
        }
        keys
    }

    fn collection_key_rows(&self) -> Vec<SheetKey> {
        let spare = format!("{:.4}", self.over_provisioning);
        let mut keys = vec![
            key("translation.over_provisioning", spare, "solved: steady random writes"),
            key("translation.collection_reads", text("first"), "assumed: no die waits for the data of a program"),
            key("translation.collection_rows", PAGES, WORD_LINE),
        ];
        if self.collection_lines > 1 {
            let line_kib = SheetDriveCandidate::program_bytes() * u32::from(self.sheet.channels()) / 1024;
            keys.push(key("translation.collection_lines", self.collection_lines, STOPS));
            keys.push(key("buffer.capacity_kib", 2 * line_kib, STOPS));
        }
        keys
    }
}
