//! Limits of polling loops: idle rounds before they yield the processor, idle time before they sleep, longest sleep,
//! and requests that they fetch from one queue in a row.

use std::time::{Duration, Instant};

use crate::clock::Wait;

/// Longest sleep of a thread without work. A request to stop ends the sleep earlier.
pub const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Number of consecutive idle rounds after which a polling loop yields its processor once, so that other threads on it
/// make progress.
pub const IDLE_ROUNDS_MAX: u32 = 1024;

/// Maximum number of requests that a polling loop fetches from one queue before it polls the next queue.
pub const BATCH: u32 = 32;

/// Idle time after which an adaptive polling loop sleeps. A client follows a completion with its next request sooner;
/// pauses of a client without work are longer.
pub const SPIN_TIME: Duration = Duration::from_micros(200);

/// Start of the time for which a polling loop has found no work.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdlePollingTimer {
    since: Option<Instant>,
}

impl IdlePollingTimer {
    /// Records that the polling loop has found work, so that its idle time starts anew.
    #[inline]
    pub fn renew(&mut self) {
        self.since = None;
    }

    /// Records a polling round without work. Returns true if a loop that waits by method `wait` may sleep now. The
    /// first idle round reads the clock, so that a busy loop never does.
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
    fn polling_loop_sleeps_at_once_never_or_after_a_time_without_work() {
        let mut patience = IdlePollingTimer::default();
        assert!(!patience.is_over(Wait::Spin) && patience.is_over(Wait::Block));
        assert!(!patience.is_over(Wait::Adaptive));
        thread::sleep(SPIN_TIME * 2);
        assert!(patience.is_over(Wait::Adaptive));
        patience.renew();
        assert!(!patience.is_over(Wait::Adaptive));
    }
}
