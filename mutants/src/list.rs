//! What can be mutated, as `cargo mutants` says, and which of it is tried.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

/// Where samples are drawn, each of the same size: a name, and the folders.
pub(crate) const AREAS: [(&str, &[&str]); 4] = [
    ("protocol", &["crates/core/src/protocol/"]),
    ("media", &["crates/core/src/media/"]),
    ("link", &["crates/core/src/link/"]),
    (
        "served device",
        &[
            "crates/serve/src/device/",
            "crates/serve/src/front/",
            "crates/serve/src/model/",
            "crates/serve/src/nvme/",
            "crates/serve/src/server.rs",
        ],
    ),
];

/// A line and a column, both from 1; columns count characters.
pub(crate) type Place = (usize, usize);

/// One change of one function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mutant {
    /// File, change and function, without lines, so that it keeps its name while others move; ` #2` for the second of that
    /// name.
    pub name: String,
    /// From the root of the repository.
    pub file: String,
    /// The whole function, from its first attribute to its closing brace.
    pub function: Range<Place>,
    /// What is replaced.
    pub span: Range<Place>,
    pub replacement: String,
    /// What the function returns, as written; empty for nothing.
    pub returns: String,
}

impl Mutant {
    pub(crate) fn area(&self) -> Option<&'static str> {
        let holds = |folders: &[&str]| folders.iter().any(|folder| self.file.starts_with(folder));
        AREAS.iter().find(|(_, folders)| holds(folders)).map(|(name, _)| *name)
    }

    /// The folder of the crate: `crates/core`.
    pub(crate) fn package(&self) -> &str {
        self.file.split_once("/src/").map_or("", |(package, _)| package)
    }

    /// The modules that hold it, as the names of its tests begin: `link::` for `crates/core/src/link/wire.rs`.
    pub(crate) fn module(&self) -> String {
        let inside = self.file.split_once("/src/").map_or("", |(_, inside)| inside);
        inside.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.replace('/', "::") + "::")
    }
}

/// The mutants in what `cargo mutants --list --json` prints. Those outside of functions are left out: no switch can stand
/// there.
pub(crate) fn parse(json: &str) -> Result<Vec<Mutant>, String> {
    let list: Vec<Value> = serde_json::from_str(json).map_err(|error| format!("the list of cargo mutants: {error}"))?;
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut mutants: Vec<Mutant> = list.iter().filter_map(mutant).collect();
    mutants.sort_by(|a, b| (&a.file, a.span.start, a.span.end).cmp(&(&b.file, b.span.start, b.span.end)));
    for mutant in &mut mutants {
        let count = named.entry(mutant.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            mutant.name.push_str(&format!(" #{count}"));
        }
    }
    Ok(mutants)
}

fn mutant(value: &Value) -> Option<Mutant> {
    let file = value["file"].as_str()?.to_owned();
    let name = value["name"].as_str()?;
    // `file:line:column: change`
    let change = name.strip_prefix(&file)?.trim_start_matches(|sign: char| sign == ':' || sign.is_ascii_digit());
    Some(Mutant {
        name: format!("{file}:{change}"),
        function: span(&value["function"]["span"])?,
        span: span(&value["span"])?,
        replacement: value["replacement"].as_str()?.to_owned(),
        returns: value["function"]["return_type"].as_str()?.to_owned(),
        file,
    })
}

fn span(value: &Value) -> Option<Range<Place>> {
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let place = |value: &Value| Some((number(&value["line"])?, number(&value["column"])?));
    Some(place(&value["start"])?..place(&value["end"])?)
}

/// `of_each` mutants of every area. A mutant's turn depends on the seed and its name alone, so that a sample stays what it
/// was where the code stays.
pub(crate) fn sample(mutants: &[Mutant], seed: u64, of_each: usize) -> Vec<Mutant> {
    let areas = AREAS.iter().flat_map(|(area, _)| {
        let of_area = mutants.iter().filter(|mutant| mutant.area() == Some(*area)).cloned().collect();
        first(of_area, seed, of_each)
    });
    areas.collect()
}

/// Those whose turn comes first.
pub(crate) fn first(mut mutants: Vec<Mutant>, seed: u64, count: usize) -> Vec<Mutant> {
    mutants.sort_by_cached_key(|mutant| turn(seed, &mutant.name));
    mutants.truncate(count);
    mutants
}

/// FNV-1a over seed and text, with the finish of SplitMix64.
pub(crate) fn turn(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes();
    let bytes = bytes.iter().chain(name.as_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(file: &str, line: usize, change: &str) -> String {
        let place = |column: usize| format!(r#"{{"line":{line},"column":{column}}}"#);
        let span = format!(r#"{{"start":{},"end":{}}}"#, place(5), place(6));
        let function = format!(r#"{{"function_name":"f","return_type":"-> u32","span":{span}}}"#);
        format!(
            r#"{{"name":"{file}:{line}:5: {change}","package":"p","file":"{file}","function":{function},"span":{span},"replacement":"-","genre":"BinaryOperator"}}"#
        )
    }

    fn many(count: usize) -> Vec<Mutant> {
        let files = ["crates/core/src/link/wire.rs", "crates/core/src/media/bank.rs", "crates/cli/src/main.rs"];
        let lines = files.iter().flat_map(|file| (1..=count).map(move |line| listed(file, line, &format!("{line}"))));
        parse(&format!("[{}]", lines.collect::<Vec<_>>().join(","))).unwrap()
    }

    #[test]
    fn names_hold_no_lines_and_tell_twins_apart() {
        let file = "crates/core/src/link/wire.rs";
        let list = [listed(file, 9, "replace + with - in f"), listed(file, 7, "replace + with - in f")];
        let mutants = parse(&format!("[{}]", list.join(","))).unwrap();
        let names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names, [format!("{file}: replace + with - in f"), format!("{file}: replace + with - in f #2")]);
        assert_eq!((mutants[0].span.start, mutants[1].span.start), ((7, 5), (9, 5)));
        assert_eq!((mutants[0].package(), mutants[0].module().as_str()), ("crates/core", "link::"));
    }

    #[test]
    fn a_sample_takes_as_many_of_each_area_and_of_nothing_else() {
        let drawn = sample(&many(100), 1, 10);
        let of = |area| drawn.iter().filter(|mutant| mutant.area() == Some(area)).count();
        assert_eq!((of("link"), of("media"), drawn.len()), (10, 10, 20));
    }

    #[test]
    fn a_sample_depends_on_the_seed_and_hardly_on_what_else_there_is() {
        let (few, more) = (sample(&many(100), 1, 10), sample(&many(101), 1, 10));
        assert!(few.iter().filter(|mutant| more.contains(mutant)).count() >= 18);
        assert_ne!(few, sample(&many(100), 2, 10));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert!(parse("error: no such command").unwrap_err().starts_with("the list of cargo mutants: "));
    }
}
