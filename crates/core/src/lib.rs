//! phaselink's models. Pure: no I/O, no clock, no thread, no unsafe, no async.
#![forbid(unsafe_code)]

pub mod config;
pub mod host;
pub mod media;
pub mod protocol;
pub mod report;
pub mod time;
pub mod workload;
