//! Modelled drives behind the storage tier (G3) of a simulator of inference servers.
//!
//! The simulator submits jobs that read or write blocks of the key-value cache, asks when something may happen next, and
//! advances its time. [`DriveTransfers`] answers with drives instead of a division of bytes by a bandwidth: a job becomes
//! commands that queue at the drives, reads and writes share dies, buffers and links, and each write wears cells.
//!
//! ```
//! use phaselink_dynamo::{DriveArray, TransferJob, TransferKind};
//!
//! let mut transfers = DriveArray::new("tlc-gen4")?.open()?;
//! transfers.submit(TransferJob { id: 1, worker: 0, kind: TransferKind::Read, ready_ms: 0.0, bytes: 5 << 20 });
//! let mut done = Vec::new();
//! while let Some(next_ms) = transfers.next_event_ms() {
//!     done.extend(transfers.advance(next_ms));
//! }
//! assert_eq!(done[0].id, 1);
//! println!("5 MiB read after {} ms", done[0].at_ms);
//! # Ok::<(), phaselink_embed::Problems>(())
//! ```
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod commands;
mod rates;

use std::sync::{Mutex, PoisonError};

use commands::CommandTransfers;
use phaselink_embed::{Description, Problems};
use rates::{MeasuredRates, RateTransfers};

/// Whether a job reads blocks of the cache or writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// The job reads blocks from the drives.
    Read,
    /// The job writes blocks to the drives.
    Write,
}

impl TransferKind {
    const ALL: [TransferKind; 2] = [TransferKind::Read, TransferKind::Write];
}

/// Blocks that a worker reads or writes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferJob {
    /// Identifier that the simulator has chosen.
    pub id: u64,
    /// Worker on whose behalf the job is executed.
    pub worker: u64,
    /// Whether the job reads or writes.
    pub kind: TransferKind,
    /// Simulated time in ms at which the job's first command is submitted.
    pub ready_ms: f64,
    /// Number of bytes of the job.
    pub bytes: u64,
}

/// Job whose last command has completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompletedJob {
    /// Identifier of the job.
    pub id: u64,
    /// Simulated time in ms at which its last command completed.
    pub at_ms: f64,
}

/// Description of the drives of a tier, and of how a job becomes commands.
#[derive(Clone, Debug)]
pub struct DriveArray {
    description: Description,
    command_bytes: u32,
    depth: u32,
    region_bytes: Option<u64>,
    rates: Option<MeasuredRates>,
}

impl DriveArray {
    /// Returns one drive: a shipped one by its name, or that of a drive file by its path. Commands have 128 KiB, and at
    /// most 32 reads and 32 writes are outstanding at each drive.
    ///
    /// # Errors
    ///
    /// If there is no such drive, or its file is wrong.
    pub fn new(drive: &str) -> Result<DriveArray, Problems> {
        let description = Description::named(drive)?.without_data();
        Ok(DriveArray { description, command_bytes: 128 << 10, depth: 32, region_bytes: None, rates: None })
    }

    /// Sets a key of the drive's file, as in `drives=4` or `fabric.preset=nvme-tcp`.
    ///
    /// # Errors
    ///
    /// If the setting is wrong by itself or for this drive.
    pub fn with(self, setting: &str) -> Result<DriveArray, Problems> {
        let array = self.without_measurements();
        Ok(DriveArray { description: array.description.with(setting)?.without_data(), ..array })
    }

    /// Sets the number of bytes of a command, which is rounded up to whole blocks of the drive.
    pub fn command_bytes(self, command_bytes: u32) -> DriveArray {
        DriveArray { command_bytes: command_bytes.max(1), ..self.without_measurements() }
    }

    /// Sets how many reads, and how many writes, are outstanding at each drive.
    pub fn depth(self, depth: u32) -> DriveArray {
        DriveArray { depth: depth.max(1), ..self }
    }

    /// Sets how many bytes of each drive the tier uses. The default is the capacity of the drive.
    pub fn region_bytes(self, region_bytes: u64) -> DriveArray {
        DriveArray { region_bytes: Some(region_bytes), ..self }
    }

    /// Lets jobs progress at measured rates instead of command by command: thousands of times faster. The drives are
    /// simulated command by command for each number of outstanding reads and writes, once, when it first occurs; jobs of
    /// one kind share the rate of their kind equally.
    ///
    /// What is lost: the order of the commands of different jobs, and what the drives remember for longer than a
    /// measurement, such as the fill of a large write buffer.
    pub fn by_measured_rates(self) -> DriveArray {
        DriveArray { rates: Some(MeasuredRates::default()), ..self }
    }

    /// Forgets what was measured of other drives or commands.
    fn without_measurements(self) -> DriveArray {
        DriveArray { rates: self.rates.as_ref().map(|_| MeasuredRates::default()), ..self }
    }

    /// Simulates every command, which is the default.
    pub fn by_commands(self) -> DriveArray {
        DriveArray { rates: None, ..self }
    }

    /// Opens the drives: idle, at time zero, nothing written.
    ///
    /// # Errors
    ///
    /// If the drives cannot be embedded, for example because they store values by keys.
    pub fn open(&self) -> Result<DriveTransfers, Problems> {
        let commands = CommandTransfers::new(self.description.open()?, self, [self.depth; 2]);
        Ok(DriveTransfers(match &self.rates {
            Some(rates) => Execution::Rates(Box::new(RateTransfers::new(self, rates.clone(), commands.region()))),
            None => Execution::Commands(Box::new(commands)),
        }))
    }

    /// Opens the drives of every tier that is made from now on, until [`remove_installed`] is called. The simulator makes
    /// its tiers itself.
    ///
    /// # Errors
    ///
    /// If the drives cannot be embedded.
    pub fn install(self) -> Result<(), Problems> {
        self.open()?;
        *lock(&INSTALLED) = Some(self);
        Ok(())
    }
}

/// Drives that [`DriveArray::install`] has named.
static INSTALLED: Mutex<Option<DriveArray>> = Mutex::new(None);

/// Work of the drives of the tier that was dropped last.
static LAST_USE: Mutex<Option<DriveUse>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the drives for a new tier, or none if [`DriveArray::install`] has named none.
pub fn open_installed() -> Option<DriveTransfers> {
    lock(&INSTALLED).as_ref().and_then(|array| array.open().ok())
}

/// Lets tiers that are made from now on divide bytes by a bandwidth again.
pub fn remove_installed() {
    *lock(&INSTALLED) = None;
}

/// Takes the work of the drives of the tier that was dropped last.
pub fn take_last_use() -> Option<DriveUse> {
    lock(&LAST_USE).take()
}

/// What the drives of a tier have done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveUse {
    /// Bytes that all drives have read.
    pub read_bytes: u64,
    /// Bytes that have been written to all drives.
    pub written_bytes: u64,
    /// Number of drives.
    pub drives: u16,
    /// Bytes of each drive that the tier uses.
    pub region_bytes: u64,
    /// Simulated time in ms that the drives have reached.
    pub now_ms: f64,
    /// Number of commands that ended with an error.
    pub failed_commands: u64,
}

impl DriveUse {
    /// Returns how often a day the used part of each drive is written once.
    pub fn drive_writes_per_day(&self) -> f64 {
        let days = self.now_ms / 86_400e3;
        let written = self.written_bytes as f64 / f64::from(self.drives);
        written / self.region_bytes as f64 / days
    }
}

/// Drives that execute the jobs of a tier.
#[derive(Debug)]
pub struct DriveTransfers(Execution);

#[derive(Debug)]
enum Execution {
    Commands(Box<CommandTransfers>),
    Rates(Box<RateTransfers>),
}

impl DriveTransfers {
    /// Returns the simulated time in ms.
    pub fn now_ms(&self) -> f64 {
        match &self.0 {
            Execution::Commands(transfers) => transfers.now_ms(),
            Execution::Rates(transfers) => transfers.now_ms(),
        }
    }

    /// Returns true if a job of the worker has not completed.
    pub fn has_jobs_of(&self, worker: u64) -> bool {
        match &self.0 {
            Execution::Commands(transfers) => transfers.has_jobs_of(worker),
            Execution::Rates(transfers) => transfers.has_jobs_of(worker),
        }
    }

    /// Submits a job. The time must have been advanced to that of the submission.
    pub fn submit(&mut self, job: TransferJob) {
        match &mut self.0 {
            Execution::Commands(transfers) => transfers.submit(job),
            Execution::Rates(transfers) => transfers.submit(job),
        }
    }

    /// Takes a job back: its waiting commands are not submitted, and its completion is not reported. Returns false if there
    /// is no such job.
    pub fn cancel(&mut self, id: u64) -> bool {
        match &mut self.0 {
            Execution::Commands(transfers) => transfers.cancel(id),
            Execution::Rates(transfers) => transfers.cancel(id),
        }
    }

    /// Returns the earliest time in ms at which a job may begin or complete, or none if there is no job.
    pub fn next_event_ms(&self) -> Option<f64> {
        match &self.0 {
            Execution::Commands(transfers) => transfers.next_event_ms(),
            Execution::Rates(transfers) => transfers.next_event_ms(),
        }
    }

    /// Advances to a time in ms, and returns the jobs that have completed until then, in the order of their completion.
    pub fn advance(&mut self, target_ms: f64) -> Vec<CompletedJob> {
        match &mut self.0 {
            Execution::Commands(transfers) => transfers.advance(target_ms),
            Execution::Rates(transfers) => transfers.advance(target_ms),
        }
    }

    /// Returns what the drives have done so far.
    pub fn drive_use(&self) -> DriveUse {
        match &self.0 {
            Execution::Commands(transfers) => transfers.drive_use(),
            Execution::Rates(transfers) => transfers.drive_use(),
        }
    }
}

impl Drop for DriveTransfers {
    fn drop(&mut self) {
        *lock(&LAST_USE) = Some(self.drive_use());
    }
}

#[cfg(test)]
mod tests;
