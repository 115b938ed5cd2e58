//! A plain file that is one image after another, whatever a check has done to it. What the file holds is known as long as
//! nobody else writes to it; then an image costs what differs from the one before. Otherwise all of the file is compared.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use phaselink_serve::crash::Recording;
use phaselink_serve::crash::view::{Blocks, Source};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// What is compared and written at once: the page of every file system's cache.
const PAGE_BYTES: u64 = 4096;
/// What is read at once: it stays in a processor's cache until it is compared.
const PIECE_BYTES: u64 = 256 << 10;

/// The file.
#[derive(Debug)]
pub struct PlainFile {
    pub path: PathBuf,
    file: File,
    /// Who else writes to the file; none if the system has no watch left, and then anybody may have.
    watch: Option<OwnedFd>,
    /// What the file holds if nobody else has written to it.
    held: Vec<Source>,
    wanted: Vec<u8>,
    found: Vec<u8>,
}

impl PlainFile {
    /// A file of so many blocks of zeros, each of `block_bytes`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, blocks: usize, block_bytes: u32) -> io::Result<PlainFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(blocks as u64 * u64::from(block_bytes))?;
        let held = vec![Source::ZEROS; blocks];
        Ok(PlainFile { path: path.into(), file, watch: watch(path).ok(), held, wanted: Vec::new(), found: Vec::new() })
    }

    /// Let the file hold these blocks, all of which are zeros but in `footprint`, and nothing else.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn hold(&mut self, image: Blocks<'_>, footprint: &[Range<usize>]) -> io::Result<()> {
        if !self.is_in_place()? {
            remove(&self.path)?;
            *self = PlainFile::create(&self.path, image.sources.len(), image.recording.rules.block_bytes)?;
        }
        if self.was_written()? {
            self.hold_all(image, footprint)?;
        } else {
            self.hold_differences(image, footprint)?;
        }
        // What has just been written is nobody else's.
        self.was_written().map(drop)
    }

    /// Whether the path still leads to the file: a check may have put another there.
    fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let is_own = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
        Ok(fs::symlink_metadata(&self.path).is_ok_and(is_own))
    }

    /// Whether anybody may have written to the file since this was asked last. Whoever maps it is heard of when they close
    /// it, and so is what a process that is ended leaves open.
    fn was_written(&self) -> io::Result<bool> {
        let Some(watch) = &self.watch else { return Ok(true) };
        let (mut events, mut was_written) = ([0; 4096], false);
        loop {
            match rustix::io::read(watch, &mut events) {
                Ok(_) => was_written = true,
                Err(Errno::AGAIN) => return Ok(was_written),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Write what differs from what the file holds.
    fn hold_differences(&mut self, image: Blocks<'_>, footprint: &[Range<usize>]) -> io::Result<()> {
        let block_bytes = u64::from(image.recording.rules.block_bytes);
        let (gap, longest) = (PAGE_BYTES / block_bytes, PIECE_BYTES / block_bytes);
        for range in image.differences(&self.held, footprint, gap as usize, longest.max(1) as usize) {
            let (start, end) = (range.start as u64 * block_bytes, range.end as u64 * block_bytes);
            self.wanted.clear();
            image.append(start..end, &mut self.wanted);
            self.file.write_all_at(&self.wanted, start)?;
            self.held[range.clone()].copy_from_slice(&image.sources[range]);
        }
        Ok(())
    }

    /// Compare everything, and write what differs.
    fn hold_all(&mut self, image: Blocks<'_>, footprint: &[Range<usize>]) -> io::Result<()> {
        let capacity_bytes = image.recording.capacity_bytes;
        if self.file.metadata()?.len() != capacity_bytes {
            // What is cut away here, and what a check has cut away, reads as zeros.
            self.file.set_len(capacity_bytes)?;
        }
        let pages = pages(footprint, image.recording);
        pages.iter().try_for_each(|range| self.hold_range(range.clone(), image))?;
        self.clear_but(&pages, capacity_bytes)?;
        self.held.copy_from_slice(image.sources);
        Ok(())
    }

    fn hold_range(&mut self, range: Range<u64>, image: Blocks<'_>) -> io::Result<()> {
        for start in range.clone().step_by(PIECE_BYTES as usize) {
            let end = (start + PIECE_BYTES).min(range.end);
            self.found.resize((end - start) as usize, 0);
            self.file.read_exact_at(&mut self.found, start)?;
            if image.are(start, &self.found) {
                continue;
            }
            self.wanted.clear();
            image.append(start..end, &mut self.wanted);
            let pages = self.wanted.chunks(PAGE_BYTES as usize).zip(self.found.chunks(PAGE_BYTES as usize));
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
            Ok(_) | Err(Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?.min(to);
        Ok(Some(start..end))
    }

    fn clear(&self, range: &Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, range.start, range.end - range.start) {
            Err(Errno::OPNOTSUPP) => {
                let zeros = vec![0; (range.end - range.start) as usize];
                self.file.write_all_at(&zeros, range.start)
            }
            other => other.map_err(io::Error::from),
        }
    }
}

/// A watch of everybody who writes to this file.
fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE)?;
    Ok(watch)
}

/// Whole pages that have these blocks in them.
fn pages(blocks: &[Range<usize>], recording: &Recording) -> Vec<Range<u64>> {
    let block_bytes = u64::from(recording.rules.block_bytes);
    let mut pages: Vec<Range<u64>> = Vec::new();
    for range in blocks {
        let (start, end) = (range.start as u64 * block_bytes, range.end as u64 * block_bytes);
        let (start, end) = (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES));
        let end = end.min(recording.capacity_bytes);
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
    use phaselink_serve::crash::view::{View, footprint};
    use phaselink_serve::crash::{Event, Image, Kind, Promise, Request, Rules, Timeline};

    use super::*;

    const BLOCK: u32 = 500;
    const CAPACITY: usize = 100_000;

    /// A drive of which parts have been written, over and over.
    fn recording(values: Range<u8>) -> Recording {
        let write = |value: u8, range: Range<usize>| Request {
            kind: Kind::Write(vec![value; range.len()].into()),
            offset: range.start as u64,
            bytes: range.len() as u32,
            durable: false,
        };
        let parts = [500..1000, 41_000..45_500, 60_000..70_000];
        let requests: Vec<Request> = values.flat_map(|value| parts.clone().map(|part| write(value, part))).collect();
        Recording {
            capacity_bytes: CAPACITY as u64,
            rules: Rules { block_bytes: BLOCK, atomic_bytes: BLOCK, promise: Promise::Flushed },
            events: (0..requests.len()).map(Event::Arrived).collect(),
            requests,
            lines: Vec::new(),
            prepared: 0,
        }
    }

    /// A file, and images that it is to be one after another, with what a check does to each.
    fn hold(checks: &[fn(&Path)], is_watched: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let recording = recording(1..checks.len() as u8 + 1);
        let (timeline, footprint) = (Timeline::new(&recording), footprint(&recording));
        let mut view = View::new(&recording, &timeline);
        let mut file = PlainFile::create(&path, recording.blocks(), BLOCK).unwrap();
        if !is_watched {
            file.watch = None;
        }
        for (number, check) in checks.iter().enumerate() {
            // Some of the cuts are between the parts.
            let shown = view.show(&Image::whole(3 * number + number % 4));
            file.hold(shown, &footprint).unwrap();
            let mut wanted = Vec::new();
            shown.append(0..CAPACITY as u64, &mut wanted);
            assert!(fs::read(&path).unwrap() == wanted, "image {number}");
            check(&path);
        }
    }

    const CHECKS: [fn(&Path); 13] = [
        |_| (),
        |_| (),
        |path| drop(fs::read(path).unwrap()),
        |path| fs::write(path, vec![9; CAPACITY]).unwrap(),
        |_| (),
        |path| fs::write(path, b"short").unwrap(),
        |path| fs::write(path, vec![9; 2 * CAPACITY]).unwrap(),
        |path| File::options().write(true).open(path).unwrap().write_all_at(b"little", 42_000).unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |_| (),
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        |path| fs::write(path, vec![9; CAPACITY]).unwrap(),
        |_| (),
    ];

    #[test]
    fn the_file_holds_each_image_whatever_a_check_has_done_to_the_one_before() {
        hold(&CHECKS, true);
        hold(&CHECKS, false);
    }

    #[test]
    fn what_a_check_writes_to_memory_that_it_maps_is_seen() {
        hold(
            &[
                |path| {
                    // Python maps files without a line of unsafe code here.
                    let write = "import mmap, sys\nwith open(sys.argv[1], 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[0] = m[600] = m[42000] = 77";
                    match std::process::Command::new("python3").args(["-c", write]).arg(path).status() {
                        Ok(status) => assert!(status.success()),
                        Err(_) => eprintln!("skipped: python3 is missing"),
                    }
                },
                |_| (),
            ],
            true,
        );
    }
}
