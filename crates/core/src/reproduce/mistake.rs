//! Mistakes in expressions of a plan, for all files that read expressions.

use crate::spelling;

/// A mistake in an expression, in the two halves of a [`crate::problem::Problem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Text that says what was found.
    pub found: String,
    /// Text that says what is allowed.
    pub allowed: String,
}

impl Mistake {
    /// Makes a mistake of what was found and what is allowed.
    pub(super) fn new(found: impl Into<String>, allowed: impl Into<String>) -> Mistake {
        Mistake { found: found.into(), allowed: allowed.into() }
    }

    /// Makes the mistake of a name that is not among `known`, which it lists by descending similarity.
    pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Mistake {
        let known = spelling::most_alike_first(name, known);
        let meant = spelling::question(spelling::nearest(name, known.iter().copied()));
        Mistake::new(format!("unknown {what} `{name}`{meant}"), known.join(", "))
    }
}
