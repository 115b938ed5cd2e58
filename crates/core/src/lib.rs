//! Models of the phaselink simulator. Pure: no I/O, no clock, no thread, no unsafe, no async.
//!
//! The modules are listed from the ground up; a test in `crates/house` checks which module may import which.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

// Values.
pub mod memory;
pub mod number;
pub mod problem;
pub mod random;
pub mod shipped;
pub mod spelling;
pub mod table;
pub mod time;
pub mod words;

// What travels and what is counted, and the clock.
pub mod ledger;
pub mod request;
pub mod scheduler;
pub mod tlp;

// Descriptions as values.
pub mod config;

// Who asks, what answers, and the way between.
pub mod data;
pub mod faults;
pub mod link;
pub mod media;
pub mod shared;
pub mod workload;

// Protocols, each a folder; the list of them comes first, as the drive has a section for each.
#[macro_use]
pub mod protocol;
pub mod drive;

// States after a power cut.
pub mod crash;

// Everything together.
pub mod dma;
pub mod engine;
pub mod host;
pub use engine::simulation;
pub use engine::timeline;

// Text into drives, and closed forms.
pub mod closed_form;
pub mod drive_file;
pub mod torture;

#[cfg(test)]
mod tests;

/// Front page of the crate, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
