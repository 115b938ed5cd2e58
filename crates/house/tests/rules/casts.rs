//! Casts of numbers with `as`, which cut off what does not fit. `from`, `try_from` and the functions of `number.rs` say what is meant.

use crate::limits::{Counted, Limits};
use crate::sources::{CRATES, Source, product};
use crate::touches::words;

/// Types of numbers.
const NUMBERS: [&str; 14] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64"];

/// Number of casts to a type of numbers.
fn casts(sources: &[Source]) -> usize {
    let of_text = |text: &str| {
        let words: Vec<&str> = words(text).map(|(_, word)| word).collect();
        words.windows(2).filter(|pair| pair[0] == "as" && NUMBERS.contains(&pair[1])).count()
    };
    sources.iter().map(|source| of_text(&source.text)).sum()
}

#[test]
fn numeric_casts_stay_within_the_limit_of_every_crate() {
    let of_crate = |name: &str| (String::from(name), casts(&product(&format!("crates/{name}/src"))));
    let counts: Counted = CRATES.into_iter().map(of_crate).collect();
    Limits { table: "casts", allowed: 0, step: 10 }.hold(&counts);
}

#[test]
fn numeric_casts_in_source_text_are_counted() {
    let text = "use std::fmt::Write as _;\nlet a = b as u32;\nlet c = (d + 1)\n    as f64;\nlet e = &f as &dyn G;\n";
    assert_eq!(casts(&[Source::new("x.rs", text)]), 2);
}
