//! Targets that read a file given as a store.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use phaselink_core::media::keys::{Key, KeyLayout, KeySpace, StoreConditions};
use phaselink_serve::device::store::{Geometry, Store, StoredNamespaceKind};
use rustix::fs::MemfdFlags;

use crate::Target;
use crate::script::Script;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 64 << 10, block_bytes: 512 };
/// Offsets at which versions 1 and 2 of the format keep the device's bytes.
const DATA_STARTS: [u64; 2] = [8 << 20, 2 << 20];
const HEADER_BYTES: usize = 4096;

/// Checks a file that differs from a store of either version by the input: its length, and the first bytes of the
/// header. The checksum is corrected where the input says so.
pub(super) const HEADER: Target = Target { name: "store", run: header, seeds };

/// Checks a store of keys whose index is what the input says: records of any keys and rooms, some of them damaged.
pub(super) const KEYS: Target = Target { name: "store-keys", run: keys, seeds: key_seeds };

/// Up to 16 keys, with values in granules of 512 bytes.
const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: GEOMETRY.capacity_bytes, granule_bytes: 512, keys_max: 16 };
/// Bytes of the head of an index, and place of its checksum.
const INDEX_HEAD_BYTES: usize = 512;
/// Generation of the index.
const GENERATION: u64 = 3;

fn keys(input: &[u8]) {
    let mut script = Script::new(input);
    let file = File::from(rustix::fs::memfd_create("store", MemfdFlags::CLOEXEC).expect("memory"));
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let open = || {
        Store::open_with_kind(StoredNamespaceKind::KeyValue, &path, GEOMETRY.with_key_index(&LAYOUT))
            .expect("a store of this kind")
    };
    drop(open());
    file.write_all_at(&index(&mut script), DATA_STARTS[1] + GEOMETRY.capacity_bytes).expect("memory");
    let Ok(store) = open().with_keys(LAYOUT) else { return };
    let found = |store: &Store| {
        let keys = store.keys().expect("it has keys");
        assert_eq!(keys.with(KeySpace::inconsistency), None);
        keys.with(|space| {
            space.iter_from_key(Key::default()).map(|(key, value)| (*key, value.clone())).collect::<Vec<_>>()
        })
    };
    assert!(found(&store).len() <= 16);
    let (keys, options) = (store.keys().expect("it has keys"), StoreConditions::default());
    if let Ok(room) = keys.reserve(Key::of_number(7), 600, options) {
        keys.commit(Key::of_number(7), room, options).expect("it was checked");
    }
    store.flush().expect("memory");
    let before = found(&store);
    drop(store);
    let again = open().with_keys(LAYOUT).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(found(&again), before);
}

/// Returns an index of one half, with a whole head unless the input says otherwise.
fn index(script: &mut Script<'_>) -> Vec<u8> {
    let mut index = vec![0; INDEX_HEAD_BYTES];
    index[..8].copy_from_slice(b"plkeyidx");
    let numbers = [GENERATION, LAYOUT.capacity_bytes, LAYOUT.granule_bytes.into(), LAYOUT.keys_max.into()];
    for (place, number) in index[8..].as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = u64::to_le_bytes(number);
    }
    let damaged = usize::from(script.byte());
    index[damaged % INDEX_HEAD_BYTES] ^= script.byte();
    seal(&mut index, INDEX_HEAD_BYTES - 4);
    // A half has room for this number of bytes, and longer input reaches into the other half.
    while !script.is_over() && index.len() < 9000 {
        let record = record(script);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&GENERATION.to_le_bytes());
        checksum.update(&record);
        index.extend((record.len() as u32).to_le_bytes());
        index.extend(checksum.finalize().to_le_bytes());
        index.extend(record);
        if script.byte() == 1 {
            let place = index.len() - 1 - script.number(1) as usize % 20;
            index[place] ^= 1;
        }
    }
    index
}

/// Returns the record of a key: its deletion, or a value in up to three runs.
fn record(script: &mut Script<'_>) -> Vec<u8> {
    let (key, length, runs) = (script.byte(), script.byte(), script.byte());
    let mut record = vec![0; 16];
    record[0] = key % 20;
    record.extend([length % 18, if runs == 255 { 255 } else { runs % 4 }]);
    record.extend((script.number(2) as u32).to_le_bytes());
    for _ in 0..runs % 4 {
        record.extend(script.number(1).to_le_bytes());
        record.extend((u32::from(script.byte()) % 8).to_le_bytes());
    }
    record
}

fn key_seeds() -> Vec<Vec<u8>> {
    let fine = [0, 0];
    // A record has the key, its length, the number of runs, the length of the value, and for each run its first granule
    // and its number of granules. The last byte means no damage.
    let put = |key: u8, first: u8| [key, 4, 1, 0, 2, first, 1, 0].to_vec();
    let many: Vec<u8> = (0..16).flat_map(|key| put(key, key * 3)).collect();
    let deleted = [5, 4, 255, 0, 0, 0].to_vec();
    vec![
        fine.to_vec(),
        [&fine[..], &many].concat(),
        [&fine[..], &many, &deleted, &put(5, 100)].concat(),
        [&fine[..], &put(1, 10), &put(2, 10)].concat(),
        [&fine[..], &[3, 4, 2, 88, 2, 9, 1, 60, 1, 1], &put(3, 4)].concat(),
        [&[9, 1][..], &many].concat(),
    ]
}

fn header(input: &[u8]) {
    let mut script = Script::new(input);
    let file = File::from(rustix::fs::memfd_create("store", MemfdFlags::CLOEXEC).expect("memory"));
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    damage(&file, &mut script);
    let before = Facts::of(&file);
    let Ok(store) = Store::open(&path, GEOMETRY) else {
        return assert!(before == Facts::of(&file), "a file that is refused is left as it is");
    };
    use_it(store, &path);
}

fn damage(file: &File, script: &mut Script<'_>) {
    let how = script.byte();
    let version = usize::from(how >> 3 & 1);
    let length = match how % 4 {
        0 | 1 => DATA_STARTS[version] + GEOMETRY.capacity_bytes,
        2 => HEADER_BYTES as u64,
        _ => script.number(4) % (DATA_STARTS[0] * 2),
    };
    let mut page = header_page(1 + version as u32);
    for byte in &mut page[..32] {
        *byte ^= script.byte();
    }
    if how & 4 == 0 {
        seal(&mut page, HEADER_BYTES - 4);
    }
    file.write_all_at(&page, 0).expect("memory");
    file.set_len(length).expect("memory");
}

/// Properties of a file that must not change if it is refused.
#[derive(PartialEq)]
struct Facts {
    length: u64,
    page: Vec<u8>,
}

impl Facts {
    fn of(file: &File) -> Facts {
        let mut page = vec![0; HEADER_BYTES];
        let _ = file.read_at(&mut page, 0);
        Facts { length: file.metadata().expect("memory").len(), page }
    }
}

/// Checks that a store that opens works, and opens again with the bytes written to it.
fn use_it(store: Store, path: &std::path::Path) {
    store.write(4096, &[7; 1024]).expect("memory");
    drop(store);
    let again = Store::open(path, GEOMETRY).unwrap_or_else(|problem| panic!("{problem}"));
    let mut found = [0; 1024];
    again.read(4096, &mut found).expect("memory");
    assert_eq!(found, [7; 1024]);
}

fn header_page(version: u32) -> Vec<u8> {
    let mut page = vec![0; HEADER_BYTES];
    page[..8].copy_from_slice(b"phaselnk");
    page[8..12].copy_from_slice(&version.to_le_bytes());
    page[12..16].copy_from_slice(&GEOMETRY.block_bytes.to_le_bytes());
    page[16..24].copy_from_slice(&GEOMETRY.capacity_bytes.to_le_bytes());
    seal(&mut page, HEADER_BYTES - 4);
    page
}

/// Corrects the checksum at `place`, which covers the bytes before it.
fn seal(page: &mut [u8], place: usize) {
    let checksum = crc32fast::hash(&page[..place]);
    page[place..place + 4].copy_from_slice(&checksum.to_le_bytes());
}

fn seeds() -> Vec<Vec<u8>> {
    let fine = [0; 32];
    vec![
        [&[0][..], &fine].concat(),
        [&[2][..], &fine].concat(),
        [&[8][..], &fine].concat(),
        [&[8 | 2][..], &fine].concat(),
        [&[3][..], &[0; 4], &fine].concat(),
        [&[4][..], &[0, 0, 1], &fine].concat(),
    ]
}
