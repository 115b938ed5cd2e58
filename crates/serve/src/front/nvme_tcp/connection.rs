//! Connection of a host: its socket and its [session](super::session).

use std::io::IoSliceMut;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::protocol::nvme::spec::Status;
use rustix::event::PollFlags;
use rustix::net::sockopt;

use super::accept::AUTHENTICATION_TIME_MAX;
use super::fabrics::{Connect, status};
use super::keyring::QueueAuthenticationState;
use super::session::QueueConnectionState;
use super::stream::ByteStream;
use crate::device::faults::ConnectionFault;
use crate::front::nvme_command::CommandFate;

/// Time within which a host must close a connection that has been terminated.
const CLOSING_MAX: Duration = Duration::from_secs(1);
/// Number of rounds without bytes after which a socket is read less often.
const IDLE_ROUNDS: u32 = 64;
/// Number of rounds between two reads of such a socket.
const ROUNDS_OF_IDLE: u32 = 32;

/// Connection of a host.
#[derive(Debug)]
pub(super) struct HostConnection {
    stream: ByteStream,
    /// State of the connection.
    pub session: QueueConnectionState,
    /// True if the host may send other commands than those of authentication.
    pub is_authenticated: bool,
    /// Authentication of the host on this queue, if there are keys.
    pub security: Option<Box<QueueAuthenticationState>>,
    is_broken: bool,
    /// True if the connection ends as soon as its output has been sent.
    is_closing: bool,
    idle_rounds: u32,
    accepted: Instant,
    /// Instant at which a termination request was sent.
    ended: Option<Instant>,
    disturbance: ConnectionDisturbance,
}

/// Disturbance of a connection by a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionDisturbance {
    #[default]
    None,
    /// Nothing is received or sent until this instant.
    Stalled(Instant),
    /// Nothing is sent any more, and what is received is discarded.
    HalfOpen,
}

impl HostConnection {
    /// Returns the connection of a host that has just connected. Its commands transfer at most `data_max` bytes.
    pub(super) fn new(stream: ByteStream, data_max: u32) -> HostConnection {
        let session = QueueConnectionState::new(data_max);
        HostConnection {
            stream,
            session,
            is_authenticated: true,
            security: None,
            is_broken: false,
            is_closing: false,
            idle_rounds: 0,
            accepted: Instant::now(),
            ended: None,
            disturbance: ConnectionDisturbance::None,
        }
    }

    /// Applies a fault to the connection, on which a command with this identifier has arrived.
    pub(super) fn disturb(&mut self, command_id: u16, fault: ConnectionFault) -> CommandFate {
        match fault {
            ConnectionFault::Stalled(time) => {
                if self.disturbance != ConnectionDisturbance::HalfOpen {
                    self.disturbance = ConnectionDisturbance::Stalled(Instant::now() + time);
                }
            }
            ConnectionFault::HalfOpen => self.disturbance = ConnectionDisturbance::HalfOpen,
            ConnectionFault::Reset => {
                // Closing the socket sends a reset. If the socket refuses the setting, the host sees an orderly end.
                let _ = sockopt::set_socket_linger(&**self.stream.socket(), Some(Duration::ZERO));
                self.is_broken = true;
                return CommandFate::Dropped;
            }
            ConnectionFault::WrongDigest(digest) => {
                if !self.session.damage(command_id, digest) {
                    return CommandFate::Refused(status::TRANSIENT_TRANSPORT_ERROR);
                }
            }
        }
        CommandFate::Executed
    }

    /// Returns the time until the end of a stall; `None` if the connection is not stalled.
    #[inline]
    pub(super) fn remaining_stall_time(&mut self) -> Option<Duration> {
        match self.disturbance {
            ConnectionDisturbance::Stalled(until) => self.remaining_stall_time_until(until),
            ConnectionDisturbance::None | ConnectionDisturbance::HalfOpen => None,
        }
    }

    #[cold]
    fn remaining_stall_time_until(&mut self, until: Instant) -> Option<Duration> {
        let rest = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero());
        if rest.is_none() {
            (self.disturbance, self.idle_rounds) = (ConnectionDisturbance::None, 0);
        }
        rest
    }

    /// Returns the address of the server at which the host has reached it.
    pub(super) fn reached(&self) -> Option<SocketAddr> {
        self.stream.socket().local_addr().ok()
    }

    /// Opens the queue that a Connect command asks for, and answers the command.
    pub(super) fn accept_connect_command(&mut self, slot: u16, connect: &Connect, controller_id: u16) {
        let entries = u32::from(connect.entries_field) + 1;
        self.session.open_connected_queue(connect.queue, entries, !connect.attributes.disables_sq_flow_control());
        let result = u32::from(controller_id) | self.connect_response_requirements();
        self.session.respond_to_connect(slot, Status::SUCCESS, result);
    }

    /// True if the host has had longer to authenticate on this queue than it may.
    #[inline]
    pub(super) fn has_exceeded_authentication_time(&self) -> bool {
        !self.is_authenticated && self.accepted.elapsed() > AUTHENTICATION_TIME_MAX
    }

    /// Returns the identity of the key with which TLS protects the connection, if it does.
    pub(super) fn identity(&self) -> Option<&str> {
        self.stream.identity()
    }

    /// Returns true if decrypted bytes wait for which there is room. The socket does not tell of them.
    pub(super) fn has_unread(&mut self) -> bool {
        if self.disturbance != ConnectionDisturbance::None {
            return false;
        }
        let Ok([data, input]) = self.session.room() else { return false };
        self.stream.has_received() && !(data.is_empty() && input.is_empty())
    }

    /// Ends the connection as soon as its output has been sent.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns true if bytes wait to be sent.
    #[inline]
    pub(super) fn has_output(&mut self) -> bool {
        self.session.has_output() || self.stream.has_pending()
    }

    /// Returns the socket, and the events that end a sleep.
    pub(super) fn watched(&mut self) -> (Arc<TcpStream>, PollFlags) {
        let has_output = self.has_output();
        let events = match self.disturbance {
            ConnectionDisturbance::None if has_output => PollFlags::IN | PollFlags::OUT,
            ConnectionDisturbance::None | ConnectionDisturbance::HalfOpen => PollFlags::IN,
            ConnectionDisturbance::Stalled(_) => PollFlags::empty(),
        };
        (Arc::clone(self.stream.socket()), events)
    }

    /// True if the connection has ended, and nothing is to be sent any more.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_broken || self.ended.is_some_and(|ended| ended.elapsed() > CLOSING_MAX)
    }

    /// Receives bytes, unless the socket has been idle for long and it is not yet its turn; `is_forced` receives in any
    /// case. Returns true if bytes have arrived, or the connection has ended.
    #[inline]
    pub(super) fn receive(&mut self, is_forced: bool) -> bool {
        if self.idle_rounds > IDLE_ROUNDS && !is_forced && !self.idle_rounds.is_multiple_of(ROUNDS_OF_IDLE) {
            self.idle_rounds += 1;
            return false;
        }
        match self.receive_available_pdus() {
            true => self.idle_rounds = 0,
            false => self.idle_rounds = self.idle_rounds.wrapping_add(1).max(1),
        }
        self.idle_rounds == 0
    }

    fn receive_available_pdus(&mut self) -> bool {
        if self.is_broken {
            return false;
        }
        if self.disturbance != ConnectionDisturbance::None && self.remaining_stall_time().is_some() {
            return false;
        }
        if self.disturbance == ConnectionDisturbance::HalfOpen {
            return self.discard_received_bytes();
        }
        if self.session.has_ended() {
            return self.drain_after_connection_end();
        }
        let Ok([data, input]) = self.session.room() else {
            self.is_broken = true;
            return true;
        };
        if data.is_empty() && input.is_empty() {
            return false;
        }
        match self.stream.read(&mut [IoSliceMut::new(data), IoSliceMut::new(input)]) {
            Ok(None) => false,
            Ok(Some(bytes)) if bytes > 0 => {
                self.session.filled(bytes);
                true
            }
            Ok(Some(_)) | Err(_) => {
                self.is_broken = true;
                true
            }
        }
    }

    /// Discards what the host still sends after the end of the connection. Closing the socket before would reset the
    /// connection, and the host could lose the termination request.
    fn drain_after_connection_end(&mut self) -> bool {
        if self.ended.is_none() && !self.has_output() {
            self.stream.finish();
            self.ended = Some(Instant::now());
        }
        self.discard_received_bytes()
    }

    /// Discards received bytes. Returns true if the connection has ended.
    fn discard_received_bytes(&mut self) -> bool {
        let mut rest = [0; 4096];
        match self.stream.read(&mut [IoSliceMut::new(&mut rest)]) {
            Ok(None) => {}
            Ok(Some(bytes)) if bytes > 0 => {}
            Ok(Some(_)) | Err(_) => self.is_broken = true,
        }
        self.is_broken
    }

    /// Sends the output, as far as the socket has room.
    #[inline]
    pub(super) fn flush(&mut self) {
        if self.disturbance != ConnectionDisturbance::None
            && (self.disturbance == ConnectionDisturbance::HalfOpen || self.remaining_stall_time().is_some())
        {
            return;
        }
        while self.session.has_output() && !self.is_broken {
            let sent = self.stream.write(&self.session.output());
            match sent {
                Ok(Some(bytes)) => self.session.sent(bytes),
                Ok(None) => return,
                Err(_) => self.is_broken = true,
            }
        }
        self.is_broken |= self.stream.has_pending() && self.stream.flush().is_err();
        if self.is_closing && !self.has_output() {
            self.stream.finish();
            self.is_broken = true;
        }
    }
}
