//! A plain file that is one image after another: only blocks that differ are written, whatever a check has done to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom};

/// What is compared and written at once: the page of every file system's cache.
const PAGE_BYTES: u64 = 4096;
/// What is read at once: it stays in a processor's cache until it is compared.
const PIECE_BYTES: u64 = 256 << 10;

/// The file.
#[derive(Debug)]
pub struct PlainFile {
    pub path: PathBuf,
    file: File,
    piece: Vec<u8>,
}

impl PlainFile {
    /// A file of zeros.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, capacity_bytes: u64) -> io::Result<PlainFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(capacity_bytes)?;
        Ok(PlainFile { path: path.into(), file, piece: Vec::new() })
    }

    /// Let the file hold `bytes`, all of which are zeros but in `footprint`, and nothing else.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn hold(&mut self, bytes: &[u8], footprint: &[Range<u64>]) -> io::Result<()> {
        let capacity_bytes = bytes.len() as u64;
        if !self.is_in_place()? {
            remove(&self.path)?;
            *self = PlainFile::create(&self.path, capacity_bytes)?;
        }
        if self.file.metadata()?.len() != capacity_bytes {
            // What is cut away here, and what a check has cut away, reads as zeros.
            self.file.set_len(capacity_bytes)?;
        }
        let pages = pages(footprint, capacity_bytes);
        pages.iter().try_for_each(|range| self.hold_range(range.clone(), bytes))?;
        self.clear_but(&pages, capacity_bytes)
    }

    /// Whether the path still leads to the file: a check may have put another there.
    fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let is_own = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
        Ok(fs::symlink_metadata(&self.path).is_ok_and(is_own))
    }

    fn hold_range(&mut self, range: Range<u64>, bytes: &[u8]) -> io::Result<()> {
        for start in range.clone().step_by(PIECE_BYTES as usize) {
            let end = (start + PIECE_BYTES).min(range.end);
            let wanted = &bytes[start as usize..end as usize];
            self.piece.resize(wanted.len(), 0);
            self.file.read_exact_at(&mut self.piece, start)?;
            if self.piece == wanted {
                continue;
            }
            let pages = wanted.chunks(PAGE_BYTES as usize).zip(self.piece.chunks(PAGE_BYTES as usize));
            for (page, (wanted, found)) in (0..).zip(pages) {
                if wanted != found {
                    self.file.write_all_at(wanted, start + page * PAGE_BYTES)?;
                }
            }
        }
        Ok(())
    }

    /// Give back what a check has written outside of these ranges.
    fn clear_but(&self, kept: &[Range<u64>], capacity_bytes: u64) -> io::Result<()> {
        let starts = std::iter::once(0).chain(kept.iter().map(|range| range.end));
        let ends = kept.iter().map(|range| range.start).chain([capacity_bytes]);
        for (mut at, end) in starts.zip(ends) {
            while let Some(data) = self.data(at, end)? {
                self.clear(&data)?;
                at = data.end;
            }
        }
        Ok(())
    }

    /// The first range of data between two places.
    fn data(&self, from: u64, to: u64) -> io::Result<Option<Range<u64>>> {
        if from >= to {
            return Ok(None);
        }
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) if start < to => start,
            Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?.min(to);
        Ok(Some(start..end))
    }

    fn clear(&self, range: &Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, range.start, range.end - range.start) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let zeros = vec![0; (range.end - range.start) as usize];
                self.file.write_all_at(&zeros, range.start)
            }
            other => other.map_err(io::Error::from),
        }
    }
}

/// Whole pages that have these ranges in them.
fn pages(ranges: &[Range<u64>], capacity_bytes: u64) -> Vec<Range<u64>> {
    let mut pages: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let (start, end) = (range.start / PAGE_BYTES * PAGE_BYTES, range.end.next_multiple_of(PAGE_BYTES));
        let end = end.min(capacity_bytes);
        match pages.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => pages.push(start..end),
        }
    }
    pages
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_each_image_whatever_a_check_has_done_to_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let footprint = [512..1024, 40_960..45_056, 60_000..70_000];
        let image = |value: u8| {
            let mut bytes = vec![0; 100_000];
            footprint.iter().for_each(|range| bytes[range.start as usize..range.end as usize].fill(value));
            bytes
        };
        let mut file = PlainFile::create(&path, 100_000).unwrap();
        let checks: [fn(&Path); 6] = [
            |_| (),
            |path| fs::write(path, vec![9; 100_000]).unwrap(),
            |path| fs::write(path, b"short").unwrap(),
            |path| fs::write(path, vec![9; 200_000]).unwrap(),
            |path| fs::remove_file(path).unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
        ];
        for (value, check) in (1..).zip(checks) {
            let wanted = image(value);
            file.hold(&wanted, &footprint).unwrap();
            assert!(fs::read(&path).unwrap() == wanted, "image {value}");
            check(&path);
        }
        let wanted = image(7);
        file.hold(&wanted, &footprint).unwrap();
        assert!(fs::read(&path).unwrap() == wanted);
    }
}
