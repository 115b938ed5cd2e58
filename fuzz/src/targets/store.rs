//! What stands in a file that is given as a store.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use phaselink_serve::device::store::{Geometry, Store};
use rustix::fs::MemfdFlags;

use crate::Target;
use crate::script::Script;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 64 << 10, block_bytes: 512 };
/// The format's own places: the device's bytes, and both slots of wear-levelling state.
const DATA_START: u64 = 8 << 20;
const STATE_STARTS: [u64; 2] = [64 << 10, 4 << 20];
const HEADER_BYTES: usize = 4096;

/// A file that differs from a store by the input: its length, the first bytes of the header and of both states. Its
/// checksums are made right where the input says so, since no chance would.
pub const HEADER: Target = Target { name: "store", run: header, seeds, quick: 1000 };

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
    let length = match how % 4 {
        0 | 1 => DATA_START + GEOMETRY.capacity_bytes,
        2 => HEADER_BYTES as u64,
        _ => script.number(4) % (DATA_START * 2),
    };
    let mut page = header_page();
    for byte in &mut page[..32] {
        *byte ^= script.byte();
    }
    if how & 4 == 0 {
        seal(&mut page, HEADER_BYTES - 4);
    }
    file.write_all_at(&page, 0).expect("memory");
    for (start, bit) in STATE_STARTS.into_iter().zip([8, 16]) {
        let bytes = usize::from(script.byte());
        let mut slot = script.bytes(bytes).to_vec();
        if how & bit == 0 && slot.len() >= 16 {
            let checksum = crc32fast::hash(&[&slot[..12], &slot[16..]].concat());
            slot[12..16].copy_from_slice(&checksum.to_le_bytes());
        }
        file.write_all_at(&slot, start).expect("memory");
    }
    file.set_len(length).expect("memory");
}

/// What must not change in a file that is refused.
#[derive(PartialEq)]
struct Facts {
    length: u64,
    pages: [Vec<u8>; 3],
}

impl Facts {
    fn of(file: &File) -> Facts {
        let page = |start| {
            let mut page = vec![0; HEADER_BYTES];
            let _ = file.read_at(&mut page, start);
            page
        };
        let length = file.metadata().expect("memory").len();
        Facts { length, pages: [page(0), page(STATE_STARTS[0]), page(STATE_STARTS[1])] }
    }
}

/// A store that opens works, and opens again with what was put into it.
fn use_it(store: Store, path: &std::path::Path) {
    let mut state = store.state();
    state.truncate(1000);
    state.push(1);
    if store.save_state(&state).is_err() {
        // The numbers of states have come to an end; what is there stays.
        return assert_ne!(store.state(), state);
    }
    store.write(4096, &[7; 1024]).expect("memory");
    drop(store);
    let again = Store::open(path, GEOMETRY).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(again.state(), state);
    let mut found = [0; 1024];
    again.read(4096, &mut found).expect("memory");
    assert_eq!(found, [7; 1024]);
}

fn header_page() -> Vec<u8> {
    let mut page = vec![0; HEADER_BYTES];
    page[..8].copy_from_slice(b"phaselnk");
    page[8..12].copy_from_slice(&1u32.to_le_bytes());
    page[12..16].copy_from_slice(&GEOMETRY.block_bytes.to_le_bytes());
    page[16..24].copy_from_slice(&GEOMETRY.capacity_bytes.to_le_bytes());
    seal(&mut page, HEADER_BYTES - 4);
    page
}

/// Let the checksum at `place` cover what is before it.
fn seal(page: &mut [u8], place: usize) {
    let checksum = crc32fast::hash(&page[..place]);
    page[place..place + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// A state with this number and these bytes, behind its length in the input.
fn state(sequence: u64, bytes: &[u8]) -> Vec<u8> {
    let head = [&sequence.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), &[0; 4], bytes].concat();
    [&[head.len() as u8][..], &head].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let fine = [0; 32];
    vec![
        [&[0][..], &fine].concat(),
        [&[0][..], &fine, &state(2, b"old"), &state(3, b"new")].concat(),
        [&[0][..], &fine, &[0], &state(u64::MAX, b"last")].concat(),
        [&[0][..], &fine, &state(u64::MAX - 1, b"last but one")].concat(),
        [&[2][..], &fine].concat(),
        [&[3][..], &[0; 4], &fine].concat(),
        [&[4 | 8 | 16][..], &[0, 0, 1], &fine, &state(2, b"")].concat(),
    ]
}
