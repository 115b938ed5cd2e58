//! Models of the phaselink simulator. Pure: no I/O, no clock, no thread, no unsafe, no async.
//!
//! The modules are listed from the ground up; a test in `crates/house` checks which module may import which.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

// Basic values.
pub mod memory;
pub mod number;
pub mod problem;
pub mod random;
pub mod shipped;
pub mod spelling;
pub mod table;
pub mod time;
pub mod words;

// Requests, packets, statistics and the simulated clock.
pub mod ledger;
pub mod request;
pub mod scheduler;
pub mod tlp;

// Descriptions of hardware and software.
pub mod config;

// The workload, the devices, and the link between host and device.
pub mod data;
pub mod faults;
pub mod link;
pub mod media;
pub mod shared;
pub mod workload;

// Protocols. Their list comes first because the drive has a section for each.
#[macro_use]
pub mod protocol;
pub mod drive;
pub mod fabric;

// States that a power cut can leave.
pub mod crash;

// Simulated systems, which combine the modules above: a host with its drives, and a DMA engine alone.
pub mod dma;
pub mod engine;
pub mod host;
pub use engine::simulation;
pub use engine::timeline;

// Drive files, closed forms, and random tests of both.
pub mod closed_form;
pub mod drive_file;
pub mod torture;

#[cfg(test)]
mod tests;

/// Front page of the crate, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
