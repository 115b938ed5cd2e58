//! Drives of the hosts of a deterministic simulator, as asynchronous operations in the simulator's time.
//!
//! A simulator says by [`Clock`] what time it is and how a task waits; `phaselink-turmoil` and `phaselink-madsim` are two of them.

use std::error::Error;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use phaselink_embed::{Description, Drive, Misuse, Operation, Problems, Span, Status, Survival, Ticket, Time};

/// Time of a simulator.
pub trait Clock: Clone + Send + Sync {
    /// Returns the time since the simulation began.
    fn now(&self) -> Time;

    /// Lets the task wait until an instant, or a little longer.
    fn sleep_until(&self, instant: Time) -> impl Future<Output = ()> + Send;
}

/// Drive of a simulated host. It outlives crashes of its host; a clone is a further handle to the same drive.
#[derive(Clone, Debug)]
pub struct HostDrive<C> {
    state: Arc<Mutex<State>>,
    clock: C,
}

#[derive(Debug)]
struct State {
    drive: Drive,
    /// Number of power cuts.
    cuts: u64,
    /// Number that depends on every completion so far (FNV-1a).
    digest: u64,
}

/// Completed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Data of a read; empty for every other operation.
    pub data: Vec<u8>,
    /// Time from submission to completion at the drive. The task may have waited longer, as the simulator's timers are coarser.
    pub latency: Span,
}

/// Reason why an operation of a host's drive has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriveError {
    /// The drive cannot carry the call out.
    Misuse(Misuse),
    /// The operation has ended without success.
    Failed(Status),
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveError::Misuse(misuse) => misuse.fmt(f),
            DriveError::Failed(status) => write!(f, "the operation has failed: {status}"),
        }
    }
}

impl Error for DriveError {}

impl From<Misuse> for DriveError {
    fn from(misuse: Misuse) -> DriveError {
        DriveError::Misuse(misuse)
    }
}

impl From<DriveError> for io::Error {
    fn from(error: DriveError) -> io::Error {
        io::Error::other(error)
    }
}

impl<C: Clock + Default> HostDrive<C> {
    /// Opens the drive of a description, which is empty and can lose its power.
    ///
    /// # Errors
    /// If the drive cannot follow power cuts: [`Description::open`] says why.
    pub fn open(description: &Description) -> Result<HostDrive<C>, Problems> {
        HostDrive::open_with(description, C::default())
    }
}

impl<C: Clock> HostDrive<C> {
    /// Opens the drive of a description, which is empty and can lose its power, in the time of a clock.
    ///
    /// # Errors
    /// If the drive cannot follow power cuts: [`Description::open`] says why.
    pub fn open_with(description: &Description, clock: C) -> Result<HostDrive<C>, Problems> {
        let drive = description.clone().with_power_cuts().open()?;
        let state = State { drive, cuts: 0, digest: 0xcbf2_9ce4_8422_2325 };
        Ok(HostDrive { state: Arc::new(Mutex::new(state)), clock })
    }

    /// Returns a handle to the same drive with another clock of the same simulation.
    pub fn with_clock(&self, clock: C) -> HostDrive<C> {
        HostDrive { state: self.state.clone(), clock }
    }

    /// Returns the time of the simulation.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Reads from the drive.
    ///
    /// # Errors
    /// As [`HostDrive::carry_out`].
    pub async fn read(&self, offset: u64, bytes: u32) -> Result<Vec<u8>, DriveError> {
        Ok(self.carry_out(Operation::read(offset, bytes)).await?.data)
    }

    /// Writes to the drive. A power cut may take the data until a flush has completed.
    ///
    /// # Errors
    /// As [`HostDrive::carry_out`].
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), DriveError> {
        self.carry_out(Operation::write(offset, data)).await.map(drop)
    }

    /// Makes durable what has been written; on a drive whose buffer outlives power, nothing is to be done.
    ///
    /// # Errors
    /// As [`HostDrive::carry_out`].
    pub async fn flush(&self) -> Result<(), DriveError> {
        let is_volatile = self.state().drive.is_volatile();
        if is_volatile { self.carry_out(Operation::flush()).await.map(drop) } else { Ok(()) }
    }

    /// Carries an operation out. It is submitted at once, and the task waits until it has completed.
    ///
    /// # Errors
    /// If the drive cannot carry the operation out, reports an error, or loses its power meanwhile.
    pub async fn carry_out(&self, operation: Operation<'_>) -> Result<Done, DriveError> {
        let (ticket, cuts) = {
            let mut state = self.state();
            let now = self.clock.now().max(state.drive.now());
            (state.drive.submit(now, 0, operation)?, state.cuts)
        };
        loop {
            let next = {
                let mut state = self.state();
                if state.cuts != cuts {
                    return Err(DriveError::Failed(Status::PowerLost));
                }
                let now = self.clock.now().max(state.drive.now());
                match state.take(ticket, now)? {
                    Ok(done) => return Ok(done),
                    Err(next) => next,
                }
            };
            self.clock.sleep_until(next).await;
        }
    }

    /// Cuts the drive's power, and starts it again at once with a state that the cut may leave, drawn from `seed`. Operations in
    /// flight fail. Call it when the host crashes.
    ///
    /// # Errors
    /// If the drive has run for 106 days.
    pub fn cut_power(&self, now: Time, seed: u64) -> Result<(), Misuse> {
        let mut state = self.state();
        let now = now.max(state.drive.now());
        state.drive.cut_power(now, Survival::Drawn { seed })?;
        state.cuts += 1;
        while state.drive.next_completion().is_some() {}
        state.mix(now.as_ps());
        Ok(())
    }

    /// Calls `look` with the drive.
    pub fn with_drive<R>(&self, look: impl FnOnce(&mut Drive) -> R) -> R {
        look(&mut self.state().drive)
    }

    /// Returns a number that depends on the instant, the status and the data of every completion so far: two runs that are the
    /// same have the same.
    pub fn digest(&self) -> u64 {
        self.state().digest
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn mix(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Advances the drive to `now` and takes the completion of an operation, or returns the instant at which to look again.
    fn take(&mut self, ticket: Ticket, now: Time) -> Result<Result<Done, Time>, DriveError> {
        self.drive.advance(now)?;
        let done = match self.drive.take(ticket) {
            Err(Misuse::NotComplete(_)) => {
                return self.drive.next_at().map(Err).ok_or(Misuse::NeverCompletes(ticket).into());
            }
            done => done?,
        };
        let (status, at, latency, data) = (done.status(), done.at(), done.latency(), done.data().to_vec());
        self.mix(at.as_ps());
        self.mix(status as u64);
        data.chunks_exact(8).for_each(|word| self.mix(u64::from_le_bytes(word.try_into().unwrap_or_default())));
        if status.is_success() { Ok(Ok(Done { data, latency })) } else { Err(DriveError::Failed(status)) }
    }
}
