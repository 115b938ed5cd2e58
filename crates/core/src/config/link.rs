//! Keys of a drive file that describe the PCI Express link.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// The PCI Express link between the root port and the device.
    pub struct Link ("link") {
        /// PCI Express generation of the link: 2.5, 5, 8, 16, 32, 64 or 128 GT/s a lane (PCI Express Base Specification 7.0, section 4.2)
        generation => generation: u8 = 2, 1..=7;
        /// Number of lanes of the PCI Express link between root port and device
        lanes => lanes: u8 = 4, [1, 2, 4, 8, 12, 16, 32];
        /// Largest payload of one PCI Express packet, in bytes (Max_Payload_Size)
        max_payload_bytes => max_payload_bytes: u32 = 128, [128, 256, 512, 1024, 2048, 4096];
        /// Largest amount of data that one PCI Express read request packet requests, in bytes (Max_Read_Request_Size)
        max_read_request_bytes => max_read_request_bytes: u32 = 512, [128, 256, 512, 1024, 2048, 4096];
        /// Address multiple at which the root complex may split the data of a read into completions (Read Completion Boundary, PCI Express Base Specification 6.0, section 2.3.1.1)
        read_completion_boundary_bytes => read_completion_boundary_bytes: u32 = 64, [64, 128];
        /// Payload of each completion packet that the root complex returns for a read, in bytes: a multiple of
        /// `link.read_completion_boundary_bytes`; 0: as large as `link.max_payload_bytes` allows
        completion_bytes => completion_bytes: u32 = 0, [0, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Address width in the headers of PCI Express request packets: 64 bits make a header of 4 double words, 32
        /// bits one of 3
        address_bits => address_bits: u8 = 64, [32, 64];
        /// Time from the last symbol of a packet leaving one end of the link until the packet is usable at the other
        /// end, without hops through switches or chipsets
        one_way_ns => one_way: Span = ns(240), ZERO..=LONGEST;
        /// Number of switches or chipsets between root port and device, each of which adds `link.hop_ns` in each
        /// direction
        hops => hops: u8 = 0, 0..=8;
        /// Time that each switch or chipset between root port and device (`link.hops`) adds to a packet in each
        /// direction
        hop_ns => hop: Span = ns(150), ZERO..=LONGEST;
        /// Duplex mode of the link: `full` (each direction has its own wires) or `shared` (both directions share one
        /// wire, on which one packet travels at a time)
        duplex => duplex: Duplex = Duplex::Full, any();
        /// Simulation events for packets on the link: one event for a burst of equal packets (`train`) or one event for
        /// each packet (`packet`)
        granularity => granularity: LinkEventGranularity = LinkEventGranularity::Train, any();
        /// True if ACK and flow-control packets (DLLPs) of the PCI Express link take time on the wire
        dllps => dllps: bool = true, any();
        /// True if skip ordered sets of the PCI Express link take time on the wire
        skip_ordered_sets => skip_ordered_sets: bool = true, any();
        /// Number of posted header credits that each receiver advertises; each packet takes one. More than 127 need
        /// scaled flow control
        posted_header_credits => posted_header_credits: u16 = 64, 1..=2032;
        /// Number of posted data credits that each receiver advertises; each stands for 16 bytes of payload. More than
        /// 2047 need scaled flow control
        posted_data_credits => posted_data_credits: u16 = 1024, 8..=32752;
        /// Number of non-posted header credits that each receiver advertises; each packet takes one. More than 127 need
        /// scaled flow control
        non_posted_header_credits => non_posted_header_credits: u16 = 64, 1..=2032;
        /// Number of PCI Express reads that the device may have outstanding (transaction tags)
        read_tags => read_tags: u16 = 32, 1..=1024;
        /// Probability that a bit on the PCI Express link arrives wrong; the link then replays its packet
        bit_error_rate => bit_error_rate: f64 = 0.0, 0.0..=1e-4;
        /// Data rate of one lane of the link after line encoding, in bytes a nanosecond; 0: the rate of
        /// `link.generation`
        lane_bytes_per_ns => lane_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Header and framing of a doorbell write (the host's write to a device register), in bytes; 0: as the PCI
        /// Express specification defines
        doorbell_overhead_bytes => doorbell_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of a PCI Express memory write other than a doorbell, in bytes; 0: as the specification
        /// defines
        write_overhead_bytes => write_overhead_bytes: u32 = 0, 0..=64;
        /// Size of a PCI Express read request packet with its framing, in bytes; 0: as the specification defines
        request_overhead_bytes => request_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of a PCI Express completion packet, in bytes; 0: as the specification defines
        completion_overhead_bytes => completion_overhead_bytes: u32 = 0, 0..=64;
        /// True if the payload of packets without user data (doorbells, commands, completion queue entries, messages) takes time on the wire
        command_payload => command_payload: bool = true, any();
        /// True if the device's read requests for user data take time on the wire
        data_requests => data_requests: bool = true, any();
        /// Acknowledgement of PCI Express packets: `pipelined` (ACK DLLPs travel when the wire has room) or `awaited`
        /// (a packet without user data holds the wire until its own ACK has passed)
        acknowledge => acknowledge: AcknowledgementTime = AcknowledgementTime::Pipelined, any();
    }
    conditions [Link::check_data_credits, Link::check_lane_rate, Link::check_completion_size]
}

impl Link {
    /// Checks that a receiver advertises credits for at least one packet of the largest payload (PCI Express Base
    /// Specification 6.0, section 2.6.1); with fewer, such a packet would wait for ever.
    fn check_data_credits(&self) -> Option<BrokenCondition> {
        let (credits, payload) = (self.posted_data_credits, self.max_payload_bytes);
        BrokenCondition::when(
            u32::from(credits) * 16 < payload,
            &["link.posted_data_credits", "link.max_payload_bytes"],
            format!("link.posted_data_credits is {credits} with link.max_payload_bytes {payload}"),
            format!("at least {} credits of 16 bytes", payload / 16),
        )
    }

    /// Checks that a lane of the link is fast enough to keep the wire time of a packet far below 2^64 ps.
    fn check_lane_rate(&self) -> Option<BrokenCondition> {
        let rate = self.lane_bytes_per_ns;
        BrokenCondition::when(
            rate > 0.0 && rate < 1e-3,
            &["link.lane_bytes_per_ns"],
            format!("link.lane_bytes_per_ns is {rate}"),
            String::from("0, or 0.001 and more"),
        )
    }

    /// Checks that a completion carries at most the largest payload, answers at most one read request, and can end at a
    /// read completion boundary (section 2.3.1.1).
    fn check_completion_size(&self) -> Option<BrokenCondition> {
        let (size, boundary) = (self.completion_bytes, self.read_completion_boundary_bytes);
        let size_max = self.max_payload_bytes.min(self.max_read_request_bytes);
        BrokenCondition::when(
            size > 0 && !(boundary..=size_max).contains(&size),
            &["link.completion_bytes", "link.max_payload_bytes", "link.max_read_request_bytes"],
            format!("link.completion_bytes is {size}"),
            format!(
                "0, or link.read_completion_boundary_bytes ({boundary}) up to {size_max}, the smaller of \
                 link.max_payload_bytes and link.max_read_request_bytes"
            ),
        )
    }
}

impl Link {
    /// Returns the link with `bytes` more overhead in each packet whose overhead is described.
    pub(crate) fn with_longer_packets(&self, bytes: u32) -> Link {
        let longer = |overhead: u32| if overhead > 0 { overhead + bytes } else { 0 };
        Link {
            request_overhead_bytes: longer(self.request_overhead_bytes),
            write_overhead_bytes: longer(self.write_overhead_bytes),
            doorbell_overhead_bytes: longer(self.doorbell_overhead_bytes),
            completion_overhead_bytes: longer(self.completion_overhead_bytes),
            ..self.clone()
        }
    }

    /// Returns the time of a packet from one end of the link to the other, without its time on the wires.
    pub fn one_way_packet_time(&self) -> Span {
        self.one_way + self.hop * u64::from(self.hops)
    }

    /// Returns the payload of each completion packet of a read, except for the last. It is at most the maximum payload,
    /// and at most the size of one read request (PCI Express Base Specification 6.0, section 2.3.1.1).
    pub fn completion_bytes_max(&self) -> u32 {
        let size_max = self.max_payload_bytes.min(self.max_read_request_bytes);
        if self.completion_bytes == 0 { size_max } else { self.completion_bytes.min(size_max) }
    }
}

/// Duplex mode of a link: separate wires for each direction, or one shared wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// Each direction of the link has its own wires.
    Full,
    /// Both directions of the link share one wire, on which one packet travels at a time.
    Shared,
}

names! { Duplex { "full" => Full, "shared" => Shared } }

/// Time at which a link sends the acknowledgement (ACK DLLP) of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgementTime {
    /// ACK of a packet is sent as soon as the wire has room; other packets may pass meanwhile.
    Pipelined,
    /// ACK is sent at once: the packet holds the wire until its own ACK has passed.
    Awaited,
}

names! { AcknowledgementTime { "pipelined" => Pipelined, "awaited" => Awaited } }

/// Number of packets on the link that one simulation event represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEventGranularity {
    /// One simulation event represents a burst of equal packets.
    Train,
    /// One simulation event represents one packet.
    Packet,
}

names! { LinkEventGranularity { "train" => Train, "packet" => Packet } }
