//! Ctrl-C: the first one asks a command to stop, the second ends the process.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ending::INTERRUPTED;

/// A flag that Ctrl-C sets. A second Ctrl-C ends the process at once.
pub fn flag() -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED.into());
        }
    };
    // Where no handler can be set, Ctrl-C ends the process as it does any other.
    let _ = ctrlc::set_handler(handler);
    stopped
}
