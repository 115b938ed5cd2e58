//! Steady state of a policy without a closed form: a small drive is overwritten at random until it is in that state, in
//! the mapping alone. Other drives with this policy and as much spare space are given its distribution.
//!
//! Write amplification depends on the policy, on the spare space, and little on the number of units in a block once
//! there are a hundred or more (see the tests of the layer). A drive of [`BLOCKS`] blocks therefore stands for a drive
//! of any size.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::policy::Policy;
use super::{TranslationLayer, TranslationShape, map_cache};
use crate::config::TranslationPolicyName;
use crate::number::{index, low_u32, real, short_length, whole};
use crate::random::Random;

/// Number of full blocks of the small drive on which a policy's steady state is found.
const BLOCKS: u32 = 2048;
/// Largest number of mapping units in a block of the small drive on which a policy's steady state is found.
const BLOCK_UNITS_MAX: u32 = 256;
/// Number of times that the small drive is overwritten to reach a policy's steady state, before its write amplification
/// is measured.
const OVERWRITES: u64 = 3;
/// Number of times that the small drive, in its steady state, is overwritten while its write amplification is measured.
const MEASURED_OVERWRITES: u64 = 1;
/// Largest number of moves by garbage collection during one overwrite, as a multiple of the number of mapping units.
/// With little spare space, moves rather than writes lead to the steady state.
const MOVES: u64 = 12;
/// Seed of the writes to the small drive. Drives of all seeds begin in the state that this seed leads to.
const SEED: u64 = 1;

/// Properties that determine a steady state: policy, number of random choices, mapping units per block, spare space,
/// units per map page, and cached share of the map pages. The spare space and the share are stored as bits of a double.
type RunInKey = (TranslationPolicyName, u32, u32, u64, u32, u64);

/// Steady states that this process has computed, by the properties that determine them.
static FOUND: Mutex<BTreeMap<RunInKey, Arc<RunInState>>> = Mutex::new(BTreeMap::new());

/// Steady state of a small drive that was run in, for transfer to drives of any size.
#[derive(Clone, Debug)]
pub(super) struct RunInState {
    /// Write amplification: writes to the cells for each user write.
    pub amplification: f64,
    /// State of the policy, with times in multiples of the user's whole capacity written.
    pub policy: Policy,
    /// Full blocks of the small drive, in the order in which they were filled up.
    blocks: Vec<RunInBlock>,
}

/// Full block of a small drive that was run in.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunInBlock {
    /// Share of the block's mapping units that are valid, from 0 to 1.
    valid: f64,
    /// Mean age of the block's mapping units: the writes since each was written, as a multiple of the user's whole
    /// capacity.
    pub age: f64,
    /// Number of the stream that has filled the block.
    pub stream: u8,
    /// Number of erases of the block, less those of the least erased block.
    pub erases: u32,
}

impl RunInState {
    /// Returns the steady state of drives with the policy, mapping table and block size of `like`; `spare` is the
    /// over-provisioning of full blocks. Computes each state once in the life of the process.
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
        shape.blocks += shape.partly_filled_blocks_in_steady_state();
        let sealed_units = f64::from(BLOCKS) * f64::from(shape.block_units) / (1.0 + spare.max(0.0));
        let all = sealed_units + f64::from(shape.erased_blocks_in_steady_state()) * f64::from(shape.block_units);
        let map_share = shape.map.map_or(0.0, |map| 1.0 / f64::from(map.page_units));
        shape.units = whole(all / (1.0 + map_share));
        shape.used_units = shape.units;
        if let Some(map) = &mut shape.map {
            map.cached_pages = (cached * f64::from(map_cache::pages(shape.units, map.page_units))).round() as u32;
        }
        let mut run = RunInDrive::new(shape);
        run.overwrite_random_units(OVERWRITES);
        let before = run.drive.counts();
        run.overwrite_random_units(MEASURED_OVERWRITES);
        let after = run.drive.counts();
        let written = after.written - before.written;
        let moved = after.moved - before.moved + after.map_writes - before.map_writes;
        RunInState { amplification: 1.0 + real(moved) / real(written), ..RunInState::of_drive(&run.drive) }
    }

    /// Returns the state of a drive that was run in: its policy and full blocks. The write amplification is set to 1.
    fn of_drive(drive: &TranslationLayer) -> RunInState {
        let (blocks, life) = (&drive.blocks, real(drive.shape.units));
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

    /// Returns the number of valid mapping units in each of `blocks` blocks of `block_units`, the oldest block first.
    /// The shares are those of the small drive, adjusted so that the sum is `units`.
    pub(super) fn valid_units(&self, blocks: u32, block_units: u32, units: u64) -> Vec<u32> {
        let shares = (0..blocks).map(|block| self.at(block, blocks).valid);
        let mut valid: Vec<u32> = shares.map(|share| (share * f64::from(block_units)).round() as u32).collect();
        super::stationary::adjust_counts_to_sum(&mut valid, block_units, units);
        valid
    }

    /// Returns the mean age of the oldest block: the user's writes since its units were written, as a multiple of the
    /// user's whole capacity.
    pub(super) fn oldest_block_age(&self) -> f64 {
        self.blocks.iter().map(|block| block.age).fold(0.0, f64::max)
    }

    /// Returns the block of the small drive that stands for block number `block` of a drive of `blocks` blocks, both in
    /// the order of age.
    pub(super) fn at(&self, block: u32, blocks: u32) -> &RunInBlock {
        let last = self.blocks.len() - 1;
        let place = (f64::from(block) + 0.5) / f64::from(blocks) * f64::from(short_length(self.blocks.len()));
        &self.blocks[index(place as u32).min(last)]
    }
}

/// Small drive that is being run in, and the random numbers of its writes.
struct RunInDrive {
    drive: TranslationLayer,
    random: Random,
}

impl RunInDrive {
    /// Creates the small drive that is run in: every mapping unit has been written once, in order.
    fn new(shape: TranslationShape) -> RunInDrive {
        let mut run = RunInDrive { drive: TranslationLayer::new(shape, SEED), random: Random::stream(SEED, "run in") };
        let (mut moved, mut erased) = (Vec::new(), Vec::new());
        for unit in 0..low_u32(shape.units) {
            run.write(unit, &mut moved, &mut erased);
        }
        run
    }

    fn write(&mut self, unit: u32, moved: &mut Vec<super::MovedUnitRun>, erased: &mut Vec<u32>) {
        moved.clear();
        erased.clear();
        if let Some(page) = self.drive.look_up(unit, true).and_then(|access| access.written) {
            self.drive.make_room(1, moved, erased);
            self.drive.write_map_page(page);
        }
        self.drive.make_room(1, moved, erased);
        self.drive.write(unit);
    }

    /// Overwrites random mapping units, `times` as many as the drive has units. Ends early if garbage collection has
    /// moved [`MOVES`] times as many units.
    fn overwrite_random_units(&mut self, times: u64) {
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
