//! Measurements with which the model of a drive, a software stack or a host was compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements of real machines that the model's values were set beside. Constants were set from some of them, so that the error is
/// no prediction's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Part of the description: `drive`, `stack` or `host`.
    pub part: String,
    /// Name of the shipped drive or preset.
    pub name: String,
    /// Sources of `validate` with measurements that it answers, by short name.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Number of these measurements; values that the description holds as they were given are left out.
    #[serde(default)]
    pub rows: usize,
    /// Median of the absolute errors of the model in these measurements, in per cent; null without any.
    #[serde(default)]
    pub median_error_pct: Option<f64>,
    /// Papers that `reproduce` regenerates with it.
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
