//! JSON document of a comparison.

use serde_json::Value;

use super::{Cell, ComparedGroup, EqualLoadGroup, LineLabel, keeps_up, promise};
use crate::evidence;
use crate::precision;
use crate::report::stage_mean_list;
use crate::results::documents::{
    CellFigures, CellLabels, CompareDocument, ComparedAtLoad, ComparedCell, Description, MeasuredIn, RanCell,
    ShortCell, value,
};
use crate::tails;
use phaselink_core::drive::Drive;

/// Returns the JSON document of a comparison, without the head that all documents have. `options` are those of the jobs
/// besides their sizes, as `name=value`; `set` are the overrides of the drives as the user has typed them; `loaded` are
/// the results at equal load.
pub fn document(
    seed: u64,
    (options, set): (&[String], &[String]),
    drives: &[Drive],
    groups: &[ComparedGroup],
    loaded: &[EqualLoadGroup],
) -> Value {
    let of_group = |group: &ComparedGroup| -> Vec<ComparedCell> {
        let cells = drives.iter().zip(&group.cells);
        cells.map(|(drive, cell)| entry(&group.label, drive, cell.as_ref())).collect()
    };
    let at_load =
        |loaded: &EqualLoadGroup| ComparedAtLoad { offered_iops: loaded.offered_iops, cells: of_group(&loaded.group) };
    value(&CompareDocument {
        seed,
        rw: groups.first().and_then(|group| group.label.rw).map(String::from),
        options: options.to_vec(),
        set: set.to_vec(),
        findings: super::findings(drives, groups, loaded),
        evidence: evidence::of_drives(drives),
        cells: groups.iter().flat_map(of_group).collect(),
        equal_load: loaded.iter().map(at_load).collect(),
        descriptions: drives.iter().map(|drive| Description(drive.resolved())).collect(),
    })
}

/// Returns the figures of a drive under the jobs of a group; for a drive whose queues are too short, the number of
/// requests that they hold.
fn entry(label: &LineLabel, drive: &Drive, cell: Option<&Cell>) -> ComparedCell {
    let labels = CellLabels {
        drive: drive.name.clone(),
        bs: label.bytes,
        numjobs: label.threads,
        iodepth: label.iodepth,
        offered_iops: label.offered_iops,
        rw: label.rw.map(String::from),
        acknowledged_write: promise(drive),
    };
    let Some(cell) = cell else {
        return ComparedCell::Short(ShortCell { labels, iodepth_max: drive.limits().queue_capacity() });
    };
    ComparedCell::Ran(Box::new(RanCell {
        labels,
        figures: CellFigures::of(&cell.figures),
        keeps_up: label.offered_iops.map(|offered| keeps_up(cell.outcome.iops(), offered)),
        tails: tails::document(&cell.outcome),
        measured: MeasuredIn::of(cell.outcome.measured),
        limit: cell.limit().map(String::from),
        usage: cell.usage.clone(),
        stages: stage_mean_list(&cell.all, &cell.outcome.stack_stages),
        precision: cell.measurement.as_ref().map(precision::document),
        intervals: cell.doubted.as_ref().map(|doubted| doubted.document()),
    }))
}
