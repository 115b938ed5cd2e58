//! Keys of the section `cxl` of drive files.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::request::DataDirection;
use crate::time::Span;

section! {
    /// CXL.mem: loads and stores of the processor, and a memory expander (Compute Express Link Specification).
    pub struct Cxl ("cxl") {
        /// Lines of 64 bytes that a core may have under way at once: its fill buffers
        fill_buffers => fill_buffers: u16 = 16, 1..=256;
        /// Lines that a core's prefetchers may have under way beside them: those of a read from its third line on, as two consecutive lines show a stream
        prefetch_lines => prefetch_lines: u16 = 0, 0..=256;
        /// Processor time to issue the loads or stores of one line
        issue_ns => issue: Span = ns(1), ZERO..=LONGEST;
        /// Time of a message in the device, port and controller both ways, without buffer and memory
        controller_ns => controller: Span = ns(40), ZERO..=LONGEST;
        /// Bytes that the device reads from its memory, or writes to it, at once
        unit_bytes => unit_bytes: u32 = 256, [64, 128, 256, 512, 1024, 2048, 4096];
        /// Units that the device's buffer holds of those read, and as many of those written; it is within the persistence domain
        buffer_units => buffer_units: u32 = 64, 1..=65536;
    }
}

impl Cxl {
    /// Returns how many lines of a read or write of `lines` lines a core may have in flight at once.
    pub fn lines_at_once(&self, direction: DataDirection, lines: u32) -> u32 {
        let prefetched = direction == DataDirection::Read && lines > STREAM_LINES;
        u32::from(self.fill_buffers) + if prefetched { self.prefetch_lines.into() } else { 0 }
    }
}

/// Consecutive lines that a core has to load before its prefetchers follow (assumed: two misses).
pub const STREAM_LINES: u32 = 2;
