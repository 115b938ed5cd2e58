//! HTML page of `phaselink reproduce`, for `--report`: published beside simulated results of papers.

use phaselink_studies::report::html::page::{Page, list, paragraph, side_by_side};
use phaselink_studies::report::html::{PublishedResultError, published_error_plot};
use phaselink_studies::reproduce::{ClaimKind, Row, Verdict};

use super::JudgedPaper;
use super::text::{conclusion, count, is_published_statement, page_table, summary_table, value};

/// Returns the HTML page of all papers' results.
pub(super) fn page(papers: &[JudgedPaper]) -> String {
    let rows: Vec<Row> = papers.iter().flat_map(|paper| paper.rows.iter().cloned()).collect();
    let title = match papers {
        [paper] => format!("Published and simulated: {}", paper.rows.first().map_or("", |row| row.paper.as_str())),
        _ => String::from("Published results, and simulated ones"),
    };
    let mut page = Page::new(&title, &[count(&rows)]).conclusion(&conclusion(&rows));
    if papers.len() > 1 {
        page = page.table("Verdicts by paper", &summary_table(&rows));
    }
    for paper in papers {
        let Some(first) = paper.rows.first() else { continue };
        let title = |of: &str| format!("{}: {of}", first.paper);
        let figures: Vec<String> = paper.figures.iter().map(|figure| figure.html()).collect();
        let figures = if figures.is_empty() { String::new() } else { side_by_side(&figures) };
        page = page
            .section(&title("figures"), &figures)
            .section(&title("numbers"), &published_numbers_plot(&paper.rows))
            .section(&title("what is not reproduced"), &unreproduced_reasons(&paper.rows))
            .table(&title("all rows, with verdicts"), &page_table(&paper.rows));
    }
    page.finish()
}

/// Returns a plot of published numbers with the relative errors of the simulated ones.
fn published_numbers_plot(rows: &[Row]) -> String {
    let compared: Vec<PublishedResultError> = rows.iter().filter_map(published_error_of_row).collect();
    if compared.is_empty() {
        return paragraph("No numbers are published.");
    }
    published_error_plot(&compared)
}

fn published_error_of_row(row: &Row) -> Option<PublishedResultError> {
    if row.kind != ClaimKind::Number || is_published_statement(row) || row.published == 0.0 {
        return None;
    }
    let error_pct = |value: f64| 100.0 * (value - row.published) / row.published.abs();
    let figures = format!("{} of {} {}", value(row, row.simulated), value(row, Some(row.published)), row.unit);
    Some(PublishedResultError {
        name: row.id.clone(),
        error_pct: row.error_pct?,
        accepted_pct: (error_pct(row.accepted.0), error_pct(row.accepted.1)),
        interval_pct: row.interval.as_ref().map(|interval| (error_pct(interval.low), error_pct(interval.high))),
        is_reproduced: row.verdict == Verdict::Reproduced,
        figures: figures.trim_end_matches(" 1").trim().to_string(),
    })
}

fn unreproduced_reasons(rows: &[Row]) -> String {
    let left = rows.iter().filter(|row| matches!(row.verdict, Verdict::Off | Verdict::Unexplained));
    let told: Vec<String> =
        left.map(|row| format!("{}: {} ({}; {})", row.id, row.reason, row.quantity, row.source)).collect();
    list(told.iter().map(String::as_str))
}
