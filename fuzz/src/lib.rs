//! Bytes of any kind against everything in phaselink that reads bytes.
//!
//! A [`Target`] is a function that takes any bytes and returns. What it may not do is panic, hang or ask for memory
//! without bound; beyond that, each target asserts what its reader owes: a reply for each request, bytes where they
//! were written, a file that reads back to what it says.
//!
//! The same targets are run in three ways: `cargo test` replays seeds and corpus and a few mutants of them, the program
//! `phaselink-fuzz` any number of mutants, and `make fuzz` lets libFuzzer look for mutants that reach new code.

pub mod corpus;
pub mod hunt;
pub mod mutate;
mod script;
mod targets;

pub use targets::{ALL, find};

/// Something that reads bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Takes any bytes, and panics if the code under test breaks its word.
    pub run: fn(&[u8]),
    /// Inputs that are worth altering: conversations and files as they should be.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutants that take about half a second in a build for tests.
    pub quick: u64,
}
