//! Replays of a recorded block trace on all candidate drives, with the constants of all random draws.

use phaselink_core::drive::Drive;
use phaselink_studies::results::documents::Interval;
use phaselink_studies::uncertainty::{Draws, SEED};
use phaselink_studies::whatif::{AttachedDrive, DependentRequest, LatencySums, ReplayedWindow, depend, window_weights};
use rayon::prelude::*;

use super::{RankedCandidate, RecordedDrive, WhatIf};
use crate::input;
use crate::progress::Progress;

/// Requests of each replayed window of a recorded block trace, each with the earlier request for whose completion it
/// waits.
type Dependent = Vec<Vec<DependentRequest>>;

/// Replays the recorded block trace on all candidate drives, in parallel. Returns the candidates, the fastest first.
pub(super) fn ranked(asked: &WhatIf) -> Vec<RankedCandidate> {
    let recorded = match &asked.recorded_on {
        RecordedDrive::Other(described) => Some(described.drive()),
        _ => None,
    };
    let drives = asked.candidates.iter().map(|it| it.described.drive()).chain(recorded);
    let draws = Draws::of(drives, asked.draws, SEED);
    let progress = Progress::of((asked.draws + 1) * (asked.candidates.len() + 1));
    let dependent: Vec<Option<Dependent>> = (0..=asked.draws)
        .into_par_iter()
        .map(|draw| {
            let dependent = dependent(asked, &draws, draw);
            progress.one();
            dependent
        })
        .collect();
    let pairs: Vec<(usize, usize)> =
        (0..asked.candidates.len()).flat_map(|place| (0..=asked.draws).map(move |draw| (place, draw))).collect();
    let replayed: Vec<Option<Vec<ReplayedWindow>>> = pairs
        .par_iter()
        .map(|(place, draw)| {
            let drive = drawn(&asked.candidates[*place].described, &draws, *draw);
            let replayed = drive.zip(dependent[*draw].as_ref()).map(|(drive, dependent)| {
                let drive = AttachedDrive::new(&drive, asked.seed);
                dependent.iter().map(|window| without_instants(drive.replay(window))).collect()
            });
            progress.one();
            replayed
        })
        .collect();
    progress.finish();
    let of_candidate = |place: usize| &replayed[place * (asked.draws + 1)..(place + 1) * (asked.draws + 1)];
    let now = of_candidate(asked.now);
    let places = 0..asked.candidates.len();
    let mut ranked: Vec<RankedCandidate> =
        places.filter_map(|place| rank(asked, &draws, place, of_candidate(place), now)).collect();
    ranked.sort_by(|one, other| other.central.total_cmp(&one.central));
    ranked
}

/// Returns a replayed window without the completion times of single requests, to save memory.
fn without_instants(replayed: ReplayedWindow) -> ReplayedWindow {
    ReplayedWindow { done: Vec::new(), ..replayed }
}

/// Returns a drive with the constants of a random draw; draw 0 has the constants of the drive file. None if the drawn
/// constants contradict each other.
fn drawn(described: &phaselink_core::drive_file::Described, draws: &Draws, draw: usize) -> Option<Drive> {
    match draw {
        0 => Some(described.drive().clone()),
        draw => input::drive_of_draw(described, draws, draw - 1),
    }
}

/// Infers the earlier request for which each recorded request waited, with the constants of a random draw for the
/// recorded drive. None if these constants contradict each other.
fn dependent(asked: &WhatIf, draws: &Draws, draw: usize) -> Option<Dependent> {
    let described = match &asked.recorded_on {
        RecordedDrive::Now => Some(&asked.candidates[asked.now].described),
        RecordedDrive::Other(described) => Some(&**described),
        RecordedDrive::Instant => None,
    };
    let drive = match described {
        Some(described) => Some(AttachedDrive::new(&drawn(described, draws, draw)?, asked.seed)),
        None => None,
    };
    let of_window = |window: &phaselink_studies::whatif::RecordedWindow| {
        let done = match &drive {
            Some(drive) => drive.replay_at_recorded_times(&window.requests).done,
            None => window.requests.iter().map(|entry| entry.at).collect(),
        };
        depend(&window.requests, &done)
    };
    Some(asked.windows.iter().map(of_window).collect())
}

/// Returns the weighted sum of the replayed windows' durations in seconds.
fn elapsed_s(windows: &[ReplayedWindow], weights: &[f64]) -> f64 {
    windows.iter().zip(weights).map(|(window, weight)| weight * window.elapsed.as_s()).sum()
}

fn rank(
    asked: &WhatIf,
    draws: &Draws,
    place: usize,
    own: &[Option<Vec<ReplayedWindow>>],
    now: &[Option<Vec<ReplayedWindow>>],
) -> Option<RankedCandidate> {
    let gain = |draw: usize| {
        let (own, now) = (own[draw].as_ref()?, now[draw].as_ref()?);
        let weights = window_weights(own.len(), draw, asked.seed);
        Some(elapsed_s(now, &weights) / elapsed_s(own, &weights))
    };
    let central = gain(0)?;
    let gains: Vec<Option<f64>> = (1..=asked.draws).map(gain).collect();
    let interval = draws.interval(central, &gains);
    let windows = own[0].as_ref()?;
    let mean_s = |kind: usize| {
        let sums = windows.iter().map(|window| window.latencies[kind]);
        let sum = sums.fold(LatencySums::default(), |sum, one| LatencySums {
            requests: sum.requests + one.requests,
            seconds: sum.seconds + one.seconds,
        });
        sum.mean_s()
    };
    Some(RankedCandidate {
        place,
        central,
        gain: interval.unwrap_or(Interval {
            low: central,
            high: central,
            draws: 0,
            contributions: Vec::new(),
            model_error: None,
        }),
        elapsed_s: elapsed_s(windows, &vec![1.0; windows.len()]),
        waited_s: windows.iter().map(|window| window.waited.as_s()).sum(),
        means_s: std::array::from_fn(mean_s),
    })
}
