//! Tests of the intervals around figures, from uncertain constants (`--intervals`) and from sampling (`--precision`).

use std::fs;

use crate::common::{directory, phaselink, printed};
use serde_json::Value;

fn document(arguments: &str) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap_or_else(|error| panic!("phaselink {arguments}: {error}"))
}

fn interval_ends(interval: &Value) -> [f64; 2] {
    ["low", "high"].map(|end| interval[end].as_f64().unwrap_or_else(|| panic!("{interval}")))
}

fn assert_close_intervals(found: [f64; 2], wanted: [f64; 2]) {
    let is_close = found.iter().zip(wanted).all(|(found, wanted)| (found / wanted - 1.0).abs() < 1e-9);
    assert!(is_close, "{found:?} is not {wanted:?}");
}

#[test]
fn run_figures_lie_in_their_intervals_and_name_their_causes() {
    let run = document("run nvme --number-ios 300 --intervals=20 --json");
    let intervals = run["phaselink"]["intervals"].as_object().unwrap();
    for name in ["iops", "bytes_per_s", "mean_ns", "p50_ns", "busy_cores", "server_w", "joules_per_io"] {
        let [low, high] = interval_ends(&intervals[name]);
        let value = intervals[name]["value"].as_f64().unwrap();
        assert!(low < value && value < high && high < 3.0 * low, "{name}: {low} {value} {high}");
        assert!(intervals[name]["contributions"].as_array().unwrap().len() <= 3);
        assert_eq!(intervals[name]["draws"], 20);
    }
    assert_eq!(intervals["mean_ns"]["contributions"][0]["key"], "host.interrupt_handler_ns");
    assert_eq!(intervals["server_w"]["contributions"][0]["key"], "power.idle_w");
    assert_eq!(run, document("run nvme --number-ios 300 --intervals=20 --json"), "the draws are seeded");
}

#[test]
fn explicitly_set_constant_is_no_longer_uncertain() {
    let width = |set: &str| {
        let run = document(&format!("run nvme --number-ios 200 --intervals=20 --json {set}"));
        let mean = &run["phaselink"]["intervals"]["mean_ns"];
        let [low, high] = interval_ends(mean);
        (high - low, mean["contributions"].to_string().contains("interrupt_handler"))
    };
    let (in_doubt, is_named) = width("");
    let (chosen, is_still_named) = width("--set host.interrupt_handler_ns=1000");
    assert!(is_named && !is_still_named && chosen < 0.7 * in_doubt, "{in_doubt} {chosen}");
}

#[test]
fn run_predict_compare_and_sweep_give_equal_intervals() {
    let job = "--number-ios 100 --bs 4k --iodepth 1 --numjobs 1";
    let run = document(&format!("run nvme {job} --intervals=20 --json"))["phaselink"]["intervals"].clone();
    // If software times do not vary, the closed form of a lone request is exact, so predicted and simulated intervals
    // must be equal.
    let even = format!("nvme {job} --set host.variation=0 --intervals=20 --json");
    let predicted = document(&format!("predict {even}"))["drives"][0]["intervals"].clone();
    assert_close_intervals(
        interval_ends(&predicted["alone_ns"]),
        interval_ends(&document(&format!("run {even}"))["phaselink"]["intervals"]["mean_ns"]),
    );
    let compared = document(&format!("compare nvme cxl {job} --intervals=20 --json"));
    assert_eq!(compared["cells"][0]["intervals"], run);
    let folder = directory("trust-sweep");
    let plan = folder.join("plan.toml");
    let text = "drive = 'nvme'\ncolumns = ['mean_ns', 'joules_per_io']\n\
        job = { bs = '4k', number_ios = 100 }\n[[axis]]\nkey = 'job.iodepth'\nvalues = [1, 4]\n";
    fs::write(&plan, text).unwrap();
    let sweep = |flags: &str| phaselink(&format!("sweep {} --intervals=20 {flags}", plan.display()));
    let swept: Value = serde_json::from_str(&sweep("--json").stdout).unwrap();
    for name in ["mean_ns", "joules_per_io"] {
        assert_close_intervals(interval_ends(&swept["rows"][0]["intervals"][name]), interval_ends(&run[name]));
    }
    // The state file stores the runs of draws like those of points.
    let again = sweep("--csv");
    assert!(again.stderr.starts_with("42 of 42 runs have run before"), "{}", again.stderr);
    let mut lines = again.stdout.lines();
    assert!(lines.next().unwrap().ends_with("hash,mean_ns_low,mean_ns_high,joules_per_io_low,joules_per_io_high"));
    let low: f64 = lines.next().unwrap().split(',').nth(5).unwrap().parse().unwrap();
    assert_close_intervals([low; 2], [interval_ends(&run["mean_ns"])[0]; 2]);
}

#[test]
fn interval_tables_show_both_ends_and_the_constants() {
    for (arguments, shown) in [
        ("run nvme --number-ios 200 --intervals=20", "most of it from"),
        ("predict nvme --intervals=20", "host.interrupt_handler_ns"),
        (
            "compare nvme cxl --ios 200 --bs 4k --intervals=20",
            "nvme: most of it in the mean from host.interrupt_handler_ns",
        ),
    ] {
        let page = printed(arguments);
        assert!(page.contains("90 % of 20 draws") && page.contains(shown), "{arguments}: {page}");
    }
}

#[test]
fn run_continues_until_its_precision_and_reports_it() {
    let run = document("run nvme --iodepth 8 --rw randrw --precision 3% --json");
    let precision = &run["phaselink"]["precision"];
    assert_eq!((&precision["reached"], &run["phaselink"]["finished"]), (&Value::Bool(true), &Value::Bool(true)));
    for figure in ["mean", "p99"] {
        let part = |key: &str| precision[figure][key].as_f64().unwrap();
        assert!(part("half_width_ns") > 0.0 && part("half_width_ns") <= 0.03 * part("value_ns"), "{precision}");
    }
    let page = printed("compare nvme --bs 4k --iodepth 1 --precision 5%");
    assert!(page.contains("nvme, 4 KiB: Known to 5 %: mean 12.9 us"), "{page}");
}

#[test]
fn run_too_short_for_its_precision_is_reported() {
    let page = printed("run nvme --iodepth 8 --rw randrw --number-ios 5000 --precision 1%");
    assert!(page.contains("How well mean and p99 are known cannot be said: the run has too few requests."), "{page}");
    let run = document("run nvme --iodepth 8 --rw randrw --number-ios 60000 --precision 0.01% --json");
    assert_eq!(run["phaselink"]["precision"]["reached"], false);
    assert_eq!(run["phaselink"]["finished"], true, "the job is done");
    let page = printed("run nvme --iodepth 8 --rw randrw --number-ios 60000 --precision 0.01%");
    assert!(page.contains("known"), "{page}");
}

#[test]
fn precision_is_given_in_per_cent() {
    for wrong in ["1", "0%", "200%", "x%"] {
        let ran = phaselink(&format!("run nvme --precision {wrong}"));
        assert_eq!(ran.code, Some(2), "{wrong}");
        assert!(ran.stderr.contains("as in 1%"), "{wrong}: {}", ran.stderr);
    }
}
