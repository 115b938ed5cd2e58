//! Non-blocking Unix and TCP sockets behind one interface.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use phaselink_core::number::wide_index;
use phaselink_core::problem::Problem;
use rustix::net::sockopt;

use super::uri::{Address, Uri};
use crate::front::buffer::Buffer;
use crate::front::socket::bind_unix_socket;

/// Size of each kernel buffer of a connection, in bytes: a batch of requests or its replies should fit.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// Connection to an NBD client or server, over a Unix socket or TCP.
#[derive(Debug)]
pub enum Stream {
    /// Connection over a Unix socket.
    Unix(UnixStream),
    /// Connection over TCP on this machine.
    Tcp(TcpStream),
}

/// Listening socket of an NBD server. The file of a Unix socket is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    uri: Uri,
}

/// Socket on which an NBD server listens: a Unix socket with its path, or a TCP socket.
#[derive(Debug)]
enum ListeningSocket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Creates a listening socket at the address in `uri`.
    ///
    /// # Errors
    /// If the address is in use or not allowed.
    pub fn bind(uri: &Uri) -> Result<Listener, Problem> {
        let socket = match &uri.place {
            Address::Unix(path) => bind_unix_socket(path).map(|socket| ListeningSocket::Unix(socket, path.clone())),
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

    /// Returns the address of the socket, with the port that the system has chosen if `uri` left it open.
    pub fn uri(&self) -> Uri {
        match &self.socket {
            ListeningSocket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => Uri { place: Address::Tcp(address), ..self.uri.clone() },
                Err(_) => self.uri.clone(),
            },
            ListeningSocket::Unix(..) => self.uri.clone(),
        }
    }

    /// Accepts the next connection; none if no client waits.
    ///
    /// # Errors
    /// Returns errors of the system. The listener can go on after each of them.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            ListeningSocket::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            ListeningSocket::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => stream.configure_accepted_socket().map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ListeningSocket::Unix(_, path) = &self.socket {
            // If the file has been removed already, there is nothing to do.
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
    /// Sends the bytes of `output` without blocking, and consumes them. Returns false if the socket has no room for all
    /// of them.
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

    /// Connects to the server at `place`.
    ///
    /// # Errors
    /// If no server answers there.
    pub fn connect(place: &Address) -> io::Result<Stream> {
        let stream = match place {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect(address)?),
        };
        stream.configure_accepted_socket()
    }

    fn configure_accepted_socket(self) -> io::Result<Stream> {
        match &self {
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
            }
        }
        // If the kernel grants smaller buffers, the connection is slower but works.
        let _ = sockopt::set_socket_send_buffer_size(self.as_fd(), SOCKET_BUFFER_BYTES);
        let _ = sockopt::set_socket_recv_buffer_size(self.as_fd(), SOCKET_BUFFER_BYTES);
        Ok(self)
    }

    /// Reads received bytes into `into`, without blocking, and returns their number. Returns none if no bytes have
    /// arrived, and 0 at the end of the connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        none_if_would_block(match self {
            Stream::Unix(stream) => (&mut &*stream).read(into),
            Stream::Tcp(stream) => (&mut &*stream).read(into),
        })
    }

    /// Sends as many bytes of `from` as the socket has room for, without blocking, and returns their number; none if
    /// there is no room.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn write(&self, from: &[u8]) -> io::Result<Option<usize>> {
        none_if_would_block(match self {
            Stream::Unix(stream) => (&mut &*stream).write(from),
            Stream::Tcp(stream) => (&mut &*stream).write(from),
        })
    }
}

impl Stream {
    /// Returns the number of bytes that have been received and not read; 0 also at the end of the connection. Unlike a
    /// read, this call takes no lock that the sender needs.
    pub fn received_unread_bytes(&self) -> usize {
        // If the kernel cannot tell, assume that there is input, so that the caller reads.
        rustix::io::ioctl_fionread(self.as_fd()).map_or(usize::MAX, wide_index)
    }

    /// Returns how much kernel memory holds bytes that have been sent and that the client has not read. Returns 0 for
    /// TCP, which does not tell what the client has read.
    pub fn unread_sent_bytes(&self) -> usize {
        let Stream::Unix(stream) = self else { return 0 };
        let mut bytes: libc::c_int = 0;
        // SAFETY: this request (SIOCOUTQ in unix(7)) stores one integer, for which `bytes` has room.
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

fn none_if_would_block(moved: io::Result<usize>) -> io::Result<Option<usize>> {
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
    fn sent_bytes_count_as_unread_until_the_peer_reads_the_whole_message() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = Stream::Unix(ours);
        assert_eq!(ours.unread_sent_bytes(), 0);
        ours.write(&[7; 1000]).unwrap();
        let unread = ours.unread_sent_bytes();
        assert!(unread >= 1000);
        theirs.read_exact(&mut [0; 999]).unwrap();
        assert_eq!(ours.unread_sent_bytes(), unread);
        theirs.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(ours.unread_sent_bytes(), 0);
    }

    #[test]
    fn received_bytes_count_as_input_until_they_are_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = Stream::Unix(ours);
        assert_eq!(ours.received_unread_bytes(), 0);
        theirs.write_all(&[7; 30]).unwrap();
        assert_eq!(ours.received_unread_bytes(), 30);
        ours.read(&mut [0; 10]).unwrap();
        assert_eq!(ours.received_unread_bytes(), 20);
    }
}
