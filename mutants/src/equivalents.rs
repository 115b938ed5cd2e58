//! Mutants that no test can kill, because they change nothing that anybody could see: which, and why.

use std::collections::BTreeMap;

use crate::list::Mutant;
use crate::trial::Outcome;

/// The reason of each, by name.
#[derive(Debug, Default)]
pub(crate) struct Equivalents(BTreeMap<String, String>);

impl Equivalents {
    /// A name begins its line; the reason follows on lines that are indented. `#` begins a comment.
    pub(crate) fn parse(text: &str) -> Result<Equivalents, String> {
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        let mut name = None;
        for (line, content) in (1..).zip(text.lines()) {
            match (content.strip_prefix("    "), &name) {
                _ if content.trim().is_empty() || content.starts_with("# ") => {}
                (Some(reason), Some(name)) => {
                    let reasons = reasons.entry(String::clone(name)).or_default();
                    reasons.push_str(if reasons.is_empty() { "" } else { " " });
                    reasons.push_str(reason.trim());
                }
                (Some(_), None) => return Err(format!("line {line}: a reason without a mutant before it")),
                (None, _) => name = Some(String::from(content.trim_end())),
            }
        }
        Ok(Equivalents(reasons))
    }

    pub(crate) fn reason(&self, mutant: &Mutant) -> Option<&str> {
        self.0.get(&mutant.name).map(String::as_str)
    }

    /// What is listed and is not there any more.
    pub(crate) fn gone(&self, all: &[Mutant]) -> Vec<String> {
        let is_gone = |name: &&String| !all.iter().any(|mutant| mutant.name == **name);
        self.0
            .keys()
            .filter(is_gone)
            .map(|name| format!("listed as equivalent, but there is no such mutant: {name}"))
            .collect()
    }

    /// What is listed, and yet is killed.
    pub(crate) fn killed(&self, outcomes: &[(Mutant, Outcome)]) -> Vec<String> {
        let killed = outcomes.iter().filter_map(|(mutant, outcome)| match outcome {
            Outcome::Killed { by } => self.reason(mutant).map(|_| (mutant, by)),
            _ => None,
        });
        killed.map(|(mutant, by)| format!("listed as equivalent, but killed by {by}: {}", mutant.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# Reasons\n\na.rs: replace + with - in f\n    Because\n    of that.\nb.rs: delete ! in g\n    For this.\n";

    fn mutant(name: &str) -> Mutant {
        let place = (1, 1)..(1, 2);
        let (file, replacement, returns) = (String::from("a.rs"), String::new(), String::new());
        Mutant { name: name.into(), file, function: place.clone(), span: place, replacement, returns }
    }

    #[test]
    fn each_mutant_has_its_reason() {
        let list = Equivalents::parse(LIST).unwrap();
        assert_eq!(list.reason(&mutant("a.rs: replace + with - in f")), Some("Because of that."));
        assert_eq!(list.reason(&mutant("a.rs: replace + with - in f #2")), None);
        assert!(Equivalents::parse("    a reason\n").unwrap_err().contains("line 1"));
    }

    #[test]
    fn what_is_gone_or_killed_is_told() {
        let list = Equivalents::parse(LIST).unwrap();
        let there = [mutant("a.rs: replace + with - in f")];
        assert_eq!(list.gone(&there), ["listed as equivalent, but there is no such mutant: b.rs: delete ! in g"]);
        let [there] = there;
        let killed = list.killed(&[(there, Outcome::Killed { by: "p lib: t".into() })]);
        assert_eq!(killed, ["listed as equivalent, but killed by p lib: t: a.rs: replace + with - in f"]);
    }
}
