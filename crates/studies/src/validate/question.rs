//! Question of `validate`: sources of measurements that are compared with the model's values.

use serde::Deserialize;

use super::{MeasurementSet, SourcePlan, Validation};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::spelling;

/// Question of `validate`: how near does the model come to measurements of real machines?
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidateQuestion {
    /// Short names of the sources of measurements; all sources if there are none.
    pub sources: Vec<String>,
    /// Number of measurements with the largest errors that the text lists for each source.
    pub worst: usize,
}

impl Default for ValidateQuestion {
    fn default() -> ValidateQuestion {
        ValidateQuestion { sources: Vec::new(), worst: 5 }
    }
}

impl ValidateQuestion {
    /// Returns the runs that predict the measurements of the question's sources.
    ///
    /// # Errors
    /// Unknown sources, and errors of [`Validation::prepare`].
    pub fn study(&self, set: &MeasurementSet) -> Result<Validation, Problems> {
        let validation = Validation::prepare(&set.measurements, &self.plans(set)?)?;
        Ok(match &set.calibration {
            Some(calibration) => validation.with_calibration(calibration),
            None => validation,
        })
    }

    /// Returns the plans of the question's sources.
    ///
    /// # Errors
    /// Unknown sources.
    pub fn plans(&self, set: &MeasurementSet) -> Result<Vec<SourcePlan>, Problems> {
        let known = set.sources();
        let unknown = self.sources.iter().filter(|name| !known.contains(&name.as_str())).map(|name| {
            let meant = spelling::question(spelling::nearest(&name.to_uppercase(), known.iter().copied()));
            Problem::new("command line", None, format!("there is no source `{name}`{meant}"), known.join(", "))
        });
        let problems = Problems(unknown.collect());
        let is_chosen = |plan: &&SourcePlan| self.sources.is_empty() || self.sources.contains(&plan.source);
        problems.or(set.plans.iter().filter(is_chosen).cloned().collect())
    }
}
