//! Keys of a drive file that describe a network between host and drive (NVMe over Fabrics): the initiator, its NIC, the
//! links and the switch, and the target, whose own PCI Express link and host memory the other sections then describe.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::config::{Link, Switch};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Network between host and drive (NVMe over Fabrics). The host is the initiator then: [host] and [stack] describe it and its software. The drive is in a target, to which [link], [root_complex] and the drive's own sections belong. By default the drive is in the host.
    pub struct Fabric ("fabric") {
        /// Transport of NVMe over Fabrics: `none` (the drive is in the host), `tcp` (NVMe/TCP) or `rdma` (RDMA over
        /// converged Ethernet, RoCEv2)
        transport => transport: Transport = Transport::None, any();
        /// Number of initiators (equal hosts) that share the target, each with its own cores, NIC and link. Threads use
        /// the initiators in turn
        initiators => initiators: u16 = 1, 1..=64, with transport;
        /// Number of I/O queue pairs that each initiator connects; one target core serves all commands of a queue pair.
        /// 0: one for each processor of the initiator, as Linux connects
        queue_pairs => queue_pairs: u16 = 0, 0..=1024, with transport;
        /// True if threads that poll for completions have polled queue pairs (`nvme connect --nr-poll-queues`); false
        /// if their responses raise interrupts all the same
        polled_queues => polled_queues: bool = true, any(), with transport;
        /// Rate of each network link in Gbit/s, in each direction
        link_gbit_per_s => link_gbit_per_s: f64 = 100.0, 1.0..=1600.0, with transport;
        /// Largest packet of the network in bytes, IP header included (MTU); RDMA uses the largest power of two that
        /// fits, up to 4096
        mtu_bytes => mtu_bytes: u32 = 1500, 576..=9216, with transport;
        /// Time of a bit through one network cable and the transceivers at its ends
        propagation_ns => propagation: Span = ns(50), ZERO..=LONGEST, with transport;
        /// Time of a packet through the Ethernet switch, without its time on the links; 0: no switch, the two NICs are
        /// connected by one cable
        switch_ns => switch: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Buffer of a port of the Ethernet switch in KiB; 0: large enough for everything in flight
        switch_buffer_kib => switch_buffer_kib: u32 = 0, 0..=1 << 20, with switch_ns;
        /// True if the Ethernet switch pauses the sender while a port's buffer is full (priority flow control); false if
        /// the switch drops packets then
        lossless => lossless: bool = false, any(), with switch_buffer_kib;
        /// Probability that the network loses a packet
        loss_ratio => loss_ratio: f64 = 0.0, 0.0..=0.1, with transport;
        /// Time until the sender sends lost packets again (Linux: TCP_RTO_MIN is 200 ms; several packets in flight are
        /// sent again within two round trips)
        retransmit_us => retransmit: Span = us(200_000), ZERO..=LONGEST, with transport;
        /// True if each NVMe/TCP PDU carries a digest (CRC-32C) of its header
        header_digest => header_digest: bool = false, any(), with transport;
        /// True if each NVMe/TCP PDU with data carries a digest (CRC-32C) of its data, which both sides compute
        data_digest => data_digest: bool = false, any(), with transport;
        /// Rate at which a core computes a digest, in bytes a nanosecond
        digest_bytes_per_ns => digest_bytes_per_ns: f64 = 10.0, 0.1..=1000.0, with transport;
        /// Largest write in bytes whose data travels in its command capsule; the target asks for the data of larger
        /// writes (NVMe/TCP: R2T; RDMA: RDMA READ)
        in_capsule_bytes => in_capsule_bytes: u32 = 4096, 0..=1 << 20, with transport;
        /// Largest data in bytes of one H2CData PDU (MAXH2CDATA)
        h2c_data_bytes => h2c_data_bytes: u32 = 131_072, 4096..=1 << 24, with transport;
        /// True if the last C2HData PDU of a read ends the command (SUCCESS flag), so that no response capsule follows
        success_flag => success_flag: bool = false, any(), with transport;
        /// Processor time of the initiator's transport to send a command, beyond the stages of [stack]; scales with the
        /// initiator's core as those do
        initiator_submit_ns => initiator_submit: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Processor time of the initiator's transport to receive a response, without its data; scales as
        /// `fabric.initiator_submit_ns`
        initiator_receive_ns => initiator_receive: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Processor time of the initiator for each packet with data that it sends or receives; 0 if the NIC segments
        /// and merges packets without cost
        initiator_segment_ns => initiator_segment: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Rate at which the initiator copies received data from packets to the request's buffer, in bytes a
        /// nanosecond; 0: no copy, the NIC places the data
        initiator_copy_bytes_per_ns => initiator_copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0, with transport;
        /// Time from the end of the NIC's interrupt handler until the transport's kernel worker has received the
        /// response; no part of the latency on polled queue pairs
        initiator_worker_ns => initiator_worker: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Shortest time between two interrupts of the NIC for one queue pair (interrupt moderation)
        interrupt_gap_us => interrupt_gap: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Time of a packet through a NIC, without DMA and without its time on the link
        nic_ns => nic: Span = ns(300), ZERO..=LONGEST, with transport;
        /// PCI Express generation of a NIC's link to its host, with the values of `link.generation`
        nic_generation => nic_generation: u8 = 3, 1..=7, with transport;
        /// Number of lanes of a NIC's PCI Express link to its host
        nic_lanes => nic_lanes: u8 = 16, [1, 2, 4, 8, 12, 16, 32], with transport;
        /// Number of cores of the target that serve queue pairs, each queue pair by one core
        target_cores => target_cores: u16 = 1, 1..=1024, with transport;
        /// Time for which a core of the target polls after its last work before it sleeps; 0: sleeps at once
        target_poll_us => target_poll: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Time to wake a sleeping core of the target for a command that has arrived: interrupt, idle exit, network
        /// stack and worker
        target_wake_ns => target_wake: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Time until a core of the target notices a completion of the drive: an interrupt, or a poll
        target_notice_ns => target_notice: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Processor time of the target to receive a command and submit it to the drive, the drive's driver included
        target_command_ns => target_command: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Processor time of the target to complete a command and send its response, the drive's driver included
        target_response_ns => target_response: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Processor time of the target for each packet with data that it sends or receives; 0 if the NIC segments and
        /// merges packets without cost
        target_segment_ns => target_segment: Span = ZERO, ZERO..=LONGEST, with transport;
        /// Rate at which the target copies received data from packets to the drive's buffer, in bytes a nanosecond; 0:
        /// no copy, the NIC places the data
        target_copy_bytes_per_ns => target_copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0, with transport;
    }
    conditions [Fabric::check_digests, Fabric::check_switch]
}

/// Transport of NVMe over Fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// No network: the drive is in the host.
    None,
    /// NVMe/TCP: PDUs in a TCP connection for each queue pair.
    Tcp,
    /// RDMA over converged Ethernet (RoCEv2): the NICs place all data.
    Rdma,
}

names! { Transport { "none" => None, "tcp" => Tcp, "rdma" => Rdma } }

impl Fabric {
    /// True if a network lies between host and drive.
    pub fn is_there(&self) -> bool {
        self.transport != Transport::None
    }

    /// Returns the PCI Express link of a NIC. It has its own generation and lanes; all else is as in the drive's `link`.
    pub fn nic_link(&self, link: &Link) -> Link {
        let port = Switch { generation: self.nic_generation, lanes: self.nic_lanes, ..Switch::default() };
        port.uplink(link)
    }

    /// Checks that only NVMe/TCP has digests of PDUs, because RDMA has checksums of its own.
    fn check_digests(&self) -> Option<BrokenCondition> {
        BrokenCondition::when(
            self.transport == Transport::Rdma && (self.header_digest || self.data_digest),
            &["fabric.header_digest", "fabric.data_digest", "fabric.transport"],
            String::from("fabric.transport is \"rdma\" with a digest of PDUs, which only TCP has"),
            String::from("fabric.header_digest = false and fabric.data_digest = false, or fabric.transport = \"tcp\""),
        )
    }

    /// Checks that several initiators reach the target through a switch.
    fn check_switch(&self) -> Option<BrokenCondition> {
        BrokenCondition::when(
            self.initiators > 1 && self.switch.is_zero(),
            &["fabric.initiators", "fabric.switch_ns"],
            format!("fabric.initiators is {} without a switch", self.initiators),
            String::from("fabric.switch_ns above 0, or fabric.initiators = 1"),
        )
    }
}
