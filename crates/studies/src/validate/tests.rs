use super::*;

const PLAN: &str = r#"
source = "A"
title = "a bench"

[words.window]
"8 KiB" = "8k"

[[rule]]
when = { quantity = "cache misses" }
class = "hardware counters"
answerable = false

[[rule]]
when = { quantity = "latency, mean", workload = ["read {size} B; window {window}", "get {size} B"] }
drive = "nfp6000-gen3-x8"
set = ["transfers.op=read; transfers.size={size}", "transfers.transfers=200"]
value = "run.mean_ns"
unit = "ns"
"#;

fn table(rows: &[(&str, &str, &str, &str)]) -> Vec<MeasuredValue> {
    let lines = rows
        .iter()
        .map(|(id, workload, quantity, unit)| format!("{id},,,,,,{workload},\"{quantity}\",600,{unit},result,\n"));
    let text = COLUMNS.join(",") + "\n" + &lines.collect::<String>();
    read("t.csv", &text).unwrap()
}

fn validation_of_rows(rows: &[(&str, &str, &str, &str)]) -> Result<Validation, String> {
    let plan = SourcePlan::read("a.toml", PLAN).unwrap();
    Validation::prepare(&table(rows), &[plan]).map_err(|problems| problems.to_string())
}

#[test]
fn rows_with_equal_settings_share_one_run() {
    let rows = [
        ("A-1", "read 64 B; window 8 KiB", "latency, mean", "ns"),
        ("A-2", "get 64 B", "latency, mean", "us"),
        ("A-3", "get 64 B", "cache misses", "-"),
        ("B-1", "get 64 B", "latency, mean", "ns"),
    ];
    let validation = validation_of_rows(&rows).unwrap();
    assert_eq!(validation.runs.len(), 1);
    let outcomes: Vec<Outcome> = validation.runs.iter().map(|run| run.outcome(|_| unreachable!("no jobs"))).collect();
    let rows = validation.judge(&outcomes);
    assert_eq!(rows.len(), 3, "rows of a source without a plan are not judged");
    assert!((rows[0].predicted.unwrap() - 1e3 * rows[1].predicted.unwrap()).abs() < 1e-6);
    assert!((rows[0].error_pct.unwrap()).abs() < 2.0, "{rows:?}");
    assert_eq!((rows[2].predicted, rows[2].left_out.as_deref()), (None, Some("hardware counters")));
    let (sources, total) = validation.summaries(&rows);
    assert_eq!((sources.len(), sources[0].answered, sources[0].unanswerable, total.rows), (1, 2, 1, 3));
}

#[test]
fn row_without_rule_or_unit_is_reported_with_its_place() {
    let found =
        |workload: &str, unit: &str| validation_of_rows(&[("A-1", workload, "latency, mean", unit)]).unwrap_err();
    assert!(found("write", "ns").starts_with("a.toml: no rule matches the row A-1"));
    assert!(
        found("get 64 B", "k/s").starts_with("a.toml:13: row A-1: a value in ns for a row in k/s"),
        "{}",
        found("get 64 B", "k/s")
    );
    assert!(found("get x B", "ns").contains("size is `x`"));
}

#[test]
fn contradictory_validation_rules_are_refused_with_their_line() {
    let read = |rule: &str| {
        SourcePlan::read("a.toml", &format!("source = \"A\"\ntitle = \"t\"\n[[rule]]\n{rule}")).unwrap_err().to_string()
    };
    assert!(read("when = { colour = \"x\" }\nclass = \"c\"").starts_with("a.toml:3: the column colour"));
    assert!(read("when = { id = \"{\" }\nclass = \"c\"").contains("a brace that is not closed"));
    assert!(read("when = { id = \"*\" }").contains("neither leaves rows out nor answers them"));
    assert!(
        read("when = { id = \"*\" }\ndrive = \"d\"\nvalue = \"run.iop\"\nunit = \"ns\"").contains("did you mean iops?")
    );
    assert!(read("when = { id = \"*\" }\nclass = \"c\"\nset = [\"job.bs=4k\"]").contains("which runs nothing"));
    assert!(read("when = { id = \"*\" }\nclas = \"c\"").starts_with("a.toml:5: unknown field `clas`"));
}
