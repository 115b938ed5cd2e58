//! Target that reads the PDUs of a host over NVMe/TCP, and completes the commands that arrive.

use phaselink_core::protocol::nvme::spec::Status;
use phaselink_serve::front::nvme_tcp::fabrics::{Connect, ConnectData, FabricsCommand};
use phaselink_serve::front::nvme_tcp::session::QueueConnectionState;
use phaselink_serve::front::nvme_tcp::wire::{
    CommandDataLocation, Digests, Encoder, InitializationParameters, PduType, Transfer,
};

use crate::Target;
use crate::script::Script;

/// Maximum number of data bytes of a command.
const DATA_MAX: u32 = 64 << 10;

/// Checks a connection. The first byte chooses digests, and if the connection is initialized and has a queue; the second
/// is the size of the pieces that arrive.
pub(super) const SESSION: Target = Target { name: "nvme-tcp", run: session, seeds: sessions };

fn session(input: &[u8]) {
    let mut script = Script::new(input);
    let (mode, piece_bytes) = (script.byte(), 1 + usize::from(script.byte()) * 16);
    let digests = Digests { header: mode & 1 != 0, data: mode & 2 != 0 };
    let mut session = QueueConnectionState::new(DATA_MAX);
    if mode & 4 == 0 {
        receive(&mut session, &greeting(digests), usize::MAX);
        assert!(session.is_open(), "a fair host is accepted");
        session.open_connected_queue(1, 2 + u32::from(mode >> 4), mode & 8 != 0);
    }
    receive(&mut session, script.bytes(usize::MAX), piece_bytes);
}

fn greeting(digests: Digests) -> Vec<u8> {
    let parameters = InitializationParameters { alignment: 3, digests, limit: 0 };
    Encoder::default().initialize(PduType::InitializeRequest, &parameters).bytes().to_vec()
}

/// Receives bytes, a piece at a time, and completes every command that has arrived.
fn receive(session: &mut QueueConnectionState, bytes: &[u8], piece_bytes: usize) {
    let mut rest = bytes;
    while !rest.is_empty() && !session.has_ended() {
        let [data, input] = session.room().expect("there is memory for a command");
        assert!(!data.is_empty() || !input.is_empty(), "a host that reads responses may send");
        let count = (data.len() + input.len()).min(piece_bytes).min(rest.len());
        let (piece, later) = rest.split_at(count);
        let (first, second) = piece.split_at(count.min(data.len()));
        data[..first.len()].copy_from_slice(first);
        input[..second.len()].copy_from_slice(second);
        session.filled(count);
        rest = later;
        while let Some((slot, entry)) = session.arrived() {
            let is_connect = matches!(FabricsCommand::decode(entry), Some(FabricsCommand::Connect(_)));
            session.take_arrived();
            if is_connect {
                let data = <[u8; 1024]>::try_from(session.data(slot));
                let _ = data.map(|data| ConnectData::decode(&data));
            }
            if let Some(place) = session.writable(slot, 0, 16) {
                place.fill(7);
            }
            session.respond(slot, Status::SUCCESS, 0);
        }
        while session.has_output() {
            let bytes: usize = session.output().iter().map(|slice| slice.len()).sum();
            assert!(bytes > 0, "what is to be sent has bytes");
            session.sent(bytes.min(1000));
        }
    }
}

fn sessions() -> Vec<Vec<u8>> {
    let encoder = Encoder::default();
    let read = |id: u16, bytes: u32| {
        let (prp1, prp2) = CommandDataLocation::Transport { bytes }.descriptor();
        entry(2, id, prp1, prp2)
    };
    let (prp1, prp2) = CommandDataLocation::InCapsule { offset: 0, bytes: 512 }.descriptor();
    let in_capsule = [encoder.command(&entry(1, 1, prp1, prp2), 512).bytes(), &[5; 512]].concat();
    let (prp1, prp2) = CommandDataLocation::Transport { bytes: 1024 }.descriptor();
    let write = encoder.command(&entry(1, 2, prp1, prp2), 0).bytes().to_vec();
    // The first free slot of a queue is its tag.
    let data = Transfer { command_id: 2, tag: 0, offset: 0, bytes: 1024 };
    let data = [encoder.encode_h2c_data_header(&data, true).bytes(), &[6; 1024]].concat();
    let reads = [encoder.command(&read(3, 4096), 0).bytes(), encoder.command(&read(4, 512), 0).bytes()].concat();
    let connect = Connect { entries_field: 31, ..Connect::default() };
    let connect = FabricsCommand::Connect(connect).entry(0).encode();
    let connect = [encoder.command(&connect, 0).bytes(), &[0; 64]].concat();
    let digests = Digests { header: true, data: true };
    let sealed = Encoder { digests, alignment: 4 }.command(&read(5, 512), 0).bytes().to_vec();
    let with = |mode: u8, parts: &[&[u8]]| [&[mode, 4], &parts.concat()[..]].concat();
    vec![
        with(0x40, &[&in_capsule, &reads]),
        with(0x48, &[&write, &data, &reads]),
        with(0x00, &[&connect]),
        with(0x43, &[&sealed]),
        with(0x04, &[&greeting(Digests::default()), &in_capsule]),
    ]
}

fn entry(opcode: u8, id: u16, prp1: u64, prp2: u64) -> [u8; 64] {
    let entry = phaselink_core::protocol::nvme::spec::SubmissionEntry {
        opcode,
        flags: 0x40,
        command_id: id,
        namespace_id: 1,
        prp1,
        prp2,
        ..Default::default()
    };
    entry.encode()
}
