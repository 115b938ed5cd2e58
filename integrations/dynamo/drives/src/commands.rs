//! Jobs command by command: each command is simulated packet by packet, from its submission to the cells and back.

use std::collections::{BTreeMap, VecDeque};

use phaselink_embed::{Drive, Operation, OperationKind, Status, Ticket, Time};

use crate::{CompletedJob, DriveArray, DriveUse, TransferJob, TransferKind};

/// Bytes a second that no drive exceeds: the rate of a PCIe 6.0 link with four lanes. A job cannot complete before its
/// bytes have passed at this rate.
const DRIVE_BYTES_PER_SECOND_MAX: f64 = 32e9;

/// Time after which a job that may complete is looked at again. Its completion is noticed at most so much later than it
/// happens; the instant that is reported is exact.
const LOOK_AGAIN_MS: f64 = 0.01;

/// Commands of a job that wait for their turn at a drive.
#[derive(Clone, Copy, Debug)]
struct WaitingCommands {
    job: u64,
    ready: Time,
    commands: u64,
    /// Bytes of the last of the commands, in whole blocks.
    last_bytes: u32,
}

/// Job of which some commands have not completed.
#[derive(Clone, Copy, Debug)]
struct OpenJob {
    worker: u64,
    ready_ms: f64,
    /// Number of bytes of commands that have not completed.
    bytes_left: u64,
    /// A cancelled job completes without a report.
    is_cancelled: bool,
}

/// Place of the next write at a drive, and what has been written: the tier overwrites its part of the drive from the first
/// byte to the last, again and again.
#[derive(Clone, Copy, Debug, Default)]
struct WrittenRegion {
    next_offset: u64,
    written_bytes: u64,
}

/// Drives that execute the jobs of a tier.
///
/// The bytes of a job are spread over the drives command by command. Each drive takes one command of each waiting job in
/// turn, reads and writes apart. Writes go to successive places, reads to places that are drawn from those written.
#[derive(Debug)]
pub(crate) struct CommandTransfers {
    drive: Drive,
    drives: u16,
    command_bytes: u32,
    block_bytes: u32,
    /// How many reads, and how many writes, are outstanding at each drive at most.
    depths: [u32; 2],
    region_bytes: u64,
    now_ms: f64,
    jobs: BTreeMap<u64, OpenJob>,
    /// Waiting commands of each drive, reads first.
    waiting: Vec<[VecDeque<WaitingCommands>; 2]>,
    outstanding: Vec<[u32; 2]>,
    written: Vec<WrittenRegion>,
    in_flight: BTreeMap<Ticket, CommandInFlight>,
    next_drive: u16,
    reads: u64,
    failed_commands: u64,
}

/// Command that a drive executes.
#[derive(Clone, Copy, Debug)]
struct CommandInFlight {
    job: u64,
    drive: u16,
    kind: TransferKind,
    bytes: u32,
}

impl CommandTransfers {
    pub(crate) fn new(drive: Drive, array: &DriveArray, depths: [u32; 2]) -> CommandTransfers {
        let block_bytes = drive.block_bytes();
        let command_bytes = array.command_bytes.next_multiple_of(block_bytes);
        let drives = drive.drives();
        let capacity_bytes = drive.capacity_bytes();
        let region_bytes = array.region_bytes.unwrap_or(capacity_bytes).clamp(command_bytes.into(), capacity_bytes);
        CommandTransfers {
            drives,
            command_bytes,
            block_bytes,
            depths,
            region_bytes: region_bytes / u64::from(command_bytes) * u64::from(command_bytes),
            now_ms: 0.0,
            jobs: BTreeMap::new(),
            waiting: vec![[VecDeque::new(), VecDeque::new()]; usize::from(drives)],
            outstanding: vec![[0; 2]; usize::from(drives)],
            written: vec![WrittenRegion::default(); usize::from(drives)],
            in_flight: BTreeMap::new(),
            next_drive: 0,
            reads: 0,
            failed_commands: 0,
            drive,
        }
    }

    /// Returns the simulated time in ms.
    pub(crate) fn now_ms(&self) -> f64 {
        self.now_ms
    }

    /// Returns true if a job of the worker has not completed.
    pub(crate) fn has_jobs_of(&self, worker: u64) -> bool {
        self.jobs.values().any(|job| job.worker == worker && !job.is_cancelled)
    }

    /// Submits a job. The time must have been advanced to that of the submission.
    pub(crate) fn submit(&mut self, job: TransferJob) {
        let bytes = job.bytes.max(1);
        let open = OpenJob { worker: job.worker, ready_ms: job.ready_ms, bytes_left: 0, is_cancelled: false };
        self.jobs.insert(job.id, open);
        let commands = bytes.div_ceil(self.command_bytes.into());
        let last_bytes = bytes - (commands - 1) * u64::from(self.command_bytes);
        let last_bytes = u32::try_from(last_bytes).unwrap_or(self.command_bytes).next_multiple_of(self.block_bytes);
        let ready = time_of(job.ready_ms.max(self.now_ms));
        let drives = u64::from(self.drives);
        for turn in 0..drives.min(commands) {
            let drive = usize::from(self.next_drive);
            self.next_drive = (self.next_drive + 1) % self.drives;
            // The commands turn, turn + drives, turn + 2 * drives, ... are this drive's; it has the last one if those end there.
            let share = (commands - turn).div_ceil(drives);
            let has_last = (commands - 1) % drives == turn;
            let last_bytes = if has_last { last_bytes } else { self.command_bytes };
            let waiting = WaitingCommands { job: job.id, ready, commands: share, last_bytes };
            self.waiting[drive][job.kind as usize].push_back(waiting);
            let share_bytes = (share - 1) * u64::from(self.command_bytes) + u64::from(last_bytes);
            self.jobs.entry(job.id).and_modify(|open| open.bytes_left += share_bytes);
        }
        self.fill_drives(self.drive.now());
    }

    /// Takes a job back: its waiting commands are not submitted, and its completion is not reported. Returns false if there
    /// is no such job.
    pub(crate) fn cancel(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.is_cancelled) else { return false };
        job.is_cancelled = true;
        for queue in self.waiting.iter_mut().flatten() {
            queue.retain(|waiting| waiting.job != id);
        }
        if !self.in_flight.values().any(|command| command.job == id) {
            self.jobs.remove(&id);
        }
        true
    }

    /// Returns the earliest time in ms at which a job may begin or complete, or none if there is no job.
    pub(crate) fn next_event_ms(&self) -> Option<f64> {
        let bytes_per_ms = DRIVE_BYTES_PER_SECOND_MAX / 1e3 * f64::from(self.drives);
        let earliest = |job: &OpenJob| match job.ready_ms > self.now_ms {
            true => job.ready_ms,
            false => self.now_ms + (job.bytes_left as f64 / bytes_per_ms).max(LOOK_AGAIN_MS),
        };
        self.jobs.values().map(earliest).min_by(f64::total_cmp)
    }

    /// Advances to a time in ms, and returns the jobs that have completed until then, in the order of their completion.
    pub(crate) fn advance(&mut self, target_ms: f64) -> Vec<CompletedJob> {
        let mut completed = Vec::new();
        let target_ms = target_ms.max(self.now_ms);
        let target = time_of(target_ms).max(self.drive.now());
        loop {
            self.fill_drives(self.drive.now());
            // A submission may have found completions of the same instant.
            if self.take_completions(target_ms, &mut completed) {
                continue;
            }
            let next = self.next_ready().map_or(target, |ready| ready.min(target));
            if self.drive.advance_to_completion(next) != Ok(true) && next == target {
                break;
            }
        }
        self.now_ms = target_ms;
        completed
    }

    /// Returns what the drives have done so far.
    pub(crate) fn drive_use(&self) -> DriveUse {
        let operations = self.drive.summary();
        let bytes_of =
            |kind| operations.iter().filter(|summary| summary.kind == kind).map(|summary| summary.bytes).sum();
        DriveUse {
            read_bytes: bytes_of(OperationKind::Read),
            written_bytes: bytes_of(OperationKind::Write),
            drives: self.drives,
            region_bytes: self.region_bytes,
            now_ms: self.now_ms,
            failed_commands: self.failed_commands,
        }
    }

    /// Returns the drives without their work.
    pub(crate) fn region(&self) -> DriveUse {
        DriveUse { read_bytes: 0, written_bytes: 0, failed_commands: 0, now_ms: 0.0, ..self.drive_use() }
    }

    /// Returns the earliest instant at which a waiting command may be submitted to a drive that has room for it.
    fn next_ready(&self) -> Option<Time> {
        let mut earliest = None;
        for (queues, outstanding) in self.waiting.iter().zip(&self.outstanding) {
            for kind in TransferKind::ALL {
                if outstanding[kind as usize] < self.depths[kind as usize] {
                    let ready = queues[kind as usize].iter().map(|waiting| waiting.ready);
                    earliest = earliest.into_iter().chain(ready.filter(|ready| *ready > self.drive.now())).min();
                }
            }
        }
        earliest
    }

    /// Submits waiting commands to every drive that has room for them.
    fn fill_drives(&mut self, now: Time) {
        for drive in 0..self.drives {
            for kind in TransferKind::ALL {
                while self.outstanding[usize::from(drive)][kind as usize] < self.depths[kind as usize] {
                    let Some(command) = self.take_waiting(now, drive, kind) else { break };
                    self.start(now, command);
                }
            }
        }
    }

    /// Takes the next command of a drive from the first ready job, which then waits behind the others.
    fn take_waiting(&mut self, now: Time, drive: u16, kind: TransferKind) -> Option<CommandInFlight> {
        let queue = &mut self.waiting[usize::from(drive)][kind as usize];
        let place = queue.iter().position(|waiting| waiting.ready <= now)?;
        let mut waiting = queue.remove(place)?;
        waiting.commands -= 1;
        let bytes = if waiting.commands == 0 { waiting.last_bytes } else { self.command_bytes };
        if waiting.commands > 0 {
            queue.push_back(waiting);
        }
        Some(CommandInFlight { job: waiting.job, drive, kind, bytes })
    }

    fn start(&mut self, now: Time, command: CommandInFlight) {
        let place = usize::from(command.drive);
        let operation = match command.kind {
            TransferKind::Read => {
                self.reads += 1;
                let offset = self.written[place].drawn_offset(self.reads, self.command_bytes, self.region_bytes);
                Operation::read(offset, command.bytes)
            }
            TransferKind::Write => {
                let offset = self.written[place].take_offset(self.command_bytes, self.region_bytes);
                Operation::write_without_data(offset, command.bytes)
            }
        };
        let queues_of_drive = self.drive.queues() / self.drives;
        let queue = command.drive * queues_of_drive + (command.kind as u16).min(queues_of_drive - 1);
        self.outstanding[place][command.kind as usize] += 1;
        match self.drive.submit(now, queue, operation) {
            Ok(ticket) => drop(self.in_flight.insert(ticket, command)),
            Err(misuse) => unreachable!("a command lies within its drive: {misuse}"),
        }
    }

    /// Takes the completions of the drives, and returns true if there were any. Jobs whose last command has completed are
    /// added to `completed`.
    fn take_completions(&mut self, until_ms: f64, completed: &mut Vec<CompletedJob>) -> bool {
        let mut has_completed = false;
        while let Some(done) = self.drive.next_completion() {
            let (ticket, at, status) = (done.ticket(), done.at(), done.status());
            has_completed = true;
            self.failed_commands += u64::from(status != Status::Success);
            let Some(command) = self.in_flight.remove(&ticket) else { continue };
            self.outstanding[usize::from(command.drive)][command.kind as usize] -= 1;
            let Some(job) = self.jobs.get_mut(&command.job) else { continue };
            job.bytes_left -= u64::from(command.bytes);
            let OpenJob { bytes_left, is_cancelled, .. } = *job;
            if bytes_left == 0 || is_cancelled && !self.has_commands_in_flight(command.job) {
                self.jobs.remove(&command.job);
                if !is_cancelled {
                    completed.push(CompletedJob { id: command.job, at_ms: ms_of(at).min(until_ms) });
                }
            }
        }
        has_completed
    }

    fn has_commands_in_flight(&self, job: u64) -> bool {
        self.in_flight.values().any(|command| command.job == job)
    }
}

impl WrittenRegion {
    /// Returns the place of the next write.
    fn take_offset(&mut self, command_bytes: u32, region_bytes: u64) -> u64 {
        let offset = self.next_offset;
        self.next_offset = (offset + u64::from(command_bytes)) % region_bytes;
        self.written_bytes = region_bytes.min(self.written_bytes + u64::from(command_bytes));
        offset
    }

    /// Returns a place among those written, or among all if none has been written, that depends on a number.
    fn drawn_offset(self, number: u64, command_bytes: u32, region_bytes: u64) -> u64 {
        let places = match self.written_bytes {
            0 => region_bytes,
            written => written,
        } / u64::from(command_bytes);
        mixed(number) % places * u64::from(command_bytes)
    }
}

/// Returns a number whose bits depend on all bits of another one (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Returns the instant of the drives that is `ms` milliseconds after their start.
fn time_of(ms: f64) -> Time {
    Time::from_ps((ms * 1e9).round() as u64)
}

fn ms_of(time: Time) -> f64 {
    time.as_ps() as f64 / 1e9
}
