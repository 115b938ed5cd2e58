//! Replays of recorded applications on other drives, for Python.

use std::result::Result;
use std::sync::atomic::Ordering;

use phaselink_core::drive_file::{Described, KeyOverride};
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::trace::{self, File, Format, TraceSelection};
use phaselink_studies::report::read_question;
use phaselink_studies::whatif::{RecordedDrive, Recording, WhatIfQuestion};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::answers::{Renderings, rendered};
use crate::drive::Drive;
use crate::input;
use crate::interrupt::{Progress, watched};

/// Drive of the machine on which an application was recorded: a drive, or the word `instant`.
#[derive(FromPyObject)]
pub(crate) enum RecordedOn {
    Drive(Py<Drive>),
    Word(String),
}

/// Recording of an application: name and content of its trace, and device and format to choose.
type RecordedTrace = (String, Vec<u8>, Option<String>, Option<String>);

/// Answers a question of `whatif` for some drives, first the one that the application uses now.
///
/// # Errors
/// Everything in the question that makes no sense; what a signal handler raises.
#[pyfunction]
#[pyo3(signature = (drives, recording, recorded_on, question, progress))]
pub(crate) fn whatif(
    py: Python<'_>,
    drives: Vec<Py<Drive>>,
    recording: RecordedTrace,
    recorded_on: Option<RecordedOn>,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Renderings> {
    let ready = || -> Result<_, Problems> {
        let question: WhatIfQuestion = read_question(question)?;
        let (file, bytes, device, format) = &recording;
        let selection = TraceSelection { device: device.clone(), format: format.as_deref().map(named).transpose()? };
        let trace = trace::read(&[File::in_memory(file, bytes)], &selection)?;
        let drive = match &recorded_on {
            None => RecordedDrive::Now,
            Some(RecordedOn::Word(word)) if word == "instant" => RecordedDrive::Instant,
            Some(RecordedOn::Word(word)) => {
                let found = format!("recorded_on is `{word}`");
                return Err(Problem::new("arguments", None, found, "a drive, or `instant`").into());
            }
            Some(RecordedOn::Drive(drive)) => {
                let stack = question.stack.first().map_or("", String::as_str);
                RecordedDrive::Other(Box::new(on_stack(std::slice::from_ref(drive), stack)?.remove(0)))
            }
        };
        question.study(Recording { file, trace: &trace, drive }, |stack| on_stack(&drives, stack))
    };
    let study = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, study.simulations());
    let answer = watched(py, &progress, |stopped| {
        study.answer(&|count, replay| {
            (0..count).into_par_iter().filter(|_| !stopped.load(Ordering::Relaxed)).for_each(|place| {
                replay(place);
                progress.advance();
            });
        })
    })?;
    // Replays are left out only after an exception, which `watched` has returned.
    Ok(answer.as_ref().map(rendered).unwrap_or_default())
}

fn named(word: &str) -> Result<Format, Problem> {
    Format::named(word).ok_or_else(|| {
        let names = Format::ALL.map(Format::word).join(", ");
        Problem::new("arguments", None, format!("there is no trace_format `{word}`"), names)
    })
}

/// Returns the drives with a software stack. A drive whose interface takes no I/O engines may keep its own.
fn on_stack(drives: &[Py<Drive>], stack: &str) -> Result<Vec<Described>, Problems> {
    let given = KeyOverride::parse_override_given_as(&format!("stack {stack}"), &format!("stack.preset={stack}"))?;
    let read: Vec<_> = drives.iter().map(|drive| drive.get().0.with(std::slice::from_ref(&given))).collect();
    let is_known = read.iter().any(Result::is_ok);
    all(read.into_iter().zip(drives).map(|(read, drive)| {
        let own = &drive.get().0;
        let keeps_own = is_known && !own.drive().protocol().takes_engines();
        read.or_else(|problems| if keeps_own { Ok(own.clone()) } else { Err(problems) })
    }))
}
