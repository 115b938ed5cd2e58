//! Files of `--report DIR`: a page to look at, each of its plots as a file, and the result that it shows.

use std::path::{Path, PathBuf};

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_core::report::html::pictures;
use serde_json::Value;

use super::{Target, create_directory, json_text};

/// Flag `--report`, shared by every command that has it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportFlags {
    /// Write DIR/index.html, one page with plots, each plot as an SVG file, and DIR/result.json
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
        for picture in pictures(page) {
            Target::create("--report", &self.directory.join(&picture.file))?.write(&picture.svg)?;
        }
        self.page.write(page)?;
        self.document.write(document)
    }
}
