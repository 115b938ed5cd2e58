//! Preconditioned drives, which begin in a state that other drives reach after days: written sequentially, or
//! overwritten at random until the steady state.

use super::cohorts::UnitCohorts;
use super::map_cache::MapCache;
use super::policy::Policy;
use super::run_in::{RunInBlock, RunInState};
use super::stationary::{VictimPolicy, valid_units, write_amplification};
use super::{TranslationLayer, TranslationShape};
use crate::media::randomiser::LineRandomiser;
use crate::number::{index, narrow, real, whole};
use crate::random::{Random, mix};

impl TranslationShape {
    /// Returns the write amplification in the steady state of random writes of `request_units` at a time, to a region
    /// of `region_units`. Units outside the region then fill whole blocks, so that all spare blocks serve the region.
    /// The result is a lower bound: policies that do not choose the emptiest block collect some blocks outside the
    /// region, too.
    pub fn steady_write_amplification(&self, region_units: u64, request_units: u32) -> f64 {
        let (block, user) = (f64::from(self.block_units), region_units.min(self.units));
        let outside = real(self.used_units.saturating_sub(user)) / block;
        let region = real(TranslationShape { units: user, ..*self }.all_mapped_units());
        let sealed = f64::from(self.blocks - self.partly_filled_blocks_in_steady_state()) - outside;
        // Number of units that erased blocks can take.
        let open = f64::from(self.erased_blocks_in_steady_state()) * block;
        let requests = (self.block_units / request_units.max(1)).max(1);
        if region <= open {
            return 1.0;
        }
        self.amplification(user, requests, sealed * block / (region - open) - 1.0)
    }

    /// Returns the write amplification of random writes to `units` mapping units with blocks of `block_units`; `spare`
    /// is the over-provisioning of full blocks as a share of the units. Uses the policy's closed form, or else the
    /// measurement of a small drive that was run in.
    fn amplification(&self, units: u64, block_units: u32, spare: f64) -> f64 {
        match self.closed_form() {
            Some(form) => write_amplification(form, block_units, spare),
            None => RunInState::of(&TranslationShape { units, block_units, ..*self }, spare).amplification,
        }
    }

    /// Returns the victim choice whose equation gives the steady state of this policy; `None` if there is no equation.
    fn closed_form(&self) -> Option<VictimPolicy> {
        // The closed forms do not include writes to the mapping table.
        Policy::closed_form(self.policy, &self.settings).filter(|_| self.map.is_none())
    }

    /// Returns the number of mapping units in the open block of each stream in the steady state. Together with the
    /// erased blocks, the open blocks then leave exactly the reserve free when the collection of a block begins.
    fn open_units_in_steady_state(&self) -> Vec<u32> {
        let (streams, block) = (self.streams_in_use_at_start(), self.block_units);
        let all = u64::from(self.erased_blocks_in_steady_state()) * u64::from(block);
        let each = narrow::<u32, u64>(all / u64::from(streams)) / self.line_units * self.line_units;
        let last = narrow::<u32, u64>(all - u64::from(streams - 1) * u64::from(each));
        (1..streams).map(|_| each).chain([last]).collect()
    }

    /// Returns the number of erased blocks in the steady state. They are half of the reserve; free positions of open
    /// blocks are the other half.
    pub(super) fn erased_blocks_in_steady_state(&self) -> u32 {
        self.streams_in_use_at_start().div_ceil(2)
    }

    /// Returns the number of blocks that are not full in the steady state: one open block for each stream, and the
    /// erased blocks.
    pub(super) fn partly_filled_blocks_in_steady_state(&self) -> u32 {
        self.streams_in_use_at_start() + self.erased_blocks_in_steady_state()
    }
}

impl TranslationLayer {
    /// Creates the translation layer of a drive on which every mapping unit has been written once, in the order of
    /// addresses.
    pub fn written_in_order(shape: TranslationShape, seed: u64) -> TranslationLayer {
        let full = narrow::<u32, u64>(shape.units_on_preconditioned_drive() / u64::from(shape.block_units));
        let rest = narrow::<u32, u64>(shape.units_on_preconditioned_drive() % u64::from(shape.block_units));
        let valid = (0..full).map(|_| shape.block_units).chain((rest > 0).then_some(rest)).collect();
        TranslationLayer::with_valid_counts(shape, seed, valid, None)
    }

    /// Creates the translation layer of a drive on which every mapping unit has been overwritten at random many times.
    /// In this steady state garbage collection continues from the first write on. For a policy without a closed form,
    /// the state is scaled up from a small drive that was run in.
    pub fn overwritten_at_random(shape: TranslationShape, seed: u64) -> TranslationLayer {
        let mut random = Random::stream(seed, "steady state of flash");
        let open = shape.open_units_in_steady_state();
        let sealed_units =
            shape.units_on_preconditioned_drive().saturating_sub(open.iter().map(|units| u64::from(*units)).sum());
        let sealed = shape.blocks - shape.partly_filled_blocks_in_steady_state();
        let spare = f64::from(sealed) * f64::from(shape.block_units) / real(sealed_units) - 1.0;
        let run_in = shape.closed_form().is_none().then(|| RunInState::of(&shape, spare));
        let mut valid = match (shape.closed_form(), &run_in) {
            (Some(form), _) => valid_units(form, sealed, shape.block_units, sealed_units, &mut random),
            (None, Some(run_in)) => run_in.valid_units(sealed, shape.block_units, sealed_units),
            (None, None) => Vec::new(),
        };
        valid.extend(&open);
        let shuffle = LineRandomiser::new(shape.units_on_preconditioned_drive(), mix(random.bits()));
        let mut drive = TranslationLayer::with_valid_counts(shape, seed, valid, Some(shuffle));
        for (place, written) in (0..).zip(open) {
            drive.reopen_block(place, sealed + place, written);
        }
        drive.map = shape.map.map(|map| MapCache::new(shape.units, map.page_units, map.cached_pages, true));
        drive.fill_slc_with_overwritten_units();
        if let Some(run_in) = run_in {
            drive.adopt_run_in_history(&run_in, sealed);
        }
        drive
    }

    /// Gives the first `sealed` blocks the ages, streams and wear of a small drive that was run in, and gives the
    /// policy what it has learnt there.
    fn adopt_run_in_history(&mut self, run_in: &RunInState, sealed: u32) {
        self.policy = run_in.policy.clone();
        self.policy.scale_time(real(self.shape.units));
        // Start the clock so late that even the oldest unit has a write time above zero.
        let life = real(self.shape.units);
        self.blocks.now = whole(run_in.oldest_block_age() * life) + 1;
        for block in 0..sealed {
            let RunInBlock { age, stream, erases, .. } = *run_in.at(block, sealed);
            let written_at = self.blocks.now - whole(age * life);
            let this = &mut self.blocks.all[index(block)];
            // In the initial steady state no host has used placement identifiers, so all blocks belong to the first
            // stream.
            let stream = if self.placed.is_some() { 0 } else { stream };
            (this.stream, this.erased_before) = (stream, erases);
            this.written_at_sum = written_at * u64::from(this.written);
        }
        for block in self.open.iter().flatten() {
            let this = &mut self.blocks.all[index(*block)];
            this.written_at_sum = self.blocks.now * u64::from(this.written);
        }
    }

    /// Makes a block with `written` mapping units the open block of the stream with index `place`. With host-selected
    /// streams, every index above 0 stands for moved units.
    fn reopen_block(&mut self, place: u32, block: u32, written: u32) {
        let is_moved = self.placed.is_some() && place > 0;
        let place = if is_moved { self.first_moved.into() } else { place };
        let this = &mut self.blocks.all[index(block)];
        (this.written, this.sealed, this.stream) = (written, 0, narrow::<u8, u32>(place));
        self.open[index(place)] = Some(block);
    }

    /// Creates the translation layer of a drive whose first blocks are full and hold these numbers of valid mapping
    /// units, the oldest block first. Its other blocks are erased. `shuffle` spreads the units at random, instead of in
    /// the order of addresses.
    fn with_valid_counts(
        shape: TranslationShape,
        seed: u64,
        valid: Vec<u32>,
        shuffle: Option<LineRandomiser>,
    ) -> TranslationLayer {
        let mut drive = TranslationLayer::new(shape, seed);
        for (block, valid) in (0..).zip(&valid) {
            drive.sealed += 1;
            let this = &mut drive.blocks.all[index(block)];
            (this.valid, this.written, this.sealed) = (*valid, shape.block_units, drive.sealed);
        }
        drive.free.retain(|block| index(*block) >= valid.len());
        let blocks = (0..).zip(valid).map(|(block, valid)| {
            // In a shuffled block the valid units are spread over the whole block, with invalid units between them.
            let is_spread = shuffle.is_some() && block + shape.partly_filled_blocks_in_steady_state() < shape.blocks;
            (block, valid, if is_spread { shape.block_units } else { valid })
        });
        drive.cohorts = UnitCohorts::new(blocks, shuffle);
        drive
    }
}
