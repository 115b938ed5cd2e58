//! Lists the papers that come with the library: a folder in `reproductions/` is a paper.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = &PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut text = "pub(crate) const PAPERS: &[(&str, &str, &str, &str)] = &[\n".to_owned();
    for folder in &paper_folders(&root.join("reproductions")) {
        let texts = ["plan.toml", "expected.csv", "depends_on.csv"].map(|name| folder.join(name));
        let texts = texts.map(|path| format!("include_str!({path:?})")).join(", ");
        writeln!(text, "    ({:?}, {texts}),", name(folder)).expect("a string grows");
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join("shipped.rs");
    fs::write(out, text).expect("the build folder can be written");
}

/// Returns the folders of papers, in the order of their names.
fn paper_folders(folder: &Path) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.join("plan.toml").exists()).collect();
    found.sort_by(|left, right| name(left).cmp(name(right)));
    found
}

/// Returns the name of a paper's folder.
fn name(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).expect("names are plain text")
}
