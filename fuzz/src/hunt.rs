//! Many inputs against one target, with those that it does not survive.

use std::panic::{self, AssertUnwindSafe};

use crate::mutate::Mutator;
use crate::{Target, corpus};

/// What has come of a hunt.
#[derive(Debug, Default)]
pub struct Bag {
    pub inputs: u64,
    /// Inputs that made the target panic, up to [`CRASHES_MAX`].
    pub crashes: Vec<Vec<u8>>,
}

/// Crashes after which a hunt ends: they are most often the same.
pub const CRASHES_MAX: usize = 20;

/// Whether the target survives this input.
pub fn survives(target: &Target, input: &[u8]) -> bool {
    panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok()
}

/// Corpus first, then `mutants` made of it. `progress` hears how many inputs have been tried, now and then.
pub fn hunt(target: &Target, mutants: u64, seed: u64, mut progress: impl FnMut(u64)) -> Bag {
    let corpus = corpus::inputs(target);
    let mut bag = Bag::default();
    let mut mutator = Mutator::new(&corpus, seed);
    let all = corpus.iter().cloned().map(Some).chain((0..mutants).map(|_| None));
    for input in all {
        let input = input.unwrap_or_else(|| mutator.input());
        bag.inputs += 1;
        if !survives(target, &input) {
            bag.crashes.push(input);
        }
        if bag.crashes.len() >= CRASHES_MAX {
            break;
        }
        if bag.inputs.is_multiple_of(1 << 14) {
            progress(bag.inputs);
        }
    }
    bag
}
