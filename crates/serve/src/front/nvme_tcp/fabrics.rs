//! Commands of NVMe over Fabrics as types (Base Specification 2.0, section 6): Connect, properties, authentication and
//! Disconnect.

use phaselink_core::number::{length, low_u8, low_u16, low_u32, wide_index};
use phaselink_core::protocol::nvme::spec::fields::{connect as fields, property, security};
use phaselink_core::protocol::nvme::spec::{PSDT_SGL, Status, SubmissionEntry};

pub use crate::nvme::discovery::DISCOVERY_NQN;

/// Opcode of all Fabrics commands.
pub const OPCODE: u8 = 0x7f;
/// Maximum length of an NVMe Qualified Name in bytes (section 4.5).
pub const NQN_BYTES_MAX: usize = 223;
/// Controller identifier with which a host asks for any controller (dynamic controller model).
pub const ANY_CONTROLLER: u16 = 0xffff;
/// Length in bytes of the data of a Connect command (section 6.3).
pub const CONNECT_DATA_BYTES: usize = 1024;
/// Length in bytes of the field of an NVMe Qualified Name.
const NQN_FIELD_BYTES: usize = 256;

/// Fabrics Command Types (FCTYPE).
pub mod command_type {
    /// Sets a property of the controller.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Connects a queue.
    pub const CONNECT: u8 = 0x01;
    /// Reads a property of the controller.
    pub const PROPERTY_GET: u8 = 0x04;
    /// Sends a message of an authentication protocol.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Receives a message of an authentication protocol.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// Disconnects an I/O queue.
    pub const DISCONNECT: u8 = 0x08;
}

/// Status codes of Fabrics commands, and those that only transports have.
pub mod status {
    use super::Status;

    /// Connect Incompatible Format (command specific, 80h): the record format is not supported.
    pub const INCOMPATIBLE_FORMAT: Status = Status(0x0180);
    /// Controller Busy (command specific, 81h): no controller is free, or another host uses the named one.
    pub const CONTROLLER_BUSY: Status = Status(0x0181);
    /// Connect Invalid Parameters (command specific, 82h): a field of the command or its data is invalid.
    pub const INVALID_PARAMETERS: Status = Status(0x0182);
    /// Connect Restart Discovery (command specific, 83h): the subsystem is not available here any more.
    pub const RESTART_DISCOVERY: Status = Status(0x0183);
    /// Connect Invalid Host (command specific, 84h): the host must not use the subsystem.
    pub const INVALID_HOST: Status = Status(0x0184);
    /// Authentication Required (command specific, 91h): the host has to authenticate before it sends other commands.
    pub const AUTHENTICATION_REQUIRED: Status = Status(0x0191);
    /// SGL Offset Invalid (generic, 16h): data in the capsule is not where the descriptor says.
    pub const INVALID_SGL_OFFSET: Status = Status(0x0016);
    /// Transient Transport Error (generic, 22h): the data digest of a transfer is wrong.
    pub const TRANSIENT_TRANSPORT_ERROR: Status = Status(0x0022);
}

/// Bits 16 to 31 of dword 0 of a successful Connect: the host has to authenticate (AUTHREQ).
pub mod authentication {
    /// Authentication by the DH-HMAC-CHAP protocol in the queue itself is required (ATR).
    pub const IN_BAND: u32 = 1 << 17;
    /// Authentication and the derivation of a key for a secure channel are required (ASCR).
    pub const SECURE_CHANNEL: u32 = 1 << 18;
}

/// Attributes of a queue to be connected (CATTR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectQueueAttributes(pub u8);

impl ConnectQueueAttributes {
    /// Bit of CATTR: the host does not use SQHD, so that the queue has no flow control.
    const NO_FLOW_CONTROL: u8 = 1 << 2;

    /// Returns true if the host asks for a submission queue without flow control.
    pub fn disables_sq_flow_control(self) -> bool {
        self.0 & ConnectQueueAttributes::NO_FLOW_CONTROL != 0
    }

    /// Returns the attributes of a queue without flow control.
    pub fn without_sq_flow_control() -> ConnectQueueAttributes {
        ConnectQueueAttributes(ConnectQueueAttributes::NO_FLOW_CONTROL)
    }
}

/// Fields of a Connect command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// Format of the command and its data; 0 (RECFMT).
    pub record_format: u16,
    /// Identifier of the queue; 0 for the admin queue (QID).
    pub queue: u16,
    /// Number of entries of the submission queue, less 1 (SQSIZE).
    pub entries_field: u16,
    /// Attributes of the queue (CATTR).
    pub attributes: ConnectQueueAttributes,
    /// Keep-alive timeout in milliseconds, for the admin queue (KATO).
    pub keep_alive_ms: u32,
}

/// Fields of Authentication Send and Authentication Receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationTransferFields {
    /// Security protocol (SECP); E9h for NVMe authentication.
    pub protocol: u8,
    /// Fields SPSP0 (low byte) and SPSP1 that the security protocol defines.
    pub specific: u16,
    /// Number of bytes that are transferred (TL), or room for the response (AL).
    pub bytes: u32,
}

/// Command of NVMe over Fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricsCommand {
    /// Sets a property.
    PropertySet {
        /// Byte offset of the property, as in the register space of a PCIe controller.
        offset: u32,
        /// New value. Of a property of 4 bytes, only the low half counts.
        value: u64,
        /// True if the property has 8 bytes.
        is_wide: bool,
    },
    /// Reads a property.
    PropertyGet {
        /// Byte offset of the property, as in the register space of a PCIe controller.
        offset: u32,
        /// True if the property has 8 bytes.
        is_wide: bool,
    },
    /// Connects a queue; its data is [`ConnectData`].
    Connect(Connect),
    /// Sends a message of an authentication protocol.
    AuthenticationSend(AuthenticationTransferFields),
    /// Receives a message of an authentication protocol.
    AuthenticationReceive(AuthenticationTransferFields),
    /// Disconnects an I/O queue.
    Disconnect {
        /// Format of the command; 0 (RECFMT).
        record_format: u16,
    },
    /// Fabrics command that is not supported.
    Unknown,
}

impl FabricsCommand {
    /// Decodes a submission queue entry; returns none if it is no Fabrics command.
    pub fn decode(entry: &SubmissionEntry) -> Option<FabricsCommand> {
        if entry.opcode != OPCODE {
            return None;
        }
        let transfer = || AuthenticationTransferFields {
            protocol: low_u8(entry.get(security::PROTOCOL)),
            specific: low_u16(entry.get(security::SPECIFIC)),
            bytes: entry.get(security::BYTES),
        };
        let record_format = low_u16(entry.get(fields::RECORD_FORMAT));
        let (offset, is_wide) = (entry.get(property::OFFSET), entry.get(property::SIZE) == 1);
        Some(match fabrics_command_type(entry) {
            command_type::PROPERTY_SET => {
                let value = entry.joined_u64([property::VALUE_LOW, property::VALUE_HIGH]);
                FabricsCommand::PropertySet { offset, value, is_wide }
            }
            command_type::PROPERTY_GET => FabricsCommand::PropertyGet { offset, is_wide },
            command_type::CONNECT => FabricsCommand::Connect(Connect {
                record_format,
                queue: low_u16(entry.get(fields::QUEUE)),
                entries_field: low_u16(entry.get(fields::ENTRIES)),
                attributes: ConnectQueueAttributes(low_u8(entry.get(fields::ATTRIBUTES))),
                keep_alive_ms: entry.get(fields::KEEP_ALIVE),
            }),
            command_type::AUTHENTICATION_SEND => FabricsCommand::AuthenticationSend(transfer()),
            command_type::AUTHENTICATION_RECEIVE => FabricsCommand::AuthenticationReceive(transfer()),
            command_type::DISCONNECT => FabricsCommand::Disconnect { record_format },
            _ => FabricsCommand::Unknown,
        })
    }

    /// Returns the submission queue entry of the command, without data pointer.
    pub fn entry(&self, command_id: u16) -> SubmissionEntry {
        let kind = match self {
            FabricsCommand::PropertySet { .. } => command_type::PROPERTY_SET,
            FabricsCommand::PropertyGet { .. } => command_type::PROPERTY_GET,
            FabricsCommand::Connect(_) => command_type::CONNECT,
            FabricsCommand::AuthenticationSend(_) => command_type::AUTHENTICATION_SEND,
            FabricsCommand::AuthenticationReceive(_) => command_type::AUTHENTICATION_RECEIVE,
            FabricsCommand::Disconnect { .. } => command_type::DISCONNECT,
            FabricsCommand::Unknown => u8::MAX,
        };
        let (flags, namespace_id) = (PSDT_SGL, kind.into());
        let entry = SubmissionEntry { opcode: OPCODE, flags, command_id, namespace_id, ..SubmissionEntry::default() };
        let of_property =
            |offset: u32, is_wide: bool| entry.with(property::OFFSET, offset).with(property::SIZE, is_wide.into());
        match *self {
            FabricsCommand::PropertySet { offset, value, is_wide } => of_property(offset, is_wide)
                .with(property::VALUE_LOW, low_u32(value))
                .with(property::VALUE_HIGH, low_u32(value >> 32)),
            FabricsCommand::PropertyGet { offset, is_wide } => of_property(offset, is_wide),
            FabricsCommand::Connect(connect) => entry
                .with(fields::RECORD_FORMAT, connect.record_format.into())
                .with(fields::QUEUE, connect.queue.into())
                .with(fields::ENTRIES, connect.entries_field.into())
                .with(fields::ATTRIBUTES, connect.attributes.0.into())
                .with(fields::KEEP_ALIVE, connect.keep_alive_ms),
            FabricsCommand::AuthenticationSend(transfer) | FabricsCommand::AuthenticationReceive(transfer) => entry
                .with(security::PROTOCOL, transfer.protocol.into())
                .with(security::SPECIFIC, transfer.specific.into())
                .with(security::BYTES, transfer.bytes),
            FabricsCommand::Disconnect { record_format } => entry.with(fields::RECORD_FORMAT, record_format.into()),
            FabricsCommand::Unknown => entry,
        }
    }
}

/// Returns the type of a Fabrics command (FCTYPE), which is in the place of the namespace identifier.
pub fn fabrics_command_type(entry: &SubmissionEntry) -> u8 {
    entry.namespace_id.to_le_bytes()[0]
}

/// Field of a Connect command or of its data that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidConnectParameter {
    /// Byte offset of the field (IPO).
    pub offset: u16,
    /// True if the offset is in the data, false if it is in the command (IATTR).
    pub is_in_data: bool,
}

/// Byte offsets of fields of a Connect command and of its data.
pub mod field {
    use super::InvalidConnectParameter;

    const fn command(offset: u16) -> InvalidConnectParameter {
        InvalidConnectParameter { offset, is_in_data: false }
    }

    const fn data(offset: u16) -> InvalidConnectParameter {
        InvalidConnectParameter { offset, is_in_data: true }
    }

    /// Data pointer of the command (SGL1).
    pub const DATA_POINTER: InvalidConnectParameter = command(24);
    /// Queue identifier (QID).
    pub const QUEUE: InvalidConnectParameter = command(42);
    /// Number of entries (SQSIZE).
    pub const ENTRIES: InvalidConnectParameter = command(44);
    /// Host identifier (HOSTID).
    pub const HOST_ID: InvalidConnectParameter = data(0);
    /// Controller identifier (CNTLID).
    pub const CONTROLLER: InvalidConnectParameter = data(16);
    /// Name of the subsystem (SUBNQN).
    pub const SUBSYSTEM: InvalidConnectParameter = data(256);
    /// Name of the host (HOSTNQN).
    pub const HOST: InvalidConnectParameter = data(512);
}

impl InvalidConnectParameter {
    /// Returns dword 0 of the response to a Connect that is refused with Connect Invalid Parameters.
    pub fn result(self) -> u32 {
        u32::from(self.offset) | u32::from(self.is_in_data) << 16
    }
}

/// Data of a Connect command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// Identifier of the host (HOSTID).
    pub host_id: [u8; 16],
    /// Controller that the queue belongs to, or [`ANY_CONTROLLER`] (CNTLID).
    pub controller: u16,
    /// Name of the subsystem (SUBNQN).
    pub subsystem: String,
    /// Name of the host (HOSTNQN).
    pub host: String,
}

impl ConnectData {
    /// Decodes the data of a Connect command.
    ///
    /// # Errors
    /// The first field that is invalid: the name of the subsystem or of the host.
    pub fn decode(bytes: &[u8; CONNECT_DATA_BYTES]) -> Result<ConnectData, InvalidConnectParameter> {
        let at = |invalid: InvalidConnectParameter| &bytes[usize::from(invalid.offset)..];
        let host_id = bytes.first_chunk().copied().unwrap_or_default();
        let controller = at(field::CONTROLLER).first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let name = |invalid: InvalidConnectParameter| parse_nqn_field(&at(invalid)[..NQN_FIELD_BYTES]).ok_or(invalid);
        Ok(ConnectData { host_id, controller, subsystem: name(field::SUBSYSTEM)?, host: name(field::HOST)? })
    }

    /// Encodes the data of a Connect command.
    ///
    /// # Panics
    /// If a name is longer than its field.
    pub fn encode(&self) -> [u8; CONNECT_DATA_BYTES] {
        let mut bytes = [0; CONNECT_DATA_BYTES];
        bytes[..16].copy_from_slice(&self.host_id);
        bytes[16..18].copy_from_slice(&self.controller.to_le_bytes());
        for (invalid, name) in [(field::SUBSYSTEM, &self.subsystem), (field::HOST, &self.host)] {
            assert!(name.len() < NQN_FIELD_BYTES, "a name has at most {NQN_BYTES_MAX} bytes");
            bytes[usize::from(invalid.offset)..][..name.len()].copy_from_slice(name.as_bytes());
        }
        bytes
    }
}

/// Returns the NVMe Qualified Name in a field that is filled with zeros; none if it is not a valid name.
fn parse_nqn_field(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&field[..end]).ok()?;
    is_valid_nqn(text).then(|| String::from(text))
}

/// Returns true if a text is an NVMe Qualified Name (section 4.5): its length and its first letters are valid.
pub fn is_valid_nqn(text: &str) -> bool {
    text.len() <= NQN_BYTES_MAX && text.starts_with("nqn.") && !text.chars().any(char::is_control)
}

/// Properties of a controller that hosts reach by Fabrics commands: offset, and true for 8 bytes.
const PROPERTIES: [(u32, bool); 5] = [(0x00, true), (0x08, false), (0x14, false), (0x1c, false), (0x68, false)];
/// Offset of the property CC, the only one that hosts may set.
pub const CONFIGURATION: u32 = 0x14;

/// Returns true if a property with this offset and size exists.
pub fn is_existing_property(offset: u32, is_wide: bool) -> bool {
    PROPERTIES.contains(&(offset, is_wide))
}

/// Returns the number of bytes of a property.
pub fn property_bytes(is_wide: bool) -> usize {
    wide_index(if is_wide { length(size_of::<u64>()) } else { length(size_of::<u32>()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fabrics_command_decodes_as_it_was_encoded() {
        let connect = Connect {
            record_format: 0,
            queue: 3,
            entries_field: 127,
            attributes: ConnectQueueAttributes::without_sq_flow_control(),
            keep_alive_ms: 120_000,
        };
        let transfer = AuthenticationTransferFields { protocol: 0xe9, specific: 0x0001, bytes: 300 };
        for command in [
            FabricsCommand::PropertySet { offset: CONFIGURATION, value: 0x46_0001, is_wide: false },
            FabricsCommand::PropertyGet { offset: 0, is_wide: true },
            FabricsCommand::Connect(connect),
            FabricsCommand::AuthenticationSend(transfer),
            FabricsCommand::AuthenticationReceive(transfer),
            FabricsCommand::Disconnect { record_format: 0 },
        ] {
            let entry = SubmissionEntry::decode(&command.entry(9).encode());
            assert_eq!((entry.command_id, FabricsCommand::decode(&entry)), (9, Some(command)));
        }
        let other = SubmissionEntry { opcode: 2, ..SubmissionEntry::default() };
        assert_eq!(FabricsCommand::decode(&other), None);
    }

    #[test]
    fn connect_fields_are_at_the_specified_capsule_offsets() {
        let connect =
            Connect { queue: 0x0201, entries_field: 0x0403, keep_alive_ms: 0x0807_0605, ..Connect::default() };
        let bytes = FabricsCommand::Connect(connect).entry(0x0b0a).encode();
        assert_eq!(bytes[..5], [0x7f, 0x40, 0x0a, 0x0b, 1]);
        assert_eq!(bytes[40..52], [0, 0, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8]);
    }

    #[test]
    fn nqn_without_terminator_or_prefix_is_refused_with_its_offset() {
        let data = ConnectData {
            host_id: [1; 16],
            controller: ANY_CONTROLLER,
            subsystem: String::from(DISCOVERY_NQN),
            host: String::from("nqn.2014-08.org.nvmexpress:uuid:1"),
        };
        assert_eq!(ConnectData::decode(&data.encode()), Ok(data.clone()));
        for (place, bytes, refused) in
            [(256, &b"iqn"[..], field::SUBSYSTEM), (512, &[b'n'; 256], field::HOST), (512, b"nqn.\xff", field::HOST)]
        {
            let mut encoded = data.encode();
            encoded[place..][..bytes.len()].copy_from_slice(bytes);
            assert_eq!(ConnectData::decode(&encoded), Err(refused));
        }
        assert_eq!(field::HOST.result(), 512 | 1 << 16);
    }
}
