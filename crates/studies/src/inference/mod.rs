//! Study of key-value caches of language models on drives: the hits in accelerator memory, host memory and on drives,
//! the load on the drives, and whether a drive pays.
//!
//! [`formats`] reads traces and [`generate`] makes synthetic ones. [`tiers`] serves every request and counts hits
//! exactly. [`windows`] simulates a drive in sampled windows of the trace. [`study`] combines both into answers. The
//! caller runs the windows.

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
