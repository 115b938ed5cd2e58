//! The drawings of a page as files of their own, for a document that shows one of them.
//!
//! A page holds each drawing as `<svg>`, with its caption and the key of its colours beside it in HTML. A file of its own
//! carries the style sheet, and the key as a line of its own drawing.

use super::STYLE;

/// Height that the key of colours takes above a drawing.
const KEY_HEIGHT: f64 = 28.0;
/// Width of a colour's square with the blanks around it, and of a character of its name.
const SQUARE: f64 = 34.0;
const CHARACTER: f64 = 6.8;
/// Longest part of a caption that a file's name has.
const NAME_MAX: usize = 40;

/// A drawing as a document of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Name of its file: its place in the page, and its caption in small letters, as in `2-latency-by-percentile.svg`.
    pub file: String,
    /// The SVG document; it fetches nothing, and follows the light or dark scheme of whoever shows it.
    pub svg: String,
}

/// Every drawing of a page, in the page's order.
pub fn pictures(page: &str) -> Vec<Picture> {
    let starts: Vec<usize> = page.match_indices("<svg").map(|(start, _)| start).collect();
    let drawing = |(place, start): (usize, &usize)| {
        let (before, rest) = page.split_at(*start);
        let (head, rest) = rest.split_once('>')?;
        let (body, _) = rest.split_once("</svg>")?;
        let section = before.rfind("<h2>").map_or("", |from| &before[from..]);
        Some(picture(place + 1, head, body, &keys(section)))
    };
    starts.iter().enumerate().filter_map(drawing).collect()
}

/// Writes one drawing, with the key of its colours above it.
fn picture(number: usize, head: &str, body: &str, keys: &[(String, String)]) -> Picture {
    let sizes: Vec<f64> = attribute(head, "viewBox").split(' ').skip(2).filter_map(|size| size.parse().ok()).collect();
    let (width, height) = (sizes.first().copied().unwrap_or(0.0), sizes.get(1).copied().unwrap_or(0.0));
    // Only bars of several colours need a key: curves and ladders carry their names.
    let keys = if attribute(head, "class") == "bars" { keys } else { &[] };
    let above = if keys.is_empty() { 0.0 } else { KEY_HEIGHT };
    let (class, label) = (attribute(head, "class"), attribute(head, "aria-label"));
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"-12 -12 {} {}\" role=\"img\" \
         aria-label=\"{label}\">\n<style>\n{STYLE}</style>\n<rect x=\"-12\" y=\"-12\" width=\"100%\" height=\"100%\" \
         fill=\"var(--page)\"/>\n{}<g transform=\"translate(0 {above})\">\n{body}</g>\n</svg>\n",
        width + 24.0,
        height + above + 24.0,
        key_line(keys)
    );
    Picture { file: file_name(number, label), svg }
}

/// Draws squares of the colours, each with its name.
fn key_line(keys: &[(String, String)]) -> String {
    let mut left = 0.0;
    let mut line = String::new();
    for (name, colour) in keys {
        line.push_str(&format!(
            "<rect x=\"{left:.1}\" y=\"0\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>\
             <text class=\"main\" x=\"{:.1}\" y=\"10\">{name}</text>\n",
            left + 18.0
        ));
        left += SQUARE + name.chars().count() as f64 * CHARACTER;
    }
    line
}

/// Names and colours of the key in a section of a page, none if it has none.
fn keys(section: &str) -> Vec<(String, String)> {
    let line = section.split_once("<p class=\"keys\">").and_then(|(_, rest)| rest.split_once("</p>"));
    let entry = |entry: &str| {
        let (_, rest) = entry.split_once("background:")?;
        let (colour, rest) = rest.split_once('"')?;
        let (_, name) = rest.split_once("</i>")?;
        Some((String::from(name.strip_suffix("</span>").unwrap_or(name)), String::from(colour)))
    };
    line.map_or_else(Vec::new, |(line, _)| line.split("<span>").filter_map(entry).collect())
}

/// Value of an attribute in a tag's head, empty if it has none.
fn attribute<'a>(head: &'a str, name: &str) -> &'a str {
    let quoted = head.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    quoted.map_or("", |(value, _)| value)
}

/// Name of a drawing's file, of small letters, digits and hyphens alone.
fn file_name(number: usize, label: &str) -> String {
    let letters = label.to_lowercase().replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(NAME_MAX);
    format!("{number}-{}.svg", if name.is_empty() { "drawing" } else { name.trim_end_matches('-') })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::columns::LegendKey;
    use crate::report::html::comparison::{BarGroup, BarRow, Comparison, comparison};
    use crate::report::table::Table;

    #[test]
    fn each_drawing_becomes_a_file_with_its_style_and_the_key_of_its_colours() {
        let row = BarRow { drive: String::from("fast"), causes_ns: vec![1.0, 2.0], mean_ns: 3.0, iops: 4.0 };
        let key = |name: &str, colour: &str| LegendKey { name: String::from(name), colour: String::from(colour) };
        let page = Comparison {
            causes: vec![key("memory", "red"), key("link", "blue")],
            groups: vec![BarGroup { title: String::from("4 KiB"), rows: vec![row] }],
            ..Comparison::default()
        };
        let [picture] = &pictures(&comparison(&page, &Table::new()))[..] else { panic!("one drawing") };
        assert_eq!(picture.file, "1-mean-latency-and-requests-a-second.svg");
        assert!(picture.svg.starts_with("<svg xmlns=") && picture.svg.contains("--series-1"));
        assert!(picture.svg.contains(">memory</text>") && picture.svg.contains("fill=\"blue\""));
        assert!(picture.svg.contains("viewBox=\"-12 -12 924 78\""), "{}", &picture.svg[..200]);
    }

    #[test]
    fn a_page_without_a_drawing_gives_no_file() {
        assert_eq!(pictures("<h1>nothing drawn</h1>"), []);
    }
}
