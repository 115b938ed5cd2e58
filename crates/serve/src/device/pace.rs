//! Limits of polling loops: how many idle rounds they spin, when they sleep, and how many requests they fetch in a row.

use std::time::{Duration, Instant};

use crate::clock::Wait;

/// Longest sleep of a thread without work. A request to stop ends it earlier.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Idle rounds in a row after which a loop yields its processor once, so that other threads on it make progress.
pub const IDLE_ROUNDS_MAX: u32 = 1024;

/// Most requests that a loop fetches from one queue before it turns to the next queue.
pub const BATCH: u32 = 32;

/// Time for which an adaptive loop spins without work before it sleeps: longer than a client needs to follow a completion with
/// its next request, and short beside the pauses of a client that has none.
pub const SPIN_TIME: Duration = Duration::from_micros(200);

/// Time since when a loop has found no work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Notes that the loop has found work.
    #[inline]
    pub fn renew(&mut self) {
        self.since = None;
    }

    /// Notes a round without work; returns true if a loop that waits as `wait` says may sleep now. The first such round reads the
    /// clock, so that a busy loop never does.
    pub fn is_over(&mut self, wait: Wait) -> bool {
        match wait {
            Wait::Spin => false,
            Wait::Block => true,
            Wait::Adaptive => self.since.get_or_insert_with(Instant::now).elapsed() > SPIN_TIME,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_loop_sleeps_at_once_never_or_after_a_moment_without_work() {
        let mut patience = Patience::default();
        assert!(!patience.is_over(Wait::Spin) && patience.is_over(Wait::Block));
        assert!(!patience.is_over(Wait::Adaptive));
        thread::sleep(SPIN_TIME * 2);
        assert!(patience.is_over(Wait::Adaptive));
        patience.renew();
        assert!(!patience.is_over(Wait::Adaptive));
    }
}
