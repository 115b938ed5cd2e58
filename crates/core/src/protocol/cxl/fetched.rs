//! Times of a cache line that the host loads from a CXL device, from its request to its arrival at the controller.

use crate::media::ReadTiming;
use crate::time::{Span, Time};

/// Instants at which a cache line that the host loads reaches each stage of the CXL device, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineInstants {
    /// Instant at which one of the device's processors starts on the load.
    pub dispatched: Time,
    /// Instant at which the device's processors have passed the load on to the memory.
    pub admitted: Time,
    /// Instant at which the memory starts to read the loaded cache line. Equals the time of the request if the line was
    /// in the device's buffer or cache.
    pub started: Time,
    /// Instant at which the loaded line has arrived from the memory.
    pub read_at: Time,
    /// Instant at which the loaded cache line is ready in the controller, after the access to the DRAM of a cache if
    /// there is one.
    pub ready_at: Time,
}

impl LineInstants {
    /// Returns the instants of a cache line that is loaded at `now` and needs no memory read of its own. The line is
    /// already buffered, or arrives with an earlier read at `read_at`.
    pub fn within(now: Time, read_at: Time) -> LineInstants {
        LineInstants { dispatched: now, admitted: now, started: now, read_at, ready_at: read_at }
    }

    /// Returns the instants of a loaded cache line that the memory reads at the times in `timing`.
    pub fn from_memory(timing: ReadTiming) -> LineInstants {
        let ReadTiming { dispatched, admitted, started, last_at, .. } = timing;
        LineInstants { dispatched, admitted, started: started.max(admitted), read_at: last_at, ready_at: last_at }
    }

    /// Returns the instants of the loaded cache line with its arrival from the memory at `there_at`, or later if it was
    /// later already.
    pub fn until(self, there_at: Time) -> LineInstants {
        let read_at = self.read_at.max(there_at);
        LineInstants { read_at, ready_at: read_at, ..self }
    }

    /// Returns the instants of the loaded cache line with an access to the DRAM of a cache, of length `access`, added
    /// after the read.
    pub fn through(self, access: Span) -> LineInstants {
        LineInstants { ready_at: self.read_at + access, ..self }
    }
}
