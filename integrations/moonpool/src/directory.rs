//! Directory of a drive: an entry of a page for each file, behind which each file has a region.
//!
//! An entry holds length, number of its writing, and name, all in its first block, which a drive writes as a whole.

use std::io;
use std::ops::Range;

use phaselink_embed::Drive;

/// Files that a drive holds.
const FILES: usize = 64;
const ENTRY_BYTES: u64 = 4096;
const NAME_BYTES_MAX: usize = 255;
/// Bytes of an entry that say something.
const HEAD_BYTES: usize = 8 + 8 + 1 + NAME_BYTES_MAX;
/// Largest block whose entry fits.
const BLOCK_BYTES: u64 = 512;

/// File of a directory; one without a name is none.
#[derive(Clone, Debug, Default)]
struct Entry {
    name: String,
    length: u64,
    /// Number of the writing: of two entries of a name, the one with the higher number counts.
    number: u64,
    is_changed: bool,
}

/// All files of a drive.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    block_bytes: u64,
    region_bytes: u64,
    writings: u64,
}

impl Directory {
    /// Empty directory of a drive.
    pub(crate) fn new(drive: &Drive) -> io::Result<Directory> {
        let block_bytes = u64::from(drive.block_bytes()).max(BLOCK_BYTES);
        let room = drive.capacity_bytes().saturating_sub(FILES as u64 * ENTRY_BYTES);
        let region_bytes = room / FILES as u64 / ENTRY_BYTES * ENTRY_BYTES;
        if region_bytes == 0 || block_bytes > ENTRY_BYTES {
            let capacity = drive.capacity_bytes();
            return Err(io::Error::other(format!(
                "a drive of {capacity} bytes with blocks of {block_bytes} is none for files: 1 MiB and blocks of 4096 are"
            )));
        }
        Ok(Directory { entries: vec![Entry::default(); FILES], block_bytes, region_bytes, writings: 0 })
    }

    /// Reads the directory from the drive.
    pub(crate) fn read(&mut self, drive: &Drive) -> io::Result<()> {
        for place in 0..FILES {
            let mut bytes = [0; HEAD_BYTES];
            drive.peek(0, place as u64 * ENTRY_BYTES, &mut bytes).map_err(io::Error::other)?;
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            let name = String::from_utf8_lossy(&bytes[17..17 + usize::from(bytes[16])]).into_owned();
            self.entries[place] = Entry { name, length: number(0), number: number(8), is_changed: false };
            self.writings = self.writings.max(number(8));
        }
        for place in 0..FILES {
            let Entry { name, number, .. } = self.entries[place].clone();
            if self.entries.iter().any(|other| other.name == name && other.number > number) {
                self.entries[place] = Entry { is_changed: true, ..Entry::default() };
            }
        }
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let is_it = |entry: &Entry| !entry.name.is_empty() && entry.name == name;
        // While a file is being renamed, two entries may have its name: the younger one is valid.
        (0..FILES).filter(|place| is_it(&self.entries[*place])).max_by_key(|place| self.entries[*place].number)
    }

    /// Creates a file, whose entry is not on the drive yet.
    pub(crate) fn create(&mut self, name: &str) -> io::Result<usize> {
        check_name(name)?;
        let free = self.entries.iter().position(|entry| entry.name.is_empty());
        let place = free.ok_or_else(|| {
            io::Error::new(io::ErrorKind::StorageFull, format!("the drive has {FILES} files, and no room for another"))
        })?;
        self.entries[place] = Entry { name: name.into(), is_changed: true, ..Entry::default() };
        Ok(place)
    }

    pub(crate) fn delete(&mut self, place: usize) {
        self.entries[place] = Entry { is_changed: true, ..Entry::default() };
    }

    pub(crate) fn rename(&mut self, place: usize, name: &str) -> io::Result<()> {
        check_name(name)?;
        self.writings += 1;
        let entry = &mut self.entries[place];
        (entry.name, entry.number, entry.is_changed) = (name.into(), self.writings, true);
        Ok(())
    }

    pub(crate) fn length(&self, place: usize) -> u64 {
        self.entries[place].length
    }

    pub(crate) fn set_length(&mut self, place: usize, length: u64) {
        let entry = &mut self.entries[place];
        entry.is_changed |= entry.length != length;
        entry.length = length;
    }

    pub(crate) fn grow(&mut self, place: usize, end: u64) {
        self.set_length(place, self.length(place).max(end));
    }

    pub(crate) fn is_changed(&self, place: usize) -> bool {
        self.entries[place].is_changed
    }

    /// Returns the place and the bytes of an entry on the drive.
    pub(crate) fn encode(&mut self, place: usize) -> (u64, Vec<u8>) {
        self.writings += 1;
        let entry = &mut self.entries[place];
        entry.number = self.writings;
        let mut bytes = vec![0; self.block_bytes as usize];
        bytes[..8].copy_from_slice(&entry.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.number.to_le_bytes());
        bytes[16] = entry.name.len() as u8;
        bytes[17..17 + entry.name.len()].copy_from_slice(entry.name.as_bytes());
        (place as u64 * ENTRY_BYTES, bytes)
    }

    /// Notes that an entry is on the drive; a file may have changed meanwhile.
    pub(crate) fn on_kept(&mut self, place: usize, bytes: &[u8]) {
        let entry = &mut self.entries[place];
        let is_kept = bytes[..8] == entry.length.to_le_bytes() && bytes[17..].starts_with(entry.name.as_bytes());
        entry.is_changed &= !is_kept;
    }

    /// Checks that a file may end there.
    pub(crate) fn check_end(&self, end: u64) -> io::Result<()> {
        if end <= self.region_bytes {
            return Ok(());
        }
        let most = self.region_bytes;
        Err(io::Error::new(io::ErrorKind::StorageFull, format!("a file of this drive has up to {most} bytes")))
    }

    /// Returns the place on the drive of a byte of a file.
    pub(crate) fn place_of(&self, place: usize, offset: u64) -> u64 {
        FILES as u64 * ENTRY_BYTES + place as u64 * self.region_bytes + offset
    }

    /// Returns the place on the drive of those of the bytes from `offset` on that the file has.
    pub(crate) fn range(&self, place: usize, offset: u64, bytes: u64) -> Range<u64> {
        let end = offset.saturating_add(bytes).min(self.length(place)).max(offset);
        let start = self.place_of(place, offset);
        start..start + (end - offset)
    }

    /// Returns whole blocks around a range of the drive.
    pub(crate) fn blocks(&self, range: Range<u64>) -> Range<u64> {
        range.start / self.block_bytes * self.block_bytes..range.end.next_multiple_of(self.block_bytes)
    }
}

fn check_name(name: &str) -> io::Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    let found = format!("a name of {} bytes; files have names of 1 to {NAME_BYTES_MAX}", name.len());
    Err(io::Error::new(io::ErrorKind::InvalidInput, found))
}
