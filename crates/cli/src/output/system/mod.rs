//! Files and terminals on Unix and elsewhere, behind one set of functions.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::*;
#[cfg(unix)]
pub(super) use unix::*;
