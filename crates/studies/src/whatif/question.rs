//! Question of `whatif`: drives and stacks on which a recorded application is replayed.

use serde::Deserialize;

use super::answer::{RankedDrive, WhatIfAnswer};
use super::{
    AttachedDrive, DependentRequest, RecordedWindow, ReplayedWindow, bootstrap_weights, infer_dependences, windows,
};
use crate::report::outside;
use crate::results::words::{capacity, size};
use crate::simulations::{SimulateEach, simulated};
use crate::uncertainty::{ConstantDraws, DRAWS_MIN, SEED};
use phaselink_core::config::engine::{EngineOptions, polls};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::Described;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::{Limits, Trace};

/// Software stacks with which each drive is tried if the question names none.
const STACKS: [&str; 2] = ["linux-6", "user-space"];
/// Number of windows (ranges of consecutive requests) that are replayed of a recorded trace with more than `requests`
/// requests.
const WINDOWS: u64 = 8;
/// Stack of a drive whose interface takes no I/O engines.
pub(super) const OWN_STACK: &str = "its own";

/// Question of `whatif`: how much faster would a recorded application be on other drives and software stacks?
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WhatIfQuestion {
    /// Software stacks with which each drive is tried; the application runs now under the first of them.
    pub stack: Vec<String>,
    /// Number of random draws of all uncertain constants, 20 to 10,000.
    pub draws: usize,
    /// Largest number of requests that are replayed, 100 to 100,000,000.
    pub requests: u64,
    /// Seed of the choice of windows and of the simulations; draws always have the same seed.
    pub seed: u64,
}

/// Drive of the machine on which the application was recorded.
#[derive(Clone, Debug)]
pub enum RecordedDrive {
    /// Drive that the application uses now.
    Now,
    /// Drive with zero latency.
    Instant,
    /// Another drive.
    Other(Box<Described>),
}

/// Recording of an application: its requests, their file, and the drive that served them.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    /// Name of the file with the block trace.
    pub file: &'a str,
    /// Requests of the block trace.
    pub trace: &'a Trace,
    /// Drive of the machine on which the application was recorded.
    pub drive: RecordedDrive,
}

/// Drive with a software stack, on which the recorded block trace is replayed.
#[derive(Clone, Debug)]
pub(super) struct ReplayCandidate {
    pub described: Described,
    pub stack: String,
}

/// Study of one question: candidate drives with stacks, and the windows of the recorded block trace.
#[derive(Clone, Debug)]
pub struct WhatIfStudy {
    pub(super) question: WhatIfQuestion,
    pub(super) candidates: Vec<ReplayCandidate>,
    /// Index of the candidate on which the application runs now.
    pub(super) now: usize,
    pub(super) recorded_on: RecordedDrive,
    pub(super) windows: Vec<RecordedWindow>,
    /// Number of requests and flushes in the whole recorded block trace.
    pub(super) recorded_requests: u64,
    pub(super) file: String,
    /// Reasons why drives cannot replay the recording.
    pub(super) cannot: Vec<String>,
}

/// Requests of each replayed window of a recorded block trace, each with the earlier request for whose completion it
/// waits.
type Dependent = Vec<Vec<DependentRequest>>;

/// Windows of the recorded block trace as one candidate replays them in each draw; draw 0 has the constants of the drive
/// file. None where the drawn constants contradict each other.
pub(super) type ReplayedDraws = [Option<Vec<ReplayedWindow>>];

impl Default for WhatIfQuestion {
    fn default() -> WhatIfQuestion {
        WhatIfQuestion { stack: STACKS.map(String::from).to_vec(), draws: DRAWS_MIN, requests: 4000, seed: 1 }
    }
}

impl WhatIfQuestion {
    /// Checks the question, and returns its study. `on_stack` returns all drives under a software stack, first the one
    /// that the application uses now.
    ///
    /// # Errors
    /// Values outside their ranges, drives that cannot have a stack, and a recording that does not fit the drive that
    /// the application uses now.
    pub fn study(
        self,
        recording: Recording,
        on_stack: impl FnMut(&str) -> Result<Vec<Described>, Problems>,
    ) -> Result<WhatIfStudy, Problems> {
        self.check()?;
        let (mut candidates, mut cannot, mut now) = (Vec::new(), Vec::new(), None);
        for (is_now, candidate) in self.candidates(on_stack)? {
            match replay_obstacle(candidate.described.drive(), recording.trace) {
                Some(reason) if is_now => {
                    let allowed = "a drive that it fits, with --now";
                    return Err(Problem::new(recording.file, None, reason, allowed).into());
                }
                Some(reason) => cannot.push(reason),
                None => {
                    now = now.or(is_now.then_some(candidates.len()));
                    candidates.push(candidate);
                }
            }
        }
        if let RecordedDrive::Other(described) = &recording.drive {
            let drive = described.drive();
            if let Some(reason) = endless_sleep_reason(&drive.name, &drive.limits()) {
                return Err(Problem::new(recording.file, None, reason, "a drive that raises interrupts").into());
            }
        }
        cannot.dedup();
        let requests = &recording.trace.requests;
        Ok(WhatIfStudy {
            candidates,
            now: now.unwrap_or(0),
            recorded_on: recording.drive,
            windows: windows(requests, self.requests, WINDOWS, self.seed),
            recorded_requests: requests.summary().request_count_with_flushes(),
            file: String::from(recording.file),
            cannot,
            question: self,
        })
    }

    fn check(&self) -> Result<(), Problems> {
        let mut problems: Vec<Problem> = outside("--requests", self.requests, 100..=100_000_000).into_iter().collect();
        if !(DRAWS_MIN..=10_000).contains(&self.draws) {
            let allowed = format!("{DRAWS_MIN} to 10000: fewer draws have no interval in which nine of ten lie");
            problems.push(Problem::new("command line", None, format!("--draws {}", self.draws), allowed));
        }
        if self.stack.is_empty() {
            problems.push(Problem::new("command line", None, "--stack is empty", "one software stack or several"));
        }
        Problems(problems).or(())
    }

    /// Returns each drive with each stack, with interrupts where the threads of the stack sleep until an interrupt. The
    /// pair of the present drive and the first stack comes first, and is marked true. A drive that keeps its own stack
    /// occurs once.
    fn candidates(
        &self,
        mut on_stack: impl FnMut(&str) -> Result<Vec<Described>, Problems>,
    ) -> Result<Vec<(bool, ReplayCandidate)>, Problems> {
        let mut candidates: Vec<(bool, ReplayCandidate)> = Vec::new();
        for (place, stack) in self.stack.iter().enumerate() {
            for (drive, described) in on_stack(stack)?.into_iter().enumerate() {
                let described = described.with_interrupts_raised();
                let takes_stack = described.drive().protocol().takes_engines();
                let stack = if takes_stack { stack.clone() } else { String::from(OWN_STACK) };
                let is_known = |other: &(bool, ReplayCandidate)| *other.1.described.drive() == *described.drive();
                if !candidates.iter().any(is_known) {
                    candidates.push((place == 0 && drive == 0, ReplayCandidate { described, stack }));
                }
            }
        }
        Ok(candidates)
    }
}

/// Returns the reason why a drive cannot replay a recorded block trace, such as too small a capacity; none if it can.
fn replay_obstacle(drive: &Drive, trace: &Trace) -> Option<String> {
    let (name, limits, summary) = (&drive.name, drive.limits(), trace.requests.summary());
    if summary.end_bytes > limits.capacity_bytes {
        let (needed, has) = (capacity(summary.end_bytes), capacity(limits.capacity_bytes));
        return Some(format!("{name} is too small: the recording goes up to {needed}, the drive has {has}"));
    }
    let fits = |granule: u64, block: u32| granule == 0 || granule.is_multiple_of(block.into());
    let is_aligned =
        fits(summary.granule_bytes, limits.block_bytes) && fits(summary.write_granule_bytes, limits.write_block_bytes);
    if !is_aligned {
        let block = size(limits.write_block_bytes.max(limits.block_bytes).into());
        return Some(format!("{name} takes blocks of {block}, of which the recording's requests are no multiples"));
    }
    if let Some(reason) = endless_sleep_reason(name, &limits) {
        return Some(reason);
    }
    (drive.drives > 1).then(|| format!("{name} stands for {} drives, and a recording is of one", drive.drives))
}

/// Returns the reason why threads of a drive's stack would sleep for ever: they wait for interrupts that the drive does
/// not raise.
fn endless_sleep_reason(name: &str, limits: &Limits) -> Option<String> {
    let support = limits.engine_support.as_ref().filter(|support| !support.has_interrupts)?;
    let polls = polls(support.default, EngineOptions::default());
    (!polls).then(|| format!("threads of {name} wait for interrupts, which the drive does not raise"))
}

impl WhatIfStudy {
    /// Returns the number of simulations of all candidates, which are alike in length.
    pub fn simulations(&self) -> usize {
        self.draws() * (self.candidates.len() + 1)
    }

    /// Replays the recording on all candidates with `each`, and returns them ranked, the fastest first. `None` if the
    /// caller has left replays out.
    pub fn answer(&self, each: SimulateEach) -> Option<WhatIfAnswer> {
        let recorded = match &self.recorded_on {
            RecordedDrive::Other(described) => Some(described.drive()),
            RecordedDrive::Now | RecordedDrive::Instant => None,
        };
        let drives = self.candidates.iter().map(|candidate| candidate.described.drive()).chain(recorded);
        let draws = ConstantDraws::of(drives, self.question.draws, SEED);
        let dependent = simulated(each, self.draws(), |draw| self.dependent(&draws, draw))?;
        let replayed = simulated(each, self.draws() * self.candidates.len(), |place| {
            let (candidate, draw) = (&self.candidates[place / self.draws()], place % self.draws());
            self.replayed(&drive_of_draw(&candidate.described, &draws, draw)?, dependent[draw].as_ref()?)
        })?;
        let replayed: Vec<&ReplayedDraws> = replayed.chunks(self.draws()).collect();
        let ranked = |(place, own): (usize, &&ReplayedDraws)| self.rank_drive(&draws, place, own, replayed[self.now]);
        let mut ranked: Vec<RankedDrive> = replayed.iter().enumerate().filter_map(ranked).collect();
        ranked.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        Some(WhatIfAnswer::new(self, ranked))
    }

    /// Returns the number of draws with draw 0, which has the constants of the drive files.
    fn draws(&self) -> usize {
        self.question.draws + 1
    }

    /// Infers the earlier request for which each recorded request waited, with the constants of a random draw for the
    /// recorded drive. None if these constants contradict each other.
    fn dependent(&self, draws: &ConstantDraws, draw: usize) -> Option<Dependent> {
        let described = match &self.recorded_on {
            RecordedDrive::Now => Some(&self.candidates[self.now].described),
            RecordedDrive::Other(described) => Some(&**described),
            RecordedDrive::Instant => None,
        };
        let drive = match described {
            Some(described) => Some(AttachedDrive::new(&drive_of_draw(described, draws, draw)?, self.question.seed)),
            None => None,
        };
        let of_window = |window: &RecordedWindow| {
            let done = match &drive {
                Some(drive) => drive.replay_at_recorded_times(&window.requests)?.done,
                None => window.requests.iter().map(|entry| entry.at).collect(),
            };
            Some(infer_dependences(&window.requests, &done))
        };
        self.windows.iter().map(of_window).collect()
    }

    /// Replays all windows on a drive. Drops the completion times of single requests, to save memory.
    fn replayed(&self, drive: &Drive, dependent: &Dependent) -> Option<Vec<ReplayedWindow>> {
        let drive = AttachedDrive::new(drive, self.question.seed);
        let without_times = |replayed: ReplayedWindow| ReplayedWindow { done: Vec::new(), ..replayed };
        dependent.iter().map(|window| Some(without_times(drive.replay(window)?))).collect()
    }

    /// Returns the result of the candidate at index `place`, from its own replays and those of the present drive.
    fn rank_drive(
        &self,
        draws: &ConstantDraws,
        place: usize,
        own: &ReplayedDraws,
        now: &ReplayedDraws,
    ) -> Option<RankedDrive> {
        let gain = |draw: usize| {
            let (own, now) = (own[draw].as_ref()?, now[draw].as_ref()?);
            let weights = bootstrap_weights(own.len(), draw, self.question.seed);
            Some(elapsed_s(now, &weights) / elapsed_s(own, &weights))
        };
        let central = gain(0)?;
        let gains: Vec<Option<f64>> = (1..self.draws()).map(gain).collect();
        let interval = draws.interval(central, &gains);
        let candidate = &self.candidates[place];
        Some(RankedDrive::new(candidate, place == self.now, (central, interval), own[0].as_ref()?))
    }
}

/// Returns a drive with the constants of a random draw; draw 0 has the constants of the drive file. None if the drawn
/// constants contradict each other.
fn drive_of_draw(described: &Described, draws: &ConstantDraws, draw: usize) -> Option<Drive> {
    match draw {
        0 => Some(described.drive().clone()),
        draw => described.with(&draws.overrides(described.drive(), draw - 1)).ok().map(Described::into_drive),
    }
}

/// Returns the weighted sum of the replayed windows' durations in seconds.
pub(super) fn elapsed_s(windows: &[ReplayedWindow], weights: &[f64]) -> f64 {
    windows.iter().zip(weights).map(|(window, weight)| weight * window.elapsed.as_s()).sum()
}
