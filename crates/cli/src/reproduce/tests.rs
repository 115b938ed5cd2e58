use super::*;

#[test]
fn all_plans_load_and_their_runs_fit_their_drives() {
    for paper in papers::all() {
        if let Err(problems) = paper.load().and_then(Experiments::prepare) {
            panic!("{problems}");
        }
    }
}

#[test]
#[ignore = "`make depends-check`, after `make depends`, which takes some minutes"]
fn dependence_is_measured_for_all_constants() {
    for paper in papers::all() {
        let experiments = Experiments::prepare(paper.load().unwrap()).unwrap();
        assert!(experiments.is_measured(), "{}: `make depends` measures anew", paper.name);
    }
}

#[test]
fn uncertain_constants_can_be_set_to_both_range_ends() {
    for paper in papers::all() {
        let experiments = Experiments::prepare(paper.load().unwrap()).unwrap();
        if let Err(problems) = doubt::check(&experiments) {
            panic!("{}: {problems}", paper.name);
        }
    }
}
