//! Notes that accompany results: printed to standard error, unless `--quiet` is given.

use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets (true) or clears the suppression of notes and progress bars by `--quiet`.
pub(crate) fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Returns true if notes and progress bars are suppressed.
pub(crate) fn are_notes_suppressed() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a note to standard error, unless notes are suppressed.
pub(crate) fn tell(note: &str) {
    if !are_notes_suppressed() {
        eprintln!("{note}");
    }
}
