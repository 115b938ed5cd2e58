//! Claims of SECURITY.md that can be read off the sources: where unsafe code is, which tests exist, who reads the time of day.

use crate::sources::{Source, all, all_crate_sources, read, strip_comments};

/// Words that read the time of day.
const TIME_OF_DAY: [&str; 3] = ["SystemTime", "ClockId::Realtime", "CLOCK_REALTIME"];
const UNSAFE: [&str; 4] = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"];

/// Paths of the files whose code, comments excluded, holds one of some words.
fn find_files_with_words(sources: &[Source], words: &[&str]) -> Vec<String> {
    let holds = |source: &&Source| {
        let code = strip_comments(&source.text);
        words.iter().any(|word| code.contains(word))
    };
    sources.iter().filter(holds).map(|source| source.path.clone()).collect()
}

/// Tests and files of tests that the page names and that are not among the sources.
fn find_missing_security_tests(page: &str, sources: &[Source]) -> Vec<String> {
    let rows = page.lines().filter_map(|line| Some(line.strip_prefix("| ")?.rsplit_once(" | ")?.1));
    let shown: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let exists = |name: &str| {
        let (function, file) = (format!("fn {name}("), format!("{}.rs", name.trim_end_matches(".rs")));
        sources.iter().any(|source| source.text.contains(&function) || source.path.rsplit('/').next() == Some(&file))
    };
    shown.into_iter().filter(|name| !name.contains('/') && !exists(name)).map(String::from).collect()
}

/// Files with unsafe code that the table of the page does not list.
fn find_unlisted_unsafe_files(page: &str, sources: &[Source]) -> Vec<String> {
    let (_, table) = page.split_once("## Unsafe code").expect("a table of unsafe code");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let paths: Vec<&str> = cells.flat_map(|cell| cell.split('`').step_by(2)).collect();
    let mut found = find_files_with_words(sources, &UNSAFE);
    found.retain(|file| !paths.iter().any(|path| file.starts_with(path)));
    found
}

#[test]
fn every_test_named_on_the_security_page_exists() {
    let sources = [all("crates"), all("fuzz/src")].concat();
    assert_eq!(find_missing_security_tests(&read("SECURITY.md"), &sources), [""; 0]);
}

/// The time of day can jump, forwards and backwards: every duration and every deadline is measured by a monotonic clock.
#[test]
fn only_the_output_timestamp_reads_the_wall_clock() {
    assert_eq!(find_files_with_words(&all_crate_sources(), &TIME_OF_DAY), ["crates/cli/src/output/stamp.rs"]);
}

#[test]
fn unsafe_code_is_only_in_files_listed_on_the_security_page() {
    assert_eq!(find_unlisted_unsafe_files(&read("SECURITY.md"), &all_crate_sources()), [""; 0]);
}

#[test]
fn unlisted_unsafe_code_missing_tests_and_wall_clock_use_are_found() {
    let page = "| NBD | parsing | `a_test`, `gone`, `soak.rs` |\n## Unsafe code\n| `x/src/map.rs` | mapping |\n";
    let planted = [
        Source::new("x/src/map.rs", "unsafe { a() }"),
        Source::new("x/src/soak.rs", "// unsafe { in a comment }\nfn a_test() { SystemTime::now() }"),
        Source::new("x/src/other.rs", "unsafe fn b() {}"),
    ];
    assert_eq!(find_missing_security_tests(page, &planted), ["gone"]);
    assert_eq!(find_unlisted_unsafe_files(page, &planted), ["x/src/other.rs"]);
    assert_eq!(find_files_with_words(&planted, &TIME_OF_DAY), ["x/src/soak.rs"]);
}
