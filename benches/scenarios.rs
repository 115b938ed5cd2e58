//! Runs that the benchmarks simulate: the lines of `budgets.csv` and of `scaling.csv`.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;

/// A line of `budgets.csv`.
#[derive(Debug)]
#[allow(dead_code, reason = "each benchmark reads what it needs")]
pub(crate) struct BudgetScenario {
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
pub(crate) fn all() -> Vec<BudgetScenario> {
    include_str!("budgets.csv").lines().skip(1).map(BudgetScenario::parse).collect()
}

impl BudgetScenario {
    fn parse(line: &'static str) -> BudgetScenario {
        let fields: Vec<&str> = line.split(';').collect();
        let [what, drive, set, bytes, iodepth, requests, budget] = fields[..] else { panic!("seven fields: {line}") };
        let number = |text: &str| text.parse().expect("a number");
        BudgetScenario {
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
        let [iodepth, bytes, requests] = [self.iodepth, self.bytes, &requests.to_string()];
        let options = [("iodepth", iodepth), ("bs", bytes), ("number_ios", requests)];
        simulation(self.drive, self.set, &options)
    }
}

/// A line of `scaling.csv`: a run, and one with more drives or threads, beside it.
#[derive(Debug)]
#[allow(dead_code, reason = "each benchmark reads what it needs")]
pub(crate) struct Scaling {
    pub what: &'static str,
    pub drive: &'static str,
    /// Override or option that the larger run has.
    pub more: &'static str,
    iodepth: &'static str,
    numjobs: &'static str,
    /// Requests of each run, over all threads.
    pub requests: u64,
    /// Time of a request of the larger run, in times of one of the smaller, at most.
    pub times_at_most: f64,
}

#[allow(dead_code, reason = "each benchmark reads what it needs")]
impl Scaling {
    /// All lines.
    pub(crate) fn all() -> Vec<Scaling> {
        include_str!("scaling.csv").lines().skip(1).map(Scaling::parse).collect()
    }

    fn parse(line: &'static str) -> Scaling {
        let fields: Vec<&str> = line.split(';').collect();
        let [what, drive, more, iodepth, numjobs, requests, times] = fields[..] else { panic!("seven fields: {line}") };
        let (requests, times_at_most) = (requests.parse().expect("a number"), times.parse().expect("a number"));
        Scaling { what, drive, more, iodepth, numjobs, requests, times_at_most }
    }

    /// The smaller and the larger run, about to begin.
    pub(crate) fn simulations(&self) -> [Simulation; 2] {
        let threads = self.more.strip_prefix("numjobs=");
        let larger = threads.map_or(self.more, |_| "");
        [self.simulation("", self.numjobs), self.simulation(larger, threads.unwrap_or(self.numjobs))]
    }

    fn simulation(&self, set: &str, numjobs: &str) -> Simulation {
        let threads: u64 = numjobs.parse().expect("a number");
        let requests = (self.requests / threads).to_string();
        let options = [("iodepth", self.iodepth), ("numjobs", numjobs), ("bs", "4k"), ("number_ios", &requests)];
        simulation(self.drive, set, &options)
    }
}

/// A run of random reads on a shipped drive with these overrides, about to begin.
fn simulation(drive: &str, set: &str, options: &[(&str, &str)]) -> Simulation {
    let shipped = shipped::find(drive).expect("a shipped drive");
    let set = set.split_whitespace().map(|text| KeyOverride::parse(text).expect("an override"));
    let drive = Drive::from_toml(shipped.file, shipped.text, &set.collect::<Vec<_>>()).expect("a drive");
    let options = [&[("rw", "randread"), ("io_size", "1024p")], options].concat();
    let jobs = fio::job_from_flags(&options).and_then(|file| file.resolve(&drive.limits(), &Default::default()));
    Simulation::new(&drive, &jobs.expect("a job"), 1).expect("a run")
}
