//! Drives whose values are hidden are measured in a simulation, and the values are found again from fio's JSON of it.

mod common;

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, Override, no_files};
use phaselink_core::fit::{self, Answer, Fit, Question, Trial};
use phaselink_core::random::Random;
use phaselink_core::report;
use phaselink_core::simulation::simulate;

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

fn in_turn(trials: &[Trial], answer: &(dyn Fn(&Trial) -> Answer + Sync)) -> Vec<Answer> {
    trials.iter().map(answer).collect()
}

fn described(name: &str) -> Described {
    Described::shipped(name, &[], no_files).unwrap()
}

fn drive_with(name: &str, texts: &[String]) -> Drive {
    let overrides: Vec<Override> = texts.iter().map(|text| Override::parse(text).unwrap()).collect();
    described(name).with(&overrides).unwrap().into_drive()
}

/// fio's JSON of a job.
fn measured(drive: &Drive, job: &str, seed: u64) -> String {
    let job = format!("number_ios={MEASURED_IOS} io_size=1024p {job}");
    report::json(&simulate(drive, &common::jobs(drive, &job), seed).unwrap(), serde_json::Value::Null).to_string()
}

fn question(base: &str, keys: &[&str], results: &[String], seed: u64) -> Question {
    let described = described(base);
    let names: Vec<String> = keys.iter().map(|key| String::from(*key)).collect();
    let keys = fit::keys(described.drive(), &names).unwrap();
    let runs = results.iter().flat_map(|text| fit::read("result.json", text, &[]).unwrap()).collect();
    Question::new(described, keys, runs, FITTED_IOS, seed).unwrap()
}

fn fitted(base: &str, keys: &[&str], results: &[String], seed: u64) -> Fit {
    fit::fit(&question(base, keys, results, seed), &in_turn).unwrap()
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
fn hidden_values_are_found_inside_their_intervals() {
    let threads: Vec<_> = (0..2)
        .map(|half| std::thread::spawn(move || (0..50).flat_map(|place| hidden(2 * place + half)).collect::<Vec<_>>()))
        .collect();
    let found: Vec<(f64, bool)> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let inside = found.iter().filter(|(_, is_inside)| *is_inside).count();
    println!("{inside} of {} values of 100 drives lie in their 90 % intervals", found.len());
    assert!(inside * 10 >= found.len() * 9);
}
