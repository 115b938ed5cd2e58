//! Data sheet of a drive as a file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantiles::LatencyByQuantile;
use phaselink_core::problem::{Problem, Problems};

/// Figures of a drive's data sheet, with the latencies of a run on the nearly idle drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSheet {
    /// Name of the drive, as in a drive file.
    pub name: String,
    /// Capacity for the user, in GB (10^9 bytes).
    pub capacity_gb: f64,
    /// Capacity of all cells, in GiB; the next power of two above the user's capacity if it is left out.
    pub raw_capacity_gib: Option<u32>,
    /// Generation of PCI Express, 3 to 7.
    pub pcie_generation: u8,
    /// Number of lanes of the link.
    #[serde(default = "default_lanes")]
    pub lanes: u8,
    /// Rate of sequential reads, in MB a second.
    pub sequential_read_mb_per_s: f64,
    /// Rate of sequential writes, in MB a second.
    pub sequential_write_mb_per_s: f64,
    /// Random reads of 4 KiB a second.
    pub random_read_iops: f64,
    /// Random writes of 4 KiB a second in the steady state, over the whole drive.
    pub random_write_iops: f64,
    /// Capacity of a flash die, in GiB.
    #[serde(default = "default_die_gib")]
    pub die_gib: u32,
    /// Number of flash channels; 8 for up to 32 dies and 16 for more if it is left out.
    pub channels: Option<u16>,
    /// Host preset of the machine in which the latencies were measured.
    #[serde(default = "default_host")]
    pub host: String,
    /// Software stack with which the latencies were measured.
    #[serde(default = "default_stack")]
    pub stack: String,
    /// Latencies of the nearly idle drive.
    pub idle: IdleRunLatencies,
}

/// Latencies of 4 KiB requests of a drive under a low load, which is part of the figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRunLatencies {
    /// Random reads a second.
    #[serde(default = "default_requests_per_s")]
    pub reads_per_s: f64,
    /// Random writes a second at the same time.
    #[serde(default = "default_requests_per_s")]
    pub writes_per_s: f64,
    /// Latencies of reads in microseconds by percentile, as in `p50 = 64`.
    pub read_us: BTreeMap<String, f64>,
    /// Latencies of writes in microseconds by percentile.
    pub write_us: BTreeMap<String, f64>,
}

/// Largest number of dies of a drive.
const DIES_MAX: u32 = 4096;

impl DataSheet {
    /// Reads a data sheet from TOML; `file` is its name for messages.
    ///
    /// # Errors
    /// Text that is no data sheet, with its line, and figures that no drive has.
    pub fn parse(file: &str, text: &str) -> Result<DataSheet, Problems> {
        let sheet: DataSheet = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            Problem::new(file, line, error.message(), "a data sheet (phaselink docs data-sheet)")
        })?;
        sheet.check(file)?;
        Ok(sheet)
    }

    /// Latencies of reads of the nearly idle drive, in microseconds.
    pub fn reads(&self) -> LatencyByQuantile {
        LatencyByQuantile::of(&self.idle.read_us)
    }

    /// Latencies of writes of the nearly idle drive, in microseconds.
    pub fn writes(&self) -> LatencyByQuantile {
        LatencyByQuantile::of(&self.idle.write_us)
    }

    /// Capacity of all cells, in GiB.
    pub fn raw_gib(&self) -> u32 {
        self.raw_capacity_gib.unwrap_or_else(|| {
            let powers = (0..24).map(|power| 1u32 << power);
            powers.into_iter().find(|gib| f64::from(*gib) >= self.user_capacity_gib()).unwrap_or(u32::MAX)
        })
    }

    /// Capacity for the user, in GiB.
    pub fn user_capacity_gib(&self) -> f64 {
        self.capacity_gb * 1e9 / f64::from(1 << 30)
    }

    /// Number of flash dies.
    pub fn dies(&self) -> u32 {
        (self.raw_gib() / self.die_gib.max(1)).max(1)
    }

    /// Number of flash channels.
    pub fn channels(&self) -> u16 {
        self.channels.unwrap_or(match self.dies() {
            0..8 => 4,
            8..=32 => 8,
            _ => 16,
        })
    }

    /// Least rate of a channel, in bytes a nanosecond, with which all channels together reach the sequential reads.
    pub fn least_channel_rate(&self) -> f64 {
        self.sequential_read_mb_per_s / 1e3 / f64::from(self.channels())
    }

    /// True if the threads of the measured run slept until an interrupt.
    pub fn sleeps(&self) -> bool {
        !["user-space", "spdk"].contains(&self.stack.as_str())
    }

    fn check(&self, file: &str) -> Result<(), Problems> {
        let refused =
            |key: &str, found: f64, allowed: &str| Problem::new(file, None, format!("{key} is {found}"), allowed);
        let rates = [
            ("sequential_read_mb_per_s", self.sequential_read_mb_per_s),
            ("sequential_write_mb_per_s", self.sequential_write_mb_per_s),
            ("random_read_iops", self.random_read_iops),
            ("random_write_iops", self.random_write_iops),
            ("capacity_gb", self.capacity_gb),
            ("idle.reads_per_s", self.idle.reads_per_s),
            ("idle.writes_per_s", self.idle.writes_per_s),
        ];
        let mut problems: Vec<Problem> = rates
            .into_iter()
            .filter(|(_, value)| !(*value >= 1.0 && *value <= 1e12))
            .map(|(key, value)| refused(key, value, "1 to 1e12"))
            .collect();
        if f64::from(self.raw_gib()) < self.user_capacity_gib() * 1.01 {
            let found = f64::from(self.raw_gib());
            problems.push(refused("raw_capacity_gib", found, "at least a hundredth more than capacity_gb"));
        }
        if self.die_gib == 0 || self.dies() > DIES_MAX {
            problems.push(refused("die_gib", self.die_gib.into(), "a size that gives at most 4096 dies"));
        }
        if self.channels() == 0 || !self.dies().is_multiple_of(self.channels().into()) {
            let found = f64::from(self.channels());
            problems.push(refused("channels", found, &format!("a divisor of the {} dies", self.dies())));
        }
        if !(3..=7).contains(&self.pcie_generation) {
            problems.push(refused("pcie_generation", self.pcie_generation.into(), "3 to 7"));
        }
        if self.idle.writes_per_s >= 0.8 * self.random_write_iops {
            let allowed = "below four fifths of random_write_iops: the drive must be nearly idle";
            problems.push(refused("idle.writes_per_s", self.idle.writes_per_s, allowed));
        }
        for (key, quantiles) in [("idle.read_us", &self.idle.read_us), ("idle.write_us", &self.idle.write_us)] {
            problems.extend(LatencyByQuantile::check(file, key, quantiles));
        }
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }
}

fn default_lanes() -> u8 {
    4
}

fn default_die_gib() -> u32 {
    64
}

fn default_requests_per_s() -> f64 {
    1000.0
}

fn default_host() -> String {
    String::from("xeon-6430")
}

fn default_stack() -> String {
    String::from("linux-6")
}
