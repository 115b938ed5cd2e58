//! Reservations of a drive with two PCIe controllers: identifiers of hosts, resets, what the store keeps, and the commands of
//! zones, keys and administration.

use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{Status, admin};
use phaselink_serve::nvme::{Controller, Identity};

use crate::nvme_bench::{
    Bench, DATA, ENTRIES, Fields, LIMITS, create_completion_queue, create_submission_queue, transfer, u64_at,
};
use crate::nvme_key_value::KEYED;
use crate::nvme_zones::ZONED;

const FEATURE_HOST: u32 = 0x81;
const FEATURE_PERSISTENCE: u32 = 0x83;
/// Bit of the features of a host identifier that asks for 128 bits.
const IS_LONG: u32 = 1;
const EXCLUSIVE_ACCESS: u32 = 2;

/// Two controllers of a drive, each with a host of its own.
struct Pair {
    first: Bench,
    second: Bench,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let mut second = Bench::controller_off_with_limits(limits);
        let mut first = Bench::controller_off_with_limits(limits);
        let identity = Identity::new("test", limits, 0);
        second.controller = Controller::new(Identity::new("test", limits, 1).sharing(&identity.subsystem));
        first.controller = Controller::new(identity);
        restart(&mut first);
        restart(&mut second);
        Pair { first, second }
    }

    /// Lets the second controller work on the drive's bytes, which the first one has at other times.
    fn second<T>(&mut self, work: impl FnOnce(&mut Bench) -> T) -> T {
        std::mem::swap(&mut self.first.store, &mut self.second.store);
        let done = work(&mut self.second);
        std::mem::swap(&mut self.first.store, &mut self.second.store);
        done
    }
}

fn reserve(bench: &mut Bench, opcode: u8, dword10: u32, keys: [u64; 2]) -> Status {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    bench.machine.memory[DATA as usize..][..16].copy_from_slice(&bytes);
    let dwords = [dword10, 0, 0, 0, 0, 0];
    bench.ask(Fields { opcode, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() }).status
}

fn register(bench: &mut Bench, key: u64) -> Status {
    reserve(bench, opcode::RESERVATION_REGISTER, 0, [0, key])
}

fn acquire(bench: &mut Bench, key: u64, kind: u32) -> Status {
    reserve(bench, opcode::RESERVATION_ACQUIRE, kind << 8, [key, 0])
}

/// Sets the host identifier, of as many bytes as there are.
fn name(bench: &mut Bench, id: &[u8]) -> Status {
    bench.machine.memory[DATA as usize..][..id.len()].copy_from_slice(id);
    let is_long = u32::from(id.len() == 16);
    let dwords = [FEATURE_HOST, is_long, 0, 0, 0, 0];
    bench.administer(Fields { opcode: admin::SET_FEATURES, prp: [DATA, 0], dwords, ..Fields::default() }).status
}

fn feature(bench: &mut Bench, opcode: u8, id: u32, value: u32) -> (Status, u32) {
    let fields = Fields { opcode, namespace: 1, prp: [DATA, 0], dwords: [id, value, 0, 0, 0, 0], ..Fields::default() };
    let answer = bench.administer(fields);
    (answer.status, answer.result as u32)
}

fn read_status(bench: &mut Bench) -> Status {
    bench.ask(Fields { namespace: 1, ..transfer(opcode::READ, 0, 1, [DATA, 0]) }).status
}

fn restart(bench: &mut Bench) {
    bench.set(0x14, 0);
    bench.enable();
    for create in [create_completion_queue, create_submission_queue] {
        assert_eq!(bench.administer(create(1, ENTRIES)).status, Status::SUCCESS);
    }
}

#[test]
fn reservations_and_their_features_are_announced() {
    let mut bench = Bench::new();
    let oncs = u64_at(&bench.identify(1, 0).1, 520);
    assert_eq!(oncs >> 5 & 1, 1, "ONCS announces reservations");
    assert_eq!((bench.identify(0, 1).1[31], bench.identify_command_set(8, 0, 1).1[2]), (0xff, 0xff));
    let log = Fields { opcode: admin::GET_LOG_PAGE, namespace: u32::MAX, prp: [DATA, 0], ..Fields::default() };
    let dwords = [0x12 | 255 << 16, 0, 0, 0, 0, 0];
    assert_eq!(bench.administer(Fields { dwords, ..log }).status, Status::SUCCESS);
    let page = &bench.machine.memory[DATA as usize..][..1024];
    let effects = |id: usize| u32::from_le_bytes(*page[4 * id..].first_chunk().unwrap());
    // Host Identifier has controller scope (bit 21), the reservation features have namespace scope (bit 20).
    assert_eq!([0x81, 0x82, 0x83].map(effects), [1 | 1 << 21, 1 | 1 << 20, 1 | 1 << 20]);
}

#[test]
fn host_identifier_has_the_selected_length() {
    let mut bench = Bench::new();
    let get = |bench: &mut Bench, value| {
        bench.machine.memory[DATA as usize..][..16].fill(0xee);
        let status = feature(bench, admin::GET_FEATURES, FEATURE_HOST, value).0;
        (status, bench.machine.memory[DATA as usize..][..16].to_vec())
    };
    assert_eq!(get(&mut bench, IS_LONG), (Status::SUCCESS, vec![0; 16]));
    assert_eq!(name(&mut bench, &[7; 8]), Status::SUCCESS);
    assert_eq!(get(&mut bench, 0), (Status::SUCCESS, [vec![7; 8], vec![0xee; 8]].concat()));
    assert_eq!(get(&mut bench, IS_LONG).0, Status::HOST_IDENTIFIER_INCONSISTENT);
    assert_eq!(name(&mut bench, &[9; 16]), Status::SUCCESS);
    assert_eq!(get(&mut bench, IS_LONG), (Status::SUCCESS, vec![9; 16]));
    assert_eq!(get(&mut bench, 0).0, Status::HOST_IDENTIFIER_INCONSISTENT);
    restart(&mut bench);
    assert_eq!(get(&mut bench, IS_LONG), (Status::SUCCESS, vec![0; 16]), "a reset forgets it");
}

#[test]
fn unidentified_host_is_a_new_host_after_a_reset() {
    for id in [None, Some([3; 16])] {
        let mut pair = Pair::new(LIMITS);
        if let Some(id) = id {
            assert_eq!(name(&mut pair.first, &id), Status::SUCCESS);
        }
        assert_eq!(register(&mut pair.first, 1), Status::SUCCESS);
        assert_eq!(acquire(&mut pair.first, 1, EXCLUSIVE_ACCESS), Status::SUCCESS);
        assert_eq!(pair.second(read_status), Status::RESERVATION_CONFLICT);
        restart(&mut pair.first);
        let left = if id.is_some() { Status::RESERVATION_CONFLICT } else { Status::SUCCESS };
        assert_eq!(pair.second(read_status), left, "{id:?}");
        if let Some(id) = id {
            assert_eq!(read_status(&mut pair.first), Status::RESERVATION_CONFLICT, "it has not said who it is");
            assert_eq!(name(&mut pair.first, &id), Status::SUCCESS);
            assert_eq!(read_status(&mut pair.first), Status::SUCCESS);
            assert_eq!(pair.second(|bench| name(bench, &id)), Status::SUCCESS);
            assert_eq!(pair.second(read_status), Status::SUCCESS, "the same host on another controller");
        }
    }
}

#[test]
fn reservations_persist_if_requested() {
    for by_feature in [true, false] {
        let mut bench = Bench::new();
        assert_eq!(name(&mut bench, &[3; 16]), Status::SUCCESS);
        let get = |bench: &mut Bench| feature(bench, admin::GET_FEATURES, FEATURE_PERSISTENCE, 0);
        assert_eq!(get(&mut bench), (Status::SUCCESS, 0));
        match by_feature {
            true => {
                assert_eq!(feature(&mut bench, admin::SET_FEATURES, FEATURE_PERSISTENCE, 1).0, Status::SUCCESS);
                assert_eq!(register(&mut bench, 1), Status::SUCCESS);
            }
            false => {
                let persists = 0b11 << 30;
                assert_eq!(reserve(&mut bench, opcode::RESERVATION_REGISTER, persists, [0, 1]), Status::SUCCESS);
            }
        }
        assert_eq!(acquire(&mut bench, 1, EXCLUSIVE_ACCESS), Status::SUCCESS);
        assert_eq!(get(&mut bench), (Status::SUCCESS, 1));
        let Bench { store, .. } = bench;
        let mut again = Bench { store, ..Bench::off() };
        let identity = Identity::new("test", LIMITS, 0);
        identity.subsystem.load(&again.store).unwrap();
        again.controller = Controller::new(identity);
        restart(&mut again);
        assert_eq!(read_status(&mut again), Status::RESERVATION_CONFLICT);
        assert_eq!(name(&mut again, &[3; 16]), Status::SUCCESS);
        assert_eq!(read_status(&mut again), Status::SUCCESS);
    }
}

#[test]
fn reserved_namespace_cannot_be_formatted_or_deleted_by_others() {
    let mut pair = Pair::new(LIMITS.divided(2));
    assert_eq!(register(&mut pair.first, 1), Status::SUCCESS);
    assert_eq!(acquire(&mut pair.first, 1, 1), Status::SUCCESS);
    let format = |namespace| Fields { opcode: admin::FORMAT_NVM, namespace, ..Fields::default() };
    let delete = |namespace| Fields {
        opcode: admin::NAMESPACE_MANAGEMENT,
        namespace,
        dwords: [1, 0, 0, 0, 0, 0],
        ..Fields::default()
    };
    for fields in [format(1), format(u32::MAX), delete(1), delete(u32::MAX)] {
        assert_eq!(pair.second(|bench| bench.administer(fields)).status, Status::RESERVATION_CONFLICT);
    }
    assert_eq!(pair.second(|bench| bench.administer(format(2))).status, Status::SUCCESS);
    assert_eq!(pair.first.administer(format(1)).status, Status::SUCCESS);
    assert_eq!(pair.second(read_status), Status::SUCCESS, "writes alone are exclusive");
    assert_eq!(pair.first.administer(delete(1)).status, Status::SUCCESS);
}

#[test]
fn commands_of_all_sets_need_reservation_access() {
    let blocks = [opcode::READ, opcode::COMPARE, opcode::VERIFY, opcode::WRITE, opcode::WRITE_ZEROES, opcode::COPY];
    let zones = [
        opcode::READ,
        opcode::ZONE_MANAGEMENT_RECEIVE,
        opcode::ZONE_APPEND,
        opcode::WRITE,
        opcode::ZONE_MANAGEMENT_SEND,
    ];
    let keys = [opcode::RETRIEVE, opcode::LIST, opcode::EXIST, opcode::STORE, opcode::DELETE];
    for (limits, opcodes, reads) in [(LIMITS, &blocks[..], 3), (ZONED, &zones[..], 2), (KEYED, &keys[..], 3)] {
        let mut pair = Pair::new(limits);
        assert_eq!(register(&mut pair.first, 1), Status::SUCCESS);
        for (kind, allowed) in [(1, reads), (EXCLUSIVE_ACCESS, 0)] {
            assert_eq!(acquire(&mut pair.first, 1, kind), Status::SUCCESS);
            for (place, code) in opcodes.iter().enumerate() {
                // Fields that every command accepts: a key of one byte, a report or list of 4 KiB, or a zone to open.
                let dwords = match limits.kind {
                    NamespaceKind::Keyed(_) => [64, 1, 0, 0, 0, 0],
                    NamespaceKind::Zoned(_) if *code == opcode::ZONE_MANAGEMENT_SEND => [0, 0, 0, 3, 0, 0],
                    NamespaceKind::Zoned(_) if *code == opcode::ZONE_MANAGEMENT_RECEIVE => [0, 0, 1023, 0, 0, 0],
                    _ => [0; 6],
                };
                let fields = Fields { opcode: *code, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() };
                let refused = pair.second(|bench| bench.ask(fields)).status == Status::RESERVATION_CONFLICT;
                assert_eq!(refused, place >= allowed, "{code:#x} beside type {kind}");
            }
            assert_eq!(reserve(&mut pair.first, opcode::RESERVATION_RELEASE, kind << 8, [1, 0]), Status::SUCCESS);
        }
    }
}
