//! What `--report DIR` writes: a page to look at, and the result that it shows.

use std::path::{Path, PathBuf};

use clap::Args;
use phaselink_core::problem::Problems;
use serde_json::Value;

use super::{Target, create_directory, json_text};

/// The flag, the same for every command that has it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportFlags {
    /// Write DIR/index.html, one page with plots, and DIR/result.json
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    report: Option<PathBuf>,
}

/// The files of a report.
#[derive(Debug)]
pub(crate) struct Report {
    page: Target,
    document: Target,
}

impl ReportFlags {
    /// See that the files can be written, if they are asked for.
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
        Ok(Report { page: create("index.html")?, document: create("result.json")? })
    }

    /// Write both.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub(crate) fn write(self, page: &str, document: &Value) -> Result<(), Problems> {
        self.write_text(page, &json_text(document))
    }

    /// The same with the document as a text.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub(crate) fn write_text(self, page: &str, document: &str) -> Result<(), Problems> {
        self.page.write(page)?;
        self.document.write(document)
    }
}
