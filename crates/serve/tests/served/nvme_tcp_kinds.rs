//! Drives of blocks, of zones and with placement handles: the same random commands over vfio-user and over NVMe/TCP get the same
//! statuses, results and data.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::background::{BackgroundServer, alone, device};
use crate::nvme_tcp::{PLACEMENT, drive_of, local, serve_drive, store_of};
use crate::vfio_client::{Client as VfioClient, DATA, DoorbellMethod, Driver, PAGE, RAM, RAM_BYTES};
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::random::Random;
use phaselink_serve::device::geometry;
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::initiator::Initiator;
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

const COMMANDS: usize = 4000;
/// Value of CC.CSS for all command sets, in its place.
const ALL_SETS: u32 = 0b110 << 4;

/// Command of a host, as far as it does not depend on the transport.
struct TransportNeutralCommand {
    opcode: u8,
    namespace: u32,
    dwords: [u32; 6],
    data: RandomData,
}

enum RandomData {
    None,
    Send(Vec<u8>),
    Receive(u32),
}

/// Completion of a command: status, value and data.
type Outcome = (Status, u64, Vec<u8>);

/// Commands that are drawn, the writes twice as often as others.
const OPCODES: [u8; 13] = [
    opcode::READ,
    opcode::WRITE,
    opcode::WRITE,
    opcode::WRITE_ZEROES,
    opcode::COMPARE,
    opcode::FLUSH,
    opcode::VERIFY,
    opcode::DATASET_MANAGEMENT,
    opcode::ZONE_APPEND,
    opcode::ZONE_MANAGEMENT_SEND,
    opcode::ZONE_MANAGEMENT_RECEIVE,
    opcode::IO_MANAGEMENT_RECEIVE,
    opcode::IO_MANAGEMENT_SEND,
];

fn random_command(random: &mut Random) -> TransportNeutralCommand {
    let mut below = |limit: u64| random.bits() % limit;
    let opcode = OPCODES[below(OPCODES.len() as u64) as usize];
    let (blocks, zone_blocks) = (1 + below(16), 4096_u64);
    // Draw zone starts and the blocks after them more often than others, so that some writes match the write pointers.
    let slba = match below(4) {
        0 => below(36_000),
        1 => below(9) * zone_blocks,
        _ => below(9) * zone_blocks + below(64),
    };
    let bytes = blocks as u32 * 512;
    let fill = below(256) as u8;
    let transfer = [slba as u32, 0, blocks as u32 - 1, 0, 0, 0];
    let (dwords, data) = match opcode {
        opcode::READ => (transfer, RandomData::Receive(bytes)),
        opcode::WRITE => {
            // Directive type of data placement, with a random placement identifier.
            let placement = if below(2) == 0 { 0 } else { 2 << 20 };
            let dwords = [slba as u32, 0, transfer[2] | placement, (below(6) as u32) << 16, 0, 0];
            (dwords, RandomData::Send(vec![fill; bytes as usize]))
        }
        opcode::COMPARE | opcode::ZONE_APPEND => (transfer, RandomData::Send(vec![fill; bytes as usize])),
        opcode::WRITE_ZEROES | opcode::VERIFY => (transfer, RandomData::None),
        opcode::DATASET_MANAGEMENT => {
            let range = [0, blocks as u32, slba as u32, 0].map(u32::to_le_bytes).concat();
            ([0, below(8) as u32, 0, 0, 0, 0], RandomData::Send(range))
        }
        opcode::ZONE_MANAGEMENT_SEND => {
            let action = [1, 2, 3, 4, 5, 0x11, 9][below(7) as usize] | (below(8) as u32 / 7) << 8;
            ([slba as u32, 0, 0, action, 0, 0], RandomData::None)
        }
        opcode::ZONE_MANAGEMENT_RECEIVE => {
            let words = 16 + below(200) as u32;
            ([slba as u32, 0, words - 1, (below(3) as u32) << 8, 0, 0], RandomData::Receive(words * 4))
        }
        opcode::IO_MANAGEMENT_RECEIVE => {
            let words = 16 + below(64) as u32;
            ([below(3) as u32, words - 1, 0, 0, 0, 0], RandomData::Receive(words * 4))
        }
        opcode::IO_MANAGEMENT_SEND => {
            let identifiers = [below(5) as u8, 0, below(5) as u8, 0];
            ([1 | 1 << 16, 0, 0, 0, 0, 0], RandomData::Send(identifiers.to_vec()))
        }
        _ => ([0; 6], RandomData::None),
    };
    let namespace = if below(50) == 0 { below(4) as u32 } else { 1 };
    TransportNeutralCommand { opcode, namespace, dwords, data }
}

/// Runs commands over vfio-user.
fn run_over_vfio_user(drive: Drive, commands: &[TransportNeutralCommand]) -> Vec<Outcome> {
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kinds.vfio");
    let (store, geometry, has_zones) = (store_of(&drive), geometry(&drive), drive.zones.is_there());
    let device = device(drive, store);
    let served = ControllerSocket::bind(&path, &device.drive, geometry, 0).unwrap();
    let server = Server {
        device,
        timing: false,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(VfioUser(vec![served]))],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    let _server = BackgroundServer::start(server, alone);
    let client = VfioClient::connect(&path);
    client.agree(r#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"write_multiple":true}}"#);
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    let mut driver =
        Driver::start_with_sets(client, RAM, DoorbellMethod::Messages, if has_zones { ALL_SETS } else { 0 });
    driver.bring_up_like_linux(1);
    let execute = |command: &TransportNeutralCommand| {
        let bytes = match &command.data {
            RandomData::None => 0,
            RandomData::Send(data) => {
                driver.memory().write_all_at(data, DATA).unwrap();
                0
            }
            RandomData::Receive(bytes) => *bytes,
        };
        driver.memory().write_all_at(&vec![0; bytes as usize], DATA).unwrap();
        let data = driver.base + DATA;
        driver.submit(1, command.opcode, command.namespace, [data, data + PAGE], command.dwords);
        let completion = driver.answer(1);
        let mut found = vec![0; bytes as usize];
        driver.memory().read_exact_at(&mut found, DATA).unwrap();
        command_outcome(completion.status, completion.result, found)
    };
    commands.iter().map(execute).collect()
}

/// Runs commands over NVMe/TCP.
fn run_over_tcp(drive: Drive, commands: &[TransportNeutralCommand]) -> Vec<Outcome> {
    let store = store_of(&drive);
    let running = serve_drive(drive, store, (false, 1), local(1, &[]));
    let initiator = Initiator::open(&running.target, &HostNameAndIdentifier::default(), 0).unwrap();
    let mut queue: Client = initiator.queue(1, 8).unwrap();
    let execute = |command: &TransportNeutralCommand| {
        let TransportNeutralCommand { opcode, namespace: namespace_id, dwords, data } = command;
        let entry = SubmissionEntry {
            opcode: *opcode,
            namespace_id: *namespace_id,
            dwords: *dwords,
            ..SubmissionEntry::default()
        };
        let data = match data {
            RandomData::None => ClientCommandData::None,
            RandomData::Send(data) => ClientCommandData::Send(data),
            RandomData::Receive(bytes) => ClientCommandData::Receive { bytes: *bytes, is_kept: true },
        };
        let completion = queue.execute(&entry, data).unwrap();
        command_outcome(completion.status, completion.result, completion.data)
    };
    commands.iter().map(execute).collect()
}

/// Data counts only if the command has succeeded.
fn command_outcome(status: Status, result: u64, data: Vec<u8>) -> Outcome {
    (status, result, if status == Status::SUCCESS { data } else { Vec::new() })
}

#[test]
fn random_commands_agree_over_vfio_user_and_tcp() {
    let zones =
        ["media.capacity_mib=16", "zones.size_mib=2", "zones.capacity_mib=1", "zones.open_max=3", "zones.active_max=4"];
    for (seed, name, settings) in
        [(1, "nvme", &["media.capacity_mib=8"][..]), (2, "nvme", &zones), (3, "tlc-gen4", &PLACEMENT)]
    {
        let mut random = Random::stream(seed, name);
        let commands: Vec<TransportNeutralCommand> = (0..COMMANDS).map(|_| random_command(&mut random)).collect();
        let expected = run_over_vfio_user(drive_of(name, settings), &commands);
        let found = run_over_tcp(drive_of(name, settings), &commands);
        for ((number, command), (expected, found)) in commands.iter().enumerate().zip(expected.iter().zip(&found)) {
            let what = format!("{name} {settings:?}: command {number}, {:#x} {:x?}", command.opcode, command.dwords);
            assert!(expected == found, "{what}: {:?} and {:?}", (expected.0, expected.1), (found.0, found.1));
        }
        let succeeded = found.iter().filter(|(status, ..)| *status == Status::SUCCESS).count();
        assert!(succeeded > COMMANDS / 10 && succeeded < COMMANDS, "{name}: {succeeded} of {COMMANDS}");
    }
}
