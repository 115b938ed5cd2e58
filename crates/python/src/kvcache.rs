//! Key-value caches of inference servers on drives, for Python.

use std::result::Result;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::drive;
use phaselink_core::problem::Problems;
use phaselink_core::workload::trace::File;
use phaselink_studies::kvcache::{KvCacheAnswer, KvCacheQuestion};
use phaselink_studies::report::read_question;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::answers::{Renderings, rendered};
use crate::drive::Drive;
use crate::input;
use crate::interrupt::{Progress, watched};

/// Number of simulations in parallel, each of which has a copy of the drive.
const SIDE_BY_SIDE: usize = 4;

/// Answers a question of `kvcache` for some drives, with the requests of the trace `trace` (its name and content) or
/// generated ones.
///
/// # Errors
/// Everything in the question that makes no sense; what a signal handler raises.
#[pyfunction]
#[pyo3(signature = (drives, trace, question, progress))]
pub(crate) fn kvcache(
    py: Python<'_>,
    drives: Vec<Py<Drive>>,
    trace: Option<(String, Vec<u8>)>,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Renderings> {
    let drives: Vec<drive::Drive> = drives.iter().map(|drive| drive.get().0.drive().clone()).collect();
    let ready = || -> Result<_, Problems> {
        let question: KvCacheQuestion = read_question(question)?;
        let file = trace.map(|(name, bytes)| File::in_memory(name, &bytes));
        let source = question.source(file, false)?;
        question.study(source)
    };
    let study = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, drives.len() * study.simulations());
    let answered = watched(py, &progress, |stopped| -> Result<Option<KvCacheAnswer>, Problems> {
        study.answer(&drives, &|count, simulate| side_by_side(count, simulate, stopped, &progress))
    })?;
    let answer = answered.map_err(|problems| input::error(py, &problems))?;
    // Simulations are left out only after an exception, which `watched` has returned.
    Ok(answer.as_ref().map(rendered).unwrap_or_default())
}

/// Runs simulations in parallel until `stopped` is set, a few at a time.
fn side_by_side(count: usize, simulate: &(dyn Fn(usize) + Sync), stopped: &AtomicBool, progress: &Progress) {
    let places: Vec<usize> = (0..count).collect();
    for places in places.chunks(SIDE_BY_SIDE) {
        places.par_iter().filter(|_| !stopped.load(Ordering::Relaxed)).for_each(|place| {
            simulate(*place);
            progress.advance();
        });
    }
}
