//! Single requests of a run as an Arrow stream: batches are made on demand, so that writing a file never needs the
//! whole table beside the kept requests.

use std::ffi::CString;
use std::sync::Arc;

use phaselink_core::engine::requests::{KeptRequestRecord, KeptRequestRecords};
use phaselink_core::ledger::{Outcome, Stage, StageTimes};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Batch, Column, Values, capsule};

/// Number of requests in an Arrow batch.
const BATCH: usize = 1 << 14;

/// Requests that a run has kept.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Clone, Debug)]
pub struct Requests(Arc<Table>);

#[derive(Debug)]
struct Table {
    requests: KeptRequestRecords,
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
        Ok(self.0.batch(0)?.iter().map(Column::name).collect())
    }

    /// Returns an `ArrowArrayStream` in a capsule that releases it if it is not consumed. Without requests, it has one
    /// empty batch.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let count = self.0.requests.kept().len().div_ceil(BATCH).max(1);
        let table = self.0.clone();
        capsule(py, self.0.batch(0)?, (0..count).map(move |place| table.batch(place)))
    }
}

impl Requests {
    /// Returns the kept requests of a run, with a column for each stage in which any of them spent time.
    pub fn of(requests: KeptRequestRecords, outcome: &Outcome) -> Requests {
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

impl Table {
    /// Returns a batch with its columns.
    fn batch(&self, place: usize) -> PyResult<Batch> {
        let requests: Vec<&KeptRequestRecord> = self.requests.kept().iter().skip(place * BATCH).take(BATCH).collect();
        let counts =
            |of: fn(&KeptRequestRecord) -> u64| Values::Counts(requests.iter().map(|request| of(request)).collect());
        let ns = |of: &dyn Fn(&KeptRequestRecord) -> f64| {
            Values::Numbers(requests.iter().map(|request| of(request)).collect())
        };
        let mut columns = vec![
            (String::from("number"), counts(|it| it.number)),
            (String::from("job"), Values::texts(requests.iter().map(|it| self.jobs[it.job].as_str()))?),
            (String::from("direction"), Values::texts(requests.iter().map(|it| it.io.op.name()))?),
            (String::from("offset"), counts(|it| it.io.offset)),
            (String::from("bytes"), counts(|it| it.io.bytes.into())),
            (String::from("issued_ns"), ns(&|it| it.wanted.as_ns())),
            (String::from("latency_ns"), ns(&|it| it.done.since(it.wanted).as_ns())),
        ];
        let stages = self.stages.iter();
        columns.extend(stages.map(|(stage, name)| (name.clone(), ns(&|it| it.stages.get(*stage).as_ns()))));
        let columns = columns.into_iter().map(|(name, values)| Ok(Column::new(CString::new(name)?, values, None)));
        columns.collect::<PyResult<Vec<_>>>().map(Arc::new)
    }
}
