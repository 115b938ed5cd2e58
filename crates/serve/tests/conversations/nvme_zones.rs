//! Zones of a served drive, as an NVMe driver meets them: identification, writes, appends, states, reports, and what is kept.

use std::fs;
use std::path::{Path, PathBuf};

use crate::nvme_bench::{BLOCKS, Bench, DATA, Fields, GEOMETRY, LIMITS, transfer, u64_at};
use phaselink_core::media::zones::ZoneLayout;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::zones::NamespaceZoneLimits;
use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::device::store::{Store, StoredNamespaceKind};

/// Eight zones of 128 KiB, of which 100 KiB can be written.
const LAYOUT: ZoneLayout =
    ZoneLayout { zones: 8, zone_blocks: BLOCKS / 8, capacity_blocks: 200, active_max: 4, open_max: 3 };
pub(crate) const ZONED: Limits =
    Limits { kind: NamespaceKind::Zoned(NamespaceZoneLimits { layout: LAYOUT, append_bytes_max: 64 << 10 }), ..LIMITS };
/// First block of zone 1.
const FIRST: u64 = LAYOUT.zone_blocks;

const CLOSE: u32 = 1;
const FINISH: u32 = 2;
const OPEN: u32 = 3;
const RESET: u32 = 4;
const OFFLINE: u32 = 5;
const ALL: u32 = 1 << 8;

fn send(slba: u64, dword13: u32) -> Fields {
    let dwords = [slba as u32, 0, 0, dword13, 0, 0];
    Fields { opcode: opcode::ZONE_MANAGEMENT_SEND, namespace: 1, dwords, ..Fields::default() }
}

fn write(bench: &mut Bench, slba: u64, blocks: u32, byte: u8) -> Status {
    bench.machine.memory[DATA as usize..][..blocks as usize * 512].fill(byte);
    bench.ask(transfer(opcode::WRITE, slba, blocks, data_pages(blocks))).status
}

fn append(bench: &mut Bench, slba: u64, blocks: u32, byte: u8) -> CompletionEntry {
    bench.machine.memory[DATA as usize..][..blocks as usize * 512].fill(byte);
    bench.ask(transfer(opcode::ZONE_APPEND, slba, blocks, data_pages(blocks)))
}

/// Data of up to two pages; a longer transfer has its list behind the data.
fn data_pages(blocks: u32) -> [u64; 2] {
    assert!(blocks <= 16, "two pages");
    [DATA, DATA + 4096]
}

fn read(bench: &mut Bench, slba: u64, blocks: u32) -> (Status, Vec<u8>) {
    let status = bench.ask(transfer(opcode::READ, slba, blocks, data_pages(blocks))).status;
    (status, bench.machine.memory[DATA as usize..][..blocks as usize * 512].to_vec())
}

/// State and write pointer of each zone from the one of a block on.
fn report(bench: &mut Bench, slba: u64) -> Vec<(u8, u64)> {
    bench.machine.memory[DATA as usize..][..4096].fill(0xee);
    let dwords = [slba as u32, 0, 1023, 0, 0, 0];
    let fields =
        Fields { opcode: opcode::ZONE_MANAGEMENT_RECEIVE, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() };
    assert_eq!(bench.ask(fields).status, Status::SUCCESS);
    let report = &bench.machine.memory[DATA as usize..][..4096];
    let zone = |number: u64| {
        let zone = &report[64 + number as usize * 64..][..64];
        assert_eq!((zone[0], u64_at(zone, 8)), (2, LAYOUT.capacity_blocks));
        (zone[1] >> 4, u64_at(zone, 24))
    };
    (0..u64_at(report, 0)).map(zone).collect()
}

#[test]
fn zoned_drive_announces_its_command_set_and_limits() {
    let mut bench = Bench::with(ZONED);
    assert_eq!(bench.get(4) >> 5 & 0x41, 0x41, "CAP.CSS: NVM and others");
    assert_eq!(bench.identify(0x1c, 0).1[0], 0b101, "combination 0");
    let ids = bench.identify(3, 1).1;
    assert_eq!(ids[20..25], [4, 1, 0, 0, 2], "command set identifier");
    let (status, page) = bench.identify_command_set(5, 2, 1);
    assert_eq!((status, &page[4..12]), (Status::SUCCESS, &[3, 0, 0, 0, 2, 0, 0, 0][..]));
    assert_eq!((u64_at(&page, 2816), page[2824]), (LAYOUT.zone_blocks, 0));
    assert_eq!(bench.identify_command_set(6, 2, 0).1[0], 4, "ZASL: 16 pages");
    assert_eq!(bench.identify_command_set(7, 2, 0).1[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.identify_command_set(7, 0, 0).1[..4], [0; 4]);
    for cns in [5, 6, 7] {
        assert_eq!(bench.identify_command_set(cns, 1, 1).0, Status::INVALID_FIELD, "no key-value command set");
        assert_eq!(Bench::new().identify_command_set(cns, 2, 1).0, Status::INVALID_FIELD, "no zones");
    }
    assert_eq!(u64_at(&bench.identify(0, 1).1, 0), BLOCKS);
}

#[test]
fn command_effects_are_logged_per_command_set() {
    let mut bench = Bench::with(ZONED);
    let mut effects = |command_set: u32| {
        let dwords = [5 | 1023 << 16, 0, 0, 0, command_set << 24, 0];
        let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], dwords, ..Fields::default() };
        let status = bench.administer(fields).status;
        let place = |opcode: u8| bench.machine.memory[DATA as usize + 1024 + 4 * usize::from(opcode)];
        (status, [opcode::WRITE, opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND].map(place))
    };
    assert_eq!(effects(2), (Status::SUCCESS, [3, 3, 3]));
    assert_eq!(effects(0), (Status::SUCCESS, [3, 0, 0]));
    assert_eq!(effects(1).0, Status::INVALID_FIELD);
}

#[test]
fn zoned_controller_starts_with_all_command_sets() {
    let start = |limits| {
        let mut bench = Bench::controller_off_with_limits(limits);
        bench.set(0x24, 15 | 15 << 16);
        bench.set(0x28, crate::nvme_bench::ADMIN_QUEUE as u32);
        bench.set(0x30, crate::nvme_bench::ADMIN_ANSWERS as u32);
        bench.set(0x14, 1 | 0b110 << 4 | 6 << 16 | 4 << 20);
        bench.get(0x1c)
    };
    assert_eq!((start(ZONED), start(LIMITS)), (1, 2), "ready, fatal");
}

#[test]
fn zone_is_written_only_at_its_write_pointer() {
    let mut bench = Bench::with(ZONED);
    assert_eq!(write(&mut bench, FIRST, 8, 1), Status::SUCCESS);
    assert_eq!(write(&mut bench, FIRST, 8, 9), Status::ZONE_INVALID_WRITE);
    assert_eq!(write(&mut bench, FIRST + 9, 8, 9), Status::ZONE_INVALID_WRITE);
    assert_eq!(write(&mut bench, FIRST + 8, 1, 2), Status::SUCCESS);
    let appended = append(&mut bench, FIRST, 3, 3);
    assert_eq!((appended.status, appended.result), (Status::SUCCESS, FIRST + 9));
    assert_eq!(append(&mut bench, FIRST + 1, 1, 9).status, Status::INVALID_FIELD);
    assert_eq!(append(&mut bench, 0, 2, 4).result, 0);
    let (status, bytes) = read(&mut bench, FIRST, 16);
    let blocks: Vec<u8> = bytes.chunks(512).map(|block| block[511]).collect();
    assert_eq!((status, &blocks[..]), (Status::SUCCESS, &[1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 0, 0, 0, 0][..]));
    assert_eq!(read(&mut bench, FIRST - 4, 8).0, Status::ZONE_BOUNDARY_ERROR);
    assert_eq!(report(&mut bench, 0)[..3], [(2, 2), (2, FIRST + 12), (1, 2 * FIRST)]);
}

#[test]
fn appends_are_accepted_until_the_zone_is_full() {
    let mut bench = Bench::with(ZONED);
    let places: Vec<u64> = (0..25).map(|_| append(&mut bench, FIRST, 8, 1).result).collect();
    assert!(places.iter().zip(0..).all(|(place, number)| *place == FIRST + number * 8), "{places:?}");
    assert_eq!(append(&mut bench, FIRST, 1, 1).status, Status::ZONE_IS_FULL);
    assert_eq!(write(&mut bench, FIRST + 200, 1, 1), Status::ZONE_IS_FULL);
    assert_eq!((0..24).map(|_| append(&mut bench, 0, 8, 1).status).find(|it| *it != Status::SUCCESS), None);
    assert_eq!(append(&mut bench, 0, 16, 1).status, Status::ZONE_BOUNDARY_ERROR);
    assert_eq!(append(&mut bench, 0, 8, 1).result, 192);
    let long = transfer(opcode::ZONE_APPEND, 2 * FIRST, 129, [DATA, 0]);
    assert_eq!(bench.ask(long).status, Status::INVALID_FIELD);
    assert_eq!(report(&mut bench, 0)[..2], [(0xe, u64::MAX), (0xe, u64::MAX)]);
}

#[test]
fn zone_states_follow_host_actions_within_limits() {
    let mut bench = Bench::with(ZONED);
    let act = |bench: &mut Bench, zone: u64, action| bench.ask(send(zone * FIRST, action)).status;
    for zone in 0..3 {
        assert_eq!(act(&mut bench, zone, OPEN), Status::SUCCESS);
    }
    assert_eq!(act(&mut bench, 3, OPEN), Status::TOO_MANY_OPEN_ZONES);
    assert_eq!(write(&mut bench, 3 * FIRST, 1, 1), Status::TOO_MANY_OPEN_ZONES);
    assert_eq!(act(&mut bench, 2, CLOSE), Status::SUCCESS);
    assert_eq!(write(&mut bench, 3 * FIRST, 1, 1), Status::SUCCESS);
    assert_eq!(write(&mut bench, 4 * FIRST, 1, 1), Status::TOO_MANY_ACTIVE_ZONES);
    assert_eq!(act(&mut bench, 5, CLOSE), Status::INVALID_ZONE_STATE_TRANSITION);
    assert_eq!(act(&mut bench, 5, OFFLINE), Status::INVALID_ZONE_STATE_TRANSITION);
    assert_eq!(act(&mut bench, 0, FINISH), Status::SUCCESS);
    let states: Vec<u8> = report(&mut bench, 0).into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, [0xe, 3, 4, 2, 1, 1, 1, 1]);
    assert_eq!(act(&mut bench, 0, RESET), Status::SUCCESS);
    assert_eq!(bench.ask(send(1, RESET)).status, Status::INVALID_FIELD, "no first block of a zone");
    assert_eq!(bench.ask(send(u64::from(u32::MAX), RESET | ALL)).status, Status::SUCCESS);
    assert!(report(&mut bench, 0).iter().all(|(state, _)| *state == 1));
    bench.store.zones().unwrap().with(|zones| zones.make_read_only(6));
    assert_eq!(write(&mut bench, 6 * FIRST, 1, 1), Status::ZONE_IS_READ_ONLY);
    assert_eq!(act(&mut bench, 6, OFFLINE), Status::SUCCESS);
    assert_eq!(read(&mut bench, 6 * FIRST, 1).0, Status::ZONE_IS_OFFLINE);
}

#[test]
fn blocks_of_a_reset_zone_read_as_zeros() {
    let mut bench = Bench::with(ZONED);
    for zone in 0..3 {
        assert_eq!(write(&mut bench, zone * FIRST, 16, 7), Status::SUCCESS);
    }
    assert_eq!(bench.ask(send(FIRST, RESET)).status, Status::SUCCESS);
    let bytes = [0, 1, 2].map(|zone| read(&mut bench, zone * FIRST, 16).1);
    assert!(bytes[0].iter().chain(&bytes[2]).all(|byte| *byte == 7), "its neighbours stay");
    assert!(bytes[1].iter().all(|byte| *byte == 0));
    let format = Fields { opcode: admin::FORMAT_NVM, namespace: 1, ..Fields::default() };
    assert_eq!(bench.administer(format).status, Status::SUCCESS);
    assert_eq!(report(&mut bench, 0)[0], (1, 0));
    assert!(read(&mut bench, 0, 16).1.iter().all(|byte| *byte == 0));
}

#[test]
fn other_writes_and_copies_advance_the_write_pointer() {
    let mut bench = Bench::with(ZONED);
    let status = |bench: &mut Bench, opcode, slba| bench.ask(transfer(opcode, slba, 4, [DATA, 0])).status;
    assert_eq!(status(&mut bench, opcode::WRITE_ZEROES, FIRST + 4), Status::ZONE_INVALID_WRITE);
    assert_eq!(status(&mut bench, opcode::WRITE_ZEROES, FIRST), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::WRITE_UNCORRECTABLE, FIRST + 4), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::VERIFY, FIRST - 2), Status::ZONE_BOUNDARY_ERROR);
    assert_eq!(write(&mut bench, 0, 8, 5), Status::SUCCESS);
    let source = |slba: u64| [&[0; 8][..], &slba.to_le_bytes(), &7_u64.to_le_bytes(), &[0; 8]].concat();
    let copy = |bench: &mut Bench, from, to: u64| {
        bench.machine.memory[DATA as usize..][..32].copy_from_slice(&source(from));
        let dwords = [to as u32, 0, 0, 0, 0, 0];
        let fields = Fields { opcode: opcode::COPY, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() };
        bench.ask(fields).status
    };
    assert_eq!(copy(&mut bench, 0, FIRST), Status::ZONE_INVALID_WRITE);
    assert_eq!(copy(&mut bench, FIRST - 4, FIRST + 8), Status::ZONE_BOUNDARY_ERROR, "a source crosses zones");
    assert_eq!(copy(&mut bench, 0, FIRST + 8), Status::SUCCESS);
    assert!(read(&mut bench, FIRST + 8, 8).1.iter().all(|byte| *byte == 5));
    assert_eq!(report(&mut bench, FIRST)[0], (2, FIRST + 16));
}

#[test]
fn write_with_unreachable_data_leaves_the_write_pointer() {
    let mut bench = Bench::with(ZONED);
    assert_eq!(write(&mut bench, FIRST, 8, 1), Status::SUCCESS);
    let beyond = crate::nvme_bench::MEMORY as u64 * 2;
    for opcode in [opcode::WRITE, opcode::ZONE_APPEND] {
        let slba = if opcode == opcode::WRITE { FIRST + 8 } else { FIRST };
        assert_eq!(bench.ask(transfer(opcode, slba, 16, [DATA, beyond])).status, Status::DATA_TRANSFER_ERROR);
        assert_eq!(report(&mut bench, FIRST)[0], (2, FIRST + 8));
    }
    assert!(read(&mut bench, FIRST + 8, 8).1.iter().all(|byte| *byte == 0), "nothing of it is left");
    assert_eq!(append(&mut bench, FIRST, 1, 1).result, FIRST + 8);
}

#[test]
fn namespace_management_is_refused_on_zoned_drives() {
    let mut bench = Bench::with(ZONED);
    let oacs = bench.identify(1, 0).1[256];
    assert_eq!(oacs >> 3 & 1, 0, "OACS");
    for opcode in [admin::NAMESPACE_MANAGEMENT, admin::NAMESPACE_ATTACHMENT] {
        let fields = Fields { opcode, namespace: 1, prp: [DATA, 0], ..Fields::default() };
        assert_eq!(bench.administer(fields).status, Status::INVALID_OPCODE);
    }
    for opcode in [opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND, opcode::ZONE_MANAGEMENT_RECEIVE] {
        assert_eq!(Bench::new().ask(transfer(opcode, 0, 1, [DATA, 0])).status, Status::INVALID_OPCODE);
    }
}

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zones");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    path
}

fn on_file(path: &Path) -> Bench {
    let store = Store::open_with_kind(StoredNamespaceKind::Zoned, path, GEOMETRY).unwrap().with_zones(LAYOUT).unwrap();
    let mut bench = Bench::with(ZONED);
    bench.store = store;
    bench
}

/// The server ends without a word, as if the power of its drive were cut.
#[test]
fn zones_outlive_the_server_as_of_the_last_flush() {
    let path = path("flushed");
    let mut bench = on_file(&path);
    assert_eq!(write(&mut bench, 0, 8, 1), Status::SUCCESS);
    assert_eq!(append(&mut bench, FIRST, 8, 2).result, FIRST);
    assert_eq!(bench.ask(send(2 * FIRST, OPEN)).status, Status::SUCCESS);
    let flush = Fields { opcode: opcode::FLUSH, namespace: 1, ..Fields::default() };
    assert_eq!(bench.ask(flush).status, Status::SUCCESS);
    assert_eq!(write(&mut bench, 8, 8, 3), Status::SUCCESS);
    assert_eq!(write(&mut bench, 3 * FIRST, 8, 3), Status::SUCCESS);
    drop(bench);
    let mut bench = on_file(&path);
    assert_eq!(report(&mut bench, 0)[..4], [(4, 8), (4, FIRST + 8), (1, 2 * FIRST), (1, 3 * FIRST)]);
    assert_eq!(read(&mut bench, 0, 8).1, [1; 4096]);
    assert_eq!(read(&mut bench, 8, 8).1, [0; 4096], "it was behind the write pointer of the flush");
    assert_eq!(read(&mut bench, 3 * FIRST, 8).1, [0; 4096]);
    let force = Fields { dwords: [8, 0, 7 | 1 << 30, 0, 0, 0], ..transfer(opcode::WRITE, 8, 8, [DATA, 0]) };
    assert_eq!(bench.ask(force).status, Status::SUCCESS);
    assert_eq!(bench.ask(send(FIRST, RESET)).status, Status::SUCCESS);
    assert_eq!(write(&mut bench, FIRST, 8, 4), Status::SUCCESS);
    drop(bench);
    let mut bench = on_file(&path);
    assert_eq!(report(&mut bench, 0)[..2], [(4, 16), (1, FIRST)], "a forced write and a reset are durable");
    assert_eq!(read(&mut bench, FIRST, 8).1, [0; 4096]);
}

#[test]
fn store_with_other_zones_is_refused_and_kept() {
    let path = path("other");
    let mut bench = on_file(&path);
    assert_eq!(write(&mut bench, 0, 8, 1), Status::SUCCESS);
    bench.store.flush().unwrap();
    drop(bench);
    let larger = ZoneLayout { zones: 4, zone_blocks: 512, ..LAYOUT };
    let store = Store::open_with_kind(StoredNamespaceKind::Zoned, &path, GEOMETRY).unwrap();
    let refused = store.with_zones(larger).unwrap_err().to_string();
    let found = "store: the store holds 8 zones of 256 blocks, of which 200 can be written; allowed: a store of 4 zones of 512 \
                 blocks, of which 200 can be written, or a path where there is no file yet";
    assert_eq!(refused, found);
    assert_eq!(report(&mut on_file(&path), 0)[0], (4, 8));
    assert!(Store::open(&path, GEOMETRY).unwrap_err().to_string().contains("holds a zoned namespace"));
}
