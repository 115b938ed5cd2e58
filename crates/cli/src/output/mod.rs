//! Output to the terminal and to files. Text is styled only on a terminal, and not if `NO_COLOR` is set.

pub(crate) mod claims;
mod report;
mod stamp;
mod system;
mod target;
pub(crate) mod width;

use std::io::{self, IsTerminal, Write};

pub(crate) use phaselink_studies::report::headed;
use phaselink_studies::report::{Prose, Table};
use serde_json::Value;

pub(crate) use report::{Report, ReportFlags, quoted};
pub(crate) use stamp::stamped;
pub(crate) use target::{Target, UnfinishedOutput, create_directory};

/// Style that highlights text on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Bold,
    Red,
    Yellow,
}

impl TextStyle {
    fn terminal_style_code(self) -> &'static str {
        match self {
            TextStyle::Bold => "1",
            TextStyle::Red => "31",
            TextStyle::Yellow => "33",
        }
    }
}

/// Prints a text to standard output.
///
/// # Errors
///
/// If standard output refuses the text. A closed pipe is one such error, not a panic.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a JSON document to standard output, indented.
///
/// # Errors
///
/// Errors of [`print`].
pub(crate) fn print_json(document: &Value) -> io::Result<()> {
    print(&json_text(document))
}

/// Formats a JSON document as indented text, with a line end.
pub(crate) fn json_text(document: &Value) -> String {
    format!("{document:#}\n")
}

/// Returns `text` with a style if standard output is a terminal.
pub(crate) fn styled_for_stdout(text: &str, style: TextStyle) -> String {
    style_text_for_output(text, style, io::stdout().is_terminal())
}

/// Formats a table for the width of the terminal, with a bold heading if standard output is a terminal.
pub(crate) fn shown(table: &Table) -> String {
    table_with_bold_heading(&width::columns().map_or_else(|| table.to_string(), |columns| table.within(columns)))
}

/// Formats the text of an answer for the width of the terminal, with bold headings if standard output is a terminal.
pub(crate) fn terminal_text(text: &Prose) -> String {
    text.within(width::prose_width_columns(), |heading| styled_for_stdout(heading, TextStyle::Bold), shown)
}

/// Returns a formatted table with a bold heading if standard output is a terminal.
pub(crate) fn table_with_bold_heading(table: &str) -> String {
    match table.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", styled_for_stdout(head, TextStyle::Bold)),
        None => String::from(table),
    }
}

/// Prints errors to standard error, one a line.
pub(crate) fn errors(lines: impl IntoIterator<Item = String>) {
    let mut stderr = io::stderr().lock();
    let is_terminal = stderr.is_terminal();
    let label = style_text_for_output("error:", TextStyle::Red, is_terminal);
    for line in lines {
        // Programs expect one problem per line, so break lines only on a terminal.
        let line = if is_terminal { wrap_error_message(&line) } else { line };
        // If standard error is closed, the problem cannot be reported.
        let _ = writeln!(stderr, "{label} {line}");
    }
}

/// Breaks an error message between words for the width of the terminal. Its first line follows the label `error: `.
fn wrap_error_message(line: &str) -> String {
    let (width, mut text, mut used) = (width::prose_width_columns(), String::new(), "error: ".len());
    for word in line.split(' ') {
        let length = word.chars().count();
        if !text.is_empty() && used + length > width {
            text.push_str("\n    ");
            used = 4;
        }
        text.push_str(word);
        text.push(' ');
        used += length + 1;
    }
    String::from(text.trim_end())
}

fn style_text_for_output(text: &str, style: TextStyle, to_terminal: bool) -> String {
    let wanted = to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { format!("\x1b[{}m{text}\x1b[0m", style.terminal_style_code()) } else { String::from(text) }
}
