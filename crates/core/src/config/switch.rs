//! Keys of the PCI Express switches between root ports and drives.

use crate::config::Link;
use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// PCI Express switches between root ports and drives, each with one link to its root port (its uplink) that all drives behind it share. By default there are none, and each drive has a root port of its own.
    pub struct Switch ("switch") {
        /// Number of drives behind each switch, filled from the first switch on; 0 for no switches
        drives => drives: u16 = 0, 0..=64;
        /// PCI Express generation of a switch's uplink, with the values of link.generation
        uplink_generation => generation: u8 = 4, 1..=7;
        /// Number of lanes of a switch's uplink
        uplink_lanes => lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32];
        /// Time that a packet takes through a switch and its ports, without its time on the wires (HighPoint on Broadcom's PEX89048, generation 5: 115 ns)
        pass_ns => pass: Span = ns(115), ZERO..=LONGEST;
    }
}

impl Switch {
    /// True if drives are behind switches.
    pub fn is_there(&self) -> bool {
        self.drives > 0
    }

    /// Link from a switch to its root port: generation and lanes of its own, every other property as the drives'
    /// `link`.
    pub fn uplink(&self, link: &Link) -> Link {
        Link { generation: self.generation, lanes: self.lanes, lane_bytes_per_ns: 0.0, ..link.clone() }
    }

    /// Number of drives that share one uplink if the host has `drives` of them.
    pub fn drives_per_uplink(&self, drives: u16) -> u16 {
        self.drives.min(drives)
    }
}
