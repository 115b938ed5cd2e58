//! `phaselink docs`: prints the documentation of this version, wherever the program is installed.

use clap::Args;
use phaselink_core::problem::Problem;
use phaselink_core::report::Table;
use phaselink_core::spelling;

use crate::ending::{Ending, Failure};
use crate::output;

const EXAMPLES: &str = include_str!("../help/docs.txt");

/// Embeds pages, each from its own file `docs/NAME.md`.
macro_rules! pages {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../docs/", $name, ".md"))),)+]
    };
}

/// Names and texts of all pages, in the order of reading for a newcomer.
const PAGES: &[(&str, &str)] = pages! {
    "tutorial" "python" "guide" "model-my-drive" "fit" "read-a-report" "which-interface" "break-even" "gpu-storage" "search-and-databases" "what-if" "inference" "flash-as-memory" "serve-to-qemu" "crash" "embed"
    "my-database" "crash-in-virtual-time" "cloud-volumes" "flash-drive" "zones" "placement" "key-value" "faults" "sweep-on-a-cluster" "explorer" "adding-a-memory" "adding-a-protocol" "adding-a-policy" "adding-a-front-end" "commands" "keys" "fio" "traces" "sweep" "serve"
    "reports" "json" "stages" "models" "hosts" "validation" "media" "flash" "dma" "ecc" "one-request" "one-served-command" "torture"
    "decisions"
};

/// Print a page of the documentation, or the list of pages.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The page
    #[arg(value_name = "PAGE")]
    page: Option<String>,
}

/// Runs the command.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    match &arguments.page {
        None => output::print(&output::shown(&list()))?,
        Some(name) => output::print(page(name)?)?,
    }
    Ok(Ending::Fine)
}

/// Returns the names of all pages.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(name, _)| *name)
}

fn list() -> Table {
    let mut table = Table::new().left("page").left("");
    for (name, text) in PAGES {
        table.row([*name, title(text)]);
    }
    table
}

/// Returns the heading of a page.
fn title(text: &str) -> &str {
    text.lines().next().map_or("", |line| line.trim_start_matches("# "))
}

fn page(name: &str) -> Result<&'static str, Problem> {
    PAGES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let meant = spelling::question(spelling::nearest(name, names()));
        Problem::new("docs", None, format!("there is no page {name}{meant}"), names().collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
    }

    #[test]
    fn every_page_of_the_folder_is_embedded_under_its_name() {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let names: BTreeSet<String> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "SUMMARY")
            .collect();
        let own: BTreeSet<String> = PAGES.iter().map(|(name, _)| String::from(*name)).collect();
        assert_eq!(own.len(), PAGES.len(), "a page stands twice");
        assert_eq!(own, names);
        assert!(PAGES.iter().all(|(_, text)| text.starts_with("# ")));
    }

    #[test]
    fn pages_are_in_the_order_of_the_book() {
        let contents = fs::read_to_string(folder().join("SUMMARY.md")).unwrap();
        let chapters: Vec<&str> = links(&contents).into_iter().filter_map(|link| link.strip_suffix(".md")).collect();
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(chapters[1..], names, "the front page comes first");
    }

    /// Returns the targets of a document's links.
    fn links(text: &str) -> Vec<&str> {
        let behind = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        behind.map(|(link, _)| link).filter(|link| !link.contains("://") && !link.contains(' ')).collect()
    }
}
