//! Handling of Ctrl-C and SIGTERM: the first signal asks a command to stop, the second ends the process.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a command that a signal has stopped, as shells report it: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// True once a signal has asked the command to stop.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Sets a handler that calls `stop` at the first Ctrl-C or SIGTERM. A second signal ends the process at once.
pub(crate) fn handle_first_signal(stop: impl Fn() + Send + 'static) {
    let handler = move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED.into());
        }
        stop();
    };
    // If no handler can be set, a signal ends the process as usual.
    let _ = ctrlc::set_handler(handler);
}

/// Returns a flag that the first Ctrl-C or SIGTERM sets, after which the command should stop.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    handle_first_signal(move || flag.store(true, Ordering::Relaxed));
    stopped
}

/// Ends the process if a signal has asked the command to stop. Commands without a result yet call `exit_if_interrupted` while
/// they wait.
pub(crate) fn exit_if_interrupted() {
    if ASKED.load(Ordering::Relaxed) {
        process::exit(INTERRUPTED.into());
    }
}
