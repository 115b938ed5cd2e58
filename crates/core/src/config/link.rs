//! Keys of the link.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// The PCI Express link between the root port and the device.
    pub struct Link ("link") {
        /// Generation: 2.5, 5, 8, 16, 32 or 64 GT/s a lane (PCI Express Base Specification 6.0, section 4.2)
        generation => generation: u8 = 2, 1..=6;
        /// Lanes
        lanes => lanes: u8 = 4, [1, 2, 4, 8, 12, 16, 32];
        /// Largest payload of one packet (Max_Payload_Size)
        max_payload_bytes => max_payload_bytes: u32 = 128, [128, 256, 512, 1024, 2048, 4096];
        /// Largest read that one request packet may ask for (Max_Read_Request_Size)
        max_read_request_bytes => max_read_request_bytes: u32 = 512, [128, 256, 512, 1024, 2048, 4096];
        /// Multiples of this are where the root complex may cut the answer to a read (Read Completion Boundary, PCI Express Base Specification 6.0, section 2.3.1.1)
        read_completion_boundary_bytes => read_completion_boundary_bytes: u32 = 64, [64, 128];
        /// Payload of the completions that it makes of an answer, a multiple of the boundary, or 0 for the largest payload
        completion_bytes => completion_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Address width in the headers of requests: 64 bits make a header of 4 double words, 32 of 3
        address_bits => address_bits: u8 = 64, [32, 64];
        /// Time from the last symbol leaving one end to the packet being usable at the other, without hops
        one_way_ns => one_way: Span = ns(240), ZERO..=LONGEST;
        /// Switches or chipsets between root port and device
        hops => hops: u8 = 0, 0..=8;
        /// Time that each hop adds in each direction
        hop_ns => hop: Span = ns(150), ZERO..=LONGEST;
        /// Whether both directions have a wire of their own, or share one on which one packet travels at a time
        duplex => duplex: Duplex = Duplex::Full, any();
        /// Whether a burst of equal packets travels as one event (`train`) or packet by packet (`packet`)
        granularity => granularity: Granularity = Granularity::Train, any();
        /// Whether ACK and flow-control packets (DLLPs) take time on the wire
        dllps => dllps: bool = true, any();
        /// Whether skip ordered sets take time on the wire
        skip_ordered_sets => skip_ordered_sets: bool = true, any();
        /// Posted header credits that each receiver advertises (one a packet)
        posted_header_credits => posted_header_credits: u16 = 64, 1..=127;
        /// Posted data credits that each receiver advertises (16 bytes each)
        posted_data_credits => posted_data_credits: u16 = 1024, 8..=2047;
        /// Non-posted header credits that each receiver advertises (one a packet)
        non_posted_header_credits => non_posted_header_credits: u16 = 64, 1..=127;
        /// Reads that the device may have outstanding (transaction tags)
        read_tags => read_tags: u16 = 32, 1..=1024;
        /// Chance that a transmitted bit arrives wrong, which makes its packet be replayed
        bit_error_rate => bit_error_rate: f64 = 0.0, 0.0..=1e-4;
        /// Rate of one lane, or 0 for that of the generation, encoding taken off
        lane_bytes_per_ns => lane_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Header and framing of a doorbell (the host's write to a register), or 0 for what the specification gives
        doorbell_overhead_bytes => doorbell_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of any other write, or 0 for what the specification gives
        write_overhead_bytes => write_overhead_bytes: u32 = 0, 0..=64;
        /// A read request with its framing, or 0 for what the specification gives
        request_overhead_bytes => request_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of a completion, or 0 for what the specification gives
        completion_overhead_bytes => completion_overhead_bytes: u32 = 0, 0..=64;
        /// Whether the payload of packets without user data (doorbells, commands, completion entries, messages) takes time on the wire
        command_payload => command_payload: bool = true, any();
        /// Whether the device's requests for user data take time on the wire
        data_requests => data_requests: bool = true, any();
        /// Whether ACKs travel when the wire has room (`pipelined`), or a packet without user data holds the wire until its own ACK has passed (`awaited`)
        acknowledge => acknowledge: LinkAcknowledge = LinkAcknowledge::Pipelined, any();
    }
}

impl Link {
    /// Payload of each completion of an answer but the last: none carries more than a packet may, or than one request
    /// has asked for (PCI Express Base Specification 6.0, section 2.3.1.1).
    pub fn completion_bytes_max(&self) -> u32 {
        let size_max = self.max_payload_bytes.min(self.max_read_request_bytes);
        if self.completion_bytes == 0 { size_max } else { self.completion_bytes.min(size_max) }
    }
}

/// Whether the two directions of a link are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    Full,
    Shared,
}

names! { Duplex { "full" => Full, "shared" => Shared } }

/// What a packet has to do with its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAcknowledge {
    Pipelined,
    Awaited,
}

names! { LinkAcknowledge { "pipelined" => Pipelined, "awaited" => Awaited } }

/// What one simulation event on the link stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    Train,
    Packet,
}

names! { Granularity { "train" => Train, "packet" => Packet } }
