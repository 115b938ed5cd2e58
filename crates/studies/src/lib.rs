//! Questions about drives, answered with the models of `phaselink_core`: closed forms, comparisons, sweeps, published
//! results, measurements and reports. Pure: no I/O, no clock, no thread, no unsafe, no async.
//!
//! The modules are listed from the ground up; a test in `crates/house` checks which module may import which.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod shipped;

// Types of figures, documents and findings; measurements of real drives.
pub mod evidence;
pub mod results;
pub mod simulations;
pub mod tails;

// Tables, JSON and HTML; uncertainty of figures.
pub mod precision;
pub mod report;
pub mod uncertainty;

// Studies that answer a question about one drive, one published paper or one memory.
pub mod breakeven;
pub mod dma;
pub mod ecc;
pub mod endurance;
pub mod fit;
pub mod predict;
pub mod reproduce;
pub mod validate;

// Questions that need several runs.
pub mod compare;
pub mod export;
pub mod knee;
pub mod kvcache;
pub mod stream;
pub mod sweep;
pub mod whatif;

// All questions as JSON.
pub mod ask;
pub mod schema;

#[cfg(test)]
mod tests;

/// Front page of the crate, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
