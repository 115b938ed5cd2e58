//! Keys of a drive file that describe a peer device, such as a GPU, whose memory the drives access through their
//! switch.

use crate::config::Link;
use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Another device at the switch, such as a GPU, whose memory the drives access peer-to-peer instead of host memory. By default there is none.
    pub struct Peer ("peer") {
        /// Contents of the peer's memory that would otherwise be in host memory: `nothing` (there is no peer), `data` (user data), or `all` (user data and queues: the peer then submits requests itself, and [host] and [stack] describe its threads and their software)
        holds => holds: PeerMemoryContents = PeerMemoryContents::Nothing, any();
        /// PCI Express generation of the link between peer device and switch, with the values of `link.generation`
        link_generation => generation: u8 = 5, 1..=7, with holds;
        /// Number of lanes of the link between peer device and switch
        link_lanes => lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32], with holds;
        /// Largest payload of a packet that a drive writes to the peer device, in bytes; 0: as `link.max_payload_bytes`
        payload_bytes => payload_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096], with holds;
        /// Time that the peer device needs to serve a drive's read of the peer's memory (assumed: most of the time of a
        /// load by the peer itself)
        memory_read_ns => read: Span = ns(400), ZERO..=LONGEST, with holds;
        /// Time from the arrival of a drive's write at the peer device until the data is in the peer's memory (assumed:
        /// as for host memory)
        memory_write_ns => write: Span = ns(20), ZERO..=LONGEST, with holds;
    }
}

/// Contents of a peer device's memory that would otherwise be in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMemoryContents {
    /// No peer device exists, so that everything is in host memory.
    Nothing,
    /// User data is in the memory of the peer device, such as a GPU, while queues are in host memory.
    Data,
    /// User data and queues are in the memory of the peer device, such as a GPU.
    All,
}

names! { PeerMemoryContents { "nothing" => Nothing, "data" => Data, "all" => All } }

impl Peer {
    /// True if the drives access the memory of a peer device, such as a GPU.
    pub fn is_there(&self) -> bool {
        self.holds != PeerMemoryContents::Nothing
    }

    /// True if a packet's payload is in the peer device's memory rather than in host memory. `user_data` is false for
    /// any other payload, such as queue entries.
    pub fn has(&self, user_data: bool) -> bool {
        match self.holds {
            PeerMemoryContents::Nothing => false,
            PeerMemoryContents::Data => user_data,
            PeerMemoryContents::All => true,
        }
    }

    /// Returns the link from the peer device to the switch. Its generation and lanes are the peer's; all else is as in
    /// the drives' `link`.
    pub fn port(&self, link: &Link) -> Link {
        Link { generation: self.generation, lanes: self.lanes, lane_bytes_per_ns: 0.0, ..link.clone() }
    }
}
