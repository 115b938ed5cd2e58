//! Pages of other verbs: a title, what was asked, and sections one after the other.

use super::super::table::Table;
use super::{document, escape, section, table};

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with its title, and what was asked: lines of a text.
    pub fn new(title: &str, heading: &[String]) -> Page {
        let lines: String = heading.iter().map(|line| format!("{}\n", escape(line))).collect();
        let body = format!("<h1>{}</h1>\n<pre>{lines}</pre>\n", escape(title));
        Page { title: escape(title), body }
    }

    /// A section; its body is what the functions of this folder give.
    pub fn section(mut self, title: &str, body: &str) -> Page {
        if !body.is_empty() {
            self.body.push_str(&section(&escape(title), body));
        }
        self
    }

    /// A section with a table.
    pub fn table(self, title: &str, rows: &Table) -> Page {
        let body = table(rows);
        self.section(title, &body)
    }

    /// A document of its own, that fetches nothing and runs nothing.
    pub fn finish(self) -> String {
        let version = format!("<p class=\"quiet foot\">phaselink {}</p>\n", env!("CARGO_PKG_VERSION"));
        document(&self.title, &(self.body + &version))
    }
}

/// Plots side by side, as many as there is room for.
pub fn side_by_side(plots: &[String]) -> String {
    format!("<div class=\"plots\">\n{}</div>\n", plots.concat())
}

/// A heading below that of a section.
pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escape(text))
}

/// A paragraph.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// Sentences below each other.
pub fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: String = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}
