//! Host's end of a connection: one queue of a controller, to which it submits commands. [`super::initiator`] has the rest of a
//! host.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::number::{index, low_u16, low_u32, short_length};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, PSDT_SGL, Status, SubmissionEntry};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::address::TargetAddress;
use super::authentication::message::{MESSAGE_BYTES_MAX, PROTOCOL_SPECIFIC, SECURITY_PROTOCOL};
use super::client_keys::{AuthenticationCommandExchange, ClientKeys};
use super::fabrics::{AuthenticationTransferFields, Connect, ConnectData, FabricsCommand, authentication};
use super::keyring::read_host_key_file;
use super::output::Output;
use super::stream::ByteStream;
use super::wire::{
    COMMON_HEADER_BYTES, CommandDataLocation, DIGEST_BYTES, Digests, Encoder, InitializationParameters, PduHeader,
    PduLayout, PduLimits, PduType, Sender, Transfer, digest,
};
use crate::front::buffer::Buffer;

/// Room in bytes for received PDUs.
const INPUT_BYTES: usize = 128 << 10;
/// Number of data bytes in a capsule of the admin queue, which every controller accepts (Transport 1.0, section 3.3.2).
const ADMIN_CAPSULE_BYTES: u32 = 8192;
/// Time within which a target must answer an admin command, or become ready.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of data bytes of one PDU that a client receives (assumed: longer than any transfer).
const CONTROLLER_DATA_BYTES: u32 = 1 << 26;

/// Error of a target that does not prove who it is, although the host has a key for that.
const NO_PROOF: &str = "the target does not authenticate, although the file of keys has a dhchap_ctrl_key for it";

/// Name and identifier of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNameAndIdentifier {
    /// NVMe Qualified Name of the host (HOSTNQN).
    pub name: String,
    /// Identifier of the host (HOSTID).
    pub id: [u8; 16],
    /// Keys of the host, if it has some.
    pub keys: Option<ClientKeys>,
}

impl Default for HostNameAndIdentifier {
    fn default() -> HostNameAndIdentifier {
        let name = String::from("nqn.2014-08.org.nvmexpress:uuid:70686173-656c-696e-6b2d-686f73743031");
        HostNameAndIdentifier { name, id: *b"phaselink-host01", keys: None }
    }
}

impl HostNameAndIdentifier {
    /// Returns the host that the file of keys of a target names, or one without keys.
    ///
    /// # Errors
    /// If the file cannot be read, or names no host.
    pub fn of(target: &TargetAddress) -> io::Result<HostNameAndIdentifier> {
        let Some(path) = &target.keys else { return Ok(HostNameAndIdentifier::default()) };
        let file = read_host_key_file(path).map_err(io::Error::other)?;
        let (name, keys) =
            file.hosts().next().ok_or_else(|| io::Error::other(format!("{path}: no host in the file")))?;
        let keys = Some(ClientKeys::new(Arc::clone(keys)));
        Ok(HostNameAndIdentifier { name: String::from(name), keys, ..HostNameAndIdentifier::default() })
    }
}

/// Data of a command that a client submits.
#[derive(Clone, Copy, Debug)]
pub enum ClientCommandData<'d> {
    /// No data.
    None,
    /// Bytes that go to the controller.
    Send(&'d [u8]),
    /// Number of bytes that come from the controller; discarded unless `is_kept`.
    Receive {
        /// Number of bytes.
        bytes: u32,
        /// True if the bytes are returned with the completion.
        is_kept: bool,
    },
}

/// Completion of a command, with the data that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCompletion {
    /// Identifier of the command.
    pub id: u16,
    /// Status of the command.
    pub status: Status,
    /// Value that the command returns (dwords 0 and 1).
    pub result: u64,
    /// Data from the controller, if it was to be kept.
    pub data: Vec<u8>,
}

/// Command in flight.
#[derive(Debug, Default)]
struct ClientCommandInFlight {
    is_open: bool,
    /// Bytes to be sent after R2T, or received bytes that are kept.
    data: Vec<u8>,
    /// Number of bytes that the controller may send.
    receivable: u32,
    is_kept: bool,
}

/// Data of a C2HData PDU that is being received.
#[derive(Clone, Copy, Debug)]
struct IncomingReadData {
    id: u16,
    at: usize,
    left: usize,
    start: usize,
    has_digest: bool,
    ends_command: bool,
}

/// Connection of a client: one queue of a controller.
#[derive(Debug)]
pub struct Client {
    stream: ByteStream,
    input: Buffer,
    output: Output,
    limits: PduLimits,
    encoder: Encoder,
    /// Maximum number of data bytes in a capsule.
    pub capsule_data_max: u32,
    host_data_max: u32,
    /// True if the target has asked the host to authenticate.
    is_challenged: bool,
    commands: Vec<ClientCommandInFlight>,
    payload: Option<IncomingReadData>,
    spare: Vec<Vec<u8>>,
}

impl Client {
    /// Connects to a port and initializes the connection.
    ///
    /// # Errors
    /// If no target answers there, or it does not speak NVMe/TCP.
    pub fn connect(port: SocketAddr, digests: Digests) -> io::Result<Client> {
        Client::initialize(ByteStream::new(TcpStream::connect(port)?)?, digests)
    }

    /// Connects to the port of a subsystem as a host that may have keys, with TLS if it has a key for that.
    ///
    /// # Errors
    /// As [`Client::connect`], or if the keys of host and target differ.
    pub fn connect_host_with_keys(
        target: &TargetAddress,
        host: &HostNameAndIdentifier,
        subsystem: &str,
    ) -> io::Result<Client> {
        let stream = ByteStream::new(TcpStream::connect(target.port)?)?;
        let psks = host.keys.as_ref().map_or_else(Vec::new, |keys| keys.psks(&host.name, subsystem));
        let stream = if psks.is_empty() { stream } else { stream.secured(psks) };
        Client::initialize(stream, target.digests)
    }

    fn initialize(stream: ByteStream, digests: Digests) -> io::Result<Client> {
        let mut client = Client {
            stream,
            input: Buffer::with_room(INPUT_BYTES),
            output: Output::default(),
            limits: PduLimits { data_max: CONTROLLER_DATA_BYTES, ..PduLimits::BEFORE },
            encoder: Encoder::default(),
            capsule_data_max: ADMIN_CAPSULE_BYTES,
            host_data_max: 0,
            is_challenged: false,
            commands: Vec::new(),
            payload: None,
            spare: Vec::new(),
        };
        client.stream.flush()?;
        let until = Instant::now() + PATIENCE;
        while client.stream.is_in_tls_handshake() {
            client.block_for_bytes_until(until)?;
        }
        let own = InitializationParameters { alignment: 0, digests, limit: 0 };
        client.output.push(Encoder::default().initialize(PduType::InitializeRequest, &own).bytes());
        client.send()?;
        let response = loop {
            if let Some(PduHeader::InitializeResponse(response)) = client.take_next_pdu_header()? {
                break response;
            }
            client.block_for_bytes_until(Instant::now() + PATIENCE)?;
        };
        client.limits = PduLimits { digests: response.digests, ..client.limits };
        client.encoder = Encoder { digests: response.digests, alignment: response.data_alignment_bytes() };
        client.host_data_max = response.limit;
        Ok(client)
    }

    /// Returns the socket, for tests that send bytes of their own.
    pub fn stream(&mut self) -> &mut ByteStream {
        &mut self.stream
    }

    /// Returns the encoder of the connection.
    pub fn encoder(&self) -> Encoder {
        self.encoder
    }

    /// Prepares a command, which the next [`send`](Client::send) sends. No command with the identifier `id` may be in
    /// flight.
    pub fn submit(&mut self, id: u16, entry: &SubmissionEntry, data: ClientCommandData<'_>) {
        if self.commands.len() <= usize::from(id) {
            self.commands.resize_with(usize::from(id) + 1, ClientCommandInFlight::default);
        }
        let (place, capsule): (CommandDataLocation, &[u8]) = match data {
            ClientCommandData::None => (CommandDataLocation::Transport { bytes: 0 }, &[]),
            ClientCommandData::Send(bytes) if bytes.len() <= index(self.capsule_data_max) => {
                (CommandDataLocation::InCapsule { offset: 0, bytes: short_length(bytes.len()) }, bytes)
            }
            ClientCommandData::Send(bytes) => {
                (CommandDataLocation::Transport { bytes: short_length(bytes.len()) }, &[])
            }
            ClientCommandData::Receive { bytes, .. } => (CommandDataLocation::Transport { bytes }, &[]),
        };
        let (prp1, prp2) = place.descriptor();
        let entry = SubmissionEntry { command_id: id, flags: PSDT_SGL, prp1, prp2, ..*entry };
        let spare = self.spare.pop();
        let command = &mut self.commands[usize::from(id)];
        *command = ClientCommandInFlight {
            is_open: true,
            data: std::mem::take(&mut command.data),
            ..ClientCommandInFlight::default()
        };
        match data {
            ClientCommandData::Send(bytes) if capsule.is_empty() => {
                command.data = spare.unwrap_or_default();
                command.data.clear();
                command.data.extend_from_slice(bytes);
            }
            ClientCommandData::Receive { bytes, is_kept } => {
                self.spare.extend(spare);
                (command.receivable, command.is_kept) = (bytes, is_kept);
                if is_kept {
                    command.data.clear();
                    command.data.resize(index(bytes), 0);
                }
            }
            _ => self.spare.extend(spare),
        }
        self.output.push(self.encoder.command(&entry.encode(), capsule.len()).bytes());
        if !capsule.is_empty() {
            self.output.push(capsule);
            if self.encoder.digests.data {
                self.output.push(&digest(capsule).to_le_bytes());
            }
        }
    }

    /// Sends every prepared PDU. Bytes that arrive meanwhile are kept.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn send(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let sent = self.stream.write(&self.output.slices())?;
            match sent {
                Some(bytes) => {
                    let mut rest = bytes;
                    while rest > 0 {
                        if let Some((buffer, _)) = self.output.consume(&mut rest) {
                            self.spare.push(buffer);
                        }
                    }
                }
                None => {
                    // The target may wait for its responses to be read before it reads more, so receive them now.
                    self.wait(PollFlags::IN | PollFlags::OUT, None)?;
                    self.receive()?;
                }
            }
        }
        while self.stream.has_pending() {
            self.stream.flush()?;
            if self.stream.has_pending() {
                self.wait(PollFlags::IN | PollFlags::OUT, None)?;
                self.receive()?;
            }
        }
        Ok(())
    }

    /// Reads the bytes that the target has sent, without blocking; returns false if there are none.
    ///
    /// # Errors
    /// If the connection breaks or ends.
    pub fn receive(&mut self) -> io::Result<bool> {
        let room = self.input.room(INPUT_BYTES / 4)?;
        match self.stream.read(&mut [IoSliceMut::new(room)])? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(bytes) => {
                self.input.filled(bytes);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Sleeps until the target has sent bytes, or until `timeout` has passed.
    ///
    /// # Errors
    /// If the system cannot wait for the socket.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait(PollFlags::IN, timeout)
    }

    fn wait(&mut self, flags: PollFlags, timeout: Option<Duration>) -> io::Result<()> {
        if self.stream.has_received() {
            return Ok(());
        }
        let timeout = timeout
            .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() });
        let mut socket = [PollFd::new(&**self.stream.socket(), flags)];
        match rustix::event::poll(&mut socket, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => Ok(()),
            other => other.map(drop).map_err(io::Error::from),
        }
    }

    fn block_for_bytes_until(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the target does not answer"));
        }
        self.wait(PollFlags::IN, Some(left))?;
        self.receive().map(drop)
    }

    /// Returns the next completion; none if none has arrived. Requests of the target for data are answered on the way,
    /// and sent with the next [`send`](Client::send).
    ///
    /// # Errors
    /// If the target breaks the protocol, or ends the connection with a termination request.
    pub fn completion(&mut self) -> io::Result<Option<ClientCompletion>> {
        loop {
            if let Some(payload) = self.payload {
                match self.receive_read_data(payload)? {
                    None => return Ok(None),
                    Some(true) => return self.finish(payload.id, Status::SUCCESS, 0).map(Some),
                    Some(false) => continue,
                }
            }
            match self.take_next_pdu_header()? {
                None => return Ok(None),
                Some(PduHeader::Response(entry)) => {
                    let CompletionEntry { command_id, status, result, .. } = CompletionEntry::decode(&entry);
                    return self.finish(command_id, status, result).map(Some);
                }
                Some(PduHeader::ReadyToTransfer(transfer)) => self.send_requested_write_data(&transfer)?,
                // The payload has been set when the data header was parsed.
                Some(PduHeader::ControllerData { .. }) => {}
                Some(PduHeader::Termination { status, information }) => {
                    let text =
                        format!("the target ended the connection: status {status:#x}, information {information}");
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
                }
                Some(_) => return Err(broken("a PDU that no target sends now")),
            }
        }
    }

    /// Decodes the PDU at the start of the input, and removes it, but for its data. Returns none if a part is missing.
    fn take_next_pdu_header(&mut self) -> io::Result<Option<PduHeader>> {
        let bytes = self.input.data();
        let Some(common) = bytes.first_chunk::<COMMON_HEADER_BYTES>() else { return Ok(None) };
        let check = |error| broken(&format!("an invalid PDU: {error:?}"));
        let layout = PduLayout::check(common, Sender::Controller, &self.limits).map_err(check)?;
        let needed = match layout.kind {
            PduType::ControllerData => layout.data_at,
            _ => layout.total_bytes(),
        };
        if bytes.len() < needed {
            return Ok(None);
        }
        let header = layout.header(bytes).map_err(check)?;
        self.input.consume(needed);
        if let PduHeader::ControllerData { transfer, is_success, is_last } = header {
            let command = self.commands.get(usize::from(transfer.command_id)).filter(|command| command.is_open);
            let end = u64::from(transfer.offset) + u64::from(transfer.bytes);
            if command.is_none_or(|command| end > command.receivable.into()) {
                return Err(broken("data of no command"));
            }
            let start = index(transfer.offset);
            self.payload = Some(IncomingReadData {
                id: transfer.command_id,
                at: start,
                left: layout.data_bytes,
                start,
                has_digest: layout.has_data_digest,
                ends_command: is_success && is_last,
            });
        }
        Ok(Some(header))
    }

    /// Receives data; returns none if bytes are missing, and true if the command has ended.
    fn receive_read_data(&mut self, mut payload: IncomingReadData) -> io::Result<Option<bool>> {
        let command = &mut self.commands[usize::from(payload.id)];
        // Data with a digest is checked as a whole, so it must be complete unless it is kept.
        let here = self.input.data().len().min(payload.left);
        if command.is_kept || payload.has_digest {
            if command.data.len() < payload.at + here {
                command.data.resize(payload.at + here, 0);
            }
            command.data[payload.at..payload.at + here].copy_from_slice(&self.input.data()[..here]);
        }
        self.input.consume(here);
        (payload.at, payload.left) = (payload.at + here, payload.left - here);
        let digest_bytes = if payload.has_digest { DIGEST_BYTES } else { 0 };
        if payload.left > 0 || self.input.data().len() < digest_bytes {
            self.payload = Some(payload);
            return Ok(None);
        }
        self.payload = None;
        if let Some(received) = self.input.data().first_chunk().filter(|_| payload.has_digest) {
            let is_right = u32::from_le_bytes(*received) == digest(&command.data[payload.start..payload.at]);
            self.input.consume(DIGEST_BYTES);
            if !is_right {
                return Err(broken("a wrong data digest"));
            }
        }
        Ok(Some(payload.ends_command))
    }

    /// Sends the data that the target is ready for.
    fn send_requested_write_data(&mut self, transfer: &Transfer) -> io::Result<()> {
        let command = self.commands.get_mut(usize::from(transfer.command_id)).filter(|command| command.is_open);
        let command = command.ok_or_else(|| broken("R2T for no command"))?;
        let (start, bytes) = (index(transfer.offset), index(transfer.bytes));
        let end = start.checked_add(bytes).filter(|end| *end <= command.data.len());
        let end = end.ok_or_else(|| broken("R2T beyond the data of its command"))?;
        let most = index(self.host_data_max);
        if start == 0 && end == command.data.len() && bytes <= most {
            let data = std::mem::take(&mut command.data);
            self.output.push(self.encoder.encode_h2c_data_header(transfer, true).bytes());
            let digest = self.encoder.digests.data.then(|| digest(&data));
            self.output.push_data_without_copy(data, bytes, 0);
            digest.into_iter().for_each(|digest| self.output.push(&digest.to_le_bytes()));
            return Ok(());
        }
        for piece in (start..end).step_by(most.max(4)) {
            let piece_end = end.min(piece + most);
            let data = &command.data[piece..piece_end];
            let part = Transfer { offset: short_length(piece), bytes: short_length(data.len()), ..*transfer };
            self.output.push(self.encoder.encode_h2c_data_header(&part, piece_end == end).bytes());
            self.output.push(data);
            if self.encoder.digests.data {
                self.output.push(&digest(data).to_le_bytes());
            }
        }
        Ok(())
    }

    fn finish(&mut self, id: u16, status: Status, result: u64) -> io::Result<ClientCompletion> {
        let command = self.commands.get_mut(usize::from(id)).filter(|command| command.is_open);
        let command = command.ok_or_else(|| broken("a completion of no command"))?;
        command.is_open = false;
        let data = if command.is_kept { std::mem::take(&mut command.data) } else { Vec::new() };
        Ok(ClientCompletion { id, status, result, data })
    }

    /// Executes one command, and returns its completion. No other command may be in flight.
    ///
    /// # Errors
    /// If the connection breaks, or the target does not answer in time.
    pub fn execute(&mut self, entry: &SubmissionEntry, data: ClientCommandData<'_>) -> io::Result<ClientCompletion> {
        self.submit(0, entry, data);
        let until = Instant::now() + PATIENCE;
        loop {
            self.send()?;
            match self.completion()? {
                Some(completion) => return Ok(completion),
                None if self.output.is_empty() => self.block_for_bytes_until(until)?,
                None => {}
            }
        }
    }

    /// Connects the queue of this connection.
    ///
    /// # Errors
    /// If the connection breaks, or the target refuses the queue.
    pub fn connect_queue(&mut self, connect: Connect, data: &ConnectData) -> io::Result<u16> {
        let entry = FabricsCommand::Connect(connect).entry(0);
        let completion = self.execute(&entry, ClientCommandData::Send(&data.encode()))?;
        let result = fine(&completion, "Connect")?;
        self.is_challenged = low_u32(result) & (authentication::IN_BAND | authentication::SECURE_CHANNEL) != 0;
        Ok(low_u16(result))
    }

    /// Authenticates the host on a queue that has been connected, if the target asks for that.
    ///
    /// # Errors
    /// If the host has no keys, or those of host and target differ, or the host has a key of the controller and the target
    /// does not authenticate: any program could answer at its address.
    pub(super) fn authenticate(&mut self, host: &HostNameAndIdentifier, subsystem: &str) -> io::Result<()> {
        if !std::mem::take(&mut self.is_challenged) {
            let needs_proof = host.keys.as_ref().is_some_and(ClientKeys::requires_target_authentication);
            return if needs_proof { Err(io::Error::new(io::ErrorKind::PermissionDenied, NO_PROOF)) } else { Ok(()) };
        }
        let Some(keys) = &host.keys else {
            return Err(io::Error::other("the target asks the host to authenticate: keys=FILE behind its address"));
        };
        keys.authenticate([&host.name, subsystem], |exchange| {
            let transfer = |bytes: usize| AuthenticationTransferFields {
                protocol: SECURITY_PROTOCOL,
                specific: PROTOCOL_SPECIFIC,
                bytes: short_length(bytes),
            };
            let (command, data) = match exchange {
                AuthenticationCommandExchange::Send(message) => {
                    (FabricsCommand::AuthenticationSend(transfer(message.len())), ClientCommandData::Send(message))
                }
                AuthenticationCommandExchange::Receive => {
                    let data = ClientCommandData::Receive { bytes: short_length(MESSAGE_BYTES_MAX), is_kept: true };
                    (FabricsCommand::AuthenticationReceive(transfer(MESSAGE_BYTES_MAX)), data)
                }
            };
            let completion = self.execute(&command.entry(0), data)?;
            fine(&completion, "authentication")?;
            Ok(completion.data)
        })
    }
}

pub(super) fn broken(found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the target sent {found}"))
}

/// Returns the result of a successful command.
pub(super) fn fine(completion: &ClientCompletion, command: &str) -> io::Result<u64> {
    match completion.status.kind() {
        Status::SUCCESS => Ok(completion.result),
        status => Err(io::Error::other(format!("the target refuses {command} with status {:#06x}", status.0))),
    }
}
