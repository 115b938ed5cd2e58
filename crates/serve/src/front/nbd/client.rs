//! Client's end of an NBD connection, with the functions that a benchmark needs.

use phaselink_core::number::{index, short_length};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::socket::Stream;
use super::uri::Uri;
use super::wire::{self, NbdParseResult, Request, command, handshake, option, reply};
use crate::front::buffer::Buffer;

/// Client's connection to an NBD export.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    input: Buffer,
    output: Buffer,
    /// Size of the export in bytes.
    pub capacity_bytes: u64,
    /// Transmission flags of the export: features that the server offers.
    pub features: u16,
}

/// Head of an NBD reply: the cookie of the request, and the server's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Cookie of the request that the reply belongs to.
    pub cookie: u64,
    /// Error number of the server; zero if the request has succeeded.
    pub error: u32,
}

impl Client {
    /// Connects to the export that `uri` names.
    ///
    /// # Errors
    /// If no server answers there, or the server does not speak NBD or has no such export.
    pub fn connect(uri: &Uri) -> io::Result<Client> {
        let stream = Stream::connect(&uri.place)?;
        let (input, output) = (Buffer::default(), Buffer::default());
        let mut client = Client { stream, input, output, capacity_bytes: 0, features: 0 };
        let flags = client.message(wire::parse_greeting)?;
        if flags & handshake::FIXED_NEWSTYLE == 0 {
            return Err(io::Error::other("the server does not speak NBD's fixed newstyle"));
        }
        client.output.push(&u32::from(flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES)).to_be_bytes());
        client.negotiate_export(&uri.export)?;
        Ok(client)
    }

    /// Chooses the export `name` in the handshake (NBD_OPT_GO), and reads its size and transmission flags.
    fn negotiate_export(&mut self, name: &str) -> io::Result<()> {
        let mut data = Vec::from(short_length(name.len()).to_be_bytes());
        data.extend(name.as_bytes());
        data.extend(0u16.to_be_bytes());
        self.output.push(&wire::OPTION_MAGIC.to_be_bytes());
        self.output.push(&option::GO.to_be_bytes());
        self.output.push(&short_length(data.len()).to_be_bytes());
        self.output.push(&data);
        self.send()?;
        loop {
            let (kind, length) = self.message(wire::parse_option_reply)?;
            let data = self.take(index(length))?;
            match kind {
                reply::ACK => return Ok(()),
                reply::INFO => {
                    if let Some((capacity_bytes, features)) = wire::parse_export_info(&data) {
                        (self.capacity_bytes, self.features) = (capacity_bytes, features);
                    }
                }
                reply::UNKNOWN => return Err(io::Error::other(format!("there is no export `{name}`"))),
                _ => {
                    // The server's text is not trusted, so escape it and limit its length.
                    let reason: String =
                        String::from_utf8_lossy(&data).chars().take(200).flat_map(char::escape_debug).collect();
                    return Err(io::Error::other(format!("the server refuses the export: {reason}")));
                }
            }
        }
    }

    /// Adds a request, and the `data` of a write, to the output that the next [`send`](Client::send) sends.
    pub fn ask(&mut self, request: &Request, data: &[u8]) {
        self.output.push(&request.encode());
        self.output.push(data);
    }

    /// Sends every prepared request. Replies that arrive meanwhile are kept.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn send(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(self.output.data())? {
                Some(bytes) => self.output.consume(bytes),
                None => {
                    // The server may wait for its replies to be read before it reads more, so receive them now.
                    self.wait(PollFlags::IN | PollFlags::OUT, None)?;
                    self.receive()?;
                }
            }
        }
        Ok(())
    }

    /// Reads the bytes that the server has sent, without blocking; returns false if there are none.
    ///
    /// # Errors
    /// If the connection breaks or ends.
    pub fn receive(&mut self) -> io::Result<bool> {
        match self.stream.read(self.input.room(64 << 10)?)? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(bytes) => {
                self.input.filled(bytes);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Sleeps until the server has sent bytes, or until `timeout` has passed.
    ///
    /// # Errors
    /// If the system cannot wait for the socket.
    pub fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait(PollFlags::IN, timeout)
    }

    /// Returns the head of the next complete reply, and discards its data; none if no reply is complete. `bytes_of`
    /// returns the length of the data, in bytes, for the cookie of a request.
    ///
    /// # Errors
    /// If the received bytes are no reply.
    pub fn answer(&mut self, bytes_of: impl Fn(u64) -> usize) -> io::Result<Option<ReplyHead>> {
        let Some((answer, bytes)) = self.peek_reply_head(bytes_of)? else { return Ok(None) };
        self.input.consume(wire::SIMPLE_REPLY_BYTES + bytes);
        Ok(Some(answer))
    }

    /// Returns the head and the data of the next complete reply; none if no reply is complete. `bytes_of` returns the
    /// length of the data, in bytes, for the cookie of a request.
    ///
    /// # Errors
    /// As [`Client::answer`].
    pub fn take_reply_with_data(
        &mut self,
        bytes_of: impl Fn(u64) -> usize,
    ) -> io::Result<Option<(Vec<u8>, ReplyHead)>> {
        let Some((answer, bytes)) = self.peek_reply_head(bytes_of)? else { return Ok(None) };
        self.input.consume(wire::SIMPLE_REPLY_BYTES);
        let data = self.input.data()[..bytes].to_vec();
        self.input.consume(bytes);
        Ok(Some((data, answer)))
    }

    /// Returns the head of the next reply and the length of its data, and leaves both in the input; none if the reply
    /// is incomplete.
    fn peek_reply_head(&self, bytes_of: impl Fn(u64) -> usize) -> io::Result<Option<(ReplyHead, usize)>> {
        let data = self.input.data();
        match wire::parse_simple_reply(data) {
            NbdParseResult::Needs(_) => Ok(None),
            NbdParseResult::Broken(found) => Err(io::Error::other(found)),
            NbdParseResult::Whole((cookie, error), head_bytes) => {
                let bytes = if error == 0 { bytes_of(cookie) } else { 0 };
                Ok((data.len() >= head_bytes + bytes).then_some((ReplyHead { cookie, error }, bytes)))
            }
        }
    }

    /// Sends a disconnect request to the server.
    ///
    /// # Errors
    /// If the connection is broken already.
    pub fn disconnect(mut self) -> io::Result<()> {
        let request = Request { flags: 0, command: command::DISCONNECT, cookie: 0, offset: 0, length: 0 };
        self.ask(&request, b"");
        self.send()
    }

    /// Blocks until the next message of the handshake has arrived, and returns the message as `parse` reads it.
    fn message<T>(&mut self, parse: impl Fn(&[u8]) -> NbdParseResult<T>) -> io::Result<T> {
        loop {
            match parse(self.input.data()) {
                NbdParseResult::Broken(found) => return Err(io::Error::other(found)),
                NbdParseResult::Needs(_) => self.block_for_input()?,
                NbdParseResult::Whole(message, bytes) => {
                    self.input.consume(bytes);
                    return Ok(message);
                }
            }
        }
    }

    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.input.data().len() < bytes {
            self.block_for_input()?;
        }
        let data = self.input.data()[..bytes].to_vec();
        self.input.consume(bytes);
        Ok(data)
    }

    /// Blocks until the server has sent more bytes, and receives them.
    fn block_for_input(&mut self) -> io::Result<()> {
        self.wait(PollFlags::IN, None)?;
        self.receive().map(drop)
    }

    fn wait(&self, flags: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout
            .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() });
        let mut socket = [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)];
        match rustix::event::poll(&mut socket, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => Ok(()),
            other => other.map(drop).map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn bytes_that_do_not_fit_the_socket_are_sent_as_the_server_reads() {
        let (own, mut server) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let (input, output) = (Buffer::default(), Buffer::default());
        let mut client = Client { stream: Stream::Unix(own), input, output, capacity_bytes: 1 << 30, features: 0 };
        let data = vec![7; 4 << 20];
        let length = data.len() as u32;
        client.ask(&Request { flags: 0, command: command::WRITE, cookie: 1, offset: 0, length }, &data);
        // If the client stops sending, the read times out and the test fails.
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut heard = vec![0; wire::REQUEST_BYTES + data.len()];
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            server.read_exact(&mut heard).map(|()| heard)
        });
        client.send().unwrap();
        assert!(reading.join().unwrap().unwrap()[wire::REQUEST_BYTES..] == data);
    }
}
