//! Functions for files and terminals whose implementation differs between Unix and other systems.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::*;
#[cfg(unix)]
pub(super) use unix::*;
