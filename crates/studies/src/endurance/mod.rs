//! Lifetime of a drive's memory: of flash by its write amplification, with the figures of data sheets; of any other
//! memory by its lines, with and without wear levelling.

mod answer;
mod question;
mod words;

pub use answer::{EnduranceAnswer, FlashLifetimeRow, LifetimeRows, LineLifetimeRow};
pub use question::{EnduranceQuestion, bytes_per_day};
