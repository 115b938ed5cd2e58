//! The clock by which commands are stamped: the system's steady one, which all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// What it shows, in nanoseconds since some instant before the program began.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How long looking at it takes: of some looks, the shortest, as anything else may come in between.
pub fn look_ns() -> u64 {
    let looks = (0..64).map(|_| {
        let before = now_ns();
        now_ns() - before
    });
    looks.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_go_back_and_a_look_takes_less_than_a_system_call_could() {
        let start = now_ns();
        assert!(look_ns() < 100_000);
        assert!(now_ns() >= start);
    }
}
