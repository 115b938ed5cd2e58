//! Dependence of each row of a reproduction on uncertain constants, as found by moving the constants: `depends_on.csv`.
//!
//! Each assumed or fitted constant is set to both ends of its range (or to its alternative value), one at a time and
//! with nothing else adjusted. The experiments whose drives have the constant are run again, as far as it can change a
//! row that has not moved yet. A row depends on the constant if its value moves by more than [`MOVED_SHARE`] of itself,
//! or by half of its tolerance if that is less. A statement depends on it if it ceases to hold or begins to. As this
//! takes minutes for each paper, the result is kept in a file.
//!
//! | column | holds |
//! |---|---|
//! | `id` | the row; `*` for the list of all constants that were moved |
//! | `fitted` | fitted constants that move the row, separated by blanks |
//! | `assumed` | assumed constants that move the row, separated by blanks |

use std::collections::{BTreeMap, BTreeSet};

use super::expected::fields;
use crate::report::csv;
use phaselink_core::config::UncertaintyCause;
use phaselink_core::problem::{Problem, Problems};

/// Share of its value by which a row has to move to count as dependent. It is half of the smallest tolerance of a
/// measured number, so that a smaller movement cannot decide a verdict alone.
pub const MOVED_SHARE: f64 = 0.01;

const HEAD: &str = "id,fitted,assumed";
/// Word in the column `id` that stands for the list of all constants that were moved.
const ALL: &str = "*";
/// Character that stands for a blank in a stage's name, because blanks separate the keys of a list.
const BLANK: char = '+';

/// Uncertain constants on which the simulated value of one published result depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResultDependence {
    /// Keys of the fitted constants on which the result depends.
    pub fitted: Vec<String>,
    /// Keys of all constants on which the result depends, fitted and assumed.
    pub depends_on: Vec<String>,
}

/// Uncertain constants on which the simulated value of each published result of a paper depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    rows: BTreeMap<String, BTreeSet<(UncertaintyCause, String)>>,
}

impl Dependence {
    /// Reads the text that [`Dependence::to_csv`] writes; `file` is its name for messages.
    ///
    /// # Errors
    /// Lines that are not of this form.
    pub fn parse(file: &str, text: &str) -> Result<Dependence, Problems> {
        let mut dependence = Dependence::default();
        let mut problems = Problems::default();
        for (number, line) in text.lines().enumerate() {
            let read = match number {
                0 => (line == HEAD).then_some(()),
                _ => fields(line).ok().and_then(|fields| dependence.take(fields)),
            };
            if read.is_none() {
                problems.0.push(Problem::new(file, Some(number + 1), format!("`{line}`"), HEAD));
            }
        }
        problems.or(dependence)
    }

    fn take(&mut self, fields: Vec<String>) -> Option<()> {
        let [id, fitted, assumed] = <[String; 3]>::try_from(fields).ok()?;
        let keys = |text: &str| text.split_whitespace().map(|key| key.replace(BLANK, " ")).collect::<Vec<_>>();
        let fitted = keys(&fitted).into_iter().map(|key| (UncertaintyCause::Fitted, key));
        let assumed = keys(&assumed).into_iter().map(|key| (UncertaintyCause::Assumed, key));
        self.rows.insert(id, fitted.chain(assumed).collect());
        Some(())
    }

    /// Records that a constant was set to other values, and the ids of the published results whose simulated values
    /// changed with it.
    pub fn note<'a>(&mut self, cause: UncertaintyCause, key: &str, rows: impl IntoIterator<Item = &'a str>) {
        for id in std::iter::once(ALL).chain(rows) {
            self.rows.entry(String::from(id)).or_default().insert((cause, String::from(key)));
        }
    }

    /// Returns all constants that were set to other values, each with the reason of its uncertainty.
    pub fn constants(&self) -> BTreeSet<(UncertaintyCause, String)> {
        self.rows.get(ALL).cloned().unwrap_or_default()
    }

    /// Returns the dependences as CSV: one line for the list of all moved constants and for each row that depends on
    /// any, in the order of ids.
    pub fn to_csv(&self) -> String {
        let line = |(id, keys): (&String, &BTreeSet<(UncertaintyCause, String)>)| {
            let list = |cause: UncertaintyCause| {
                let keys =
                    keys.iter().filter(|(of, _)| *of == cause).map(|(_, key)| key.replace(' ', &String::from(BLANK)));
                csv::quoted(keys.collect::<Vec<_>>().join(" "))
            };
            format!("{id},{},{}\n", list(UncertaintyCause::Fitted), list(UncertaintyCause::Assumed))
        };
        format!("{HEAD}\n{}", self.rows.iter().map(line).collect::<String>())
    }

    pub(super) fn of(&self, id: &str) -> ResultDependence {
        let Some(keys) = self.rows.get(id) else { return ResultDependence::default() };
        let fitted = keys.iter().filter(|(cause, _)| *cause == UncertaintyCause::Fitted);
        let mut depends_on: Vec<String> = keys.iter().map(|(_, key)| key.clone()).collect();
        depends_on.sort();
        depends_on.dedup();
        ResultDependence { fitted: fitted.map(|(_, key)| key.clone()).collect(), depends_on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependence_reads_back_from_its_csv() {
        let mut noted = Dependence::default();
        noted.note(UncertaintyCause::Fitted, "link.one_way_ns", ["A", "B"]);
        noted.note(UncertaintyCause::Assumed, "stack.stages.I/O scheduler.submit_ns", ["B"]);
        noted.note(UncertaintyCause::Assumed, "media.read_ns", []);
        noted.note(UncertaintyCause::Assumed, "stack.stages.call (\"read\", guarded).submit_ns", ["D"]);
        let text = noted.to_csv();
        assert!(text.contains("B,link.one_way_ns,stack.stages.I/O+scheduler.submit_ns\n"), "{text}");
        let read = Dependence::parse("f", &text).unwrap();
        assert_eq!(read, noted);
        assert_eq!(read.constants().len(), 4);
        assert_eq!(read.of("A").fitted, ["link.one_way_ns"]);
        assert_eq!(read.of("B").depends_on.len(), 2);
        assert_eq!(read.of("C"), ResultDependence::default());
    }

    #[test]
    fn malformed_dependence_line_is_refused_with_its_line_number() {
        let problems = Dependence::parse("f", "id,fitted,assumed\nA,b\n").unwrap_err();
        assert_eq!(problems.0[0].line, Some(2));
        assert!(Dependence::parse("f", "id\n").is_err());
    }
}
