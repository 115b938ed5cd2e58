//! Single requests of a run as an Arrow stream: batches are made on demand, so that writing a file never needs the
//! whole table beside the kept requests.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray, UInt64Array,
};
use arrow_schema::ArrowError;
use phaselink_core::engine::requests::{KeptRequest, KeptRequests};
use phaselink_core::ledger::{Outcome, Stage, StageTimes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Number of requests in an Arrow batch.
const BATCH: usize = 1 << 14;

/// Requests that a run has kept.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Clone, Debug)]
pub struct Requests(Arc<Table>);

#[derive(Debug)]
struct Table {
    requests: KeptRequests,
    /// Names of the jobs, by index.
    jobs: Vec<String>,
    /// Stages in which any kept request spent time, with the names of their columns.
    stages: Vec<(Stage, String)>,
}

#[pymethods]
impl Requests {
    fn __len__(&self) -> usize {
        self.0.requests.kept().len()
    }

    /// Returns the number of requests after the last that was kept.
    #[getter]
    fn left_out(&self) -> u64 {
        self.0.requests.left_out()
    }

    /// Returns the names of the columns.
    fn columns(&self) -> PyResult<Vec<String>> {
        let schema = self.0.batch(0).map_err(refused)?.schema();
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// Returns an `ArrowArrayStream` in a capsule that releases it if it is not consumed.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.0.clone().batches().map_err(refused)?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), c"arrow_array_stream")
    }
}

impl Requests {
    /// Returns the kept requests of a run, with a column for each stage in which any of them spent time.
    pub fn of(requests: KeptRequests, outcome: &Outcome) -> Requests {
        let mut sum = StageTimes::default();
        requests.kept().iter().for_each(|request| sum.add(&request.stages));
        let stack = &outcome.stack_stages;
        let stages = Stage::all(stack.len()).filter(|stage| !sum.get(*stage).is_zero());
        let stages = stages.map(|stage| (stage, column(stage.name(stack)))).collect();
        let jobs = outcome.jobs.iter().map(|job| job.name.clone()).collect();
        Requests(Arc::new(Table { requests, jobs, stages }))
    }
}

/// Returns the column name of a stage, such as `stage.system_call_ns`.
fn column(stage: &str) -> String {
    format!("stage.{}_ns", stage.replace([' ', '-'], "_"))
}

fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Table {
    /// Returns a reader of all batches, each made on demand. Without requests, there is one empty batch for its schema.
    fn batches(self: Arc<Table>) -> Result<Box<dyn RecordBatchReader + Send>, ArrowError> {
        let schema = self.batch(0)?.schema();
        let count = self.requests.kept().len().div_ceil(BATCH).max(1);
        Ok(Box::new(RecordBatchIterator::new((0..count).map(move |place| self.batch(place)), schema)))
    }

    fn batch(&self, place: usize) -> Result<RecordBatch, ArrowError> {
        let requests: Vec<&KeptRequest> = self.requests.kept().iter().skip(place * BATCH).take(BATCH).collect();
        let whole = |of: fn(&KeptRequest) -> u64| -> ArrayRef {
            Arc::new(requests.iter().map(|request| Some(of(request))).collect::<UInt64Array>())
        };
        let ns = |of: &dyn Fn(&KeptRequest) -> f64| -> ArrayRef {
            Arc::new(requests.iter().map(|request| Some(of(request))).collect::<Float64Array>())
        };
        let text = |of: &dyn Fn(&KeptRequest) -> String| -> ArrayRef {
            Arc::new(requests.iter().map(|request| Some(of(request))).collect::<StringArray>())
        };
        let mut columns = vec![
            (String::from("number"), whole(|it| it.number)),
            (String::from("job"), text(&|it| self.jobs[it.job].clone())),
            (String::from("direction"), text(&|it| it.io.op.name().into())),
            (String::from("offset"), whole(|it| it.io.offset)),
            (String::from("bytes"), whole(|it| it.io.bytes.into())),
            (String::from("issued_ns"), ns(&|it| it.wanted.as_ns())),
            (String::from("latency_ns"), ns(&|it| it.done.since(it.wanted).as_ns())),
        ];
        let stages = self.stages.iter();
        columns.extend(stages.map(|(stage, name)| (name.clone(), ns(&|it| it.stages.get(*stage).as_ns()))));
        RecordBatch::try_from_iter(columns)
    }
}
