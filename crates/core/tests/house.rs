//! The rules of the house, read off the tree: who may import whom, no circles, and no protocol named outside its folder.
//!
//! Each rule is tried on a planted fault as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of `crates/core/src` from the ground up; a room is a file or folder, and `*` any one folder. A room imports
/// from lower floors and from itself.
const FLOORS: &[&[&str]] = &[
    &["time.rs", "random.rs", "table.rs", "memory", "problem.rs", "shipped.rs", "spelling.rs"],
    &["tlp.rs", "ledger"],
    &["request.rs", "scheduler"],
    &["config", "data"],
    &["shared.rs", "workload", "faults.rs"],
    &["media", "link"],
    &["protocol/*/config.rs", "protocol/mod.rs"],
    &["drive.rs"],
    &["protocol"],
    &["host"],
    &["engine", "dma"],
    &["drive_file"],
    &["report"],
    &["figures.rs", "precision"],
    &["uncertainty"],
    &["closed_form"],
    &["protocol/*/form.rs"],
    &["predict", "reproduce", "fit"],
    &["compare", "stream.rs", "sweep", "torture"],
    &["ask.rs", "result_schema.rs"],
    &["lib.rs"],
];

/// A source file without its tests and comments.
struct Source {
    /// From the root of its crate's sources, with slashes.
    path: String,
    text: String,
}

#[test]
fn rooms_import_from_lower_floors_only() {
    assert_eq!(arrows_up(&core()), [""; 0]);
}

#[test]
fn no_files_of_different_folders_import_each_other_in_a_circle() {
    assert_eq!(circles(&core()), [""; 0]);
}

#[test]
fn only_the_folder_of_a_protocol_names_it() {
    let mut sources = core();
    sources.retain(|source| !source.path.starts_with("protocol/"));
    sources.extend(sources_of("crates/cli/src"));
    sources.extend(sources_of("benches"));
    assert_eq!(protocols_named(&sources), [""; 0]);
}

#[test]
fn what_shows_a_boundary_to_be_kept_is_there() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows = page.lines().filter_map(|line| Some(line.strip_prefix("| ")?.rsplit_once(" | ")?.1));
    let shown: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(shown.len() > 20, "{shown:?}");
    let files: Vec<(PathBuf, String)> =
        ["crates", "fuzz/src"].iter().flat_map(|folder| sources_below(folder)).collect();
    let is_there = |name: &str| {
        let function = format!("fn {name}(");
        let is_file = |path: &Path| path.file_stem().is_some_and(|stem| stem == name.trim_end_matches(".rs"));
        files.iter().any(|(path, text)| text.contains(&function) || is_file(path))
    };
    let missing: Vec<_> = shown.into_iter().filter(|name| !name.contains('/') && !is_there(name)).collect();
    assert_eq!(missing, [""; 0]);
}

/// The time of day jumps, and back as well: all that is measured, or waited for, is so by a clock that does not.
#[test]
fn only_the_stamp_of_outputs_knows_the_time_of_day() {
    let knows =
        |text: &str| ["SystemTime", "ClockId::Realtime", "CLOCK_REALTIME"].iter().any(|word| text.contains(word));
    assert_eq!(files_of_crates(knows), ["crates/cli/src/output/stamp.rs"]);
}

#[test]
fn unsafe_code_is_where_the_page_about_security_says() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (_, table) = page.split_once("## Unsafe code").unwrap();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let paths: Vec<&str> = cells.flat_map(|cell| cell.split('`').step_by(2)).collect();
    let is_unsafe =
        |text: &str| ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|word| text.contains(word));
    let found = files_of_crates(is_unsafe);
    assert!(found.len() > 5, "{found:?}");
    let others: Vec<_> = found.iter().filter(|file| !paths.iter().any(|path| file.starts_with(path))).collect();
    assert_eq!(others, [""; 0]);
}

/// Files below `crates/*/src` with such code, tests and comments aside.
fn files_of_crates(has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found: Vec<String> = sources_below("crates")
        .into_iter()
        .filter(|(path, text)| path.components().any(|part| part.as_os_str() == "src") && has(&without_comments(text)))
        .map(|(path, _)| path.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    found.sort_unstable();
    found
}

/// Every Rust file below a folder of the repository.
fn sources_below(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                None if path.is_dir() => folders.push(path),
                Some(extension) if extension == "rs" => files.push((path.clone(), fs::read_to_string(&path).unwrap())),
                _ => {}
            }
        }
    }
    files
}

/// Programs of tests that are made of several files.
const TEST_PROGRAMS: [&str; 2] = ["crates/core/tests/library", "crates/cli/tests/program"];

#[test]
fn every_file_of_a_program_of_tests_is_part_of_it() {
    for folder in TEST_PROGRAMS {
        let main = fs::read_to_string(root().join(folder).join("main.rs")).expect("a program");
        let entries = fs::read_dir(root().join(folder)).expect("a folder").flatten().map(|entry| entry.path());
        let names = entries.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
        let left_out: Vec<String> =
            names.filter(|name| name != "main" && !main.contains(&format!("\nmod {name};\n"))).collect();
        assert_eq!(left_out, [""; 0], "{folder}/main.rs");
    }
}

#[test]
fn an_import_of_a_higher_floor_would_be_found() {
    let planted = Source::new("media/mod.rs", "use crate::{time::Time, engine::{self, Engine}};");
    assert_eq!(arrows_up(&[planted]), ["media/mod.rs imports engine/mod.rs"]);
    let planted = Source::new("link/wire.rs", "fn f() -> crate::host::Host { super::super::media::g() }");
    assert_eq!(arrows_up(&[planted]), ["link/wire.rs imports host/mod.rs", "link/wire.rs imports media/mod.rs"]);
    let allowed =
        Source::new("engine/mod.rs", "use crate::host::Host;\nuse super::time::Time;\nuse recorder::Recorder;");
    assert_eq!(arrows_up(&[allowed]), [""; 0]);
}

#[test]
fn a_circle_would_be_found() {
    let planted = [
        Source::new("data/mod.rs", "use crate::memory::HostMemory;"),
        Source::new("memory/mod.rs", "use crate::data::Data;"),
    ];
    assert_eq!(circles(&planted), ["data/mod.rs, memory/mod.rs"]);
}

#[test]
fn a_protocol_named_elsewhere_would_be_found() {
    let planted = Source::new("host/mod.rs", "// NVMe here is a comment\nif interface == Interface::Nvme {}");
    assert_eq!(protocols_named(&[planted]), ["host/mod.rs names nvme: if interface == Interface::Nvme {}"]);
    let test = Source::new("host/mod.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n const D: &str = \"moneta\";\n}\n");
    assert_eq!(protocols_named(&[test]), [""; 0]);
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: String::from(path), text: without_comments(without_tests(text)) }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn core() -> Vec<Source> {
    sources_of("crates/core/src")
}

/// The sources of a folder, tests aside.
fn sources_of(folder: &str) -> Vec<Source> {
    let base = root().join(folder);
    let mut found = Vec::new();
    collect(&base, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{folder} holds sources");
    let texts = found.iter().map(|file| {
        let path = file.strip_prefix(&base).expect("below the base").to_string_lossy().replace('\\', "/");
        (path, fs::read_to_string(file).expect("a source file"))
    });
    let texts: Vec<(String, String)> = texts.collect();
    let tests: Vec<String> = texts.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test = |path: &str| tests.iter().any(|test| path.starts_with(test));
    texts.iter().filter(|(path, _)| !is_test(path)).map(|(path, text)| Source::new(path, text)).collect()
}

/// Where the modules stand that a file declares for tests alone.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let folder = module_of(path).join("/");
    let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let name = rest.lines().next()?.split("mod ").nth(1)?.strip_suffix(';')?;
        Some([folder.as_str(), name].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/"))
    });
    declared.collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The text before its first test module, which stands last in our files.
fn without_tests(text: &str) -> &str {
    let is_inline = |start: &usize| text[*start..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let starts = text.match_indices("#[cfg(test)]\n").map(|(start, _)| start);
    starts.filter(is_inline).min().map_or(text, |start| &text[..start])
}

fn without_comments(text: &str) -> String {
    let code = |line: &str| match line.find("//") {
        Some(at) if !line[..at].contains('"') => String::from(&line[..at]),
        _ => String::from(line),
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

fn arrows_up(sources: &[Source]) -> Vec<String> {
    let mut arrows = Vec::new();
    for source in sources {
        for imported in imports(source) {
            let (own, other) = (room(&source.path), room(&imported));
            if own != other && floor(other) >= floor(own) {
                arrows.push(format!("{} imports {imported}", source.path));
            }
        }
    }
    arrows
}

/// Place of a room on its floor: the most specific one that holds the file.
fn room(path: &str) -> &'static str {
    let rooms = FLOORS.iter().flat_map(|floor| floor.iter());
    let holding = rooms.filter(|room| holds(room, path));
    holding.max_by_key(|room| room.matches('/').count()).unwrap_or_else(|| panic!("{path} stands on no floor"))
}

fn holds(room: &str, path: &str) -> bool {
    let (room, path): (Vec<&str>, Vec<&str>) = (room.split('/').collect(), path.split('/').collect());
    room.len() <= path.len() && room.iter().zip(&path).all(|(room, part)| *room == "*" || room == part)
}

fn floor(room: &str) -> usize {
    FLOORS.iter().position(|floor| floor.contains(&room)).expect("a room of the table")
}

/// The files that a source imports from, itself aside.
fn imports(source: &Source) -> BTreeSet<String> {
    let module = module_of(&source.path);
    let paths = paths(&source.text).into_iter().filter_map(|path| absolute(&path, &module));
    let files = paths.filter_map(|path| file_of(&path));
    files.filter(|file| *file != source.path).collect()
}

/// The path of a file's module, without `crate`.
fn module_of(path: &str) -> Vec<String> {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    stem.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod")).map(String::from).collect()
}

/// Everything in the text that is a path from `crate` or `super`, groups of `use` spelt out.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"].iter().flat_map(|word| text.match_indices(*word).map(|(start, _)| start)) {
        let before = text[..start].chars().next_back();
        if before.is_none_or(|sign| !sign.is_alphanumeric() && !matches!(sign, '_' | ':' | '$')) {
            expand(&text[start..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Spell out one path with its groups; how much of the text it takes.
fn expand(text: &str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let (mut at, depth) = (0, before.len());
    loop {
        let rest = &text[at..];
        let word = rest.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').count();
        if word > 0 {
            before.push(String::from(&rest[..word]));
            at += word;
        }
        match text[at..].strip_prefix("::") {
            Some(next) if next.starts_with('{') => {
                at += 3 + expand_group(&next[1..], before, found);
                break;
            }
            Some(_) if word > 0 => at += 2,
            _ => {
                found.push(before.clone());
                break;
            }
        }
    }
    before.truncate(depth);
    at
}

fn expand_group(text: &str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    while let Some(sign) = text[at..].chars().next() {
        match sign {
            '}' => return at + 1,
            sign if sign.is_alphanumeric() || sign == '_' => at += expand(&text[at..], before, found).max(1),
            sign => at += sign.len_utf8(),
        }
    }
    at
}

/// A path from the root of the crate.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    match supers {
        0 => Some(path[1..].to_vec()),
        _ => Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat()),
    }
}

/// The file in which the longest part of a path that is a module stands.
fn file_of(path: &[String]) -> Option<String> {
    let base = root().join("crates/core/src");
    let candidates = (1..=path.len()).rev().flat_map(|length| {
        let stem = path[..length].join("/");
        [format!("{stem}.rs"), format!("{stem}/mod.rs")]
    });
    candidates.into_iter().find(|file| base.join(file).exists())
}

/// Groups of files of different folders that reach each other by imports.
fn circles(sources: &[Source]) -> Vec<String> {
    let graph: BTreeMap<&str, BTreeSet<String>> =
        sources.iter().map(|source| (source.path.as_str(), imports(source))).collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|file| (*file, reached(file, &graph))).collect();
    let mut groups = BTreeSet::new();
    for (file, reached) in &reach {
        let back = reached.iter().filter(|other| reach.get(*other).is_some_and(|back| back.contains(file)));
        let group: BTreeSet<&str> = back.copied().collect();
        let folders: BTreeSet<&str> = group.iter().map(|file| file.rsplit_once('/').map_or("", |(to, _)| to)).collect();
        if folders.len() > 1 {
            groups.insert(group.into_iter().collect::<Vec<_>>().join(", "));
        }
    }
    groups.into_iter().collect()
}

fn reached<'a>(file: &str, graph: &'a BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph.get(file).into_iter().flatten().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(graph.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

/// The words that stand for a protocol: its folder and its name in drive files, as the list has them.
fn protocols() -> Vec<String> {
    let list = fs::read_to_string(root().join("crates/core/src/protocol/mod.rs")).expect("the list of protocols");
    let entry = |line: &str| {
        let (folder, rest) = line.trim().strip_suffix("\",")?.split_once(": ")?;
        let (section, name) = rest.split_once(" = \"")?;
        Some([String::from(folder), section.to_lowercase(), String::from(name), name.replace('-', " ")])
    };
    let words: Vec<String> = list.lines().filter_map(entry).flatten().collect();
    assert!(words.len() >= 24, "the list is read: {words:?}");
    words
}

fn protocols_named(sources: &[Source]) -> Vec<String> {
    let (mut named, protocols) = (Vec::new(), protocols());
    for source in sources {
        for line in source.text.lines() {
            let words = line.to_lowercase();
            if let Some(name) = protocols.iter().find(|name| has_word(&words, name)) {
                named.push(format!("{} names {name}: {}", source.path, line.trim()));
            }
        }
    }
    named
}

/// Whether a text holds a word, or a longer one that begins with it.
fn has_word(text: &str, word: &str) -> bool {
    let starts = text.match_indices(word).map(|(start, _)| start);
    starts.into_iter().any(|start| !text[..start].ends_with(|sign: char| sign.is_alphanumeric()))
}
