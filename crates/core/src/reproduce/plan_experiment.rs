//! Named experiments of a plan, which expressions read.

/// A named experiment of a plan: one run, or one for each swept value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanExperiment {
    /// Name by which expressions refer to it.
    pub name: String,
    /// Indices of its runs in the list of the plan; never empty.
    pub runs: Vec<usize>,
    /// Swept values, as many as runs; `None` if it sweeps nothing.
    pub swept: Option<Vec<f64>>,
}
