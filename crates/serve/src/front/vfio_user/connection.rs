//! A client's socket, and through it the host of a controller.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::rules::Limits;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use super::memory::Target;
use super::session::{Reply, Session};
use super::wire::{DESCRIPTORS_MAX, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, command};
use crate::device::faults::{Faults, Held, Signal};
use crate::nvme::registers::Registers;
use crate::nvme::{Host, Unreachable};

/// A client that does not take a reply, or does not give its memory, within this time is let go: the device thread has
/// others to look after.
const PATIENCE: Duration = Duration::from_secs(1);

/// Messages of one client in a row: others have their turn.
const MESSAGES_MAX: u32 = 64;

/// A client.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    session: Session,
    /// When it has come.
    begun: Instant,
    incoming: Incoming,
    /// The next request of the server's own, and the answer to the last one.
    request_id: u16,
    answer: Option<Vec<u8>>,
    faults: Arc<Faults>,
    /// Vectors of interrupts that a fault lets come again.
    again: Held<u16>,
    /// The socket is broken, or what comes from it is no message: nothing more is done with it.
    is_over: bool,
}

/// A message, as far as it has come.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
    filled: usize,
    fds: Vec<OwnedFd>,
}

impl Connection {
    /// A client that has just connected.
    ///
    /// # Errors
    /// If the system has no memory file left.
    pub fn new(socket: UnixStream, is_mappable: bool, limits: &Limits, faults: &Arc<Faults>) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            session: Session::new(is_mappable, limits)?,
            begun: Instant::now(),
            incoming: Incoming::default(),
            request_id: 0,
            answer: None,
            faults: Arc::clone(faults),
            again: Held::default(),
            is_over: false,
        })
    }

    /// Answer the messages that have come; whether there were any. At the end of the connection, it [is
    /// over](Connection::is_over).
    pub fn attend(&mut self) -> bool {
        for count in 0..MESSAGES_MAX {
            match self.receive() {
                Ok(None) => return count > 0,
                Ok(Some((message, fds))) => self.on_message(message, fds),
                Err(_) => self.is_over = true,
            }
            if self.is_over {
                break;
            }
        }
        true
    }

    /// Send interrupts again for which it is time; for how long there will be none, as far as that is known.
    #[inline]
    pub fn interrupt_again(&mut self) -> Option<Duration> {
        while let Some(vector) = self.again.take_due() {
            self.session.interrupts.raise(vector, self.session.registers.masked);
        }
        self.again.due_in()
    }

    /// Whether the client has said which version it speaks.
    pub fn has_agreed(&self) -> bool {
        self.session.has_version()
    }

    /// Whether the client has gone.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn on_message(&mut self, message: Vec<u8>, fds: Vec<OwnedFd>) {
        let header = message.first_chunk().map(Header::decode);
        if header.is_some_and(|header| header.is_reply() && header.id == self.request_id) {
            self.answer = Some(message);
            return;
        }
        if let Some(reply) = self.session.on_message(&message, fds) {
            self.send(&reply);
        }
        // Its space serves the next message.
        if self.incoming.bytes.capacity() == 0 {
            self.incoming.bytes = message;
            self.incoming.bytes.clear();
        }
    }

    /// The next whole message, if it has come: first its header, then as much as that says, so that descriptors belong to
    /// the message they came with.
    fn receive(&mut self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        loop {
            let Incoming { bytes, filled, fds } = &mut self.incoming;
            if bytes.len() < HEADER_BYTES {
                bytes.resize(HEADER_BYTES, 0);
            }
            if *filled < bytes.len() {
                match receive(&self.socket, &mut bytes[*filled..], fds)? {
                    None => return Ok(None),
                    Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Some(count) => *filled += count,
                }
            }
            if *filled == HEADER_BYTES {
                let header = Header::decode(bytes.first_chunk().expect("the header has come"));
                match header.bytes as usize {
                    length @ HEADER_BYTES..=MESSAGE_BYTES_MAX => bytes.resize(length, 0),
                    // Nobody knows where the next message begins.
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            if *filled == bytes.len() {
                *filled = 0;
                return Ok(Some((mem::take(bytes), mem::take(fds))));
            }
        }
    }

    fn send(&mut self, reply: &Reply) {
        let fd = reply.with_doorbells.then(|| self.session.doorbells_fd().as_fd());
        if send(&self.socket, &reply.bytes, fd).is_err() {
            self.is_over = true;
        }
    }

    /// Ask the client for something and wait for the answer's payload, answering what it asks meanwhile: it may hold up
    /// its answer until it has that.
    #[cold]
    fn ask(&mut self, command: u16, payload: &[u8]) -> Result<Vec<u8>, Unreachable> {
        self.request_id = self.request_id.wrapping_add(1);
        let header = Header::request(self.request_id, command, payload.len());
        self.answer = None;
        let bytes = [&header.encode()[..], payload].concat();
        self.send(&Reply { bytes, with_doorbells: false });
        let until = Instant::now() + PATIENCE;
        while !self.is_over {
            self.attend();
            if let Some(message) = self.answer.take() {
                let (head, payload) = message.split_first_chunk().ok_or(Unreachable)?;
                let header = Header::decode(head);
                return if header.is_refusal() || header.command != command {
                    Err(Unreachable)
                } else {
                    Ok(payload.to_vec())
                };
            }
            if !wait(self.socket.as_fd(), PollFlags::IN, until) || Instant::now() > until {
                self.is_over = true;
            }
        }
        Err(Unreachable)
    }

    /// Read memory that the client has not given a descriptor for.
    fn read_remote(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        let mut at = address;
        for part in into.chunks_mut(self.session.transfer_bytes_max) {
            let request = [at.to_le_bytes(), (part.len() as u64).to_le_bytes()].concat();
            let answer = self.ask(command::DMA_READ, &request)?;
            let data = answer.get(request.len()..).filter(|data| data.len() == part.len()).ok_or(Unreachable)?;
            part.copy_from_slice(data);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Write it.
    fn write_remote(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let mut at = address;
        for part in from.chunks(self.session.transfer_bytes_max) {
            let request = [&at.to_le_bytes()[..], &(part.len() as u64).to_le_bytes(), part].concat();
            self.ask(command::DMA_WRITE, &request)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// An access that is not within one mapping.
    #[cold]
    fn read_pieces(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        let (mut address, mut rest) = (address, into);
        while !rest.is_empty() {
            let (place, here) = self.session.memory.find(address, rest.len()).ok_or(Unreachable)?;
            let (piece, others) = rest.split_at_mut(here);
            match place {
                Target::Mapped(mapping, offset) => mapping.read(offset, piece),
                Target::Remote { readable: true, .. } => self.read_remote(address, piece)?,
                Target::Remote { .. } => return Err(Unreachable),
            }
            address = address.wrapping_add(here as u64);
            rest = others;
        }
        Ok(())
    }

    #[cold]
    fn write_pieces(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        let (mut address, mut rest) = (address, from);
        while !rest.is_empty() {
            let (place, here) = self.session.memory.find(address, rest.len()).ok_or(Unreachable)?;
            let (piece, others) = rest.split_at(here);
            match place {
                Target::Mapped(mapping, offset) if mapping.write(offset, piece) => {}
                Target::Remote { writable: true, .. } => self.write_remote(address, piece)?,
                _ => return Err(Unreachable),
            }
            address = address.wrapping_add(here as u64);
            rest = others;
        }
        Ok(())
    }
}

impl Host for Connection {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        match self.session.memory.mapped(address, into.len()) {
            Some((mapping, offset)) => {
                mapping.read(offset, into);
                Ok(())
            }
            None => self.read_pieces(address, into),
        }
    }

    #[inline]
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        match self.session.memory.mapped(address, from.len()) {
            Some((mapping, offset)) if mapping.write(offset, from) => Ok(()),
            Some(_) => Err(Unreachable),
            None => self.write_pieces(address, from),
        }
    }

    #[inline]
    fn read_words(&mut self, address: u64, into: &[AtomicU64]) -> bool {
        let place = self.session.memory.mapped(address, into.len() * 8);
        place.is_some_and(|(mapping, offset)| mapping.read_words(offset, into))
    }

    #[inline]
    fn write_words(&mut self, address: u64, from: &[AtomicU64]) -> bool {
        let place = self.session.memory.mapped(address, from.len() * 8);
        place.is_some_and(|(mapping, offset)| mapping.write_words(offset, from))
    }

    #[inline]
    fn prefetch_to_write(&mut self, address: u64, bytes: u32) {
        let place = self.session.memory.mapped(address, bytes as usize);
        place.into_iter().for_each(|(mapping, offset)| mapping.prefetch_to_write(offset, bytes as usize));
    }

    #[inline]
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable> {
        match self.session.memory.mapped(address, entry.len()) {
            Some((mapping, offset)) if mapping.post(offset, entry) => Ok(()),
            Some(_) => Err(Unreachable),
            None => self.write_pieces(address, entry),
        }
    }

    #[inline]
    fn peek(&mut self, address: u64) -> Option<u32> {
        let (mapping, offset) = self.session.memory.mapped(address, 4)?;
        mapping.load(offset)
    }

    fn poke(&mut self, address: u64, value: u32) {
        if let Some((mapping, offset)) = self.session.memory.mapped(address, 4) {
            mapping.store(offset, value);
        }
    }

    #[inline]
    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.session.doorbells(queue)
    }

    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        let half = |is_meant: bool| if is_meant { 0xffff_ffff } else { 0 };
        self.session.set_doorbells(queue, half(tail) | half(head) << 32, 0);
    }

    fn interrupt(&mut self, vector: u16) {
        match self.faults.meet_interrupt() {
            Some(Signal::Lost) => return,
            Some(Signal::Again(time)) => self.again.keep(time, vector),
            None => {}
        }
        self.session.interrupts.raise(vector, self.session.registers.masked);
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    #[inline]
    fn registers(&mut self) -> &mut Registers {
        &mut self.session.registers
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Read what has come, with its descriptors: none if nothing has, zero bytes at the end.
fn receive(socket: &UnixStream, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags) {
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        other => other?,
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            // More than were allowed are closed.
            fds.extend(received);
            fds.truncate(DESCRIPTORS_MAX);
        }
    }
    Ok(Some(received.bytes))
}

/// Send a whole message, with a descriptor at its beginning.
fn send(socket: &UnixStream, message: &[u8], fd: Option<BorrowedFd>) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let fds = fd.map(|fd| [fd]);
    let mut sent = 0;
    while sent < message.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = fds.as_ref().filter(|_| sent == 0) {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(socket, &[IoSlice::new(&message[sent..])], &mut control, flags) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait(socket.as_fd(), PollFlags::OUT, until) => {}
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Wait for a socket; false if that has taken too long.
fn wait(socket: BorrowedFd, flags: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)) {
        Ok(0) => false,
        Ok(_) | Err(Errno::INTR) => true,
        Err(_) => false,
    }
}
