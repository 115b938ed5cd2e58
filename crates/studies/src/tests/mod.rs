//! Samples for the tests of this crate.

pub(crate) mod sample;

/// Traces of the core's own tests.
#[path = "../../../core/src/tests/traces.rs"]
mod traces;
