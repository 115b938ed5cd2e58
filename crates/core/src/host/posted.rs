//! Register writes that cores have posted.
//!
//! A write to a device's register is posted: the core continues once the write has left the store buffer. Such writes
//! leave a core for the root port at a fixed rate, and a core has room for a fixed number of them. A driver that rings
//! seldom never notices. One that rings for every command soon finds no room, and its core waits for the oldest write
//! to leave (SPDK blog, May 2019: "the CPU's queue of posted MMIO fills").

use std::collections::VecDeque;

use crate::config;
use crate::time::{Span, Time};

/// Posted register writes of all cores that have not left for the root port yet.
#[derive(Clone, Debug)]
pub(super) struct PostedWriteQueue {
    /// Time from one register write leaving a core to the next.
    drain: Span,
    /// Number of posted register writes that a core has room for.
    room: usize,
    /// Instants at which the posted register writes leave, by core.
    cores: Vec<VecDeque<Time>>,
}

impl PostedWriteQueue {
    /// Creates the posted register writes of a host; `None` if they leave a core in no time. Their drain does not scale
    /// with the core's clock.
    pub(super) fn of(host: &config::Host) -> Option<PostedWriteQueue> {
        let cores = vec![VecDeque::new(); host.processors().into()];
        (!host.mmio_drain.is_zero()).then(|| PostedWriteQueue {
            drain: host.mmio_drain,
            room: host.mmio_room.into(),
            cores,
        })
    }

    /// Posts a register write of a core at `now`. Returns the time that the core waits for room.
    pub(super) fn write(&mut self, now: Time, core: usize) -> Span {
        let leaving = &mut self.cores[core];
        let gone = leaving.iter().take_while(|left| **left <= now).count();
        leaving.drain(..gone);
        let at = match leaving.len() < self.room {
            true => now,
            false => leaving.pop_front().unwrap_or(now),
        };
        let last = leaving.back().copied().unwrap_or(at);
        leaving.push_back(last.max(at) + self.drain);
        at.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(drain_ns: u64, room: u16) -> PostedWriteQueue {
        let host = config::Host { mmio_drain: Span::from_ns(drain_ns), mmio_room: room, ..config::Host::default() };
        PostedWriteQueue::of(&host).expect("it can fill up")
    }

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn posted_writes_wait_only_when_the_queue_is_full() {
        let mut posted = posted(300, 2);
        assert_eq!(posted.write(at(0), 0), Span::ZERO);
        assert_eq!(posted.write(at(10), 0), Span::ZERO);
        // The first write leaves at 300 ns, the second at 600 ns and this one at 900 ns.
        assert_eq!(posted.write(at(20), 0), Span::from_ns(280));
        assert_eq!(posted.write(at(599), 0), Span::from_ns(1));
        assert_eq!(posted.write(at(900), 0), Span::ZERO, "it left at that instant");
    }

    #[test]
    fn steady_posted_writes_run_at_the_drain_rate() {
        for room in [1, 4, 16] {
            let mut posted = posted(300, room);
            let mut now = at(0);
            for _ in 0..1000 {
                now += Span::from_ns(50);
                now += posted.write(now, 0);
            }
            let ahead = Span::from_ns(300) * u64::from(room);
            assert!(now + ahead >= at(300_000) && now <= at(300_050), "{room}: {now}");
        }
    }

    #[test]
    fn cores_have_separate_posted_write_queues() {
        let host = config::Host { cores: 2, mmio_drain: Span::from_ns(300), mmio_room: 1, ..config::Host::default() };
        let mut posted = PostedWriteQueue::of(&host).expect("it can fill up");
        posted.write(at(0), 0);
        assert_eq!(posted.write(at(0), 1), Span::ZERO);
        assert!(PostedWriteQueue::of(&config::Host::default()).is_none());
    }
}
