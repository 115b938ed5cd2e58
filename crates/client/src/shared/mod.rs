//! Memory that two processes share on Linux, and the socket that carries its descriptor.

pub mod clock;
pub mod memory;
pub mod socket;
mod wide;
pub mod words;
