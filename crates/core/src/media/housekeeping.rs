//! Housekeeping pauses at fixed intervals, during which no bank of the memory may start an access.

use crate::time::{Span, Time};

/// Housekeeping pauses: one begins at every multiple of an interval, except at time 0. No access may start in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HousekeepingPauses {
    interval: Span,
    length: Span,
}

impl HousekeepingPauses {
    /// Creates pauses of `length` that begin every `interval`; `None` if either is zero.
    pub fn every(interval: Span, length: Span) -> Option<HousekeepingPauses> {
        (!interval.is_zero() && !length.is_zero()).then_some(HousekeepingPauses { interval, length })
    }

    /// Returns the earliest time, not before `at`, at which an access may start: `at` itself, or the end of the pause
    /// that holds `at`.
    // Not inlined: most memories have no pauses.
    #[inline(never)]
    pub fn start_after(&self, at: Time) -> Time {
        let into_interval = Span::from_ps(at.as_ps() % self.interval.as_ps());
        let in_pause = at.as_ps() >= self.interval.as_ps() && into_interval < self.length;
        if in_pause { at + (self.length - into_interval) } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_starts_outside_housekeeping_pauses() {
        let pauses = HousekeepingPauses::every(Span::from_ns(100), Span::from_ns(10)).unwrap();
        let after = |ps| pauses.start_after(Time::from_ps(ps)).as_ps();
        assert_eq!(after(0), 0);
        assert_eq!(after(99_999), 99_999);
        assert_eq!(after(100_000), 110_000);
        assert_eq!(after(109_999), 110_000);
        assert_eq!(after(110_000), 110_000);
        assert_eq!(after(200_001), 210_000);
        assert!(pauses.start_after(Time::NEVER) >= Time::NEVER);
    }

    #[test]
    fn zero_pause_interval_or_length_disables_pauses() {
        assert_eq!(HousekeepingPauses::every(Span::ZERO, Span::ZERO), None);
        assert_eq!(HousekeepingPauses::every(Span::from_ns(100), Span::ZERO), None);
    }
}
