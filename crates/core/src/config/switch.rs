//! Keys of the switches between the root ports and the drives.

use crate::config::Link;
use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Switches between root ports and drives, each with one link to its root port (its uplink) that all drives behind it share. By default there are none, and each drive has a root port of its own.
    pub struct Switch ("switch") {
        /// Drives behind each switch, the first of them behind the first one; 0 for no switches
        drives => drives: u16 = 0, 0..=64;
        /// Generation of the uplink, as link.generation
        uplink_generation => generation: u8 = 4, 1..=6;
        /// Lanes of the uplink
        uplink_lanes => lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32];
        /// Time that a packet takes through the switch, its ports included, beside its time on the wires (HighPoint on Broadcom's PEX89048, generation 5: 115 ns)
        pass_ns => pass: Span = ns(115), ZERO..=LONGEST;
    }
}

impl Switch {
    /// Whether there are any.
    pub fn is_there(&self) -> bool {
        self.drives > 0
    }

    /// The link to the root port, where the drives have such links: what is not its own is as theirs.
    pub fn uplink(&self, link: &Link) -> Link {
        Link { generation: self.generation, lanes: self.lanes, lane_bytes_per_ns: 0.0, ..link.clone() }
    }

    /// Drives that share one uplink, where there are so many in all.
    pub fn sharing(&self, drives: u16) -> u16 {
        self.drives.min(drives)
    }
}
