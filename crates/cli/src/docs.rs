//! `phaselink docs`: prints the documentation of this version, which is part of the program.

use std::io::Read;
use std::sync::LazyLock;

use clap::Args;
use flate2::read::GzDecoder;
use phaselink_core::problem::Problem;
use phaselink_core::spelling;
use phaselink_studies::report::Table;

use crate::ending::{CommandEnding, Failure};
use crate::output;

const EXAMPLES: &str = include_str!("../help/docs.txt");

/// Names and texts of all documentation pages, compressed by `build.rs`, in the order of the book. A zero byte ends
/// each name and each text.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/docs.gz"));

/// Returns name and text of each documentation page, in the order of the book.
fn book_pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut text).expect("the build has packed the pages");
        text
    });
    let mut parts = TEXT.split_terminator('\0');
    std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
}

/// Print a page of phaselink's documentation (Markdown), or a list of all pages.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the documentation page to print, such as serve; without a name, all pages are listed
    #[arg(value_name = "PAGE")]
    page: Option<String>,
}

/// Runs `phaselink docs`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    match &arguments.page {
        None => output::print(&output::shown(&list()))?,
        Some(name) => output::print(page(name)?)?,
    }
    Ok(CommandEnding::Fine)
}

/// Returns the names of all documentation pages.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    book_pages().map(|(name, _)| name)
}

fn list() -> Table {
    let mut table = Table::new().left("page").left("");
    for (name, text) in book_pages() {
        table.row([name, title(text)]);
    }
    table
}

/// Returns the heading of a documentation page.
fn title(text: &str) -> &str {
    text.lines().next().map_or("", |line| line.trim_start_matches("# "))
}

fn page(name: &str) -> Result<&'static str, Problem> {
    book_pages().find(|(known, _)| *known == name).map(|(_, text)| text).ok_or_else(|| {
        let meant = spelling::question(spelling::nearest(name, names()));
        Problem::new("docs", None, format!("there is no page {name}{meant}"), names().collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn all_pages_of_the_folder_are_in_the_contents_and_embedded_once() {
        let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let names: BTreeSet<String> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "SUMMARY")
            .collect();
        let own: Vec<String> = super::names().map(String::from).collect();
        assert_eq!(own.len(), names.len(), "a page stands twice, or not in the contents");
        assert_eq!(BTreeSet::from_iter(own), names);
    }
}
