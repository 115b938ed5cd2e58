//! Long work that Ctrl-C ends.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use pyo3::prelude::*;

/// Time between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Number of events between two checks for a request to stop: some 10 ms of work.
pub(crate) const EVENTS: u64 = 1 << 17;

/// Runs work without the interpreter's lock until it is done or a signal raises an exception. After an exception the
/// work is asked to stop, and waited for.
///
/// # Errors
/// What a signal handler has raised: `KeyboardInterrupt`, mostly.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let stopped = AtomicBool::new(false);
    py.detach(|| {
        thread::scope(|scope| {
            let (done, over) = mpsc::channel::<()>();
            let stopped = &stopped;
            let worker = scope.spawn(move || {
                // Dropped at the end, also of a panic.
                let _done = done;
                work(stopped)
            });
            let mut raised = Ok(());
            while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if raised.is_ok() {
                    raised = Python::attach(|py| py.check_signals());
                    stopped.store(raised.is_err(), Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
            raised.map(|()| result)
        })
    })
}

/// Returns the outcome of a simulation that runs to its end, or until it is asked to stop.
pub(crate) fn outcome(mut simulation: Simulation, stopped: &AtomicBool) -> Outcome {
    while !stopped.load(Ordering::Relaxed) && simulation.step(EVENTS) {}
    simulation.outcome()
}
