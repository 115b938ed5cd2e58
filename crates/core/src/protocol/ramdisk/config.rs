//! Keys of section `ramdisk` of drive files: slots, parsing time and largest transfer.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// A block device behind one doorbell: the example of `docs/adding-a-protocol.md`.
    pub struct Ramdisk ("ramdisk") {
        /// Commands that the device takes at once; more wait in the driver
        slots => slots: u16 = 64, 1..=1024;
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Largest transfer of one command; larger requests are split
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024];
    }
}
