//! Measurements with which the model of a drive, a software stack or a host was compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements of real machines with which the model of a shipped drive, software stack or host was compared. Some
/// constants of the model come from these measurements, so that the error is not that of predictions alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Part of the simulated system to which the measurements apply: `drive`, `stack` or `host`.
    pub part: String,
    /// Name of the shipped drive, or of the preset of the software stack or host, that was compared with measurements.
    pub name: String,
    /// Short names of the sources in `phaselink validate` whose measurements use this drive, stack or host.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Number of measurements of real machines that use this drive, stack or host. Measurements whose value is an input
    /// of the description do not count.
    #[serde(default)]
    pub rows: usize,
    /// Median of the model's absolute errors on these measurements of real machines, in per cent; null without a
    /// measurement.
    #[serde(default)]
    pub median_error_pct: Option<f64>,
    /// Names of the papers whose results `phaselink reproduce` simulates with this drive, stack or host.
    #[serde(default)]
    pub papers: Vec<String>,
}

impl Evidence {
    /// Returns the entry of a drive, stack or host that no measurement concerns.
    pub fn none(part: &str, name: &str) -> Evidence {
        Evidence {
            part: String::from(part),
            name: String::from(name),
            sources: Vec::new(),
            rows: 0,
            median_error_pct: None,
            papers: Vec::new(),
        }
    }

    /// Returns these measurements under another name, for a drive that was derived from the measured one.
    pub fn named(&self, name: &str) -> Evidence {
        Evidence { name: String::from(name), ..self.clone() }
    }

    /// True if the entry has neither measurements nor reproduced papers.
    pub fn is_none(&self) -> bool {
        self.rows == 0 && self.papers.is_empty()
    }
}
