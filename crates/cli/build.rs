//! Packs the pages of the documentation, in the order of its table of contents, for `phaselink docs`.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    println!("cargo::rerun-if-changed=docs");
    let docs = Path::new("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("the documentation has a table of contents");
    let pages = contents.split("](").skip(1).filter_map(|rest| rest.split_once(".md)")).map(|(name, _)| name);
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    // The front page of the book is the README of the repository, which the program does not contain.
    for name in pages.filter(|name| !name.contains('/')) {
        let text =
            fs::read_to_string(docs.join(name).with_extension("md")).expect("each page of the contents is a file");
        assert!(!text.contains('\0') && text.starts_with("# "), "{name} is no page");
        packed.write_all(format!("{name}\0{text}\0").as_bytes()).expect("memory takes it");
    }
    let place = Path::new(&env::var("OUT_DIR").expect("cargo names a folder")).join("docs.gz");
    fs::write(place, packed.finish().expect("memory takes it")).expect("the folder of the build can be written");
}
