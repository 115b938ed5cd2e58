//! NBD connection of a client: executes the client's requests, and writes the replies.
//!
//! With timing on, a request enters the modelled host's software when all its bytes have been received. A durable
//! request (force unit access) is followed by a flush in the model.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use phaselink_core::number::length;
use phaselink_core::request::Io;
use phaselink_core::time::Span;
use rustix::event::{PollFd, PollFlags};

use super::export::{Command, Export};
use super::session::{AcceptedRequest, Session, change, status};
use super::socket::Stream;
use super::wire::{PAYLOAD_BYTES_MAX, Status};
use crate::device::Device;
use crate::device::counter::Counter;
use crate::device::faults::FaultEffect;
use crate::device::history::Ticket;
use crate::device::record::Record;
use crate::device::store::Store;
use crate::front::lifecycle::{Completion, Endpoint, Fetch, Request, RequestClass};
use crate::front::model::Submission;

/// Time within which a client must choose its export, as each connection takes the place of another.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// Maximum number of requests of one client in flight. Further requests wait in the client's socket.
const IN_FLIGHT_MAX: usize = 1024;

/// Accepted request of an NBD connection.
#[derive(Debug)]
pub(super) struct ConnectionRequest {
    /// Number of the NBD connection that the request came from.
    pub connection: u64,
    /// Turn of the connection, which selects the modelled thread that submits its requests.
    turn: usize,
    wanted: AcceptedRequest,
    /// Operation, offset and length in whole blocks of the drive; none for a block status request, which moves and
    /// changes nothing.
    io: Option<Io>,
    /// Payload of a write, copied here by `detach` if the write is not executed at once. While `None`, the payload is
    /// still the first bytes of the connection's input buffer.
    data: Option<Vec<u8>>,
}

impl ConnectionRequest {
    /// Returns the number of data bytes of a request: a write's payload or a read's reply data; 0 for other commands.
    fn payload_bytes(&self) -> u64 {
        match self.wanted.command {
            Command::Read | Command::Write { .. } => self.wanted.bytes.into(),
            Command::Flush | Command::Trim { .. } | Command::Zero { .. } | Command::BlockStatus { .. } => 0,
        }
    }
}

impl Request for ConnectionRequest {
    type Status = Status;

    #[inline]
    fn io(&self) -> Option<Io> {
        self.io
    }

    fn class(&self) -> Option<RequestClass> {
        Some(self.io?.into())
    }

    fn thread(&self) -> u64 {
        self.connection
    }

    fn note(&self, record: &Record) {
        let Some(io) = self.io else { return };
        record.note(io);
        if self.wanted.command.is_durable() {
            record.note(Io::flush());
        }
    }

    fn submission(&self, part: usize) -> Option<Submission> {
        let io = match part {
            0 => self.io?,
            1 if self.wanted.command.is_durable() => Io::flush(),
            _ => return None,
        };
        Some(Submission::Software { turn: self.turn, io })
    }

    fn durable_range(&self) -> Option<(u64, u64)> {
        self.wanted.command.is_durable().then_some((self.wanted.offset, self.wanted.bytes.into()))
    }
}

/// Guard of one open connection, which the server's number of open connections includes until the guard is dropped.
#[derive(Debug)]
pub(super) struct OpenConnectionGuard<'a>(&'a AtomicUsize);

impl<'a> OpenConnectionGuard<'a> {
    /// Adds one to the number of open connections `open`, until the guard is dropped.
    pub(super) fn new(open: &'a AtomicUsize) -> OpenConnectionGuard<'a> {
        open.fetch_add(1, Ordering::Relaxed);
        OpenConnectionGuard(open)
    }
}

impl Drop for OpenConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connection of a client to an export: socket, protocol state and requests in flight.
#[derive(Debug)]
pub(super) struct NbdConnection<'a> {
    /// Number of the connection among all that the server has accepted, counted from 0.
    pub number: u64,
    pub stream: Stream,
    pub session: Session,
    pub export: &'a Export,
    /// Instant at which the client has connected.
    pub since: Instant,
    pub turn: usize,
    /// Block size of the drive in bytes. The export may accept smaller requests.
    block_bytes: u32,
    in_flight: usize,
    bytes_in_flight: u64,
    /// Tickets of the device's history for requests whose replies have not been sent yet.
    unsent: Vec<Ticket>,
    _open: OpenConnectionGuard<'a>,
}

impl<'a> NbdConnection<'a> {
    /// Makes the connection of a client that has just connected.
    pub(super) fn new(
        number: u64,
        (stream, session): (Stream, Session),
        export: &'a Export,
        block_bytes: u32,
        open: OpenConnectionGuard<'a>,
    ) -> NbdConnection<'a> {
        NbdConnection {
            number,
            stream,
            session,
            export,
            since: Instant::now(),
            turn: 0,
            block_bytes,
            in_flight: 0,
            bytes_in_flight: 0,
            unsent: Vec::new(),
            _open: open,
        }
    }

    /// Returns true if the client has taken too long to choose its export.
    pub(super) fn is_silent(&self) -> bool {
        self.session.is_in_nbd_handshake() && self.since.elapsed() > HANDSHAKE_MAX
    }

    /// Returns true if the client may have another request in flight: the limits on its requests and their bytes leave
    /// room.
    #[inline]
    pub(super) fn has_room_for_request(&self) -> bool {
        let bytes = self.bytes_in_flight + length(self.session.output.data().len());
        self.in_flight < IN_FLIGHT_MAX && bytes < u64::from(PAYLOAD_BYTES_MAX)
    }

    /// Returns true if none of the client's requests is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Returns the next completely received request, if the client may have another one in flight. Invalid requests are
    /// answered with an error, and counted.
    #[inline]
    pub(super) fn next_request(&mut self, counter: &mut Counter<'_>) -> Option<ConnectionRequest> {
        if !self.has_room_for_request() {
            return None;
        }
        let mut errors = 0;
        let wanted = self.session.next(self.export, &mut errors);
        if errors > 0 {
            counter.counts().errors += errors;
        }
        let wanted = wanted?;
        let io = wanted.io(self.block_bytes);
        let request = ConnectionRequest { connection: self.number, turn: self.turn, wanted, io, data: None };
        self.in_flight += 1;
        self.bytes_in_flight += request.payload_bytes();
        Some(request)
    }

    /// Reads the bytes that the client has sent, if there is room for another request. Returns false if the connection
    /// is broken or has ended.
    pub(super) fn receive(&mut self) -> bool {
        if !self.has_room_for_request() || self.session.is_closed() {
            return true;
        }
        match self.session.room().and_then(|room| self.stream.read(room)) {
            Ok(Some(0)) | Err(_) => false,
            Ok(None) => true,
            Ok(Some(bytes)) => {
                self.session.input.filled(bytes);
                true
            }
        }
    }

    /// Sends prepared replies without blocking; returns false if the socket has no room for all of them.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send(&mut self, device: &Device) -> io::Result<bool> {
        if let Some(history) = &device.history {
            history.record_completions(self.unsent.drain(..));
        }
        self.stream.send(&mut self.session.output)
    }

    /// Returns the poll entry of the client's socket: for input while there is room for another request, for output
    /// while replies wait to be sent.
    pub(super) fn polled(&self) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.has_room_for_request() && !self.session.is_closed());
        flags.set(PollFlags::OUT, !self.session.output.is_empty());
        PollFd::from_borrowed_fd(self.stream.as_fd(), flags)
    }

    /// Removes a request from the counts of requests and bytes in flight.
    fn forget(&mut self, request: &ConnectionRequest) {
        self.in_flight -= 1;
        self.bytes_in_flight -= request.payload_bytes();
    }

    fn reply(&mut self, request: &ConnectionRequest, status: Status, store: &Store) -> bool {
        let AcceptedRequest { command, cookie, offset, bytes } = request.wanted;
        if command == Command::Read && status == Status::Ok {
            return self.session.add_read_reply(cookie, offset, bytes, store);
        }
        if let (Command::BlockStatus { one }, Status::Ok) = (command, status) {
            return self.session.add_block_status_reply(cookie, offset, bytes, one, store);
        }
        self.session.answer(cookie, status);
        status == Status::Ok
    }

    /// Executes a request other than a read on the store, and records it in the device's history, if there is one.
    /// Returns the status for the reply.
    fn change(&mut self, wanted: &AcceptedRequest, data: &[u8], device: &Device) -> Status {
        let store = &device.store;
        let Some((history, kind)) = device.history.as_ref().zip(wanted.command.recorded_change_kind()) else {
            return status(change(wanted, data, store));
        };
        let range = (wanted.offset, wanted.bytes);
        let (changed, ticket) =
            history.note((kind, wanted.command.is_durable()), range, store, || change(wanted, data, store));
        self.unsent.push(ticket);
        status(changed)
    }

    fn execute_on_store(
        &mut self,
        wanted: &AcceptedRequest,
        data: &[u8],
        effect: FaultEffect,
        device: &Device,
    ) -> Status {
        if effect == FaultEffect::default() {
            return self.change(wanted, data, device);
        }
        let torn = wanted.part_of_torn_write(effect, data, self.export.geometry.block_bytes);
        let changed = torn.map_or(Status::Ok, |(wanted, data)| self.change(&wanted, data, device));
        if effect.fails { Status::Io } else { changed }
    }
}

impl Endpoint<ConnectionRequest> for NbdConnection<'_> {
    fn fetch(&mut self, _: u32, _: &Store) -> Fetch<ConnectionRequest> {
        Fetch::Nothing
    }

    fn detach(&mut self, request: &mut ConnectionRequest) {
        if request.data.is_none() {
            let payload = request.wanted.command.payload_bytes(request.wanted.bytes);
            request.data = Some(self.session.input.data()[..payload].to_vec());
            self.session.input.consume(payload);
        }
    }

    /// Executes the request on the store, except for a read, whose bytes are copied when its reply is written.
    #[inline]
    fn transfer(
        &mut self,
        request: &ConnectionRequest,
        effect: FaultEffect,
        device: &Device,
        _: &mut Vec<u8>,
    ) -> Option<Status> {
        let ConnectionRequest { wanted, data, .. } = request;
        Some(match (wanted.command, data) {
            (Command::Read, _) if effect.fails => Status::Io,
            (Command::Read, _) => Status::Ok,
            (_, Some(data)) => self.execute_on_store(wanted, data, effect, device),
            (command, None) => {
                let payload = command.payload_bytes(wanted.bytes);
                let input = std::mem::take(&mut self.session.input);
                let status = self.execute_on_store(wanted, &input.data()[..payload], effect, device);
                self.session.input = input;
                self.session.input.consume(payload);
                status
            }
        })
    }

    #[inline]
    fn complete(&mut self, request: &ConnectionRequest, status: Status, _: Span, device: &Device) -> Completion {
        let command = request.wanted.command;
        if status == Status::Ok && (command == Command::Flush || command.is_durable()) {
            return Completion::AfterFlush;
        }
        self.forget(request);
        Completion::Written(self.reply(request, status, &device.store))
    }

    fn repeat(&mut self, request: &ConnectionRequest, status: Status, device: &Device) {
        self.reply(request, status, &device.store);
    }

    fn commit(&mut self, request: &ConnectionRequest, flushed: io::Result<()>, _: Span) -> bool {
        self.forget(request);
        let status = status(flushed);
        self.session.answer(request.wanted.cookie, status);
        status == Status::Ok
    }

    fn abandon(&mut self, request: &ConnectionRequest) {
        self.forget(request);
    }
}
