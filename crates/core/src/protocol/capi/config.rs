//! Keys of section `capi` of drive files: driver, processor service layer (PSL) and accelerator (AFU).

use crate::config::section::{any, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// The CAPI attachment: work elements, processor service layer (PSL) and accelerator (AFU) (Bougioukou et al.).
    pub struct Capi ("capi") {
        /// Work elements that the AFU has at once; commands beyond gather for the next
        elements => elements: u16 = 8, 1..=1024;
        /// Commands that an element carries, of one or several threads; its line of 128 bytes has room for seven
        commands_per_element => commands_per_element: u8 = 7, 1..=7;
        /// Processor time to write a command into an element
        fill_ns => fill: Span = ns(20), ZERO..=LONGEST;
        /// Processor time of a command beside that, which no lone request waits for: its place kept, its status line fetched
        command_ns => command: Span = ns(48), ZERO..=LONGEST;
        /// Time that a command of the AFU takes in the PSL, translation in its cache included
        psl_ns => psl: Span = ns(305), ZERO..=LONGEST;
        /// Share of commands whose address the PSL has to look up in the page table, a line in host memory
        translation_miss_ratio => translation_miss_ratio: f64 = 0.0, 0.0..=1.0;
        /// True if the AFU claims lines before it writes them, with a command of their own
        claim_lines => claim_lines: bool = true, any();
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Buffer of the AFU: a write is done once it is in there
        buffer_kib => buffer_kib: u32 = 256, 4..=1 << 20;
        /// Largest transfer of one command; larger requests are split
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    }
}
