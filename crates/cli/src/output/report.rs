//! Files of `--report DIR`: a page to look at, each of its plots as a file, and the result that it shows.

use std::path::{Path, PathBuf};

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_core::report::html::{escape, pictures, with_links};
use serde_json::Value;

use super::{Target, create_directory, json_text, stamp};

/// Flag `--report`, shared by every command that has it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportFlags {
    /// Write DIR/index.html, one page with plots, each plot as an SVG and a CSV file, and DIR/result.json
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    report: Option<PathBuf>,
}

/// Files of a report that are going to be written.
#[derive(Debug)]
pub(crate) struct Report {
    directory: PathBuf,
    page: Target,
    document: Target,
}

impl ReportFlags {
    /// Checks that the files of the report can be written, if the flag is given.
    ///
    /// # Errors
    /// As [`Target::create`].
    pub(crate) fn open(&self) -> Result<Option<Report>, Problems> {
        self.report.as_deref().map(Report::create).transpose()
    }
}

impl Report {
    fn create(directory: &Path) -> Result<Report, Problems> {
        create_directory(directory)?;
        let create = |name| Target::create("--report", &directory.join(name));
        let (page, document) = (create("index.html")?, create("result.json")?);
        Ok(Report { directory: directory.to_path_buf(), page, document })
    }

    /// Writes the page, the document, and each drawing of the page as a file of its own.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub(crate) fn write(self, page: &str, document: &Value) -> Result<(), Problems> {
        self.write_text(page, &json_text(document))
    }

    /// Writes the page, a document that is a text already, and each drawing.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub(crate) fn write_text(self, page: &str, document: &str) -> Result<(), Problems> {
        let pictures = pictures(page);
        for picture in &pictures {
            let write = |file: &str, text: &str| Target::create("--report", &self.directory.join(file))?.write(text);
            write(&picture.file, &picture.svg)?;
            if !picture.csv.is_empty() {
                write(&picture.csv_file, &picture.csv)?;
            }
        }
        self.page.write(&with_foot(&with_links(page, &pictures)))?;
        self.document.write(document)
    }
}

/// Returns the page with a line at its end that says how it was made: version, machine, day and command. No line breaks within
/// a word of the command.
fn with_foot(page: &str) -> String {
    let words = std::iter::once(String::from("phaselink")).chain(std::env::args().skip(1).map(|word| quoted(&word)));
    let words: Vec<String> = words.map(|word| format!("<span>{}</span>", escape(&word))).collect();
    let foot = format!(
        "<p class=\"quiet foot\">Made by phaselink {} on {}, {}, by <code>{}</code></p>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&machine()),
        stamp::day(),
        words.join(" ")
    );
    page.replacen("</body>", &format!("{foot}</body>"), 1)
}

/// Returns the kind of machine: its processors, where the system tells them, and its system. Its name is left out, because a
/// page is passed on to others; so are the processors of a page that has to be made again to the last byte.
fn machine() -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let told = match stamp::is_repeatable() {
        true => None,
        false => std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processors(&text)),
    };
    told.map_or(system.clone(), |processors| format!("{processors} ({system})"))
}

/// Returns number and kind of the processors that Linux lists; none if it names no kind.
fn processors(cpuinfo: &str) -> Option<String> {
    let mut kinds = cpuinfo.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let (_, kind) = kinds.next()?;
    Some(format!("{} x {}", 1 + kinds.count(), kind.trim()))
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./=,:%+@".contains(sign);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => String::from(word),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_and_named_where_linux_names_them() {
        let text =
            "processor\t: 0\nmodel name\t: Xeon: 6430\nflags\t: fpu\n\nprocessor\t: 1\nmodel name\t: Xeon: 6430\n";
        assert_eq!(processors(text).as_deref(), Some("2 x Xeon: 6430"));
        assert_eq!(processors("processor\t: 0\nCPU implementer\t: 0x41\n"), None);
    }

    #[test]
    fn words_of_a_command_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(["a-b=1,2", "", "a b", "it's"].map(quoted), ["a-b=1,2", "''", "'a b'", "'it'\\''s'"]);
    }
}
