//! Latency against load, and the knee of the curve: the load up to which a drive's tail stays short.
//!
//! A job at a queue depth asks for the next request when one completes, so that a slow drive gets less load. Here requests
//! arrive at random times at a given rate (Poisson process), whatever the drive does, and latency counts from the planned
//! arrival. The rates are shares of the throughput that the job reaches at its queue depth, which bounds the requests in
//! flight.

mod answer;
mod question;
mod words;

pub use answer::{KneeAnswer, LoadPoint};
pub use question::{KneeQuestion, KneeStudy, parse_offered_rates};

#[cfg(test)]
mod tests;
