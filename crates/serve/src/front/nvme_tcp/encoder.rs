//! Encoder of NVMe/TCP protocol data units (PDUs), whose layout [`super::wire`] has.

use phaselink_core::number::{index, length, low_u8, low_u32};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};

use super::wire::{
    COMMON_HEADER_BYTES, DATA_DIGEST, DATA_HEADER_BYTES, DIGEST_BYTES, Digests, FatalPduError, HEADER_DIGEST,
    INITIALIZE_BYTES, InitializationParameters, LAST_PDU, PduType, SUCCESS, TERMINATION_BYTES_MAX, Transfer, at,
    digest,
};

/// Header of a PDU with its digest and the padding before the data, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct EncodedHeader {
    bytes: [u8; INITIALIZE_BYTES + DIGEST_BYTES],
    filled: usize,
}

impl EncodedHeader {
    /// Returns the bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Returns the header with a wrong digest, for a fault; without a digest, the same header.
    pub fn with_corrupted_header_digest(mut self) -> EncodedHeader {
        if self.bytes[at::FLAGS] & HEADER_DIGEST != 0 {
            let digest_at = usize::from(self.bytes[at::HEADER_LENGTH]);
            self.bytes[digest_at] ^= 1;
        }
        self
    }
}

/// Encoder of the PDUs that one end of a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    /// Digests that the connection has negotiated.
    pub digests: Digests,
    /// Alignment of data that the receiver demands, in bytes; 0 counts as 4.
    pub alignment: u32,
}

impl Encoder {
    fn encode(&self, kind: PduType, flags: u8, specific: &[u8], data_bytes: usize) -> EncodedHeader {
        let header_bytes = kind.header_bytes();
        let has_header_digest = kind.has_digests() && self.digests.header;
        let has_data_digest = kind.has_digests() && self.digests.data && data_bytes > 0;
        let header_end = header_bytes + if has_header_digest { DIGEST_BYTES } else { 0 };
        let has_padding = kind.has_digests() && data_bytes > 0;
        let data_at = if has_padding { header_end.next_multiple_of(index(self.alignment.max(4))) } else { header_end };
        let total = data_at + data_bytes + if has_data_digest { DIGEST_BYTES } else { 0 };
        let digests = if has_header_digest { HEADER_DIGEST } else { 0 } | if has_data_digest { DATA_DIGEST } else { 0 };
        let mut bytes = [0; INITIALIZE_BYTES + DIGEST_BYTES];
        bytes[at::TYPE] = kind.number();
        bytes[at::FLAGS] = flags | digests;
        bytes[at::HEADER_LENGTH] = low_u8(length(header_bytes));
        bytes[at::DATA_OFFSET] = if has_padding { low_u8(length(data_at)) } else { 0 };
        bytes[at::LENGTH..COMMON_HEADER_BYTES].copy_from_slice(&low_u32(length(total)).to_le_bytes());
        bytes[COMMON_HEADER_BYTES..][..specific.len()].copy_from_slice(specific);
        if has_header_digest {
            let digest = digest(&bytes[..header_bytes]);
            bytes[header_bytes..header_end].copy_from_slice(&digest.to_le_bytes());
        }
        EncodedHeader { bytes, filled: data_at }
    }

    /// Encodes ICReq or ICResp, whichever `kind` says.
    pub fn initialize(&self, kind: PduType, parameters: &InitializationParameters) -> EncodedHeader {
        let mut specific = [0; 8];
        specific[at::ALIGNMENT - COMMON_HEADER_BYTES] = parameters.alignment;
        specific[at::DIGESTS - COMMON_HEADER_BYTES] = parameters.digests.encode();
        specific[at::LIMIT - COMMON_HEADER_BYTES..].copy_from_slice(&parameters.limit.to_le_bytes());
        self.encode(kind, 0, &specific, 0)
    }

    /// Encodes a termination request for an error of the PDU that begins with `cause`, of which the header is repeated.
    pub fn terminate(&self, kind: PduType, error: FatalPduError, cause: &[u8]) -> Vec<u8> {
        let cause = &cause[..cause.len().min(TERMINATION_BYTES_MAX - DATA_HEADER_BYTES)];
        let mut specific = [0; 6];
        specific[..2].copy_from_slice(&(error.status as u16).to_le_bytes());
        specific[2..].copy_from_slice(&error.information.to_le_bytes());
        [self.encode(kind, 0, &specific, cause.len()).bytes(), cause].concat()
    }

    /// Encodes the header of a command capsule with `data_bytes` bytes of data.
    pub fn command(&self, entry: &[u8; SUBMISSION_ENTRY_BYTES], data_bytes: usize) -> EncodedHeader {
        self.encode(PduType::Command, 0, entry, data_bytes)
    }

    /// Encodes a response capsule.
    #[inline]
    pub fn response(&self, entry: &[u8; COMPLETION_ENTRY_BYTES]) -> EncodedHeader {
        self.encode(PduType::Response, 0, entry, 0)
    }

    /// Encodes the header of H2CData, after which the data of the transfer follows.
    pub fn encode_h2c_data_header(&self, transfer: &Transfer, is_last: bool) -> EncodedHeader {
        let flags = if is_last { LAST_PDU } else { 0 };
        self.encode(PduType::HostData, flags, &data_pdu_specific_fields(transfer), index(transfer.bytes))
    }

    /// Encodes the header of C2HData, after which the data of the transfer follows. `is_success` ends the command
    /// without a response capsule.
    #[inline]
    pub fn encode_c2h_data_header(&self, transfer: &Transfer, is_last: bool, is_success: bool) -> EncodedHeader {
        let flags = if is_last { LAST_PDU } else { 0 } | if is_success { SUCCESS } else { 0 };
        self.encode(PduType::ControllerData, flags, &data_pdu_specific_fields(transfer), index(transfer.bytes))
    }

    /// Encodes R2T.
    pub fn encode_ready_to_transfer(&self, transfer: &Transfer) -> EncodedHeader {
        self.encode(PduType::ReadyToTransfer, 0, &data_pdu_specific_fields(transfer), 0)
    }
}

fn data_pdu_specific_fields(transfer: &Transfer) -> [u8; DATA_HEADER_BYTES - COMMON_HEADER_BYTES] {
    let Transfer { command_id, tag, offset, bytes } = *transfer;
    let low = u64::from(command_id) | u64::from(tag) << 16 | u64::from(offset) << 32;
    (u128::from(low) | u128::from(bytes) << 64).to_le_bytes()
}
