//! Samples for the tests of this crate.

pub(crate) mod sample;
mod traces;
