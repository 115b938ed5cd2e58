//! State that every front-end shares: bytes, description, counters, recording, and the stop flag.

pub mod counter;
pub mod empty_exchange;
pub mod faults;
pub mod flusher;
pub(crate) mod guard;
pub mod history;
pub mod mailbox;
pub mod metrics;
pub mod pace;
pub mod pipe;
pub mod record;
pub mod report;
pub mod store;
pub mod tally;
pub mod wakeup;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::drive::Drive;
use rustix::event::EventfdFlags;

use self::faults::Faults;
use self::history::History;
use self::record::Record;
use self::store::{Geometry, Store};
use self::tally::Tallies;

/// Device that is being served. Clones share it.
#[derive(Clone, Debug)]
pub struct Device {
    /// Description of the drive.
    pub drive: Arc<Drive>,
    /// Bytes.
    pub store: Arc<Store>,
    /// Counts of all threads.
    pub tallies: Arc<Tallies>,
    /// Trace of all requests, if one is recorded.
    pub record: Option<Arc<Record>>,
    /// History of changes with their bytes, if one is recorded: by NBD and vfio-user with timing off.
    pub history: Option<Arc<History>>,
    /// Fault rules.
    pub faults: Arc<Faults>,
    /// Request to end.
    pub stop: Arc<Stop>,
}

/// Returns size and block of a served drive: writes are multiples of the block, the largest that its protocol knows.
pub fn geometry(drive: &Drive) -> Geometry {
    let limits = drive.limits();
    let block_bytes = limits.block_bytes.max(limits.write_block_bytes);
    Geometry { capacity_bytes: limits.capacity_bytes / u64::from(block_bytes) * u64::from(block_bytes), block_bytes }
}

/// Request to every thread of a server to end: a flag for threads that spin, and a descriptor that becomes readable, for good,
/// for threads that sleep.
#[derive(Debug)]
pub struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Makes a request that has not been made.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Stop> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop { flag: AtomicBool::new(false), event })
    }

    /// Requests the end.
    pub fn request(&self) {
        self.flag.store(true, Ordering::Release);
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Returns true if the end has been requested.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns a guard that requests the end when it is dropped, so that a thread that fails leaves no other waiting.
    pub fn at_the_end(&self) -> AtTheEnd<'_> {
        AtTheEnd(self)
    }
}

/// Guard that requests the end of a server when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct AtTheEnd<'a>(&'a Stop);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_fails_stops_the_others() {
        let stop = Stop::new().unwrap();
        let failed = thread::scope(|scope| {
            let failing = || {
                let _stop = stop.at_the_end();
                panic!("as asked");
            };
            scope.spawn(failing).join().is_err()
        });
        assert!(failed && stop.is_requested());
    }
}
