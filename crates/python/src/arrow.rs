//! Tables for other libraries through Arrow's PyCapsule interface: columns are made once, and the libraries share their
//! memory.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A table of columns.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Arrow(RecordBatch);

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
    /// If a column mixes texts and numbers.
    #[new]
    fn new(columns: Vec<(String, Vec<Option<Cell>>)>) -> PyResult<Arrow> {
        let columns = columns.into_iter().map(|(name, cells)| array(&name, &cells).map(|array| (name, array, true)));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        RecordBatch::try_from_iter_with_nullable(columns).map(Arrow).map_err(refused)
    }

    /// Returns an `ArrowArrayStream` of one batch, in a capsule that releases it if it is not consumed.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = RecordBatchIterator::new([Ok::<_, ArrowError>(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}

fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns an Arrow array of the narrowest type that holds all cells; an array of numbers if no cell is known.
fn array(name: &str, cells: &[Option<Cell>]) -> PyResult<ArrayRef> {
    let all = |fits: fn(&Cell) -> bool| cells.iter().flatten().all(fits);
    let is_known = cells.iter().any(Option::is_some);
    Ok(match () {
        () if is_known && all(|cell| matches!(cell, Cell::Switch(_))) => Arc::new(
            cells
                .iter()
                .map(|cell| cell.as_ref().map(|cell| matches!(cell, Cell::Switch(true))))
                .collect::<BooleanArray>(),
        ),
        () if is_known && all(|cell| matches!(cell, Cell::Whole(_))) => {
            Arc::new(cells.iter().map(|cell| cell.as_ref().and_then(Cell::whole)).collect::<Int64Array>())
        }
        () if all(|cell| cell.number().is_some()) => {
            Arc::new(cells.iter().map(|cell| cell.as_ref().and_then(Cell::number)).collect::<Float64Array>())
        }
        () if all(|cell| matches!(cell, Cell::Text(_))) => {
            Arc::new(cells.iter().map(|cell| cell.as_ref().and_then(Cell::text)).collect::<StringArray>())
        }
        () => return Err(PyValueError::new_err(format!("the column {name} has texts beside numbers"))),
    })
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
            Cell::Whole(whole) => Some(*whole as f64),
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}
