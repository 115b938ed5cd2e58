//! One request of a trace, for all files that read or write traces.

use crate::request::Io;
use crate::time::Time;
use serde::Serialize;

/// One request of a trace with its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TraceIo {
    /// Arrival, counted from the start of the trace.
    pub at: Time,
    /// Operation, offset and length.
    pub io: Io,
}
