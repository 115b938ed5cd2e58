//! Named experiments and closed forms of a plan, which expressions read.

use super::plan_form::ClosedFormValue;

/// Named experiment of a plan, or a closed form: one run or value, or one for each swept value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanExperiment {
    /// Name of the experiment or form, by which expressions refer to it.
    pub name: String,
    /// Indices of the experiment's runs in the plan's list of runs; empty for a closed form.
    pub runs: Vec<usize>,
    /// Values of a closed form; empty for an experiment that runs.
    pub forms: Vec<ClosedFormValue>,
    /// Swept values, one for each run or value of a form; `None` if nothing is swept.
    pub swept: Option<Vec<f64>>,
}

impl PlanExperiment {
    /// True if this is a closed form, which needs no run.
    pub(super) fn is_closed_form(&self) -> bool {
        !self.forms.is_empty()
    }
}
