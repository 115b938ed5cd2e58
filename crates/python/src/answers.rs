//! Answers of verbs for Python: a question as JSON in, the answer as document, text and page out.

use std::sync::atomic::Ordering;

use phaselink_core::media::ecc::SectorCodec;
use phaselink_core::problem::Problems;
use phaselink_studies::breakeven::BreakEvenQuestion;
use phaselink_studies::ecc::{EccQuestion, EccTask};
use phaselink_studies::endurance::EnduranceQuestion;
use phaselink_studies::report::{Answer, Table, read_question};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::drive::Drive;
use crate::input;
use crate::interrupt::interruptible;

/// JSON document, text and HTML page of an answer; no page if the verb has none.
pub(crate) type Renderings = (String, String, Option<String>);

/// Width of the text of an answer in columns, which is that of the program's output into a file.
const COLUMNS: usize = 100;

/// Returns the renderings of an answer.
pub(crate) fn rendered(answer: &impl Answer) -> Renderings {
    (answer.document().to_string(), answer.text().within(COLUMNS, str::to_owned, Table::to_string), answer.page())
}

/// Answers a question of `breakeven`.
///
/// # Errors
/// Everything in the question that makes no sense.
#[pyfunction]
pub(crate) fn breakeven(py: Python<'_>, question: &str) -> PyResult<Renderings> {
    let answered = || Ok(rendered(&read_question::<BreakEvenQuestion>(question)?.answer()?));
    py.detach(answered).map_err(|problems: Problems| input::error(py, &problems))
}

/// Answers a question of `endurance` about the memory of a drive.
///
/// # Errors
/// Everything in the question that does not suit the drive.
#[pyfunction]
pub(crate) fn endurance(py: Python<'_>, drive: &Drive, question: &str) -> PyResult<Renderings> {
    let answered = || Ok(rendered(&read_question::<EnduranceQuestion>(question)?.answer(drive.0.drive())?));
    py.detach(answered).map_err(|problems: Problems| input::error(py, &problems))
}

/// Answers a question of `ecc`, on all processors.
///
/// # Errors
/// Everything in the question that makes no sense; what a signal handler raises.
#[pyfunction]
pub(crate) fn ecc(py: Python<'_>, question: &str) -> PyResult<Renderings> {
    let answered = interruptible(py, |stopped| -> Result<Renderings, Problems> {
        let question: EccQuestion = read_question(question)?;
        let codec = SectorCodec::new();
        let run = |task: &EccTask| (!stopped.load(Ordering::Relaxed)).then(|| task.run(&codec));
        let results: Vec<_> = question.tasks()?.par_iter().filter_map(run).collect();
        Ok(rendered(&question.answer(&results)))
    })?;
    answered.map_err(|problems| input::error(py, &problems))
}
