//! Public interface of the crate, as a stored list: a change of it has to be meant.

use std::fs;
use std::path::Path;

use expect_test::expect_file;

/// Public items of a source file: heads of types with their derives, fields, variants and whole signatures of functions.
fn items(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut inside_enum, mut head, mut attributes) = (false, String::new(), String::new());
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let trimmed = line.trim();
        if trimmed.starts_with("#[derive(") || trimmed == "#[non_exhaustive]" {
            attributes += &format!("{trimmed} ");
        } else if !head.is_empty() || trimmed.starts_with("pub ") || trimmed.starts_with("impl") {
            if trimmed.starts_with("pub struct") || trimmed.starts_with("pub enum") {
                head = std::mem::take(&mut attributes).trim().into();
            }
            head = format!("{head} {trimmed}").trim().to_string();
            if is_whole(&head) {
                inside_enum |= head.contains("pub enum");
                found.push(std::mem::take(&mut head).trim_end_matches(['{', ' ', ',']).to_string());
            }
            attributes.clear();
        } else if line == "}" {
            inside_enum = false;
        } else if inside_enum && !trimmed.starts_with('#') {
            found.push(format!("    {}", trimmed.trim_end_matches(',')));
        } else if !trimmed.starts_with('#') {
            attributes.clear();
        }
    }
    found.retain(|item| !item.contains("pub(crate) struct") && !item.contains("pub(crate) enum"));
    found.retain(|item| !item.starts_with("pub(") && !matches!(item.trim(), "}" | "" | "{"));
    found
}

/// True if the head of an item has ended: no list of arguments or names is open.
fn is_whole(head: &str) -> bool {
    if head.contains("pub use ") {
        return head.ends_with(';');
    }
    let is_closed = head.matches('(').count() == head.matches(')').count();
    is_closed && (head.ends_with(['{', ';', ',', '}', ')']))
}

#[test]
fn listed_items_have_derives_and_complete_signatures() {
    let text = "#[derive(Clone)]\n#[non_exhaustive]\npub struct A {\n    b: u8,\n}\n\nimpl A {\n    pub fn long(\n        &self,\n        \
                other: u8,\n    ) -> u8 {\n    }\n}\npub use one::{\n    B,\n    C,\n};\n";
    let expected = [
        "#[derive(Clone)] #[non_exhaustive] pub struct A",
        "impl A",
        "pub fn long( &self, other: u8, ) -> u8",
        "pub use one::{ B, C, };",
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn public_interface_matches_the_stored_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // Compare with the types of the models that are re-exported here, if the sources of the models are available.
    let models = folder.join("../../core/src");
    if !models.exists() {
        println!("the sources of the models are no part of the package: run this test in the repository");
        return;
    }
    files.extend(["time.rs", "problem.rs"].map(|file| models.join(file)));
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
