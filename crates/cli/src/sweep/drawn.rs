//! The runs of a sweep with intervals: each point as it is, and once for each draw of its constants in doubt. They are kept
//! by their hashes as all other runs are, so that a sweep that was stopped goes on with them, too.

use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::sweep::{Hash, Plan, Resolver, Sweep};
use phaselink_core::uncertainty::{Draws, Interval};
use rayon::prelude::*;

use super::Points;
use super::state_file::StateFile;
use crate::{input, intervals};

/// A run: a point as it is, or in a draw of the point that has this place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub point: usize,
    pub draw: Option<(usize, usize)>,
    pub hash: Hash,
}

/// The draws of a point, and the hash of each that can run.
pub(super) struct Drawn {
    place: usize,
    point: usize,
    hash: Hash,
    draws: Draws,
    hashes: Vec<Option<Hash>>,
}

/// The draws of each point.
///
/// # Errors
/// Everything that keeps a point from running.
pub(super) fn of(sweep: &Sweep, points: &Points, count: usize) -> Result<Vec<Drawn>, Problems> {
    let of_point = |resolver: &mut Resolver, (place, (point, hash)): (usize, &(usize, Hash))| {
        let draws = resolver.draws(*point, count, intervals::SEED)?;
        let hashes = (0..count).map(|draw| Some(resolver.drawn(*point, &draws, draw)?.0)).collect();
        Ok(Drawn { place, point: *point, hash: *hash, draws, hashes })
    };
    let drawn = points.par_iter().enumerate().map_init(|| sweep.resolver(), of_point);
    input::all(drawn.collect::<Vec<_>>())
}

impl Drawn {
    /// The runs that there are.
    pub(super) fn work(&self) -> impl Iterator<Item = Work> {
        let runs = self.hashes.iter().enumerate().filter_map(|(draw, hash)| Some((draw, (*hash)?)));
        runs.map(|(draw, hash)| Work { point: self.point, draw: Some((self.place, draw)), hash })
    }

    /// The interval of each column of the plan, of runs that are over.
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
    /// The run, ready to go.
    pub(super) fn simulation(&self, resolver: &mut Resolver, drawn: &[Drawn]) -> Result<Simulation, Problems> {
        let Some((place, draw)) = self.draw else { return resolver.simulation(self.point) };
        let simulation = resolver.drawn_simulation(self.point, &drawn[place].draws, draw);
        Ok(simulation.expect("only draws that can run have a hash"))
    }
}
