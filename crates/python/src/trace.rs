//! Recorded steps of single requests, for Python.

use phaselink_core::ledger::trace::{Record, Step};
use phaselink_studies::stream::{self, EqualRequestStream};
use pyo3::prelude::*;

use crate::drive::Drive;
use crate::input;

/// Steps of a stream of requests.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Steps(stream::Steps);

/// Stream of requests to record, as Python passes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TraceQuestion {
    rw: String,
    bs: String,
    iodepth: String,
    skip: u64,
    requests: u64,
    seed: u64,
}

/// Records some requests out of a stream of equal ones.
///
/// # Errors
/// Everything that keeps the requests from the drive.
#[pyfunction]
pub(crate) fn trace(py: Python<'_>, drive: &Drive, question: TraceQuestion) -> PyResult<Steps> {
    let TraceQuestion { ref rw, ref bs, ref iodepth, skip, requests, seed } = question;
    let stream = EqualRequestStream { rw, bs, iodepth, skip, requests, seed };
    let recorded = py.detach(|| stream.record(drive.0.drive()));
    recorded.map(Steps).map_err(|problems| input::error(py, &problems))
}

/// Step of a request as a tuple: request, begin and end in ns, actor, activity, packets and bytes on the wire.
type Row<'a> = (Option<u64>, f64, f64, &'static str, &'a str, Option<u32>, Option<u32>);

#[pymethods]
impl Steps {
    fn ladder(&self) -> String {
        self.0.ladder()
    }

    fn perfetto(&self) -> String {
        self.0.perfetto()
    }

    /// Returns the steps of the first request, in their order.
    fn rows(slf: &Bound<'_, Self>) -> PyResult<Vec<Py<PyAny>>> {
        let (first, py) = (slf.get().0.first(), slf.py());
        let rows = first.in_order().into_iter().map(|record| Ok(row(record).into_pyobject(py)?.into_any().unbind()));
        rows.collect()
    }
}

fn row(record: &Record) -> Row<'_> {
    let (who, packets) = match &record.step {
        Step::Host(_) => ("host", None),
        Step::Device(_) => ("device", None),
        Step::Media(_) => ("media", None),
        Step::Up { packets, wire_bytes, .. } => ("wire to host", Some((*packets, *wire_bytes))),
        Step::Down { packets, wire_bytes, .. } => ("wire to device", Some((*packets, *wire_bytes))),
    };
    let (packets, wire_bytes) = packets.unzip();
    (record.request, record.from.as_ns(), record.to.as_ns(), who, record.step.name(), packets, wire_bytes)
}
