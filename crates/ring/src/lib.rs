//! Host-device protocol of DC Express: commands, incomplete tags, layout of the shared memory, greeting and status.
//!
//! Three programs use this crate. The simulator's driver and endpoint exchange commands and tags in modelled memory; a served
//! device and its clients do so in real memory, which is in the crate `phaselink-client`. All functions take bytes and
//! numbers, and build on any system.

#![forbid(unsafe_code)]

pub mod command;
pub mod greeting;
pub mod layout;
pub mod status;
pub mod trailer;
