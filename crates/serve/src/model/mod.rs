//! The core's engine on the wall clock, for one thread or for several.
//!
//! - [`wall`] lets an engine follow a clock, and measures its lag.
//! - [`shared`] is an engine with its own thread's requests and those of callers; [`engine_thread`] runs one for callers alone.
//! - [`exchange`] is the way between callers and engine, [`remote`] the caller's end, [`commands`] real hosts' commands on it.

pub(crate) mod commands;
pub mod engine_thread;
pub mod exchange;
pub mod remote;
pub mod shared;
pub mod wall;
