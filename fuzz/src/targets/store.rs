//! Targets that read a file given as a store.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use phaselink_serve::device::store::{Geometry, Store};
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
