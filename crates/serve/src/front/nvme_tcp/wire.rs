//! Layout of NVMe/TCP protocol data units (PDUs), and the checks of their headers (NVMe/TCP Transport Specification
//! 1.0, section 3.6).
//!
//! ```text
//!   common header (8 bytes) | specific header | header digest | padding | data | data digest
//!   <------------- HLEN ------------------->
//!   <------------------------- PDO ----------------------->
//!   <--------------------------------- PLEN ---------------------------------------->
//! ```
//!
//! Every function accepts any bytes. A PDU that a peer must not send gives a [`FatalPduError`]: the status and the
//! information of the termination request that ends the connection.

use phaselink_core::number::{index, length, low_u32};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};

pub use super::encoder::{EncodedHeader, Encoder};

/// Size of the common header of a PDU in bytes.
pub const COMMON_HEADER_BYTES: usize = 8;
/// Size of the whole header of ICReq and ICResp in bytes.
pub const INITIALIZE_BYTES: usize = 128;
/// Size of the whole header of a command capsule in bytes.
pub const CAPSULE_HEADER_BYTES: usize = COMMON_HEADER_BYTES + SUBMISSION_ENTRY_BYTES;
/// Size of the whole header of a response capsule in bytes.
pub const RESPONSE_HEADER_BYTES: usize = COMMON_HEADER_BYTES + COMPLETION_ENTRY_BYTES;
/// Size of the whole header of H2CData, C2HData, R2T and termination requests in bytes.
pub const DATA_HEADER_BYTES: usize = 24;
/// Size of the longest header of any PDU in bytes.
pub const HEADER_BYTES_MAX: usize = INITIALIZE_BYTES;
/// Size of a header digest or a data digest in bytes.
pub const DIGEST_BYTES: usize = 4;
/// Size of the longest termination request in bytes (section 3.6.2.3): its header and a copy of the header at fault.
pub const TERMINATION_BYTES_MAX: usize = 152;
/// Largest value of HPDA and CPDA, which count double words from 0 (section 3.6.2.2).
pub const ALIGNMENT_MAX: u8 = 31;
/// Smallest value of MAXH2CDATA in bytes that a controller may report (section 3.6.2.3).
pub const DATA_BYTES_MIN: u32 = 4096;

/// Bit of FLAGS: the PDU has a header digest.
pub(super) const HEADER_DIGEST: u8 = 1;
/// Bit of FLAGS: the PDU has a data digest.
pub(super) const DATA_DIGEST: u8 = 1 << 1;
/// Bit of FLAGS of H2CData and C2HData: no further data follows for the transfer.
pub(super) const LAST_PDU: u8 = 1 << 2;
/// Bit of FLAGS of C2HData: the command has ended successfully, and no response capsule follows.
pub(super) const SUCCESS: u8 = 1 << 3;

/// Type of a PDU, with its number in the common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduType {
    /// Request of a host to initialize the connection (ICReq).
    InitializeRequest = 0x00,
    /// Response of a controller that initializes the connection (ICResp).
    InitializeResponse = 0x01,
    /// Request of a host to terminate the connection because of an error (H2CTermReq).
    HostTermination = 0x02,
    /// Request of a controller to terminate the connection because of an error (C2HTermReq).
    ControllerTermination = 0x03,
    /// Command capsule (CapsuleCmd).
    Command = 0x04,
    /// Response capsule (CapsuleResp).
    Response = 0x05,
    /// Data from the host to the controller (H2CData).
    HostData = 0x06,
    /// Data from the controller to the host (C2HData).
    ControllerData = 0x07,
    /// Permission for the host to transfer data (R2T).
    ReadyToTransfer = 0x09,
}

/// Number of data bytes that a type of PDU may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PduDataPresence {
    Never,
    Possible,
    Always,
}

impl PduType {
    /// Every type of PDU.
    pub const ALL: [PduType; 9] = [
        PduType::InitializeRequest,
        PduType::InitializeResponse,
        PduType::HostTermination,
        PduType::ControllerTermination,
        PduType::Command,
        PduType::Response,
        PduType::HostData,
        PduType::ControllerData,
        PduType::ReadyToTransfer,
    ];

    fn decode(number: u8) -> Option<PduType> {
        PduType::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Returns the number of the type in the common header.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the end of a connection that sends PDUs of this type.
    pub const fn sender(self) -> Sender {
        match self {
            PduType::InitializeRequest | PduType::HostTermination | PduType::Command | PduType::HostData => {
                Sender::Host
            }
            PduType::InitializeResponse
            | PduType::ControllerTermination
            | PduType::Response
            | PduType::ControllerData
            | PduType::ReadyToTransfer => Sender::Controller,
        }
    }

    /// Returns the length of the whole header in bytes (HLEN).
    pub const fn header_bytes(self) -> usize {
        match self {
            PduType::InitializeRequest | PduType::InitializeResponse => INITIALIZE_BYTES,
            PduType::Command => CAPSULE_HEADER_BYTES,
            PduType::Response => RESPONSE_HEADER_BYTES,
            PduType::HostTermination
            | PduType::ControllerTermination
            | PduType::HostData
            | PduType::ControllerData
            | PduType::ReadyToTransfer => DATA_HEADER_BYTES,
        }
    }

    const fn data_presence(self) -> PduDataPresence {
        match self {
            PduType::Command | PduType::HostTermination | PduType::ControllerTermination => PduDataPresence::Possible,
            PduType::HostData | PduType::ControllerData => PduDataPresence::Always,
            PduType::InitializeRequest | PduType::InitializeResponse | PduType::Response | PduType::ReadyToTransfer => {
                PduDataPresence::Never
            }
        }
    }

    /// Returns true if PDUs of this type carry the digests that the connection has negotiated.
    pub(super) const fn has_digests(self) -> bool {
        !matches!(
            self,
            PduType::InitializeRequest
                | PduType::InitializeResponse
                | PduType::HostTermination
                | PduType::ControllerTermination
        )
    }
}

/// End of a connection that sends a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Host, which submits commands.
    Host,
    /// Controller, which executes commands.
    Controller,
}

/// Status of a termination request (FES; section 3.6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationStatus {
    /// A field of a header has an invalid value. The information is the byte offset of the field.
    InvalidHeaderField = 0x01,
    /// A PDU arrived that the state of the connection does not allow.
    SequenceError = 0x02,
    /// The header digest is wrong. The information is the digest that was received.
    HeaderDigestError = 0x03,
    /// A data PDU carries bytes outside of the range that its transfer allows.
    DataOutOfRange = 0x04,
    /// The sender has exceeded a limit: of data in a PDU, or of R2T PDUs of a command.
    LimitExceeded = 0x05,
    /// A parameter has a value that is not supported. The information is the byte offset of the field.
    UnsupportedParameter = 0x06,
}

/// Error of a PDU that ends the connection: status and information of the termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatalPduError {
    /// Status of the termination request (FES).
    pub status: TerminationStatus,
    /// Information of the termination request (FEI): the byte offset of a field, a digest, or 0.
    pub information: u32,
}

impl FatalPduError {
    /// Returns the error of a header field at a byte offset.
    pub fn field(at: usize) -> FatalPduError {
        FatalPduError { status: TerminationStatus::InvalidHeaderField, information: low_u32(length(at)) }
    }

    /// Returns the error of a parameter at a byte offset whose value is not supported.
    pub fn unsupported(at: usize) -> FatalPduError {
        FatalPduError { status: TerminationStatus::UnsupportedParameter, information: low_u32(length(at)) }
    }

    /// Returns an error with this status and without information.
    pub fn of(status: TerminationStatus) -> FatalPduError {
        FatalPduError { status, information: 0 }
    }
}

/// Byte offsets of header fields, which termination requests report.
pub mod at {
    /// PDU type.
    pub const TYPE: usize = 0;
    /// Flags of the PDU.
    pub const FLAGS: usize = 1;
    /// Length of the header (HLEN).
    pub const HEADER_LENGTH: usize = 2;
    /// Offset of the data (PDO).
    pub const DATA_OFFSET: usize = 3;
    /// Length of the PDU (PLEN).
    pub const LENGTH: usize = 4;
    /// Version of the PDU format in ICReq and ICResp (PFV).
    pub const VERSION: usize = 8;
    /// Data alignment in ICReq and ICResp (HPDA, CPDA).
    pub const ALIGNMENT: usize = 10;
    /// Digests in ICReq and ICResp (DGST).
    pub const DIGESTS: usize = 11;
    /// Limit in ICReq and ICResp (MAXR2T, MAXH2CDATA).
    pub const LIMIT: usize = 12;
    /// Command identifier of a transfer (CCCID).
    pub const COMMAND_ID: usize = 8;
    /// Tag of a transfer (TTAG).
    pub const TAG: usize = 10;
    /// Offset of transferred data within the command's data (DATAO, R2TO).
    pub const OFFSET: usize = 12;
    /// Number of transferred bytes (DATAL, R2TL).
    pub const BYTES: usize = 16;
    /// Status of a termination request (FES).
    pub const STATUS: usize = 8;
    /// Information of a termination request (FEI).
    pub const INFORMATION: usize = 10;
}

/// Digests that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// True if headers are followed by a CRC-32C.
    pub header: bool,
    /// True if data is followed by a CRC-32C.
    pub data: bool,
}

impl Digests {
    pub(super) fn encode(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }

    fn decode(bits: u8) -> Digests {
        Digests { header: bits & 1 != 0, data: bits & 2 != 0 }
    }
}

/// Limits of the PDUs that one end of a connection accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduLimits {
    /// Digests that the connection has negotiated.
    pub digests: Digests,
    /// Alignment of data in a PDU that the receiver demands, in bytes.
    pub alignment: u32,
    /// Maximum number of data bytes in a command capsule.
    pub capsule_data_max: u32,
    /// Maximum number of data bytes in a data PDU.
    pub data_max: u32,
}

impl PduLimits {
    /// Limits before the connection is initialized: no digests and no data.
    pub const BEFORE: PduLimits =
        PduLimits { digests: Digests { header: false, data: false }, alignment: 4, capsule_data_max: 0, data_max: 0 };
}

/// Layout of one PDU: its type, and the lengths of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduLayout {
    /// Type of the PDU.
    pub kind: PduType,
    flags: u8,
    /// True if a header digest follows the header.
    pub has_header_digest: bool,
    /// Offset of the data from the start of the PDU, in bytes. Without data, the length of the PDU.
    pub data_at: usize,
    /// Number of data bytes.
    pub data_bytes: usize,
    /// True if a data digest follows the data.
    pub has_data_digest: bool,
}

impl PduLayout {
    /// Checks the common header of a PDU that `sender` has sent, and returns the layout of the PDU.
    ///
    /// # Errors
    /// The first field that is wrong: type, header length, flags, data offset, length.
    pub fn check(
        header: &[u8; COMMON_HEADER_BYTES],
        sender: Sender,
        limits: &PduLimits,
    ) -> Result<PduLayout, FatalPduError> {
        let [number, flags, header_bytes, data_at, total @ ..] = *header;
        let kind = PduType::decode(number).filter(|kind| kind.sender() == sender);
        let kind = kind.ok_or_else(|| FatalPduError::field(at::TYPE))?;
        if usize::from(header_bytes) != kind.header_bytes() {
            return Err(FatalPduError::field(at::HEADER_LENGTH));
        }
        let total = index(u32::from_le_bytes(total));
        let has_header_digest = kind.has_digests() && limits.digests.header;
        if kind.has_digests() && (flags & HEADER_DIGEST != 0) != has_header_digest {
            return Err(FatalPduError::field(at::FLAGS));
        }
        let header_end = kind.header_bytes() + if has_header_digest { DIGEST_BYTES } else { 0 };
        let presence = kind.data_presence();
        let without_data =
            PduLayout { kind, flags, has_header_digest, data_at: header_end, data_bytes: 0, has_data_digest: false };
        match presence {
            PduDataPresence::Never | PduDataPresence::Possible if total == header_end => Ok(without_data),
            PduDataPresence::Never => Err(FatalPduError::field(at::LENGTH)),
            _ if kind.has_digests() => without_data.with_checked_data(data_at.into(), total, limits),
            // A termination request carries a copy of a header right after its own header, without digests or padding.
            _ if (header_end..=TERMINATION_BYTES_MAX).contains(&total) => {
                Ok(PduLayout { data_bytes: total - header_end, ..without_data })
            }
            _ => Err(FatalPduError::field(at::LENGTH)),
        }
    }

    /// Checks offset and length of the data of a PDU of `total` bytes, and adds the data to this layout.
    fn with_checked_data(self, data_at: usize, total: usize, limits: &PduLimits) -> Result<PduLayout, FatalPduError> {
        let has_data_digest = limits.digests.data;
        if (self.flags & DATA_DIGEST != 0) != has_data_digest {
            return Err(FatalPduError::field(at::FLAGS));
        }
        if data_at < self.header_end() || !data_at.is_multiple_of(index(limits.alignment)) {
            return Err(FatalPduError::field(at::DATA_OFFSET));
        }
        let data_end = total.checked_sub(if has_data_digest { DIGEST_BYTES } else { 0 });
        let data_bytes = data_end.and_then(|end| end.checked_sub(data_at)).filter(|bytes| *bytes > 0);
        let data_max = if self.kind == PduType::Command { limits.capsule_data_max } else { limits.data_max };
        match data_bytes.filter(|bytes| *bytes <= index(data_max)) {
            Some(data_bytes) => Ok(PduLayout { data_at, data_bytes, has_data_digest, ..self }),
            None => Err(FatalPduError::field(at::LENGTH)),
        }
    }

    /// Returns the number of bytes of the PDU from its start to the end of its header digest.
    pub fn header_end(&self) -> usize {
        self.kind.header_bytes() + if self.has_header_digest { DIGEST_BYTES } else { 0 }
    }

    /// Returns the number of bytes of the whole PDU.
    pub fn total_bytes(&self) -> usize {
        self.data_at + self.data_bytes + if self.has_data_digest { DIGEST_BYTES } else { 0 }
    }

    /// Checks the header digest, if there is one, and decodes the header. `bytes` begins with the header and its
    /// digest.
    ///
    /// # Errors
    /// PduHeader Digest Error, or the first field of the header that is invalid.
    ///
    /// # Panics
    /// If `bytes` is shorter than the header with its digest.
    pub fn header(&self, bytes: &[u8]) -> Result<PduHeader, FatalPduError> {
        let (header, rest) = bytes.split_at(self.kind.header_bytes());
        if self.has_header_digest {
            let received = rest.first_chunk().map_or(0, |digest| u32::from_le_bytes(*digest));
            if received != digest(header) {
                return Err(FatalPduError { status: TerminationStatus::HeaderDigestError, information: received });
            }
        }
        match self.kind {
            PduType::InitializeRequest => parameters(header).map(PduHeader::InitializeRequest),
            PduType::InitializeResponse => {
                let parameters = parameters(header)?;
                let is_valid = parameters.limit >= DATA_BYTES_MIN && parameters.limit.is_multiple_of(4);
                if is_valid {
                    Ok(PduHeader::InitializeResponse(parameters))
                } else {
                    Err(FatalPduError::field(at::LIMIT))
                }
            }
            PduType::HostTermination | PduType::ControllerTermination => {
                let (status, information) = (decode_u16_at(header, at::STATUS), decode_u32_at(header, at::INFORMATION));
                Ok(PduHeader::Termination { status, information })
            }
            PduType::Command => Ok(PduHeader::Command(capsule_queue_entry(header))),
            PduType::Response => Ok(PduHeader::Response(capsule_queue_entry(header))),
            PduType::HostData | PduType::ControllerData => self.check_data_transfer(transfer(header)),
            PduType::ReadyToTransfer => Ok(PduHeader::ReadyToTransfer(transfer(header))),
        }
    }

    /// Checks the transfer of a data PDU against its layout.
    fn check_data_transfer(&self, transfer: Transfer) -> Result<PduHeader, FatalPduError> {
        if index(transfer.bytes) != self.data_bytes {
            return Err(FatalPduError::field(at::BYTES));
        }
        if !transfer.offset.is_multiple_of(4) {
            return Err(FatalPduError::field(at::OFFSET));
        }
        let is_last = self.flags & LAST_PDU != 0;
        Ok(match self.kind {
            PduType::HostData => PduHeader::HostData { transfer, is_last },
            _ => PduHeader::ControllerData { transfer, is_last, is_success: self.flags & SUCCESS != 0 },
        })
    }
}

fn decode_u16_at(header: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

fn decode_u32_at(header: &[u8], at: usize) -> u32 {
    header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Returns the queue entry of a capsule, which follows the common header.
fn capsule_queue_entry<const N: usize>(header: &[u8]) -> [u8; N] {
    header[COMMON_HEADER_BYTES..].first_chunk().copied().unwrap_or([0; N])
}

fn transfer(header: &[u8]) -> Transfer {
    Transfer {
        command_id: decode_u16_at(header, at::COMMAND_ID),
        tag: decode_u16_at(header, at::TAG),
        offset: decode_u32_at(header, at::OFFSET),
        bytes: decode_u32_at(header, at::BYTES),
    }
}

/// Decodes and checks the parameters of ICReq or ICResp.
fn parameters(header: &[u8]) -> Result<InitializationParameters, FatalPduError> {
    let (alignment, digests) = (header[at::ALIGNMENT], header[at::DIGESTS]);
    if decode_u16_at(header, at::VERSION) != 0 {
        return Err(FatalPduError::unsupported(at::VERSION));
    }
    if alignment > ALIGNMENT_MAX {
        return Err(FatalPduError::field(at::ALIGNMENT));
    }
    if digests & !0b11 != 0 {
        return Err(FatalPduError::field(at::DIGESTS));
    }
    Ok(InitializationParameters {
        alignment,
        digests: Digests::decode(digests),
        limit: decode_u32_at(header, at::LIMIT),
    })
}

/// Part of a command's data that one PDU transfers or permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Identifier of the command (CCCID).
    pub command_id: u16,
    /// Tag of the transfer (TTAG), which H2CData repeats from R2T.
    pub tag: u16,
    /// Offset of the first byte within the command's data (DATAO, R2TO).
    pub offset: u32,
    /// Number of bytes (DATAL, R2TL).
    pub bytes: u32,
}

/// Parameters that a host or a controller gives when it initializes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitializationParameters {
    /// Alignment of data in PDUs that this end receives, in double words less 1 (HPDA, CPDA).
    pub alignment: u8,
    /// Digests that this end wants.
    pub digests: Digests,
    /// For a host: the number of R2T PDUs in flight for a command, less 1 (MAXR2T). For a controller: the maximum
    /// number of data bytes in an H2CData PDU (MAXH2CDATA).
    pub limit: u32,
}

impl InitializationParameters {
    /// Returns the alignment in bytes.
    pub fn data_alignment_bytes(&self) -> u32 {
        (u32::from(self.alignment) + 1) * 4
    }
}

/// Decoded header of a PDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PduHeader {
    /// ICReq with the host's parameters.
    InitializeRequest(InitializationParameters),
    /// ICResp with the controller's parameters.
    InitializeResponse(InitializationParameters),
    /// H2CTermReq or C2HTermReq.
    Termination {
        /// Status of the error (FES).
        status: u16,
        /// Information about the error (FEI).
        information: u32,
    },
    /// CapsuleCmd with the submission queue entry.
    Command([u8; SUBMISSION_ENTRY_BYTES]),
    /// CapsuleResp with the completion queue entry.
    Response([u8; COMPLETION_ENTRY_BYTES]),
    /// H2CData, whose data follows.
    HostData {
        /// Part of the command's data.
        transfer: Transfer,
        /// True if no further data follows for the R2T.
        is_last: bool,
    },
    /// C2HData, whose data follows.
    ControllerData {
        /// Part of the command's data.
        transfer: Transfer,
        /// True if no further data follows for the command.
        is_last: bool,
        /// True if the command has ended successfully, without a response capsule.
        is_success: bool,
    },
    /// R2T: the host may send this part of the command's data.
    ReadyToTransfer(Transfer),
}

/// Returns the digest of bytes: their CRC-32C (section 3.3.1.1).
#[inline]
pub fn digest(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Type of the SGL descriptor in a command capsule: data in the capsule, at an offset (Data Block, subtype Offset).
const IN_CAPSULE: u64 = 0x01;
/// Type of the SGL descriptor in a command capsule: data in PDUs of its own (Transport Data Block, subtype A).
const TRANSPORT: u64 = 0x5a;

/// Place of a command's data, as the SGL descriptor in its capsule says (section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandDataLocation {
    /// In the capsule, at this offset.
    InCapsule {
        /// Offset from the start of the data in the capsule, in bytes.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// In data PDUs.
    Transport {
        /// Number of bytes.
        bytes: u32,
    },
    /// Descriptor of a type that NVMe/TCP does not have.
    Other,
}

impl CommandDataLocation {
    /// Returns the place of the data that the two words of an SGL descriptor name.
    #[inline]
    pub fn of(address: u64, descriptor: u64) -> CommandDataLocation {
        let bytes = low_u32(descriptor);
        match descriptor >> 56 {
            IN_CAPSULE => CommandDataLocation::InCapsule { offset: address, bytes },
            TRANSPORT => CommandDataLocation::Transport { bytes },
            _ => CommandDataLocation::Other,
        }
    }

    /// Returns the two words of the SGL descriptor that names this place.
    pub fn descriptor(self) -> (u64, u64) {
        match self {
            CommandDataLocation::InCapsule { offset, bytes } => (offset, u64::from(bytes) | IN_CAPSULE << 56),
            CommandDataLocation::Transport { bytes } => (0, u64::from(bytes) | TRANSPORT << 56),
            CommandDataLocation::Other => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PduLimits = PduLimits {
        digests: Digests { header: true, data: true },
        alignment: 16,
        capsule_data_max: 8192,
        data_max: 1 << 17,
    };
    const ENCODER: Encoder = Encoder { digests: Digests { header: true, data: true }, alignment: 16 };

    fn decode_test_pdu(bytes: &[u8], sender: Sender) -> Result<(PduLayout, PduHeader), FatalPduError> {
        let layout = PduLayout::check(bytes.first_chunk().unwrap(), sender, &LIMITS)?;
        layout.header(bytes).map(|header| (layout, header))
    }

    #[test]
    fn every_nvme_tcp_pdu_decodes_as_it_was_encoded() {
        let transfer = Transfer { command_id: 7, tag: 9, offset: 4096, bytes: 512 };
        let parameters =
            InitializationParameters { alignment: 3, digests: Digests { header: true, data: false }, limit: 1 << 16 };
        let cases = [
            (ENCODER.initialize(PduType::InitializeRequest, &parameters), PduHeader::InitializeRequest(parameters), 0),
            (
                ENCODER.initialize(PduType::InitializeResponse, &parameters),
                PduHeader::InitializeResponse(parameters),
                0,
            ),
            (ENCODER.command(&[5; 64], 0), PduHeader::Command([5; 64]), 0),
            (ENCODER.command(&[5; 64], 100), PduHeader::Command([5; 64]), 100),
            (ENCODER.response(&[6; 16]), PduHeader::Response([6; 16]), 0),
            (ENCODER.encode_h2c_data_header(&transfer, true), PduHeader::HostData { transfer, is_last: true }, 512),
            (
                ENCODER.encode_c2h_data_header(&transfer, false, true),
                PduHeader::ControllerData { transfer, is_last: false, is_success: true },
                512,
            ),
            (ENCODER.encode_ready_to_transfer(&transfer), PduHeader::ReadyToTransfer(transfer), 0),
        ];
        for (encoded, expected, data_bytes) in cases {
            let bytes = encoded.bytes();
            let sender = PduType::decode(bytes[0]).unwrap().sender();
            let (layout, header) = decode_test_pdu(bytes, sender).unwrap();
            assert_eq!((&header, layout.data_bytes, layout.data_at), (&expected, data_bytes, bytes.len()));
            assert!(data_bytes == 0 || layout.data_at.is_multiple_of(16), "{expected:?}");
            // The opposite side must not send this PDU, so parsing it fails.
            let other = if sender == Sender::Host { Sender::Controller } else { Sender::Host };
            assert_eq!(decode_test_pdu(bytes, other), Err(FatalPduError::field(at::TYPE)));
        }
    }

    #[test]
    fn digest_is_the_crc32c_of_the_specification() {
        // Test vectors of RFC 3720, section B.4: 32 bytes of zeros, of ones, and counting up.
        assert_eq!(digest(&[0; 32]), 0x8a91_36aa);
        assert_eq!(digest(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(digest(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    #[test]
    fn invalid_pdu_header_is_refused_with_the_offset_of_its_field() {
        let transfer = Transfer { command_id: 7, tag: 9, offset: 4096, bytes: 512 };
        let good = |kind: &str| match kind {
            "data" => ENCODER.encode_h2c_data_header(&transfer, true).bytes().to_vec(),
            _ => ENCODER.command(&[5; 64], 512).bytes().to_vec(),
        };
        for (kind, place, value, offset) in [
            ("data", 0, 0x0b, at::TYPE),
            ("data", 0, PduType::Response.number(), at::TYPE),
            ("data", 1, DATA_DIGEST, at::FLAGS),
            ("data", 1, HEADER_DIGEST, at::FLAGS),
            ("data", 2, 23, at::HEADER_LENGTH),
            ("data", 3, 24, at::DATA_OFFSET),
            ("data", 3, 33, at::DATA_OFFSET),
            ("data", 5, 0, at::LENGTH),
            ("data", 7, 1, at::LENGTH),
            ("command", 2, 64, at::HEADER_LENGTH),
            ("command", 3, 72, at::DATA_OFFSET),
            ("command", 6, 1, at::LENGTH),
        ] {
            let mut bytes = good(kind);
            bytes[place] = value;
            assert_eq!(
                decode_test_pdu(&bytes, Sender::Host),
                Err(FatalPduError::field(offset)),
                "{kind} {place} {value}"
            );
        }
        // The header digest covers all header bytes, so changing one is an error.
        let mut bytes = good("data");
        bytes[12] ^= 1;
        let received = u32::from_le_bytes(*bytes[24..].first_chunk().unwrap());
        let expected = FatalPduError { status: TerminationStatus::HeaderDigestError, information: received };
        assert_eq!(decode_test_pdu(&bytes, Sender::Host), Err(expected));
    }

    #[test]
    fn data_length_and_offset_of_a_data_pdu_must_match_its_layout() {
        let encoder = Encoder::default();
        let limits = PduLimits { digests: Digests::default(), alignment: 4, ..LIMITS };
        for (place, offset) in [(at::BYTES, at::BYTES), (at::OFFSET, at::OFFSET)] {
            let transfer = Transfer { command_id: 7, tag: 9, offset: 4096, bytes: 512 };
            let mut bytes = encoder.encode_h2c_data_header(&transfer, true).bytes().to_vec();
            bytes[place] ^= 1;
            let layout = PduLayout::check(bytes.first_chunk().unwrap(), Sender::Host, &limits).unwrap();
            assert_eq!(layout.header(&bytes), Err(FatalPduError::field(offset)));
        }
    }

    #[test]
    fn termination_request_contains_at_most_128_bytes_of_the_faulty_pdu() {
        let bytes = ENCODER.terminate(PduType::ControllerTermination, FatalPduError::field(4), &[9; 500]);
        assert_eq!(bytes.len(), TERMINATION_BYTES_MAX);
        let (layout, header) = decode_test_pdu(&bytes, Sender::Controller).unwrap();
        assert_eq!(layout.data_bytes, 128);
        assert_eq!(header, PduHeader::Termination { status: 1, information: 4 });
    }

    #[test]
    fn command_data_location_decodes_as_it_was_encoded() {
        for place in [
            CommandDataLocation::InCapsule { offset: 64, bytes: 512 },
            CommandDataLocation::Transport { bytes: 1 << 20 },
        ] {
            let (address, descriptor) = place.descriptor();
            assert_eq!(CommandDataLocation::of(address, descriptor), place);
        }
        assert_eq!(CommandDataLocation::of(0, 0), CommandDataLocation::Other);
    }
}
