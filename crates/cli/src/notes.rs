//! What is worth telling beside results: on the standard error output, unless nobody wants to hear it.

use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether notes and progress are left out from now on.
pub(crate) fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether they are.
pub(crate) fn are_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Tell something.
pub(crate) fn tell(note: &str) {
    if !are_quiet() {
        eprintln!("{note}");
    }
}
