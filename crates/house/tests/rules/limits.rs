//! Counts that may only fall. Each rule with such counts has a table of limits in the folder `limits`, with one name and its limit a
//! line, and compares the counts of today's tree with it.
//!
//! A count above its limit fails. So does a count below: the limit is lowered by `UPDATE_EXPECT=1 cargo test`, which never raises
//! one. Whoever has a reason to raise a limit edits the table by hand, where a reviewer sees it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::sources::root;

/// How many of something there are, by a name.
pub(crate) type Counted = BTreeMap<String, usize>;

/// Table of limits of one rule.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Name of the table's file, without ending.
    pub(crate) table: &'static str,
    /// Count that every name may have, so that it needs no line in the table.
    pub(crate) allowed: usize,
    /// Distance of possible limits. A count needs no new limit until it has fallen by this many, so that a table of large counts
    /// does not change with every commit.
    pub(crate) step: usize,
}

impl Limits {
    /// Fails if a count is not what the table says, after it has been renewed if the environment asks for that.
    pub(crate) fn hold(&self, counts: &Counted) {
        let path = self.path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut limits = read(&text);
        if env::var_os("UPDATE_EXPECT").is_some() {
            limits = if path.exists() { self.limits_lowered_to_counts(&limits, counts) } else { self.fitting(counts) };
            fs::write(&path, format_limit_table(&limits)).expect("a table that can be written");
        }
        let (above, below) = (self.above(&limits, counts), self.below(&limits, counts));
        assert!(above.is_empty(), "{}: counts that may only fall have risen:\n{}", path.display(), above.join("\n"));
        assert!(
            below.is_empty(),
            "{}: counts have fallen; lower their limits with UPDATE_EXPECT=1:\n{}",
            path.display(),
            below.join("\n")
        );
    }

    fn path(&self) -> PathBuf {
        let here = root().join(file!());
        here.parent().unwrap_or(Path::new("")).join(format!("limits/{}.txt", self.table))
    }

    fn above(&self, limits: &Counted, counts: &Counted) -> Vec<String> {
        let limit = |name: &String| limits.get(name).copied().unwrap_or(self.allowed);
        let above = counts.iter().filter(|(name, count)| **count > limit(name));
        above.map(|(name, count)| format!("{name}: {count}, at most {}", limit(name))).collect()
    }

    fn below(&self, limits: &Counted, counts: &Counted) -> Vec<String> {
        let fitting = self.fitting(counts);
        let below = limits.iter().filter(|(name, limit)| fitting.get(*name).is_none_or(|fitting| fitting < *limit));
        let count = |name: &String| counts.get(name).copied().unwrap_or(0);
        below.map(|(name, limit)| format!("{name}: {}, its limit is {limit}", count(name))).collect()
    }

    /// Limits that are as low as the counts allow.
    fn fitting(&self, counts: &Counted) -> Counted {
        let needed = counts.iter().filter(|(_, count)| **count > self.allowed);
        needed.map(|(name, count)| (name.clone(), count.next_multiple_of(self.step))).collect()
    }

    /// Present limits, lowered to the counts where these are lower.
    fn limits_lowered_to_counts(&self, limits: &Counted, counts: &Counted) -> Counted {
        let fitting = self.fitting(counts);
        let kept = limits.iter().filter_map(|(name, limit)| Some((name.clone(), *fitting.get(name)?.min(limit))));
        kept.collect()
    }
}

/// Limits of a table: lines of a name and a number. Lines that begin with `#` are comments.
fn read(text: &str) -> Counted {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let limit = |line: &str| {
        let (name, limit) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no name and number: {line}"));
        (String::from(name), limit.parse().unwrap_or_else(|_| panic!("no number: {line}")))
    };
    lines.map(limit).collect()
}

fn format_limit_table(limits: &Counted) -> String {
    let head = "# Limits that may only fall: UPDATE_EXPECT=1 lowers them.\n";
    let lines = limits.iter().map(|(name, limit)| format!("{name} {limit}\n"));
    std::iter::once(String::from(head)).chain(lines).collect()
}

/// A table of one count.
pub(crate) fn single(name: &str, count: usize) -> Counted {
    Counted::from([(String::from(name), count)])
}

#[cfg(test)]
fn counts_by_name_from(counts: &[(&str, usize)]) -> Counted {
    counts.iter().map(|(name, count)| (String::from(*name), *count)).collect()
}

#[test]
fn counts_above_their_limits_and_limits_that_can_fall_are_found() {
    let rule = Limits { table: "planted", allowed: 2, step: 1 };
    let limits = counts_by_name_from(&[("gone", 3), ("risen", 4), ("fallen", 6), ("small", 5), ("right", 7)]);
    let counts = counts_by_name_from(&[
        ("risen", 5),
        ("fallen", 5),
        ("small", 2),
        ("right", 7),
        ("new", 3),
        ("new and small", 2),
    ]);
    assert_eq!(rule.above(&limits, &counts), ["new: 3, at most 2", "risen: 5, at most 4"]);
    let below = ["fallen: 5, its limit is 6", "gone: 0, its limit is 3", "small: 2, its limit is 5"];
    assert_eq!(rule.below(&limits, &counts), below);
    assert_eq!(
        rule.limits_lowered_to_counts(&limits, &counts),
        counts_by_name_from(&[("risen", 4), ("fallen", 5), ("right", 7)])
    );
}

#[test]
fn stepped_limit_falls_only_when_the_count_has_fallen_a_whole_step() {
    let rule = Limits { table: "planted", allowed: 0, step: 100 };
    let limits = counts_by_name_from(&[("lines", 900)]);
    assert_eq!(rule.below(&limits, &counts_by_name_from(&[("lines", 801)])), [""; 0]);
    assert_eq!(rule.below(&limits, &counts_by_name_from(&[("lines", 800)])), ["lines: 800, its limit is 900"]);
    assert_eq!(rule.above(&limits, &counts_by_name_from(&[("lines", 901)])), ["lines: 901, at most 900"]);
}

#[test]
fn written_limit_table_reads_back_unchanged() {
    let limits = counts_by_name_from(&[("Action::Read", 7), ("a name of words", 12)]);
    assert_eq!(read(&format_limit_table(&limits)), limits);
}
