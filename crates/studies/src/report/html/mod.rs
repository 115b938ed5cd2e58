//! Pages of results in HTML: each is one file without script and without anything to fetch, readable in light and dark
//! and on paper.
//!
//! Every text that comes from a description is escaped where it is drawn.

mod against;
pub mod axis;
mod bar;
pub mod colour;
pub mod columns;
pub mod comparison;
pub mod lines;
mod packets;
pub mod page;
mod pictures;
mod plot;
mod run;
pub mod scatter;

use super::csv::quoted;
use super::table::{Alignment, Table, characters};

pub use against::{PublishedResultError, published_error_plot};
pub use packets::packets;
pub use page::Page;
pub use pictures::{ExtractedPicture, add_picture_links, pictures};
pub use plot::{LatencySeries, percentile_plot_for_row, percentiles};
pub use run::{Run, html};

const STYLE: &str = include_str!("page.css");

/// Returns a whole HTML document; the title is escaped already.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - phaselink</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
    )
}

/// Returns a section of a page with its heading; the title is escaped already.
fn section(title: &str, body: &str) -> String {
    format!("<h2>{title}</h2>\n{body}")
}

/// Returns the conclusion of a page in HTML: the sentences that stand directly below the title.
fn conclusion(sentences: &[String]) -> String {
    let sentences: String = sentences.iter().map(|sentence| format!("<p>{}</p>\n", escape(sentence))).collect();
    if sentences.is_empty() { sentences } else { format!("<div class=\"conclusion\">\n{sentences}</div>\n") }
}

/// Returns the values that a drawing shows, as comma-separated values to be stored inside the drawing; its CSV file is
/// made from them.
fn data(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",");
    let head = line(head.iter().map(|name| String::from(*name)).collect());
    let lines: Vec<String> = std::iter::once(head).chain(rows.into_iter().map(line)).collect();
    format!("<metadata>{}</metadata>\n", escape(&lines.join("\n")))
}

/// Returns the legend of a plot in HTML: names, each with its colour.
fn legend<'a>(keys: impl Iterator<Item = (&'a str, String)>) -> String {
    let keys = keys.map(|(name, colour)| {
        format!("<span><i class=\"key\" style=\"background:{colour}\"></i>{}</span>", escape(name))
    });
    format!("<p class=\"keys\">{}</p>\n", keys.collect::<String>())
}

/// Returns the caption above a plot in HTML; empty for an empty text.
fn caption(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>\n", escape(text)) }
}

/// Cuts a text that is longer than `characters_max`, and ends it with an ellipsis.
fn shortened(text: &str, characters_max: usize) -> String {
    match characters(text) > characters_max {
        false => String::from(text),
        true => text.chars().take(characters_max - 1).chain(['…']).collect(),
    }
}

/// Number of columns from which on a table is wider than the text of a page.
const BROAD_MIN: usize = 10;

/// Returns a text table as an HTML table.
pub fn table(table: &Table) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        let cells = cells.zip(table.columns());
        cells.map(|(cell, column)| format!("<{tag}{}>{}</{tag}>", class(column, cell), escape(cell))).collect()
    };
    let head = cells("th", &mut table.columns().map(|(header, _)| header));
    let rows: String =
        table.rows().map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str)))).collect();
    let class = if table.columns().count() < BROAD_MIN { "wide" } else { "wide broad" };
    format!("<div class=\"{class}\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n")
}

/// Returns the class attribute of a table cell: numbers are aligned right, long texts break, and verdicts have a mark.
fn class((header, side): (&str, Alignment), cell: &str) -> &'static str {
    match (side, header, cell) {
        (Alignment::Right, _, _) => " class=\"number\"",
        (_, "quantity" | "most of it from" | "reason", _) => " class=\"long\"",
        (_, "verdict", "reproduced" | "given") => " class=\"verdict good\"",
        (_, "verdict", "off" | "unexplained") => " class=\"verdict off\"",
        _ => "",
    }
}

/// Escapes `text` so that it is plain text in any HTML element or quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use phaselink_core::ledger::Outcome;
    use phaselink_core::time::Span;
    use serde_json::{Value, json};

    fn page() -> String {
        html(&Run::new(&sample::outcome(), &json!({ "name": "<script>alert(1)</script>" })))
    }

    #[test]
    fn description_texts_are_escaped_in_html() {
        let page = page();
        assert!(page.contains("<h1>sample &lt;pcm&gt;</h1>"));
        assert!(page.contains("rand &amp; mix, read"));
        assert!(!page.contains("rand & mix") && !page.contains("<pcm>") && !page.contains("<script"));
        assert_eq!(escape("\"a' & <b>"), "&quot;a&#39; &amp; &lt;b&gt;");
    }

    #[test]
    fn report_page_loads_nothing_and_runs_no_script() {
        let page = page();
        for forbidden in ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn all_opened_html_elements_are_closed() {
        let page = page();
        let void = ["meta", "!DOCTYPE"];
        let mut open = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "at </{name}>");
            } else if !tag.ends_with('/') && !void.contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn report_of_an_empty_run_has_only_finite_numbers() {
        let outcome = Outcome { jobs: Vec::new(), elapsed: Span::ZERO, finished: false, ..sample::outcome() };
        let page = html(&Run::new(&outcome, &Value::Null));
        assert!(page.contains("stopped before") && !page.contains("NaN") && !page.contains("inf "));
    }
}
