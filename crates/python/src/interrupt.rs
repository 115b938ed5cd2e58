//! Runs long work so that Ctrl-C can end it, and reports its progress to Python.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use pyo3::prelude::*;
use rayon::prelude::*;

/// Time between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Number of events between two checks for a request to stop: some 10 ms of work.
pub(crate) const EVENTS: u64 = 1 << 17;

/// Python function that is told the completed share of a call, with the number of completed parts.
#[derive(Debug)]
pub(crate) struct Progress {
    call: Option<Py<PyAny>>,
    done: AtomicUsize,
    parts: usize,
}

impl Progress {
    /// Returns the progress of a call with `parts` parts. Without a function, nothing is reported.
    pub(crate) fn new(call: Option<Py<PyAny>>, parts: usize) -> Progress {
        Progress { call, done: AtomicUsize::new(0), parts: parts.max(1) }
    }

    /// Counts one more completed part.
    pub(crate) fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `run` with each number below `count` on all processors, and counts a part after each call.
    pub(crate) fn each(&self, count: usize, run: &(dyn Fn(usize) + Sync)) {
        (0..count).into_par_iter().for_each(|place| {
            run(place);
            self.advance();
        });
    }

    /// Reports the completed share, by the number of completed parts, to the Python function. Runs that a result has
    /// made necessary, such as those at equal load, count as parts beyond the last.
    ///
    /// # Errors
    ///
    /// What the function raises.
    pub(crate) fn tell_parts(&self, py: Python<'_>) -> PyResult<()> {
        self.tell(py, (self.done.load(Ordering::Relaxed) as f64 / self.parts as f64).min(1.0))
    }

    /// Reports a share from 0 to 1 to the Python function.
    ///
    /// # Errors
    ///
    /// What the function raises.
    pub(crate) fn tell(&self, py: Python<'_>, share: f64) -> PyResult<()> {
        match &self.call {
            Some(call) => call.call1(py, (share,)).map(drop),
            None => Ok(()),
        }
    }
}

/// Runs work like [`watched`], without reporting progress.
///
/// # Errors
/// What a signal handler has raised: `KeyboardInterrupt`, mostly.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    watched(py, &Progress::new(None, 1), work)
}

/// Runs work without the interpreter's lock until it is done, or a signal handler or the progress function raises an
/// exception. After an exception, asks the work to stop, and waits for it.
///
/// # Errors
/// What a signal handler has raised (`KeyboardInterrupt`, mostly), or the function.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: &Progress,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let stopped = AtomicBool::new(false);
    py.detach(|| {
        thread::scope(|scope| {
            let (done, over) = mpsc::channel::<()>();
            let stopped = &stopped;
            let worker = scope.spawn(move || {
                // The sender is dropped when the work ends, also by a panic.
                let _done = done;
                work(stopped)
            });
            let mut raised = Ok(());
            while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if raised.is_ok() {
                    raised = Python::attach(|py| py.check_signals().and_then(|()| progress.tell_parts(py)));
                    stopped.store(raised.is_err(), Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
            raised.and_then(|()| Python::attach(|py| progress.tell_parts(py))).map(|()| result)
        })
    })
}

/// Runs a simulation to its end, or until `stopped` is set, and returns its outcome.
pub(crate) fn outcome(mut simulation: Simulation, stopped: &AtomicBool) -> Outcome {
    while !stopped.load(Ordering::Relaxed) && simulation.step(EVENTS) {}
    simulation.outcome()
}
