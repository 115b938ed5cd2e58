//! Replay of seeds and corpus, with a few changes to each input.

use std::panic::{self, AssertUnwindSafe};

use phaselink_fuzz::{ALL, Target, corpus};

/// Positions of an input at which one byte is changed, and at which the input is cut.
const CHANGES: usize = 16;

/// Returns an input, the same with one byte inverted, and the same cut short, at evenly spaced positions.
fn with_changes(input: &[u8]) -> Vec<Vec<u8>> {
    let mut inputs = vec![input.to_vec()];
    for change in 0..CHANGES.min(input.len()) {
        let place = input.len() * change / CHANGES.min(input.len());
        let mut changed = input.to_vec();
        changed[place] = !changed[place];
        inputs.extend([changed, input[..place].to_vec()]);
    }
    inputs
}

fn inputs_that_fail(target: &Target) -> Vec<String> {
    let inputs = corpus::inputs(target).into_iter().flat_map(|input| with_changes(&input));
    let fails = |input: &Vec<u8>| panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    inputs.filter(fails).map(|input| input.escape_ascii().to_string()).collect()
}

#[test]
fn fuzz_targets_accept_seeds_and_corpus_with_and_without_changes() {
    for target in ALL {
        let failed = inputs_that_fail(target);
        assert!(failed.is_empty(), "{} fails on:\n{}", target.name, failed.join("\n"));
    }
}

#[test]
fn fuzz_target_that_panics_on_a_changed_seed_is_reported() {
    let target = Target { name: "test", run: |input| assert_eq!(input, b"seed"), seeds: || vec![b"seed".to_vec()] };
    assert_eq!(inputs_that_fail(&target).len(), 2 * 4);
}
