//! Notes beside the results: printed to standard error, unless `--quiet` is given.

use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Turns notes and progress off or on.
pub(crate) fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Returns true if notes and progress are off.
pub(crate) fn are_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a note.
pub(crate) fn tell(note: &str) {
    if !are_quiet() {
        eprintln!("{note}");
    }
}
