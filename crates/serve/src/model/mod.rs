//! The core's engine on the wall clock, and the same engine asked from other threads.

pub mod commands;
pub mod remote;
pub mod wall;
