//! What breaks a law for a physical reason.

use std::fmt;

use super::laws::Finding;

/// An exception.
struct LawException {
    law: String,
    /// Drive and part, or `*` for any; and words of the case, all of which must be in it.
    drive: String,
    part: String,
    with: Vec<String>,
    at_most: f64,
}

/// All of them.
pub(super) struct LawExceptions(Vec<LawException>);

impl LawExceptions {
    /// Those of the file.
    pub(super) fn shipped() -> LawExceptions {
        let text = include_str!("exceptions.toml");
        let table: toml::Table = text.parse().unwrap_or_else(|problem| panic!("{problem}"));
        let list = table["exception"].as_array().expect("a list");
        LawExceptions(list.iter().map(|entry| exception(entry.as_table().expect("a table"))).collect())
    }

    /// What the exceptions make of these findings.
    pub(super) fn judge(&self, findings: &[Finding]) -> LawJudgement {
        let mut uses = vec![ExceptionUse::default(); self.0.len()];
        let mut unexplained = Vec::new();
        for finding in findings {
            let Some(place) = self.0.iter().position(|known| known.explains(finding)) else {
                unexplained.push(finding.to_string());
                continue;
            };
            uses[place].findings += 1;
            uses[place].largest = uses[place].largest.max(finding.by);
        }
        let names = self.0.iter().map(|known| known.to_string());
        LawJudgement { unexplained, uses: names.zip(uses).collect() }
    }
}

/// Findings as the exceptions see them.
pub(super) struct LawJudgement {
    /// Those that none explains, as text.
    pub unexplained: Vec<String>,
    /// The exceptions, and what each has explained.
    uses: Vec<(String, ExceptionUse)>,
}

/// What an exception has explained: so many findings, the largest of which breaks its law by this share.
#[derive(Clone, Copy, Debug, Default)]
struct ExceptionUse {
    findings: usize,
    largest: f64,
}

impl LawJudgement {
    /// The exceptions that have explained nothing.
    pub(super) fn unused(&self) -> Vec<&str> {
        let unused = self.uses.iter().filter(|(_, used)| used.findings == 0);
        unused.map(|(exception, _)| exception.as_str()).collect()
    }
}

impl fmt::Display for LawJudgement {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        self.uses.iter().try_for_each(|(exception, ExceptionUse { findings, largest })| {
            writeln!(to, "{findings:5} findings, up to {:6.2} %: {exception}", largest * 100.0)
        })
    }
}

fn exception(entry: &toml::Table) -> LawException {
    let word = |key: &str| entry[key].as_str().expect("a text").to_string();
    assert!(word("why").len() > 40, "an exception has its physical reason");
    let with = entry.get("with").map_or(String::new(), |with| with.as_str().expect("a text").to_string());
    LawException {
        law: word("law"),
        drive: word("drive"),
        part: word("part"),
        with: with.split_whitespace().map(String::from).collect(),
        at_most: entry["at_most"].as_float().expect("a share"),
    }
}

impl LawException {
    fn explains(&self, finding: &Finding) -> bool {
        let is = |pattern: &str, found: &str| match pattern.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => pattern == found,
        };
        let words: Vec<&str> = finding.case.split_whitespace().collect();
        self.law == finding.law
            && is(&self.drive, &finding.drive)
            && is(&self.part, &finding.part)
            && self.with.iter().all(|word| words.contains(&word.as_str()))
            && finding.by <= self.at_most
    }
}

impl fmt::Display for LawException {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let LawException { law, drive, part, with, at_most } = self;
        write!(to, "{law}, {drive} [{part}] {} (at most {} %)", with.join(" "), at_most * 100.0)
    }
}
