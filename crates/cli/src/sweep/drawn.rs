//! Runs of a sweep with prediction intervals: each point with its own constants, and with the constants of each random
//! draw. All results are saved by hash, so that a stopped sweep continues with its remaining draws.

use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_studies::sweep::{Hash, Plan, PointResolver, Sweep};
use phaselink_studies::uncertainty::{ConstantDraws, Interval};
use rayon::prelude::*;

use super::RunnablePoints;
use super::state_file::StateFile;
use crate::{input, intervals};

/// Run of a plan's point: with the point's own constants, or with the constants of a random draw. `draw` has the index
/// among the drawn points, and the number of the draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub point: usize,
    pub draw: Option<(usize, usize)>,
    pub hash: Hash,
}

/// Random draws of a point's uncertain constants, with the hash of each draw that can run.
pub(super) struct PointConstantDraws {
    place: usize,
    point: usize,
    hash: Hash,
    draws: ConstantDraws,
    hashes: Vec<Option<Hash>>,
}

/// Returns `count` random draws for each point.
///
/// # Errors
///
/// If a point cannot run; all problems are listed.
pub(super) fn of(sweep: &Sweep, points: &RunnablePoints, count: usize) -> Result<Vec<PointConstantDraws>, Problems> {
    let of_point = |resolver: &mut PointResolver, (place, (point, hash)): (usize, &(usize, Hash))| {
        let draws = resolver.draws(*point, count, intervals::SEED)?;
        let hashes = (0..count).map(|draw| Some(resolver.drawn_point(*point, &draws, draw)?.0)).collect();
        Ok(PointConstantDraws { place, point: *point, hash: *hash, draws, hashes })
    };
    let drawn = points.par_iter().enumerate().map_init(|| sweep.resolver(), of_point);
    input::all(drawn.collect::<Vec<_>>())
}

impl PointConstantDraws {
    /// Returns the runs of all draws that can run.
    pub(super) fn work(&self) -> impl Iterator<Item = Work> {
        let runs = self.hashes.iter().enumerate().filter_map(|(draw, hash)| Some((draw, (*hash)?)));
        runs.map(|(draw, hash)| Work { point: self.point, draw: Some((self.place, draw)), hash })
    }

    /// Returns the prediction interval of each column of the plan, from the results in `state`. None for a column
    /// without enough values.
    pub(super) fn intervals(&self, plan: &Plan, state: &StateFile) -> Vec<Option<Interval>> {
        let interval = |column| {
            let figure = |hash: Hash| state.figures(hash)?.get(column);
            let drawn: Vec<Option<f64>> = self.hashes.iter().map(|hash| figure((*hash)?)).collect();
            self.draws.interval(figure(self.hash)?, &drawn)
        };
        plan.columns().iter().map(|column| interval(column)).collect()
    }
}

impl Work {
    /// Returns the simulation of a run of the sweep, ready to start.
    pub(super) fn simulation(
        &self,
        resolver: &mut PointResolver,
        drawn: &[PointConstantDraws],
    ) -> Result<Simulation, Problems> {
        let Some((place, draw)) = self.draw else { return resolver.simulation(self.point) };
        let simulation = resolver.drawn_simulation(self.point, &drawn[place].draws, draw);
        Ok(simulation.expect("only draws that can run have a hash"))
    }
}
