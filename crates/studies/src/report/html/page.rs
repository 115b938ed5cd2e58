//! HTML pages of commands other than a run: a title, a conclusion, sections one after the other, and the question at
//! the end.

use super::super::table::Table;
use super::{conclusion, document, escape, section, table};

/// Page of results under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    /// Lines of the text at the end of the page, which states what was asked.
    assumed: Vec<String>,
}

impl Page {
    /// Makes a page with its title. `heading` are the lines of a text that states what was asked; they stand at the end
    /// of the page.
    pub fn new(title: &str, heading: &[String]) -> Page {
        let body = format!("<h1>{}</h1>\n", escape(title));
        Page { title: escape(title), body, assumed: heading.to_vec() }
    }

    /// Adds the conclusion of the page, in a sentence or two, directly below the title. Call it before any section.
    pub fn conclusion(mut self, sentences: &[String]) -> Page {
        self.body.push_str(&conclusion(sentences));
        self
    }

    /// Adds a section to the page, unless its body is empty; the body is HTML that functions of this module return.
    pub fn section(mut self, title: &str, body: &str) -> Page {
        if !body.is_empty() {
            self.body.push_str(&section(&escape(title), body));
        }
        self
    }

    /// Adds a section with a table to the page.
    pub fn table(self, title: &str, rows: &Table) -> Page {
        let body = table(rows);
        self.section(title, &body)
    }

    /// Returns the page as an HTML document that fetches nothing and runs nothing.
    pub fn finish(self) -> String {
        let lines: String = self.assumed.iter().map(|line| format!("{}\n", escape(line))).collect();
        let assumed =
            if lines.is_empty() { lines } else { section("What was asked", &format!("<pre>{lines}</pre>\n")) };
        document(&self.title, &(self.body + &assumed))
    }
}

/// Returns plots side by side as HTML, as many in a row as there is room for.
pub fn side_by_side(plots: &[String]) -> String {
    format!("<div class=\"plots\">\n{}</div>\n", plots.concat())
}

/// Returns a heading of the level below a section as HTML.
pub fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escape(text))
}

/// Returns a paragraph as HTML.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// Returns sentences as a list in HTML; empty if there are none.
pub fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: String = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}
