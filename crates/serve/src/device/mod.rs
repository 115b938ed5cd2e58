//! What every front-end works on: the bytes, the description, the counters, the record, and the sign to stop.

pub mod faults;
pub mod flusher;
pub mod history;
pub mod mailbox;
pub mod metrics;
pub mod pipe;
pub mod record;
pub mod recording;
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

/// A device that is being served. Clones share it.
#[derive(Clone, Debug)]
pub struct Device {
    pub drive: Arc<Drive>,
    pub store: Arc<Store>,
    pub tallies: Arc<Tallies>,
    /// Where requests are recorded, if they are.
    pub record: Option<Arc<Record>>,
    /// Where changes are recorded with their bytes, if they are: by NBD with timing off.
    pub history: Option<Arc<History>>,
    /// What goes wrong with requests.
    pub faults: Arc<Faults>,
    pub stop: Arc<Stop>,
}

/// Size and block of a served drive: blocks of what writes are multiples of, the largest that its protocols know.
pub fn geometry(drive: &Drive) -> Geometry {
    let limits = drive.limits();
    let block_bytes = limits.block_bytes.max(limits.write_block_bytes);
    Geometry { capacity_bytes: limits.capacity_bytes / u64::from(block_bytes) * u64::from(block_bytes), block_bytes }
}

/// Tells every thread of a server to finish: by a flag for those that spin, and by a descriptor that becomes readable,
/// for good, for those that sleep.
#[derive(Debug)]
pub struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Not yet.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Stop> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop { flag: AtomicBool::new(false), event })
    }

    /// Now.
    pub fn request(&self) {
        self.flag.store(true, Ordering::Release);
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Whether it is time.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Now, if not before, when what this returns goes: a thread that has it, and fails, leaves no other waiting.
    pub fn at_the_end(&self) -> AtTheEnd<'_> {
        AtTheEnd(self)
    }
}

/// Requests a stop when it goes.
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
