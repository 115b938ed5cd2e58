//! Memory that two processes share on Linux, and the socket by which both get it.

pub mod clock;
pub mod memory;
pub mod socket;
mod wide;
pub mod words;
