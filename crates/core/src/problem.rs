//! What is wrong with an input: every problem at once, each with its place and what is allowed.

use std::fmt;

/// One mistake in a drive file, job file, trace or command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File name, or what stands for it (`--set`, `command line`).
    pub file: String,
    /// Line in it, counted from 1, if the place is known.
    pub line: Option<usize>,
    /// What was found.
    pub found: String,
    /// What is allowed there, as the end of "allowed: …"; empty if the finding says it all.
    pub allowed: String,
}

/// All mistakes of an input, in file order. Never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// A problem at a known or unknown line of `file`.
    pub fn new(
        file: impl Into<String>,
        line: impl Into<Option<usize>>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Problem {
        Problem { file: file.into(), line: line.into(), found: found.into(), allowed: allowed.into() }
    }
}

impl Problems {
    /// `Ok(value)` if nothing is wrong, otherwise all problems.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problem {
    /// `drive.toml:12: found; allowed: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.found)?;
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", self.allowed)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A condition between keys that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Full names of the keys involved.
    pub keys: &'static [&'static str],
    pub found: String,
    pub allowed: String,
}

impl Broken {
    /// The condition, if it is broken.
    pub(crate) fn when(
        is_broken: bool,
        keys: &'static [&'static str],
        found: impl FnOnce() -> String,
        allowed: impl FnOnce() -> String,
    ) -> Option<Broken> {
        is_broken.then(|| Broken { keys, found: found(), allowed: allowed() })
    }
}
