//! Drives over NVMe/TCP: data paths, hosts that come and go, errors of the protocol, discovery, and several threads.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry, admin};
use phaselink_core::random::mix;
use phaselink_serve::device::faults::{FaultRuleScope, Faults};
use phaselink_serve::device::geometry;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::FrontEndArguments;
use phaselink_serve::front::nvme_tcp::NvmeTcpFrontEnd;
use phaselink_serve::front::nvme_tcp::address::{self, TargetAddress};
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::fabrics::{
    ANY_CONTROLLER, Connect, ConnectData, DISCOVERY_NQN, FabricsCommand, field, status,
};
use phaselink_serve::front::nvme_tcp::initiator::{Initiator, read_discovery_records};
use phaselink_serve::front::nvme_tcp::wire::{
    Digests, Encoder, InitializationParameters, PduLayout, PduLimits, PduType, Sender, TerminationStatus, Transfer, at,
};
use phaselink_serve::front::nvme_tcp::{fabrics, wire};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::nvme::discovery::DiscoveredSubsystemType;
use phaselink_serve::server::Server;

pub(crate) const GEOMETRY: Geometry = Geometry { capacity_bytes: 4 << 20, block_bytes: 512 };
const PATIENCE: Duration = Duration::from_secs(20);

/// Settings of a flash drive with placement handles.
pub(crate) const PLACEMENT: [&str; 7] = [
    "media.capacity_mib=512",
    "media.channels=4",
    "media.banks_per_channel=1",
    "media.block_pages=12",
    "translation.over_provisioning=0.2",
    "translation.precondition=none",
    "placement.handles=4",
];

pub(crate) struct Running {
    pub(crate) target: TargetAddress,
    pub(crate) subsystem: String,
    /// Faults and paths of the server.
    pub(crate) faults: Arc<Faults>,
    /// All addresses of the server; `target` is the first.
    pub(crate) addresses: Vec<String>,
    _server: BackgroundServer,
}

impl Running {
    fn port(&self) -> SocketAddr {
        self.target.port
    }

    fn open(&self) -> Initiator {
        self.open_with_keep_alive(0)
    }

    /// A controller with this keep-alive timeout. The places of hosts that have just left may still be taken.
    fn open_with_keep_alive(&self, keep_alive_ms: u32) -> Initiator {
        retry_until_ok(|| Initiator::open(&self.target, &HostNameAndIdentifier::default(), keep_alive_ms))
    }

    fn address_with_digests(&self) -> TargetAddress {
        TargetAddress { digests: Digests { header: true, data: true }, ..self.target.clone() }
    }
}

/// Serve a drive at a free port, with these flags of the front-end.
pub(crate) fn serve_with(settings: &[&str], timing: bool, threads: usize, flags: &[(&'static str, String)]) -> Running {
    let store = Store::in_memory(GEOMETRY).unwrap();
    serve_drive(drive_of("nvme", settings), store, (timing, threads), local(1, flags))
}

/// A shipped drive with other values of some keys.
pub(crate) fn drive_of(name: &str, settings: &[&str]) -> Drive {
    let shipped = shipped::find(name).unwrap();
    let settings: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_toml(shipped.file, shipped.text, &settings).unwrap()
}

/// The store of a drive, with its zones.
pub(crate) fn store_of(drive: &Drive) -> Store {
    let store = Store::in_memory(geometry(drive)).unwrap();
    match drive.zone_layout() {
        Some(layout) => store.with_zones(layout).unwrap(),
        None => store,
    }
}

/// Free ports of the loopback, with these flags.
pub(crate) fn local(ports: usize, flags: &[(&'static str, String)]) -> FrontEndArguments {
    let addresses = vec![String::from("127.0.0.1:0"); ports];
    FrontEndArguments { addresses, settings: flags.to_vec(), ..FrontEndArguments::default() }
}

pub(crate) fn serve_drive(
    drive: Drive,
    store: Store,
    (timing, threads): (bool, usize),
    arguments: FrontEndArguments,
) -> Running {
    let (alone, geometry) = (alone(), store.geometry());
    let mut device = device(drive, store);
    device.faults = Arc::new(Faults::new(FaultRuleScope { model: timing, interrupts: false, connections: true }));
    let front = NvmeTcpFrontEnd::bind(&arguments, &device.drive, geometry).unwrap();
    let subsystem = String::from(front.subsystem());
    let (addresses, faults) = (phaselink_serve::front::Front::addresses(&front), Arc::clone(&device.faults));
    let server = Server {
        device,
        timing,
        wait: Wait::Adaptive,
        seed: 1,
        fronts: vec![Box::new(front)],
        metrics: None,
        device_threads: threads,
        control: None,
    };
    let target = TargetAddress::of(address::parse_port_address(&addresses[0], true).unwrap());
    Running { target, subsystem, faults, addresses, _server: BackgroundServer::start(server, alone) }
}

fn serve() -> Running {
    serve_with(&[], false, 1, &[])
}

pub(crate) fn io(opcode: u8, slba: u64, blocks: u32) -> SubmissionEntry {
    SubmissionEntry { opcode, namespace_id: 1, ..SubmissionEntry::default() }.of_blocks(slba, blocks)
}

pub(crate) fn bytes_of(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|place| mix((seed << 32) | (place / 8)) as u8).collect()
}

pub(crate) fn write(client: &mut Client, slba: u64, data: &[u8]) {
    let entry = io(opcode::WRITE, slba, data.len() as u32 / 512);
    assert_eq!(client.execute(&entry, ClientCommandData::Send(data)).unwrap().status, Status::SUCCESS);
}

pub(crate) fn read(client: &mut Client, slba: u64, bytes: usize) -> Vec<u8> {
    let entry = io(opcode::READ, slba, bytes as u32 / 512);
    let completion = client.execute(&entry, ClientCommandData::Receive { bytes: bytes as u32, is_kept: true }).unwrap();
    assert_eq!(completion.status, Status::SUCCESS);
    completion.data
}

#[test]
fn tcp_data_reads_back_on_all_paths_with_and_without_digests() {
    for (timing, threads) in [(false, 1), (true, 1), (true, 2)] {
        let running = serve_with(&[], timing, threads, &[]);
        for target in [running.target.clone(), running.address_with_digests()] {
            let mut initiator = Initiator::open(&target, &HostNameAndIdentifier::default(), 0).unwrap();
            assert_eq!(initiator.subsystem, running.subsystem);
            assert_eq!(initiator.namespace().unwrap(), (1, GEOMETRY.capacity_bytes / 512, 9));
            let mut queue = initiator.queue(1, 32).unwrap();
            // Small writes send their data in the capsule, large ones after R2T.
            for (seed, bytes) in [(1, 512), (2, 8192), (3, 8704), (4, 128 << 10)] {
                let data = bytes_of(seed, bytes);
                write(&mut queue, seed * 300, &data);
                assert!(read(&mut queue, seed * 300, bytes) == data, "{bytes} bytes, timing {timing}");
            }
            assert_eq!(
                queue.execute(&io(opcode::FLUSH, 0, 1), ClientCommandData::None).unwrap().status,
                Status::SUCCESS
            );
            let compare = io(opcode::COMPARE, 300, 1);
            let (same, other) = (bytes_of(1, 512), bytes_of(9, 512));
            for (data, expected) in [(same, Status::SUCCESS), (other, Status::COMPARE_FAILURE)] {
                assert_eq!(queue.execute(&compare, ClientCommandData::Send(&data)).unwrap().status.kind(), expected);
            }
            initiator.close().unwrap();
        }
    }
}

#[test]
fn deep_tcp_queue_completes_all_commands_with_their_data() {
    let running = serve();
    let initiator = running.open();
    let mut queue = initiator.queue(3, 64).unwrap();
    for round in 0..20_u64 {
        for is_write in [true, false] {
            for slot in 0..64_u16 {
                let blocks = 1 + u32::from(slot) % 40;
                let slba = u64::from(slot) * 64;
                match is_write {
                    true => {
                        let data = bytes_of(round * 64 + u64::from(slot), blocks as usize * 512);
                        queue.submit(slot, &io(opcode::WRITE, slba, blocks), ClientCommandData::Send(&data));
                    }
                    false => {
                        let data = ClientCommandData::Receive { bytes: blocks * 512, is_kept: true };
                        queue.submit(slot, &io(opcode::READ, slba, blocks), data);
                    }
                }
            }
            let mut left = 64;
            while left > 0 {
                queue.send().unwrap();
                while let Some(completion) = queue.completion().unwrap() {
                    assert_eq!(completion.status, Status::SUCCESS);
                    let slot = u64::from(completion.id);
                    let expected = bytes_of(round * 64 + slot, (1 + slot as usize % 40) * 512);
                    assert!(is_write || completion.data == expected, "slot {slot}");
                    left -= 1;
                }
                queue.send().unwrap();
                if left > 0 {
                    queue.sleep(Some(Duration::from_millis(1))).unwrap();
                    queue.receive().unwrap();
                }
            }
        }
    }
}

#[test]
fn fabric_identify_and_properties_are_as_specified() {
    let running = serve();
    let mut initiator = running.open();
    let page = initiator.read_identify_structure(1, 0).unwrap();
    let u16_at = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    assert_eq!(u16_at(78), initiator.controller_id);
    // Capsules of 64 and 8,192 bytes (in units of 16), no offset, one SGL descriptor, and support for Disconnect.
    assert_eq!((u16_at(1792), u16_at(1796), u16_at(1800)), ((64 + 8192) / 16, 1, 0));
    assert_eq!((page[1803], page[1804], page[111]), (1, 1, 1));
    let name = running.subsystem.as_bytes();
    assert_eq!(&page[768..768 + name.len()], name);
    // Commands that create or delete queues in host memory are invalid in a fabric.
    for opcode in [admin::CREATE_SUBMISSION_QUEUE, admin::DELETE_COMPLETION_QUEUE, admin::DOORBELL_BUFFER_CONFIG] {
        let entry = SubmissionEntry { opcode, ..SubmissionEntry::default() };
        let completion = initiator.admin.execute(&entry, ClientCommandData::None).unwrap();
        assert_eq!(completion.status.kind(), Status::INVALID_OPCODE, "{opcode:#x}");
    }
    assert!(initiator.property(0x28, true).is_err() && initiator.set_property(0x1c, 0).is_err());
    assert_eq!(initiator.property(0x08, false).unwrap(), 0x0002_0000);
    // Features and log pages transfer their data like other commands.
    let mut timestamp = SubmissionEntry { opcode: admin::SET_FEATURES, ..SubmissionEntry::default() };
    timestamp.dwords[0] = 0x0e;
    let set = initiator.admin.execute(&timestamp, ClientCommandData::Send(&[1, 2, 3, 4, 5, 6, 0, 0])).unwrap();
    assert_eq!(set.status, Status::SUCCESS);
    let mut health = SubmissionEntry { opcode: admin::GET_LOG_PAGE, namespace_id: u32::MAX, ..timestamp };
    health.dwords[0] = 0x02 | 127 << 16;
    assert_eq!(initiator.execute_admin_read(&health, 512).unwrap()[1..3], 300_u16.to_le_bytes());
}

#[test]
fn reset_ends_io_queues_and_allows_enabling_again() {
    let running = serve();
    let mut initiator = running.open();
    let mut queue = initiator.queue(1, 8).unwrap();
    write(&mut queue, 0, &[7; 512]);
    initiator.set_property(0x14, 0).unwrap();
    assert_eq!(initiator.property(0x1c, false).unwrap(), 0);
    assert!(queue.execute(&io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 512, is_kept: true }).is_err());
    // The controller is disabled, so admin commands are refused.
    let refused = initiator
        .admin
        .execute(&SubmissionEntry { opcode: admin::KEEP_ALIVE, ..SubmissionEntry::default() }, ClientCommandData::None);
    assert_eq!(refused.unwrap().status.kind(), Status::COMMAND_SEQUENCE_ERROR);
    assert!(initiator.queue(1, 8).is_err());
    initiator.enable().unwrap();
    let mut queue = initiator.queue(1, 8).unwrap();
    assert_eq!(read(&mut queue, 0, 512), [7; 512]);
    // A queue can be connected only once, and only within the number of queues.
    assert!(initiator.queue(1, 8).is_err() && initiator.queue(200, 8).is_err());
    // After Disconnect, the queue can be connected again.
    let disconnect = FabricsCommand::Disconnect { record_format: 0 }.entry(0);
    assert_eq!(queue.execute(&disconnect, ClientCommandData::None).unwrap().status, Status::SUCCESS);
    drop(queue);
    wait_until_true(|| initiator.queue(1, 8).is_ok());
}

fn wait_until_true(is_so: impl Fn() -> bool) {
    retry_until_ok(|| if is_so() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) });
}

/// What `attempt` returns once it succeeds.
pub(crate) fn retry_until_ok<T>(attempt: impl Fn() -> io::Result<T>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Opens a connection without ICReq.
fn connect_without_icreq(port: SocketAddr) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that the server sends until it closes.
fn read_until_closed(mut stream: &std::net::TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match io::Read::read_to_end(&mut stream, &mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error}"),
    }
}

/// Status and information of the termination request at the end of what a server has sent.
fn last_termination_request(bytes: &[u8]) -> (u16, u32) {
    let place = bytes.windows(4).rposition(|window| window[0] == 3 && window[2] == 24 && window[1] == 0).unwrap();
    let bytes = &bytes[place..];
    let status = u16::from_le_bytes([bytes[at::STATUS], bytes[at::STATUS + 1]]);
    (status, u32::from_le_bytes(bytes[at::INFORMATION..at::INFORMATION + 4].try_into().unwrap()))
}

#[test]
fn wrong_pdu_ends_only_its_connection_with_its_error() {
    let running = serve();
    let initiator = running.open();
    let mut witness = initiator.queue(1, 8).unwrap();
    let encoder = Encoder::default();
    let parameters = InitializationParameters { alignment: 0, digests: Digests::default(), limit: 0 };
    let hello = encoder.initialize(PduType::InitializeRequest, &parameters).bytes().to_vec();
    let changed = |bytes: &[u8], place: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[place] = value;
        bytes
    };
    let transfer = Transfer { command_id: 0, tag: 9, offset: 0, bytes: 512 };
    let data = [encoder.encode_h2c_data_header(&transfer, true).bytes(), &[0; 512]].concat();
    let capsule = encoder.command(&[0; 64], 0).bytes().to_vec();
    let field = |at: usize| (TerminationStatus::InvalidHeaderField as u16, at as u32);
    let sequence = (TerminationStatus::SequenceError as u16, 0);
    let cases: Vec<(&str, Vec<u8>, (u16, u32))> = vec![
        ("no ICReq", capsule.clone(), sequence),
        ("unknown type", changed(&hello, 0, 0x20), field(at::TYPE)),
        ("type of a controller", changed(&hello, 0, 5), field(at::TYPE)),
        ("HLEN of ICReq", changed(&hello, 2, 8), field(at::HEADER_LENGTH)),
        ("PLEN of ICReq", changed(&hello, 4, 127), field(at::LENGTH)),
        ("version", changed(&hello, 8, 1), (TerminationStatus::UnsupportedParameter as u16, 8)),
        ("HPDA", changed(&hello, 10, 32), field(at::ALIGNMENT)),
        ("digests", changed(&hello, 11, 4), field(at::DIGESTS)),
        ("second ICReq", [&hello[..], &hello].concat(), sequence),
        ("digest that was not agreed", [&hello[..], &changed(&capsule, 1, 1)].concat(), field(at::FLAGS)),
        ("HLEN of a capsule", [&hello[..], &changed(&capsule, 2, 71)].concat(), field(at::HEADER_LENGTH)),
        ("PLEN beyond the capsule", [&hello[..], &changed(&capsule, 7, 1)].concat(), field(at::DATA_OFFSET)),
        ("data of no R2T", [&hello[..], &data].concat(), field(at::TAG)),
        ("data of another length", [&hello[..], &changed(&data, 17, 3)].concat(), field(at::BYTES)),
        ("unaligned data", [&hello[..], &changed(&data, 3, 25)].concat(), field(at::DATA_OFFSET)),
    ];
    for (what, bytes, expected) in cases {
        let mut stream = connect_without_icreq(running.port());
        io::Write::write_all(&mut stream, &bytes).unwrap();
        assert_eq!(last_termination_request(&read_until_closed(&stream)), expected, "{what}");
        write(&mut witness, 8, &[3; 512]);
    }
    // A truncated or empty message must not disturb the server either.
    for bytes in [&hello[..40], &[][..]] {
        let mut stream = connect_without_icreq(running.port());
        io::Write::write_all(&mut stream, bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read_until_closed(&stream), [0_u8; 0]);
    }
    assert_eq!(read(&mut witness, 8, 512), [3; 512]);
}

/// Sends bytes of its own over a connected queue, and returns status and information of the termination request.
fn termination_after_bytes(client: &mut Client, pdus: &[&[u8]]) -> (u16, u32) {
    let socket = std::sync::Arc::clone(client.stream().socket());
    for pdu in pdus {
        assert_eq!(client.stream().write(&[IoSlice::new(pdu)]).unwrap(), Some(pdu.len()));
    }
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    last_termination_request(&read_until_closed(&socket))
}

#[test]
fn wrong_transfer_data_ends_its_connection() {
    let running = serve();
    let initiator = running.open();
    let encoder = Encoder::default();
    let (prp1, prp2) = wire::CommandDataLocation::Transport { bytes: 16 << 10 }.descriptor();
    let entry = SubmissionEntry { flags: 0x40, prp1, prp2, command_id: 5, ..io(opcode::WRITE, 0, 32) };
    let command = encoder.command(&entry.encode(), 0).bytes().to_vec();
    let right = Transfer { command_id: 5, tag: 7, offset: 0, bytes: 1024 };
    let out_of_range = (TerminationStatus::DataOutOfRange as u16, 0);
    for (what, transfer, is_last, expected) in [
        ("another command", Transfer { command_id: 6, ..right }, false, (1, at::COMMAND_ID as u32)),
        ("not at its place", Transfer { offset: 512, ..right }, false, out_of_range),
        ("too much", Transfer { bytes: 17 << 10, ..right }, true, out_of_range),
        ("last too early", right, true, (1, at::FLAGS as u32)),
    ] {
        let mut queue = retry_until_ok(|| initiator.queue(1, 8));
        // R2T names the command by its identifier, which is the index of its slot.
        assert_eq!(queue.stream().write(&[IoSlice::new(&command)]).unwrap(), Some(command.len()));
        let mut header = [0; 24];
        read_when_available(&mut queue, &mut header);
        assert_eq!(header[0], PduType::ReadyToTransfer.number());
        let tag = u16::from_le_bytes([header[at::TAG], header[at::TAG + 1]]);
        let transfer = Transfer { tag, ..transfer };
        let data =
            [encoder.encode_h2c_data_header(&transfer, is_last).bytes(), &vec![0; transfer.bytes as usize]].concat();
        assert_eq!(termination_after_bytes(&mut queue, &[&data]), expected, "{what}");
    }
}

#[test]
fn stalled_or_reset_connection_frees_its_queue() {
    for threads in [1, 2] {
        let running = serve_with(&[], false, threads, &[]);
        let mut initiator = running.open();
        let mut witness = initiator.queue(2, 8).unwrap();
        let encoder = Encoder::default();
        let (prp1, prp2) = wire::CommandDataLocation::Transport { bytes: 128 << 10 }.descriptor();
        let entry = SubmissionEntry { flags: 0x40, prp1, prp2, command_id: 5, ..io(opcode::WRITE, 0, 256) };
        let command = encoder.command(&entry.encode(), 0).bytes().to_vec();
        for round in 0..30_u32 {
            let mut queue = retry_until_ok(|| initiator.queue(1, 8));
            assert_eq!(queue.stream().write(&[IoSlice::new(&command)]).unwrap(), Some(command.len()));
            let mut header = [0; 24];
            read_when_available(&mut queue, &mut header);
            let tag = u16::from_le_bytes([header[at::TAG], header[at::TAG + 1]]);
            let transfer = Transfer { command_id: 5, tag, offset: 0, bytes: 128 << 10 };
            // Send only a part of the header, or a part of the data.
            let data = [encoder.encode_h2c_data_header(&transfer, true).bytes(), &vec![7; 100_000]].concat();
            let sent = &data[..[10, 24, 5000, 100_000][round as usize % 4]];
            assert_eq!(queue.stream().write(&[IoSlice::new(sent)]).unwrap(), Some(sent.len()));
            // The stalled connection sends nothing, and other queues continue at once.
            let start = Instant::now();
            write(&mut witness, 1000, &[round as u8; 4096]);
            assert_eq!(read(&mut witness, 1000, 4096), [round as u8; 4096]);
            initiator.read_identify_structure(1, 0).unwrap();
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
            if round % 2 == 0 {
                // Close with a reset instead of sending the remaining bytes.
                rustix::net::sockopt::set_socket_linger(&**queue.stream().socket(), Some(Duration::ZERO)).unwrap();
            }
        }
        // A write whose data is incomplete must not be executed.
        let mut queue = retry_until_ok(|| initiator.queue(1, 8));
        assert!(read(&mut queue, 0, 128 << 10) == vec![0; 128 << 10]);
    }
}

fn read_when_available(client: &mut Client, into: &mut [u8]) {
    let (start, mut filled) = (Instant::now(), 0);
    while filled < into.len() {
        assert!(start.elapsed() < PATIENCE);
        filled += client.stream().read(&mut [IoSliceMut::new(&mut into[filled..])]).unwrap().unwrap_or(0);
    }
}

#[test]
fn wrong_data_digest_fails_only_its_command() {
    let running = serve();
    let initiator = Initiator::open(&running.address_with_digests(), &HostNameAndIdentifier::default(), 0).unwrap();
    let mut queue = initiator.queue(1, 8).unwrap();
    write(&mut queue, 0, &[1; 512]);
    let (prp1, prp2) = wire::CommandDataLocation::InCapsule { offset: 0, bytes: 512 }.descriptor();
    let entry = SubmissionEntry { flags: 0x40, prp1, prp2, command_id: 5, ..io(opcode::WRITE, 0, 1) };
    let header = queue.encoder().command(&entry.encode(), 512);
    let pdu = [header.bytes(), &[2; 512], &[0; 4]].concat();
    assert_eq!(queue.stream().write(&[IoSlice::new(&pdu)]).unwrap(), Some(pdu.len()));
    let mut bytes = [0; 28];
    read_when_available(&mut queue, &mut bytes);
    let limits = PduLimits { digests: Digests { header: true, data: true }, ..PduLimits::BEFORE };
    let layout = PduLayout::check(bytes.first_chunk().unwrap(), Sender::Controller, &limits).unwrap();
    let wire::PduHeader::Response(response) = layout.header(&bytes).unwrap() else { panic!("a response capsule") };
    let completion = phaselink_core::protocol::nvme::spec::CompletionEntry::decode(&response);
    assert_eq!((completion.command_id, completion.status), (5, status::TRANSIENT_TRANSPORT_ERROR));
    assert_eq!(read(&mut queue, 0, 512), [1; 512]);
}

#[test]
fn wrong_data_pointer_is_refused_with_its_status() {
    let running = serve();
    let initiator = running.open();
    let mut queue = initiator.queue(1, 8).unwrap();
    // Announce more data than the command transfers, and less.
    for bytes in [1024, 256] {
        let refused = queue.execute(&io(opcode::WRITE, 0, 1), ClientCommandData::Send(&vec![0; bytes])).unwrap();
        assert_eq!(refused.status.kind(), Status::INVALID_SGL_LENGTH, "{bytes}");
        let refused =
            queue.execute(&io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: bytes as u32, is_kept: false });
        assert_eq!(refused.unwrap().status.kind(), Status::INVALID_SGL_LENGTH, "{bytes}");
    }
    let long =
        queue.execute(&io(opcode::READ, 0, 1), ClientCommandData::Receive { bytes: 1 << 30, is_kept: false }).unwrap();
    assert_eq!(long.status.kind(), Status::INVALID_SGL_LENGTH);
    let missing =
        queue.execute(&io(opcode::READ, 1 << 40, 1), ClientCommandData::Receive { bytes: 512, is_kept: false });
    assert_eq!(missing.unwrap().status.kind(), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn keep_alive_timeout_removes_a_silent_hosts_controller() {
    let running = serve();
    let (mut silent, mut alive) = (running.open_with_keep_alive(2000), running.open_with_keep_alive(2000));
    let mut queue = silent.queue(1, 8).unwrap();
    let keep_alive = SubmissionEntry { opcode: admin::KEEP_ALIVE, ..SubmissionEntry::default() };
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(200));
        assert_eq!(alive.admin.execute(&keep_alive, ClientCommandData::None).unwrap().status, Status::SUCCESS);
    }
    assert!(silent.property(0x1c, false).is_err());
    assert!(queue.execute(&io(opcode::FLUSH, 0, 1), ClientCommandData::None).is_err());
}

/// Number of open descriptors of this process.
fn open_descriptor_count() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Number of threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Memory of this process that is resident, in bytes, with pages of at least 4 KiB.
fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn hundred_connects_leak_nothing() {
    let running = serve();
    let visit = |number: u64| {
        let initiator = running.open();
        let mut queue = initiator.queue(1, 8).unwrap();
        write(&mut queue, number, &[number as u8; 512]);
        // Some hosts disconnect properly, others just close their sockets.
        match number % 3 {
            0 => initiator.close().unwrap(),
            1 => drop(queue),
            _ => drop(initiator),
        }
    };
    (0..10).for_each(visit);
    wait_until_true(|| open_descriptor_count() < 1000);
    thread::sleep(Duration::from_millis(300));
    let before = (open_descriptor_count(), threads(), resident_bytes());
    (1..=100).for_each(visit);
    wait_until_true(|| open_descriptor_count() <= before.0 && threads() <= before.1);
    // Each of 100 hosts had two connections with receive buffers. If they leaked, far more than 16 MiB would remain.
    let grown = resident_bytes().saturating_sub(before.2);
    assert!(grown < 16 << 20, "{grown} bytes are kept");
}

fn connect_data(host: &str, subsystem: &str) -> ConnectData {
    ConnectData {
        host_id: [2; 16],
        controller: ANY_CONTROLLER,
        subsystem: String::from(subsystem),
        host: String::from(host),
    }
}

#[test]
fn only_allowed_hosts_up_to_the_limit_are_admitted() {
    let name = "nqn.2014-08.org.example:host";
    let running = serve_with(&[], false, 1, &[("hosts", format!("{name},nqn.other"))]);
    let admin = Connect { entries_field: 31, ..Connect::default() };
    let attempt = |host: &str, subsystem: &str| {
        let mut client = Client::connect(running.port(), Digests::default()).unwrap();
        let entry = FabricsCommand::Connect(admin).entry(0);
        let data = connect_data(host, subsystem).encode();
        let completion = client.execute(&entry, ClientCommandData::Send(&data)).unwrap();
        (completion.status.kind(), completion.result as u32, client)
    };
    let (status, ..) = attempt("nqn.stranger", &running.subsystem);
    assert_eq!(status, status::INVALID_HOST);
    let (status, result, _) = attempt(name, "nqn.elsewhere");
    assert_eq!((status, result), (status::INVALID_PARAMETERS, field::SUBSYSTEM.result()));
    let held: Vec<_> = (0..8).map(|_| attempt(name, &running.subsystem)).collect();
    assert!(held.iter().all(|(status, ..)| *status == Status::SUCCESS));
    assert_eq!(attempt(name, &running.subsystem).0, status::CONTROLLER_BUSY);
    // Discovery controllers do not count against the limit of hosts.
    assert_eq!(attempt(name, DISCOVERY_NQN).0, Status::SUCCESS);
    drop(held);
    wait_until_true(|| attempt(name, &running.subsystem).0 == Status::SUCCESS);
}

#[test]
fn discovery_reports_drive_referrals_and_changes() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("referrals.nvme-tcp");
    fs::write(&file, "# other services\n127.0.0.1:8009\n").unwrap();
    let running = serve_with(&[], false, 1, &[("referrals", file.display().to_string())]);
    let list =
        || read_discovery_records(running.port(), Digests::default(), &HostNameAndIdentifier::default()).unwrap().1;
    wait_until_true(|| list().len() == 2);
    let records = list();
    assert_eq!((records[0].kind, &records[0].subsystem), (DiscoveredSubsystemType::Drive, &running.subsystem));
    assert_eq!((records[0].address, records[0].port_id), (running.port(), 1));
    assert_eq!((records[1].kind, records[1].address.port()), (DiscoveredSubsystemType::Referral, 8009));
    // A persistent connection is told of a change after it has requested the event.
    let target = TargetAddress { subsystem: Some(String::from(DISCOVERY_NQN)), ..running.target.clone() };
    let mut host = Initiator::connect(&target, &HostNameAndIdentifier::default(), 60_000).unwrap();
    host.enable().unwrap();
    let (generation, _) = host.read_discovery_log().unwrap();
    let mut events = SubmissionEntry { opcode: admin::SET_FEATURES, ..SubmissionEntry::default() };
    (events.dwords[0], events.dwords[1]) = (0x0b, 1 << 31);
    assert_eq!(host.admin.execute(&events, ClientCommandData::None).unwrap().status, Status::SUCCESS);
    let request = SubmissionEntry { opcode: admin::ASYNC_EVENT_REQUEST, ..SubmissionEntry::default() };
    host.admin.submit(9, &request, ClientCommandData::None);
    host.admin.send().unwrap();
    fs::write(&file, "127.0.0.1:8009\n127.0.0.1:8010\n").unwrap();
    let event = loop {
        host.admin.sleep(Some(PATIENCE)).unwrap();
        host.admin.receive().unwrap();
        if let Some(event) = host.admin.completion().unwrap() {
            break event;
        }
    };
    assert_eq!((event.id, event.result), (9, 0x70_f002));
    let (changed, records) = host.read_discovery_log().unwrap();
    assert!(changed > generation && records.len() == 3);
}

/// Commands of a discovery controller.
const OF_DISCOVERY: [u8; 8] = [
    admin::GET_LOG_PAGE,
    admin::IDENTIFY,
    admin::ABORT,
    admin::SET_FEATURES,
    admin::GET_FEATURES,
    admin::ASYNC_EVENT_REQUEST,
    admin::KEEP_ALIVE,
    fabrics::OPCODE,
];

#[test]
fn discovery_controller_has_no_drive() {
    let drive = drive_of("tlc-gen4", &PLACEMENT);
    let store = store_of(&drive);
    let running = serve_drive(drive, store, (false, 1), local(1, &[]));
    let target = TargetAddress { subsystem: Some(String::from(DISCOVERY_NQN)), ..running.target.clone() };
    let mut host = Initiator::connect(&target, &HostNameAndIdentifier::default(), 0).unwrap();
    host.enable().unwrap();
    let mut status_of = |opcode: u8, dwords: [u32; 6], data| {
        let entry = SubmissionEntry { opcode, namespace_id: 1, dwords, ..SubmissionEntry::default() };
        host.admin.execute(&entry, data).unwrap().status.kind()
    };
    let into_host = ClientCommandData::Receive { bytes: 4096, is_kept: false };
    // Every Identify structure except that of the controller is refused.
    for selector in (0..0x20).filter(|selector| *selector != 1) {
        let status = status_of(admin::IDENTIFY, [selector, 0, 0, 0, 0, 0], into_host);
        assert_eq!(status, Status::INVALID_FIELD, "structure {selector:#x}");
    }
    // Every log page except the discovery log is refused.
    for log in (0..=0xff).filter(|log| *log != 0x70) {
        let status = status_of(admin::GET_LOG_PAGE, [log | 1023 << 16, 0, 0, 0, 0, 0], into_host);
        assert_eq!(status, Status::INVALID_LOG_PAGE, "log page {log:#x}");
    }
    // Every feature except events and the keep-alive timer is refused.
    for feature in (0..=0xff).filter(|feature| ![0x0b, 0x0f].contains(feature)) {
        for opcode in [admin::GET_FEATURES, admin::SET_FEATURES] {
            let data = if opcode == admin::GET_FEATURES { into_host } else { ClientCommandData::Send(&[0; 4096]) };
            assert_eq!(status_of(opcode, [feature, 0, 0, 0, 0, 0], data), Status::INVALID_FIELD, "{feature:#x}");
        }
    }
    // Every asynchronous event except the change of the discovery log page (bit 31) is refused.
    for bit in 0..31 {
        let status = status_of(admin::SET_FEATURES, [0x0b, 1 << bit, 0, 0, 0, 0], ClientCommandData::None);
        assert_eq!(status, Status::INVALID_FIELD, "event {bit}");
    }
    for opcode in (0..=0xff).filter(|opcode| !OF_DISCOVERY.contains(opcode)) {
        let data = match opcode & 3 {
            1 => ClientCommandData::Send(&[0; 4096]),
            2 => into_host,
            _ => ClientCommandData::None,
        };
        assert_eq!(status_of(opcode, [0; 6], data), Status::INVALID_OPCODE, "command {opcode:#x}");
    }
    assert!(host.queue(1, 8).is_err());
}

#[test]
fn host_follows_discovery_to_another_address_only_if_told() {
    let running = serve();
    // The relay makes the same server reachable at another loopback address, while its discovery controller is at
    // 127.0.0.1.
    let mut target = TargetAddress { port: ([127, 0, 0, 2], running.port().port()).into(), ..running.target.clone() };
    let relay = std::net::TcpListener::bind(target.port).unwrap();
    let inner = running.port();
    thread::spawn(move || {
        while let Ok((outside, _)) = relay.accept() {
            let Ok(inside) = std::net::TcpStream::connect(inner) else { return };
            for (mut from, mut into) in [(&outside, &inside), (&inside, &outside)]
                .map(|(from, into)| (from.try_clone().unwrap(), into.try_clone().unwrap()))
            {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut into);
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    let refused = Initiator::open(&target, &HostNameAndIdentifier::default(), 0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("follow-records"), "{refused}");
    target.follows_records = true;
    Initiator::open(&target, &HostNameAndIdentifier::default(), 0).unwrap().close().unwrap();
}

#[test]
fn discovery_names_the_address_the_host_used() {
    let arguments = FrontEndArguments {
        addresses: vec![String::from("0.0.0.0:0")],
        switches: vec!["beyond-loopback"],
        ..FrontEndArguments::default()
    };
    let running = serve_drive(drive_of("nvme", &[]), Store::in_memory(GEOMETRY).unwrap(), (false, 1), arguments);
    for ip in [[127, 0, 0, 1], [127, 0, 0, 5]] {
        let port = SocketAddr::from((ip, running.port().port()));
        let (_, records) = read_discovery_records(port, Digests::default(), &HostNameAndIdentifier::default()).unwrap();
        assert_eq!(records.iter().map(|record| record.address).collect::<Vec<_>>(), [port]);
    }
}

#[test]
fn queues_of_a_tcp_host_on_several_threads_keep_their_data() {
    let running = serve_with(&["nvme.queue_pairs=6"], false, 3, &[]);
    let mut initiator = running.open();
    let queues: Vec<Client> = (1..=6).map(|queue| initiator.queue(queue, 16).unwrap()).collect();
    thread::scope(|scope| {
        for (number, mut queue) in (0_u64..).zip(queues) {
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let data = bytes_of(number << 20 | round, 4096 << (round % 3));
                    write(&mut queue, number * 1000, &data);
                    assert!(read(&mut queue, number * 1000, data.len()) == data, "queue {number}");
                }
            });
        }
        // Admin commands take lent queues back and lend them again.
        for _ in 0..50 {
            initiator.read_identify_structure(1, 0).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
    });
}

#[test]
fn tcp_event_requests_can_be_aborted() {
    let running = serve();
    let mut initiator = running.open();
    let request = SubmissionEntry { opcode: admin::ASYNC_EVENT_REQUEST, ..SubmissionEntry::default() };
    initiator.admin.submit(4, &request, ClientCommandData::None);
    let mut abort = SubmissionEntry { opcode: admin::ABORT, ..SubmissionEntry::default() };
    abort.dwords[0] = 4 << 16;
    initiator.admin.submit(1, &abort, ClientCommandData::None);
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        initiator.admin.send().unwrap();
        initiator.admin.sleep(Some(PATIENCE)).unwrap();
        initiator.admin.receive().unwrap();
        while let Some(completion) = initiator.admin.completion().unwrap() {
            statuses.push((completion.id, completion.status.kind()));
        }
    }
    assert_eq!(statuses, [(4, Status::ABORT_REQUESTED), (1, Status::SUCCESS)]);
    // This server offers no authentication, and a second Connect is out of sequence.
    let authentication =
        FabricsCommand::AuthenticationReceive(fabrics::AuthenticationTransferFields::default()).entry(0);
    let refused =
        initiator.admin.execute(&authentication, ClientCommandData::Receive { bytes: 16, is_kept: false }).unwrap();
    assert_eq!(refused.status.kind(), Status::INVALID_FIELD);
}
