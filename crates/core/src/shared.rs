//! State that all parts of a simulated machine share.

use crate::ledger::trace::Trace;
use crate::request::Requests;
use crate::scheduler::Scheduler;

/// Events to come, requests in flight, and the record of their steps.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Clock, and the events that are to come.
    pub scheduler: Scheduler,
    /// Requests in flight.
    pub requests: Requests,
    /// Record of steps for ladders and timelines; empty by default.
    pub trace: Trace,
}
