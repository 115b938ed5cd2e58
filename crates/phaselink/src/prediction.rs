//! Predictions in closed form.

use std::fmt;

use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::predict as forms;

use crate::drive::Drive;
use crate::job::Job;

/// Prediction of a job on a drive. Displayed, it is the text of `phaselink predict`.
#[derive(Debug)]
pub struct Prediction(forms::Prediction);

/// Predicts latency and throughput of a job in closed form, with the limit that each resource of the drive sets.
///
/// # Errors
/// All problems of the job, and what the drive cannot run.
pub fn predict(drive: &Drive, job: &Job) -> Result<Prediction, Problems> {
    Ok(Prediction(forms::predict(drive.model(), &job.on(drive)?)))
}

impl Prediction {
    /// Returns a figure by name: `alone_ns` (a lone request), `iops_max`, `bytes_per_s_max`, `mean_ns_min` (bounds under
    /// the job's load), `saturation_depth`. None without a closed form for it.
    ///
    /// # Errors
    /// If no figure has this name.
    pub fn figure(&self, name: &str) -> Result<Option<f64>, Problems> {
        let figures = self.0.figures();
        let found = figures.iter().find(|(figure, _)| figure.as_str() == name).map(|(_, value)| *value);
        let names = || figures.iter().map(|(figure, _)| figure.as_str()).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| Problem::new("figure", None, format!("no figure {name}"), names()).into())
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&forms::text(&self.0))
    }
}
