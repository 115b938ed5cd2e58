//! Questions about the models from outside, a file for each of their sides. They are one program of tests, so that all
//! processors have work to the end.

#[path = "../../../core/tests/library/common.rs"]
mod common;

mod capi;
mod closed_forms;
mod cxl;
mod cxl_cache;
mod documents;
mod engines;
mod fit;
mod forms;
mod ladders;
mod mixes;
mod predict;
mod repository;
mod sanity;
mod several;
mod stubs;
mod switches;
mod tails;
mod volumes;
