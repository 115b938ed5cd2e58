//! Clock for the submission times of commands: the steady clock, which all processes of a system share.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the steady clock, in nanoseconds since an arbitrary instant before the program started.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the time in nanoseconds that one reading of the clock takes, the shortest of 64.
pub fn read_duration_ns() -> u64 {
    let durations = (0..64).map(|_| {
        let before = now_ns();
        now_ns() - before
    });
    durations.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_clock_is_read_in_less_than_100_us() {
        let start = now_ns();
        assert!(read_duration_ns() < 100_000);
        assert!(now_ns() >= start);
    }
}
