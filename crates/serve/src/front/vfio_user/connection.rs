//! Socket and session of a vfio-user client, by which a controller reaches its host.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::number::{index, length};
use phaselink_core::protocol::nvme::rules::Limits;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use super::memory::Memory;
use super::migration::{Migration, MovingParts, SessionHost};
use super::moving::DriveDigest;
use super::reach::{ClientAccess, InterruptSender, Mapped};
use super::session::{DoorbellPage, Reply, Session};
use super::wire::{DESCRIPTORS_MAX, Fields, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, command};
use crate::device::faults::Faults;
use crate::device::store::Store;
use crate::nvme::registers::ControllerRegisters;
use crate::nvme::{AdminHost, Controller, UnreachableMemory};

/// Maximum number of messages of migration that are kept while the server waits for memory of the client.
const POSTPONED_MAX: usize = 4;
/// Longest time for which a thread waits until a client accepts a reply, or sends memory that it was asked for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of messages of one client that are handled in a row.
pub const MESSAGES_MAX: u32 = 64;

/// Socket and session of a client, by which a controller reaches its host's memory, doorbells and interrupts.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    session: Session,
    /// Instant at which the client has connected.
    begun: Instant,
    incoming: IncomingMessage,
    /// Message ID of the latest request that the server has sent to the client.
    request_id: u16,
    answered: Option<Vec<u8>>,
    faults: Arc<Faults>,
    signals: InterruptSender,
    migration: Migration,
    /// Messages of migration that have arrived while the server waited for memory of the client.
    postponed: VecDeque<Message>,
    /// True if other threads borrow access to the client's memory. The client must not be asked for memory then, as a
    /// message that arrives meanwhile could change the memory.
    is_shared: bool,
    is_out_of_reach: bool,
    /// True if the thread serves other clients too. This client must then move to another thread once this thread has
    /// waited for it.
    has_neighbours: bool,
    /// Total time for which the thread has waited for the client.
    waited: Duration,
    /// True if the socket has ended, is broken, or has carried an invalid message, so that it is not used any more.
    is_over: bool,
}

/// Complete message of a client, with the descriptors that came with it.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Message {
    /// Returns true if the message only writes doorbells.
    pub fn only_rings(&self) -> bool {
        Session::only_rings(&self.bytes)
    }

    /// Returns true if the message is about the migration of the device.
    pub fn is_of_migration(&self) -> bool {
        self.bytes.first_chunk().is_some_and(|head| {
            let header = Header::decode(head);
            !header.is_reply() && Migration::is_for(header.command)
        })
    }

    /// Returns true if the message resets the device.
    fn is_reset(&self) -> bool {
        let header = self.bytes.first_chunk().map(Header::decode);
        header.is_some_and(|header| !header.is_reply() && header.command == command::DEVICE_RESET)
    }
}

/// Message that is being received, of which bytes may be missing.
#[derive(Debug, Default)]
struct IncomingMessage {
    bytes: Vec<u8>,
    filled: usize,
    fds: Vec<OwnedFd>,
}

impl Connection {
    /// Makes the connection of a client that has just connected.
    ///
    /// # Errors
    /// If the system gives no memory file for the doorbells, or the socket cannot be set up.
    pub fn new(socket: UnixStream, is_mappable: bool, limits: &Limits, faults: &Arc<Faults>) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            session: Session::new(is_mappable, limits)?,
            begun: Instant::now(),
            incoming: IncomingMessage::default(),
            request_id: 0,
            answered: None,
            faults: Arc::clone(faults),
            signals: InterruptSender::new(faults),
            migration: Migration::default(),
            postponed: VecDeque::new(),
            is_shared: false,
            is_out_of_reach: false,
            has_neighbours: false,
            waited: Duration::ZERO,
            is_over: false,
        })
    }

    /// Executes messages that have arrived, and sends the replies. The connection [is over](Connection::is_over) if the
    /// socket has ended.
    fn execute_messages(&mut self) {
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.try_receive_message() else { return };
            match message.is_of_migration() {
                true if self.postponed.len() >= POSTPONED_MAX => self.refuse(&message, libc::EBUSY),
                true => self.postponed.push_back(message),
                false => self.answer(message),
            }
        }
    }

    /// Returns the next message to execute, if all of it has arrived.
    pub fn next_message(&mut self) -> Option<Message> {
        self.postponed.pop_front().or_else(|| self.try_receive_message())
    }

    /// Receives the next message, if all of it has arrived. A socket that has ended or is broken ends the connection.
    fn try_receive_message(&mut self) -> Option<Message> {
        if self.is_over {
            return None;
        }
        match self.receive() {
            Ok(found) => found.map(|(bytes, fds)| Message { bytes, fds }),
            Err(_) => {
                self.is_over = true;
                None
            }
        }
    }

    /// Returns the access to this client that a borrower of its queues needs. Until all borrowers have returned theirs,
    /// the client must be asked for nothing, and only its doorbell messages may be executed.
    pub fn share(&mut self) -> Mapped {
        self.is_shared = true;
        Mapped::new(&self.session, &self.faults)
    }

    /// Takes back a borrower's access to the client, with the interrupts that are still to be repeated.
    pub fn take_back(&mut self, mapped: Mapped) {
        self.signals.inherit(mapped.into_interrupt_sender());
    }

    /// Notes that all borrowers have returned their access, so that the client may be asked for memory again.
    pub fn note_access_returned(&mut self) {
        self.is_shared = false;
    }

    /// Sends interrupts again that a fault repeats, if they are due. Returns the time until the next repetition or the
    /// end of another fault; none if there is none.
    #[inline]
    pub fn interrupt_again(&mut self) -> Option<Duration> {
        self.signals.send_repeated_interrupts(&self.session.interrupts, self.session.registers.masked)
    }

    /// Returns true if the client has negotiated a version.
    pub fn has_negotiated_version(&self) -> bool {
        self.session.has_version()
    }

    /// Returns true if the socket is not used any more: it has ended, is broken, or has carried an invalid message.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sets the flag that the thread serves other clients beside this one.
    pub fn set_has_neighbours(&mut self, has_neighbours: bool) {
        self.has_neighbours = has_neighbours;
    }

    /// Returns true if the thread has waited for a reply of the client, or for room for a reply to it.
    #[inline]
    pub fn has_waited(&self) -> bool {
        !self.waited.is_zero()
    }

    /// Returns the longest time for which the thread may wait for the client now. On a thread with other clients, all
    /// waits together are limited.
    fn client_wait_limit(&self) -> Duration {
        if self.has_neighbours { PATIENCE.saturating_sub(self.waited) } else { PATIENCE }
    }

    /// Executes a message of the client and sends the reply. A reply to the server's own request is kept for the caller
    /// that waits for it.
    pub fn answer(&mut self, message: Message) {
        if message.is_reset() {
            // A reset ends a migration in any state.
            self.migration = Migration::default();
        }
        let Message { bytes: message, fds } = message;
        let header = message.first_chunk().map(Header::decode);
        if header.is_some_and(|header| header.is_reply() && header.id == self.request_id) {
            self.answered = Some(message);
            return;
        }
        if let Some(reply) = self.session.on_message(&message, fds) {
            self.send(&reply);
        }
        // Reuse the buffer of this message for the next one.
        if self.incoming.bytes.capacity() == 0 {
            self.incoming.bytes = message;
            self.incoming.bytes.clear();
        }
    }

    /// Returns true if the controller does not serve the client, because it moves or is about to stop.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.migration.is_stopped()
    }

    /// Returns true if the client waits until the controller has stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.migration.is_pending()
    }

    /// Executes a message about the migration of the device, whose queues must all be here.
    #[cold]
    pub(super) fn migrate(
        &mut self,
        message: &Message,
        controller: &mut Controller,
        (store, digest): (&Arc<Store>, &DriveDigest),
    ) {
        let Some((head, payload)) = message.bytes.split_first_chunk() else { return };
        let header = Header::decode(head);
        let mut migration = mem::take(&mut self.migration);
        let answer = match self.has_negotiated_version() {
            false => Some(Err(libc::EINVAL)),
            true => {
                let mut parts = MovingParts { controller, host: self, store, digest };
                migration.answer((header, Fields(payload)), &mut parts)
            }
        };
        self.migration = migration;
        answer.into_iter().for_each(|answer| self.reply(header, answer));
    }

    /// Continues to stop the controller, and replies to the client once it has stopped.
    #[cold]
    pub(super) fn poll_migration(&mut self, controller: &mut Controller, (store, digest): (&Arc<Store>, &DriveDigest)) {
        let mut migration = mem::take(&mut self.migration);
        let done = migration.poll(&mut MovingParts { controller, host: self, store, digest });
        self.migration = migration;
        done.into_iter().for_each(|(header, answer)| self.reply(header, answer));
    }

    /// Refuses a message with a Linux error number.
    fn refuse(&mut self, message: &Message, error: i32) {
        if let Some(head) = message.bytes.first_chunk() {
            self.reply(Header::decode(head), Err(error));
        }
    }

    fn reply(&mut self, header: Header, answer: Result<Vec<u8>, i32>) {
        if header.needs_no_reply() {
            return;
        }
        let bytes = match answer {
            Ok(payload) => [&header.reply(payload.len()).encode()[..], &payload].concat(),
            Err(error) => header.refusal(error).encode().to_vec(),
        };
        self.send(&Reply { bytes, with_doorbells: false });
    }

    /// Reads the next complete message: first its header, then as many bytes as the header says, so that descriptors
    /// belong to the message that they came with. Returns none if bytes are missing.
    fn receive(&mut self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        loop {
            let IncomingMessage { bytes, filled, fds } = &mut self.incoming;
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
                match index(header.bytes) {
                    length @ HEADER_BYTES..=MESSAGE_BYTES_MAX => bytes.resize(length, 0),
                    // Without a valid length, the start of the next message is unknown, so close the connection.
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
        let begun = Instant::now();
        match send(&self.socket, &reply.bytes, fd, begun + self.client_wait_limit()) {
            Ok(false) => {}
            Ok(true) => self.waited += begun.elapsed(),
            Err(_) => {
                self.waited += begun.elapsed();
                self.is_over = true;
            }
        }
    }

    /// Sends a request to the client, and returns the payload of the reply. Messages that arrive meanwhile are
    /// executed, as the client may hold up its reply until then.
    #[cold]
    fn request_from_client(&mut self, command: u16, payload: &[u8]) -> Result<Vec<u8>, UnreachableMemory> {
        if self.is_shared {
            self.is_out_of_reach = true;
            return Err(UnreachableMemory);
        }
        self.request_id = self.request_id.wrapping_add(1);
        let header = Header::request(self.request_id, command, payload.len());
        self.answered = None;
        let bytes = [&header.encode()[..], payload].concat();
        self.send(&Reply { bytes, with_doorbells: false });
        let begun = Instant::now();
        let answer = self.wait_for_reply(command, begun + self.client_wait_limit());
        self.waited += begun.elapsed();
        answer
    }

    fn wait_for_reply(&mut self, command: u16, until: Instant) -> Result<Vec<u8>, UnreachableMemory> {
        while !self.is_over {
            self.execute_messages();
            if let Some(message) = self.answered.take() {
                let (head, payload) = message.split_first_chunk().ok_or(UnreachableMemory)?;
                let header = Header::decode(head);
                return if header.is_error_reply() || header.command != command {
                    Err(UnreachableMemory)
                } else {
                    Ok(payload.to_vec())
                };
            }
            if !wait(self.socket.as_fd(), PollFlags::IN, until) || Instant::now() > until {
                self.is_over = true;
            }
        }
        Err(UnreachableMemory)
    }
}

impl ClientAccess for Connection {
    #[inline]
    fn memory(&mut self) -> &mut Memory {
        &mut self.session.memory
    }

    fn read_remote(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        let mut at = address;
        for part in into.chunks_mut(self.session.transfer_bytes_max) {
            let request = [at.to_le_bytes(), (part.len() as u64).to_le_bytes()].concat();
            let answer = self.request_from_client(command::DMA_READ, &request)?;
            let data = answer.get(request.len()..).filter(|data| data.len() == part.len()).ok_or(UnreachableMemory)?;
            part.copy_from_slice(data);
            at += length(part.len());
        }
        Ok(())
    }

    fn write_remote(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        let mut at = address;
        for part in from.chunks(self.session.transfer_bytes_max) {
            let request = [&at.to_le_bytes()[..], &(part.len() as u64).to_le_bytes(), part].concat();
            self.request_from_client(command::DMA_WRITE, &request)?;
            at += length(part.len());
        }
        Ok(())
    }

    #[inline]
    fn take_out_of_reach(&mut self) -> bool {
        mem::take(&mut self.is_out_of_reach)
    }

    #[inline]
    fn is_leaving(&self) -> bool {
        self.has_neighbours && self.has_waited()
    }

    #[inline]
    fn page(&self) -> &DoorbellPage {
        self.session.doorbells()
    }

    fn send_interrupt(&mut self, vector: u16) {
        self.signals.send(vector, &self.session.interrupts, self.session.registers.masked);
    }

    #[inline]
    fn signals(&mut self) -> &mut InterruptSender {
        &mut self.signals
    }
}

impl SessionHost for Connection {
    fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl AdminHost for Connection {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        let half = |is_meant: bool| if is_meant { 0xffff_ffff } else { 0 };
        self.session.doorbells().set(queue, half(tail) | half(head) << 32, 0);
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    #[inline]
    fn registers(&mut self) -> &mut ControllerRegisters {
        &mut self.session.registers
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads received bytes and descriptors without blocking, and returns the number of bytes. Returns none if nothing has
/// arrived, and 0 at the end of the connection.
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
            // Dropping surplus descriptors closes them.
            fds.extend(received);
            fds.truncate(DESCRIPTORS_MAX);
        }
    }
    Ok(Some(received.bytes))
}

/// Sends a whole message, with a descriptor at its beginning, and waits for room no longer than `until`. Returns true
/// if it had to wait for the client.
fn send(socket: &UnixStream, message: &[u8], fd: Option<BorrowedFd>, until: Instant) -> io::Result<bool> {
    let fds = fd.map(|fd| [fd]);
    let (mut sent, mut has_waited) = (0, false);
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
            Err(Errno::AGAIN) if wait(socket.as_fd(), PollFlags::OUT, until) => has_waited = true,
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(has_waited)
}

/// Waits until a socket is ready for `flags`; returns false if it is not by the instant `until`.
fn wait(socket: BorrowedFd, flags: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)) {
        Ok(0) => false,
        Ok(_) | Err(Errno::INTR) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use phaselink_core::protocol::nvme::rules::NamespaceKind;

    use super::*;

    const LIMITS: Limits = Limits {
        namespaces: 1,
        blocks: 128,
        block_shift: 9,
        transfer_bytes_max: 128 << 10,
        queue_pairs: 1,
        queue_entries: 16,
        takes_segments: true,
        kind: NamespaceKind::PLAIN,
    };

    #[test]
    fn migration_messages_beyond_the_limit_are_refused_while_memory_is_awaited() {
        let (mut client, socket) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(socket, false, &LIMITS, &Arc::default()).unwrap();
        for id in 0..POSTPONED_MAX + 2 {
            client.write_all(&Header::request(id as u16, command::MIG_DATA_READ, 0).encode()).unwrap();
        }
        connection.execute_messages();
        let mut replies = [0; 2 * HEADER_BYTES];
        client.read_exact(&mut replies).unwrap();
        let refusal = |id| Header::request(id as u16, command::MIG_DATA_READ, 0).refusal(libc::EBUSY).encode();
        assert_eq!(replies.as_chunks().0, [refusal(POSTPONED_MAX), refusal(POSTPONED_MAX + 1)]);
        assert_eq!(connection.postponed.len(), POSTPONED_MAX);
    }
}
