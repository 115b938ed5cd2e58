//! Type of one request of a trace, for all code that reads or writes traces.

use crate::request::Io;
use crate::time::Time;
use serde::Serialize;

/// Request of a trace with its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimedTraceRequest {
    /// Arrival time of the request, counted from the first request of the trace.
    pub at: Time,
    /// Operation, offset and length of the request.
    pub io: Io,
}
