//! Pages of other verbs: a title, what was asked, and sections one after the other.

use super::super::table::Table;
use super::{conclusion, document, escape, section, table};

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    /// Lines of a text that says what the figures rest on.
    assumed: Vec<String>,
}

impl Page {
    /// A page with its title, and lines of a text that say what was asked; they stand at its end.
    pub fn new(title: &str, heading: &[String]) -> Page {
        let body = format!("<h1>{}</h1>\n", escape(title));
        Page { title: escape(title), body, assumed: heading.to_vec() }
    }

    /// The conclusion, in a sentence or two; it stands directly below the title.
    pub fn conclusion(mut self, sentences: &[String]) -> Page {
        self.body.push_str(&conclusion(sentences));
        self
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
        let lines: String = self.assumed.iter().map(|line| format!("{}\n", escape(line))).collect();
        let assumed =
            if lines.is_empty() { lines } else { section("What was asked", &format!("<pre>{lines}</pre>\n")) };
        document(&self.title, &(self.body + &assumed))
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
