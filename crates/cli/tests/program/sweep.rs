//! `phaselink sweep`: the same bytes however often it is stopped, and no run twice.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ran, directory, phaselink, program};
use serde_json::Value;

/// A plan in a directory of its own.
struct Plan {
    path: PathBuf,
    state: PathBuf,
}

fn plan(test: &str, text: &str) -> Plan {
    let path = directory(test).join("p.toml");
    fs::write(&path, text).unwrap();
    Plan { state: path.with_extension("state.jsonl"), path }
}

impl Plan {
    fn command(&self, flags: &str) -> std::process::Command {
        let mut command = program();
        command.arg("sweep").arg("p.toml").args(flags.split_whitespace()).current_dir(self.path.parent().unwrap());
        command
    }

    fn ran(&self, flags: &str) -> Ran {
        self.command(flags).output().unwrap().into()
    }

    fn printed_sweep(&self, flags: &str) -> String {
        let ran = self.ran(flags);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    }

    /// Runs in the state file.
    fn runs(&self) -> usize {
        lines(&self.state).saturating_sub(1)
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

const TWELVE: &str = "drive = \"nvme\"\njob = { number_ios = 200 }\n\
     [[axis]]\nkey = \"link.lanes\"\npowers_of_two = [1, 4]\n\
     [[axis]]\nkey = \"job.iodepth\"\nfrom = 1\nto = 4\nstep = 1\n";

#[test]
fn sweep_that_lost_its_last_runs_repeats_only_those() {
    let plan = plan("sweep-resume", TWELVE);
    let whole = plan.printed_sweep("--csv");
    assert_eq!((whole.lines().count(), plan.runs()), (13, 12));
    let text = fs::read_to_string(&plan.state).unwrap();
    // Keep the header, nine runs and the beginning of a tenth.
    let kept: String = text.split_inclusive('\n').take(10).collect();
    fs::write(&plan.state, format!("{kept}{{\"hash\":\"0123")).unwrap();
    let ran = plan.ran("--csv");
    assert_eq!((ran.code, ran.stdout), (Some(0), whole.clone()));
    assert_eq!(ran.stderr, "9 of 12 points have run before (p.state.jsonl; --fresh forgets them)\n");
    let again = fs::read_to_string(&plan.state).unwrap();
    assert!(again.starts_with(&kept) && plan.runs() == 12, "{again}");
    assert_eq!(plan.printed_sweep("--csv"), whole);
    assert_eq!(fs::read_to_string(&plan.state).unwrap(), again);
    assert_eq!((plan.ran("--csv --fresh").stderr.as_str(), plan.runs()), ("", 12));
}

#[test]
fn sweep_prints_findings_first_and_assumptions_last() {
    let plan = plan("sweep-found", TWELVE);
    let text = plan.printed_sweep("--columns iops");
    assert!(text.starts_with("IOPS: highest at link.lanes = 4, job.iodepth = 4 ("), "{text}");
    let (found, rest) = text.split_once("\n\n").unwrap();
    assert!(found.replace('\n', " ").contains("changes IOPS most"), "{text}");
    let (_, assumed) = rest.rsplit_once("\n\n").unwrap();
    assert!(
        assumed.lines().count() <= 5 && assumed.contains("12 points") && assumed.contains("--explain"),
        "{assumed}"
    );
    assert!(!text.contains("memory  "), "{text}");
    let explained = plan.printed_sweep("--columns iops --explain");
    assert!(explained.contains("\nmemory  ") && explained.contains("\nhost  "), "{explained}");
}

#[test]
fn changed_sweep_plan_runs_only_new_points() {
    let plan = plan("sweep-changed", TWELVE);
    plan.printed_sweep("");
    fs::write(&plan.path, TWELVE.replace("to = 4", "to = 5")).unwrap();
    assert!(plan.ran("").stderr.starts_with("12 of 15 points"));
    assert_eq!(plan.runs(), 15);
}

#[test]
fn thousand_parallel_points_equal_those_of_one_thread() {
    let text = "drive = \"dc-express\"\njob = { number_ios = 4 }\n\
         [[axis]]\nkey = \"media.read_ns\"\nfrom = 10\nto = 100\nstep = 10\n\
         [[axis]]\nkey = \"job.iodepth\"\nfrom = 1\nto = 50\nstep = 1\n\
         [[axis]]\nkey = \"job.rw\"\nvalues = [\"randread\", \"randwrite\"]\n";
    let plan = plan("sweep-thousand", text);
    let run = |threads: &str, state: &str| {
        let ran: Ran = plan.command(state).args(["--csv"]).env("RAYON_NUM_THREADS", threads).output().unwrap().into();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    let parallel = run("4", "--state four.jsonl");
    assert_eq!(parallel.lines().count(), 1001);
    assert!(parallel == run("1", "--state one.jsonl"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_finished_points_and_the_sweep_resumes() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let text = TWELVE.replace("200", "30000").replace("to = 4", "to = 12");
    let plan = plan("sweep-interrupt", &text);
    let child = plan.command("--csv").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while plan.runs() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "the sweep does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let stopped: Ran = child.wait_with_output().unwrap().into();
    assert_eq!((stopped.code, stopped.stdout.as_str()), (Some(130), ""));
    let kept = plan.runs();
    assert!((2..36).contains(&kept), "{kept}");
    let told = format!("stopped: {kept} of 36 points are in p.state.jsonl; the same command goes on from there\n");
    assert_eq!(stopped.stderr, told);
    let resumed = plan.printed_sweep("--csv");
    assert_eq!((plan.runs(), resumed), (36, plan.printed_sweep("--csv --state other.jsonl")));
}

#[test]
fn points_that_cannot_run_stop_the_sweep_or_are_skipped() {
    let plan = plan("sweep-invalid", &TWELVE.replace("powers_of_two = [1, 4]", "values = [1, 3]"));
    let told = "p.toml:5: link.lanes is 3 (at link.lanes = 3, job.iodepth = 1, and at 3 other points); \
                allowed: 1, 2, 4, 8, 12, 16, 32\n";
    let ran = plan.ran("");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (Some(2), "", format!("error: {told}")));
    assert!(!plan.state.exists());
    let ran = plan.ran("--skip-invalid --csv");
    assert_eq!((ran.code, ran.stdout.lines().count(), ran.stderr), (Some(0), 5, format!("skipped: {told}")));
}

#[test]
fn files_named_by_a_plan_are_relative_to_it() {
    let plan = plan("sweep-files", "drive = \"d.toml\"\njob = \"j.fio\"\n");
    let folder = plan.path.parent().unwrap();
    fs::write(folder.join("d.toml"), "preset = \"nvme\"\n").unwrap();
    fs::write(folder.join("j.fio"), "[a]\nnumber_ios=9\n").unwrap();
    let elsewhere = program().args(["sweep"]).arg(&plan.path).output().unwrap();
    assert_eq!(Ran::from(elsewhere).code, Some(0));
    fs::write(&plan.path, "drive = \"nvmee\"\njob = \"no.fio\"\n").unwrap();
    let ran = plan.ran("");
    assert!(ran.stderr.contains("error: p.toml:1: there is no drive `nvmee`, did you mean nvme?"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: no.fio: cannot be read"), "{}", ran.stderr);
}

#[test]
fn new_columns_and_files_need_no_new_runs() {
    let plan = plan("sweep-columns", TWELVE);
    let table = plan.printed_sweep("--csv=r.csv --json=r.json");
    assert!(table.contains("link.lanes  job.iodepth"), "{table}");
    let folder = plan.path.parent().unwrap();
    let csv = fs::read_to_string(folder.join("r.csv")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.join("r.json")).unwrap()).unwrap();
    assert_eq!((csv.lines().count(), json["rows"].as_array().unwrap().len()), (13, 12));
    assert!(csv.lines().nth(1).unwrap().ends_with(json["rows"][0]["hash"].as_str().unwrap()), "{csv}");
    let other = plan.printed_sweep("--columns joules_per_io --csv");
    assert!(other.starts_with("link.lanes,job.iodepth,seed,joules_per_io,hash\n"), "{other}");
    assert_eq!(plan.runs(), 12);
    let ran = plan.ran("--columns jouls_per_io");
    assert!(ran.stderr.contains("there is no column `jouls_per_io`, did you mean joules_per_io?"), "{}", ran.stderr);
    assert_eq!(plan.ran("--csv --json").code, Some(2));
}

#[test]
fn foreign_state_file_is_left_unchanged() {
    let plan = plan("sweep-foreign", TWELVE);
    for (text, flags) in [("notes\n", ""), ("notes", "--fresh"), ("{\"phaselink\":\"something else\"}\n", "--fresh")] {
        fs::write(&plan.state, text).unwrap();
        let ran = plan.ran(flags);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.starts_with("error: p.state.jsonl: is no file of"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(&plan.state).unwrap(), text);
    }
    // A file with only an incomplete first line was left by a stopped sweep, so the sweep may overwrite it.
    fs::write(&plan.state, "{\"phaselink\":\"fin").unwrap();
    plan.printed_sweep("");
    assert_eq!(plan.runs(), 12);
    let damaged = fs::read_to_string(&plan.state).unwrap().replacen("\"hash\"", "\"hush\"", 1);
    fs::write(&plan.state, damaged).unwrap();
    assert!(plan.ran("").stderr.starts_with("error: p.state.jsonl:2: no finished run; allowed: --fresh"));
    plan.printed_sweep("--fresh");
}

const SEARCH: &str = include_str!("../../../../examples/cheapest.sweep.toml");

fn rows(document: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(document).unwrap();
    document["rows"].as_array().unwrap().clone()
}

/// What a row costs by the example's prices, but for what all have in common.
fn price(row: &Value) -> f64 {
    let prices =
        [("link.lanes", 4.0), ("link.generation", 6.0), ("media.channels", 5.0), ("media.banks_per_channel", 1.0)];
    prices.iter().map(|(key, price)| price * row[key].as_f64().unwrap()).sum()
}

#[test]
fn search_finds_the_cheapest_point_with_few_runs() {
    let plan = plan("search", SEARCH);
    let all = rows(&plan.printed_sweep("--json --state all.jsonl"));
    for (target, iops, p99_ns) in [("iops>1M,p99<100us", 1e6, 1e5), ("iops>=0.5M,p99<70us", 5e5, 7e4)] {
        let ran = plan.ran(&format!("--target {target} --json --fresh"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("prices are made-up examples"), "{}", ran.stderr);
        let meets =
            |row: &&Value| row["iops"].as_f64().unwrap() > iops && row["p99_ns"].as_f64().is_some_and(|it| it < p99_ns);
        let least = all.iter().filter(meets).map(price).fold(f64::INFINITY, f64::min);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(price(&found["best"]), least, "{target}");
        let runs = rows(&ran.stdout).len();
        assert!(runs > 0 && runs * 10 <= all.len(), "{runs} of {} points ran for {target}", all.len());
        let sum = ["ruled_out", "slower", "dearer"].map(|key| found[key].as_u64().unwrap()).iter().sum::<u64>();
        assert_eq!(sum as usize + runs, all.len(), "each point is accounted for");
    }
    let none = plan.ran("--target iops>1G");
    assert_eq!(none.code, Some(1), "{}", none.stderr);
    assert!(none.stdout.contains("no point has iops>1G"), "{}", none.stdout);
}

#[test]
fn prices_come_from_plan_file_or_one_key() {
    let plan = plan("prices", &SEARCH.replace("powers_of_two = [1, 16]", "values = [2, 4]"));
    let told = plan.printed_sweep("--target iops>1 --minimise link.lanes --fresh");
    assert!(told.contains("at 2 link.lanes"), "{told}");
    fs::write(plan.path.with_extension("costs.toml"), "unit = \"EUR\"\nbase = 7\n").unwrap();
    assert!(plan.printed_sweep("--target iops>1 --fresh").contains("at 7 EUR"));
    fs::write(plan.path.with_file_name("other.toml"), "[gib]\ndram = 1\n").unwrap();
    let wrong = plan.ran("--target iops>1 --costs other.toml");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("other.toml: no price for a GiB of pcm; allowed: pcm in [gib]"), "{}", wrong.stderr);
    let wrong = plan.ran("--target p98<5us");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("`p98<5us` of the unknown figure `p98`"), "{}", wrong.stderr);
}

#[test]
fn sweep_rows_are_filtered_and_sorted() {
    let plan = plan("rows", TWELVE);
    let all = rows(&plan.printed_sweep("--json"));
    let value = |row: &Value| row["iops"].as_f64().unwrap();
    let falling = rows(&plan.printed_sweep("--json --sort=-iops --best 2"));
    let mut values: Vec<f64> = all.iter().map(value).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(falling.iter().map(value).collect::<Vec<_>>(), values[..2]);
    let within = rows(&plan.printed_sweep(&format!("--json --where iops>={}", values[1])));
    assert_eq!(within.len(), values.iter().filter(|it| **it >= values[1]).count());
    assert!(within.len() < all.len());
    assert!(plan.ran("--sort speed").stderr.contains("--sort by the unknown figure `speed`"));
}

#[test]
fn points_run_until_their_precision_is_reached_and_report_it() {
    let here = directory("sweep-precision");
    let plan = here.join("p.toml").display().to_string();
    fs::write(
        &plan,
        "drive = \"dc-express\"\njob = { bs = \"512\" }\n[[axis]]\nkey = \"link.lanes\"\nvalues = [4, 8]\n",
    )
    .unwrap();
    let rows = |flags: &str| -> Vec<serde_json::Value> {
        let ran = phaselink(&format!("sweep {plan} --columns ios,mean_ns --json {flags}"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        document["rows"].as_array().unwrap().clone()
    };
    let (rough, fine) = (rows("--precision 10%"), rows("--precision 2%"));
    for (rough, fine) in rough.iter().zip(&fine) {
        let known = |row: &serde_json::Value| row["precision_share"].as_f64().unwrap();
        assert!(known(rough) <= 0.1 && known(fine) <= 0.02, "{rough} {fine}");
        assert!(rough["ios"].as_u64() <= fine["ios"].as_u64() && rough["hash"] != fine["hash"], "{rough} {fine}");
    }
    let whole = rows("");
    assert!(whole.iter().zip(&fine).all(|(whole, fine)| whole["hash"] != fine["hash"]));
    assert_eq!(rows("--precision 2%"), fine, "what has run is kept");
}
