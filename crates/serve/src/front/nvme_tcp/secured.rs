//! Byte stream that TLS protects, on a socket that never blocks.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::tls::channel::TlsChannel;

/// Number of bytes that are read from the socket at a time: some records of the largest size.
const READ_BYTES: usize = 64 << 10;
/// Number of encrypted bytes that wait for the socket before no more are taken.
const PENDING_BYTES_MAX: usize = 256 << 10;

/// Byte stream that TLS protects.
#[derive(Debug)]
pub struct TlsSecuredStream {
    socket: Arc<TcpStream>,
    channel: TlsChannel,
    /// Number of decrypted bytes that have been read already.
    taken: usize,
    is_over: bool,
}

impl TlsSecuredStream {
    /// Returns the stream over a socket that does not block.
    pub(super) fn new(socket: Arc<TcpStream>, channel: TlsChannel) -> TlsSecuredStream {
        TlsSecuredStream { socket, channel, taken: 0, is_over: false }
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Returns the identity of the key, by which the names of host and subsystem are known; none before the handshake has
    /// ended.
    pub(super) fn identity(&self) -> Option<&str> {
        self.channel.identity()
    }

    /// Returns true if encrypted bytes wait for room in the socket.
    pub(super) fn has_pending(&mut self) -> bool {
        !self.channel.outgoing().is_empty()
    }

    /// Returns true if decrypted bytes wait to be read, of which the socket does not tell.
    pub(super) fn has_received(&mut self) -> bool {
        self.channel.plaintext().len() > self.taken
    }

    pub(super) fn read(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        if !self.has_received() {
            self.fill()?;
        }
        let plaintext = self.channel.plaintext();
        let mut rest = &plaintext[self.taken..];
        let all = rest.len();
        for slice in into {
            let count = slice.len().min(rest.len());
            slice[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
        let count = all - rest.len();
        self.taken += count;
        if self.taken == plaintext.len() {
            plaintext.clear();
            self.taken = 0;
        }
        match count {
            0 if self.is_over && all == 0 => Ok(Some(0)),
            0 => Ok(None),
            count => Ok(Some(count)),
        }
    }

    /// Reads from the socket until bytes for the application have arrived, or none are left.
    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        while !self.has_received() && !self.is_over {
            match (&*self.socket).read(&mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(count) => {
                    let received = self.channel.receive(&bytes[..count]);
                    let sent = self.flush();
                    received.map_err(|alert| io::Error::new(io::ErrorKind::InvalidData, alert))?;
                    sent?;
                    self.is_over |= self.channel.is_closed();
                }
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, from: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.flush()?;
        if self.channel.outgoing().len() >= PENDING_BYTES_MAX || self.identity().is_none() {
            return Ok(None);
        }
        // Join all slices into one text, so that a short header does not get a TLS record of its own.
        let mut text = Vec::new();
        for slice in from {
            let count = slice.len().min(PENDING_BYTES_MAX - text.len());
            text.extend_from_slice(&slice[..count]);
        }
        self.channel.send(&text);
        self.flush()?;
        Ok(Some(text.len()))
    }

    /// Sends encrypted bytes, as far as the socket has room.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let outgoing = self.channel.outgoing();
        let mut sent = 0;
        while sent < outgoing.len() {
            match (&*self.socket).write(&outgoing[sent..]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        outgoing.drain(..sent);
        Ok(())
    }

    /// Tells the other side that no more bytes follow.
    pub(super) fn finish(&mut self) {
        self.channel.close();
        // If the connection is already broken, the peer has noticed.
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
