//! Lists the drives and the devices that come with the library: a file in `drives/` is a drive, one in `devices/` a
//! device without an interface.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = &PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let text = descriptions_constant(root, "DRIVES", "drives") + &descriptions_constant(root, "DEVICES", "devices");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join("shipped.rs");
    fs::write(out, text).expect("the build folder can be written");
}

/// A constant with the name and the text of each description in a folder.
fn descriptions_constant(root: &Path, constant: &str, folder: &str) -> String {
    let mut text = format!("pub(crate) const {constant}: &[(&str, &str, &str)] = &[\n");
    for file in list(&root.join(folder), |path| path.extension().is_some_and(|ending| ending == "toml")) {
        let (name, shown) = (stem(&file), format!("{folder}/{}.toml", stem(&file)));
        writeln!(text, "    ({name:?}, {shown:?}, include_str!({file:?})),").expect("a string grows");
    }
    text + "];\n"
}

/// What is wanted of a folder, by name.
fn list(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| wanted(path)).collect();
    found.sort_by(|left, right| stem(left).cmp(stem(right)));
    found
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).expect("names are plain text")
}
