//! The layout of a store's file, and its first page.
//!
//! ```text
//!      0  header: magic, version, geometry, checksum
//!  2 MiB  the bytes of the device; in files of version 1 at 8 MiB
//! ```
//!
//! Files of version 1, whose room for wear-levelling state nobody uses, are served as they are: moving the bytes of a
//! large drive would take longer than anybody waits, and the room is a hole of the file.
//!
//! A file is made in three steps, each of which leaves one that opens: empty, one hole of full length, the header in it.
//! So a server that is killed on the way leaves no wreck, and a file of any other length has lost bytes and is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;

use super::StoreRefusal;

const HEADER_BYTES: usize = 4096;
/// The first bytes of every store.
pub const MAGIC: [u8; 8] = *b"phaselnk";
/// The first version, and the one that new files have.
const VERSIONS: [Version; 2] =
    [Version { number: 1, data_start: 8 << 20 }, Version { number: 2, data_start: LARGE_PAGE_BYTES }];
/// Unit of the device's offset in the file, so that it can be mapped by such pages.
const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// The checksum covers everything before it.
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// A version of the format, and where the device's first byte is in it.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u32,
    data_start: u64,
}

impl Version {
    fn file_bytes(self, geometry: Geometry) -> u64 {
        self.data_start + geometry.capacity_bytes
    }
}

/// Size and logical block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// More than zero, and a multiple of `block_bytes`.
    pub capacity_bytes: u64,
    /// Logical block in bytes.
    pub block_bytes: u32,
}

impl Geometry {
    pub(super) fn len(self) -> usize {
        self.capacity_bytes as usize
    }

    fn encode(self, version: Version) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&version.number.to_le_bytes());
        page[12..16].copy_from_slice(&self.block_bytes.to_le_bytes());
        page[16..24].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    fn decode(page: &[u8; HEADER_BYTES]) -> Result<(Geometry, Version), StoreRefusal> {
        let word = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let Some(version) = VERSIONS.into_iter().find(|version| version.number == word(8)) else {
            let allowed = VERSIONS.map(|version| version.number.to_string()).join(" or ");
            return Err(StoreRefusal::new(format!("the store has version {}", word(8)), format!("version {allowed}")));
        };
        if word(CHECKSUM_AT) != crc32fast::hash(&page[..CHECKSUM_AT]) {
            return Err(StoreRefusal::new(
                "the header is damaged: its checksum is wrong",
                "the store as it was written",
            ));
        }
        let capacity_bytes = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok((Geometry { capacity_bytes, block_bytes: word(12) }, version))
    }
}

/// Checks that `file` is a store of this geometry, or makes it one if it is empty. Returns the offset of the device's first
/// byte.
pub(super) fn check_or_create(file: &File, geometry: Geometry) -> Result<u64, StoreRefusal> {
    let length = file.metadata()?.len();
    let [.., newest] = VERSIONS;
    let expected = newest.file_bytes(geometry);
    if length == 0 || length == expected && is_hole(file)? {
        return create(file, geometry, newest);
    }
    let mut page = [0; HEADER_BYTES];
    match file.read_exact_at(&mut page, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => page.fill(0),
        other => other?,
    }
    if page[..8] != MAGIC {
        let found = format!("this is no store of phaselink, and has {length} bytes");
        let allowed = format!("a store, of {expected} bytes, or a path where there is no file yet");
        return Err(StoreRefusal::new(found, allowed));
    }
    let (found, version) = Geometry::decode(&page)?;
    if found != geometry {
        return Err(StoreRefusal::new(format!("the store holds {}", words(found)), words(geometry)));
    }
    let expected = version.file_bytes(geometry);
    if length != expected {
        let found = format!("the store has {length} bytes: something is missing, or too much");
        let allowed = format!("{expected} bytes; restore a copy of the file, or remove it to begin with zeros");
        return Err(StoreRefusal::new(found, allowed));
    }
    Ok(version.data_start)
}

/// Returns true if no byte of the file has ever been written.
fn is_hole(file: &File) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => Ok(true),
        other => Ok(other.map(|_| false)?),
    }
}

fn create(file: &File, geometry: Geometry, version: Version) -> Result<u64, StoreRefusal> {
    file.set_len(version.file_bytes(geometry))?;
    file.write_all_at(&geometry.encode(version), 0)?;
    file.sync_all()?;
    Ok(version.data_start)
}

fn words(geometry: Geometry) -> String {
    format!("{} bytes in blocks of {}", geometry.capacity_bytes, geometry.block_bytes)
}
