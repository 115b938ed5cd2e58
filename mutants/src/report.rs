//! What came out: a line for each mutant, the score of each area, a table to keep.

use crate::equivalents::Equivalents;
use crate::list::{AREAS, Mutant};
use crate::trial::Outcome;

/// Progress.
pub(crate) fn line(mutant: &Mutant, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused => format!("refused   {}", mutant.name),
        Outcome::Skipped => format!("skipped   {}", mutant.name),
        Outcome::Killed { by } => format!("killed    {}  by {by}", mutant.name),
        Outcome::Survived { tests } => format!("SURVIVED  {}  ({tests} tests reach it)", mutant.name),
    }
}

/// Of each area and of all: drawn, compiled, killed, equivalent, left; and the score, which is killed of compiled.
pub(crate) fn score(outcomes: &[(Mutant, Outcome)], equivalents: &Equivalents) -> String {
    let areas = AREAS.iter().map(|(area, _)| {
        let of_area: Vec<_> = outcomes.iter().filter(|(mutant, _)| mutant.area() == Some(*area)).collect();
        row(area, &of_area, equivalents)
    });
    let head = format!(
        "{:<14}{:>6}{:>10}{:>8}{:>12}{:>6}{:>9}\n",
        "area", "drawn", "compiled", "killed", "equivalent", "left", "score"
    );
    head + &areas.collect::<String>() + &row("all", &outcomes.iter().collect::<Vec<_>>(), equivalents)
}

fn row(name: &str, outcomes: &[&(Mutant, Outcome)], equivalents: &Equivalents) -> String {
    let compiled =
        outcomes.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Refused | Outcome::Skipped)).count();
    let killed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Killed { .. })).count();
    let is_survivor = |outcome: &Outcome| matches!(outcome, Outcome::Survived { .. });
    let explained =
        |(mutant, outcome): &&&(Mutant, Outcome)| is_survivor(outcome) && equivalents.reason(mutant).is_some();
    let equivalent = outcomes.iter().filter(explained).count();
    let (left, score) = (compiled - killed - equivalent, 100.0 * killed as f64 / compiled.max(1) as f64);
    format!("{name:<14}{:>6}{compiled:>10}{killed:>8}{equivalent:>12}{left:>6}{score:>8.1}%\n", outcomes.len())
}

/// The survivors for which there is no reason.
pub(crate) fn unexplained<'a>(outcomes: &'a [(Mutant, Outcome)], equivalents: &Equivalents) -> Vec<&'a Mutant> {
    let is_left = |(mutant, outcome): &&(Mutant, Outcome)| {
        matches!(outcome, Outcome::Survived { .. }) && equivalents.reason(mutant).is_none()
    };
    outcomes.iter().filter(is_left).map(|(mutant, _)| mutant).collect()
}

/// One line a mutant, with a tab before what became of it.
pub(crate) fn table(outcomes: &[(Mutant, Outcome)]) -> String {
    let cell = |outcome: &Outcome| match outcome {
        Outcome::Refused => String::from("does not compile"),
        Outcome::Skipped => String::from("not tried"),
        Outcome::Killed { by } => format!("killed by {by}"),
        Outcome::Survived { .. } => String::from("survives"),
    };
    outcomes.iter().map(|(mutant, outcome)| format!("{}\t{}\n", mutant.name, cell(outcome))).collect()
}

/// Who killed a mutant, says such a table.
pub(crate) fn killer<'a>(table: &'a str, mutant: &Mutant) -> Option<&'a str> {
    let mut lines = table.lines().filter_map(|line| line.split_once('\t'));
    let (_, became) = lines.find(|(name, _)| *name == mutant.name)?;
    became.strip_prefix("killed by ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Vec<(Mutant, Outcome)> {
        let place = (1, 1)..(1, 2);
        let file = String::from("crates/core/src/link/wire.rs");
        let mutant = |name: &str| Mutant {
            name: name.into(),
            file: file.clone(),
            function: place.clone(),
            span: place.clone(),
            replacement: String::new(),
            returns: String::new(),
        };
        vec![
            (mutant("a"), Outcome::Killed { by: "p lib: t".into() }),
            (mutant("b"), Outcome::Survived { tests: 3 }),
            (mutant("c"), Outcome::Survived { tests: 0 }),
            (mutant("d"), Outcome::Refused),
        ]
    }

    #[test]
    fn the_score_is_what_is_killed_of_what_compiles() {
        let score = score(&outcomes(), &Equivalents::parse("c\n    For no one.\n").unwrap());
        let rows: Vec<Vec<&str>> = score.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[3], ["link", "4", "3", "1", "1", "1", "33.3%"]);
        assert_eq!(rows[5], ["all", "4", "3", "1", "1", "1", "33.3%"]);
    }

    #[test]
    fn survivors_without_a_reason_are_left() {
        let left = unexplained(&outcomes(), &Equivalents::parse("c\n    For no one.\n").unwrap()).len();
        assert_eq!((left, unexplained(&outcomes(), &Equivalents::default()).len()), (1, 2));
    }

    #[test]
    fn a_table_names_who_killed_whom() {
        let (outcomes, expected) =
            (outcomes(), "a\tkilled by p lib: t\nb\tsurvives\nc\tsurvives\nd\tdoes not compile\n");
        assert_eq!(table(&outcomes), expected);
        assert_eq!(killer(expected, &outcomes[0].0), Some("p lib: t"));
        assert_eq!(killer(expected, &outcomes[1].0), None);
    }
}
