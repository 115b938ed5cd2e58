//! The store: what it keeps, and what it refuses.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use phaselink_serve::device::store::{Geometry, Store, StoreCopyDirection, StoredNamespaceKind};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const DATA_START: u64 = 2 << 20;

fn path(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_file(&path);
    path
}

fn read(store: &Store, offset: u64, bytes: usize) -> Vec<u8> {
    let mut into = vec![0xee; bytes];
    store.read(offset, &mut into).unwrap();
    into
}

fn refusal(path: &Path, geometry: Geometry) -> String {
    let before = fs::read(path).unwrap();
    let problem = Store::open(path, geometry).unwrap_err();
    assert!(fs::read(path).unwrap() == before, "a refused file is left as it is");
    problem.to_string().replace(&path.display().to_string(), "FILE")
}

fn damage(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn new_store_reads_zeros_and_uses_no_space() {
    let path = path("fresh");
    let store = Store::open(&path, GEOMETRY).unwrap();
    assert!(read(&store, 0, 1 << 20).iter().all(|byte| *byte == 0));
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), DATA_START + GEOMETRY.capacity_bytes);
    assert!(metadata.blocks() * 512 < 64 << 10);
}

#[test]
fn store_too_large_for_its_file_system_leaves_no_file() {
    let path = path("too-large");
    let too_large = Geometry { capacity_bytes: 1 << 62, block_bytes: 512 };
    assert!(Store::open(&path, too_large).is_err());
    assert!(!path.exists());
    // An empty file that existed before must stay empty.
    File::create(&path).unwrap();
    assert_eq!(refusal(&path, too_large).split(':').next(), Some("FILE"));
    Store::open(&path, GEOMETRY).unwrap();
}

#[test]
fn words_are_lent_from_memory_stores_only() {
    let store = Store::in_memory(GEOMETRY).unwrap();
    store.write(4096, &[0x11; 512]).unwrap();
    let words = store.words(4096 - 8, 24).unwrap();
    let found: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    assert_eq!(found, [0, 0x1111_1111_1111_1111, 0x1111_1111_1111_1111]);
    assert!(Store::open(&path("lent"), GEOMETRY).unwrap().words(0, 512).is_none());
}

#[test]
fn written_data_persists_across_reopening() {
    let path = path("again");
    for round in 1..4u8 {
        let store = Store::open(&path, GEOMETRY).unwrap();
        assert_eq!(read(&store, 5000, 100), vec![round - 1; 100]);
        store.write(5000, &[round; 100]).unwrap();
        store.flush_range(5000, 100).unwrap();
    }
    assert_eq!(read(&Store::open(&path, GEOMETRY).unwrap(), 5000, 100), [3; 100]);
}

#[test]
fn file_that_is_not_a_store_is_refused() {
    let path = path("other");
    fs::write(&path, "a letter").unwrap();
    let expected = "FILE: this is no store of phaselink, and has 8 bytes; \
                    allowed: a store, of 3145728 bytes, or a path where there is no file yet";
    assert_eq!(refusal(&path, GEOMETRY), expected);
    // A file of the right size with other contents is not a store either.
    fs::write(&path, vec![1; 3 << 20]).unwrap();
    assert!(refusal(&path, GEOMETRY).contains("no store of phaselink, and has 3145728 bytes"));
}

#[test]
fn store_of_other_size_version_or_checksum_is_refused() {
    let path = path("wrong");
    drop(Store::open(&path, GEOMETRY).unwrap());
    let larger = Geometry { capacity_bytes: 2 << 20, ..GEOMETRY };
    let expected = "FILE: the store holds 1048576 bytes in blocks of 512; allowed: 2097152 bytes in blocks of 512";
    assert_eq!(refusal(&path, larger), expected);
    for length in [DATA_START + 5, 4096, 4 << 20] {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        let expected = format!(
            "FILE: the store has {length} bytes: something is missing, or too much; \
             allowed: 3145728 bytes; restore a copy of the file, or remove it to begin with zeros"
        );
        assert_eq!(refusal(&path, GEOMETRY), expected);
    }
    damage(&path, 100);
    let expected = "FILE: the header is damaged: its checksum is wrong; allowed: the store as it was written";
    assert_eq!(refusal(&path, GEOMETRY), expected);
    damage(&path, 9);
    assert_eq!(refusal(&path, GEOMETRY), "FILE: the store has version 259; allowed: version 1, 2 or 3");
}

#[test]
fn store_of_another_namespace_kind_is_refused_naming_both() {
    let path = path("kinds");
    drop(Store::open_with_kind(StoredNamespaceKind::Zoned, &path, GEOMETRY).unwrap());
    let expected = "FILE: the store holds a zoned namespace; \
                    allowed: a store of a conventional namespace, or a path where there is no file yet";
    assert_eq!(refusal(&path, GEOMETRY), expected);
    drop(Store::open_with_kind(StoredNamespaceKind::Zoned, &path, GEOMETRY).unwrap());
    let problem = Store::open_with_kind(StoredNamespaceKind::KeyValue, &path, GEOMETRY).unwrap_err().to_string();
    assert!(problem.contains("holds a zoned namespace") && problem.contains("of a key-value namespace"), "{problem}");
}

/// Checks that a store keeps unreadable blocks until they are written, also when it is opened again by `open`.
fn check_unreadable_blocks_persist(open: impl Fn() -> Store) {
    let store = open();
    store.write(0, &[1; 16384]).unwrap();
    store.make_unreadable(4096, 8192).unwrap();
    let store = if store.is_in_memory() {
        store
    } else {
        drop(store);
        open()
    };
    let fails = |offset: u64, bytes: usize| store.read(offset, &mut vec![0; bytes]).is_err();
    assert!(fails(4096, 512) && fails(0, 4104) && fails(12288 - 8, 8) && fails(0, 16384));
    assert!(store.lend(8192, 512, StoreCopyDirection::Read, |_| ()).is_none());
    assert_eq!((read(&store, 0, 4096), read(&store, 12288, 4096)), (vec![1; 4096], vec![1; 4096]));
    store.write(4096, &[2; 512]).unwrap();
    assert_eq!(store.lend(4608, 512, StoreCopyDirection::Write, |_| ()), Some(()));
    store.zero(5120, 512, false).unwrap();
    assert_eq!(read(&store, 4096, 1536), [vec![2; 512], vec![1; 512], vec![0; 512]].concat());
    assert!(fails(5632, 512));
    store.zero(0, 16384, true).unwrap();
    assert_eq!(read(&store, 0, 16384), [0; 16384]);
}

#[test]
fn unreadable_blocks_fail_until_rewritten_in_memory_and_file() {
    check_unreadable_blocks_persist(|| Store::in_memory(GEOMETRY).unwrap());
    let path = path("unreadable");
    check_unreadable_blocks_persist(|| Store::open(&path, GEOMETRY).unwrap());
    drop(Store::open(&path, GEOMETRY).unwrap());
    assert_eq!(read(&Store::open(&path, GEOMETRY).unwrap(), 0, 16384), [0; 16384]);
}

/// A store of the first version whose state slots hold something else becomes one of the newest version with its first record.
#[test]
fn first_version_store_is_migrated_when_it_keeps_state() {
    let geometry = Geometry { capacity_bytes: 16 << 20, block_bytes: 512 };
    let (path, data_start) = (path("migrated"), 8 << 20);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let (head, checksum) = FIRST_VERSION;
    file.write_all_at(&head, 0).unwrap();
    file.write_all_at(&checksum, 4092).unwrap();
    file.write_all_at(&[0x5a; 2 << 20], 4096).unwrap();
    file.write_all_at(&[7; 512], data_start + 4096).unwrap();
    file.set_len(data_start + geometry.capacity_bytes).unwrap();
    Store::open(&path, geometry).unwrap().make_unreadable(0, 512).unwrap();
    for _ in 0..2 {
        let store = Store::open(&path, geometry).unwrap();
        assert_eq!((read(&store, 4096, 512), store.read(0, &mut [0; 512]).is_err()), (vec![7; 512], true));
    }
    let mut version = [0; 4];
    file.read_exact_at(&mut version, 8).unwrap();
    assert_eq!(version, [3, 0, 0, 0]);
    assert_eq!(fs::metadata(&path).unwrap().len(), data_start + geometry.capacity_bytes);
}

#[test]
fn partially_created_store_is_completed() {
    let path = path("half");
    for length in [0, DATA_START + GEOMETRY.capacity_bytes] {
        File::create(&path).unwrap().set_len(length).unwrap();
        let store = Store::open(&path, GEOMETRY).unwrap();
        assert_eq!(read(&store, (1 << 20) - 1, 1), [0]);
        drop(store);
        Store::open(&path, GEOMETRY).unwrap();
    }
}

#[test]
fn new_store_is_private_and_an_existing_file_keeps_its_mode() {
    let path = path("mode");
    let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
    drop(Store::open(&path, GEOMETRY).unwrap());
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    drop(Store::open(&path, GEOMETRY).unwrap());
    assert_eq!(mode(), 0o640);
}

/// A store with written blocks from 0 to 64 KiB and at 512 KiB, and the file behind it, which has been cut off.
fn truncated_store(test: &str, length: u64) -> (Store, File) {
    let path = path(test);
    let store = Store::open(&path, GEOMETRY).unwrap();
    store.write(0, &[1; 64 << 10]).unwrap();
    store.write(512 << 10, &[2; 4096]).unwrap();
    store.flush().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(length).unwrap();
    (store, file)
}

fn all_requests_fail(store: &Store, file: &File) {
    let length = file.metadata().unwrap().len();
    assert!(store.read(512 << 10, &mut [0; 4096]).is_err(), "a written block that is gone");
    assert!(store.read(0, &mut [0; 4096]).is_err(), "a written block");
    assert!(store.read(900 << 10, &mut [0; 4096]).is_err(), "a block that was never written");
    assert!(store.write(0, &[3; 4096]).is_err() && store.write(900 << 10, &[3; 4096]).is_err());
    assert!(store.lend(0, 4096, StoreCopyDirection::Read, |_| ()).is_none());
    assert!(store.lend(0, 4096, StoreCopyDirection::Write, |_| ()).is_none());
    assert!(store.zero(0, 64 << 10, false).is_err() && store.zero(0, 4096, true).is_err());
    assert!(store.flush().is_err() && store.flush_range(0, 4096).is_err());
    assert_eq!(file.metadata().unwrap().len(), length, "no request makes the file longer again");
}

#[test]
fn requests_to_a_truncated_store_fail_without_crash() {
    type FirstStoreAccess = (&'static str, fn(&Store) -> bool);
    let first: [FirstStoreAccess; 7] = [
        ("read", |store| store.read(512 << 10, &mut [0; 4096]).is_err()),
        ("write", |store| store.write(0, &[3; 4096]).is_err()),
        ("hole", |store| store.read(900 << 10, &mut [0; 4096]).is_err()),
        ("new", |store| store.write(900 << 10, &[3; 4096]).is_err()),
        ("lent", |store| {
            let sum = |words: &[AtomicU64]| words.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u64>();
            store.lend(512 << 10, 4096, StoreCopyDirection::Read, sum).is_none()
        }),
        ("zero", |store| store.zero(0, 64 << 10, false).is_err()),
        ("flush", |store| store.flush().is_err()),
    ];
    let other = Store::open(&path("cut-other"), GEOMETRY).unwrap();
    other.write(0, &[7; 4096]).unwrap();
    for (name, fails) in first {
        let (store, file) = truncated_store(&format!("cut-{name}"), 4096);
        assert!(fails(&store), "{name}");
        all_requests_fail(&store, &file);
    }
    assert_eq!(read(&other, 0, 4096), [7; 4096]);
}

#[test]
fn copying_threads_get_errors_from_a_truncated_store() {
    let (store, file) = truncated_store("cut-threads", DATA_START + GEOMETRY.capacity_bytes);
    let reader = || {
        let mut into = [0; 64 << 10];
        while store.read(0, &mut into).is_ok() {
            assert!(into.iter().all(|byte| *byte == 1), "a page that is gone reads as zeros");
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.set_len(DATA_START + (32 << 10)).unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    all_requests_fail(&store, &file);
}

#[test]
fn store_cannot_be_shared_by_two_servers() {
    let path = path("shared");
    let store = Store::open(&path, GEOMETRY).unwrap();
    assert_eq!(refusal(&path, GEOMETRY), "FILE: another server has this store; allowed: one server a store");
    drop(store);
    Store::open(&path, GEOMETRY).unwrap();
}

/// The header that `phaselink serve` of version 0.1.0 wrote for a drive of 16 MiB: its first bytes, and the checksum
/// over these and the zeros behind them, which ends the page.
const FIRST_VERSION: ([u8; 24], [u8; 4]) =
    (*b"phaselnk\x01\0\0\0\0\x02\0\0\0\0\0\x01\0\0\0\0", [0xf9, 0xa1, 0x85, 0x0b]);

#[test]
fn first_version_store_is_served_unchanged() {
    let geometry = Geometry { capacity_bytes: 16 << 20, block_bytes: 512 };
    let (path, data_start) = (path("first"), 8 << 20);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let (head, checksum) = FIRST_VERSION;
    file.write_all_at(&head, 0).unwrap();
    file.write_all_at(&checksum, 4092).unwrap();
    // In the first version the space after the header was unused, so its contents must be ignored.
    file.write_all_at(&[0x5a; 100], 64 << 10).unwrap();
    file.write_all_at(&[7; 512], data_start + 4096).unwrap();
    file.set_len(data_start + geometry.capacity_bytes).unwrap();
    for round in 7..9u8 {
        let store = Store::open(&path, geometry).unwrap();
        assert_eq!(read(&store, 4096, 512), [round; 512]);
        assert_eq!(read(&store, 8192, 1), [0]);
        store.write(4096, &[round + 1; 512]).unwrap();
        store.write((16 << 20) - 1, &[round]).unwrap();
        store.zero(8192, 4096, false).unwrap();
        store.flush().unwrap();
    }
    let mut found = vec![0; (data_start + geometry.capacity_bytes) as usize];
    assert_eq!(fs::metadata(&path).unwrap().len(), found.len() as u64);
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[..24] == head && found[4092..4096] == checksum && found[64 << 10..][..100] == [0x5a; 100]);
    assert!(found[(8 << 20) + 4096..][..512] == [9; 512] && found.last() == Some(&8));
    assert!(found[2 << 20..8 << 20].iter().all(|byte| *byte == 0), "nothing where the second version has its data");
}

#[test]
fn zeroed_space_is_freed_unless_kept() {
    let path = path("trim");
    let store = Store::open(&path, GEOMETRY).unwrap();
    let used = || fs::metadata(&path).unwrap().blocks() * 512;
    store.write(0, &vec![1; 1 << 20]).unwrap();
    let full = used();
    store.zero(0, 512 << 10, true).unwrap();
    assert_eq!(used(), full);
    store.zero(100, 512 << 10, false).unwrap();
    assert!(used() + (400 << 10) < full);
    assert_eq!(read(&store, (512 << 10) + 100, 1), [1]);
    assert!(read(&store, 0, (512 << 10) + 100).iter().all(|byte| *byte == 0));
}

/// A tmpfs of 1 MiB beyond the store's own pages, or none where this process may not make one.
fn mount_small_tmpfs(test: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&place).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
    let mounted = std::process::Command::new("mount").args(mount).arg(&place).output();
    mounted.is_ok_and(|output| output.status.success()).then_some(place)
}

#[test]
fn full_disk_fails_the_write_only() {
    let Some(place) = mount_small_tmpfs("full") else {
        return eprintln!("skipped: only root can make a small disk");
    };
    let filled = std::panic::catch_unwind(|| fill(&place.join("store")));
    let unmounted = std::process::Command::new("umount").arg(&place).status().unwrap();
    assert!(unmounted.success());
    let written = filled.unwrap();
    assert!(written > 100, "{written} blocks");
}

/// Blocks that a disk takes; all of them are there afterwards, and can be written again.
fn fill(path: &Path) -> u64 {
    let geometry = Geometry { capacity_bytes: 4 << 20, block_bytes: 512 };
    let store = Store::open(path, geometry).unwrap();
    let block = |number: u64| [(number % 200) as u8 + 1; 4096];
    let refused = (0..1024).find(|number| store.write(number * 4096, &block(*number)).is_err());
    let written = refused.expect("the disk is smaller than the store");
    store.flush().unwrap();
    for number in 0..written {
        assert_eq!(read(&store, number * 4096, 4096), block(number));
        store.write(number * 4096, &block(number + 7)).unwrap();
    }
    assert!(read(&store, written * 4096, 4096).iter().all(|byte| *byte == 0));
    drop(store);
    let store = Store::open(path, geometry).unwrap();
    assert_eq!(read(&store, 0, 4096), block(7));
    store.zero(0, 4096, false).unwrap();
    store.write(written * 4096, &block(0)).expect("there is room for one page again");
    written
}

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, bytes: usize, value: u8 },
    Zero { offset: u64, bytes: usize, keep_space: bool },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0u64..1 << 20, 0usize..20_000).prop_map(|(o, b)| (o, b.min(((1u64 << 20) - o) as usize)));
    prop_oneof![
        (range(), 1u8..).prop_map(|((offset, bytes), value)| Step::Write { offset, bytes, value }),
        (range(), any::<bool>()).prop_map(|((offset, bytes), keep_space)| Step::Zero { offset, bytes, keep_space }),
        Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn store_equals_a_flat_array(steps in prop::collection::vec(step(), 1..24)) {
        let path = path("flat");
        let memory = Store::in_memory(GEOMETRY).unwrap();
        let mut file = Store::open(&path, GEOMETRY).unwrap();
        let mut flat = vec![0u8; 1 << 20];
        for step in steps {
            match step {
                Step::Write { offset, bytes, value } => {
                    flat[offset as usize..][..bytes].fill(value);
                    memory.write(offset, &vec![value; bytes]).unwrap();
                    file.write(offset, &vec![value; bytes]).unwrap();
                }
                Step::Zero { offset, bytes, keep_space } => {
                    flat[offset as usize..][..bytes].fill(0);
                    memory.zero(offset, bytes as u64, keep_space).unwrap();
                    file.zero(offset, bytes as u64, keep_space).unwrap();
                }
                Step::Reopen => {
                    drop(file);
                    file = Store::open(&path, GEOMETRY).unwrap();
                }
            }
        }
        prop_assert!(read(&memory, 0, 1 << 20) == flat);
        prop_assert!(read(&file, 0, 1 << 20) == flat);
    }
}

#[test]
fn missing_directory_is_reported_in_the_systems_words() {
    let path = path("nowhere").join("store");
    let problem = Store::open(&path, GEOMETRY).unwrap_err().to_string();
    assert!(problem.contains("cannot be opened: No such file or directory"), "{problem}");
    assert!(File::open(path).is_err());
}
