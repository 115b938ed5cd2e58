//! Study of key-value caches of language models on drives: the hits in accelerator memory, host memory and on drives,
//! the load on the drives, and whether a drive pays.
//!
//! [`formats`] reads traces and [`generate`] makes synthetic ones. [`tiers`] serves every request and counts hits
//! exactly. [`windows`] simulates a drive in sampled windows of the trace. [`study`] computes the results of
//! a drive from both. The caller runs the windows.

mod answer;
pub mod formats;
pub mod generate;
pub mod model;
mod question;
pub mod request;
pub mod source;
pub mod study;
pub mod tiers;
pub mod windows;
mod words;

pub use answer::{KvCacheAnswer, KvCacheBlocks, KvCacheDrive};
pub use question::{KvCacheQuestion, KvCacheStudy, parse_tier_size};

#[cfg(test)]
mod tests;
