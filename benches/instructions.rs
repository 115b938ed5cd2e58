//! How many instructions a simulated request takes, counted by valgrind and compared with `instructions.csv`:
//! `make instructions`, or `UPDATE_EXPECT=1 make instructions` to store what is counted.
//!
//! Seconds depend on what else the machine does, and instructions hardly on anything: the figures hold for x86-64 and the
//! toolchain of `rust-toolchain.toml`, and more than a hundredth above them is a failure. What a run takes before its first
//! request cancels out, as two runs of different length are counted.

mod scenarios;

use std::io::ErrorKind;
use std::process::{Command, ExitCode};

use phaselink_studies::report::Table;
use scenarios::BudgetScenario;

/// Requests of the two runs.
const REQUESTS: [u64; 2] = [4_000, 12_000];
/// Instructions may be so many times those that are stored.
const TOLERANCE: f64 = 1.01;
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/instructions.csv");
const HEADER: &str = "what;instructions a request";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, place, requests] = &arguments[..]
        && mode == "simulate"
    {
        let number = |text: &str| text.parse().expect("a number");
        simulate_under_valgrind(&scenarios::all()[number(place) as usize], number(requests));
        return ExitCode::SUCCESS;
    }
    match count_instructions() {
        Some(counted) if std::env::var_os("UPDATE_EXPECT").is_some() => store(&counted),
        Some(counted) => compare_with_stored_instructions(&counted),
        None => {
            println!("valgrind is not installed: instructions are NOT counted");
            ExitCode::from(u8::from(std::env::var("CI").is_ok_and(|ci| ci == "true")))
        }
    }
}

/// What valgrind watches.
fn simulate_under_valgrind(scenario: &BudgetScenario, requests: u64) {
    let mut simulation = scenario.simulation(requests);
    while simulation.step(1 << 20) {}
}

/// Instructions a request of every scenario; nothing without valgrind.
fn count_instructions() -> Option<Vec<(&'static str, u64)>> {
    let counted = scenarios::all().into_iter().enumerate().map(|(place, scenario)| {
        let [few, many] = REQUESTS;
        let more = count(place, many)? - count(place, few)?;
        Some((scenario.what, more / (many - few)))
    });
    counted.collect()
}

/// Instructions of one run.
fn count(place: usize, requests: u64) -> Option<u64> {
    let program = std::env::current_exe().expect("a path");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    valgrind.arg(program).args(["simulate", &place.to_string(), &requests.to_string()]);
    let output = match valgrind.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.expect("valgrind starts"),
    };
    let report = String::from_utf8_lossy(&output.stderr);
    let count = report.lines().find_map(|line| line.split_once("refs:")).map(|(_, count)| count.replace(',', ""));
    let count = count.and_then(|count| count.trim().parse().ok());
    Some(count.unwrap_or_else(|| panic!("valgrind has counted nothing:\n{report}")))
}

fn store(counted: &[(&str, u64)]) -> ExitCode {
    let lines = counted.iter().map(|(what, count)| format!("{what};{count}\n"));
    std::fs::write(STORED, format!("{HEADER}\n{}", lines.collect::<String>())).expect("a file");
    println!("benches/instructions.csv is renewed; look at the difference");
    ExitCode::SUCCESS
}

fn compare_with_stored_instructions(counted: &[(&str, u64)]) -> ExitCode {
    let file = std::fs::read_to_string(STORED).expect("benches/instructions.csv");
    let stored: Vec<(&str, f64)> = file.lines().skip(1).map(stored).collect();
    let mut table =
        Table::new().left("instructions a request").right("counted").right("stored").right("ratio").left("");
    let mut all_hold = true;
    for &(what, count) in counted {
        let (_, before) = stored.iter().find(|(name, _)| *name == what).expect("a stored figure for each scenario");
        let ratio = count as f64 / before;
        let verdict = match ratio {
            _ if ratio > TOLERANCE => "MORE",
            _ if ratio < 1.0 / TOLERANCE => "less: store it",
            _ => "holds",
        };
        all_hold &= ratio <= TOLERANCE;
        let [count, before, ratio] = [count.to_string(), format!("{before:.0}"), format!("{ratio:.3}")];
        table.row([what.into(), count, before, ratio, verdict.into()]);
    }
    println!("{table}");
    ExitCode::from(u8::from(!all_hold && cfg!(target_arch = "x86_64")))
}

fn stored(line: &str) -> (&str, f64) {
    let (what, count) = line.split_once(';').expect("two fields");
    (what, count.parse().expect("a number"))
}
