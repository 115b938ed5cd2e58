//! The NBD server's side of a conversation, byte by byte, without sockets.

use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::nbd::export::{Command, Export};
use phaselink_serve::front::nbd::session::{AcceptedRequest, Session, apply};
use phaselink_serve::front::nbd::wire::{self, NbdParseResult, Request, command, flag, option, reply};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };

/// A server and what it has sent.
struct Server {
    session: Session,
    store: Store,
    export: Export,
    errors: u64,
}

impl Server {
    fn new() -> Server {
        let export = Export { name: "disk".into(), geometry: GEOMETRY, structured_replies: true };
        Server { session: Session::begin(), store: Store::in_memory(GEOMETRY).unwrap(), export, errors: 0 }
    }

    /// A server whose client has chosen the export.
    fn open(structured: bool) -> Server {
        let mut server = Server::new();
        server.receive_client_bytes(&3u32.to_be_bytes());
        if structured {
            server.receive_client_bytes(&option_bytes(option::STRUCTURED_REPLY, b""));
        }
        server.receive_client_bytes(&option_bytes(option::GO, &info_data(b"disk")));
        server.heard();
        server
    }

    /// The client sends `bytes`.
    fn receive_client_bytes(&mut self, bytes: &[u8]) {
        self.session.input.push(bytes);
        while let Some(wanted) = self.session.next(&self.export, &mut self.errors) {
            let payload = wanted.command.payload_bytes(wanted.bytes);
            let data = self.session.input.data()[..payload].to_vec();
            self.session.input.consume(payload);
            let AcceptedRequest { cookie, offset, bytes, command } = wanted;
            match command {
                Command::Read => drop(self.session.add_read_reply(cookie, offset, bytes, &self.store)),
                Command::BlockStatus { one } => {
                    self.session.add_block_status_reply(cookie, offset, bytes, one, &self.store);
                }
                _ => {
                    let status = apply(&wanted, &data, &self.store);
                    self.session.answer(cookie, status);
                }
            }
        }
    }

    /// What the server has sent since the last look.
    fn heard(&mut self) -> Vec<u8> {
        let bytes = self.session.output.data().to_vec();
        self.session.output.consume(bytes.len());
        bytes
    }

    /// Types of the option replies that have been sent.
    fn option_reply_types(&mut self) -> Vec<u32> {
        let bytes = self.heard();
        let (mut at, mut kinds) = (0, Vec::new());
        while let NbdParseResult::Whole((kind, length), head) = wire::parse_option_reply(&bytes[at..]) {
            kinds.push(kind);
            at += head + length as usize;
        }
        assert_eq!(at, bytes.len(), "nothing but replies");
        kinds
    }

    /// The error of a simple reply to a request.
    fn simple_reply_error(&mut self, request: Request, data: &[u8]) -> u32 {
        self.receive_client_bytes(&[&request.encode()[..], data].concat());
        let heard = self.heard();
        let NbdParseResult::Whole((cookie, error), _) = wire::parse_simple_reply(&heard) else {
            panic!("no reply: {heard:?}")
        };
        assert_eq!(cookie, request.cookie);
        error
    }
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(wire::OPTION_MAGIC.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn info_data(name: &[u8]) -> Vec<u8> {
    let mut data = Vec::from((name.len() as u32).to_be_bytes());
    data.extend(name);
    data.extend([0, 0]);
    data
}

fn request(command: u16, offset: u64, length: u32) -> Request {
    Request { flags: 0, command, cookie: 0x1234_5678_9abc_def0, offset, length }
}

#[test]
fn nbd_greeting_offers_fixed_newstyle_without_padding() {
    let mut server = Server::new();
    assert_eq!(server.heard(), b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn nbd_options_are_answered_and_unknown_ones_unsupported() {
    let mut server = Server::new();
    server.heard();
    server.receive_client_bytes(&3u32.to_be_bytes());
    let asked = |server: &mut Server, option, data: &[u8]| {
        server.receive_client_bytes(&option_bytes(option, data));
        server.option_reply_types()
    };
    assert_eq!(asked(&mut server, option::LIST, b""), [reply::SERVER, reply::ACK]);
    assert_eq!(asked(&mut server, option::LIST, b"x"), [reply::INVALID]);
    assert_eq!(asked(&mut server, option::STRUCTURED_REPLY, b""), [reply::ACK]);
    assert_eq!(asked(&mut server, 5, b""), [reply::UNSUPPORTED]);
    assert_eq!(asked(&mut server, 999, &[7; 8192]), [reply::UNSUPPORTED]);
    assert_eq!(asked(&mut server, 999, &[7; 8193]), [reply::TOO_BIG]);
    assert_eq!(asked(&mut server, option::INFO, &info_data(b"other")), [reply::UNKNOWN]);
    assert_eq!(asked(&mut server, option::INFO, &info_data(b"disk")), [reply::INFO, reply::INFO, reply::ACK]);
    assert_eq!(asked(&mut server, option::INFO, b"\x00\x00\x00\x09disk\x00\x00"), [reply::INVALID]);
    assert_eq!(asked(&mut server, option::GO, &info_data(b"")), [reply::INFO, reply::INFO, reply::ACK]);
    assert!(!server.session.is_closed());
}

#[test]
fn refused_structured_replies_leave_simple_replies() {
    let mut server = Server::new();
    server.export.structured_replies = false;
    server.heard();
    server.receive_client_bytes(&[&3u32.to_be_bytes()[..], &option_bytes(option::STRUCTURED_REPLY, b"")].concat());
    assert_eq!(server.option_reply_types(), [reply::UNSUPPORTED]);
    server.receive_client_bytes(&option_bytes(option::GO, &info_data(b"disk")));
    server.heard();
    let read = request(command::READ, 0, 512);
    server.receive_client_bytes(&read.encode());
    let heard = server.heard();
    assert_eq!(
        (heard.len(), wire::parse_simple_reply(&heard)),
        (16 + 512, NbdParseResult::Whole((read.cookie, 0), 16))
    );
}

#[test]
fn client_beyond_the_limit_is_refused_at_export_selection() {
    for option in [option::INFO, option::GO] {
        let mut server = Server::new();
        server.session = Session::session_that_refuses_client("too many");
        server.receive_client_bytes(&3u32.to_be_bytes());
        server.receive_client_bytes(&option_bytes(option::STRUCTURED_REPLY, b""));
        server.receive_client_bytes(&option_bytes(option, &info_data(b"disk")));
        let heard = server.heard();
        assert!(heard.ends_with(b"too many") && server.session.is_closed(), "{heard:?}");
    }
}

#[test]
fn export_name_option_gets_size_and_flags() {
    let mut server = Server::new();
    server.heard();
    server.receive_client_bytes(&[&1u32.to_be_bytes()[..], &option_bytes(option::EXPORT_NAME, b"disk")].concat());
    let heard = server.heard();
    assert_eq!((heard.len(), &heard[..8]), (8 + 2 + 124, &(1u64 << 20).to_be_bytes()[..]));
    let mut server = Server::new();
    server.receive_client_bytes(&[&3u32.to_be_bytes()[..], &option_bytes(option::EXPORT_NAME, b"other")].concat());
    assert!(server.session.is_closed());
}

/// "Transmission flags" of the protocol's document: flags, flush, FUA, trim, zeroes, fragments, several connections.
#[test]
fn nbd_export_announces_its_commands_and_unfragmented_reads() {
    for (structured, expected) in [(false, 0b1_0110_1101), (true, 0b1_1110_1101)] {
        let mut server = Server::new();
        server.receive_client_bytes(&3u32.to_be_bytes());
        if structured {
            server.receive_client_bytes(&option_bytes(option::STRUCTURED_REPLY, b""));
        }
        server.heard();
        server.receive_client_bytes(&option_bytes(option::EXPORT_NAME, b"disk"));
        let answer = server.heard();
        assert_eq!(u16::from_be_bytes([answer[8], answer[9]]), expected, "structured: {structured}");
    }
}

#[test]
fn nbd_zeroes_keep_space_only_without_holes() {
    let export = Server::new().export;
    for (flags, keep_space) in
        [(0, false), (flag::FUA, false), (flag::NO_HOLE, true), (flag::FUA | flag::NO_HOLE, true)]
    {
        let wanted = Request { flags, ..request(command::WRITE_ZEROES, 0, 4096) };
        let durable = flags & flag::FUA != 0;
        assert_eq!(export.accept(&wanted), Ok(Command::Zero { keep_space, durable }), "{flags:b}");
    }
}

#[test]
fn nbd_abort_is_acknowledged_and_disconnects() {
    let mut server = Server::new();
    server.heard();
    server.receive_client_bytes(&[&3u32.to_be_bytes()[..], &option_bytes(option::ABORT, b"")].concat());
    assert_eq!(server.option_reply_types(), [reply::ACK]);
    assert!(server.session.is_closed());
}

#[test]
fn written_data_reads_back_in_simple_and_structured_replies() {
    for structured in [false, true] {
        let mut server = Server::open(structured);
        assert_eq!(server.simple_reply_error(request(command::WRITE, 4096, 512), &[7; 512]), 0);
        server.receive_client_bytes(&request(command::READ, 4096, 1024).encode());
        let heard = server.heard();
        let head = if structured { 28 } else { 16 };
        assert_eq!(heard[head..head + 512], [7; 512]);
        assert_eq!(heard[head + 512..], [0; 512]);
        if structured {
            assert_eq!(heard[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1], "one chunk of data, the last");
            assert_eq!(heard[16..28], [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 16, 0], "its length and place");
        }
    }
}

/// The data of an option about metadata contexts of the export `disk`.
fn metadata_context_option(queries: &[&str]) -> Vec<u8> {
    let mut data = b"\0\0\0\x04disk".to_vec();
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

impl Server {
    /// A server with this store, whose client may ask for block status.
    fn with_block_status(store: Store) -> Server {
        let mut server = Server { store, ..Server::new() };
        server.receive_client_bytes(&3u32.to_be_bytes());
        server.receive_client_bytes(&option_bytes(option::STRUCTURED_REPLY, b""));
        server.receive_client_bytes(&option_bytes(
            option::SET_META_CONTEXT,
            &metadata_context_option(&["base:allocation"]),
        ));
        server.receive_client_bytes(&option_bytes(option::GO, &info_data(b"disk")));
        server.heard();
        server
    }

    /// Length and state of each extent in the reply to a question about blocks.
    fn block_status_extents(&mut self, flags: u16, offset: u64, length: u32) -> Vec<[u32; 2]> {
        self.receive_client_bytes(&Request { flags, ..request(command::BLOCK_STATUS, offset, length) }.encode());
        let heard = self.heard();
        assert_eq!(heard[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5], "one chunk of block status, the last");
        let word = |at: usize| u32::from_be_bytes(heard[at..at + 4].try_into().unwrap());
        assert_eq!((word(16) as usize, word(20)), (heard.len() - 20, 1), "length and context");
        (24..heard.len()).step_by(8).map(|at| [word(at), word(at + 4)]).collect()
    }
}

#[test]
fn block_status_distinguishes_written_unwritten_and_trimmed() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("block-status");
    let _ = std::fs::remove_file(&path);
    for store in [Store::in_memory(GEOMETRY).unwrap(), Store::open(&path, GEOMETRY).unwrap()] {
        let mut server = Server::with_block_status(store);
        let whole = 1 << 20;
        assert_eq!(server.block_status_extents(0, 0, whole), [[whole, 3]]);
        assert_eq!(server.simple_reply_error(request(command::WRITE, 8192, 16384), &[7; 16384]), 0);
        assert_eq!(server.block_status_extents(0, 0, whole), [[8192, 3], [16384, 0], [whole - 24576, 3]]);
        assert_eq!(server.block_status_extents(0, 8704, 1024), [[1024, 0]], "no extent is longer than the request");
        assert_eq!(server.block_status_extents(flag::REQ_ONE, 512, whole - 512), [[7680, 3]]);
        // This trim begins and ends within pages, whose other data must stay.
        assert_eq!(server.simple_reply_error(request(command::TRIM, 8704, 11776), b""), 0);
        assert_eq!(server.block_status_extents(0, 8192, 16384), [[4096, 0], [8192, 3], [4096, 0]]);
        assert_eq!(server.simple_reply_error(request(command::TRIM, 0, whole), b""), 0);
        assert_eq!(server.block_status_extents(0, 0, whole), [[whole, 3]]);
        assert_eq!(server.errors, 0);
    }
}

#[test]
fn block_status_needs_its_negotiated_context() {
    let mut server = Server::new();
    server.heard();
    server.receive_client_bytes(&3u32.to_be_bytes());
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    let asked = |server: &mut Server, option, data: &[u8]| {
        server.receive_client_bytes(&option_bytes(option, data));
        server.option_reply_types()
    };
    let allocation = metadata_context_option(&["base:allocation"]);
    assert_eq!(asked(&mut server, set, &allocation), [reply::INVALID], "structured replies come first");
    assert_eq!(asked(&mut server, option::STRUCTURED_REPLY, b""), [reply::ACK]);
    for queries in [&[][..], &["base:"], &["base:allocation"], &["x:y", "base:"]] {
        assert_eq!(
            asked(&mut server, list, &metadata_context_option(queries)),
            [reply::META_CONTEXT, reply::ACK],
            "{queries:?}"
        );
    }
    for queries in [&[][..], &["base:"], &["x:y"]] {
        assert_eq!(asked(&mut server, set, &metadata_context_option(queries)), [reply::ACK], "{queries:?}");
    }
    assert_eq!(asked(&mut server, set, b"\0\0\0\x05other\0\0\0\0"), [reply::UNKNOWN]);
    for broken in [&allocation[..allocation.len() - 1], &[&allocation[..], b"x"].concat(), b"", &[0xff; 12]] {
        assert_eq!(asked(&mut server, set, broken), [reply::INVALID]);
    }
    assert_eq!(asked(&mut server, set, &allocation), [reply::META_CONTEXT, reply::ACK]);
    // The context was selected for the named export, so it does not apply to the default export.
    asked(&mut server, option::GO, &info_data(b""));
    let question = request(command::BLOCK_STATUS, 0, 512);
    server.receive_client_bytes(&question.encode());
    assert_eq!(server.heard()[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1], "an error");
    let mut server = Server::with_block_status(Store::in_memory(GEOMETRY).unwrap());
    for (offset, length) in [(0, 0), (1 << 20, 512), (100, 512)] {
        server.receive_client_bytes(&request(command::BLOCK_STATUS, offset, length).encode());
        assert_eq!(server.heard()[20..24], [0, 0, 0, 22], "NBD_EINVAL");
    }
}

#[test]
fn wrong_nbd_request_gets_an_error_and_the_connection_continues() {
    let mut server = Server::open(false);
    let (invalid, no_space) = (22, 28);
    let last = (1 << 20) - 512;
    assert_eq!(server.simple_reply_error(request(command::READ, last + 512, 512), b""), invalid);
    assert_eq!(server.simple_reply_error(request(command::READ, u64::MAX - 511, 512), b""), invalid);
    assert_eq!(server.simple_reply_error(request(command::READ, 0, 0), b""), invalid);
    assert_eq!(server.simple_reply_error(request(command::READ, 100, 512), b""), invalid);
    assert_eq!(server.simple_reply_error(request(command::WRITE, last, 1024), &[0; 1024]), no_space);
    assert_eq!(server.simple_reply_error(request(command::WRITE_ZEROES, last, 1024), b""), no_space);
    assert_eq!(server.simple_reply_error(request(command::FLUSH, 512, 0), b""), invalid);
    assert_eq!(server.simple_reply_error(request(77, 0, 512), b""), invalid);
    let odd = Request { flags: 1 << 9, ..request(command::READ, 0, 512) };
    assert_eq!(server.simple_reply_error(odd, b""), invalid);
    assert_eq!(server.errors, 9);
    assert_eq!(server.simple_reply_error(request(command::WRITE, last, 512), &[9; 512]), 0);
}

#[test]
fn flush_trim_and_zeroes_work_with_and_without_fua() {
    let mut server = Server::open(false);
    assert_eq!(server.simple_reply_error(request(command::WRITE, 0, 8192), &[5; 8192]), 0);
    assert_eq!(server.simple_reply_error(request(command::FLUSH, 0, 0), b""), 0);
    let durable = Request { flags: flag::FUA, ..request(command::TRIM, 0, 4096) };
    assert_eq!(server.simple_reply_error(durable, b""), 0);
    let kept = Request { flags: flag::FUA | flag::NO_HOLE, ..request(command::WRITE_ZEROES, 4096, 512) };
    assert_eq!(server.simple_reply_error(kept, b""), 0);
    let mut found = vec![1; 8192];
    server.store.read(0, &mut found).unwrap();
    assert_eq!((&found[..4608], &found[4608..]), (&[0; 4608][..], &[5; 3584][..]));
}

#[test]
fn overlong_nbd_write_disconnects_before_its_data() {
    let mut server = Server::open(false);
    server.receive_client_bytes(&request(command::WRITE, 0, (32 << 20) + 512).encode());
    assert!(server.session.is_closed());
    assert!(server.heard().is_empty());
}

#[test]
fn nbd_request_without_magic_disconnects() {
    let mut server = Server::open(false);
    server.receive_client_bytes(&[0; 28]);
    assert!(server.session.is_closed());
}

/// Bytes that are nearly right lead further than random ones.
fn nearly_valid_message() -> impl Strategy<Value = Vec<u8>> {
    let asked = (0u16..9, any::<u16>(), 0u64..2 << 20, 0u32..3000);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        (0u32..14, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(option, data)| option_bytes(option, &data)),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|name| option_bytes(option::GO, &info_data(&name))),
        Just(option_bytes(option::GO, &info_data(b"disk"))),
        asked.prop_map(|(command, flags, offset, length)| {
            Request { flags: flags & 3, command, cookie: 1, offset: offset & !511, length: length & !511 }
                .encode()
                .into()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_nbd_bytes_crash_the_server_however_they_are_split(
        messages in prop::collection::vec(nearly_valid_message(), 0..12),
        cut in 1usize..50,
        open in any::<bool>(),
    ) {
        let start = || if open { Server::open(true) } else { Server::new() };
        let (mut whole, mut pieces) = (start(), start());
        let bytes = [&3u32.to_be_bytes()[..], &messages.concat()].concat();
        let bytes = if open { &bytes[4..] } else { &bytes[..] };
        whole.receive_client_bytes(bytes);
        bytes.chunks(cut).for_each(|piece| pieces.receive_client_bytes(piece));
        prop_assert_eq!(whole.heard(), pieces.heard());
        prop_assert_eq!(whole.session.is_closed(), pieces.session.is_closed());
    }
}
