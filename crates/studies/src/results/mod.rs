//! Results as types: the registry of figures, documents of `--json` with their schema, and findings.
//!
//! [`FIGURES`] lists every number to which a run is reduced, and how it is computed from an
//! [`Outcome`](phaselink_core::ledger::Outcome). Columns of sweeps, cells of comparisons, attributes of Python's results and the
//! JSON Schema follow from it. So a new figure is one row there, plus the code that measures it.

pub mod documents;
mod evidence;
mod figures;
mod finding;
mod percentiles;
pub mod units;
pub mod words;

pub use evidence::Evidence;
pub use figures::{COLUMNS_DEFAULT, FIGURES, Figure, Figures, PRECISION, Unit, current_name, find, number};
pub use figures::{columns, rename_note};
pub use finding::{Finding, FindingKind, FindingPart, FindingPlace, FindingUnit};
pub use percentiles::{PERCENTILES, Percentile, in_tables};
