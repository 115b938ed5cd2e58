//! Measurements of a run: stages of a request's life, latencies, records of steps, and the outcome.
//!
//! All of it is plain data; [`crate::report`] prints it.

mod histogram;
pub mod latency;
pub mod outcome;
pub mod record;
pub mod stage;
pub mod trace;

pub use latency::Latency;
pub use outcome::{
    CpuUse, CreditState, DirectionOutcome, Energy, JobOutcome, MeasuredState, Outcome, PartUse, TroubleMet, WireUse,
};
pub use stage::{Stage, StageTimes};
pub use trace::{Record, Step, Trace};
