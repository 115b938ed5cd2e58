//! Thread that talks to the connections of shared-memory clients: they connect, ring doorbells and disconnect.
//!
//! The thread never waits for one client: a greeting must arrive whole, and soon. A device thread learns of changes
//! through a [`PollGroupMailbox`], which costs it a read of one flag per round. While a device thread sleeps, it polls the
//! clients' doorbells itself, as the detour over this thread would wake it later.

use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use phaselink_client::shared::memory::Memory;
use phaselink_client::shared::socket;
use phaselink_ring::greeting::{HELLO_BYTES, Hello, Refusal, ServerWelcomeMessage, VERSION};
use phaselink_ring::layout::Layout;
use phaselink_ring::trailer::TagWidth;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

use super::client::Client;
use super::share::{CLIENTS_MAX, ShareSocket};
use crate::device::Device;
use crate::front::poll_group::{PollGroupMailbox, owner};

/// Time within which a client must have sent its greeting.
const GREETING_MAX: Duration = Duration::from_secs(1);

/// Message to a device thread: a client has connected or disconnected.
#[derive(Debug)]
pub(super) enum ClientConnectionChange {
    /// A client has connected. Carries the client, with those of its queues that the receiving device thread owns, and
    /// a file descriptor of its socket.
    Arrived(Box<Client>, OwnedFd),
    /// The client of this number has disconnected.
    Left(u64),
}

/// Returns the queues of a client that device thread `thread` owns, out of `threads` threads.
fn owned_queues(client: u64, queues: u32, thread: usize, threads: usize) -> impl Iterator<Item = u32> {
    (0..queues).filter(move |queue| owner(client, (*queue).into(), threads) == thread)
}

/// Connection whose client has not greeted yet. `place` is the index of the socket that accepted it.
struct Guest {
    socket: UnixStream,
    place: usize,
    since: Instant,
}

/// Client that has been admitted, with the layout of its memory and the index of the socket that accepted it.
struct AdmittedClient {
    number: u64,
    layout: Layout,
    place: usize,
}

/// Thread that accepts shared-memory clients, hears their doorbells and notices their end.
#[derive(Debug)]
pub(super) struct ClientListener<'a> {
    pub device: &'a Device,
    pub served: &'a [ShareSocket],
    /// Mailbox of each device thread, for clients that connect or disconnect.
    pub handovers: &'a [PollGroupMailbox<'a, ClientConnectionChange>],
    /// True if clients are told to ring doorbells when a device thread sleeps.
    pub doorbells: bool,
    pub modelled: bool,
}

/// Connections that the thread watches: those that have sent no greeting yet (guests), and those of clients with their
/// numbers. `clients_ever` is the number of the next client.
#[derive(Default)]
struct ClientConnections {
    guests: Vec<Guest>,
    clients: Vec<(u64, UnixStream)>,
    clients_ever: u64,
}

impl ClientListener<'_> {
    /// Accepts and serves the connections of clients until the device is told to stop.
    ///
    /// # Errors
    /// If the system cannot wait for sockets.
    pub(super) fn run(&self) -> io::Result<()> {
        let mut connections = ClientConnections::default();
        let ended = loop {
            if self.device.stop.is_requested() {
                break Ok(());
            }
            if let Err(error) = self.wait_and_serve_sockets(&mut connections) {
                break Err(error);
            }
        };
        self.device.stop.request();
        ended
    }

    /// Waits until a socket is readable or the device is told to stop, then serves all readable sockets.
    fn wait_and_serve_sockets(&self, connections: &mut ClientConnections) -> io::Result<()> {
        let guests = connections.guests.iter().map(|guest| guest.socket.as_fd());
        let clients = connections.clients.iter().map(|(_, socket)| socket.as_fd());
        let fds = self.served.iter().map(AsFd::as_fd).chain(guests).chain(clients).chain([self.device.stop.as_fd()]);
        let mut polled: Vec<PollFd> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        match rustix::event::poll(&mut polled, Some(&timeout).filter(|_| !connections.guests.is_empty())) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (_, ready) = ready.split_at(self.served.len());
        let (guests, clients) = ready.split_at(connections.guests.len());
        self.wake_for_doorbells(connections, clients);
        self.read_greetings(connections, guests);
        self.accept(connections);
        Ok(())
    }

    /// Wakes all device threads for each client that rings its doorbell, and tells them of clients that have
    /// disconnected.
    fn wake_for_doorbells(&self, connections: &mut ClientConnections, ready: &[bool]) {
        let mut ready = ready.iter();
        connections.clients.retain(|(number, socket)| {
            if ready.next() != Some(&true) {
                return true;
            }
            let mut rings = [0; 64];
            let is_there = match rustix::net::recv(socket, &mut rings[..], RecvFlags::DONTWAIT) {
                Ok((bytes, _)) => bytes > 0,
                Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
            };
            self.handovers.iter().for_each(|handover| match is_there {
                true => handover.wake(),
                false => handover.put(ClientConnectionChange::Left(*number)),
            });
            is_there
        });
    }

    fn read_greetings(&self, connections: &mut ClientConnections, ready: &[bool]) {
        for (guest, ready) in mem::take(&mut connections.guests).into_iter().zip(ready) {
            match ready {
                // If a client sends no valid greeting, or does not read the reply, disconnect it.
                true => drop(self.welcome(guest, connections)),
                false if guest.since.elapsed() < GREETING_MAX => connections.guests.push(guest),
                false => {}
            }
        }
    }

    /// Replies to a client's greeting, and gives the client shared memory of its own, unless it is refused.
    fn welcome(&self, guest: Guest, connections: &mut ClientConnections) -> io::Result<()> {
        let Guest { socket, place, .. } = guest;
        let mut message = [0; HELLO_BYTES];
        let (bytes, _) = socket::receive(socket.as_fd(), &mut message)?;
        let hello = Hello::decode(&message[..bytes]).ok_or(io::ErrorKind::InvalidData)?;
        let welcome = match self.grant_greeting(&hello, place, connections) {
            Ok(welcome) => welcome,
            refused => return socket::send(socket.as_fd(), &ServerWelcomeMessage::encode(refused), None),
        };
        let (memory, fd) = Memory::create(welcome.layout.memory_bytes())?;
        socket::send(socket.as_fd(), &ServerWelcomeMessage::encode(Ok(welcome)), Some(fd.as_fd()))?;
        let client = AdmittedClient { number: connections.clients_ever, layout: welcome.layout, place };
        connections.clients_ever += 1;
        self.distribute_queues(&client, &socket, memory, &fd)?;
        connections.clients.push((client.number, socket));
        Ok(())
    }

    /// Hands each device thread those queues of a client that it owns, each thread with its own mapping of the client's
    /// memory.
    fn distribute_queues(
        &self,
        client: &AdmittedClient,
        socket: &UnixStream,
        memory: Memory,
        fd: &OwnedFd,
    ) -> io::Result<()> {
        let AdmittedClient { number, layout, place } = *client;
        let (part, threads) = (self.served[place].part, self.handovers.len());
        let mut mapped = Some(memory);
        for (thread, handover) in self.handovers.iter().enumerate() {
            let queues: Vec<u32> = owned_queues(number, layout.queues, thread, threads).collect();
            if queues.is_empty() {
                continue;
            }
            let memory = mapped.take().map_or_else(|| Memory::open(fd, layout.memory_bytes()), Ok)?;
            let client = Box::new(Client::new(number, memory, layout, part, queues));
            handover.put(ClientConnectionChange::Arrived(client, socket.try_clone()?.into()));
        }
        Ok(())
    }

    fn grant_greeting(
        &self,
        hello: &Hello,
        place: usize,
        connections: &ClientConnections,
    ) -> Result<ServerWelcomeMessage, Refusal> {
        let part = self.served[place].part;
        let refusal = match hello {
            hello if hello.version != VERSION => Refusal::Version,
            hello if !hello.layout.is_allowed() => Refusal::Layout,
            hello if hello.writes && !part.writes => Refusal::ReadOnly,
            _ if connections.clients.len() >= CLIENTS_MAX => Refusal::Full,
            _ => {
                return Ok(ServerWelcomeMessage {
                    capacity_bytes: part.bytes,
                    block_bytes: part.block_bytes,
                    tag_width: TagWidth::from_bits(self.device.drive.dc_express.tag_bits).unwrap_or(TagWidth::Bits32),
                    layout: hello.layout,
                    writes: hello.writes,
                    doorbells: self.doorbells,
                    modelled: self.modelled,
                });
            }
        };
        Err(refusal)
    }

    fn accept(&self, connections: &mut ClientConnections) {
        for (place, served) in self.served.iter().enumerate() {
            // If the connection fails before it is accepted, only that client is affected.
            let Ok((socket, _)) = served.listener.accept() else { continue };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            // Clients that send no greeting must not keep others out, so disconnect the one that has waited longest.
            if connections.guests.len() >= CLIENTS_MAX {
                connections.guests.remove(0);
            }
            connections.guests.push(Guest { socket, place, since: Instant::now() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::front::shm::share::DriveRange;

    const LAYOUT: Layout = Layout { queues: 5, entries: 8, transfer_bytes: 512 };

    #[test]
    fn queues_have_one_owner_and_single_queue_clients_rotate() {
        for (client, threads) in [(0, 1), (0, 3), (7, 3), (2, 16)] {
            let mut queues: Vec<u32> =
                (0..threads).flat_map(|thread| owned_queues(client, LAYOUT.queues, thread, threads)).collect();
            queues.sort_unstable();
            assert!(queues.iter().copied().eq(0..LAYOUT.queues), "{client} {threads}: {queues:?}");
        }
        let thread_of = |client| (0..4).find(|thread| owned_queues(client, 1, *thread, 4).next().is_some());
        assert_eq!([0, 1, 2, 3, 4].map(thread_of), [0, 1, 2, 3, 0].map(Some));
    }

    /// A cache line that a device thread writes for requests, in its own state or in a client's memory, is written by
    /// no other device thread.
    #[test]
    fn no_cache_line_is_written_by_two_device_threads_over_shm() {
        const THREADS: usize = 3;
        let layout = Layout { queues: 3, ..LAYOUT };
        let part = DriveRange { start: 0, bytes: 1 << 20, block_bytes: 512, writes: true };
        let mut own: [BTreeSet<usize>; THREADS] = Default::default();
        let mut kept = Vec::new();
        for number in 0..16 {
            let mut shared = BTreeSet::new();
            let (_, fd) = Memory::create(layout.memory_bytes()).unwrap();
            // Create the clients as the listener does: one after another on one thread.
            for (thread, own) in own.iter_mut().enumerate() {
                let memory = Memory::open(&fd, layout.memory_bytes()).unwrap();
                let queues = owned_queues(number, layout.queues, thread, THREADS);
                let client = Box::new(Client::new(number, memory, layout, part, queues));
                own.extend(client.written_server_cache_lines());
                let lines: BTreeSet<u64> = client.written_client_cache_lines().collect();
                assert!(lines.len() > 8 && shared.is_disjoint(&lines), "client {number}, thread {thread}");
                shared.extend(lines);
                kept.push(client);
            }
        }
        let lines: BTreeSet<&usize> = own.iter().flatten().collect();
        assert_eq!(lines.len(), own.iter().map(BTreeSet::len).sum::<usize>(), "a line is written by two threads");
    }
}
