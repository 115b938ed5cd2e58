//! Question of `breakeven`: prices and rates, changes to them, and block sizes.

use serde::Deserialize;

use super::{BreakEvenAnswer, Description, break_even_time};
use crate::report::block_sizes;
use phaselink_core::problem::{Problem, Problems};

/// Description of a question that names none.
const DESCRIPTION: &str = "slc-cpu";
/// Block sizes in bytes of a question that gives none.
const SIZES: &[u32] = &[512, 1024, 2048, 4096];

/// Question of `breakeven`: after which time without an access does a block cost less on a drive than in memory?
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakEvenQuestion {
    /// Name of a shipped description of prices and rates, or of the file whose text `text` holds; `slc-cpu` if it is
    /// left out.
    pub description: Option<String>,
    /// Text of a file with prices and rates (TOML); none for a shipped description.
    pub text: Option<String>,
    /// Block sizes in bytes for which the break-even time is computed. Empty for 512 bytes to 4 KiB.
    #[serde(deserialize_with = "block_sizes")]
    pub bs: Vec<u32>,
    /// Share of the drive's largest rate that is used, in place of the one of the description.
    pub utilisation: Option<f64>,
    /// Largest number of operations a second of the host, in place of the one of the description.
    pub host_iops: Option<f64>,
    /// Number of drives that share the operations of the host, in place of the one of the description.
    pub drives: Option<u32>,
    /// True if the text of the answer shows the effect of each input.
    pub sensitivity: bool,
    /// True if the text of the answer shows the published versions of the five-minute rule.
    pub history: bool,
}

impl BreakEvenQuestion {
    /// Returns the break-even time of each block size, with the effect of each input.
    ///
    /// # Errors
    /// An unknown description, a text that is none, and values that contradict each other.
    pub fn answer(&self) -> Result<BreakEvenAnswer, Problems> {
        let description = self.resolved_description()?;
        let sizes = if self.bs.is_empty() { SIZES } else { &self.bs };
        let times = sizes.iter().map(|bytes| break_even_time(&description, *bytes)).collect();
        Ok(BreakEvenAnswer::new(self, &description, times))
    }

    fn resolved_description(&self) -> Result<Description, Problems> {
        let word = self.description.as_deref().unwrap_or(DESCRIPTION);
        let mut description = match (&self.text, Description::shipped(word)) {
            (Some(text), _) => Description::parse(word, text)?,
            (None, Some(shipped)) => shipped,
            (None, None) => {
                let names: Vec<&str> = Description::shipped_names().collect();
                let allowed = format!("a file, or {}", names.join(", "));
                let found = format!("there is no description `{word}`");
                return Err(Problem::new("command line", None, found, allowed).into());
            }
        };
        let host = &mut description.host;
        host.iops = self.host_iops.or(host.iops);
        host.drives = self.drives.unwrap_or(host.drives);
        description.utilisation = self.utilisation.unwrap_or(description.utilisation);
        description.check("command line")?;
        Ok(description)
    }
}
