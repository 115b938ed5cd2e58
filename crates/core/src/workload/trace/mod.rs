//! Block traces: requests that another system issued to its drive, with their times.
//!
//! The format is detected by content, or forced. A trace is read twice: [`read`] goes through all of it, finds mistakes
//! and devices, and keeps the requests if they are few; each replay of a long one reads its files again, so that memory
//! stays bounded. The caller opens the files ([`File`]).
//!
//! A trace covers one device, which is chosen if there are several. Its requests are sorted by arrival (stably:
//! recorders write slightly out of order), with arrivals counted from the first. Flushes are requests as well; those
//! before the first read or write are dropped, as there is nothing to flush. Discards and other operations are left out
//! and counted; a record that is not understood is a problem with its line.
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
pub use info::{BLOCK_BYTES, BlockFootprint, RecordedQueueDepth, TraceStatistics, info};
pub use iolog::to_iolog;
pub use requests::{TraceRequestIter, TraceRequests};
pub use scan::{NamedJobTrace, TraceSelection};
pub use summary::Summary;
pub use trace_io::TimedTraceRequest;

use crate::problem::Problems;

/// Requests of one device from a recorded trace, with format and device name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Format of the trace's files.
    pub format: Format,
    /// Name of the device to which the requests went, as the trace gives it.
    pub device: String,
    /// Requests of the trace; there is at least one.
    pub requests: TraceRequests,
    /// Number of trace records of each kind that are no reads, writes or flushes and are not replayed.
    pub left_out: Vec<(&'static str, u64)>,
}

/// Reads a trace, which has several files if the recorder wrote one for each processor.
///
/// # Errors
/// All problems of the files at once; if they are many, the first ones and the number of the others.
pub fn read(files: &[File], selection: &TraceSelection) -> Result<Trace, Problems> {
    read_trace_keeping(files, selection, scan::KEPT_MAX)
}

/// Reads a trace, and keeps its requests in memory if they are at most `kept_max`; each replay of a longer trace reads
/// its files again.
///
/// # Errors
/// As [`read`].
pub fn read_trace_keeping(files: &[File], selection: &TraceSelection, kept_max: usize) -> Result<Trace, Problems> {
    scan::scan(files, selection, kept_max)
}

/// Reads a trace that is in memory: `bytes` is the content of a file, whose format is detected. `file_name` is for
/// messages.
///
/// # Errors
/// As [`read`].
pub fn parse(file_name: &str, bytes: impl AsRef<[u8]>) -> Result<Trace, Problems> {
    read(&[File::in_memory(file_name, bytes.as_ref())], &TraceSelection::default())
}

#[cfg(test)]
mod tests;
