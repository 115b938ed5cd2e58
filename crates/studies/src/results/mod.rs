//! Results as types: the registry of figures, documents of `--json` with their schema, and findings.
//!
//! [`FIGURES`] lists every number to which a run is reduced, and how it is computed from an
//! [`Outcome`](phaselink_core::ledger::Outcome). Its row also names the tables and documents that show the figure. Columns of
//! sweeps, tables and cells of comparisons, the host of a run, attributes of Python's results and the JSON Schema follow
//! from it. So a new figure is one row there, plus the code that measures it.

pub mod documents;
mod evidence;
mod figures;
mod finding;
mod percentiles;
mod places;
pub mod units;
pub mod words;

pub use evidence::Evidence;
pub use figures::{FIGURES, Figure, Figures, PRECISION, Unit, current_figure_name, find, number};
pub use figures::{
    TailEstimate, columns, comparison_columns, default_sweep_columns, renamed_column_note, tail_by_name,
    tail_estimates, tail_estimates_of,
};
pub use finding::{Finding, FindingKind, FindingPart, FindingPlace, FindingUnit};
pub use percentiles::{PERCENTILES, Percentile, in_tables};
pub use places::{ClosedBound, CompareTable, RunFigureGroup};
