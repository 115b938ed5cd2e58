//! Fuzz targets: every reader of bytes in phaselink that somebody else has written.
//!
//! A [`Target`] is a function that accepts any bytes and returns. It must not panic, hang, or allocate memory without bound.
//! Each target also asserts what its reader promises: a response for each request, data where it was written, a file that
//! reads back as it was.
//!
//! `cargo test -p phaselink-fuzz` replays seeds and corpus, with a few changes to each. `make fuzz` lets libFuzzer search for
//! inputs that reach new code.

pub mod corpus;
mod script;
mod targets;

pub use targets::{ALL, find};

/// Reader of bytes under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target on the command line and of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads an input, and panics if the reader breaks a promise.
    pub run: fn(&[u8]),
    /// Returns well-formed inputs, from which a fuzzer starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
