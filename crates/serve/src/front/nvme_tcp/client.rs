//! Host's end of NVMe/TCP: connects to any target, identifies the drive, and submits commands to its queues.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::number::{index, low_u16, low_u32, short_length};
use phaselink_core::protocol::nvme::spec::fields::{feature, identify, log};
use phaselink_core::protocol::nvme::spec::identify::{
    IdentifyController, IdentifyNamespace, LbaFormatEntry, NamespaceList,
};
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{DiscoveryEntry, DiscoveryHeader};
use phaselink_core::protocol::nvme::spec::{
    CompletionEntry, PSDT_SGL, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry, admin,
};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::address::TargetAddress;
use super::authentication::message::{MESSAGE_BYTES_MAX, PROTOCOL_SPECIFIC, SECURITY_PROTOCOL};
use super::client_keys::{AuthenticationExchange, ClientKeys};
use super::fabrics::{
    ANY_CONTROLLER, Connect, ConnectAttributes, ConnectData, DISCOVERY_NQN, FabricsCommand, SecurityTransfer,
    authentication,
};
use super::keyring::read_keys;
use super::output::Output;
use super::stream::ByteStream;
use super::wire::{
    COMMON_HEADER_BYTES, DIGEST_BYTES, DataPlace, Digests, Encoder, Parameters, PduHeader, PduLayout, PduLimits,
    PduType, Sender, Transfer, digest,
};
use crate::front::buffer::Buffer;
use crate::nvme::discovery::{self, DiscoveryRecord, SubsystemType};
use crate::nvme::identify::IDENTIFY_BYTES;
use crate::nvme::log_pages;

/// Room in bytes for received PDUs.
const INPUT_BYTES: usize = 128 << 10;
/// Number of data bytes in a capsule of the admin queue, which every controller accepts (Transport 1.0, section 3.3.2).
const ADMIN_CAPSULE_BYTES: u32 = 8192;
/// Time within which a target must answer an admin command, or become ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of entries of the client's admin queue.
const ADMIN_ENTRIES: u16 = 32;
/// Maximum number of data bytes of one PDU that a client receives (assumed: longer than any transfer).
const CONTROLLER_DATA_BYTES: u32 = 1 << 26;

/// Identifier of the feature Number of Queues, and the number of queues of each kind, less 1, that a client asks for.
const NUMBER_OF_QUEUES: u32 = 0x07;
const QUEUES_FIELD: u32 = 0xfe;

/// Name and identifier of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// NVMe Qualified Name of the host (HOSTNQN).
    pub name: String,
    /// Identifier of the host (HOSTID).
    pub id: [u8; 16],
    /// Keys of the host, if it has some.
    pub keys: Option<ClientKeys>,
}

impl Default for HostName {
    fn default() -> HostName {
        let name = String::from("nqn.2014-08.org.nvmexpress:uuid:70686173-656c-696e-6b2d-686f73743031");
        HostName { name, id: *b"phaselink-host01", keys: None }
    }
}

impl HostName {
    /// Returns the host that the file of keys of a target names, or one without keys.
    ///
    /// # Errors
    /// If the file cannot be read, or names no host.
    pub fn of(target: &TargetAddress) -> io::Result<HostName> {
        let Some(path) = &target.keys else { return Ok(HostName::default()) };
        let file = read_keys(path).map_err(io::Error::other)?;
        let (name, keys) =
            file.hosts().next().ok_or_else(|| io::Error::other(format!("{path}: no host in the file")))?;
        let keys = Some(ClientKeys::new(Arc::clone(keys)));
        Ok(HostName { name: String::from(name), keys, ..HostName::default() })
    }
}

/// Data of a command that a client submits.
#[derive(Clone, Copy, Debug)]
pub enum ClientData<'d> {
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
struct OpenCommand {
    is_open: bool,
    /// Bytes to be sent after R2T, or received bytes that are kept.
    data: Vec<u8>,
    /// Number of bytes that the controller may send.
    receivable: u32,
    is_kept: bool,
}

/// Data of a C2HData PDU that is being received.
#[derive(Clone, Copy, Debug)]
struct ClientPayload {
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
    commands: Vec<OpenCommand>,
    payload: Option<ClientPayload>,
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
    pub fn connect_host(target: &TargetAddress, host: &HostName, subsystem: &str) -> io::Result<Client> {
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
        while client.stream.is_in_handshake() {
            client.block(until)?;
        }
        let own = Parameters { alignment: 0, digests, limit: 0 };
        client.output.push(Encoder::default().initialize(PduType::InitializeRequest, &own).bytes());
        client.send()?;
        let response = loop {
            if let Some(PduHeader::InitializeResponse(response)) = client.next_header()? {
                break response;
            }
            client.block(Instant::now() + PATIENCE)?;
        };
        client.limits = PduLimits { digests: response.digests, ..client.limits };
        client.encoder = Encoder { digests: response.digests, alignment: response.alignment_bytes() };
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
    pub fn submit(&mut self, id: u16, entry: &SubmissionEntry, data: ClientData<'_>) {
        if self.commands.len() <= usize::from(id) {
            self.commands.resize_with(usize::from(id) + 1, OpenCommand::default);
        }
        let (place, capsule): (DataPlace, &[u8]) = match data {
            ClientData::None => (DataPlace::Transport { bytes: 0 }, &[]),
            ClientData::Send(bytes) if bytes.len() <= index(self.capsule_data_max) => {
                (DataPlace::InCapsule { offset: 0, bytes: short_length(bytes.len()) }, bytes)
            }
            ClientData::Send(bytes) => (DataPlace::Transport { bytes: short_length(bytes.len()) }, &[]),
            ClientData::Receive { bytes, .. } => (DataPlace::Transport { bytes }, &[]),
        };
        let (prp1, prp2) = place.descriptor();
        let entry = SubmissionEntry { command_id: id, flags: PSDT_SGL, prp1, prp2, ..*entry };
        let spare = self.spare.pop();
        let command = &mut self.commands[usize::from(id)];
        *command = OpenCommand { is_open: true, data: std::mem::take(&mut command.data), ..OpenCommand::default() };
        match data {
            ClientData::Send(bytes) if capsule.is_empty() => {
                command.data = spare.unwrap_or_default();
                command.data.clear();
                command.data.extend_from_slice(bytes);
            }
            ClientData::Receive { bytes, is_kept } => {
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

    fn block(&mut self, until: Instant) -> io::Result<()> {
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
                match self.receive_payload(payload)? {
                    None => return Ok(None),
                    Some(true) => return self.finish(payload.id, Status::SUCCESS, 0).map(Some),
                    Some(false) => continue,
                }
            }
            match self.next_header()? {
                None => return Ok(None),
                Some(PduHeader::Response(entry)) => {
                    let CompletionEntry { command_id, status, result, .. } = CompletionEntry::decode(&entry);
                    return self.finish(command_id, status, result).map(Some);
                }
                Some(PduHeader::ReadyToTransfer(transfer)) => self.send_data(&transfer)?,
                // Data sets the payload.
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
    fn next_header(&mut self) -> io::Result<Option<PduHeader>> {
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
            self.payload = Some(ClientPayload {
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
    fn receive_payload(&mut self, mut payload: ClientPayload) -> io::Result<Option<bool>> {
        let command = &mut self.commands[usize::from(payload.id)];
        // Data is checked as a whole, so it has to be there as a whole if it is not kept.
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
    fn send_data(&mut self, transfer: &Transfer) -> io::Result<()> {
        let command = self.commands.get_mut(usize::from(transfer.command_id)).filter(|command| command.is_open);
        let command = command.ok_or_else(|| broken("R2T for no command"))?;
        let (start, bytes) = (index(transfer.offset), index(transfer.bytes));
        let end = start.checked_add(bytes).filter(|end| *end <= command.data.len());
        let end = end.ok_or_else(|| broken("R2T beyond the data of its command"))?;
        let most = index(self.host_data_max);
        if start == 0 && end == command.data.len() && bytes <= most {
            let data = std::mem::take(&mut command.data);
            self.output.push(self.encoder.host_data(transfer, true).bytes());
            let digest = self.encoder.digests.data.then(|| digest(&data));
            self.output.push_data(data, bytes, 0);
            digest.into_iter().for_each(|digest| self.output.push(&digest.to_le_bytes()));
            return Ok(());
        }
        for piece in (start..end).step_by(most.max(4)) {
            let piece_end = end.min(piece + most);
            let data = &command.data[piece..piece_end];
            let part = Transfer { offset: short_length(piece), bytes: short_length(data.len()), ..*transfer };
            self.output.push(self.encoder.host_data(&part, piece_end == end).bytes());
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
    pub fn execute(&mut self, entry: &SubmissionEntry, data: ClientData<'_>) -> io::Result<ClientCompletion> {
        self.submit(0, entry, data);
        let until = Instant::now() + PATIENCE;
        loop {
            self.send()?;
            match self.completion()? {
                Some(completion) => return Ok(completion),
                None if self.output.is_empty() => self.block(until)?,
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
        let completion = self.execute(&entry, ClientData::Send(&data.encode()))?;
        let result = fine(&completion, "Connect")?;
        self.is_challenged = low_u32(result) & (authentication::IN_BAND | authentication::SECURE_CHANNEL) != 0;
        Ok(low_u16(result))
    }

    /// Authenticates the host on a queue that has been connected, if the target asks for that.
    ///
    /// # Errors
    /// If the host has no keys, or those of host and target differ.
    fn authenticate(&mut self, host: &HostName, subsystem: &str) -> io::Result<()> {
        if !std::mem::take(&mut self.is_challenged) {
            return Ok(());
        }
        let Some(keys) = &host.keys else {
            return Err(io::Error::other("the target asks the host to authenticate: keys=FILE behind its address"));
        };
        keys.authenticate([&host.name, subsystem], |exchange| {
            let transfer = |bytes: usize| SecurityTransfer {
                protocol: SECURITY_PROTOCOL,
                specific: PROTOCOL_SPECIFIC,
                bytes: short_length(bytes),
            };
            let (command, data) = match exchange {
                AuthenticationExchange::Send(message) => {
                    (FabricsCommand::AuthenticationSend(transfer(message.len())), ClientData::Send(message))
                }
                AuthenticationExchange::Receive => {
                    let data = ClientData::Receive { bytes: short_length(MESSAGE_BYTES_MAX), is_kept: true };
                    (FabricsCommand::AuthenticationReceive(transfer(MESSAGE_BYTES_MAX)), data)
                }
            };
            let completion = self.execute(&command.entry(0), data)?;
            fine(&completion, "authentication")?;
            Ok(completion.data)
        })
    }
}

fn broken(found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the target sent {found}"))
}

/// Returns the result of a successful command.
fn fine(completion: &ClientCompletion, command: &str) -> io::Result<u64> {
    match completion.status.kind() {
        Status::SUCCESS => Ok(completion.result),
        status => Err(io::Error::other(format!("the target refuses {command} with status {:#06x}", status.0))),
    }
}

/// Connected controller: its admin queue, and what a host has to know of it.
#[derive(Debug)]
pub struct Initiator {
    /// Connection of the admin queue.
    pub admin: Client,
    target: TargetAddress,
    host: HostName,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Identifier of the controller.
    pub controller_id: u16,
    /// Maximum number of entries of an I/O queue.
    pub queue_entries: u16,
    /// Number of I/O queues that the controller has granted.
    pub queues: u16,
    /// Maximum number of bytes of a transfer; none without a limit.
    pub transfer_bytes_max: Option<u32>,
    /// True if the drive has a volatile write cache.
    pub is_volatile: bool,
    capsule_data_max: u32,
}

/// Returns the records of the discovery controller at a port.
///
/// # Errors
/// If there is no discovery controller, or it breaks the protocol.
pub fn discover(port: SocketAddr, digests: Digests, host: &HostName) -> io::Result<(u64, Vec<DiscoveryRecord>)> {
    let target = TargetAddress { port, subsystem: Some(String::from(DISCOVERY_NQN)), digests, keys: None };
    let mut initiator = Initiator::connect(&target, host, 0)?;
    initiator.enable()?;
    initiator.discovery_log()
}

impl Initiator {
    /// Connects to a controller and identifies it. `keep_alive_ms` is 0 for no keep-alive timeout.
    ///
    /// # Errors
    /// If the target cannot be reached, refuses the host, or breaks the protocol.
    pub fn open(target: &TargetAddress, host: &HostName, keep_alive_ms: u32) -> io::Result<Initiator> {
        let mut target = target.clone();
        if target.subsystem.is_none() {
            let (_, records) = discover(target.port, target.digests, host)?;
            let drive = records.into_iter().find(|record| record.kind == SubsystemType::Drive);
            let drive = drive.ok_or_else(|| io::Error::other("the discovery controller lists no NVM subsystem"))?;
            (target.port, target.subsystem) = (drive.address, Some(drive.subsystem));
        }
        let mut initiator = Initiator::connect(&target, host, keep_alive_ms)?;
        initiator.enable()?;
        initiator.identify()?;
        Ok(initiator)
    }

    /// Connects the admin queue of a new controller, and leaves the controller disabled.
    ///
    /// # Errors
    /// As [`Initiator::open`].
    pub fn connect(target: &TargetAddress, host: &HostName, keep_alive_ms: u32) -> io::Result<Initiator> {
        let subsystem = target.subsystem.clone().unwrap_or_else(|| String::from(DISCOVERY_NQN));
        let mut admin = Client::connect_host(target, host, &subsystem)?;
        let connect = Connect {
            entries_field: ADMIN_ENTRIES - 1,
            attributes: ConnectAttributes::without_flow_control(),
            keep_alive_ms,
            ..Connect::default()
        };
        let data = ConnectData {
            host_id: host.id,
            controller: ANY_CONTROLLER,
            subsystem: subsystem.clone(),
            host: host.name.clone(),
        };
        let controller_id = admin.connect_queue(connect, &data)?;
        admin.authenticate(host, &subsystem)?;
        Ok(Initiator {
            admin,
            target: target.clone(),
            host: host.clone(),
            subsystem,
            controller_id,
            queue_entries: 0,
            queues: 0,
            transfer_bytes_max: None,
            is_volatile: false,
            capsule_data_max: 0,
        })
    }

    /// Returns the value of a property.
    ///
    /// # Errors
    /// If the connection breaks, or the property does not exist.
    pub fn property(&mut self, offset: u32, is_wide: bool) -> io::Result<u64> {
        let entry = FabricsCommand::PropertyGet { offset, is_wide }.entry(0);
        fine(&self.admin.execute(&entry, ClientData::None)?, "Property Get")
    }

    /// Sets a property of 4 bytes.
    ///
    /// # Errors
    /// As [`Initiator::property`].
    pub fn set_property(&mut self, offset: u32, value: u32) -> io::Result<()> {
        let entry = FabricsCommand::PropertySet { offset, value: value.into(), is_wide: false }.entry(0);
        fine(&self.admin.execute(&entry, ClientData::None)?, "Property Set").map(drop)
    }

    /// Enables the controller, and waits until it is ready.
    ///
    /// # Errors
    /// If the connection breaks, or the controller does not become ready.
    pub fn enable(&mut self) -> io::Result<()> {
        let capabilities = self.property(0, true)?;
        self.queue_entries = low_u16(capabilities).saturating_add(1);
        // Entries of 64 and 16 bytes. All command sets if the controller has others than that of blocks.
        let sets = if capabilities >> 43 & 1 == 1 { 0b110 << 4 } else { 0 };
        self.set_property(0x14, 6 << 16 | 4 << 20 | sets | 1)?;
        let until = Instant::now() + PATIENCE;
        while self.property(0x1c, false)? & 1 == 0 {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the controller does not become ready"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Executes an admin command that returns `bytes` bytes.
    ///
    /// # Errors
    /// If the connection breaks, or the command fails.
    pub fn read_admin(&mut self, entry: &SubmissionEntry, bytes: u32) -> io::Result<Vec<u8>> {
        let completion = self.admin.execute(entry, ClientData::Receive { bytes, is_kept: true })?;
        fine(&completion, "an admin command").map(|_| completion.data)
    }

    /// Returns the data structure of Identify that CNS selects.
    ///
    /// # Errors
    /// As [`Initiator::read_admin`].
    pub fn identify_structure(&mut self, selector: u8, namespace_id: u32) -> io::Result<Vec<u8>> {
        let entry = SubmissionEntry { opcode: admin::IDENTIFY, namespace_id, ..SubmissionEntry::default() };
        self.read_admin(&entry.with(identify::STRUCTURE, selector.into()), short_length(IDENTIFY_BYTES))
    }

    fn identify(&mut self) -> io::Result<()> {
        use IdentifyController as Field;
        let page = IdentifyController::over(self.identify_structure(1, 0)?);
        let capsule_bytes = page.get(Field::COMMAND_CAPSULE).saturating_mul(16);
        self.capsule_data_max = capsule_bytes.saturating_sub(short_length(SUBMISSION_ENTRY_BYTES));
        let pages = page.get(Field::TRANSFER_MAX);
        self.transfer_bytes_max = (pages > 0).then(|| 4096_u32.checked_shl(pages.into()).unwrap_or(u32::MAX));
        self.is_volatile = page.get(Field::WRITE_CACHE);
        let entry = SubmissionEntry { opcode: admin::SET_FEATURES, ..SubmissionEntry::default() }
            .with(feature::ID, NUMBER_OF_QUEUES)
            .with(feature::SUBMISSION_QUEUES, QUEUES_FIELD)
            .with(feature::COMPLETION_QUEUES, QUEUES_FIELD);
        let granted = low_u32(fine(&self.admin.execute(&entry, ClientData::None)?, "Set Features")?);
        let [submission, completion] =
            [feature::SUBMISSION_QUEUES, feature::COMPLETION_QUEUES].map(|field| low_u16(field.of_dword(granted)));
        self.queues = submission.min(completion).saturating_add(1);
        Ok(())
    }

    /// Returns generation and records of the discovery log page.
    ///
    /// # Errors
    /// As [`Initiator::read_admin`], or if the page is invalid.
    pub fn discovery_log(&mut self) -> io::Result<(u64, Vec<DiscoveryRecord>)> {
        let part = |bytes: usize| {
            let words = short_length(bytes / 4) - 1;
            let entry = SubmissionEntry { opcode: admin::GET_LOG_PAGE, ..SubmissionEntry::default() }
                .with(log::ID, log_pages::DISCOVERY.into())
                .with(log::DWORDS_LOW, words)
                .with(log::DWORDS_HIGH, words >> 16);
            (entry, short_length(bytes))
        };
        let (entry, bytes) = part(DiscoveryHeader::BYTES);
        let header = DiscoveryHeader::over(self.read_admin(&entry, bytes)?);
        let records = header.get(DiscoveryHeader::RECORDS).min(64);
        let (entry, bytes) = part(DiscoveryHeader::BYTES + DiscoveryEntry::BYTES * index(low_u32(records)));
        let page = self.read_admin(&entry, bytes)?;
        discovery::decode(&page).ok_or_else(|| broken("an invalid discovery log page"))
    }

    /// Returns the first active namespace: its identifier, its number of blocks, and the binary logarithm of their size
    /// in bytes.
    ///
    /// # Errors
    /// If there is no namespace of blocks without metadata, or as [`Initiator::read_admin`].
    pub fn namespace(&mut self) -> io::Result<(u32, u64, u32)> {
        let list = NamespaceList::over(self.identify_structure(2, 0)?);
        let id = list.get(NamespaceList::IDS.element(0));
        if id == 0 {
            return Err(io::Error::other("the drive has no namespace of blocks"));
        }
        let page = IdentifyNamespace::over(self.identify_structure(0, id)?);
        let settings = page.get(IdentifyNamespace::FORMAT);
        let format = usize::from(settings & 15) | usize::from(settings >> 5 & 3) << 4;
        let format = page.part(IdentifyNamespace::LBA_FORMATS.element(format));
        Ok((id, page.get(IdentifyNamespace::BLOCKS), format.get(LbaFormatEntry::BLOCK_SHIFT).into()))
    }

    /// Connects an I/O queue with this identifier and number of entries.
    ///
    /// # Errors
    /// If the target cannot be reached or refuses the queue.
    pub fn queue(&self, queue: u16, entries: u16) -> io::Result<Client> {
        let mut client = Client::connect_host(&self.target, &self.host, &self.subsystem)?;
        client.capsule_data_max = self.capsule_data_max;
        let attributes = ConnectAttributes::without_flow_control();
        let connect = Connect { queue, entries_field: entries - 1, attributes, ..Connect::default() };
        let data = ConnectData {
            host_id: self.host.id,
            controller: self.controller_id,
            subsystem: self.subsystem.clone(),
            host: self.host.name.clone(),
        };
        client.connect_queue(connect, &data)?;
        client.authenticate(&self.host, &self.subsystem)?;
        Ok(client)
    }

    /// Shuts the controller down, and ends the connection.
    ///
    /// # Errors
    /// If the connection is broken already.
    pub fn close(mut self) -> io::Result<()> {
        let configuration = self.property(0x14, false)?;
        self.set_property(0x14, low_u32(configuration) & !(3 << 14) | 1 << 14)?;
        let until = Instant::now() + PATIENCE;
        while self.property(0x1c, false)? >> 2 & 3 != 2 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
