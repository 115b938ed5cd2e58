use super::*;

#[test]
fn every_plan_loads_and_its_runs_fit_their_drives() {
    for paper in papers::all() {
        if let Err(problems) = paper.load().and_then(Experiments::prepare) {
            panic!("{problems}");
        }
    }
}

#[test]
fn the_default_number_of_draws_is_that_of_the_library() {
    assert_eq!(DEFAULT_DRAWS.parse(), Ok(phaselink_core::uncertainty::DRAWS_DEFAULT));
}

/// `make depends` renews the files; it takes some minutes.
#[test]
fn the_dependences_are_those_of_all_constants_that_are_in_doubt() {
    for paper in papers::all() {
        let experiments = Experiments::prepare(paper.load().unwrap()).unwrap();
        let constants = doubt::constants(experiments.runs.iter().map(|run| &run.drive));
        let measured = experiments.reproduction.dependence().constants();
        let difference: Vec<_> = constants.symmetric_difference(&measured).collect();
        assert!(difference.is_empty(), "{}: {difference:?}; `make depends` measures anew", paper.name);
    }
}

#[test]
fn every_constant_in_doubt_can_be_moved_to_both_ends_of_its_range() {
    for paper in papers::all() {
        let experiments = Experiments::prepare(paper.load().unwrap()).unwrap();
        if let Err(problems) = doubt::check(&experiments) {
            panic!("{}: {problems}", paper.name);
        }
    }
}
