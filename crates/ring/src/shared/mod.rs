//! The memory that two processes share, and how it comes to both of them.

pub mod clock;
pub mod memory;
pub mod socket;
pub mod wide;
mod words;
