//! The NBD protocol as bytes (the NBD project's doc/proto.md): messages parsed once into types, and replies encoded.
//!
//! Everything here is pure. A parser is given the bytes that have come so far and says how many a message takes; it
//! never fails on bytes that are missing, never looks beyond a limit, and never allocates.

/// First word of the handshake.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the handshake, and first word of options.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of replies to options.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of requests.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of simple replies.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of chunks of structured replies.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Length of a request without its data.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply without its data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of the header of a chunk.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Length of the header of an option.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Longest data of an option: names have up to 4096 bytes, and few words stand beside them.
pub const OPTION_BYTES_MAX: u32 = 8192;
/// Longest data of a read or write that clients may send without asking ("Block size constraints").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Handshake flags of server and client.
pub mod handshake {
    /// NBD_FLAG_FIXED_NEWSTYLE and its answer NBD_FLAG_C_FIXED_NEWSTYLE: the fixed newstyle handshake.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// NBD_FLAG_NO_ZEROES and its answer NBD_FLAG_C_NO_ZEROES: no 124 zeros behind the reply to NBD_OPT_EXPORT_NAME.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of the handshake.
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

/// Types of replies to options.
pub mod reply {
    /// NBD_REP_ACK: the option is accepted, or no further replies to it follow.
    pub const ACK: u32 = 1;
    /// NBD_REP_SERVER: the name of an export.
    pub const SERVER: u32 = 2;
    /// NBD_REP_INFO: information about an export, of one of the kinds in [`super::info`].
    pub const INFO: u32 = 3;
    /// NBD_REP_META_CONTEXT: number and name of a metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Bit that all error replies have.
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

/// Kinds of information about an export.
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

/// Types of requests.
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

/// Flags of requests.
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

/// Metadata context of allocation.
pub mod allocation {
    /// Namespace of the contexts that the protocol defines.
    pub const NAMESPACE: &[u8] = b"base:";
    /// Name of the context.
    pub const NAME: &[u8] = b"base:allocation";
    /// Number of the context on this server.
    pub const ID: u32 = 1;
    /// NBD_STATE_HOLE: the extent takes no space.
    pub const HOLE: u32 = 1;
    /// NBD_STATE_ZERO: the extent reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// Chunks of structured replies.
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

/// Errors of requests, the numbers of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// EIO: the device could not read or write the data.
    Io = 5,
    /// ENOMEM: the server has no memory for the request.
    NoMemory = 12,
    /// EINVAL: the request is malformed, or not one that the export accepts.
    Invalid = 22,
    /// ENOSPC: the request ends behind the export, or the disk is full.
    NoSpace = 28,
    /// EOVERFLOW: the request is longer than the server takes.
    Overflow = 75,
    /// ESHUTDOWN: the server is shutting down.
    ShuttingDown = 108,
}

/// Result of reading the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// A message, and the bytes that it takes.
    Whole(T, usize),
    /// There must be at least so many bytes to say more.
    Needs(usize),
    /// This is not the protocol: what was found. The connection cannot go on.
    Broken(&'static str),
}

/// An option of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option.
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

/// A request of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags.
    pub flags: u16,
    /// Type of the request.
    pub command: u16,
    /// Cookie, which the reply repeats.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// The client's flags, the first that it sends.
pub fn parse_client_flags(bytes: &[u8]) -> Parsed<u32> {
    if bytes.len() < 4 {
        return Parsed::Needs(4);
    }
    let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    match be32(bytes, 0) {
        flags if flags & !known == 0 => Parsed::Whole(flags, 4),
        _ => Parsed::Broken("client flags that nobody has offered"),
    }
}

/// The head of an option.
pub fn parse_option(bytes: &[u8]) -> Parsed<OptionHeader> {
    if bytes.len() < OPTION_HEADER_BYTES {
        return Parsed::Needs(OPTION_HEADER_BYTES);
    }
    match be64(bytes, 0) {
        OPTION_MAGIC => {
            let header = OptionHeader { option: be32(bytes, 8), length: be32(bytes, 12) };
            Parsed::Whole(header, OPTION_HEADER_BYTES)
        }
        _ => Parsed::Broken("an option without its magic number"),
    }
}

/// The name in the data of INFO or GO, behind which stand kinds of information of two bytes each, that a server may
/// pass over; none if it contradicts itself.
pub fn parse_info(data: &[u8]) -> Option<&[u8]> {
    let name_end = 4 + usize::try_from(be32(data.get(..4)?, 0)).ok()?;
    let name = data.get(4..name_end)?;
    let count = usize::from(be16(data.get(name_end..name_end + 2)?, 0));
    let kinds = &data[name_end + 2..];
    (kinds.len() == 2 * count).then_some(name)
}

/// The export's name in the data of an option about metadata contexts, whose queries `each` is given; none if the data
/// contradicts itself.
pub fn parse_meta_contexts<'a>(data: &'a [u8], mut each: impl FnMut(&'a [u8])) -> Option<&'a [u8]> {
    let (name, rest) = take_string(data)?;
    let (count, mut rest) = rest.split_at_checked(4)?;
    // Every query takes four bytes at least, so that a count beyond the data ends the loop early.
    for _ in 0..be32(count, 0) {
        let (query, behind) = take_string(rest)?;
        each(query);
        rest = behind;
    }
    rest.is_empty().then_some(name)
}

/// A string behind its length, and what follows.
fn take_string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_at_checked(4)?;
    rest.split_at_checked(be32(length, 0) as usize)
}

/// A request, without the data of a write.
#[inline]
pub fn parse_request(bytes: &[u8]) -> Parsed<Request> {
    if bytes.len() < REQUEST_BYTES {
        return Parsed::Needs(REQUEST_BYTES);
    }
    if be32(bytes, 0) != REQUEST_MAGIC {
        return Parsed::Broken("a request without its magic number");
    }
    let request = Request {
        flags: be16(bytes, 4),
        command: be16(bytes, 6),
        cookie: be64(bytes, 8),
        offset: be64(bytes, 16),
        length: be32(bytes, 24),
    };
    Parsed::Whole(request, REQUEST_BYTES)
}

impl Request {
    /// The request as bytes, without data.
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

/// The server's greeting.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    bytes
}

/// A reply to an option.
pub fn option_reply(into: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    into.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    into.extend(option.to_be_bytes());
    into.extend(kind.to_be_bytes());
    into.extend((data.len() as u32).to_be_bytes());
    into.extend(data);
}

/// A simple reply; the data of a read follows.
#[inline]
pub fn simple_reply(cookie: u64, status: Status) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&(status as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The head of the only chunk of a structured reply; `length` bytes follow.
#[inline]
pub fn chunk_header(cookie: u64, kind: u16, length: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Writes the body of an error chunk: the status, and no message.
pub fn error_body(status: Status) -> [u8; 6] {
    let [a, b, c, d] = (status as u32).to_be_bytes();
    [a, b, c, d, 0, 0]
}

/// The server's greeting at the client's end: its handshake flags.
pub fn parse_greeting(bytes: &[u8]) -> Parsed<u16> {
    if bytes.len() < 18 {
        return Parsed::Needs(18);
    }
    match be64(bytes, 0) == MAGIC && be64(bytes, 8) == OPTION_MAGIC {
        true => Parsed::Whole(be16(bytes, 16), 18),
        false => Parsed::Broken("a greeting that is not that of NBD's fixed newstyle handshake"),
    }
}

/// A reply to an option at the client's end: its type, and the length of its data.
pub fn parse_option_reply(bytes: &[u8]) -> Parsed<(u32, u32)> {
    if bytes.len() < 20 {
        return Parsed::Needs(20);
    }
    match (be64(bytes, 0), be32(bytes, 16)) {
        (OPTION_REPLY_MAGIC, length @ 0..=OPTION_BYTES_MAX) => Parsed::Whole((be32(bytes, 12), length), 20),
        _ => Parsed::Broken("a reply to an option that is none"),
    }
}

/// The size of an export and its transmission flags, out of its information at the client's end.
pub fn parse_export_info(data: &[u8]) -> Option<(u64, u16)> {
    let is_export = data.len() == 12 && be16(data, 0) == info::EXPORT;
    is_export.then(|| (be64(data, 2), be16(data, 10)))
}

/// A simple reply at the client's end: cookie and error.
#[inline]
pub fn parse_simple_reply(bytes: &[u8]) -> Parsed<(u64, u32)> {
    if bytes.len() < SIMPLE_REPLY_BYTES {
        return Parsed::Needs(SIMPLE_REPLY_BYTES);
    }
    match be32(bytes, 0) {
        SIMPLE_REPLY_MAGIC => Parsed::Whole((be64(bytes, 8), be32(bytes, 4)), SIMPLE_REPLY_BYTES),
        _ => Parsed::Broken("a reply without its magic number"),
    }
}
