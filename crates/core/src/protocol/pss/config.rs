//! Keys of section `pss` of drive files: descriptors, firmware, DRAM cache and error handling of the PSS card.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// The PSS driver, and the card with its firmware.
    pub struct Pss ("pss") {
        /// Descriptors in the shared area of host memory: commands that the driver may have outstanding
        descriptors => descriptors: u32 = 256, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Largest transfer of one descriptor
        max_transfer_kib => max_transfer_kib: u32 = 128, 4..=1024;
        /// Most descriptors that the card takes over at once
        exchange_descriptors => exchange_descriptors: u16 = 16, 1..=1024;
        /// Commands that the card works on at a time
        commands => commands: u16 = 64, 1..=4096;
        /// Processor cores of the card
        firmware_cores => firmware_cores: u16 = 2, 1..=1024;
        /// Processor time of the firmware for each command
        firmware_ns => firmware: Span = us(10), ZERO..=LONGEST;
        /// Processing of reads: checked and corrected before they are sent (`validate`), or sent as they come from the chips, with their metadata (`passthrough`)
        read_mode => read_mode: ReadMode = ReadMode::Validate, any();
        /// Pages of 4 KiB that the DRAM of the card holds: written, stored lately or read ahead; 0 for none
        cache_pages => cache_pages: u32 = 1024, 0..=1 << 24;
        /// Pages that are read ahead of sequential reads while the card has nothing else to do
        prefetch_pages => prefetch_pages: u32 = 4, 0..=1024;
    }
}

/// Handling of errors in data that a read takes from the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Sends data to the host while it arrives from the chips, uncorrected and followed by its metadata.
    Passthrough,
    /// Keeps a read's data in the card until all of it is corrected, then sends it to the host.
    Validate,
}

names! { ReadMode { "passthrough" => Passthrough, "validate" => Validate } }
