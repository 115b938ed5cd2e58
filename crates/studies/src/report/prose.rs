//! Text of an answer: paragraphs and tables, which are broken into lines only when the width of the output is known.

use super::{Table, html};
use crate::results::words::wrap_paragraph;

/// Part of a text: a paragraph, a heading, a table, lines that stay as they are, or an empty line.
#[derive(Clone, Debug)]
enum ProsePart {
    Paragraph { text: String, indent: &'static str },
    Heading(String),
    Table(Table),
    Lines(String),
    Gap,
}

/// Text of an answer for people, in parts that each output fits to its width.
#[derive(Clone, Debug, Default)]
pub struct Prose(Vec<ProsePart>);

impl Prose {
    /// Adds a paragraph. `indent` precedes each of its lines but the first.
    pub fn paragraph(mut self, text: impl Into<String>, indent: &'static str) -> Prose {
        self.0.push(ProsePart::Paragraph { text: text.into(), indent });
        self
    }

    /// Adds several paragraphs without empty lines between them.
    pub fn paragraphs(self, texts: impl IntoIterator<Item = String>, indent: &'static str) -> Prose {
        texts.into_iter().fold(self, |prose, text| prose.paragraph(text, indent))
    }

    /// Adds a heading of the part that follows.
    pub fn heading(mut self, text: impl Into<String>) -> Prose {
        self.0.push(ProsePart::Heading(text.into()));
        self
    }

    /// Adds a table.
    pub fn table(mut self, table: Table) -> Prose {
        self.0.push(ProsePart::Table(table));
        self
    }

    /// Adds lines that no width breaks.
    pub fn lines(mut self, text: impl Into<String>) -> Prose {
        self.0.push(ProsePart::Lines(text.into()));
        self
    }

    /// Adds an empty line.
    pub fn gap(mut self) -> Prose {
        self.0.push(ProsePart::Gap);
        self
    }

    /// Returns the text with paragraphs of at most `width` columns. `heading` and `shown` format headings and tables.
    pub fn within(&self, width: usize, heading: impl Fn(&str) -> String, shown: impl Fn(&Table) -> String) -> String {
        let part = |part: &ProsePart| match part {
            ProsePart::Paragraph { text, indent } => wrap_paragraph(text, indent, width),
            ProsePart::Heading(text) => heading(text) + "\n",
            ProsePart::Table(table) => shown(table),
            ProsePart::Lines(text) => format!("{text}\n"),
            ProsePart::Gap => String::from("\n"),
        };
        self.0.iter().map(part).collect()
    }

    /// Returns the text as HTML that stands within a page.
    pub fn html(&self) -> String {
        let part = |part: &ProsePart| match part {
            ProsePart::Paragraph { text, .. } => html::page::paragraph(text),
            ProsePart::Heading(text) => html::page::heading(text),
            ProsePart::Table(table) => html::table(table),
            ProsePart::Lines(text) => format!("<pre>{}</pre>\n", html::escape(text)),
            ProsePart::Gap => String::new(),
        };
        self.0.iter().map(part).collect()
    }
}
