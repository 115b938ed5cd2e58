//! Byte stream of a connection: plain TCP, or TLS over it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustix::net::{RecvFlags, recv, sockopt};

use super::authentication::keys::Psk;
use super::authentication::secret::system_random;
use super::secured::{TlsSecuredStream, would_block};
use super::tls::FIRST_BYTE;
use super::tls::channel::TlsChannel;

/// Size of each kernel buffer of a connection, in bytes: a batch of commands or its data should fit.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// Non-blocking byte stream of a connection.
#[derive(Debug)]
pub enum ByteStream {
    /// Bytes of the TCP connection itself.
    Plain(Arc<TcpStream>),
    /// Connection whose client has not shown yet whether it begins with TLS, and the keys for that case.
    Undecided(Arc<TcpStream>, Vec<Psk>),
    /// Bytes that TLS protects.
    Secured(Box<TlsSecuredStream>),
}

impl ByteStream {
    /// Sets up the socket of a connection.
    ///
    /// # Errors
    /// If the system refuses a setting.
    pub fn new(socket: TcpStream) -> io::Result<ByteStream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // If the kernel grants smaller buffers, the connection is slower but works.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        Ok(ByteStream::Plain(Arc::new(socket)))
    }

    /// Lets the client of an accepted connection begin with TLS, if it has one of these keys.
    #[must_use]
    pub fn with_keys(self, psks: Vec<Psk>) -> ByteStream {
        match self {
            ByteStream::Plain(socket) if !psks.is_empty() => ByteStream::Undecided(socket, psks),
            other => other,
        }
    }

    /// Begins TLS as the client that has one of these keys. The handshake advances whenever bytes are read.
    #[must_use]
    pub fn secured(self, psks: Vec<Psk>) -> ByteStream {
        let channel = TlsChannel::client(psks, system_random);
        ByteStream::Secured(Box::new(TlsSecuredStream::new(Arc::clone(self.socket()), channel)))
    }

    /// Returns the socket, whose readiness ends a sleep.
    pub fn socket(&self) -> &Arc<TcpStream> {
        match self {
            ByteStream::Plain(socket) | ByteStream::Undecided(socket, _) => socket,
            ByteStream::Secured(secured) => secured.socket(),
        }
    }

    /// Returns the identity of the key that protects the stream; none without TLS, and before its handshake has ended.
    pub fn identity(&self) -> Option<&str> {
        match self {
            ByteStream::Plain(_) | ByteStream::Undecided(..) => None,
            ByteStream::Secured(secured) => secured.identity(),
        }
    }

    /// Returns true until the handshake of a secured stream has ended.
    pub fn is_in_tls_handshake(&self) -> bool {
        matches!(self, ByteStream::Secured(secured) if secured.identity().is_none())
    }

    /// Returns true if encrypted bytes wait for room in the socket, for [`flush`](Self::flush).
    #[inline]
    pub fn has_pending(&mut self) -> bool {
        match self {
            ByteStream::Plain(_) | ByteStream::Undecided(..) => false,
            ByteStream::Secured(secured) => secured.has_pending(),
        }
    }

    /// Returns true if decrypted bytes wait to be read, of which the socket does not tell.
    pub fn has_received(&mut self) -> bool {
        match self {
            ByteStream::Plain(_) | ByteStream::Undecided(..) => false,
            ByteStream::Secured(secured) => secured.has_received(),
        }
    }

    /// Sends encrypted bytes that wait, as far as the socket has room.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            ByteStream::Plain(_) | ByteStream::Undecided(..) => Ok(()),
            ByteStream::Secured(secured) => secured.flush(),
        }
    }

    /// Looks at the first byte of the client: TLS begins with another one than NVMe/TCP.
    #[cold]
    fn detect_tls_from_first_byte(&mut self) -> io::Result<bool> {
        let ByteStream::Undecided(socket, psks) = self else { return Ok(true) };
        let mut first = [0];
        match recv(&**socket, &mut first, RecvFlags::PEEK).map(|(_, count)| count).map_err(io::Error::from) {
            Ok(1..) if first == [FIRST_BYTE] => {
                let channel = TlsChannel::server(std::mem::take(psks), system_random);
                *self = ByteStream::Secured(Box::new(TlsSecuredStream::new(Arc::clone(socket), channel)));
            }
            Ok(_) => *self = ByteStream::Plain(Arc::clone(socket)),
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Reads received bytes without blocking, and returns their number. Returns none if no bytes have arrived, and 0 at
    /// the end of the connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn read(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        match self {
            ByteStream::Plain(socket) => none_if_blocked((&**socket).read_vectored(into)),
            ByteStream::Secured(secured) => secured.read(into),
            ByteStream::Undecided(..) => match self.detect_tls_from_first_byte()? {
                true => self.read(into),
                false => Ok(None),
            },
        }
    }

    /// Sends as many bytes as the socket has room for, without blocking, and returns their number; none if there is no
    /// room.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn write(&mut self, from: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match self {
            ByteStream::Plain(socket) => none_if_blocked((&**socket).write_vectored(from)),
            ByteStream::Secured(secured) => secured.write(from),
            // Nothing is known about the client before its first byte, so there is nothing to read.
            ByteStream::Undecided(..) => Ok(None),
        }
    }

    /// Tells the other end that no further bytes follow.
    pub fn finish(&mut self) {
        if let ByteStream::Secured(secured) = self {
            return secured.finish();
        }
        // If the connection is already broken, the peer has noticed.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

fn none_if_blocked(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if would_block(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
