//! Lifetime of flash behind a translation layer: bytes that may be written to a drive until its cells have reached
//! their endurance.
//!
//! A translation layer spreads writes over all blocks, so that the addresses of a workload do not matter, but its
//! garbage collection writes as well. Write amplification is that of the steady state in closed form.

use phaselink_core::config::Precondition;
use phaselink_core::drive::Drive;
use phaselink_core::media::flash::shape;
use phaselink_core::number::real;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::fio;
use schemars::JsonSchema;
use serde::Serialize;

/// Days of a Julian year; `DAY_S` are the seconds of a day.
const YEAR_DAYS: f64 = 365.25;
const DAY_S: f64 = 86_400.0;
/// Years for which vendors state drive writes per day.
pub const WARRANTY_YEARS: f64 = 5.0;

/// Pattern of the writes that wear a drive out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WrittenPattern {
    /// Writes of the whole drive in order, again and again, so that garbage collection finds empty blocks.
    Sequential,
    /// Writes of blocks at random over the whole drive, all with the same probability.
    Random,
}

impl WrittenPattern {
    /// All patterns of writes.
    pub const ALL: [WrittenPattern; 2] = [WrittenPattern::Sequential, WrittenPattern::Random];

    /// Returns the name of the pattern on the command line.
    pub fn name(self) -> &'static str {
        match self {
            WrittenPattern::Sequential => "sequential",
            WrittenPattern::Random => "random",
        }
    }

    /// Returns the pattern of this name; none if no pattern has it.
    pub fn named(name: &str) -> Option<WrittenPattern> {
        WrittenPattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Returns the value of fio's `rw` for the pattern.
    fn fio_rw_value(self) -> &'static str {
        match self {
            WrittenPattern::Sequential => "write",
            WrittenPattern::Random => "randwrite",
        }
    }
}

/// Lifetime of the flash of one drive under one pattern of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlashLifetime {
    /// Pattern of the writes, sequential or random.
    #[serde(rename = "workload")]
    pub pattern: WrittenPattern,
    /// Size of a write in bytes.
    pub block_bytes: u32,
    /// Write amplification: bytes programmed for each byte written.
    pub write_amplification: f64,
    /// Bytes that may be written until the cells have reached their endurance (terabytes written, TBW).
    pub written_bytes: f64,
    /// Drive writes per day (DWPD): writes of the whole drive each day that come to as many bytes over five years.
    pub drive_writes_per_day: f64,
    /// Largest number of bytes a second that the drive accepts in the steady state, alone on its host.
    pub bytes_per_s: f64,
    /// Lifetime in years if the drive is written at its largest rate without a pause.
    pub years: f64,
}

impl FlashLifetime {
    /// Returns the lifetime in years if `bytes_per_day` bytes are written each day.
    pub fn years_at(&self, bytes_per_day: f64) -> f64 {
        self.written_bytes / bytes_per_day / YEAR_DAYS
    }
}

/// Returns the lifetime of a drive's flash under writes of `block_bytes` bytes in this pattern.
///
/// # Errors
/// A drive without a translation layer, cells without an endurance, and blocks that the drive does not take.
pub fn flash_lifetime(drive: &Drive, pattern: WrittenPattern, block_bytes: u32) -> Result<FlashLifetime, Problems> {
    check(drive)?;
    let mut drive = drive.as_only_drive();
    drive.translation.precondition = match pattern {
        WrittenPattern::Sequential => Precondition::Sequential,
        WrittenPattern::Random => Precondition::Random,
    };
    let shape = shape(&drive.media, &drive.translation);
    let unit_bytes = drive.translation.unit_bytes;
    let write_amplification = match pattern {
        WrittenPattern::Sequential => 1.0,
        // Each zone is written in order, so random writes to zones cause no write amplification.
        WrittenPattern::Random if drive.zones.is_there() => 1.0,
        WrittenPattern::Random => {
            let unit_shares =
                f64::from(block_bytes.div_ceil(unit_bytes)) * f64::from(unit_bytes) / f64::from(block_bytes);
            unit_shares * shape.steady_write_amplification(shape.units, block_bytes / unit_bytes)
        }
    };
    // The drive fails with its most worn block. Wear levelling allows a difference of this many erases, so the average
    // block reaches fewer.
    let cycles = real(drive.media.endurance_cycles.saturating_sub(drive.translation.wear_gap_erases.into()));
    let cells_bytes = f64::from(shape.blocks) * f64::from(shape.block_units) * f64::from(unit_bytes);
    let written_bytes = cells_bytes * cycles / write_amplification;
    let capacity_bytes = real(drive.media.capacity_mib << 20);
    let bytes_per_s = most_iops(&drive, pattern, block_bytes)? * f64::from(block_bytes);
    Ok(FlashLifetime {
        pattern,
        block_bytes,
        write_amplification,
        written_bytes,
        drive_writes_per_day: written_bytes / capacity_bytes / (WARRANTY_YEARS * YEAR_DAYS),
        bytes_per_s,
        years: written_bytes / bytes_per_s / DAY_S / YEAR_DAYS,
    })
}

fn check(drive: &Drive) -> Result<(), Problem> {
    let problem = |found: &str, allowed: &str| Problem::new(&drive.name, None, String::from(found), allowed);
    if !drive.is_flash() {
        return Err(problem("the memory has no translation layer", "translation.mapping=\"page\""));
    }
    if drive.media.endurance_cycles == 0 {
        return Err(problem("media.endurance_cycles is 0: its cells last for ever", "a number of writes above 0"));
    }
    Ok(())
}

/// Returns the largest number of writes a second that a drive accepts in the steady state, alone on its host.
fn most_iops(drive: &Drive, pattern: WrittenPattern, block_bytes: u32) -> Result<f64, Problems> {
    let size = block_bytes.to_string();
    let file = fio::job_from_flags(&[
        ("rw", pattern.fio_rw_value()),
        ("bs", &size),
        ("iodepth", "256"),
        ("io_size", "1024p"),
    ])?;
    let jobs = file.resolve(&drive.limits(), &Default::default())?;
    Ok(super::predict(drive, &jobs).jobs[0].loaded().most_iops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(name: &str, pattern: WrittenPattern, block_bytes: u32) -> FlashLifetime {
        flash_lifetime(&Drive::shipped(name).unwrap(), pattern, block_bytes).unwrap()
    }

    #[test]
    fn sequential_writes_use_all_program_erase_cycles() {
        let drive = Drive::shipped("tlc-gen4").unwrap();
        let found = lifetime("tlc-gen4", WrittenPattern::Sequential, 131_072);
        let cells_bytes = (drive.media.capacity_mib << 20) as f64 * (1.0 + drive.translation.over_provisioning);
        let cycles = (drive.media.endurance_cycles - 100) as f64;
        assert!((found.written_bytes / (cells_bytes * cycles) - 1.0).abs() < 1e-3, "{found:?}");
        let full = found.written_bytes / (drive.media.capacity_mib << 20) as f64;
        assert!((found.drive_writes_per_day * 5.0 * 365.25 / full - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.years_at(found.bytes_per_s * 86_400.0) / found.years - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn random_write_lifetime_counts_amplification_and_partial_units() {
        let [sequential, random, small] =
            [(WrittenPattern::Sequential, 4096), (WrittenPattern::Random, 4096), (WrittenPattern::Random, 512)]
                .map(|(pattern, bytes)| lifetime("tlc-gen5", pattern, bytes));
        let ratio = sequential.written_bytes / random.written_bytes;
        assert!((ratio / random.write_amplification - 1.0).abs() < 1e-9 && ratio > 2.0, "{ratio}");
        assert!((small.write_amplification / random.write_amplification - 8.0).abs() < 1e-9, "{small:?}");
    }

    #[test]
    fn lifetime_without_translation_layer_or_endurance_is_refused() {
        let refused = |drive: &Drive| flash_lifetime(drive, WrittenPattern::Random, 4096).unwrap_err().to_string();
        assert!(refused(&Drive::shipped("nvme").unwrap()).contains("no translation layer"));
        let mut eternal = Drive::shipped("tlc-gen4").unwrap();
        eternal.media.endurance_cycles = 0;
        assert!(refused(&eternal).contains("its cells last for ever"));
    }
}
