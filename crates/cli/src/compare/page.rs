//! HTML page of a comparison, for `--report`.

use phaselink_core::drive::Drive;
use phaselink_studies::compare::{Cell, ComparedGroup, EqualLoadGroup, means_ns, named};
use phaselink_studies::report::html::comparison::{self, BarRow};
use phaselink_studies::report::html::{escape, table};
use phaselink_studies::results::Finding;

use super::{Comparison, curves, text};
use crate::describe;

/// Returns the HTML page of a comparison.
pub(super) fn page(compared: &Comparison, groups: &[ComparedGroup], loaded: &[EqualLoadGroup]) -> String {
    let named = named(groups);
    let group = |group: &ComparedGroup| {
        let rows =
            compared.drives.iter().zip(&group.cells).filter_map(|(drive, cell)| Some(bar_row(drive, cell.as_ref()?)));
        comparison::BarGroup { title: named.place(&group.label).replace(describe::UNBROKEN, " "), rows: rows.collect() }
    };
    let at_load = |loaded: &EqualLoadGroup| {
        let table = table(&text::table_at_load(compared, loaded));
        (String::from("At the same load"), format!("<p>{}</p>\n{table}", escape(&text::load(loaded))))
    };
    let (conclusion, others) =
        text::findings(compared, groups, loaded).into_iter().partition(|it| it.kind.answers_the_question());
    let texts = |findings: Vec<Finding>| findings.into_iter().map(|it| it.sentence).collect();
    let page = comparison::Comparison {
        title: text::comparison_title(compared, groups),
        heading: text::heading(compared, groups).lines().map(String::from).collect(),
        causes: comparison::causes(),
        sections: loaded.iter().map(at_load).chain(curves::sections(compared, groups)).collect(),
        groups: groups.iter().map(group).collect(),
        conclusion: texts(conclusion),
        assumptions: text::assumptions(compared, groups),
        findings: texts(others),
    };
    comparison::comparison(&page, &text::table(compared, groups))
}

fn bar_row(drive: &Drive, cell: &Cell) -> BarRow {
    let figures = &cell.all;
    BarRow {
        drive: drive.name.clone(),
        causes_ns: means_ns(figures).into_iter().map(|(_, mean_ns)| mean_ns).collect(),
        mean_ns: figures.total.mean_ns(),
        iops: cell.outcome.iops(),
    }
}
