//! Tests of the whole machine.

mod golden;
pub(crate) mod traces;
