//! Tests of whole reproductions, from the two texts to the verdicts.

use super::*;
use phaselink_core::drive_file::{KeyOverride, shipped};

const HEAD: &str = "id,kind,quantity,unit,printed,words,source,note\n";
const EXPERIMENT: &str = "[[experiment]]\nname = \"a\"\ndrive = \"d\"\n\
     [[experiment]]\nname = \"s\"\ndrive = \"d\"\nsweep = { key = \"job.bs\", values = [512, 4096] }\n";

fn load(rows: &str, expected: &str) -> Result<Reproduction, Vec<String>> {
    let loaded = Reproduction::load("p", &format!("{EXPERIMENT}{rows}"), &format!("{HEAD}{expected}"));
    loaded.map_err(|problems| problems.0.iter().map(Problem::to_string).collect())
}

fn row(id: &str, value: &str) -> String {
    format!("[[row]]\nid = \"{id}\"\nvalue = \"{value}\"\n")
}

/// Returns the verdicts if every run of the plan gives two reads of 1000 and 3000 ns.
fn judged(rows: &str, expected: &str) -> Vec<Row> {
    let reproduction = load(rows, expected).unwrap();
    let outcome = test_outcomes::outcome();
    let runs = reproduction.runs().len();
    reproduction.judge(&vec![&outcome; runs], &vec![test_outcomes::facts(); runs])
}

#[test]
fn value_that_rounds_to_the_printed_digits_is_reproduced() {
    let rows = row("A", "a.mean_ns") + &row("B", "a.mean_ns");
    let judged = judged(&rows, "A,number,q,ns,2.04e3,,s,\nB,number,q,ns,2.05e3,,s,\n");
    assert_eq!((judged[0].verdict, judged[1].verdict), (Verdict::Reproduced, Verdict::Off));
    assert_eq!(judged[1].reason, "off by -2.4 %, and -2.0 to +2.0 % is allowed");
    assert_eq!(judged[0].reason, "");
    assert_eq!((judged[0].published, judged[0].tolerance_pct), (2040.0, 2.0));
}

#[test]
fn one_sided_words_bound_the_figure_on_one_side() {
    let ids = ["A", "B", "C", "D"];
    let rows: String = ids.map(|id| row(id, "a.iops")).concat();
    let expected = "A,number,q,1/s,490e3,exceed,s,\nB,number,q,1/s,510e3,exceed,s,\n\
         C,number,q,1/s,490e3,just under,s,\nD,number,q,1/s,510e3,just under,s,\n";
    let verdicts: Vec<_> = judged(&rows, expected).into_iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Reproduced, Verdict::Off, Verdict::Off, Verdict::Reproduced]);
}

#[test]
fn shape_claim_has_the_value_one_or_zero() {
    let rows = row("A", "spread(s.mean_ns) < 0.01") + &row("B", "increasing(s.mean_ns)");
    let judged = judged(&rows, "A,shape,q,,,,s,\nB,shape,q,,,,s,\n");
    assert_eq!((judged[0].simulated, judged[0].verdict), (Some(1.0), Verdict::Reproduced));
    assert_eq!((judged[1].simulated, judged[1].error_pct), (Some(0.0), Some(-100.0)));
    assert_eq!(judged[1].reason, "does not hold");
}

#[test]
fn input_row_must_equal_the_drive_description() {
    let rows = row("A", "a.key.media.read_ns") + &row("B", "a.key.media.read_ns");
    let judged = judged(&rows, "A,input,q,ns,110,,s,\nB,input,q,ns,115,,s,\n");
    assert_eq!((judged[0].verdict, judged[1].verdict), (Verdict::Given, Verdict::Off));
}

#[test]
fn row_that_reads_no_run_must_have_the_kind_input() {
    let rows = row("A", "a.key.media.read_ns * 2") + &row("B", "3 ^ 6 > 1") + &row("C", "2 ^ 30");
    let found = load(&rows, "A,number,q,ns,220,,s,\nB,shape,q,,,,s,\nC,input,q,,1073741824,,s,\n").unwrap_err();
    let place = "reproductions/p/expected.csv";
    assert_eq!(
        found,
        [
            format!("{place}:2: `A` reads no result of a run; allowed: the kind input"),
            format!("{place}:3: `B` reads no result of a run; allowed: the kind input"),
        ]
    );
}

#[test]
fn closed_form_row_needs_no_run_and_is_marked_as_returned() {
    let forms = "[[form]]\nname = \"f\"\ndescription = \"slc-cpu\"\nset = [\"cells.channels=40\"]\n\
         sweep = { key = \"block_bytes\", values = [512, 4096] }\n";
    let expected = "A,number,q,1/s,114.9e6,,s,\n";
    let rows = |value: &str, rest: &str| format!("{forms}{}{rest}", row("A", value));
    let judged = judged(&rows("at(f.iops, 512)", "provenance = \"returned\"\n"), expected);
    assert_eq!((judged[0].verdict, judged[0].provenance), (Verdict::Reproduced, Provenance::Returned));
    let found = load(&rows("at(f.iops, 512)", ""), expected).unwrap_err();
    assert_eq!(
        found,
        ["reproductions/p/plan.toml:13: `A` is what a closed form returns; allowed: provenance = \"returned\""]
    );
    let found = load(&rows("at(f.iop, 512)", "provenance = \"returned\"\n"), expected).unwrap_err();
    assert!(found[0].contains("unknown quantity of a form `iop`, did you mean iops?"), "{found:?}");
}

#[test]
fn unknown_or_failing_closed_form_is_refused_at_its_place() {
    let form = |description: &str, set: &str| {
        let text = format!("[[form]]\nname = \"f\"\ndescription = \"{description}\"\nset = [\"{set}\"]\n");
        load(&text, "").unwrap_err().remove(0)
    };
    assert!(form("slc", "utilisation=1").starts_with("reproductions/p/plan.toml:8: there is no description `slc`"));
    assert!(form("slc-cpu", "utilisation=2").contains("utilisation = 2; allowed: a share above 0 and at most 1"));
    assert!(form("slc-cpu", "cells.channel=2").contains("channel"));
    assert!(form("slc-cpu", "block_bytes=0").contains("block_bytes is 0"));
}

#[test]
fn row_without_explanation_is_unexplained_for_any_value() {
    let rows = "[[row]]\nid = \"A\"\nunexplained = \"figure lost\"\n\
         [[row]]\nid = \"B\"\nvalue = \"a.mean_ns\"\nunexplained = \"no base given\"\n";
    let judged = judged(rows, "A,shape,q,,,,s,\nB,number,q,ns,2.0e3,,s,\n");
    assert_eq!((judged[0].verdict, judged[0].simulated), (Verdict::Unexplained, None));
    assert_eq!((judged[1].verdict, judged[1].simulated), (Verdict::Unexplained, Some(2000.0)));
    assert_eq!(judged[1].reason, "no base given");
}

#[test]
fn only_unreproduced_rows_show_their_cause() {
    let row = |id: &str| format!("{}because = \"no reordering\"\n", row(id, "a.mean_ns"));
    let judged = judged(&(row("A") + &row("B")), "A,number,q,ns,3.0e3,,s,\nB,number,q,ns,2.0e3,,s,\n");
    assert_eq!(judged[0].reason, "off by -33.3 %, and -2.0 to +2.0 % is allowed: no reordering");
    assert_eq!((judged[1].verdict, judged[1].reason.as_str()), (Verdict::Reproduced, ""));
}

#[test]
fn non_finite_value_is_unreproduced_and_null_in_json() {
    let judged = judged(&row("A", "1 / a.stage.copy"), "A,number,q,,5,,s,\n");
    assert_eq!((judged[0].simulated, judged[0].verdict), (None, Verdict::Off));
    assert_eq!(serde_json::to_value(&judged[0]).unwrap()["simulated"], serde_json::Value::Null);
}

#[test]
fn row_depends_on_the_constants_measured_to_move_it() {
    let reproduction = load(&(row("A", "a.mean_ns") + &row("B", "a.iops")), "A,number,q,,1,,s,\nB,number,q,,1,,s,\n");
    let measured = "id,fitted,assumed\n*,link.one_way_ns,media.read_ns\nA,link.one_way_ns,media.read_ns\n";
    let reproduction = reproduction.unwrap().with_dependence(measured).unwrap();
    let outcome = test_outcomes::outcome();
    let runs = reproduction.runs().len();
    let rows = reproduction.judge(&vec![&outcome; runs], &vec![test_outcomes::facts(); runs]);
    assert_eq!((rows[0].fitted, rows[0].fitted_keys.join(" ")), (1, String::from("link.one_way_ns")));
    assert_eq!(rows[0].depends_on, ["link.one_way_ns", "media.read_ns"]);
    assert!(rows[1].depends_on.is_empty() && rows[1].fitted == 0);
}

#[test]
fn row_depends_on_all_uncertain_constants_until_measured() {
    let stale = "id,fitted,assumed\n*,link.one_way_ns,\nA,,\n";
    let reproduction = load(&row("A", "a.mean_ns"), "A,number,q,,1,,s,\n").unwrap().with_dependence(stale).unwrap();
    let facts = vec![test_outcomes::facts(); reproduction.runs().len()];
    assert!(!reproduction.is_measured(&facts));
    let rows = reproduction.judge(&vec![&test_outcomes::outcome(); facts.len()], &facts);
    assert_eq!(rows[0].fitted_keys, ["link.one_way_ns"]);
    assert_eq!(rows[0].depends_on, ["link.one_way_ns", "media.read_ns"]);
}

#[test]
fn row_has_moved_beyond_half_of_its_smallest_tolerance() {
    let rows = row("A", "a.mean_ns") + &row("B", "a.mean_ns > 1") + &row("C", "a.key.media.read_ns");
    let reproduction = load(&rows, "A,number,q,ns,2.0e3,,s,\nB,shape,q,,,,s,\nC,input,q,ns,110,,s,\n").unwrap();
    let before = [Some(2000.0), Some(1.0), Some(110.0)];
    assert!(reproduction.ids_of_moved_rows(&before, &[Some(2019.0), Some(1.0), Some(90.0)]).is_empty());
    assert_eq!(reproduction.ids_of_moved_rows(&before, &[Some(2021.0), Some(0.0), Some(90.0)]), ["A", "B"]);
    assert_eq!(reproduction.ids_of_moved_rows(&before, &[None, Some(1.0), Some(110.0)]), ["A"]);
}

#[test]
fn run_is_needed_if_a_selected_row_reads_it_or_its_power() {
    let rows = row("A", "a.mean_ns") + &row("B", "s.mean_ns > 1") + &row("C", "first(s.joules_per_io)");
    let expected = "A,number,q,ns,2.0e3,,s,\nB,shape,q,,,,s,\nC,number,q,J,1,,s,\n";
    let reproduction = load(&rows, expected).unwrap();
    let runs_to_repeat = |ids: &[&str], key| reproduction.runs_to_repeat(|id, _| ids.contains(&id), key);
    assert_eq!(runs_to_repeat(&["A"], None), [true, false, false]);
    assert_eq!(runs_to_repeat(&["A", "B"], Some("media.read_ns")), [true, true, true]);
    assert_eq!(runs_to_repeat(&["A", "B"], Some("power.core_w")), [false, false, false]);
    assert_eq!(runs_to_repeat(&["A", "C"], Some("power.core_w")), [false, true, true]);
    assert_eq!(reproduction.runs_to_repeat(|_, kind| kind == ClaimKind::Shape, None), [false, true, true]);
}

#[test]
fn reproduced_row_serialises_to_the_documented_object() {
    let judged = judged(&row("A", "a.mean_ns"), "A,number,mean,ns,2e3,just over,Table 5,\n");
    let json = serde_json::to_value(&judged[0]).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = "paper id quantity unit published simulated error_pct tolerance_pct accepted kind verdict provenance fitted \
         fitted_keys depends_on interval published_inside reason source";
    assert_eq!(keys.join(" "), documented);
    assert_eq!((&json["kind"], &json["verdict"], &json["fitted"]), (&"number".into(), &"reproduced".into(), &1.into()));
    assert_eq!((&json["published"], &json["tolerance_pct"]), (&2000.0.into(), &10.0.into()));
}

#[test]
fn earlier_quantity_name_is_accepted_with_a_note() {
    let reproduction = load(&row("A", "a.p999_ns + a.p99_9_ns"), "A,number,q,ns,6e3,,s,\n").unwrap();
    assert_eq!(reproduction.notes(), ["reproductions/p/plan.toml:10: the quantity `p999_ns` is called p99_9_ns now"]);
}

#[test]
fn published_row_missing_in_the_plan_is_an_error() {
    let found = load(&row("B", "a.iops"), "A,number,q,,1,,s,\n").unwrap_err();
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("reproductions/p/expected.csv:2: the plan has no row `A`"), "{found:?}");
    assert!(found[1].starts_with("reproductions/p/plan.toml:8: expected.csv has no row `B`"), "{found:?}");
}

#[test]
fn row_value_of_the_wrong_kind_is_refused_before_any_run() {
    let rows = row("A", "a.iops > 1") + &row("B", "a.iops") + &row("C", "s.iops") + &row("D", "s.iops and true");
    let expected: String = [("A", "number"), ("B", "shape"), ("C", "number"), ("D", "shape")]
        .map(|(id, kind)| format!("{id},{kind},q,,{},,s,\n", if kind == "number" { "1" } else { "" }))
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
fn problems_of_plan_and_published_rows_are_reported_together() {
    let found = load(&row("A", "a.iop"), "A,number,q,,x,,s,\n").unwrap_err();
    assert_eq!(found.len(), 2);
}

#[test]
fn stages_and_parameters_are_checked_before_any_run() {
    let rows = row("A", "a.stage.pollwait + a.key.media.write_ns + a.stage.read_call");
    let reproduction = load(&rows, "A,number,q,,1,,s,\n").unwrap();
    let facts = vec![test_outcomes::facts(); reproduction.runs().len()];
    let found = reproduction.check(&facts).unwrap_err();
    assert_eq!(found.0.len(), 2);
    assert_eq!(found.0[0].found, "unknown stage `pollwait`, did you mean poll_wait?");
    assert!(found.0[0].allowed.starts_with("poll_wait"));
    assert_eq!(found.0[1].found, "the description holds no number under `media.write_ns`");
}

#[test]
fn run_problem_names_the_experiment_that_needs_it() {
    let reproduction = load("", "").unwrap();
    let problem = reproduction.run_problem_at_experiment(1, "unknown drive `d`", "dc-express");
    assert_eq!(problem.to_string(), "reproductions/p/plan.toml:4: unknown drive `d`; allowed: dc-express");
}

const DC_EXPRESS_PLAN: &str = include_str!("../../reproductions/dc-express-fast14/plan.toml");
const DC_EXPRESS_EXPECTED: &str = include_str!("../../reproductions/dc-express-fast14/expected.csv");

fn dc_express() -> Reproduction {
    let loaded = Reproduction::load("dc-express-fast14", DC_EXPRESS_PLAN, DC_EXPRESS_EXPECTED);
    loaded.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the shipped drive of a run, with its overrides applied.
fn drive(run: &RunSpec) -> Drive {
    let shipped = shipped::find(&run.drive).expect("a shipped drive");
    let overrides: Vec<KeyOverride> = run.set.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn dc_express_plan_uses_only_existing_stages_and_parameters() {
    let reproduction = dc_express();
    let facts: Vec<Facts> = reproduction.runs().iter().map(|run| Facts::from(&drive(run))).collect();
    reproduction.check(&facts).unwrap_or_else(|problems| panic!("{problems}"));
}

#[test]
fn dc_express_parameters_equal_those_printed_in_the_paper() {
    let reproduction = dc_express();
    let facts: Vec<Facts> = reproduction.runs().iter().map(|run| Facts::from(&drive(run))).collect();
    let rows = reproduction.judge(&vec![&test_outcomes::outcome(); facts.len()], &facts);
    assert_eq!(rows.len(), reproduction.expected.len());
    for prefix in ["DCX-dev.", "DCX-hosts.", "DCX-110ns", "DCX-ctx", "DCX-tag30."] {
        let mut given = rows.iter().filter(|row| row.id.starts_with(prefix)).peekable();
        assert!(given.peek().is_some(), "{prefix}");
        given.for_each(|row| assert_eq!((row.verdict, row.fitted), (Verdict::Given, 0), "{row:?}"));
    }
}
