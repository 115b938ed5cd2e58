//! Sockets: Unix and TCP alike, never blocking by themselves.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use phaselink_core::problem::Problem;
use rustix::net::sockopt;

use super::buffer::Buffer;
use super::uri::{Address, Uri};
use crate::front::socket::bind_unix;

/// Buffers of a connection in the kernel: a batch of requests and its answers should fit.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// Connection over a Unix socket or TCP.
#[derive(Debug)]
pub enum Stream {
    /// Unix socket.
    Unix(UnixStream),
    /// TCP on this machine.
    Tcp(TcpStream),
}

/// Listening socket. The name of a Unix socket goes when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    uri: Uri,
}

#[derive(Debug)]
enum ListeningSocket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds the place that `uri` names.
    ///
    /// # Errors
    /// If that place is taken or not allowed.
    pub fn bind(uri: &Uri) -> Result<Listener, Problem> {
        let socket = match &uri.place {
            Address::Unix(path) => bind_unix(path).map(|socket| ListeningSocket::Unix(socket, path.clone())),
            Address::Tcp(address) => TcpListener::bind(address).map(ListeningSocket::Tcp),
        };
        let bound = socket.and_then(|socket| {
            match &socket {
                ListeningSocket::Unix(listener, _) => listener.set_nonblocking(true)?,
                ListeningSocket::Tcp(listener) => listener.set_nonblocking(true)?,
            }
            Ok(Listener { socket, uri: uri.clone() })
        });
        bound.map_err(|error| Problem::new("--nbd", None, format!("{uri} cannot be served: {error}"), ""))
    }

    /// Returns the address, with the port that the system has chosen if it was left to it.
    pub fn uri(&self) -> Uri {
        match &self.socket {
            ListeningSocket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => Uri { place: Address::Tcp(address), ..self.uri.clone() },
                Err(_) => self.uri.clone(),
            },
            ListeningSocket::Unix(..) => self.uri.clone(),
        }
    }

    /// Returns the next connection, if one is waiting.
    ///
    /// # Errors
    /// Those of the system; none of them is the listener's end.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            ListeningSocket::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            ListeningSocket::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => stream.prepared().map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ListeningSocket::Unix(_, path) = &self.socket {
            // A name that somebody has removed already is as good as removed.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListeningSocket::Unix(listener, _) => listener.as_fd(),
            ListeningSocket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Stream {
    /// Sends the output; returns false if the other end has no room for all of it now.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&self, output: &mut Buffer) -> io::Result<bool> {
        while !output.is_empty() {
            match self.write(output.data())? {
                Some(bytes) => output.consume(bytes),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// If there is none.
    pub fn connect(place: &Address) -> io::Result<Stream> {
        let stream = match place {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect(address)?),
        };
        stream.prepared()
    }

    fn prepared(self) -> io::Result<Stream> {
        match &self {
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
            }
        }
        // The system may grant less, which costs speed and nothing else.
        let _ = sockopt::set_socket_send_buffer_size(self.as_fd(), SOCKET_BUFFER_BYTES);
        let _ = sockopt::set_socket_recv_buffer_size(self.as_fd(), SOCKET_BUFFER_BYTES);
        Ok(self)
    }

    /// Reads what has come: nothing if there is nothing, zero bytes at the end.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(match self {
            Stream::Unix(stream) => (&mut &*stream).read(into),
            Stream::Tcp(stream) => (&mut &*stream).read(into),
        })
    }

    /// Sends as much as there is room for; nothing if there is no room.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn write(&self, from: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(match self {
            Stream::Unix(stream) => (&mut &*stream).write(from),
            Stream::Tcp(stream) => (&mut &*stream).write(from),
        })
    }
}

impl Stream {
    /// Returns the number of bytes that have come and not been read: zero also at the end of the connection. Unlike a read, the
    /// question takes no lock that the sender of these bytes needs.
    pub fn input_bytes(&self) -> usize {
        // A system that cannot say leaves it to the next read.
        rustix::io::ioctl_fionread(self.as_fd()).map_or(usize::MAX, |bytes| bytes as usize)
    }

    /// Returns how much memory the system holds for bytes that have been sent and not read. Of TCP it is not known: what the
    /// other end's system has, its program need not have read.
    pub fn unread_bytes(&self) -> usize {
        let Stream::Unix(stream) = self else { return 0 };
        let mut bytes: libc::c_int = 0;
        // SAFETY: this request (SIOCOUTQ in unix(7)'s terms) stores one integer, for which `bytes` is the room.
        let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if asked == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn unless_blocked(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_end_has_not_read_counts_until_it_has_read_the_whole_message() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = Stream::Unix(ours);
        assert_eq!(ours.unread_bytes(), 0);
        ours.write(&[7; 1000]).unwrap();
        let unread = ours.unread_bytes();
        assert!(unread >= 1000);
        theirs.read_exact(&mut [0; 999]).unwrap();
        assert_eq!(ours.unread_bytes(), unread);
        theirs.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(ours.unread_bytes(), 0);
    }

    #[test]
    fn bytes_that_have_come_are_counted_until_they_are_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = Stream::Unix(ours);
        assert_eq!(ours.input_bytes(), 0);
        theirs.write_all(&[7; 30]).unwrap();
        assert_eq!(ours.input_bytes(), 30);
        ours.read(&mut [0; 10]).unwrap();
        assert_eq!(ours.input_bytes(), 20);
    }
}
