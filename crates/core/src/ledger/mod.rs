//! Measurements of a run: stages of a request's life, latencies, a trace of packets and activities, and the outcome.
//!
//! All of it is plain data; The crate `phaselink-studies` prints it.

mod histogram;
pub mod latency;
pub mod outcome;
pub mod quantile;
pub mod record;
pub mod stage;
pub mod trace;
mod windows;

pub use latency::{Latency, PercentileEstimate, TooFewRequests};
pub use outcome::{
    CpuUse, CreditState, DirectionOutcome, Energy, FaultEffectSummary, JobOutcome, MeasuredState, Outcome,
    PartBusyTime, WireUse,
};
pub use stage::{Stage, StageTimes};
pub use trace::{Record, Step, Trace};
