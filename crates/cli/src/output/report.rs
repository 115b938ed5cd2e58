//! Files of `--report DIR`: an HTML page, each of its plots as SVG and CSV files, and the JSON result.

use std::path::{Path, PathBuf};

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_studies::report::html::{add_picture_links, escape, pictures};
use serde_json::Value;

use super::{Target, create_directory, json_text, stamp};

/// Option `--report DIR` of every command that can write an HTML page of its results.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportFlags {
    /// Write a report of the results into folder DIR: a page with plots (index.html), an SVG and a CSV file of each
    /// plot, and the JSON document (result.json)
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    report: Option<PathBuf>,
}

/// Output files of `--report DIR`: folder, HTML page and JSON document, which a command writes at its end.
#[derive(Debug)]
pub(crate) struct Report {
    directory: PathBuf,
    page: Target,
    document: Target,
}

impl ReportFlags {
    /// Checks that the files of the report can be written, if `--report` is given.
    ///
    /// # Errors
    ///
    /// Errors of [`Target::create`].
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

    /// Writes the files of a report: the HTML page, the JSON document, and an SVG and a CSV file of each plot of the
    /// page.
    ///
    /// # Errors
    ///
    /// Errors of [`Target::write`].
    pub(crate) fn write(self, page: &str, document: &Value) -> Result<(), Problems> {
        self.write_with_document_text(page, &json_text(document))
    }

    /// Writes the files of a report whose JSON document is already text: HTML page, document, and an SVG and a CSV file
    /// of each plot.
    ///
    /// # Errors
    ///
    /// Errors of [`Target::write`].
    pub(crate) fn write_with_document_text(self, page: &str, document: &str) -> Result<(), Problems> {
        let pictures = pictures(page);
        for picture in &pictures {
            let write = |file: &str, text: &str| Target::create("--report", &self.directory.join(file))?.write(text);
            write(&picture.file, &picture.svg)?;
            if !picture.csv.is_empty() {
                write(&picture.csv_file, &picture.csv)?;
            }
        }
        self.page.write(&add_page_footer(&add_picture_links(page, &pictures)))?;
        self.document.write(document)
    }
}

/// Adds a line to the end of an HTML page with phaselink's version, the machine, the day and the command line. Words of
/// the command are not broken over lines.
fn add_page_footer(page: &str) -> String {
    let words = std::iter::once(String::from("phaselink")).chain(std::env::args().skip(1).map(|word| quoted(&word)));
    let words: Vec<String> = words.map(|word| format!("<span>{}</span>", escape(&word))).collect();
    let foot = format!(
        "<p class=\"quiet foot\">Made by phaselink {} on {}, {}, by <code>{}</code></p>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&machine_description()),
        stamp::day(),
        words.join(" ")
    );
    page.replacen("</body>", &format!("{foot}</body>"), 1)
}

/// Returns a description of the present machine: processors, if known, and operating system. The host name is left out,
/// since reports are passed on. If SOURCE_DATE_EPOCH is set, processors are left out too, so that pages are equal on
/// all machines.
fn machine_description() -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let told = match stamp::has_source_date_epoch() {
        true => None,
        false => std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processors(&text)),
    };
    told.map_or(system.clone(), |processors| format!("{processors} ({system})"))
}

/// Returns number and model name of the processors that /proc/cpuinfo lists, or none if it names no model.
fn processors(cpuinfo: &str) -> Option<String> {
    let mut kinds = cpuinfo.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let (_, kind) = kinds.next()?;
    Some(format!("{} x {}", 1 + kinds.count(), kind.trim()))
}

/// Quotes a word for the shell, if necessary.
pub(crate) fn quoted(word: &str) -> String {
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
    fn processors_are_counted_and_named_on_linux() {
        let text =
            "processor\t: 0\nmodel name\t: Xeon: 6430\nflags\t: fpu\n\nprocessor\t: 1\nmodel name\t: Xeon: 6430\n";
        assert_eq!(processors(text).as_deref(), Some("2 x Xeon: 6430"));
        assert_eq!(processors("processor\t: 0\nCPU implementer\t: 0x41\n"), None);
    }

    #[test]
    fn command_words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(["a-b=1,2", "a/b.csv", "", "a b"].map(quoted), ["a-b=1,2", "a/b.csv", "''", "'a b'"]);
        assert_eq!(quoted("it's $x"), "'it'\\''s $x'");
    }
}
