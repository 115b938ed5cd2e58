//! A modelled drive as the storage of redb: a real embedded database on a drive that nobody has, in virtual time, in one process.
//!
//! ```
//! use phaselink_embed::Description;
//! use phaselink_redb::Storage;
//! use redb::{Database, TableDefinition};
//!
//! const TABLE: TableDefinition<u64, u64> = TableDefinition::new("numbers");
//!
//! let storage = Storage::open(&Description::shipped("tlc-gen4")?)?;
//! let database = Database::builder().create_with_backend(storage.backend())?;
//! let start = storage.now();
//! let transaction = database.begin_write()?;
//! transaction.open_table(TABLE)?.insert(1, 2)?;
//! transaction.commit()?;
//! println!("a commit takes {} us", storage.now().since(start).as_us());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The database is a file of a simple file system: the first page of the drive holds its length, and its bytes follow. Writes
//! are in flight together, as those of a page cache are, and `sync_data` waits for all of them and flushes the drive.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use phaselink_embed::{
    Description, Drive, LegalImage, Misuse, Operation, OperationKind, Problems, Survival, Ticket, Time,
};
use redb::StorageBackend;

/// Bytes in front of the file, which hold its length.
const HEADER_BYTES: u64 = 4096;
/// Most writes in flight.
const WRITES_MAX: usize = 32;

/// Drive that holds one database, which outlives the database and power cuts.
#[derive(Clone, Debug)]
pub struct Storage {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    drive: Drive,
    /// Length of the file in bytes.
    length: u64,
    /// Writes in flight, with their first and end byte on the drive.
    writes: Vec<(Ticket, u64, u64)>,
    requests: u64,
    power: Power,
    last_cut: Option<PowerCut>,
    /// True if `sync_data` does nothing: a broken back end, for tests.
    skips_sync: bool,
    block: Vec<u8>,
}

/// Power of the drive.
#[derive(Clone, Copy, Debug)]
enum Power {
    On,
    /// Power fails before the request of this number, and the state that is left is drawn from a seed.
    FailsAt {
        request: u64,
        seed: u64,
    },
    Off,
}

/// Power cut of a storage, with the state that it has left.
#[derive(Clone, Debug)]
pub struct PowerCut {
    /// Number of requests of the database before it.
    pub requests: u64,
    /// Seed from which the state was drawn.
    pub seed: u64,
    /// State that was left.
    pub image: LegalImage,
}

impl PowerCut {
    /// Returns a sentence for each write that is missing or torn in the state, with the rule that allows the drive to lose it, and
    /// one that says how to get the state again. There is none if everything is there. Byte 4096 of the drive is the first of the
    /// database; those before it hold its length.
    pub fn explanation(&self) -> Vec<String> {
        let mut lines = self.image.explanation();
        if let Some(last) = lines.last_mut() {
            let PowerCut { requests, seed, .. } = self;
            *last = format!(
                "To replay it, do the same on a new storage, earlier power cuts included: this one comes after {requests} requests, \
                 with seed {seed}."
            );
        }
        lines
    }
}

/// The storage as redb sees it.
#[derive(Debug)]
pub struct DriveBackend {
    storage: Storage,
}

impl Storage {
    /// Opens the drive of a description, which is empty and can lose its power.
    ///
    /// # Errors
    /// If the drive cannot follow power cuts: [`Description::open`] says why.
    pub fn open(description: &Description) -> Result<Storage, Problems> {
        let state = State {
            drive: description.clone().with_power_cuts().open()?,
            length: 0,
            writes: Vec::new(),
            requests: 0,
            power: Power::On,
            last_cut: None,
            skips_sync: false,
            block: Vec::new(),
        };
        Ok(Storage { state: Arc::new(Mutex::new(state)) })
    }

    /// Returns a back end for a database. A storage has one database at a time.
    pub fn backend(&self) -> DriveBackend {
        DriveBackend { storage: self.clone() }
    }

    /// Returns the instant that the drive has reached.
    pub fn now(&self) -> Time {
        self.state().drive.now()
    }

    /// Returns the number of requests of the database so far.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// Lets `sync_data` do nothing, as a broken back end might: tests have to find that.
    pub fn skip_sync(&self) {
        self.state().skips_sync = true;
    }

    /// Lets power fail before so many more requests; every request fails from then on. The state that is left is drawn from `seed`.
    pub fn fail_power_after(&self, requests: u64, seed: u64) {
        let mut state = self.state();
        state.power = Power::FailsAt { request: state.requests + requests, seed };
    }

    /// True if power has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.state().power, Power::Off)
    }

    /// Turns power on again, or lets it fail first if it has not yet. The database has to be opened anew.
    ///
    /// # Errors
    /// If the drive cannot be read.
    pub fn restart(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Power::FailsAt { seed, .. } = state.power {
            state.fail(seed)?;
        }
        state.power = Power::On;
        state.read_length()
    }

    /// Returns the last power cut, for a test that fails after it; none if power has not failed yet.
    pub fn last_cut(&self) -> Option<PowerCut> {
        self.state().last_cut.clone()
    }

    /// Calls `look` with the drive.
    pub fn with_drive<R>(&self, look: impl FnOnce(&mut Drive) -> R) -> R {
        look(&mut self.state().drive)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn error(misuse: Misuse) -> io::Error {
    io::Error::other(misuse)
}

impl State {
    fn read_length(&mut self) -> io::Result<()> {
        let mut length = [0; 8];
        self.drive.peek(0, 0, &mut length).map_err(error)?;
        self.length = u64::from_le_bytes(length);
        Ok(())
    }

    /// Lets power fail now.
    fn fail(&mut self, seed: u64) -> io::Result<()> {
        self.power = Power::Off;
        self.writes.clear();
        // First handle all events of this instant, so that the image drawn here equals the one that the power cut
        // leaves.
        self.drive.advance(self.drive.now()).map_err(error)?;
        let image = self.drive.drawn_image(seed).map_err(error)?;
        self.drive.cut_power(self.drive.now(), Survival::Drawn { seed }).map_err(error)?;
        self.last_cut = Some(PowerCut { requests: self.requests, seed, image });
        while self.drive.next_completion().is_some() {}
        Ok(())
    }

    /// Counts a request, unless power has failed.
    fn begin(&mut self) -> io::Result<()> {
        if let Power::FailsAt { request, seed } = self.power
            && self.requests >= request
        {
            self.fail(seed)?;
        }
        if matches!(self.power, Power::Off) {
            return Err(io::Error::other("power has failed"));
        }
        self.requests += 1;
        Ok(())
    }

    fn wait(&mut self, ticket: Ticket) -> io::Result<()> {
        let status = self.drive.wait(ticket).map_err(error)?.status();
        if status.is_success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
    }

    /// Waits for the writes in flight that touch this range of the drive.
    fn wait_for_writes(&mut self, start: u64, end: u64) -> io::Result<()> {
        while let Some(place) = self.writes.iter().position(|(_, from, until)| *from < end && start < *until) {
            let (ticket, ..) = self.writes.remove(place);
            self.wait(ticket)?;
        }
        Ok(())
    }

    /// Writes bytes at any place of the drive. Blocks at both ends are completed by what the drive holds, as a page cache does.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.begin()?;
        let block_bytes = u64::from(self.drive.block_bytes());
        let end = offset + data.len() as u64;
        let (start, rounded) = (offset / block_bytes * block_bytes, end.next_multiple_of(block_bytes));
        self.wait_for_writes(start, rounded)?;
        while self.writes.len() >= WRITES_MAX {
            let (ticket, ..) = self.writes.remove(0);
            self.wait(ticket)?;
        }
        let now = self.drive.now();
        let ticket = match start == offset && rounded == end {
            true => self.drive.submit(now, 0, Operation::write(start, data)),
            false => {
                self.block.resize((rounded - start) as usize, 0);
                self.drive.peek(0, start, &mut self.block).map_err(error)?;
                let place = (offset - start) as usize;
                self.block[place..place + data.len()].copy_from_slice(data);
                self.drive.submit(now, 0, Operation::write(start, &self.block))
            }
        };
        self.writes.push((ticket.map_err(error)?, start, rounded));
        Ok(())
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.begin()?;
        let block_bytes = u64::from(self.drive.block_bytes());
        let end = offset + out.len() as u64;
        let (start, rounded) = (offset / block_bytes * block_bytes, end.next_multiple_of(block_bytes));
        self.wait_for_writes(start, rounded)?;
        let now = self.drive.now();
        let ticket = self.drive.submit(now, 0, Operation::read(start, (rounded - start) as u32)).map_err(error)?;
        let done = self.drive.wait(ticket).map_err(error)?;
        if !done.status().is_success() {
            return Err(io::Error::other(done.status().to_string()));
        }
        let place = (offset - start) as usize;
        out.copy_from_slice(&done.data()[place..place + out.len()]);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.begin()?;
        if self.skips_sync {
            return Ok(());
        }
        self.wait_for_writes(0, u64::MAX)?;
        // A drive without a volatile buffer needs no flush, and may not have the command.
        if !self.drive.supports(OperationKind::Flush) || !self.drive.is_volatile() {
            return Ok(());
        }
        let now = self.drive.now();
        let ticket = self.drive.submit(now, 0, Operation::flush()).map_err(error)?;
        self.wait(ticket)
    }
}

impl StorageBackend for DriveBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.storage.state().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.storage.state();
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > state.length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the read ends behind the storage"));
        }
        state.read(HEADER_BYTES + offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.storage.state();
        let capacity = state.drive.capacity_bytes() - HEADER_BYTES;
        if length > capacity {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the drive is too small"));
        }
        state.write(0, &length.to_le_bytes())?;
        state.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.storage.state().sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.storage.state().write(HEADER_BYTES + offset, data)
    }
}

/// Pages of the documentation whose examples run as tests.
#[cfg(doctest)]
#[allow(rustdoc::invalid_codeblock_attributes, reason = "blocks say by which name others find them as a file")]
mod pages {
    #[doc = include_str!("../../../crates/cli/docs/my-database.md")]
    struct MyDatabase;

    #[doc = include_str!("../../../crates/cli/docs/crash-in-virtual-time.md")]
    struct CrashInVirtualTime;
}
