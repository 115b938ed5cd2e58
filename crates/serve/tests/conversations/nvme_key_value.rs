//! Values of a served drive by their keys, as an NVMe driver meets them: identification, commands, statuses, and what is kept.

use std::fs;
use std::path::{Path, PathBuf};

use crate::nvme_bench::{Bench, DATA, Fields, GEOMETRY, LIMITS, LISTS, MEMORY, PAGE, u64_at};
use phaselink_core::media::keys::{Key, KeyLayout, KeySpace};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::{KeyValueLimits, Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, PSDT_SGL, Status, admin};
use phaselink_serve::device::store::{Store, StoredNamespaceKind};

const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: GEOMETRY.capacity_bytes, granule_bytes: 512, keys_max: 64 };
const KEYS: KeyValueLimits =
    KeyValueLimits { layout: LAYOUT, key_bytes_max: 16, value_bytes_max: 64 << 10, reports_missing: true };
pub(crate) const KEYED: Limits = Limits { kind: NamespaceKind::Keyed(KEYS), ..LIMITS };

/// "Only if the key exists" and "only if it does not", in dword 11 of Store.
const IF_EXISTS: u32 = 1 << 8;
const IF_NEW: u32 = 1 << 9;
/// Feature Key Value Configuration.
const CONFIGURATION: u32 = 0x20;

/// A command for a key, with dword 10 and options, and data of up to 16 pages at `DATA`.
fn key_command_with_data(opcode: u8, key: &str, bytes: u32, options: u32) -> Fields {
    let mut padded = [0; 16];
    padded[..key.len()].copy_from_slice(key.as_bytes());
    let high = u64_at(&padded, 8);
    let dwords = [bytes, options | key.len() as u32, 0, 0, high as u32, (high >> 32) as u32];
    let prp = if bytes > 8192 { [DATA, LISTS] } else { [DATA, DATA + PAGE] };
    Fields { opcode, namespace: 1, dwords_2_3: u64_at(&padded, 0), prp, dwords, ..Fields::default() }
}

/// Puts the list of the pages behind the first one of the data into the host's memory.
fn put_page_list(bench: &mut Bench) {
    for page in 1..17 {
        let at = LISTS as usize + (page as usize - 1) * 8;
        bench.machine.memory[at..at + 8].copy_from_slice(&(DATA + page * PAGE).to_le_bytes());
    }
}

fn ask(bench: &mut Bench, opcode: u8, key: &str) -> CompletionEntry {
    bench.ask(key_command_with_data(opcode, key, 0, 0))
}

fn store(bench: &mut Bench, key: &str, value: &[u8], options: u32) -> Status {
    put_page_list(bench);
    bench.machine.memory[DATA as usize..][..value.len()].copy_from_slice(value);
    bench.ask(key_command_with_data(opcode::STORE, key, value.len() as u32, options)).status
}

/// Status and length of a value, and as much of it as a buffer of so many bytes has.
fn retrieve(bench: &mut Bench, key: &str, buffer_bytes: u32) -> (Status, u64, Vec<u8>) {
    put_page_list(bench);
    bench.machine.memory[DATA as usize..][..64 << 10].fill(0xee);
    let found = bench.ask(key_command_with_data(opcode::RETRIEVE, key, buffer_bytes, 0));
    (found.status, found.result, bench.machine.memory[DATA as usize..][..buffer_bytes as usize].to_vec())
}

/// Keys of a list from one of them on.
fn list(bench: &mut Bench, key: &str, buffer_bytes: u32) -> Vec<String> {
    assert_eq!(bench.ask(key_command_with_data(opcode::LIST, key, buffer_bytes, 0)).status, Status::SUCCESS);
    let bytes = &bench.machine.memory[DATA as usize..][..buffer_bytes as usize];
    let (count, mut rest) = (u32::from_le_bytes(*bytes.first_chunk().unwrap()), &bytes[4..]);
    let mut keys = Vec::new();
    for _ in 0..count {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        keys.push(String::from_utf8(rest[2..2 + length].to_vec()).unwrap());
        rest = &rest[(2 + length).next_multiple_of(4)..];
    }
    keys
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|place| (place as u8).wrapping_mul(7) ^ seed ^ (place >> 8) as u8).collect()
}

#[test]
fn key_value_drive_announces_only_its_command_set() {
    let mut bench = Bench::with(KEYED);
    assert_eq!(bench.get(4) >> 5 & 0x41, 0x40, "CAP.CSS: others, and not NVM");
    assert_eq!(bench.identify(0x1c, 0).1[..2], [0b10, 0], "combination 0");
    assert_eq!(bench.identify(3, 1).1[20..25], [4, 1, 0, 0, 1], "command set identifier");
    let (status, page) = bench.identify_command_set(5, 1, 1);
    assert_eq!((status, u64_at(&page, 0)), (Status::SUCCESS, (1 << 20) + 64 * 16));
    assert_eq!(page[72..84], [16, 0, 0, 0, 0, 0, 1, 0, 64, 0, 0, 0]);
    assert_eq!(bench.identify_command_set(6, 1, 0), (Status::SUCCESS, vec![0; 4096]));
    assert_eq!(bench.identify_command_set(7, 1, 0).1[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.identify_command_set(7, 0, 0).1[..4], [0; 4]);
    for (cns, command_set) in [(0, 0), (0x11, 0), (5, 0), (6, 0), (5, 2), (6, 2)] {
        assert_eq!(bench.identify_command_set(cns, command_set, 1).0, Status::INVALID_FIELD, "{cns:x} {command_set}");
    }
    for cns in [5, 6, 7] {
        assert_eq!(Bench::new().identify_command_set(cns, 1, 1).0, Status::INVALID_FIELD, "no keys");
    }
    let controller = bench.identify(1, 0).1;
    assert_eq!(
        (controller[256] >> 3 & 1, controller[520], controller[534]),
        (0, 1 << 5 | 1 << 6, 0),
        "OACS, ONCS, OCFS"
    );
}

#[test]
fn key_value_controller_starts_only_with_all_command_sets() {
    let start = |command_sets: u32| {
        let mut bench = Bench::controller_off_with_limits(KEYED);
        bench.set(0x24, 15 | 15 << 16);
        bench.set(0x28, crate::nvme_bench::ADMIN_QUEUE as u32);
        bench.set(0x30, crate::nvme_bench::ADMIN_ANSWERS as u32);
        bench.set(0x14, 1 | command_sets << 4 | 6 << 16 | 4 << 20);
        bench.get(0x1c)
    };
    assert_eq!((start(0b110), start(0)), (1, 2), "ready, fatal");
}

#[test]
fn key_command_effects_are_logged() {
    let mut bench = Bench::with(KEYED);
    let mut effects = |command_set: u32| {
        let dwords = [5 | 1023 << 16, 0, 0, 0, command_set << 24, 0];
        let fields = Fields { opcode: admin::GET_LOG_PAGE, prp: [DATA, 0], dwords, ..Fields::default() };
        let status = bench.administer(fields).status;
        let place = |opcode: u8| bench.machine.memory[DATA as usize + 1024 + 4 * usize::from(opcode)];
        (
            status,
            [opcode::STORE, opcode::RETRIEVE, opcode::LIST, opcode::DELETE, opcode::EXIST, opcode::COPY].map(place),
        )
    };
    assert_eq!(effects(1), (Status::SUCCESS, [3, 1, 1, 3, 1, 0]));
    assert_eq!(effects(0).0, Status::INVALID_FIELD);
}

#[test]
fn values_are_retrieved_up_to_the_buffer_size() {
    let mut bench = Bench::with(KEYED);
    for (key, bytes) in [("a", 1), ("b", 511), ("c", 4096), ("sixteen bytes on", 9001), ("e", 64 << 10)] {
        let value = pattern(bytes, bytes as u8);
        assert_eq!(store(&mut bench, key, &value, 0), Status::SUCCESS, "{key}");
        assert_eq!(retrieve(&mut bench, key, bytes as u32), (Status::SUCCESS, bytes as u64, value.clone()), "{key}");
        let (status, length, part) = retrieve(&mut bench, key, 100);
        let expected = [&value[..bytes.min(100)], &[0xee; 100][bytes.min(100)..]].concat();
        assert_eq!((status, length, part), (Status::SUCCESS, bytes as u64, expected), "{key}");
        assert_eq!(retrieve(&mut bench, key, 0).1, bytes as u64, "the length alone");
        assert_eq!(ask(&mut bench, opcode::EXIST, key).result, bytes as u64);
    }
    assert_eq!(store(&mut bench, "", &[1], 0), Status::INVALID_KEY_SIZE);
    assert_eq!(store(&mut bench, "none", &[], 0), Status::SUCCESS);
    assert_eq!(retrieve(&mut bench, "none", 8), (Status::SUCCESS, 0, vec![0xee; 8]));
    assert_eq!(ask(&mut bench, opcode::EXIST, "none").status, Status::SUCCESS, "a key without a value is one");
    assert_eq!(
        bench.ask(key_command_with_data(opcode::STORE, "a", (64 << 10) + 1, 0)).status,
        Status::INVALID_VALUE_SIZE
    );
}

#[test]
fn scattered_buffers_transfer_values() {
    let mut bench = Bench::with(KEYED);
    let value = pattern(700, 3);
    let descriptors = |parts: [(u64, u64); 2]| -> Vec<u8> {
        parts.into_iter().flat_map(|(address, bytes)| [address, bytes]).flat_map(u64::to_le_bytes).collect()
    };
    let list = descriptors([(DATA + 1, 300), (DATA + 9000, 400)]);
    bench.machine.memory[LISTS as usize..][..32].copy_from_slice(&list);
    let scattered = |opcode| {
        let fields = key_command_with_data(opcode, "k", 700, 0);
        Fields { flags: PSDT_SGL, prp: [LISTS, 3 << 60 | 32], ..fields }
    };
    bench.machine.memory[DATA as usize + 1..][..300].copy_from_slice(&value[..300]);
    bench.machine.memory[DATA as usize + 9000..][..400].copy_from_slice(&value[300..]);
    assert_eq!(bench.ask(scattered(opcode::STORE)).status, Status::SUCCESS);
    bench.machine.memory[DATA as usize..][..16 << 10].fill(0);
    assert_eq!(bench.ask(scattered(opcode::RETRIEVE)).status, Status::SUCCESS);
    assert_eq!(bench.machine.memory[DATA as usize + 1..][..300], value[..300]);
    assert_eq!(bench.machine.memory[DATA as usize + 9000..][..400], value[300..]);
}

#[test]
fn store_conditions_hold_and_refusals_change_nothing() {
    let mut bench = Bench::with(KEYED);
    assert_eq!(store(&mut bench, "k", b"first", IF_EXISTS), Status::KEY_DOES_NOT_EXIST);
    assert_eq!(store(&mut bench, "k", b"first", IF_NEW), Status::SUCCESS);
    assert_eq!(store(&mut bench, "k", b"again", IF_NEW), Status::KEY_EXISTS);
    assert_eq!(retrieve(&mut bench, "k", 5).2, b"first");
    assert_eq!(store(&mut bench, "k", b"again", IF_EXISTS), Status::SUCCESS);
    assert_eq!(retrieve(&mut bench, "k", 5).2, b"again");
    assert_eq!(store(&mut bench, "k", b"never", IF_NEW | IF_EXISTS), Status::KEY_EXISTS);
    assert_eq!(ask(&mut bench, opcode::RETRIEVE, "other").status, Status::KEY_DOES_NOT_EXIST);
    assert_eq!(ask(&mut bench, opcode::EXIST, "other").status, Status::KEY_DOES_NOT_EXIST);
    for opcode in [opcode::COMPARE, opcode::WRITE_ZEROES, opcode::DATASET_MANAGEMENT, opcode::VERIFY, opcode::COPY] {
        assert_eq!(ask(&mut bench, opcode, "k").status, Status::INVALID_OPCODE, "{opcode:x}");
    }
    let long = Fields { dwords: [0, 17, 0, 0, 0, 0], ..key_command_with_data(opcode::DELETE, "k", 0, 0) };
    assert_eq!(bench.ask(long).status, Status::INVALID_FIELD);
}

#[test]
fn keys_are_listed_in_order_from_a_given_key() {
    let mut bench = Bench::with(KEYED);
    for key in ["pear", "apple", "plum", "fig"] {
        assert_eq!(store(&mut bench, key, b"fruit", 0), Status::SUCCESS);
    }
    assert_eq!(list(&mut bench, "", 4096), ["apple", "fig", "pear", "plum"]);
    assert_eq!(list(&mut bench, "g", 4096), ["pear", "plum"]);
    assert_eq!(list(&mut bench, "pear", 4 + 8), ["pear"], "no room for another one");
    assert_eq!(bench.ask(key_command_with_data(opcode::LIST, "", 3, 0)).status, Status::INVALID_FIELD);
    assert_eq!(ask(&mut bench, opcode::DELETE, "pear").status, Status::SUCCESS);
    assert_eq!(list(&mut bench, "g", 4096), ["plum"]);
}

#[test]
fn full_key_namespace_has_space_again_after_deletions() {
    let mut bench = Bench::with(KEYED);
    let value = pattern(60 << 10, 1);
    for number in 0..17 {
        assert_eq!(store(&mut bench, &format!("v{number}"), &value, 0), Status::SUCCESS, "{number}");
    }
    assert_eq!(store(&mut bench, "v17", &value, 0), Status::CAPACITY_EXCEEDED);
    assert_eq!(store(&mut bench, "v0", &value, 0), Status::CAPACITY_EXCEEDED, "the old value has to stay until then");
    assert_eq!(ask(&mut bench, opcode::DELETE, "v3").status, Status::SUCCESS);
    assert_eq!(store(&mut bench, "v0", &value, 0), Status::SUCCESS);
    for number in 0..48 {
        assert_eq!(store(&mut bench, &format!("n{number}"), &[], 0), Status::SUCCESS, "{number}");
    }
    assert_eq!(store(&mut bench, "one more", &[], 0), Status::CAPACITY_EXCEEDED);
    assert_eq!(retrieve(&mut bench, "v0", 60 << 10).2, value);
}

#[test]
fn deleting_a_missing_key_is_an_error_by_default() {
    let mut bench = Bench::with(KEYED);
    let mut configure = |value: Option<u32>, namespace: u32| {
        let opcode = if value.is_some() { admin::SET_FEATURES } else { admin::GET_FEATURES };
        let dwords = [CONFIGURATION, value.unwrap_or(0), 0, 0, 0, 0];
        let done = bench.administer(Fields { opcode, namespace, dwords, ..Fields::default() });
        let deleted = ask(&mut bench, opcode::DELETE, "nothing").status;
        (done.status, done.result, deleted)
    };
    assert_eq!(configure(None, 1), (Status::SUCCESS, 1, Status::KEY_DOES_NOT_EXIST));
    assert_eq!(configure(Some(0), 1), (Status::SUCCESS, 0, Status::SUCCESS));
    assert_eq!(configure(None, 1), (Status::SUCCESS, 0, Status::SUCCESS));
    assert_eq!(configure(Some(1), u32::MAX), (Status::SUCCESS, 0, Status::KEY_DOES_NOT_EXIST));
    assert_eq!(configure(Some(1), 2).0, Status::INVALID_NAMESPACE);
    let dwords = [CONFIGURATION, 0, 0, 0, 0, 0];
    let fields = Fields { opcode: admin::GET_FEATURES, namespace: 1, dwords, ..Fields::default() };
    assert_eq!(Bench::new().administer(fields).status, Status::INVALID_FIELD, "a drive with blocks");
}

#[test]
fn store_with_unreachable_data_keeps_the_old_value() {
    let mut bench = Bench::with(KEYED);
    assert_eq!(store(&mut bench, "k", b"old", 0), Status::SUCCESS);
    let beyond = MEMORY as u64 * 2;
    for _ in 0..100 {
        let fields = Fields { prp: [DATA, beyond], ..key_command_with_data(opcode::STORE, "k", 8192, 0) };
        assert_eq!(bench.ask(fields).status, Status::DATA_TRANSFER_ERROR);
    }
    assert_eq!(retrieve(&mut bench, "k", 3).2, b"old");
    let keys = bench.store.keys().unwrap();
    assert_eq!((keys.used_bytes(), keys.with(KeySpace::inconsistency)), (512 + 1, None));
    assert_eq!(keys.with(|space| space.free_ranges().map(|(_, bytes)| bytes).sum::<u64>()), (1 << 20) - 512);
}

#[test]
fn format_and_sanitize_delete_the_keys() {
    let mut bench = Bench::with(KEYED);
    for (opcode, dword) in [(admin::FORMAT_NVM, 0), (admin::SANITIZE, 2)] {
        assert_eq!(store(&mut bench, "k", b"value", 0), Status::SUCCESS);
        let fields = Fields { opcode, namespace: 1, dwords: [dword, 0, 0, 0, 0, 0], ..Fields::default() };
        assert_eq!(bench.administer(fields).status, Status::SUCCESS);
        assert_eq!(ask(&mut bench, opcode::EXIST, "k").status, Status::KEY_DOES_NOT_EXIST);
        assert!(list(&mut bench, "", 64).is_empty());
    }
    let mut bytes = [1; 512];
    bench.store.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 512]);
    let other = Fields { opcode: admin::FORMAT_NVM, namespace: 1, dwords: [1, 0, 0, 0, 0, 0], ..Fields::default() };
    assert_eq!(bench.administer(other).status, Status::INVALID_FORMAT);
    for opcode in [admin::NAMESPACE_MANAGEMENT, admin::NAMESPACE_ATTACHMENT] {
        let fields = Fields { opcode, namespace: 1, prp: [DATA, 0], ..Fields::default() };
        assert_eq!(bench.administer(fields).status, Status::INVALID_OPCODE);
    }
}

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("key-value");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    path
}

fn on_file(path: &Path) -> Bench {
    let store = Store::open_with_kind(StoredNamespaceKind::KeyValue, path, GEOMETRY.with_key_index(&LAYOUT)).unwrap();
    let mut bench = Bench::with(KEYED);
    bench.store = store.with_keys(LAYOUT).unwrap();
    bench
}

/// The server ends without a word, as if the power of its drive were cut.
#[test]
fn keys_outlive_the_server_as_of_the_last_flush() {
    let path = path("flushed");
    let mut bench = on_file(&path);
    let (first, second) = (pattern(5000, 1), pattern(6000, 2));
    assert_eq!(store(&mut bench, "kept", &first, 0), Status::SUCCESS);
    assert_eq!(store(&mut bench, "replaced", &first, 0), Status::SUCCESS);
    assert_eq!(store(&mut bench, "deleted", &first, 0), Status::SUCCESS);
    let flush = Fields { opcode: opcode::FLUSH, namespace: 1, ..Fields::default() };
    assert_eq!(bench.ask(flush).status, Status::SUCCESS);
    assert_eq!(store(&mut bench, "replaced", &second, 0), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::DELETE, "deleted").status, Status::SUCCESS);
    for number in 0..40 {
        assert_eq!(store(&mut bench, &format!("new {number}"), &second, 0), Status::SUCCESS);
    }
    drop(bench);
    let mut bench = on_file(&path);
    assert_eq!(list(&mut bench, "", 4096), ["deleted", "kept", "replaced"]);
    for key in ["deleted", "kept", "replaced"] {
        assert_eq!(retrieve(&mut bench, key, 5000).2, first, "{key}");
    }
    assert_eq!(store(&mut bench, "replaced", &second, 0), Status::SUCCESS);
    assert_eq!(ask(&mut bench, opcode::DELETE, "deleted").status, Status::SUCCESS);
    assert_eq!(bench.ask(flush).status, Status::SUCCESS);
    drop(bench);
    let mut bench = on_file(&path);
    assert_eq!(list(&mut bench, "", 4096), ["kept", "replaced"]);
    assert_eq!(retrieve(&mut bench, "replaced", 6000).2, second);
}

#[test]
fn store_without_write_cache_is_durable_at_completion() {
    let path = path("forced");
    let mut bench = on_file(&path);
    let dwords = [6, 0, 0, 0, 0, 0];
    let write_cache_off = Fields { opcode: admin::SET_FEATURES, dwords, ..Fields::default() };
    assert_eq!(bench.administer(write_cache_off).status, Status::SUCCESS);
    assert_eq!(store(&mut bench, "k", b"value", 0), Status::SUCCESS);
    drop(bench);
    let mut bench = on_file(&path);
    assert_eq!(retrieve(&mut bench, "k", 5).2, b"value");
    assert_eq!(ask(&mut bench, opcode::EXIST, "k").result, 5);
}

/// More values than there is room for at a time: room that the last flush still needs is free after another one.
#[test]
fn store_flushes_when_only_held_space_is_left() {
    let path = path("held");
    let mut bench = on_file(&path);
    for round in 0..40 {
        let value = pattern(60 << 10, round);
        assert_eq!(store(&mut bench, "k", &value, 0), Status::SUCCESS, "{round}");
        assert_eq!(retrieve(&mut bench, "k", 60 << 10).2, value);
    }
    drop(bench);
    assert_eq!(on_file(&path).store.keys().unwrap().with(KeySpace::inconsistency), None);
}

#[test]
fn key_settings_and_keys_belong_to_their_namespace() {
    let path = path("other");
    let mut bench = on_file(&path);
    assert_eq!(store(&mut bench, "k", b"value", 0), Status::SUCCESS);
    bench.store.flush().unwrap();
    drop(bench);
    let whole = GEOMETRY.with_key_index(&LAYOUT);
    let blocks = Store::open(&path, whole).unwrap_err().to_string();
    assert!(blocks.contains("the store holds a key-value namespace; allowed: a store of a conventional"), "{blocks}");
    let larger = KeyLayout { keys_max: 100, ..LAYOUT };
    let other = Store::open_with_kind(StoredNamespaceKind::KeyValue, &path, GEOMETRY.with_key_index(&larger))
        .unwrap_err()
        .to_string();
    assert!(other.contains("bytes of values and their index, in granules of 512; allowed: "), "{other}");
    let store = Store::open_with_kind(StoredNamespaceKind::KeyValue, &path, whole).unwrap();
    let coarse = KeyLayout { granule_bytes: 4096, ..LAYOUT };
    let refused = store.with_keys(coarse).unwrap_err().to_string();
    let found = "the store holds up to 64 keys, and 1048576 bytes of values in granules of 512; allowed: a store of up to 64 keys";
    assert!(refused.contains(found), "{refused}");
    let bench = on_file(&path);
    assert_eq!(
        bench.store.keys().unwrap().with(|space| space.find(Key::new(b"k").unwrap()).map(|it| it.bytes)),
        Some(5)
    );
}
