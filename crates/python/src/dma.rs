//! DMA transfers of devices that only read and write host memory, for Python.

use std::result::Result;

use phaselink_core::dma::{self, Question};
use phaselink_core::drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_studies::dma::{Measured, document};
use phaselink_studies::report::headed;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::input::{self, Options};
use crate::interrupt::interruptible;

/// Transfers to measure, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TransferQuestion {
    /// Name of a shipped device, or of a file.
    device: String,
    /// Text of the file.
    text: Option<String>,
    overrides: Vec<String>,
    sizes: Vec<String>,
    options: Options,
    seed: u64,
}

/// Measures transfers of some sizes, on all processors, and returns the document that `phaselink dma --json` prints.
///
/// # Errors
/// Everything that makes no sense; what a signal handler raises, once the running sizes are done.
#[pyfunction]
pub(crate) fn transfers(py: Python<'_>, question: TransferQuestion) -> PyResult<String> {
    let TransferQuestion { device, text, overrides, sizes, options, seed } = question;
    let ran = interruptible(py, |stopped| -> Result<String, Problems> {
        let device = described(&device, text.as_deref(), &overrides)?;
        let questions = questions(&sizes, &options, &device)?;
        let measure = |question: &Question| match stopped.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(Problems(Vec::new())),
            false => Measured::of(question, &device, seed),
        };
        let measured = all(questions.par_iter().map(measure).collect::<Vec<_>>())?;
        Ok(headed("dma", document(seed, &device, &measured)).to_string())
    })?;
    ran.map_err(|problems| input::error(py, &problems))
}

fn described(device: &str, text: Option<&str>, overrides: &[String]) -> Result<drive::Drive, Problems> {
    let (file, text) = match (text, shipped::find_device(device)) {
        (Some(text), _) => (device, text),
        (None, Some(shipped)) => (shipped.file, shipped.text),
        (None, None) => return Err(shipped::unknown_device(device).into()),
    };
    drive::Drive::device_from_files(file, text, &input::overrides(overrides)?, input::text)
}

/// Returns the measurement to simulate for each transfer size.
fn questions(sizes: &[String], options: &Options, device: &drive::Drive) -> Result<Vec<Question>, Problems> {
    let question = Question::from_option_texts(options)?;
    let sizes = all(sizes.iter().map(|text| {
        let allowed = || format!("bytes from 1 to {}, or a range of them as in 8..2048", dma::BYTES_MAX);
        dma::sizes(text).ok_or_else(|| Problems::from(Problem::new("dma", None, format!("size is {text}"), allowed())))
    }))?;
    all(sizes.into_iter().flatten().map(|bytes| {
        let question = Question { bytes, ..question };
        question.check(device).map(|()| question)
    }))
}
