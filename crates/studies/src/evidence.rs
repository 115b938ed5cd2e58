//! Measurements behind a drive: behind its shipped original, its software stack and its host, as `validate` found them.

use serde::Deserialize;

use crate::results::Evidence;
use crate::results::units::grouped;
use crate::results::words::listed;
use phaselink_core::config::origin::ValueOrigin;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::number::length;

/// Table of all drives, stacks and hosts with measurements, which `validate --evidence` prints.
const TABLE: &str = include_str!("evidence.toml");

/// Content of `evidence.toml`: measurements of drives, stacks and hosts, and the bounds of the cross-validation that
/// [`left_out`] returns.
#[derive(Deserialize)]
struct EvidenceFile {
    left_out: Option<(f64, f64)>,
    evidence: Vec<Evidence>,
}

/// Kinds of rows of the table of measurements, in the order in which they are shown.
const PARTS: [&str; 3] = ["drive", "stack", "host"];

/// Returns the rows of all drives, stacks and hosts with measurements.
///
/// # Panics
/// Never, because tests read the table.
pub fn all() -> Vec<Evidence> {
    evidence_file().evidence
}

/// Returns the bounds between which nine of ten measurements of machines lay that were left out of the fit
/// (cross-validation), as shares of the predicted value.
///
/// # Panics
/// Never, because tests read the table.
pub fn left_out() -> Option<(f64, f64)> {
    evidence_file().left_out
}

fn evidence_file() -> EvidenceFile {
    toml::from_str(TABLE).expect("the table is read in tests")
}

/// Returns the table of measurements as the text of its TOML file; `left_out` are the bounds that [`left_out`] reads
/// back.
pub fn to_toml(rows: &[Evidence], left_out: Option<(f64, f64)>) -> String {
    let head = "# Measurements behind shipped drives, stacks and hosts. Made by `phaselink validate --evidence`.\n";
    let row = |row: &Evidence| toml::Value::try_from(row).map_or_else(|_| String::new(), |row| format!("    {row},\n"));
    let shares = left_out.map_or(String::new(), |(low, high)| format!("left_out = [{low:?}, {high:?}]\n"));
    format!("{head}{shares}evidence = [\n{}]\n", rows.iter().map(row).collect::<String>())
}

/// Returns the names under which the table may have measurements of a drive: of itself or the drives that it starts
/// from, of its stack, and of its host.
pub fn names_of(drive: &Drive) -> [Vec<&str>; 3] {
    // A shipped drive differs from the drive that it is based on, so measurements of that base do not apply to it.
    let bases = drive.sources.bases.iter().filter(|_| shipped::find(&drive.name).is_none());
    let own = std::iter::once(drive.name.as_str()).chain(bases.map(String::as_str));
    let preset = |section| drive.sources.presets.get(section).map(String::as_str).into_iter().collect();
    [own.collect(), preset("stack"), preset("host")]
}

/// Returns the measurements behind some drives: a row for each drive, then for each stack, then for each host. A part
/// without measurements has a row that says so.
pub fn of_drives<'a>(drives: impl IntoIterator<Item = &'a Drive>) -> Vec<Evidence> {
    let table = all();
    let mut found: [Vec<Evidence>; 3] = Default::default();
    for drive in drives {
        let of_drive = |key: &str| !key.starts_with("host.") && !key.starts_with("stack.");
        let is_set = drive.sources.origins.iter().any(|(key, origin)| *origin == ValueOrigin::Set && of_drive(key));
        for ((part, names), found) in PARTS.iter().zip(names_of(drive)).zip(&mut found) {
            let known = names.iter().find_map(|name| table.iter().find(|row| row.part == *part && row.name == *name));
            let own = || Evidence::none(part, names.first().unwrap_or(&"of its own"));
            let row = known.map_or_else(own, |row| match *part == "drive" {
                true if row.name != drive.name => row.named(&format!("{} (changed: {})", row.name, drive.name)),
                true if is_set => row.named(&format!("{} (changed)", row.name)),
                _ => row.clone(),
            });
            if !found.contains(&row) {
                found.push(row);
            }
        }
    }
    found.into_iter().flatten().collect()
}

/// Returns sentences on how well drives, stacks and hosts are known: `Compared with measurements, the median error is
/// 5.7 % over 1,430 with tlc-gen4 (sources BAM, ICP). Published results are reproduced with nvme. Never measured: drive
/// xl-flash.`
pub fn sentence(evidence: &[Evidence]) -> String {
    let names = |is_meant: fn(&Evidence) -> bool| -> Vec<String> {
        let mut names: Vec<String> = evidence.iter().filter(|row| is_meant(row)).map(|row| row.name.clone()).collect();
        names.dedup();
        names
    };
    let mut told: Vec<String> = Vec::new();
    for row in evidence {
        let Some(error) = row.median_error_pct else { continue };
        let words = if told.is_empty() { "sources " } else { "" };
        let (rows, sources) = (grouped(length(row.rows)), row.sources.join(", "));
        told.push(format!("{error:.1} % over {rows} with {} ({words}{sources})", row.name));
    }
    let mut sentences = Vec::new();
    if !told.is_empty() {
        sentences.push(format!("Compared with measurements, the median error is {}.", told.join(", ")));
    }
    let by_papers = names(|row| row.rows == 0 && !row.papers.is_empty());
    if !by_papers.is_empty() {
        sentences.push(format!("Published results are reproduced with {}.", listed(&by_papers)));
    }
    let unknown = unmeasured_names(evidence);
    if !unknown.is_empty() {
        sentences.push(format!("Never measured: {}.", unknown.join(", ")));
    }
    sentences.join(" ")
}

/// Returns the names of drives, stacks and hosts without any measurement, one text for each kind: `drives a and b`.
fn unmeasured_names(evidence: &[Evidence]) -> Vec<String> {
    let of_part = |part: &&str| {
        let mut names: Vec<String> =
            evidence.iter().filter(|row| row.is_none() && row.part == *part).map(|row| row.name.clone()).collect();
        names.dedup();
        let plural = if names.len() > 1 { "s" } else { "" };
        (!names.is_empty()).then(|| format!("{part}{plural} {}", listed(&names)))
    };
    PARTS.iter().filter_map(of_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::drive_file::{KeyOverride, presets};

    #[test]
    fn evidence_names_are_shipped() {
        let is_shipped = |row: &Evidence| match row.part.as_str() {
            "drive" => shipped::find(&row.name).is_some() || shipped::find_device(&row.name).is_some(),
            section => presets::all().iter().any(|preset| preset.section == section && preset.name == row.name),
        };
        let strange: Vec<Evidence> = all().into_iter().filter(|row| !is_shipped(row) || row.is_none()).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }

    #[test]
    fn own_drive_has_the_evidence_of_its_base() {
        let known = all().into_iter().find(|row| row.part == "drive").unwrap();
        let file = format!("preset = '{}'\n", known.name);
        let drive = Drive::from_toml("mine.toml", &file, &[]).unwrap();
        let found = of_drives([&drive]).remove(0);
        assert_eq!((found.rows, found.papers), (known.rows, known.papers));
        assert_eq!(found.name, format!("{} (changed: mine)", known.name));
        let set = [KeyOverride::parse("link.lanes=2").unwrap()];
        let shipped = shipped::find(&known.name).unwrap();
        let changed = Drive::from_toml(shipped.file, shipped.text, &set).unwrap();
        assert_eq!(of_drives([&changed])[0].name, format!("{} (changed)", known.name));
    }

    #[test]
    fn unmeasured_parts_are_stated() {
        let evidence = [Evidence::none("drive", "a"), Evidence::none("drive", "b"), Evidence::none("host", "h")];
        assert_eq!(sentence(&evidence), "Never measured: drives a and b, host h.");
        let measured = |part, name, rows, error| Evidence {
            sources: vec![String::from("CHE"), String::from("ICP")],
            rows,
            median_error_pct: Some(error),
            ..Evidence::none(part, name)
        };
        let by_paper = Evidence { papers: vec![String::from("p")], ..Evidence::none("host", "r720") };
        let told = sentence(&[measured("drive", "d", 1203, 5.25), measured("stack", "linux-6", 40, 7.0), by_paper]);
        let expected = "Compared with measurements, the median error is 5.2 % over 1,203 with d (sources CHE, ICP), 7.0 % \
                        over 40 with linux-6 (CHE, ICP). Published results are reproduced with r720.";
        assert_eq!(told, expected);
    }
}
