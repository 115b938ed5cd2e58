//! Answer of `breakeven` as one type: the JSON document, from which text and page are made.

use schemars::JsonSchema;
use serde::Serialize;

use super::{BreakEven, BreakEvenInputs, BreakEvenQuestion, Description, sensitivity};
use crate::results::documents::ByName;

/// Relative growth of each price or rate in `change_by_tenth_more`.
const GROWTH: f64 = 0.1;

/// JSON document of `phaselink breakeven`: times between accesses from which on blocks cost less on a drive than in
/// memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BreakEvenAnswer {
    /// Break-even times, one for each block size.
    pub times: Vec<BreakEven>,
    /// Relative change of the first break-even time if an input grows by a tenth, by the name of the input, the largest
    /// change first. Inputs without effect are left out.
    pub change_by_tenth_more: ByName<f64>,
    /// Prices and rates from which the break-even times are computed.
    pub description: BreakEvenInputs,
    /// Question, which selects the tables of the text.
    #[serde(skip)]
    pub(super) question: BreakEvenQuestion,
}

impl BreakEvenAnswer {
    /// Collects the answer to a question from the break-even times of its description.
    pub(super) fn new(
        question: &BreakEvenQuestion,
        description: &Description,
        times: Vec<BreakEven>,
    ) -> BreakEvenAnswer {
        let bytes = times.first().map_or(1, |time| time.block_bytes);
        let changes = sensitivity(description, bytes, GROWTH);
        BreakEvenAnswer {
            times,
            change_by_tenth_more: ByName(changes.into_iter().map(|(name, by)| (name.into(), by)).collect()),
            description: BreakEvenInputs::from(description),
            question: question.clone(),
        }
    }
}
