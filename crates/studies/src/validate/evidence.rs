//! Measurements behind each shipped drive, software stack and host: number of measurements that use it, their sources,
//! and their error.

use std::collections::{BTreeMap, BTreeSet};

use super::Validation;
use super::agreement::median;
use crate::evidence::names_of;
use crate::reproduce::Reproduction;
use crate::results::Evidence;
use crate::results::documents::{Provenance, ValidatedRow};
use phaselink_core::drive::Drive;

/// Measurements and reproduced papers whose runs use one shipped drive, stack or host.
#[derive(Default)]
struct RelatedEvidence {
    sources: BTreeSet<String>,
    errors_pct: Vec<f64>,
    papers: Vec<String>,
}

impl Validation {
    /// Returns the measurements behind each shipped drive, stack and host. `rows` are the judged measurements in the
    /// validation's own order; `papers` are the reproduced papers.
    ///
    /// # Panics
    /// If the number of judged rows differs from the validation's.
    pub fn evidence(&self, rows: &[ValidatedRow], papers: &[Reproduction]) -> Vec<Evidence> {
        assert_eq!(rows.len(), self.rows.len(), "one judged row for each");
        let mut found: BTreeMap<(usize, String), RelatedEvidence> = BTreeMap::new();
        for (row, own) in rows.iter().zip(&self.rows) {
            let (Some(run), Some(error)) = (own.run, row.error_pct) else { continue };
            if matches!(row.provenance, Some(Provenance::Given | Provenance::Returned)) {
                continue;
            }
            for key in keys(&self.runs[run].drive) {
                let touching = found.entry(key).or_default();
                touching.sources.insert(row.source.clone());
                touching.errors_pct.push(error.abs());
            }
        }
        for paper in papers {
            let drives: BTreeSet<&str> = paper.runs().iter().map(|run| run.drive.as_str()).collect();
            let keys: BTreeSet<(usize, String)> =
                drives.into_iter().filter_map(Drive::shipped).flat_map(|drive| keys(&drive)).collect();
            keys.into_iter().for_each(|key| found.entry(key).or_default().papers.push(String::from(paper.paper())));
        }
        let row = |((part, name), touching): ((usize, String), RelatedEvidence)| Evidence {
            part: String::from(["drive", "stack", "host"][part]),
            name,
            sources: touching.sources.into_iter().collect(),
            rows: touching.errors_pct.len(),
            median_error_pct: median(touching.errors_pct).map(|error| (10.0 * error).round() / 10.0),
            papers: touching.papers,
        };
        found.into_iter().map(row).collect()
    }
}

/// Returns the names of the drive, stack and host that a run uses, each with its part (0, 1, 2). A drive derived from a
/// shipped one counts as that.
fn keys(drive: &Drive) -> Vec<(usize, String)> {
    let names = names_of(drive).into_iter().enumerate();
    names.filter_map(|(part, names)| Some((part, String::from(*names.first()?)))).collect()
}
