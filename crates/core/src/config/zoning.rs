//! Keys of a drive file that describe zones, whose blocks are written in order and reset together.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Zones of a drive whose blocks are written in order and reset as a whole (NVMe Zoned Namespaces). By default there are none.
    pub struct Zoning ("zones") {
        /// Distance from the first block of a zone to the first block of the next one; 0: the drive has no zones
        size_mib => size_mib: u64 = 0, 0..=1 << 30;
        /// Writable part of a zone from its first block on (Zone Capacity), in MiB; 0: the whole zone
        capacity_mib => capacity_mib: u64 = 0, 0..=1 << 30, with size_mib;
        /// Largest number of zones that are active at a time, open or closed (MAR); 0: no limit
        active_max => active_max: u32 = 0, 0..=1 << 20, with size_mib;
        /// Largest number of zones that are open at a time (MOR); 0: no limit. A write to a further zone closes the
        /// zone that has been implicitly open for longest
        open_max => open_max: u32 = 0, 0..=1 << 20, with size_mib;
        /// Number of flash dies of each zone: zones go to groups of this many dies in turn, and have erase blocks of
        /// their own there; 0: the translation layer places data of zones on all dies, as any other data
        dies => dies: u32 = 0, 0..=1 << 16, with size_mib;
        /// Largest Zone Append command (ZASL), in KiB; 0: as large as any other transfer
        append_max_kib => append_max_kib: u32 = 0, [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], with size_mib;
        /// Service time that a Zone Append adds to `buffer.command_ns`: appends a second are at most
        /// `buffer.command_servers` divided by the sum
        append_ns => append: Span = ZERO, ZERO..=LONGEST, needs Translation, with size_mib;
        /// Service time of a zone for each write or append, behind the write buffer: commands a second that one zone
        /// accepts are at most its inverse; 0: no limit
        command_ns => command: Span = ZERO, ZERO..=LONGEST, needs Translation, with size_mib;
    }
    conditions [Zoning::check_capacity, Zoning::check_limits]
}

impl Zoning {
    /// True if the drive is divided into zones.
    pub fn is_there(&self) -> bool {
        self.size_mib > 0
    }

    /// Returns the distance between the beginnings of two zones in bytes; 0 without zones.
    pub fn zone_bytes(&self) -> u64 {
        self.size_mib << 20
    }

    /// Returns the writable capacity of a zone in MiB.
    pub fn writable_mib(&self) -> u64 {
        if self.capacity_mib > 0 { self.capacity_mib } else { self.size_mib }
    }

    /// Checks that the capacity of a zone is at most the zone's size.
    fn check_capacity(&self) -> Option<BrokenCondition> {
        BrokenCondition::when(
            self.is_there() && self.capacity_mib > self.size_mib,
            &["zones.capacity_mib", "zones.size_mib"],
            format!("zones.capacity_mib is {} with zones.size_mib {}", self.capacity_mib, self.size_mib),
            String::from("zones.capacity_mib up to zones.size_mib, or 0 for all of it"),
        )
    }

    /// Checks that the limit of open zones is at most that of active zones, because open zones are active.
    fn check_limits(&self) -> Option<BrokenCondition> {
        let Zoning { active_max, open_max, .. } = *self;
        let found = match open_max {
            0 => format!("zones.active_max is {active_max}, and zones.open_max is 0, no limit"),
            _ => format!("zones.open_max is {open_max} with zones.active_max {active_max}"),
        };
        BrokenCondition::when(
            self.is_there() && active_max > 0 && (open_max == 0 || open_max > active_max),
            &["zones.open_max", "zones.active_max"],
            found,
            format!("zones.open_max from 1 to {active_max}, as open zones are active"),
        )
    }
}
