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

/// Returns the page with a line at its end that says how it was made: version, system, day and command.
fn with_foot(page: &str) -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let foot = format!(
        "<p class=\"quiet foot\">Made by phaselink {} on {} {}, {}, by <code>phaselink {}</code></p>\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        stamp::day(),
        escape(&words.join(" "))
    );
    page.replacen("</body>", &format!("{foot}</body>"), 1)
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./=,:%+@".contains(sign);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => String::from(word),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
