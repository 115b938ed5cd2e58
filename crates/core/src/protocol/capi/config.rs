//! Keys of section `capi` of drive files: driver, processor service layer (PSL) and accelerator (AFU).

use crate::config::section::{any, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// CAPI attachment of the drive: work elements, processor service layer (PSL) and accelerator (AFU) (Bougioukou et
    /// al.).
    pub struct Capi ("capi") {
        /// Number of work elements that the accelerator (AFU) holds at a time; further commands are collected for the
        /// next work element
        elements => elements: u16 = 8, 1..=1024;
        /// Largest number of commands in a CAPI work element, of one or several threads; its line of 128 bytes has room
        /// for seven
        commands_per_element => commands_per_element: u8 = 7, 1..=7;
        /// Processor time of the CAPI driver to write a command into a work element
        fill_ns => fill: Span = ns(20), ZERO..=LONGEST;
        /// Further processor time of the CAPI driver for a command, off the critical path of a lone request: slot
        /// bookkeeping, fetch of the status line
        command_ns => command: Span = ns(48), ZERO..=LONGEST;
        /// Time of a command of the accelerator (AFU) in the processor service layer (PSL), including a hit in its
        /// translation cache
        psl_ns => psl: Span = ns(305), ZERO..=LONGEST;
        /// Fraction of CAPI commands whose address the processor service layer (PSL) looks up in the page table, by
        /// reading a line of host memory
        translation_miss_ratio => translation_miss_ratio: f64 = 0.0, 0.0..=1.0;
        /// True if the accelerator (AFU) claims cache lines, with a separate command, before it writes them
        claim_lines => claim_lines: bool = true, any();
        /// Time in which the accelerator (AFU) parses one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Capacity of the accelerator's (AFU) buffer, in KiB; a write is complete once its data is in the buffer
        buffer_kib => buffer_kib: u32 = 256, 4..=1 << 20;
        /// Largest transfer of one CAPI command, in KiB; the driver splits larger requests
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    }
    conditions [Capi::check_buffer]
}

impl Capi {
    /// Checks that no transfer is larger than the AFU's buffer: a write completes once all of it is in the buffer.
    fn check_buffer(&self) -> Option<BrokenCondition> {
        let (buffer, transfer) = (self.buffer_kib, self.max_transfer_kib);
        BrokenCondition::when(
            transfer > buffer,
            &["capi.buffer_kib", "capi.max_transfer_kib"],
            format!("capi.max_transfer_kib is {transfer} with capi.buffer_kib {buffer}"),
            String::from("capi.max_transfer_kib up to capi.buffer_kib"),
        )
    }
}
