//! Block traces: requests that another system issued to its drive, with their times.
//!
//! The format is detected by content, or forced. A trace is read twice: [`read`] goes through all of it, finds mistakes
//! and devices, and keeps the requests if they are few; each replay of a long one reads its files again, so that memory
//! stays bounded. The caller opens the files ([`File`]).
//!
//! A trace covers one device, which is chosen if there are several. Its requests are sorted by arrival (stably:
//! recorders write slightly out of order), with arrivals counted from the first. Flushes are requests as well; those before
//! the first read or write are dropped, as there is nothing to flush. Discards and other operations are left out and
//! counted; a record that is not understood is a problem with its line.
//!
//! Each format has one file: [`blkparse`], [`blktrace`], [`iolog`], [`msr`], [`alibaba`], [`tencent`], [`systor`],
//! [`vscsi`]; `reader` chooses among them. `events` splits files into records, `merged` puts those of several files
//! into one order, `scan` is the first reading, `requests` the others; `info` computes statistics.

mod alibaba;
mod blkparse;
mod blktrace;
mod events;
mod file;
mod format;
mod info;
pub mod iolog;
mod merged;
mod msr;
mod reader;
mod record;
mod requests;
mod scan;
mod summary;
mod systor;
mod tencent;
mod trace_io;
mod vscsi;

pub use file::{File, Pieces};
pub use format::Format;
pub use info::{BLOCK_BYTES, Footprint, Info, QueueDepth, info};
pub use iolog::to_iolog;
pub use requests::{Iter, TraceRequests};
pub use scan::{NamedTrace, Selection};
pub use summary::Summary;
pub use trace_io::TraceIo;

use crate::problem::Problems;

/// A trace that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Format of the trace.
    pub format: Format,
    /// The device whose requests these are, as the trace names it.
    pub device: String,
    /// Never empty.
    pub requests: TraceRequests,
    /// Records that are no reads or writes of data, by kind, with their number.
    pub left_out: Vec<(&'static str, u64)>,
}

/// Reads a trace, of several files if the recorder wrote one for each processor.
///
/// # Errors
/// All its mistakes at once, up to a number that a person would read.
pub fn read(files: &[File], selection: &Selection) -> Result<Trace, Problems> {
    read_keeping(files, selection, scan::KEPT_MAX)
}

/// Reads a trace, keeping up to `kept_max` requests in memory.
///
/// # Errors
/// As [`read`].
pub fn read_keeping(files: &[File], selection: &Selection, kept_max: usize) -> Result<Trace, Problems> {
    scan::scan(files, selection, kept_max)
}

/// Reads a trace that is at hand.
///
/// # Errors
/// As [`read`].
pub fn parse(file_name: &str, bytes: impl AsRef<[u8]>) -> Result<Trace, Problems> {
    read(&[File::at_hand(file_name, bytes.as_ref())], &Selection::default())
}

#[cfg(test)]
mod tests;
