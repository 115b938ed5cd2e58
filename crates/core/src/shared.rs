//! State that all parts of a simulated machine share.

use crate::ledger::trace::Trace;
use crate::request::Requests;
use crate::scheduler::Scheduler;

/// State that all parts of a simulated machine share: pending events, requests in flight, and the record of their
/// steps.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Simulated clock and the pending events.
    pub scheduler: Scheduler,
    /// Requests in flight.
    pub requests: Requests,
    /// Record of the steps of requests and packets, for ladders and timelines; keeps nothing by default.
    pub trace: Trace,
}
