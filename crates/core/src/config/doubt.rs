//! Uncertain constants: assumed because no source gives them, or fitted so that a published result comes out.
//!
//! A preset or a drive lists them, each with the range of possible values and the reason for value and range.
//! Sensitivity analysis sets a constant to the ends of its range; prediction intervals are drawn from the ranges.

use super::section::{any, section};

section! {
    /// Constant of the model whose value is uncertain: its range, and the reason for value and range.
    pub struct UncertainConstant ("fitted") {
        /// Full name of the uncertain constant's key; a cost of a software stage is written
        /// `stack.stages.NAME.submit_ns`
        key => key: String = String::new(), any();
        /// Reason for the value of the uncertain constant: the result to which it was fitted, or why it is assumed, and
        /// the source of its range
        why => why: String = String::new(), any();
        /// Smallest possible value of the uncertain constant, in its key's unit
        low => low: f64 = 0.0, any();
        /// Largest possible value of the uncertain constant, in its key's unit; if `low` and `high` are both 0, the
        /// range is the value plus and minus a tenth
        high => high: f64 = 0.0, any();
        /// Alternative value, as `--set` accepts it, of an uncertain constant that is a choice rather than a number in
        /// a range
        instead => instead: String = String::new(), any();
    }
}

/// Reason why the value of a constant is uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UncertaintyCause {
    /// Value is assumed, because no source gives it.
    Assumed,
    /// Value was fitted so that a published result comes out.
    Fitted,
}

/// Half width of the range of an uncertain constant that has no range of its own, as a fraction of its value.
pub(crate) const SHARE_WITHOUT_RANGE: f64 = 0.1;

impl UncertainConstant {
    /// True if the constant is a number in a range; false if it is a choice.
    pub fn is_range(&self) -> bool {
        self.instead.is_empty()
    }

    /// Returns the lowest and the highest possible value of the constant, given its current value.
    pub fn range(&self, value: f64) -> (f64, f64) {
        match (self.low, self.high) {
            (0.0, 0.0) => (value * (1.0 - SHARE_WITHOUT_RANGE), value * (1.0 + SHARE_WITHOUT_RANGE)),
            range => range,
        }
    }
}
