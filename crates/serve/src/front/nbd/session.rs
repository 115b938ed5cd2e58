//! Protocol of one NBD connection, from the greeting to the last reply, without its socket: turns received bytes into
//! requests, and results into bytes of replies.

use std::io;

use phaselink_core::number::{index, short_length};
use phaselink_core::request::{Io, Op};

use super::export::{self, Command, Export};
use super::handshake::{Handshake, Progress};
use super::wire::{self, NbdParseResult, Request, Status, allocation};
use crate::device::faults::FaultEffect;
use crate::device::store::Store;
use crate::front::buffer::Buffer;

/// Initial size of the input and output buffers of a connection, in bytes: room for a batch of small requests, or a
/// part of a large write.
const INPUT_BYTES: usize = 256 << 10;

/// Maximum number of extents in a block status reply. Clients ask again for the rest of the range.
const EXTENTS_MAX: usize = 8192;

/// Protocol state of an NBD connection, with the bytes received and the bytes to send.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    /// Bytes that have been received from the client and not processed yet. The owner of the socket adds them.
    pub input: Buffer,
    /// Bytes of replies, which the owner of the socket has yet to send.
    pub output: Buffer,
    /// Number of bytes that the input must hold before the next message can be processed.
    needs: usize,
}

/// Phase of an NBD connection: handshake, transmission with the negotiated options, or closed.
#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission { structured: bool, has_allocation: bool },
    Closed,
}

/// Accepted request of an NBD client. The data of a write is still the first bytes of the session's input, from which
/// the caller must take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedRequest {
    /// Command of the NBD request, with its flags.
    pub command: Command,
    /// Cookie of the request, which the reply repeats.
    pub cookie: u64,
    /// Offset of the range's first byte within the export, in bytes.
    pub offset: u64,
    /// Length of the request's range, in bytes.
    pub bytes: u32,
}

impl AcceptedRequest {
    /// Returns operation, offset and length of the request, extended to whole blocks of the drive, as an export may
    /// accept parts of blocks. Returns none for a block status request, which moves and changes nothing.
    pub fn io(&self, block_bytes: u32) -> Option<Io> {
        let op = match self.command {
            Command::Read => Op::Read,
            Command::Write { .. } => Op::Write,
            Command::Flush => Op::Flush,
            Command::Trim { .. } => Op::Discard,
            Command::Zero { .. } => Op::WriteZeroes,
            Command::BlockStatus { .. } => return None,
        };
        let block = u64::from(block_bytes);
        let offset = self.offset / block * block;
        let bytes = (self.offset + u64::from(self.bytes)).next_multiple_of(block) - offset;
        Some(Io { op, offset, bytes: u32::try_from(bytes).unwrap_or(u32::MAX / block_bytes * block_bytes) })
    }

    /// Returns the part of a request that the effect of a fault lets reach the store, with its data; none if that part
    /// is empty.
    pub fn part_of_torn_write<'a>(
        &self,
        effect: FaultEffect,
        data: &'a [u8],
        block_bytes: u32,
    ) -> Option<(AcceptedRequest, &'a [u8])> {
        let bytes = effect.kept_bytes(self.bytes, block_bytes);
        let data = &data[..data.len().min(index(bytes))];
        (bytes > 0).then_some((AcceptedRequest { bytes, ..*self }, data))
    }
}

impl Session {
    /// Makes the session of a client that has just connected, with the server's greeting in the output.
    pub fn begin() -> Session {
        let mut greeting = Vec::new();
        let phase = Phase::Handshake(Handshake::begin(&mut greeting));
        let mut output = Buffer::with_room(INPUT_BYTES);
        output.push(&greeting);
        Session { phase, input: Buffer::with_room(INPUT_BYTES), output, needs: 1 }
    }

    /// Makes the session of a client that is refused: the handshake tells the client the reason.
    pub fn session_that_refuses_client(reason: &'static str) -> Session {
        let mut session = Session::begin();
        if let Phase::Handshake(handshake) = &mut session.phase {
            handshake.refuse(reason);
        }
        session
    }

    /// Returns true if the handshake is not over: the client has not chosen its export yet.
    pub fn is_in_nbd_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Returns true if the connection is to be closed once the output has been sent.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Closes the NBD session, so that no more requests are accepted.
    pub fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    /// Returns room in the input for bytes from the socket, at least as many as the next message still needs.
    ///
    /// # Errors
    /// If there is no memory for that.
    pub fn room(&mut self) -> io::Result<&mut [u8]> {
        let missing = self.bytes_missing_for_next_message();
        self.input.room(missing)
    }

    /// Returns the number of bytes that must still arrive before the next message can be processed; at least one.
    pub fn bytes_missing_for_next_message(&self) -> usize {
        self.needs.saturating_sub(self.input.data().len()).max(1)
    }

    /// Returns the next complete and acceptable request. Requests that are not acceptable are answered with an error,
    /// and counted in `errors`.
    #[inline]
    pub fn next(&mut self, export: &Export, errors: &mut u64) -> Option<AcceptedRequest> {
        loop {
            match &mut self.phase {
                Phase::Closed => return None,
                Phase::Handshake(_) => self.advance_nbd_handshake(export)?,
                &mut Phase::Transmission { has_allocation, .. } => {
                    let request = self.take_complete_request()?;
                    let is_known =
                        |command: &Command| has_allocation || !matches!(command, Command::BlockStatus { .. });
                    let accepted = export.accept(&request);
                    match accepted.and_then(|command| Some(command).filter(is_known).ok_or(Status::Invalid)) {
                        Ok(command) => {
                            let Request { cookie, offset, length, .. } = request;
                            return Some(AcceptedRequest { command, cookie, offset, bytes: length });
                        }
                        Err(status) => {
                            *errors += 1;
                            self.input.consume(export::payload_bytes(&request));
                            self.answer(request.cookie, status);
                        }
                    }
                }
            }
        }
    }

    /// Advances the handshake with the bytes received; returns none if it needs more of them.
    fn advance_nbd_handshake(&mut self, export: &Export) -> Option<()> {
        let Phase::Handshake(handshake) = &mut self.phase else { return Some(()) };
        let mut output = Vec::new();
        let (used, progress) = handshake.advance(self.input.data(), export, &mut output);
        self.input.consume(used);
        self.output.push(&output);
        // Options are short, so wait for one more byte and parse again.
        self.needs = self.input.data().len() + 1;
        match progress {
            Progress::More => return None,
            Progress::Transmission { structured, has_allocation } => {
                self.phase = Phase::Transmission { structured, has_allocation };
            }
            Progress::Closed(_) => self.phase = Phase::Closed,
        }
        Some(())
    }

    /// Takes the head of the next request from the input, once the request's data has arrived too. Closes the session
    /// after a disconnect request, an invalid head or an excessive length.
    #[inline]
    fn take_complete_request(&mut self) -> Option<Request> {
        let data = self.input.data();
        let (request, head_bytes) = match wire::parse_request_head(data) {
            NbdParseResult::Whole(request, bytes) => (request, bytes),
            NbdParseResult::Needs(bytes) => {
                self.needs = bytes;
                return None;
            }
            NbdParseResult::Broken(_) => {
                self.close();
                return None;
            }
        };
        let payload = export::payload_bytes(&request);
        let ends = request.command == wire::command::DISCONNECT;
        if ends || payload > index(wire::PAYLOAD_BYTES_MAX) {
            self.close();
            return None;
        }
        if data.len() < head_bytes + payload {
            self.needs = head_bytes + payload;
            return None;
        }
        self.input.consume(head_bytes);
        Some(request)
    }

    /// Adds the reply to a request, with a status and no data, to the output.
    pub fn answer(&mut self, cookie: u64, status: Status) {
        if matches!(self.phase, Phase::Transmission { structured: true, .. }) && status != Status::Ok {
            self.output.push(&wire::encode_chunk_header(cookie, wire::chunk::ERROR, 6));
            return self.output.push(&wire::encode_error_chunk_body(status));
        }
        // The protocol allows simple replies to commands that return no data.
        self.output.push(&wire::encode_simple_reply(cookie, status));
    }

    /// Adds the reply to a read, with bytes of `store`, to the output. Returns false if the reply reports an error
    /// instead, for lack of memory or because the store fails.
    #[inline]
    pub fn add_read_reply(&mut self, cookie: u64, offset: u64, bytes: u32, store: &Store) -> bool {
        let structured = matches!(self.phase, Phase::Transmission { structured: true, .. });
        let head_bytes = if structured { wire::CHUNK_HEADER_BYTES + 8 } else { wire::SIMPLE_REPLY_BYTES };
        let Ok(room) = self.output.room(head_bytes + index(bytes)) else {
            self.answer(cookie, Status::NoMemory);
            return false;
        };
        let (head, rest) = room.split_at_mut(head_bytes);
        if store.read(offset, &mut rest[..index(bytes)]).is_err() {
            self.answer(cookie, Status::Io);
            return false;
        }
        if structured {
            let (chunk, place) = head.split_at_mut(wire::CHUNK_HEADER_BYTES);
            chunk.copy_from_slice(&wire::encode_chunk_header(cookie, wire::chunk::OFFSET_DATA, bytes + 8));
            place.copy_from_slice(&offset.to_be_bytes());
        } else {
            head.copy_from_slice(&wire::encode_simple_reply(cookie, Status::Ok));
        }
        self.output.filled(head_bytes + index(bytes));
        true
    }
}

impl Session {
    /// Adds the reply to a block status request to the output: extents of `store` from `offset` on, or the first alone.
    /// Returns false if the store cannot tell them, which the reply reports.
    pub fn add_block_status_reply(&mut self, cookie: u64, offset: u64, bytes: u32, one: bool, store: &Store) -> bool {
        let most = if one { 1 } else { EXTENTS_MAX };
        let Ok(extents) = store.extents(offset, bytes.into(), most) else {
            self.answer(cookie, Status::Io);
            return false;
        };
        let body_bytes = 4 + 8 * short_length(extents.len());
        self.output.push(&wire::encode_chunk_header(cookie, wire::chunk::BLOCK_STATUS, body_bytes));
        self.output.push(&allocation::ID.to_be_bytes());
        for extent in extents {
            let state = if extent.is_data { 0 } else { allocation::HOLE | allocation::ZERO };
            // An extent is never longer than its request, so its length fits.
            self.output.push(&(extent.bytes as u32).to_be_bytes());
            self.output.push(&state.to_be_bytes());
        }
        true
    }
}

/// Executes a request other than a read on the store, and returns its status. `data` holds the bytes of a write.
/// Flushes and durable requests are on the disk when this returns.
pub fn apply(wanted: &AcceptedRequest, data: &[u8], store: &Store) -> Status {
    let done = change(wanted, data, store).and_then(|()| match wanted.command {
        Command::Flush => store.flush(),
        command if command.is_durable() => store.flush_range(wanted.offset, wanted.bytes.into()),
        _ => Ok(()),
    });
    status(done)
}

/// Executes a request other than a read on the store, and flushes nothing: the change may not be durable when this
/// returns.
pub fn change(wanted: &AcceptedRequest, data: &[u8], store: &Store) -> io::Result<()> {
    let AcceptedRequest { command, offset, bytes, .. } = *wanted;
    match command {
        Command::Read | Command::Flush | Command::BlockStatus { .. } => Ok(()),
        Command::Write { .. } => store.write(offset, data),
        // A trim may be ignored, but this server frees the space and returns zeros afterwards.
        Command::Trim { .. } => store.zero(offset, bytes.into(), false),
        Command::Zero { keep_space, .. } => store.zero(offset, bytes.into(), keep_space),
    }
}

/// Returns the status of the reply for the result of an operation on the store.
pub fn status(done: io::Result<()>) -> Status {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match done {
        Ok(()) => Status::Ok,
        Err(error) if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) => Status::NoSpace,
        Err(_) => Status::Io,
    }
}
