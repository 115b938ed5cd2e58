//! Comparison of drives as a page: for each line, every drive's latency as a bar split by cause, in the same colours
//! and on the same scale, and its requests per second.

use std::fmt::Write;

use super::super::table::{Table, characters};
use super::super::units;
use super::columns::LegendKey;
use super::{colour, conclusion, data, document, escape, section, shortened, table};
use phaselink_core::ledger::stage::CauseOfLatency;
use phaselink_core::number::real_length;
use phaselink_core::time::Span;

/// Widths of a row's name, bar and figures in the drawing's own units, each about a pixel.
const NAME: f64 = 170.0;
const BAR: f64 = 560.0;
const FIGURE: f64 = 170.0;
/// Height of a drive's row in the drawing's units; `THICK` is that of its bar.
const ROW: f64 = 26.0;
const THICK: f64 = 18.0;
/// Width that a character of a label needs, in the drawing's units.
const CHARACTER: f64 = 6.8;
/// Largest number of characters of a drive's name that fit beside its bar.
const NAME_CHARACTERS_MAX: usize = 24;

/// Contents of the page of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Title of the page.
    pub title: String,
    /// Answer to the question of the comparison, in a sentence or two.
    pub conclusion: Vec<String>,
    /// Assumptions behind the figures, as a few lines of text.
    pub assumptions: String,
    /// Lines of text on the drives compared, with memory, link and host of each.
    pub heading: Vec<String>,
    /// Causes into which latencies are split, in the order of the bars' segments, equal for all drives.
    pub causes: Vec<LegendKey>,
    /// Groups of bars, one for each line of the comparison.
    pub groups: Vec<BarGroup>,
    /// Further sections of the page: title and body, which is HTML that functions of this module return.
    pub sections: Vec<(String, String)>,
    /// Findings besides the conclusion, as sentences.
    pub findings: Vec<String>,
}

/// Bars of one job, one for each drive.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// Sizes of the job as text, which is the heading of its bars.
    pub title: String,
    /// Results of the drives, one bar each.
    pub rows: Vec<BarRow>,
}

/// Results of one drive; drives whose queues are too short have no row.
#[derive(Clone, Debug)]
pub struct BarRow {
    /// Name of the drive.
    pub drive: String,
    /// Mean time of a request by cause in ns, in the order of the page's causes.
    pub causes_ns: Vec<f64>,
    /// Mean latency of a request, in ns.
    pub mean_ns: f64,
    /// Requests per second of the drive.
    pub iops: f64,
}

/// Returns every cause of latency with its colour.
pub fn causes() -> Vec<LegendKey> {
    let key =
        |cause: &CauseOfLatency| LegendKey { name: cause.name().into(), colour: colour::latency_cause_colour(*cause) };
    CauseOfLatency::ALL.iter().map(key).collect()
}

/// Returns the page of a comparison as an HTML document; `all` is the table with every figure.
pub fn comparison(page: &Comparison, all: &Table) -> String {
    let heading: String = page.heading.iter().map(|line| format!("{}\n", escape(line))).collect();
    let groups: String = page.groups.iter().map(|group| draw_bar_group(page, group)).collect();
    let findings: String = page.findings.iter().map(|finding| format!("<li>{}</li>\n", escape(finding))).collect();
    let body = [
        format!("<h1>{}</h1>\n{}", escape(&page.title), conclusion(&page.conclusion)),
        section("Where the time of a request goes", &(cause_legend(page) + &groups)),
        section("All figures", &table(all)),
        if findings.is_empty() {
            String::new()
        } else {
            section("What stands out", &format!("<ul>\n{findings}</ul>\n"))
        },
        page.sections.iter().map(|(title, body)| section(&escape(title), body)).collect(),
        section(
            "What was assumed",
            &format!(
                "<pre>{}</pre>\n<details>\n<summary>Everything about the drives</summary>\n<pre>{heading}</pre>\n</details>\n",
                escape(&page.assumptions)
            ),
        ),
    ];
    document(&escape(&page.title), &body.concat())
}

fn cause_legend(page: &Comparison) -> String {
    let seen = page.causes.iter().enumerate().filter(|(place, _)| page.is_cause_present(*place));
    super::legend(seen.map(|(_, cause)| (cause.name.as_str(), cause.colour.clone())))
}

impl Comparison {
    /// True if a request of any drive spends time on cause number `place`.
    fn is_cause_present(&self, place: usize) -> bool {
        self.groups.iter().flat_map(|group| &group.rows).any(|row| row.causes_ns[place] > 0.0)
    }
}

/// Draws the bars of the drives of a group below each other, as HTML; the slowest drive's bar is as long as there is
/// room.
fn draw_bar_group(page: &Comparison, group: &BarGroup) -> String {
    let longest_ns = group.rows.iter().map(|row| row.mean_ns).fold(f64::MIN_POSITIVE, f64::max);
    let mut drawing = String::new();
    for (place, row) in group.rows.iter().enumerate() {
        draw_row(&mut drawing, page, row, real_length(place) * ROW, longest_ns);
    }
    let (width, height) = (NAME + BAR + FIGURE, real_length(group.rows.len()) * ROW);
    let caption = "Mean latency, and requests a second.";
    let label = format!("Mean latency and requests a second, {}", escape(&group.title));
    let rows = group.rows.iter().flat_map(|row| {
        let causes = page.causes.iter().zip(&row.causes_ns);
        causes.map(|(cause, ns)| vec![row.drive.clone(), cause.name.clone(), ns.to_string()])
    });
    drawing.push_str(&data(&["drive", "cause", "mean_ns"], rows));
    format!(
        "<h3>{}</h3>\n<figure>\n<div class=\"wide\">\n<svg class=\"bars\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{label}\">\n{drawing}</svg>\n</div>\n<figcaption>{caption}</figcaption>\n</figure>\n",
        escape(&group.title)
    )
}

fn draw_row(drawing: &mut String, page: &Comparison, row: &BarRow, top: f64, longest_ns: f64) {
    let base = top + THICK - 4.0;
    let _ = writeln!(
        drawing,
        "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
        NAME - 8.0,
        escape(&shortened(&row.drive, NAME_CHARACTERS_MAX))
    );
    let mut left = NAME;
    for (LegendKey { name: cause, colour }, ns) in page.causes.iter().zip(&row.causes_ns) {
        let width = ns / longest_ns * BAR;
        if width <= 0.0 {
            continue;
        }
        let name = escape(&row.drive);
        let _ = write!(
            drawing,
            "<g><title>{name}, {cause}: {}</title><rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" \
             height=\"{THICK}\" fill=\"{colour}\"/>",
            units::span(Span::from_ns_f64(*ns)),
        );
        if real_length(characters(cause)) * CHARACTER + 8.0 <= width {
            let _ =
                write!(drawing, "<text class=\"inside\" x=\"{:.2}\" y=\"{base}\">{cause}</text>", left + width / 2.0);
        }
        drawing.push_str("</g>\n");
        left += width;
    }
    let figures = format!("{}, {}/s", units::span(Span::from_ns_f64(row.mean_ns)), units::count(row.iops));
    let _ = writeln!(drawing, "<text x=\"{:.2}\" y=\"{base}\">{figures}</text>", left + 8.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(drive: &str, causes_ns: [f64; 2]) -> BarRow {
        BarRow { drive: drive.into(), causes_ns: causes_ns.into(), mean_ns: causes_ns.iter().sum(), iops: 1e6 }
    }

    fn page(rows: Vec<BarRow>) -> String {
        let group = BarGroup { title: "4 KiB".into(), rows };
        let page = Comparison {
            title: "two <drives>".into(),
            causes: ["memory", "copy"].map(|name| LegendKey { name: name.into(), colour: "red".into() }).into(),
            groups: vec![group],
            ..Comparison::default()
        };
        comparison(&page, &Table::new().left("drive"))
    }

    #[test]
    fn slowest_drive_has_the_longest_bar_with_adjacent_causes() {
        let page = page(vec![row("slow", [300.0, 100.0]), row("fast", [100.0, 0.0])]);
        for bar in ["x=\"170.00\" y=\"0\" width=\"420.00\"", "x=\"590.00\" y=\"0\" width=\"140.00\""] {
            assert!(page.contains(bar), "{bar} is missing in {page}");
        }
        assert!(page.contains("x=\"170.00\" y=\"26\" width=\"140.00\""));
        assert!(page.contains("two &lt;drives&gt;") && !page.contains("<drives>"));
    }

    #[test]
    fn unused_cause_is_omitted_from_the_legend() {
        assert!(!page(vec![row("a", [1.0, 0.0])]).contains("</i>copy"));
        assert!(page(vec![row("a", [1.0, 1.0])]).contains("</i>copy"));
    }

    #[test]
    fn comparison_page_without_drives_contains_no_nan() {
        for page in [page(Vec::new()), page(vec![row("a", [0.0, 0.0])])] {
            assert!(!page.contains("NaN") && !page.contains("inf\""));
        }
    }
}
