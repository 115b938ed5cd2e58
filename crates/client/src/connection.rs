//! Connection of a client to a device: the shared memory, and a socket that shows when the other process has gone.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::shared::memory::Memory;
use crate::shared::{clock, socket};
use phaselink_ring::greeting::{Hello, ServerWelcomeMessage, WELCOME_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SendFlags;

/// Parts of a client that its queues share.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: UnixStream,
    pub memory: Memory,
    pub welcome: ServerWelcomeMessage,
    /// Latency in nanoseconds that an application adds to its own measurement by reading the clock once before and once
    /// after.
    pub clock_reads_ns: u64,
}

impl Connection {
    pub(crate) fn open(path: &Path, hello: &Hello) -> io::Result<Connection> {
        let stream = UnixStream::connect(path)?;
        socket::send(stream.as_fd(), &hello.encode(), None)?;
        let mut message = [0; WELCOME_BYTES];
        let (bytes, fd) = socket::receive(stream.as_fd(), &mut message)?;
        let welcome = ServerWelcomeMessage::decode(&message[..bytes])?;
        let fd = fd.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the server gave no memory"))?;
        let memory = Memory::open(&fd, welcome.layout.memory_bytes())?;
        let clock_reads_ns = if welcome.modelled { 2 * clock::read_duration_ns() } else { 0 };
        Ok(Connection { socket: stream, memory, welcome, clock_reads_ns })
    }

    /// Wakes the device by a byte on the socket.
    pub(crate) fn wake_device(&self) {
        // If the socket is full, enough wake-ups are queued. If it is broken, the next time-out detects that.
        let _ = rustix::net::send(&self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Checks that the server has not closed the connection.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            // After its greeting the server sends nothing, so any byte or an end of file means that the connection has
            // ended.
            Ok(1..) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the device has gone")),
            _ => Ok(()),
        }
    }
}
