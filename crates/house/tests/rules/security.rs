//! Claims of SECURITY.md that can be read off the sources: where unsafe code is, which tests exist, who reads the time of day.

use crate::sources::{Source, all, all_crates, read, without_comments};

/// Words that read the time of day.
const TIME_OF_DAY: [&str; 3] = ["SystemTime", "ClockId::Realtime", "CLOCK_REALTIME"];
const UNSAFE: [&str; 4] = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"];

/// Paths of the files whose code, comments excluded, holds one of some words.
fn files_with(sources: &[Source], words: &[&str]) -> Vec<String> {
    let holds = |source: &&Source| {
        let code = without_comments(&source.text);
        words.iter().any(|word| code.contains(word))
    };
    sources.iter().filter(holds).map(|source| source.path.clone()).collect()
}

/// Tests and files of tests that the page names and that are not among the sources.
fn missing_tests(page: &str, sources: &[Source]) -> Vec<String> {
    let rows = page.lines().filter_map(|line| Some(line.strip_prefix("| ")?.rsplit_once(" | ")?.1));
    let shown: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let exists = |name: &str| {
        let (function, file) = (format!("fn {name}("), format!("{}.rs", name.trim_end_matches(".rs")));
        sources.iter().any(|source| source.text.contains(&function) || source.path.rsplit('/').next() == Some(&file))
    };
    shown.into_iter().filter(|name| !name.contains('/') && !exists(name)).map(String::from).collect()
}

/// Files with unsafe code that the table of the page does not list.
fn unsafe_elsewhere(page: &str, sources: &[Source]) -> Vec<String> {
    let (_, table) = page.split_once("## Unsafe code").expect("a table of unsafe code");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let paths: Vec<&str> = cells.flat_map(|cell| cell.split('`').step_by(2)).collect();
    let mut found = files_with(sources, &UNSAFE);
    found.retain(|file| !paths.iter().any(|path| file.starts_with(path)));
    found
}

#[test]
fn every_test_that_the_page_on_security_names_exists() {
    let sources = [all("crates"), all("fuzz/src")].concat();
    assert_eq!(missing_tests(&read("SECURITY.md"), &sources), [""; 0]);
}

/// The time of day can jump, forwards and backwards: every duration and every deadline is measured by a monotonic clock.
#[test]
fn only_the_stamp_of_outputs_knows_the_time_of_day() {
    assert_eq!(files_with(&all_crates(), &TIME_OF_DAY), ["crates/cli/src/output/stamp.rs"]);
}

#[test]
fn unsafe_code_is_where_the_page_about_security_says() {
    assert_eq!(unsafe_elsewhere(&read("SECURITY.md"), &all_crates()), [""; 0]);
}

#[test]
fn unsafe_code_a_missing_test_and_another_clock_are_found() {
    let page = "| NBD | parsing | `a_test`, `gone`, `soak.rs` |\n## Unsafe code\n| `x/src/map.rs` | mapping |\n";
    let planted = [
        Source::new("x/src/map.rs", "unsafe { a() }"),
        Source::new("x/src/soak.rs", "// unsafe { in a comment }\nfn a_test() { SystemTime::now() }"),
        Source::new("x/src/other.rs", "unsafe fn b() {}"),
    ];
    assert_eq!(missing_tests(page, &planted), ["gone"]);
    assert_eq!(unsafe_elsewhere(page, &planted), ["x/src/other.rs"]);
    assert_eq!(files_with(&planted, &TIME_OF_DAY), ["x/src/soak.rs"]);
}
