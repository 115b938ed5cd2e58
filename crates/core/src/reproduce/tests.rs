//! Whole reproductions: from the two texts to the verdicts.

use super::*;
use crate::drive_file::{Override, shipped};

const HEAD: &str = "id,quantity,unit,published,tolerance_pct,low,high,kind,source,note\n";
const EXPERIMENT: &str = "[[experiment]]\nname = \"a\"\ndrive = \"d\"\n\
     [[experiment]]\nname = \"s\"\ndrive = \"d\"\nsweep = { key = \"job.bs\", values = [512, 4096] }\n";

fn load(rows: &str, expected: &str) -> Result<Reproduction, Vec<String>> {
    let loaded = Reproduction::load("p", &format!("{EXPERIMENT}{rows}"), &format!("{HEAD}{expected}"));
    loaded.map_err(|problems| problems.0.iter().map(Problem::to_string).collect())
}

fn row(id: &str, value: &str) -> String {
    format!("[[row]]\nid = \"{id}\"\nvalue = \"{value}\"\n")
}

/// The verdicts if every run of the plan gives two reads of 1000 and 3000 ns.
fn judged(rows: &str, expected: &str) -> Vec<Row> {
    let reproduction = load(rows, expected).unwrap();
    let runs = reproduction.runs().len();
    reproduction.judge(&vec![sample::outcome(); runs], &vec![sample::facts(); runs])
}

#[test]
fn a_number_within_its_tolerance_is_reproduced_and_one_beyond_is_off() {
    let rows = row("A", "a.mean_ns") + &row("B", "a.mean_ns");
    let judged = judged(&rows, "A,q,ns,1960,2.1,,,number,s,\nB,q,ns,1960,2.0,,,number,s,\n");
    assert_eq!((judged[0].verdict, judged[1].verdict), (Verdict::Reproduced, Verdict::Off));
    assert_eq!(judged[1].reason, "off by +2.04 %, and 2 % is allowed");
    assert_eq!(judged[0].reason, "");
}

#[test]
fn bounds_are_kept_as_well_as_the_tolerance() {
    let rows = row("A", "a.iops") + &row("B", "a.iops") + &row("C", "a.iops");
    let expected = "A,q,1/s,490000,5,490000,,number,s,\nB,q,1/s,510000,5,510000,,number,s,\n\
         C,q,1/s,490000,5,,490000,number,s,\n";
    let verdicts: Vec<_> = judged(&rows, expected).into_iter().map(|row| (row.verdict, row.reason)).collect();
    assert_eq!(verdicts[0], (Verdict::Reproduced, String::new()));
    assert_eq!(verdicts[1], (Verdict::Off, String::from("below 510000")));
    assert_eq!(verdicts[2], (Verdict::Off, String::from("above 490000")));
}

#[test]
fn a_shape_is_one_or_zero() {
    let rows = row("A", "spread(s.mean_ns) < 0.01") + &row("B", "increasing(s.mean_ns)");
    let judged = judged(&rows, "A,q,,1,0,,,shape,s,\nB,q,,1,0,,,shape,s,\n");
    assert_eq!((judged[0].simulated, judged[0].verdict), (Some(1.0), Verdict::Reproduced));
    assert_eq!((judged[1].simulated, judged[1].error_pct), (Some(0.0), Some(-100.0)));
    assert_eq!(judged[1].reason, "does not hold");
}

#[test]
fn an_unexplained_row_stays_unexplained_whatever_comes_out() {
    let rows = "[[row]]\nid = \"A\"\nunexplained = \"figure lost\"\n\
         [[row]]\nid = \"B\"\nvalue = \"a.mean_ns\"\nunexplained = \"no base given\"\n";
    let judged = judged(rows, "A,q,,1,0,,,shape,s,\nB,q,ns,2000,1,,,number,s,\n");
    assert_eq!((judged[0].verdict, judged[0].simulated), (Verdict::Unexplained, None));
    assert_eq!((judged[1].verdict, judged[1].simulated), (Verdict::Unexplained, Some(2000.0)));
    assert_eq!(judged[1].reason, "no base given");
}

#[test]
fn a_value_that_is_not_finite_is_off_and_prints_as_null() {
    let judged = judged(&row("A", "1 / a.stage.copy"), "A,q,,5,1,,,number,s,\n");
    assert_eq!((judged[0].simulated, judged[0].verdict), (None, Verdict::Off));
    assert_eq!(serde_json::to_value(&judged[0]).unwrap()["simulated"], serde_json::Value::Null);
}

#[test]
fn a_row_depends_on_the_fitted_keys_of_what_it_reads() {
    let rows = row("all", "a.mean_ns")
        + &row("none", "2 ^ 30")
        + &row("own", "a.key.media.read_ns")
        + &row("given", "a.key.dc_express.predict")
        + "[[row]]\nid = \"narrowed\"\nvalue = \"a.mean_ns\"\nfitted = [\"link.one_way_ns\", \"not.fitted\"]\n";
    let expected: String =
        ["all", "none", "own", "given", "narrowed"].map(|id| format!("{id},q,,1,0,,,number,s,\n")).concat();
    let fitted: Vec<String> = judged(&rows, &expected).iter().map(|row| row.fitted_keys.join(" ")).collect();
    assert_eq!(fitted, ["link.one_way_ns media.read_ns", "", "media.read_ns", "", "link.one_way_ns"]);
}

#[test]
fn a_row_serialises_to_the_documented_object() {
    let judged = judged(&row("A", "a.mean_ns"), "A,mean,ns,2000,2,,,number,Table 5,\n");
    let json = serde_json::to_string(&judged[0]).unwrap();
    let expected = concat!(
        r#"{"paper":"p","id":"A","quantity":"mean","unit":"ns","published":2000.0,"simulated":2000.0,"#,
        r#""error_pct":0.0,"tolerance_pct":2.0,"kind":"number","verdict":"reproduced","fitted":2,"#,
        r#""fitted_keys":["link.one_way_ns","media.read_ns"],"reason":"","source":"Table 5"}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn a_published_row_that_the_plan_leaves_out_is_an_error_of_the_plan() {
    let found = load(&row("B", "a.iops"), "A,q,,1,0,,,number,s,\n").unwrap_err();
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("reproductions/p/expected.csv:2: the plan has no row `A`"), "{found:?}");
    assert!(found[1].starts_with("reproductions/p/plan.toml:8: expected.csv has no row `B`"), "{found:?}");
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_before_anything_runs() {
    let rows = row("A", "a.iops > 1") + &row("B", "a.iops") + &row("C", "s.iops") + &row("D", "s.iops and true");
    let expected: String = [("A", "number"), ("B", "shape"), ("C", "number"), ("D", "shape")]
        .map(|(id, kind)| format!("{id},q,,1,0,,,{kind},s,\n"))
        .concat();
    let found = load(&rows, &expected).unwrap_err();
    let place = "reproductions/p/plan.toml";
    assert_eq!(
        found,
        [
            format!("{place}:8: `A` gives a truth; allowed: a number"),
            format!("{place}:11: `B` gives a number; allowed: a comparison"),
            format!("{place}:14: `C` gives a series; allowed: a number"),
            format!("{place}:17: `and` of a series"),
        ]
    );
}

#[test]
fn the_problems_of_both_texts_come_together() {
    let found = load(&row("A", "a.iop"), "A,q,,x,0,,,number,s,\n").unwrap_err();
    assert_eq!(found.len(), 2);
}

#[test]
fn stages_and_parameters_are_checked_before_anything_runs() {
    let rows = row("A", "a.stage.pollwait + a.key.media.write_ns + a.stage.read_call");
    let reproduction = load(&rows, "A,q,,1,0,,,number,s,\n").unwrap();
    let facts = vec![sample::facts(); reproduction.runs().len()];
    let found = reproduction.check(&facts).unwrap_err();
    assert_eq!(found.0.len(), 2);
    assert_eq!(found.0[0].found, "unknown stage `pollwait`, did you mean poll_wait?");
    assert!(found.0[0].allowed.starts_with("poll_wait"));
    assert_eq!(found.0[1].found, "the description holds no number under `media.write_ns`");
}

#[test]
fn a_problem_of_a_run_names_the_experiment_that_asks_for_it() {
    let reproduction = load("", "").unwrap();
    let problem = reproduction.problem_of(1, "unknown drive `d`", "dc-express");
    assert_eq!(problem.to_string(), "reproductions/p/plan.toml:4: unknown drive `d`; allowed: dc-express");
}

const DC_EXPRESS_PLAN: &str = include_str!("../../../../reproductions/dc-express-fast14/plan.toml");
const DC_EXPRESS_EXPECTED: &str = include_str!("../../../../reproductions/dc-express-fast14/expected.csv");

fn dc_express() -> Reproduction {
    let loaded = Reproduction::load("dc-express-fast14", DC_EXPRESS_PLAN, DC_EXPRESS_EXPECTED);
    loaded.unwrap_or_else(|problems| panic!("{problems}"))
}

/// The shipped drive of a run, its overrides applied.
fn drive(run: &RunSpec) -> Drive {
    let shipped = shipped::find(&run.drive).expect("a shipped drive");
    let overrides: Vec<Override> = run.set.iter().map(|text| Override::parse(text).unwrap()).collect();
    Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_shipped_drives_have_every_stage_and_parameter_that_the_plan_of_dc_express_names() {
    let reproduction = dc_express();
    let facts: Vec<Facts> = reproduction.runs().iter().map(|run| Facts::from(&drive(run))).collect();
    reproduction.check(&facts).unwrap_or_else(|problems| panic!("{problems}"));
}

#[test]
fn given_parameters_of_dc_express_are_what_the_paper_prints() {
    let reproduction = dc_express();
    let facts: Vec<Facts> = reproduction.runs().iter().map(|run| Facts::from(&drive(run))).collect();
    let rows = reproduction.judge(&vec![sample::outcome(); facts.len()], &facts);
    assert_eq!(rows.len(), reproduction.expected.len());
    for prefix in ["DCX-dev.", "DCX-hosts.", "DCX-110ns", "DCX-ctx", "DCX-tag30."] {
        let mut given = rows.iter().filter(|row| row.id.starts_with(prefix)).peekable();
        assert!(given.peek().is_some(), "{prefix}");
        given.for_each(|row| assert_eq!((row.verdict, row.fitted), (Verdict::Reproduced, 0), "{row:?}"));
    }
}
