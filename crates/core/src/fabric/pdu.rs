//! Sizes of what the transports send: PDUs of NVMe/TCP, messages of RDMA, and the packets that carry them.

use crate::config::{self, FaultDigest, Transport};
use crate::request::{Io, Op};

/// Bytes of a frame that no length field counts: preamble with start delimiter (8), header (14), frame check sequence
/// (4) and gap between frames (12); IEEE 802.3.
const ETHERNET_BYTES: u32 = 38;
/// Headers inside the MTU of a TCP segment: IPv4 (20; RFC 791), TCP (20; RFC 9293) and its timestamps (12; RFC 7323).
const TCP_BYTES: u32 = 52;
/// Headers and check of a RoCEv2 packet: IPv4 (20), UDP (8), base transport header (12) and invariant CRC (4);
/// InfiniBand Architecture Specification, annex 17.
const ROCE_BYTES: u32 = 44;
/// Extended header that names memory of the other side, in the first packet of RDMA READ and RDMA WRITE.
const RETH_BYTES: u32 = 16;
/// Largest path MTU of RDMA.
const RDMA_MTU_MAX: u32 = 4096;
/// Submission queue entry and completion queue entry.
const ENTRY_BYTES: (u32, u32) = (64, 16);
/// Common header of a PDU; NVM Express TCP Transport Specification 1.0, section 3.6.
const HEADER_BYTES: u32 = 8;
/// Header of the PDUs R2T, H2CData and C2HData, common header included; section 3.6.2.
const DATA_HEADER_BYTES: u32 = 24;
/// Digest of a header or of data.
const DIGEST_BYTES: u32 = 4;

/// Packets that carry a message: all but the last have the largest payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Number of packets.
    pub count: u32,
    /// Payload of each packet but the last, in bytes.
    pub full_bytes: u32,
    /// Payload of the last packet, in bytes.
    pub last_bytes: u32,
}

/// Rules by which a transport turns commands and data into messages, and messages into packets.
#[derive(Clone, Copy, Debug)]
pub struct TransportFraming {
    is_tcp: bool,
    payload_bytes: u32,
    /// Bytes of a packet on the wire beside its payload.
    pub overhead_bytes: u32,
    in_capsule_bytes: u32,
    h2c_data_bytes: u32,
    header_digest_bytes: u32,
    data_digest_bytes: u32,
    success_flag: bool,
}

impl TransportFraming {
    /// Returns the rules of a drive file's network.
    pub fn new(config: &config::Fabric) -> TransportFraming {
        let is_tcp = config.transport != Transport::Rdma;
        let (headers, payload_bytes) = match is_tcp {
            true => (TCP_BYTES, config.mtu_bytes - TCP_BYTES),
            false => (ROCE_BYTES, largest_rdma_mtu(config.mtu_bytes)),
        };
        let digest = |is_on: bool| if is_on { DIGEST_BYTES } else { 0 };
        TransportFraming {
            is_tcp,
            payload_bytes,
            overhead_bytes: ETHERNET_BYTES + headers,
            in_capsule_bytes: config.in_capsule_bytes,
            h2c_data_bytes: config.h2c_data_bytes,
            header_digest_bytes: digest(config.header_digest),
            data_digest_bytes: digest(config.data_digest),
            success_flag: config.success_flag,
        }
    }

    /// Returns the largest payload of a packet in bytes.
    pub fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// True if the PDUs have this digest.
    pub fn has_digest(&self, digest: FaultDigest) -> bool {
        let bytes = match digest {
            FaultDigest::Data => self.data_digest_bytes,
            FaultDigest::Header => self.header_digest_bytes,
        };
        bytes > 0
    }

    /// True if the target asks for the data of this request, because it is larger than what a capsule may carry.
    pub fn needs_data_request(&self, io: &Io) -> bool {
        io.op == Op::Write && io.bytes > self.in_capsule_bytes
    }

    /// Returns the bytes of a PDU with data: its header, the data and their digests.
    fn pdu_bytes(&self, header_bytes: u32, data_bytes: u32) -> u32 {
        let digest = if data_bytes > 0 { self.data_digest_bytes } else { 0 };
        header_bytes + self.header_digest_bytes + data_bytes + digest
    }

    /// Returns the bytes of a request's command capsule, with its data if that may be in the capsule.
    pub fn command_bytes(&self, io: &Io) -> u32 {
        let data_bytes = if io.op == Op::Write && !self.needs_data_request(io) { io.bytes } else { 0 };
        match self.is_tcp {
            true => self.pdu_bytes(HEADER_BYTES + ENTRY_BYTES.0, data_bytes),
            false => ENTRY_BYTES.0 + data_bytes,
        }
    }

    /// Returns the bytes by which the target asks for the data of a write: R2T, or an RDMA READ request.
    pub fn data_request_bytes(&self) -> u32 {
        if self.is_tcp { self.pdu_bytes(DATA_HEADER_BYTES, 0) } else { RETH_BYTES }
    }

    /// Returns the bytes that carry the data of a write for which the target has asked.
    pub fn data_bytes(&self, bytes: u32) -> u32 {
        match self.is_tcp {
            true => bytes + bytes.div_ceil(self.h2c_data_bytes) * (self.pdu_bytes(DATA_HEADER_BYTES, 1) - 1),
            false => bytes,
        }
    }

    /// Returns the bytes of a request's response, with the data of a read.
    pub fn response_bytes(&self, io: &Io) -> u32 {
        let data_bytes = if io.op == Op::Read { io.bytes } else { 0 };
        if !self.is_tcp {
            return ENTRY_BYTES.1 + if data_bytes > 0 { RETH_BYTES + data_bytes } else { 0 };
        }
        let capsule = self.pdu_bytes(HEADER_BYTES + ENTRY_BYTES.1, 0);
        match (data_bytes, self.success_flag) {
            (0, _) => capsule,
            (bytes, true) => self.pdu_bytes(DATA_HEADER_BYTES, bytes),
            (bytes, false) => self.pdu_bytes(DATA_HEADER_BYTES, bytes) + capsule,
        }
    }

    /// Returns the packets that carry a message of this many bytes.
    pub fn packets(&self, bytes: u32) -> Packets {
        let count = bytes.div_ceil(self.payload_bytes).max(1);
        Packets { count, full_bytes: self.payload_bytes, last_bytes: bytes - (count - 1) * self.payload_bytes }
    }

    /// Returns the number of packets that carry this many bytes of data.
    pub fn segments(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.payload_bytes)
    }

    /// Returns the bytes on the wire of a message's packets.
    pub fn wire_bytes(&self, bytes: u32) -> u32 {
        bytes + self.packets(bytes).count * self.overhead_bytes
    }
}

/// Returns the path MTU of RDMA on a network with this MTU: the largest power of two that fits beside the headers.
fn largest_rdma_mtu(mtu_bytes: u32) -> u32 {
    let room = mtu_bytes.saturating_sub(ROCE_BYTES + RETH_BYTES).max(256);
    (1 << room.ilog2()).min(RDMA_MTU_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fabric;

    fn framing(config: Fabric) -> TransportFraming {
        TransportFraming::new(&Fabric { transport: Transport::Tcp, ..config })
    }

    const READ: Io = Io { op: Op::Read, offset: 0, bytes: 4096 };
    const WRITE: Io = Io { op: Op::Write, offset: 0, bytes: 8192 };

    #[test]
    fn pdu_lengths_equal_those_of_the_transport_specification() {
        let plain = framing(Fabric::default());
        assert_eq!([plain.command_bytes(&READ), plain.response_bytes(&READ)], [72, 24 + 4096 + 24]);
        assert_eq!(
            [plain.data_request_bytes(), plain.data_bytes(8192), plain.response_bytes(&WRITE)],
            [24, 24 + 8192, 24]
        );
        let digests =
            framing(Fabric { header_digest: true, data_digest: true, success_flag: true, ..Fabric::default() });
        assert_eq!([digests.command_bytes(&READ), digests.response_bytes(&READ)], [76, 28 + 4096 + 4]);
    }

    #[test]
    fn writes_up_to_the_in_capsule_size_are_sent_with_their_command() {
        let framing = |bytes| framing(Fabric { in_capsule_bytes: bytes, ..Fabric::default() });
        assert_eq!((framing(8192).command_bytes(&WRITE), framing(8192).needs_data_request(&WRITE)), (72 + 8192, false));
        assert_eq!((framing(8191).command_bytes(&WRITE), framing(8191).needs_data_request(&WRITE)), (72, true));
    }

    #[test]
    fn messages_are_segmented_at_the_mtu() {
        let packets = framing(Fabric { mtu_bytes: 1500, ..Fabric::default() }).packets(4144);
        assert_eq!(packets, Packets { count: 3, full_bytes: 1448, last_bytes: 4144 - 2 * 1448 });
        assert_eq!([1500, 9000].map(largest_rdma_mtu), [1024, 4096]);
    }
}
