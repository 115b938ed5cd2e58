//! Keys of section `pss` of drive files: descriptors, firmware, DRAM cache and error handling of the PSS card.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, us};
use crate::time::Span;

section! {
    /// PSS driver of the simulated host, and phase-change storage card with its firmware.
    pub struct PssKeys ("pss") {
        /// Number of descriptors in the PSS driver's shared area of host memory: commands that the driver may have
        /// outstanding
        descriptors => descriptors: u32 = 256, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Largest transfer of one PSS descriptor, in KiB
        max_transfer_kib => max_transfer_kib: u32 = 128, 4..=1024;
        /// Largest number of descriptors that the PSS card fetches from host memory at once
        exchange_descriptors => exchange_descriptors: u16 = 16, 1..=1024;
        /// Number of commands that the PSS card executes at a time
        commands => commands: u16 = 64, 1..=4096;
        /// Number of processor cores that execute the PSS card's firmware
        firmware_cores => firmware_cores: u16 = 2, 1..=1024;
        /// Processor time of the PSS card's firmware for each command
        firmware_ns => firmware: Span = us(10), ZERO..=LONGEST;
        /// Processing of reads in the PSS card: `validate` (data is checked and corrected before it is sent) or
        /// `passthrough` (data is sent as it comes from the chips, with its metadata)
        read_mode => read_mode: ChipReadMode = ChipReadMode::Validate, any();
        /// Capacity of the PSS card's DRAM cache, in pages of 4 KiB: written, recently stored or read ahead; 0: no
        /// cache
        cache_pages => cache_pages: u32 = 1024, 0..=1 << 24;
        /// Number of pages of 4 KiB that an idle PSS card reads ahead of sequential reads
        prefetch_pages => prefetch_pages: u32 = 4, 0..=1024;
    }
}

/// Handling of errors in data that a read takes from the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipReadMode {
    /// Sends data to the host while it arrives from the chips, uncorrected and followed by its metadata.
    Passthrough,
    /// Keeps a read's data in the card until all of it is corrected, then sends it to the host.
    Validate,
}

names! { ChipReadMode { "passthrough" => Passthrough, "validate" => Validate } }
