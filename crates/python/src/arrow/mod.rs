//! Tables for other libraries through Arrow's PyCapsule interface: columns are made once, and the libraries share their
//! memory.

mod columns;
mod interface;

use std::ffi::CString;
use std::sync::Arc;

use phaselink_core::number::real;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

pub(crate) use columns::{Batch, Column, Values};
use interface::Stream;

/// A table of columns.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Arrow(Batch);

/// Value of a table cell. Types are tried in the order of the variants, so that True is no number.
#[derive(Clone, Debug, FromPyObject)]
enum Cell {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

#[pymethods]
impl Arrow {
    /// Makes a table of columns by name, of equal length, with `None` for unknown values.
    ///
    /// # Errors
    /// If a column mixes texts and numbers, or columns differ in length.
    #[new]
    fn new(columns: Vec<(String, Vec<Option<Cell>>)>) -> PyResult<Arrow> {
        let rows = columns.first().map_or(0, |(_, cells)| cells.len());
        if let Some((name, cells)) = columns.iter().find(|(_, cells)| cells.len() != rows) {
            let problem = format!("the column {name} has {} cells, the first column {rows}", cells.len());
            return Err(PyValueError::new_err(problem));
        }
        let columns = columns.into_iter().map(|(name, cells)| column(name, &cells));
        columns.collect::<PyResult<Vec<_>>>().map(|columns| Arrow(Arc::new(columns)))
    }

    /// Returns an `ArrowArrayStream` of one batch, in a capsule that releases it if it is not consumed.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(py, self.0.clone(), std::iter::once(Ok(self.0.clone())))
    }
}

/// Returns an `ArrowArrayStream` of batches whose columns have the names and types of `first`, in a capsule that
/// releases it if it is not consumed.
pub(crate) fn capsule(
    py: Python<'_>,
    first: Batch,
    batches: impl Iterator<Item = PyResult<Batch>> + Send + 'static,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, Stream::new(first, batches), c"arrow_array_stream")
}

/// Returns a column of the narrowest type that holds all cells; a column of numbers if no cell is known.
fn column(name: String, cells: &[Option<Cell>]) -> PyResult<Column> {
    let all = |fits: fn(&Cell) -> bool| cells.iter().flatten().all(fits);
    let has_known = cells.iter().any(Option::is_some);
    let known: Vec<bool> = cells.iter().map(Option::is_some).collect();
    let values = match () {
        () if has_known && all(|cell| matches!(cell, Cell::Switch(_))) => {
            Values::switches(cells.iter().map(|cell| matches!(cell, Some(Cell::Switch(true)))))
        }
        () if has_known && all(|cell| matches!(cell, Cell::Whole(_))) => {
            Values::Whole(cells.iter().flat_map(|cell| cell.as_ref().map_or(Some(0), Cell::whole)).collect())
        }
        () if all(|cell| cell.number().is_some()) => {
            Values::Numbers(cells.iter().flat_map(|cell| cell.as_ref().map_or(Some(0.0), Cell::number)).collect())
        }
        () if all(|cell| matches!(cell, Cell::Text(_))) => {
            Values::texts(cells.iter().map(|cell| cell.as_ref().map_or("", Cell::text)))?
        }
        () => return Err(PyValueError::new_err(format!("the column {name} has texts beside numbers"))),
    };
    Ok(Column::new(CString::new(name)?, values, Some(&known)))
}

impl Cell {
    fn whole(&self) -> Option<i64> {
        match self {
            Cell::Whole(whole) => Some(*whole),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Whole(whole) if *whole < 0 => Some(-real(whole.unsigned_abs())),
            Cell::Whole(whole) => Some(real(whole.unsigned_abs())),
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn text(&self) -> &str {
        match self {
            Cell::Text(text) => text,
            _ => "",
        }
    }
}
