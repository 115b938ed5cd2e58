//! Public interface of the crate, as a stored list: a change of it has to be meant.

use std::fs;
use std::path::Path;

use expect_test::expect_file;

/// Public items of a source file: heads of types, fields, variants and functions.
fn items(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut inside_enum, mut head) = (false, String::new());
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let trimmed = line.trim();
        if !head.is_empty() || trimmed.starts_with("pub ") || trimmed.starts_with("impl") {
            head = format!("{head} {trimmed}").trim().to_string();
            if trimmed.ends_with(['{', ';', ',', '}']) || trimmed.ends_with(")") {
                inside_enum |= head.starts_with("pub enum");
                found.push(std::mem::take(&mut head).trim_end_matches(['{', ' ', ',']).to_string());
            }
        } else if line == "}" {
            inside_enum = false;
        } else if inside_enum && !trimmed.starts_with('#') {
            found.push(format!("    {}", trimmed.trim_end_matches(',')));
        }
    }
    found.retain(|item| !item.starts_with("pub(") && !matches!(item.trim(), "}" | "" | "{"));
    found
}

#[test]
fn public_interface_is_the_stored_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = String::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let listed = items(&fs::read_to_string(&file).unwrap());
        let has_public = listed.iter().any(|item| item.starts_with("pub "));
        if has_public {
            all += &format!("{name}\n{}\n\n", listed.join("\n"));
        }
    }
    expect_file!["interface.txt"].assert_eq(&all);
}
