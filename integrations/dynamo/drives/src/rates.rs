//! Jobs at measured rates: between the arrivals and completions of jobs, each kind of job progresses at the rate that the
//! drives have with as many reads and writes outstanding.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::commands::CommandTransfers;
use crate::{CompletedJob, DriveArray, DriveUse, TransferJob, TransferKind};

/// Bytes of each drive that a measurement transfers before it counts: more than a write buffer holds.
const WARM_UP_BYTES: u64 = 256 << 20;

/// Bytes of each drive that a measurement counts.
const COUNTED_BYTES: u64 = 256 << 20;

/// Interval between the samples of a measurement, in ms.
const SAMPLE_MS: f64 = 0.25;

/// Rates of all drives together with some reads and writes outstanding at each, in bytes for each ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    reads: f64,
    /// Rate of writes once the write buffer is full, and rate at which it empties.
    writes: f64,
    /// Rate of writes until the write buffer is full.
    buffered_writes: f64,
    /// Bytes that the write buffer holds.
    buffer_bytes: f64,
}

/// Rates of drives by the number of reads and of writes that are outstanding at each, measured when first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredRates(Arc<Mutex<BTreeMap<[u32; 2], Rates>>>);

impl MeasuredRates {
    /// Returns the rates with so many reads and writes outstanding at each drive; numbers between powers of two have the
    /// rates of the nearest one.
    fn of(&self, array: &DriveArray, outstanding: [u32; 2]) -> Rates {
        let depths = outstanding.map(|commands| nearest_power_of_two(commands).min(array.depth));
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *rates.entry(depths).or_insert_with(|| measure(array, depths))
    }
}

fn nearest_power_of_two(number: u32) -> u32 {
    let below = 1 << number.max(1).ilog2();
    if number == 0 { 0 } else { below << u32::from(f64::from(number) > f64::from(below) * std::f64::consts::SQRT_2) }
}

/// Simulates the drives, from idle, with so many reads and writes outstanding at each, command by command.
fn measure(array: &DriveArray, depths: [u32; 2]) -> Rates {
    // The drives have been opened with this description before.
    let Ok(drive) = array.description.open() else { return Rates::default() };
    let mut transfers = CommandTransfers::new(drive, array, depths);
    for kind in TransferKind::ALL.into_iter().filter(|kind| depths[*kind as usize] > 0) {
        // No measurement reaches the end of the job.
        let bytes = u64::from(array.command_bytes) << 32;
        transfers.submit(TransferJob { id: kind as u64, worker: 0, kind, ready_ms: 0.0, bytes });
    }
    let mut samples = Vec::new();
    let mut advance_until = |bytes: u64| {
        loop {
            transfers.advance(transfers.now_ms() + SAMPLE_MS);
            let sample = transfers.drive_use();
            samples.push(sample);
            if sample.read_bytes + sample.written_bytes >= bytes * u64::from(sample.drives) {
                return sample;
            }
        }
    };
    let start = advance_until(WARM_UP_BYTES);
    let end = advance_until(WARM_UP_BYTES + COUNTED_BYTES);
    let counted_ms = end.now_ms - start.now_ms;
    let reads = (end.read_bytes - start.read_bytes) as f64 / counted_ms;
    let writes = (end.written_bytes - start.written_bytes) as f64 / counted_ms;
    // Until the buffer is full, it takes what exceeds the rate at which it empties.
    let buffer_bytes = (end.written_bytes as f64 - writes * end.now_ms).max(0.0);
    let filling = samples.iter().find(|sample| sample.written_bytes as f64 >= buffer_bytes);
    let buffered_writes = filling.map_or(writes, |sample| sample.written_bytes as f64 / sample.now_ms).max(writes);
    Rates { reads, writes, buffered_writes, buffer_bytes }
}

/// Job that progresses.
#[derive(Clone, Copy, Debug)]
struct RateJob {
    id: u64,
    worker: u64,
    kind: TransferKind,
    ready_ms: f64,
    bytes_left: f64,
}

/// Jobs that progress at measured rates; those of one kind share the rate of their kind equally.
#[derive(Debug)]
pub(crate) struct RateTransfers {
    array: DriveArray,
    rates: MeasuredRates,
    drive_use: DriveUse,
    jobs: Vec<RateJob>,
    /// Reads and writes that were outstanding at each drive when the last job began. The last commands of a job take as
    /// long as others, so that the rate stays until no job of the kind is left.
    outstanding: [u32; 2],
    rates_now: Rates,
    /// Written bytes that the buffer holds.
    buffered_bytes: f64,
}

impl RateTransfers {
    pub(crate) fn new(array: &DriveArray, rates: MeasuredRates, region: DriveUse) -> RateTransfers {
        let array = array.clone();
        RateTransfers {
            array,
            rates,
            drive_use: region,
            jobs: Vec::new(),
            outstanding: [0; 2],
            rates_now: Rates::default(),
            buffered_bytes: 0.0,
        }
    }

    pub(crate) fn now_ms(&self) -> f64 {
        self.drive_use.now_ms
    }

    pub(crate) fn has_jobs_of(&self, worker: u64) -> bool {
        self.jobs.iter().any(|job| job.worker == worker)
    }

    pub(crate) fn submit(&mut self, job: TransferJob) {
        let bytes = job.bytes.max(1);
        let TransferJob { id, worker, kind, ready_ms, .. } = job;
        self.jobs.push(RateJob { id, worker, kind, ready_ms, bytes_left: bytes as f64 });
        match kind {
            TransferKind::Read => self.drive_use.read_bytes += bytes,
            TransferKind::Write => self.drive_use.written_bytes += bytes,
        }
        self.begin_ready_jobs(kind, ready_ms);
    }

    pub(crate) fn cancel(&mut self, id: u64) -> bool {
        let Some(place) = self.jobs.iter().position(|job| job.id == id) else { return false };
        let job = self.jobs.remove(place);
        let bytes_left = job.bytes_left as u64;
        match job.kind {
            TransferKind::Read => self.drive_use.read_bytes -= bytes_left,
            TransferKind::Write => self.drive_use.written_bytes -= bytes_left,
        }
        self.end_idle_kinds();
        true
    }

    /// Returns the rate of all jobs of a kind together.
    fn bytes_per_ms(&self, kind: TransferKind) -> f64 {
        match kind {
            TransferKind::Read => self.rates_now.reads,
            TransferKind::Write if self.buffered_bytes < self.rates_now.buffer_bytes => self.rates_now.buffered_writes,
            TransferKind::Write => self.rates_now.writes,
        }
    }

    /// Returns by how many bytes the content of the write buffer grows each ms.
    fn buffer_growth(&self) -> f64 {
        let writes = if self.outstanding[TransferKind::Write as usize] > 0 {
            self.bytes_per_ms(TransferKind::Write)
        } else {
            0.0
        };
        writes - self.rates_now.writes
    }

    /// Returns when the write buffer is full or empty if nothing else happens.
    fn buffer_event_ms(&self) -> Option<f64> {
        let growth = self.buffer_growth();
        let left_bytes = match growth > 0.0 {
            true => self.rates_now.buffer_bytes - self.buffered_bytes,
            false => self.buffered_bytes,
        };
        (growth.abs() > 1.0 && left_bytes > 0.0).then(|| self.now_ms() + left_bytes / growth.abs())
    }

    /// Returns when the next job begins or completes if the rates stay.
    fn job_event_ms(&self) -> Option<f64> {
        let numbers = TransferKind::ALL.map(|kind| self.active(kind).count() as f64);
        let now_ms = self.now_ms();
        let event = |job: &RateJob| match job.ready_ms > now_ms {
            true => job.ready_ms,
            false => now_ms + job.bytes_left * numbers[job.kind as usize] / self.bytes_per_ms(job.kind),
        };
        self.jobs.iter().map(event).min_by(f64::total_cmp)
    }

    /// Returns the earliest time at which a job may begin or complete.
    pub(crate) fn next_event_ms(&self) -> Option<f64> {
        let job_ms = self.job_event_ms()?;
        Some(self.buffer_event_ms().map_or(job_ms, |buffer_ms| buffer_ms.min(job_ms)).max(self.now_ms()))
    }

    pub(crate) fn advance(&mut self, target_ms: f64) -> Vec<CompletedJob> {
        let mut completed = Vec::new();
        loop {
            let events = [self.job_event_ms(), self.buffer_event_ms()];
            let next_ms = events.into_iter().flatten().fold(f64::INFINITY, f64::min);
            if next_ms > target_ms {
                break;
            }
            let is_buffer_event = events[1] == Some(next_ms);
            self.progress_until(next_ms, is_buffer_event);
            // The job whose end this is may have a fraction of a byte left.
            let jobs = self.jobs.extract_if(.., |job| job.ready_ms <= next_ms && job.bytes_left < 0.5);
            completed.extend(jobs.map(|job| CompletedJob { id: job.id, at_ms: next_ms }));
            self.end_idle_kinds();
            TransferKind::ALL.into_iter().for_each(|kind| self.begin_ready_jobs(kind, next_ms));
        }
        self.progress_until(target_ms, false);
        completed
    }

    fn progress_until(&mut self, until_ms: f64, is_buffer_event: bool) {
        let now_ms = self.now_ms();
        let passed_ms = (until_ms - now_ms).max(0.0);
        let numbers = TransferKind::ALL.map(|kind| self.active(kind).count() as f64);
        let rates = TransferKind::ALL.map(|kind| self.bytes_per_ms(kind));
        for job in self.jobs.iter_mut().filter(|job| job.ready_ms <= now_ms) {
            job.bytes_left -= passed_ms * rates[job.kind as usize] / numbers[job.kind as usize];
        }
        let growth = self.buffer_growth();
        self.buffered_bytes = match is_buffer_event {
            true if growth > 0.0 => self.rates_now.buffer_bytes,
            true => 0.0,
            false => (self.buffered_bytes + passed_ms * growth)
                .clamp(0.0, self.rates_now.buffer_bytes.max(self.buffered_bytes)),
        };
        self.drive_use.now_ms = until_ms.max(now_ms);
    }

    fn active(&self, kind: TransferKind) -> impl Iterator<Item = &RateJob> {
        self.jobs.iter().filter(move |job| job.kind == kind && job.ready_ms <= self.now_ms())
    }

    /// Lets the commands of jobs that are ready now be outstanding, if a job of the kind has just become ready.
    fn begin_ready_jobs(&mut self, kind: TransferKind, ready_ms: f64) {
        let has_begun = self.active(kind).any(|job| job.ready_ms >= ready_ms);
        if !has_begun {
            return;
        }
        let bytes: f64 = self.active(kind).map(|job| job.bytes_left).sum();
        let commands = (bytes / f64::from(self.array.command_bytes) / f64::from(self.drive_use.drives)).ceil();
        self.outstanding[kind as usize] = (commands as u32).clamp(1, self.array.depth);
        self.update_rates();
    }

    fn end_idle_kinds(&mut self) {
        for kind in TransferKind::ALL {
            if self.active(kind).next().is_none() {
                self.outstanding[kind as usize] = 0;
            }
        }
        self.update_rates();
    }

    /// Looks the rates up. Writes that the buffer still holds delay reads as those that are outstanding do.
    fn update_rates(&mut self) {
        let [reads, mut writes] = self.outstanding;
        if writes == 0 && self.buffered_bytes > 0.0 {
            writes = self.array.depth;
        }
        if reads + writes > 0 {
            self.rates_now = self.rates.of(&self.array, [reads, writes]);
        }
    }

    pub(crate) fn drive_use(&self) -> DriveUse {
        self.drive_use
    }
}
