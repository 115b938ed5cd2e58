//! Width of the terminal, which texts and tables for people follow.

use super::system;

/// Longest line of prose, and of texts whose width nothing says.
const PROSE: usize = 100;
/// Least width that is followed; a narrower terminal breaks lines itself.
const LEAST: usize = 40;

/// Returns the columns of the terminal: those that COLUMNS gives, else those of standard output if it is a terminal;
/// `None` if nothing says how wide the output may be.
pub(crate) fn columns() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    given.or_else(system::terminal_columns).map(|columns: usize| columns.max(LEAST))
}

/// Returns the width of prose: at most 100 columns, and no wider than the terminal.
pub(crate) fn prose() -> usize {
    columns().map_or(PROSE, |columns| columns.min(PROSE))
}
