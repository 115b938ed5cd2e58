//! Targets that read the messages of an NBD client, from the greeting to its last request.

use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::nbd::export::{Command, Export};
use phaselink_serve::front::nbd::session::{AcceptedRequest, Session, apply};
use phaselink_serve::front::nbd::wire::{self, REQUEST_BYTES, Request, command, flag, option};

use crate::Target;
use crate::script::Script;

const CAPACITY_BYTES: u64 = 64 << 10;

/// Checks the requests of a client after its handshake: with structured replies, if the first byte is odd. The second
/// byte is the size of the pieces that arrive.
pub(super) const SESSION: Target = Target { name: "nbd-session", run: session, seeds: sessions };

/// Checks a connection from its first byte on.
pub(super) const HANDSHAKE: Target = Target { name: "nbd-handshake", run: handshake, seeds: handshakes };

fn session(input: &[u8]) {
    let mut script = Script::new(input);
    let is_structured = script.byte() % 2 == 1;
    let piece_bytes = 1 + usize::from(script.byte()) * 16;
    let mut peer = Peer::new();
    peer.receive(&greeting(is_structured), usize::MAX);
    assert!(!peer.session.is_closed(), "a fair handshake is accepted");
    peer.receive(script.bytes(usize::MAX), piece_bytes);
}

fn handshake(input: &[u8]) {
    let mut script = Script::new(input);
    let piece_bytes = 1 + usize::from(script.byte()) * 16;
    Peer::new().receive(script.bytes(usize::MAX), piece_bytes);
}

/// Server's side of one connection, and the bytes that it should send.
struct Peer {
    session: Session,
    export: Export,
    store: Store,
    expected: Vec<u8>,
}

impl Peer {
    fn new() -> Peer {
        let geometry = Geometry { capacity_bytes: CAPACITY_BYTES, block_bytes: 512 };
        let store = Store::in_memory(geometry).expect("64 KiB");
        let export = Export { name: String::from("disk"), geometry, structured_replies: true };
        Peer { session: Session::begin(), export, store, expected: vec![0; CAPACITY_BYTES as usize] }
    }

    /// Receives bytes, a piece at a time.
    fn receive(&mut self, bytes: &[u8], piece_bytes: usize) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.session.is_closed() {
            let room = self.session.room().expect("there is memory for a request");
            assert!(!room.is_empty(), "a session that is open takes bytes");
            let (piece, later) = rest.split_at(room.len().min(piece_bytes).min(rest.len()));
            room[..piece.len()].copy_from_slice(piece);
            self.session.input.filled(piece.len());
            rest = later;
            self.work();
        }
    }

    fn work(&mut self) {
        let mut errors = 0;
        while let Some(wanted) = self.session.next(&self.export, &mut errors) {
            let end = wanted.offset + u64::from(wanted.bytes);
            assert!(end <= CAPACITY_BYTES && end % 512 == 0 && wanted.offset % 512 == 0, "{wanted:?}");
            let queued = self.session.output.data().len();
            self.serve(&wanted);
            assert!(self.session.output.data().len() > queued, "each request is answered");
        }
        let output = self.session.output.data().len();
        self.session.output.consume(output);
    }

    fn serve(&mut self, wanted: &AcceptedRequest) {
        let AcceptedRequest { command, cookie, offset, bytes } = *wanted;
        let range = offset as usize..offset as usize + bytes as usize;
        if command == Command::Read {
            assert!(self.session.add_read_reply(cookie, offset, bytes, &self.store));
            return assert!(self.session.output.data().ends_with(&self.expected[range]), "{wanted:?}");
        }
        if let Command::BlockStatus { one } = command {
            assert!(self.session.add_block_status_reply(cookie, offset, bytes, one, &self.store));
            return self.check_extents(offset, bytes);
        }
        let data = self.session.input.data()[..command.payload_bytes(bytes)].to_vec();
        self.session.input.consume(data.len());
        match command {
            Command::Write { .. } => self.expected[range].copy_from_slice(&data),
            Command::Trim { .. } | Command::Zero { .. } => self.expected[range].fill(0),
            Command::Read | Command::Flush | Command::BlockStatus { .. } => {}
        }
        let status = apply(wanted, &data, &self.store);
        self.session.answer(cookie, status);
    }
}

impl Peer {
    /// Checks that a hole holds zeros, that neighbours differ, and that all extents together are the range.
    fn check_extents(&self, offset: u64, bytes: u32) {
        let extents = self.store.extents(offset, bytes.into(), usize::MAX).expect("memory knows its extents");
        let mut at = offset as usize;
        for extent in &extents {
            let held = &self.expected[at..at + extent.bytes as usize];
            assert!(extent.is_data || held.iter().all(|byte| *byte == 0), "{extent:?} at {at}");
            at += extent.bytes as usize;
        }
        assert!(extents.windows(2).all(|pair| pair[0].is_data != pair[1].is_data));
        assert_eq!(at, offset as usize + bytes as usize);
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let head = [&wire::OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes()];
    [&head.concat(), data].concat()
}

/// Data of the option by which a client chooses the metadata context of allocation for the export `disk`.
const ALLOCATION: &[u8] = b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation";

/// Returns all bytes that a client sends before its first request.
fn greeting(is_structured: bool) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    if is_structured {
        bytes.extend(option(option::STRUCTURED_REPLY, b""));
        bytes.extend(option(option::SET_META_CONTEXT, ALLOCATION));
    }
    bytes.extend(option(option::GO, &[0, 0, 0, 4, b'd', b'i', b's', b'k', 0, 1, 0, 3]));
    bytes
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let head: [u8; REQUEST_BYTES] = Request { flags, command, cookie: 7, offset, length }.encode();
    let data = if command == command::WRITE { vec![0xa5; length as usize] } else { Vec::new() };
    [&head[..], &data].concat()
}

fn sessions() -> Vec<Vec<u8>> {
    let all = [
        request(command::WRITE, flag::FUA, 4096, 1024),
        request(command::READ, flag::DF, 4096, 512),
        request(command::TRIM, 0, 4608, 512),
        request(command::WRITE_ZEROES, flag::NO_HOLE, 0, 8192),
        request(command::READ, 0, 0, 16384),
        request(command::FLUSH, 0, 0, 0),
        request(command::BLOCK_STATUS, 0, 0, CAPACITY_BYTES as u32),
        request(command::BLOCK_STATUS, flag::REQ_ONE, 512, 8192),
        request(command::READ, 0, CAPACITY_BYTES, 512),
        request(99, 0xffff, u64::MAX, u32::MAX),
        request(command::DISCONNECT, 0, 0, 0),
    ];
    let mut seeds: Vec<Vec<u8>> = all.iter().map(|request| [&[1, 255][..], request].concat()).collect();
    seeds.push([&[0, 1][..], &all.concat()].concat());
    seeds.push([&[1, 255][..], &all.concat()].concat());
    seeds
}

fn handshakes() -> Vec<Vec<u8>> {
    let write = request(command::WRITE, 0, 0, 512);
    let flags = 3u32.to_be_bytes();
    let lists = [
        option(option::LIST, b""),
        option(option::INFO, &[0; 6]),
        option(option::STRUCTURED_REPLY, b""),
        option(option::LIST_META_CONTEXT, &[0; 8]),
        option(option::SET_META_CONTEXT, ALLOCATION),
        option(77, b"?"),
        option(option::ABORT, b""),
    ];
    vec![
        [&[255][..], &greeting(true), &write].concat(),
        [&[0][..], &greeting(false), &write].concat(),
        [&[9][..], &flags, &option(option::EXPORT_NAME, b"disk"), &write].concat(),
        [&[255][..], &flags, &lists.concat()].concat(),
        [&[255][..], &flags, &option(option::GO, &[b'x'; 9000])].concat(),
    ]
}
