//! Keys of a drive file that describe the PCI Express switches between root ports and drives.

use crate::config::Link;
use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;
use crate::tlp::Direction;

section! {
    /// PCI Express switches between root ports and drives, each with one link to its root port (its uplink) that all drives behind it share. By default there are none, and each drive has a root port of its own.
    pub struct Switch ("switch") {
        /// Number of drives behind each PCI Express switch, filled from the first switch on; 0: no switch
        drives => drives: u16 = 0, 0..=64;
        /// PCI Express generation of the link from a switch to its root port, with the values of `link.generation`
        uplink_generation => generation: u8 = 4, 1..=7, needs Switch;
        /// Number of lanes of the link from a switch to its root port
        uplink_lanes => lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32], needs Switch;
        /// Time of a packet through a PCI Express switch and its ports, without its time on the wires (HighPoint on
        /// Broadcom's PEX89048, generation 5: 115 ns)
        pass_ns => pass: Span = ns(115), ZERO..=LONGEST, needs Switch;
        /// Number of equal hosts that share one device through a switch with port-based routing (Compute Express Link
        /// Specification, revision 3.1); 0: one host alone. Each host has its own cores and a port of its own, with a
        /// link as in [link]
        hosts => hosts: u16 = 0, 0..=16;
        /// Bytes that port-based routing of a CXL switch adds to each message (assumed: the identifiers of both ports,
        /// 12 bits each)
        route_bytes => route_bytes: u32 = 3, 0..=32, needs Switch;
    }
}

impl Switch {
    /// True if the drives are connected through switches.
    pub fn is_there(&self) -> bool {
        self.drives > 0
    }

    /// True if several hosts share one device through a switch.
    pub fn has_hosts(&self) -> bool {
        self.hosts > 0
    }

    /// Returns the direction in which packets reach a switch over a link that is not shared. It is up from one of
    /// several drives, or down from one of several hosts. `None` without a switch.
    pub fn direction(&self) -> Option<Direction> {
        match (self.is_there(), self.has_hosts()) {
            (_, true) => Some(Direction::Down),
            (true, false) => Some(Direction::Up),
            (false, false) => None,
        }
    }

    /// Returns the number of hosts that use the device, at least 1.
    pub fn host_count(&self) -> u16 {
        self.hosts.max(1)
    }

    /// Returns the link of a switch port with port-based routing: `link`, with the port identifiers added to the
    /// overhead of its packets.
    pub fn with_port_routing(&self, link: &Link) -> Link {
        link.with_longer_packets(self.route_bytes)
    }

    /// Returns the link from a switch to its root port. It has its own generation and lanes; all else is as in the
    /// drives' `link`.
    pub fn uplink(&self, link: &Link) -> Link {
        Link { generation: self.generation, lanes: self.lanes, lane_bytes_per_ns: 0.0, ..link.clone() }
    }

    /// Returns the number of drives that share one uplink, if the host has `drives` drives.
    pub fn drives_per_uplink(&self, drives: u16) -> u16 {
        self.drives.min(drives)
    }
}
