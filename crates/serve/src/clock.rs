//! Clock of a server, and the ways in which its threads wait for work.

use std::time::Duration;

use phaselink_client::shared::clock;
use phaselink_core::time::{Span, Time};

/// Clock of a server or a benchmark. Its instants count from the start of the clock.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's monotonic clock.
    Steady {
        /// Reading of the system's clock at instant zero of this clock, in nanoseconds.
        start_ns: u64,
    },
    /// Clock that stands still until its owner sets it, for tests and replays.
    Set(Time),
}

impl Clock {
    /// Starts a clock that follows the system's monotonic clock and shows zero now.
    pub fn start() -> Clock {
        Clock::Steady { start_ns: clock::now_ns() }
    }

    /// Returns the present instant of the clock.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Steady { start_ns } => Time::ZERO + Span::from_ns(clock::now_ns().saturating_sub(*start_ns)),
            Clock::Set(now) => *now,
        }
    }

    /// Returns the instant of this clock at which the system's monotonic clock showed `ns` nanoseconds. Returns none
    /// for a reading before the start, or if the clock is set by its owner.
    #[inline]
    pub fn at_ns(&self, ns: u64) -> Option<Time> {
        match self {
            Clock::Steady { start_ns } => Some(Time::ZERO + Span::from_ns(ns.checked_sub(*start_ns)?)),
            Clock::Set(_) => None,
        }
    }
}

/// Converts a duration into a span. A duration beyond the longest span, 213 days, becomes that span.
pub fn span(duration: Duration) -> Span {
    Span::from_ps(u64::try_from(duration.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX))
}

/// Way in which a thread waits while it has no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Spins while there is work and for a moment longer, then sleeps until there is work again.
    #[default]
    Adaptive,
    /// Spins without end: the least lag, at the cost of a whole core.
    Spin,
    /// Sleeps until the next request arrives or the model's next event is due: little processor time, but tens of
    /// microseconds of lag.
    Block,
}
