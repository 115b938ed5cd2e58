//! Keys of section `ramdisk` of drive files: slots, parsing time and largest transfer.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Driver and device of `ramdisk`, a block device behind one doorbell: the example protocol of
    /// `docs/adding-a-protocol.md`.
    pub struct RamdiskKeys ("ramdisk") {
        /// Number of commands that the `ramdisk` device accepts at a time; further commands wait in the driver
        slots => slots: u16 = 64, 1..=1024;
        /// Time in which the `ramdisk` device parses one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Largest transfer of one `ramdisk` command, in KiB; the driver splits larger requests
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024];
    }
}
