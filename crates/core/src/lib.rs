//! phaselink's models. Pure: no I/O, no clock, no thread, no unsafe, no async.
#![forbid(unsafe_code)]

pub mod config;
pub mod data;
pub mod engine;
pub mod host;
pub mod link;
pub mod media;
pub mod memory;
pub mod predict;
pub mod protocol;
mod queue;
pub mod random;
mod recorder;
pub mod report;
pub mod reproduce;
pub mod simulation;
pub mod sink;
pub mod sweep;
mod table;
pub mod time;
pub mod workload;

#[cfg(test)]
mod tests;
