//! Measurements and plans of the validation: those that come with the program, or those in a folder.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use phaselink_core::number::length;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::validate::{MeasurementSet, NamedText, PACKED_MEASUREMENTS};

use crate::input;
use crate::output::claims::{self, Role};

/// File name of the table of measurements in the folder of `--data`; `PACKED_TABLE` is the name of a compressed table.
const TABLE: &str = "measurements.csv";
const PACKED_TABLE: &str = "measurements.csv.gz";
/// File name of the parameters and folds of the cross-validation in the folder of `--data`.
const FOLDS: &str = "folds.toml";
/// Maximum size in bytes of the decompressed table of measurements.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Returns the measurements and plans that come with the program.
///
/// # Errors
///
/// Errors of [`MeasurementSet::shipped`].
pub(super) fn shipped() -> Result<MeasurementSet, Problems> {
    MeasurementSet::shipped(&unpacked(PACKED_TABLE, PACKED_MEASUREMENTS)?)
}

/// Reads measurements and plans from a folder: a table of measurements, compressed or not, and a plan for each source.
///
/// # Errors
///
/// If a file cannot be read, and errors of [`MeasurementSet::parse`].
pub(super) fn measurements_of_folder(folder: &Path) -> Result<MeasurementSet, Problems> {
    let packed = folder.join(PACKED_TABLE);
    let table = match packed.exists() {
        true => (packed.display().to_string(), unpacked(&packed.display().to_string(), &bytes(&packed)?)?),
        false => text(&folder.join(TABLE))?,
    };
    let plans = input::all(list_plan_files(folder)?.iter().map(|path| text(path)))?;
    let folds = folder.join(FOLDS);
    let folds = folds.exists().then(|| text(&folds)).transpose()?;
    MeasurementSet::parse(&folder.display().to_string(), &table, &plans, folds.as_ref())
}

fn list_plan_files(folder: &Path) -> Result<Vec<PathBuf>, Problems> {
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

fn text(path: &Path) -> Result<NamedText, Problems> {
    let name = path.display().to_string();
    match String::from_utf8(bytes(path)?) {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(Problem::new(name, None, "no text in UTF-8", "").into()),
    }
}

fn unpacked(name: &str, packed: &[u8]) -> Result<String, Problems> {
    let mut text = String::new();
    let read = MultiGzDecoder::new(packed).take(TABLE_BYTES_MAX + 1).read_to_string(&mut text);
    if length(text.len()) > TABLE_BYTES_MAX {
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
    use phaselink_studies::validate::{MeasuredValue, Validation};

    #[test]
    fn all_shipped_measurements_have_an_answer_or_a_class() {
        let set = shipped().unwrap();
        assert!(PACKED_MEASUREMENTS.len() < 1 << 20, "a package may hold at most 1 MB of it");
        let validation = Validation::prepare(&set.measurements, &set.plans).unwrap();
        let sources: std::collections::BTreeSet<&str> = set.measurements.iter().map(MeasuredValue::source).collect();
        assert_eq!(sources.len(), set.plans.len(), "one plan for each source");
        assert!(validation.runs.len() > 1000);
    }
}
