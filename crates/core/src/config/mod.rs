//! Descriptions: schema, presets, validation.

pub mod problem;

pub use problem::{Problem, Problems};
