//! Optional commands of NVMe, as a driver meets them: unreadable blocks, namespaces, formats, Sanitize, and the logs about them.

use std::fs;
use std::path::Path;

use crate::nvme_bench::{Bench, DATA, Fields, GEOMETRY, LIMITS, PAGE, transfer, u64_at};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::device::store::Store;
use phaselink_serve::nvme::{Controller, Identity, NextCommand};

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

/// The entry of a command in the log page of command effects: 1024 bytes further for I/O commands.
fn command_effects_entry(bench: &mut Bench, place: usize) -> u8 {
    let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], ..Fields::default() };
    assert_eq!(bench.administer(Fields { dwords: [5 | 1023 << 16, 0, 0, 0, 0, 0], ..fields }).status, Status::SUCCESS);
    bench.machine.memory[DATA as usize + place]
}

/// NVM Command Set Specification 1.0, section 3.2.7.
#[test]
fn uncorrectable_blocks_are_unreadable_until_rewritten() {
    let mut bench = Bench::new();
    assert_eq!(u16_at(&bench.identify(1, 0).1, 520) >> 1 & 1, 1, "ONCS");
    assert_eq!(command_effects_entry(&mut bench, 1024 + 4 * usize::from(opcode::WRITE_UNCORRECTABLE)), 0b11);
    let status = |bench: &mut Bench, opcode, slba, blocks| bench.ask(transfer(opcode, slba, blocks, [DATA, 0])).status;
    assert_eq!(status(&mut bench, opcode::WRITE_UNCORRECTABLE, 10, 4), Status::SUCCESS);
    for (opcode, slba, blocks) in
        [(opcode::READ, 10, 1), (opcode::READ, 8, 8), (opcode::COMPARE, 13, 1), (opcode::VERIFY, 0, 64)]
    {
        assert_eq!(status(&mut bench, opcode, slba, blocks), Status::UNRECOVERED_READ_ERROR, "{opcode:x} {slba}");
    }
    assert_eq!(status(&mut bench, opcode::READ, 6, 4), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 14, 8), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::WRITE, 10, 2), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 10, 2), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 12, 1), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(status(&mut bench, opcode::WRITE_ZEROES, 12, 1), Status::SUCCESS);
    assert_eq!(status(&mut bench, opcode::READ, 12, 1), Status::SUCCESS);
    let ends = crate::nvme_bench::BLOCKS;
    assert_eq!(status(&mut bench, opcode::WRITE_UNCORRECTABLE, ends - 1, 2), Status::LBA_OUT_OF_RANGE);
    let elsewhere = Fields { namespace: 2, ..transfer(opcode::WRITE_UNCORRECTABLE, 0, 1, [0, 0]) };
    assert_eq!(bench.ask(elsewhere).status, Status::INVALID_NAMESPACE);
    // A reset of the controller changes no data, so the block stays unreadable.
    bench.set(0x14, 0);
    bench.enable();
    assert!(bench.store.read(13 * 512, &mut [0; 512]).is_err());
}

/// Asks for the status of blocks, with room for so many dwords; returns status, and the list.
fn block_status(bench: &mut Bench, slba: u32, length: u32, action: u32, dwords: u32) -> (Status, Vec<u8>) {
    bench.machine.memory[DATA as usize..][..PAGE as usize].fill(0xee);
    let fields = Fields { opcode: admin::GET_LBA_STATUS, namespace: 1, prp: [DATA, 0], ..Fields::default() };
    let status =
        bench.administer(Fields { dwords: [slba, 0, dwords - 1, action << 24 | length, 0, 0], ..fields }).status;
    (status, bench.machine.memory[DATA as usize..][..dwords as usize * 4].to_vec())
}

/// Bytes of a descriptor of a range of blocks.
fn range(slba: u64, blocks: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&slba.to_le_bytes());
    bytes[8..12].copy_from_slice(&blocks.to_le_bytes());
    bytes
}

/// NVM Command Set Specification 1.0, section 4.2.1.
#[test]
fn lba_status_lists_unreadable_ranges_within_its_buffer() {
    let mut bench = Bench::new();
    assert_eq!(u16_at(&bench.identify(1, 0).1, 256) >> 9 & 1, 1, "OACS");
    for (slba, blocks) in [(10, 4), (20, 1), (crate::nvme_bench::BLOCKS - 2, 2)] {
        assert_eq!(bench.ask(transfer(opcode::WRITE_UNCORRECTABLE, slba, blocks, [DATA, 0])).status, Status::SUCCESS);
    }
    let list = |count: u32, condition: u8, ranges: &[[u8; 16]], dwords: usize| {
        let header = [&count.to_le_bytes()[..], &[condition, 0, 0, 0]].concat();
        let mut list = [header, ranges.concat()].concat();
        list.resize(dwords * 4, 0);
        (Status::SUCCESS, list)
    };
    let all = [range(10, 4), range(20, 1), range(crate::nvme_bench::BLOCKS - 2, 2)];
    // A range length of 0 extends to the end of the namespace.
    assert_eq!(block_status(&mut bench, 0, 0, 0x11, 14), list(3, 2, &all, 14));
    assert_eq!(block_status(&mut bench, 0, 0, 0x10, 20), list(3, 2, &all, 20));
    assert_eq!(block_status(&mut bench, 0, 0, 0x11, 13), list(2, 1, &all[..2], 13), "half a descriptor is none");
    assert_eq!(block_status(&mut bench, 12, 9, 0x11, 14), list(2, 2, &[range(12, 2), range(20, 1)], 14));
    assert_eq!(block_status(&mut bench, 0, 10, 0x11, 2), list(0, 2, &[], 2));
    assert_eq!(block_status(&mut bench, 10, 1, 0x11, 1), (Status::SUCCESS, vec![0; 4]), "no room for a header");
    for action in [0, 0xb, 0x12] {
        assert_eq!(block_status(&mut bench, 0, 0, action, 2).0, Status::INVALID_FIELD, "{action}");
    }
    assert_eq!(block_status(&mut bench, crate::nvme_bench::BLOCKS as u32, 0, 0x11, 2).0, Status::LBA_OUT_OF_RANGE);
    assert_eq!(block_status(&mut bench, 1, crate::nvme_bench::BLOCKS as u32, 0x11, 2).0, Status::LBA_OUT_OF_RANGE);
    for namespace in [0, 2, u32::MAX] {
        let fields = Fields { opcode: admin::GET_LBA_STATUS, namespace, prp: [DATA, 0], ..Fields::default() };
        let fields = Fields { dwords: [0, 0, 1, 0x11 << 24, 0, 0], ..fields };
        assert_eq!(bench.administer(fields).status, Status::INVALID_NAMESPACE, "{namespace}");
    }
}

#[test]
fn lba_status_log_lists_namespaces_with_unreadable_blocks() {
    let mut bench = Bench::new();
    let read = |bench: &mut Bench| {
        let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], ..Fields::default() };
        let done = bench.administer(Fields { dwords: [0xe | 31 << 16, 0, 0, 0, 0, 0], ..fields });
        assert_eq!(done.status, Status::SUCCESS);
        bench.machine.memory[DATA as usize..][..128].to_vec()
    };
    let empty = read(&mut bench);
    assert_eq!((&empty[..4], &empty[4..16]), (&[16, 0, 0, 0][..], &[0; 12][..]));
    for (slba, blocks) in [(10, 4), (20, 1)] {
        assert_eq!(bench.ask(transfer(opcode::WRITE_UNCORRECTABLE, slba, blocks, [DATA, 0])).status, Status::SUCCESS);
    }
    let page = read(&mut bench);
    // Bytes 0 to 15: length, number of elements, number of blocks, number of changes.
    assert_eq!(page[..16], [64, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(page[16..32], [1, 0, 0, 0, 2, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(page[32..64], [range(10, 4), range(20, 1)].concat());
    assert_eq!(page[64..], [0; 64]);
}

#[test]
fn atomic_write_units_equal_those_of_the_drive() {
    let mut bench = Bench::off();
    bench.controller = Controller::new(Identity::new("test", LIMITS, 0).with_atomic_bytes(4096));
    bench.store = Store::in_memory(GEOMETRY).unwrap();
    bench.enable();
    let (controller, namespace) = (bench.identify(1, 0).1, bench.identify(0, 1).1);
    assert_eq!((u16_at(&controller, 526), u16_at(&controller, 528)), (0, 0), "AWUN, AWUPF: of blocks of 4,096 bytes");
    assert_eq!((namespace[24] & 2, [34, 36, 40, 44].map(|at| u16_at(&namespace, at))), (2, [7; 4]));
    let namespace = Bench::enabled().identify(0, 1).1;
    assert_eq!((namespace[24] & 2, [34, 36, 40, 44].map(|at| u16_at(&namespace, at))), (0, [0; 4]));
}

fn list(bench: &mut Bench, cns: u32) -> Vec<u32> {
    let (status, page) = bench.identify(cns, 0);
    assert_eq!(status, Status::SUCCESS);
    page.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).take_while(|id| *id > 0).collect()
}

/// Creates a namespace of so many blocks, of which so many are its capacity.
fn create(bench: &mut Bench, blocks: u64, capacity: u64, format: u8) -> CompletionEntry {
    let structure = &mut bench.machine.memory[DATA as usize..][..4096];
    structure.fill(0);
    structure[..8].copy_from_slice(&blocks.to_le_bytes());
    structure[8..16].copy_from_slice(&capacity.to_le_bytes());
    structure[26] = format;
    bench.administer(Fields { opcode: admin::NAMESPACE_MANAGEMENT, prp: [DATA, 0], ..Fields::default() })
}

fn delete(bench: &mut Bench, namespace: u32) -> Status {
    let fields = Fields { opcode: admin::NAMESPACE_MANAGEMENT, namespace, ..Fields::default() };
    bench.administer(Fields { dwords: [1, 0, 0, 0, 0, 0], ..fields }).status
}

/// Attaches a namespace (selection 0) or detaches it (1), with a list of so many controllers that begins with this one.
fn attach(bench: &mut Bench, namespace: u32, selection: u32, controllers: [u16; 2]) -> Status {
    bench.machine.memory[DATA as usize..][..4].copy_from_slice(&controllers.map(u16::to_le_bytes).concat());
    let fields = Fields { opcode: admin::NAMESPACE_ATTACHMENT, namespace, prp: [DATA, 0], ..Fields::default() };
    bench.administer(Fields { dwords: [selection, 0, 0, 0, 0, 0], ..fields }).status
}

fn log(bench: &mut Bench, page: u32, specific: u32, bytes: u32) -> (Status, Vec<u8>) {
    let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, DATA + PAGE], ..Fields::default() };
    let first = page | specific << 8 | (bytes / 4 - 1) << 16;
    let status = bench.administer(Fields { dwords: [first, 0, 0, 0, 0, 0], ..fields }).status;
    (status, bench.machine.memory[DATA as usize..][..bytes as usize].to_vec())
}

fn touch(bench: &mut Bench, opcode: u8, namespace: u32, slba: u64) -> Status {
    bench.ask(Fields { namespace, ..transfer(opcode, slba, 1, [DATA, 0]) }).status
}

const ONE: [u16; 2] = [1, 0];

/// Base Specification 2.0, section 5.23.
#[test]
fn invalid_namespace_creation_is_refused_with_its_status() {
    let mut bench = Bench::with(LIMITS.divided(4));
    assert_eq!(u16_at(&bench.identify(1, 0).1, 256) >> 3 & 1, 1, "OACS");
    assert_eq!(command_effects_entry(&mut bench, 4 * usize::from(admin::NAMESPACE_MANAGEMENT)), 0b1011);
    assert_eq!(create(&mut bench, 8, 8, 0).status, Status::NAMESPACE_ID_UNAVAILABLE);
    assert_eq!((delete(&mut bench, 2), delete(&mut bench, 3)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!((delete(&mut bench, 2), delete(&mut bench, 5)), (Status::INVALID_NAMESPACE, Status::INVALID_NAMESPACE));
    for (blocks, capacity, format, expected) in [
        (1025, 1025, 0, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        (u64::MAX, u64::MAX, 0, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
        (8, 7, 0, Status::THIN_PROVISIONING_NOT_SUPPORTED),
        (0, 0, 0, Status::INVALID_FIELD),
        (8, 8, 4, Status::INVALID_FORMAT),
        (8, 8, 1 << 4, Status::INVALID_FORMAT),
    ] {
        assert_eq!(create(&mut bench, blocks, capacity, format).status, expected, "{blocks} {capacity} {format}");
    }
}

/// Base Specification 2.0, sections 5.22 and 5.23.
#[test]
fn namespaces_can_be_created_attached_detached_and_deleted() {
    let mut bench = Bench::with(LIMITS.divided(4));
    let kept = bench.identify(3, 3).1[4..20].to_vec();
    assert_eq!((delete(&mut bench, 2), delete(&mut bench, 3)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!((list(&mut bench, 2), list(&mut bench, 0x10)), (vec![1, 4], vec![1, 4]));
    assert_eq!(
        (touch(&mut bench, opcode::READ, 2, 0), touch(&mut bench, opcode::READ, 5, 0)),
        (Status::INVALID_FIELD, Status::INVALID_NAMESPACE)
    );
    // Half a mebibyte of unallocated capacity is left, as Identify Controller reports.
    assert_eq!(u64_at(&bench.identify(1, 0).1, 296), 512 << 10);
    assert_eq!(bench.identify(0, 2), (Status::SUCCESS, vec![0; 4096]));
    let made = create(&mut bench, 100, 100, 1);
    assert_eq!((made.status, made.result), (Status::SUCCESS, 2));
    assert_eq!((list(&mut bench, 2), list(&mut bench, 0x10)), (vec![1, 4], vec![1, 2, 4]));
    assert_eq!(bench.identify(0, 2).1, vec![0; 4096], "it is not attached");
    assert_eq!((u64_at(&bench.identify(0x11, 2).1, 0), bench.identify(0x11, 2).1[26]), (100, 1));
    assert_eq!(touch(&mut bench, opcode::WRITE, 2, 0), Status::INVALID_FIELD);
    assert_eq!(attach(&mut bench, 2, 0, [1, 7]), Status::CONTROLLER_LIST_INVALID);
    assert_eq!(attach(&mut bench, 2, 0, [0, 0]), Status::CONTROLLER_LIST_INVALID);
    assert_eq!(attach(&mut bench, 3, 0, ONE), Status::INVALID_NAMESPACE);
    assert_eq!(attach(&mut bench, 2, 1, ONE), Status::NAMESPACE_NOT_ATTACHED);
    assert_eq!(attach(&mut bench, 2, 0, ONE), Status::SUCCESS);
    assert_eq!(attach(&mut bench, 2, 0, ONE), Status::NAMESPACE_ALREADY_ATTACHED);
    assert_eq!((list(&mut bench, 2), bench.identify(0x12, 2).1[0]), (vec![1, 2, 4], 1));
    // The new namespace has 100 blocks of 4 KiB, in the space of two namespaces of 256 KiB.
    bench.machine.memory[DATA as usize..][..4096].fill(7);
    assert_eq!(touch(&mut bench, opcode::WRITE, 2, 99), Status::SUCCESS);
    assert_eq!(touch(&mut bench, opcode::WRITE, 2, 100), Status::LBA_OUT_OF_RANGE);
    let mut stored = vec![0; 4096];
    bench.store.read((256 << 10) + 99 * 4096, &mut stored).unwrap();
    assert!(stored == [7; 4096]);
    let third = create(&mut bench, 1, 1, 0);
    assert_eq!(third.result, 3);
    assert_eq!(attach(&mut bench, 3, 0, ONE), Status::SUCCESS);
    assert_ne!(bench.identify(3, 3).1[4..20], kept, "another namespace has another name");
    assert_eq!(attach(&mut bench, 2, 1, ONE), Status::SUCCESS);
    assert_eq!((list(&mut bench, 2), touch(&mut bench, opcode::READ, 2, 0)), (vec![1, 3, 4], Status::INVALID_FIELD));
    assert_eq!((delete(&mut bench, u32::MAX), list(&mut bench, 0x10)), (Status::SUCCESS, vec![]));
    // A single namespace takes the whole drive, and reads as zeros.
    assert_eq!(create(&mut bench, 2048, 2048, 0).result, 1);
    assert_eq!(attach(&mut bench, 1, 0, ONE), Status::SUCCESS);
    assert_eq!(touch(&mut bench, opcode::READ, 1, 2047), Status::SUCCESS);
    bench.store.read((256 << 10) + 99 * 4096, &mut stored).unwrap();
    assert!(stored == [0; 4096]);
}

/// Base Specification 2.0: notices of Asynchronous Event Request, and the log page Changed Namespace List.
#[test]
fn changed_namespaces_are_reported_by_event_and_log() {
    let mut bench = Bench::with(LIMITS.divided(4));
    let configure = Fields { opcode: admin::SET_FEATURES, ..Fields::default() };
    assert_eq!(bench.administer(Fields { dwords: [0x0b, 1 << 8, 0, 0, 0, 0], ..configure }).status, Status::SUCCESS);
    bench.admin = bench.submit(bench.admin, Fields { opcode: admin::ASYNC_EVENT_REQUEST, id: 99, ..Fields::default() });
    bench.step();
    assert_eq!(delete(&mut bench, 3), Status::SUCCESS);
    bench.step();
    let mut admin = bench.admin;
    let event = bench.reap(&mut admin).expect("an event");
    bench.admin = admin;
    assert_eq!((event.command_id, event.result), (99, 2 | 4 << 16));
    let (status, changed) = log(&mut bench, 4, 0, 4096);
    assert_eq!((status, &changed[..8]), (Status::SUCCESS, &[3, 0, 0, 0, 0, 0, 0, 0][..]));
    assert_eq!(log(&mut bench, 4, 0, 4096).1, vec![0; 4096], "it has been read");
}

#[test]
fn stored_namespaces_return_for_all_controllers() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("namespaces.store");
    let _ = fs::remove_file(&path);
    let mut bench = Bench::with(LIMITS.divided(4));
    bench.store = Store::open(&path, GEOMETRY).unwrap();
    assert_eq!((delete(&mut bench, 1), delete(&mut bench, 2)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(create(&mut bench, 64, 64, 1).result, 1);
    assert_eq!(attach(&mut bench, 1, 0, ONE), Status::SUCCESS);
    let expected = bench.identify(0, 1).1;
    let Bench { store, .. } = bench;
    drop(store);
    let mut again = Bench::controller_off_with_limits(LIMITS.divided(4));
    again.store = Store::open(&path, GEOMETRY).unwrap();
    let first = Identity::new("test", LIMITS.divided(4), 0);
    first.subsystem.load(&again.store).unwrap();
    let second = Identity::new("test", LIMITS.divided(4), 1).sharing(&first.subsystem);
    again.controller = Controller::new(first);
    again.enable();
    assert_eq!((list(&mut again, 2), again.identify(0, 1).1), (vec![1, 3, 4], expected));
    // For another controller the namespace exists, but is not attached.
    again.controller = Controller::new(second);
    again.set(0x14, 0);
    again.enable();
    assert_eq!((list(&mut again, 2), list(&mut again, 0x10)), (vec![3, 4], vec![1, 3, 4]));
}

/// NVM Command Set Specification 1.0, Identify Namespace; Base Specification 2.0, Format NVM.
#[test]
fn namespace_can_be_formatted_to_4096_bytes_and_back() {
    let mut bench = Bench::with(LIMITS.divided(2));
    let format = |lbaf, namespace| Fields {
        opcode: admin::FORMAT_NVM,
        namespace,
        dwords: [lbaf, 0, 0, 0, 0, 0],
        ..Fields::default()
    };
    let shape = |bench: &mut Bench, namespace| {
        let page = bench.identify(0, namespace).1;
        (u64_at(&page, 0), page[25], page[26], [page[130], page[134]])
    };
    assert_eq!(shape(&mut bench, 2), (1024, 3, 0, [9, 12]));
    bench.machine.memory[DATA as usize..][..512].fill(7);
    assert_eq!(touch(&mut bench, opcode::WRITE, 2, 8), Status::SUCCESS);
    assert_eq!(bench.administer(format(1, 2)).status, Status::SUCCESS);
    assert_eq!((shape(&mut bench, 2), shape(&mut bench, 1)), ((128, 3, 1, [9, 12]), (1024, 3, 0, [9, 12])));
    bench.machine.memory[DATA as usize..][..4096].fill(9);
    assert_eq!(touch(&mut bench, opcode::READ, 2, 1), Status::SUCCESS);
    assert!(bench.machine.memory[DATA as usize..][..4096].iter().all(|byte| *byte == 0), "formatted blocks are zeros");
    assert_eq!(touch(&mut bench, opcode::READ, 2, 128), Status::LBA_OUT_OF_RANGE);
    // Deallocate and Copy use block numbers of the namespace.
    bench.machine.memory[DATA as usize..][..4096].fill(9);
    assert_eq!(
        (touch(&mut bench, opcode::WRITE, 2, 2), touch(&mut bench, opcode::WRITE, 2, 3)),
        (Status::SUCCESS, Status::SUCCESS)
    );
    let copy = [0_u32, 0, 2, 0, 1, 0, 0, 0].map(u32::to_le_bytes).concat();
    bench.machine.memory[DATA as usize..][..32].copy_from_slice(&copy);
    let fields = Fields { opcode: opcode::COPY, namespace: 2, prp: [DATA, 0], ..Fields::default() };
    assert_eq!(bench.ask(Fields { dwords: [10, 0, 0, 0, 0, 0], ..fields }).status, Status::SUCCESS);
    let range = [0_u32, 1, 2, 0].map(u32::to_le_bytes).concat();
    bench.machine.memory[DATA as usize..][..16].copy_from_slice(&range);
    let fields = Fields { opcode: opcode::DATASET_MANAGEMENT, ..fields };
    assert_eq!(bench.ask(Fields { dwords: [0, 4, 0, 0, 0, 0], ..fields }).status, Status::SUCCESS);
    let first = |bench: &mut Bench, slba| {
        assert_eq!(touch(bench, opcode::READ, 2, slba), Status::SUCCESS);
        bench.machine.memory[DATA as usize]
    };
    assert_eq!([2, 3, 9, 10, 11, 12].map(|slba| first(&mut bench, slba)), [0, 9, 0, 9, 9, 0]);
    assert_eq!(bench.administer(format(4, 2)).status, Status::INVALID_FORMAT);
    assert_eq!(bench.administer(format(0, 3)).status, Status::INVALID_NAMESPACE);
    assert_eq!(bench.administer(format(0, u32::MAX)).status, Status::SUCCESS);
    assert_eq!(shape(&mut bench, 2), (1024, 3, 0, [9, 12]));
}

/// Base Specification 2.0, sections 5.24, 8.21 and 5.16.1.25.
#[test]
fn sanitize_erases_data_and_reports_by_log_and_event() {
    let mut bench = Bench::new();
    assert_eq!(bench.identify(1, 0).1[328] & 7, 0b010, "SANICAP");
    bench.machine.memory[DATA as usize..][..512].fill(7);
    assert_eq!(touch(&mut bench, opcode::WRITE, 1, 5), Status::SUCCESS);
    assert_eq!(touch(&mut bench, opcode::WRITE_UNCORRECTABLE, 1, 6), Status::SUCCESS);
    assert_eq!(log(&mut bench, 0x81, 0, 512).1[..8], [0xff, 0xff, 0, 0, 0, 0, 0, 0], "never");
    let sanitize = |action| Fields { opcode: admin::SANITIZE, dwords: [action, 0, 0, 0, 0, 0], ..Fields::default() };
    for action in [0, 3, 4, 7] {
        assert_eq!(bench.administer(sanitize(action)).status, Status::INVALID_FIELD, "{action}");
    }
    bench.admin = bench.submit(bench.admin, Fields { opcode: admin::ASYNC_EVENT_REQUEST, id: 99, ..Fields::default() });
    bench.step();
    // Commands that arrive while the sanitize operation is in progress are aborted.
    bench.admin = bench.submit(bench.admin, sanitize(2));
    bench.admin = bench.submit(bench.admin, Fields { id: 5, ..sanitize(2) });
    bench.io = bench.submit(bench.io, transfer(opcode::READ, 5, 1, [DATA, 0]));
    bench.step();
    let (mut admin, mut io) = (bench.admin, bench.io);
    let statuses: Vec<Status> = (0..2).map(|_| bench.reap(&mut admin).unwrap().status).collect();
    assert_eq!(statuses, [Status::SUCCESS, Status::SANITIZE_IN_PROGRESS]);
    assert_eq!(bench.reap(&mut io).unwrap().status, Status::SANITIZE_IN_PROGRESS);
    assert_eq!(bench.reap(&mut admin).unwrap().result, 6 | 1 << 8 | 0x81 << 16);
    (bench.admin, bench.io) = (admin, io);
    assert_eq!(log(&mut bench, 0x81, 0, 512).1[..8], [0xff, 0xff, 1, 0, 2, 0, 0, 0], "completed");
    bench.machine.memory[DATA as usize..][..512].fill(1);
    assert_eq!(touch(&mut bench, opcode::READ, 1, 5), Status::SUCCESS);
    assert_eq!(bench.machine.memory[DATA as usize], 0);
    assert_eq!(touch(&mut bench, opcode::READ, 1, 6), Status::SUCCESS);
}

/// Base Specification 2.0, section 8.21.
#[test]
fn queued_commands_use_namespaces_as_of_their_execution() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..4096].fill(7);
    let fetched = |bench: &mut Bench| {
        bench.io = bench.submit(bench.io, transfer(opcode::WRITE, 5, 1, [DATA, 0]));
        bench.controller.update(&mut bench.machine, &bench.store);
        let queue = bench.controller.queues().end - 1;
        match bench.controller.next_command(queue, &mut bench.machine) {
            NextCommand::Io(command) => command,
            _ => panic!("no command"),
        }
    };
    let of_old_blocks = fetched(&mut bench);
    let format = Fields { opcode: admin::FORMAT_NVM, namespace: 1, dwords: [1, 0, 0, 0, 0, 0], ..Fields::default() };
    assert_eq!(bench.administer(format).status, Status::SUCCESS);
    assert_eq!(bench.execute(&of_old_blocks), Status::SUCCESS);
    let mut block = [0; 4096];
    bench.store.read(5 * 4096, &mut block).unwrap();
    assert_eq!((block[0], block[4095]), (7, 7), "block 5 is one of 4,096 bytes now");
    let before_erase = fetched(&mut bench);
    let sanitize = Fields { opcode: admin::SANITIZE, dwords: [2, 0, 0, 0, 0, 0], ..Fields::default() };
    assert_eq!(bench.administer(sanitize).status, Status::SUCCESS);
    assert_eq!(bench.execute(&before_erase), Status::SANITIZE_IN_PROGRESS);
    bench.store.read(5 * 4096, &mut block).unwrap();
    assert_eq!(block, [0; 4096]);
    assert_eq!(attach(&mut bench, 1, 1, ONE), Status::SUCCESS);
    let of_detached = fetched(&mut bench);
    assert_eq!(attach(&mut bench, 1, 0, ONE), Status::SUCCESS);
    bench.machine.memory[DATA as usize..][..4096].fill(7);
    assert_eq!(bench.execute(&of_detached), Status::INVALID_FIELD, "refused when it was fetched");
    bench.store.read(5 * 4096, &mut block).unwrap();
    assert_eq!(block, [0; 4096]);
    let of_deleted = fetched(&mut bench);
    assert_eq!(delete(&mut bench, 1), Status::SUCCESS);
    assert_eq!(bench.execute(&of_deleted), Status::INVALID_FIELD);
}

/// Base Specification 2.0, sections 5.16.1.8 and 5.16.1.14.
#[test]
fn telemetry_and_persistent_event_logs_have_contexts() {
    let mut bench = Bench::with(LIMITS.divided(2));
    assert_eq!(log(&mut bench, 7, 0, 512).1[..16], [[7].as_slice(), &[0; 15]].concat());
    let (status, page) = log(&mut bench, 7, 1, 1024);
    assert_eq!((status, page[381]), (Status::SUCCESS, 1));
    assert!(u16_at(&page, 8) > 0 && u16_at(&page, 8) == u16_at(&page, 12));
    assert!(page[512..].starts_with(b"phaselink "));
    assert_eq!((log(&mut bench, 7, 0, 512).1[381], log(&mut bench, 8, 0, 512).1[0]), (1, 8));
    assert_eq!(log(&mut bench, 0x0d, 0, 512).0, Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(delete(&mut bench, 2), Status::SUCCESS);
    let (status, header) = log(&mut bench, 0x0d, 1, 512);
    assert_eq!((status, header[0], header[16], u16_at(&header, 18)), (Status::SUCCESS, 0x0d, 2, 492));
    let (events, bytes) = (u32::from_le_bytes(header[4..8].try_into().unwrap()), u64_at(&header, 8));
    assert_eq!((events, bytes), (2, 512 + 24 + 48 + 24 + 512));
    let (_, page) = log(&mut bench, 0x0d, 0, bytes as u32);
    assert_eq!((page[512], page[512 + 24], page[512 + 24 + 44]), (6, 1, 2), "Change Namespace: deleted, namespace 2");
    assert_eq!(page[512 + 24 + 48], 1, "a snapshot of the health log");
    assert_eq!(log(&mut bench, 0x0d, 1, 512).0, Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(log(&mut bench, 0x0d, 2, 512).0, Status::SUCCESS);
    assert_eq!(log(&mut bench, 0x0d, 0, 512).0, Status::COMMAND_SEQUENCE_ERROR);
}
