//! What breaks a law for a physical reason.

use super::laws::Finding;

/// An exception.
struct Exception {
    law: String,
    /// Drive and part, or `*` for any; and words of the case, all of which must be in it.
    drive: String,
    part: String,
    with: Vec<String>,
    at_most: f64,
}

/// All of them.
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Those of the file.
    pub fn shipped() -> Exceptions {
        let text = include_str!("exceptions.toml");
        let table: toml::Table = text.parse().unwrap_or_else(|problem| panic!("{problem}"));
        let list = table["exception"].as_array().expect("a list");
        Exceptions(list.iter().map(|entry| exception(entry.as_table().expect("a table"))).collect())
    }

    /// The findings that none explains, as text.
    pub fn unexplained(&self, findings: Vec<Finding>) -> Vec<String> {
        let unexplained = findings.into_iter().filter(|finding| !self.0.iter().any(|known| known.explains(finding)));
        unexplained.map(|finding| finding.to_string()).collect()
    }
}

fn exception(entry: &toml::Table) -> Exception {
    let word = |key: &str| entry[key].as_str().expect("a text").to_string();
    assert!(word("why").len() > 40, "an exception has its physical reason");
    let with = entry.get("with").map_or(String::new(), |with| with.as_str().expect("a text").to_string());
    Exception {
        law: word("law"),
        drive: word("drive"),
        part: word("part"),
        with: with.split_whitespace().map(String::from).collect(),
        at_most: entry["at_most"].as_float().expect("a share"),
    }
}

impl Exception {
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
