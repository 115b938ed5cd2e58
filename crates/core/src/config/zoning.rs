//! Keys of a drive file that describe zones, whose blocks are written in order and reset together.

use crate::config::section::section;

section! {
    /// Zones of a drive whose blocks are written in order and reset as a whole (NVMe Zoned Namespaces). By default there are none.
    pub struct Zoning ("zones") {
        /// Distance from the first block of a zone to the first block of the next one; 0: the drive has no zones
        size_mib => size_mib: u64 = 0, 0..=1 << 30;
        /// Writable part of a zone from its first block on (Zone Capacity), in MiB; 0: the whole zone
        capacity_mib => capacity_mib: u64 = 0, 0..=1 << 30;
        /// Largest number of zones that are active at a time, open or closed (MAR); 0: no limit
        active_max => active_max: u32 = 0, 0..=1 << 20;
        /// Largest number of zones that are open at a time (MOR); 0: no limit. A write to a further zone closes the
        /// zone that has been implicitly open for longest
        open_max => open_max: u32 = 0, 0..=1 << 20;
        /// Number of flash dies of each zone: zones go to groups of this many dies in turn, and have erase blocks of
        /// their own there; 0: the translation layer places data of zones on all dies, as any other data
        dies => dies: u32 = 0, 0..=1 << 16;
        /// Largest Zone Append command (ZASL), in KiB; 0: as large as any other transfer
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
