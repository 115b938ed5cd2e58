//! Lines of product code in total, without comments, blanks and tests: what is added is paid for by what is removed.

use crate::limits::{Limits, single};
use crate::sources::{Source, all};

/// Number of lines of code in the product files among some sources.
fn lines(sources: &[Source]) -> usize {
    let is_product = |source: &&Source| source.path.contains("/src/") && !source.path.contains("test");
    sources.iter().filter(is_product).map(|source| count_code_lines_before_tests(&source.text)).sum()
}

/// Number of lines before a file's tests that hold code.
fn count_code_lines_before_tests(text: &str) -> usize {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    product.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn product_code_lines_stay_within_their_limits() {
    let in_folder = |folder: &str| {
        let sources = all(folder).into_iter();
        sources.map(move |source| Source::new(&format!("{folder}/{}", source.path), &source.text)).collect::<Vec<_>>()
    };
    let count = lines(&["crates", "fuzz", "integrations", "benches"].map(in_folder).concat());
    println!("{count} lines of code");
    Limits { table: "lines", allowed: 0, step: 200 }.hold(&single("lines of code", count));
}

#[test]
fn product_code_lines_are_counted_without_tests_and_comments() {
    let text = "//! Head.\nfn f() {\n\n    // Why.\n    a(); // Why.\n  \n}\n#[cfg(test)]\nmod tests {\n    b();\n}\n";
    let planted = ["x/src/a.rs", "x/src/tests.rs", "x/tests/a.rs"].map(|path| Source::new(path, text));
    assert_eq!(lines(&planted), 3);
}
