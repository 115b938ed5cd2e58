//! Answer of `whatif` as one type: the JSON document, from which text and page are made.

use schemars::JsonSchema;
use serde::Serialize;

use super::question::{OWN_STACK, RecordedDrive, ReplayCandidate, WhatIfStudy, elapsed_s};
use super::{LatencySums, ReplayedWindow, total_window_requests};
use crate::results::documents::Interval;

/// Smallest speed-up of the application for which a drive pays. Machines differ by more than a smaller speed-up.
pub(super) const WORTH: f64 = 1.05;

/// JSON document of `phaselink whatif`: drives and software stacks, ranked by the speed-up of a recorded application.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatIfAnswer {
    /// Name of the file with the recorded block trace.
    pub file: String,
    /// Number of requests and flushes in the recording.
    pub recorded_requests: u64,
    /// Number of requests and flushes that were replayed.
    pub replayed_requests: u32,
    /// Number of windows (ranges of consecutive requests) of the recording that were replayed.
    pub windows: usize,
    /// Number of random draws of all uncertain constants.
    pub draws: usize,
    /// Seed of the choice of windows and of the simulations.
    pub seed: u64,
    /// Drives with their software stacks, the fastest first.
    pub ranked: Vec<RankedDrive>,
    /// Reasons why drives cannot replay the recording.
    pub cannot: Vec<String>,
    /// Phrase that names the drive of the recording.
    #[serde(skip)]
    pub(super) recorded_on: String,
}

/// Replayed application on one drive with one software stack: speed-up and latencies of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankedDrive {
    /// Name of the drive.
    pub drive: String,
    /// Software stack of the drive; `its own` if its interface takes no other.
    pub stack: String,
    /// Speed-up: time of the replayed windows on the present drive as a multiple of the time on this one.
    pub gain: f64,
    /// Lower end of the 90 % prediction interval of the speed-up.
    pub gain_low: f64,
    /// Upper end of the 90 % prediction interval of the speed-up.
    pub gain_high: f64,
    /// Uncertain constants that contribute most to the width of the interval, the strongest first.
    pub most_of_it_from: Vec<String>,
    /// Verdict whether the drive pays.
    pub pays: DrivePays,
    /// Duration of the replayed windows in seconds.
    pub elapsed_s: f64,
    /// Time of the replayed windows in which requests were in flight, in seconds.
    pub waited_s: f64,
    /// Mean latency of reads in seconds; null without reads.
    pub read_mean_s: Option<f64>,
    /// Mean latency of writes in seconds; null without writes.
    pub write_mean_s: Option<f64>,
    /// Mean latency of flushes in seconds; null without flushes.
    pub flush_mean_s: Option<f64>,
}

/// Verdict on a drive: in use now, pays, does not pay, or unsure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrivePays {
    /// Application uses this drive with this stack now.
    Now,
    /// Lower end of the interval of the speed-up is large enough.
    Yes,
    /// Interval of the speed-up has values on both sides.
    Unsure,
    /// Upper end of the interval of the speed-up is too small.
    No,
}

impl DrivePays {
    /// Returns the verdict on a drive that is not in use now, from the interval of its speed-up.
    fn of(interval: &Interval) -> DrivePays {
        match (interval.low, interval.high) {
            // Too few draws could run to give an interval.
            _ if interval.draws == 0 => DrivePays::Unsure,
            (low, _) if low >= WORTH => DrivePays::Yes,
            (_, high) if high < WORTH => DrivePays::No,
            _ => DrivePays::Unsure,
        }
    }
}

impl WhatIfAnswer {
    pub(super) fn new(study: &WhatIfStudy, ranked: Vec<RankedDrive>) -> WhatIfAnswer {
        WhatIfAnswer {
            file: study.file.clone(),
            recorded_requests: study.recorded_requests,
            replayed_requests: total_window_requests(&study.windows),
            windows: study.windows.len(),
            draws: study.question.draws,
            seed: study.question.seed,
            ranked,
            cannot: study.cannot.clone(),
            recorded_on: match &study.recorded_on {
                RecordedDrive::Now => study.candidates[study.now].described.drive().name.clone(),
                RecordedDrive::Instant => String::from("a drive that took no time"),
                RecordedDrive::Other(described) => described.drive().name.clone(),
            },
        }
    }
}

impl RankedDrive {
    /// Returns the result of a candidate: `gain` is its speed-up with the interval, `windows` are its replayed windows
    /// with the constants of its drive file.
    pub(super) fn new(
        candidate: &ReplayCandidate,
        is_now: bool,
        (gain, interval): (f64, Option<Interval>),
        windows: &[ReplayedWindow],
    ) -> RankedDrive {
        let none = Interval { low: gain, high: gain, draws: 0, contributions: Vec::new(), model_error: None };
        let interval = interval.unwrap_or(none);
        let mean_s = |kind: usize| {
            let sums = windows.iter().map(|window| window.latencies[kind]);
            let sum = sums.fold(LatencySums::default(), |sum, one| LatencySums {
                requests: sum.requests + one.requests,
                seconds: sum.seconds + one.seconds,
            });
            sum.mean_s()
        };
        RankedDrive {
            drive: candidate.described.drive().name.clone(),
            stack: candidate.stack.clone(),
            gain,
            gain_low: interval.low,
            gain_high: interval.high,
            pays: if is_now { DrivePays::Now } else { DrivePays::of(&interval) },
            most_of_it_from: interval.contributions.into_iter().map(|part| part.key).collect(),
            elapsed_s: elapsed_s(windows, &vec![1.0; windows.len()]),
            waited_s: windows.iter().map(|window| window.waited.as_s()).sum(),
            read_mean_s: mean_s(0),
            write_mean_s: mean_s(1),
            flush_mean_s: mean_s(2),
        }
    }

    /// Returns the drive, and its software stack if that is not the drive's own.
    pub(super) fn title(&self) -> String {
        match self.stack.as_str() {
            OWN_STACK => self.drive.clone(),
            stack => format!("{} with {stack}", self.drive),
        }
    }

    /// Returns the share of the time in which requests were in flight.
    pub(super) fn in_flight_time_share(&self) -> f64 {
        self.waited_s / self.elapsed_s.max(1e-12)
    }
}
