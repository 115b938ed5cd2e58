//! Drives whose values are hidden are measured in a simulation, and the values are found again from fio's JSON of it.

use crate::common;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, KeyOverride, refuse_files};
use phaselink_core::random::Random;
use phaselink_core::simulation::simulate;
use phaselink_studies::fit::{self, Fit, FitEffort, FitRemark, FitTask, FitTrial, MODEL_ERROR_DEFAULT, TrialFigures};
use phaselink_studies::report;

/// Requests of a measurement, and of each simulation of a fit.
const MEASURED_IOS: u64 = 50_000;
const FITTED_IOS: u64 = 5_000;
/// A hidden value is at least this part of the shipped one, and at most its inverse times as much.
const FACTOR_LEAST: f64 = 0.5;

/// What is hidden, and how it is measured.
struct Case {
    drive: &'static str,
    keys: &'static [&'static str],
    jobs: &'static [&'static str],
}

const READS: &[&str] = &["bs=4k", "bs=4k iodepth=32", "bs=512", "bs=512 iodepth=32"];
const BOTH: &[&str] = &[
    "bs=4k",
    "bs=4k iodepth=32",
    "bs=512",
    "bs=512 rw=randwrite",
    "bs=4k rw=randwrite",
    "bs=4k iodepth=32 rw=randwrite",
];

const CASES: [Case; 5] = [
    Case { drive: "nvme", keys: &["media.read_ns", "media.bus_bytes_per_ns"], jobs: READS },
    Case { drive: "nvme-polled", keys: &["media.command_ns", "nvme.parse_ns"], jobs: READS },
    Case { drive: "dc-express", keys: &["media.command_ns", "link.one_way_ns"], jobs: READS },
    Case {
        drive: "optane-p4800x",
        keys: &[
            "controller.read_core_ns",
            "controller.read_pipeline_ns",
            "controller.write_core_ns",
            "controller.write_pipeline_ns",
        ],
        jobs: BOTH,
    },
    Case {
        drive: "optane-p5800x",
        keys: &["controller.read_core_ns", "controller.read_pipeline_ns", "link.one_way_ns"],
        jobs: READS,
    },
];

fn in_turn(trials: &[FitTrial], answer: &(dyn Fn(&FitTrial) -> TrialFigures + Sync)) -> Vec<TrialFigures> {
    trials.iter().map(answer).collect()
}

fn described(name: &str) -> Described {
    Described::shipped(name, &[], refuse_files).unwrap()
}

fn drive_with(name: &str, texts: &[String]) -> Drive {
    let overrides: Vec<KeyOverride> = texts.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    described(name).with(&overrides).unwrap().into_drive()
}

/// fio's JSON of a job.
fn measured(drive: &Drive, job: &str, seed: u64) -> String {
    let job = format!("number_ios={MEASURED_IOS} io_size=1024p {job}");
    report::json(&simulate(drive, &common::jobs(drive, &job), seed).unwrap(), serde_json::Value::Null).to_string()
}

/// What measured the results is the model itself.
const NO_MODEL_ERROR: f64 = 1e-4;

fn question(base: &str, keys: &[&str], results: &[String], effort: FitEffort) -> FitTask {
    let described = described(base);
    let names: Vec<String> = keys.iter().map(|key| String::from(*key)).collect();
    let keys = fit::keys(described.drive(), &names).unwrap();
    let runs = results.iter().flat_map(|text| fit::read("result.json", text, &[]).unwrap()).collect();
    FitTask::new(described, keys, runs, effort).unwrap()
}

fn fitted(base: &str, keys: &[&str], results: &[String], seed: u64) -> Fit {
    fit::fit(&question(base, keys, results, effort(seed, MODEL_ERROR_DEFAULT)), &in_turn).unwrap()
}

fn effort(seed: u64, model_error: f64) -> FitEffort {
    FitEffort { ios_max: FITTED_IOS, model_error, seed }
}

/// A drive with hidden values and its fit: for each key, the hidden value and whether it lies in its interval.
fn hidden(number: u64) -> Vec<(f64, bool)> {
    let case = &CASES[number as usize % CASES.len()];
    let base = described(case.drive);
    let mut random = Random::stream(number, "hidden values");
    let values: Vec<f64> = case
        .keys
        .iter()
        .map(|key| {
            let shipped = base.drive().value_of(key).unwrap().as_f64().unwrap();
            shipped * FACTOR_LEAST.powf(2.0 * random.unit() - 1.0)
        })
        .collect();
    let texts: Vec<String> = case.keys.iter().zip(&values).map(|(key, value)| format!("{key}={value:?}")).collect();
    let drive = drive_with(case.drive, &texts);
    let seeds = (0..).map(|job| 1000 + 100 * number + job);
    let results: Vec<String> = case.jobs.iter().zip(seeds).map(|(job, seed)| measured(&drive, job, seed)).collect();
    let fit = fitted(case.drive, case.keys, &results, number);
    let found = |(fitted, value): (&fit::Fitted, f64)| {
        let is_inside = fitted.low <= value && value <= fitted.high;
        println!(
            "{number:3} {} {}: {value:.5} in {:.5} .. {:.5}, found {:.5}{}{}",
            case.drive,
            fitted.key.name,
            fitted.low,
            fitted.high,
            fitted.value,
            if fitted.is_open_below || fitted.is_open_above { " (open)" } else { "" },
            if is_inside { "" } else { "  OUTSIDE" },
        );
        (value, is_inside)
    };
    fit.keys.iter().zip(values).map(found).collect()
}

#[test]
#[ignore = "minutes: make fit"]
fn fit_recovers_hidden_values_within_their_intervals() {
    let threads: Vec<_> = (0..2)
        .map(|half| std::thread::spawn(move || (0..50).flat_map(|place| hidden(2 * place + half)).collect::<Vec<_>>()))
        .collect();
    let found: Vec<(f64, bool)> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let inside = found.iter().filter(|(_, is_inside)| *is_inside).count();
    println!("{inside} of {} values of 100 drives lie in their 90 % intervals", found.len());
    // The intervals promise 90 %. docs/fit.md states the measured share, and the drives for which it is smaller.
    assert!(inside * 10 >= found.len() * 9, "{inside} of {}", found.len());
}

#[test]
fn fit_recovers_hidden_drive_values_within_their_intervals() {
    let found = hidden(5);
    assert!(found.iter().all(|(_, is_inside)| *is_inside), "{found:?}");
}

#[test]
fn fit_converges_to_one_percent_and_is_deterministic() {
    let drive = drive_with("nvme-polled", &[String::from("media.read_ns=55")]);
    let results = [measured(&drive, "bs=512", 3)];
    let question = || question("nvme-polled", &["media.read_ns"], &results, effort(1, NO_MODEL_ERROR));
    let [first, again] = [0; 2].map(|_| fit::fit(&question(), &in_turn).unwrap().keys.remove(0));
    assert!(first.low <= 55.0 && 55.0 <= first.high && first.is_determined, "{first:?}");
    assert!(first.high - first.low < 0.3 * 55.0, "{first:?}");
    assert_eq!((first.value, first.low, first.high), (again.value, again.low, again.high));
}

#[test]
fn indistinguishable_times_are_reported() {
    let results = [measured(&described("dc-express").into_drive(), "bs=4k", 3)];
    let fit = fitted("dc-express", &["media.read_ns", "media.command_ns"], &results, 1);
    let keys = ["media.read_ns", "media.command_ns"].map(String::from).to_vec();
    assert!(fit.findings.contains(&FitRemark::Together { keys, ratio: Some(1.0) }), "{:?}", fit.findings);
    let sum: f64 = fit.keys.iter().map(|key| key.value).sum();
    assert!((sum / (110.0 + 194.0) - 1.0).abs() < 0.1, "{sum}");
}

#[test]
fn key_without_effect_keeps_its_value() {
    let results = [measured(&described("nvme-polled").into_drive(), "bs=4k", 3)];
    let fit = fitted("nvme-polled", &["media.program_ns"], &results, 1);
    assert!(fit.findings.contains(&FitRemark::Unseen(String::from("media.program_ns"))), "{:?}", fit.findings);
    assert_eq!((fit.keys[0].value.round(), fit.keys[0].is_determined), (120_000.0, false));
}

#[test]
fn fit_reports_a_drive_that_differs_in_another_key() {
    let drive = drive_with("optane-p4800x", &[String::from("controller.write_pipeline_ns=3000")]);
    let results = ["bs=4k", "bs=4k rw=randwrite", "bs=512", "bs=4k iodepth=32"].map(|job| measured(&drive, job, 4));
    let fit = fitted("optane-p4800x", &["controller.read_pipeline_ns"], &results, 1);
    assert!(fit.misfit.is_some_and(|share| share > 0.05), "{:?}", fit.misfit);
    let same = fitted("optane-p4800x", &["controller.write_pipeline_ns"], &results, 1);
    // By chance, one measurement in thirteen differs from the simulations more than each of twelve seeds does.
    assert!(same.misfit.is_none_or(|share| share < 0.01), "{:?}", same.misfit);
}

#[test]
fn fitted_drive_file_reads_back_to_its_values() {
    let results = [measured(&described("nvme-polled").into_drive(), "bs=4k", 3)];
    let question = question("nvme-polled", &["media.read_ns"], &results, effort(1, MODEL_ERROR_DEFAULT));
    let fit = fit::fit(&question, &in_turn).unwrap();
    let text = fit::drive_file(&question, &fit, "nvme-polled", &[String::from("link.preset=gen3-x4")]);
    let drive = Drive::from_toml("mine.toml", &text, &[]).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let read = drive.value_of("media.read_ns").unwrap().as_f64().unwrap();
    assert!((read / fit.keys[0].value - 1.0).abs() < 1e-4, "{text}");
    assert_eq!(drive.value_of("link.generation").unwrap(), 3, "{text}");
    let doubt = drive.fitted.iter().find(|doubt| doubt.key == "media.read_ns").unwrap();
    assert!((doubt.low / fit.keys[0].low - 1.0).abs() < 1e-4 && doubt.high > read, "{text}");
}

#[test]
fn stage_costs_can_be_fitted_like_other_keys() {
    let base = described("nvme-polled");
    let stage = base.drive().stack.stages.iter().find(|stage| !stage.submit.is_zero()).unwrap().clone();
    let key = format!("stack.stages.{}.submit_ns", stage.name);
    let hidden_ns = 2.0 * stage.submit.as_ns() + 500.0;
    let mut stages = base.drive().resolved()["stack"]["stages"].clone();
    let cost = stages.as_array_mut().unwrap().iter_mut().find(|item| item["name"] == stage.name.as_str()).unwrap();
    cost["submit_ns"] = hidden_ns.into();
    let list = toml::Value::try_from(stages).unwrap();
    let drive = drive_with("nvme-polled", &[format!("stack.stages={list}")]);
    let found = fitted("nvme-polled", &[&key], &[measured(&drive, "bs=4k", 3)], 1).keys.remove(0);
    assert!(found.low <= hidden_ns && hidden_ns <= found.high, "{found:?} {hidden_ns}");
}
