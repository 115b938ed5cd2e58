//! State that all front-ends of a served drive share: bytes, description, counters, recordings, fault rules, and the
//! stop request.

pub mod counter;
pub mod empty_exchange;
pub mod faults;
pub mod flusher;
pub(crate) mod gate;
pub(crate) mod guard;
pub mod history;
pub mod mailbox;
pub mod metrics;
pub mod pace;
pub mod paths;
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
use self::tally::ServingThreadTallies;

/// Drive that is being served, with the state that all front-ends share. Clones share it too.
#[derive(Clone, Debug)]
pub struct Device {
    /// Description of the served drive.
    pub drive: Arc<Drive>,
    /// Bytes of the served drive.
    pub store: Arc<Store>,
    /// Counters of all serving threads.
    pub tallies: Arc<ServingThreadTallies>,
    /// Trace of all requests, if one is being recorded.
    pub record: Option<Arc<Record>>,
    /// History of all changes with their data, if it is being recorded: by NBD and vfio-user, with timing off.
    pub history: Option<Arc<History>>,
    /// Fault rules in force.
    pub faults: Arc<Faults>,
    /// Request to all threads of the server to end.
    pub stop: Arc<StopRequest>,
}

/// Returns capacity and block size in bytes of a served drive. The block is the larger of the units of its reads and
/// its writes, and the capacity is a whole number of blocks.
pub fn geometry(drive: &Drive) -> Geometry {
    let limits = drive.limits();
    let block_bytes = limits.block_bytes.max(limits.write_block_bytes);
    Geometry { capacity_bytes: limits.capacity_bytes / u64::from(block_bytes) * u64::from(block_bytes), block_bytes }
}

/// Request to every thread of a server to end. Threads that spin read a flag; threads that sleep poll a descriptor,
/// which stays readable.
#[derive(Debug)]
pub struct StopRequest {
    flag: AtomicBool,
    event: OwnedFd,
}

impl StopRequest {
    /// Returns a stop request that has not been made.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<StopRequest> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(StopRequest { flag: AtomicBool::new(false), event })
    }

    /// Requests that all threads of the server end.
    pub fn request(&self) {
        self.flag.store(true, Ordering::Release);
        // The write fails only if the counter is full, and then the eventfd is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Returns true if the server is to end.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns a guard that requests the server's end when it is dropped, so that a failing thread leaves no other
    /// waiting.
    pub fn stop_when_dropped(&self) -> StopOnDrop<'_> {
        StopOnDrop(self)
    }
}

/// Guard that requests the end of a server when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct StopOnDrop<'a>(&'a StopRequest);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

impl AsFd for StopRequest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn failing_thread_stops_all_other_threads() {
        let stop = StopRequest::new().unwrap();
        let failed = thread::scope(|scope| {
            let failing = || {
                let _stop = stop.stop_when_dropped();
                panic!("as asked");
            };
            scope.spawn(failing).join().is_err()
        });
        assert!(failed && stop.is_requested());
    }
}
