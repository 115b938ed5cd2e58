//! Times of a line that the host loads from a CXL device, from its request to its arrival at the controller.

use crate::media::ReadTiming;
use crate::time::{Span, Time};

/// Instants in the device at which a loaded line reaches each step, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Instant at which the device's processors have passed the load on to the memory.
    pub admitted: Time,
    /// Instant at which the memory starts to read the line. Equals the time of the request if the line was in the
    /// buffer or the cache.
    pub started: Time,
    /// Instant at which the loaded line has arrived from the memory.
    pub read_at: Time,
    /// Instant at which the line is ready in the controller, after the access to the DRAM of a cache if there is one.
    pub ready_at: Time,
}

impl Fetched {
    /// Returns the times of a line that is requested at `now` and needs no read of its own. It is already buffered, or
    /// arrives with an earlier read at `read_at`.
    pub fn within(now: Time, read_at: Time) -> Fetched {
        Fetched { admitted: now, started: now, read_at, ready_at: read_at }
    }

    /// Returns the times of a line that the memory reads as `timing` says.
    pub fn from_memory(timing: ReadTiming) -> Fetched {
        let ReadTiming { admitted, started, last_at, .. } = timing;
        Fetched { admitted, started: started.max(admitted), read_at: last_at, ready_at: last_at }
    }

    /// Returns the times with the arrival from the memory delayed until `there_at`, if it is earlier.
    pub fn until(self, there_at: Time) -> Fetched {
        let read_at = self.read_at.max(there_at);
        Fetched { read_at, ready_at: read_at, ..self }
    }

    /// Returns the times with an access of length `access` to the DRAM of a cache added after the read.
    pub fn through(self, access: Span) -> Fetched {
        Fetched { ready_at: self.read_at + access, ..self }
    }
}
