//! What is run with every change: the corpus, and a few mutants of it.

use phaselink_fuzz::hunt::{self, hunt};
use phaselink_fuzz::{ALL, Target, corpus};

#[test]
fn every_target_survives_its_seeds_its_corpus_and_mutants_of_them() {
    for target in ALL {
        let bag = hunt(target, target.quick, 1, |_| ());
        let crashes: Vec<String> = bag.crashes.iter().map(|input| input.escape_ascii().to_string()).collect();
        assert!(crashes.is_empty(), "{} does not survive:\n{}", target.name, crashes.join("\n"));
    }
}

#[test]
fn no_kept_input_is_longer_than_what_is_tried() {
    for target in ALL {
        let kept = std::fs::read_dir(corpus::folder(target)).into_iter().flatten().count();
        assert_eq!(corpus::inputs(target).len(), (target.seeds)().len() + kept, "{}", target.name);
    }
}

/// A hunt that finds nothing may be one that looks for nothing.
#[test]
fn a_target_that_panics_on_one_byte_is_found_out() {
    fn run(input: &[u8]) {
        assert!(input.first() != Some(&b'!'), "found");
    }
    let target = Target { name: "test", run, seeds: || vec![b"x".to_vec()], quick: 0 };
    let bag = hunt(&target, 20_000, 1, |_| ());
    assert!(!bag.crashes.is_empty() && bag.crashes.iter().all(|input| !hunt::survives(&target, input)));
}
