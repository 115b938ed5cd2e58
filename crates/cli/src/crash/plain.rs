//! Plain file that holds one crash image after another, even if a check command writes to the file in between.
//!
//! As long as no other process writes to the file, its content is known, and the next crash image costs only the blocks
//! that differ. Otherwise the rest of the file is compared as well.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use phaselink_core::crash::recording::Recording;
use phaselink_core::crash::view::{BlockContents, ImageBlocks};
use phaselink_core::number::{length, wide_index};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FallocateFlags, FsWord, SeekFrom};
use rustix::io::Errno;

/// Unit in bytes in which the image file is compared and written: a page of the page cache.
const PAGE_BYTES: u64 = 4096;
/// Number of bytes of the image file that are read at a time. So many stay in a processor's cache until they are
/// compared.
const PIECE_BYTES: u64 = 256 << 10;

/// Magic numbers of file systems that update a file's timestamps when memory mapped from it is written: they call
/// file_update_time of Linux when a page becomes writable. tmpfs does not.
const STAMPING: [FsWord; 3] =
    [0xef53 /* ext2, ext3, ext4 */, 0x5846_5342 /* XFS */, 0x9123_683e /* Btrfs */];

/// Seconds and nanoseconds of a file's last modification and of its last status change. No program can set the latter.
type FileTimestamps = [(i64, i64); 2];

/// File that holds one crash image after another, with the known content of each block.
#[derive(Debug)]
pub(super) struct CrashImageFile {
    pub path: PathBuf,
    file: File,
    /// Inotify watch on other processes that write to the image file. None if the system has no watch left, so that any
    /// process may have written.
    watch: Option<OwnedFd>,
    /// Timestamps of the image file after the last crash image was written; none on file systems whose timestamps do
    /// not show every change.
    stamps: Option<FileTimestamps>,
    /// Source of each block's content in the image file: a recorded write, or zeros. Valid if no other process has
    /// written to the file.
    held: Vec<BlockContents>,
    wanted: Vec<u8>,
    found: Vec<u8>,
}

impl CrashImageFile {
    /// Creates a file of `blocks` blocks of zeros, each of `block_bytes` bytes.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub(super) fn create(path: &Path, blocks: usize, block_bytes: u32) -> io::Result<CrashImageFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(length(blocks) * u64::from(block_bytes))?;
        let (watch, held) = (watch(path).ok(), vec![BlockContents::ZEROS; blocks]);
        let (wanted, found) = (Vec::new(), Vec::new());
        Ok(CrashImageFile { path: path.into(), file, watch, stamps: None, held, wanted, found })
    }

    /// Writes a crash image to the file, so that the file holds exactly the image's blocks. All blocks outside
    /// `footprint` are zeros.
    ///
    /// # Errors
    ///
    /// If the file system refuses an access.
    pub(super) fn hold(&mut self, image: ImageBlocks<'_>, footprint: &[Range<usize>]) -> io::Result<()> {
        if !self.is_in_place()? {
            remove(&self.path)?;
            *self = CrashImageFile::create(&self.path, image.sources.len(), image.recording.rules.block_bytes)?;
        }
        let was_written = self.was_written()?;
        if was_written && self.file.metadata()?.len() != image.recording.capacity_bytes {
            // `set_len` cuts the file to the image's size and extends it again, so everything behind the cut reads as
            // zeros.
            self.file.set_len(image.recording.capacity_bytes)?;
        }
        let written = self.write_changed_blocks(image, footprint)?;
        if was_written {
            self.undo_check_writes(image, footprint, &written)?;
        }
        // Discard the events that the writes above have caused.
        self.was_opened()?;
        self.stamps = set_fixed_timestamps(&self.file)?;
        Ok(())
    }

    /// Returns true if the path still leads to the open image file. A check command may have replaced the file.
    fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let is_own = |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
        Ok(fs::symlink_metadata(&self.path).is_ok_and(is_own))
    }

    /// Returns true if another process may have written to the image file since the last image. Many check commands, as
    /// those of databases, open the file for writing but do not write.
    fn was_written(&self) -> io::Result<bool> {
        Ok(self.was_opened()? && (self.stamps.is_none() || self.stamps != Some(stamps(&self.file)?)))
    }

    /// Returns true if, since the last call, another process has written to the image file or closed it after opening
    /// for writing. A process that maps the file is noticed when the process closes the file or ends.
    fn was_opened(&self) -> io::Result<bool> {
        let Some(watch) = &self.watch else { return Ok(true) };
        let (mut events, mut was_opened) = ([0; 4096], false);
        loop {
            match rustix::io::read(watch, &mut events) {
                Ok(_) => was_opened = true,
                Err(Errno::AGAIN) => return Ok(was_opened),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the blocks of a crash image that differ from the file's known content. Returns the written byte ranges,
    /// in ascending order.
    fn write_changed_blocks(
        &mut self,
        image: ImageBlocks<'_>,
        footprint: &[Range<usize>],
    ) -> io::Result<Vec<Range<u64>>> {
        let block_bytes = u64::from(image.recording.rules.block_bytes);
        let (gap, longest) = (PAGE_BYTES / block_bytes, PIECE_BYTES / block_bytes);
        let differences = image.differences(&self.held, footprint, wide_index(gap), wide_index(longest.max(1)));
        let mut written = Vec::with_capacity(differences.len());
        for range in differences {
            let (start, end) = (length(range.start) * block_bytes, length(range.end) * block_bytes);
            self.wanted.clear();
            image.append(start..end, &mut self.wanted);
            self.file.write_all_at(&self.wanted, start)?;
            self.held[range.clone()].copy_from_slice(&image.sources[range]);
            written.push(start..end);
        }
        Ok(written)
    }

    /// Undoes the writes of a check command by comparing the image file with the crash image. `written` has byte ranges
    /// that were just written and need no comparison.
    fn undo_check_writes(
        &mut self,
        image: ImageBlocks<'_>,
        footprint: &[Range<usize>],
        written: &[Range<u64>],
    ) -> io::Result<()> {
        let pages = pages(footprint, image.recording);
        rest(&pages, written).into_iter().try_for_each(|range| self.restore_range(range, image))?;
        self.deallocate_except(&pages, image.recording.capacity_bytes)
    }

    fn restore_range(&mut self, range: Range<u64>, image: ImageBlocks<'_>) -> io::Result<()> {
        for start in range.clone().step_by(wide_index(PIECE_BYTES)) {
            let end = (start + PIECE_BYTES).min(range.end);
            self.found.resize(wide_index(end - start), 0);
            self.file.read_exact_at(&mut self.found, start)?;
            if image.has_bytes(start, &self.found) {
                continue;
            }
            self.wanted.clear();
            image.append(start..end, &mut self.wanted);
            for changed in changed_page_ranges(&self.found, &self.wanted) {
                self.file.write_all_at(&self.wanted[changed.clone()], start + length(changed.start))?;
            }
        }
        Ok(())
    }

    /// Deallocates the data of the image file that a check command has written outside the byte ranges `kept`.
    fn deallocate_except(&self, kept: &[Range<u64>], capacity_bytes: u64) -> io::Result<()> {
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

    /// Returns the first range of data between two offsets of the image file, or none if there is only a hole
    /// (SEEK_DATA, SEEK_HOLE).
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
                let zeros = vec![0; wide_index(range.end - range.start)];
                self.file.write_all_at(&zeros, range.start)
            }
            other => other.map_err(io::Error::from),
        }
    }
}

/// Sets the file's modification time to 1970, so that any later change alters it. Returns the timestamps, or none on
/// file systems where writes to mapped memory may not update them.
fn set_fixed_timestamps(file: &File) -> io::Result<Option<FileTimestamps>> {
    if !STAMPING.contains(&rustix::fs::fstatfs(file)?.f_type) {
        return Ok(None);
    }
    file.set_times(FileTimes::new().set_modified(UNIX_EPOCH))?;
    stamps(file).map(Some)
}

fn stamps(file: &File) -> io::Result<FileTimestamps> {
    let found = file.metadata()?;
    Ok([(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())])
}

/// Returns a watch on processes that write to a file.
fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE)?;
    Ok(watch)
}

/// Returns the byte ranges of the whole pages that contain ranges of blocks.
fn pages(blocks: &[Range<usize>], recording: &Recording) -> Vec<Range<u64>> {
    let block_bytes = u64::from(recording.rules.block_bytes);
    let mut pages: Vec<Range<u64>> = Vec::new();
    for range in blocks {
        let (start, end) = (length(range.start) * block_bytes, length(range.end) * block_bytes);
        let (start, end) = (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES));
        let end = end.min(recording.capacity_bytes);
        match pages.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => pages.push(start..end),
        }
    }
    pages
}

/// Returns the parts of `ranges` that are not in `written`. Both are in ascending order.
fn rest(ranges: &[Range<u64>], written: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let first = written.partition_point(|other| other.end <= range.start);
        for other in written[first..].iter().take_while(|other| other.start < range.end) {
            rest.push(at..other.start.max(at));
            at = other.end;
        }
        rest.push(at..range.end.max(at));
    }
    rest.retain(|range| !range.is_empty());
    rest
}

/// Returns the byte ranges of the pages that differ, adjacent ones merged. Writing part of a large folio of the page
/// cache costs as much as writing all of it.
fn changed_page_ranges(found: &[u8], wanted: &[u8]) -> Vec<Range<usize>> {
    let mut changed: Vec<Range<usize>> = Vec::new();
    let page = wide_index(PAGE_BYTES);
    for (number, (found, wanted)) in found.chunks(page).zip(wanted.chunks(page)).enumerate() {
        let (start, end) = (number * page, number * page + wanted.len());
        match changed.last_mut() {
            _ if found == wanted => {}
            Some(last) if last.end == start => last.end = end,
            _ => changed.push(start..end),
        }
    }
    changed
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
    use std::time::Duration;

    use phaselink_core::crash::recording::{
        Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp,
    };
    use phaselink_core::crash::view::{ImageView, footprint};
    use phaselink_core::crash::{CutTimeline, Image};

    use super::*;

    const BLOCK: u32 = 500;
    const CAPACITY: usize = 100_000;

    /// Returns a recording that writes each of these values to three parts of the drive.
    fn recording(values: Range<u8>) -> Recording {
        let write = |value: u8, range: Range<usize>| RecordedCommand {
            kind: RecordedOp::Write(vec![value; range.len()].into()),
            offset: range.start as u64,
            bytes: range.len() as u32,
            durable: false,
        };
        let parts = [500..1000, 41_000..45_500, 60_000..70_000];
        let requests: Vec<RecordedCommand> =
            values.flat_map(|value| parts.clone().map(|part| write(value, part))).collect();
        Recording {
            capacity_bytes: CAPACITY as u64,
            rules: DurabilityRules { block_bytes: BLOCK, atomic_bytes: BLOCK, durability: Durability::OnFlush },
            zones: None,
            events: (0..requests.len()).map(RecordedEventKind::Arrived).collect(),
            requests,
            lines: Vec::new(),
            prepared: 0,
        }
    }

    /// Makes a file hold one image after another, and changes it by a check after each.
    fn hold(checks: &[fn(&Path)], is_watched: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let recording = recording(1..checks.len() as u8 + 1);
        let (timeline, footprint) = (CutTimeline::new(&recording), footprint(&recording));
        let mut view = ImageView::new(&recording, &timeline);
        let mut file = CrashImageFile::create(&path, recording.blocks(), BLOCK).unwrap();
        if !is_watched {
            file.watch = None;
        }
        for (number, check) in checks.iter().enumerate() {
            // The number of lost requests varies with `number % 4`, so some power cuts fall inside a group of writes.
            let shown = view.show(&Image::whole(3 * number + number % 4));
            file.hold(shown, &footprint).unwrap();
            let mut wanted = Vec::new();
            shown.append(0..CAPACITY as u64, &mut wanted);
            assert!(fs::read(&path).unwrap() == wanted, "image {number}");
            check(&path);
        }
    }

    const CHECKS: [fn(&Path); 14] = [
        |_| (),
        |_| (),
        |path| drop(File::options().append(true).open(path).unwrap()),
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
    fn image_file_holds_each_image_after_any_check_before() {
        hold(&CHECKS, true);
        hold(&CHECKS, false);
    }

    #[test]
    fn checks_that_only_read_are_told_from_those_that_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let recording = recording(1..2);
        let (timeline, footprint) = (CutTimeline::new(&recording), footprint(&recording));
        let mut view = ImageView::new(&recording, &timeline);
        let mut file = CrashImageFile::create(&path, recording.blocks(), BLOCK).unwrap();
        let mut hold = |file: &mut CrashImageFile| file.hold(view.show(&Image::whole(3)), &footprint).unwrap();
        hold(&mut file);
        if file.stamps.is_none() {
            return eprintln!("skipped: the file system stamps no mapped memory");
        }
        let open = || File::options().write(true).open(&path).unwrap();
        drop(open());
        assert!(!file.was_written().unwrap());
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let writer = open();
        writer.write_all_at(b"little", 42_000).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        writer.set_modified(modified).unwrap();
        drop(writer);
        assert!(file.was_written().unwrap(), "whatever it says of the time");
        hold(&mut file);
        drop(open());
        assert!(!file.was_written().unwrap());
    }

    #[test]
    fn writes_of_a_check_through_mapped_memory_are_noticed() {
        hold(
            &[
                |path| {
                    // Use Python to write through a mapping, because this crate has no unsafe code.
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
