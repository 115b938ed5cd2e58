//! Keys of a drive file that describe zones, whose blocks are written in order and reset together.

use crate::config::section::section;

section! {
    /// Zones of a drive whose blocks are written in order and reset as a whole (NVMe Zoned Namespaces). By default there are none.
    pub struct Zoning ("zones") {
        /// Distance from the first block of a zone to the first block of the next one; 0: the drive has no zones
        size_mib => size_mib: u64 = 0, 0..=1 << 30;
        /// Part of a zone, from its first block on, that can be written; 0: all of it
        capacity_mib => capacity_mib: u64 = 0, 0..=1 << 30;
        /// Largest number of zones that are active at a time, open or closed (MAR); 0: no limit
        active_max => active_max: u32 = 0, 0..=1 << 20;
        /// Largest number of zones that are open at a time (MOR); a write to one more closes the zone that has been implicitly open for longest; 0: no limit
        open_max => open_max: u32 = 0, 0..=1 << 20;
        /// Dies of each zone, on flash: zones belong to the groups of so many dies in turn, and have erase blocks of their own there; 0: the translation layer places what is written to zones on all dies, as any data
        dies => dies: u32 = 0, 0..=1 << 16;
        /// Largest Zone Append (ZASL); 0: as large as any other transfer
        append_max_kib => append_max_kib: u32 = 0, [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    }
}

impl Zoning {
    /// True if the drive is divided into zones.
    pub fn is_there(&self) -> bool {
        self.size_mib > 0
    }

    /// Returns the writable capacity of a zone in MiB.
    pub fn writable_mib(&self) -> u64 {
        if self.capacity_mib > 0 { self.capacity_mib } else { self.size_mib }
    }
}
