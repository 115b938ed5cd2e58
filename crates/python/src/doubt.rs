//! Prediction intervals of figures: the same work with drawn values of all uncertain constants, on all processors.

use std::sync::atomic::AtomicBool;

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::Described;
use phaselink_core::simulation::Simulation;
use phaselink_studies::precision::{self, PrecisionGoal};
use phaselink_studies::results::Figures;
use phaselink_studies::uncertainty::{ConstantDraws, NamedFigures, RunFigureIntervals, SEED, of_run};
use rayon::prelude::*;

use crate::interrupt::outcome;

/// Returns the prediction intervals of some figures. `drawn` returns the figures for a drive with drawn constants, or
/// none if the job cannot run.
pub(crate) fn prediction_intervals(
    described: &Described,
    draws: usize,
    central: NamedFigures,
    drawn: impl Fn(&Drive) -> Option<NamedFigures> + Sync,
) -> RunFigureIntervals {
    let draws = ConstantDraws::of([described.drive()], draws, SEED);
    let in_draw = |draw: usize| {
        let drive = described.with(&draws.overrides(described.drive(), draw)).ok()?.into_drive();
        drawn(&drive)
    };
    let all: Vec<Option<NamedFigures>> = (0..draws.count()).into_par_iter().map(in_draw).collect();
    RunFigureIntervals::of(&draws, central, &all)
}

/// Runs a simulation to its end, or to a goal of precision, and returns its figures.
pub(crate) fn figures(mut simulation: Simulation, goal: Option<PrecisionGoal>, stopped: &AtomicBool) -> NamedFigures {
    let outcome = match goal {
        None => outcome(simulation, stopped),
        Some(goal) => {
            precision::measure(&mut simulation, goal, || stopped.load(std::sync::atomic::Ordering::Relaxed));
            simulation.outcome()
        }
    };
    of_run(&Figures::of(&outcome))
}
