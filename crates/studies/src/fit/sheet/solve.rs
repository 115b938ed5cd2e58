//! Search for the values of a data sheet's keys: one figure for each, in turn, by simulation.

use std::collections::BTreeMap;

use super::answer::SheetAnswer;
use super::drive::SheetDriveCandidate;
use super::input::DataSheet;
use super::quantiles::LatencyByQuantile;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::problem::Problems;
use phaselink_core::workload::{Job, fio};

/// Function of the caller that simulates jobs on a drive.
pub type JobSimulator<'a> = &'a dyn Fn(&Drive, &[Job]) -> Result<Outcome, Problems>;

/// Time to suspend a program, in microseconds, where no percentile tells: the median of seven measured drives.
pub(super) const SUSPEND_US: Known = Known { value: 58.0, low: 40.0, high: 143.0 };
/// Rate of a channel in bytes a nanosecond, likewise.
pub(super) const BUS_BYTES_PER_NS: Known = Known { value: 1.07, low: 0.87, high: 1.24 };
/// Time of an erase in microseconds, likewise.
pub(super) const ERASE_US: Known = Known { value: 1300.0, low: 300.0, high: 3600.0 };
/// Length of the pulses of an erase in microseconds, likewise.
pub(super) const ERASE_PULSE_US: Known = Known { value: 1200.0, low: 600.0, high: 1730.0 };
/// Number of lines for which a drive that stops its writes collects at once: from the one measured drive that does.
pub(super) const STOPPED_LINES: u32 = 10;

/// Value of a constant over the measured drives, with its least and its largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Known {
    /// Median of the measured drives.
    pub(super) value: f64,
    /// Least of the measured drives.
    pub(super) low: f64,
    /// Largest of the measured drives.
    pub(super) high: f64,
}

/// Share of reads that meet neither program nor collection: half of them are slower than the middle page.
const PAGE_QUANTILES: [f64; 3] = [1.0 / 6.0, 0.5, 5.0 / 6.0];
/// Array read times of the pages of a word line beside their mean, where no percentile tells (FEMU).
const PAGE_SHARES: [f64; 3] = [0.706, 0.969, 1.325];
/// Number of exponential means from the median to the quantile 0.9999.
const MEANS_TO_P9999: f64 = 8.5;
/// Number of exponential means from the median to the quantile 0.99.
const MEANS_TO_P99: f64 = 3.9;
/// Ratio of the waits at p99.9 and at p99 beyond which the tail is not exponential (which has 1.6).
const STEEP: f64 = 2.2;
/// Microseconds by which p99.99 of writes exceeds their median from which on collection stops them: longer than a
/// journal's pause.
const STOP_US: f64 = 500.0;
/// Simulated seconds of each step on the nearly idle drive.
const STEP_SECONDS: [u32; 7] = [20, 20, 20, 20, 60, 60, 60];
/// Largest number of simulations of a data sheet.
pub const SIMULATIONS_MAX: usize = 26;
/// Loads of the prediction, as shares of the steady rate of writes.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

/// Finds the drive that a data sheet means, and predicts it under load. `run` simulates jobs on a drive.
///
/// # Errors
/// Names of a host or stack that do not exist, and values that no drive can have.
pub fn solve(sheet: &DataSheet, run: JobSimulator) -> Result<SheetAnswer, Problems> {
    let mut solver = SheetSolver { drive: initial_values(sheet), run, simulations: 0 };
    let figures = solver.solve()?;
    let loads = LOADS.into_iter().map(|share| solver.predict_read_load(share * sheet.random_write_iops));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    Ok(SheetAnswer::new(&solver.drive, &figures, loads, solver.simulations))
}

/// Finds the drive that a data sheet means.
///
/// # Errors
/// As those of [`solve`].
pub fn solve_sheet_drive(sheet: &DataSheet, run: JobSimulator) -> Result<SheetDriveCandidate, Problems> {
    let mut solver = SheetSolver { drive: initial_values(sheet), run, simulations: 0 };
    solver.solve()?;
    Ok(solver.drive)
}

/// Returns first values: sizes of the sheet, its rates without any overhead, and the medians of the measured drives.
fn initial_values(sheet: &DataSheet) -> SheetDriveCandidate {
    let (reads, writes) = (sheet.reads(), sheet.writes());
    let program_bytes = f64::from(sheet.dies() * SheetDriveCandidate::program_bytes());
    let median = reads.near(0.5);
    let stops = writes.at(0.9999).is_some_and(|us| us - writes.near(0.5) >= STOP_US);
    let mut drive = SheetDriveCandidate {
        sheet: sheet.clone(),
        reads_us: PAGE_SHARES.map(|share| (0.7 * median * share).max(1.0)),
        program_us: program_bytes / sheet.sequential_write_mb_per_s,
        over_provisioning: 0.1,
        suspend_us: SUSPEND_US.value,
        erase_us: ERASE_US.value,
        erase_pulse_us: ERASE_PULSE_US.value,
        bus_bytes_per_ns: BUS_BYTES_PER_NS.value.max(sheet.least_channel_rate()),
        write_us: 1.0,
        pipeline_us: 2.0,
        tail_us: 0.0,
        journal_us: [0.0; 2],
        collection_lines: if stops { STOPPED_LINES } else { 1 },
    };
    drive.over_provisioning = drive.over_provisioning.min(drive.largest_spare_share());
    (drive.tail_us, drive.journal_us) = mean_write_tail(&writes);
    drive
}

/// Returns the mean of the firmware's random latency, with the time and the interval of the journal's writes. A tail that
/// grows from p99 to p99.9 as an exponential one does has no journal in it.
fn mean_write_tail(writes: &LatencyByQuantile) -> (f64, [f64; 2]) {
    let median = writes.near(0.5);
    let beyond = |quantile: f64| writes.at(quantile).map(|us| us - median);
    let (Some(near), Some(far)) = (beyond(0.99), beyond(0.999)) else { return (0.0, [0.0; 2]) };
    if far <= STEEP * near.max(0.1) {
        return (beyond(0.9999).map_or(near / MEANS_TO_P99, |farther| farther / MEANS_TO_P9999), [0.0; 2]);
    }
    let longest = beyond(0.999_99).or(beyond(0.9999)).unwrap_or(far).max(1.05 * far);
    let share = (0.001 / (1.0 - far / longest)).min(0.009);
    ((near / MEANS_TO_P99).min(median / MEANS_TO_P99), [longest, longest / share])
}

/// Solver for the values of a drive that reach the figures of a data sheet.
struct SheetSolver<'a> {
    drive: SheetDriveCandidate,
    run: JobSimulator<'a>,
    simulations: u32,
}

impl SheetSolver<'_> {
    /// Finds all values, one part of the sheet after the other. Returns the simulated percentiles of reads and writes on
    /// the nearly idle drive.
    fn solve(&mut self) -> Result<(LatencyByQuantile, LatencyByQuantile), Problems> {
        self.solve_sequential_writes()?;
        self.solve_random_writes()?;
        let mut figures = (LatencyByQuantile::new(Vec::new()), LatencyByQuantile::new(Vec::new()));
        for seconds in STEP_SECONDS {
            figures = self.step_idle_latencies(seconds)?;
        }
        Ok(figures)
    }

    /// Finds the time of a program with which sequential writes have the sheet's rate.
    fn solve_sequential_writes(&mut self) -> Result<(), Problems> {
        for _ in 0..3 {
            let outcome = self.simulate("rw=write\nbs=128k\niodepth=32\nnumber_ios=6000\n")?;
            let written_bytes = 128.0 * 1024.0 * outcome.iops();
            self.drive.program_us *= written_bytes / (self.drive.sheet.sequential_write_mb_per_s * 1e6);
        }
        Ok(())
    }

    /// Finds the spare share with which random writes have the sheet's rate. If the cells do not have as much, programs
    /// are as fast as it takes: the sequential rate is then limited by something else.
    fn solve_random_writes(&mut self) -> Result<(), Problems> {
        let (mut low, mut high) = (0.03_f64.min(self.drive.largest_spare_share()), self.drive.largest_spare_share());
        for _ in 0..4 {
            let rate = self.random_write_rate(high)?;
            if rate >= self.drive.sheet.random_write_iops {
                break;
            }
            self.drive.program_us *= rate / self.drive.sheet.random_write_iops;
        }
        for _ in 0..7 {
            let middle = (low + high) / 2.0;
            match self.random_write_rate(middle)? < self.drive.sheet.random_write_iops {
                true => low = middle,
                false => high = middle,
            }
        }
        self.drive.over_provisioning = high;
        Ok(())
    }

    fn random_write_rate(&mut self, over_provisioning: f64) -> Result<f64, Problems> {
        self.drive.over_provisioning = over_provisioning;
        Ok(self.simulate("rw=randwrite\nbs=4k\niodepth=128\nnumjobs=4\nnumber_ios=12000\n")?.iops())
    }

    /// Simulates the nearly idle drive, and moves each key by what its part of the distribution is off. Returns the
    /// simulated percentiles of reads and writes.
    fn step_idle_latencies(&mut self, seconds: u32) -> Result<(LatencyByQuantile, LatencyByQuantile), Problems> {
        let idle = self.drive.sheet.idle.clone();
        let outcome = self.simulate(&open_loop_job_text(idle.reads_per_s, idle.writes_per_s, seconds))?;
        let (measured, written) = (self.drive.sheet.reads(), self.drive.sheet.writes());
        let reads = simulated_percentiles_us(&outcome.jobs[0].read, &measured);
        let writes = simulated_percentiles_us(&outcome.jobs[1].write, &written);
        let busy = (idle.writes_per_s / self.drive.sheet.random_write_iops).min(1.0);
        self.step_page_read_times(&measured, &reads, busy);
        let middle = measured.near(0.5 * (1.0 - busy));
        let waits = |quantiles: &LatencyByQuantile, quantile: f64| Some(quantiles.at(quantile)? - middle);
        if let (Some(wait), Some(simulated)) = (waits(&measured, 1.0 - busy / 2.0), waits(&reads, 1.0 - busy / 2.0)) {
            self.drive.suspend_us = (self.drive.suspend_us + 0.7 * (wait - simulated)).clamp(1.0, 2000.0);
        }
        let collected = 1.0 - busy / 10.0;
        if let (Some(wait), Some(simulated)) = (waits(&measured, collected), waits(&reads, collected)) {
            let ratio = libm::pow(simulated.max(1.0) / wait.max(1.0), 0.8);
            let least = self.drive.sheet.least_channel_rate();
            self.drive.bus_bytes_per_ns = (self.drive.bus_bytes_per_ns * ratio).clamp(0.4, 4.8).max(least);
        }
        if let Some(wait) = waits(&measured, 0.999_99) {
            self.drive.erase_pulse_us = wait.clamp(50.0, 20_000.0);
        }
        if let (Some(wait), Some(simulated)) = (waits(&measured, 0.9999), waits(&reads, 0.9999)) {
            let ratio = libm::pow(wait.max(1.0) / simulated.max(1.0), 1.5);
            self.drive.erase_us = (self.drive.erase_us * ratio.clamp(0.5, 2.0)).clamp(300.0, 12_000.0);
        }
        let off = written.near(0.5) - writes.near(0.5);
        self.drive.write_us = (self.drive.write_us + off).max(0.0);
        Ok((reads, writes))
    }

    /// Moves the array read times of the pages. Of the reads that meet nothing, one third comes from each page.
    fn step_page_read_times(&mut self, measured: &LatencyByQuantile, simulated: &LatencyByQuantile, busy: f64) {
        let median_off = measured.near(0.5) - simulated.near(0.5);
        for (read_us, quantile) in self.drive.reads_us.iter_mut().zip(PAGE_QUANTILES) {
            let quantile = quantile * (1.0 - busy);
            let off = match (measured.at(quantile), simulated.at(quantile)) {
                (Some(measured), Some(simulated)) => measured - simulated,
                _ => median_off,
            };
            *read_us = (*read_us + off).max(1.0);
        }
        self.drive.reads_us.sort_by(f64::total_cmp);
    }

    /// Simulates random reads at the idle rate beside this many random writes a second.
    fn predict_read_load(
        &mut self,
        writes_per_s: f64,
    ) -> Result<(f64, LatencyByQuantile, LatencyByQuantile), Problems> {
        let reads_per_s = self.drive.sheet.idle.reads_per_s;
        let outcome = self.simulate(&open_loop_job_text(reads_per_s, writes_per_s, 20))?;
        let all =
            LatencyByQuantile::of(&["p50", "p99", "p99.9", "p99.99"].map(|name| (String::from(name), 0.0)).into());
        let [reads, writes] =
            [&outcome.jobs[0].read, &outcome.jobs[1].write].map(|it| simulated_percentiles_us(it, &all));
        Ok((outcome.jobs[1].write.iops(), reads, writes))
    }

    fn simulate(&mut self, job: &str) -> Result<Outcome, Problems> {
        self.simulations += 1;
        self.drive.simulate(job, self.run)
    }
}

impl SheetDriveCandidate {
    /// Simulates random reads and random writes of 4 KiB that arrive at these rates. Returns the achieved writes a second,
    /// and a function of direction (true: reads) and percentile that gives latencies in microseconds.
    ///
    /// # Errors
    /// Values that no drive can have.
    pub fn simulate_under_load(
        &self,
        reads_per_s: f64,
        writes_per_s: f64,
        seconds: u32,
        run: JobSimulator,
    ) -> Result<(f64, impl Fn(bool, f64) -> f64), Problems> {
        let outcome = self.simulate(&open_loop_job_text(reads_per_s, writes_per_s, seconds), run)?;
        let writes_per_s = outcome.jobs[1].write.iops();
        let latency = move |is_read: bool, percentile: f64| {
            let direction = if is_read { &outcome.jobs[0].read } else { &outcome.jobs[1].write };
            direction.completion.percentile(percentile).as_us()
        };
        Ok((writes_per_s, latency))
    }

    fn simulate(&self, job: &str, run: JobSimulator) -> Result<Outcome, Problems> {
        let drive = self.drive()?;
        let text = if job.starts_with('[') { String::from(job) } else { format!("[job]\n{job}") };
        let limits = drive.limits();
        let mut jobs = fio::parse("data sheet", &text)?.resolve(&limits, &BTreeMap::new())?;
        jobs.iter_mut().for_each(|job| job.measure_in_steady_state(&limits));
        run(&drive, &jobs)
    }
}

/// Returns fio's text of a job of random reads and one of random writes, of 4 KiB with arrivals at these rates.
fn open_loop_job_text(reads_per_s: f64, writes_per_s: f64, seconds: u32) -> String {
    let job = |name: &str, rw: &str, per_s: f64| {
        format!("[{name}]\nrw={rw}\nrate_iops={:.0}\niodepth=256\n", per_s.round().max(1.0))
    };
    format!(
        "[global]\nbs=4k\ntime_based=1\nruntime={seconds}\nrate_process=poisson\n{}{}",
        job("reads", "randread", reads_per_s),
        job("writes", "randwrite", writes_per_s)
    )
}

/// Returns simulated latencies, in microseconds, at the quantiles of the measured ones.
fn simulated_percentiles_us(outcome: &DirectionOutcome, measured: &LatencyByQuantile) -> LatencyByQuantile {
    let at = |quantile: f64| outcome.completion.percentile(100.0 * quantile).as_us();
    LatencyByQuantile::new(measured.points().iter().map(|(quantile, _)| (*quantile, at(*quantile))).collect())
}
