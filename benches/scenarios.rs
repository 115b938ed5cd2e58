//! What the benchmarks simulate: the lines of `budgets.csv`.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Override, shipped};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;

/// A line of `budgets.csv`.
#[derive(Debug)]
#[allow(dead_code, reason = "each benchmark reads what it needs")]
pub(crate) struct Scenario {
    pub what: &'static str,
    pub drive: &'static str,
    /// Overrides, or nothing.
    set: &'static str,
    bytes: &'static str,
    iodepth: &'static str,
    pub requests: u64,
    pub budget_k_per_s: f64,
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    include_str!("budgets.csv").lines().skip(1).map(Scenario::parse).collect()
}

impl Scenario {
    fn parse(line: &'static str) -> Scenario {
        let fields: Vec<&str> = line.split(';').collect();
        let [what, drive, set, bytes, iodepth, requests, budget] = fields[..] else { panic!("seven fields: {line}") };
        let number = |text: &str| text.parse().expect("a number");
        Scenario {
            what,
            drive,
            set,
            bytes,
            iodepth,
            requests: requests.parse().expect("a number"),
            budget_k_per_s: number(budget),
        }
    }

    /// A run of so many requests, about to begin.
    pub(crate) fn simulation(&self, requests: u64) -> Simulation {
        let shipped = shipped::find(self.drive).expect("a shipped drive");
        let set = self.set.split_whitespace().map(|text| Override::parse(text).expect("an override"));
        let drive = Drive::from_toml(shipped.file, shipped.text, &set.collect::<Vec<_>>()).expect("a drive");
        let requests = requests.to_string();
        let options = [
            ("rw", "randread"),
            ("bs", self.bytes),
            ("iodepth", self.iodepth),
            ("number_ios", &requests),
            ("io_size", "1024p"),
        ];
        let jobs = fio::from_flags(&options).and_then(|file| file.resolve(&drive.limits(), &Default::default()));
        Simulation::new(&drive, &jobs.expect("a job"), 1).expect("a run")
    }
}
