//! Width of the terminal, to which texts and tables for people are fitted.

use super::system;

/// Maximum width of prose in columns, also if the width of the terminal is unknown.
const PROSE: usize = 100;
/// Minimum width in columns that texts are fitted to. A narrower terminal breaks lines itself.
const LEAST: usize = 40;

/// Returns the width of the output in columns: the value of COLUMNS, or else the width of the terminal at standard
/// output. None if neither is known.
pub(crate) fn columns() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    given.or_else(system::terminal_columns).map(|columns: usize| columns.max(LEAST))
}

/// Returns the width of prose in columns: that of the terminal, at most 100.
pub(crate) fn prose_width_columns() -> usize {
    columns().map_or(PROSE, |columns| columns.min(PROSE))
}
