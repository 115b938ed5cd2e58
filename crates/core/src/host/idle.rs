//! Idle states: how deep a core sleeps, and how much longer an interrupt takes to reach it.
//!
//! As in the menu governor of Linux, a core enters the deepest state whose residency is no longer than the idle time
//! that it expects: the mean of its last eight (drivers/cpuidle/governors/menu.c).

use crate::config::{self, CoreIdleState, IdleWakeTime};
use crate::number::length;
use crate::time::Span;

/// Number of past idle times from which a core's next one is predicted.
const REMEMBERED: usize = 8;

/// Idle governor of a host: chooses how deep its cores sleep.
#[derive(Clone, Debug)]
pub(super) struct IdleGovernor {
    host: config::Host,
    has_states: bool,
}

/// Last idle times of a core, from which the next one is predicted.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentIdleTimes {
    times: [Span; REMEMBERED],
    count: usize,
}

impl IdleGovernor {
    pub(super) fn new(host: &config::Host) -> IdleGovernor {
        IdleGovernor { has_states: host.idle_states != CoreIdleState::None, host: host.clone() }
    }

    /// Returns the extra time of an interrupt on a core that has idled for `idle`, and remembers that idle time. If
    /// `waits_for_io`, a thread of the core waits in a synchronous call.
    pub(super) fn wake(&self, idles: &mut RecentIdleTimes, idle: Span, waits_for_io: bool) -> IdleWakeTime {
        if !self.has_states {
            return IdleWakeTime { exit: self.host.idle_exit, cold: self.host.cold_core_time(idle) };
        }
        let expected = idles.mean_idle_time().unwrap_or(idle);
        idles.note(idle);
        self.host.idle_wake_time(idle, expected, waits_for_io)
    }
}

impl RecentIdleTimes {
    /// Returns the mean of the last idle times; `None` for a core that has not idled yet, whose prediction is taken to
    /// be exact.
    fn mean_idle_time(&self) -> Option<Span> {
        let known = self.count.min(REMEMBERED);
        (known > 0).then(|| self.times[..known].iter().copied().sum::<Span>() / length(known))
    }

    fn note(&mut self, idle: Span) {
        self.times[self.count % REMEMBERED] = idle;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor() -> IdleGovernor {
        let (us, ns) = (Span::from_us, Span::from_ns);
        IdleGovernor::new(&config::Host {
            idle_states: CoreIdleState::C6,
            c1_exit: ns(300),
            c1_residency: us(2),
            c1e_exit: us(2),
            c1e_residency: us(20),
            c6_exit: us(50),
            c6_residency: us(600),
            ..config::Host::default()
        })
    }

    #[test]
    fn idle_state_is_entered_exactly_at_its_residency() {
        let exit = |idle: Span| governor().wake(&mut RecentIdleTimes::default(), idle, false).exit;
        assert_eq!(exit(Span::from_us(2) - Span::from_ps(1)), Span::ZERO);
        assert_eq!(exit(Span::from_us(2)), Span::from_ns(300));
        assert_eq!(exit(Span::from_us(20) - Span::from_ps(1)), Span::from_ns(300));
        assert_eq!(exit(Span::from_us(20)), Span::from_us(2));
        assert_eq!(exit(Span::from_us(600)), Span::from_us(50));
    }

    #[test]
    fn expected_idle_is_the_mean_of_the_last_eight() {
        let (governor, mut idles) = (governor(), RecentIdleTimes::default());
        for _ in 0..8 {
            governor.wake(&mut idles, Span::from_us(10), false);
        }
        // The first long idle periods follow short ones, so the governor expects a short one and chooses C1. After
        // eight long ones it chooses C6.
        let exits: Vec<Span> = (0..8).map(|_| governor.wake(&mut idles, Span::from_us(1000), false).exit).collect();
        assert_eq!(exits[0], Span::from_ns(300));
        assert_eq!(exits[1], Span::from_us(2));
        assert_eq!(exits[6], Span::from_us(50));
    }

    #[test]
    fn core_is_half_cold_after_half_of_the_time() {
        let host = config::Host { cold: Span::from_ns(3000), cold_after: Span::from_us(60), ..governor().host };
        let cold = |us: u64| host.cold_core_time(Span::from_us(us)).as_ns();
        assert_eq!([cold(0), cold(30), cold(60), cold(600)], [0.0, 1500.0, 3000.0, 3000.0]);
        assert_eq!(governor().host.cold_core_time(Span::from_us(600)), Span::ZERO);
    }

    #[test]
    fn core_of_a_synchronous_call_polls_until_it_may_halt() {
        let us = Span::from_us;
        let governor = IdleGovernor::new(&config::Host {
            io_wait_factor: 11,
            c1_stated_exit: us(2),
            c1e_stated_exit: us(10),
            c6_stated_exit: us(133),
            cold: us(3),
            ..governor().host
        });
        let wake = |idle: Span, in_call| governor.wake(&mut RecentIdleTimes::default(), idle, in_call);
        // C1 states 2 us, so a core that waits in a call may enter C1 from 22 us on, and C1E from 110 us on.
        let below = us(22) - Span::from_ps(1);
        assert_eq!(wake(below, true), IdleWakeTime { exit: Span::ZERO, cold: Span::ZERO });
        assert_eq!(wake(below, false).exit, us(2));
        assert_eq!(wake(us(22), true).exit, Span::from_ns(300));
        assert!(wake(us(22), true).cold > us(1));
        assert_eq!([109, 110].map(|idle| wake(us(idle), true).exit), [Span::from_ns(300), us(2)]);
        assert_eq!(wake(us(1463), true), wake(us(1463), false));
    }

    #[test]
    fn deep_idle_states_can_be_disabled() {
        let mut host = governor().host;
        host.idle_states = CoreIdleState::C1;
        assert_eq!(host.expected_idle_exit_time(Span::from_us(1000)), Span::from_ns(300));
    }
}
