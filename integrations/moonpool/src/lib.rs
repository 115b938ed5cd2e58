//! A modelled drive with files for each process of a [moonpool](https://docs.rs/moonpool-sim) simulation.
//!
//! moonpool draws the latency of its storage from a range. Here each process has a described drive: reads, writes and syncs take
//! the drive's time, queue behind each other, and a crash leaves any state that the drive's rules allow.
//!
//! ```
//! use moonpool_core::{StorageFile, StorageProvider, TimeProvider};
//! use phaselink_embed::Description;
//! use phaselink_moonpool::DriveStorage;
//!
//! async fn keep<T: TimeProvider>(time: T) -> std::io::Result<()> {
//!     let description = Description::shipped("tlc-gen4").map_err(std::io::Error::other)?;
//!     let storage = DriveStorage::open(&description, time)?;
//!     let file = storage.open("log", moonpool_core::OpenOptions::create_write()).await?;
//!     file.sync_all().await
//! }
//! ```

mod directory;
mod file;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::Directory;
pub use file::DriveFile;
use moonpool_core::{OpenOptions, StorageProvider, TimeProvider};
use phaselink_embed::{Description, Span, Time};
use phaselink_hosts::{Clock, HostDrive};

/// Time of a provider of moonpool.
#[derive(Clone, Debug)]
pub struct ProviderClock<T>(T);

impl<T: TimeProvider> Clock for ProviderClock<T> {
    fn now(&self) -> Time {
        Time::ZERO + Span::from_ps(self.0.now().as_nanos() as u64 * 1000)
    }

    async fn sleep_until(&self, instant: Time) {
        // Timers count nanoseconds. Wait for at least one, so that time advances.
        let wait = instant.as_ps().saturating_sub(self.now().as_ps()).div_ceil(1000).max(1);
        // If the simulation has ended, the timer fails, and nobody is waiting.
        let _ = self.0.sleep(Duration::from_nanos(wait)).await;
    }
}

/// Storage of a process: a drive with files. A clone is a further handle to the same drive.
#[derive(Clone, Debug)]
pub struct DriveStorage<T> {
    drive: HostDrive<ProviderClock<T>>,
    directory: Arc<Mutex<Directory>>,
}

impl<T: TimeProvider> DriveStorage<T> {
    /// Opens the drive of a description, without files, in the time of a provider.
    ///
    /// # Errors
    /// If the drive cannot follow power cuts, or is too small for a directory.
    pub fn open(description: &Description, time: T) -> io::Result<DriveStorage<T>> {
        let drive = HostDrive::open_with(description, ProviderClock(time)).map_err(io::Error::other)?;
        let directory = drive.with_drive(|drive| Directory::new(drive))?;
        Ok(DriveStorage { drive, directory: Arc::new(Mutex::new(directory)) })
    }

    /// Cuts the power of the drive, and returns the storage of the next boot, with a state that the cut may leave, drawn from
    /// `seed`. Operations of earlier handles fail.
    ///
    /// # Errors
    /// If the simulation has run for 106 days.
    pub fn boot(&self, time: T, seed: u64) -> io::Result<DriveStorage<T>> {
        let drive = self.drive.with_clock(ProviderClock(time));
        drive.cut_power(drive.now(), seed).map_err(io::Error::other)?;
        let mut directory = drive.with_drive(|drive| Directory::new(drive))?;
        drive.with_drive(|drive| directory.read(drive))?;
        Ok(DriveStorage { drive, directory: Arc::new(Mutex::new(directory)) })
    }

    /// Returns the drive.
    pub fn drive(&self) -> &HostDrive<ProviderClock<T>> {
        &self.drive
    }

    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an entry of the directory, and makes it durable.
    async fn keep_entry(&self, place: usize) -> io::Result<()> {
        let (offset, bytes) = self.directory().encode(place);
        self.drive.write(offset, &bytes).await?;
        self.drive.flush().await?;
        self.directory().on_kept(place, &bytes);
        Ok(())
    }

    /// Makes the data of a file durable, and its name and length if they have changed.
    async fn sync(&self, place: usize) -> io::Result<()> {
        self.drive.flush().await?;
        if self.directory().is_changed(place) { self.keep_entry(place).await } else { Ok(()) }
    }

    /// Reads up to `bytes` bytes of a file.
    async fn read_at(self, place: usize, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let range = self.directory().range(place, offset, bytes as u64);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let blocks = self.directory().blocks(range.clone());
        let data = self.drive.read(blocks.start, (blocks.end - blocks.start) as u32).await?;
        let first = (range.start - blocks.start) as usize;
        Ok(data[first..first + (range.end - range.start) as usize].to_vec())
    }

    /// Writes bytes into a file, at its end if there is no offset. Returns the offset behind them.
    async fn write_at(self, place: usize, offset: Option<u64>, data: Vec<u8>) -> io::Result<u64> {
        let length = self.directory().length(place);
        let offset = offset.unwrap_or(length);
        let end = offset + data.len() as u64;
        self.directory().check_end(end)?;
        self.zero(place, length, offset).await?;
        self.write_blocks(place, offset, &data).await?;
        self.directory().grow(place, end);
        Ok(end)
    }

    /// Fills a file with zeros between two offsets, if the second is behind the first.
    async fn zero(&self, place: usize, from: u64, to: u64) -> io::Result<()> {
        const PIECE: u64 = 131_072;
        let mut at = from;
        while at < to {
            let bytes = (to - at).min(PIECE);
            self.write_blocks(place, at, &vec![0; bytes as usize]).await?;
            at += bytes;
        }
        Ok(())
    }

    /// Writes the blocks that hold these bytes of a file; the rest of the first and last block stays.
    async fn write_blocks(&self, place: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let start = self.directory().place_of(place, offset);
        let blocks = self.directory().blocks(start..start + data.len() as u64);
        let mut bytes = vec![0; (blocks.end - blocks.start) as usize];
        self.drive.with_drive(|drive| drive.peek(0, blocks.start, &mut bytes)).map_err(io::Error::other)?;
        let first = (start - blocks.start) as usize;
        bytes[first..first + data.len()].copy_from_slice(data);
        Ok(self.drive.write(blocks.start, &bytes).await?)
    }

    async fn set_length(&self, place: usize, length: u64) -> io::Result<()> {
        self.directory().check_end(length)?;
        let before = self.directory().length(place);
        self.zero(place, before, length).await?;
        self.directory().set_length(place, length);
        Ok(())
    }
}

fn not_found(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no file {path}"))
}

impl<T: TimeProvider> StorageProvider for DriveStorage<T> {
    type File = DriveFile<T>;

    async fn open(&self, path: &str, options: OpenOptions) -> io::Result<DriveFile<T>> {
        let found = self.directory().find(path);
        let place = match found {
            Some(_) if options.is_create_new() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("there is a file {path} already")));
            }
            Some(place) => place,
            None if options.is_create() || options.is_create_new() => self.directory().create(path)?,
            None => return Err(not_found(path)),
        };
        if options.is_truncate() {
            self.directory().set_length(place, 0);
        }
        Ok(DriveFile::new(self.clone(), place, &options))
    }

    async fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.directory().find(path).is_some())
    }

    async fn delete(&self, path: &str) -> io::Result<()> {
        let place = self.directory().find(path).ok_or_else(|| not_found(path))?;
        self.directory().delete(place);
        self.keep_entry(place).await
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let place = self.directory().find(from).ok_or_else(|| not_found(from))?;
        let replaced = self.directory().find(to).filter(|replaced| *replaced != place);
        // The younger of two entries with a name is valid, so the entry of the replaced file may be written later.
        self.directory().rename(place, to)?;
        self.keep_entry(place).await?;
        match replaced {
            None => Ok(()),
            Some(replaced) => {
                self.directory().delete(replaced);
                self.keep_entry(replaced).await
            }
        }
    }
}
