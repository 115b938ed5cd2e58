//! Times of a line that the host has loaded.

use crate::media::ReadTiming;
use crate::time::{Span, Time};

/// Times of a loaded line, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// End of the work of the device's processors.
    pub admitted: Time,
    /// End of the wait for the memory; the time of the request if the line was in the buffer or the cache.
    pub started: Time,
    /// Arrival of the line from the memory.
    pub read_at: Time,
    /// Arrival of the line at the controller, through the DRAM of a cache if there is one.
    pub ready_at: Time,
}

impl Fetched {
    /// Line that was requested at `now`, and is on its way from the memory until `read_at`, or there.
    pub fn within(now: Time, read_at: Time) -> Fetched {
        Fetched { admitted: now, started: now, read_at, ready_at: read_at }
    }

    /// Line that the memory has been asked for.
    pub fn from_memory(timing: ReadTiming) -> Fetched {
        let ReadTiming { admitted, started, last_at, .. } = timing;
        Fetched { admitted, started: started.max(admitted), read_at: last_at, ready_at: last_at }
    }

    /// Returns these times for a line that waits until `there_at` at least.
    pub fn until(self, there_at: Time) -> Fetched {
        let read_at = self.read_at.max(there_at);
        Fetched { read_at, ready_at: read_at, ..self }
    }

    /// Returns these times for a line that then takes `access` in the DRAM of a cache.
    pub fn through(self, access: Span) -> Fetched {
        Fetched { ready_at: self.read_at + access, ..self }
    }
}
