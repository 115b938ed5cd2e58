//! Drawings of a page as files of their own, for a document that shows one of them.
//!
//! A page holds each drawing as `<svg>`, with its caption and its legend beside it in HTML. A file of its own carries
//! the style sheet, and the legend as lines of its own drawing.

use super::STYLE;
use phaselink_core::number::real_length;

/// Height of a legend of one line above a drawing, in the drawing's units; `KEY_LINE` is that of each further line.
const KEY_HEIGHT: f64 = 28.0;
const KEY_LINE: f64 = 20.0;
/// Width of a legend's colour square with the blanks around it, in the drawing's units; `CHARACTER` is that of a
/// character of a name.
const SQUARE: f64 = 34.0;
const CHARACTER: f64 = 6.8;
/// Largest number of characters of a caption that a file's name contains.
const NAME_MAX: usize = 40;

/// Drawing of a page as a document of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedPicture {
    /// Name of the drawing's file: its number in the page, and its caption in small letters, as in
    /// `2-latency-by-percentile.svg`.
    pub file: String,
    /// Name of the file with the drawing's values, which ends in `csv`.
    pub csv_file: String,
    /// Values that the drawing shows, comma-separated; empty if it has none.
    pub csv: String,
    /// SVG document of the drawing; it fetches nothing, and follows the light or dark colour scheme of the viewer.
    pub svg: String,
}

/// Returns every drawing of an HTML page, in the page's order.
pub fn pictures(page: &str) -> Vec<ExtractedPicture> {
    let starts: Vec<usize> = page.match_indices("<svg").map(|(start, _)| start).collect();
    let drawing = |(place, start): (usize, &usize)| {
        let (before, rest) = page.split_at(*start);
        let (head, rest) = rest.split_once('>')?;
        let (body, _) = rest.split_once("</svg>")?;
        let since = |tag: &str| before.rfind(tag).map_or("", |from| &before[from..]);
        // A plot has its own legend. Bars share the legend of their section.
        let own = parse_legend(since("<figure>"));
        let shared = html_attribute(head, "class") == "bars" && own.is_empty();
        Some(picture(place + 1, head, body, &if shared { parse_legend(since("<h2>")) } else { own }))
    };
    starts.iter().enumerate().filter_map(drawing).collect()
}

/// Returns one drawing as a document of its own, with the legend of its colours above it.
fn picture(number: usize, head: &str, body: &str, keys: &[(String, String)]) -> ExtractedPicture {
    let sizes: Vec<f64> =
        html_attribute(head, "viewBox").split(' ').skip(2).filter_map(|size| size.parse().ok()).collect();
    let (width, height) = (sizes.first().copied().unwrap_or(0.0), sizes.get(1).copied().unwrap_or(0.0));
    let (key, above) = draw_legend_lines(keys, width);
    let (class, label) = (html_attribute(head, "class"), html_attribute(head, "aria-label"));
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"-12 -12 {} {}\" role=\"img\" \
         aria-label=\"{label}\">\n<style>\n{STYLE}</style>\n<rect x=\"-12\" y=\"-12\" width=\"100%\" height=\"100%\" \
         fill=\"var(--page)\"/>\n{}<g transform=\"translate(0 {above})\">\n{body}</g>\n</svg>\n",
        width + 24.0,
        height + above + 24.0,
        key
    );
    let stem = file_name(number, label);
    ExtractedPicture { file: format!("{stem}.svg"), csv_file: format!("{stem}.csv"), csv: values(body), svg }
}

/// Returns the comma-separated values that are stored inside a drawing; empty if it has none.
fn values(body: &str) -> String {
    let inside = body.split_once("<metadata>").and_then(|(_, rest)| rest.split_once("</metadata>"));
    let plain = |text: &str| {
        let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        signs.iter().fold(String::from(text), |text, (escaped, sign)| text.replace(escaped, sign)) + "\n"
    };
    inside.map_or_else(String::new, |(values, _)| plain(values))
}

/// Returns an HTML page with links to the files of each drawing, below the drawing.
pub fn add_picture_links(page: &str, pictures: &[ExtractedPicture]) -> String {
    let mut parts = page.split("</svg>\n");
    let mut linked = String::from(parts.next().unwrap_or_default());
    let mut files = pictures.iter();
    for part in parts {
        linked.push_str("</svg>\n");
        let Some(picture) = files.next() else {
            linked.push_str(part);
            continue;
        };
        // Insert the links after the caption, if there is a figure.
        let (before, rest) = part.split_at(part.find("</figure>").unwrap_or(0));
        let link = |file: &str, kind: &str| format!("<a href=\"{file}\" download>{kind}</a>");
        let csv = if picture.csv.is_empty() { String::new() } else { link(&picture.csv_file, "CSV") };
        let links = format!("<p class=\"save\">Save as {} {csv}</p>\n", link(&picture.file, "SVG"));
        linked.extend([before, &links, rest]);
    }
    linked
}

/// Draws a legend as SVG, colour squares each with a name, in as many lines as the width needs. Returns the SVG and its
/// height in the drawing's units.
fn draw_legend_lines(keys: &[(String, String)], width: f64) -> (String, f64) {
    let (mut left, mut top) = (0.0, 0.0);
    let mut lines = String::new();
    for (name, colour) in keys {
        let wide = SQUARE + real_length(name.chars().count()) * CHARACTER;
        if left > 0.0 && left + wide > width {
            (left, top) = (0.0, top + KEY_LINE);
        }
        lines.push_str(&format!(
            "<rect x=\"{left:.1}\" y=\"{top}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>\
             <text class=\"main\" x=\"{:.1}\" y=\"{}\">{name}</text>\n",
            left + 18.0,
            top + 10.0
        ));
        left += wide;
    }
    (lines, if keys.is_empty() { 0.0 } else { top + KEY_HEIGHT })
}

/// Returns names and colours of the legend in a part of an HTML page; empty if there is no legend.
fn parse_legend(section: &str) -> Vec<(String, String)> {
    let line = section.split_once("<p class=\"keys\">").and_then(|(_, rest)| rest.split_once("</p>"));
    let entry = |entry: &str| {
        let (_, rest) = entry.split_once("background:")?;
        let (colour, rest) = rest.split_once('"')?;
        let (_, name) = rest.split_once("</i>")?;
        Some((String::from(name.strip_suffix("</span>").unwrap_or(name)), String::from(colour)))
    };
    line.map_or_else(Vec::new, |(line, _)| line.split("<span>").filter_map(entry).collect())
}

/// Returns the value of an attribute in the head of an HTML tag; empty if the tag has no such attribute.
fn html_attribute<'a>(head: &'a str, name: &str) -> &'a str {
    let quoted = head.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    quoted.map_or("", |(value, _)| value)
}

/// Returns the name of a drawing's files without extension, of small letters, digits and hyphens alone.
fn file_name(number: usize, label: &str) -> String {
    let letters = label.to_lowercase().replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(NAME_MAX);
    format!("{number}-{}", if name.is_empty() { "drawing" } else { name.trim_end_matches('-') })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::columns::LegendKey;
    use crate::report::html::comparison::{BarGroup, BarRow, Comparison, comparison};
    use crate::report::table::Table;

    #[test]
    fn each_drawing_becomes_an_svg_file_with_style_and_legend() {
        let row = BarRow { drive: String::from("fast"), causes_ns: vec![1.0, 2.0], mean_ns: 3.0, iops: 4.0 };
        let key = |name: &str, colour: &str| LegendKey { name: String::from(name), colour: String::from(colour) };
        let page = Comparison {
            causes: vec![key("memory", "red"), key("link", "blue")],
            groups: vec![BarGroup { title: String::from("4 KiB"), rows: vec![row] }],
            ..Comparison::default()
        };
        let page = comparison(&page, &Table::new());
        let [picture] = &pictures(&page)[..] else { panic!("one drawing") };
        assert_eq!(picture.file, "1-mean-latency-and-requests-a-second-4-kib.svg");
        assert_eq!(picture.csv, "drive,cause,mean_ns\nfast,memory,1\nfast,link,2\n");
        let linked = add_picture_links(&page, std::slice::from_ref(picture));
        assert!(linked.contains("<a href=\"1-mean-latency-and-requests-a-second-4-kib.csv\" download>CSV</a>"));
        assert!(picture.svg.starts_with("<svg xmlns=") && picture.svg.contains("--series-1"));
        assert!(picture.svg.contains(">memory</text>") && picture.svg.contains("fill=\"blue\""));
        assert!(picture.svg.contains("viewBox=\"-12 -12 924 78\""), "{}", &picture.svg[..200]);
    }

    #[test]
    fn legend_wraps_to_the_width_of_its_plot() {
        let keys: Vec<(String, String)> = ["one", "another", "a third"].map(|name| (name.into(), "red".into())).into();
        assert_eq!(draw_legend_lines(&keys, 900.0).1, KEY_HEIGHT);
        assert_eq!(draw_legend_lines(&keys, 100.0).1, KEY_HEIGHT + 2.0 * KEY_LINE);
        assert_eq!(draw_legend_lines(&[], 100.0), (String::new(), 0.0));
        let page = "<figure>\n<p class=\"keys\"><span><i class=\"key\" style=\"background:red\"></i>mean</span></p>\n\
                    <svg viewBox=\"0 0 450 270\" role=\"img\" aria-label=\"x\">\n</svg>\n</figure>\n";
        assert!(pictures(page)[0].svg.contains(">mean</text>"));
    }

    #[test]
    fn page_without_drawings_gives_no_picture_file() {
        assert_eq!(pictures("<h1>nothing drawn</h1>"), []);
    }
}
