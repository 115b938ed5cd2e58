//! Influence of uncertain constants on the results of a paper: the rows that each constant changes, and prediction
//! intervals from all constants together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::config::UncertaintyCause;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_studies::reproduce::experiment::{ExperimentRun, Experiments};
use phaselink_studies::reproduce::{ClaimKind, Dependence, Row, with_interval};
use phaselink_studies::uncertainty::ConstantDraws;
use rayon::prelude::*;

use crate::progress::Progress;
use crate::{input, intervals};

/// Number of values tried for each uncertain constant by `--depends`: the two ends of the constant's range.
const ENDS: usize = 2;

/// Simulates with each uncertain constant at both ends of its range, one constant at a time, and returns the rows that
/// change with each constant.
///
/// # Errors
///
/// If a constant cannot be set to an end of its range.
pub(super) fn measure(
    experiments: &Experiments,
    outcomes: &[Outcome],
    stopped: &AtomicBool,
) -> Result<Dependence, Problems> {
    let constants = constants(experiments.runs.iter().map(|run| &run.drive));
    check(experiments)?;
    let progress = Progress::of(ENDS * constants.len() * experiments.runs.len());
    let moved = constants
        .par_iter()
        .map(|constant| rows_moved_by_constant(experiments, outcomes, constant, &progress, stopped));
    let moved = input::all(moved.collect::<Vec<_>>())?;
    progress.finish();
    let mut dependence = Dependence::default();
    for ((cause, key), rows) in constants.iter().zip(moved) {
        dependence.note(*cause, key, rows);
    }
    Ok(dependence)
}

/// Returns the identifiers of the rows that change with an uncertain constant. Rows that change at one end of its range
/// are not simulated at the other end.
fn rows_moved_by_constant<'a>(
    experiments: &'a Experiments,
    outcomes: &[Outcome],
    (cause, key): &(UncertaintyCause, String),
    progress: &Progress,
    stopped: &AtomicBool,
) -> Result<BTreeSet<&'a str>, Problems> {
    let (reproduction, before) = (&experiments.reproduction, experiments.values(outcomes));
    let mut moved = BTreeSet::new();
    for end in 0..ENDS {
        let runs_to_repeat =
            reproduction.runs_to_repeat(|id, kind| kind != ClaimKind::Input && !moved.contains(id), Some(key));
        let overrides = |drive: &Drive| override_at_range_end(drive, *cause, key, end);
        let finish = |simulation| progress.outcome(simulation, || stopped.load(Ordering::Relaxed));
        let after = experiments.row_values_with_moved_constants(outcomes, &runs_to_repeat, overrides, finish)?;
        moved.extend(reproduction.ids_of_moved_rows(&before, &after));
    }
    Ok(moved)
}

/// Checks, before anything runs, that all uncertain constants can be set to the ends of their ranges. Runs of one drive
/// are checked together, since reading the drive takes longest.
pub(super) fn check(experiments: &Experiments) -> Result<(), Problems> {
    let mut alike: Vec<Vec<&ExperimentRun>> = Vec::new();
    for run in &experiments.runs {
        match alike.iter_mut().find(|runs| runs[0].drive == run.drive) {
            Some(runs) => runs.push(run),
            None => alike.push(vec![run]),
        }
    }
    let of_drive = |runs: Vec<&ExperimentRun>| {
        let doubts = runs[0].drive.relevant_uncertain_constants().into_iter();
        let ends = doubts.flat_map(|(cause, doubt)| runs[0].drive.extremes(cause, doubt));
        let check = |end| {
            let moved = runs[0].with_overrides(&[end])?;
            input::all(runs[1..].iter().map(|run| run.check_runs_on(&moved.drive))).map(drop)
        };
        input::all(ends.map(check)).map(drop)
    };
    input::all(alike.into_par_iter().map(of_drive).collect::<Vec<_>>()).map(drop)
}

/// Returns the keys of all constants that are uncertain in any of the drives, each with the cause (assumed or fitted).
pub(super) fn constants<'a>(drives: impl Iterator<Item = &'a Drive>) -> BTreeSet<(UncertaintyCause, String)> {
    drives
        .flat_map(|drive| {
            drive.relevant_uncertain_constants().into_iter().map(|(cause, doubt)| (cause, doubt.key.clone()))
        })
        .collect()
}

/// Returns the override that sets a drive's uncertain constant to one end of its range, or none if the constant is
/// certain in this drive.
fn override_at_range_end(drive: &Drive, cause: UncertaintyCause, key: &str, end: usize) -> Vec<KeyOverride> {
    let doubts = drive.relevant_uncertain_constants();
    let doubt = doubts.iter().find(|(of, doubt)| *of == cause && doubt.key == key);
    let ends = doubt.map_or_else(Vec::new, |(_, doubt)| drive.extremes(cause, doubt));
    ends.into_iter().nth(end).into_iter().collect()
}

/// Draws all uncertain constants at once from their ranges, repeats the paper's simulations, and adds a prediction
/// interval to each row with a number.
pub(super) fn intervals(
    experiments: &Experiments,
    outcomes: &[Outcome],
    rows: Vec<Row>,
    draws: usize,
    stopped: &AtomicBool,
) -> Result<Vec<Row>, Problems> {
    let draws = ConstantDraws::of(experiments.runs.iter().map(|run| &run.drive), draws, intervals::SEED);
    let runs_to_repeat = experiments.reproduction.runs_to_repeat(|_, kind| kind == ClaimKind::Number, None);
    let progress = Progress::of(draws.count() * runs_to_repeat.iter().filter(|is_repeated| **is_repeated).count());
    let drawn = (0..draws.count()).into_par_iter().map(|draw| {
        let overrides = |drive: &Drive| draws.overrides(drive, draw);
        let finish = |simulation| progress.outcome(simulation, || stopped.load(Ordering::Relaxed));
        experiments.row_values_with_moved_constants(outcomes, &runs_to_repeat, overrides, finish)
    });
    let drawn = input::all(drawn.collect::<Vec<_>>())?;
    progress.finish();
    let within = |(place, row): (usize, Row)| {
        let values: Vec<Option<f64>> = drawn.iter().map(|values| values[place]).collect();
        let interval =
            row.simulated.filter(|_| row.kind == ClaimKind::Number).and_then(|value| draws.interval(value, &values));
        match interval {
            Some(interval) => with_interval(row, interval),
            None => row,
        }
    };
    Ok(rows.into_iter().enumerate().map(within).collect())
}
