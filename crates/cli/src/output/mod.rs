//! Output to the terminal and to files. Text is styled only on a terminal: never in pipes, never under `NO_COLOR`.

pub(crate) mod claims;
mod report;
mod stamp;
mod target;

use std::io::{self, IsTerminal, Write};

pub(crate) use phaselink_core::report::headed;
use serde_json::Value;

pub(crate) use report::{Report, ReportFlags};
pub(crate) use stamp::stamped;
pub(crate) use target::{Target, Unfinished, create_directory};

/// Style that makes a piece of text stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Red,
    Yellow,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Bold => "1",
            Style::Red => "31",
            Style::Yellow => "33",
        }
    }
}

/// Prints to standard output.
///
/// # Errors
/// If it does not accept the text; a closed pipe is one such error, not a panic.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a JSON document, indented, to standard output.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(document: &Value) -> io::Result<()> {
    print(&json_text(document))
}

/// Returns a JSON document as text, indented, with a line end.
pub(crate) fn json_text(document: &Value) -> String {
    format!("{document:#}\n")
}

/// Returns `text` in a style if standard output is a terminal.
pub(crate) fn styled(text: &str, style: Style) -> String {
    paint(text, style, io::stdout().is_terminal())
}

/// Returns a table whose head stands out on a terminal.
pub(crate) fn with_bold_head(table: &str) -> String {
    match table.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", styled(head, Style::Bold)),
        None => String::from(table),
    }
}

/// Prints errors to standard error, a line each.
pub(crate) fn errors(lines: impl IntoIterator<Item = String>) {
    let mut stderr = io::stderr().lock();
    let label = paint("error:", Style::Red, stderr.is_terminal());
    for line in lines {
        // If standard error is closed, there is nobody left to be told.
        let _ = writeln!(stderr, "{label} {line}");
    }
}

fn paint(text: &str, style: Style, to_terminal: bool) -> String {
    let wanted = to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { String::from(text) }
}
