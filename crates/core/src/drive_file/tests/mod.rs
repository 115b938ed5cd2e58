//! Tests of drive files, from text to resolved form.

mod bounds;
mod doubts;
mod layers;
mod messages;
mod mutations;
mod texts;

use super::KeyOverride;
use crate::drive::Drive;
use crate::problem::Problems;

/// Reads a file called `drive.toml`.
fn read(text: &str) -> Result<Drive, Problems> {
    Drive::from_toml("drive.toml", text, &[])
}

/// Reads a file with one `--set` for each of `given`.
fn read_with_overrides(text: &str, given: &[&str]) -> Result<Drive, Problems> {
    let overrides: Vec<KeyOverride> = given.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_toml("drive.toml", text, &overrides)
}

/// Messages of a text that must have problems.
fn messages(text: &str) -> String {
    read(text).expect_err("the text has problems").to_string()
}
