//! Steady state of a policy without a closed form: a small drive is overwritten at random until it is in that state, in
//! the mapping alone. Other drives with this policy and as much spare space are given its distribution.
//!
//! Write amplification depends on the policy, on the spare space, and little on the number of units of a block once there
//! are a hundred or more (see the tests of the layer). So a drive of [`BLOCKS`] blocks stands for one of any size.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::policy::Policy;
use super::{TranslationLayer, TranslationShape, map_cache};
use crate::config::PolicyName;
use crate::number::{index, short_length};
use crate::random::Random;

/// Number of full blocks of the small drive.
const BLOCKS: u32 = 2048;
/// Largest number of units of its blocks.
const BLOCK_UNITS_MAX: u32 = 256;
/// Number of times that the small drive is overwritten before its write amplification is measured, and while it is.
const OVERWRITES: u64 = 3;
const MEASURED_OVERWRITES: u64 = 1;
/// Number of times that the units may be moved in each of these overwrites; with little spare space, the state is reached
/// by moves rather than by writes.
const MOVES: u64 = 12;
/// Seed of the writes. Drives of all seeds begin in the state that this one leads to.
const SEED: u64 = 1;

/// Policy, choices, units of a block and spare space of a small drive, units of a map page, and the cached share of these.
type RunInKey = (PolicyName, u32, u32, u64, u32, u64);

/// Steady states that were found.
static FOUND: Mutex<BTreeMap<RunInKey, Arc<RunInState>>> = Mutex::new(BTreeMap::new());

/// Steady state of a small drive that was run in.
#[derive(Clone, Debug)]
pub(super) struct RunInState {
    /// Writes to the cells for each of the user's.
    pub amplification: f64,
    /// State of the policy, with times in user capacities.
    pub policy: Policy,
    /// Full blocks, the one that was filled up first before the others.
    blocks: Vec<RunInBlock>,
}

/// Full block of a drive that was run in.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunInBlock {
    /// Share of its units that are valid.
    valid: f64,
    /// Mean age of its units, in writes of the user's whole capacity.
    pub age: f64,
    /// Number of the stream that has filled it.
    pub stream: u8,
    /// Number of erases more than those of the least erased block.
    pub erases: u32,
}

impl RunInState {
    /// Returns the steady state of drives with the policy, mapping table and block size of `like`, and with `spare` as the
    /// over-provisioning of full blocks. The state is computed once in the life of the process.
    pub(super) fn of(like: &TranslationShape, spare: f64) -> Arc<RunInState> {
        let block_units = like.block_units.min(BLOCK_UNITS_MAX);
        let (page_units, cached) = like.map.map_or((1, 1.0), |map| {
            (map.page_units, f64::from(map.cached_pages) / f64::from(map_cache::pages(like.units, map.page_units)))
        });
        let key = (like.policy, like.settings.choices, block_units, spare.to_bits(), page_units, cached.to_bits());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || RunInState::run(&TranslationShape { block_units, ..*like }, spare, cached);
        found.entry(key).or_insert_with(|| Arc::new(run())).clone()
    }

    fn run(like: &TranslationShape, spare: f64, cached: f64) -> RunInState {
        let mut shape =
            TranslationShape { blocks: BLOCKS, line_units: 1, slc: None, wear_gap: 0, placement: None, ..*like };
        shape.blocks += shape.blocks_not_full();
        let sealed_units = f64::from(BLOCKS) * f64::from(shape.block_units) / (1.0 + spare.max(0.0));
        let all = sealed_units + f64::from(shape.blocks_erased()) * f64::from(shape.block_units);
        let map_share = shape.map.map_or(0.0, |map| 1.0 / f64::from(map.page_units));
        shape.units = (all / (1.0 + map_share)) as u64;
        if let Some(map) = &mut shape.map {
            map.cached_pages = (cached * f64::from(map_cache::pages(shape.units, map.page_units))).round() as u32;
        }
        let mut run = RunIn::new(shape);
        run.overwrite(OVERWRITES);
        let before = run.drive.counts();
        run.overwrite(MEASURED_OVERWRITES);
        let after = run.drive.counts();
        let written = after.written - before.written;
        let moved = after.moved - before.moved + after.map_writes - before.map_writes;
        RunInState { amplification: 1.0 + moved as f64 / written as f64, ..RunInState::seen(&run.drive) }
    }

    /// Returns the state of a drive, without its write amplification.
    fn seen(drive: &TranslationLayer) -> RunInState {
        let (blocks, life) = (&drive.blocks, drive.shape.units as f64);
        let mut full: Vec<u32> = blocks.full().collect();
        full.sort_unstable_by_key(|block| blocks.order(*block));
        let least = full.iter().map(|block| blocks.erases(*block)).min().unwrap_or(0);
        let states = full.into_iter().map(|block| RunInBlock {
            valid: f64::from(blocks.valid(block)) / f64::from(blocks.units()),
            age: blocks.age(block).max(0.0) / life,
            stream: blocks.stream(block),
            erases: blocks.erases(block) - least,
        });
        let mut policy = drive.policy.clone();
        policy.scale_time(1.0 / life);
        RunInState { amplification: 1.0, policy, blocks: states.collect() }
    }

    /// Returns valid units of `blocks` blocks that hold `units` in all, the oldest block first.
    pub(super) fn valid_units(&self, blocks: u32, block_units: u32, units: u64) -> Vec<u32> {
        let shares = (0..blocks).map(|block| self.at(block, blocks).valid);
        let mut valid: Vec<u32> = shares.map(|share| (share * f64::from(block_units)).round() as u32).collect();
        super::stationary::make_sum(&mut valid, block_units, units);
        valid
    }

    /// Returns the largest age of a block, in writes of the user's whole capacity.
    pub(super) fn oldest_age(&self) -> f64 {
        self.blocks.iter().map(|block| block.age).fold(0.0, f64::max)
    }

    /// Returns the block of the small drive that stands for block `block` of `blocks`.
    pub(super) fn at(&self, block: u32, blocks: u32) -> &RunInBlock {
        let last = self.blocks.len() - 1;
        let place = (f64::from(block) + 0.5) / f64::from(blocks) * f64::from(short_length(self.blocks.len()));
        &self.blocks[index(place as u32).min(last)]
    }
}

/// Small drive that is being run in.
struct RunIn {
    drive: TranslationLayer,
    random: Random,
}

impl RunIn {
    /// Creates a small drive on which every unit was written once, in order.
    fn new(shape: TranslationShape) -> RunIn {
        let mut run = RunIn { drive: TranslationLayer::new(shape, SEED), random: Random::stream(SEED, "run in") };
        let (mut moved, mut erased) = (Vec::new(), Vec::new());
        for unit in 0..shape.units as u32 {
            run.write(unit, &mut moved, &mut erased);
        }
        run
    }

    fn write(&mut self, unit: u32, moved: &mut Vec<super::UnitMove>, erased: &mut Vec<u32>) {
        moved.clear();
        erased.clear();
        if let Some(page) = self.drive.look_up(unit, true).and_then(|access| access.written) {
            self.drive.make_room(1, moved, erased);
            self.drive.write_map_page(page);
        }
        self.drive.make_room(1, moved, erased);
        self.drive.write(unit);
    }

    /// Overwrites random units until as many have been written as `times` the number of units, or moved [`MOVES`] times
    /// as many.
    fn overwrite(&mut self, times: u64) {
        let (units, before) = (self.drive.shape.units, self.drive.counts());
        let (mut moved, mut erased) = (Vec::new(), Vec::new());
        while self.drive.counts().written - before.written < times * units
            && self.drive.counts().moved - before.moved < times * units * MOVES
        {
            let unit = (self.random.unit() * units as f64) as u32;
            self.write(unit, &mut moved, &mut erased);
        }
    }
}
