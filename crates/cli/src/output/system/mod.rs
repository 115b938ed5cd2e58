//! What systems do differently with files and terminals, behind one set of functions.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::*;
#[cfg(unix)]
pub(super) use unix::*;
