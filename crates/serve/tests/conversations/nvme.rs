//! What the NVMe controller answers: what each malformed field gets, and what commands do.

use std::fs::{self, File};
use std::path::Path;

use crate::nvme_bench::*;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{Status, admin};
use phaselink_serve::device::store::Store;
use phaselink_serve::nvme::Identity;
use phaselink_serve::nvme::identify::IdentifySelection;

#[test]
fn identify_describes_controller_and_namespace() {
    let mut bench = Bench::enabled();
    let (status, page) = bench.identify(1, 0);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!((page[77], page[111], page[512], page[513]), (5, 1, 0x66, 0x44));
    assert_eq!(u16::from_le_bytes([page[256], page[257]]), 1 << 9 | 1 << 8 | 1 << 3 | 1 << 1);
    assert!(page[24..64].starts_with(b"phaselink test "));
    let (status, page) = bench.identify(0, 1);
    assert_eq!((status, u64_at(&page, 0), page[130]), (Status::SUCCESS, BLOCKS, 9));
    let (_, page) = bench.identify(2, 0);
    assert_eq!(page[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let (_, page) = bench.identify(2, 1);
    assert_eq!(page, vec![0; 4096]);
    let (_, page) = bench.identify(3, 1);
    assert_eq!((&page[..2], page[10] >> 4, &page[20..22]), (&[3, 16][..], 8, &[4, 1][..]));
    assert_eq!(bench.identify(8, 1).1[14], 1);
    assert_eq!(bench.identify(0x1c, 0).1[0], 1);
    for (cns, namespace, expected) in [
        (0, 0, Status::INVALID_NAMESPACE),
        (0, 2, Status::INVALID_NAMESPACE),
        (0, u32::MAX, Status::SUCCESS),
        (2, u32::MAX - 1, Status::INVALID_NAMESPACE),
        (3, 7, Status::INVALID_NAMESPACE),
        (0x55, 1, Status::INVALID_FIELD),
        (6, 1, Status::SUCCESS),
    ] {
        assert_eq!(bench.identify(cns, namespace).0, expected, "{cns:x} {namespace}");
    }
}

/// Identify Controller of the Base Specification 2.0, by bytes.
#[test]
fn identify_controller_reports_its_capabilities() {
    let (_, page) = Bench::enabled().identify(1, 0);
    let firmware_slots = 1 | 1 << 1;
    let log_pages = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
    let cache_and_flush_of_all = 1 | 3 << 1;
    assert_eq!((page[260], page[261], page[525]), (firmware_slots, log_pages, cache_and_flush_of_all));
    let optional_commands = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;
    assert_eq!((u16::from_le_bytes([page[520], page[521]]), page[534]), (optional_commands, 1));
}

#[test]
fn namespace_has_a_version_8_uuid_that_names_the_controller() {
    for front in 0..16 {
        let identity = Identity::new("test", LIMITS, front);
        let uuid = identity_uuid(front);
        // UUID version and variant, RFC 9562, sections 4.1 and 5.8.
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 0b10), "{uuid:x?}");
        let controller = identity.structure(selection(1, 0), 0).unwrap();
        let name = String::from_utf8(controller[768..1024].to_vec()).unwrap();
        let written = name.trim_end_matches('\0').strip_prefix("nqn.2014-08.org.nvmexpress:uuid:").unwrap();
        let lengths: Vec<usize> = written.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written.replace('-', ""), digits);
        assert!(front == 0 || uuid != identity_uuid(front - 1), "front-ends have namespaces of their own");
    }
}

fn selection(cns: u8, namespace: u32) -> IdentifySelection {
    IdentifySelection { cns, namespace, ..IdentifySelection::default() }
}

fn identity_uuid(front: usize) -> Vec<u8> {
    Identity::new("test", LIMITS, front).structure(selection(3, 1), 0).unwrap()[4..20].to_vec()
}

#[test]
fn queues_are_created_and_deleted_as_specified() {
    let mut bench = Bench::enabled();
    let base = create_completion_queue(1, ENTRIES);
    let with = |change: fn(&mut Fields)| {
        let mut fields = base;
        change(&mut fields);
        fields
    };
    for (fields, expected) in [
        (create_completion_queue(0, ENTRIES), Status::INVALID_QUEUE_ID),
        (create_completion_queue(LIMITS.queue_pairs + 1, ENTRIES), Status::INVALID_QUEUE_ID),
        (create_completion_queue(1, 1), Status::INVALID_QUEUE_SIZE),
        (create_completion_queue(1, 1025), Status::INVALID_QUEUE_SIZE),
        (with(|fields| fields.prp[0] += 8), Status::INVALID_PRP_OFFSET),
        (with(|fields| fields.dwords[1] &= !1), Status::INVALID_FIELD),
        (with(|fields| fields.dwords[1] |= 99 << 16), Status::INVALID_INTERRUPT_VECTOR),
        (with(|fields| fields.flags = 0x80), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 1), Status::INVALID_FIELD),
        (create_submission_queue(1, ENTRIES), Status::COMPLETION_QUEUE_INVALID),
        (base, Status::SUCCESS),
        (base, Status::INVALID_QUEUE_ID),
        (create_submission_queue(0, ENTRIES), Status::INVALID_QUEUE_ID),
        (
            Fields { dwords: [1 | 15 << 16, 1, 0, 0, 0, 0], ..create_submission_queue(1, ENTRIES) },
            Status::INVALID_QUEUE_ID,
        ),
        (create_submission_queue(1, ENTRIES), Status::SUCCESS),
        (create_submission_queue(1, ENTRIES), Status::INVALID_QUEUE_ID),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
    let delete = |opcode, number| Fields { opcode, dwords: [number, 0, 0, 0, 0, 0], ..Fields::default() };
    for (opcode, number, expected) in [
        (admin::DELETE_COMPLETION_QUEUE, 0, Status::INVALID_QUEUE_ID),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE_DELETION),
        (admin::DELETE_COMPLETION_QUEUE, 60000, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 0, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 2, Status::INVALID_QUEUE_ID),
        (admin::DELETE_SUBMISSION_QUEUE, 1, Status::SUCCESS),
        (admin::DELETE_SUBMISSION_QUEUE, 1, Status::INVALID_QUEUE_ID),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::SUCCESS),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE_ID),
    ] {
        assert_eq!(bench.administer(delete(opcode, number)).status, expected, "{opcode:x} {number}");
    }
}

#[test]
fn malformed_io_commands_get_their_statuses() {
    let mut bench = Bench::new();
    let read = transfer(opcode::READ, 0, 8, [DATA, 0]);
    let with = |change: fn(&mut Fields)| {
        let mut fields = read;
        change(&mut fields);
        fields
    };
    let far = 1 << 40;
    for (fields, expected) in [
        (read, Status::SUCCESS),
        (with(|fields| fields.opcode = 0x77), Status::INVALID_OPCODE),
        (with(|fields| fields.flags = 0x80), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 0xc0), Status::INVALID_FIELD),
        (with(|fields| fields.flags = 0x02), Status::INVALID_FIELD),
        (with(|fields| fields.namespace = 0), Status::INVALID_NAMESPACE),
        (with(|fields| fields.namespace = u32::MAX), Status::INVALID_NAMESPACE),
        (transfer(opcode::READ, BLOCKS - 8, 8, [DATA, 0]), Status::SUCCESS),
        (transfer(opcode::READ, BLOCKS - 7, 8, [DATA, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::READ, u64::MAX, 8, [DATA, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::READ, 0, 257, [DATA, LISTS]), Status::INVALID_FIELD),
        (transfer(opcode::READ, 0, 8, [DATA + 2, 0]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 16, [DATA, DATA + 512]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 24, [DATA, LISTS + 4]), Status::INVALID_PRP_OFFSET),
        (transfer(opcode::READ, 0, 24, [DATA, far]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::READ, 0, 8, [far, 0]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::WRITE, 0, 8, [far, 0]), Status::DATA_TRANSFER_ERROR),
        (transfer(opcode::FLUSH, 0, 1, [0, 0]), Status::SUCCESS),
        (Fields { namespace: u32::MAX, ..transfer(opcode::FLUSH, 0, 1, [0, 0]) }, Status::SUCCESS),
        (Fields { namespace: 2, ..transfer(opcode::FLUSH, 0, 1, [0, 0]) }, Status::INVALID_NAMESPACE),
        (transfer(opcode::WRITE_ZEROES, BLOCKS, 1, [0, 0]), Status::LBA_OUT_OF_RANGE),
        (transfer(opcode::WRITE_ZEROES, 0, BLOCKS as u32, [0, 0]), Status::SUCCESS),
    ] {
        assert_eq!(bench.ask(fields).status, expected, "{:x} {:?}", fields.opcode, fields.dwords);
    }
}

#[test]
fn features_are_validated_and_reset() {
    let mut bench = Bench::enabled();
    let set = |feature, value| Fields {
        opcode: admin::SET_FEATURES,
        prp: [DATA, 0],
        dwords: [feature, value, 0, 0, 0, 0],
        ..Fields::default()
    };
    let get = |feature, value| Fields { opcode: admin::GET_FEATURES, ..set(feature, value) };
    assert_eq!(bench.administer(set(7, 3 | 500 << 16)).result, 3 | 31 << 16);
    for (fields, expected) in [
        (set(7, 0xffff), Status::INVALID_FIELD),
        (set(2, 1), Status::INVALID_FIELD),
        (set(9, 33), Status::INVALID_FIELD),
        (get(9, 33), Status::INVALID_FIELD),
        (set(4, 1 << 16), Status::INVALID_FIELD),
        (get(0x0d, 0), Status::INVALID_FIELD),
        (set(0x0d, 0), Status::INVALID_FIELD),
        (set(1 | 1 << 31, 0), Status::FEATURE_NOT_SAVEABLE),
        (get(1 | 1 << 8, 0), Status::INVALID_FIELD),
        (Fields { namespace: 1, ..set(1, 0) }, Status::FEATURE_NOT_OF_NAMESPACE),
        (set(0x0b, 0x11f), Status::SUCCESS),
        (set(0x16, 0), Status::SUCCESS),
        (get(0x16, 0), Status::SUCCESS),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
    assert_eq!(bench.administer(get(0x0b, 0)).result, 0x11f);
    // Coalescing is disabled for each interrupt on its own (Base Specification 2.0, section 5.27.1.7).
    assert_eq!(bench.administer(set(9, 1 | 1 << 16)).status, Status::SUCCESS);
    assert_eq!([0, 1].map(|vector| bench.administer(get(9, vector)).result), [0, 1 | 1 << 16]);
    assert_eq!(bench.administer(set(9, 1)).status, Status::SUCCESS);
    assert_eq!(bench.administer(get(9, 1)).result, 1);
    assert_eq!(bench.administer(create_completion_queue(4, ENTRIES)).status, Status::SUCCESS);
    assert_eq!(bench.administer(set(7, 0)).status, Status::COMMAND_SEQUENCE_ERROR);
    bench.set(0x14, 0);
    assert_eq!(bench.get(0x1c), 0);
    bench.enable();
    assert_eq!(bench.administer(get(0x0b, 0)).result, 0);
}

#[test]
fn keep_alive_feature_works() {
    let mut bench = Bench::enabled();
    let ask = |opcode, feature, value| Fields {
        opcode,
        prp: [DATA, 0],
        dwords: [feature, value, 0, 0, 0, 0],
        ..Fields::default()
    };
    assert_eq!(bench.administer(ask(admin::GET_FEATURES, 0x0f, 0)).result, 0);
    assert_eq!(bench.controller.poll_keep_alive(), None);
    // The granularity is 100 ms, so 250 ms are rounded up to 300 ms.
    assert_eq!(bench.administer(ask(admin::SET_FEATURES, 0x0f, 250)).status, Status::SUCCESS);
    assert_eq!(bench.administer(ask(admin::GET_FEATURES, 0x0f, 0)).result, 300);
    let time = std::time::Duration::from_millis(300);
    assert_eq!(
        [bench.controller.poll_keep_alive(), bench.controller.poll_keep_alive()],
        [Some((time, true)), Some((time, false))]
    );
    assert_eq!(bench.administer(ask(admin::KEEP_ALIVE, 0, 0)).status, Status::SUCCESS);
    assert_eq!(bench.controller.poll_keep_alive(), Some((time, true)));
    bench.set(0x14, 0);
    assert_eq!(bench.controller.poll_keep_alive(), None);
}

#[test]
fn chained_prp_lists_transfer_data_at_any_offset() {
    let mut bench = Bench::new();
    let bytes: Vec<u8> = (0..128 << 10_u32).map(|place| (place * 7 / 3) as u8).collect();
    // The data pages are in reverse order. The list begins two entries before the end of a page, so it continues on
    // another page.
    let pages: Vec<u64> = (0..32).map(|place| DATA + (31 - place) * PAGE).collect();
    let list = LISTS + PAGE - 16;
    let mut entries = pages[1..].to_vec();
    entries.insert(1, LISTS + 2 * PAGE);
    for (place, entry) in entries.iter().enumerate() {
        let at = if place < 2 { list + place as u64 * 8 } else { LISTS + 2 * PAGE + (place as u64 - 2) * 8 };
        bench.machine.memory[at as usize..][..8].copy_from_slice(&entry.to_le_bytes());
    }
    for (page, data) in pages.iter().zip(bytes.chunks(4096)) {
        bench.machine.memory[*page as usize..][..4096].copy_from_slice(data);
    }
    assert_eq!(bench.ask(transfer(opcode::WRITE, 100, 256, [pages[0], list])).status, Status::SUCCESS);
    let mut held = vec![0; bytes.len()];
    bench.store.read(100 * 512, &mut held).unwrap();
    assert_eq!(held, bytes);
    bench.machine.memory[DATA as usize..].fill(0);
    assert_eq!(bench.ask(transfer(opcode::READ, 100, 256, [pages[0], list])).status, Status::SUCCESS);
    for (page, data) in pages.iter().zip(bytes.chunks(4096)) {
        assert_eq!(&bench.machine.memory[*page as usize..][..4096], data);
    }
    // A page list whose last entry points at itself would never end, so it must be refused.
    let circle = LISTS + PAGE - 8;
    bench.machine.memory[circle as usize..][..8].copy_from_slice(&circle.to_le_bytes());
    assert_eq!(bench.ask(transfer(opcode::READ, 0, 24, [DATA, circle])).status, Status::INVALID_PRP_OFFSET);
}

#[test]
fn compare_write_zeroes_and_deallocate_work() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..4096].fill(5);
    assert_eq!(bench.ask(transfer(opcode::WRITE, 8, 8, [DATA, 0])).status, Status::SUCCESS);
    assert_eq!(bench.ask(transfer(opcode::COMPARE, 8, 8, [DATA, 0])).status, Status::SUCCESS);
    assert_eq!(bench.ask(transfer(opcode::COMPARE, 9, 8, [DATA, 0])).status, Status::COMPARE_FAILURE);
    assert_eq!(bench.ask(transfer(opcode::WRITE_ZEROES, 9, 1, [0, 0])).status, Status::SUCCESS);
    let ranges = [[0_u32, 1, 10, 0], [0, 2, 14, 0]];
    for (place, word) in ranges.as_flattened().iter().enumerate() {
        bench.machine.memory[LISTS as usize + place * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let deallocate = Fields {
        opcode: opcode::DATASET_MANAGEMENT,
        namespace: 1,
        prp: [LISTS, 0],
        dwords: [1, 4, 0, 0, 0, 0],
        ..Fields::default()
    };
    assert_eq!(bench.ask(deallocate).status, Status::SUCCESS);
    let mut held = [0; 4096];
    bench.store.read(4096, &mut held).unwrap();
    let blocks: Vec<u8> = held.chunks(512).map(|block| block[0]).collect();
    assert_eq!(blocks, [5, 0, 0, 5, 5, 5, 0, 0]);
    bench.machine.memory[LISTS as usize + 8..][..4].copy_from_slice(&(BLOCKS as u32).to_le_bytes());
    assert_eq!(bench.ask(deallocate).status, Status::LBA_OUT_OF_RANGE);
}

#[test]
fn dataset_hint_keeps_block_data() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..512].fill(5);
    assert_eq!(bench.ask(transfer(opcode::WRITE, 8, 1, [DATA, 0])).status, Status::SUCCESS);
    let mut first_byte_after = |attributes: u32, blocks: u64| {
        for (place, word) in [0, blocks as u32, 8, 0].iter().enumerate() {
            bench.machine.memory[LISTS as usize + place * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let fields = Fields { opcode: opcode::DATASET_MANAGEMENT, namespace: 1, prp: [LISTS, 0], ..Fields::default() };
        let status = bench.ask(Fields { dwords: [0, attributes, 0, 0, 0, 0], ..fields }).status;
        let mut held = [0; 1];
        bench.store.read(4096, &mut held).unwrap();
        (status, held[0])
    };
    // Bits 0 and 1 are access hints (read or written as a whole). Bit 2 (AD) deallocates the ranges.
    for hint in 0..4 {
        assert_eq!(first_byte_after(hint, 1), (Status::SUCCESS, 5), "{hint}");
        assert_eq!(first_byte_after(hint, BLOCKS), (Status::LBA_OUT_OF_RANGE, 5), "{hint}");
    }
    assert_eq!(first_byte_after(7, 1), (Status::SUCCESS, 0));
}

#[test]
fn log_pages_can_be_read_in_parts() {
    let mut bench = Bench::new();
    bench.ask(transfer(opcode::READ, BLOCKS, 1, [DATA, 0]));
    let log = |page: u32, words: u32, offset: u32| Fields {
        opcode: admin::GET_LOG_PAGE,
        prp: [DATA, LISTS],
        dwords: [page | (words - 1) << 16, 0, offset, 0, 0, 0],
        ..Fields::default()
    };
    assert_eq!(bench.administer(log(1, 16, 0)).status, Status::SUCCESS);
    let page = &bench.machine.memory[DATA as usize..][..64];
    assert_eq!((u64_at(page, 0), u64_at(page, 16), page[8]), (1, BLOCKS, 1));
    assert_eq!(bench.administer(log(5, 1, opcode::WRITE as u32 * 4 + 1024)).status, Status::SUCCESS);
    assert_eq!(bench.machine.word(DATA), 0b11);
    for (fields, expected) in [
        (log(0, 256, 0), Status::SUCCESS),
        (log(2, 128, 0), Status::SUCCESS),
        (log(3, 128, 0), Status::SUCCESS),
        (log(0x12, 256, 0), Status::SUCCESS),
        (log(0x70, 1, 0), Status::INVALID_LOG_PAGE),
        (log(2, 1, 516), Status::INVALID_FIELD),
        (log(2, 1, 2), Status::INVALID_FIELD),
    ] {
        assert_eq!(bench.administer(fields).status, expected, "{:?}", fields.dwords);
    }
}

/// The list of a Copy: first blocks and numbers of blocks.
fn copy_source_list(list: &[(u64, u16)]) -> Vec<u8> {
    let source = |&(slba, blocks): &(u64, u16)| [0, slba, u64::from(blocks - 1), 0].map(u64::to_le_bytes).concat();
    list.iter().flat_map(source).collect()
}

#[test]
fn copy_concatenates_sources_even_when_overlapping() {
    let mut bench = Bench::new();
    let written: Vec<u8> = (0..4096_u32).map(|byte| (byte / 512) as u8 + 1).collect();
    bench.store.write(0, &written).unwrap();
    let mut copy = |list: &[(u64, u16)], to: u32| {
        let bytes = copy_source_list(list);
        bench.machine.memory[DATA as usize..][..bytes.len()].copy_from_slice(&bytes);
        let dwords = [to, 0, list.len() as u32 - 1, 0, 0, 0];
        let fields = Fields { opcode: opcode::COPY, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() };
        let status = bench.ask(fields).status;
        let mut held = vec![0; 4096];
        bench.store.read(0, &mut held).unwrap();
        (status, held.chunks(512).map(|block| block[0]).collect::<Vec<_>>())
    };
    assert_eq!(copy(&[(6, 2), (0, 1)], 1), (Status::SUCCESS, vec![1, 7, 8, 1, 5, 6, 7, 8]));
    assert_eq!(copy(&[(0, 3)], 1), (Status::SUCCESS, vec![1, 1, 7, 8, 5, 6, 7, 8]));
    assert_eq!(copy(&[(BLOCKS - 1, 2)], 0).0, Status::LBA_OUT_OF_RANGE);
    assert_eq!(copy(&[(0, 257)], 0).0, Status::COMMAND_SIZE_LIMIT_EXCEEDED);
}

#[test]
fn verify_reads_without_transfer() {
    let mut bench = Bench::new();
    bench.machine.memory[DATA as usize..][..4096].fill(0xee);
    assert_eq!(bench.ask(transfer(opcode::VERIFY, 0, BLOCKS as u32, [DATA, 0])).status, Status::SUCCESS);
    assert_eq!(bench.machine.memory[DATA as usize..][..4096], [0xee; 4096]);
    let beyond = transfer(opcode::VERIFY, BLOCKS - 1, 2, [DATA, 0]);
    assert_eq!(bench.ask(beyond).status, Status::LBA_OUT_OF_RANGE);
}

#[test]
fn unreadable_blocks_fail_all_reading_commands() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cut-short");
    let _ = fs::remove_file(&path);
    let mut bench = Bench::new();
    bench.store = Store::open(&path, GEOMETRY).unwrap();
    // The blocks are at the end of the file, so cut them off.
    let length = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(length - GEOMETRY.capacity_bytes).unwrap();
    for opcode in [opcode::READ, opcode::COMPARE, opcode::VERIFY] {
        let answer = bench.ask(transfer(opcode, BLOCKS - 8, 8, [DATA, 0]));
        assert_eq!(answer.status, Status::UNRECOVERED_READ_ERROR, "{opcode:x}");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn timestamp_counts_from_the_hosts_value_until_a_restart() {
    let mut bench = Bench::enabled();
    let command = |opcode| Fields { opcode, prp: [DATA, 0], dwords: [0x0e, 0, 0, 0, 0, 0], ..Fields::default() };
    let get = |bench: &mut Bench| {
        assert_eq!(bench.administer(command(admin::GET_FEATURES)).status, Status::SUCCESS);
        let structure = u64_at(&bench.machine.memory[DATA as usize..], 0);
        (structure & 0xffff_ffff_ffff, structure >> 48)
    };
    bench.machine.now_ms = 70;
    assert_eq!(get(&mut bench), (70, 0));
    bench.machine.memory[DATA as usize..][..8].copy_from_slice(&1_000_000_u64.to_le_bytes());
    assert_eq!(bench.administer(command(admin::SET_FEATURES)).status, Status::SUCCESS);
    bench.machine.now_ms = 75;
    assert_eq!(get(&mut bench), (1_000_005, 0b010));
    bench.set(0x14, 0);
    bench.enable();
    bench.machine.now_ms = 76;
    assert_eq!(get(&mut bench), (1, 0));
}

#[test]
fn format_zeroes_blocks_of_512_and_4096_bytes() {
    let mut bench = Bench::new();
    bench.store.write(4096, &[7; 512]).unwrap();
    let format = |first, namespace| {
        let dwords = [first, 0, 0, 0, 0, 0];
        Fields { opcode: admin::FORMAT_NVM, namespace, dwords, ..Fields::default() }
    };
    for (first, namespace, expected) in [
        (0, 2, Status::INVALID_NAMESPACE),
        (4, 1, Status::INVALID_FORMAT),
        (1 << 12, 1, Status::INVALID_FORMAT),
        (1 << 5, 1, Status::INVALID_FORMAT),
        (2 << 9, 1, Status::INVALID_FIELD),
    ] {
        assert_eq!(bench.administer(format(first, namespace)).status, expected, "{first:#x}");
    }
    let mut held = [0; 512];
    bench.store.read(4096, &mut held).unwrap();
    assert_eq!(held, [7; 512]);
    assert_eq!(bench.administer(format(1 << 9, u32::MAX)).status, Status::SUCCESS);
    bench.store.read(4096, &mut held).unwrap();
    assert_eq!(held, [0; 512]);
}
