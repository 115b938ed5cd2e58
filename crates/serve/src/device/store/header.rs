//! The layout of a store's file, and its first page.
//!
//! ```text
//!        0  header: magic, version, geometry, checksum
//!   64 KiB  wear-levelling state, slot 0
//!    4 MiB  wear-levelling state, slot 1
//!    8 MiB  the bytes of the device
//! ```
//!
//! A file is made in three steps, each of which leaves one that opens: empty, a header alone, full length. So a server
//! that is killed on the way leaves no wreck.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Refusal;

/// First byte of the device in the file; a multiple of the large page, so that it can be mapped by such.
pub(super) const DATA_START: u64 = 8 << 20;
/// First bytes of the two slots of state.
pub(super) const STATE_STARTS: [u64; 2] = [64 << 10, 4 << 20];

const HEADER_BYTES: usize = 4096;
/// The first bytes of every store.
pub const MAGIC: [u8; 8] = *b"phaselnk";
const VERSION: u32 = 1;
/// The checksum covers everything before it.
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// Size and logical block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// More than zero, and a multiple of `block_bytes`.
    pub capacity_bytes: u64,
    pub block_bytes: u32,
}

impl Geometry {
    pub(super) fn len(self) -> usize {
        self.capacity_bytes as usize
    }

    fn file_bytes(self) -> u64 {
        DATA_START + self.capacity_bytes
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&self.block_bytes.to_le_bytes());
        page[16..24].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    fn decode(page: &[u8; HEADER_BYTES]) -> Result<Geometry, Refusal> {
        let word = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        if page[..8] != MAGIC {
            return Err(Refusal::new("this is no store of phaselink", "a store, or a path where there is no file yet"));
        }
        if word(8) != VERSION {
            let found = format!("the store has version {}", word(8));
            return Err(Refusal::new(found, format!("version {VERSION}")));
        }
        if word(CHECKSUM_AT) != crc32fast::hash(&page[..CHECKSUM_AT]) {
            return Err(Refusal::new("the header is damaged: its checksum is wrong", "the store as it was written"));
        }
        let capacity_bytes = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok(Geometry { capacity_bytes, block_bytes: word(12) })
    }
}

/// See that `file` is a store of this geometry, or make it one if it is empty.
pub(super) fn check_or_create(file: &File, geometry: Geometry) -> Result<(), Refusal> {
    let length = file.metadata()?.len();
    if length == 0 {
        file.write_all_at(&geometry.encode(), 0)?;
        return complete(file, geometry);
    }
    let mut page = [0; HEADER_BYTES];
    match file.read_exact_at(&mut page, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => page.fill(0),
        other => other?,
    }
    let found = Geometry::decode(&page)?;
    if found != geometry {
        return Err(Refusal::new(format!("the store holds {}", words(found)), words(geometry)));
    }
    match length {
        _ if length == geometry.file_bytes() => Ok(()),
        _ if length == HEADER_BYTES as u64 => complete(file, geometry),
        _ => {
            let found = format!("the file has {length} bytes: something is missing, or too much");
            Err(Refusal::new(found, format!("{} bytes", geometry.file_bytes())))
        }
    }
}

fn complete(file: &File, geometry: Geometry) -> Result<(), Refusal> {
    file.set_len(geometry.file_bytes())?;
    file.sync_all()?;
    Ok(())
}

fn words(geometry: Geometry) -> String {
    format!("{} bytes in blocks of {}", geometry.capacity_bytes, geometry.block_bytes)
}
