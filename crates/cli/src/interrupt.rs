//! Handling of Ctrl-C and SIGTERM: the first signal asks a command to stop, the second ends the process.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ending::INTERRUPTED;

/// Calls `stop` at the first signal. A second one ends the process at once.
pub(crate) fn on_first(stop: impl Fn() + Send + 'static) {
    let asked = AtomicBool::new(false);
    let handler = move || {
        if asked.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED.into());
        }
        stop();
    };
    // Where no handler can be set, a signal ends the process as it does any other.
    let _ = ctrlc::set_handler(handler);
}

/// Returns a flag that the first signal sets.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    on_first(move || flag.store(true, Ordering::Relaxed));
    stopped
}
