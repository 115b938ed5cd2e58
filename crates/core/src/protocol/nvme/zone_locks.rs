//! Locks of zones that a host writes at their write pointers. A device may execute commands in flight in any order, so
//! that the host keeps one write to a zone in flight, as the zone write locking of Linux does.

use std::collections::VecDeque;

use crate::request::RequestId;

/// Zones with a write in flight, and the requests that wait for its completion.
#[derive(Clone, Debug)]
pub(super) struct ZoneWriteLocks {
    /// Number of bytes from the start of one zone to the start of the next; 0 if the drive has no zones.
    zone_bytes: u64,
    locks: Vec<ZoneWriteLock>,
}

/// Lock of a zone: the request that holds it, and those that wait for it in the order of their submission.
#[derive(Clone, Debug)]
struct ZoneWriteLock {
    zone: u64,
    holder: RequestId,
    waiting: VecDeque<RequestId>,
}

impl ZoneWriteLocks {
    /// Creates the locks, all of them free, of zones that start at multiples of `zone_bytes` bytes.
    pub(super) fn new(zone_bytes: u64) -> ZoneWriteLocks {
        ZoneWriteLocks { zone_bytes, locks: Vec::new() }
    }

    /// Takes the lock of the zone that holds byte `offset` of the drive for a request. Returns false, and lets the
    /// request wait, if another request holds it. True on a drive without zones.
    pub(super) fn lock(&mut self, offset: u64, request: RequestId) -> bool {
        let Some(zone) = offset.checked_div(self.zone_bytes) else { return true };
        match self.locks.iter_mut().find(|lock| lock.zone == zone) {
            None => self.locks.push(ZoneWriteLock { zone, holder: request, waiting: VecDeque::new() }),
            Some(lock) if lock.holder == request => {}
            Some(lock) => {
                lock.waiting.push_back(request);
                return false;
            }
        }
        true
    }

    /// Releases the lock that a completed request holds, if any. Gives it to the request that has waited longest, which
    /// is returned, and is to be submitted.
    #[inline]
    pub(super) fn release(&mut self, request: RequestId) -> Option<RequestId> {
        let place = self.locks.iter().position(|lock| lock.holder == request)?;
        let next = self.locks[place].waiting.pop_front();
        match next {
            Some(next) => self.locks[place].holder = next,
            None => drop(self.locks.swap_remove(place)),
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_has_one_write_in_flight_and_queues_others() {
        let mut locks = ZoneWriteLocks::new(10);
        let taken = [(30, 1), (31, 2), (40, 5), (39, 6)].map(|(offset, id)| locks.lock(offset, id));
        assert_eq!(taken, [true, false, true, false]);
        assert_eq!((locks.release(9), locks.release(1)), (None, Some(2)));
        assert!(locks.lock(31, 2), "the request that was returned holds the lock when it is submitted");
        assert_eq!((locks.release(5), locks.release(2), locks.release(6)), (None, Some(6), None));
        assert!(locks.lock(30, 7) && ZoneWriteLocks::new(0).lock(30, 7));
    }
}
