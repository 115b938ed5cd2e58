//! A server on a thread of its own, until the test is done with it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use phaselink_core::drive::Drive;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::server::{Server, Summary};

/// Servers and clients spin: one such test at a time has the processors.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be served.
pub(crate) fn device(drive: Drive, store: Store) -> Device {
    Device {
        drive: Arc::new(drive),
        store: Arc::new(store),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(StopRequest::new().unwrap()),
    }
}

/// A server that runs until this goes.
pub(crate) struct BackgroundServer {
    stop: Arc<StopRequest>,
    thread: Option<JoinHandle<io::Result<Summary>>>,
    _alone: MutexGuard<'static, ()>,
}

impl BackgroundServer {
    pub(crate) fn start(server: Server, alone: MutexGuard<'static, ()>) -> BackgroundServer {
        let stop = Arc::clone(&server.device.stop);
        BackgroundServer { stop, thread: Some(thread::spawn(move || server.run())), _alone: alone }
    }

    pub(crate) fn finish(mut self) -> Summary {
        self.stop.request();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
