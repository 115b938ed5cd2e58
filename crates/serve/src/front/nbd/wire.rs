//! The NBD protocol as bytes (the NBD project's doc/proto.md): messages parsed once into types, and replies encoded.
//!
//! Everything here is pure. A parser is given the bytes that have been received, and returns how many a message takes.
//! It never fails on missing bytes, never looks beyond a limit, and never allocates.

use phaselink_core::number::{index, short_length};

/// Magic number that begins the NBD handshake (NBDMAGIC).
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second magic number of the NBD handshake, which also begins each option (IHAVEOPT).
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic number that begins each reply to an NBD option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic number that begins each NBD request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number that begins each simple reply of NBD.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic number that begins each chunk of a structured reply of NBD.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Length of an NBD request without its data, in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply of NBD without its data, in bytes.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of the header of a structured reply's chunk, in bytes.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Length of the header of an NBD option, in bytes.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Maximum length of the data of an NBD option, in bytes: names have up to 4096, and few bytes are added to them.
pub const OPTION_BYTES_MAX: u32 = 8192;
/// Maximum length of the data of a read or write, in bytes, that clients may send without asking ("Block size
/// constraints").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Flags that server and client exchange in the NBD handshake.
pub mod handshake {
    /// NBD_FLAG_FIXED_NEWSTYLE and its answer NBD_FLAG_C_FIXED_NEWSTYLE: the fixed newstyle handshake.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// NBD_FLAG_NO_ZEROES and its answer NBD_FLAG_C_NO_ZEROES: no 124 zeros behind the reply to NBD_OPT_EXPORT_NAME.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options that a client sends in the NBD handshake.
pub mod option {
    /// NBD_OPT_EXPORT_NAME: chooses an export and ends the handshake, without a way to refuse.
    pub const EXPORT_NAME: u32 = 1;
    /// NBD_OPT_ABORT: ends the session.
    pub const ABORT: u32 = 2;
    /// NBD_OPT_LIST: asks for the names of all exports.
    pub const LIST: u32 = 3;
    /// NBD_OPT_INFO: asks for information about an export.
    pub const INFO: u32 = 6;
    /// NBD_OPT_GO: asks for information about an export, and begins the transmission.
    pub const GO: u32 = 7;
    /// NBD_OPT_STRUCTURED_REPLY: asks for structured replies to reads.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// NBD_OPT_LIST_META_CONTEXT: lists the metadata contexts of an export that match the queries.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// NBD_OPT_SET_META_CONTEXT: chooses metadata contexts of an export for block status.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of the server's replies to options of the handshake.
pub mod reply {
    /// NBD_REP_ACK: the option is accepted, or no further replies to it follow.
    pub const ACK: u32 = 1;
    /// NBD_REP_SERVER: the name of an export.
    pub const SERVER: u32 = 2;
    /// NBD_REP_INFO: information about an export, of one of the kinds in [`super::info`].
    pub const INFO: u32 = 3;
    /// NBD_REP_META_CONTEXT: number and name of a metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Bit that is set in the types of all error replies to options.
    pub const ERROR: u32 = 1 << 31;
    /// NBD_REP_ERR_UNSUP: the server does not know the option.
    pub const UNSUPPORTED: u32 = ERROR + 1;
    /// NBD_REP_ERR_POLICY: the server refuses the option as it has been set up.
    pub const POLICY: u32 = ERROR + 2;
    /// NBD_REP_ERR_INVALID: the data of the option is malformed.
    pub const INVALID: u32 = ERROR + 3;
    /// NBD_REP_ERR_UNKNOWN: no export has the name.
    pub const UNKNOWN: u32 = ERROR + 6;
    /// NBD_REP_ERR_TOO_BIG: the data of the option is longer than the server takes.
    pub const TOO_BIG: u32 = ERROR + 9;
}

/// Kinds of information about an export, in replies to options.
pub mod info {
    /// NBD_INFO_EXPORT: size of the export in bytes and its transmission flags.
    pub const EXPORT: u16 = 0;
    /// NBD_INFO_BLOCK_SIZE: minimum and preferred block size, and longest payload, in bytes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: features of an export.
pub mod transmission {
    /// NBD_FLAG_HAS_FLAGS: the flags are valid; always set.
    pub const HAS_FLAGS: u16 = 1;
    /// NBD_FLAG_SEND_FLUSH: the export accepts NBD_CMD_FLUSH.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// NBD_FLAG_SEND_FUA: the export accepts NBD_CMD_FLAG_FUA (force unit access).
    pub const SEND_FUA: u16 = 1 << 3;
    /// NBD_FLAG_SEND_TRIM: the export accepts NBD_CMD_TRIM.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// NBD_FLAG_SEND_WRITE_ZEROES: the export accepts NBD_CMD_WRITE_ZEROES and NBD_CMD_FLAG_NO_HOLE.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// NBD_FLAG_SEND_DF: the export accepts NBD_CMD_FLAG_DF, which needs structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// NBD_FLAG_CAN_MULTI_CONN: a flush on one connection covers the completed writes of all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Types of requests in the transmission phase.
pub mod command {
    /// NBD_CMD_READ: reads a range, whose data comes with the reply.
    pub const READ: u16 = 0;
    /// NBD_CMD_WRITE: writes a range, whose data follows the request.
    pub const WRITE: u16 = 1;
    /// NBD_CMD_DISC: the client ends the session; no reply follows.
    pub const DISCONNECT: u16 = 2;
    /// NBD_CMD_FLUSH: makes all completed writes durable.
    pub const FLUSH: u16 = 3;
    /// NBD_CMD_TRIM: the client no longer needs the data of a range.
    pub const TRIM: u16 = 4;
    /// NBD_CMD_WRITE_ZEROES: writes zeros without a transfer of data.
    pub const WRITE_ZEROES: u16 = 6;
    /// NBD_CMD_BLOCK_STATUS: asks for the state of extents in the chosen metadata contexts.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests in the transmission phase.
pub mod flag {
    /// NBD_CMD_FLAG_FUA (force unit access): the change must be durable when the request completes.
    pub const FUA: u16 = 1;
    /// NBD_CMD_FLAG_NO_HOLE: zeros must keep their space on the disk.
    pub const NO_HOLE: u16 = 1 << 1;
    /// NBD_CMD_FLAG_DF (do not fragment): the reply to a read must be one chunk.
    pub const DF: u16 = 1 << 2;
    /// NBD_CMD_FLAG_REQ_ONE: block status of the first extent alone.
    pub const REQ_ONE: u16 = 1 << 3;
}

/// Metadata context that says which extents of an export are allocated, and the states of extents.
pub mod allocation {
    /// Namespace of the metadata contexts that the NBD protocol defines.
    pub const NAMESPACE: &[u8] = b"base:";
    /// Name of the metadata context that says which extents are allocated.
    pub const NAME: &[u8] = b"base:allocation";
    /// Number that this server gives the metadata context `base:allocation`.
    pub const ID: u32 = 1;
    /// NBD_STATE_HOLE: the extent takes no space.
    pub const HOLE: u32 = 1;
    /// NBD_STATE_ZERO: the extent reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// Flag and types of the chunks of a structured reply.
pub mod chunk {
    /// NBD_REPLY_FLAG_DONE: the chunk is the last one of its reply.
    pub const FLAG_DONE: u16 = 1;
    /// NBD_REPLY_TYPE_NONE: a chunk without content, which only ends a reply.
    pub const NONE: u16 = 0;
    /// NBD_REPLY_TYPE_OFFSET_DATA: data that was read, with its offset.
    pub const OFFSET_DATA: u16 = 1;
    /// NBD_REPLY_TYPE_BLOCK_STATUS: a metadata context, and length and state of each extent.
    pub const BLOCK_STATUS: u16 = 5;
    /// NBD_REPLY_TYPE_ERROR: status of a request that failed, with a message.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// Status in an NBD reply, with the error numbers of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The request has succeeded.
    Ok = 0,
    /// EIO: the device could not read or write the data.
    Io = 5,
    /// ENOMEM: the server has no memory for the request.
    NoMemory = 12,
    /// EINVAL: the request is malformed, or not one that the export accepts.
    Invalid = 22,
    /// ENOSPC: the request ends beyond the export, or the disk is full.
    NoSpace = 28,
    /// EOVERFLOW: the request is longer than the server takes.
    Overflow = 75,
    /// ESHUTDOWN: the server is shutting down.
    ShuttingDown = 108,
}

/// Result of parsing the bytes that have been received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdParseResult<T> {
    /// A complete message, and its length in bytes.
    Whole(T, usize),
    /// The message is incomplete: at least this many bytes are needed.
    Needs(usize),
    /// The bytes break the protocol, for this reason. The connection cannot go on.
    Broken(&'static str),
}

/// Header of an option in the NBD handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option, such as NBD_OPT_GO.
    pub option: u32,
    /// Number of data bytes that follow the option's header.
    pub length: u32,
}

/// Head of a request in the transmission phase, without the data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags of the request, as in [`flag`].
    pub flags: u16,
    /// Type of the request, as in [`command`].
    pub command: u16,
    /// Cookie of the request, which the reply repeats.
    pub cookie: u64,
    /// Offset of the range's first byte within the export, in bytes.
    pub offset: u64,
    /// Length of the request's range, in bytes.
    pub length: u32,
}

fn decode_be16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn decode_be32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(decode_be16_at(bytes, at)) << 16 | u32::from(decode_be16_at(bytes, at + 2))
}

fn decode_be64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(decode_be32_at(bytes, at)) << 32 | u64::from(decode_be32_at(bytes, at + 4))
}

/// Parses the client's handshake flags, the first message that it sends. Flags that the server does not offer are
/// refused.
pub fn parse_client_flags(bytes: &[u8]) -> NbdParseResult<u32> {
    if bytes.len() < 4 {
        return NbdParseResult::Needs(4);
    }
    let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    match decode_be32_at(bytes, 0) {
        flags if flags & !known == 0 => NbdParseResult::Whole(flags, 4),
        _ => NbdParseResult::Broken("client flags that nobody has offered"),
    }
}

/// Parses the header of a handshake option.
pub fn parse_option_header(bytes: &[u8]) -> NbdParseResult<OptionHeader> {
    if bytes.len() < OPTION_HEADER_BYTES {
        return NbdParseResult::Needs(OPTION_HEADER_BYTES);
    }
    match decode_be64_at(bytes, 0) {
        OPTION_MAGIC => {
            let header = OptionHeader { option: decode_be32_at(bytes, 8), length: decode_be32_at(bytes, 12) };
            NbdParseResult::Whole(header, OPTION_HEADER_BYTES)
        }
        _ => NbdParseResult::Broken("an option without its magic number"),
    }
}

/// Returns the export's name from the data of NBD_OPT_INFO or NBD_OPT_GO; none if the data is malformed. The kinds of
/// information that follow the name are not evaluated.
pub fn parse_info_export_name(data: &[u8]) -> Option<&[u8]> {
    let name_end = 4 + usize::try_from(decode_be32_at(data.get(..4)?, 0)).ok()?;
    let name = data.get(4..name_end)?;
    let count = usize::from(decode_be16_at(data.get(name_end..name_end + 2)?, 0));
    let kinds = &data[name_end + 2..];
    (kinds.len() == 2 * count).then_some(name)
}

/// Parses the data of an option about metadata contexts: calls `each` with every query, and returns the export's name.
/// Returns none if the data is malformed.
pub fn parse_meta_context_queries<'a>(data: &'a [u8], mut each: impl FnMut(&'a [u8])) -> Option<&'a [u8]> {
    let (name, rest) = split_length_prefixed_string(data)?;
    let (count, mut rest) = rest.split_at_checked(4)?;
    // Each query has at least four bytes, so a count that is too large ends with the data.
    for _ in 0..decode_be32_at(count, 0) {
        let (query, behind) = split_length_prefixed_string(rest)?;
        each(query);
        rest = behind;
    }
    rest.is_empty().then_some(name)
}

/// Splits `data` into a string, which follows its 32-bit length, and the rest; none if `data` is too short.
fn split_length_prefixed_string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_at_checked(4)?;
    rest.split_at_checked(index(decode_be32_at(length, 0)))
}

/// Parses the head of a request, without the data of a write.
#[inline]
pub fn parse_request_head(bytes: &[u8]) -> NbdParseResult<Request> {
    if bytes.len() < REQUEST_BYTES {
        return NbdParseResult::Needs(REQUEST_BYTES);
    }
    if decode_be32_at(bytes, 0) != REQUEST_MAGIC {
        return NbdParseResult::Broken("a request without its magic number");
    }
    let request = Request {
        flags: decode_be16_at(bytes, 4),
        command: decode_be16_at(bytes, 6),
        cookie: decode_be64_at(bytes, 8),
        offset: decode_be64_at(bytes, 16),
        length: decode_be32_at(bytes, 24),
    };
    NbdParseResult::Whole(request, REQUEST_BYTES)
}

impl Request {
    /// Returns the head of the request as it is sent, without the data of a write.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// Returns the server's greeting: two magic numbers and the handshake flags.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    bytes
}

/// Appends a reply to an option to `into`, with its type `kind` and its data.
pub fn append_option_reply(into: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    into.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    into.extend(option.to_be_bytes());
    into.extend(kind.to_be_bytes());
    into.extend(short_length(data.len()).to_be_bytes());
    into.extend(data);
}

/// Returns a simple reply to the request with this cookie. The data of a read must follow it.
#[inline]
pub fn encode_simple_reply(cookie: u64, status: Status) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&(status as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Returns the header of the only chunk of a structured reply, which `length` bytes must follow.
#[inline]
pub fn encode_chunk_header(cookie: u64, kind: u16, length: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Returns the body of an error chunk in a structured reply: the status, and no message.
pub fn encode_error_chunk_body(status: Status) -> [u8; 6] {
    let [a, b, c, d] = (status as u32).to_be_bytes();
    [a, b, c, d, 0, 0]
}

/// Parses the server's greeting on the client's side, and returns its handshake flags.
pub fn parse_greeting(bytes: &[u8]) -> NbdParseResult<u16> {
    if bytes.len() < 18 {
        return NbdParseResult::Needs(18);
    }
    match decode_be64_at(bytes, 0) == MAGIC && decode_be64_at(bytes, 8) == OPTION_MAGIC {
        true => NbdParseResult::Whole(decode_be16_at(bytes, 16), 18),
        false => NbdParseResult::Broken("a greeting that is not that of NBD's fixed newstyle handshake"),
    }
}

/// Parses the header of a reply to an option on the client's side. Returns its type, and the length of its data in
/// bytes.
pub fn parse_option_reply(bytes: &[u8]) -> NbdParseResult<(u32, u32)> {
    if bytes.len() < 20 {
        return NbdParseResult::Needs(20);
    }
    match (decode_be64_at(bytes, 0), decode_be32_at(bytes, 16)) {
        (OPTION_REPLY_MAGIC, length @ 0..=OPTION_BYTES_MAX) => {
            NbdParseResult::Whole((decode_be32_at(bytes, 12), length), 20)
        }
        _ => NbdParseResult::Broken("a reply to an option that is none"),
    }
}

/// Returns the size in bytes and the transmission flags of an export from the data of NBD_REP_INFO, on the client's
/// side; none for other information.
pub fn parse_export_info(data: &[u8]) -> Option<(u64, u16)> {
    let is_export = data.len() == 12 && decode_be16_at(data, 0) == info::EXPORT;
    is_export.then(|| (decode_be64_at(data, 2), decode_be16_at(data, 10)))
}

/// Parses a simple reply on the client's side: the cookie of the request, and the error number, zero for success.
#[inline]
pub fn parse_simple_reply(bytes: &[u8]) -> NbdParseResult<(u64, u32)> {
    if bytes.len() < SIMPLE_REPLY_BYTES {
        return NbdParseResult::Needs(SIMPLE_REPLY_BYTES);
    }
    match decode_be32_at(bytes, 0) {
        SIMPLE_REPLY_MAGIC => {
            NbdParseResult::Whole((decode_be64_at(bytes, 8), decode_be32_at(bytes, 4)), SIMPLE_REPLY_BYTES)
        }
        _ => NbdParseResult::Broken("a reply without its magic number"),
    }
}
