//! Mistakes in expressions of a reproduction's plan, for all modules that read expressions.

use phaselink_core::spelling;

/// Mistake in an expression: what was found and what is allowed, as in a [`phaselink_core::problem::Problem`] without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpressionMistake {
    /// Text that says what was found in the expression.
    pub found: String,
    /// Text that says what is allowed in its place.
    pub allowed: String,
}

impl ExpressionMistake {
    /// Makes a mistake from the text on what was found and the text on what is allowed.
    pub(super) fn new(found: impl Into<String>, allowed: impl Into<String>) -> ExpressionMistake {
        ExpressionMistake { found: found.into(), allowed: allowed.into() }
    }

    /// Makes the mistake of a name that is not among `known`, which the message lists by descending similarity; `what`
    /// says what the name stands for.
    pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> ExpressionMistake {
        let known = spelling::by_similarity(name, known);
        let meant = spelling::question(spelling::nearest(name, known.iter().copied()));
        ExpressionMistake::new(format!("unknown {what} `{name}`{meant}"), known.join(", "))
    }
}
