//! The simulator's budgets, measured on this machine: `make bench-model`.
//!
//! Rates are the best of many short runs, because whatever else the machine does can only make a run slower; the median
//! stands beside it. One thread simulates; nothing is asserted, the table tells. What the processor can do is measured
//! beside the runs, so that a slow hour of the machine is not taken for a slow program: its clock, and how many
//! instructions it takes in, which is less while another machine's thread runs on the same core.

mod scenarios;

use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use phaselink_core::simulation::Simulation;
use phaselink_studies::report::Table;
use scenarios::{BudgetScenario, Scaling};

/// Runs of each measurement: many and short, as undisturbed moments may be.
const RUNS: usize = 150;
/// Runs with more drives or threads, which take longer.
const SCALING_RUNS: usize = 15;
/// Runs of those that start the program.
const PROGRAM_RUNS: usize = 25;

/// A measured number beside its budget.
struct Measured {
    what: String,
    unit: &'static str,
    best: f64,
    median: f64,
    budget: f64,
    /// Whether more is better.
    rate: bool,
}

fn main() {
    println!("{}", processor_model_and_count());
    let mut table =
        Table::new().left("budget").right("best").right("median").right("allowed").left("").right("ratio").left("");
    for measured in
        simulations().into_iter().chain(scaling()).chain([memory(), peak_memory_per_drive(), start_up_time()])
    {
        let holds = (measured.best >= measured.budget) == measured.rate;
        table.row([
            measured.what,
            number(measured.best),
            number(measured.median),
            format!("{} {}", if measured.rate { ">=" } else { "<" }, number(measured.budget)),
            String::from(measured.unit),
            format!("{:.2}", measured.best / measured.budget),
            String::from(if holds { "holds" } else { "MISSED" }),
        ]);
    }
    let clocks = sorted_values((0..RUNS).map(|_| measure_core_clock_ghz()));
    println!("clock: {:.2} GHz at best, {:.2} GHz in the median", clocks[RUNS - 1], clocks[RUNS / 2]);
    let rates = sorted_values((0..RUNS).map(|_| measure_instructions_per_ns()));
    println!(
        "{:.1} arithmetic instructions a nanosecond at best, {:.1} in the median\n",
        rates[RUNS - 1],
        rates[RUNS / 2]
    );
    println!("{table}");
}

/// Clock of the core that this thread runs on, as far as others leave it alone, if multiplications that wait for each
/// other take three cycles each, as they do on x86-64. On other processors it serves to compare one hour with another.
fn measure_core_clock_ghz() -> f64 {
    const MULTIPLICATIONS: u64 = 2_000_000;
    let start = Instant::now();
    black_box((0..MULTIPLICATIONS).fold(black_box(3_u64), |square, _| square.wrapping_mul(square)));
    (3 * MULTIPLICATIONS) as f64 / start.elapsed().as_nanos() as f64
}

/// Arithmetic that the core takes in, as far as others leave it alone: a shift, an exclusive or and an addition for each
/// of eight numbers that do not wait for each other.
fn measure_instructions_per_ns() -> f64 {
    const ROUNDS: u64 = 1_000_000;
    let mut numbers = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    let start = Instant::now();
    for round in 0..ROUNDS {
        numbers = numbers.map(|number| (number ^ (number >> 3)).wrapping_add(black_box(round)));
    }
    black_box(numbers);
    (ROUNDS * 8 * 3) as f64 / start.elapsed().as_nanos() as f64
}

/// Simulated requests per second of wall time.
fn simulations() -> Vec<Measured> {
    let scenarios = scenarios::all();
    // Alternate between the scenarios, so that slow and fast phases of the machine affect all of them alike.
    let mut rates = vec![Vec::new(); scenarios.len()];
    for _ in 0..RUNS {
        for (scenario, rates) in scenarios.iter().zip(&mut rates) {
            rates.push(simulated_requests_per_second(scenario) / 1e3);
        }
    }
    let measured = scenarios.iter().zip(rates).map(|(scenario, rates)| {
        let rates = sorted_values(rates.into_iter());
        let (best, median) = (rates[RUNS - 1], rates[RUNS / 2]);
        let budget = scenario.budget_k_per_s;
        Measured { what: scenario.what.into(), unit: "k requests/s", best, median, budget, rate: true }
    });
    measured.collect()
}

/// Requests per second of one run.
fn simulated_requests_per_second(scenario: &BudgetScenario) -> f64 {
    scenario.requests as f64 / seconds(scenario.simulation(scenario.requests))
}

/// Time that a run takes to its end.
fn seconds(mut simulation: Simulation) -> f64 {
    let start = Instant::now();
    while simulation.step(1 << 20) {}
    start.elapsed().as_secs_f64()
}

/// Time of a request with more drives or threads, in times of one with less.
fn scaling() -> Vec<Measured> {
    let measured = Scaling::all().into_iter().map(|scaling| {
        let times: Vec<[f64; 2]> = (0..SCALING_RUNS).map(|_| scaling.simulations().map(seconds)).collect();
        let [smaller, larger] = [0, 1].map(|run| sorted_values(times.iter().map(|times| times[run])));
        let (best, median) = (larger[0] / smaller[0], larger[SCALING_RUNS / 2] / smaller[SCALING_RUNS / 2]);
        Measured { what: scaling.what.into(), unit: "times", best, median, budget: scaling.times_at_most, rate: false }
    });
    measured.collect()
}

/// Peak resident memory of a run of the program.
fn memory() -> Measured {
    let mib = peak_program_mib(&["run", scenarios::all()[0].drive, "--iodepth", "32", "--number-ios", "1000000"]);
    Measured {
        what: "peak memory of a run, QD32".into(),
        unit: "MiB",
        best: mib,
        median: mib,
        budget: 50.0,
        rate: false,
    }
}

/// Peak resident memory that a run needs for each further drive.
fn peak_memory_per_drive() -> Measured {
    const DRIVES: u32 = 64;
    let mib = |drives: u32| {
        let drives = format!("drives={drives}");
        peak_program_mib(&[
            "run",
            "optane-p5800x",
            "--set",
            &drives,
            "--iodepth",
            "128",
            "--numjobs",
            "8",
            "--number-ios",
            "100000",
        ])
    };
    let each = (mib(DRIVES) - mib(1)) / f64::from(DRIVES - 1);
    Measured {
        what: "memory of a further drive, QD1024".into(),
        unit: "MiB",
        best: each,
        median: each,
        budget: 2.0,
        rate: false,
    }
}

/// Peak resident memory of the program with these arguments.
fn peak_program_mib(arguments: &[&str]) -> f64 {
    let mut child = spawn_measured_program(arguments);
    let mut peak_kib = 0;
    while child.try_wait().expect("a child").is_none() {
        peak_kib = peak_kib.max(peak_resident_kib(&child));
        std::thread::sleep(Duration::from_millis(2));
    }
    peak_kib as f64 / 1024.0
}

/// From the start of the program to the end of a run of one request.
fn start_up_time() -> Measured {
    let times = sorted_values((0..PROGRAM_RUNS).map(|_| {
        let start = Instant::now();
        spawn_measured_program(&["run", scenarios::all()[0].drive, "--number-ios", "1"]).wait().expect("a child");
        start.elapsed().as_secs_f64() * 1e3
    }));
    Measured {
        what: "start-up, a run of one request".into(),
        unit: "ms",
        best: times[0],
        median: times[times.len() / 2],
        budget: 20.0,
        rate: false,
    }
}

fn spawn_measured_program(arguments: &[&str]) -> Child {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_phaselink")));
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program")
}

/// Highest resident size that the kernel has seen (VmHWM), 0 where it does not tell.
fn peak_resident_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// The processor, as far as the system tells, and how many of them there are.
fn processor_model_and_count() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores; best and median of {RUNS} runs", model.unwrap_or("unknown processor"))
}

/// Number for the table, with a digit behind the point where it is small.
fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn sorted_values(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
