//! Named experiments and closed forms of a plan, which expressions read.

use super::plan_form::FormValue;

/// A named experiment of a plan, or a closed form: one run or value, or one for each swept value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanExperiment {
    /// Name by which expressions refer to it.
    pub name: String,
    /// Indices of its runs in the list of the plan; empty for a closed form only.
    pub runs: Vec<usize>,
    /// Values of a closed form; empty for an experiment that runs.
    pub forms: Vec<FormValue>,
    /// Swept values, as many as runs or values of a form; `None` if it sweeps nothing.
    pub swept: Option<Vec<f64>>,
}

impl PlanExperiment {
    /// True if it is a closed form, which needs no run.
    pub(super) fn is_form(&self) -> bool {
        !self.forms.is_empty()
    }
}
