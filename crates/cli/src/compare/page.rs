//! The comparison as a page, `--report`.

use phaselink_core::drive::Drive;
use phaselink_core::report::html::comparison::{self, Row};

use super::{Cell, Comparison, Group, causes, curves, text};
use crate::describe;

/// The page.
pub(super) fn page(compared: &Comparison, groups: &[Group]) -> String {
    let named = super::named(groups);
    let group = |group: &Group| {
        let rows =
            compared.drives.iter().zip(&group.cells).filter_map(|(drive, cell)| Some(row(drive, cell.as_ref()?)));
        comparison::Group { title: named.place(&group.label).replace(describe::UNBROKEN, " "), rows: rows.collect() }
    };
    let page = comparison::Comparison {
        title: text::title(compared, groups),
        heading: text::heading(compared, groups).lines().map(String::from).collect(),
        causes: causes::keys(),
        sections: curves::sections(compared, groups),
        groups: groups.iter().map(group).collect(),
        findings: text::sentences(compared, groups).iter().map(|it| it.replace(describe::UNBROKEN, " ")).collect(),
    };
    comparison::comparison(&page, &text::table(compared, groups))
}

fn row(drive: &Drive, cell: &Cell) -> Row {
    let figures = &cell.ran.all;
    Row {
        drive: drive.name.clone(),
        causes_ns: causes::means_ns(figures).into_iter().map(|(_, mean_ns)| mean_ns).collect(),
        mean_ns: figures.total.mean_ns(),
        iops: cell.ran.outcome.iops(),
    }
}
