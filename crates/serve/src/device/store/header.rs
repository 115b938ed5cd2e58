//! Layout of a store's file, and its first page, the header.
//!
//! ```text
//!      0  header: magic, version, geometry, kind of namespace and version of its format, offset of the bytes, checksum
//!  4 KiB  state beside the bytes
//!  2 MiB  the bytes of the device; in files of version 1 at 8 MiB
//!         metadata of the blocks, at the next multiple of 2 MiB, if a namespace has had any
//! ```
//!
//! Files of versions 1 and 2 have no kind: they hold conventional namespaces. They are served unchanged until there is
//! state to save. Then their header is rewritten as version 3 with the old offset of the bytes, since moving the bytes
//! of a large drive would take too long. The header of version 3 fits one disk sector, which is written as a whole.
//!
//! A file is made in three steps, after each of which it can be opened: empty, one hole of full length, with a header.
//! So a server that is killed meanwhile leaves no broken file. A file of any other length has lost bytes and is
//! refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;

use phaselink_core::media::keys::KeyLayout;
use phaselink_core::number::wide_index;

use super::index_log::index_bytes;
use super::metadata::region_bytes;
use super::state::StoreState;
use super::{PAGE_BYTES, StoreRefusal};

const HEADER_BYTES: usize = 4096;
/// First bytes of every store file, by which it is recognised.
pub const MAGIC: [u8; 8] = *b"phaselnk";
/// Older file format versions, whose header names no kind of namespace; their stores are conventional. `NEWEST` is the
/// version of new files.
const OLDER: [Version; 2] =
    [Version { number: 1, data_start: 8 << 20 }, Version { number: 2, data_start: LARGE_PAGE_BYTES }];
const NEWEST: Version = Version { number: 3, data_start: LARGE_PAGE_BYTES };
/// Alignment in bytes of the device's offset in the file, which lets large pages map it.
const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Offset of the checksum in the header of versions 1 and 2; `CHECKSUM_AT` is that of version 3. A checksum covers
/// everything before it.
const OLDER_CHECKSUM_AT: usize = HEADER_BYTES - 4;
const CHECKSUM_AT: usize = 512 - 4;

/// Version of the file format, and the offset of the device's first byte in it.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u32,
    data_start: u64,
}

/// Kind of namespace that a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredNamespaceKind {
    /// Logical blocks that can be written in any order.
    #[default]
    Conventional,
    /// Zones that are written in order.
    Zoned,
    /// Values that hosts store and find by their keys.
    KeyValue,
}

impl StoredNamespaceKind {
    const ALL: [StoredNamespaceKind; 3] =
        [StoredNamespaceKind::Conventional, StoredNamespaceKind::Zoned, StoredNamespaceKind::KeyValue];

    /// Returns the number by which the file's header identifies the kind.
    fn number(self) -> u32 {
        match self {
            StoredNamespaceKind::Conventional => 1,
            StoredNamespaceKind::Zoned => 2,
            StoredNamespaceKind::KeyValue => 3,
        }
    }

    /// Returns the kind's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            StoredNamespaceKind::Conventional => "conventional",
            StoredNamespaceKind::Zoned => "zoned",
            StoredNamespaceKind::KeyValue => "key-value",
        }
    }

    /// Returns the version of the kind's format, which changes when its bytes or its state change their meaning.
    pub fn version(self) -> u32 {
        1
    }
}

/// Decoded header of an open store file.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreHeader {
    geometry: Geometry,
    kind: StoredNamespaceKind,
    kind_version: u32,
    /// Version of the file format: 1, 2 or 3.
    version: u32,
    /// Offset in the file of the device's first byte.
    pub(super) data_start: u64,
}

/// Capacity and logical block size of a device or its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes: more than zero, and a multiple of `block_bytes`.
    pub capacity_bytes: u64,
    /// Size of a logical block in bytes.
    pub block_bytes: u32,
}

impl Geometry {
    /// Returns the geometry of a store file for keys and values: room for the values, followed by the index of the
    /// keys.
    pub fn with_key_index(self, layout: &KeyLayout) -> Geometry {
        let values = self.capacity_bytes.next_multiple_of(PAGE_BYTES);
        Geometry { capacity_bytes: values + index_bytes(layout), ..self }
    }

    pub(super) fn len(self) -> usize {
        wide_index(self.capacity_bytes)
    }
}

impl StoreHeader {
    fn new(geometry: Geometry, kind: StoredNamespaceKind) -> StoreHeader {
        let Version { number: version, data_start } = NEWEST;
        StoreHeader { geometry, kind, kind_version: kind.version(), version, data_start }
    }

    /// Returns true if the file has room for state beside its bytes.
    pub(super) fn has_state(&self) -> bool {
        self.version == NEWEST.number
    }

    /// Returns the lengths in bytes that the file may have: without and with metadata of the blocks.
    fn file_bytes(&self) -> [u64; 2] {
        file_bytes(self.data_start, self.geometry.capacity_bytes)
    }

    /// Encodes the first page of a file of the newest version.
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&NEWEST.number.to_le_bytes());
        page[12..16].copy_from_slice(&self.geometry.block_bytes.to_le_bytes());
        page[16..24].copy_from_slice(&self.geometry.capacity_bytes.to_le_bytes());
        page[24..28].copy_from_slice(&self.kind.number().to_le_bytes());
        page[28..32].copy_from_slice(&self.kind_version.to_le_bytes());
        page[32..40].copy_from_slice(&self.data_start.to_le_bytes());
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..][..4].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    fn decode(page: &[u8; HEADER_BYTES]) -> Result<StoreHeader, StoreRefusal> {
        let word = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let number = word(8);
        let older = OLDER.into_iter().find(|version| version.number == number);
        if older.is_none() && number != NEWEST.number {
            return Err(StoreRefusal::new(format!("the store has version {number}"), "version 1, 2 or 3"));
        }
        let checksum_at = if older.is_some() { OLDER_CHECKSUM_AT } else { CHECKSUM_AT };
        if word(checksum_at) != crc32fast::hash(&page[..checksum_at]) {
            return Err(StoreRefusal::new(
                "the header is damaged: its checksum is wrong",
                "the store as it was written",
            ));
        }
        let geometry = Geometry { capacity_bytes: long(16), block_bytes: word(12) };
        if let Some(Version { number: version, data_start }) = older {
            return Ok(StoreHeader {
                version,
                data_start,
                ..StoreHeader::new(geometry, StoredNamespaceKind::Conventional)
            });
        }
        let Some(kind) = StoredNamespaceKind::ALL.into_iter().find(|kind| kind.number() == word(24)) else {
            let allowed = StoredNamespaceKind::ALL.map(StoredNamespaceKind::name).join(", ");
            let found = format!("the store holds a namespace of the unknown kind {}", word(24));
            return Err(StoreRefusal::new(found, format!("namespaces of the kinds {allowed}")));
        };
        Ok(StoreHeader { geometry, kind, kind_version: word(28), version: number, data_start: long(32) })
    }

    /// Checks that the store holds this kind of namespace, in the version of the kind's format that this program knows.
    fn check_namespace_kind(&self, kind: StoredNamespaceKind) -> Result<(), StoreRefusal> {
        if self.kind != kind {
            let found = format!("the store holds a {} namespace", self.kind.name());
            let allowed = format!("a store of a {} namespace, or a path where there is no file yet", kind.name());
            return Err(StoreRefusal::new(found, allowed));
        }
        if self.kind_version != kind.version() {
            let found =
                format!("the store has version {} of the format of {} namespaces", self.kind_version, kind.name());
            return Err(StoreRefusal::new(found, format!("version {}", kind.version())));
        }
        Ok(())
    }

    /// Converts a file of an older version to the newest one, which can hold state. Its data stays where it is.
    pub(super) fn migrate(&mut self, file: &File) -> io::Result<()> {
        if self.version == NEWEST.number {
            return Ok(());
        }
        StoreState::clear(file)?;
        file.sync_data()?;
        file.write_all_at(&self.encode(), 0)?;
        file.sync_data()?;
        self.version = NEWEST.number;
        Ok(())
    }
}

/// Returns the lengths in bytes of a file whose device begins at `data_start`: without and with metadata of the blocks.
pub(super) fn file_bytes(data_start: u64, capacity_bytes: u64) -> [u64; 2] {
    let with_metadata = block_metadata_file_offset(data_start, capacity_bytes) + region_bytes(capacity_bytes);
    [data_start + capacity_bytes, with_metadata]
}

/// Returns the offset in the file of the region with the blocks' metadata.
pub(super) fn block_metadata_file_offset(data_start: u64, capacity_bytes: u64) -> u64 {
    (data_start + capacity_bytes).next_multiple_of(LARGE_PAGE_BYTES)
}

/// Checks that `file` is a store of this geometry and kind, or initialises it if it is empty. Returns its header.
pub(super) fn check_or_initialize_store(
    file: &File,
    geometry: Geometry,
    kind: StoredNamespaceKind,
) -> Result<StoreHeader, StoreRefusal> {
    let length = file.metadata()?.len();
    let new = StoreHeader::new(geometry, kind);
    let [expected, _] = new.file_bytes();
    if length == 0 || length == expected && is_never_written(file)? {
        create_store_file(file, &new)?;
        return Ok(new);
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
    let found = StoreHeader::decode(&page)?;
    found.check_namespace_kind(kind)?;
    if found.geometry != geometry {
        return Err(StoreRefusal::new(
            format!("the store holds {}", describe_store_geometry(found.geometry, kind)),
            describe_store_geometry(geometry, kind),
        ));
    }
    let lengths @ [expected, _] = found.file_bytes();
    if !lengths.contains(&length) {
        let found = format!("the store has {length} bytes: something is missing, or too much");
        let allowed = format!("{expected} bytes; restore a copy of the file, or remove it to begin with zeros");
        return Err(StoreRefusal::new(found, allowed));
    }
    Ok(found)
}

/// Returns true if no byte of the file was ever written.
fn is_never_written(file: &File) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => Ok(true),
        other => Ok(other.map(|_| false)?),
    }
}

fn create_store_file(file: &File, header: &StoreHeader) -> Result<(), StoreRefusal> {
    file.set_len(header.file_bytes()[0])?;
    file.write_all_at(&header.encode(), 0)?;
    file.sync_all()?;
    Ok(())
}

fn describe_store_geometry(geometry: Geometry, kind: StoredNamespaceKind) -> String {
    let Geometry { capacity_bytes, block_bytes } = geometry;
    match kind {
        StoredNamespaceKind::KeyValue => {
            format!("{capacity_bytes} bytes of values and their index, in granules of {block_bytes}")
        }
        _ => format!("{capacity_bytes} bytes in blocks of {block_bytes}"),
    }
}
