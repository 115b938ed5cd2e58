//! Closed form of a drive's rate and of the break-even time, as a plan names it and as expressions read it.
//!
//! Values of forms are computed when the plan is read. No run has a part in them, and rows that read them have the
//! provenance `returned`.

use super::mistake::ExpressionMistake;
use crate::breakeven::{BreakEven, Description, break_even_time, form};
use phaselink_core::problem::Problems;

/// Swept key of a form that stands for the block size in bytes.
const BLOCK: &str = "block_bytes";
/// Block size in bytes of a form for which the plan gives none.
const BLOCK_DEFAULT: u32 = 512;

/// Closed form of a plan before its sweep: a shipped description of prices and rates, with overrides.
#[derive(Clone, Debug)]
pub(super) struct ClosedFormSpec {
    /// Name of the shipped description of prices and rates.
    pub description: String,
    /// Overrides of the description, such as `cells.channels=24`; `block_bytes=4096` gives the block size in bytes.
    pub set: Vec<String>,
}

/// Result of a closed form for one block size: break-even time and cost of the drive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClosedFormValue {
    result: BreakEven,
    drive_cost: f64,
}

/// Function that reads a quantity from the result of a form.
type FormQuantityReader = fn(&ClosedFormValue) -> f64;

/// Quantities of a form that expressions can read.
const QUANTITIES: [(&str, FormQuantityReader); 8] = [
    ("iops", |form| form.result.device.iops),
    ("used_iops", |form| form.result.used_iops),
    ("tail_ns", |form| form.result.tail_ns.unwrap_or(f64::NAN)),
    ("seconds", |form| form.result.break_even_s),
    ("cores_s", |form| form.result.parts_s[0]),
    ("memory_s", |form| form.result.parts_s[1]),
    ("drive_s", |form| form.result.parts_s[2]),
    ("drive_cost", |form| form.drive_cost),
];

impl ClosedFormSpec {
    /// Returns the form with one more override, of `key` to the value `text`.
    pub(super) fn with(&self, key: &str, text: &str) -> ClosedFormSpec {
        let mut changed = self.clone();
        changed.set.push(format!("{key}={text}"));
        changed
    }

    /// Computes the result of the form for its description and block size.
    ///
    /// # Errors
    /// An unknown description, and overrides that it cannot have.
    pub(super) fn value(&self) -> Result<ClosedFormValue, Problems> {
        let is_block = |text: &&String| text.split_once('=').is_some_and(|(key, _)| key.trim() == BLOCK);
        let (blocks, others): (Vec<&String>, Vec<&String>) = self.set.iter().partition(is_block);
        let texts: Vec<&str> = others.into_iter().map(String::as_str).collect();
        let description = Description::shipped_with_overrides(&self.description, &texts)?;
        let block_bytes = match blocks.last().and_then(|text| text.split_once('=')) {
            None => BLOCK_DEFAULT,
            Some((_, bytes)) => bytes.trim().parse().ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
                phaselink_core::problem::Problem::new(
                    &self.description,
                    None,
                    format!("{BLOCK} is {bytes}"),
                    "a whole number of bytes above 0",
                )
            })?,
        };
        let result = break_even_time(&description, block_bytes);
        Ok(ClosedFormValue { result, drive_cost: form::drive_cost(&description) })
    }
}

/// Returns the quantity of this name for each result of a form.
///
/// # Errors
/// An unknown name.
pub(super) fn read(name: &str, values: &[ClosedFormValue]) -> Result<Vec<f64>, ExpressionMistake> {
    let found = QUANTITIES.iter().find(|(known, _)| *known == name);
    let names = QUANTITIES.iter().map(|(known, _)| *known);
    let (_, quantity) = found.ok_or_else(|| ExpressionMistake::unknown("quantity of a form", name, names))?;
    Ok(values.iter().map(quantity).collect())
}
