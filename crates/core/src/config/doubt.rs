//! Constants in doubt: assumed where no source gives them, or fitted so that a published result comes out.
//!
//! A preset or a drive lists them, each with the range in which its value may lie and the reason for both. Dependence on
//! a constant is measured by moving it to the ends of its range, and intervals are drawn from the ranges.

use super::section::{any, section};

section! {
    /// A constant in doubt.
    pub struct Doubt ("fitted") {
        /// The key with its section; a cost of a stage as `stack.stages.NAME.submit_ns`
        key => key: String = String::new(), any();
        /// What it was fitted to, or why it is assumed so, and where the range comes from
        why => why: String = String::new(), any();
        /// Smallest value that it may have, in the key's unit
        low => low: f64 = 0.0, any();
        /// Largest; without a range (both 0) a tenth less and a tenth more than the value
        high => high: f64 = 0.0, any();
        /// For a choice that is no number in a range: the other choice, as `--set` takes it
        instead => instead: String = String::new(), any();
    }
}

/// Why a constant is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Assumed,
    /// Chosen so that a published result comes out.
    Fitted,
}

/// Share of a value by which it is moved where its doubt has no range.
pub(crate) const SHARE_WITHOUT_RANGE: f64 = 0.1;

impl Doubt {
    /// Whether it is a number in a range, rather than a choice.
    pub fn is_range(&self) -> bool {
        self.instead.is_empty()
    }

    /// Lowest and highest value, given the value in effect.
    pub fn range(&self, value: f64) -> (f64, f64) {
        match (self.low, self.high) {
            (0.0, 0.0) => (value * (1.0 - SHARE_WITHOUT_RANGE), value * (1.0 + SHARE_WITHOUT_RANGE)),
            range => range,
        }
    }
}
