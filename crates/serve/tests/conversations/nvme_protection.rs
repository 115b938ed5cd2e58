//! Metadata and protection information of a served drive, as an NVMe driver meets them: formats, checks, statuses, and what is kept.

use std::fs;
use std::path::Path;

use crate::nvme_bench::{Bench, DATA, Fields, GEOMETRY, LIMITS, LISTS, transfer, u64_at};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{PSDT_SGL, Status, admin};
use phaselink_serve::device::store::Store;
use phaselink_serve::nvme::{Controller, Identity};

/// Host memory of metadata.
const METADATA: u64 = LISTS + 0x8000;
/// LBA formats of 512 and 4,096 bytes with metadata.
const SHORT: u32 = 2;
const LONG: u32 = 3;
/// PRINFO: action, and checks of the guard, the application tag and the reference tag.
const INSERT: u32 = 8;
const GUARD: u32 = 4;
const APPLICATION: u32 = 2;
const REFERENCE: u32 = 1;
const ALL: u32 = GUARD | APPLICATION | REFERENCE;

fn format(bench: &mut Bench, lbaf: u32, protection: u32) -> Status {
    let dwords = [lbaf | protection << 5, 0, 0, 0, 0, 0];
    bench.administer(Fields { opcode: admin::FORMAT_NVM, namespace: 1, dwords, ..Fields::default() }).status
}

fn formatted(lbaf: u32, protection: u32) -> Bench {
    let mut bench = Bench::with(LIMITS);
    assert_eq!(format(&mut bench, lbaf, protection), Status::SUCCESS);
    bench
}

/// A command for blocks with PRINFO, a first reference tag, and an application tag all of whose bits count.
fn about(opcode: u8, slba: u64, blocks: u32, information: u32, tags: (u32, u16)) -> Fields {
    let fields = transfer(opcode, slba, blocks, [DATA, DATA + 4096]);
    let [low, high, twelve, thirteen, ..] = fields.dwords;
    let dwords = [low, high, twelve | information << 26, thirteen, tags.0, 0xffff_0000 | u32::from(tags.1)];
    Fields { metadata: METADATA, dwords, ..fields }
}

fn ask(bench: &mut Bench, opcode: u8, slba: u64, blocks: u32, information: u32, tags: (u32, u16)) -> Status {
    bench.ask(about(opcode, slba, blocks, information, tags)).status
}

fn memory(bench: &mut Bench, address: u64, bytes: usize) -> &mut [u8] {
    &mut bench.machine.memory[address as usize..][..bytes]
}

/// The CRC of T10's data integrity field, a bit at a time.
fn bitwise_guard(block: &[u8]) -> u16 {
    let bit = |crc: u16, bit: u16| crc << 1 ^ if crc >> 15 ^ bit == 1 { 0x8bb7 } else { 0 };
    let byte = |crc, byte: &u8| (0..8).rev().fold(crc, |crc, place| bit(crc, u16::from(byte >> place & 1)));
    block.iter().fold(0, byte)
}

fn information(block: &[u8], application: u16, reference: u32) -> [u8; 8] {
    (u64::from(bitwise_guard(block)) << 48 | u64::from(application) << 32 | u64::from(reference)).to_be_bytes()
}

/// Puts blocks with a pattern into the host's memory, and their protection information beside them.
fn put_protected_blocks(bench: &mut Bench, block_bytes: usize, blocks: usize, application: u16, reference: u32) {
    let data: Vec<u8> = (0..block_bytes * blocks).map(|place| (place / 3) as u8 ^ reference as u8).collect();
    let beside: Vec<[u8; 8]> =
        data.chunks(block_bytes).zip(reference..).map(|(block, tag)| information(block, application, tag)).collect();
    memory(bench, DATA, data.len()).copy_from_slice(&data);
    memory(bench, METADATA, beside.len() * 8).copy_from_slice(beside.as_flattened());
}

/// NVM Command Set Specification 1.0, Identify Namespace and LBA formats.
#[test]
fn metadata_formats_are_announced_and_enforced() {
    let mut bench = Bench::with(LIMITS);
    let page = bench.identify(0, 1).1;
    assert_eq!(page[25..30], [3, 0, 0b10, 0b1_1111, 0], "NLBAF, FLBAS, MC, DPC, DPS");
    let formats = [0, 0, 9, 0, 0, 0, 12, 0, 8, 0, 9, 0, 8, 0, 12, 0];
    assert_eq!(page[128..144], formats);
    assert_eq!(u64_at(&bench.identify(1, 0).1, 536) as u32 >> 17 & 1, 1, "SGLS");
    assert_eq!(format(&mut bench, LONG, 2 | 8), Status::SUCCESS);
    let page = bench.identify(0, 1).1;
    assert_eq!((u64_at(&page, 0), page[26], page[29]), (256, 3, 0b1010), "PIL is bit 8 of dword 10");
    assert_eq!(format(&mut bench, SHORT, 1), Status::SUCCESS);
    assert_eq!((bench.identify(0, 1).1[26], bench.identify(0, 1).1[29]), (2, 1));
    for (lbaf, protection) in [(0, 1), (1, 3), (SHORT, 4), (SHORT | 1 << 4, 1), (4, 0)] {
        assert_eq!(format(&mut bench, lbaf, protection), Status::INVALID_FORMAT, "{lbaf:x} {protection}");
    }
    assert_eq!(format(&mut bench, 0, 0), Status::SUCCESS);
    assert_eq!(bench.identify(0, 1).1[25..30], [3, 0, 0b10, 0b1_1111, 0]);
}

#[test]
fn created_namespace_has_the_requested_metadata() {
    let mut bench = Bench::with(LIMITS.divided(2));
    let delete =
        Fields { opcode: admin::NAMESPACE_MANAGEMENT, namespace: 2, dwords: [1, 0, 0, 0, 0, 0], ..Fields::default() };
    assert_eq!(bench.administer(delete).status, Status::SUCCESS);
    let mut create = |format: u8, protection: u8| {
        let page = memory(&mut bench, DATA, 4096);
        page.fill(0);
        (page[0], page[8], page[26], page[29]) = (8, 8, format, protection);
        bench.administer(Fields { opcode: admin::NAMESPACE_MANAGEMENT, prp: [DATA, 0], ..Fields::default() }).status
    };
    assert_eq!([create(0, 1), create(2 | 1 << 4, 1), create(2, 5)], [Status::INVALID_FORMAT; 3]);
    assert_eq!(create(2, 0b1011), Status::SUCCESS);
    assert_eq!(bench.identify(0x11, 2).1[25..30], [3, 2, 0b10, 0b1_1111, 0b1011]);
}

#[test]
fn host_protection_information_is_stored_with_blocks() {
    for (lbaf, block_bytes) in [(SHORT, 512), (LONG, 4096)] {
        for protection in [1, 2, 3] {
            let mut bench = formatted(lbaf, protection);
            put_protected_blocks(&mut bench, block_bytes, 2, 0xabcd, 6);
            let expected = memory(&mut bench, METADATA, 16).to_vec();
            assert_eq!(ask(&mut bench, opcode::WRITE, 6, 2, ALL, (6, 0xabcd)), Status::SUCCESS, "{protection}");
            memory(&mut bench, METADATA, 24).fill(0xee);
            assert_eq!(ask(&mut bench, opcode::READ, 6, 2, ALL, (6, 0xabcd)), Status::SUCCESS, "{protection}");
            assert_eq!(memory(&mut bench, METADATA, 24), [&expected[..], &[0xee; 8]].concat());
            assert_eq!(ask(&mut bench, opcode::READ, 7, 1, ALL, (7, 0xabcd)), Status::SUCCESS, "{protection}");
            assert_eq!(memory(&mut bench, METADATA, 8), &expected[8..]);
        }
    }
}

#[test]
fn inserted_protection_equals_the_hosts_and_is_stripped() {
    for (protection, step) in [(1, 1), (2, 1), (3, 0)] {
        let mut bench = formatted(SHORT, protection);
        put_protected_blocks(&mut bench, 512, 3, 0x77, 9);
        let data = memory(&mut bench, DATA, 3 * 512).to_vec();
        memory(&mut bench, METADATA, 24).fill(0xee);
        assert_eq!(ask(&mut bench, opcode::WRITE, 9, 3, INSERT, (9, 0x77)), Status::SUCCESS);
        assert_eq!(ask(&mut bench, opcode::READ, 9, 3, INSERT | GUARD, (9, 0x77)), Status::SUCCESS);
        assert_eq!(memory(&mut bench, METADATA, 24), [0xee; 24], "no metadata is transferred");
        assert_eq!(ask(&mut bench, opcode::READ, 9, 3, GUARD | APPLICATION, (9, 0x77)), Status::SUCCESS);
        let expected: Vec<[u8; 8]> =
            (0..3).map(|place| information(&data[place * 512..][..512], 0x77, 9 + step * place as u32)).collect();
        assert_eq!(memory(&mut bench, METADATA, 24), expected.as_flattened(), "type {protection}");
    }
}

/// NVM Command Set Specification 1.0, section 5.2.3.
#[test]
fn write_with_wrong_protection_is_refused_unchanged() {
    for (byte, check, expected) in [
        (9, GUARD, Status::GUARD_CHECK_ERROR),
        (10, APPLICATION, Status::APPLICATION_TAG_CHECK_ERROR),
        (15, REFERENCE, Status::REFERENCE_TAG_CHECK_ERROR),
    ] {
        let mut bench = formatted(SHORT, 1);
        put_protected_blocks(&mut bench, 512, 2, 5, 0);
        memory(&mut bench, METADATA, 16)[byte] ^= 0x40;
        assert_eq!(ask(&mut bench, opcode::WRITE, 0, 2, ALL, (0, 5)), expected);
        assert_eq!(ask(&mut bench, opcode::READ, 0, 2, ALL, (0, 5)), Status::SUCCESS, "unwritten");
        assert_eq!(memory(&mut bench, METADATA, 16), [0xff; 16]);
        assert!(memory(&mut bench, DATA, 1024).iter().all(|byte| *byte == 0));
        put_protected_blocks(&mut bench, 512, 2, 5, 0);
        memory(&mut bench, METADATA, 16)[byte] ^= 0x40;
        assert_eq!(ask(&mut bench, opcode::WRITE, 0, 2, ALL & !check, (0, 5)), Status::SUCCESS);
        for (opcode, information) in [(opcode::READ, ALL), (opcode::READ, INSERT | ALL), (opcode::VERIFY, ALL)] {
            assert_eq!(ask(&mut bench, opcode, 0, 2, information, (0, 5)), expected, "{opcode:x}");
            assert_eq!(ask(&mut bench, opcode, 0, 1, information, (0, 5)), Status::SUCCESS, "{opcode:x}");
        }
    }
}

#[test]
fn externally_changed_data_fails_the_guard_check() {
    let mut bench = formatted(LONG, 1);
    put_protected_blocks(&mut bench, 4096, 2, 0, 3);
    assert_eq!(ask(&mut bench, opcode::WRITE, 3, 2, ALL, (3, 0)), Status::SUCCESS);
    let mut byte = [0];
    bench.store.read(4 * 4096 + 77, &mut byte).unwrap();
    bench.store.write(4 * 4096 + 77, &[byte[0] ^ 1]).unwrap();
    memory(&mut bench, DATA, 8192).fill(0xee);
    assert_eq!(ask(&mut bench, opcode::READ, 3, 1, ALL, (3, 0)), Status::SUCCESS);
    memory(&mut bench, DATA, 8192).fill(0xee);
    for (opcode, information) in [(opcode::READ, ALL), (opcode::READ, INSERT | GUARD), (opcode::VERIFY, GUARD)] {
        assert_eq!(ask(&mut bench, opcode, 3, 2, information, (3, 0)), Status::GUARD_CHECK_ERROR, "{opcode:x}");
    }
    assert!(memory(&mut bench, DATA, 8192).iter().all(|byte| *byte == 0xee), "no data of a failed read");
    assert_eq!(ask(&mut bench, opcode::READ, 3, 2, APPLICATION | REFERENCE, (3, 0)), Status::SUCCESS);
    bench.store.write(4 * 4096 + 77, &byte).unwrap();
    assert_eq!(ask(&mut bench, opcode::READ, 3, 2, ALL, (3, 0)), Status::SUCCESS);
}

/// NVM Command Set Specification 1.0: protection information of Compare, Verify and Write Zeroes.
#[test]
fn protection_settings_invalid_for_a_command_are_refused() {
    let mut bench = formatted(SHORT, 1);
    put_protected_blocks(&mut bench, 512, 1, 0, 8);
    for (opcode, information, reference, expected) in [
        (opcode::WRITE, REFERENCE, 9, Status::INVALID_PROTECTION_INFORMATION),
        (opcode::READ, REFERENCE, 9, Status::INVALID_PROTECTION_INFORMATION),
        (opcode::WRITE, INSERT | REFERENCE, 9, Status::INVALID_PROTECTION_INFORMATION),
        (opcode::COMPARE, INSERT, 8, Status::INVALID_PROTECTION_INFORMATION),
        (opcode::WRITE_ZEROES, GUARD, 8, Status::INVALID_PROTECTION_INFORMATION),
        (opcode::VERIFY, INSERT, 8, Status::INVALID_FIELD),
        (opcode::COPY, INSERT, 8, Status::INVALID_FIELD),
        (opcode::WRITE, INSERT, 9, Status::SUCCESS),
    ] {
        assert_eq!(ask(&mut bench, opcode, 8, 1, information, (reference, 0)), expected, "{opcode:x} {information}");
    }
    let misaligned = Fields { metadata: METADATA + 2, ..about(opcode::READ, 0, 1, 0, (0, 0)) };
    assert_eq!(bench.ask(misaligned).status, Status::INVALID_FIELD);
    let nowhere = Fields { metadata: 1 << 40, ..about(opcode::READ, 0, 1, 0, (0, 0)) };
    assert_eq!(bench.ask(nowhere).status, Status::DATA_TRANSFER_ERROR);
    assert_eq!(bench.ask(Fields { opcode: opcode::WRITE, ..nowhere }).status, Status::DATA_TRANSFER_ERROR);
}

#[test]
fn scattered_data_has_metadata_at_any_byte_offset() {
    let mut bench = formatted(SHORT, 1);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    let beside = memory(&mut bench, METADATA, 16).to_vec();
    memory(&mut bench, METADATA + 1, 16).copy_from_slice(&beside);
    let scattered = |opcode| Fields {
        flags: PSDT_SGL,
        prp: [DATA, 1024],
        metadata: METADATA + 1,
        ..about(opcode, 4, 2, ALL, (4, 1))
    };
    assert_eq!(bench.ask(scattered(opcode::WRITE)).status, Status::SUCCESS);
    memory(&mut bench, METADATA, 24).fill(0);
    assert_eq!(bench.ask(scattered(opcode::READ)).status, Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA + 1, 16), beside);
}

#[test]
fn compare_checks_protection_of_both_sides() {
    let mut bench = formatted(SHORT, 2);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    assert_eq!(ask(&mut bench, opcode::WRITE, 30, 2, ALL, (4, 1)), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, ALL, (4, 1)), Status::SUCCESS);
    memory(&mut bench, METADATA, 16)[8] ^= 1;
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, 0, (4, 1)), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, GUARD, (4, 1)), Status::GUARD_CHECK_ERROR);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    memory(&mut bench, DATA, 1024)[700] ^= 1;
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, 0, (4, 1)), Status::COMPARE_FAILURE);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    bench.store.write(30 * 512, &[0xaa]).unwrap();
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, GUARD, (4, 1)), Status::GUARD_CHECK_ERROR);
    let mut bench = formatted(SHORT, 0);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    assert_eq!(ask(&mut bench, opcode::WRITE, 30, 2, INSERT | ALL, (0, 0)), Status::SUCCESS, "PRINFO is ignored");
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, 0, (0, 0)), Status::SUCCESS);
    memory(&mut bench, METADATA, 16)[8] ^= 1;
    assert_eq!(ask(&mut bench, opcode::COMPARE, 30, 2, 0, (0, 0)), Status::COMPARE_FAILURE, "the host's metadata");
}

/// NVM Command Set Specification 1.0, sections 3.2.3.2.1 and 3.2.8.
#[test]
fn zeroed_and_deallocated_blocks_have_specified_metadata() {
    const DEALLOCATE: u32 = 1 << 25;
    for (protection, information, flags, expected) in [
        (1, 0, 0, [0; 8]),
        (1, INSERT, 0, [0, 0, 0xab, 0xcd, 0, 0, 0, 21]),
        (1, INSERT, DEALLOCATE, [0xff; 8]),
        (0, 0, 0, [0; 8]),
        (0, 0, DEALLOCATE, [0; 8]),
    ] {
        let mut bench = formatted(SHORT, protection);
        put_protected_blocks(&mut bench, 512, 3, 0xabcd, 20);
        assert_eq!(ask(&mut bench, opcode::WRITE, 20, 3, 0, (20, 0xabcd)), Status::SUCCESS);
        let mut zeroes = about(opcode::WRITE_ZEROES, 21, 1, information, (21, 0xabcd));
        zeroes.dwords[2] |= flags;
        assert_eq!(bench.ask(zeroes).status, Status::SUCCESS);
        assert_eq!(ask(&mut bench, opcode::READ, 21, 1, 0, (21, 0xabcd)), Status::SUCCESS);
        assert_eq!(memory(&mut bench, METADATA, 8), expected, "{protection} {information} {flags}");
        assert_eq!(memory(&mut bench, DATA, 512), [0; 512]);
        let range = [0_u32, 1, 22, 0].map(u32::to_le_bytes).concat();
        memory(&mut bench, DATA, 16).copy_from_slice(&range);
        let trim = Fields { dwords: [0, 4, 0, 0, 0, 0], ..transfer(opcode::DATASET_MANAGEMENT, 0, 1, [DATA, 0]) };
        assert_eq!(bench.ask(trim).status, Status::SUCCESS);
        assert_eq!(ask(&mut bench, opcode::READ, 22, 1, ALL, (22, 0)), Status::SUCCESS);
        assert_eq!(memory(&mut bench, METADATA, 8), [if protection == 0 { 0 } else { 0xff }; 8]);
    }
}

/// Copies two ranges of two blocks each to a place, with PRINFO of both halves and reference tags of the sources.
fn copy_two_ranges(bench: &mut Bench, to: u64, read: u32, write: u32, tags: [u32; 2]) -> Status {
    let sources = [(40_u64, tags[0]), (50, tags[1])];
    let list =
        sources.map(|(slba, tag)| [0, slba, 1, 0xffff_0005 << 32 | u64::from(tag)].map(u64::to_le_bytes).concat());
    memory(bench, LISTS, 64).copy_from_slice(&list.concat());
    let fields = about(opcode::COPY, to, 2, write, (to as u32, 5));
    let dwords =
        [fields.dwords[0], fields.dwords[1], 1 | read << 12 | write << 26, 0, fields.dwords[4], fields.dwords[5]];
    bench.ask(Fields { prp: [LISTS, 0], dwords, ..fields }).status
}

/// NVM Command Set Specification 1.0, section 5.2.2.5.
#[test]
fn copies_check_sources_and_insert_or_check_protection() {
    let mut bench = formatted(SHORT, 1);
    for slba in [40, 50] {
        put_protected_blocks(&mut bench, 512, 2, 5, slba);
        assert_eq!(ask(&mut bench, opcode::WRITE, slba.into(), 2, ALL, (slba, 5)), Status::SUCCESS);
    }
    assert_eq!(copy_two_ranges(&mut bench, 100, INSERT | ALL, INSERT, [40, 50]), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::READ, 100, 4, ALL, (100, 5)), Status::SUCCESS, "tags of their new place");
    assert_eq!(copy_two_ranges(&mut bench, 200, ALL, 0, [40, 50]), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::READ, 200, 4, ALL, (200, 5)), Status::REFERENCE_TAG_CHECK_ERROR);
    assert_eq!(ask(&mut bench, opcode::READ, 200, 4, GUARD | APPLICATION, (200, 5)), Status::SUCCESS);
    assert_eq!(copy_two_ranges(&mut bench, 300, ALL, ALL, [40, 50]), Status::REFERENCE_TAG_CHECK_ERROR);
    assert_eq!(copy_two_ranges(&mut bench, 300, ALL, 0, [40, 51]), Status::INVALID_PROTECTION_INFORMATION);
    assert_eq!(copy_two_ranges(&mut bench, 300, ALL, INSERT, [40, 50]), Status::INVALID_FIELD);
    assert_eq!(copy_two_ranges(&mut bench, 300, INSERT, ALL, [40, 50]), Status::INVALID_FIELD);
    bench.store.write(51 * 512, &[0xaa]).unwrap();
    assert_eq!(copy_two_ranges(&mut bench, 300, INSERT | ALL, INSERT, [40, 50]), Status::GUARD_CHECK_ERROR);
    assert_eq!(ask(&mut bench, opcode::READ, 300, 4, 0, (300, 0)), Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA, 32), [0xff; 32], "a failed copy changes nothing");
}

#[test]
fn long_verify_counts_reference_tags_across_pieces() {
    let mut bench = formatted(SHORT, 1);
    for slba in (0..1024).step_by(16) {
        put_protected_blocks(&mut bench, 512, 16, 0, slba);
        assert_eq!(ask(&mut bench, opcode::WRITE, slba.into(), 16, INSERT, (slba, 0)), Status::SUCCESS);
    }
    assert_eq!(ask(&mut bench, opcode::VERIFY, 0, 1024, ALL, (0, 0)), Status::SUCCESS);
    bench.store.write(1023 * 512, &[0xaa]).unwrap();
    assert_eq!(ask(&mut bench, opcode::VERIFY, 0, 1024, ALL, (0, 0)), Status::GUARD_CHECK_ERROR);
}

#[test]
fn format_without_protection_drops_metadata() {
    let mut bench = formatted(SHORT, 1);
    put_protected_blocks(&mut bench, 512, 2, 1, 4);
    assert_eq!(ask(&mut bench, opcode::WRITE, 4, 2, ALL, (4, 1)), Status::SUCCESS);
    assert_eq!(format(&mut bench, 0, 0), Status::SUCCESS);
    memory(&mut bench, METADATA, 16).fill(0xee);
    assert_eq!(ask(&mut bench, opcode::WRITE, 4, 2, INSERT | ALL, (9, 9)), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::READ, 4, 2, ALL, (9, 9)), Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA, 16), [0xee; 16]);
    assert_eq!(format(&mut bench, SHORT, 1), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::READ, 4, 2, ALL, (4, 1)), Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA, 16), [0xff; 16]);
}

/// A bench on the store at a path, whose controller has taken over what the store keeps.
fn bench_on_store(path: &Path) -> Bench {
    let mut bench = Bench::off();
    bench.store = Store::open(path, GEOMETRY).unwrap();
    let identity = Identity::new("test", LIMITS, 0);
    identity.subsystem.load(&bench.store).unwrap();
    bench.controller = Controller::new(identity);
    bench.enable();
    assert_eq!(
        bench.administer(crate::nvme_bench::create_completion_queue(1, crate::nvme_bench::ENTRIES)).status,
        Status::SUCCESS
    );
    assert_eq!(
        bench.administer(crate::nvme_bench::create_submission_queue(1, crate::nvme_bench::ENTRIES)).status,
        Status::SUCCESS
    );
    bench
}

#[test]
fn metadata_persists_and_a_file_without_it_is_refused() {
    let folder = std::env::temp_dir().join(format!("phaselink-protection-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("store");
    let mut bench = bench_on_store(&path);
    let length = fs::metadata(&path).unwrap().len();
    assert_eq!(length, (2 << 20) + GEOMETRY.capacity_bytes, "no metadata, no room for it");
    assert_eq!(format(&mut bench, SHORT, 3), Status::SUCCESS);
    assert_eq!(fs::metadata(&path).unwrap().len(), (4 << 20) + GEOMETRY.capacity_bytes / 64);
    put_protected_blocks(&mut bench, 512, 2, 0x1234, 70);
    let expected = memory(&mut bench, METADATA, 16).to_vec();
    assert_eq!(ask(&mut bench, opcode::WRITE, 7, 2, GUARD, (0, 0)), Status::SUCCESS);
    drop(bench);
    let mut bench = bench_on_store(&path);
    assert_eq!((bench.identify(0, 1).1[26], bench.identify(0, 1).1[29]), (2, 3));
    assert_eq!(ask(&mut bench, opcode::READ, 7, 2, ALL, (0, 0x1234)), Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA, 16), expected);
    assert_eq!(ask(&mut bench, opcode::READ, 9, 1, ALL, (0, 0)), Status::SUCCESS);
    assert_eq!(memory(&mut bench, METADATA, 8), [0xff; 8]);
    drop(bench);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
    let store = Store::open(&path, GEOMETRY).unwrap();
    let refused = Identity::new("test", LIMITS, 0).subsystem.load(&store).unwrap_err().to_string();
    assert!(refused.contains("metadata of namespaces is missing"), "{refused}");
    fs::remove_dir_all(&folder).unwrap();
}
