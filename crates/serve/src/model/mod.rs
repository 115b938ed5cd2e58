//! The core's engine on the wall clock, for one thread or for several.
//!
//! - [`wall`] lets an engine follow a clock, and measures its lag.
//! - [`shared`] is an engine with its own thread's requests and those of callers; [`engine_thread`] runs one for callers alone.
//! - [`exchange`] has the channels between callers and the engine's thread, [`remote`] is the caller's end of a
//!   channel, and [`commands`] are commands of real hosts on it.

pub(crate) mod commands;
pub mod engine_thread;
pub mod exchange;
pub mod remote;
pub mod shared;
pub mod wall;
