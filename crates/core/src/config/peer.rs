//! Keys of a device beside the drives, whose memory they reach without the host's.

use crate::config::Link;
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Another device at the switch, as a GPU, whose memory the drives reach without passing the host's. By default there is none.
    pub struct Peer ("peer") {
        /// What lies in its memory instead of the host's: `nothing` (there is no such device), user `data`, or `all`, queues too: then it asks by itself, and [host] and [stack] are its threads and what they do
        holds => holds: PeerHolds = PeerHolds::Nothing, any();
        /// Generation of its link to the switch, as link.generation
        link_generation => generation: u8 = 5, 1..=6;
        /// Lanes of that link
        link_lanes => lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32];
        /// Payload of the packets that a drive writes to it, or 0 for link.max_payload_bytes
        payload_bytes => payload_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Read of its memory (assumed: most of what a load of its own takes)
        memory_read_ns => read: Span = ns(400), ZERO..=LONGEST;
        /// Time from a write's arrival to its data being in its memory (assumed: as the host's)
        memory_write_ns => write: Span = ns(20), ZERO..=LONGEST;
    }
}

/// What lies in the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerHolds {
    Nothing,
    Data,
    All,
}

names! { PeerHolds { "nothing" => Nothing, "data" => Data, "all" => All } }

impl Peer {
    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.holds != PeerHolds::Nothing
    }

    /// Whether what a packet carries comes from its memory or goes there: user data, or anything else.
    pub fn has(&self, user_data: bool) -> bool {
        match self.holds {
            PeerHolds::Nothing => false,
            PeerHolds::Data => user_data,
            PeerHolds::All => true,
        }
    }

    /// Its link, where the drives have such links: what is not its own is as theirs.
    pub fn port(&self, link: &Link) -> Link {
        Link { generation: self.generation, lanes: self.lanes, lane_bytes_per_ns: 0.0, ..link.clone() }
    }
}
