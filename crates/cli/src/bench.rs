//! `phaselink bench`: runs a workload on a served drive, and measures it at the client.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problem;
use phaselink_serve::{bench, front};
use phaselink_studies::report;
use phaselink_studies::results::units;

use crate::ending::{CommandEnding, Failure};
use crate::interrupt;
use crate::output;
use crate::run::workload::{ONE_JOB, WorkloadFlags};

const EXAMPLES: &str = include_str!("../help/bench.txt");

/// Run fio jobs against a served drive over NBD or through shared memory, and measure throughput and latency at the
/// client.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Address of the served drive: shm:PATH, nbd+unix:///EXPORT?socket=PATH, nbd://127.0.0.1:PORT/EXPORT or
    /// nvme-tcp://127.0.0.1:PORT
    #[arg(value_name = "TARGET")]
    target: String,
    /// Files with fio jobs to run on the served drive, in place of one job from --bs, --rw and other options
    #[arg(value_name = "JOB.fio", conflicts_with_all = ONE_JOB)]
    jobs: Vec<String>,
    /// Seed of the random offsets, sizes and directions of the requests that the benchmark submits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    workload: WorkloadFlags,
    /// Print results as JSON in fio's format in place of tables; with =FILE, print tables and write the JSON to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
}

/// Runs `phaselink bench`. Ends with `Off` if requests have failed.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    if arguments.workload.is_counted_from_start() {
        let allowed = "no --burst, since a benchmark counts requests from the first one on; or `phaselink run --burst`";
        return Err(Problem::new("command line", None, "--burst", allowed).into());
    }
    let target = front::parse_bench_target(&arguments.target)?;
    let unreachable = |error: std::io::Error| Problem::new(target.to_string(), None, error.to_string(), "");
    let limits = target.limits().map_err(unreachable)?;
    let workload = arguments.workload.clone().with_files(arguments.jobs.clone()).resolve(&limits)?;
    bench::check(&*target, &limits, &workload.jobs)?;
    let file = arguments.json.iter().flatten().next().map(|path| output::Target::create("--json", path)).transpose()?;
    let stopped = interrupt::flag();
    let outcome = bench::run(&*target, &workload.jobs, arguments.seed, &stopped).map_err(unreachable)?;
    let document = report::served_benchmark_json(&outcome, target.to_string());
    let document = output::stamped(output::headed("bench", document));
    if let Some(file) = file {
        file.write(&output::json_text(&document))?;
    }
    match &arguments.json {
        Some(None) => output::print_json(&document)?,
        _ => output::print(&format!("{}{}", workload.summary, text(&outcome)))?,
    }
    Ok(match (stopped.load(Ordering::Relaxed), errors(&outcome)) {
        (true, _) => CommandEnding::Interrupted,
        (false, 0) => CommandEnding::Fine,
        (false, _) => CommandEnding::Off,
    })
}

fn errors(outcome: &Outcome) -> u64 {
    outcome.counters.iter().map(|(_, count)| count).sum()
}

fn text(outcome: &Outcome) -> String {
    let (ios, elapsed) = (units::grouped(outcome.ios()), units::span(outcome.elapsed));
    let errors = match errors(outcome) {
        0 => String::new(),
        errors => format!("{} requests have failed.\n", units::grouped(errors)),
    };
    format!("{}: {ios} requests in {elapsed}\n\n{}{errors}", outcome.drive, report::requests(outcome))
}
