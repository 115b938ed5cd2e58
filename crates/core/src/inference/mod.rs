//! Key-value caches of inference on drives: which blocks of prompts are found in accelerator memory, host memory and on drives, what
//! the drives do for that, and whether it pays.
//!
//! [`formats`] reads traces, [`generate`] makes some; [`tiers`] serves every request and counts exactly; [`windows`] simulates a drive
//! in windows that are sampled; [`study`] makes answers of both. The caller runs the windows.

pub mod formats;
pub mod generate;
pub mod model;
pub mod request;
pub mod source;
pub mod study;
pub mod tiers;
pub mod windows;

#[cfg(test)]
mod tests;
