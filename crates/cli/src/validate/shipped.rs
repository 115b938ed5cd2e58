//! Measurements and plans of the validation: those shipped with the program, or those in a folder.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::validate::{Calibration, MeasuredValue, SourcePlan, read};

use crate::input;
use crate::output::claims::{self, Role};

/// File name of the table of measurements in the folder of `--data`; `PACKED_TABLE` is the name of a compressed table.
const TABLE: &str = "measurements.csv";
const PACKED_TABLE: &str = "measurements.csv.gz";
/// File name of the parameters and folds of the cross-validation in the folder of `--data`.
const FOLDS: &str = "folds.toml";
/// Maximum size in bytes of the decompressed table of measurements.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Compressed table of measurements that is shipped with the program.
static MEASUREMENTS: &[u8] = include_bytes!("../../validation/measurements.csv.gz");

macro_rules! plans {
    ($($name:literal)+) => {
        /// Plans of measurement sources that are shipped with the program, each with its file name.
        const PLANS: &[(&str, &str)] = &[$((concat!($name, ".toml"), include_str!(concat!("../../validation/", $name, ".toml")))),+];
    };
}

plans! {
    "aisio" "axboe" "bam" "bdev" "cetofs" "cheops" "cpu" "drives" "icpe" "idle" "interrupts" "iommu" "kernel" "melody"
    "mitigations" "opencapi" "pcie-bench" "reported-drives" "spdk-blog" "translation" "vldb" "xrp"
}

/// Measurements, with the plans that say how the model answers them.
#[derive(Debug)]
pub(super) struct DataSet {
    pub measurements: Vec<MeasuredValue>,
    pub plans: Vec<SourcePlan>,
    /// Parameters and folds of the cross-validation, which a folder may lack.
    pub calibration: Option<Calibration>,
}

impl DataSet {
    /// Returns the measurements and plans that are shipped with the program.
    pub(super) fn shipped() -> Result<DataSet, Problems> {
        let measurements = read(TABLE, &unpacked(PACKED_TABLE, MEASUREMENTS)?)?;
        let plans = PLANS.iter().map(|(name, text)| SourcePlan::read(&format!("validation/{name}"), text));
        let calibration =
            Calibration::read(&format!("validation/{FOLDS}"), include_str!("../../validation/folds.toml"))?;
        Ok(DataSet { measurements, plans: input::all(plans)?, calibration: Some(calibration) })
    }

    /// Reads measurements and plans from a folder: a table of measurements, compressed or not, and a plan for each
    /// source.
    pub(super) fn of(folder: &Path) -> Result<DataSet, Problems> {
        let packed = folder.join(PACKED_TABLE);
        let (path, table) = match packed.exists() {
            true => (packed.clone(), unpacked(&packed.display().to_string(), &bytes(&packed)?)?),
            false => {
                let path = folder.join(TABLE);
                let text = text(&path)?;
                (path, text)
            }
        };
        let measurements = read(&path.display().to_string(), &table)?;
        let plans =
            plan_files(folder)?.into_iter().map(|path| SourcePlan::read(&path.display().to_string(), &text(&path)?));
        let plans = input::all(plans)?;
        let folds = folder.join(FOLDS);
        let read_folds = |path: &Path| Calibration::read(&path.display().to_string(), &text(path)?);
        let calibration = folds.exists().then(|| read_folds(&folds)).transpose()?;
        let planned = |it: &&MeasuredValue| plans.iter().any(|plan| plan.source == it.source());
        if let Some(lost) = measurements.iter().find(|it| !planned(it)).filter(|_| !plans.is_empty()) {
            let found = format!("no plan has source = \"{}\", to which {} belongs", lost.source(), lost.id());
            let known: Vec<&str> = plans.iter().map(|plan| plan.source.as_str()).collect();
            return Err(Problem::new(path.display().to_string(), None, found, known.join(", ")).into());
        }
        match plans.is_empty() {
            false => Ok(DataSet { measurements, plans, calibration }),
            true => {
                let folder = folder.display().to_string();
                Err(Problem::new(folder, None, "no plan", "a file NAME.toml for each source (docs/validation.md)")
                    .into())
            }
        }
    }
}

fn plan_files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Problems> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml") && !path.ends_with(FOLDS));
    paths.sort();
    Ok(paths)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Problems> {
    claims::note(Role::Input, path);
    fs::read(path).map_err(|error| unreadable(path, &error).into())
}

fn text(path: &Path) -> Result<String, Problems> {
    let found = "no text in UTF-8";
    String::from_utf8(bytes(path)?).map_err(|_| Problem::new(path.display().to_string(), None, found, "").into())
}

fn unpacked(name: &str, packed: &[u8]) -> Result<String, Problems> {
    let mut text = String::new();
    let read = MultiGzDecoder::new(packed).take(TABLE_BYTES_MAX + 1).read_to_string(&mut text);
    if text.len() as u64 > TABLE_BYTES_MAX {
        return Err(Problem::new(name, None, "more than 64 MiB of text", "a smaller table").into());
    }
    let unreadable = |error: std::io::Error| Problem::new(name, None, format!("cannot be unpacked: {error}"), "gzip");
    read.map(|_| text).map_err(|error| unreadable(error).into())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(path.display().to_string(), None, format!("cannot be read: {error}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_studies::validate::Validation;

    #[test]
    fn every_shipped_measurement_has_an_answer_or_a_class() {
        let data = DataSet::shipped().unwrap();
        assert!(MEASUREMENTS.len() < 1 << 20, "a package may hold at most 1 MB of it");
        let validation = Validation::prepare(&data.measurements, &data.plans).unwrap();
        let sources: std::collections::BTreeSet<&str> = data.measurements.iter().map(MeasuredValue::source).collect();
        assert_eq!(sources.len(), data.plans.len(), "one plan for each source");
        assert!(validation.runs.len() > 1000);
    }

    #[test]
    fn measurements_of_a_source_without_a_plan_are_named() {
        let folder = std::env::temp_dir().join(format!("phaselink-validate-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let columns = phaselink_studies::validate::COLUMNS.join(",");
        fs::write(folder.join(TABLE), format!("{columns}\nLAB-1,,,,,,,latency,5,ns,result,\n")).unwrap();
        fs::write(folder.join("lab.toml"), "source = \"LAP\"\ntitle = \"a bench\"\n").unwrap();
        let told = DataSet::of(&folder).map(drop).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(told.contains("no plan has source = \"LAB\", to which LAB-1 belongs"), "{told}");
    }
}
